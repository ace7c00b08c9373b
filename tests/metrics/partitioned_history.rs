//! Tests the history of MIG instances and shared GPUs, of exporters with old label names, of pods
//! with init containers, and of the current hour.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::nodes::node;
use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, rows, store, timestamp, unix_now};
use crate::support::{A100, GPU, cluster, near};

/// A pod that runs all the time.
struct Pod {
    name: &'static str,
    node: &'static str,
    /// Whether it is an init container, name of the container, resource, quantity.
    requests: &'static [(bool, &'static str, &'static str, u64)],
}

const PODS: [Pod; 7] = [
    Pod {
        name: "share",
        node: "odd-time",
        requests: &[(false, "main", "nvidia_com_gpu", 1)],
    },
    Pod {
        name: "only-slice",
        node: "odd-single",
        requests: &[(false, "main", "nvidia_com_gpu", 1)],
    },
    Pod {
        name: "instance",
        node: "odd-mixed",
        requests: &[(false, "main", "nvidia_com_mig_1g_10gb", 1)],
    },
    // HAMi: a tenth of the memory of a device with 80 GiB.
    Pod {
        name: "memory",
        node: "odd-hami",
        requests: &[
            (false, "main", "nvidia_com_gpu", 1),
            (false, "main", "nvidia_com_gpumem", 8192),
        ],
    },
    Pod {
        name: "dies",
        node: "odd-amd",
        requests: &[(false, "main", "amd_com_cpx_nps4", 2)],
    },
    Pod {
        name: "whole",
        node: "odd-mixed",
        requests: &[(false, "main", "nvidia_com_gpu", 1)],
    },
    // An init container can request more than the sum of the other containers.
    Pod {
        name: "steps",
        node: "odd-old",
        requests: &[
            (true, "fetch", "nvidia_com_gpu", 4),
            (false, "a", "nvidia_com_gpu", 1),
            (false, "b", "nvidia_com_gpu", 2),
        ],
    },
];

/// Capacity of nodes in kube-state-metrics: node, resource, count.
const CAPACITY: [(&str, &str, u64); 7] = [
    ("odd-hami", "nvidia_com_gpu", 10),
    ("odd-amd", "amd_com_cpx_nps4", 64),
    ("odd-time", "nvidia_com_gpu", 4),
    ("odd-single", "nvidia_com_gpu", 7),
    ("odd-mixed", "nvidia_com_gpu", 1),
    ("odd-mixed", "nvidia_com_mig_1g_10gb", 7),
    ("odd-old", "nvidia_com_gpu", 8),
];

/// Utilization of the three measured devices of pod `steps`.
fn utilization(number: i64, at: i64) -> f64 {
    20.0 * number as f64 + (at / 30 % 11) as f64
}

/// Samples of the first `end` seconds.
fn history(end: i64) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut put = |series: String, at: i64, value: f64| {
        samples.push(Sample {
            series,
            at,
            value: value.to_string(),
        });
    };
    for at in (0..end).step_by(30) {
        for (node, resource, count) in CAPACITY {
            put(
                format!("kube_node_status_capacity{{node=\"{node}\",resource=\"{resource}\"}}"),
                at,
                count as f64,
            );
        }
        for pod in &PODS {
            let id = format!(
                "namespace=\"odd\",pod=\"{}\",uid=\"u-{}\"",
                pod.name, pod.name
            );
            for (is_init, container, resource, count) in pod.requests {
                let metric = if *is_init {
                    "kube_pod_init_container_resource_requests"
                } else {
                    "kube_pod_container_resource_requests"
                };
                let labels = format!(
                    "{id},container=\"{container}\",node=\"{}\",resource=\"{resource}\"",
                    pod.node
                );
                put(format!("{metric}{{{labels}}}"), at, *count as f64);
            }
            put(
                format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
                at,
                1.0,
            );
            // The owner is a custom resource that has an owner too, as in kube-state-metrics with
            // the configuration of docs/metrics.md.
            let (kind, owner) = if pod.name == "whole" {
                ("Trial", "trial-7")
            } else {
                ("<none>", "<none>")
            };
            put(
                format!("kube_pod_owner{{{id},owner_kind=\"{kind}\",owner_name=\"{owner}\"}}"),
                at,
                1.0,
            );
        }
        let trial = "namespace=\"odd\",customresource_kind=\"Trial\",name=\"trial-7\"";
        put(
            format!(
                "kube_customresource_owner{{{trial},owner_kind=\"Experiment\",owner_name=\"sweep\"}}"
            ),
            at,
            1.0,
        );
        // One series per pod of a shared device, and MIG instances.
        for copy in ["share", "other"] {
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{Hostname=\"odd-time\",gpu=\"0\",UUID=\"GPU-t\",namespace=\"odd\",pod=\"{copy}\",vgpu=\"{copy}\"}}"
                ),
                at + 7,
                100.0,
            );
        }
        for (node, uuid, instance, pod) in [
            ("odd-single", "GPU-s", 1, "only-slice"),
            ("odd-mixed", "GPU-m0", 3, "instance"),
        ] {
            let instance_labels = format!(
                "GPU_I_PROFILE=\"1g.10gb\",GPU_I_ID=\"{instance}\",namespace=\"odd\",pod=\"{pod}\""
            );
            put(
                format!(
                    "DCGM_FI_PROF_GR_ENGINE_ACTIVE{{Hostname=\"{node}\",gpu=\"0\",UUID=\"{uuid}\",{instance_labels}}}"
                ),
                at + 7,
                0.99,
            );
        }
        // A pod with a resource claim. kube-state-metrics does not export its devices.
        let claimed = "namespace=\"odd\",pod=\"claimed\"";
        let device = "Hostname=\"odd-claim\",gpu=\"0\",UUID=\"GPU-c\",dra_claim_name=\"c\",dra_device_name=\"gpu-0\"";
        put(
            format!("DCGM_FI_DEV_GPU_UTIL{{{device},{claimed}}}"),
            at + 7,
            40.0,
        );
        put(
            format!("kube_pod_status_phase{{{claimed},uid=\"u-claimed\",phase=\"Running\"}}"),
            at,
            1.0,
        );
        put(
            format!(
                "kube_pod_owner{{{claimed},uid=\"u-claimed\",owner_kind=\"Job\",owner_name=\"by-claim\",owner_is_controller=\"true\"}}"
            ),
            at,
            1.0,
        );
        let whole =
            "Hostname=\"odd-mixed\",gpu=\"1\",UUID=\"GPU-m1\",namespace=\"odd\",pod=\"whole\"";
        put(format!("DCGM_FI_DEV_GPU_UTIL{{{whole}}}"), at + 7, 80.0);
        for number in 0..3 {
            let container = if number == 0 { "a" } else { "b" };
            let old =
                format!("pod_namespace=\"odd\",pod_name=\"steps\",container_name=\"{container}\"");
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{Hostname=\"odd-old\",gpu=\"{number}\",UUID=\"GPU-o{number}\",{old}}}"
                ),
                at + 7,
                utilization(number, at),
            );
        }
    }
    samples
}

#[test]
fn hours_count_whole_gpus_and_list_parts_separately() {
    let mut shared = node("odd-time", Some(A100), &[(GPU, 4)]);
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = json!("4");
    let cut = (
        "nvidia.com/gpu.product",
        "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
    );
    let mixed = [(GPU, 1), ("nvidia.com/mig-1g.10gb", 7)];
    let mut hami = node("odd-hami", Some(A100), &[(GPU, 10)]);
    let register =
        json!([{"id": "GPU-h", "count": 10, "devmem": 81_920, "devcore": 100, "type": "A100"}])
            .to_string();
    hami["metadata"]["annotations"]["hami.io/node-nvidia-register"] = json!(register);
    let amd = node(
        "odd-amd",
        Some(("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")),
        &[("amd.com/cpx_nps4", 64)],
    );
    let nodes = [
        shared,
        hami,
        amd,
        node("odd-claim", None, &[]),
        node("odd-single", Some(cut), &[(GPU, 7)]),
        node("odd-mixed", Some(A100), &mixed),
    ];
    cluster().add_nodes(&nodes);

    // The current hour must not end during the test.
    eventually(
        "the current hour lasts another minute",
        Duration::from_secs(90),
        || hours_ago(0) + HOUR - unix_now() >= 60,
    );
    let (begin, now) = (hours_ago(1), unix_now());
    // The last complete scrape. gpuctl queries later and must not see gaps.
    let end = (now - begin) / 30 * 30;
    let address = store("odd-past", history(end), begin);
    let cache = cluster().folder().join("odd-cache");
    let (start, stop) = (begin.to_string(), (begin + end).to_string());
    let stats = |arguments: &[&str]| {
        ask(
            &address,
            &cache,
            &[
                arguments,
                &["--start", &start, "--end", &stop, "-o", "json"],
            ]
            .concat(),
        )
        .ok()
        .json()
    };

    let list = stats(&["stats", "cluster"]);
    // A test at the very begin of an hour has samples of one hour only.
    let hours = rows(&list).len();
    assert_eq!(hours, if end > HOUR { 2 } else { 1 });
    for (hour, row) in rows(&list).iter().enumerate() {
        let from = HOUR * hour as i64;
        let scrapes: Vec<i64> = (0..end)
            .step_by(30)
            .filter(|at| (from..from + HOUR).contains(at))
            .collect();
        assert_eq!(row["partial"], json!(hour == 1));
        // Capacity: one device of the mixed node and eight of the old one. Held: one, four, and one
        // by a claim.
        assert_eq!(
            (&row["total_gpu_capacity"], &row["allocated_gpu_count"]),
            (&json!(9), &json!(6.0)),
            "{row:#}"
        );
        near(&row["allocation_rate"], 6.0 / 9.0 * 100.0);
        check_gpu_parts(row);
        // Per five-minute window: the mean of the whole device, the claimed one, and the three
        // measured devices of `steps`.
        let mut means = Vec::new();
        for window in 0..12 {
            let inside: Vec<i64> = scrapes
                .iter()
                .copied()
                .filter(|at| (at - from) / 300 == window)
                .collect();
            if inside.is_empty() {
                continue;
            }
            let mean_of = |number: i64| {
                inside
                    .iter()
                    .map(|at| utilization(number, *at))
                    .sum::<f64>()
                    / inside.len() as f64
            };
            means.push((80.0 + 40.0 + mean_of(0) + mean_of(1) + mean_of(2)) / 5.0);
        }
        assert_eq!(row["sample_count"], means.len());
        if !means.is_empty() {
            near(
                &row["avg_utilization"],
                means.iter().sum::<f64>() / means.len() as f64,
            );
        }
        // The row of an hour that is not over has the time of the query.
        let updated = row["updated_at"].as_str().map(ToOwned::to_owned);
        let last = timestamp(if hour == 1 { now } else { begin + HOUR });
        assert!(
            if hour == 1 {
                updated >= last
            } else {
                updated == last
            },
            "{row:#}"
        );
    }
    let page = stats(&["stats", "workloads"]);
    let workloads: Vec<(&str, f64)> = rows(&page["data"])
        .iter()
        .filter(|row| row["stat_hour"] == list[0]["stat_hour"])
        .map(|row| {
            (
                row["workload_name"].as_str().unwrap(),
                row["allocated_gpu_count"].as_f64().unwrap(),
            )
        })
        .collect();
    let mut sorted = workloads.clone();
    sorted.sort_by_key(|(name, _)| *name);
    let parts = [
        ("dies", 0.0),
        ("instance", 0.0),
        ("memory", 0.0),
        ("only-slice", 0.0),
        ("share", 0.0),
    ];
    let mut expected = [
        &parts[..],
        &[("by-claim", 1.0), ("steps", 4.0), ("sweep", 1.0)],
    ]
    .concat();
    expected.sort_by_key(|(name, _)| *name);
    assert_eq!(sorted, expected);

    // The latest snapshot is at a multiple of five minutes.
    let latest = ask(&address, &cache, &["snapshot", "latest", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (
            &latest["total_gpu_capacity"],
            &latest["allocated_gpu_count"]
        ),
        (&json!(9), &json!(6)),
        "{latest:#}"
    );
    let details = &latest["allocation_details"]["namespaces"]["odd"];
    assert_eq!(
        (&details["allocated_gpu"], &details["workload_count"]),
        (&json!(6), &json!(8))
    );
    let held: Vec<(&Value, &Value, &Value)> = rows(&latest["gpu_parts"])
        .iter()
        .map(|part| (&part["part"], &part["capacity"], &part["allocated_count"]))
        .collect();
    let all = [
        ("cpx_nps4", 64, 2),
        ("gpu.shared", 14, 2),
        ("mig-1g.10gb", 14, 2),
    ]
    .map(|(name, all, held)| (json!(name), json!(all), json!(held)));
    assert_eq!(
        held,
        all.iter()
            .map(|(name, all, held)| (name, all, held))
            .collect::<Vec<_>>()
    );
    let at = latest["snapshot_time"].as_str().unwrap_or_default();
    assert!(at.ends_with("0:00Z") || at.ends_with("5:00Z"), "{latest:#}");
    let text = ask(&address, &cache, &["snapshot", "latest"]).ok().out;
    assert!(text.contains("odd") && text.contains("steps"), "{text}");
    let none: Vec<&Value> = rows(&list)
        .iter()
        .filter(|row| row["avg_utilization"].as_f64() > Some(90.0))
        .collect();
    assert!(none.is_empty(), "shares and instances are not in any mean");
    check_hours_of_parts(&address, &cache, begin, end.min(HOUR));
}

/// Checks units, fraction and mean utilization of each kind of part.
fn check_gpu_parts(row: &Value) {
    let parts = rows(&row["gpu_parts"]);
    let names: Vec<&str> = parts
        .iter()
        .map(|part| part["part"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cpx_nps4", "gpu.shared", "mig-1g.10gb"], "{row:#}");
    // `gpu.shared` has a quarter of the time of one device and a tenth of the memory of another.
    for (part, all, fraction) in [(0, 64, 1.0 / 8.0), (1, 14, 0.175), (2, 14, 1.0 / 7.0)] {
        let part = &parts[part];
        assert_eq!(
            (&part["capacity"], &part["allocated_count"]),
            (&json!(all), &json!(2.0)),
            "{part:#}"
        );
        assert!(
            (part["fraction"].as_f64().unwrap() - fraction).abs() < 1e-4,
            "{part:#}"
        );
    }
    // The first seconds of an hour have no samples.
    assert!(
        parts[2]["avg_utilization"] == json!(99.0) || parts[2]["sample_count"] == 0,
        "{row:#}"
    );
    assert_eq!(
        (&parts[0]["avg_utilization"], &parts[1]["avg_utilization"]),
        (&Value::Null, &Value::Null),
        "{row:#}"
    );
}

/// Checks `report` and `eff` of the first seconds of this history.
fn check_hours_of_parts(address: &str, cache: &std::path::PathBuf, begin: i64, seconds: i64) {
    let (start, stop) = (begin.to_string(), (begin + seconds).to_string());
    let span = ["--start", &start, "--end", &stop, "-o", "json"];
    let hours = seconds as f64 / 3600.0;
    let report = ask(address, cache, &[&["report"], &span[..]].concat())
        .ok()
        .json();
    let total = &report["sum"];
    near(&total["held_gpu_hours"], 6.0 * hours);
    // One of the four devices of `steps` is not measured.
    near(&total["unknown_gpu_hours"], hours);
    near(
        &total["part_gpu_equivalent_hours"],
        (2.0 / 8.0 + 0.25 + 0.1 + 2.0 / 7.0) * hours,
    );
    let covered = (5.0 + 2.0 / 7.0) / (6.0 + 2.0 / 8.0 + 0.25 + 0.1 + 2.0 / 7.0) * 100.0;
    near(&total["coverage_percent"], covered);
    let mig = rows(&total["gpu_parts"])
        .iter()
        .find(|part| part["part"] == "mig-1g.10gb")
        .unwrap();
    near(&mig["held_part_hours"], 2.0 * hours);
    near(&mig["measured_part_hours"], 2.0 * hours);
    near(&mig["used_part_hours"], 2.0 * 0.99 * hours);
    let shared = rows(&total["gpu_parts"])
        .iter()
        .find(|part| part["part"] == "gpu.shared")
        .unwrap();
    assert_eq!(
        shared["used_part_hours"],
        Value::Null,
        "the use of a shared device cannot be attributed"
    );

    let eff = |name: &str| {
        ask(address, cache, &[&["eff", name], &span[..]].concat())
            .ok()
            .json()
    };
    let slice = eff("odd/only-slice");
    assert_eq!(
        (&slice["held_gpu_hours"], &slice["advice"]),
        (&json!(0.0), &json!([])),
        "{slice:#}"
    );
    near(&slice["gpu_parts"][0]["utilization"], 99.0);
    near(&slice["gpu_parts"][0]["held_part_hours"], hours);
    near(&slice["coverage_percent"], 100.0);
    assert_eq!(slice["devices"][0]["device"], "gpu-0/1g.10gb-1");
    let share = eff("odd/share");
    assert_eq!(
        (&share["devices"][0]["shared"], &share["coverage_percent"]),
        (&json!(true), &json!(0.0)),
        "{share:#}"
    );
    let claimed = eff("odd/by-claim");
    near(&claimed["held_gpu_hours"], hours);
    near(&claimed["utilization"], 40.0);
    let text = ask(
        address,
        cache,
        &["eff", "odd/only-slice", "--start", &start, "--end", &stop],
    )
    .ok()
    .out;
    assert!(
        text.contains("mig-1g.10gb") && text.contains("equal to"),
        "{text}"
    );
    let at = ask(
        address,
        cache,
        &["get", "nodes", "--at", &stop, "-o", "json"],
    )
    .ok()
    .json();
    let node = |name: &str| {
        rows(&at["items"])
            .iter()
            .find(|node| node["nodeName"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(
        node("odd-amd")["gpuSlices"],
        json!({"cpx_nps4": {"total": 64, "used": 2}})
    );
    assert_eq!(
        (
            &node("odd-mixed")["gpuUsed"],
            &node("odd-mixed")["gpuSlices"]["mig-1g.10gb"]["used"]
        ),
        (&json!(1), &json!(1))
    );
}
