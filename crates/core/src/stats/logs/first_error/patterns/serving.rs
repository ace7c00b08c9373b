//! Inference servers: vLLM, SGLang, TensorRT-LLM, Triton, llama.cpp, Ollama, TGI.

use crate::stats::logs::first_error::error::ErrorPattern;
use crate::stats::logs::first_error::error::Strength::{Cause, Logged, Summary};

/// Headers and wrappers. The exception itself is on another line.
pub(super) const HEADERS: &[ErrorPattern] = &[
    // vLLM (`vllm/v1/engine/core.py`, `core_client.py`, `utils.py`,
    // `vllm/v1/executor/multiproc_executor.py`).
    (
        r"\bEngineCore(?:_\S+)? (?:hit an exception|encountered a fatal error|failed to start)",
        Summary,
    ),
    (
        r"Engine core initialization failed|Engine process failed to start",
        Summary,
    ),
    (
        r"\bEngineDeadError\b|\bAsyncEngineDeadError\b|\bMQEngineDeadError\b|EngineCore encountered an issue",
        Summary,
    ),
    (
        r"Engine core proc \S+ died unexpectedly|Worker proc \S+ died unexpectedly",
        Summary,
    ),
    (
        r"\bWorker(?:Proc)? (?:hit an exception|failed to start|initialization failed)",
        Summary,
    ),
    (
        r"WorkerProc initialization failed due to an exception in a background process",
        Summary,
    ),
    (
        r"Worker failed with error .*please check the stack trace above",
        Summary,
    ),
    (
        r"Error executing method \S+\. This might cause deadlock",
        Summary,
    ),
    (
        r"(?:AsyncLLM|LLMEngine|Engine) output_handler failed|Engine background task failed|Failed core proc\(s\)",
        Summary,
    ),
    (
        r"^Exception in worker \S+ while processing method|Worker \S+ pid \S+ died",
        Summary,
    ),
    // SGLang (`sglang/srt/managers/scheduler.py`, `entrypoints/engine.py`).
    (
        r"(?:Scheduler|TpModelWorkerClient|DetokenizerManager|TokenizerManager|DataParallelController|\w+Worker\w*) hit an exception",
        Summary,
    ),
    (
        r"Received sigquit from a child process|SIGQUIT received",
        Summary,
    ),
    (
        r"Initialization failed\. Please see the error messages above",
        Summary,
    ),
    (
        r"scheduler is dead\. Please check if there are relevant logs|subprocess exited with code|scheduler died during initialization",
        Summary,
    ),
    // Triton (`src/main.cc`), TensorRT-LLM (`tensorrt_llm/executor`).
    (
        r"creating server: Internal - failed to load all models",
        Summary,
    ),
    (
        r"Executor worker (?:returned error|died)|Failed to initialize executor on rank",
        Summary,
    ),
    // TGI (`launcher/src/main.rs`).
    (
        r"^(?:ShardCannotStart|WebserverFailed|DownloadError)\b|^Error: (?:ShardCannotStart|ShardFailed|WebserverFailed)",
        Summary,
    ),
    (
        r"Shard (?:complete standard error output|[0-9]+ failed to start)|Shutting down shards",
        Summary,
    ),
    // uvicorn (`uvicorn/lifespan/on.py`).
    (
        r"^Application startup failed\. Exiting|^Exception in ASGI application",
        Summary,
    ),
];

pub(super) const PATTERNS: &[ErrorPattern] = &[
    // TensorRT-LLM and TensorRT.
    (
        r"\[TensorRT-LLM\]\[ERROR\] (?:Assertion failed|CUDA runtime error)",
        Logged,
    ),
    (r"^Assertion failed: ", Logged),
    (r"\b(?:Serialization assertion|Error Code [0-9]+: )", Logged),
    // Triton (`src/core/model_lifecycle.cc`).
    (r"failed to load '[^']+' version [0-9]+: ", Logged),
    (r"^error: creating server: ", Logged),
    // llama.cpp (`src/llama.cpp`, `examples/main/main.cpp`), ggml (`ggml.c`), Ollama.
    (
        r"\berror loading model: |\bfailed to load model\b|unable to load model",
        Logged,
    ),
    (r"^GGML_ASSERT\b|GGML_ASSERT\(.*\) failed", Cause),
    (
        r"ggml_\w+: (?:failed to allocate|error: |not enough (?:space|memory))|\bcudaMalloc failed: out of memory",
        Logged,
    ),
    // The port of a server is in use (uvicorn, Triton, Go).
    (
        r"error while attempting to bind on address|bind: address already in use",
        Logged,
    ),
];
