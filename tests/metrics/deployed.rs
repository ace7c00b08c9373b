//! Tests the manifests in `deploy/` on a real API server. Their commands run with the permissions
//! of their service account.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::delivery::history;
use crate::mock_server::MockServer;
use crate::past::{hours_ago, store};
use crate::support::{Scene, cluster, file, gpuctl, run};

/// The arguments of a container, with local files and addresses instead of those of the pod.
fn arguments(container: &Value, settings: &str) -> Vec<String> {
    let args = container["args"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap());
    let localized = |word: &str| match word {
        "/etc/gpuctl/config.yaml" => settings.to_owned(),
        "0.0.0.0:9400" => "127.0.0.1:0".to_owned(),
        "--watch=5m" => "--watch=1s".to_owned(),
        word => word.to_owned(),
    };
    args.map(localized).collect()
}

#[test]
fn deployed_manifests_run_with_their_own_rights() {
    let scene = Scene::new("deployed", 1);
    let pods = scene.train("work", 1, 2);
    let admin = cluster().kubectl(Persona::Admin);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    admin.run(&["apply", "-k", folder]);
    // The rollout completes only if the pods satisfy the pod security of the namespace.
    admin.run(&[
        "rollout",
        "status",
        "deployment/gpuctl-score",
        "-n",
        "gpuctl",
        "--timeout=60s",
    ]);
    admin.run(&[
        "create",
        "job",
        "now",
        "-n",
        "gpuctl",
        "--from=cronjob/gpuctl-report",
    ]);
    admin.until(
        &[
            "get",
            "pods",
            "-n",
            "gpuctl",
            "-l",
            "app.kubernetes.io/component=report",
        ],
        |list| {
            list["items"]
                .as_array()
                .is_some_and(|pods| !pods.is_empty())
        },
    );

    let token = admin.run(&["create", "token", "gpuctl", "-n", "gpuctl"]);
    let viewer_config = std::fs::read_to_string(cluster().kubeconfig(Persona::Viewer)).unwrap();
    let kubeconfig = viewer_config.replace(&cluster().token(Persona::Viewer), token.trim());
    assert_ne!(
        kubeconfig, viewer_config,
        "the token must replace the viewer's"
    );
    let kubeconfig = file("deployed.kubeconfig", &kubeconfig);
    // Settings can hold credentials, so they are a Secret.
    let settings = admin.run(&[
        "get",
        "secret",
        "gpuctl",
        "-n",
        "gpuctl",
        "-o",
        r#"go-template={{index .data "config.yaml" | base64decode}}"#,
    ]);
    let settings = settings.replace("time_window_min: 10", "time_window_min: 0.1");
    let settings = file("deployed.yaml", &settings.replace("step: 30s", "step: 1s"));
    let command = |arguments: &[String]| {
        let mut command = gpuctl(cluster(), Persona::Viewer);
        command.env("KUBECONFIG", &kubeconfig).args(arguments);
        command
    };
    let words = |line: &str| -> Vec<String> { line.split(' ').map(ToOwned::to_owned).collect() };
    for verb in ["score", "report"] {
        run(
            command(&words(&format!(
                "auth check {verb} --prometheus {}",
                scene.prometheus
            ))),
            "",
        )
        .ok();
    }
    let can = |words: &str| {
        let user = ["--as", "system:serviceaccount:gpuctl:gpuctl"];
        let answer = admin.try_run(
            &[
                &["auth", "can-i"],
                &words.split(' ').collect::<Vec<_>>()[..],
                &user,
            ]
            .concat(),
            "",
        );
        String::from_utf8(answer.stdout).unwrap().trim() == "yes"
    };
    assert!(
        can("list pods -A")
            && !can("get services --subresource=proxy -A")
            && !can("get services --subresource=proxy -n monitoring")
    );
    // The account has no other permissions.
    run(
        command(&words("logs work --prometheus none -n deployed")),
        "",
    )
    .exits(5);

    let deployment = admin.json(&["get", "deployment", "gpuctl-score", "-n", "gpuctl"]);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.com/gpuctl:0.2.0");
    let mut watch = command(&arguments(container, settings.to_str().unwrap()));
    watch
        .args(["--prometheus", &scene.prometheus, "-v"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut stderr_lines = BufReader::new(watch.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let address = stderr_lines
        .find_map(|line| Some(line.split_once("listening at http://")?.1.to_owned()))
        .unwrap();
    std::thread::spawn(move || stderr_lines.count());
    let scored = |text: &str| {
        text.lines()
            .any(|line| line.starts_with("gpu_utilization_score{") && line.contains(&pods[0]))
    };
    eventually(
        "the GPUs of the pod are scored",
        Duration::from_secs(60),
        || {
            let (code, text) = ask(&address, "/metrics");
            (code == 200 && scored(&text)).then_some(()).ok_or(text)
        },
    );
    let probe = container["readinessProbe"]["httpGet"]["path"]
        .as_str()
        .unwrap();
    assert_eq!(ask(&address, probe).0, 200);
    watch.kill().unwrap();
    // The log has a line per analysis, not a row per GPU.
    let log = String::from_utf8(watch.wait_with_output().unwrap().stdout).unwrap();
    assert!(
        !log.is_empty() && log.lines().all(|line| line.contains("mean score")),
        "{log}"
    );

    let cron = admin.json(&["get", "cronjob", "gpuctl-report", "-n", "gpuctl"]);
    let container = &cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let report = arguments(container, settings.to_str().unwrap());
    let printed = run(
        command(
            &[
                &report[..],
                &words(&format!("--prometheus {}", scene.prometheus)),
            ]
            .concat(),
        ),
        "",
    )
    .ok();
    assert!(
        printed.out.starts_with("GROUP "),
        "{}{}",
        printed.out,
        printed.err
    );
}

/// Builds `deploy/` with all of its optional components in a copy of the folder.
fn with_components(folder: &Path) -> Vec<Value> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    let copied = Command::new("cp")
        .args(["-r", source])
        .arg(folder)
        .status()
        .unwrap();
    assert!(copied.success());
    let file = folder.join("kustomization.yaml");
    let components = "components: [state, report-files, report-send, report-costs, prometheus]\n";
    let text = std::fs::read_to_string(&file).unwrap() + components;
    std::fs::write(&file, text).unwrap();
    let admin = cluster().kubectl(Persona::Admin);
    let objects = admin.run(&["kustomize", folder.to_str().unwrap()]);
    serde_saphyr::from_multiple(&objects).unwrap()
}

#[test]
fn components_deliver_reports_and_alert() {
    let folder = cluster().folder().join("components");
    let objects = with_components(&folder);
    let by_kind = |kind: &str| {
        objects
            .iter()
            .find(|object| object["kind"] == kind)
            .unwrap()
    };
    let volumes = &by_kind("Deployment")["spec"]["template"]["spec"]["volumes"];
    assert_eq!(
        volumes[1],
        json!({"name": "state", "persistentVolumeClaim": {"claimName": "gpuctl-state"}})
    );

    // The CronJob's arguments, with local folders instead of those of the pod.
    let pod = &by_kind("CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let reports = format!("{}/", folder.join("delivered").display());
    let costs = folder.join("report-costs").display().to_string();
    let settings = folder.join("config.yaml").display().to_string();
    let arguments: Vec<String> = arguments(&pod["containers"][0], &settings)
        .iter()
        .map(|word| word.replace("/etc/gpuctl-report", &costs))
        .map(|word| word.replace("/reports/", &reports))
        .collect();
    let webhook = MockServer::always(200, "");
    let store = store("components", history(), hours_ago(4));
    let mut command = gpuctl(cluster(), Persona::Admin);
    command
        .env("GPUCTL_REPORT_SEND", webhook.url("/canary"))
        .env("GPUCTL_CLUSTER_NAME", "prod")
        .args(&arguments)
        .args(["--prometheus", &store]);
    let sent = run(command, "").ok();
    assert!(
        sent.out.is_empty() && !sent.err.contains("canary"),
        "{}",
        sent.err
    );
    let body = webhook.take().remove(0).json();
    let page = body["report"].as_str().unwrap();
    assert!(
        page.contains("Cost, EUR") && page.contains("cost budget, EUR"),
        "{page}"
    );
    let name = body["file_name"].as_str().unwrap();
    let written = std::fs::read_to_string(format!("{reports}{name}")).unwrap();
    assert_eq!(written, page);

    // Prometheus accepts the alerts, which do not reset when the score changes.
    let rules = folder.join("rules.yaml");
    std::fs::write(&rules, by_kind("PrometheusRule")["spec"].to_string()).unwrap();
    let tests = folder.join("tests.yaml");
    std::fs::write(&tests, ALERT_TESTS).unwrap();
    for arguments in [
        ["check", "rules", "rules.yaml"],
        ["test", "rules", "tests.yaml"],
    ] {
        let checked = Command::new(cluster().binary("promtool"))
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        let text = [checked.stdout, checked.stderr].concat();
        assert!(
            checked.status.success(),
            "{}",
            String::from_utf8_lossy(&text)
        );
    }
}

/// A GPU that is idle for three hours fires an alert after two. One that stops being idle does not.
const ALERT_TESTS: &str = r#"
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'gpu_utilization_status{gpu_id="a",pod="p",namespace="n",node="x",status="idle"}'
        values: '1x180'
      - series: 'gpu_utilization_status{gpu_id="b",pod="q",namespace="n",node="x",status="idle"}'
        values: '1x60 0x120'
      - series: 'gpu_analysis_total'
        values: '1+1x180'
    alert_rule_test:
      - eval_time: 150m
        alertname: GpuHeldIdle
        exp_alerts:
          - exp_labels: {severity: warning, gpu_id: a, pod: p, namespace: n, node: x, status: idle}
            exp_annotations:
              summary: Pod n/p holds an idle GPU
              description: GPU a on x has been idle for 2 hours.
      - eval_time: 150m
        alertname: GpuctlScoresMissing
"#;

fn ask(address: &str, path: &str) -> (u16, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}
