//! History of nodes whose devices are cut or shared, of exporters with old names, of pods that begin with a first container,
//! and of an hour that is not over.

use gpuctl_sandbox::nodes::node;
use serde_json::{Value, json};

use crate::past::{HOUR, Written, ask, before, rows, seconds, stamp, store};
use crate::support::{A100, GPU, cluster, near};

/// Requests of a pod that runs all the time.
struct Pod {
    name: &'static str,
    node: &'static str,
    /// Whether it is a first container, its name, the resource, how much of it.
    wants: &'static [(bool, &'static str, &'static str, u64)],
}

const PODS: [Pod; 5] = [
    Pod { name: "share", node: "odd-time", wants: &[(false, "main", "nvidia_com_gpu", 1)] },
    Pod { name: "only-slice", node: "odd-single", wants: &[(false, "main", "nvidia_com_gpu", 1)] },
    Pod { name: "instance", node: "odd-mixed", wants: &[(false, "main", "nvidia_com_mig_1g_10gb", 1)] },
    Pod { name: "whole", node: "odd-mixed", wants: &[(false, "main", "nvidia_com_gpu", 1)] },
    // A first container may want more than those that come after it, which are added up.
    Pod {
        name: "steps",
        node: "odd-old",
        wants: &[(true, "fetch", "nvidia_com_gpu", 4), (false, "a", "nvidia_com_gpu", 1), (false, "b", "nvidia_com_gpu", 2)],
    },
];

/// Devices of nodes, as kube-state-metrics tells them.
const CAPACITY: [(&str, &str, u64); 5] = [
    ("odd-time", "nvidia_com_gpu", 4),
    ("odd-single", "nvidia_com_gpu", 7),
    ("odd-mixed", "nvidia_com_gpu", 1),
    ("odd-mixed", "nvidia_com_mig_1g_10gb", 7),
    ("odd-old", "nvidia_com_gpu", 8),
];

/// Utilization of the three devices that the containers of `steps` have.
fn busy(number: i64, at: i64) -> f64 {
    20.0 * number as f64 + (at / 30 % 11) as f64
}

/// What is written between the begin and a second after it.
fn history(end: i64) -> Vec<Written> {
    let mut written = Vec::new();
    let mut put = |series: String, at: i64, value: f64| written.push(Written { series, at, value: value.to_string() });
    for at in (0..end).step_by(30) {
        for (node, resource, count) in CAPACITY {
            put(format!("kube_node_status_capacity{{node=\"{node}\",resource=\"{resource}\"}}"), at, count as f64);
        }
        for pod in &PODS {
            let id = format!("namespace=\"odd\",pod=\"{}\",uid=\"u-{}\"", pod.name, pod.name);
            for (first, container, resource, count) in pod.wants {
                let metric =
                    if *first { "kube_pod_init_container_resource_requests" } else { "kube_pod_container_resource_requests" };
                let labels = format!("{id},container=\"{container}\",node=\"{}\",resource=\"{resource}\"", pod.node);
                put(format!("{metric}{{{labels}}}"), at, *count as f64);
            }
            put(format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"), at, 1.0);
        }
        // Copies of a shared device, one per pod, and parts of one that is cut.
        for copy in ["share", "other"] {
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{Hostname=\"odd-time\",gpu=\"0\",UUID=\"GPU-t\",namespace=\"odd\",pod=\"{copy}\",vgpu=\"{copy}\"}}"
                ),
                at + 7,
                100.0,
            );
        }
        for (node, uuid, instance, pod) in [("odd-single", "GPU-s", 1, "only-slice"), ("odd-mixed", "GPU-m0", 3, "instance")] {
            let own = format!("GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"{instance}\",namespace=\"odd\",pod=\"{pod}\"");
            put(format!("DCGM_FI_PROF_GR_ENGINE_ACTIVE{{Hostname=\"{node}\",gpu=\"0\",UUID=\"{uuid}\",{own}}}"), at + 7, 0.99);
        }
        let whole = "Hostname=\"odd-mixed\",gpu=\"1\",UUID=\"GPU-m1\",namespace=\"odd\",pod=\"whole\"";
        put(format!("DCGM_FI_DEV_GPU_UTIL{{{whole}}}"), at + 7, 80.0);
        for number in 0..3 {
            let container = if number == 0 { "a" } else { "b" };
            let old = format!("pod_namespace=\"odd\",pod_name=\"steps\",container_name=\"{container}\"");
            put(
                format!("DCGM_FI_DEV_GPU_UTIL{{Hostname=\"odd-old\",gpu=\"{number}\",UUID=\"GPU-o{number}\",{old}}}"),
                at + 7,
                busy(number, at),
            );
        }
    }
    written
}

#[test]
fn whole_devices_alone_and_the_present_hour() {
    let mut shared = node("odd-time", Some(A100), &[(GPU, 4)]);
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!("4");
    let cut = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb");
    let mixed = [(GPU, 1), ("nvidia.com/mig-1g.10gb", 7)];
    let nodes = [shared, node("odd-single", Some(cut), &[(GPU, 7)]), node("odd-mixed", Some(A100), &mixed)];
    cluster().add_nodes(&nodes);

    // An hour that ends while it is looked at would be over afterwards.
    while before(0) + HOUR - seconds() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    let (begin, now) = (before(1), seconds());
    // Whole scrapes: gpuctl asks some time later than this, and sees what is between.
    let end = (now - begin) / 30 * 30;
    let address = store("odd-past", history(end), begin);
    let cache = cluster().folder().join("odd-cache");
    let (start, stop) = (begin.to_string(), (begin + end).to_string());
    let stats = |arguments: &[&str]| {
        ask(&address, &cache, &[arguments, &["--start", &start, "--end", &stop, "-o", "json"]].concat()).ok().json()
    };

    let list = stats(&["stats", "cluster"]);
    // A test that begins with the hour sees one, any other sees two.
    let hours = rows(&list).len();
    assert_eq!(hours, if end > HOUR { 2 } else { 1 });
    for (hour, row) in rows(&list).iter().enumerate() {
        let from = HOUR * hour as i64;
        let scrapes: Vec<i64> = (0..end).step_by(30).filter(|at| (from..from + HOUR).contains(at)).collect();
        assert_eq!(row["partial"], json!(hour == 1));
        // One of the mixed node, eight of the old one; one and four of them are held.
        assert_eq!((&row["total_gpu_capacity"], &row["allocated_gpu_count"]), (&json!(9), &json!(5.0)), "{row:#}");
        near(&row["allocation_rate"], 5.0 / 9.0 * 100.0);
        // By five minutes: the mean of the whole one and of the three that are told of.
        let mut means = Vec::new();
        for window in 0..12 {
            let inside: Vec<i64> = scrapes.iter().copied().filter(|at| (at - from) / 300 == window).collect();
            if inside.is_empty() {
                continue;
            }
            let of = |number: i64| inside.iter().map(|at| busy(number, *at)).sum::<f64>() / inside.len() as f64;
            means.push((80.0 + of(0) + of(1) + of(2)) / 4.0);
        }
        assert_eq!(row["sample_count"], means.len());
        if !means.is_empty() {
            near(&row["avg_utilization"], means.iter().sum::<f64>() / means.len() as f64);
        }
        // What is not over was made when it was asked for.
        let updated = row["updated_at"].as_str().map(ToOwned::to_owned);
        let last = stamp(if hour == 1 { now } else { begin + HOUR });
        assert!(if hour == 1 { updated >= last } else { updated == last }, "{row:#}");
    }
    let page = stats(&["stats", "workloads"]);
    let named: Vec<(&str, f64)> = rows(&page["data"])
        .iter()
        .filter(|row| row["stat_hour"] == list[0]["stat_hour"])
        .map(|row| (row["workload_name"].as_str().unwrap(), row["allocated_gpu_count"].as_f64().unwrap()))
        .collect();
    let mut sorted = named.clone();
    sorted.sort_by_key(|(name, _)| *name);
    assert_eq!(sorted, [("steps", 4.0), ("whole", 1.0)]);

    // The newest snapshot is of five whole minutes.
    let latest = ask(&address, &cache, &["snapshot", "latest", "-o", "json"]).ok().json();
    assert_eq!((&latest["total_gpu_capacity"], &latest["allocated_gpu_count"]), (&json!(9), &json!(5)), "{latest:#}");
    let details = &latest["allocation_details"]["namespaces"]["odd"];
    assert_eq!((&details["allocated_gpu"], &details["workload_count"]), (&json!(5), &json!(2)));
    let at = latest["snapshot_time"].as_str().unwrap_or_default();
    assert!(at.ends_with("0:00Z") || at.ends_with("5:00Z"), "{latest:#}");
    let text = ask(&address, &cache, &["snapshot", "latest"]).ok().out;
    assert!(text.contains("odd") && text.contains("steps"), "{text}");
    let none: Vec<&Value> = rows(&list).iter().filter(|row| row["avg_utilization"].as_f64() > Some(90.0)).collect();
    assert!(none.is_empty(), "shares and instances are in no mean");
}
