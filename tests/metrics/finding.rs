//! Tests how gpuctl finds Prometheus in the cluster and reaches it with the user's permissions. It
//! uses the API server or a port-forward. If neither works, it prints a warning.

use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;
use std::time::Duration;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::json;

use crate::support::{A100, GPU, Run, file, gpu, gpuctl, run};

/// A separate cluster, because a Service of Prometheus affects all tests of a cluster.
pub fn dedicated_cluster() -> &'static (Cluster, Exporter) {
    static CLUSTER: OnceLock<(Cluster, Exporter)> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let exporter = Exporter::start().unwrap();
        let options = Options {
            exporters: vec![exporter.address()],
            ..Options::default()
        };
        let cluster = Cluster::start(&options).unwrap_or_else(|error| panic!("{error:#}"));
        cluster.add_nodes(&[in_pool(node("found-0", Some(A100), &[(GPU, 2)]), "found")]);
        exporter.change(|fleet| fleet.gpus = (0..2).map(|index| gpu("found-0", index)).collect());
        (cluster, exporter)
    })
}

fn as_user(persona: Persona, arguments: &[&str]) -> Run {
    let mut command = gpuctl(&dedicated_cluster().0, persona);
    command.args(arguments);
    run(command, "")
}

/// One test, because its steps must run in order and tests of a file run concurrently.
#[test]
fn prometheus_is_found_and_reached_by_proxy_or_port_forward() {
    let (cluster, _) = dedicated_cluster();
    let admin = cluster.kubectl(Persona::Admin);
    // Without Prometheus, the inventory has unknown cells, and there is one warning.
    let none = as_user(Persona::Admin, &["get", "nodes", "-o", "json"])
        .ok()
        .says("no Prometheus was found in the cluster");
    assert_eq!(none.err.lines().count(), 1, "{}", none.err);
    assert!(
        none.json()["items"][0]["gpuUtilization"].is_null() && none.json()["coverage"].is_null()
    );
    as_user(Persona::Admin, &["get", "nodes", "--require-metrics"])
        .exits(6)
        .says("no Prometheus was found");
    assert_eq!(
        as_user(Persona::Admin, &["--prometheus", "none", "get", "nodes"])
            .ok()
            .err,
        ""
    );
    for arguments in [
        &["get", "heatmap"][..],
        &["score", "-o", "json"],
        &["get", "heatmap", "-o", "json"],
    ] {
        let run = as_user(Persona::Admin, arguments)
            .exits(6)
            .says("no Prometheus was found in the cluster");
        assert_eq!(run.out, "", "{arguments:?}");
    }
    // The dashboard works without metrics, and so does its table.
    let top = as_user(Persona::Admin, &["top", "--once", "-o", "json"])
        .ok()
        .says("no Prometheus was found in the cluster")
        .json();
    assert_eq!((&top["nodes"], &top["gpuTotal"]), (&json!(1), &json!(2)));
    assert!(top["gpuUtilization"].is_null() && top["coverage"].is_null());
    as_user(Persona::Admin, &["top", "--require-metrics"]).exits(6);
    let overview = as_user(Persona::Admin, &["get", "overview", "-o", "json"])
        .ok()
        .json();
    assert!(
        overview["utilization"].is_null() && overview["storageStat"]["totalCapacity"].is_null()
    );

    cluster.publish_prometheus("monitoring");
    // A Service with the right label that does not answer is tried and skipped.
    admin.apply(&json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "thanos-query", "namespace": "monitoring", "labels": {"app.kubernetes.io/name": "thanos-query"}},
        "spec": {"ports": [{"port": 10902}]}}));
    let discovered = eventually(
        "the Prometheus in the cluster is found",
        Duration::from_secs(30),
        || {
            let run = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
            if run.json()["coverage"]["gpusSampled"] == 2 {
                Ok(run)
            } else {
                Err((run.out, run.err))
            }
        },
    );
    assert!(
        discovered.err.contains("prometheus monitoring/prometheus-operated, found in the cluster, reached through the API server"),
        "{}",
        discovered.err
    );

    // The Service is cached for some minutes, and checked before it is used again.
    let cached = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
    assert!(
        cached.err.contains(
            "prometheus monitoring/prometheus-operated, found in the cluster a few minutes ago"
        ),
        "{}",
        cached.err
    );
    let entries: Vec<_> = std::fs::read_dir(cluster.folder().join("cache/gpuctl/found"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(entries.len(), 1);
    let (path, mode) = (
        entries[0].path(),
        entries[0].metadata().unwrap().permissions().mode() & 0o777,
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        mode == 0o600 && text.contains("prometheus-operated"),
        "{mode:o} {text}"
    );
    for changed in [
        text.replace("prometheus-operated", "thanos-query"),
        text.replace("prometheus-operated", "../../secrets"),
        "{".to_owned(),
    ] {
        std::fs::write(&path, changed).unwrap();
        let cached = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
        assert!(
            cached.err.contains(
                "prometheus-operated, found in the cluster, reached through the API server"
            ),
            "{}",
            cached.err
        );
        assert_eq!(cached.json()["coverage"]["gpusSampled"], 2);
    }

    // Both transports give the same scores.
    let score = |arguments: &[&str]| {
        eventually("all GPUs have a score", Duration::from_secs(40), || {
            let run = as_user(
                Persona::Admin,
                &[
                    &[
                        "score", "--all", "--window", "6s", "--step", "1s", "-o", "json",
                    ],
                    arguments,
                ]
                .concat(),
            );
            let mut list = run.ok().json();
            for row in list.as_array_mut().unwrap() {
                (row["timestamp"], row["samples"]) = (json!(null), json!(null));
            }
            let mut rows = list.as_array().unwrap().iter();
            if rows.all(|row| row["score"].is_number()) {
                Ok(list)
            } else {
                Err(list)
            }
        })
    };
    let scores = score(&[]);
    assert_eq!(
        (scores.as_array().unwrap().len(), &scores),
        (2, &score(&["--prometheus", &cluster.prometheus()]))
    );

    // A user who can list nodes and pods but cannot reach Prometheus.
    let grant = |name: &str, rules: serde_json::Value| {
        admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
             "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Persona::Erin.user()}]},
        ]}));
    };
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    grant(
        "see-nodes",
        json!([rule(
            &["", "resource.k8s.io"],
            &["nodes", "pods", "resourceslices", "resourceclaims"],
            &["list"]
        )]),
    );
    let denied = as_user(Persona::Erin, &["get", "nodes", "-o", "json"]).ok();
    // The user cannot see which Services exist, so no message names one of the usual places.
    assert!(
        denied
            .err
            .contains("you are not allowed to look for Prometheus; tried 10 usual places")
            && !denied.err.contains("thanos-querier")
            && denied.json()["items"][0]["gpuUtilization"].is_null(),
        "{}",
        denied.err
    );
    let heatmap = as_user(Persona::Erin, &["get", "heatmap", "-o", "json"]).exits(5);
    let error: serde_json::Value =
        serde_json::from_str(heatmap.err.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"], "PrometheusForbidden");
    assert_eq!(error["kind"], "access");
    assert!(
        error["hints"][0]
            .as_str()
            .unwrap()
            .contains("set `--prometheus URL`, GPUCTL_PROMETHEUS or `prometheus.url`"),
        "{error}"
    );
    // A port-forward needs different permissions.
    grant(
        "forward",
        json!([
            rule(&["discovery.k8s.io"], &["endpointslices"], &["list"]),
            rule(&[""], &["pods/portforward"], &["get", "create"]),
        ]),
    );
    let forwarded = as_user(Persona::Erin, &["-v", "get", "nodes", "-o", "json"]).ok();
    assert!(
        forwarded.err.contains("reached by a port-forward"),
        "{}",
        forwarded.err
    );
    assert_eq!(forwarded.json()["coverage"]["gpusSampled"], 2);
    // gpuctl prefers the proxy once the user is allowed to use it.
    grant(
        "proxy",
        json!([
            rule(&[""], &["services/proxy"], &["get"]),
            rule(&[""], &["services"], &["list"])
        ]),
    );
    let proxied = as_user(Persona::Erin, &["-v", "get", "nodes", "-o", "json"]).ok();
    assert!(
        proxied.err.contains("reached through the API server"),
        "{}",
        proxied.err
    );
    // A workload of many pods needs a query that is too long for most URLs. It is sent in a body,
    // or in the URL if the user has only the `get` right.
    let name = format!("many-{}", "x".repeat(40));
    admin.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"parallelism": 60, "completions": 60, "template": {"spec": {"restartPolicy": "Never", "containers": [
            {"name": "main", "image": "busybox", "resources": {"limits": {GPU: "1"}}}]}}}}));
    admin.until(&["get", "pods", "-n", "default"], |list| {
        list["items"]
            .as_array()
            .is_some_and(|pods| pods.len() >= 60)
    });
    for persona in [Persona::Admin, Persona::Erin] {
        let run = as_user(
            persona,
            &[
                "-n",
                "default",
                "get",
                "metrics",
                "workload",
                &format!("Job/{name}"),
                "-o",
                "json",
            ],
        )
        .ok();
        assert!(
            run.json()["GPU Utilization"]["series"].is_array(),
            "{}",
            run.err
        );
    }
    // Statistics of several clusters skip a cluster that does not answer.
    let kubeconfig_of_cluster: serde_json::Value = cluster
        .kubectl(Persona::Admin)
        .json(&["config", "view", "--raw", "-o", "json"]);
    let mut both = kubeconfig_of_cluster.clone();
    both["clusters"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}));
    let user = kubeconfig_of_cluster["contexts"][0]["context"]["user"].clone();
    both["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "gone", "context": {"cluster": "gone", "user": user}}));
    let kubeconfig = file("both.kubeconfig", &both.to_string());
    let stats_of_all = |arguments: &[&str]| {
        let mut command = gpuctl(cluster, Persona::Admin);
        command.env("KUBECONFIG", &kubeconfig).args([
            "stats",
            "cluster",
            "--all-contexts",
            "--start",
            "1h",
            "-o",
            "json",
        ]);
        command.args(arguments);
        run(command, "")
    };
    let list = stats_of_all(&["--no-cache"])
        .ok()
        .says("skipping cluster gone")
        .json();
    let context_name = kubeconfig_of_cluster["contexts"][0]["name"].clone();
    assert!(
        list.as_array()
            .is_some_and(|rows| !rows.is_empty()
                && rows.iter().all(|row| row["cluster_name"] == context_name)),
        "{list:#}"
    );
    let contexts = both["contexts"].as_array_mut().unwrap();
    contexts.remove(0);
    (both["current-context"], both["clusters"][0]) = (json!("gone"), both["clusters"][1].clone());
    std::fs::write(&kubeconfig, both.to_string()).unwrap();
    assert_eq!(stats_of_all(&[]).exits(6).out, "");
    // Credentials are sent only to an address of the user, not to any Service with the right label.
    let with_header = [
        "--prometheus-header",
        "X-Scope-OrgID: team",
        "get",
        "nodes",
        "-o",
        "json",
    ];
    assert!(
        as_user(Persona::Erin, &with_header)
            .ok()
            .err
            .contains("not to a Prometheus found in the cluster")
    );
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let (cluster, _) = dedicated_cluster();
    let url = cluster.prometheus();
    let config = file(
        "config.yaml",
        "prometheus: {url: 'http://127.0.0.1:1/file'}\n",
    );
    let config = config.to_str().unwrap();
    let stderr_of = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = gpuctl(cluster, Persona::Admin);
        environment.iter().for_each(|(key, value)| {
            command.env(key, value);
        });
        command
            .args(["--config", config, "-v", "get", "nodes", "-o", "csv"])
            .args(arguments);
        run(command, "").ok().err
    };
    assert!(
        stderr_of(&[], &[]).contains("prometheus http://127.0.0.1:1/file, set by the config file")
    );
    let environment = [("PROM_URL", "http://127.0.0.1:1/environment")];
    assert!(
        stderr_of(&environment, &[])
            .contains("prometheus http://127.0.0.1:1/environment, set by the environment")
    );
    let err = stderr_of(&environment, &["--prometheus", &url]);
    assert!(
        err.contains(&format!("prometheus {url}, set by `--prometheus`")),
        "{err}"
    );
    // Credentials in the address are never printed.
    let secret = url.replace("http://", "http://alice:hunter2@");
    let err = stderr_of(&[], &["--prometheus", &secret]);
    assert!(
        !err.contains("hunter2") && err.contains(&format!("prometheus {url}, set by")),
        "{err}"
    );
    let mut command = gpuctl(cluster, Persona::Admin);
    command.args(["--config", "/nonexistent.yaml", "get", "nodes"]);
    run(command, "")
        .exits(2)
        .says("cannot read /nonexistent.yaml");
}
