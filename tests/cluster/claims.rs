//! Tests claims that outlive their jobs: `delete` reports them, `get claims` lists them, and only
//! `--purge` deletes them.

use serde_json::{Value, json};

use crate::support::Scene;

fn claims(scene: &Scene, extra: &[&str]) -> Vec<Value> {
    let arguments = [&["get", "claims", "-o", "json"], extra].concat();
    scene.gpuctl(&arguments).ok().json()["items"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn kept_claims_are_reported_listed_and_purged_on_request() {
    let scene = Scene::with_nodes("claims", 1);
    scene.create("a", "storage: {workdirs: [{path: /out, size: 3Gi}]}");
    scene.until("a", "running", None);
    scene.get_until(&["pvc", "a-out"], |claim| {
        claim["status"]["phase"] == "Bound"
    });
    let claim = claims(&scene, &[]).remove(0);
    assert_eq!(
        (&claim["name"], &claim["jobId"], &claim["jobExists"]),
        (&json!("a-out"), &json!("a"), &json!(true))
    );
    assert_eq!(claim["pods"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&claim["status"], &claim["lastUsedAt"]),
        (&json!("Bound"), &Value::Null)
    );
    let table = scene.gpuctl(&["get", "claims"]).ok().out;
    assert!(table.lines().nth(1).unwrap().contains("in use"), "{table}");
    assert!(claims(&scene, &["--unused"]).is_empty());

    let deleted = scene.gpuctl(&["delete", "job", "a"]).ok();
    assert_eq!(deleted.out, "a deleted: 1 GPU is free again\n");
    deleted.says("kept with its data: claim/a-out (3Gi); only `--purge` deletes it");
    let claim = claims(&scene, &["--unused"]).remove(0);
    assert_eq!(
        (&claim["jobExists"], &claim["pods"]),
        (&json!(false), &json!([]))
    );
    assert!(
        scene
            .gpuctl(&["get", "claims"])
            .ok()
            .out
            .contains("a (deleted)")
    );
    // Without `--purge`, no object is left to delete, and the error names the claim that holds the
    // data.
    scene
        .gpuctl(&["delete", "job", "a"])
        .exits(4)
        .says("kept from a deleted job with this name: claim/a-out (3Gi)");
    let purged = scene
        .gpuctl(&["delete", "job", "a", "--purge", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&purged["status"], &purged["purged"]),
        (&json!("deleted"), &json!(["claim/a-out (3Gi)"]))
    );
    scene.get_until(&["pvc"], |list| {
        list["items"].as_array().is_some_and(Vec::is_empty)
    });
    scene
        .gpuctl(&["get", "claims"])
        .ok()
        .says("no claims found");

    // Claims that gpuctl did not create are listed only with `--all`.
    scene.admin.apply(
        &json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "theirs", "namespace": "claims"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    assert!(claims(&scene, &[]).is_empty());
    let note = "1 claim that gpuctl did not create is not shown: gpuctl get claims --all";
    scene
        .gpuctl(&["get", "claims"])
        .ok()
        .says("no claims found")
        .says(note);
    assert!(
        !scene
            .gpuctl(&["get", "claims", "--all"])
            .ok()
            .err
            .contains(note)
    );
    assert_eq!(scene.gpuctl(&["get", "claims", "-o", "json"]).ok().err, "");
    let theirs = claims(&scene, &["--all"]).remove(0);
    assert_eq!(
        (&theirs["name"], &theirs["jobId"]),
        (&json!("theirs"), &Value::Null)
    );
    scene
        .gpuctl(&["get", "claims", "--all", "-o", "name"])
        .ok()
        .out
        .eq("claims/theirs\n")
        .then_some(())
        .unwrap();
}

#[test]
fn json_names_the_kept_claims() {
    let scene = Scene::with_nodes("claims-json", 1);
    scene.create("a", "storage: {workdirs: [{path: /out, size: 1Gi}]}");
    let deleted = scene.gpuctl(&["delete", "job", "a", "-o", "json"]).ok();
    assert_eq!(deleted.json()["kept"], json!(["claim/a-out (1Gi)"]));
    assert_eq!(deleted.err, "");
    scene
        .gpuctl(&["delete", "job", "a", "--purge", "--yes"])
        .ok()
        .says("deleted with its data: claim/a-out (1Gi)");
}
