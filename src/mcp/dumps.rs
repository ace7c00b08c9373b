//! Masks values of environment variables in logs, as printed by `env`, `set -x`, `declare -p`, and
//! by Python, JSON, Ruby and Node for maps. Names do not reveal every secret, so the form of a line
//! decides. Numbers stay visible, because metrics have the same form.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use gpuctl_local::bundle::REDACTED;

/// Names that count as variables at the start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableNames {
    /// Any name, such as `http_proxy`, if the line is a single assignment.
    Any,
    /// Only names in capitals, for text that includes lines of gpuctl such as `team=nlp`.
    Capitals,
}

/// Text that loggers and gpuctl write before a line: the pod's rank or name suffix, a time, a
/// level, a number, the `+` of `set -x`, the `-` of a list, the `>` of an error, or a sentence
/// before `«`.
const PREFIX: &str = concat!(
    r"(?:[^«\n]*«)?[ \t]*(?:(?:\S{1,63} │|\[[^\[\]\n]{1,63}\]:?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*|\d{1,6}|\++|-|>",
    r"|(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL):?)[ \t]+)*"
);
/// A quoted text. Logs truncate long lines, so the closing quote is optional. The last alternative
/// matches JSON inside JSON.
const QUOTED: &str = r#"(?:"(?:\\.|[^"\\\n])*(?:"|$)|'(?:\\.|[^'\\\n])*(?:'|$)|\\"[^"\n]*(?:"|$))"#;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// A line that starts with an assignment, as prefix, shell keyword, name and value.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    let keyword = r"(?:export|readonly|declare|typeset|local|setenv|set)(?:[ \t]+-\w+)*[ \t]+";
    pattern(&format!(
        r#"(?m)^({PREFIX}[\[{{("']?)({keyword})?([A-Za-z_]\w*)=([^=\s].*)$"#
    ))
});
/// Separators and brackets after a value.
const CLOSING: &str = r"[,;:|)\]}]*";

/// Matches values of metrics or progress: a number, a ratio, a time, a tuple, a tensor, or a word
/// such as `nan`.
fn measured(number: &str, unit: &str) -> String {
    let quantity = format!("{number}{unit}");
    let clock = r"\d{1,6}:\d\d(?::\d\d)?(?:[.,]\d+)?";
    let date = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[-+]\d\d:?\d\d)?)?";
    let duration = r"(?:\d+(?:\.\d+)?(?:d|h|ms|m|s|us|µs|ns)){1,6}";
    let numbers = r"(?:[-+\d.,e\[\]() %x/]|nan|inf|true|false|none)*";
    let tensor = r"(?:(?:np|numpy|torch)\.)?(?:tensor|size|array|float\d*|int\d*)";
    let option = r"(?:device='[a-z]+(?::\d+)?'|dtype=[\w.]+|grad_fn=<\w+>|requires_grad=true)";
    let word = "nan|inf|true|false|none|null|yes|no|on|off";
    format!(
        r"(?:[-+]?(?:{quantity}(?:[/x]{quantity})*|{clock}|{date}|{duration}|{word})|[(\[]{numbers}[)\]]|{tensor}\({numbers}(?:, ?{option})*\))"
    )
}

/// A measured value with any short unit, at the start of a value. Used for names in lower case.
static MEASURED: LazyLock<Regex> = LazyLock::new(|| {
    let unit = "(?:[a-z%]{0,5}|samples|tokens|images)(?:/[a-z]{1,6}){0,2}";
    pattern(&format!(
        r"(?i)^{}{CLOSING}(?:\s|$)",
        measured(r"\d[\d.,_]*(?:e[-+]?\d+)?", unit)
    ))
});
/// Measured values with optional names, at the start of a value. Used for names in capitals, which
/// are probably variables, so only known units match.
static MEASURED_IN_CAPITALS: LazyLock<Regex> = LazyLock::new(|| {
    let number = r"(?:\d{1,12}(?:,\d{1,3})*(?:\.\d*)?|\d{1,3}(?:_\d{3})+|\.\d+)(?:e[-+]?\d+)?";
    let unit = concat!(
        "(?:%|[kmgtpe]?i?b(?:/s)?|[kmgtpe]i?|[mun]?s|min|h|d|x|k?w|[kmg]?hz|s/it",
        "|(?:it|tok|tokens|samples|images)/s|[kmgtpe]?flops?(?:/s)?)?"
    );
    let value = measured(number, unit);
    let named = format!(r"[a-z_][\w.@/-]*=(?:{value}|{})", STATES.join("|"));
    pattern(&format!(
        r"(?i)^{value}(?:{CLOSING}\s+(?:[|│]\s+)?(?:{named}|{value}))*{CLOSING}(?:\s+|$)"
    ))
});
/// Values in lower case that are states instead of secrets.
const STATES: [&str; 14] = [
    "running", "pending", "done", "ok", "ready", "started", "finished", "failed", "true", "false",
    "none", "train", "eval", "test",
];
/// A second assignment on the same line.
static ANOTHER: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\s,;][A-Za-z_][\w.]*="));
/// A value that is a single quoted text.
static ONE_TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^(?:"(?:\\.|[^"\\])*"|'[^']*')$"#));

/// An entry of a map: quoted name, separator and value.
static ENTRY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r#"(?m)((?:\\?["'])([A-Za-z_]\w*)\\?["']\s*(?::|=>)\s*b?)({QUOTED})"#
    ))
});
/// A line that contains a whole environment, in which every entry is a variable.
static ENVIRONMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?m)^.*(?:\benvironb?\(|\\?["'](?:PATH|HOME|PWD|HOSTNAME)\\?["']\s*(?::|=>)).*$"#)
});
/// A line of `console.log(process.env)`.
static PROPERTY: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?m)^({PREFIX}(?:\{{[ \t]*)?([A-Za-z_]\w*):[ \t]+)({QUOTED})(,?[ \t]*\}}?)$"
    ))
});
/// Log levels, which can precede a colon like a name.
const LEVELS: [&str; 9] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "FATAL", "CRITICAL",
];

/// Masks every value that looks like the value of a printed variable.
pub(super) fn masked(text: &str, names: VariableNames) -> String {
    let text = ENVIRONMENT.replace_all(text, |line: &Captures<'_>| {
        ENTRY.replace_all(&line[0], "$1[redacted]").into_owned()
    });
    let text = entries(&text);
    let property = |line: &Captures<'_>| match is_variable(&line[2], &line[3])
        && !LEVELS.contains(&&line[2])
    {
        true => format!("{}{REDACTED}{}", &line[1], &line[4]),
        false => line[0].to_owned(),
    };
    let text = PROPERTY.replace_all(&text, property);
    let assigned = |line: &Captures<'_>| {
        let (name, value) = (&line[3], &line[4]);
        let keyword = line.get(2).map_or("", |keyword| keyword.as_str());
        let visible = match is_conventional(name) {
            _ if !keyword.is_empty() => "",
            true => measured_part(name, value),
            false if names == VariableNames::Any && is_lone_assignment(value) => "",
            false => value,
        };
        match visible.len() == value.len() {
            true => line[0].to_owned(),
            false => format!("{}{keyword}{name}={visible}{REDACTED}", &line[1]),
        }
    };
    ASSIGNED.replace_all(&text, assigned).into_owned()
}

/// Masks map entries that look like variables, including JSON within the value of another entry.
fn entries(text: &str) -> String {
    let entry = |entry: &Captures<'_>| {
        let (quote, inner) = entry[3].split_at(1);
        match is_variable(&entry[2], &entry[3]) {
            true => format!("{}{REDACTED}", &entry[1]),
            false => format!("{}{quote}{}", &entry[1], entries(inner)),
        }
    };
    ENTRY.replace_all(text, entry).into_owned()
}

/// Returns true for conventional names of variables: capitals, or the suffix `_proxy`.
fn is_conventional(name: &str) -> bool {
    !name.chars().any(|c| c.is_ascii_lowercase()) || name.ends_with("_proxy")
}

/// Returns true if a name with a quoted value looks like a variable.
fn is_variable(name: &str, quoted: &str) -> bool {
    let value = quoted.trim_matches(['"', '\'', '\\']);
    is_conventional(name) && measured_part(name, value).len() < value.len()
}

/// Returns the measured values at the start of a variable's value. In `0.41 loss=2.3`, this is the
/// whole value.
fn measured_part<'v>(name: &str, value: &'v str) -> &'v str {
    match name.ends_with("_proxy") {
        true => "",
        false => MEASURED_IN_CAPITALS
            .find(value)
            .map_or("", |matched| matched.as_str()),
    }
}

/// Returns true if `value`, the rest of the line, belongs to a single variable in lower case. False
/// for `loss=0.4 lr=1e-4`, `status=running` and `time=12:00 level=info`.
fn is_lone_assignment(value: &str) -> bool {
    let value = value.trim_end();
    ONE_TEXT.is_match(value)
        || !MEASURED.is_match(value) && !STATES.contains(&value) && !ANOTHER.is_match(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_variables_are_masked_in_every_shape() {
        for line in [
            "MOTD=CANARY of two words",
            "x7k2p │ MOTD=CANARY",
            "   0 │ MOTD=CANARY",
            "train-7d9c-x7k2p │ 2026-11-27T20:36:48.123Z MOTD=CANARY",
            "2026-11-27T20:36:48.123Z MOTD=CANARY",
            "- MOTD=CANARY",
            "[rank0]: MOTD=CANARY",
            "> MOTD=CANARY",
            "    its log ends with «MOTD=CANARY»",
            "2026-11-27 20:36:48,123 INFO MOTD=CANARY",
            "     7\tMOTD=CANARY",
            "++ export MOTD=CANARY",
            "declare -rx MOTD=\"CANARY\"",
            "declare -x motd=\"CANARY=1\"",
            "x7k2p │ export motd=5CANARY",
            "typeset -x motd=CANARY",
            "http_proxy=http://CANARY@proxy:3128",
            "http_proxy=10.0.0.1:3128/CANARY and=more",
            "motd=CANARY",
            "Motd=CANARY of two words",
            "motd=\"CANARY a=b\"",
            "java_opts=-Da=CANARY -Db=CANARY",
            "[PATH=/usr/bin MOTD=CANARY]",
            "{PATH=/usr/bin, MOTD=CANARY}",
            "    \"MOTD=CANARY\",",
            "PATH=/usr/bin\0MOTD=CANARY\0",
            "environ({'MOTD': 'CANARY', 'motd': \"CANARY's\"})",
            "x7k2p │ env: environ({'MOTD': 'it\\'s CANARY', 'CUT': 'CANARY",
            "environb({b'MOTD': b'CANARY'})",
            "{\"PATH\": \"/usr/bin\", \"motd\": \"CANARY \\\" CANARY\"}",
            "{\"MOTD\":\"CANARY\"}",
            "{\"msg\": \"{\\\"MOTD\\\": \\\"CANARY\\\"}\"}",
            "  \"MOTD\": \"CANARY\",",
            "{\"PATH\"=>\"/usr/bin\", \"motd\" => \"CANARY\"}",
            "  MOTD: 'CANARY',",
            "  https_proxy: 'CANARY' }",
            "RANK=0 MOTD=CANARY",
            "RANK=0 motd=CANARY train",
            "MOTD=5 CANARY words",
            "MOTD=5CANARY",
            "MOTD=5/CANARY",
            "MOTD=(5, 'CANARY')",
            "MOTD=tensor(CANARY)",
            "MOTD=running CANARY",
            "motd=running-CANARY",
            "motd=[1, CANARY]",
            "motd=12:00:CANARY",
            "{\"MOTD\": \"5 CANARY\"}",
            "  MOTD: '5 CANARY',",
        ] {
            let output = masked(&format!("before\n{line}\nafter"), VariableNames::Any);
            assert!(
                !output.contains("CANARY") && output.contains(REDACTED),
                "{line}: {output}"
            );
            assert!(
                output.starts_with("before\n") && output.ends_with("\nafter"),
                "{line}: {output}"
            );
        }
    }

    #[test]
    fn measured_values_of_an_environment_are_masked() {
        for (line, expected) in [
            ("export RANK=5", "export RANK=[redacted]"),
            ("declare -x step=\"5\"", "declare -x step=[redacted]"),
            (
                "{'PATH': '/bin', 'RANK': '5', 'step': '5'}",
                "{'PATH': [redacted], 'RANK': [redacted], 'step': [redacted]}",
            ),
            ("environ({'RANK': '5'})", "environ({'RANK': [redacted]})"),
            ("https_proxy=5", "https_proxy=[redacted]"),
            (
                "MFU=0.41 loss=2.3 MOTD=CANARY x",
                "MFU=0.41 loss=2.3 [redacted]",
            ),
        ] {
            assert_eq!(masked(line, VariableNames::Any), expected);
        }
    }

    #[test]
    fn ordinary_lines_stay() {
        for line in [
            "loss=0.4 lr=1e-4",
            "loss=0.4",
            "x7k2p │ loss=0.4 lr=1e-4",
            "epoch=3, loss=nan",
            "epoch=3 done in 5s",
            "time=2026-11-27T20:36:48Z level=info msg=\"a b\"",
            "level=info msg=\"epoch done\"",
            "step 5: loss=0.4 model=llama",
            "train(model=llama)",
            "x == y",
            "ERROR: 'no such file'",
            "{\"level\": \"info\", \"msg\": \"epoch done\"}",
            "{'loss': 0.4, 'model': 'llama'}",
            "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            "RuntimeError: \"x\" is not defined",
            "step=100/1000",
            "epoch=3/10",
            "x7k2p │ step=5/100 done",
            "elapsed=00:05:12",
            "time=12:00:01",
            "time=2026-11-27T20:36:48Z",
            "eta=1h23m",
            "speed=312tok/s/gpu",
            "memory=12GiB/80GiB",
            "batch=(8, 128)",
            "shape=[8,128]",
            "shape=8x128",
            "size=torch.Size([8, 128])",
            "loss=tensor(0.4)",
            "loss=tensor(0.4, device='cuda:0', grad_fn=<NllLossBackward0>)",
            "status=running",
            "mode=eval",
            "MFU=0.41 loss=2.3",
            "0: MFU=0.41 | loss=2.3, status=done",
            "TFLOPS=312",
            "TFLOPS=312.5TFLOPS/s, MEM=12GiB/80GiB",
            "F1=0.93 BLEU=31.2",
            "CUDA_VISIBLE_DEVICES=0,1,2",
            "ETA=00:05:12",
            "{\"F1\": \"0.93\"}",
            "{\"msg\": \"{\\\"F1\\\": \\\"0.93\\\"}\"}",
            "  F1: '0.93',",
        ] {
            assert_eq!(masked(line, VariableNames::Any), line);
        }
        assert_eq!(
            masked("  team=nlp\n", VariableNames::Capitals),
            "  team=nlp\n"
        );
        assert_eq!(
            masked("  MOTD=CANARY\n", VariableNames::Capitals),
            "  MOTD=[redacted]\n"
        );
    }
}
