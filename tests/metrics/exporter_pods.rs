//! GPUs without any Prometheus: the exporters' own pods are asked, through the proxy of a real API
//! server.

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Run, gpu, gpuctl, near, run};

fn ask(cluster: &Cluster, persona: Persona, arguments: &[&str]) -> Run {
    let mut command = gpuctl(cluster, persona);
    command.args(arguments);
    run(command, "")
}

#[test]
fn exporters_answer_where_there_is_no_prometheus() {
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
    // One exporter for each node; that of the second does not answer.
    let exporter = Exporter::start().unwrap();
    exporter.change(|fleet| {
        let mut gpus: Vec<_> = (0..2).map(|index| gpu("x-0", index)).collect();
        for (index, one) in gpus.iter_mut().enumerate() {
            one.pods = vec![("default".to_owned(), "busy".to_owned(), "main".to_owned())];
            one.utilization = [90.0, 40.0][index];
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
    for (name, at) in [("dcgm-a", "x-0"), ("dcgm-b", "x-1")] {
        admin.apply(&json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "gpu-operator", "labels": {"app": "nvidia-dcgm-exporter"}},
            "spec": {"nodeName": at, "containers": [{"name": "nvidia-dcgm-exporter", "image": "dcgm",
                "ports": [{"name": "metrics", "containerPort": 9400}]}]}}));
        let pod = admin.until(&["get", "pod", name, "-n", "gpu-operator"], |pod| {
            pod["status"]["podIP"].is_string() && pod["status"]["phase"] == "Running"
        });
        if at == "x-0" {
            cluster.add_road(
                &format!("{}:9400", pod["status"]["podIP"].as_str().unwrap()),
                port,
            );
        }
    }
    let told = |run: &Run, nodes: &str| {
        let expected = format!(
            "no Prometheus was found in the cluster; values are read directly from {nodes}"
        );
        assert!(run.err.contains(&expected), "{}", run.err);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    };
    let nodes = ask(&cluster, Persona::Admin, &["get", "nodes", "-o", "json"]).ok();
    told(&nodes, "the exporter of 1 node");
    let of = |list: &Value, name: &str| -> Value {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|node| node["nodeName"] == name)
            .unwrap()
            .clone()
    };
    near(&of(&nodes.json(), "x-0")["gpuUtilization"], 65.0);
    assert_eq!(
        of(&nodes.json(), "x-1")["gpuUtilization"],
        Value::Null,
        "who does not answer is unknown"
    );
    let consumers = ask(
        &cluster,
        Persona::Admin,
        &["get", "consumers", "-o", "json"],
    )
    .ok();
    told(&consumers, "the exporter of 1 node");
    let busy = consumers.json()["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "busy")
        .unwrap()
        .clone();
    // A share of one, as the document has it.
    near(&busy["stat"]["gpuUtilization"], 0.65);
    // A job of ours.
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
    told(&jobs, "the exporter of 1 node");
    near(&jobs.json()["items"][0]["gpuUtilization"], 90.0);
    // Nobody is asked with metrics switched off, in answers that demand Prometheus, or without the
    // right.
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

    // A querier that speaks HTTPS alone, as OpenShift's does, behind the API server's proxy.
    let scrapes = json!([crate::support::scrape(
        &exporter,
        gpuctl_sandbox::exporter::Dialect::Dcgm,
        false
    )]);
    let secure = cluster.secure_prometheus("secure", &scrapes).unwrap();
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-monitoring"}}));
    let labels = json!({"app.kubernetes.io/name": "thanos-query"});
    let made_by =
        json!({"service.beta.openshift.io/serving-cert-secret-name": "thanos-querier-tls"});
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "querier", "namespace": "openshift-monitoring", "labels": labels},
         "spec": {"containers": [{"name": "querier", "image": "thanos"}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "thanos-querier", "namespace": "openshift-monitoring",
            "labels": labels, "annotations": made_by}, "spec": {"selector": labels, "ports": [{"name": "web", "port": 9091}]}},
    ]}));
    let pod = admin.until(
        &["get", "pod", "querier", "-n", "openshift-monitoring"],
        |pod| pod["status"]["podIP"].is_string(),
    );
    cluster.add_road(
        &format!("{}:9091", pod["status"]["podIP"].as_str().unwrap()),
        secure,
    );
    let end = std::time::Instant::now() + std::time::Duration::from_secs(40);
    loop {
        let found = ask(
            &cluster,
            Persona::Admin,
            &["-v", "get", "nodes", "-o", "json"],
        )
        .ok();
        if found.json()["coverage"]["gpusSampled"] == 2 && !found.err.contains("no Prometheus") {
            found.says("prometheus openshift-monitoring/thanos-querier, found in the cluster, reached through the API server");
            break;
        }
        assert!(
            std::time::Instant::now() < end,
            "{}{}",
            found.out,
            found.err
        );
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}
