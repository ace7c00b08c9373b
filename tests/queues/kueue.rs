//! Tests jobs in Kueue's queues: queueing, admission, preemption, pausing, resuming and deletion.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::exporter::{Exporter, Gpu};
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Options, Persona, eventually};
use serde_json::{Value, json};

use crate::runner::{gpuctl, run};
use crate::support::Scene;

fn training(name: &str, more: &str, resources: &str) -> String {
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}, queue: research{more}}}\n\
         environment: {{image: busybox, command: [train]}}\nresources: {{pool: queued, {resources}}}\n"
    )
}

#[track_caller]
fn queued(scene: &Scene, name: &str, reason: &str, words: &str) -> Value {
    scene.until(name, |job| {
        let message = job["message"].as_str().unwrap_or_default();
        job["status"] == "pending"
            && job["reason"] == "Queued"
            && job["queueReason"] == reason
            && message.contains(words)
    })
}

/// Returns the first cause that `why` reports, and its sentence.
fn why(scene: &Scene, name: &str) -> (String, String) {
    let answer = scene.gpuctl(&["why", name, "-o", "json"], "").ok().json();
    assert_eq!(answer["situation"], "waiting", "{answer:#}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (
        text(&answer["causes"][0]["cause"]),
        text(&answer["sentence"]),
    )
}

#[test]
fn kueue_admits_queues_and_preempts_jobs() {
    let scene = Scene::new(&Options {
        with_kueue: true,
        ..Options::default()
    });
    let gpus = |name: &str| {
        in_pool(
            node(
                name,
                Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                &[("nvidia.com/gpu", 8)],
            ),
            "queued",
        )
    };
    scene
        .cluster
        .add_nodes(&[gpus("queued-0"), gpus("queued-1"), gpus("queued-2")]);
    let quota = json!([{"coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "gpus", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}]}]);
    let api = "kueue.x-k8s.io/v1beta2";
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "gpus"}},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "science"}, "spec": {"namespaceSelector": {},
            "resourceGroups": quota, "preemption": {"withinClusterQueue": "LowerPriority"}}},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "research", "namespace": "default"},
         "spec": {"clusterQueue": "science"}},
    ]}));
    a_queued_job_reports_the_missing_quota(&scene);
    preemption_names_the_preempting_job(&scene);
    kinds_without_kueue_integration_warn(&scene);
    pausing_frees_the_quota(&scene, Persona::Admin);
    pausing_works_with_the_batch_user_role(&scene);
    moving_to_another_queue_needs_replace(&scene);
    errors_name_kueue_while_it_is_down(&scene);
    a_stopped_queue_is_a_cause(&scene);
    sixty_four_ranks_are_admitted_together(&scene);
    kueue_places_ranks_by_topology(&scene);
}

/// The sandbox's Kueue manages Jobs and Deployments; its integration for StatefulSets is off.
fn kinds_without_kueue_integration_warn(scene: &Scene) {
    let yaml = |kind: &str, rest: &str| {
        format!(
            "kind: {kind}\nversion: v0.1\njob: {{name: some, queue: research}}\nenvironment: {{image: busybox}}\n{rest}"
        )
    };
    let dry = ["create", "-f", "-", "--dry-run=server"];
    let notebook = scene
        .gpuctl(&dry, &yaml("notebook", "service: {port: 8888}\n"))
        .ok();
    let warning = "Kueue does not manage statefulsets on this cluster (the integration is off), so the job runs outside queue `research`";
    assert!(notebook.err.contains(warning), "{}", notebook.err);
    for managed in [
        yaml("inference", "service: {port: 8000}\n"),
        training("some", "", "gpu: 1"),
    ] {
        let run = scene.gpuctl(&dry, &managed).ok();
        assert!(!run.err.contains("integration"), "{}", run.err);
    }
}

/// Kueue's role for ordinary users may read Workloads but not write them.
fn pausing_works_with_the_batch_user_role(scene: &Scene) {
    let user = format!("--user={}", Persona::Bob.user());
    for role in ["edit", "kueue-batch-user-role"] {
        let role = format!("--clusterrole={role}");
        scene.admin.run(&[
            "create",
            "rolebinding",
            &role[14..],
            "-n",
            "default",
            &role,
            &user,
        ]);
    }
    for name in ["first", "second"] {
        scene
            .gpuctl_as(
                Persona::Bob,
                &["create", "-f", "-"],
                &training(name, "", "gpu: 8"),
            )
            .ok();
    }
    pausing_frees_the_quota(scene, Persona::Bob);
}

/// There are two racks, and only one of them has capacity for both ranks.
fn kueue_places_ranks_by_topology(scene: &Scene) {
    const RACK: &str = "cloud.provider.com/topology-rack";
    let gpus = |name: &str| {
        in_pool(
            node(
                name,
                Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                &[("nvidia.com/gpu", 8)],
            ),
            "racks",
        )
    };
    let nodes = [("rack-a-0", "a"), ("rack-b-0", "b"), ("rack-b-1", "b")].map(|(name, rack)| {
        let mut node = gpus(name);
        node["metadata"]["labels"][RACK] = json!(rack);
        node
    });
    scene.cluster.add_nodes(&nodes);
    let api = "kueue.x-k8s.io/v1beta2";
    let quota = json!([{"coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "racked", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 24}]}]}]);
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": api, "kind": "Topology", "metadata": {"name": "racks"},
         "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}},
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": "racked"},
         "spec": {"topologyName": "racks", "nodeLabels": {"gpuctl/pool": "racks"}}},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "racks"}, "spec": {"namespaceSelector": {}, "resourceGroups": quota}},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "racks", "namespace": "default"}, "spec": {"clusterQueue": "racks"}},
    ]}));
    let yaml = training(
        "near",
        ", topology: rack, gang: kueue",
        "gpu: 8, node_count: 2",
    );
    let yaml = yaml
        .replace("queue: research", "queue: racks")
        .replace("pool: queued", "pool: racks");
    scene.create(&yaml);
    scene.running("near");
    let pods = scene.admin.json(&["get", "pods", "-l", "gpuctl/job=near"]);
    let mut nodes: Vec<&str> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str())
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["rack-b-0", "rack-b-1"]);
    let job = scene.admin.json(&["get", "job", "near"]);
    let template = &job["spec"]["template"];
    assert_eq!(
        template["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"],
        RACK
    );
    assert_eq!(template["spec"]["affinity"]["podAffinity"], Value::Null);
    scene.gpuctl(&["delete", "job", "near", "--force"], "").ok();
}

/// Two jobs of 64 GPUs each share a quota of 96: the second gets no pods until the first is
/// deleted.
fn sixty_four_ranks_are_admitted_together(scene: &Scene) {
    let nodes: Vec<Value> = (0..12)
        .map(|index| {
            in_pool(
                node(
                    &format!("wide-{index}"),
                    Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                    &[("nvidia.com/gpu", 8)],
                ),
                "wide",
            )
        })
        .collect();
    scene.cluster.add_nodes(&nodes);
    let api = "kueue.x-k8s.io/v1beta2";
    let quota = json!([{"coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "gpus", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 96}]}]}]);
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "wide"}, "spec": {"namespaceSelector": {}, "resourceGroups": quota}},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "wide", "namespace": "default"}, "spec": {"clusterQueue": "wide"}},
    ]}));
    let wide = |name: &str| {
        let yaml = training(name, "", "gpu: 1, node_count: 64");
        yaml.replace("queue: research", "queue: wide")
            .replace("pool: queued", "pool: wide")
    };
    thread::scope(|scope| {
        for name in ["one", "two"] {
            scope.spawn(move || scene.create(&wide(name)));
        }
    });
    let pods = |name: &str| {
        let list = scene
            .admin
            .json(&["get", "pods", "-l", &format!("gpuctl/job={name}")]);
        list["items"].as_array().map_or(0, Vec::len)
    };
    let pod_counts = || {
        let mut counts = [pods("one"), pods("two")];
        counts.sort_unstable();
        counts
    };
    eventually(
        "one job has all its pods and the other has none",
        Duration::from_secs(90),
        || {
            let counts = pod_counts();
            (counts == [0, 64]).then_some(()).ok_or(counts)
        },
    );
    // The other job gets no pods while the first one runs.
    let end = Instant::now() + Duration::from_secs(8);
    while Instant::now() < end {
        assert_eq!(pod_counts(), [0, 64]);
        thread::sleep(Duration::from_millis(500));
    }
    let (first, second) = if pods("one") == 64 {
        ("one", "two")
    } else {
        ("two", "one")
    };
    scene.running(first);
    queued(scene, second, "Pending", "32 more needed");
    scene.gpuctl(&["delete", "job", first, "--force"], "").ok();
    scene.running(second);
    scene.gpuctl(&["delete", "job", second, "--force"], "").ok();
}

fn a_queued_job_reports_the_missing_quota(scene: &Scene) {
    scene.create(&training("first", "", "gpu: 8"));
    scene.running("first");
    let second = scene.create(&training("second", "", "gpu: 8"));
    assert!(!second.err.contains("queue"), "{}", second.err);
    let job = queued(
        scene,
        "second",
        "Pending",
        "insufficient unused quota for nvidia.com/gpu in flavor gpus, 8 more needed",
    );
    assert_eq!(job["queue"], "research");
    let (cause, sentence) = why(scene, "second");
    assert_eq!(cause, "queue-quota", "{sentence}");
    assert!(
        sentence.contains("second waits: queue research: ") && sentence.contains("8 more needed"),
        "{sentence}"
    );
    // Kueue sorts workloads by creation time, which has a resolution of one second.
    thread::sleep(Duration::from_millis(1100));
    scene.create(&training("large", "", "gpu: 8, node_count: 2"));
    queued(scene, "large", "Pending", "maximum capacity");
    assert_eq!(why(scene, "large").0, "never-fits");
    a_missing_queue_is_a_cause_for_foreign_jobs(scene);
    queue_positions_are_shown(scene);
    queues_are_listed_and_described(scene);
    queue_utilization_is_the_mean_of_measured_gpus(scene);
    let described = scene.gpuctl(&["describe", "second"], "").ok().out;
    assert!(
        described.contains("queue research: ") && described.contains("insufficient unused quota"),
        "{described}"
    );
    scene
        .gpuctl(&["delete", "job", "large", "--force"], "")
        .ok();
    let misspelt = training("other", "", "gpu: 1").replace("queue: research", "queue: reserch");
    scene
        .gpuctl(&["create", "-f", "-"], &misspelt)
        .exits(4)
        .says("queue `reserch` does not exist in namespace `default`; Kueue has research");
}

fn a_missing_queue_is_a_cause_for_foreign_jobs(scene: &Scene) {
    let container = json!({"name": "main", "image": "busybox", "command": ["true"],
        "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}});
    scene.admin.apply(&json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "theirs", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "nowhere"}},
        "spec": {"suspend": true, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}}));
    eventually(
        "the missing queue is the cause",
        Duration::from_secs(60),
        || {
            let (cause, sentence) = why(scene, "job/theirs");
            (cause == "queue-missing")
                .then_some(())
                .ok_or((cause, sentence))
        },
    );
    scene
        .admin
        .run(&["delete", "job", "theirs", "-n", "default"]);
}

fn queue_positions_are_shown(scene: &Scene) {
    let second = scene.until("second", |job| job["queuePosition"] == 1);
    assert_eq!(second["clusterQueuePosition"], 1);
    scene.until("large", |job| job["queuePosition"] == 2);
    let table = scene.gpuctl(&["get", "jobs", "--no-progress"], "").ok().out;
    let row = |name: &str| {
        table
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(
        row("second").contains("pending Queued 1/2") && row("large").contains("pending Queued 2/2"),
        "{table}"
    );
    let described = scene.gpuctl(&["describe", "large"], "").ok().out;
    assert!(
        described.contains("research: position 2 of 2, position 2 in the cluster queue"),
        "{described}"
    );
}

fn queues_are_listed_and_described(scene: &Scene) {
    let list = eventually("two jobs wait", Duration::from_secs(30), || {
        let list = scene
            .gpuctl(&["get", "queues", "-o", "json", "--prometheus", "none"], "")
            .ok()
            .json();
        if list["items"][0]["jobsWaiting"] == 2 {
            Ok(list)
        } else {
            Err(list)
        }
    });
    let expected = json!([{"name": "research", "namespace": "default", "system": "kueue", "clusterQueue": "science", "active": true,
        "message": null, "gpuQuota": 8, "gpuUsed": 8, "gpuBorrowed": 0, "gpuUtilization": null, "gpuSampled": null, "jobsRunning": 1, "jobsWaiting": 2}]);
    assert_eq!(list, json!({"total": 1, "items": expected}));
    // A queued job is a consumer even before it has pods.
    let consumers = scene
        .gpuctl(&["get", "consumers", "-o", "json"], "")
        .ok()
        .json();
    let large = consumers["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|consumer| consumer["name"] == "large")
        .cloned()
        .unwrap_or_default();
    assert_eq!(
        (&large["stat"]["gpuRequest"], &large["stat"]["gpuAllocated"]),
        (&json!(16), &json!(0)),
        "{consumers:#}"
    );
    let table = scene.gpuctl(&["get", "queues"], "").ok().out;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1],
        [
            "default", "research", "kueue", "8", "8", "0", "-", "1", "2", "science", "active"
        ],
        "{table}"
    );
    let described = scene
        .gpuctl(&["describe", "queue", "research"], "")
        .ok()
        .out;
    for words in [
        "default/research   Kueue   cluster queue science",
        "8 used of 8",
        "1 running, 2 waiting",
        "8 more needed",
    ] {
        assert!(
            described.contains(words),
            "`{words}` is not in:\n{described}"
        );
    }
    let jobs = scene
        .gpuctl(&["describe", "queue", "default/research", "-o", "json"], "")
        .ok()
        .json();
    let names: Vec<&str> = jobs["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|job| job["jobId"].as_str())
        .collect();
    assert_eq!((names[0], names.len()), ("first", 3), "{names:?}");
    scene
        .gpuctl(&["describe", "queue", "reserch"], "")
        .exits(4)
        .says("there are default/research");
    // A user who can read only LocalQueues does not see the quota.
    let role = scene
        .gpuctl(
            &[
                "auth",
                "check",
                "get",
                "queues",
                "-n",
                "default",
                "--emit-role",
            ],
            "",
        )
        .out;
    assert!(role.contains("localqueues"), "{role}");
    let user = format!("--user={}", Persona::Alice.user());
    scene.admin.run(&[
        "create",
        "role",
        "queues",
        "-n",
        "default",
        "--verb=list",
        "--resource=localqueues.kueue.x-k8s.io",
    ]);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "queues",
        "-n",
        "default",
        "--role=queues",
        &user,
    ]);
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", scene.cluster.kubeconfig(Persona::Alice))
        .args(["get", "queues", "-n", "default", "-o", "json"]);
    let list = run(command, "").ok().json();
    assert_eq!(
        (&list["items"][0]["gpuQuota"], &list["items"][0]["gpuUsed"]),
        (&Value::Null, &json!(8))
    );
}

/// Eight devices are at 0, 10, … 70 %. The last exports nothing, so the mean of the other seven is
/// 30.
fn queue_utilization_is_the_mean_of_measured_gpus(scene: &Scene) {
    let pods = scene.admin.json(&["get", "pods", "-l", "gpuctl/job=first"]);
    let pod = &pods["items"][0];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let holder = (
        "default".to_owned(),
        text(&pod["metadata"]["name"]),
        "main".to_owned(),
    );
    let device = |index: u32| Gpu {
        node: text(&pod["spec"]["nodeName"]),
        index,
        uuid: format!("GPU-{index}"),
        model: "NVIDIA A100-SXM4-80GB".to_owned(),
        pods: vec![holder.clone()],
        utilization: f64::from(index * 10),
        silent: index == 7,
        ..Gpu::default()
    };
    let exporter = Exporter::start().unwrap();
    exporter.change(|fleet| fleet.gpus = (0..8).map(device).collect());
    let scrapes = json!([{"job_name": "dcgm", "metrics_path": "/metrics/dcgm", "static_configs": [{"targets": [exporter.address()]}]}]);
    let prometheus = scene
        .cluster
        .another_prometheus("prometheus-queues", &scrapes)
        .unwrap();
    eventually(
        "the utilization is 30 % of seven GPUs",
        Duration::from_secs(60),
        || {
            let list = scene
                .gpuctl(
                    &["get", "queues", "-o", "json", "--prometheus", &prometheus],
                    "",
                )
                .ok()
                .json();
            let (mean, sampled) = (
                list["items"][0]["gpuUtilization"].as_f64(),
                list["items"][0]["gpuSampled"].as_u64(),
            );
            ((mean, sampled) == (Some(30.0), Some(7)))
                .then_some(())
                .ok_or(list)
        },
    );
    let described = scene
        .gpuctl(
            &["describe", "queue", "research", "--prometheus", &prometheus],
            "",
        )
        .ok()
        .out;
    assert!(
        described.contains("8 used of 8; 30% utilized"),
        "{described}"
    );
}

fn preemption_names_the_preempting_job(scene: &Scene) {
    scene.create(&training("urgent", ", priority: high", "gpu: 8"));
    scene.running("urgent");
    let job = queued(scene, "first", "Preempted", "Preempted to accommodate");
    let (_, sentence) = why(scene, "first");
    assert!(
        sentence.contains("Preempted to accommodate") && sentence.contains("(job default/urgent)"),
        "{sentence}"
    );
    assert!(
        job["message"]
            .as_str()
            .unwrap()
            .contains("(job default/urgent)"),
        "{job:#}"
    );
    let preemptions = scene
        .gpuctl(&["get", "queues", "--preemptions", "-o", "json"], "")
        .ok()
        .json();
    let first = &preemptions["items"][0];
    assert_eq!(
        (&first["jobId"], &first["preemptedBy"], &first["queue"]),
        (
            &json!("first"),
            &json!("default/urgent"),
            &json!("research")
        )
    );
    assert_eq!(
        (
            &first["admittedAgain"],
            &first["times"],
            preemptions["items"].as_array().unwrap().len()
        ),
        (&json!(false), &json!(1), 1)
    );
    assert!(
        first["preemptedAt"].is_string()
            && preemptions["coverage"]["workloads"].as_u64() >= Some(2),
        "{preemptions:#}"
    );
    let table = scene
        .gpuctl(&["get", "queues", "--preemptions"], "")
        .ok()
        .out;
    assert!(
        table.lines().nth(1).unwrap().contains("first") && table.contains("default/urgent"),
        "{table}"
    );
    scene
        .gpuctl(&["delete", "job", "urgent", "--force"], "")
        .ok();
}

fn pausing_frees_the_quota(scene: &Scene, persona: Persona) {
    let (running, waiting) = eventually("one of both jobs runs", Duration::from_secs(60), || {
        let states = ["first", "second"].map(|name| scene.job(name)["status"].clone());
        match states {
            [first, _] if first == "running" => Ok(("first", "second")),
            [_, second] if second == "running" => Ok(("second", "first")),
            states => Err(json!(states)),
        }
    });
    scene.gpuctl_as(persona, &["pause", running], "").ok();
    scene.until(running, |job| job["status"] == "paused");
    scene.running(waiting);
    let paused = scene.until(running, |job| job["gpuHeld"] == 0);
    assert_eq!(
        (&paused["status"], &paused["gpu"]),
        (&json!("paused"), &json!(8)),
        "{paused:#}"
    );
    // Applying the same file does not resume the job.
    scene
        .gpuctl_as(
            persona,
            &["apply", "-f", "-"],
            &training(running, "", "gpu: 8"),
        )
        .ok();
    assert_eq!(scene.job(running)["status"], "paused");
    scene.gpuctl_as(persona, &["resume", running], "").ok();
    queued(scene, running, "Pending", "insufficient unused quota");
    scene
        .gpuctl(&["delete", "job", waiting, "--force"], "")
        .ok();
    scene.running(running);
    scene
        .gpuctl(&["delete", "job", running, "--force"], "")
        .ok();
}

fn moving_to_another_queue_needs_replace(scene: &Scene) {
    scene.admin.apply(&json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue",
        "metadata": {"name": "other", "namespace": "default"}, "spec": {"clusterQueue": "science"}}));
    let yaml = training("mover", "", "gpu: 1");
    scene.create(&yaml);
    scene.running("mover");
    let moved = yaml.replace("queue: research", "queue: other");
    let refused = scene.gpuctl(&["apply", "-f", "-"], &moved);
    assert!(
        refused.code != 0 && refused.err.contains("--replace"),
        "{}",
        refused.err
    );
    let diff = scene.gpuctl(&["diff", "-f", "-"], &moved).exits(11);
    assert!(diff.err.contains("--replace"), "{} {}", diff.out, diff.err);
    let misspelt = yaml.replace("queue: research", "queue: othr");
    scene
        .gpuctl(&["apply", "-f", "-", "--replace"], &misspelt)
        .exits(4)
        .says("queue `othr` does not exist");
    scene.running("mover");
    scene
        .gpuctl(&["apply", "-f", "-", "--replace"], &moved)
        .ok();
    scene.until("mover", |job| {
        job["status"] == "running" && job["queue"] == "other"
    });
    scene
        .gpuctl(&["delete", "job", "mover", "--force"], "")
        .ok();
}

/// Kueue's webhooks fail closed: no job can be created, and existing jobs cannot be deleted.
fn errors_name_kueue_while_it_is_down(scene: &Scene) {
    scene.create(&training("stays", "", "gpu: 1"));
    scene.running("stays");
    scene.cluster.stop("kueue").unwrap();
    let refused = scene
        .gpuctl(&["create", "-f", "-"], &training("new", "", "gpu: 1"))
        .exits(1);
    assert!(
        refused
            .err
            .contains("failed calling webhook \"mjob.kb.io\""),
        "{}",
        refused.err
    );
    let stuck = scene
        .gpuctl(&["delete", "job", "stays", "--timeout", "10s"], "")
        .exits(7);
    for words in [
        "held by batch.kubernetes.io/job-tracking",
        "failed calling webhook \"vpod.kb.io\"",
    ] {
        assert!(
            stuck.err.contains(words),
            "`{words}` is not in:\n{}",
            stuck.err
        );
    }
    scene.cluster.start_again("kueue").unwrap();
    scene.until("stays", Value::is_null);
    // The API server waits before it retries a webhook that has refused a connection.
    let probe = training("probe", "", "gpu: 1");
    eventually(
        "Kueue's webhooks answer again",
        Duration::from_secs(60),
        || {
            scene
                .gpuctl(&["create", "-f", "-", "--dry-run=server"], &probe)
                .code
                == 0
        },
    );
}

fn a_stopped_queue_is_a_cause(scene: &Scene) {
    let stop = r#"{"spec":{"stopPolicy":"Hold"}}"#;
    scene.admin.run(&[
        "patch",
        "clusterqueue",
        "science",
        "--type=merge",
        "-p",
        stop,
    ]);
    scene.create(&training("late", "", "gpu: 1"));
    queued(
        scene,
        "late",
        "Inadmissible",
        "ClusterQueue science is inactive",
    );
    assert_eq!(why(scene, "late").0, "queue-inactive");
    scene.gpuctl(&["delete", "job", "late", "--force"], "").ok();
}
