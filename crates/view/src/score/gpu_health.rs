//! Renders the devices whose counters show a fault, although Kubernetes may consider them healthy.

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
    pub coverage: Coverage,
}

/// A device with a finding.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HealthItem<'a> {
    node_name: &'a str,
    device: String,
    uuid: Option<&'a str>,
    /// `fail`: do not use the device; `warn`: have a look at it.
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

pub fn list(found: &[HealthFinding], coverage: Coverage) -> HealthList<'_> {
    fn item(one: &HealthFinding) -> HealthItem<'_> {
        let HealthFinding {
            severity,
            node,
            device,
            uuid,
            finding,
            message,
        } = one;
        HealthItem {
            node_name: node,
            device: device.to_string(),
            uuid: uuid.as_deref(),
            severity: word(*severity),
            finding,
            message,
        }
    }
    HealthList {
        total: found.len(),
        items: found.iter().map(item).collect(),
        coverage,
    }
}

pub fn table(found: &[HealthFinding], format: Format, headers: bool, look: TextStyle) -> String {
    let mut table = Table::new([
        left("SEVERITY"),
        left("NODE"),
        left("DEVICE"),
        left("FINDING"),
        left("MESSAGE"),
    ]);
    for one in found {
        let color = if one.severity == FindingSeverity::Fail {
            Color::Red
        } else {
            Color::Yellow
        };
        table.row(vec![
            Cell::colored(word(one.severity), Some(color)),
            one.node.clone().into(),
            one.device.to_string().into(),
            one.finding.to_owned().into(),
            one.message.clone().into(),
        ]);
    }
    table.show(format, headers, look)
}

/// Lists the names for `-o name`.
pub fn names(found: &[HealthFinding]) -> Vec<String> {
    found
        .iter()
        .map(|one| format!("{}/{}", one.node, one.device))
        .collect()
}
