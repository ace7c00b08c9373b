//! Lines that look like errors and are harmless: start-up messages, and metrics.

pub(super) const PATTERNS: &[&str] = &[
    // XLA registers its libraries twice (tensorflow/tensorflow #62075).
    r"Unable to register cu(?:DNN|FFT|BLAS) (?:factory|plugin)",
    r"computation placer already registered",
    r"TF-TRT Warning|Could not find TensorRT",
    // `absl/log/internal/log_sink_set.cc`
    r"All log messages before absl::InitializeLog",
    // NCCL's plugins are optional (NVIDIA/nccl #162, #259, #1231).
    r"NET/Plugin|NET/OFI|OFI plugin|libnccl-net\.so|libnccl-tuner|No plugin found|aws-ofi-nccl",
    // wandb's own errors do not end a run (`wandb/errors/term.py`).
    r"^wandb: ",
    // `tokenizers/src/utils/parallelism.rs`
    r"^huggingface/tokenizers: |TOKENIZERS_PARALLELISM",
    // Optional programs of entry points.
    r"(?:ldconfig|lspci|nvidia-smi|numactl|ibv_devinfo|ibstat|hostname|groups|tput|clear|git|lsb_release): (?:command )?not found",
    r"groups: cannot find name for group|cannot set terminal process group|no job control in this shell",
    // Notes of the entry points of NVIDIA's images (`/opt/nvidia/entrypoint.d`).
    r"^(?:NOTE|WARNING): |The SHMEM allocation limit is set to",
    // Counts and metrics: `0 errors`, `MeanAbsoluteError: 0.123`.
    r"(?i)\b(?:0|no) (?:errors?|failures?)\b|\berrors?[=:] ?0\b",
    r"(?i)^[\w./ -]*(?:mean|squared|absolute|percentage|relative|rms|root|val|eval|train|test|validation|word|character|median)[\w ]*error\)?\s*[:=]\s*[-+]?[0-9.]+(?:e[-+]?[0-9]+)?%?\s*(?:$|[,|;)])",
    r"(?i)\b(?:error|failure)[ _-]?(?:rate|count|norm|s_total|bars?)\b",
    // Warnings that name an exception.
    r"(?i)^\S*warning: |\bdeprecat|\bUserWarning\b|\bFutureWarning\b",
    // Python's interpreter is ending (`Modules/gcmodule.c`, `Lib/multiprocessing`).
    r"^Exception ignored in|leaked (?:semaphore|shared_memory)|resource_tracker",
    r"^Killing subprocess |closing signal SIG|Sending process [0-9]+ closing",
    // torch's client of the rendezvous tries again (`torch/csrc/distributed/c10d/socket.cpp`).
    r"The client socket (?:has failed|has timed out)|The IPv6 network addresses of .* cannot be retrieved",
    // The end of a program, whatever its reason.
    r"^(?:Aborting|Exiting|Shutting down|Terminating|Cleaning up)\b",
    // pip's conflicts of versions do not fail the installation.
    r"^(?:ERROR: )?pip's dependency resolver does not",
    r"torch\.cuda\.OutOfMemoryError.*(?:retry|cache flush)|pytorch allocator cache flushes",
];
