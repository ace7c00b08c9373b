//! The Helm chart of `deploy/chart`, by the real Helm: it makes what the manifests beside it make,
//! installs and leaves nothing behind.

use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine as _;
use gpuctl_sandbox::Persona;
use gpuctl_sandbox::binaries::{Binaries, Extras};
use serde_json::Value;

use crate::support::{Scene, cluster};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");

/// Runs Helm, which keeps nothing outside of the sandbox's folder.
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

/// Objects of a stream of YAML by kind and name. Settings are compared as what they say.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let named = all.into_iter().filter(Value::is_object).map(|mut object| {
        if let Some(settings) = object["data"]["config.yaml"].as_str() {
            // kustomize breaks long values into lines.
            let one_line: String = settings.split_whitespace().collect();
            let text = base64::engine::general_purpose::STANDARD
                .decode(one_line)
                .unwrap();
            let said: Value = serde_saphyr::from_str(&String::from_utf8(text).unwrap()).unwrap();
            object["data"]["config.yaml"] = said;
        }
        (
            format!("{} {}", object["kind"], object["metadata"]["name"]),
            object,
        )
    });
    named.collect()
}

#[test]
fn the_chart_makes_what_the_manifests_make() {
    let scene = Scene::new("chart");
    let manifests = scene
        .admin
        .run(&["kustomize", concat!(env!("CARGO_MANIFEST_DIR"), "/deploy")]);
    let mut manifests = objects(&manifests);
    // Helm installs into a namespace that is there.
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
    let named = "prometheusService.namespace=monitoring,prometheusService.name=prometheus-operated";
    let with_service = objects(&helm(&[
        "template",
        "gpuctl",
        CHART,
        "--namespace",
        "gpuctl",
        "--set",
        named,
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
    let mut wanted = objects(&component).into_values().next().unwrap();
    wanted["metadata"]["namespace"] = "gpuctl".into();
    assert_eq!(
        monitor.get("\"ServiceMonitor\" \"gpuctl-score\""),
        Some(&wanted)
    );

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
    // A pod that the namespace refuses would never be made.
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
            &"registry.example.com/gpuctl:0.1.0".into()
        )
    );
    let role = scene.admin.json(&["get", "clusterrole", "gpuctl-watcher"]);
    assert!(!role["rules"].to_string().contains("proxy"), "{role:#}");
    helm(&["uninstall", "gpuctl", "--namespace", "chart", "--wait"]);
    let left = scene.admin.run(&[
        "get",
        "deployments,cronjobs,services,configmaps,secrets,clusterroles",
        "-n",
        "chart",
        "-o",
        "name",
    ]);
    assert!(!left.contains("gpuctl"), "{left}");
}
