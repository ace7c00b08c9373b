//! Tests `label node`, `get label`, `get node-labels` and `get gpu-type`. Each node succeeds or
//! fails independently, and concurrent changes do not overwrite each other.

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::support::Scene;

fn label(scene: &Scene, node: &str, key: &str) -> Value {
    scene.admin.json(&["get", "node", node])["metadata"]["labels"][key].clone()
}

#[test]
fn labels_are_set_read_and_deleted() {
    let scene = Scene::with_nodes("labels", 2);
    let key = "nvidia.com/gpu-type";
    let one = scene
        .gpuctl(&[
            "label",
            "node",
            "labels-0",
            "nvidia.com/gpu-type=a100-80g",
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(
        (&one["nodeName"], &one["label"]),
        (
            &json!("labels-0"),
            &json!({"key": key, "value": "a100-80g"})
        )
    );
    let again = scene
        .gpuctl(&["label", "node", "labels-0", "nvidia.com/gpu-type=a100-80g"])
        .ok();
    assert_eq!(
        again.out,
        "labels-0: nvidia.com/gpu-type=a100-80g was already set\n"
    );
    let read = scene
        .gpuctl(&[
            "get",
            "label",
            "labels-0",
            &format!("--key={key}"),
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(
        (&read["label"]["value"], &read["label"]["createdAt"]),
        (&json!("a100-80g"), &Value::Null)
    );
    assert!(
        read["label"]["lastUpdatedAt"]
            .as_str()
            .unwrap()
            .ends_with('Z'),
        "{read}"
    );
    assert_eq!(
        scene
            .gpuctl(&["get", "node-labels", "labels-0", "--key", key])
            .ok()
            .out,
        "a100-80g\n"
    );
    let conflict = scene
        .gpuctl(&[
            "label",
            "node",
            "labels-0",
            "nvidia.com/gpu-type=h100",
            "-o",
            "json",
        ])
        .exits(1);
    assert_eq!(conflict.out, "");
    assert!(
        conflict.err.contains("\"LabelConflict\"") && conflict.err.contains("--overwrite"),
        "{}",
        conflict.err
    );
    let batch = scene.gpuctl(&[
        "label",
        "node",
        "labels-0",
        "labels-1",
        "nope",
        "nvidia.com/gpu-type=h100",
        "--overwrite",
        "-o",
        "json",
    ]);
    let batch = batch.exits(1).json();
    assert_eq!(batch["success"], json!(["labels-0", "labels-1"]));
    assert_eq!(
        (
            &batch["failed"][0]["nodeName"],
            &batch["failed"][0]["error"]
        ),
        (&json!("nope"), &json!("NodeNotFound"))
    );
    let listed_node = |verb: &str| {
        let all = scene
            .gpuctl(&["get", verb, "--all", "-o", "json"])
            .ok()
            .json();
        all["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|node| node["nodeName"] == "labels-1")
            .unwrap()
            .clone()
    };
    assert_eq!(
        listed_node("node-labels"),
        listed_node("gpu-type"),
        "two names of one verb; other tests add nodes in between"
    );
    let listed_node = listed_node("node-labels");
    assert_eq!(listed_node["boundPools"], json!(["labels"]));
    assert!(
        listed_node["gpuLabels"]
            .as_array()
            .unwrap()
            .contains(&json!({"key": key, "value": "h100"})),
        "{listed_node}"
    );
    let deleted = scene
        .gpuctl(&["label", "node", "labels-0", key, "--delete", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&deleted["nodeName"], &deleted["labelKey"]),
        (&json!("labels-0"), &json!(key))
    );
    assert_eq!(label(&scene, "labels-0", key), Value::Null);
    scene
        .gpuctl(&["label", "node", "labels-0", key, "--delete"])
        .exits(4)
        .says("has no label");
    scene
        .gpuctl(&["get", "label", "labels-0", "--key", key])
        .exits(4)
        .says("has no label `nvidia.com/gpu-type`");
    scene
        .gpuctl(&["get", "label", "nope"])
        .exits(4)
        .says("node `nope` does not exist");
    assert_eq!(
        label(&scene, "labels-0", "gpuctl/pool"),
        "labels",
        "other labels stay"
    );
}

#[test]
fn invalid_and_reserved_labels_are_refused_before_any_write() {
    let scene = Scene::with_nodes("bad-labels", 2);
    let nodes = |word: &str, code: i32, text: &str| {
        scene
            .gpuctl(&["label", "node", "bad-labels-0", "bad-labels-1", word])
            .exits(code)
            .says(text);
    };
    nodes("bad key=x", 2, "is not a valid label key");
    nodes("a=b c", 2, "is not a valid label value");
    nodes("a", 2, "has no value");
    nodes("gpuctl/pool=other", 2, "gpuctl add node NODE --pool POOL");
    nodes("kubernetes.io/arch=x", 2, "is reserved for Kubernetes");
    scene
        .gpuctl(&["label", "node", "bad-labels-0", "a=b", "--delete"])
        .exits(2)
        .says("--delete accepts only the key");
    scene.gpuctl(&["label", "node", "bad-labels-0"]).exits(2);
    assert_eq!(label(&scene, "bad-labels-1", "a"), Value::Null);
    scene
        .gpuctl(&[
            "label",
            "node",
            "bad-labels-0",
            "node.kubernetes.io/x=y",
            "--force",
        ])
        .ok();
    assert_eq!(label(&scene, "bad-labels-0", "node.kubernetes.io/x"), "y");
}

#[test]
fn concurrent_labels_on_one_node_are_all_kept() {
    let scene = Scene::with_nodes("label-race", 1);
    let children: Vec<_> = (0..6)
        .map(|index| {
            scene.start(&[
                "label",
                "node",
                "label-race-0",
                &format!("team.example.com/k{index}=v"),
            ])
        })
        .collect();
    for child in children {
        crate::support::finish(child, std::time::Duration::from_secs(60)).ok();
    }
    for index in 0..6 {
        assert_eq!(
            label(
                &scene,
                "label-race-0",
                &format!("team.example.com/k{index}")
            ),
            "v"
        );
    }
}

#[test]
fn labelling_without_rights_is_forbidden() {
    let scene = Scene::with_nodes("label-rights", 1);
    scene.allow_edit(Persona::Carol);
    scene
        .seen_by(Persona::Carol)
        .gpuctl(&["label", "node", "label-rights-0", "a=b"])
        .exits(5)
        .says("forbidden");
}

#[test]
fn a_dry_run_changes_no_label() {
    let scene = Scene::with_nodes("label-dry", 2);
    let key = "team.example.com/owner";
    let pair = format!("{key}=nlp");
    let version = || {
        let node = scene.admin.json(&["get", "node", "label-dry-0"]);
        node["metadata"]["labels"].clone()
    };
    let before = version();
    for place in ["client", "server"] {
        let dry_run = format!("--dry-run={place}");
        let set = scene.gpuctl(&["label", "node", "label-dry-0", &pair, &dry_run]);
        assert_eq!(
            set.ok().out,
            format!("label-dry-0: {pair} would be set ({place} dry run)\n")
        );
        let one = [
            "label",
            "node",
            "label-dry-0",
            &pair,
            &dry_run,
            "-o",
            "json",
        ];
        assert_eq!(scene.gpuctl(&one).ok().json()["dryRun"], place);
        let nodes = ["label", "node", "label-dry-0", "label-dry-1", &pair];
        let both = scene.gpuctl(&[&nodes[..], &[dry_run.as_str(), "-o", "json"]].concat());
        let both = both.ok().json();
        assert_eq!(
            (&both["dryRun"], &both["message"]),
            (&json!(place), &json!("2 of 2 nodes would be updated"))
        );
        let removed = ["label", "node", "label-dry-0", key, "--delete", &dry_run];
        scene.gpuctl(&removed).exits(4).says("has no label");
        let missing = ["label", "node", "label-dry-9", &pair, &dry_run];
        scene.gpuctl(&missing).exits(4);
    }
    assert_eq!(version(), before);
    scene.gpuctl(&["label", "node", "label-dry-0", &pair]).ok();
    let removed = scene.gpuctl(&["label", "node", "label-dry-0", key, "--delete", "--dry-run"]);
    assert_eq!(
        removed.ok().out,
        format!("label-dry-0: {key} would be removed (client dry run)\n")
    );
    assert_eq!(label(&scene, "label-dry-0", key), "nlp");
}
