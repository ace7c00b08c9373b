//! Tests how gpuctl reports that the cluster refuses objects, before the first write or after some
//! writes. Quotas on object counts, policies and webhooks cause this.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::applying::{apply, service};
use crate::support::{Scene, cluster, file, items};

#[test]
fn an_inference_on_two_nodes_needs_leader_worker_set() {
    let scene = Scene::new("two-nodes");
    let text = "kind: inference\nversion: v0.1\njob: {name: big}\nenvironment: {image: i, command: [vllm, serve, m]}\n\
                resources: {node_count: 2}\nservice: {port: 8000}\n";
    let run = scene.gpuctl_with(&["create", "-f", "-"], text).exits(3);
    run.says("an inference on 2 nodes needs LeaderWorkerSet, but this cluster does not serve it");
}

#[test]
fn a_refusal_during_writes_affects_only_its_own_document() {
    let scene = Scene::new("middle");
    // The quota counts objects only when they are written, so each document passes the check
    // separately.
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "two", "namespace": "middle"},
        "spec": {"hard": {"count/deployments.apps": "2"}}}));
    scene.get_until(&["resourcequota", "two"], |quota| {
        quota["status"]["hard"].is_object()
    });
    let documents = |names: [&str; 3]| {
        names
            .map(|name| service(name, 0, "nginx:1", ""))
            .join("---\n")
    };
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-", "-o", "json"],
            &documents(["a", "b", "c"]),
        )
        .exits(1)
        .json();
    // The documents are sent concurrently, so any of them may be the one that exceeds the quota.
    let created_names = |run: &Value| -> Vec<String> {
        run["success"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (
            created_names(&run).len(),
            run["failed"].as_array().unwrap().len()
        ),
        (2, 1),
        "{run}"
    );
    assert_eq!(run["failed"][0]["error"], "QuotaExceeded");
    let services = || -> Vec<String> {
        let list = items(&scene.get(&["services", "-l", "app.kubernetes.io/managed-by=gpuctl"]));
        list.iter()
            .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        services(),
        created_names(&run),
        "objects of the refused document are removed"
    );
    scene
        .admin
        .run(&["delete", "resourcequota", "two", "-n", "middle"]);

    // This policy allows dry runs.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "middle"},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]},
            "validations": [{"expression": "request.dryRun || object.metadata.namespace != 'middle' || object.metadata.name != 'e'",
                "message": "not today"}]}});
    let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "middle"}, "spec": {"policyName": "middle", "validationActions": ["Deny"]}});
    scene.admin.apply(&policy);
    scene.admin.apply(&binding);
    // The policy takes effect after a moment.
    let limit = Duration::from_secs(60);
    eventually("the policy takes effect", limit, || {
        let run = scene.gpuctl_with(
            &["create", "-f", "-", "--keep-partial", "-o", "json"],
            &documents(["d", "e", "f"]),
        );
        if run.code == 1 {
            let run = run.json();
            assert_eq!(
                (
                    run["success"].as_array().unwrap().len(),
                    &run["failed"][0]["name"]
                ),
                (2, &json!("e"))
            );
            let message = run["failed"][0]["message"].as_str().unwrap();
            assert!(
                message.contains("not today") && message.contains("not removed: service/e"),
                "{message}"
            );
            return true;
        }
        scene
            .gpuctl_with(&["delete", "-f", "-"], &documents(["d", "e", "f"]))
            .ok();
        false
    });
    let kept: Vec<String> = created_names(&run)
        .into_iter()
        .chain(["d", "e", "f"].map(ToOwned::to_owned))
        .collect();
    assert_eq!(services(), kept, "--keep-partial keeps it");
    scene
        .admin
        .run(&["delete", "validatingadmissionpolicybinding", "middle"]);
    let all = format!(
        "{}---\n{}",
        documents(["a", "b", "c"]),
        documents(["d", "e", "f"])
    );
    // Retries until the deletion of the policy takes effect.
    eventually("the policy has no effect", limit, || {
        apply(&scene, &all).code == 0
    });
    let path = file("middle.yaml", &all);
    let deleted = scene
        .gpuctl(&["delete", "-f", path.to_str().unwrap(), "-o", "json"])
        .ok()
        .json();
    assert_eq!(deleted["success"].as_array().unwrap().len(), 6);
    scene
        .gpuctl(&["delete", "-f", path.to_str().unwrap()])
        .exits(1);
    scene
        .gpuctl(&["delete", "-f", path.to_str().unwrap(), "--ignore-not-found"])
        .ok();
}

#[test]
fn a_webhook_may_refuse_the_dry_run_or_the_write() {
    let scene = Scene::new("hooked");
    let documents = |names: &[&str]| {
        names
            .iter()
            .map(|name| service(name, 0, "nginx:1", ""))
            .collect::<Vec<_>>()
            .join("---\n")
    };
    // For `b`, the webhook allows the dry run and denies the write, as a webhook that counts
    // requests would. It denies `never` in both cases.
    let judge = |request: &Value| match request["name"].as_str() {
        Some("b") if request["dryRun"] != true => {
            Some(json!({"code": 403, "message": "not today"}))
        }
        Some("never") => Some(json!({"message": "not on any day"})),
        _ => None,
    };
    cluster().judge_by("hooked", "apps/v1/deployments", Box::new(judge));
    let create =
        |names: &[&str]| scene.gpuctl_with(&["create", "-f", "-", "-o", "json"], &documents(names));
    let names = |list: &Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    // The webhook takes effect after a moment.
    let limit = Duration::from_secs(60);
    let run = eventually("the webhook takes effect", limit, || {
        let run = create(&["a", "b", "c"]);
        if run.code != 0 {
            return Some(run.exits(1).json());
        }
        scene
            .gpuctl_with(&["delete", "-f", "-"], &documents(&["a", "b", "c"]))
            .ok();
        None
    });
    assert_eq!(
        (names(&run["success"]), names(&run["failed"])),
        (vec!["a".to_owned(), "c".to_owned()], vec!["b".to_owned()])
    );
    assert_eq!(run["failed"][0]["error"], "WebhookDenied");
    assert!(
        run["failed"][0]["message"]
            .as_str()
            .unwrap()
            .contains("not today"),
        "{run:#}"
    );
    let services = || {
        names(&json!(
            items(&scene.get(&["services"]))
                .into_iter()
                .map(|one| one["metadata"].clone())
                .collect::<Vec<_>>()
        ))
    };
    assert_eq!(services(), ["a", "c"], "objects of `b` are removed");

    let run = create(&["d", "never", "e"]).exits(1).json();
    assert_eq!(
        (names(&run["failed"]), names(&run["notTried"])),
        (
            vec!["never".to_owned()],
            vec!["d".to_owned(), "e".to_owned()]
        )
    );
    assert_eq!(run["failed"][0]["error"], "WebhookDenied");
    assert_eq!(services(), ["a", "c"], "nothing was written");
    // Existing objects are not created again, so the webhook is not called.
    scene
        .gpuctl_with(
            &["apply", "-f", "-"],
            &documents(&["a", "c"]).replace("nginx:1", "nginx:2"),
        )
        .ok();
    scene
        .admin
        .run(&["delete", "validatingwebhookconfiguration", "hooked"]);
}
