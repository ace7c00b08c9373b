//! Tests the free space of storage systems, and the limits of nodes on the number of volumes.

use std::collections::BTreeSet;

use super::*;

const DRIVER: &str = "disk.example.com";
const GIB: u64 = 1 << 30;

/// A delayed claim of 5Gi, and a driver that reports this space by zone, in GiB.
fn with_space(zones: &[(&str, u64)]) -> VolumeFacts {
    let mut facts = facts(vec![new("data", Some("zonal"))], vec![]);
    facts.csi_drivers = Some(vec![object(
        json!({"metadata": {"name": DRIVER}, "spec": {"storageCapacity": true}}),
    )]);
    let capacity = |(zone, gib): &(&str, u64)| {
        object(
            json!({"metadata": {"name": zone}, "storageClassName": "zonal",
            "nodeTopology": {"matchLabels": {"zone": zone}},
            "capacity": (gib * GIB).to_string()}),
        )
    };
    facts.storage_capacities = Some(zones.iter().map(capacity).collect());
    facts
}

/// The nodes on which a pod gets its volumes, and the cause on the others.
fn on_nodes(facts: &VolumeFacts, pods: u64) -> Vec<String> {
    let nodes = nodes();
    let rules = judge_volumes(facts, pods, &nodes, |_| true);
    let result = |node: &Node| {
        let volumes = rules.on_node(node);
        match volumes.cause {
            Some((cause, detail)) => format!("{}: {cause} {detail}", node.name),
            None => node.name.clone(),
        }
    };
    nodes.iter().map(result).collect()
}

#[test]
fn a_new_volume_needs_space_that_the_node_reaches() {
    let lacking = "c: storage-capacity data";
    assert_eq!(
        on_nodes(&with_space(&[("z1", 10)]), 1),
        ["a", "b", lacking],
        "no capacity is like none"
    );
    assert_eq!(
        on_nodes(&with_space(&[("z1", 5), ("z2", 4)]), 1),
        ["a", "b", lacking]
    );
    let mut facts = with_space(&[("z1", 10), ("z2", 10)]);
    let capacities = facts.storage_capacities.as_mut().unwrap();
    capacities[1].maximum_volume_size = Some(object(json!("4Gi")));
    assert_eq!(on_nodes(&facts, 1), ["a", "b", lacking]);
    // An empty topology is of all nodes, and a missing one of none.
    let capacities = facts.storage_capacities.as_mut().unwrap();
    capacities[1] = capacities[0].clone();
    capacities[1].node_topology = Some(object(json!({})));
    assert_eq!(on_nodes(&facts, 1), ["a", "b", "c"]);
    facts.storage_capacities.as_mut().unwrap()[1].node_topology = None;
    assert_eq!(on_nodes(&facts, 1), ["a", "b", lacking]);
    // The space of another class does not count.
    let capacities = facts.storage_capacities.as_mut().unwrap();
    capacities[0].storage_class_name = "other".to_owned();
    let nowhere = [
        "a: storage-capacity data",
        "b: storage-capacity data",
        lacking,
    ];
    assert_eq!(on_nodes(&facts, 1), nowhere);
    // The space can become free, so the job is not refused forever.
    let rules = judge_volumes(&facts, 1, &nodes(), |_| true);
    assert_eq!(rules.on_node(&nodes()[0]).pods_when_empty, u64::MAX);
}

#[test]
fn drivers_that_report_no_space_are_not_compared() {
    let mut facts = with_space(&[]);
    facts.csi_drivers.as_mut().unwrap()[0].spec.storage_capacity = None;
    assert_eq!(on_nodes(&facts, 1), ["a", "b", "c"]);
    facts.csi_drivers = Some(Vec::new());
    assert_eq!(on_nodes(&facts, 1), ["a", "b", "c"]);
}

#[test]
fn all_pods_mount_the_volume_of_the_first() {
    let mut facts = with_space(&[("z1", 10)]);
    facts.csi_nodes = Some(driver(&[]));
    // The first pod needs space, and the second can join it on any node.
    assert_judged(&facts, 2, "abc", &["unknown storage-capacity"]);
    assert_eq!(on_nodes(&facts, 2), ["a", "b", "c"]);
    facts.claims[0].per_pod = true;
    assert_judged(&facts, 2, "abc", &[]);
    assert_eq!(on_nodes(&facts, 2), ["a", "b", "c: storage-capacity data"]);
}

/// A volume of the driver that belongs to this claim.
fn csi_volume(claim: &str) -> PersistentVolume {
    let mut json = serde_json::to_value(volume(claim, None)).unwrap();
    json["spec"]["csi"] = json!({"driver": DRIVER, "volumeHandle": claim});
    json["spec"]["claimRef"] = json!({"namespace": "team", "name": claim});
    object(json)
}

/// The claims of a job, on nodes that allow these numbers of volumes. Pods on node `a` mount
/// `in_use`.
fn with_limits(claims: Vec<JobClaim>, limits: [Option<u32>; 3], in_use: &[&str]) -> VolumeFacts {
    let names = ["data", "logs", "x", "y"];
    let mut facts = facts(claims, names.map(csi_volume).into());
    let node = |(name, count): (&str, Option<u32>)| {
        object(json!({"metadata": {"name": name}, "spec": {"drivers": [
            {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}]}}))
    };
    facts.csi_nodes = Some(["a", "b", "c"].into_iter().zip(limits).map(node).collect());
    facts.attachable = facts.volumes.clone();
    let mounted: BTreeSet<(String, String)> = in_use
        .iter()
        .map(|name| ("team".to_owned(), (*name).to_owned()))
        .collect();
    facts.mounted = Some(BTreeMap::from([("a".to_owned(), mounted)]));
    facts
}

#[test]
fn a_node_takes_no_more_volumes_than_its_limit() {
    let data = || vec![bound("data", "data", "ReadWriteOnce")];
    let full = "a: volume-limit disk.example.com";
    let two = [Some(2), Some(1), None];
    assert_eq!(
        on_nodes(&with_limits(data(), two, &["x", "y"]), 1),
        [full, "b", "c"]
    );
    assert_eq!(
        on_nodes(&with_limits(data(), two, &["x"]), 1),
        ["a", "b", "c"]
    );
    // A volume that a pod already uses on the node counts once, and an unknown claim not at all.
    assert_eq!(
        on_nodes(&with_limits(data(), two, &["x", "data"]), 1),
        ["a", "b", "c"]
    );
    assert_eq!(
        on_nodes(&with_limits(data(), two, &["x", "unknown"]), 1),
        ["a", "b", "c"]
    );
    let both = vec![
        bound("data", "data", "ReadWriteOnce"),
        bound("logs", "logs", "ReadWriteOnce"),
    ];
    let facts = with_limits(both, two, &[]);
    let never = "b: volume-limit disk.example.com";
    assert_eq!(on_nodes(&facts, 1), ["a", never, "c"]);
    let rules = judge_volumes(&facts, 1, &nodes(), |_| true);
    let when_empty = nodes()
        .into_iter()
        .map(|node| rules.on_node(&node).pods_when_empty);
    assert_eq!(
        when_empty.collect::<Vec<_>>(),
        [u64::MAX, 0, u64::MAX],
        "pods of one job share their volumes"
    );
}

#[test]
fn pods_with_claims_of_their_own_count_one_by_one() {
    let mut own = new("data", Some("zonal"));
    own.per_pod = true;
    let facts = with_limits(vec![own], [Some(3), Some(4), None], &["x"]);
    let rules = judge_volumes(&facts, 8, &nodes(), |_| true);
    let pods = nodes().into_iter().map(|node| {
        let volumes = rules.on_node(&node);
        (volumes.pods_now, volumes.pods_when_empty)
    });
    assert_eq!(
        pods.collect::<Vec<_>>(),
        [(2, 3), (4, 4), (u64::MAX, u64::MAX)]
    );
}

#[test]
fn what_the_user_cannot_read_is_not_checked() {
    let warnings = |facts: &VolumeFacts| {
        let rules = judge_volumes(facts, 1, &nodes(), |_| true);
        assert!(rules.findings.is_empty(), "{:?}", rules.findings);
        let causes = nodes()
            .iter()
            .filter_map(|node| rules.on_node(node).cause)
            .count();
        assert_eq!(causes, 0);
        rules.warnings
    };
    let mut hidden = with_space(&[]);
    hidden.storage_capacities = None;
    assert_eq!(
        warnings(&hidden),
        [
            "not checked: the free space for the volume of claim `data`, because you are not \
             allowed to read csistoragecapacities"
        ]
    );
    hidden.csi_drivers = None;
    assert!(warnings(&hidden)[0].ends_with("to read csidrivers"));
    let claims = || vec![bound("data", "data", "ReadWriteOnce")];
    let mut hidden = with_limits(claims(), [Some(1), Some(1), Some(1)], &["x"]);
    hidden.attachable = None;
    assert_eq!(
        warnings(&hidden),
        [
            "not checked: the limits of nodes on the number of volumes, because you are not \
             allowed to read persistentvolumes"
        ]
    );
    hidden.csi_nodes = None;
    assert!(warnings(&hidden)[0].ends_with("to read csinodes"));
}
