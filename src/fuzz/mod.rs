//! Fuzz targets: one function for each parser of untrusted bytes, called by fuzzers (`tests/fuzz`)
//! and by the tests here. A target returns for any input, and panics if an invariant is violated.

use jiff::Timestamp;

use gpuctl_cluster::fuzz::{json_page, kubeconfig, log, protobuf_page, watch};
use gpuctl_core::model::values::quantity;
use gpuctl_core::stats::exporters::exposition;
use gpuctl_core::stats::exporters::query::quoted;
use gpuctl_core::stats::logs::progress;
use gpuctl_core::stats::logs::steps;
use gpuctl_core::stats::logs::training::throughput;
use gpuctl_manifest::convert;
use gpuctl_manifest::spec;
use gpuctl_prometheus as prometheus;
use gpuctl_prometheus::Matchers;
use gpuctl_prometheus::fuzz::{answer, chunks};
use gpuctl_view::format::fuzz::shown;

/// A function that accepts any bytes.
pub type FuzzTarget = fn(&[u8]);

/// Fuzz targets with their names.
pub const TARGETS: [(&str, FuzzTarget); 14] = [
    ("manifest", manifest),
    ("foreign-manifest", foreign),
    ("kubeconfig", kubeconfig),
    ("protobuf-page", protobuf_page),
    ("json-page", json_page),
    ("watch", watch),
    ("log", log),
    ("training-log", training),
    ("prometheus-answer", answer),
    ("chunks", chunks),
    ("query", query),
    ("exposition", exporter),
    ("quantity", amount),
    ("shown-text", shown),
];

/// Parses a manifest, and masks its secrets as for display.
fn manifest(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(parsed) = spec::parse("fuzz.yaml", text) {
        let _ = spec::checks::run(text, &parsed.documents);
        for document in &parsed.documents {
            assert!(
                !document.name().contains(char::is_control),
                "a name with control characters"
            );
        }
    }
    let _ = spec::masked(text);
}

/// Converts a file of another tool.
fn foreign(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = convert::convert(text, Some("busybox"));
}

/// Parses a training's progress from its log.
fn training(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(percent) = progress::percent(text.lines()) {
        assert!(
            (0.0..=1.0).contains(&percent.ratio()),
            "{percent:?} of a training"
        );
    }
    let timed = text.lines().enumerate().map(|(second, line)| {
        (
            i64::try_from(second)
                .ok()
                .and_then(|second| Timestamp::from_second(second).ok())
                .unwrap_or_default(),
            line,
        )
    });
    let _ = steps::cadence(timed.clone());
    let _ = steps::current_phase(timed.map(|(time, line)| (Some(time), line)));
    let _ = throughput(text.lines());
}

/// Builds queries with arbitrary text as a label value. The text must remain a single string,
/// followed by the added matcher.
fn query(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let middle = (0..=text.len() / 2)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or_default();
    let (value, matcher_value) = text.split_at(middle);
    let (inner, outer) = (quoted(value), quoted(matcher_value));
    assert_eq!(
        (unquoted(&inner).as_deref(), unquoted(&outer).as_deref()),
        (Some(value), Some(matcher_value))
    );
    let matchers = Matchers::new(vec![("cluster".to_owned(), matcher_value.to_owned())]);
    let query = format!("sum by (pod) (rate(metric{{pod={inner}}}[5m])) / on (pod) other");
    let expected = format!(
        "sum by (pod) (rate(metric{{pod={inner},cluster={outer}}}[5m])) / on (pod) other{{cluster={outer}}}"
    );
    assert_eq!(matchers.narrowed(&query), expected);
    // Text that is not a valid query must not cause a panic.
    let _ = matchers.narrowed(&text);
    prometheus::fuzz::names(&text);
}

/// Parses a PromQL string with its escapes. Returns `None` if the closing quote is missing or comes
/// too early.
fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?;
    let (mut read, mut letters) = (String::new(), inner.chars());
    loop {
        match letters.next()? {
            '"' => return letters.next().is_none().then_some(read),
            '\\' => read.push(match letters.next()? {
                'n' => '\n',
                other => other,
            }),
            '\n' => return None,
            other => read.push(other),
        }
    }
}

/// Parses the output of a GPU exporter.
fn exporter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = exposition::read(&text, "node", 1_000);
}

/// Parses quantities and durations.
fn amount(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let (Some(milli), Some(rounded)) = (quantity::milli(text), quantity::whole(text)) {
        let rounded = i128::from(rounded) * 1000;
        assert!(
            rounded >= milli && rounded - milli < 1000,
            "{text:?} is rounded up to the next unit"
        );
        let formatted = quantity::binary(u64::try_from(rounded / 1000).expect("it was one"));
        assert_eq!(
            quantity::milli(&formatted),
            Some(rounded),
            "formatting and parsing must round-trip"
        );
    }
    let _ = quantity::duration(text);
}

#[cfg(test)]
mod tests;
