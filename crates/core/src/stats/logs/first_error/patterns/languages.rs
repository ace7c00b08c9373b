//! Other languages: C++, Go, Java, Julia, JavaScript, R, Rust, and general forms.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{Cause, Logged, Marked};

pub(super) const PATTERNS: &[ErrorPattern] = &[
    // Rust (`library/std/src/panicking.rs`).
    (r"^thread '[^']*'(?: \([0-9]+\))? panicked at ", Cause),
    (
        r"^thread '[^']*'.* has overflowed its stack|^memory allocation of [0-9]+ bytes failed",
        Cause,
    ),
    // Go (`src/runtime/panic.go`).
    (r"^panic: |^fatal error: |^runtime: out of memory", Cause),
    (r"^SIG(?:SEGV|BUS|ABRT|FPE|ILL): ", Cause),
    // Java (`java.lang.ThreadGroup`): the root is the last cause.
    (r#"^Exception in thread "[^"]*" "#, Logged),
    (r"^(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b", Logged),
    (
        r"^# A fatal error has been detected by the Java Runtime Environment",
        Cause,
    ),
    (r"^#\s+SIG(?:SEGV|BUS|ILL) \(0x", Cause),
    // Node.js (`lib/internal/errors.js`, V8).
    (r"^Uncaught |^(?:node:internal/|internal/).*\n?$", Marked),
    (r"^(?:FATAL ERROR: )?.*JavaScript heap out of memory", Cause),
    // R (`src/main/errors.c`).
    (r"^Error in [^:]{1,200}(?: : ?|:$)|^Error: ", Logged),
    // Julia (`base/client.jl`).
    (r"^LoadError: |^TaskFailedException\b", Logged),
    // `clap`, LLVM, compilers and other programs.
    (r"^error(?:\[E[0-9]+\])?: ", Logged),
    (
        r"^[\w./-]+(?:\([0-9]+\)|(?::[0-9]+)*): (?:fatal )?error: |^nvcc (?:fatal|error) +: ",
        Logged,
    ),
    (r"^(?:[\w./-]+: )?(?i:fatal): ", Marked),
    (r"^flag provided but not defined: ", Logged),
    (r"^(?:Lua|lua|luajit): .*:[0-9]+: ", Logged),
    (r"^Unhandled exception[.:]|^Uncaught exception", Logged),
    // Fortran (gfortran, Intel), MATLAB, Ruby, apt.
    (
        r"^Fortran runtime error: |^forrtl: (?:severe|error)|^Program received signal SIG",
        Logged,
    ),
    (
        r"^Error using |^\S+\.rb:[0-9]+:in .*\([A-Z]\w+\)$|^E: [A-Z]",
        Logged,
    ),
];
