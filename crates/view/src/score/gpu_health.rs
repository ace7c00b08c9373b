//! Renders devices whose counters show a fault. Kubernetes may report such devices as healthy.

use colored::Color;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::coverage::Coverage;
use crate::format::table::{Cell, Table, left};
use crate::{Format, TextStyle};
use gpuctl_core::stats::score::gpu_health::{FindingSeverity, HealthFinding};

/// The JSON output of `get health`.
#[derive(JsonSchema, Serialize)]
pub struct HealthList<'a> {
    pub total: usize,
    pub items: Vec<HealthItem<'a>>,
    /// `null` if the metrics could not be read. Then only nodes were checked, and the state of the
    /// devices is unknown.
    pub coverage: Option<Coverage>,
}

/// A device or a node with a finding.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthItem<'a> {
    node_name: &'a str,
    /// `null` if the finding is about the whole node.
    device: Option<String>,
    uuid: Option<&'a str>,
    /// `fail` means that the device or the node should not be used; `warn` means that someone should look at
    /// it.
    severity: &'static str,
    finding: &'static str,
    message: &'a str,
}

fn word(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Fail => "fail",
        FindingSeverity::Warn => "warn",
    }
}

/// Builds the JSON output. `coverage` is `None` if only nodes were checked.
pub fn list(findings: &[HealthFinding], coverage: Option<Coverage>) -> HealthList<'_> {
    fn item(finding: &HealthFinding) -> HealthItem<'_> {
        let HealthFinding {
            severity,
            node,
            device,
            uuid,
            finding,
            message,
        } = finding;
        HealthItem {
            node_name: node,
            device: device.as_ref().map(ToString::to_string),
            uuid: uuid.as_deref(),
            severity: word(*severity),
            finding,
            message,
        }
    }
    HealthList {
        total: findings.len(),
        items: findings.iter().map(item).collect(),
        coverage,
    }
}

pub fn table(
    findings: &[HealthFinding],
    format: Format,
    headers: bool,
    style: TextStyle,
) -> String {
    let mut table = Table::new([
        left("SEVERITY"),
        left("NODE"),
        left("DEVICE"),
        left("FINDING"),
        left("MESSAGE"),
    ]);
    for finding in findings {
        let color = if finding.severity == FindingSeverity::Fail {
            Color::Red
        } else {
            Color::Yellow
        };
        table.row(vec![
            Cell::colored(word(finding.severity), Some(color)),
            finding.node.clone().into(),
            device_text(finding).into(),
            finding.finding.to_owned().into(),
            finding.message.clone().into(),
        ]);
    }
    table.show(format, headers, style)
}

/// Returns the names, for `-o name`.
pub fn names(findings: &[HealthFinding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| match &finding.device {
            Some(device) => format!("{}/{device}", finding.node),
            None => finding.node.clone(),
        })
        .collect()
}

fn device_text(finding: &HealthFinding) -> String {
    finding
        .device
        .as_ref()
        .map_or_else(|| "-".to_owned(), ToString::to_string)
}
