//! Tests `why` for pods that a real kubelet and a real runtime fail to start or terminate. The
//! corpus in `tests/cluster/causes/` simulates their messages.

use serde_json::{Value, json};

use crate::support::{POOL, Scene, eventually};

/// A pod that runs a script on the real node, with additional container and spec fields.
fn pod(scene: &Scene, name: &str, script: &str, container: &Value, spec: &Value) -> Value {
    let mut main = json!({"name": "main", "image": "toolbox:1", "command": ["sh", "-c", script]});
    merge(&mut main, container);
    let mut pod_spec = json!({"nodeSelector": {"gpuctl/pool": POOL}, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}], "containers": [main]});
    merge(&mut pod_spec, spec);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": scene.name}, "spec": pod_spec})
}

fn merge(base: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
}

#[test]
fn why_finds_the_cause_from_messages_of_a_real_kubelet() {
    let scene = Scene::new("real-why");
    let none = json!({});
    let secret = json!({"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}]});
    let settings =
        json!({"volumes": [{"name": "settings", "configMap": {"name": "train-settings"}}]});
    let folder = json!({"volumes": [{"name": "data", "hostPath": {"path": "/var/lib/gpuctl-sandbox/nowhere", "type": "Directory"}}]});
    let mounts = |name: &str| json!({"volumeMounts": [{"name": name, "mountPath": "/mnt"}]});
    let fetch = json!({"initContainers": [{"name": "fetch", "image": "toolbox:1", "command": ["sh", "-c", "sleep 300"]}]});
    let small = json!({"resources": {"limits": {"memory": "24Mi"}}});
    let restarting = json!({"restartPolicy": "Always"});
    // A shell exits with 128 + 11 after SIGSEGV has killed its program. The kubelet reports only
    // this number.
    let cases: Vec<(&str, &str, Value)> = vec![
        (
            "image",
            "registry-unreachable",
            pod(
                &scene,
                "image",
                "true",
                &json!({"image": "nowhere.invalid/model:9"}),
                &none,
            ),
        ),
        (
            "never",
            "image-missing",
            pod(
                &scene,
                "never",
                "true",
                &json!({"image": "absent:1", "imagePullPolicy": "Never"}),
                &none,
            ),
        ),
        (
            "secret",
            "secret-missing",
            pod(&scene, "secret", "true", &secret, &none),
        ),
        (
            "settings",
            "configmap-missing",
            pod(&scene, "settings", "true", &mounts("settings"), &settings),
        ),
        (
            "folder",
            "mount-failed",
            pod(&scene, "folder", "true", &mounts("data"), &folder),
        ),
        (
            "typo",
            "start-error",
            pod(
                &scene,
                "typo",
                "",
                &json!({"command": ["no-such-program"]}),
                &none,
            ),
        ),
        (
            "init",
            "init-running",
            pod(&scene, "init", "true", &none, &fetch),
        ),
        (
            "code",
            "exit-code",
            pod(&scene, "code", "exit 37", &none, &none),
        ),
        (
            "segv",
            "signal",
            pod(&scene, "segv", "exit 139", &none, &none),
        ),
        (
            "memory",
            "oom-container",
            pod(
                &scene,
                "memory",
                "head -c 300000000 /dev/zero | tail",
                &small,
                &none,
            ),
        ),
        (
            "loop",
            "crash-loop",
            pod(&scene, "loop", "exit 3", &none, &restarting),
        ),
    ];
    let list: Vec<&Value> = cases.iter().map(|(.., pod)| pod).collect();
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": list}));
    for (name, cause, _) in &cases {
        eventually(&format!("{name} is {cause}"), || {
            let answer = scene
                .gpuctl(&["why", &format!("pod/{name}"), "-o", "json"])
                .ok()
                .json();
            if answer["causes"][0]["cause"] == *cause {
                Ok(())
            } else {
                Err(answer)
            }
        });
    }
    scene.admin.run(&[
        "delete",
        "pods",
        "--all",
        "-n",
        scene.name,
        "--force",
        "--grace-period=0",
        "--wait=false",
    ]);
}

/// NCCL is not available here, so the test serves a recorded RAS transcript through a real
/// kubelet's port-forward, and recorded stacks through exec.
#[test]
fn why_reads_ras_and_stacks_of_ranks() {
    let scene = Scene::new("real-why-asked");
    let transcript = "NCCL version 2.27.3 compiled with CUDA 12.9\\n\\nErrors\\n======\\n\\nDEAD\\n  1 job process is considered dead\\n  Process 3487984 on \
                      node 172.16.64.213 managing GPU 5\\n\\n#0-0 (cf264af53edbe986) INCOMPLETE\\n  The missing rank: 21\\n";
    let dump = |place: &str| {
        format!(
            "Process 9: python3 train.py\\n\\nThread 9 (active): \\\"MainThread\\\"\\n    {place}\\n    main (train.py:9)\\n"
        )
    };
    let (waits, loads) = (
        dump("all_reduce (torch/distributed/c10d.py:25)"),
        dump("_next_data (torch/utils/data/dataloader.py:630)"),
    );
    // The Python process is a renamed shell, and `py-spy` prints a recorded stack.
    let script = format!(
        "printf '{transcript}' > /tmp/ras.txt; ras /tmp/ras.txt & \
         if [ $JOB_COMPLETION_INDEX = 0 ]; then printf \"{waits}\" > /tmp/dump; else printf \"{loads}\" > /tmp/dump; fi; \
         mkdir -p /usr/local/bin; printf '#!/bin/sh\\ncat /tmp/dump\\n' > /usr/local/bin/py-spy; chmod +x /usr/local/bin/py-spy; \
         cp $(command -v bash) /tmp/python3; RANK=$JOB_COMPLETION_INDEX /tmp/python3 -c 'sleep 600; true'"
    );
    scene.train(
        "asked",
        &script,
        "resources: {pool: real, gpu: 1, node_count: 2}\njob: {name: asked, retries: 0}",
    );
    scene.until("asked", "running", None);
    let answer = eventually("both ranks answer", || {
        let answer = scene
            .gpuctl(&["why", "asked", "--ras", "--stacks", "-o", "json"])
            .ok()
            .json();
        if answer["stacks"]
            .as_array()
            .is_some_and(|groups| groups.len() == 2)
            && answer["situation"] == "stuck"
        {
            Ok(answer)
        } else {
            Err(answer)
        }
    });
    assert_eq!(answer["causes"][0]["cause"], "rank-missing", "{answer:#}");
    assert!(
        answer["sentence"]
            .as_str()
            .unwrap()
            .contains("process 3487984 on 172.16.64.213 (GPU 5) is considered dead"),
        "{answer:#}"
    );
    assert_eq!(
        answer["stacks"][0],
        json!({"processes": 1, "first": "rank 0", "place": "all_reduce (c10d.py:25) ← main (train.py:9)"})
    );
    let plain = pod(
        &scene,
        "plain",
        "sleep 600",
        &json!({"resources": {"limits": {"nvidia.com/gpu": "1"}}}),
        &json!({}),
    );
    scene.admin.apply(&plain);
    let not_evaluated = eventually("a plain pod has neither RAS nor stacks", || {
        let answer = scene
            .gpuctl(&["why", "pod/plain", "--ras", "--stacks", "-o", "json"])
            .ok()
            .json();
        let not_evaluated = answer["notEvaluated"].to_string();
        if not_evaluated.contains("RAS of NCCL: plain")
            && not_evaluated.contains("stack of plain: neither py-spy nor gdb")
        {
            Ok(not_evaluated)
        } else {
            Err(answer)
        }
    });
    assert!(!not_evaluated.contains("rank"), "{not_evaluated}");
    scene.admin.run(&[
        "delete",
        "pods",
        "--all",
        "-n",
        scene.name,
        "--force",
        "--grace-period=0",
        "--wait=false",
    ]);
}

/// `why` names the first failed rank with its log line as the cause.
#[test]
fn why_names_the_first_failed_rank_as_the_cause() {
    let scene = Scene::new("real-why-ranks");
    let script = "if [ $JOB_COMPLETION_INDEX = 1 ]; then sleep 2; echo 'ValueError: shard 812 is broken'; exit 37; fi; sleep 6; exit 1";
    scene.train(
        "ranks",
        script,
        "resources: {pool: real, gpu: 1, node_count: 2}\njob: {name: ranks, retries: 0}",
    );
    scene.until("ranks", "failed", None);
    let answer = scene.gpuctl(&["why", "ranks", "-o", "json"]).ok().json();
    assert_eq!(
        (
            answer["situation"].as_str(),
            answer["causes"][0]["cause"].as_str()
        ),
        (Some("dead"), Some("exit-code")),
        "{answer:#}"
    );
    assert!(
        answer["sentence"].as_str().unwrap().contains("rank 1")
            && answer["sentence"].as_str().unwrap().contains("37"),
        "{answer:#}"
    );
    assert!(
        answer
            .to_string()
            .contains("ValueError: shard 812 is broken"),
        "{answer:#}"
    );
}
