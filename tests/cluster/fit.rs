//! Compares `fit` with the real scheduler on random nodes, taints, existing pods and jobs: exactly
//! the predicted number of pods is placed.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster, items};

const CASES: u64 = 20;

/// A random number generator with a fixed seed.
struct Random(u64);

impl Random {
    /// A number from 0 to `below - 1`, by xorshift64 (Marsaglia 2003).
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

fn nodes_of(case: u64, random: &mut Random) -> Vec<Value> {
    let count = 1 + random.below(3);
    let one = |index: u64, random: &mut Random| {
        let gpus = u32::try_from(1 + random.below(8)).unwrap();
        let mut node = in_pool(
            node(&format!("fit-{case}-{index}"), Some(A100), &[(GPU, gpus)]),
            &format!("fit-{case}"),
        );
        let cpus = json!((4 + random.below(28)).to_string());
        node["status"]["allocatable"]["cpu"] = cpus.clone();
        node["status"]["capacity"]["cpu"] = cpus;
        node["metadata"]["labels"]["disk"] = json!(if random.one_in(2) { "fast" } else { "slow" });
        let taint = |key: &str, effect: &str| json!({"taints": [{"key": key, "value": "x", "effect": effect}]});
        match random.below(8) {
            0 => node["spec"] = taint("example.com/reserved", "NoSchedule"),
            1 => node["spec"] = taint("nvidia.com/gpu", "NoSchedule"),
            2 => node["spec"] = taint("example.com/rather-not", "PreferNoSchedule"),
            3 => node["spec"] = json!({"unschedulable": true}),
            _ => {}
        }
        node
    };
    (0..count).map(|index| one(index, random)).collect()
}

/// A pod that uses part of a node.
fn load(node: &Value, random: &mut Random) -> Option<Value> {
    if random.one_in(3) {
        return None;
    }
    let name = node["metadata"]["name"].as_str().unwrap();
    let part = |resource: &str, random: &mut Random| {
        let all: u64 = node["status"]["allocatable"][resource]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        random.below(all + 1).to_string()
    };
    let requests = json!({GPU: part(GPU, random), "cpu": part("cpu", random)});
    Some(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("load-{name}"), "namespace": "fitting"},
        "spec": {"nodeName": name, "tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "busybox",
            "resources": {"requests": requests, "limits": {GPU: requests[GPU]}}}]}}),
    )
}

fn job(case: u64, random: &mut Random) -> String {
    let (gpus, cpus, nodes) = (random.below(6), 1 + random.below(12), 1 + random.below(3));
    let mut pod = Vec::new();
    if random.one_in(4) {
        pod.push("tolerations: [{key: example.com/reserved, operator: Exists}]");
    }
    if random.one_in(3) {
        pod.push("nodeSelector: {disk: fast}");
    }
    let pod = if pod.is_empty() {
        String::new()
    } else {
        format!("pod: {{{}}}\n", pod.join(", "))
    };
    format!(
        "kind: training\nversion: v0.1\njob: {{name: case-{case}, gang: none}}\nenvironment: {{image: busybox, command: [train]}}\n\
         resources: {{pool: fit-{case}, gpu: {gpus}, cpu: {cpus}, node_count: {nodes}}}\n{pod}"
    )
}

#[test]
fn the_scheduler_places_exactly_the_predicted_pods() {
    let scene = Scene::new("fitting");
    let mut random = Random(0x5eed_0019);
    let (mut nodes, mut loads, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    for case in 0..CASES {
        let case_nodes = nodes_of(case, &mut random);
        loads.extend(case_nodes.iter().filter_map(|node| load(node, &mut random)));
        nodes.extend(case_nodes);
        jobs.push(job(case, &mut random));
    }
    cluster().add_nodes(&nodes);
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": loads}));
    let answers: Vec<(Value, i32)> = jobs
        .iter()
        .map(|job| {
            let run = scene.gpuctl_with(&["fit", "-f", "-", "-o", "json"], job);
            (run.json()[0].clone(), run.code)
        })
        .collect();
    let unknown = answers
        .iter()
        .filter(|(answer, _)| answer["verdict"] == "unknown")
        .count();
    assert_eq!(unknown, 0, "`fit` can decide every case");
    for (answer, code) in &answers {
        let expected = ["now", "not-now", "never"]
            .iter()
            .position(|word| answer["verdict"] == *word)
            .map(|at| [0, 8, 9][at]);
        assert_eq!(Some(*code), expected, "{answer:#}");
    }
    let count = |word: &str| {
        answers
            .iter()
            .filter(|(answer, _)| answer["verdict"] == word)
            .count()
    };
    assert!(
        count("now") > 2 && count("not-now") > 2 && count("never") > 1,
        "{} {} {}",
        count("now"),
        count("not-now"),
        count("never")
    );
    // Sequentially, because other tests share this cluster.
    for job in &jobs {
        scene
            .gpuctl_with(&["create", "-f", "-", "--allow-pending"], job)
            .ok();
    }
    let placed = || {
        let pods = items(&scene.get(&["pods", "-l", "gpuctl/job"]));
        let mut counts = vec![0_u64; jobs.len()];
        for pod in pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"].is_string())
        {
            let case: usize = pod["metadata"]["labels"]["gpuctl/job"].as_str().unwrap()[5..]
                .parse()
                .unwrap();
            counts[case] += 1;
        }
        counts
    };
    let expected: Vec<u64> = answers
        .iter()
        .map(|(answer, _)| answer["podsNow"].as_u64().unwrap())
        .collect();
    let limit = Duration::from_secs(90);
    eventually("the predicted pods are placed", limit, || {
        let counts = placed();
        (counts == expected)
            .then_some(())
            .ok_or_else(|| (counts, expected.clone()))
    });
    // Gives the scheduler time to place a pod too many, which must not happen.
    thread::sleep(Duration::from_secs(5));
    for (case, (placed, (answer, _))) in placed().iter().zip(&answers).enumerate() {
        assert_eq!(answer["podsNow"], *placed, "{}\n{answer:#}", jobs[case]);
    }
    scene.admin.run(&[
        "delete",
        "jobs,pods",
        "--all",
        "-n",
        "fitting",
        "--wait=false",
    ]);
}

#[test]
fn fit_explains_what_limits_a_job() {
    let scene = Scene::new("binding");
    let gpus = |name: &str| in_pool(node(name, Some(A100), &[(GPU, 8)]), "binding");
    let mut cordoned = gpus("binding-b");
    cordoned["spec"] = json!({"unschedulable": true});
    cordoned["metadata"]["labels"]["rack"] = json!("r2");
    let mut first = gpus("binding-a");
    first["metadata"]["labels"]["rack"] = json!("r1");
    cluster().add_nodes(&[first, cordoned]);
    let job = |resources: &str, more: &str| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: big}}\nenvironment: {{image: busybox, command: [train]}}\n\
             resources: {{pool: binding, {resources}}}\n{more}"
        )
    };
    let fit = |yaml: &str, code: i32| scene.gpuctl_with(&["fit", "-f", "-"], yaml).exits(code).out;
    let output = fit(&job("gpu: 8, node_count: 2", ""), 8);
    let expected = "training/big in binding: not now: 1 of 2 pods fit, 8 more GPUs needed (2 pods × 8 GPUs)\n  \
                    1 node: room for 1 pod (binding-a)\n  1 node: cordoned (binding-b)\n";
    assert!(output.starts_with(expected), "{output}");
    let within = |resources: &str, code: i32| {
        scene
            .gpuctl_with(&["fit", "-f", "-", "--by", "rack"], &job(resources, ""))
            .exits(code)
            .out
    };
    let output = within("gpu: 8, node_count: 2", 9);
    assert!(
        output.starts_with("training/big in binding: never within one rack (2 pods × 8 GPUs)\n"),
        "{output}"
    );
    assert!(
        output.contains("\n  rack=r1: 1 of 2 pods, never all (1 node)\n  rack=r2: 0 of 2 pods, never all (1 node)\n"),
        "{output}"
    );
    let output = within("gpu: 4, node_count: 2", 0);
    assert!(
        output.contains("\n  rack=r1: 2 of 2 pods (1 node)\n"),
        "{output}"
    );
    assert!(
        fit(&job("gpu: 8", ""), 0)
            .starts_with("training/big in binding: fits now (1 pod × 8 GPUs)\n")
    );
    assert!(
        fit(&job("gpu: 9", ""), 9)
            .starts_with("training/big in binding: never here (1 pod × 9 GPUs)\n")
    );
    let spread = "pod: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}\n";
    assert!(fit(&job("gpu: 1", spread), 1).contains("not known (1 pod × 1 GPU)"));
    assert!(fit(&job("gpu: 1", spread), 1).contains("not evaluated: topology spread"));
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "binding"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}));
    scene.get_until(&["resourcequota", "few"], |quota| {
        quota["status"]["hard"].is_object()
    });
    assert!(
        fit(&job("gpu: 8", ""), 9)
            .contains("quota `few` allows at most 4 of requests.nvidia.com/gpu")
    );
    // Without rights to list pods, free capacity is unknown.
    let alice = scene.seen_by(Persona::Alice);
    alice
        .gpuctl_with(&["fit", "-f", "-", "-o", "json"], &job("gpu: 1", ""))
        .exits(1);
}

/// The scheduler preempts the pod that `fit` names, and no other.
#[test]
fn fit_predicts_the_preempted_pods() {
    let scene = Scene::new("giving-way");
    cluster().add_nodes(&[in_pool(
        node("giving-way-a", Some(A100), &[(GPU, 8)]),
        "giving-way",
    )]);
    let class = |name: &str, value: i64, more: &Value| {
        let mut class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        class
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        scene.admin.apply(&class);
    };
    class("giving-way-first", 1000, &json!({}));
    class(
        "giving-way-polite",
        1000,
        &json!({"preemptionPolicy": "Never"}),
    );
    class("giving-way-middle", 500, &json!({}));
    let holder = |name: &str, class: Option<&str>| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "giving-way"},
            "spec": {"nodeSelector": {"gpuctl/pool": "giving-way"}, "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {GPU: "4"}}}]}});
        if let Some(class) = class {
            pod["spec"]["priorityClassName"] = json!(class);
        }
        scene.admin.apply(&pod);
        scene.get_until(&["pod", name], |pod| pod["spec"]["nodeName"].is_string());
    };
    holder("low", None);
    holder("middle", Some("giving-way-middle"));
    let job = |class: &str, gpus: u32| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: urgent, priority: {class}, gang: none}}\n\
             environment: {{image: busybox, command: [train]}}\nresources: {{pool: giving-way, gpu: {gpus}}}\n"
        )
    };
    let fit = |class: &str, gpus: u32| {
        scene
            .gpuctl_with(&["fit", "-f", "-", "-o", "json"], &job(class, gpus))
            .exits(8)
            .json()[0]["victims"]
            .clone()
    };
    let low = json!({"namespace": "giving-way", "name": "low", "priority": 0, "gpus": 4, "node": "giving-way-a"});
    assert_eq!(fit("giving-way-first", 4), json!([low]));
    assert_eq!(fit("giving-way-first", 8).as_array().unwrap().len(), 2);
    assert_eq!(
        fit("giving-way-polite", 4),
        Value::Null,
        "a class with `preemptionPolicy: Never` has no victims"
    );
    let text = scene
        .gpuctl_with(&["fit", "-f", "-"], &job("giving-way-first", 4))
        .exits(8)
        .out;
    assert!(
        text.contains(
            "\n  would preempt a pod of giving-way/low on giving-way-a, priority 0: 4 GPUs\n"
        ),
        "{text}"
    );
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--allow-pending"],
            &job("giving-way-first", 4),
        )
        .ok();
    let names = || -> Vec<String> {
        let pods = items(&scene.get(&["pods"]));
        let placed = pods.iter().filter(|pod| {
            pod["spec"]["nodeName"].is_string() && pod["metadata"]["deletionTimestamp"].is_null()
        });
        placed
            .map(|pod| pod["metadata"]["name"].as_str().unwrap()[..3].to_owned())
            .collect()
    };
    eventually("only `low` is preempted", Duration::from_secs(60), || {
        let placed = names();
        (placed == ["mid", "urg"]).then_some(()).ok_or(placed)
    });
    scene.admin.run(&[
        "delete",
        "jobs,pods",
        "--all",
        "-n",
        "giving-way",
        "--wait=false",
    ]);
    scene.admin.run(&[
        "delete",
        "priorityclass",
        "giving-way-first",
        "giving-way-polite",
        "giving-way-middle",
    ]);
}
