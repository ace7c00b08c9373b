//! Two clusters with equal node and pod names but different values in one store. gpuctl answers for
//! one cluster as with a separate store, and never adds up both.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::past::{HOUR, Sample, Variant, ask, history, hours_ago, store, unix_now};
use crate::support::{A100, GPU, cluster};

/// Adds a `cluster` label to samples. `with_other_values` changes some values, so that the clusters
/// differ.
fn of_cluster(name: &str, samples: Vec<Sample>, with_other_values: bool) -> Vec<Sample> {
    let label = |sample: Sample| {
        let differs = ["DCGM_FI_DEV_GPU_UTIL", "kube_node_status_capacity"]
            .iter()
            .any(|name| sample.series.starts_with(name));
        let value = if with_other_values && differs {
            "7".to_owned()
        } else {
            sample.value
        };
        Sample {
            series: sample
                .series
                .replacen('{', &format!("{{cluster=\"{name}\","), 1),
            at: sample.at,
            value,
        }
    };
    samples.into_iter().map(label).collect()
}

/// Creates a pod in the real cluster. Returns its UID.
fn create_pod() -> String {
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
fn a_store_of_two_clusters_answers_for_one_of_them() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let alone = store("which-alone", history(Variant::Plain).0, begin);
    let both = || {
        let mut all = of_cluster("prod", history(Variant::Plain).0, false);
        all.extend(of_cluster("lab", history(Variant::Plain).0, true));
        all
    };
    let unclear = store("which-unclear", both(), begin);
    let uid = create_pod();
    let mut with_pod = both();
    let now = unix_now() - begin;
    for (at, value) in [(now - 60, "1"), (now, "1"), (now + 120, "1")] {
        let series = format!(
            "kube_pod_info{{cluster=\"prod\",namespace=\"which\",pod=\"known\",uid=\"{uid}\",node=\"which-0\"}}"
        );
        with_pod.push(Sample {
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
        // A pod with a known UID identifies the cluster.
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
            "{command:?} has the values of the other cluster"
        );
        let refused = ask(&unclear, &cache("refused"), &command).exits(2);
        assert_eq!(refused.out, "");
        refused
            .says("has GPUs from 2 clusters, and it is unknown which one is this cluster: cluster=lab, cluster=prod")
            .says("--match cluster=lab");
    }
    let shared = cache("shared");
    // Sums over live nodes of another cluster are refused.
    let foreign = store(
        "which-foreign",
        vec![Sample {
            series: "kube_node_info{node=\"elsewhere-7\"}".to_owned(),
            at: now,
            value: "1".to_owned(),
        }],
        begin,
    );
    let refused = ask(
        &foreign,
        &cache("foreign"),
        &["stats", "cluster", "-o", "json"],
    )
    .exits(2);
    assert_eq!(refused.out, "");
    refused
        .says("has data about the nodes elsewhere-7, but none about this cluster's nodes (")
        .says("set this cluster's Prometheus with `--prometheus URL`");
    ask(&foreign, &cache("foreign"), &["get", "nodes"])
        .ok()
        .says("has data about the nodes elsewhere-7, but none about this cluster's nodes (");
    // Cached answers of one cluster are never used for another.
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
fn label_of_the_exporters_alone_is_not_a_second_cluster() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let alone = store("which-plain", history(Variant::Plain).0, begin);
    let label = |sample: Sample| match sample.series.starts_with("kube_") {
        true => sample,
        false => Sample {
            series: sample
                .series
                .replacen('{', "{cluster_name=\"oke-prod\",", 1),
            ..sample
        },
    };
    let labeled = history(Variant::Plain).0.into_iter().map(label).collect();
    let labeled = store("which-exporters", labeled, begin);
    let cache = |name: &str| -> PathBuf { cluster().folder().join(format!("which-one-{name}")) };
    let span = ["--start", start.as_str(), "--end", end.as_str()];
    for command in [
        &["report", "-o", "json"][..],
        &["stats", "namespaces", "-o", "json"],
    ] {
        let command = [command, &span[..]].concat();
        let expected = ask(&alone, &cache("alone"), &command).ok().out;
        assert!(expected.len() > 100, "{expected}");
        let labeled_run = ask(&labeled, &cache("labeled"), &command).ok();
        assert_eq!(labeled_run.out, expected);
        assert!(!labeled_run.err.contains("clusters"), "{}", labeled_run.err);
        // The matcher of the user does not hide kube-state-metrics, which lacks the label.
        let matched = [&command[..], &["--match", "cluster_name=oke-prod"]].concat();
        assert_eq!(
            ask(&labeled, &cache("matched"), &matched).ok().out,
            expected
        );
    }
}

/// Starts a proxy that sends each connection to the next of these stores, as a Service does.
fn round_robin(stores: [String; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let stores = stores.iter().cycle();
        for (client, store) in listener.incoming().map_while(Result::ok).zip(stores) {
            let server = TcpStream::connect(store.trim_start_matches("http://")).unwrap();
            let pairs = [
                (client.try_clone().unwrap(), server.try_clone().unwrap()),
                (server, client),
            ];
            for (mut from, mut to) in pairs {
                thread::spawn(move || {
                    // A reset connection ends the copy, like its end.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    url
}

#[test]
fn replicas_with_different_gaps_cause_a_warning() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let whole = store("which-whole", history(Variant::Plain).0, begin);
    // The second replica has no samples of the first hour.
    let torn = history(Variant::Plain).0.into_iter();
    let torn = torn.filter(|sample| sample.at >= HOUR).collect();
    let torn = store("which-torn", torn, begin);
    let both = round_robin([whole.clone(), torn]);
    let cache = |name: &str| -> PathBuf { cluster().folder().join(format!("which-{name}-cache")) };
    let report = ["report", "-o", "json", "--start", &start, "--end", &end];
    let message = "several replicas with different gaps share this address";
    ask(&both, &cache("both"), &report).ok().says(message);
    let single = ask(&whole, &cache("whole"), &report).ok();
    assert!(!single.err.contains(message), "{}", single.err);
}

#[test]
fn an_empty_time_range_warns_and_the_estimate_counts_every_sample() {
    let begin = hours_ago(6);
    let samples = history(Variant::Plain).0;
    let names = [
        "DCGM_FI_DEV_GPU_UTIL{",
        "DCGM_FI_DEV_FB_USED{",
        "DCGM_FI_DEV_FB_FREE{",
    ];
    let counted = |sample: &&Sample| {
        sample.at < HOUR && names.iter().any(|name| sample.series.starts_with(name))
    };
    let expected = samples.iter().filter(counted).count();
    let store = store("which-estimate", samples, begin);
    let query = gpuctl_core::stats::exporters::query::samples_of_an_hour();
    let promtool = std::process::Command::new(cluster().binary("promtool"))
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
    let answer = String::from_utf8(promtool.stdout).unwrap();
    assert!(
        answer.starts_with(&format!("{{}} => {expected} @")),
        "{expected}: {answer}{}",
        String::from_utf8_lossy(&promtool.stderr)
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
    // The nodes in the store are not those of this cluster.
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let run = ask(
        &store,
        &cache,
        &[
            "stats", "cluster", "-o", "json", "--start", &start, "--end", &end,
        ],
    )
    .ok();
    assert!(!run.err.contains("no data about pods"), "{}", run.err);
}

#[test]
fn the_config_file_sets_matchers_per_context() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    let mut all = of_cluster("prod", history(Variant::Plain).0, false);
    all.extend(of_cluster("lab", history(Variant::Plain).0, true));
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
    let write_config = |text: String| std::fs::write(&file, text).unwrap();
    write_config("prometheus: {matchers: {cluster: lab}}\n".to_owned());
    let lab = ask(&["stats", "cluster"]).ok().out;
    write_config(format!(
        "prometheus: {{matchers: {{cluster: lab}}}}\ncontexts: {{\"{context}\": {{prometheus: {{matchers: {{cluster: prod}}}}}}}}\n"
    ));
    let prod = ask(&["stats", "cluster"]).ok().out;
    assert_ne!(lab, prod);
    assert_eq!(
        ask(&["stats", "cluster", "--match", "cluster=lab"])
            .ok()
            .out,
        lab,
        "the flag overrides the file"
    );
    write_config("contexts: {another: {prometheus: {matchers: {cluster: prod}}}}\n".to_owned());
    ask(&["stats", "cluster"]).exits(2);
    write_config(
        "contexts: {another: {prometheus: {matcher: {cluster: prod}}, log: {level: info}}}\n"
            .to_owned(),
    );
    let run = ask(&["stats", "cluster", "--match", "cluster=lab"]).ok();
    run.says("unknown key `contexts.another.prometheus.matcher`")
        .says("unknown key `contexts.another.log.level`");
}

#[test]
fn all_contexts_reports_each_cluster_with_its_own_values() {
    let begin = hours_ago(6);
    let (start, end) = (begin.to_string(), (begin + 3 * HOUR).to_string());
    // One store has both clusters, another has only one. There are two control planes.
    let mut all = of_cluster("prod", history(Variant::Plain).0, false);
    all.extend(of_cluster("lab", history(Variant::Plain).0, true));
    let both = store("which-all", all, begin);
    let alone = store(
        "which-all-lab",
        of_cluster("lab", history(Variant::Plain).0, true),
        begin,
    );
    let view = |cluster: &gpuctl_sandbox::Cluster| -> Value {
        cluster
            .kubectl(Persona::Admin)
            .json(&["config", "view", "--raw", "--minify", "-o", "json"])
    };
    let (mut kubeconfig, other) = (
        view(cluster()),
        view(&crate::finding::dedicated_cluster().0),
    );
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
    let settings_of_one = json!({"url": both, "matchers": {"cluster": "prod"}});
    std::fs::write(
        &config,
        json!({"contexts": {"one": {"prometheus": settings_of_one}, "two": {"prometheus": {"url": alone}}}})
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
    let report = |arguments: &[&str]| -> Value {
        let mut command = crate::support::gpuctl(cluster(), Persona::Admin);
        command
            .env("KUBECONFIG", &path)
            .arg("--config")
            .arg(&config)
            .args(["report", "-o", "json", "--start", &start, "--end", &end])
            .args(arguments);
        crate::support::run(command, "").ok().json()
    };
    let joined = report(&["--all-contexts"]);
    let held = |group: &Value| group["held_gpu_hours"].as_f64().unwrap();
    // The total is the sum of the reports about each cluster, and each row names its cluster.
    let of_context = |name: &str| -> f64 {
        let items = joined["items"].as_array().unwrap();
        let rows = items.iter().filter(|item| item["context"] == name);
        rows.map(held).sum()
    };
    let single = |name: &str| held(&report(&["--context", name])["sum"]);
    for name in ["one", "two"] {
        assert!(single(name) > 0.0);
        assert!((of_context(name) - single(name)).abs() < 0.05, "{joined:#}");
    }
    let sum = single("one") + single("two");
    assert!((held(&joined["sum"]) - sum).abs() < 0.05, "{joined:#}");
    let list = stats(&["--all-contexts"]);
    let rows_of = |list: &Value, name: &str| -> Vec<Value> {
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
    let (one, two) = (rows_of(&list, "one"), rows_of(&list, "two"));
    assert_eq!(
        (one.len(), two.len(), list.as_array().unwrap().len()),
        (3, 3, 6),
        "{list:#}"
    );
    assert_ne!(numbers(&one), numbers(&two));
    // Queries of one cluster, and direct queries of the stores, give the same rows.
    assert_eq!(rows_of(&stats(&["--cluster", "one"]), "one"), one);
    assert_eq!(rows_of(&stats(&["--context", "two"]), "two"), two);
    let span = [
        "--start",
        start.as_str(),
        "--end",
        end.as_str(),
        "-o",
        "json",
    ];
    let query_store = |store: &str, more: &[&str]| {
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
            query_store(&both, &["--match", "cluster=prod"])
                .as_array()
                .unwrap()
        )
    );
    assert_eq!(
        numbers(&two),
        numbers(query_store(&alone, &[]).as_array().unwrap())
    );
}
