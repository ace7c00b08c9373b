//! Templates for well-known programs, from the files in `examples/presets`. The tests validate and
//! run these files.

/// Names of presets with their files, in the order of the help.
const PRESETS: [(&str, &str); 5] = [
    (
        "vllm",
        include_str!("../../../../examples/presets/vllm.yaml"),
    ),
    (
        "sglang",
        include_str!("../../../../examples/presets/sglang.yaml"),
    ),
    (
        "llama-factory",
        include_str!("../../../../examples/presets/llama-factory.yaml"),
    ),
    (
        "accelerate",
        include_str!("../../../../examples/presets/accelerate.yaml"),
    ),
    (
        "jupyter",
        include_str!("../../../../examples/presets/jupyter.yaml"),
    ),
];

pub fn names() -> Vec<&'static str> {
    PRESETS.iter().map(|(name, _)| *name).collect()
}

pub fn file(name: &str) -> Option<&'static str> {
    PRESETS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
