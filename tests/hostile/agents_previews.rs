//! What agents see of variables that programs print, and of changes before they confirm them.

use serde_json::json;

use crate::agents::{Session, create, namespace};
use crate::support::cluster;

#[test]
fn variables_that_replicas_print_are_masked() {
    let admin = namespace("agent-replicas");
    let service = "kind: compute\nversion: v0.1\njob: {name: web}\nenvironment: {image: busybox}\nresources: {cpu: 100m}\n\
                   service: {replicas: 2, port: 80}\n";
    create("agent-replicas", service);
    let selector = ["get", "pods", "-n", "agent-replicas", "-l", "gpuctl/job=web"];
    let is_running = |pod: &serde_json::Value| pod["status"]["phase"] == "Running";
    let pods = admin
        .until(&selector, |pods| pods["items"].as_array().is_some_and(|pods| pods.len() == 2 && pods.iter().all(is_running)));
    let lines = [
        "MOTD=CANARY",
        "declare -rx A=\"CANARY\"",
        "http_proxy=http://CANARY",
        "environ({'MOTD': 'CANARY'})",
        "loss=0.4 lr=1e-4",
    ];
    for pod in pods["items"].as_array().unwrap() {
        let mut log = cluster().pod_log("agent-replicas", pod["metadata"]["name"].as_str().unwrap(), "main");
        lines.iter().for_each(|line| log.say(line));
    }
    let mut agent = Session::start(&["-n", "agent-replicas"]);
    let answer = agent.call("logs", json!({"job": "web"})).to_string();
    for shown in [" │ MOTD=[redacted]", "http_proxy=[redacted]", "loss=0.4 lr=1e-4"] {
        assert!(answer.contains(shown), "{shown}: {answer}");
    }
    assert!(!answer.contains("CANARY"), "{answer}");
}

#[test]
fn previews_mask_variables_in_whole_containers_and_commands() {
    namespace("agent-changes");
    let service = |more: &str| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: web}}\nenvironment:\n  image: busybox\n{more}resources: {{cpu: 100m}}\nservice: {{port: 80}}\n"
        )
    };
    let pod = "pod:\n  initContainers:\n    - {name: x, image: busybox, env: [{name: MOTD, value: CANARY}]}\n";
    create("agent-changes", &format!("{}{pod}", service("  command: [sh, -c, MOTD=CANARY train]\n")));
    let mut agent = Session::start(&["--allow-writes", "-n", "agent-changes"]);
    let answer = agent.call("apply_manifest", json!({"manifest": service("  command: [sh, -c, train]\n")})).to_string();
    assert!(answer.contains("initContainers") && answer.contains(" → ") && answer.contains("confirm"), "{answer}");
    assert!(!answer.contains("CANARY"), "{answer}");
}
