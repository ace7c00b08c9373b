//! Communication: c10d, NCCL, RCCL, gloo, UCX.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{Cause, Logged, Lost, Summary};

pub(super) const PATTERNS: &[ErrorPattern] = &[
    // `torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp`, versions 1.10 to 2.9.
    (r"(?i)Watchdog caught collective operation timeout", Cause),
    (
        r"\bWork(?:NCCL|XCCL|HCCL)\(.*\) (?:ran for|timed out in blocking wait)",
        Cause,
    ),
    (r"\bTimeout at (?:NCCL|collective) work: ", Cause),
    (r"\bTimeout at collective: ", Cause),
    (
        r"(?:to dump the debug info|flight recorder dump signal|due to a collective timeout from)",
        Lost,
    ),
    (
        r"remote process exited or there was a network error|\bncclRemoteError\b",
        Lost,
    ),
    (
        r"Exception \(either an error or timeout\) detected by watchdog",
        Logged,
    ),
    (
        r"[Ww]atchdog thread terminated with exception: .*(?:CUDA|HIP|NCCL) error",
        Cause,
    ),
    (r"[Ww]atchdog thread terminated with exception", Summary),
    (
        r"NCCL watchdog thread is stuck|[Hh]eartbeat monitor timed out",
        Cause,
    ),
    (
        r"Some NCCL operations have failed or timed out|we are taking the entire process down",
        Summary,
    ),
    (r"Detected mismatch between collectives on ranks", Cause),
    // `torch/distributed/distributed_c10d.py`, TCPStore.
    (
        r"\bDistStoreError\b|\bDistNetworkError: The server socket",
        Cause,
    ),
    (r"\bDistNetworkError\b", Lost),
    (
        r"EADDRINUSE|errno: 98 - Address already in use|\[Errno 98\] Address already in use",
        Cause,
    ),
    // gloo (`gloo/transport/tcp/pair.cc`).
    (
        r"gloo/transport/.*(?:Connection closed by peer|Connection reset by peer|Broken pipe)",
        Lost,
    ),
    (r"gloo/transport/.*(?:Timed out|timed out)", Cause),
    // Lost peers in any program.
    (
        r"^(?:[\w.]+\.)?(?:ConnectionResetError|BrokenPipeError|ConnectionAbortedError|EOFError)\b",
        Lost,
    ),
    (
        r"\bConnection reset by peer\b|\bConnection closed by (?:remote )?peer\b|\bBroken pipe\b",
        Lost,
    ),
    // NCCL and RCCL through torch, cupy, JAX (`NCCLUtils.cpp`).
    (r"\bDistBackendError\b", Cause),
    (r"\bunhandled (?:system|cuda|hip) error\b", Logged),
    (
        r"\bnccl(?:System|UnhandledCuda|Internal|InvalidUsage|InvalidArgument)Error\b",
        Logged,
    ),
    (r"\bR?NCCL (?i:error|failure)\b", Logged),
    (r"\bnccl error\b|Test NCCL failure", Logged),
    // UCX (`src/ucs/debug/debug.c`).
    (
        r"Caught signal (?:7|11) \((?:Bus error|Segmentation fault)",
        Cause,
    ),
    (r"\bUCX +ERROR\b", Logged),
];

/// Messages of the warnings with which NCCL and RCCL report an error that ends the program
/// (`src/misc/socket.cc`, `src/misc/ibvwrap.cc`, `src/transport/net_ib.cc`, `src/proxy.cc`,
/// `src/include/checks.h`).
pub(super) const NCCL_WARNINGS: &[ErrorPattern] = &[
    (r"^Call to \w+ failed", Logged),
    (r"^(?:Cuda|HIP|Hip) failure", Logged),
    (
        r"Got completion (?:from|with)|Timeout waiting for connection|returned .* exceeded",
        Logged,
    ),
    (
        r"Connection refused|Connection reset|No route to host|Connection timed out",
        Logged,
    ),
    (r"\bConnect to \S+ failed\b", Logged),
    (
        r"^Error while (?:creating|attaching).*shared memory|No space left on device",
        Logged,
    ),
    (
        r"^(?:Mismatched|Duplicate GPU detected|Bootstrap : no socket interface)",
        Logged,
    ),
    (r"(?:Invalid|invalid) (?:usage|argument|config)", Logged),
    // A proxy thread loses its connection when its peer fails.
    (
        r"\bError encountered progressing operation=|\bFailed to execute operation \w+ from rank ",
        Lost,
    ),
    (r"\bConnection closed by remote peer\b", Lost),
];

/// Words of the watchdogs of c10d about a collective that does not end.
pub(super) const TIMEOUTS: [&str; 4] = [
    "atchdog caught collective operation timeout",
    "milliseconds before timing out",
    "Timeout at ",
    "timed out in blocking wait",
];
