//! Deploys the container image that `packaging/image.sh` builds offline to a real node, using the
//! manifests in `deploy/`. The kubelet probes it, the restricted Pod Security level confines it,
//! and Prometheus scrapes it.

use std::process::Command;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Cluster, Hardware, Options, Persona};
use serde_json::{Value, json};

use crate::runner::{gpuctl, run};
use crate::support::{POOL, devices, eventually, training};

#[track_caller]
fn run_program(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Adapts `deploy/` to this cluster. The pods get a kubeconfig, because no Service points to the
/// API server. The watch interval is 2 s instead of five minutes.
const OVERLAY: &str = "\
resources: [deploy]
components: [deploy/prometheus-service]
patches:
  - target: {kind: Deployment}
    patch: |
      - {op: replace, path: /spec/template/spec/containers/0/args/1, value: --watch=2s}
      - {op: add, path: /spec/template/spec/containers/0/env, value: [{name: KUBECONFIG, value: /etc/cluster/config}]}
      - {op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: cluster, mountPath: /etc/cluster}}
      - {op: add, path: /spec/template/spec/volumes/-, value: {name: cluster, secret: {secretName: cluster}}}
  - target: {kind: CronJob}
    patch: |
      - {op: add, path: /spec/jobTemplate/spec/template/spec/containers/0/env, value: [{name: KUBECONFIG, value: /etc/cluster/config}]}
      - {op: add, path: /spec/jobTemplate/spec/template/spec/containers/0/volumeMounts/-, value: {name: cluster, mountPath: /etc/cluster}}
      - {op: add, path: /spec/jobTemplate/spec/template/spec/volumes/-, value: {name: cluster, secret: {secretName: cluster}}}
";

#[test]
fn the_image_runs_with_the_deploy_manifests_and_is_scraped() {
    let exporter = Exporter::start().unwrap();
    let options = Options {
        with_real_nodes: true,
        exporters: vec![exporter.address()],
        ..Options::default()
    };
    let cluster = Cluster::start(&options).unwrap();
    let admin = cluster.kubectl(Persona::Admin);
    // Prometheus' pod runs on a simulated node, which is cordoned to keep all other pods off it.
    cluster.add_nodes(&[node("simulated", None, &[])]);
    cluster.publish_prometheus("monitoring");
    admin.run(&["cordon", "simulated"]);
    cluster
        .add_real_node(&Hardware::gpus(2).in_pool(POOL))
        .unwrap();
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
        .args(["create", "-f", "-", "--wait", "--timeout", "60s"]);
    run(command, &training("busy", "sleep 600", "")).ok();
    let holders = cluster.on_real_node(0, |node| node.holders());
    exporter.change(|fleet| fleet.gpus = devices(&holders, 2));

    let folder = cluster.folder().join("image");
    std::fs::create_dir_all(&folder).unwrap();
    let in_folder = |name: &str| folder.join(name).display().to_string();
    let in_source = |name: &str| format!("{}/{name}", env!("CARGO_MANIFEST_DIR"));
    // Debug symbols, which releases omit, make the test binary five times as large.
    run_program(
        "strip",
        &["-o", &in_folder("gpuctl"), env!("CARGO_BIN_EXE_gpuctl")],
    );
    run_program(
        &in_source("packaging/image.sh"),
        &[&in_folder("gpuctl"), &in_folder("image.tar")],
    );
    cluster.on_real_node(0, |node| node.load(&folder.join("image.tar")));

    run_program("cp", &["-r", &in_source("deploy"), &in_folder("deploy")]);
    let settings = std::fs::read_to_string(in_folder("deploy/config.yaml")).unwrap();
    let quick = settings
        .replace("time_window_min: 10", "time_window_min: 0.1")
        .replace("step: 30s", "step: 1s");
    assert_ne!(settings, quick);
    std::fs::write(in_folder("deploy/config.yaml"), quick).unwrap();
    std::fs::write(in_folder("kustomization.yaml"), OVERLAY).unwrap();
    admin.run(&["apply", "-k", &folder.display().to_string()]);
    let token = admin.run(&[
        "create",
        "token",
        "gpuctl",
        "-n",
        "gpuctl",
        "--duration",
        "1h",
    ]);
    let authority = std::fs::read_to_string(cluster.folder().join("ca.crt")).unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "in",
        "clusters": [{"name": "in", "cluster": {"server": cluster.api_server_for_pods(0), "tls-server-name": "127.0.0.1",
            "certificate-authority": "/etc/cluster/authority"}}],
        "users": [{"name": "in", "user": {"token": token.trim()}}],
        "contexts": [{"name": "in", "context": {"cluster": "in", "user": "in"}}],
    });
    admin.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cluster", "namespace": "gpuctl"},
        "stringData": {"config": config.to_string(), "authority": authority}}));
    // The pod becomes ready once the kubelet's probe of /health succeeds.
    admin.run(&[
        "rollout",
        "status",
        "deployment/gpuctl-score",
        "-n",
        "gpuctl",
        "--timeout=120s",
    ]);
    let pods = admin.json(&[
        "get",
        "pods",
        "-n",
        "gpuctl",
        "-l",
        "app.kubernetes.io/component=score",
    ]);
    assert_eq!(pods["items"][0]["spec"]["nodeName"], "gpu-real-0");

    let scrape = json!([{"job_name": "score", "scheme": "https", "honor_labels": true, "tls_config": {"insecure_skip_verify": true},
        "metrics_path": "/api/v1/namespaces/gpuctl/services/gpuctl-score:metrics/proxy/metrics",
        "authorization": {"credentials": cluster.token(Persona::Admin)},
        "static_configs": [{"targets": [cluster.api_server().trim_start_matches("https://")]}]}]);
    let prometheus = cluster
        .another_prometheus("prometheus-score", &scrape)
        .unwrap();
    eventually("Prometheus has a score of the held GPU", || {
        let address = format!("{prometheus}/api/v1/query");
        let output = Command::new("curl")
            .args(["-sG", &address, "--data-urlencode", "query={job=\"score\"}"])
            .output();
        let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default();
        let scores = answer["data"]["result"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_held = |series: &Value| {
            let metric = &series["metric"];
            metric["__name__"] == "gpu_utilization_score"
                && metric["pod"]
                    .as_str()
                    .is_some_and(|pod| pod.starts_with("busy"))
        };
        if scores.iter().any(is_held) {
            Ok(())
        } else {
            Err(answer)
        }
    });

    admin.run(&[
        "create",
        "job",
        "now",
        "-n",
        "gpuctl",
        "--from=cronjob/gpuctl-report",
    ]);
    admin.run(&[
        "wait",
        "--for=condition=complete",
        "job/now",
        "-n",
        "gpuctl",
        "--timeout=90s",
    ]);
    let report = admin.run(&["logs", "job/now", "-n", "gpuctl"]);
    assert!(
        report.contains("default"),
        "the report has no row of the namespace default: {report}"
    );
}
