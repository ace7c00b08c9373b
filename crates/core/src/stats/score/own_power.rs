//! Compares the power of a job's devices with their own power while the job still made steps. A
//! device that waits in a collective shows full utilization but draws much less than before, even
//! if all devices are alike (NVIDIA/nccl#968).

use super::peers::{PeerReport, current_power, middle};
use crate::stats::exporters::dialect::Quantity;
use crate::stats::history::curves::Trace;

/// A fully utilized device that draws less than this fraction of its earlier power is waiting.
const FRACTION: f64 = 0.6;

/// Corrects which devices wait, by their power in `earlier`, a window that ends at the last step.
/// The limit of a device does not show whether its job needs little power. Devices without earlier
/// samples keep their verdict. The window of `traces` ends at `end`, in Unix milliseconds.
pub fn compare_with_earlier(
    report: &mut PeerReport,
    traces: &[Trace],
    earlier: &[Trace],
    end: i64,
) {
    let (mut watts, mut earlier_watts) = (Vec::new(), Vec::new());
    for (index, trace) in traces.iter().enumerate() {
        let before = earlier
            .iter()
            .find(|before| before.node == trace.node && before.id() == trace.id())
            .and_then(|before| middle(before, Quantity::Power));
        let Some((utilization, power)) = current_power(trace, end) else {
            continue;
        };
        let was_spinning = report.spinning.contains(&index);
        let is_spinning = before.map_or(was_spinning, |before| {
            utilization >= 95.0 && power < before * FRACTION
        });
        report.spinning.retain(|device| *device != index);
        if is_spinning {
            report.spinning.push(index);
            watts.push(power);
            earlier_watts.extend(before);
        }
    }
    report.spinning.sort_unstable();
    report.spinning_watts = mean(&watts);
    report.earlier_watts = mean(&earlier_watts);
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::peers::compare;
    use super::*;
    use crate::model::Point;

    const END: i64 = 600_000;

    fn devices(model: &str, utilization: f64, watts: f64) -> Vec<Trace> {
        let curve = |value: f64| -> Vec<Point> {
            (1..=40)
                .map(|step| Point {
                    at: step * 15_000,
                    value,
                })
                .collect()
        };
        let curves = || {
            BTreeMap::from([
                (Quantity::Utilization, curve(utilization)),
                (Quantity::Power, curve(watts)),
            ])
        };
        (0..8)
            .map(|index| Trace::from_curves("n", index, model, curves()))
            .collect()
    }

    fn report(model: &str, now: (f64, f64), before: Option<f64>) -> PeerReport {
        let traces = devices(model, now.0, now.1);
        let mut report = compare(&traces, END);
        let earlier = before.map_or_else(Vec::new, |watts| devices(model, 98.0, watts));
        compare_with_earlier(&mut report, &traces, &earlier, END);
        report
    }

    #[test]
    fn devices_with_much_less_power_than_before_wait() {
        let h100 = "NVIDIA H100 80GB HBM3";
        let spinning = report(h100, (100.0, 75.0), Some(620.0));
        assert_eq!(spinning.spinning, (0..8).collect::<Vec<_>>());
        assert_eq!(
            (spinning.spinning_watts, spinning.earlier_watts),
            (Some(75.0), Some(620.0))
        );
        // Without a known power limit, only the earlier power shows it.
        let unknown = report("GB10", (96.0, 22.0), Some(90.0));
        assert_eq!(unknown.spinning.len(), 8);
        assert_eq!(report("GB10", (96.0, 22.0), None).spinning.len(), 0);
    }

    #[test]
    fn devices_that_always_draw_little_power_do_not_wait() {
        let h100 = "NVIDIA H100 80GB HBM3";
        assert_eq!(report(h100, (100.0, 200.0), Some(210.0)).spinning.len(), 0);
        // Idle devices do not spin.
        assert_eq!(report(h100, (0.0, 75.0), Some(620.0)).spinning.len(), 0);
        // Without earlier samples, the power limit decides.
        let limited = report(h100, (100.0, 200.0), None);
        assert_eq!((limited.spinning.len(), limited.earlier_watts), (8, None));
    }
}
