//! Tests `kind: notebook`: its port, its token, which no output may show, and whether it keeps its
//! files and its node across pauses.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use serde_json::{Value, json};

use crate::support::{Scene, items};

const JUPYTER: &str = "environment:\n  image: jupyter\n  command: [jupyter-lab, --ip=0.0.0.0, --port=8888, --NotebookApp.token=s3cret-t0ken]\nservice: {port: 8000}";

fn node_of(scene: &Scene, name: &str) -> String {
    scene.until(name, "running", None);
    scene.pods(name).remove(0)["spec"]["nodeName"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn pause_and_wait(scene: &Scene, name: &str) {
    scene.gpuctl(&["pause", "job", name]).ok();
    let what = format!("the pod of {name} is deleted");
    eventually(&what, Duration::from_secs(60), || {
        scene.pods(name).is_empty()
    });
    assert_eq!(scene.job(name)["status"], "paused");
}

#[test]
fn the_service_targets_the_port_of_the_command() {
    let scene = Scene::with_nodes("nb-port", 1);
    let run = scene
        .notebook("lab", JUPYTER)
        .says("the command listens on 8888; `service.port` 8000 forwards to it");
    assert!(
        run.out
            .starts_with("notebook/lab created in nb-port: 1 pod × 1 a100-80g, pool nb-port\n"),
        "{}",
        run.out
    );
    let ports = scene.get(&["service", "lab"])["spec"]["ports"][0].clone();
    assert_eq!(
        (&ports["port"], &ports["targetPort"]),
        (&json!(8000), &json!(8888))
    );
    scene.notebook("bare", "");
    let ports = scene.get(&["service", "bare"])["spec"]["ports"][0].clone();
    assert_eq!(
        (&ports["port"], &ports["targetPort"]),
        (&json!(8888), &json!(8888))
    );
    scene
        .notebook("inside", "environment: {image: i, command: [jupyter, lab]}")
        .says("jupyter listens only inside its pod");
    scene.until("lab", "running", None);
}

#[test]
fn no_output_shows_the_token() {
    let scene = Scene::with_nodes("nb-token", 1);
    let created = scene.notebook("lab", JUPYTER);
    scene.until("lab", "running", None);
    let mut shown = created.out + &created.err;
    for arguments in [
        &["get", "jobs"][..],
        &["get", "jobs", "-o", "wide"],
        &["get", "jobs", "-o", "json"],
        &["get", "jobs", "-o", "csv"],
        &["describe", "job", "lab"],
        &["describe", "job", "lab", "-v"],
        &["events", "lab"],
        &["pause", "job", "lab"],
        &["resume", "job", "lab", "-o", "json"],
    ] {
        let run = scene.gpuctl(arguments).ok();
        shown += &run.out;
        shown += &run.err;
    }
    // No output format shows the token, neither on a terminal nor in a pipe.
    let line = "\"$GPUCTL\" -n nb-token describe job lab -o json";
    shown += &crate::sessions::in_terminal(&scene, line).out;
    assert!(!shown.contains("s3cret-t0ken"), "{shown}");
    assert!(
        !scene
            .gpuctl(&["describe", "job", "lab", "-o", "json"])
            .ok()
            .out
            .contains("s3cret-t0ken")
    );
    assert!(shown.contains("--NotebookApp.token=***"), "{shown}");
}

#[test]
fn a_notebook_has_exactly_one_pod() {
    let scene = Scene::with_nodes("nb-one", 1);
    scene.notebook("lab", "");
    scene.until("lab", "running", None);
    scene
        .gpuctl(&["scale", "lab", "--replicas", "2"])
        .exits(1)
        .says("is a notebook, which always has one pod");
    assert_eq!(
        scene.gpuctl(&["scale", "lab", "--replicas", "0"]).ok().out,
        "lab: paused; it had 1 replica\n"
    );
    let yaml = |extra: &str| {
        format!(
            "kind: notebook\nversion: v0.1\njob: {{name: x}}\nenvironment: {{image: i}}\n{extra}"
        )
    };
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml("service: {replicas: 2}"))
        .exits(3)
        .says("a notebook must have exactly one replica");
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &yaml("autoscaling: {maxReplicas: 2, targetCPUUtilization: 5}"),
        )
        .exits(3)
        .says("a notebook cannot have `autoscaling`");
    // Kubernetes accepts a StatefulSet with a longer name but never creates its pod.
    let long = yaml("").replace("name: x", &format!("name: {}", "n".repeat(53)));
    scene
        .gpuctl_with(&["create", "-f", "-"], &long)
        .exits(3)
        .says("a notebook name can have at most 52");
    let fits = long.replace(&"n".repeat(53), &"n".repeat(52));
    scene.gpuctl_with(&["create", "-f", "-"], &fits).ok();
    scene.until(&"n".repeat(52), "running", None);
}

#[test]
fn files_on_a_claim_survive_a_pause_and_a_deletion() {
    let scene = Scene::with_nodes("nb-claim", 1);
    let storage = "storage: {workdirs: [{path: /home/jovyan/work, size: 5Gi}]}";
    scene.notebook("lab", storage);
    scene.until("lab", "running", None);
    let claim = |scene: &Scene| items(&scene.get(&["pvc"])).remove(0);
    let before = claim(&scene);
    assert_eq!(
        before["spec"]["accessModes"],
        json!(["ReadWriteOnce"]),
        "one pod mounts it"
    );
    assert!(
        before["metadata"]["ownerReferences"].is_null(),
        "standalone"
    );
    pause_and_wait(&scene, "lab");
    assert_eq!(claim(&scene)["metadata"]["uid"], before["metadata"]["uid"]);
    scene.gpuctl(&["resume", "job", "lab"]).ok();
    scene.until("lab", "running", None);
    scene.gpuctl(&["delete", "job", "lab"]).ok();
    assert_eq!(claim(&scene)["metadata"]["uid"], before["metadata"]["uid"]);
    let run = scene.notebook("lab", storage).says(
        "reusing persistentvolumeclaim/lab-home-jovyan-work from an earlier job with this name",
    );
    assert!(run.out.contains("statefulset/lab"), "{}", run.out);
    scene.until("lab", "running", None);
    let mounted =
        scene.pods("lab").remove(0)["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
            .clone();
    assert_eq!(
        (mounted, claim(&scene)["metadata"]["uid"].clone()),
        (
            json!("lab-home-jovyan-work"),
            before["metadata"]["uid"].clone()
        )
    );
    scene.gpuctl(&["delete", "job", "lab", "--purge"]).ok();
    scene.get_until(&["pvc"], |list| items(list).is_empty());
}

#[test]
fn a_notebook_with_host_paths_resumes_on_its_node() {
    let scene = Scene::with_nodes("nb-node", 3);
    let host = "storage: {workdirs: [/home/jovyan/work]}";
    scene
        .notebook("lab", host)
        .says("host paths are local to each node, and 3 nodes are eligible");
    let node = node_of(&scene, "lab");
    pause_and_wait(&scene, "lab");
    // The scheduler would now prefer an emptier node.
    let blocker = format!(
        "resources: {{pool: POOL, gpu: 4}}\npod: {{nodeSelector: {{kubernetes.io/hostname: {node}}}}}"
    );
    scene.create("blocker", &blocker);
    scene.until("blocker", "running", None);
    scene.gpuctl(&["resume", "job", "lab"]).ok();
    assert_eq!(node_of(&scene, "lab"), node);
    pause_and_wait(&scene, "lab");
    scene.admin.run(&["cordon", &node]);
    scene.gpuctl(&["resume", "job", "lab"]).ok();
    let pending = scene.until("lab", "pending", Some("Unschedulable"));
    let ending = format!(
        "its files are on {node}; run `gpuctl resume job nb-node/lab --anywhere` to release it"
    );
    assert!(
        pending["message"].as_str().unwrap().ends_with(&ending),
        "{pending:#}"
    );
    assert_eq!(
        scene
            .gpuctl(&["resume", "job", "lab", "--anywhere"])
            .ok()
            .out,
        "lab: resumed with 1 pod on any node\n"
    );
    assert_ne!(node_of(&scene, "lab"), node);
    // Files on a claim do not tie the notebook to a node.
    scene.notebook("free", "storage: {workdirs: [{path: /w, size: 1Gi}]}");
    node_of(&scene, "free");
    pause_and_wait(&scene, "free");
    assert_eq!(
        scene.get(&["statefulset", "free"])["spec"]["template"]["spec"]["nodeSelector"],
        Value::Null
    );
}
