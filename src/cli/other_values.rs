//! Maps values that kubectl accepts for an option to gpuctl's values.

/// Each row has an option, values of other tools for it, and what to use instead. A value that ends
/// in `=` matches all values that begin with it.
const VALUES: [(&str, &[&str], &str); 10] = [
    (
        "--output",
        &["jsonpath"],
        "add a template, such as `-o jsonpath='{.items[*].jobId}'`",
    ),
    (
        "--output",
        &["custom-columns"],
        "add columns, such as `-o custom-columns=NAME:.jobId`",
    ),
    (
        "--output",
        &["jsonpath-as-json", "jsonpath-as-json="],
        "use `-o json`, or `-o jsonpath=TEMPLATE`, which prints values as text",
    ),
    (
        "--output",
        &[
            "go-template",
            "go-template=",
            "template",
            "template=",
            "go-template-file",
            "go-template-file=",
            "templatefile",
            "templatefile=",
        ],
        "use `-o jsonpath='{.items[*].jobId}'` or `-o custom-columns=NAME:.jobId`",
    ),
    (
        "--output",
        &[
            "jsonpath-file",
            "jsonpath-file=",
            "custom-columns-file",
            "custom-columns-file=",
        ],
        "pass the content of the file, as in `-o jsonpath=\"$(cat FILE)\"`",
    ),
    (
        "--for",
        &["delete", "condition=deleted"],
        "did you mean `deleted`?",
    ),
    (
        "--for",
        &["done", "end", "finished", "finish", "terminated", "exited"],
        "did you mean `ended`? `complete` waits for success only",
    ),
    (
        "--for",
        &[
            "completed",
            "condition=complete",
            "condition=completed",
            "succeeded",
            "success",
        ],
        "did you mean `complete`?",
    ),
    (
        "--for",
        &["ready", "condition=ready", "condition=available"],
        "did you mean `ready=N`, with the number of pods?",
    ),
    (
        "--for",
        &["failure", "condition=failed"],
        "did you mean `failed`?",
    ),
];

/// Returns the replacement for a value that an option lacks. `option` is written as in clap's
/// errors, such as `--for <CONDITION>`.
pub(super) fn instead_of_value(option: &str, value: &str) -> Option<&'static str> {
    let option = option.split(' ').next().unwrap_or_default();
    let value = value.to_lowercase();
    let matches = |known: &&str| match known.ends_with('=') {
        true => value.starts_with(*known),
        false => value == **known,
    };
    VALUES
        .iter()
        .find(|(of, values, _)| *of == option && values.iter().any(&matches))
        .map(|(.., hint)| *hint)
}
