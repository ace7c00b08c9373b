//! Tests the Helm chart in `deploy/chart` with the real Helm: it renders the same objects as the
//! kustomize manifests, installs, and uninstalls without leftovers.

use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine as _;
use gpuctl_sandbox::Persona;
use gpuctl_sandbox::binaries::{Binaries, Extras};
use serde_json::Value;

use crate::support::{Scene, cluster};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");

/// Runs Helm with its cache, configuration and data in the sandbox's folder.
#[track_caller]
fn helm(arguments: &[&str]) -> String {
    let program = Binaries::ready(Extras {
        helm: true,
        ..Extras::default()
    })
    .unwrap()
    .path("helm");
    let mut command = Command::new(program);
    for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(folder, cluster().folder().join("helm"));
    }
    let output = command
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "helm {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The objects of a YAML stream by kind and name. Replaces an encoded `config.yaml` with its parsed
/// value, so that formatting is not compared.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let by_name = documents
        .into_iter()
        .filter(Value::is_object)
        .map(|mut object| {
            if let Some(settings) = object["data"]["config.yaml"].as_str() {
                // kustomize breaks long values over several lines.
                let one_line: String = settings.split_whitespace().collect();
                let text = base64::engine::general_purpose::STANDARD
                    .decode(one_line)
                    .unwrap();
                let parsed: Value =
                    serde_saphyr::from_str(&String::from_utf8(text).unwrap()).unwrap();
                object["data"]["config.yaml"] = parsed;
            }
            (
                format!("{} {}", object["kind"], object["metadata"]["name"]),
                object,
            )
        });
    by_name.collect()
}

#[test]
fn the_chart_renders_the_same_objects_as_the_manifests() {
    let scene = Scene::new("chart");
    let manifests = scene
        .admin
        .run(&["kustomize", concat!(env!("CARGO_MANIFEST_DIR"), "/deploy")]);
    let mut manifests = objects(&manifests);
    // The chart does not create a namespace: Helm installs into an existing one.
    manifests
        .remove("\"Namespace\" \"gpuctl\"")
        .expect("the manifests have a namespace");
    let chart = objects(&helm(&[
        "template",
        "gpuctl",
        CHART,
        "--namespace",
        "gpuctl",
    ]));
    assert_eq!(chart.len(), 7);
    assert_eq!(chart, manifests);

    let component = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/deploy/prometheus-service/access.yaml"
    );
    let granted = objects(&std::fs::read_to_string(component).unwrap());
    let service_values =
        "prometheusService.namespace=monitoring,prometheusService.name=prometheus-operated";
    let with_service = objects(&helm(&[
        "template",
        "gpuctl",
        CHART,
        "--namespace",
        "gpuctl",
        "--set",
        service_values,
    ]));
    assert_eq!((granted.len(), with_service.len()), (4, 11));
    assert!(
        granted
            .iter()
            .all(|(name, object)| with_service.get(name) == Some(object)),
        "{with_service:#?}"
    );

    let monitor = objects(&helm(&[
        "template",
        "gpuctl",
        CHART,
        "--namespace",
        "gpuctl",
        "--set",
        "serviceMonitor.enabled=true",
    ]));
    let component = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/deploy/prometheus/servicemonitor.yaml"
    ))
    .unwrap();
    let mut expected = objects(&component).into_values().next().unwrap();
    expected["metadata"]["namespace"] = "gpuctl".into();
    assert_eq!(
        monitor.get("\"ServiceMonitor\" \"gpuctl-score\""),
        Some(&expected)
    );

    values_reach_the_pods();

    scene.admin.run(&[
        "label",
        "namespace",
        "chart",
        "pod-security.kubernetes.io/enforce=restricted",
    ]);
    helm(&["lint", CHART, "--strict"]);
    helm(&[
        "install",
        "gpuctl",
        CHART,
        "--namespace",
        "chart",
        "--set",
        "report.by=namespace\\,pool",
    ]);
    // Pod Security admission would reject pods that violate the restricted level.
    scene.admin.until(&["get", "pods", "-n", "chart"], |list| {
        list["items"]
            .as_array()
            .is_some_and(|pods| !pods.is_empty())
    });
    let report = scene
        .admin
        .json(&["get", "cronjob", "gpuctl-report", "-n", "chart"]);
    let container = &report["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["args"][2], &container["image"]),
        (
            &"namespace,pool".into(),
            &"registry.example.com/gpuctl:0.2.0".into()
        )
    );
    let role = scene.admin.json(&["get", "clusterrole", "gpuctl-watcher"]);
    assert!(!role["rules"].to_string().contains("proxy"), "{role:#}");
    helm(&["uninstall", "gpuctl", "--namespace", "chart", "--wait"]);
    let leftovers = scene.admin.run(&[
        "get",
        "deployments,cronjobs,services,configmaps,secrets,clusterroles",
        "-n",
        "chart",
        "-o",
        "name",
    ]);
    assert!(!leftovers.contains("gpuctl"), "{leftovers}");
}

/// Values for receivers, prices, claims, scheduling and alerts.
const VALUES: &str = "\
fullnameOverride: two
imagePullSecrets: [{name: registry}]
nodeSelector: {pool: system}
tolerations: [{key: system, operator: Exists}]
score: {extraArgs: [--threshold, '30'], state: {size: 16Mi}}
report:
  prices: {currency: EUR, gpu_hour: 1.8}
  budget: {default: {gpu_hours: 5}}
  send: ['smtp://mail.example.com?from=a@example.com&to=b@example.com']
  sendFromSecret: true
  files: {claim: reports}
  extraArgs: [--ettr]
prometheusRule: {enabled: true}
";

fn values_reach_the_pods() {
    let file = cluster().folder().join("chart-values.yaml");
    std::fs::write(&file, VALUES).unwrap();
    let rendered = objects(&helm(&[
        "template",
        "gpuctl",
        CHART,
        "--namespace",
        "gpuctl",
        "--values",
        file.to_str().unwrap(),
    ]));
    let by_name = |kind: &str, name: &str| &rendered[&format!("\"{kind}\" \"{name}\"")];
    let cron = &by_name("CronJob", "two-report")["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let args: Vec<&str> = cron["containers"][0]["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    assert_eq!(
        args[5..],
        [
            "-o",
            "html",
            "--config",
            "/etc/gpuctl/config.yaml",
            "--prices=/etc/gpuctl-report/prices.yaml",
            "--budget=/etc/gpuctl-report/budget.yaml",
            "--send=/reports/",
            "--send=smtp://mail.example.com?from=a@example.com&to=b@example.com",
            "--send",
            "--execute",
            "--ettr"
        ]
    );
    assert_eq!(
        cron["volumes"][2]["persistentVolumeClaim"]["claimName"],
        "reports"
    );
    let data = &by_name("ConfigMap", "two-report")["data"];
    let prices: Value = serde_saphyr::from_str(data["prices.yaml"].as_str().unwrap()).unwrap();
    assert_eq!(prices["currency"], "EUR");
    let score = &by_name("Deployment", "two-score")["spec"]["template"]["spec"];
    for pod in [cron, score] {
        assert_eq!(
            (
                &pod["imagePullSecrets"][0]["name"],
                &pod["nodeSelector"]["pool"],
                &pod["tolerations"][0]["key"],
                &pod["serviceAccountName"]
            ),
            (
                &"registry".into(),
                &"system".into(),
                &"system".into(),
                &"two".into()
            )
        );
    }
    assert_eq!(
        score["volumes"][1]["persistentVolumeClaim"]["claimName"],
        "two-state"
    );
    by_name("PersistentVolumeClaim", "two-state");
    let component = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/deploy/prometheus/prometheusrule.yaml"
    );
    let component = objects(&std::fs::read_to_string(component).unwrap());
    let expected = component.values().next().unwrap();
    assert_eq!(
        by_name("PrometheusRule", "two-score")["spec"],
        expected["spec"]
    );
}
