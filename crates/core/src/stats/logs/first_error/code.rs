//! Recognizes lines of tracebacks by their form, because a log can begin, end or be shortened
//! within a traceback, and a logger can remove the indentation.

use std::sync::LazyLock;

use regex::RegexSet;

const LINES: &[&str] = &[
    // The header and the frames of CPython (`Lib/traceback.py`).
    r"^Traceback \(most recent call last\)",
    r#"^(?:> )?File "[^"]*", line [0-9]+"#,
    // Statements: `raise Error(...)`, a call, and a call whose arguments are on the next lines.
    r"^raise (?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:\(.*|\s+from \w+)?$",
    r"^(?:return |await |yield |[\w.]+(?:, [\w.]+)* = )*(?:[A-Za-z_]\w*\.)*[a-z_]\w*\($",
    r"^(?:return |await )*(?:[A-Za-z_]\w*\.)*[a-z_]\w*\((?:[A-Za-z_*][^ ]*)?\)$",
    r"^(?:return |await )*(?:self|super\(\))\.[\w.]+(?:\(| = )",
    // Frames and numbered source lines of rich and IPython.
    r"^│\s+\S+:[0-9]+ in \S+",
    r"^│\s+(?:❱\s*)?[0-9]+ ",
    r"^-+> ?[0-9]+ ",
];

static CODE: LazyLock<RegexSet> =
    LazyLock::new(|| RegexSet::new(LINES).expect("the patterns are tested"));

/// Returns whether the line, without its indentation, is a header, a frame or a source line.
pub(super) fn is_code(line: &str) -> bool {
    // Most lines contain none of these. The comparison is faster than the patterns.
    let may_be_code = line.contains(['(', '"', '│', '>']) || line.starts_with("raise ");
    may_be_code && CODE.is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_differs_from_messages() {
        for line in [
            "Traceback (most recent call last):",
            r#"File "/train.py", line 3, in main"#,
            "raise ChildFailedError(",
            "raise ValueError",
            r#"raise RuntimeError("CUDA out of memory")"#,
            "resolved_file = hf_hub_download(",
            "sys.exit(main())",
            "args.func(args)",
            "self.worker.init_device()  # type: ignore",
            "│ ❱ 12 │   raise ValueError(x)   │",
        ] {
            assert!(is_code(line), "{line}");
        }
        for line in [
            "RuntimeError: CUDA error (3)",
            "RuntimeError('x')",
            "free(): invalid pointer",
            "terminate called after throwing an instance of 'std::runtime_error'",
            "raise the limit of open files: too many open files",
            "Segmentation fault (core dumped)",
        ] {
            assert!(!is_code(line), "{line}");
        }
    }
}
