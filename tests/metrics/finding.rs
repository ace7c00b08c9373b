//! Prometheus is found in the cluster and reached with the user's own rights: through the API
//! server, by a port-forward, or not at all, which is said.

use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use gpuctl_sandbox::exporter::Exporter;
use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::json;

use crate::support::{A100, GPU, Run, file, gpu, gpuctl, run};

/// Whether a Prometheus is there concerns the whole cluster.
pub fn own_cluster() -> &'static (Cluster, Exporter) {
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
    let mut command = gpuctl(&own_cluster().0, persona);
    command.args(arguments);
    run(command, "")
}

/// Tests of one file run beside each other; this one goes step by step.
#[test]
fn from_nothing_to_the_proxy_and_the_port_forward() {
    let (cluster, _) = own_cluster();
    let admin = cluster.kubectl(Persona::Admin);
    // Nothing is there: inventory answers with unknown cells and says so once.
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
        &["top"],
        &["get", "heatmap", "-o", "json"],
    ] {
        let run = as_user(Persona::Admin, arguments)
            .exits(6)
            .says("no Prometheus was found in the cluster");
        assert_eq!(run.out, "", "{arguments:?}");
    }
    let overview = as_user(Persona::Admin, &["get", "overview", "-o", "json"])
        .ok()
        .json();
    assert!(
        overview["utilization"].is_null() && overview["storageStat"]["totalCapacity"].is_null()
    );

    cluster.publish_prometheus("monitoring");
    // A Service of that kind that is none: it is asked, and the other one taken.
    admin.apply(&json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "thanos-query", "namespace": "monitoring", "labels": {"app.kubernetes.io/name": "thanos-query"}},
        "spec": {"ports": [{"port": 10902}]}}));
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let found = loop {
        let found = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
        if found.json()["coverage"]["gpusSampled"] == 2 {
            break found;
        }
        assert!(
            std::time::Instant::now() < end,
            "{}{}",
            found.out,
            found.err
        );
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    assert!(
        found.err.contains("prometheus monitoring/prometheus-operated, found in the cluster, reached through the API server"),
        "{}",
        found.err
    );

    // It is remembered for some minutes, and asked whether it still is what it was.
    let again = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
    assert!(
        again.err.contains(
            "prometheus monitoring/prometheus-operated, found in the cluster some minutes ago"
        ),
        "{}",
        again.err
    );
    let remembered: Vec<_> = std::fs::read_dir(cluster.folder().join("cache/gpuctl/found"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(remembered.len(), 1);
    let (path, mode) = (
        remembered[0].path(),
        remembered[0].metadata().unwrap().permissions().mode() & 0o777,
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
        let again = as_user(Persona::Admin, &["-v", "get", "nodes", "-o", "json"]).ok();
        assert!(
            again.err.contains(
                "prometheus-operated, found in the cluster, reached through the API server"
            ),
            "{}",
            again.err
        );
        assert_eq!(again.json()["coverage"]["gpusSampled"], 2);
    }

    // The same score by either road.
    let score = |arguments: &[&str]| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(40);
        loop {
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
            for one in list.as_array_mut().unwrap() {
                (one["timestamp"], one["samples"]) = (json!(null), json!(null));
            }
            if list
                .as_array()
                .unwrap()
                .iter()
                .all(|one| one["score"].is_number())
            {
                return list;
            }
            assert!(std::time::Instant::now() < end, "{list:#}");
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
    };
    let found = score(&[]);
    assert_eq!(
        (found.as_array().unwrap().len(), &found),
        (2, &score(&["--prometheus", &cluster.prometheus()]))
    );

    // Rights of a user who may look at nodes and pods, and at nothing of Prometheus.
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
    assert!(
        denied.err.contains("denies access")
            && denied.json()["items"][0]["gpuUtilization"].is_null(),
        "{}",
        denied.err
    );
    as_user(Persona::Erin, &["get", "heatmap"])
        .exits(6)
        .says("hint: reach it with `--prometheus URL`");
    // A port-forward is another way.
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
    // The proxy is preferred as soon as it may be used.
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
    // A workload of many pods makes a query that no address has room for: in a body, or, where only
    // reading is allowed, all the same in the address.
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
    // Statistics of several clusters go on when one does not answer.
    let known: serde_json::Value = cluster
        .kubectl(Persona::Admin)
        .json(&["config", "view", "--raw", "-o", "json"]);
    let mut both = known.clone();
    both["clusters"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "gone", "cluster": {"server": "https://127.0.0.1:1"}}));
    let user = known["contexts"][0]["context"]["user"].clone();
    both["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "gone", "context": {"cluster": "gone", "user": user}}));
    let kubeconfig = file("both.kubeconfig", &both.to_string());
    let of_all = |arguments: &[&str]| {
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
    let list = of_all(&["--no-cache"]).ok().says("gone is skipped").json();
    let named = known["contexts"][0]["name"].clone();
    assert!(
        list.as_array().is_some_and(
            |rows| !rows.is_empty() && rows.iter().all(|row| row["cluster_name"] == named)
        ),
        "{list:#}"
    );
    let contexts = both["contexts"].as_array_mut().unwrap();
    contexts.remove(0);
    (both["current-context"], both["clusters"][0]) = (json!("gone"), both["clusters"][1].clone());
    std::fs::write(&kubeconfig, both.to_string()).unwrap();
    assert_eq!(of_all(&[]).exits(6).out, "");
    // Credentials are for whom the user names, not for whoever has a Service with the right label.
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
fn flags_come_before_the_environment_and_that_before_the_file() {
    let (cluster, _) = own_cluster();
    let url = cluster.prometheus();
    let config = file(
        "config.yaml",
        "prometheus: {url: 'http://127.0.0.1:1/file'}\n",
    );
    let config = config.to_str().unwrap();
    let said = |environment: &[(&str, &str)], arguments: &[&str]| {
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
        said(&[], &[]).contains("prometheus http://127.0.0.1:1/file, named by the config file")
    );
    let environment = [("PROM_URL", "http://127.0.0.1:1/environment")];
    assert!(
        said(&environment, &[])
            .contains("prometheus http://127.0.0.1:1/environment, named by the environment")
    );
    let err = said(&environment, &["--prometheus", &url]);
    assert!(
        err.contains(&format!("prometheus {url}, named by `--prometheus`")),
        "{err}"
    );
    // A user and a password in the address are shown to nobody.
    let secret = url.replace("http://", "http://alice:hunter2@");
    let err = said(&[], &["--prometheus", &secret]);
    assert!(
        !err.contains("hunter2") && err.contains(&format!("prometheus {url}, named")),
        "{err}"
    );
    let mut command = gpuctl(cluster, Persona::Admin);
    command.args(["--config", "/nonexistent.yaml", "get", "nodes"]);
    run(command, "")
        .exits(2)
        .says("cannot read /nonexistent.yaml");
}
