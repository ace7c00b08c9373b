//! Tests that allocations account for each held device once.

use super::*;
use crate::model::values::series::Point;

const MINUTE: i64 = 60_000;
const RESERVATIONS: &str = "runai-reservation";

/// A series with one value in each of these minutes, from one job of kube-state-metrics.
fn series(job: &str, labels: &[(&str, &str)], minutes: std::ops::Range<i64>) -> Series {
    let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let labels = [&[("job", job)], labels].concat();
    let point = |minute| Point {
        at: minute * MINUTE,
        value: 1.0,
    };
    Series {
        labels: labels.iter().map(text).collect(),
        points: minutes.map(point).collect(),
    }
}

/// Reads an hour in which a pod reserves a GPU for a group. The series of the group come from
/// another job of kube-state-metrics than the requests. Returns the namespace of each allocation,
/// and its GPU-hours: held, and possibly held.
fn held(
    reserved: std::ops::Range<i64>,
    members: &[(&'static str, std::ops::Range<i64>)],
) -> Vec<(String, f64, f64)> {
    let id = |namespace: &'static str| [("namespace", namespace), ("pod", "p"), ("uid", namespace)];
    let of_group = |namespace: &'static str, minutes| {
        let labels = [&id(namespace)[..], &[("label_runai_gpu_group", "g")]].concat();
        series("labels", &labels, minutes)
    };
    let request = [
        ("__name__", "kube_pod_container_resource_requests"),
        ("node", "n"),
        ("container", "c"),
        ("resource", "nvidia_com_gpu"),
    ];
    let request = [&id(RESERVATIONS)[..], &request].concat();
    let mut groups = vec![of_group(RESERVATIONS, reserved.clone())];
    let mut fractions = Vec::new();
    for (namespace, minutes) in members {
        groups.push(of_group(namespace, minutes.clone()));
        let labels = [&id(namespace)[..], &[("annotation_gpu_fraction", "0.5")]].concat();
        fractions.push(series("labels", &labels, minutes.clone()));
    }
    let answers = AllocationSeries {
        requests: vec![series("metrics", &request, reserved)],
        groups,
        fractions,
        ..AllocationSeries::default()
    };
    let history = AllocationHistory::new(
        &answers,
        &[series(
            "metrics",
            &[("node", "n"), ("resource", "nvidia_com_gpu")],
            0..60,
        )],
        TimeSpan {
            start: 0,
            end: 60 * MINUTE,
        },
        &NodeParts::default(),
        &BTreeMap::new(),
        &LiveOwners::new(),
    );
    let row = |allocation: &Allocation| {
        let hours = |slots: &[bool]| history.hours(slots) * allocation.devices();
        let unseen = hours(&allocation.gaps.unseen);
        (allocation.pod.0.clone(), hours(&allocation.held), unseen)
    };
    history.allocations.iter().map(row).collect()
}

#[test]
fn pods_that_share_a_reserved_gpu_may_come_from_another_job() {
    let hours = |namespace: &str, hours| (namespace.to_owned(), hours, 0.0);
    assert_eq!(
        held(0..60, &[("a", 0..60), ("b", 0..30)]),
        [hours("a", 0.5), hours("b", 0.25)]
    );
    // The GPU is free after half an hour, and then the other job exports no samples.
    assert_eq!(held(0..30, &[("a", 0..30)]), [hours("a", 0.25)]);
    // The members were there on another day.
    let past = -600..-540;
    assert_eq!(held(0..60, &[("a", past)]), [hours(RESERVATIONS, 1.0)]);
    assert_eq!(held(0..60, &[]), [hours(RESERVATIONS, 1.0)]);
}
