mod storage;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::super::volume_facts::VolumeUser;
use super::super::volume_rules::VolumeFinding;
use super::*;

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, labels: &[(&str, &str)]) -> Node {
    let labels = labels.iter().copied().chain([("host", name)]);
    Node {
        name: name.to_owned(),
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        schedulable: true,
        ..Node::default()
    }
}

/// Returns two nodes in zone 1 and one in zone 2.
fn nodes() -> Vec<Node> {
    [("a", "z1"), ("b", "z1"), ("c", "z2")]
        .map(|(name, zone)| node(name, &[("zone", zone), ("slots", "8")]))
        .into()
}

/// Returns a volume of class `local` with 10Gi. `terms` is its node affinity.
fn volume(name: &str, terms: Option<Value>) -> PersistentVolume {
    let mut volume = json!({
        "metadata": {"name": name},
        "spec": {"storageClassName": "local", "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Available"},
    });
    if let Some(terms) = terms {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    object(volume)
}

fn in_labels(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

fn claim(name: &str, class: Option<&str>, mode: &str) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "5Gi"}}},
    });
    if let Some(class) = class {
        claim["spec"]["storageClassName"] = json!(class);
    }
    object(claim)
}

fn bound(name: &str, volume: &str, mode: &str) -> JobClaim {
    let mut bound = claim(name, Some("local"), mode);
    let annotation = ("pv.kubernetes.io/bind-completed", "yes");
    bound.metadata.annotations = Some(
        [annotation]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    bound.spec.as_mut().unwrap().volume_name = Some(volume.to_owned());
    job_claim(name, ClaimSource::Existing(Box::new(bound)))
}

fn new(name: &str, class: Option<&str>) -> JobClaim {
    let claim = claim(name, class, "ReadWriteOnce");
    job_claim(name, ClaimSource::New(Box::new(claim)))
}

fn job_claim(name: &str, source: ClaimSource) -> JobClaim {
    JobClaim {
        name: name.to_owned(),
        source,
        per_pod: false,
    }
}

fn class(name: &str, provisioner: &str, mode: &str) -> StorageClass {
    object(
        json!({"metadata": {"name": name}, "provisioner": provisioner,
        "volumeBindingMode": mode}),
    )
}

fn facts(claims: Vec<JobClaim>, volumes: Vec<PersistentVolume>) -> VolumeFacts {
    VolumeFacts {
        namespace: "team".to_owned(),
        claims,
        volumes: Some(volumes),
        classes: Some(vec![
            class(
                "local",
                "kubernetes.io/no-provisioner",
                "WaitForFirstConsumer",
            ),
            class("zonal", "disk.example.com", "WaitForFirstConsumer"),
            class("early", "disk.example.com", "Immediate"),
            class("by-hand", "kubernetes.io/no-provisioner", "Immediate"),
        ]),
        csi_nodes: Some(Vec::new()),
        users: Some(BTreeMap::new()),
        csi_drivers: Some(Vec::new()),
        ..VolumeFacts::default()
    }
}

/// Returns CSI nodes with a driver whose topology keys are `keys`.
fn driver(keys: &[&str]) -> Vec<k8s_openapi::api::storage::v1::CSINode> {
    ["a", "b", "c"]
        .map(|name| {
            object(json!({"metadata": {"name": name}, "spec": {"drivers": [
                {"name": "disk.example.com", "nodeID": name, "topologyKeys": keys}]}}))
        })
        .into()
}

/// Returns the nodes that the volumes allow, and the findings in the form `verdict cause`.
fn judged(facts: &VolumeFacts, pods: u64) -> (String, Vec<String>) {
    let nodes = nodes();
    let rules = judge_volumes(facts, pods, &nodes, |_| true);
    let allowed = nodes
        .iter()
        .filter(|node| rules.unmet_claim(node).is_none());
    let names: Vec<&str> = allowed.map(|node| node.name.as_str()).collect();
    let findings = rules.findings.iter().map(|finding| match finding {
        VolumeFinding::Never(reason) => format!("never {}", reason.cause),
        VolumeFinding::NotNow(reason) => format!("not-now {}", reason.cause),
        VolumeFinding::Unknown(reason) => format!("unknown {}", reason.cause),
    });
    (names.concat(), findings.collect())
}

#[track_caller]
fn assert_judged(facts: &VolumeFacts, pods: u64, nodes: &str, findings: &[&str]) {
    assert_eq!(
        judged(facts, pods),
        (
            nodes.to_owned(),
            findings.iter().map(ToString::to_string).collect()
        )
    );
}

#[test]
fn a_bound_volume_restricts_nodes_by_its_terms() {
    for (terms, allowed) in [
        (None, "abc"),
        (Some(json!([in_labels("zone", "In", &["z1"])])), "ab"),
        (Some(json!([in_labels("zone", "NotIn", &["z1"])])), "c"),
        (Some(json!([in_labels("zone", "Exists", &[])])), "abc"),
        (Some(json!([in_labels("rack", "DoesNotExist", &[])])), "abc"),
        (Some(json!([in_labels("rack", "Exists", &[])])), ""),
        (Some(json!([in_labels("slots", "Gt", &["7"])])), "abc"),
        (Some(json!([in_labels("slots", "Lt", &["8"])])), ""),
        // Terms are alternatives, but all expressions of a term must match.
        (
            Some(json!([
                in_labels("host", "In", &["a"]),
                in_labels("host", "In", &["c"])
            ])),
            "ac",
        ),
        (
            Some(json!([{"matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["z1"]},
                {"key": "host", "operator": "NotIn", "values": ["a"]}]}])),
            "b",
        ),
        // The scheduler compares volumes only with node labels, so a field with the node's name
        // never matches.
        (
            Some(json!([{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["a"]}]}])),
            "",
        ),
        (Some(json!([{}])), ""),
    ] {
        let volumes = vec![volume("pv", terms.clone())];
        let facts = facts(vec![bound("data", "pv", "ReadWriteOnce")], volumes);
        assert_eq!(judged(&facts, 1), (allowed.to_owned(), vec![]), "{terms:?}");
    }
}

#[test]
fn zone_labels_of_a_bound_volume_restrict_nodes_with_zones() {
    let mut zonal = volume("pv", None);
    let key = "topology.kubernetes.io/zone".to_owned();
    zonal.metadata.labels = Some(BTreeMap::from([(key, "z1__z2".to_owned())]));
    let rules = judge_volumes(
        &facts(vec![bound("data", "pv", "ReadWriteOnce")], vec![zonal]),
        1,
        &[],
        |_| true,
    );
    let zone = |zone: &str| node("x", &[("topology.kubernetes.io/zone", zone)]);
    assert_eq!(rules.unmet_claim(&zone("z2")), None);
    assert_eq!(rules.unmet_claim(&zone("z3")), Some("data"));
    assert_eq!(rules.unmet_claim(&node("x", &[])), None);
}

#[test]
fn missing_objects_never_fit_and_unreadable_ones_are_unknown() {
    let missing = facts(vec![job_claim("data", ClaimSource::Missing)], vec![]);
    assert_judged(&missing, 1, "abc", &["never claim-missing"]);
    let lost = facts(vec![bound("data", "gone", "ReadWriteOnce")], vec![]);
    assert_judged(&lost, 1, "abc", &["never volume-missing"]);
    let mut hidden = facts(vec![bound("data", "pv", "ReadWriteOnce")], vec![]);
    hidden.volumes = None;
    assert_judged(&hidden, 1, "abc", &["unknown volume-unreadable"]);
    let mut hidden = facts(vec![new("data", Some("zonal"))], vec![]);
    hidden.classes = None;
    assert_judged(&hidden, 1, "abc", &["unknown volume-unreadable"]);
    let absent = facts(vec![new("data", Some("absent"))], vec![]);
    assert_judged(&absent, 1, "abc", &["never storage-class-missing"]);
    let classless = facts(vec![new("data", None)], vec![]);
    assert_judged(&classless, 1, "abc", &["not-now claim-pending"]);
    let unreadable = ClaimSource::Unreadable("it is hidden".to_owned());
    let unreadable = facts(vec![job_claim("data", unreadable)], vec![]);
    assert_judged(&unreadable, 1, "abc", &["unknown claim-unreadable"]);
}

#[test]
fn only_the_newest_default_class_counts() {
    let mut facts = facts(vec![new("data", None)], vec![]);
    let default = |name: &str, topology: &str, created_at: &str| -> StorageClass {
        object(json!({
            "metadata": {"name": name, "creationTimestamp": created_at,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [
                {"key": "zone", "values": [topology]}]}],
        }))
    };
    facts.classes = Some(vec![
        default("old", "z1", "2026-01-01T00:00:00Z"),
        default("new", "z2", "2026-02-01T00:00:00Z"),
        default("newer-by-name", "z1", "2026-02-01T00:00:00Z"),
    ]);
    assert_judged(&facts, 1, "c", &[]);
}

#[test]
fn a_delayed_claim_needs_a_volume_or_a_provisioner_for_the_node() {
    let on = |name: &str, host: &str| volume(name, Some(json!([in_labels("host", "In", &[host])])));
    let local = |volumes| facts(vec![new("data", Some("local"))], volumes);
    assert_judged(&local(vec![on("pv", "b")]), 1, "b", &[]);
    assert_judged(&local(vec![on("pv", "a"), on("pw", "c")]), 1, "ac", &[]);
    assert_judged(&local(vec![]), 1, "abc", &["never claim-pending"]);
    let change = |change: &dyn Fn(&mut PersistentVolume)| {
        let mut volume = on("pv", "b");
        change(&mut volume);
        local(vec![volume])
    };
    let spec = |volume: &mut PersistentVolume, key: &str, value: Value| {
        let mut json = serde_json::to_value(&*volume).unwrap();
        json["spec"][key] = value;
        *volume = object(json);
    };
    for (key, value) in [
        ("capacity", json!({"storage": "4Gi"})),
        ("accessModes", json!(["ReadOnlyMany"])),
        ("storageClassName", json!("other")),
        ("volumeMode", json!("Block")),
    ] {
        let unsuitable = change(&|volume| spec(volume, key, value.clone()));
        assert_judged(&unsuitable, 1, "abc", &["never claim-pending"]);
    }
    let taken = change(&|volume| {
        spec(
            volume,
            "claimRef",
            json!({"name": "other", "namespace": "team"}),
        );
    });
    assert_judged(&taken, 1, "abc", &["not-now claim-pending"]);
    let reserved = change(&|volume| {
        spec(
            volume,
            "claimRef",
            json!({"name": "data", "namespace": "team"}),
        );
    });
    assert_judged(&reserved, 1, "b", &[]);
    // Two claims need two volumes that the same node reaches.
    let claims = || vec![new("data", Some("local")), new("logs", Some("local"))];
    let one_each = facts(claims(), vec![on("pv", "a"), on("pw", "b")]);
    assert_judged(&one_each, 1, "", &[]);
    let both = facts(claims(), vec![on("pv", "a"), on("pw", "a")]);
    assert_judged(&both, 1, "a", &[]);
    // Both pods mount the same volume, and either volume is possible.
    assert_judged(
        &local(vec![on("pv", "a"), on("pw", "c")]),
        2,
        "abc",
        &["unknown volume-topology"],
    );
    assert_judged(&local(vec![on("pv", "a")]), 2, "a", &[]);
}

#[test]
fn a_provisioner_restricts_nodes_by_its_topology() {
    let mut delayed = facts(vec![new("data", Some("zonal"))], vec![]);
    assert_judged(&delayed, 1, "abc", &[]);
    assert_judged(&delayed, 2, "abc", &["unknown volume-topology"]);
    delayed.csi_nodes = Some(driver(&[]));
    assert_judged(&delayed, 2, "abc", &[]);
    delayed.csi_nodes = Some(driver(&["zone"]));
    assert_judged(&delayed, 2, "abc", &["unknown volume-topology"]);
    delayed.csi_nodes = None;
    assert_judged(&delayed, 2, "abc", &["unknown volume-unreadable"]);
    let mut early = facts(vec![new("data", Some("early"))], vec![]);
    assert_judged(&early, 1, "abc", &["unknown volume-topology"]);
    early.csi_nodes = Some(driver(&[]));
    assert_judged(&early, 1, "abc", &[]);
    early.csi_nodes = Some(driver(&["zone"]));
    assert_judged(&early, 1, "abc", &["unknown volume-topology"]);
    let in_zone_2 = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["z2"]}]}]);
    let classes = early.classes.as_mut().unwrap();
    classes[2].allowed_topologies = Some(object(in_zone_2));
    assert_judged(&early, 1, "c", &[]);
}

#[test]
fn a_claim_for_one_pod_is_in_use() {
    let only = |pods: &[&str]| {
        let claims = vec![bound("data", "pv", "ReadWriteOncePod")];
        let mut facts = facts(claims, vec![volume("pv", None)]);
        let user = |pod: &&str| VolumeUser {
            pod: (*pod).to_owned(),
            node: "a".to_owned(),
        };
        let users = pods.iter().map(user).collect();
        facts.users = Some(BTreeMap::from([("data".to_owned(), users)]));
        facts
    };
    assert_judged(&only(&[]), 1, "abc", &[]);
    assert_judged(&only(&["x"]), 1, "abc", &["not-now claim-in-use"]);
    assert_judged(&only(&[]), 2, "abc", &["never claim-in-use"]);
    let mut hidden = only(&[]);
    hidden.users = None;
    assert_judged(&hidden, 1, "abc", &["unknown claim-unreadable"]);
}

#[test]
fn an_attached_volume_of_another_pod_is_a_warning() {
    let attached = |modes: &[&str]| {
        let mut json = serde_json::to_value(volume("pv", None)).unwrap();
        json["spec"]["accessModes"] = json!(modes);
        json["spec"]["csi"] = json!({"driver": "disk.example.com", "volumeHandle": "1"});
        let claims = vec![bound("data", "pv", "ReadWriteOnce")];
        let mut facts = facts(claims, vec![object(json)]);
        let user = VolumeUser {
            pod: "x".to_owned(),
            node: "a".to_owned(),
        };
        facts.users = Some(BTreeMap::from([("data".to_owned(), vec![user])]));
        judge_volumes(&facts, 1, &nodes(), |_| true).warnings
    };
    let warnings = attached(&["ReadWriteOnce"]);
    assert!(
        warnings[0].contains("pod `x` uses it on node a"),
        "{warnings:?}"
    );
    assert!(attached(&["ReadWriteOnce", "ReadWriteMany"]).is_empty());
}
