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
/// Indexes of reservations in the requests, by group and node. A group can have several
/// reservations in succession.
type ReservationsByGroup<'s> = BTreeMap<(&'s str, String), Vec<usize>>;

/// Returns true if a pod of the requests may reserve a GPU for others, so that the pods that share
/// it are needed.
pub fn has_reservations(requests: &[Series]) -> bool {
    let mut pods = requests.iter().filter_map(pod);
    pods.any(|((namespace, _), _)| reserves(&namespace))
}

/// Replaces the requests of reservations by a share of each pod in their group. `groups` and
/// `fractions` are the answers to the queries in `kube_state::sharing`. A reservation remains, and
/// is noted, if none of its pods was there at the time, or if the fraction of one is unknown.
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
    for ((name, node), reservations) in reservations(requests, &group_of) {
        let lives: Vec<&Presence> = reservations
            .iter()
            .map(|index| &requests[*index].1.presence)
            .collect();
        let pods: Vec<(&PodId, Presence)> = members
            .get(name)
            .into_iter()
            .flatten()
            .map(|(id, series)| (id, presence(series, &id.1)))
            .filter(|(_, presence)| lives.iter().any(|life| life.overlaps(presence)))
            .collect();
        let known: Option<Vec<f64>> = pods
            .iter()
            .map(|(id, _)| fractions.get(*id).copied())
            .collect();
        let Some(known) = known else {
            continue;
        };
        let shared = reservations
            .into_iter()
            .zip(&lives)
            .filter(|(_, life)| pods.iter().any(|(_, pod)| life.overlaps(pod)));
        replaced.extend(shared.map(|(index, _)| index));
        for ((id, mut presence), fraction) in pods.into_iter().zip(known) {
            // The samples of groups end with the last reservation, which is not an outage.
            presence.limit_unseen(&lives);
            shares.push(share(id, node.clone(), fraction, presence));
        }
    }
    let mut index = 0;
    requests.retain(|((key, ..), Requested { presence, .. })| {
        index += 1;
        let is_replaced = replaced.contains(&(index - 1));
        if reserves(&key.0) && !is_replaced && presence.overlaps(presence) {
            omissions::note(Omission::UnknownSharers, format!("{}/{}", key.0, key.1));
        }
        !is_replaced
    });
    requests.extend(shares);
}

/// Finds the reservations whose group is known.
fn reservations<'s>(
    requests: &[(PodPlace, Requested)],
    group_of: &BTreeMap<PodId, &'s str>,
) -> ReservationsByGroup<'s> {
    let mut reservations = ReservationsByGroup::new();
    for (index, ((key, uid, node), _)) in requests.iter().enumerate() {
        let name = group_of.get(&(key.clone(), uid.clone()));
        if let Some(name) = name.filter(|_| reserves(&key.0)) {
            let of_group = reservations.entry((*name, node.clone())).or_default();
            of_group.push(index);
        }
    }
    reservations
}

/// Creates the request of a pod for a fraction of a GPU.
fn share(id: &PodId, node: String, fraction: f64, presence: Presence) -> (PodPlace, Requested) {
    let part = Part {
        fraction: Some(fraction),
        ..Part::from_name(SHARED, None)
    };
    let requested = Requested {
        gpus: 0,
        part: Some((part, 1)),
        presence,
    };
    ((id.0.clone(), id.1.clone(), node), requested)
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

    const RESERVATION: &str = "runai-reservation";

    /// Slots of a pod, in a window of four slots.
    fn during(slots: std::ops::Range<usize>) -> Presence {
        Presence {
            seen: (0..4).map(|slot| slots.contains(&slot)).collect(),
            bridged: vec![false; 4],
            unseen: vec![false; 4],
        }
    }

    /// Replaces the reservations of group `g1`, which are pods with the slots of their lives. Pods
    /// `a` and `b` of the group have `lives`. Returns the namespace, pod, node and GPUs of each
    /// request, with shares by their fraction.
    fn replaced(
        reservations: &[(&str, std::ops::Range<usize>)],
        lives: [std::ops::Range<usize>; 2],
        fractions: &[(&str, &str)],
    ) -> Vec<(String, String, String, f64)> {
        let group = ("label_runai_gpu_group", "g1");
        let mut groups = vec![
            series("team-a", "a", group),
            series("team-b", "b", group),
            series("team-c", "c", ("label_runai_gpu_group", "g2")),
        ];
        groups.extend(
            reservations
                .iter()
                .map(|(name, _)| series(RESERVATION, name, group)),
        );
        let fractions: Vec<Series> = fractions
            .iter()
            .map(|(name, value)| {
                let extra = ("annotation_gpu_fraction", *value);
                series(&format!("team-{name}"), name, extra)
            })
            .collect();
        let request = |namespace: &str, name: &str, gpus, presence| {
            let key = (namespace.to_owned(), name.to_owned());
            let requested = Requested {
                gpus,
                part: None,
                presence,
            };
            ((key, name.to_owned(), "n".to_owned()), requested)
        };
        let mut requests: Vec<_> = reservations
            .iter()
            .map(|(name, life)| request(RESERVATION, name, 1, during(life.clone())))
            .collect();
        requests.push(request("team-d", "d", 2, during(0..4)));
        let presence = |_: &[&Series], uid: &str| match uid {
            "a" => during(lives[0].clone()),
            "b" => during(lives[1].clone()),
            _ => Presence::default(),
        };
        replace(&mut requests, &groups, &fractions, presence);
        let row = |((key, _, node), requested): (PodPlace, Requested)| {
            let shares = requested
                .part
                .map_or(0.0, |(part, units)| part.fraction.unwrap() * units as f64);
            (key.0, key.1, node, requested.gpus as f64 + shares)
        };
        requests.into_iter().map(row).collect()
    }

    fn row(namespace: &str, name: &str, gpus: f64) -> (String, String, String, f64) {
        (namespace.to_owned(), name.to_owned(), "n".to_owned(), gpus)
    }

    const HALF_AND_QUARTER: [(&str, &str); 2] = [("a", "0.5"), ("b", "0.25")];

    #[test]
    fn pods_that_share_a_gpu_replace_its_reservation() {
        let rows = |fractions: &[(&str, &str)]| {
            replaced(&[("gpu-reservation", 0..4)], [0..2, 1..4], fractions)
        };
        // Of one GPU, 0.5 + 0.25 are held, and 0.25 are idle. The GPUs of other pods remain.
        assert_eq!(
            rows(&HALF_AND_QUARTER),
            [
                row("team-d", "d", 2.0),
                row("team-a", "a", 0.5),
                row("team-b", "b", 0.25)
            ]
        );
        // Without the fraction of `b`, which may request memory, the division is unknown.
        let reservation = row(RESERVATION, "gpu-reservation", 1.0);
        let unknown = [reservation, row("team-d", "d", 2.0)];
        assert_eq!(rows(&[("a", "0.5")]), unknown);
        assert_eq!(rows(&[("a", "0.5"), ("b", "4")]), unknown);
    }

    #[test]
    fn pods_count_once_if_their_group_had_several_reservations() {
        // The scheduler replaced the first reservation while `b` ran.
        assert_eq!(
            replaced(
                &[("first", 0..2), ("second", 2..4)],
                [0..2, 1..4],
                &HALF_AND_QUARTER
            ),
            [
                row("team-d", "d", 2.0),
                row("team-a", "a", 0.5),
                row("team-b", "b", 0.25)
            ]
        );
    }

    #[test]
    fn a_reservation_remains_if_no_pod_of_its_group_was_there() {
        let reservation = || row(RESERVATION, "first", 1.0);
        assert_eq!(
            replaced(&[("first", 0..4)], [0..0, 0..0], &HALF_AND_QUARTER),
            [reservation(), row("team-d", "d", 2.0)],
            "no samples"
        );
        assert_eq!(
            replaced(
                &[("first", 0..2), ("second", 3..4)],
                [3..4, 0..0],
                &HALF_AND_QUARTER
            ),
            [
                reservation(),
                row("team-d", "d", 2.0),
                row("team-a", "a", 0.5)
            ]
        );
    }
}
