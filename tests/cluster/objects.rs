//! Tests the objects of a training on the API server. For each known trap of Kubernetes, one test
//! fails if gpuctl does not avoid the trap.

use serde_json::{Value, json};

use crate::support::{Scene, cluster, file, items, own_command};

fn container(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]
}

fn variable<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    container(pod)["env"]
        .as_array()?
        .iter()
        .find(|variable| variable["name"] == name)?["value"]
        .as_str()
}

#[test]
fn pods_have_safe_defaults_labels_and_variables() {
    let scene = Scene::with_nodes("pods", 1);
    scene.create("a", "job: {name: NAME, epochs: 3, batch_size: 8, labels: {team: vision}, annotations: {cost: '7'}}\nresources: {pool: POOL, gpu: 4, node_count: 2, memory: 4Gi, cpu: 2}\nenvironment: {image: busybox, imagePullSecret: [one, two], imagePullPolicy: Never, workingDir: /w, command: python train.py, env: {A: 1, B: true, EPOCHS: 9}}");
    scene.until("a", "running", None);
    let pod = &scene.pods("a")[0];
    assert_eq!(pod["spec"]["enableServiceLinks"], false);
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 60);
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(
        pod["spec"]["imagePullSecrets"],
        json!([{"name": "one"}, {"name": "two"}])
    );
    assert_eq!(
        own_command(container(pod)),
        json!(["sh", "-c", "exec python train.py"])
    );
    assert_eq!(
        (
            container(pod)["imagePullPolicy"].as_str(),
            container(pod)["workingDir"].as_str()
        ),
        (Some("Never"), Some("/w"))
    );
    assert_eq!(
        container(pod)["resources"],
        json!({
        "limits": {"memory": "4Gi", "nvidia.com/gpu": "4"}, "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "4"}})
    );
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"],
        "false"
    );
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "true");
    assert_eq!(
        (
            annotations["cost"].as_str(),
            annotations["gpuctl/source"].is_null()
        ),
        (Some("7"), true)
    );
    let labels = &pod["metadata"]["labels"];
    for (key, value) in [
        ("team", "vision"),
        ("app.kubernetes.io/managed-by", "gpuctl"),
        ("gpuctl/job", "a"),
        ("gpuctl/kind", "training"),
        ("gpuctl/pool", "pods"),
        ("gpuctl/user", "admin"),
        ("gpuctl/gpu-type", "a100-80g"),
    ] {
        assert_eq!(labels[key], value, "{key}");
    }
    for (name, value) in [
        ("A", "1"),
        ("B", "true"),
        ("EPOCHS", "9"),
        ("TRAIN_EPOCHS", "3"),
        ("BATCH_SIZE", "8"),
        ("TRAIN_BATCH_SIZE", "8"),
        ("GLOBAL_BATCH_SIZE", "64"),
        ("PYTHONUNBUFFERED", "1"),
    ] {
        assert_eq!(variable(pod, name), Some(value), "{name}");
    }
    assert_eq!(variable(pod, "NCCL_SOCKET_IFNAME"), None);
    // The size of `/dev/shm` is half of the memory limit.
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let shm = volumes
        .iter()
        .find(|volume| volume["name"] == "shm")
        .unwrap();
    assert_eq!(
        shm["emptyDir"],
        json!({"medium": "Memory", "sizeLimit": "2Gi"})
    );
    assert!(
        pod["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .iter()
            .any(|taint| taint["key"] == "nvidia.com/gpu" && taint["operator"] == "Exists")
    );
}

#[test]
fn a_job_retries_each_rank_and_owns_its_objects() {
    let scene = Scene::with_nodes("owner", 1);
    file("config.json", "{\"stage\": 3}");
    let yaml = scene.training("a", "job: {name: NAME, retries: 2, priority: high, max_runtime: 2h, keep_for: 1d}\nresources: {pool: POOL, gpu: 1, node_count: 2}\nfiles: {ds.json: config.json}\nstorage: {workdirs: [{path: /out, size: 1Gi}]}");
    let path = file("owner.yaml", &yaml).display().to_string();
    scene
        .gpuctl(&["create", "-f", &path])
        .ok()
        .says("max_runtime starts once");
    let job = scene.get(&["job", "a", "--show-managed-fields"]);
    let spec = &job["spec"];
    assert_eq!(spec["completionMode"], "Indexed");
    assert_eq!(
        (spec["completions"].as_u64(), spec["parallelism"].as_u64()),
        (Some(2), Some(2))
    );
    assert_eq!(
        (
            spec["backoffLimitPerIndex"].as_u64(),
            spec["maxFailedIndexes"].as_u64()
        ),
        (Some(2), Some(0))
    );
    assert_eq!(spec["podReplacementPolicy"], "Failed");
    assert_eq!(
        spec["podFailurePolicy"]["rules"],
        json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}])
    );
    assert_eq!(spec["ttlSecondsAfterFinished"], 86_400);
    // `max_runtime` limits how long the job runs, so the deadline is set on the pod and not on the
    // Job.
    assert_eq!(
        (
            spec["activeDeadlineSeconds"].is_null(),
            spec["template"]["spec"]["activeDeadlineSeconds"].as_u64()
        ),
        (true, Some(7200))
    );
    assert_eq!(
        job["metadata"]["annotations"]["gpuctl/source"],
        yaml.as_str()
    );
    let manager = job["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["manager"] == "gpuctl")
        .unwrap();
    assert_eq!(
        (manager["manager"].as_str(), manager["operation"].as_str()),
        (Some("gpuctl"), Some("Apply"))
    );
    let fields = manager["fieldsV1"]["f:spec"].as_object().unwrap();
    assert!(
        !fields.contains_key("f:suspend"),
        "an apply that sends `suspend` would end a pause"
    );
    for kind in ["service/a", "configmap/a-files"] {
        let owner = &scene.get(&[kind])["metadata"]["ownerReferences"][0];
        assert_eq!(
            (owner["uid"].as_str(), owner["blockOwnerDeletion"].as_bool()),
            (job["metadata"]["uid"].as_str(), Some(false)),
            "{kind}"
        );
    }
    assert!(
        scene.get(&["pvc", "a-out"])["metadata"]["ownerReferences"].is_null(),
        "a claim outlives its job"
    );
    assert_eq!(
        scene.get(&["pvc", "a-out"])["spec"]["accessModes"],
        json!(["ReadWriteMany"])
    );
    let class = cluster().kubectl(gpuctl_sandbox::Persona::Admin).json(&[
        "get",
        "priorityclass",
        "gpuctl-high",
    ]);
    assert_eq!(
        (class["value"].as_i64(), class["preemptionPolicy"].as_str()),
        (Some(1000), Some("Never"))
    );
    let map = scene.get(&["configmap", "a-files"]);
    assert_eq!(map["data"]["file-0"], "{\"stage\": 3}");
    let pod = &scene.pods("a")[0];
    assert_eq!(pod["spec"]["priorityClassName"], "gpuctl-high");
    let mounts = container(pod)["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/workspace/ds.json" && mount["subPath"] == "file-0"), "{mounts:#?}");
}

#[test]
fn every_form_of_workdir_is_mounted() {
    let scene = Scene::with_nodes("workdirs", 1);
    scene.admin.run(&[
        "create",
        "configmap",
        "settings",
        "--from-literal=a=b",
        "-n",
        "workdirs",
    ]);
    scene.create(
        "a",
        "storage:
  workdirs:
    - /data/alpaca.json
    - path: /models/qwen2.5-7b
      read_only: true
    - path: /output
      host_path: /mnt/fast/output
    - {path: /shared, pvc: team, sub_path: me, read_only: true}
    - {path: /scratch, emptyDir: true}
    - {path: /settings, configmap: settings}
    - {path: /keys, secret: keys}
    - {path: /weights.bin, type: directory}
model: {name: qwen, cache: true, path: /models/base}
resources: {pool: POOL, gpu: 1, shm: 1Gi}",
    );
    let job = scene.get(&["job", "a"]);
    let spec = &job["spec"]["template"]["spec"];
    let volume = |path: &str| {
        let mount = spec["containers"][0]["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .find(|mount| mount["mountPath"] == path)
            .unwrap()
            .clone();
        let volume = spec["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap()
            .clone();
        (mount, volume)
    };
    assert_eq!(
        volume("/data/alpaca.json").1["hostPath"],
        json!({"path": "/data/alpaca.json", "type": "File"})
    );
    assert_eq!(
        volume("/models/qwen2.5-7b").1["hostPath"],
        json!({"path": "/models/qwen2.5-7b", "type": "Directory"})
    );
    assert_eq!(volume("/models/qwen2.5-7b").0["readOnly"], true);
    assert_eq!(
        volume("/output").1["hostPath"],
        json!({"path": "/mnt/fast/output", "type": "DirectoryOrCreate"})
    );
    assert_eq!(
        volume("/shared").1["persistentVolumeClaim"],
        json!({"claimName": "team", "readOnly": true})
    );
    assert_eq!(volume("/shared").0["subPath"], "me");
    assert_eq!(volume("/scratch").1["emptyDir"], json!({}));
    assert_eq!(volume("/settings").1["configMap"]["name"], "settings");
    assert_eq!(volume("/keys").1["secret"]["secretName"], "keys");
    assert_eq!(
        volume("/weights.bin").1["hostPath"]["type"],
        "DirectoryOrCreate"
    );
    assert_eq!(
        volume("/models/base").1["hostPath"],
        json!({"path": "/models/base", "type": "Directory"})
    );
    assert_eq!(
        volume("/cache/models").1["hostPath"]["type"],
        "DirectoryOrCreate"
    );
    assert_eq!(
        volume("/dev/shm").1["emptyDir"],
        json!({"medium": "Memory", "sizeLimit": "1Gi"})
    );
}

#[test]
fn host_paths_cause_a_warning_when_several_nodes_qualify() {
    let scene = Scene::with_nodes("hostpaths", 2);
    let run = scene.create("a", "storage: {workdirs: [/data]}");
    assert!(
        run.err
            .contains("2 nodes are eligible; files written on one node are missing on the others"),
        "{}",
        run.err
    );
}

#[test]
fn the_pod_overlay_is_merged_and_overrides_are_reported() {
    let scene = Scene::with_nodes("overlay", 1);
    let run = scene.create(
        "a",
        "resources: {pool: POOL, gpu: 1}
pod:
  terminationGracePeriodSeconds: 5
  hostNetwork: true
  nodeSelector: {kubernetes.io/hostname: overlay-0}
  tolerations: [{key: special, operator: Exists}]
  securityContext: {runAsUser: 1000}
  containers: [{securityContext: {capabilities: {add: [IPC_LOCK]}}, resources: {limits: {rdma/hca: 1}}}]",
    );
    assert!(
        run.err
            .contains("the `pod:` block overrides pod.terminationGracePeriodSeconds"),
        "{}",
        run.err
    );
    let job = scene.get(&["job", "a"]);
    let spec = &job["spec"]["template"]["spec"];
    assert_eq!(
        (
            spec["terminationGracePeriodSeconds"].as_u64(),
            spec["hostNetwork"].as_bool()
        ),
        (Some(5), Some(true))
    );
    assert_eq!(spec["nodeSelector"]["kubernetes.io/hostname"], "overlay-0");
    assert_eq!(spec["securityContext"]["runAsUser"], 1000);
    let tolerated: Vec<&str> = spec["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert_eq!(tolerated, ["nvidia.com/gpu", "gpuctl/pool", "special"]);
    assert_eq!(
        spec["containers"][0]["securityContext"]["capabilities"]["add"],
        json!(["IPC_LOCK"])
    );
    assert_eq!(
        spec["containers"][0]["resources"]["limits"]["rdma/hca"],
        "1"
    );
    assert_eq!(
        spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"],
        "1"
    );
}

#[test]
fn a_job_without_gpus_avoids_gpu_nodes() {
    let scene = Scene::with_nodes("nogpu", 1);
    scene.create("a", "resources: {gpu: 0, cpu: 1}");
    scene.until("a", "running", None);
    let pod = &scene.pods("a")[0];
    assert_eq!(variable(pod, "NVIDIA_VISIBLE_DEVICES"), Some("void"));
    let tolerations = pod["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    assert!(
        tolerations
            .iter()
            .all(|taint| taint["key"] != "nvidia.com/gpu"),
        "{tolerations:#?}"
    );
    // Other tests add nodes that have no `nvidia.com/gpu`.
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    let node = scene.admin.json(&["get", "node", node]);
    assert!(
        node["status"]["capacity"]["nvidia.com/gpu"].is_null(),
        "{node:#}"
    );
    scene.create(
        "b",
        "resources: {gpu: 0}\nenvironment: {image: busybox, env: {NVIDIA_VISIBLE_DEVICES: all}}",
    );
    assert_eq!(
        variable(&scene.pods("b")[0], "NVIDIA_VISIBLE_DEVICES"),
        Some("all")
    );
}

#[test]
fn launchers_that_would_train_once_per_node_are_fixed_or_refused() {
    let scene = Scene::with_nodes("launchers", 2);
    let two_nodes = |command: &str| {
        format!(
            "environment: {{image: busybox, command: {command}}}\nresources: {{pool: POOL, gpu: 8, node_count: 2}}"
        )
    };
    let yaml = scene.training("a", &two_nodes("deepspeed --num_gpus 8 train.py --zero 3"));
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .exits(3)
        .says("trains on each node separately")
        .says("write `torchrun train.py --zero 3`: DeepSpeed reads");
    let yaml = scene.training("a", &two_nodes("torchrun --standalone train.py"));
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .exits(3)
        .says("remove `--standalone`");
    let command = |name: &str, command: &str| {
        let run = scene
            .gpuctl_with(
                &["create", "-f", "-", "--dry-run=client", "-o", "json"],
                &scene.training(name, &two_nodes(command)),
            )
            .ok();
        let job = items(&run.json()).pop().unwrap();
        (
            own_command(&job["spec"]["template"]["spec"]["containers"][0]),
            run.err,
        )
    };
    let flags = "--num_machines=2 --num_processes=16 --machine_rank=$(NODE_RANK) --main_process_ip=$(MASTER_ADDR) --main_process_port=$(MASTER_PORT)";
    let (line, warning) = command("b", "accelerate launch train.py");
    assert_eq!(
        line,
        json!([
            "sh",
            "-c",
            format!("exec accelerate launch {flags} train.py")
        ])
    );
    assert!(warning.contains("adding --num_machines=2"), "{warning}");
    let (words, _) = command("c", "[accelerate, launch, --num_machines, '2', train.py]");
    let mut expected = vec!["accelerate", "launch"];
    expected.extend(flags.split(' ').skip(1));
    expected.extend(["--num_machines", "2", "train.py"]);
    assert_eq!(words, json!(expected));
    // On a single node, these launchers work unchanged.
    let single_node = scene.training("d", "environment: {image: busybox, command: deepspeed train.py}\nresources: {pool: POOL, gpu: 8}");
    scene
        .gpuctl_with(&["create", "-f", "-", "--dry-run=client"], &single_node)
        .ok();
}

#[test]
fn a_gang_timeout_releases_the_gpus() {
    let scene = Scene::with_nodes("gangtime", 2);
    scene.create("blocker", "resources: {pool: POOL, gpu: 8}");
    scene.until("blocker", "running", None);
    let yaml = scene.training(
        "a",
        "job: {name: NAME, gang_timeout: 2s}\nresources: {pool: POOL, gpu: 8, node_count: 2}",
    );
    let path = file("gangtime.yaml", &yaml);
    let mut child = scene.start(&[
        "create",
        "-f",
        path.to_str().unwrap(),
        "--wait",
        "--timeout",
        "60s",
    ]);
    scene.until("a", "pending", Some("WaitingForPeers"));
    let placed = scene
        .pods("a")
        .into_iter()
        .find(|pod| pod["spec"]["nodeName"].is_string())
        .unwrap();
    scene.until("a", "paused", None);
    // The pod of the incomplete gang is deleted, so its GPUs become free.
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |pods| {
        items(pods)
            .iter()
            .all(|pod| pod["metadata"]["uid"] != placed["metadata"]["uid"])
    });
    scene.gpuctl(&["delete", "job", "blocker", "--force"]).ok();
    scene.until("a", "running", None);
    assert!(child.wait().unwrap().success());
}
