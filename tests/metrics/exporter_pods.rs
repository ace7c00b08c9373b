//! Tests GPU metrics without Prometheus. gpuctl reads the exporter pods through the proxy of a real
//! API server.

use std::time::Duration;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Run, gpu, gpuctl, near, run};

fn ask(cluster: &Cluster, persona: Persona, arguments: &[&str]) -> Run {
    let mut command = gpuctl(cluster, persona);
    command.args(arguments);
    run(command, "")
}

#[test]
fn exporters_are_read_directly_without_prometheus() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let admin = cluster.kubectl(Persona::Admin);
    cluster
        .add_nodes(&["x-0", "x-1"].map(|name| in_pool(node(name, Some(A100), &[(GPU, 2)]), "x")));
    admin.apply(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}),
    );
    for name in ["busy", "other"] {
        admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": if name == "busy" { "x-0" } else { "x-1" }, "containers": [
                {"name": "main", "image": "busybox", "resources": {"limits": {GPU: "2"}}}]}}));
    }
    // Each node has one exporter. The second one does not answer.
    let exporter = Exporter::start().unwrap();
    exporter.change(|fleet| {
        let mut gpus: Vec<_> = (0..2).map(|index| gpu("x-0", index)).collect();
        for (index, device) in gpus.iter_mut().enumerate() {
            device.pods = vec![("default".to_owned(), "busy".to_owned(), "main".to_owned())];
            device.utilization = [90.0, 40.0][index];
        }
        fleet.gpus = gpus;
    });
    let port: u16 = exporter
        .address()
        .rsplit_once(':')
        .unwrap()
        .1
        .parse()
        .unwrap();
    for (name, node_name) in [("dcgm-a", "x-0"), ("dcgm-b", "x-1")] {
        admin.apply(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "gpu-operator", "labels": {"app": "nvidia-dcgm-exporter"}},
            "spec": {"nodeName": node_name, "containers": [{"name": "nvidia-dcgm-exporter", "image": "dcgm",
                "ports": [{"name": "metrics", "containerPort": 9400}]}]}}));
        let pod = admin.until(&["get", "pod", name, "-n", "gpu-operator"], |pod| {
            pod["status"]["podIP"].is_string() && pod["status"]["phase"] == "Running"
        });
        if node_name == "x-0" {
            cluster.add_road(
                &format!("{}:9400", pod["status"]["podIP"].as_str().unwrap()),
                port,
            );
        }
    }
    let assert_warning = |run: &Run, nodes: &str| {
        let expected = format!(
            "no Prometheus was found in the cluster; values are read directly from {nodes}"
        );
        assert!(run.err.contains(&expected), "{}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    };
    let nodes = ask(&cluster, Persona::Admin, &["get", "nodes", "-o", "json"]).ok();
    assert_warning(&nodes, "the exporter of 1 node");
    let node_named = |list: &Value, name: &str| -> Value {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|node| node["nodeName"] == name)
            .unwrap()
            .clone()
    };
    near(&node_named(&nodes.json(), "x-0")["gpuUtilization"], 65.0);
    assert_eq!(
        node_named(&nodes.json(), "x-1")["gpuUtilization"],
        Value::Null,
        "without an answer the value is unknown"
    );
    let consumers = ask(
        &cluster,
        Persona::Admin,
        &["get", "consumers", "-o", "json"],
    )
    .ok();
    assert_warning(&consumers, "the exporter of 1 node");
    let busy = consumers.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|consumer| consumer["name"] == "busy")
        .unwrap()
        .clone();
    // The JSON of consumers has fractions instead of percentages.
    near(&busy["stat"]["gpuUtilization"], 0.65);
    // A job of gpuctl.
    let file = crate::support::file(
        "exporters-job.yaml",
        "kind: training\nversion: v0.1\njob: {name: fit}\nenvironment: {image: busybox, command: [sleep, '1000']}\nresources: {gpu: 1}\n",
    );
    admin.run(&[
        "delete",
        "pod",
        "busy",
        "--wait=false",
        "--grace-period=0",
        "--force",
    ]);
    ask(
        &cluster,
        Persona::Admin,
        &["create", "-f", file.to_str().unwrap()],
    )
    .ok();
    let pods = admin.until(&["get", "pods", "-l", "gpuctl/job=fit"], |list| {
        list["items"]
            .as_array()
            .is_some_and(|pods| pods.iter().any(|pod| pod["spec"]["nodeName"] == "x-0"))
    });
    let pod = pods["items"][0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    exporter.change(|fleet| {
        fleet.gpus[0].pods = vec![("default".to_owned(), pod, "main".to_owned())];
        fleet.gpus[1].pods = Vec::new();
    });
    let jobs = ask(&cluster, Persona::Admin, &["get", "jobs", "-o", "json"]).ok();
    assert_warning(&jobs, "the exporter of 1 node");
    near(&jobs.json()["items"][0]["gpuUtilization"], 90.0);
    // Exporters are not read if metrics are switched off, or with `--require-metrics`.
    assert_eq!(
        ask(
            &cluster,
            Persona::Admin,
            &["--prometheus", "none", "get", "nodes"]
        )
        .ok()
        .err,
        ""
    );
    ask(
        &cluster,
        Persona::Admin,
        &["--require-metrics", "get", "nodes"],
    )
    .exits(6)
    .says("no Prometheus was found");

    // A querier that serves only HTTPS, like OpenShift's, behind the API server's proxy.
    let scrapes = json!([crate::support::scrape(
        &exporter,
        gpuctl_sandbox::exporter::Dialect::Dcgm,
        false
    )]);
    let secure = cluster.secure_prometheus("secure", &scrapes).unwrap();
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-monitoring"}}));
    let labels = json!({"app.kubernetes.io/name": "thanos-query"});
    let annotations =
        json!({"service.beta.openshift.io/serving-cert-secret-name": "thanos-querier-tls"});
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "querier", "namespace": "openshift-monitoring", "labels": labels},
         "spec": {"containers": [{"name": "querier", "image": "thanos"}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "thanos-querier", "namespace": "openshift-monitoring",
            "labels": labels, "annotations": annotations}, "spec": {"selector": labels, "ports": [{"name": "web", "port": 9091}]}},
    ]}));
    let pod = admin.until(
        &["get", "pod", "querier", "-n", "openshift-monitoring"],
        |pod| pod["status"]["podIP"].is_string(),
    );
    cluster.add_road(
        &format!("{}:9091", pod["status"]["podIP"].as_str().unwrap()),
        secure,
    );
    let proxied = eventually(
        "gpuctl reads the querier in the cluster",
        Duration::from_secs(40),
        || {
            let run = ask(
                &cluster,
                Persona::Admin,
                &["-v", "get", "nodes", "-o", "json"],
            )
            .ok();
            if run.json()["coverage"]["gpusSampled"] == 2 && !run.err.contains("no Prometheus") {
                Ok(run)
            } else {
                Err((run.out, run.err))
            }
        },
    );
    proxied.says("prometheus openshift-monitoring/thanos-querier, found in the cluster, reached through the API server");
}
