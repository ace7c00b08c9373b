//! The operating system: signals, the C library, the loader, the shell, the kernel, the disk.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{Cause, Killed, LastLine, Logged, Summary};

pub(super) const PATTERNS: &[ErrorPattern] = &[
    // The kernel (`mm/oom_kill.c`) and NVIDIA's driver (Xid errors).
    (
        r"\b(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process [0-9]+",
        Cause,
    ),
    (r"\boom-kill:constraint=|invoked oom-killer: ", Cause),
    (r"\bNVRM: (?:Xid|GPU .*has fallen off the bus)", Cause),
    // AMD's driver and runtime (`runtime/hsa-runtime/core/runtime/runtime.cpp`).
    (r"Memory access fault by GPU node-[0-9]+", Cause),
    (
        r"\bHSA_STATUS_ERROR|amdgpu: GPU reset|\bhipError[A-Z]",
        Logged,
    ),
    (
        r"\buncorrectable ECC error\b|GPU has fallen off the bus|GPU is lost",
        Logged,
    ),
    // The shell's report of a signal (bash `jobs.c`, dash `jobs.c`).
    (
        r"^(?:\S+: )?(?:[0-9]+: )?(?:Killed|Segmentation fault|Bus error|Illegal instruction|Floating point exception)(?: +\(core dumped\))?$",
        Killed,
    ),
    (
        r"^(?:(?:\S+: )?line [0-9]+: +[0-9]+|\[[0-9]+\][+-]? ) *(?:Killed|Segmentation fault|Bus error|Illegal instruction|Floating point exception)",
        Killed,
    ),
    (
        r"^zsh: (?:killed|segmentation fault|bus error|illegal hardware)|^!+ Segfault encountered",
        Killed,
    ),
    (r"\bsegfault at [0-9a-f]+ ip [0-9a-f]+", Killed),
    (
        r"\b(?:Segmentation fault|Bus error|Illegal instruction|Floating point exception) \(core dumped\)",
        Killed,
    ),
    (r"(?:^|[0-9] +)Aborted(?: +\(core dumped\)|$| )", Summary),
    (r"(?:^|[0-9] +)Terminated(?:$| )", Summary),
    // glibc and libstdc++ (`malloc/malloc.c`, `debug/fortify_fail.c`, `vterminate.cc`, `assert.c`).
    (
        r"^terminate called (?:after throwing an instance of|without an active exception|recursively)",
        Cause,
    ),
    (r"^libc\+\+abi: terminating", Cause),
    (
        r"^(?:free|malloc|realloc|munmap_chunk|calloc)\(\): |^double free or corruption|^corrupted (?:size|double-linked)|^\*\*\* (?:stack smashing|buffer overflow) detected|^pure virtual method called",
        Cause,
    ),
    (
        r": Assertion [`'\x22].*['\x22`] failed\.?$|^Assertion failed: \(.*\), function ",
        Cause,
    ),
    (
        r"^(?:==[0-9]+==)?ERROR: AddressSanitizer: |AddressSanitizer: ",
        Cause,
    ),
    // glog and abseil (`CHECK`).
    (r"\bCheck failed: ", Cause),
    // The loader (`elf/dl-load.c`).
    (
        r"error while loading shared libraries: |symbol lookup error: |version `[A-Z]+_[0-9.]+' not found|cannot open shared object file",
        Logged,
    ),
    // The kernel refuses the program (`execve`).
    (
        r"exec format error|cannot execute binary file|Exec format error",
        Cause,
    ),
    (
        r"executable file not found in \$PATH|^exec: .*: not found$|^exec \S+: no such file",
        Cause,
    ),
    // Disks.
    (r"No space left on device|\bENOSPC\b", Logged),
    (r"Disk quota exceeded|\bEDQUOT\b", Logged),
    (
        r"Stale file handle|Transport endpoint is not connected|Read-only file system|Input/output error",
        Logged,
    ),
    (
        r"^(?:cannot|could not|Cannot|Could not) allocate memory|: Cannot allocate memory",
        Logged,
    ),
    (r"^(?:.{0,80}: )?[Oo]ut of memory\b", Logged),
    // The shell continues after these.
    (r"^curl: \([0-9]+\) ", LastLine),
    (r": (?:command )?not found$", LastLine),
    (
        r"^\S+: (?:line [0-9]+: |[0-9]+: )?.*(?:No such file or directory|Permission denied|Is a directory|Not a directory|unbound variable|bad substitution)$",
        LastLine,
    ),
    (
        r"^\S+: (?:line [0-9]+: |[0-9]+: )?(?:Syntax error|syntax error)",
        LastLine,
    ),
];
