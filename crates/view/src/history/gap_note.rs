//! Describes time for which kube-state-metrics has no samples.

use gpuctl_core::stats::history::gpu_hours::GpuHours;

/// Smaller numbers of hours would be shown as 0.0.
const SHOWN: f64 = 0.05;

/// Returns a sentence about the hours without samples and their effect on a sum, or `None` if there
/// are none. `unobserved` and `length` are hours of the range.
pub fn gap_note(sum: &GpuHours, unobserved: f64, length: f64) -> Option<String> {
    if [unobserved, sum.bridged, sum.unseen]
        .iter()
        .all(|hours| *hours < SHOWN)
    {
        return None;
    }
    let mut effects = Vec::new();
    if sum.bridged >= SHOWN {
        effects.push(format!(
            "HELD contains {:.1} GPU-hours of pods that existed before and after (bridged)",
            sum.bridged
        ));
    }
    if sum.unseen >= SHOWN {
        effects.push(format!(
            "HELD lacks up to {:.1} GPU-hours of pods that were seen on one side only (unseen)",
            sum.unseen
        ));
    }
    let effects = match effects.is_empty() {
        true => "; pods that existed only then are in no sum".to_owned(),
        false => format!(": {}", effects.join(", and ")),
    };
    Some(format!(
        "kube-state-metrics has no samples for {unobserved:.1} of {length:.1} hours{effects}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_hours_are_named_with_their_effect() {
        let sum = |bridged: f64, unseen: f64| {
            let mut sum = GpuHours::default();
            (sum.bridged, sum.unseen) = (bridged, unseen);
            sum
        };
        assert_eq!(gap_note(&sum(0.0, 0.0), 0.01, 24.0), None);
        assert_eq!(
            gap_note(&sum(64.0, 0.0), 8.0, 24.0).unwrap(),
            "kube-state-metrics has no samples for 8.0 of 24.0 hours: HELD contains 64.0 GPU-hours \
             of pods that existed before and after (bridged)"
        );
        assert!(
            gap_note(&sum(1.0, 2.0), 1.0, 2.0)
                .unwrap()
                .contains(", and HELD lacks up to 2.0")
        );
        let empty = gap_note(&sum(0.0, 0.0), 1.0, 2.0).unwrap();
        assert!(
            empty.ends_with("pods that existed only then are in no sum"),
            "{empty}"
        );
    }
}
