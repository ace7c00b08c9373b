//! Tests `get nodes` and `describe node`: the inventory must match kubectl and the real scheduler.

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster, items};

/// Nodes of the scene's pool.
fn nodes(scene: &Scene) -> Vec<Value> {
    items(
        &scene
            .gpuctl(&["get", "nodes", "--pool", scene.name, "-o", "json"])
            .ok()
            .json(),
    )
}

fn by_name(nodes: &[Value], name: &str) -> Value {
    nodes
        .iter()
        .find(|node| node["nodeName"] == name)
        .unwrap_or_else(|| panic!("{name}: {nodes:#?}"))
        .clone()
}

#[test]
fn nodes_show_types_slices_and_faults_of_every_vendor() {
    let scene = Scene::new("fleet");
    let pool = |node| in_pool(node, "fleet");
    let mut custom = pool(node("fleet-custom", None, &[(GPU, 2)]));
    custom["metadata"]["labels"]["company.com/gpu-model"] = json!("A100-80G");
    let mut cordoned = pool(node("fleet-cordoned", Some(A100), &[(GPU, 8)]));
    cordoned["spec"] = json!({"unschedulable": true});
    let mut broken = pool(node("fleet-broken", Some(A100), &[(GPU, 8)]));
    broken["status"]["allocatable"][GPU] = json!("7");
    let mut zero = pool(node("fleet-zero", Some(A100), &[(GPU, 8)]));
    zero["status"]["allocatable"][GPU] = json!("0");
    let mut sliced = pool(node("fleet-sliced", Some(A100), &[(GPU, 32)]));
    sliced["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!("4");
    cluster().add_nodes(&[
        pool(node("fleet-a", Some(A100), &[(GPU, 8)])),
        pool(node(
            "fleet-amd",
            Some(("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")),
            &[("amd.com/gpu", 8)],
        )),
        pool(node(
            "fleet-intel",
            Some(("gpu.intel.com/product", "Max_1550")),
            &[("gpu.intel.com/i915", 4)],
        )),
        pool(node(
            "fleet-mig",
            Some(A100),
            &[("nvidia.com/mig-1g.10gb", 4), ("nvidia.com/mig-3g.40gb", 1)],
        )),
        pool(node("fleet-plain", None, &[])),
        custom,
        cordoned,
        broken,
        sliced,
        zero,
    ]);
    let listed = nodes(&scene);
    assert_eq!(listed.len(), 10);
    let row = |name: &str| {
        let node = by_name(&listed, name);
        (
            node["status"].clone(),
            node["gpuTotal"].clone(),
            node["gpuFree"].clone(),
            node["gpuType"].clone(),
        )
    };
    // GPUs on the cordoned node and the lost one of the broken node are in the total, but not free.
    let expected = |status: &str, total: u64, free: u64, kind: Option<&str>| {
        (json!(status), json!(total), json!(free), json!(kind))
    };
    assert_eq!(row("fleet-a"), expected("active", 8, 8, Some("a100-80g")));
    assert_eq!(
        row("fleet-custom"),
        expected("active", 2, 2, Some("a100-80g"))
    );
    assert_eq!(row("fleet-amd"), expected("active", 8, 8, Some("mi300x")));
    assert_eq!(
        row("fleet-intel"),
        expected("active", 4, 4, Some("max-1550"))
    );
    assert_eq!(row("fleet-mig"), expected("active", 0, 0, Some("a100-80g")));
    assert_eq!(row("fleet-plain"), expected("active", 0, 0, None));
    assert_eq!(
        row("fleet-cordoned"),
        expected("maintaining", 8, 0, Some("a100-80g"))
    );
    assert_eq!(
        row("fleet-broken"),
        expected("faulty", 8, 7, Some("a100-80g"))
    );
    let numbers = |name: &str| {
        let node = by_name(&listed, name);
        ["gpuAllocatable", "gpuLost", "gpuCordoned", "gpuUsable"]
            .map(|field| node[field].as_u64().unwrap())
    };
    // 8 = 8 allocatable + 0 lost, and 8 = 0 usable + 8 cordoned.
    assert_eq!(numbers("fleet-cordoned"), [8, 0, 8, 0]);
    assert_eq!(numbers("fleet-broken"), [7, 1, 0, 7]);
    // A node keeps its type when all of its GPUs are lost.
    assert_eq!(
        row("fleet-zero"),
        expected("faulty", 8, 0, Some("a100-80g"))
    );
    assert_eq!(numbers("fleet-zero"), [0, 8, 0, 0]);
    assert_eq!(
        by_name(&listed, "fleet-broken")["reason"],
        "7 of 8 nvidia.com/gpu usable"
    );
    // These findings need no Prometheus.
    let health = [
        "--prometheus",
        "http://127.0.0.1:1",
        "get",
        "health",
        "-o",
        "json",
    ];
    let health = scene.gpuctl(&health).exits(6);
    let health = health.says("so only nodes were checked").json();
    let lost = health["items"].as_array().unwrap().iter();
    let lost = lost.filter(|row| row["nodeName"] == "fleet-broken");
    let lost: Vec<(&Value, &Value)> = lost.map(|row| (&row["finding"], &row["message"])).collect();
    assert_eq!(
        lost,
        [(
            &json!("lost-devices"),
            &json!("1 of 8 nvidia.com/gpu are lost")
        )]
    );
    assert_eq!(health["coverage"], Value::Null);
    assert_eq!(
        row("fleet-sliced"),
        expected("active", 0, 0, Some("a100-80g"))
    );
    assert_eq!(
        by_name(&listed, "fleet-sliced")["gpuSlices"],
        json!({"gpu.shared": {"total": 32, "used": 0, "free": 32, "lost": 0, "cordoned": 0, "stranded": 0}})
    );
    let mig = by_name(&listed, "fleet-mig")["gpuSlices"].clone();
    assert_eq!(
        mig,
        json!({
            "mig-1g.10gb": {"total": 4, "used": 0, "free": 4, "lost": 0, "cordoned": 0, "stranded": 0},
            "mig-3g.40gb": {"total": 1, "used": 0, "free": 1, "lost": 0, "cordoned": 0, "stranded": 0},
        })
    );
    let only = |arguments: &[&str]| {
        let list = scene
            .gpuctl(
                &[
                    &["get", "nodes", "--pool", "fleet", "-o", "name"],
                    arguments,
                ]
                .concat(),
            )
            .ok();
        list.out.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        only(&["--status", "faulty"]),
        ["fleet-broken", "fleet-zero"]
    );
    for spelling in ["mi300x", "AMD_Instinct_MI300X_OAM", "amd.com/mi300x"] {
        assert_eq!(only(&["--gpu-type", spelling]), ["fleet-amd"], "{spelling}");
    }
    assert_eq!(
        only(&["--gpu-type", "nvidia.com/a100-80g"]).len(),
        7,
        "slices have the type of their device"
    );
    assert_eq!(
        only(&["--sort-by", "gpus", "--page-size", "3"]),
        ["fleet-a", "fleet-amd", "fleet-broken"]
    );
    // Free GPUs: 8 + 8 + 7 + 4 + 2. The nodes that are cordoned or lost all have none.
    assert_eq!(
        only(&["--sort-by", "free", "--page-size", "3"]),
        ["fleet-a", "fleet-amd", "fleet-broken"]
    );
    check_the_numbers_of_the_pool(&scene);
    assert_eq!(only(&["--page", "2", "--page-size", "9"]), ["fleet-zero"]);
    let label = scene
        .gpuctl(&[
            "get",
            "nodes",
            "--pool",
            "fleet",
            "--gpu-type",
            "nvidia.com/gpu-type",
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(
        label["items"][0],
        json!({"nodeName": "fleet-a", "labelKey": "nvidia.com/gpu-type", "labelValue": null})
    );
    let table = scene.gpuctl(&["get", "nodes", "--pool", "fleet"]).ok().out;
    assert!(
        table.lines().next().unwrap().starts_with("NAME ")
            && table.contains("mig-1g.10gb 4/4, mig-3g.40gb 1/1"),
        "{table}"
    );
    scene
        .gpuctl(&["get", "nodes", "--gpu-type", "---"])
        .exits(2);
    assert_eq!(
        scene
            .gpuctl(&["get", "nodes", "--pool", "nothing"])
            .ok()
            .out,
        ""
    );
}

/// `get pools`, `describe pool`, `free` and the wide table show the same numbers.
fn check_the_numbers_of_the_pool(scene: &Scene) {
    let pools = scene.gpuctl(&["get", "pools", "-o", "json"]).ok().json();
    let items = pools["items"].as_array().unwrap();
    let listed = items.iter().find(|pool| pool["name"] == "fleet").unwrap();
    let described = scene
        .gpuctl(&["describe", "pool", "fleet", "-o", "json"])
        .ok()
        .json();
    for pool in [listed, &described] {
        let number = |field: &str| pool[field].as_u64().unwrap();
        // 8 (a) + 8 (amd) + 2 (custom) + 4 (intel) + 8 (cordoned) + 8 (broken) + 8 (zero).
        assert_eq!(number("gpuTotal"), 46, "{pool:#}");
        // 1 of the broken node, and 8 of `fleet-zero`.
        assert_eq!(
            (number("gpuLost"), number("gpuAllocatable")),
            (9, 37),
            "{pool:#}"
        );
        assert_eq!(
            (
                number("gpuCordoned"),
                number("gpuUsable"),
                number("gpuFree")
            ),
            (8, 29, 29),
            "{pool:#}"
        );
    }
    // 9 of 10 nodes accept new pods.
    assert_eq!(
        (&listed["nodes"], &listed["nodesUsable"]),
        (&json!(10), &json!(9))
    );
    let free = scene
        .gpuctl(&["free", "--pool", "fleet", "-o", "json"])
        .ok()
        .json();
    let sum = |field: &str| {
        let items = free["items"].as_array().unwrap().iter();
        items.map(|item| item[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(
        [
            "gpuTotal",
            "gpuFree",
            "gpuLost",
            "gpuCordoned",
            "gpuStranded"
        ]
        .map(sum),
        [46, 29, 9, 8, 8],
        "{free:#}"
    );
    let wide = scene
        .gpuctl(&["get", "nodes", "--pool", "fleet", "-o", "wide"])
        .ok()
        .out;
    assert!(
        wide.lines()
            .next()
            .unwrap()
            .contains(" FREE LOST CORDONED "),
        "{wide}"
    );
    let described = scene.gpuctl(&["describe", "node", "fleet-zero"]).ok().out;
    assert!(
        described.contains("8 × a100-80g: 0 held, 0 free, 8 lost"),
        "{described}"
    );
}

/// If a node has no kubelet, the node controller taints it. The GPUs of its pods still count as
/// used.
#[test]
fn a_node_that_is_not_ready_is_faulty_and_its_gpus_stay_used() {
    let scene = Scene::new("lost-node");
    // Without the simulated kubelet's label, only this test writes the status of this node.
    let mut lone = in_pool(node("lost-node-0", Some(A100), &[(GPU, 8)]), "lost-node");
    lone["metadata"]["labels"]
        .as_object_mut()
        .unwrap()
        .remove("type");
    lone["status"]["conditions"] =
        json!([{"type": "Ready", "status": "True", "reason": "KubeletReady"}]);
    scene.admin.apply(&lone);
    scene.admin.until(&["get", "node", "lost-node-0"], |node| {
        node["spec"]["taints"].is_null()
    });
    assert_eq!(by_name(&nodes(&scene), "lost-node-0")["status"], "active");
    scene.create("a", "resources: {pool: POOL, gpu: 3}");
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |list| {
        list["items"].as_array().is_some_and(|pods| {
            pods.iter()
                .any(|pod| pod["spec"]["nodeName"] == "lost-node-0")
        })
    });
    let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}});
    let patch = not_ready.to_string();
    scene.admin.run(&[
        "patch",
        "node",
        "lost-node-0",
        "--subresource=status",
        "--type=strategic",
        "-p",
        &patch,
    ]);
    scene.admin.until(&["get", "node", "lost-node-0"], |node| {
        node["spec"]["taints"].as_array().is_some_and(|taints| {
            taints
                .iter()
                .any(|taint| taint["key"] == "node.kubernetes.io/not-ready")
        })
    });
    let node = by_name(&nodes(&scene), "lost-node-0");
    assert_eq!(
        (&node["status"], &node["reason"]),
        (&json!("faulty"), &json!("NotReady"))
    );
    assert_eq!(
        (&node["gpuTotal"], &node["gpuUsed"], &node["gpuFree"]),
        (&json!(8), &json!(3), &json!(0)),
        "no job can get the other five"
    );
    assert_eq!(
        (&node["gpuCordoned"], &node["gpuUsable"]),
        (&json!(8), &json!(0))
    );
    let text = scene.gpuctl(&["describe", "node", "lost-node-0"]).ok().out;
    assert!(
        text.contains("faulty") && text.contains("NotReady"),
        "{text}"
    );
    scene.gpuctl(&["delete", "job", "a", "--force"]).ok();
    scene.admin.run(&["delete", "node", "lost-node-0"]);
}

#[test]
fn free_gpus_agree_with_the_scheduler() {
    let scene = Scene::with_nodes("last-gpu", 1);
    // A pod with a sidecar and an init container, which needs 1 + 3 GPUs at first and then 1 + 2.
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mixed", "namespace": "last-gpu"}, "spec": {
        "nodeSelector": {"gpuctl/pool": "last-gpu"},
        "initContainers": [
            {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"limits": {GPU: "1"}}},
            {"name": "init", "image": "i", "resources": {"limits": {GPU: "3"}}},
        ],
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {GPU: "2"}, "requests": {"cpu": "1500m", "memory": "2Gi"}}}]}});
    scene.admin.apply(&pod);
    scene.get_until(&["pod", "mixed"], |pod| pod["status"]["phase"] == "Running");
    let free = |scene: &Scene| {
        by_name(&nodes(scene), "last-gpu-0")["gpuFree"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(
        free(&scene),
        4,
        "the init container and the sidecar, which need more than the sidecar and the main container"
    );
    for _ in 0..free(&scene) {
        let name = format!("fill-{}", free(&scene));
        scene.create(&name, "");
        scene.until(&name, "running", None);
    }
    assert_eq!(free(&scene), 0);
    scene.create("more", "");
    scene.until("more", "pending", Some("Unschedulable"));
    let node = scene
        .gpuctl(&["describe", "node", "last-gpu-0", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (
            &node["resources"]["gpuUsed"],
            &node["resources"]["cpuUsed"],
            &node["resources"]["memoryUsed"]
        ),
        (&json!(8), &json!(1.5), &json!("2Gi"))
    );
    assert_eq!(node["runningJobs"].as_array().unwrap().len(), 4);
    assert_eq!(
        node["runningJobs"][0],
        json!({"jobId": "fill-1", "name": "fill-1", "namespace": "last-gpu", "gpu": 1})
    );
    assert!(
        node["gpuDetail"]
            .as_array()
            .unwrap()
            .iter()
            .all(|gpu| gpu["status"] == "used" && gpu["utilization"].is_null())
    );
    let holders = node["holders"].as_array().unwrap();
    assert!(
        holders.contains(&json!({"namespace": "last-gpu", "pod": "mixed", "jobId": null, "gpu": 4, "gpuSlices": {}})),
        "{holders:#?}"
    );
    scene.gpuctl(&["delete", "job", "fill-1", "fill-2"]).ok();
    scene.until("more", "running", None);
    assert_eq!(free(&scene), 1);
    let text = scene.gpuctl(&["describe", "node", "last-gpu-0"]).ok().out;
    assert!(
        text.starts_with("last-gpu-0   active   pool last-gpu\n")
            && text.contains("8 × a100-80g: 7 held, 1 free"),
        "{text}"
    );
    scene
        .gpuctl(&["describe", "node", "last-gpu-1"])
        .exits(4)
        .says("node `last-gpu-1` does not exist")
        .says("did you mean `last-gpu-0`?");
}

#[test]
fn devices_of_dynamic_resource_allocation_agree_with_the_scheduler() {
    let scene = Scene::new("dra");
    cluster().add_nodes(&[in_pool(node("dra-0", None, &[]), "dra")]);
    let device = |name: &str, kind: &str| {
        let mut device = json!({"name": name, "attributes": {
            "type": {"string": kind}, "productName": {"string": "NVIDIA H100 80GB HBM3"}, "uuid": {"string": format!("GPU-{name}")}}});
        if kind == "mig" {
            device["attributes"]["profile"] = json!({"string": "1g.10gb"});
        }
        device
    };
    scene.admin.apply(
        &json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "dra-0-gpus"}, "spec": {
        "driver": "gpu.nvidia.com", "nodeName": "dra-0", "pool": {"name": "dra-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [device("gpu-0", "gpu"), device("gpu-1", "gpu"), device("gpu-2", "gpu"), device("mig-0", "mig")]}}),
    );
    scene.admin.apply(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}}));
    scene.admin.apply(
        &json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two", "namespace": "dra"}, "spec": {"spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}}}}),
    );
    let before = by_name(&nodes(&scene), "dra-0");
    assert_eq!(
        (&before["gpuTotal"], &before["gpuFree"], &before["gpuType"]),
        (&json!(3), &json!(3), &json!("h100-80g"))
    );
    assert_eq!(
        before["gpuSlices"],
        json!({"mig-1g.10gb": {"total": 1, "used": 0, "free": 1, "lost": 0, "cordoned": 0, "stranded": 0}})
    );
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "dra"}, "spec": {
        "nodeSelector": {"gpuctl/pool": "dra"}, "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}],
        "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "gpus"}]}}]}})
    };
    scene.admin.apply(&pod("first"));
    scene.get_until(&["pod", "first"], |pod| pod["status"]["phase"] == "Running");
    let after = by_name(&nodes(&scene), "dra-0");
    assert_eq!(
        (&after["gpuUsed"], &after["gpuFree"]),
        (&json!(2), &json!(1))
    );
    let described = scene
        .gpuctl(&["describe", "node", "dra-0", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        described["holders"][0],
        json!({"namespace": "dra", "pod": "first", "jobId": null, "gpu": 2, "gpuSlices": {}})
    );
    // gpuctl counts one free GPU. The scheduler must refuse a pod that needs two.
    scene.admin.apply(&pod("second"));
    scene.get_until(&["pod", "second"], |pod| {
        pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| one["type"] == "PodScheduled" && one["status"] == "False")
    });
    assert_eq!(by_name(&nodes(&scene), "dra-0")["gpuFree"], 1);
    // A job claims the remaining GPU. There is no device plugin, so gpuctl creates a
    // ResourceClaimTemplate.
    let job = |name: &str, gpus: u32| {
        let resources = format!("resources: {{gpu: {gpus}, gpu-type: h100-80g, pool: dra}}");
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: i, command: [sleep, '1']}}\n{resources}\n"
        )
    };
    // `fit` agrees that one of the three is free.
    for (gpus, code) in [(1, 0), (2, 8), (3, 8), (4, 9)] {
        scene
            .gpuctl_with(&["fit", "-f", "-"], &job("asked", gpus))
            .exits(code);
    }
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait", "--timeout", "60s"],
            &job("claims", 1),
        )
        .ok();
    let template =
        scene.get(&["resourceclaimtemplate", "-l", "gpuctl/job=claims"])["items"][0].clone();
    assert_eq!(
        template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"],
        r#"device.attributes["gpu.nvidia.com"].productName in ["NVIDIA H100 80GB HBM3"]"#
    );
    let claiming = scene.job("claims");
    assert_eq!(
        (&claiming["gpu"], &claiming["status"]),
        (&json!(1), &json!("running")),
        "{claiming:#}"
    );
    assert_eq!(by_name(&nodes(&scene), "dra-0")["gpuFree"], 0);
    let described = scene
        .gpuctl(&["describe", "node", "dra-0", "-o", "json"])
        .ok()
        .json();
    let holder = described["holders"]
        .as_array()
        .unwrap()
        .iter()
        .find(|holder| holder["jobId"] == "claims")
        .unwrap();
    assert_eq!(holder["gpu"], 1);
    // The next job is pending. Applying its unchanged file changes nothing.
    scene
        .gpuctl_with(&["create", "-f", "-"], &job("waits", 2))
        .ok();
    scene.until("waits", "pending", Some("Unschedulable"));
    assert_eq!(
        scene.gpuctl(&["why", "waits", "-o", "json"]).ok().json()["sentence"],
        "waits waits: 2 of device class gpu.nvidia.com on one node; dra-0 has 0 of 3 free"
    );
    assert_eq!(
        scene
            .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &job("waits", 2))
            .ok()
            .json()["action"],
        "unchanged"
    );
    scene.gpuctl(&["delete", "job", "claims", "waits"]).ok();
    scene.get_until(&["resourceclaimtemplates"], |list| {
        list["items"]
            .as_array()
            .is_some_and(|items| items.len() == 1)
    });
    assert_eq!(by_name(&nodes(&scene), "dra-0")["gpuFree"], 1);
    scene.admin.run(&["delete", "resourceslice", "dra-0-gpus"]);
}

#[test]
fn usage_without_rights_on_pods_is_unknown_and_warned_about_once() {
    let scene = Scene::with_nodes("node-rights", 1);
    scene
        .admin
        .apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "see-nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]}));
    scene.admin.run(&[
        "create",
        "clusterrolebinding",
        "see-nodes",
        "--clusterrole=see-nodes",
        "--user=erin",
    ]);
    let erin = scene.seen_by(Persona::Erin);
    let run = erin
        .gpuctl(&["get", "nodes", "--pool", "node-rights", "-o", "json"])
        .ok();
    let node = run.json()["items"][0].clone();
    assert_eq!(
        (&node["gpuTotal"], &node["gpuUsed"], &node["gpuFree"]),
        (&json!(8), &Value::Null, &Value::Null)
    );
    assert_eq!(
        run.err
            .matches("you are not allowed to list the pods in all namespaces")
            .count(),
        1,
        "{}",
        run.err
    );
    let table = erin
        .gpuctl(&["get", "nodes", "--pool", "node-rights"])
        .ok()
        .out;
    let words: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        words,
        [
            "node-rights-0",
            "active",
            "node-rights",
            "a100-80g",
            "8",
            "-",
            "-",
            "-",
            "-"
        ]
    );
    erin.gpuctl(&["describe", "node", "node-rights-0"]).ok();
}

#[test]
fn a_watch_of_nodes_prints_each_change_once() {
    use std::io::{BufRead, BufReader};
    let scene = Scene::with_nodes("node-watch", 1);
    let mut child = scene.start(&["get", "nodes", "--pool", "node-watch", "-w", "-o", "json"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut next = || {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    assert_eq!(next()["gpuUsed"], 0);
    scene.create("a", "");
    assert_eq!(next()["gpuUsed"], 1);
    scene.admin.run(&["cordon", "node-watch-0"]);
    assert_eq!(next()["status"], "maintaining");
    child.kill().unwrap();
    let _ = child.wait();
}
