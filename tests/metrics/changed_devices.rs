//! Tests a history in which the hardware changes: one device is replaced and one node is renamed.
//! Also tests days of 23 and 25 hours.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::past::{HOUR, Sample, ask, hours_ago, rows, store, unix_now};
use crate::support::{cluster, near};

/// The number of seconds between two scrapes.
const SCRAPE: i64 = 30;
/// Second at which a node gets its new name and a new pod.
const RENAMED: i64 = 1800;
/// Seconds for which a device is broken, until another device replaces it.
const BROKEN: std::ops::Range<i64> = 1500..2100;

/// Samples of kube-state-metrics for a pod with GPUs.
fn put_pod(node: &str, pod: &str, uid: &str, gpus: i64, mut put: impl FnMut(String, i64)) {
    let id = format!("namespace=\"swap\",pod=\"{pod}\",uid=\"{uid}\"");
    put(
        format!(
            "kube_pod_container_resource_requests{{{id},container=\"c\",node=\"{node}\",resource=\"nvidia_com_gpu\"}}"
        ),
        gpus,
    );
    put(
        format!("kube_pod_status_phase{{{id},phase=\"Running\"}}"),
        1,
    );
    let owner = pod.rsplit_once('-').unwrap().0;
    put(
        format!("kube_pod_owner{{{id},owner_kind=\"StatefulSet\",owner_name=\"{owner}\"}}"),
        1,
    );
}

/// Utilization of the three devices. Devices 0 and 1 are on the renamed node; device 2 is the
/// replaced one.
fn utilization(device: i64, at: i64) -> i64 {
    match device {
        0 => 40 + at / SCRAPE % 5,
        1 => 60,
        _ if at < BROKEN.start => 20,
        _ => 80,
    }
}

fn history() -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in (0..HOUR).step_by(SCRAPE as usize) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        let (moving, uid) = if at < RENAMED {
            ("rack-1", "u-before")
        } else {
            ("host-1", "u-after")
        };
        put(
            format!("kube_node_status_capacity{{node=\"{moving}\",resource=\"nvidia_com_gpu\"}}"),
            2,
        );
        put(
            "kube_node_status_capacity{node=\"rack-2\",resource=\"nvidia_com_gpu\"}".to_owned(),
            1,
        );
        put_pod(moving, "moved-0", uid, 2, &mut put);
        put_pod("rack-2", "kept-0", "u-kept", 1, &mut put);
        for device in 0..2 {
            let labels = format!(
                "Hostname=\"{moving}\",gpu=\"{device}\",UUID=\"GPU-{device}\",modelName=\"m\""
            );
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{{labels},namespace=\"swap\",pod=\"moved-0\",container=\"c\"}}"
                ),
                utilization(device, at),
            );
        }
        if !BROKEN.contains(&at) {
            let uuid = if at < BROKEN.start {
                "GPU-broken"
            } else {
                "GPU-spare"
            };
            let labels = format!("Hostname=\"rack-2\",gpu=\"0\",UUID=\"{uuid}\",modelName=\"m\"");
            put(
                format!(
                    "DCGM_FI_DEV_GPU_UTIL{{{labels},namespace=\"swap\",pod=\"kept-0\",container=\"c\"}}"
                ),
                utilization(2, at),
            );
        }
    }
    samples
}

#[test]
fn replaced_devices_and_renamed_nodes_count_once() {
    let begin = hours_ago(3);
    let store = store("changed", history(), begin);
    let cache = cluster().folder().join("changed-cache");
    let (start, end) = (begin.to_string(), (begin + HOUR).to_string());
    let query = |arguments: &[&str]| {
        let span = [
            "--start",
            start.as_str(),
            "--end",
            end.as_str(),
            "-o",
            "json",
        ];
        ask(&store, &cache, &[arguments, &span[..]].concat())
            .ok()
            .json()
    };
    let times: Vec<i64> = (0..HOUR).step_by(SCRAPE as usize).collect();
    let measured: Vec<(i64, i64)> = (0..3)
        .flat_map(|device| times.iter().map(move |at| (device, *at)))
        .filter(|(device, at)| *device < 2 || !BROKEN.contains(at))
        .collect();
    let mean = |devices: std::ops::Range<i64>| {
        let values: Vec<f64> = measured
            .iter()
            .filter(|(device, _)| devices.contains(device))
            .map(|(device, at)| utilization(*device, *at) as f64)
            .collect();
        values.iter().sum::<f64>() / values.len() as f64
    };

    let hours = query(&["stats", "cluster"]);
    let hour = &rows(&hours)[0];
    near(&hour["total_gpu_capacity"], 3.0);
    near(&hour["allocated_gpu_count"], 3.0);
    assert_eq!(
        hour["device_sample_count"],
        json!(measured.len()),
        "{hour:#}"
    );
    // For each five-minute window, the mean over the devices of their means. Ten windows have three
    // devices, and two windows have two.
    let windows: Vec<f64> = (0..12)
        .map(|window| {
            let mean_of = |device: i64| {
                let values: Vec<i64> = (window * 300..(window + 1) * 300)
                    .step_by(SCRAPE as usize)
                    .filter(|at| device < 2 || !BROKEN.contains(at))
                    .map(|at| utilization(device, at))
                    .collect();
                (!values.is_empty())
                    .then(|| values.iter().sum::<i64>() as f64 / values.len() as f64)
            };
            let devices: Vec<f64> = (0..3).filter_map(mean_of).collect();
            devices.iter().sum::<f64>() / devices.len() as f64
        })
        .collect();
    near(&hour["avg_utilization"], windows.iter().sum::<f64>() / 12.0);

    let report = query(&["report"]);
    let unknown = (BROKEN.end - BROKEN.start) as f64 / 3600.0;
    let total = &report["sum"];
    near(&total["held_gpu_hours"], 3.0);
    near(&total["unknown_gpu_hours"], unknown);
    near(&total["utilization"], mean(0..3));
    for (name, devices, held, unknown) in [("moved", 0..2, 2.0, 0.0), ("kept", 2..3, 1.0, unknown)]
    {
        let eff = query(&["eff", name, "-n", "swap"]);
        near(&eff["held_gpu_hours"], held);
        near(&eff["unknown_gpu_hours"], unknown);
        near(&eff["utilization"], mean(devices));
    }
}

#[test]
fn days_of_23_and_25_hours_have_one_row_per_hour() {
    // A POSIX time zone whose clocks went forward five days ago and back three days ago.
    let day = |days: i64| {
        Timestamp::from_second(unix_now())
            .unwrap()
            .to_zoned(TimeZone::UTC)
            .date()
            .checked_sub(days.days())
            .unwrap()
    };
    let (forward, back) = (day(5), day(3));
    let day_of_year = |day: jiff::civil::Date| day.day_of_year_no_leap().unwrap_or(59);
    let zone = format!(
        "AAA0BBB,J{}/2,J{}/3",
        day_of_year(forward),
        day_of_year(back)
    );
    let begin = day(6)
        .to_zoned(TimeZone::UTC)
        .unwrap()
        .timestamp()
        .as_second();
    let mut samples = Vec::new();
    for at in (0..5 * 24 * HOUR).step_by(60) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        put(
            "kube_node_status_capacity{node=\"d1\",resource=\"nvidia_com_gpu\"}".to_owned(),
            1,
        );
        put_pod("d1", "daily-0", "u-daily", 1, &mut put);
        let labels = "Hostname=\"d1\",gpu=\"0\",UUID=\"GPU-d\",modelName=\"m\",namespace=\"swap\",pod=\"daily-0\",container=\"c\"";
        put(format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}}"), 50);
    }
    let store = store("clocks", samples, begin);
    let cache = cluster().folder().join("clocks-cache");
    for (name, day, hours) in [
        ("forward", forward, 23),
        ("between", day(4), 24),
        ("back", back, 25),
    ] {
        let (start, end) = (day.to_string(), day.tomorrow().unwrap().to_string());
        let query = |arguments: &[&str]| -> Value {
            let mut command = crate::support::gpuctl(cluster(), gpuctl_sandbox::Persona::Admin);
            command
                .env("XDG_CACHE_HOME", &cache)
                .env("TZ", &zone)
                .args(["--prometheus", &store])
                .args(arguments);
            command.args(["--start", &start, "--end", &end, "-o", "json"]);
            crate::support::run(command, "").ok().json()
        };
        let hourly = query(&["stats", "cluster"]);
        assert_eq!(rows(&hourly).len(), hours, "{name}: {hourly:#}");
        rows(&hourly)
            .iter()
            .for_each(|row| near(&row["allocated_gpu_count"], 1.0));
        let report = query(&["report", "--by", "namespace"]);
        near(&report["sum"]["held_gpu_hours"], hours as f64);
        near(&report["sum"]["used_gpu_hours"], hours as f64 / 2.0);
    }
}
