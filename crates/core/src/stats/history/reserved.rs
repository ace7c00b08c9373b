//! Replaces pods that only reserve a GPU for other pods by the pods that share it (Run:ai and KAI).

use std::collections::{BTreeMap, BTreeSet};

use super::pod_records::PodId;
use super::presence::Presence;
use super::requested::{PodPlace, Requested};
use crate::model::facts::gpu_group::reserves;
use crate::model::facts::part::Part;
use crate::model::facts::unit::SHARED;
use crate::model::values::omissions;
use crate::model::values::omissions::Omission;
use crate::model::values::series::Series;
use crate::stats::exporters::kube_state::pod;
use crate::stats::exporters::kube_state::sharing::{fraction, group};

/// Pods of one group, with the series that show when they existed.
type SharersByGroup<'s> = BTreeMap<PodId, Vec<&'s Series>>;

/// Returns true if a pod of the requests may reserve a GPU for others, so that the pods that share
/// it are needed.
pub fn has_reservations(requests: &[Series]) -> bool {
    let mut pods = requests.iter().filter_map(pod);
    pods.any(|((namespace, _), _)| reserves(&namespace))
}

/// Replaces the request of each reservation by a share of each pod in its group. `groups` and
/// `fractions` are the answers to the queries in `kube_state::sharing`. A reservation remains, and
/// is noted, if the fraction of one of its pods is unknown.
pub(crate) fn replace<'s>(
    requests: &mut Vec<(PodPlace, Requested)>,
    groups: &'s [Series],
    fractions: &[Series],
    presence: impl Fn(&[&'s Series], &str) -> Presence,
) {
    let mut members: BTreeMap<&str, SharersByGroup<'s>> = BTreeMap::new();
    let mut group_of: BTreeMap<PodId, &str> = BTreeMap::new();
    for series in groups {
        let Some((id, name)) = pod(series).zip(group(series)) else {
            continue;
        };
        if reserves(&id.0.0) {
            group_of.insert(id, name);
        } else {
            let pods = members.entry(name).or_default();
            pods.entry(id).or_default().push(series);
        }
    }
    let fractions: BTreeMap<PodId, f64> = fractions
        .iter()
        .filter_map(|series| pod(series).zip(fraction(series)))
        .collect();
    let mut replaced: BTreeSet<usize> = BTreeSet::new();
    let mut shares = Vec::new();
    for (index, ((key, uid, node), _)) in requests.iter().enumerate() {
        if !reserves(&key.0) {
            continue;
        }
        let name = group_of.get(&(key.clone(), uid.clone()));
        let pods = name.and_then(|name| members.get(name));
        let known = pods.and_then(|pods| {
            let known = pods
                .iter()
                .map(|(id, series)| Some((id, series, *fractions.get(id)?)));
            known.collect::<Option<Vec<_>>>()
        });
        let Some(known) = known else {
            let reservation = format!("{}/{}", key.0, key.1);
            omissions::note(Omission::UnknownSharers, reservation);
            continue;
        };
        replaced.insert(index);
        for ((key, uid), series, fraction) in known {
            let part = Part {
                fraction: Some(fraction),
                ..Part::from_name(SHARED, None)
            };
            let requested = Requested {
                gpus: 0,
                part: Some((part, 1)),
                presence: presence(series, uid),
            };
            shares.push(((key.clone(), uid.clone(), node.clone()), requested));
        }
    }
    let mut index = 0;
    requests.retain(|_| {
        index += 1;
        !replaced.contains(&(index - 1))
    });
    requests.extend(shares);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(namespace: &str, name: &str, extra: (&str, &str)) -> Series {
        let labels = [
            ("namespace", namespace),
            ("pod", name),
            ("uid", name),
            extra,
        ];
        Series {
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            points: Vec::new(),
        }
    }

    /// Pods `a` and `b` share the GPU that a third pod reserves. Returns the namespace, pod, node
    /// and GPUs of each request, with shares by their fraction.
    fn rows(fractions: &[(&str, &str)]) -> Vec<(String, String, String, f64)> {
        const RESERVATION: &str = "runai-reservation";
        let group = ("label_runai_gpu_group", "g1");
        let groups = [
            series(RESERVATION, "gpu-reservation", group),
            series("team-a", "a", group),
            series("team-b", "b", group),
            series("team-c", "c", ("label_runai_gpu_group", "g2")),
        ];
        let fractions: Vec<Series> = fractions
            .iter()
            .map(|(name, value)| {
                let extra = ("annotation_gpu_fraction", *value);
                series(&format!("team-{name}"), name, extra)
            })
            .collect();
        let place = |namespace: &str, name: &str| {
            let key = (namespace.to_owned(), name.to_owned());
            (key, name.to_owned(), "n".to_owned())
        };
        let whole = |gpus| Requested {
            gpus,
            part: None,
            presence: Presence::default(),
        };
        let mut requests = vec![
            (place(RESERVATION, "gpu-reservation"), whole(1)),
            (place("team-d", "d"), whole(2)),
        ];
        let presence = |_: &[&Series], _: &str| Presence::default();
        replace(&mut requests, &groups, &fractions, presence);
        let row = |((key, _, node), requested): (PodPlace, Requested)| {
            let shares = requested
                .part
                .map_or(0.0, |(part, units)| part.fraction.unwrap() * units as f64);
            (key.0, key.1, node, requested.gpus as f64 + shares)
        };
        requests.into_iter().map(row).collect()
    }

    #[test]
    fn pods_that_share_a_gpu_replace_its_reservation() {
        let row = |namespace: &str, name: &str, gpus: f64| {
            (namespace.to_owned(), name.to_owned(), "n".to_owned(), gpus)
        };
        // Of one GPU, 0.5 + 0.25 are held, and 0.25 are idle. The GPUs of other pods remain.
        assert_eq!(
            rows(&[("a", "0.5"), ("b", "0.25")]),
            [
                row("team-d", "d", 2.0),
                row("team-a", "a", 0.5),
                row("team-b", "b", 0.25)
            ]
        );
        // Without the fraction of `b`, which may request memory, the division is unknown.
        let reservation = row("runai-reservation", "gpu-reservation", 1.0);
        let unknown = [reservation, row("team-d", "d", 2.0)];
        assert_eq!(rows(&[("a", "0.5")]), unknown);
        assert_eq!(rows(&[("a", "0.5"), ("b", "4")]), unknown);
    }
}
