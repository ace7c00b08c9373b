//! Tests for `queues.rs`.

use serde_json::json;

use super::*;

/// The quota has two flavors with 8 and 4 GPUs. CPUs do not count.
#[test]
fn queues_are_counted_in_devices() {
    let flavor = |gpus: &str, field: &str| json!({"name": "f", "resources": [{"name": "nvidia.com/gpu", field: gpus}, {"name": "cpu", field: "99"}]});
    let cluster_queue = json!({"spec": {"resourceGroups": [{"flavors": [flavor("8", "nominalQuota"), flavor("4", "nominalQuota")]}]},
            "status": {"flavorsUsage": [flavor("3", "borrowed")]}});
    let local_queue = json!({"metadata": {"name": "research", "namespace": "team-a"}, "spec": {"clusterQueue": "science"},
            "status": {"pendingWorkloads": 2, "admittedWorkloads": 1, "flavorsUsage": [flavor("5", "total")]}});
    let queue = kueue_queue(&local_queue, Some(&cluster_queue));
    assert_eq!(
        (queue.quota, queue.used, queue.borrowed),
        (Some(GpuCount(12)), Some(GpuCount(5)), Some(GpuCount(3)))
    );
    assert_eq!(
        (queue.running, queue.waiting, queue.active),
        (Some(1), Some(2), true)
    );
    let old_version = json!({"status": {"flavorUsage": [flavor("5", "total")]}});
    assert_eq!(kueue_queue(&old_version, None).used, Some(GpuCount(5)));
    assert_eq!(
        kueue_queue(&json!({}), None).waiting,
        None,
        "Kueue has not looked at it"
    );
    let without_cluster_queue = kueue_queue(&local_queue, None);
    assert_eq!(
        (without_cluster_queue.quota, without_cluster_queue.borrowed),
        (None, None),
        "unknown is not zero"
    );
    let volcano = json!({"metadata": {"name": "q"}, "spec": {"capability": {"nvidia.com/gpu": 16, "cpu": "4"}},
            "status": {"state": "Closed", "allocated": {"nvidia.com/gpu": "8"}}});
    let group =
        |queue: &str, phase: &str| json!({"spec": {"queue": queue}, "status": {"phase": phase}});
    let groups = [
        group("q", "Running"),
        group("q", "Pending"),
        group("q", "Inqueue"),
        group("q", "Completed"),
        group("r", "Running"),
    ];
    assert_eq!(volcano_queue(&volcano, None).waiting, None);
    let volcano = volcano_queue(&volcano, Some(&groups));
    assert_eq!(
        (volcano.quota, volcano.used),
        (Some(GpuCount(16)), Some(GpuCount(8)))
    );
    assert_eq!(
        (volcano.active, volcano.running, volcano.waiting),
        (false, Some(1), Some(2))
    );
}
