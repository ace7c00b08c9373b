//! Two clusters of different truth in one store, with equal names of nodes and pods: what one of
//! them is asked is answered as by a store of its own, and nothing is added up over both.

use std::path::PathBuf;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::past::{HOUR, Telling, Written, ask, before, history, seconds, store};
use crate::support::{A100, GPU, cluster};

/// The same samples as those of a cluster that is told under this label.
fn of_cluster(name: &str, written: Vec<Written>, other: bool) -> Vec<Written> {
    let named = |one: Written| {
        // The other cluster has the same nodes and pods, and other numbers.
        let differs = ["DCGM_FI_DEV_GPU_UTIL", "kube_node_status_capacity"]
            .iter()
            .any(|name| one.series.starts_with(name));
        let value = if other && differs {
            "7".to_owned()
        } else {
            one.value
        };
        Written {
            series: one
                .series
                .replacen('{', &format!("{{cluster=\"{name}\","), 1),
            at: one.at,
            value,
        }
    };
    written.into_iter().map(named).collect()
}

/// A pod of the real cluster, with its UID.
fn real_pod() -> String {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "which"}}));
    cluster().add_nodes(&[gpuctl_sandbox::nodes::node(
        "which-0",
        Some(A100),
        &[(GPU, 8)],
    )]);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "known", "namespace": "which"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]}}));
    admin.json(&["get", "pod", "known", "-n", "which"])["metadata"]["uid"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn one_of_two_clusters_is_answered_as_if_it_were_alone() {
    let begin = before(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let alone = store("which-alone", history(Telling::Plain).0, begin);
    let both = || {
        let mut all = of_cluster("prod", history(Telling::Plain).0, false);
        all.extend(of_cluster("lab", history(Telling::Plain).0, true));
        all
    };
    let unclear = store("which-unclear", both(), begin);
    let uid = real_pod();
    let mut with_pod = both();
    let now = seconds() - begin;
    for (at, value) in [(now - 60, "1"), (now, "1"), (now + 120, "1")] {
        let series = format!(
            "kube_pod_info{{cluster=\"prod\",namespace=\"which\",pod=\"known\",uid=\"{uid}\",node=\"which-0\"}}"
        );
        with_pod.push(Written {
            series,
            at,
            value: value.to_owned(),
        });
    }
    let proven = store("which-proven", with_pod, begin);
    let cache = |name: &str| -> PathBuf { cluster().folder().join(format!("which-cache-{name}")) };
    let span = ["--start", start.as_str(), "--end", end.as_str()];
    let commands: [&[&str]; 5] = [
        &["stats", "cluster", "-o", "json"],
        &["stats", "namespaces", "-o", "json"],
        &["stats", "workloads", "-o", "json"],
        &["report", "-o", "json"],
        &["snapshot", "list", "-o", "json"],
    ];
    for command in commands {
        let command = [command, &span[..]].concat();
        let expected = ask(&alone, &cache("alone"), &command).ok().out;
        assert!(expected.len() > 100, "{expected}");
        assert_eq!(
            ask(
                &unclear,
                &cache("named"),
                &[&command[..], &["--match", "cluster=prod"]].concat()
            )
            .ok()
            .out,
            expected
        );
        // Its own pod tells which one it is.
        assert_eq!(ask(&proven, &cache("proven"), &command).ok().out, expected);
        let other = ask(
            &unclear,
            &cache("other"),
            &[&command[..], &["--match", "cluster=lab"]].concat(),
        )
        .ok()
        .out;
        assert_ne!(
            other, expected,
            "{command:?} has the numbers of the other cluster"
        );
        let refused = ask(&unclear, &cache("refused"), &command).exits(2);
        assert_eq!(refused.out, "");
        refused
            .says("has GPUs of 2 clusters, and it is unknown which one is this cluster: cluster=lab, cluster=prod")
            .says("--match cluster=lab");
    }
    // What is kept of one cluster is never told of the other.
    let shared = cache("shared");
    // Nodes of another cluster are named where they are told now.
    let foreign = store(
        "which-foreign",
        vec![Written {
            series: "kube_node_info{node=\"elsewhere-7\"}".to_owned(),
            at: now,
            value: "1".to_owned(),
        }],
        begin,
    );
    let warned = ask(
        &foreign,
        &cache("foreign"),
        &["stats", "cluster", "-o", "json"],
    )
    .ok();
    warned
        .says("has data about the nodes elsewhere-7, but cluster admin has ")
        .says("the data may belong to another cluster");
    let stats = |name: &str| {
        let matcher = format!("cluster={name}");
        ask(
            &unclear,
            &shared,
            &[
                &["stats", "cluster", "-o", "json", "--match", &matcher],
                &span[..],
            ]
            .concat(),
        )
        .ok()
        .out
    };
    let (prod, lab) = (stats("prod"), stats("lab"));
    assert_ne!(prod, lab);
    assert_eq!((stats("prod"), stats("lab")), (prod, lab));
    ask(
        &unclear,
        &shared,
        &["stats", "cluster", "--match", "cluster"],
    )
    .exits(2)
    .says("is not a matcher of the form LABEL=VALUE");
    let doctor = ask(&unclear, &shared, &["doctor", "-o", "json"]).out;
    let doctor: Value = serde_json::from_str(&doctor).unwrap();
    let check = doctor["checks"]
        .as_array()
        .unwrap()
        .iter()
        .find(|check| check["check"] == "clusters");
    let check = check.unwrap_or_else(|| panic!("{doctor:#}"));
    assert_eq!(
        (
            check["status"].as_str(),
            check["message"].as_str().unwrap().contains("2 clusters")
        ),
        (Some("fail"), true),
        "{check:#}"
    );
}

#[test]
fn an_empty_store_is_told_and_the_estimate_counts_every_sample() {
    let begin = before(6);
    let written = history(Telling::Plain).0;
    let names = [
        "DCGM_FI_DEV_GPU_UTIL{",
        "DCGM_FI_DEV_FB_USED{",
        "DCGM_FI_DEV_FB_FREE{",
    ];
    let counted =
        |one: &&Written| one.at < HOUR && names.iter().any(|name| one.series.starts_with(name));
    let expected = written.iter().filter(counted).count();
    let store = store("which-estimate", written, begin);
    let query = gpuctl_core::stats::exporters::query::samples_of_an_hour();
    let asked = std::process::Command::new(cluster().binary("promtool"))
        .args([
            "query",
            "instant",
            "--time",
            &(begin + HOUR).to_string(),
            &store,
            &query,
        ])
        .output()
        .unwrap();
    let told = String::from_utf8(asked.stdout).unwrap();
    assert!(
        told.starts_with(&format!("{{}} => {expected} @")),
        "{expected}: {told}{}",
        String::from_utf8_lossy(&asked.stderr)
    );
    let cache = cluster().folder().join("which-empty-cache");
    let (start, end) = ((begin - 3 * HOUR).to_string(), begin.to_string());
    let empty = ask(
        &store,
        &cache,
        &[
            "stats", "cluster", "-o", "json", "--start", &start, "--end", &end,
        ],
    )
    .ok();
    assert!(
        empty
            .json()
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["avg_utilization"].is_null())
    );
    empty.says("has no data about pods for this time");
    // Its nodes are not those of this cluster.
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let told = ask(
        &store,
        &cache,
        &[
            "stats", "cluster", "-o", "json", "--start", &start, "--end", &end,
        ],
    )
    .ok();
    assert!(!told.err.contains("no data about pods"), "{}", told.err);
}

#[test]
fn the_file_has_matchers_for_each_context() {
    let begin = before(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let mut all = of_cluster("prod", history(Telling::Plain).0, false);
    all.extend(of_cluster("lab", history(Telling::Plain).0, true));
    let unclear = store("which-file", all, begin);
    let cache = cluster().folder().join("which-file-cache");
    let admin = cluster().kubectl(Persona::Admin);
    let context = admin.run(&["config", "current-context"]).trim().to_owned();
    let file = cluster().folder().join("which.yaml");
    let file_name = file.to_str().unwrap().to_owned();
    let ask = |arguments: &[&str]| {
        let span = [
            "--start", &start, "--end", &end, "-o", "json", "--config", &file_name,
        ];
        ask(&unclear, &cache, &[arguments, &span[..]].concat())
    };
    let written = |text: String| std::fs::write(&file, text).unwrap();
    written("prometheus: {matchers: {cluster: lab}}\n".to_owned());
    let lab = ask(&["stats", "cluster"]).ok().out;
    written(format!(
        "prometheus: {{matchers: {{cluster: lab}}}}\ncontexts: {{\"{context}\": {{prometheus: {{matchers: {{cluster: prod}}}}}}}}\n"
    ));
    let prod = ask(&["stats", "cluster"]).ok().out;
    assert_ne!(lab, prod);
    assert_eq!(
        ask(&["stats", "cluster", "--match", "cluster=lab"])
            .ok()
            .out,
        lab,
        "the flag comes first"
    );
    written("contexts: {another: {prometheus: {matchers: {cluster: prod}}}}\n".to_owned());
    ask(&["stats", "cluster"]).exits(2);
    written(
        "contexts: {another: {prometheus: {matcher: {cluster: prod}}, log: {level: info}}}\n"
            .to_owned(),
    );
    let told = ask(&["stats", "cluster", "--match", "cluster=lab"]).ok();
    told.says("unknown key `contexts.another.prometheus.matcher`")
        .says("unknown key `contexts.another.log.level`");
}

#[test]
fn all_contexts_are_all_clusters_each_with_its_own_numbers() {
    let begin = before(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    // One store has both, another has one alone; the control planes are two.
    let mut all = of_cluster("prod", history(Telling::Plain).0, false);
    all.extend(of_cluster("lab", history(Telling::Plain).0, true));
    let both = store("which-all", all, begin);
    let alone = store(
        "which-all-lab",
        of_cluster("lab", history(Telling::Plain).0, true),
        begin,
    );
    let view = |cluster: &gpuctl_sandbox::Cluster| -> Value {
        cluster
            .kubectl(Persona::Admin)
            .json(&["config", "view", "--raw", "--minify", "-o", "json"])
    };
    let (mut kubeconfig, other) = (view(cluster()), view(&crate::finding::own_cluster().0));
    let renamed = |config: &Value, name: &str| {
        let mut parts = ["clusters", "users", "contexts"].map(|kind| config[kind][0].clone());
        parts.iter_mut().for_each(|part| part["name"] = json!(name));
        (parts[2]["context"]["cluster"], parts[2]["context"]["user"]) = (json!(name), json!(name));
        parts
    };
    let [one, two] = [renamed(&kubeconfig, "one"), renamed(&other, "two")];
    for (kind, (one, two)) in ["clusters", "users", "contexts"]
        .into_iter()
        .zip(one.into_iter().zip(two))
    {
        kubeconfig[kind] = json!([one, two]);
    }
    kubeconfig["current-context"] = json!("one");
    let folder = cluster().folder();
    let (path, config) = (
        folder.join("which-all.kubeconfig"),
        folder.join("which-all.yaml"),
    );
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    let of_one = json!({"url": both, "matchers": {"cluster": "prod"}});
    std::fs::write(
        &config,
        json!({"contexts": {"one": {"prometheus": of_one}, "two": {"prometheus": {"url": alone}}}})
            .to_string(),
    )
    .unwrap();
    let cache = folder.join("which-all-cache");
    let stats = |arguments: &[&str]| {
        let mut command = crate::support::gpuctl(cluster(), Persona::Admin);
        command
            .env("KUBECONFIG", &path)
            .env("XDG_CACHE_HOME", &cache)
            .arg("--config")
            .arg(&config);
        command
            .args([
                "stats", "cluster", "-o", "json", "--start", &start, "--end", &end,
            ])
            .args(arguments);
        crate::support::run(command, "").ok().json()
    };
    let list = stats(&["--all-contexts"]);
    let of = |list: &Value, name: &str| -> Vec<Value> {
        list.as_array()
            .unwrap()
            .iter()
            .filter(|row| row["cluster_name"] == name)
            .cloned()
            .collect()
    };
    let numbers = |rows: &[Value]| -> Vec<(Value, Value)> {
        rows.iter()
            .map(|row| {
                (
                    row["total_gpu_capacity"].clone(),
                    row["avg_utilization"].clone(),
                )
            })
            .collect()
    };
    let (one, two) = (of(&list, "one"), of(&list, "two"));
    assert_eq!(
        (one.len(), two.len(), list.as_array().unwrap().len()),
        (3, 3, 6),
        "{list:#}"
    );
    assert_ne!(numbers(&one), numbers(&two));
    // Each by itself says the same, and so do the stores asked straight.
    assert_eq!(of(&stats(&["--cluster", "one"]), "one"), one);
    assert_eq!(of(&stats(&["--context", "two"]), "two"), two);
    let span = [
        "--start",
        start.as_str(),
        "--end",
        end.as_str(),
        "-o",
        "json",
    ];
    let straight = |store: &str, more: &[&str]| {
        let cache = folder.join("which-all-straight");
        ask(
            store,
            &cache,
            &[&["stats", "cluster"], &span[..], more].concat(),
        )
        .ok()
        .json()
    };
    assert_eq!(
        numbers(&one),
        numbers(
            straight(&both, &["--match", "cluster=prod"])
                .as_array()
                .unwrap()
        )
    );
    assert_eq!(
        numbers(&two),
        numbers(straight(&alone, &[]).as_array().unwrap())
    );
}
