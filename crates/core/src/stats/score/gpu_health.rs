//! Finds devices that are reported as healthy although their metrics say otherwise. The signs are
//! growing error counters of memory and links, faults, heat, work without a pod, and missing
//! samples.

use std::collections::BTreeMap;

use crate::model::{Celsius, DeviceId, Percent, Reading, Series};
use crate::stats::exporters::identity::{ApiFacts, IdentityReader};

/// The severity of a finding. The variants are in sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// The device is unusable.
    Fail,
    /// An administrator should inspect the device.
    Warn,
}

/// A device with a sign that it is not healthy.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthFinding {
    pub severity: FindingSeverity,
    pub node: String,
    /// `None` if the finding is about the whole node.
    pub device: Option<DeviceId>,
    pub uuid: Option<String>,
    /// Of a device: `fault`, `ecc-uncorrected`, `ecc-corrected`, `row-remap`, `pcie-replay`, `hot`,
    /// `used-without-pod` or `silent`. Of a node: `node-faulty`, `lost-devices` or `silent`.
    pub finding: &'static str,
    pub message: String,
}

/// A counter from dcgm-exporter, the finding if it grows within a day, the severity of the finding,
/// and by how much the counter must grow. Source: DCGM's field ids.
const COUNTERS: [(&str, &str, FindingSeverity, f64); 4] = [
    (
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "ecc-uncorrected",
        FindingSeverity::Fail,
        1.0,
    ),
    (
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "row-remap",
        FindingSeverity::Fail,
        1.0,
    ),
    (
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "ecc-corrected",
        FindingSeverity::Warn,
        100.0,
    ),
    (
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
        "pcie-replay",
        FindingSeverity::Warn,
        100.0,
    ),
];
/// The query copies the name of the counter to this label, because `increase` drops the name.
const COUNTER: &str = "counter";
/// The temperature at which data center GPUs reduce their clocks (85 to 95 in NVIDIA's data
/// sheets).
const HOT: f64 = 90.0;
/// The lowest utilization, in percent, that counts as work.
const WORK: f64 = 5.0;

/// Builds the query for how much all counters grew within a day.
pub fn growth() -> String {
    let increase = |(name, ..): &(&str, &str, FindingSeverity, f64)| {
        format!(r#"label_replace(increase({name}[1d]) > 0, "{COUNTER}", "{name}", "", "")"#)
    };
    COUNTERS
        .iter()
        .map(increase)
        .collect::<Vec<_>>()
        .join(" or ")
}

/// Collects the findings about devices, in no particular order.
pub fn findings(readings: &[Reading], grown: &[Series], facts: &ApiFacts) -> Vec<HealthFinding> {
    let mut findings: Vec<HealthFinding> = readings.iter().filter_map(reading_finding).collect();
    findings.extend(growth_findings(grown, facts));
    findings
}

/// Sorts findings: the worst ones first, then by node and device.
pub fn rank(findings: &mut [HealthFinding]) {
    findings.sort_by(|a, b| {
        (a.severity, &a.node, &a.device, a.finding)
            .cmp(&(b.severity, &b.node, &b.device, b.finding))
    });
}

/// Finds devices whose error counters grew within a day.
fn growth_findings(grown: &[Series], facts: &ApiFacts) -> Vec<HealthFinding> {
    let mut findings = Vec::new();
    let reader = IdentityReader::new(facts, grown);
    let mut counted: BTreeMap<(String, u32, &str), f64> = BTreeMap::new();
    for series in grown {
        let Some((device, value)) = reader
            .device(series)
            .zip(series.points.last().map(|point| point.value))
        else {
            continue;
        };
        let Some((name, ..)) = COUNTERS
            .iter()
            .find(|(name, ..)| series.label(COUNTER) == Some(*name))
        else {
            continue;
        };
        if value.is_finite() && value >= 0.0 {
            let largest = counted
                .entry((device.node, device.index.unwrap_or(0), *name))
                .or_default();
            *largest = largest.max(value);
        }
    }
    for ((node, index, name), value) in counted {
        let Some((_, finding, severity, least)) = COUNTERS
            .iter()
            .find(|(counter, ..)| *counter == name)
            .copied()
        else {
            continue;
        };
        if value < least {
            continue;
        }
        let message = match finding {
            "ecc-uncorrected" => format!("{value:.0} uncorrected memory errors within a day"),
            "row-remap" => format!(
                "{value:.0} memory rows were remapped after uncorrected errors within a day"
            ),
            "ecc-corrected" => format!("{value:.0} corrected memory errors within a day"),
            _ => format!("{value:.0} PCIe replays within a day"),
        };
        findings.push(HealthFinding {
            severity,
            node,
            device: Some(DeviceId::whole(index)),
            uuid: None,
            finding,
            message,
        });
    }
    findings
}

fn reading_finding(reading: &Reading) -> Option<HealthFinding> {
    let (severity, finding, message) = match reading {
        Reading {
            fault: Some(fault), ..
        } => (FindingSeverity::Fail, "fault", fault.clone()),
        Reading {
            stale: true,
            sample_age_seconds: Some(age),
            ..
        } => (
            FindingSeverity::Warn,
            "silent",
            format!("no samples for {age:.0} s"),
        ),
        Reading {
            temperature: Some(Celsius(degrees)),
            ..
        } if *degrees >= HOT => (FindingSeverity::Warn, "hot", format!("{degrees:.0} °C")),
        Reading {
            held: Some(false),
            utilization: Some(Percent(utilization)),
            ..
        } if *utilization >= WORK => (
            FindingSeverity::Warn,
            "used-without-pod",
            format!("{utilization:.0} % utilization, but no pod holds it"),
        ),
        _ => return None,
    };
    Some(HealthFinding {
        severity,
        node: reading.node.clone(),
        device: Some(reading.id()),
        uuid: reading.uuid.clone(),
        finding,
        message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Point;

    #[test]
    fn health_findings_are_ranked() {
        promql_parser::parser::parse(&growth()).unwrap();
        let healthy = |index: u32| Reading {
            node: "n".to_owned(),
            index,
            held: Some(true),
            utilization: Some(Percent(90.0)),
            ..Reading::default()
        };
        let readings = [
            healthy(0),
            Reading {
                temperature: Some(Celsius(93.0)),
                ..healthy(1)
            },
            Reading {
                held: Some(false),
                ..healthy(2)
            },
            Reading {
                held: Some(false),
                utilization: Some(Percent(0.0)),
                ..healthy(3)
            },
            Reading {
                fault: Some("XID 79".to_owned()),
                ..healthy(4)
            },
            Reading {
                held: None,
                ..healthy(5)
            },
            Reading {
                stale: true,
                sample_age_seconds: Some(700.0),
                ..healthy(6)
            },
        ];
        let grown = |name: &str, index: &str, value: f64| {
            let labels = [(COUNTER, name), ("Hostname", "n"), ("gpu", index)];
            let labels = labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            Series {
                labels,
                points: vec![Point { at: 0, value }],
            }
        };
        let counters = [
            grown("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "0", 12.0),
            grown("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "3", 2.0),
            grown("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "0", f64::NAN),
        ];
        let mut findings = findings(&readings, &counters, &ApiFacts::default());
        rank(&mut findings);
        let rows: Vec<(&str, String)> = findings
            .iter()
            .map(|finding| (finding.finding, finding.device.clone().unwrap().to_string()))
            .collect();
        let expected = [
            ("ecc-uncorrected", "gpu-3"),
            ("fault", "gpu-4"),
            ("hot", "gpu-1"),
            ("used-without-pod", "gpu-2"),
            ("silent", "gpu-6"),
        ];
        assert_eq!(
            rows,
            expected.map(|(finding, device)| (finding, device.to_owned()))
        );
    }
}
