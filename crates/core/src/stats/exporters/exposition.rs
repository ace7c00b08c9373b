//! Parses the Prometheus text format of GPU exporters. Each series has one sample and the
//! exporter's labels. Metrics that gpuctl does not read are skipped.
//!
//! Source: Prometheus' docs/instrumenting/exposition_formats.md.

use std::collections::BTreeMap;

use super::dialect;
use super::dialect::metric_of;
use crate::model::{Point, Series};

/// Parses the GPU metrics of an exporter on `node` at the time `at`, in Unix milliseconds. Replaces
/// the exporter's labels for the node with `node`, because an exporter may report the name of its
/// own pod as the host name.
pub fn read(text: &str, node: &str, at: i64) -> Vec<Series> {
    let series = |line: &str| {
        let (name, mut labels, value) = sample(line)?;
        metric_of(&name)?;
        labels.retain(|label, _| !dialect::node_labels().any(|node_label| node_label == label));
        labels.insert("node".to_owned(), node.to_owned());
        labels.insert("__name__".to_owned(), name);
        Some(Series {
            labels: labels.into_iter().collect(),
            points: vec![Point { at, value }],
        })
    };
    text.lines().filter_map(series).collect()
}

/// Splits a line into name, labels and value, or returns `None` for comments and invalid lines.
fn sample(line: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) = rest.split_once('=')?;
            let (value, after) = quoted(after.trim_start())?;
            labels.insert(label.trim().to_owned(), value);
            rest = after;
        }
    }
    let value = rest.split_whitespace().next()?.parse().ok()?;
    // In Prometheus, an empty label is equivalent to an absent one.
    labels.retain(|_, value| !value.is_empty());
    Some((name.to_owned(), labels, value))
}

/// Parses a double-quoted string with escapes, and returns it with the rest of the text.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.strip_prefix('"')?.char_indices();
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[offset + 2..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_samples_keep_their_labels() {
        let text = r#"
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="a \"b\", c}",Hostname="exporter-x7k2p",pod="",namespace="ml"} 97
DCGM_FI_DEV_FB_USED{gpu="0"} 1.5e3 1700000000000
go_goroutines 12
DCGM_FI_DEV_POWER_USAGE{gpu="0" 1
DCGM_FI_DEV_GPU_TEMP{gpu="0"} NaN
"#;
        let samples = read(text, "n1", 7);
        let by_name: Vec<(&str, f64)> = samples
            .iter()
            .map(|series| (series.name(), series.points[0].value))
            .collect();
        assert_eq!(
            by_name[..2],
            [
                ("DCGM_FI_DEV_GPU_UTIL", 97.0),
                ("DCGM_FI_DEV_FB_USED", 1500.0)
            ]
        );
        assert!(by_name.len() == 3 && by_name[2].1.is_nan(), "{by_name:?}");
        let first = &samples[0];
        assert_eq!(
            (first.label("modelName"), first.label("node")),
            (Some("a \"b\", c}"), Some("n1"))
        );
        assert_eq!(
            (
                first.label("Hostname"),
                first.label("pod"),
                first.label("namespace")
            ),
            (None, None, Some("ml"))
        );
    }
}
