//! Python's interpreter and the frameworks in it: torch, JAX, TensorFlow.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{
    Cause, Killed, Logged, Lost, Marked, Summary,
};

pub(super) const PATTERNS: &[ErrorPattern] = &[
    (r"^(?:[\w.]+\.)?KeyboardInterrupt\b", Lost),
    // `Python/pylifecycle.c`
    (
        r"^Fatal Python error: Segmentation fault|^Fatal Python error: Bus error",
        Cause,
    ),
    (r"^Fatal Python error: ", Cause),
    (r"^INTERNALERROR> ", Logged),
    // `Modules/main.c`, `runpy.py`
    (
        r"^\S*python[0-9.]*: can't (?:open file|find '__main__')",
        Cause,
    ),
    (
        r"^\S*python[0-9.]*: (?:No module named|Error while finding module)",
        Cause,
    ),
    // `argparse.py`: `prog: error: the following arguments are required`.
    (
        r"^[\w./-]+(?: [\w-]+)?: error: (?:the following arguments|unrecognized arguments|argument |ambiguous option|invalid choice|one of the arguments|expected|too few|no such option)",
        Cause,
    ),
    (r"^[\w./-]+\.py: error: ", Cause),
    // `torch/_utils.py`: the exception itself follows below `Original Traceback`.
    (
        r": Caught \w+ in (?:DataLoader worker process|pin memory thread|replica) ",
        Summary,
    ),
    // `torch/utils/data/_utils/signal_handling.py`
    (
        r"DataLoader worker \(pid\(?s?\)? .*(?:killed by signal|exited unexpectedly)",
        Cause,
    ),
    (
        r"^Unexpected bus error encountered in worker|insufficient shared memory \(shm\)",
        Cause,
    ),
    // `concurrent/futures/process.py`
    (
        r"\bBrokenProcessPool\b|process pool was terminated abruptly",
        Killed,
    ),
    // torch (`c10/cuda/CUDACachingAllocator.cpp`, `c10/cuda/CUDAException.cpp`).
    (
        r"\b(?:CUDA|HIP|XPU) out of memory\b|\bOutOfMemoryError: ",
        Logged,
    ),
    (
        r"\b(?:CUDA|HIP) (?:driver )?(?i:error|failure)\b|\bcuda(?:Error|_error)\w*\b",
        Logged,
    ),
    (
        r"\bCUDA_ERROR_(?:OUT_OF_MEMORY|ILLEGAL_ADDRESS|LAUNCH_FAILED|ECC|ASSERT)",
        Logged,
    ),
    (
        r"\b(?:cuDNN|CUDNN|cuBLAS|CUBLAS|cuSOLVER|CUFFT) (?i:error|failure)\b|\bCU(?:BLAS|DNN)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED|EXECUTION_FAILED|INTERNAL_ERROR)",
        Logged,
    ),
    (
        r"Failed to initialize NVML: |driver initialization failed|No CUDA GPUs are available|no CUDA-capable device|forward compatibility was attempted|CUDA driver version is insufficient",
        Logged,
    ),
    (r"Assertion `.*` failed\.?$", Logged),
    // JAX and XLA (`xla/pjrt`, `xla/tsl`).
    (r"\bXlaRuntimeError: |\bJaxRuntimeError: ", Logged),
    (r"\bRESOURCE_EXHAUSTED: ", Logged),
    (
        r"DEADLINE_EXCEEDED: Barrier timed out|coordination service.*(?:error|timed out)|Terminating process because the JAX distributed service detected fatal errors",
        Logged,
    ),
    // TensorFlow (`tensorflow/python/framework/errors_impl.py`).
    (
        r"\berrors_impl\.\w+Error\b|\bResourceExhaustedError\b",
        Logged,
    ),
    (r"\bOOM when allocating tensor with shape", Logged),
    // Losses of trainers.
    (
        r"(?i)\bnan (?:loss )?detected\b|\bloss is (?:nan|inf)\b|\bfound nan in\b",
        Marked,
    ),
    (r"Current loss scale already at minimum", Logged),
];
