//! Reads log lines in JSON: structlog, loguru, python-json-logger, zap, bunyan, pino, log4j,
//! Docker's json-file.

use serde_json::{Map, Value};

use super::text::LogSeverity;

/// Names of the fields with the severity, the message and the exception, most specific first.
const SEVERITY: [&str; 7] = [
    "level",
    "severity",
    "levelname",
    "lvl",
    "log.level",
    "loglevel",
    "levelno",
];
const MESSAGE: [&str; 5] = ["message", "msg", "event", "text", "textPayload"];
const EXCEPTION: [&str; 9] = [
    "exc_info",
    "exception",
    "traceback",
    "stack_trace",
    "stacktrace",
    "error.stack_trace",
    "error",
    "err",
    "stack",
];
/// Field of Docker's json-file with the line of the program.
const RAW: &str = "log";

/// A line of the program, or the message and exception of a structured one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JsonLogLine {
    Raw(String),
    Structured {
        severity: Option<LogSeverity>,
        /// The message, then the exception, line by line.
        lines: Vec<String>,
    },
}

/// Parses a line that is one JSON object with a message. Returns `None` for other objects, such as
/// metrics.
pub(super) fn parse(line: &str) -> Option<JsonLogLine> {
    let line = line.trim();
    if !line.starts_with('{') || !line.ends_with('}') {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_str(line).ok()?;
    if let Some(Value::String(raw)) = object.get(RAW)
        && object.contains_key("stream")
    {
        return Some(JsonLogLine::Raw(raw.trim_end().to_owned()));
    }
    // loguru's `serialize=True` nests its record.
    let record = object.get("record").and_then(Value::as_object);
    let severity = severity(&object).or_else(|| severity(record?));
    let message = MESSAGE.iter().find_map(|key| object.get(*key)?.as_str())?;
    let mut lines: Vec<String> = message.lines().map(str::to_owned).collect();
    let exception = EXCEPTION.iter().find_map(|key| {
        let text = exception_text(object.get(*key)?)?;
        (!message.contains(&text)).then_some(text)
    });
    lines.extend(
        exception
            .iter()
            .flat_map(|text| text.lines().map(str::to_owned)),
    );
    lines.retain(|line| !line.trim().is_empty());
    Some(JsonLogLine::Structured { severity, lines })
}

fn severity(object: &Map<String, Value>) -> Option<LogSeverity> {
    SEVERITY.iter().find_map(|key| match object.get(*key)? {
        Value::String(name) => LogSeverity::parse(name),
        // bunyan, pino and Python count in steps of ten: 30 or 20 is info, 50 is an error or more.
        Value::Number(number) => match number.as_u64()? {
            0..=30 => Some(LogSeverity::Quiet),
            50.. => Some(LogSeverity::Error),
            _ => None,
        },
        Value::Object(level) => LogSeverity::parse(level.get("name")?.as_str()?),
        _ => None,
    })
}

fn exception_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text,
        // pino and the Elastic Common Schema nest the error.
        Value::Object(error) => ["stack", "stack_trace", "message"]
            .iter()
            .find_map(|key| error.get(*key)?.as_str())?,
        _ => return None,
    };
    let text = text.trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_exceptions_are_separate_lines() {
        let structured = |severity, lines: &[&str]| {
            Some(JsonLogLine::Structured {
                severity: Some(severity),
                lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            })
        };
        for (line, expected) in [
            (
                r#"{"level":"error","msg":"no start","error":"dial tcp: refused"}"#,
                structured(LogSeverity::Error, &["no start", "dial tcp: refused"]),
            ),
            (
                r#"{"severity":"INFO","message":"step 5"}"#,
                structured(LogSeverity::Quiet, &["step 5"]),
            ),
            (
                r#"{"text":"a\nb\n","record":{"level":{"name":"CRITICAL","no":50}}}"#,
                structured(LogSeverity::Fatal, &["a", "b"]),
            ),
            (
                r#"{"log":"ValueError: x\n","stream":"stderr","time":"2026-01-01T00:00:00Z"}"#,
                Some(JsonLogLine::Raw("ValueError: x".to_owned())),
            ),
            (r#"{"loss": 2.5, "step": 7}"#, None),
            ("{'loss': 2.5}", None),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }
}
