//! Word lists for recognizing secrets by the name of a variable, flag or key.

/// Suffixes (singular) that always indicate a secret, even without a separator before them:
/// `PGPASSWORD`, `hftoken`.
#[rustfmt::skip]
pub(super) const STRONG_ENDS: [&str; 21] = [
    "token", "password", "passwd", "passphrase", "passcode", "secret", "apikey", "accesskey", "secretkey",
    "privatekey", "accountkey", "licensekey", "authkey", "credential", "authorization", "pswd", "psswd",
    "passwrd", "pword", "secretid", "connectionstring",
];
/// Words (singular) that indicate a secret only in the name of a flag or variable.
#[rustfmt::skip]
pub(super) const WEAK: [&str; 20] = [
    "key", "auth", "pat", "license", "licence", "login", "pwd", "pw", "pass", "cred", "bearer", "jwt",
    "cookie", "signature", "sig", "webhook", "otp", "pin", "psk", "sas",
];
/// Words that make `key` a secret in the same name.
#[rustfmt::skip]
pub(super) const KEY_OWNERS: [&str; 39] = [
    "api", "access", "secret", "private", "account", "license", "wandb", "auth", "encryption", "signing",
    "service", "storage", "ngc", "ssh", "client", "master", "shared", "deploy", "pass", "hf", "openai",
    "anthropic", "gemini", "azure", "aws", "github", "gitlab", "consumer", "subscription", "integration",
    "ingestion", "instrumentation", "session", "huggingface", "cohere", "mistral", "sendgrid", "stripe",
    "datadog",
];
/// Words next to `key` that make it a column, a field or a sort order, as in `--sort-key` and
/// `--prompt-key`.
#[rustfmt::skip]
pub(super) const PLAIN_KEYS: [&str; 81] = [
    "answer", "any", "arrow", "attention", "audio", "by", "cache", "candidate", "caption", "choice", "chosen",
    "col", "column", "config", "content", "data", "dataset", "date", "dict", "dimension", "example", "feature", "field",
    "foreign", "group", "hash", "id", "image", "index", "input", "instruction", "join", "json", "kv", "label",
    "lang", "language", "lookup", "map", "merge", "message", "messages", "metric", "module", "monitor",
    "name", "num", "order", "output", "param", "partition", "primary", "prompt", "pub", "public", "query",
    "question", "record", "reduce", "reference", "rejected", "response", "reward", "row", "score", "shortcut",
    "shuffle", "sort", "source", "state", "taint", "target", "tensor", "text", "time", "toleration",
    "topology", "value", "video", "weight", "xattr",
];
/// Words next to `token` that make it a number of tokens or a symbol of a tokenizer.
#[rustfmt::skip]
pub(super) const PLAIN_TOKENS: [&str; 65] = [
    "accepted", "add", "additional", "all", "audio", "batched", "bos", "cached", "chunk", "cls", "completion",
    "consumed", "context", "decode", "draft", "dropped", "emitted", "end", "eos", "extra", "first",
    "generated", "generation", "ignore", "ignored", "image", "input", "kv", "last", "mask", "max", "mean",
    "min", "n", "new", "next", "num", "output", "pad", "padding", "per", "placeholder", "prefill", "processed",
    "prompt", "reasoning", "seen", "sep", "special", "speculative", "start", "stop", "sub", "text", "think",
    "total", "train", "trained", "unique", "unk", "valid", "video", "visual", "vocab", "word",
];
/// Last words of names that describe a secret without containing it, as in `--token-file` and
/// `secretName`.
#[rustfmt::skip]
pub(super) const DESCRIPTIONS: [&str; 81] = [
    "acc", "accuracy", "algorithm", "audience", "budget", "cache", "capacity", "class", "cost", "count", "dim",
    "dir", "directory", "dispatcher", "drop", "embedding", "embeddings", "enabled", "entropy", "env", "error",
    "expiration", "expires", "expiry", "file", "files", "folder", "format", "host", "id", "ids", "idx",
    "index", "interval", "issuer", "keyfile", "keystore", "kind", "latency", "len", "length", "limit", "loss",
    "manager", "method", "mibps", "mode", "mount", "name", "names", "parallel", "path", "policy", "port",
    "prefix", "process", "provider", "rate", "ratio", "ref", "request", "required", "rounds", "scheme", "sec",
    "second", "seconds", "server", "size", "sock", "source", "status", "store", "throughput", "timeout", "ttl",
    "type", "url", "usage", "username", "version",
];
/// Words before `tokens` that make it a number, as in `max_num_batched_tokens`.
#[rustfmt::skip]
pub(super) const COUNTS: [&str; 9] = [
    "avg", "max", "mean", "min", "n", "num", "per", "sum", "total",
];
/// Letters before `key` in words that end in `key` by chance, or that name a key on a keyboard.
#[rustfmt::skip]
pub(super) const KEY_LETTERS: [&str; 22] = [
    "alt", "ctrl", "dar", "don", "flun", "fn", "hic", "hoc", "hot", "jer", "joc", "lac", "mic", "mon",
    "multi", "on", "press", "shift", "short", "stoc", "tur", "whis",
];
/// Words that make `pass` a step or a filter, with or without a separator: `forward_pass`,
/// `bypass`.
#[rustfmt::skip]
pub(super) const PLAIN_PASSES: [&str; 30] = [
    "all", "back", "backward", "band", "by", "com", "encom", "fast", "first", "forward", "full", "half",
    "high", "kee", "last", "low", "multi", "num", "one", "over", "pre", "render", "second", "single", "sub",
    "sur", "test", "tres", "two", "under",
];
/// Words after `key` that make it a tensor or a part of a mapping, as in `num_key_value_heads`.
#[rustfmt::skip]
pub(super) const AFTER_KEYS: [&str; 14] = [
    "cache", "frame", "frames", "head", "heads", "layer", "padding", "point", "points", "proj", "projection",
    "states", "value", "values",
];
/// Words that indicate a secret only at the end of a name: `pin_memory` and `sas_address`, for
/// example, are settings.
#[rustfmt::skip]
pub(super) const FINAL_ONLY: [&str; 4] = [
    "pass", "pin", "psk", "sas",
];
/// Words whose plural has an everyday meaning.
#[rustfmt::skip]
pub(super) const NO_PLURAL: [&str; 8] = [
    "auth", "licence", "license", "login", "pass", "pin", "sig", "signature",
];
/// File extensions, which mark a position in a source file, such as `secret.go:189`.
#[rustfmt::skip]
pub(super) const EXTENSIONS: [&str; 27] = [
    "c", "cc", "cpp", "crt", "csv", "cu", "go", "h", "hpp", "java", "js", "json", "jsonl", "log", "md", "pem",
    "proto", "py", "rb", "rs", "sh", "so", "toml", "ts", "txt", "yaml", "yml",
];
/// Last words of names whose values are usually file paths.
#[rustfmt::skip]
pub(super) const FILE_NAMES: [&str; 8] = [
    "cert", "certificate", "crt", "key", "licence", "license", "pem", "pwd",
];
