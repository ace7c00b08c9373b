//! Compares what `fit` says about jobs with volumes with what the real scheduler does with them.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster, items};

/// A scene with two nodes, each with the label `rack`: `r0` and `r1`.
fn with_racks(name: &'static str) -> Scene {
    let scene = Scene::new(name);
    let nodes: Vec<Value> = (0..2)
        .map(|index| {
            let mut node = in_pool(
                node(&format!("{name}-{index}"), Some(A100), &[(GPU, 8)]),
                name,
            );
            node["metadata"]["labels"]["rack"] = json!(format!("r{index}"));
            node
        })
        .collect();
    cluster().add_nodes(&nodes);
    scene
}

/// Creates a volume and a claim `data` with this access mode, and waits until they are bound. The
/// class does not exist, so nothing else gets the volume.
fn bind(scene: &Scene, mode: &str, affinity: &Value) {
    let name = scene.name;
    let mut spec = json!({"storageClassName": name, "capacity": {"storage": "1Gi"},
        "accessModes": [mode], "hostPath": {"path": "/data"}});
    if affinity.is_array() {
        spec["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": affinity}});
    }
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name}, "spec": spec}));
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": name},
        "spec": {"storageClassName": name, "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}}}}));
    scene.get_until(&["pvc", "data"], |claim| {
        claim["status"]["phase"] == "Bound"
    });
}

fn with_claim(scene: &Scene, name: &str) -> String {
    scene.training(name, "storage: {workdirs: [{path: /data, pvc: data}]}")
}

/// A training that creates a claim of this class.
fn with_class(scene: &Scene, name: &str, class: &str) -> String {
    let workdir = format!("{{path: /data, size: 1Gi, storageClass: {class}}}");
    scene.training(name, &format!("storage: {{workdirs: [{workdir}]}}"))
}

fn fit(scene: &Scene, job: &str) -> Value {
    scene
        .gpuctl_with(&["fit", "-f", "-", "-o", "json"], job)
        .json()["items"][0]
        .clone()
}

fn create(scene: &Scene, job: &str) {
    scene
        .gpuctl_with(&["create", "-f", "-", "--allow-pending"], job)
        .ok();
}

/// The names of the nodes on which `fit` found capacity.
fn usable_nodes(answer: &Value) -> Value {
    let groups = answer["nodes"].as_array().unwrap().iter();
    let usable = groups.filter(|group| group["cause"].is_null());
    json!(
        usable
            .flat_map(|group| group["names"].as_array().unwrap().clone())
            .collect::<Vec<_>>()
    )
}

/// The names of the nodes on which `fit` found this cause.
fn names_with(answer: &Value, cause: &str) -> Value {
    let mut groups = answer["nodes"].as_array().unwrap().iter();
    let group = groups.find(|group| group["cause"] == cause);
    group.map_or(Value::Null, |group| group["names"].clone())
}

/// Waits until the scheduler has reported why it cannot place the job's pod.
fn scheduler_message(scene: &Scene, job: &str) -> String {
    eventually("the scheduler has tried", Duration::from_secs(60), || {
        let pods = scene.pods(job);
        let conditions = pods.iter().flat_map(|pod| {
            pod["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        });
        let mut unplaced = conditions.filter(|condition| {
            condition["type"] == "PodScheduled" && condition["status"] == "False"
        });
        unplaced
            .next()
            .and_then(|condition| condition["message"].as_str().map(ToOwned::to_owned))
            .ok_or(pods)
    })
}

#[test]
fn a_volume_with_node_affinity_restricts_the_nodes() {
    let scene = with_racks("fit-affinity");
    let terms = json!([{"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["fit-affinity-1"]}]}]);
    bind(&scene, "ReadWriteOnce", &terms);
    let job = with_claim(&scene, "pinned");
    let answer = fit(&scene, &job);
    assert_eq!(answer["verdict"], "now", "{answer:#}");
    assert_eq!(usable_nodes(&answer), json!(["fit-affinity-1"]));
    let text = scene.gpuctl_with(&["fit", "-f", "-"], &job).ok().out;
    assert!(
        text.contains("\n  1 node: volume-topology data (fit-affinity-0)\n"),
        "{text}"
    );
    create(&scene, &job);
    let pods = scene.get_until(&["pods", "-l", "gpuctl/job=pinned"], |list| {
        items(list)
            .iter()
            .any(|pod| pod["spec"]["nodeName"].is_string())
    });
    assert_eq!(items(&pods)[0]["spec"]["nodeName"], "fit-affinity-1");
    // The volume exists only on a node that the job does not accept.
    let elsewhere = format!("{job}pod: {{nodeSelector: {{rack: r0}}}}\n").replace("pinned", "lost");
    let answer = fit(&scene, &elsewhere);
    assert_eq!(answer["verdict"], "never", "{answer:#}");
    create(&scene, &elsewhere);
    let message = scheduler_message(&scene, "lost");
    assert!(message.contains("node(s)"), "{message}");
}

#[test]
fn a_delayed_class_with_topologies_restricts_the_nodes() {
    let scene = with_racks("fit-late");
    scene.admin.apply(
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fit-late"}, "provisioner": "example.com/absent",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "rack", "values": ["r1"]}]}]}),
    );
    let job = with_class(&scene, "late", "fit-late");
    let answer = fit(&scene, &job);
    assert_eq!(answer["verdict"], "now", "{answer:#}");
    assert_eq!(usable_nodes(&answer), json!(["fit-late-1"]));
    create(&scene, &job);
    // The pod has no node until the volume exists, but the claim names the scheduler's choice.
    let claim = scene.get_until(&["pvc", "late-data"], |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string()
    });
    let annotations = &claim["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/selected-node"],
        "fit-late-1"
    );
    // Nothing creates volumes of this class, and there are none.
    scene.admin.apply(
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fit-late-by-hand"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    let job = with_class(&scene, "by-hand", "fit-late-by-hand");
    let answer = fit(&scene, &job);
    assert_eq!(answer["verdict"], "never", "{answer:#}");
    assert_eq!(answer["causes"][0]["cause"], "claim-pending");
    create(&scene, &job);
    let message = scheduler_message(&scene, "by-hand");
    assert!(
        message.contains("didn't find available persistent volumes"),
        "{message}"
    );
}

#[test]
fn a_claim_without_its_class_never_fits() {
    let scene = with_racks("fit-no-class");
    let job = with_class(&scene, "classless", "fit-no-such-class");
    let run = scene.gpuctl_with(&["fit", "-f", "-", "-o", "json"], &job);
    let answer = run.exits(9).json()["items"][0].clone();
    assert_eq!(answer["verdict"], "never", "{answer:#}");
    assert_eq!(answer["causes"][0]["cause"], "storage-class-missing");
    assert_eq!(
        answer["reasons"][0],
        "claim `classless-data` requests storage class `fit-no-such-class`, which does not exist"
    );
    create(&scene, &job);
    scheduler_message(&scene, "classless");
    thread::sleep(Duration::from_secs(3));
    let pods = scene.pods("classless");
    assert!(pods[0]["spec"]["nodeName"].is_null(), "{pods:#?}");
    let missing = scene.training("absent", "storage: {workdirs: [{path: /d, pvc: absent}]}");
    let answer = fit(&scene, &missing);
    assert_eq!(answer["verdict"], "never", "{answer:#}");
    assert_eq!(answer["causes"][0]["cause"], "claim-missing");
}

#[test]
fn a_claim_for_one_pod_does_not_fit_while_it_is_in_use() {
    let scene = with_racks("fit-one-pod");
    bind(&scene, "ReadWriteOncePod", &Value::Null);
    let first = with_claim(&scene, "first");
    assert_eq!(fit(&scene, &first)["verdict"], "now");
    create(&scene, &first);
    scene.until("first", "running", None);
    let second = with_claim(&scene, "second");
    let run = scene.gpuctl_with(&["fit", "-f", "-", "-o", "json"], &second);
    let answer = run.exits(8).json()["items"][0].clone();
    assert_eq!(answer["causes"][0]["cause"], "claim-in-use", "{answer:#}");
    create(&scene, &second);
    let message = scheduler_message(&scene, "second");
    assert!(message.contains("ReadWriteOncePod"), "{message}");
}

#[test]
fn fit_does_not_guess_about_volumes_that_the_user_cannot_read() {
    let scene = with_racks("fit-hidden");
    bind(&scene, "ReadWriteOnce", &Value::Null);
    let job = with_claim(&scene, "hidden");
    assert_eq!(fit(&scene, &job)["verdict"], "now");
    scene.allow_edit(Persona::Heidi);
    // Heidi can also read nodes and pods everywhere, but no volumes.
    scene.admin.run(&[
        "create",
        "clusterrole",
        "fit-hidden",
        "--verb=get,list",
        "--resource=nodes,pods",
    ]);
    scene.admin.run(&[
        "create",
        "clusterrolebinding",
        "fit-hidden",
        "--clusterrole=fit-hidden",
        &format!("--user={}", Persona::Heidi.user()),
    ]);
    let heidi = scene.seen_by(Persona::Heidi);
    let answer = eventually("Heidi can list nodes", Duration::from_secs(20), || {
        let answer = fit(&heidi, &job);
        match answer["podsNow"].is_null() {
            true => Err(answer),
            false => Ok(answer),
        }
    });
    scene
        .admin
        .run(&["delete", "clusterrolebinding,clusterrole", "fit-hidden"]);
    assert_eq!(answer["verdict"], "unknown", "{answer:#}");
    let causes = answer["causes"].as_array().unwrap();
    let hidden = json!("volume-unreadable");
    let cause = causes
        .iter()
        .find(|cause| cause["cause"] == hidden)
        .unwrap();
    assert_eq!(cause["decided"], false);
    let reason = cause["text"].as_str().unwrap();
    assert!(
        reason.starts_with(
            "the volume of claim `data`: you are not allowed to read persistentvolumes; ask your \
             administrator"
        ),
        "{reason}"
    );
    assert!(
        answer["reasons"]
            .as_array()
            .unwrap()
            .contains(&json!(reason)),
        "{answer:#}"
    );
}

#[test]
fn a_new_volume_needs_space_that_the_node_reaches() {
    let scene = with_racks("fit-space");
    let driver = "fit-space.example.com";
    scene.admin.apply(
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": driver}, "spec": {"attachRequired": false, "storageCapacity": true}}),
    );
    scene.admin.apply(
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fit-space"}, "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    scene.admin.apply(
        &json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "metadata": {"name": "fit-space", "namespace": "fit-space"},
        "storageClassName": "fit-space", "capacity": "10Gi",
        "nodeTopology": {"matchLabels": {"rack": "r1"}}}),
    );
    let job = with_class(&scene, "small", "fit-space");
    let answer = fit(&scene, &job);
    assert_eq!(answer["verdict"], "now", "{answer:#}");
    assert_eq!(usable_nodes(&answer), json!(["fit-space-1"]));
    assert_eq!(
        names_with(&answer, "storage-capacity"),
        json!(["fit-space-0"])
    );
    create(&scene, &job);
    let claim = scene.get_until(&["pvc", "small-data"], |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string()
    });
    assert_eq!(
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"],
        "fit-space-1"
    );
    // Space can become free.
    let large = with_class(&scene, "large", "fit-space").replace("size: 1Gi", "size: 20Gi");
    let answer = fit(&scene, &large);
    assert_eq!(answer["verdict"], "not-now", "{answer:#}");
    assert_eq!(usable_nodes(&answer), json!([]));
    create(&scene, &large);
    let message = scheduler_message(&scene, "large");
    assert!(
        message.contains("did not have enough free storage"),
        "{message}"
    );
}

/// Creates a claim with a volume of a CSI driver, and waits until they are bound.
fn bind_csi(scene: &Scene, claim: &str, driver: &str) {
    let name = format!("{}-{claim}", scene.name);
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"storageClassName": name, "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": driver, "volumeHandle": name}}}));
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": scene.name},
        "spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}));
    scene.get_until(&["pvc", claim], |claim| claim["status"]["phase"] == "Bound");
}

#[test]
fn a_node_takes_no_more_volumes_than_its_limit() {
    let scene = with_racks("fit-limit");
    let driver = "fit-limit.example.com";
    for (index, count) in [(0, 1), (1, 2)] {
        let name = format!("fit-limit-{index}");
        scene.admin.apply(
            &json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name}, "spec": {"drivers": [
                {"name": driver, "nodeID": name, "allocatable": {"count": count}}]}}),
        );
    }
    let job = |name: &str, more: &str| {
        let workdirs = format!("storage: {{workdirs: [{{path: /data, pvc: {name}}}]}}");
        format!("{}{more}\n", scene.training(name, &workdirs))
    };
    let on_first = "pod: {nodeSelector: {rack: r0}}";
    for claim in ["one", "two", "three"] {
        bind_csi(&scene, claim, driver);
    }
    create(&scene, &job("one", on_first));
    scene.until("one", "running", None);
    let second = job("two", "");
    let answer = fit(&scene, &second);
    assert_eq!(answer["verdict"], "now", "{answer:#}");
    assert_eq!(usable_nodes(&answer), json!(["fit-limit-1"]));
    assert_eq!(names_with(&answer, "volume-limit"), json!(["fit-limit-0"]));
    create(&scene, &second);
    scene.until("two", "running", None);
    assert_eq!(scene.pods("two")[0]["spec"]["nodeName"], "fit-limit-1");
    let third = job("three", on_first);
    let answer = fit(&scene, &third);
    assert_eq!(answer["verdict"], "not-now", "{answer:#}");
    create(&scene, &third);
    let message = scheduler_message(&scene, "three");
    assert!(message.contains("exceed max volume count"), "{message}");
}

/// Jobs without claims cost no requests for volumes, and others only those that they need.
#[test]
fn fit_reads_only_the_volumes_that_a_job_needs() {
    let scene = with_racks("fit-requests");
    bind(&scene, "ReadWriteMany", &Value::Null);
    let log = |job: &str| scene.gpuctl_with(&["fit", "-f", "-", "-vv"], job).ok().err;
    let plain = log(&scene.training("plain", ""));
    for resource in ["persistentvolume", "storageclasses", "csinodes"] {
        assert!(!plain.contains(resource), "{resource}: {plain}");
    }
    let with_volume = log(&with_claim(&scene, "mounts"));
    let requests = |path: &str| with_volume.matches(&format!("path=\"{path}\"")).count();
    assert_eq!(
        requests("/api/v1/namespaces/fit-requests/persistentvolumeclaims/data"),
        1,
        "{with_volume}"
    );
    assert_eq!(requests("/api/v1/persistentvolumes/fit-requests"), 1);
    assert_eq!(requests("/api/v1/persistentvolumes"), 0);
    assert_eq!(requests("/apis/storage.k8s.io/v1/storageclasses"), 0);
}
