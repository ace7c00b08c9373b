//! Snapshot tests of lists of the past, with one hour of artificial history at every width.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{at_widths, now};
use crate::history::hourly;
use crate::history::hourly::{Hour, HourlyRow, RowKind};
use crate::history::report::{GpuHourReport, Group, WindowGaps};
use crate::history::report_capacity::capacity_note;
use crate::history::report_table;
use crate::history::snapshot;
use crate::history::snapshot::PointInTime;
use crate::history::{at_time, device_at, hourly_table};
use gpuctl_core::model::facts::part::Part;
use gpuctl_core::model::values::prices::Allowance;
use gpuctl_core::model::values::units::UnitValue;
use gpuctl_core::model::{GpuCount, Point, Series};
use gpuctl_core::stats::history::allocations::{Allocation, AllocationGaps, AllocationHistory};
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::hourly::{Sum, ValueSummary, WorkloadSum};
use gpuctl_core::stats::history::job_time::JobSum;
use gpuctl_core::stats::history::slots::TimeSpan;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::usage::{NodeNames, Usage};

#[test]
fn hourly_rows_fit() {
    fn summary<U: UnitValue>() -> Option<ValueSummary<U>> {
        let [mean, max, min, p50, p95] = [91.25, 97.0, 80.5, 92.0, 96.5].map(U::from_value);
        Some(ValueSummary {
            count: 12,
            mean,
            max,
            min,
            p50,
            p95,
        })
    }
    let sum = Sum {
        allocated: 23.99,
        requested: 24.0,
        windows: summary(),
        samples: summary(),
        workloads: 4,
        parts: Vec::new(),
    };
    let start: Timestamp = "2026-01-31T10:00:00Z".parse().unwrap();
    let end: Timestamp = "2026-01-31T11:00:00Z".parse().unwrap();
    let hour = Hour {
        cluster: "lab",
        start,
        end,
        partial: false,
    };
    let current_hour = Hour {
        partial: true,
        ..hour.clone()
    };
    let workload = WorkloadSum {
        top: TopOwner {
            namespace: "ml-research".to_owned(),
            kind: "Job".to_owned(),
            name: "qwen2-7b-sft".to_owned(),
        },
        sum: sum.clone(),
        memory_used: summary(),
        memory_total: summary(),
        replicas: summary(),
        status: Some("Running"),
        labels: None,
        annotations: None,
    };
    let tables: [(&str, RowKind, Vec<HourlyRow>); 4] = [
        (
            "cluster",
            RowKind::Cluster,
            vec![
                hourly::cluster_row(
                    &hour,
                    Some(68),
                    &[("mig-1g.10gb".to_owned(), 7)],
                    Some(&sum),
                    0,
                ),
                hourly::cluster_row(&current_hour, None, &[], None, 3),
            ],
        ),
        (
            "namespaces",
            RowKind::Namespaces,
            vec![hourly::namespace_row(&hour, Some(68), "ml-research", &sum)],
        ),
        (
            "labels",
            RowKind::Labels,
            vec![hourly::dimension_row(
                &hour,
                ["label", "team", "research"],
                &sum,
            )],
        ),
        (
            "workload_hours",
            RowKind::Workloads,
            vec![hourly::workload_row(&hour, &workload)],
        ),
    ];
    for (name, kind, rows) in tables {
        insta::assert_snapshot!(
            name,
            at_widths(|format, style| hourly_table::table(kind, &rows, format, true, style))
        );
    }
}

/// An hour of history: a training holds four of a node's eight devices, and another pod waits.
fn an_hour_of_the_past() -> (AllocationHistory, Usage) {
    let tenure = |name: &str, node: &str, gpus: u64, held: bool| Allocation {
        pod: ("ml-research".to_owned(), format!("{name}-0-2gsvl")),
        node: node.to_owned(),
        top: TopOwner {
            namespace: "ml-research".to_owned(),
            kind: "Job".to_owned(),
            name: name.to_owned(),
        },
        gpus: GpuCount(gpus),
        part: None,
        requested: vec![true; 60],
        running: vec![held; 60],
        held: vec![held; 60],
        phase: Some((59, if held { "Running" } else { "Pending" }.to_owned())),
        labels: None,
        annotations: None,
        gaps: AllocationGaps::default(),
    };
    let start = now().as_millisecond() - 3_600_000;
    let ledger = AllocationHistory {
        span: TimeSpan {
            start,
            end: start + 3_600_000,
        },
        slot: 60_000,
        observed: vec![true; 60],
        capacity: Some(16),
        capacities: vec![Some(16); 60],
        node_capacities: [("gpu-a-01".to_owned(), 8), ("gpu-a-02".to_owned(), 8)].into(),
        part_capacities: BTreeMap::new(),
        node_part_capacities: BTreeMap::new(),
        allocations: vec![
            tenure("qwen2-7b-sft", "gpu-a-01", 4, true),
            tenure("llama3-70b-pretrain", "", 16, false),
        ],
    };
    let series = |index: u32| {
        let labels = [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", "gpu-a-01"),
            ("gpu", ["0", "1", "2", "3"][index as usize]),
            ("namespace", "ml-research"),
            ("pod", "qwen2-7b-sft-0-2gsvl"),
        ];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        let points = (0..60)
            .map(|minute| Point {
                at: start + minute * 60_000,
                value: 90.0 + f64::from(index),
            })
            .collect();
        Series { labels, points }
    };
    let usage = Usage::new(
        (0..4).map(series).collect(),
        &ledger,
        &NodeNames::default(),
        &[],
    );
    (ledger, usage)
}

#[test]
fn lists_of_the_past_fit() {
    let (ledger, usage) = an_hour_of_the_past();
    let then = PointInTime {
        cluster: "lab",
        time: now(),
        ledger: &ledger,
        usage: &usage,
    };
    let (nodes, jobs) = (at_time::nodes(&then), at_time::jobs(&then));
    let snapshots = [snapshot::snapshot(&then, None, false)];
    insta::assert_snapshot!(
        "nodes_at",
        at_widths(|format, style| at_time::node_table(&nodes.items, format, true, style))
    );
    insta::assert_snapshot!(
        "jobs_at",
        at_widths(|format, style| at_time::job_table(&jobs.items, format, true, style))
    );
    insta::assert_snapshot!(
        "snapshots",
        at_widths(|format, style| snapshot::table(&snapshots, format, true, style))
    );
}

/// A node with only MIG instances that has left the cluster. Its exporter named the holder of one.
#[test]
fn holders_of_instances_are_found_on_nodes_that_are_gone() {
    let (mut ledger, _) = an_hour_of_the_past();
    let node = "gpu-m-01".to_owned();
    ledger.node_part_capacities = [(node.clone(), [("mig-1g.10gb".to_owned(), 7)].into())].into();
    ledger.allocations.truncate(1);
    let allocation = &mut ledger.allocations[0];
    allocation.node.clone_from(&node);
    allocation.gpus = GpuCount(0);
    allocation.part = Some((Part::from_name("mig-1g.10gb", None), 1));
    let labels = [
        ("__name__", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        ("Hostname", "gpu-m-01"),
        ("gpu", "0"),
        ("GPU_I_PROFILE", "1g.10gb"),
        ("GPU_I_ID", "7"),
        ("namespace", "ml-research"),
        ("pod", "qwen2-7b-sft-0-2gsvl"),
    ];
    let series = Series {
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into_iter()
            .collect(),
        points: (0..60)
            .map(|minute| Point {
                at: ledger.span.start + minute * 60_000,
                value: 0.5,
            })
            .collect(),
    };
    let usage = Usage::new(vec![series], &ledger, &NodeNames::default(), &[]);
    let then = PointInTime {
        cluster: "lab",
        time: now(),
        ledger: &ledger,
        usage: &usage,
    };
    let found = |name: &str| device_at::device(&then, &node, &name.parse().unwrap());
    let sentence = |name: &str| found(name).map(|device| device_at::sentence(&device));
    let holder = "ml-research/qwen2-7b-sft-0-2gsvl (Job qwen2-7b-sft), 50% busy";
    for name in ["0", "gpu-0/1g.10gb-7"] {
        let text = sentence(name).unwrap();
        assert!(text.contains(holder), "{name}: {text}");
    }
    assert_eq!(sentence("0/1g.10gb-9"), None);
}

#[test]
fn reports_fit() {
    let (ledger, usage) = an_hour_of_the_past();
    let account = GpuHours::new(&ledger, &usage, |_| true);
    let group = |name: Option<&str>| Group {
        name: name.map(ToOwned::to_owned),
        quota: name.map(|_| 32.0),
        cost: Some(account.held * 2.5),
        account: account.clone(),
        ..Group::default()
    };
    let end = now();
    let mut report = GpuHourReport {
        by: "namespace",
        from: Timestamp::from_second(end.as_second() - 3600).unwrap(),
        to: end,
        currency: Some("EUR".to_owned()),
        groups: vec![
            group(Some("ml-research")),
            group(Some("a-team-with-a-rather-long-name")),
        ],
        total: group(None),
        checkpoint: None,
        budgeted: false,
        of_jobs: false,
        over_time: Vec::new(),
        gaps: WindowGaps::default(),
    };
    let markdown = format!("── markdown\n{}", report_table::markdown(&report));
    insta::assert_snapshot!(
        at_widths(|format, style| report_table::table(&report, format, true, style)) + &markdown
    );
    report.budgeted = true;
    report.groups[0].allowance = Some(Allowance {
        gpu_hours: Some(100.0),
        cost: Some(5.0),
    });
    insta::assert_snapshot!(
        "budgets_fit",
        at_widths(|format, style| report_table::table(&report, format, true, style))
    );
    report.of_jobs = true;
    report.groups[0].jobs = JobSum {
        jobs: 12,
        succeeded: 9,
        interruptions: 3,
        waiting: 20.5,
        starting: 1.25,
        running: 80.0,
        lost: 4.0,
        waits: vec![30.0, 95.0, 4000.0],
        still_waiting: 1,
    };
    insta::assert_snapshot!(
        "job_times_fit",
        at_widths(|format, style| report_table::table(&report, format, true, style))
    );
}

#[test]
fn reports_of_nodes_fit() {
    let unheld = |idle: f64, unseen: f64, cordoned: f64| {
        let mut unheld = CapacityHours::of_hours(idle, unseen);
        if cordoned > 0.0 {
            let node = "gpu-a-02".to_owned();
            unheld.cordoned.by_node.insert(node, cordoned);
        }
        unheld
    };
    let group = |name: &str, hours: f64, unheld: CapacityHours| Group {
        name: Some(name.to_owned()),
        account: GpuHours::of_one_gpu(hours, Some(50.0)),
        unheld: Some(unheld),
        ..Group::default()
    };
    // 100 + 60 + 8 = 168 and 20 + 148 = 168, so 336 in total.
    let mut report = GpuHourReport {
        by: "gpu-type",
        currency: Some("EUR".to_owned()),
        ..GpuHourReport::new(
            now(),
            vec![
                group("a100-80g", 100.0, unheld(60.0, 8.0, 24.0)),
                group("h100-80g", 20.0, unheld(148.0, 0.0, 0.0)),
            ],
            Group {
                name: None,
                ..group("", 120.0, unheld(208.0, 8.0, 24.0))
            },
        )
    };
    let markdown = format!("── markdown\n{}", report_table::markdown(&report));
    insta::assert_snapshot!(
        "capacity_fits",
        at_widths(|format, style| report_table::table(&report, format, true, style)) + &markdown
    );
    assert_eq!(
        capacity_note(&report).unwrap(),
        "the capacity was 336.0 GPU-hours: 120.0 allocated (36%), 208.0 idle, 8.0 unseen in gaps of \
         kube-state-metrics; 24.0 idle on cordoned nodes (gpu-a-02)"
    );
    assert!(report_table::units(&report).ends_with("; costs are in EUR"));
    let total = report.total.unheld.as_mut().unwrap();
    let reason = "the fraction of a GPU in gpu.shared is unknown".to_owned();
    total.unknown.insert("gpu-a-03".to_owned(), reason);
    assert_eq!(
        capacity_note(&report).unwrap(),
        "the capacity is unknown: gpu-a-03: the fraction of a GPU in gpu.shared is unknown"
    );
}
