//! `why` of pods that a real kubelet and a real runtime do not start, or end: the words that the corpus in `tests/why/` simulates.

use serde_json::{Value, json};

use crate::support::{POOL, Scene, eventually};

/// A pod on the real node that runs this script, with further fields of its container and of its specification.
fn pod(scene: &Scene, name: &str, script: &str, container: &Value, spec: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "toolbox:1", "command": ["sh", "-c", script]});
    merge(&mut main, container);
    let mut whole = json!({"nodeSelector": {"gpuctl/pool": POOL}, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}], "containers": [main]});
    merge(&mut whole, spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": scene.name}, "spec": whole})
}

fn merge(base: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
}

#[test]
fn what_a_real_kubelet_says_is_understood() {
    let scene = Scene::new("real-why");
    let none = json!({});
    let secret = json!({"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}]});
    let settings = json!({"volumes": [{"name": "settings", "configMap": {"name": "train-settings"}}]});
    let folder =
        json!({"volumes": [{"name": "data", "hostPath": {"path": "/var/lib/gpuctl-sandbox/nowhere", "type": "Directory"}}]});
    let mounts = |name: &str| json!({"volumeMounts": [{"name": name, "mountPath": "/mnt"}]});
    let fetch = json!({"initContainers": [{"name": "fetch", "image": "toolbox:1", "command": ["sh", "-c", "sleep 300"]}]});
    let small = json!({"resources": {"limits": {"memory": "24Mi"}}});
    let again = json!({"restartPolicy": "Always"});
    // A shell ends with 128 + 11 when SIGSEGV ended its program, and a kubelet tells no more than that number.
    let cases: Vec<(&str, &str, Value)> = vec![
        ("image", "registry-unreachable", pod(&scene, "image", "true", &json!({"image": "nowhere.invalid/model:9"}), &none)),
        (
            "never",
            "image-missing",
            pod(&scene, "never", "true", &json!({"image": "absent:1", "imagePullPolicy": "Never"}), &none),
        ),
        ("secret", "secret-missing", pod(&scene, "secret", "true", &secret, &none)),
        ("settings", "configmap-missing", pod(&scene, "settings", "true", &mounts("settings"), &settings)),
        ("folder", "mount-failed", pod(&scene, "folder", "true", &mounts("data"), &folder)),
        ("typo", "start-error", pod(&scene, "typo", "", &json!({"command": ["no-such-program"]}), &none)),
        ("init", "init-running", pod(&scene, "init", "true", &none, &fetch)),
        ("code", "exit-code", pod(&scene, "code", "exit 37", &none, &none)),
        ("segv", "signal", pod(&scene, "segv", "exit 139", &none, &none)),
        ("memory", "oom-container", pod(&scene, "memory", "head -c 300000000 /dev/zero | tail", &small, &none)),
        ("loop", "crash-loop", pod(&scene, "loop", "exit 3", &none, &again)),
    ];
    let list: Vec<&Value> = cases.iter().map(|(.., pod)| pod).collect();
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": list}));
    for (name, cause, _) in &cases {
        eventually(&format!("{name} is {cause}"), || {
            let answer = scene.gpuctl(&["why", &format!("pod/{name}"), "-o", "json"]).ok().json();
            if answer["causes"][0]["cause"] == *cause { Ok(()) } else { Err(answer) }
        });
    }
    scene.admin.run(&["delete", "pods", "--all", "-n", scene.name, "--force", "--grace-period=0", "--wait=false"]);
}

/// The rank that failed first is named with its line, and its peer as what followed.
#[test]
fn the_first_of_two_ranks_is_the_cause() {
    let scene = Scene::new("real-why-ranks");
    let script =
        "if [ $JOB_COMPLETION_INDEX = 1 ]; then sleep 2; echo 'ValueError: shard 812 is broken'; exit 37; fi; sleep 6; exit 1";
    scene.train("ranks", script, "resources: {pool: real, gpu: 1, node_count: 2}\njob: {name: ranks, retries: 0}");
    scene.until("ranks", "failed", None);
    let answer = scene.gpuctl(&["why", "ranks", "-o", "json"]).ok().json();
    assert_eq!(
        (answer["situation"].as_str(), answer["causes"][0]["cause"].as_str()),
        (Some("dead"), Some("exit-code")),
        "{answer:#}"
    );
    assert!(
        answer["sentence"].as_str().unwrap().contains("rank 1") && answer["sentence"].as_str().unwrap().contains("37"),
        "{answer:#}"
    );
    assert!(answer.to_string().contains("ValueError: shard 812 is broken"), "{answer:#}");
}
