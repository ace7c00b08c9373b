//! Compares `fit`, `free` and `get nodes` with the real scheduler on random inventories of dynamic
//! resource allocation: boards with partitions and twins, taints, holders, and every kind of claim.

use std::thread;
use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::nodes::{in_pool, node, tainted};
use serde_json::{Value, json};

use crate::support::{Scene, cluster, items};

const INVENTORIES: u64 = 40;
/// The driver, and the name of its device class.
const DRIVER: &str = "gpu.random.example.com";
/// An extended resource that the device class serves.
const RESOURCE: &str = "random.example.com/gpu";

/// A random number generator with a fixed seed.
struct Xorshift(u64);

impl Xorshift {
    /// Returns a number from 0 to `below - 1` (Marsaglia 2003).
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

fn pool(case: u64) -> String {
    format!("devices-{case}")
}

/// Counters for some memory slices of a board.
fn counters(slices: std::ops::Range<u64>) -> Value {
    let amounts = slices.map(|slice| (format!("memory-slice-{slice}"), json!({"value": "1"})));
    Value::Object(amounts.collect())
}

fn device(name: &str, kind: &str, memory: &str, board: u64) -> Value {
    json!({"name": name, "capacity": {"memory": {"value": memory}}, "attributes": {
        "type": {"string": kind}, "index": {"int": board},
        "productName": {"string": "NVIDIA RTX PRO 6000 Blackwell"},
        "resource.kubernetes.io/pcieRoot": {"string": format!("root-{}", board % 2)}}})
}

/// The node, its slices, and pods that hold some of its devices.
struct DeviceCase {
    node: Value,
    slices: Vec<Value>,
    holder: Option<Value>,
}

fn inventory(case: u64, random: &mut Xorshift) -> DeviceCase {
    let boards = 1 + random.below(4);
    let (is_divisible, has_twins) = (!random.one_in(3), random.one_in(2));
    let consumes = |board: u64, slices: std::ops::Range<u64>| json!([{"counterSet": format!("board-{board}"), "counters": counters(slices)}]);
    let mut devices = Vec::new();
    for board in 0..boards {
        let mut whole = device(&format!("gpu-{board}"), "gpu", "80Gi", board);
        if board > 0 && random.one_in(4) {
            whole["taints"] = json!([{"key": "example.com/xid", "effect": "NoSchedule"}]);
        }
        if !is_divisible {
            devices.push(whole);
            continue;
        }
        whole["consumesCounters"] = consumes(board, 0..7);
        devices.push(whole);
        let partitions = (0..7).map(|slice| ("1g.10gb", "10Gi", slice..slice + 1));
        let large = [0..4, 4..7].map(|slices| ("3g.40gb", "40Gi", slices));
        for (profile, memory, slices) in partitions.chain(large) {
            let name = format!("gpu-{board}-mig-{}-{}", &profile[..2], slices.start);
            let mut part = device(&name, "mig", memory, board);
            part["attributes"]["profile"] = json!({"string": profile});
            part["consumesCounters"] = consumes(board, slices);
            devices.push(part);
        }
        if has_twins {
            let mut twin = device(&format!("gpu-vfio-{board}"), "vfio", "80Gi", board);
            twin["consumesCounters"] = consumes(board, 0..7);
            devices.push(twin);
        }
    }
    let name = pool(case);
    let slice = |kind: &str, fields: Value| {
        let mut slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": format!("{name}-{kind}")}, "spec": {"driver": DRIVER, "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1 + u64::from(is_divisible)}}});
        let spec = slice["spec"].as_object_mut().unwrap();
        spec.extend(fields.as_object().unwrap().clone());
        slice
    };
    let sets = (0..boards)
        .map(|board| json!({"name": format!("board-{board}"), "counters": counters(0..7)}));
    let mut slices = vec![slice("devices", json!({"devices": devices}))];
    if is_divisible {
        slices.push(slice(
            "counters",
            json!({"sharedCounters": sets.collect::<Vec<_>>()}),
        ));
    }
    let template = match random.below(4) {
        0 if is_divisible => Some("small"),
        1 => Some("one"),
        2 if is_divisible && has_twins => Some("twin"),
        _ => None,
    };
    // A taint that the jobs of gpuctl tolerate keeps the pods of other tests away.
    let node = in_pool(
        tainted(node(&name, None, &[]), "nvidia.com/gpu", "x"),
        &name,
    );
    DeviceCase {
        node,
        slices,
        holder: template.map(|template| holder(&name, template)),
    }
}

fn holder(pool: &str, template: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("holder-{pool}"), "namespace": "devices", "labels": {"role": "holder"}},
        "spec": {"nodeSelector": {"gpuctl/pool": pool}, "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "claim", "resourceClaimTemplateName": template}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"claims": [{"name": "claim"}]}}]}})
}

/// Claims of every kind.
fn templates() -> Vec<Value> {
    let class = |prefix: &str| format!("{prefix}{DRIVER}");
    let (gpu, mig, vfio) = (class(""), class("mig."), class("vfio."));
    let exactly = |name: &str, class: &str, more: Value| {
        let mut request = json!({"name": name, "exactly": {"deviceClassName": class}});
        let fields = request["exactly"].as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        request
    };
    let cel = |expression: String| json!({"selectors": [{"cel": {"expression": expression}}]});
    let memory = |condition: &str| {
        cel(format!(
            "device.capacity['{DRIVER}'].memory.compareTo(quantity('20Gi')) {condition} 0"
        ))
    };
    let template = |name: &str, requests: Value, constraints: Value| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": "devices"},
            "spec": {"spec": {"devices": {"requests": requests, "constraints": constraints}}}})
    };
    let none = json!([]);
    vec![
        template("one", json!([exactly("a", &gpu, json!({}))]), none.clone()),
        template(
            "twin",
            json!([exactly("a", &vfio, json!({}))]),
            none.clone(),
        ),
        template(
            "small",
            json!([exactly("a", &mig, memory("<"))]),
            none.clone(),
        ),
        template(
            "large",
            json!([exactly("a", &mig, memory(">="))]),
            none.clone(),
        ),
        template(
            "any-two",
            json!([exactly("a", &mig, json!({"count": 2}))]),
            none.clone(),
        ),
        template(
            "alternatives",
            json!([{"name": "a", "firstAvailable": [
                {"name": "whole", "deviceClassName": gpu},
                {"name": "parts", "deviceClassName": mig, "count": 2}]}]),
            none.clone(),
        ),
        template(
            "pair",
            json!([
                exactly("a", &gpu, json!({})),
                exactly("b", &mig, memory("<"))
            ]),
            none.clone(),
        ),
        template(
            "same-root",
            json!([exactly("a", &gpu, json!({"count": 2}))]),
            json!([{"matchAttribute": "resource.kubernetes.io/pcieRoot"}]),
        ),
        template(
            "later",
            json!([exactly(
                "a",
                &gpu,
                cel(format!("device.attributes['{DRIVER}'].index >= 1"))
            )]),
            none.clone(),
        ),
        template(
            "all",
            json!([exactly("a", &gpu, json!({"allocationMode": "All"}))]),
            none.clone(),
        ),
        template(
            "tolerant",
            json!([exactly(
                "a",
                &gpu,
                json!({"tolerations": [{"operator": "Exists"}]})
            )]),
            none.clone(),
        ),
        template(
            "admin",
            json!([exactly("a", &gpu, json!({"adminAccess": true}))]),
            none,
        ),
    ]
}

/// Kinds of jobs: GPUs, an extended resource, or one of the templates.
const KINDS: [&str; 13] = [
    "gpu",
    "gpu",
    "extended",
    "small",
    "large",
    "any-two",
    "alternatives",
    "pair",
    "same-root",
    "later",
    "all",
    "tolerant",
    "admin",
];

/// A job for the node of a case. `is_single` is true for one GPU in each of more pods than a node
/// has GPUs, so that the number of placed pods is the number of free GPUs.
fn job(case: u64, random: &mut Xorshift) -> (String, bool) {
    let kind = KINDS[usize::try_from(case % 13).unwrap()];
    let pool = pool(case);
    let (gpus, pod) = match kind {
        "gpu" => (1 + case / 13 % 2, String::new()),
        "extended" => {
            let limits = format!("{{{RESOURCE}: '{}'}}", 1 + random.below(2));
            (
                0,
                format!("pod: {{containers: [{{resources: {{limits: {limits}}}}}]}}\n"),
            )
        }
        template => {
            let claims = format!("[{{name: claim, resourceClaimTemplateName: {template}}}]");
            let container = "{resources: {claims: [{name: claim}]}}";
            (
                0,
                format!("pod: {{resourceClaims: {claims}, containers: [{container}]}}\n"),
            )
        }
    };
    let is_single = gpus == 1;
    let pods = if is_single { 5 } else { 1 + random.below(9) };
    // Without GPUs, gpuctl adds no toleration for the taint of GPU nodes.
    let pod = match gpus {
        0 => pod.replacen(
            "pod: {",
            "pod: {tolerations: [{key: nvidia.com/gpu, operator: Exists}], ",
            1,
        ),
        _ => pod,
    };
    let text = format!(
        "kind: training\nversion: v0.1\njob: {{name: case-{case}, gang: none}}\n\
         environment: {{image: busybox, command: [train]}}\n\
         resources: {{pool: {pool}, gpu: {gpus}, cpu: 1, node_count: {pods}}}\n{pod}"
    );
    (text, is_single)
}

fn class(name: &str, kind: &str, extended: Option<&str>) -> Value {
    let expression =
        format!("device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == '{kind}'");
    let mut class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    if let Some(extended) = extended {
        class["spec"]["extendedResourceName"] = json!(extended);
    }
    class
}

#[test]
fn the_scheduler_allocates_exactly_the_predicted_devices() {
    let scene = Scene::new("devices");
    let admin_access = "resource.kubernetes.io/admin-access=true";
    scene
        .admin
        .run(&["label", "namespace", "devices", admin_access]);
    let mut random = Xorshift(0x5eed_0053);
    let cases: Vec<DeviceCase> = (0..INVENTORIES)
        .map(|case| inventory(case, &mut random))
        .collect();
    let jobs: Vec<(String, bool)> = (0..INVENTORIES)
        .map(|case| job(case, &mut random))
        .collect();
    let nodes: Vec<Value> = cases.iter().map(|case| case.node.clone()).collect();
    cluster().add_nodes(&nodes);
    let mut objects = vec![
        class(DRIVER, "gpu", Some(RESOURCE)),
        class(&format!("mig.{DRIVER}"), "mig", None),
        class(&format!("vfio.{DRIVER}"), "vfio", None),
    ];
    objects.extend(templates());
    objects.extend(cases.iter().flat_map(|case| case.slices.clone()));
    let list = |objects: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": objects});
    scene.admin.apply(&list(objects));
    let holders: Vec<Value> = cases
        .iter()
        .filter_map(|case| case.holder.clone())
        .collect();
    let held = holders.len();
    assert!(held > 10, "{held} of the nodes have a holder");
    scene.admin.apply(&list(holders));
    scene.get_until(&["pods", "-l", "role=holder"], |list| {
        let placed = items(list);
        let placed = placed
            .iter()
            .filter(|pod| pod["spec"]["nodeName"].is_string());
        placed.count() == held
    });

    // The predictions, before any job exists.
    let listed = scene
        .gpuctl(&["get", "nodes", "-o", "json", "--page-size", "1000"])
        .ok()
        .json();
    let free: Vec<u64> = (0..INVENTORIES)
        .map(|case| {
            let name = pool(case);
            let nodes = items(&listed);
            let node = nodes
                .iter()
                .find(|node| node["nodeName"] == name.as_str())
                .unwrap();
            node["gpuFree"].as_u64().unwrap()
        })
        .collect();
    let texts: Vec<&str> = jobs.iter().map(|(text, _)| text.as_str()).collect();
    let files = texts.join("---\n");
    let answer = scene
        .gpuctl_with(&["fit", "-f", "-", "-o", "json"], &files)
        .json();
    let predictions: Vec<Value> = (0..INVENTORIES)
        .map(|case| {
            let name = format!("case-{case}");
            let items = items(&answer);
            let item = items.iter().find(|item| item["name"] == name.as_str());
            item.unwrap_or_else(|| panic!("{name}: {answer:#}")).clone()
        })
        .collect();
    for (prediction, (text, _)) in predictions.iter().zip(&jobs) {
        assert_ne!(prediction["verdict"], "unknown", "{text}\n{prediction:#}");
    }
    for (case, (_, is_single)) in (0..INVENTORIES).zip(&jobs) {
        if !is_single {
            continue;
        }
        let name = pool(case);
        let answer = scene
            .gpuctl(&["free", "--pool", &name, "-o", "json"])
            .ok()
            .json();
        let in_pool: u64 = items(&answer)
            .iter()
            .map(|item| item["gpuFree"].as_u64().unwrap() + item["gpuStranded"].as_u64().unwrap())
            .sum();
        let index = usize::try_from(case).unwrap();
        assert_eq!(in_pool, free[index], "{name}: {answer:#}");
    }

    scene
        .gpuctl_with(&["create", "-f", "-", "--allow-pending"], &files)
        .ok();
    let placed = || {
        let pods = items(&scene.get(&["pods", "-l", "gpuctl/job"]));
        let mut counts = vec![0_u64; jobs.len()];
        for pod in pods
            .iter()
            .filter(|pod| pod["spec"]["nodeName"].is_string())
        {
            let job = pod["metadata"]["labels"]["gpuctl/job"].as_str().unwrap();
            let case: usize = job["case-".len()..].parse().unwrap();
            counts[case] += 1;
        }
        counts
    };
    let expected: Vec<u64> = predictions
        .iter()
        .map(|prediction| prediction["podsNow"].as_u64().unwrap())
        .collect();
    eventually(
        "the predicted pods are placed",
        Duration::from_secs(60),
        || {
            let counts = placed();
            (counts == expected)
                .then_some(())
                .ok_or_else(|| (counts, expected.clone()))
        },
    );
    // Gives the scheduler time to place one pod too many, which must not happen.
    thread::sleep(Duration::from_secs(3));
    for (case, placed) in placed().iter().enumerate() {
        let (text, is_single) = &jobs[case];
        assert_eq!(expected[case], *placed, "{text}\n{:#}", predictions[case]);
        if *is_single {
            assert_eq!(
                free[case],
                *placed,
                "free GPUs of {}: {text}",
                pool(case as u64)
            );
        }
    }
    let in_namespace = ["jobs,pods", "--all", "-n", "devices", "--wait=false"];
    scene
        .admin
        .run(&[&["delete"], in_namespace.as_slice()].concat());
    let slices: Vec<String> = cases
        .iter()
        .flat_map(|case| &case.slices)
        .map(|slice| slice["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    let mut delete = vec!["delete", "resourceslice", "--wait=false"];
    delete.extend(slices.iter().map(String::as_str));
    scene.admin.run(&delete);
}
