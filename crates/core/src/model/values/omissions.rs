//! Collects the objects and values that the output omits because they are unreadable or impossible.
//! A command reports them in one warning at the end.
//!
//! The collection is thread-local, because decoders run in callbacks that cannot return warnings.
//! gpuctl runs on one thread.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of collected names. A hostile cluster could produce millions.
const MOST: usize = 1000;
/// Maximum number of names in a message.
const SHOWN: usize = 3;

/// Reason why an object or value is omitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Omission {
    /// The object cannot be decoded.
    Unreadable,
    /// The pod requests more devices than any node can have.
    AbsurdRequest,
    /// The node declares more devices than any node can have.
    AbsurdAmount,
    /// The owner could not be read in time.
    UnreadOwner,
    /// The pods that share a reserved device, or their fractions of it, are not recorded.
    UnknownSharers,
}

#[derive(Default)]
struct Collected {
    pending: BTreeSet<(Omission, String)>,
    reported: BTreeSet<(Omission, String)>,
    /// Numbers of omissions whose names exceeded `MOST`. Each reason is reported only once, because
    /// repetitions cannot be recognized without names.
    unnamed: BTreeMap<Omission, usize>,
    reported_unnamed: BTreeSet<Omission>,
}

thread_local! {
    static COLLECTED: RefCell<Collected> = RefCell::default();
}

/// Records that `name` is omitted. Recording the same name and reason again has no effect.
pub fn note(why: Omission, name: impl Into<String>) {
    COLLECTED.with_borrow_mut(|collected| {
        let omission = (why, name.into());
        if collected.reported.contains(&omission) || collected.pending.contains(&omission) {
            return;
        }
        if collected.pending.len() + collected.reported.len() < MOST {
            collected.pending.insert(omission);
        } else if !collected.reported_unnamed.contains(&why) {
            *collected.unnamed.entry(why).or_default() += 1;
        }
    });
}

/// Returns one sentence for each reason with unreported names, and marks these names as reported.
pub fn messages() -> Vec<String> {
    let (pending, unnamed) = COLLECTED.with_borrow_mut(|collected| {
        let (pending, unnamed) = (
            std::mem::take(&mut collected.pending),
            std::mem::take(&mut collected.unnamed),
        );
        collected.reported.extend(pending.iter().cloned());
        collected.reported_unnamed.extend(unnamed.keys());
        (pending, unnamed)
    });
    let reasons: BTreeSet<Omission> = pending
        .iter()
        .map(|(why, _)| why)
        .chain(unnamed.keys())
        .copied()
        .collect();
    reasons
        .into_iter()
        .map(|why| {
            message(
                why,
                &pending,
                unnamed.get(&why).copied().unwrap_or_default(),
            )
        })
        .collect()
}

fn message(why: Omission, named: &BTreeSet<(Omission, String)>, unnamed: usize) -> String {
    let names: Vec<&str> = named
        .iter()
        .filter(|(kind, _)| *kind == why)
        .map(|(_, name)| name.as_str())
        .collect();
    let count = names.len() + unnamed;
    let shown = &names[..names.len().min(SHOWN)];
    let list = match (shown.join(", "), count - shown.len()) {
        (list, 0) => list,
        (list, more) if list.is_empty() => format!("{more} without names"),
        (list, more) => format!("{list} and {more} more"),
    };
    let plural = if count == 1 { "" } else { "s" };
    match why {
        Omission::Unreadable => {
            format!(
                "{count} object{plural} cannot be read and {} skipped, so counts may be incomplete: {list}",
                are(count)
            )
        }
        Omission::AbsurdRequest => {
            format!(
                "{count} impossible device request{plural} {} not counted: {list}",
                are(count)
            )
        }
        Omission::AbsurdAmount => {
            format!(
                "{count} impossible device amount{plural} {} not counted: {list}",
                are(count)
            )
        }
        Omission::UnreadOwner => {
            format!(
                "{count} pod owner{plural} could not be read in time; pods are shown under the last known owner: {list}"
            )
        }
        Omission::UnknownSharers => {
            format!(
                "{count} GPU reservation{plural} {} counted instead of the pods that share the GPU, \
                 whose label runai-gpu-group or annotation gpu-fraction is not in \
                 kube-state-metrics: {list}",
                are(count)
            )
        }
    }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_reported_once() {
        for name in ["pod a/x", "pod a/x", "pod a/y"] {
            note(Omission::Unreadable, name);
        }
        (0..5).for_each(|index| note(Omission::AbsurdRequest, format!("a/p{index}")));
        assert_eq!(
            messages(),
            [
                "2 objects cannot be read and are skipped, so counts may be incomplete: pod a/x, pod a/y",
                "5 impossible device requests are not counted: a/p0, a/p1, a/p2 and 2 more",
            ]
        );
        note(Omission::Unreadable, "pod a/x");
        assert!(messages().is_empty());
        (0..5000).for_each(|index| note(Omission::UnreadOwner, format!("{index}")));
        assert!(messages()[0].starts_with("5000 pod owners could not be read in time"));
        (0..5).for_each(|index| note(Omission::AbsurdAmount, format!("n{index}")));
        assert_eq!(
            messages(),
            ["5 impossible device amounts are not counted: 5 without names"]
        );
    }
}
