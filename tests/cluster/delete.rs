//! Tests that `delete` removes every object of a job, frees its GPUs, and touches nothing else.

use gpuctl_sandbox::{Persona, Tty};
use serde_json::json;

use crate::support::{Scene, cluster, file, items};

#[test]
fn delete_removes_all_objects_and_frees_the_gpus() {
    let scene = Scene::with_nodes("deletes", 1);
    scene.create("a", "job: {name: NAME, priority: high}\nresources: {pool: POOL, gpu: 8}\nstorage: {workdirs: [{path: /scratch, emptyDir: true}]}");
    scene.until("a", "running", None);
    let run = scene.gpuctl(&["delete", "job", "a"]).ok();
    assert_eq!(run.out, "a deleted: 8 GPUs are free again\n");
    for kind in ["jobs", "services", "configmaps", "pods"] {
        assert!(
            items(&scene.get(&[kind, "-l", "gpuctl/job=a"])).is_empty(),
            "{kind}"
        );
    }
    // The priority class is shared between jobs, so it stays.
    scene.admin.run(&["get", "priorityclass", "gpuctl-high"]);
    scene.create("b", "resources: {pool: POOL, gpu: 8}");
    scene.until("b", "running", None);
}

#[test]
fn kubectl_delete_of_a_job_leaves_nothing() {
    let scene = Scene::with_nodes("plaindelete", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    scene
        .admin
        .run(&["delete", "job", "a", "-n", "plaindelete"]);
    scene.get_until(&["services,pods", "-l", "gpuctl/job=a"], |left| {
        items(left).is_empty()
    });
}

#[test]
fn force_does_not_wait_for_the_containers() {
    let scene = Scene::with_nodes("force", 1);
    scene.create("a", "job: {name: NAME, grace_period: 1h}");
    scene.until("a", "running", None);
    assert_eq!(
        scene.pods("a")[0]["spec"]["terminationGracePeriodSeconds"],
        3600
    );
    scene.gpuctl(&["delete", "job", "a", "--force"]).ok();
    assert!(scene.pods("a").is_empty());
}

#[test]
fn unknown_names_get_suggestions_from_this_and_other_namespaces() {
    let scene = Scene::with_nodes("unknown", 1);
    scene.create("bert-large", "");
    scene
        .gpuctl(&["delete", "job", "bert-larg"])
        .exits(4)
        .says("job `bert-larg` does not exist in namespace `unknown`")
        .says("did you mean `bert-large`?");
    scene
        .gpuctl_anywhere(&["delete", "job", "bert-large"])
        .exits(4)
        .says("did you mean `unknown/bert-large`?");
    // A copied suggestion works: it names the namespace, and does not contradict `-n`.
    scene
        .gpuctl_anywhere(&["describe", "job", "bert-larg"])
        .exits(4)
        .says("did you mean `unknown/bert-large`?");
    scene
        .gpuctl_anywhere(&["describe", "job", "unknown/bert-larg"])
        .exits(4)
        .says("did you mean `unknown/bert-large`?");
    scene
        .gpuctl_anywhere(&["-n", "default", "describe", "job", "bert-large"])
        .exits(4)
        .says("did you mean `unknown/bert-large` without `-n`?");
    scene
        .gpuctl(&["delete", "job", "nothing-like-it", "--ignore-not-found"])
        .ok();
    scene
        .gpuctl(&["delete", "job", "../pods/x"])
        .exits(2)
        .says("is not a valid namespace");
    scene
        .gpuctl_anywhere(&["delete", "job", "unknown/bert-large"])
        .ok();
}

#[test]
fn a_job_that_gpuctl_did_not_create_is_not_deleted() {
    let scene = Scene::new("notours");
    scene.admin.run(&[
        "create",
        "job",
        "theirs",
        "--image=busybox",
        "-n",
        "notours",
    ]);
    scene
        .gpuctl(&["delete", "job", "theirs"])
        .exits(1)
        .says("was not created by gpuctl");
    scene.admin.run(&["get", "job", "theirs", "-n", "notours"]);
}

#[test]
fn delete_by_file_keeps_claims_for_the_next_job_of_the_name() {
    let scene = Scene::with_nodes("files", 1);
    let yaml = scene.training("a", "storage: {workdirs: [{path: /out, size: 1Gi}]}");
    let path = file("files.yaml", &yaml);
    let path = path.to_str().unwrap();
    scene.gpuctl(&["create", "-f", path]).ok();
    scene.until("a", "running", None);
    let claim = scene.get(&["pvc", "a-out"]);
    assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteOnce"]));
    scene.gpuctl(&["delete", "-f", path]).ok();
    assert_eq!(
        scene.get(&["pvc", "a-out"])["metadata"]["uid"],
        claim["metadata"]["uid"]
    );
    scene
        .gpuctl(&["create", "-f", path])
        .ok()
        .says("reusing persistentvolumeclaim/a-out from an earlier job with this name");
    scene.gpuctl(&["delete", "-f", path, "--purge"]).ok();
    scene.get_until(&["pvc"], |claims| items(claims).is_empty());
    scene.gpuctl(&["delete", "-f", path]).exits(4);
    scene
        .gpuctl(&["delete", "-f", path, "--ignore-not-found"])
        .ok();
}

#[test]
fn a_timeout_names_the_finalizer_that_holds_the_job() {
    let scene = Scene::with_nodes("held", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    scene.admin.run(&[
        "patch",
        "job",
        "a",
        "-n",
        "held",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["example.com/keep"]}}"#,
    ]);
    scene
        .gpuctl(&["delete", "job", "a", "--timeout", "2s"])
        .exits(7)
        .says("held by example.com/keep");
    assert_eq!(scene.job("a")["status"], "terminating");
    scene.admin.run(&[
        "patch",
        "job",
        "a",
        "-n",
        "held",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ]);
    scene
        .seen_by(Persona::Admin)
        .get_until(&["jobs"], |jobs| items(jobs).is_empty());
}

#[test]
fn delete_removes_leftovers_of_an_interrupted_create() {
    let scene = Scene::with_nodes("leftover", 1);
    let dry = scene
        .gpuctl_with(
            &["create", "-f", "-", "--dry-run=client", "-o", "json"],
            &scene.training("a", ""),
        )
        .ok();
    let service = items(&dry.json())
        .into_iter()
        .find(|object| object["kind"] == "Service")
        .unwrap();
    scene.admin.run_with(
        &[
            "apply",
            "--server-side",
            "--field-manager=gpuctl",
            "-f",
            "-",
        ],
        &service.to_string(),
    );
    scene.gpuctl(&["delete", "job", "a"]).ok();
    assert!(items(&scene.get(&["services", "-l", "gpuctl/job=a"])).is_empty());
}

#[test]
fn a_deleted_job_is_listed_until_its_pods_release_their_gpus() {
    let scene = Scene::with_nodes("stillending", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 4}");
    scene.until("a", "running", None);
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    scene.admin.run(&[
        "annotate",
        "pod",
        &pod,
        "-n",
        "stillending",
        "sandbox/silent=true",
    ]);
    scene.admin.run(&[
        "delete",
        "job",
        "a",
        "-n",
        "stillending",
        "--cascade=background",
        "--wait=false",
    ]);
    scene.get_until(&["jobs"], |jobs| items(jobs).is_empty());
    let job = scene.until("a", "terminating", None);
    assert_eq!(
        (&job["gpuHeld"], &job["kind"], &job["pool"]),
        (&json!(4), &json!("training"), &json!("stillending"))
    );
    let described = scene
        .gpuctl(&["describe", "job", "a", "-o", "json"])
        .ok()
        .json();
    let objects = described["k8sResources"]["objects"].as_array().unwrap();
    assert!(
        !objects.contains(&json!("job/a")),
        "the Job object no longer exists: {described:#}"
    );
    // Checks that the name is free again. On a dead node, the pod would otherwise hold it forever.
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--dry-run=server"],
            &scene.training("a", ""),
        )
        .ok();
    scene
        .gpuctl_with(
            &["apply", "-f", "-", "--dry-run=server"],
            &scene.training("a", ""),
        )
        .ok();
    scene
        .gpuctl(&["pause", "job", "a"])
        .exits(4)
        .says("was deleted, but 1 pod is still terminating")
        .says("hint: gpuctl wait stillending/a --for deleted");
    scene
        .gpuctl(&["delete", "job", "a", "--timeout", "2s"])
        .exits(7)
        .says(&format!("pod/{pod}"))
        .says("--force");
    let run = scene.gpuctl(&["delete", "job", "a", "--force"]).ok();
    assert_eq!(run.out, "a deleted: 4 GPUs are free again\n");
    assert!(scene.pods("a").is_empty());
    scene.gpuctl(&["describe", "job", "a"]).exits(4);
}

/// On a terminal, a progress line counts the deleted jobs.
#[test]
fn the_progress_line_never_mixes_with_results() {
    let scene = Scene::with_nodes("bars", 1);
    let names = ["t0", "t1", "t2", "t3"];
    let documents = names.map(|name| scene.training(name, "")).join("---\n");
    let yaml = file("bars.yaml", &documents);
    let kubeconfig = cluster().kubeconfig(Persona::Admin).display().to_string();
    let environment = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("GPUCTL", env!("CARGO_BIN_EXE_gpuctl")),
        ("GPUCTL_PROMETHEUS", "none"),
    ];
    scene.gpuctl_with(&["create", "-f", "-"], &documents).ok();
    names
        .iter()
        .for_each(|name| drop(scene.until(name, "running", None)));
    let line = format!(
        "\"$GPUCTL\" -n bars delete -f {}; echo exit code $?; sleep 60",
        yaml.display()
    );
    let tty = Tty::start(&line, (80, 24), &environment);
    let text = tty.sees("exit code 0");
    let printed: Vec<&str> = text
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let expected = names
        .iter()
        .rev()
        .map(|name| format!("{name} deleted: 1 GPU is free again"));
    let next = ["hint: gpuctl free", "exit code 0"].map(ToOwned::to_owned);
    assert_eq!(printed, expected.chain(next).collect::<Vec<_>>(), "{text}");
}

/// Makes a node look as if its kubelet had stopped. The node controller writes this condition.
pub fn silence(scene: &Scene, node: &str) {
    // The simulated kubelet would set the condition again.
    scene.admin.run(&["label", "node", node, "type-"]);
    let patch = json!({"status": {"conditions": [{
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }]}});
    scene.admin.run(&[
        "patch",
        "node",
        node,
        "--subresource=status",
        "-p",
        &patch.to_string(),
    ]);
}

/// The containers of a dead node may continue, and no other pod can use its GPUs.
#[test]
fn forced_deletion_on_a_silent_node_does_not_claim_free_gpus() {
    let scene = Scene::with_nodes("force-silent", 1);
    for name in ["a", "b", "c"] {
        scene.create(name, "resources: {pool: POOL, gpu: 2}");
    }
    for name in ["a", "b", "c"] {
        scene.until(name, "running", None);
    }
    silence(&scene, "force-silent-0");
    let run = scene
        .gpuctl(&["delete", "job", "a", "--force"])
        .ok()
        .says("force-silent-0 does not respond (NodeStatusUnknown): containers of job `a` may still be running there: a-0-");
    assert_eq!(
        run.out,
        "a deleted: 2 GPUs stay in use on force-silent-0 until the node responds again or is removed\n"
    );
    let deleted = scene
        .gpuctl(&["delete", "job", "b", "--force", "-o", "json"])
        .ok()
        .json();
    let unconfirmed = &deleted["unconfirmed"][0];
    assert_eq!(
        (
            &unconfirmed["node"],
            &unconfirmed["gpu"],
            &unconfirmed["reason"]
        ),
        (
            &json!("force-silent-0"),
            &json!(2),
            &json!("NodeStatusUnknown")
        )
    );
    assert!(
        unconfirmed["containers"][0]
            .as_str()
            .is_some_and(|name| name.starts_with("b-0-") && name.ends_with("/main")),
        "{deleted:#}"
    );
    // Without the right to read nodes, it is unknown whether the GPUs are free.
    scene.allow_edit(Persona::Frank);
    let run = scene
        .seen_by(Persona::Frank)
        .gpuctl(&["delete", "job", "c", "--force"])
        .ok()
        .says("force-silent-0 cannot be read");
    assert_eq!(
        run.out,
        "c deleted: it is unknown whether 2 GPUs on force-silent-0 are free\n"
    );
}

#[test]
fn forced_deletion_on_a_removed_node_frees_its_gpus() {
    let scene = Scene::with_nodes("force-removed", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 2}");
    scene.until("a", "running", None);
    scene.admin.run(&["delete", "node", "force-removed-0"]);
    let deleted = scene
        .gpuctl(&["delete", "job", "a", "--force", "-o", "json"])
        .ok()
        .json();
    assert_eq!(deleted["unconfirmed"], json!(null), "{deleted:#}");
}
