//! Scenarios with jobs that wait for free capacity.

use serde_json::{Value, json};

use super::setup::{A100, GPU, NS, Setup, container, gpus, holder, job, pod, with};

fn held(gpus: u32) -> Value {
    json!({GPU: gpus.to_string()})
}

fn machine(resource: &str, amount: &str) -> Value {
    json!({ resource: amount })
}

fn requesting(gpus: u32, resource: &str, amount: &str) -> Value {
    container(
        pod(gpus),
        json!({"resources": {"requests": {resource: amount}}}),
    )
}

fn cordoned(index: usize) -> Value {
    with(gpus(index), json!({"spec": {"unschedulable": true}}))
}

fn tainted(index: usize, key: &str) -> Value {
    with(
        gpus(index),
        json!({"spec": {"taints": [{"key": key, "value": "x", "effect": "NoSchedule"}]}}),
    )
}

/// A volume that only nodes of another zone can mount, and its claim.
fn far_volume() -> [Value; 2] {
    let name = format!("{NS}-data");
    [
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "hostPath": {"path": "/x"},
            "claimRef": {"namespace": NS, "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["far"]}]}]}}}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "storageClassName": "", "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}),
    ]
}

pub fn mounts(spec: Value, claim: &str) -> Value {
    with(
        spec,
        json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}),
    )
}

pub fn setups() -> Vec<Setup> {
    let new = |title: &str, truth| Setup::new("capacity", title, truth);
    let wanting_type = |product: &str| {
        let term =
            json!([{"matchExpressions": [{"key": A100.0, "operator": "In", "values": [product]}]}]);
        let mut spec = with(
            pod(1),
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": term}}}}),
        );
        spec["nodeSelector"] = json!({});
        with(
            job(1, spec),
            json!({"metadata": {"labels": {"gpuctl/gpu-type": product}}}),
        )
    };
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "minDomains": 2, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"gpuctl/job": "train"}}}]});
    let affinity = json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}]}}});
    let port = |gpus| {
        container(
            pod(gpus),
            json!({"ports": [{"containerPort": 9000, "hostPort": 9000}]}),
        )
    };
    let port_holder = || {
        let mut holder = holder(0, &held(1));
        holder["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 9000, "hostPort": 9000}]);
        holder
    };
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "devices"},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": format!("{NS}.example.com")}}]}}}});
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": format!("{NS}.example.com")}, "spec": {}});
    let claims = container(
        with(
            pod(0),
            json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "devices"}]}),
        ),
        json!({"resources": {"claims": [{"name": "gpu"}]}}),
    );
    // Creates device classes as the vendor's driver would, each with its own devices.
    let driver = format!("gpu.{NS}.example.com");
    let selectors = json!([{"cel": {"expression": format!("device.driver == '{driver}' && device.attributes['{driver}'].type == 'gpu'")}}]);
    let served_class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": format!("{NS}.example.com")}, "spec": {"selectors": selectors}});
    let template_for_two = |class: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "devices"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class, "count": 2}}]}}}})
    };
    let slice = |taint: Value| {
        let device = |index: usize| {
            let taints = if index == 0 { json!([]) } else { taint.clone() };
            json!({"name": format!("gpu-{index}"), "attributes": {"type": {"string": "gpu"}}, "taints": taints})
        };
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{NS}-0")}, "spec": {
            "driver": driver, "nodeName": format!("{NS}-0"), "pool": {"name": format!("{NS}-0"), "generation": 1, "resourceSliceCount": 1},
            "devices": [device(0), device(1), device(2)]}})
    };
    let class_name = format!("{NS}.example.com");
    let broken = json!([{"key": "example.com/broken", "value": "ecc", "effect": "NoSchedule"}]);
    let class_holder = || {
        let pod = with(claims.clone(), json!({"nodeSelector": {"scenario": NS}}));
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "holder"}, "spec": pod})
    };
    let silent = |index| {
        let mut one = holder(index, &held(8));
        one["metadata"]["annotations"] = json!({"sandbox/silent": "yes"});
        one
    };
    let urgent = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": format!("{NS}-urgent")}, "value": 1000});
    let mut one_pod_node = gpus(0);
    one_pod_node["status"]["allocatable"]["pods"] = json!("1");
    one_pod_node["status"]["capacity"]["pods"] = json!("1");
    let mut unready = with(
        gpus(0),
        json!({"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network plugin"}]}}),
    );
    unready["metadata"]["labels"]["type"] = json!("dead");
    vec![
        new("one full node", "insufficient-gpu")
            .nodes([gpus(0)])
            .before([holder(0, &held(8))])
            .objects([job(1, pod(4))]),
        new("two full nodes", "insufficient-gpu")
            .nodes([gpus(0), gpus(1)])
            .before([holder(0, &held(8)), holder(1, &held(8))])
            .objects([job(1, pod(1))]),
        new("three of eight free", "insufficient-gpu")
            .nodes([gpus(0)])
            .before([holder(0, &held(5))])
            .objects([job(1, pod(4))]),
        new("the second of two pods", "insufficient-gpu")
            .nodes([gpus(0)])
            .objects([job(2, pod(8))]),
        new("a service's second replica", "insufficient-gpu")
            .nodes([gpus(0)])
            .objects([super::setup::service(2, pod(8), json!({}))]),
        new("three free on each of two", "fragmented")
            .nodes([gpus(0), gpus(1)])
            .before([holder(0, &held(5)), holder(1, &held(5))])
            .objects([job(1, pod(4))])
            .without_nodes("insufficient-gpu"),
        new("four free on each of three", "fragmented")
            .nodes([gpus(0), gpus(1), gpus(2)])
            .before([
                holder(0, &held(4)),
                holder(1, &held(4)),
                holder(2, &held(4)),
            ])
            .objects([job(1, pod(8))])
            .without_nodes("insufficient-gpu"),
        new("CPU held", "insufficient-cpu")
            .nodes([gpus(0)])
            .before([holder(0, &machine("cpu", "90"))])
            .objects([job(1, requesting(1, "cpu", "16"))]),
        new("CPU held on two nodes", "insufficient-cpu")
            .nodes([gpus(0), gpus(1)])
            .before([
                holder(0, &machine("cpu", "90")),
                holder(1, &machine("cpu", "95")),
            ])
            .objects([job(1, requesting(2, "cpu", "8"))]),
        new("memory held", "insufficient-memory")
            .nodes([gpus(0)])
            .before([holder(0, &machine("memory", "1000Gi"))])
            .objects([job(1, requesting(1, "memory", "64Gi"))]),
        new("disk held", "insufficient-storage")
            .nodes([gpus(0)])
            .before([holder(0, &machine("ephemeral-storage", "2000Gi"))])
            .objects([job(1, requesting(1, "ephemeral-storage", "100Gi"))]),
        new("no room for another pod", "insufficient-pods")
            .nodes([one_pod_node])
            .before([holder(0, &held(1))])
            .objects([job(1, pod(1))]),
        new("a type that no node has", "gpu-type-absent")
            .nodes([gpus(0)])
            .objects([wanting_type("NVIDIA-H200")])
            .without_nodes("unknown"),
        new("another type that no node has", "gpu-type-absent")
            .nodes([gpus(0)])
            .objects([wanting_type("NVIDIA-GB300")])
            .without_nodes("unknown"),
        new("sixteen on nodes of eight", "never-fits")
            .nodes([gpus(0), gpus(1)])
            .objects([job(1, pod(16))])
            .without_nodes("insufficient-gpu"),
        new("more CPU than any node has", "never-fits")
            .nodes([gpus(0)])
            .objects([job(1, requesting(1, "cpu", "200"))])
            .without_nodes("insufficient-cpu"),
        new("a node reserved by a taint", "taint")
            .nodes([tainted(0, "example.com/reserved")])
            .objects([job(1, pod(1))])
            .without_nodes("unknown"),
        new("nodes reserved for a team", "taint")
            .nodes([tainted(0, "team"), tainted(1, "team")])
            .objects([job(1, pod(8))])
            .without_nodes("unknown"),
        new("a label that no node has", "node-selector")
            .nodes([gpus(0)])
            .objects([job(1, with(pod(1), json!({"nodeSelector": {"disk": NS}})))])
            .without_nodes("unknown"),
        new("a zone that no node has", "node-selector")
            .nodes([gpus(0)])
            .objects([job(
                1,
                with(
                    pod(1),
                    json!({"nodeSelector": {"topology.kubernetes.io/zone": "mars"}}),
                ),
            )])
            .without_nodes("unknown"),
        new("one cordoned node", "cordoned")
            .nodes([cordoned(0)])
            .objects([job(1, pod(8))])
            .without_nodes("unknown"),
        new("two cordoned nodes", "cordoned")
            .nodes([cordoned(0), cordoned(1)])
            .objects([job(1, pod(1))])
            .without_nodes("unknown"),
        new("a node that never came up", "node-faulty")
            .nodes([unready])
            .objects([job(1, pod(1))])
            .without_nodes("unknown"),
        new("a volume elsewhere", "volume-topology")
            .nodes([gpus(0)])
            .before(far_volume())
            .objects([job(1, mounts(pod(1), "data"))]),
        new("spread over two hosts of one", "topology-spread")
            .nodes([gpus(0)])
            .objects([job(2, with(pod(1), spread))]),
        new("affinity to a pod that does not exist", "pod-affinity")
            .nodes([gpus(0)])
            .objects([job(1, with(pod(1), affinity))]),
        new("a port in use", "host-port")
            .nodes([gpus(0)])
            .before([port_holder()])
            .objects([job(1, port(1))]),
        new("devices that no node has", "device-claim")
            .nodes([gpus(0)])
            .before([class, claim])
            .objects([job(1, claims.clone())]),
        new("devices that another pod claims", "device-claim")
            .nodes([gpus(0)])
            .before([
                served_class.clone(),
                slice(json!([])),
                template_for_two(&class_name),
                class_holder(),
            ])
            .objects([job(1, claims.clone())]),
        new("devices that are tainted", "device-taint")
            .nodes([gpus(0)])
            .before([
                served_class.clone(),
                slice(broken),
                template_for_two(&class_name),
            ])
            .objects([job(1, claims.clone())])
            .without_nodes("device-claim"),
        new("a class of devices that does not exist", "device-claim")
            .nodes([gpus(0)])
            .before([template_for_two("nobody.example.com")])
            .objects([job(1, claims.clone())])
            .without_nodes("unknown"),
        new("a victim that does not end", "preemption-pending")
            .nodes([gpus(0)])
            .before([silent(0), urgent])
            .objects([job(
                1,
                with(pod(8), json!({"priorityClassName": format!("{NS}-urgent")})),
            )]),
        Setup {
            emitted: vec![super::setup::EmittedEvent {
                reason: "TriggeredScaleUp",
                message: "pod triggered scale-up: [{gpu-pool 1->2 (max: 8)}]",
                warning: false,
                about: "Pod",
            }],
            ..new("an autoscaler brings a node", "node-starting")
                .nodes([gpus(0)])
                .before([holder(0, &held(8))])
                .objects([job(1, pod(4))])
                .without_events("insufficient-gpu")
        },
    ]
}
