//! Tables of the lists as they look on terminals of 80 and 120 columns and in a pipe, kept as snapshots.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::rights::{self, Task};
use crate::model::units::UnitValue;
use crate::model::workload::{OwnerObject, Standing};
use crate::model::{
    Count, Event, Figures, GpuCount, Job, JobKind, Mebibytes, Node, NodeDetails, NodeHealth, NodeUsage, Percent, Point,
    PoolDefinition, QuotaUse, Reading, Series, State, Workload,
};
use crate::stats::allocations::{Allocation, AllocationHistory, Stretch, TopOwner};
use crate::stats::gpu_hours::GpuHours;
use crate::stats::hourly::{OfWorkload, Sum, Summary};
use crate::stats::score::{Band, Score};
use crate::stats::scored::Scored;
use crate::stats::usage::{NodeNames, Usage};

use super::hourly::{self, Hour, HourlyRow, RowKind};
use super::jobs::JobRow;
use super::pools::PoolUse;
use super::report::{self, GpuHourReport, Group};
use super::rights::{checked, table as rights_table};
use super::snapshot::{self, At};
use super::workloads::ConsumerRow;
use super::{Format, TextStyle, at_time, events, hourly_table, jobs, labels, node_table, pools, quotas, score, workloads};

fn now() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

/// Returns the same table at 80 and at 120 columns, in a pipe, and with every column.
fn at_widths(table: impl Fn(Format, TextStyle) -> String) -> String {
    let style = |width| TextStyle { width, color: false, plain: false };
    let views = [
        ("80 columns", Format::Table, style(Some(80))),
        ("120 columns", Format::Table, style(Some(120))),
        ("pipe", Format::Table, style(None)),
        ("wide", Format::Wide, style(Some(120))),
        ("csv", Format::Csv, style(None)),
    ];
    views.map(|(title, format, style)| format!("── {title}\n{}", table(format, style))).concat()
}

fn figures(utilization: f64) -> Figures {
    Figures {
        devices: 8,
        sampled: 8,
        utilization: Some(Percent(utilization)),
        memory_used: Some(Mebibytes(61_440.0)),
        memory_total: Some(Mebibytes(81_920.0)),
        ..Figures::default()
    }
}

fn job(name: &str, kind: JobKind, gpus: u64) -> Job {
    Job {
        namespace: "ml-research".to_owned(),
        name: name.to_owned(),
        display_name: name.to_owned(),
        kind,
        pool: Some("training-pool".to_owned()),
        gpu_type: Some("a100-80g".to_owned()),
        user: Some("alice@example.com".to_owned()),
        created_at: "2026-01-31T09:00:00Z".parse().ok(),
        pods_wanted: 2,
        gpus_per_pod: GpuCount(gpus),
        ..Job::default()
    }
}

fn node(name: &str, used: Option<u64>, health: NodeHealth) -> NodeUsage {
    let labels = [("gpuctl/pool".to_owned(), "training-pool".to_owned())].into();
    NodeUsage {
        details: NodeDetails {
            node: Node { name: name.to_owned(), labels, ..Node::default() },
            capacity: [("cpu".to_owned(), "96".to_owned()), ("memory".to_owned(), "1Ti".to_owned())].into(),
            created_at: "2026-01-01T00:00:00Z".parse().ok(),
            ..NodeDetails::default()
        },
        health,
        reason: (health == NodeHealth::Faulty).then(|| "gpu-3: XID 79".to_owned()),
        gpus: Count { total: 8, used },
        slices: BTreeMap::new(),
        types: [("a100-80g".to_owned(), 8)].into(),
        cpu_used_milli: used.map(|_| 32_000),
        memory_used_bytes: used.map(|_| 137_438_953_472),
        holders: Vec::new(),
        devices: None,
    }
}

fn workload(kind: &str, name: &str, standing: Standing, held: u64) -> Workload {
    Workload {
        top: OwnerObject {
            kind: kind.to_owned(),
            namespace: "ml-research".to_owned(),
            name: name.to_owned(),
            uid: "7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51".to_owned(),
            started_at: "2026-01-31T09:00:00Z".parse().ok(),
            ..OwnerObject::default()
        },
        pods: Vec::new(),
        standing,
        requested: GpuCount(16),
        held: [("NVIDIA-A100-SXM4-80GB".to_owned(), held)]
            .into_iter()
            .filter(|(_, held)| *held > 0)
            .map(|(kind, held)| (kind, GpuCount(held)))
            .collect(),
        slices: BTreeMap::new(),
    }
}

#[test]
fn jobs_fit() {
    let rows: Vec<JobRow> =
        [("qwen2-7b-sft", JobKind::Training, 8, Some(Percent(64.5))), ("llama3-8b", JobKind::Inference, 1, None)]
            .into_iter()
            .map(|(name, kind, gpus, progress)| {
                let job = job(name, kind, gpus);
                JobRow { state: State::of(&job), job, progress, figures: Some(figures(93.4)) }
            })
            .collect();
    insta::assert_snapshot!(at_widths(|format, style| jobs::table(&rows, format, true, style, now())));
}

#[test]
fn nodes_fit() {
    let hosts = [
        node("gpu-a-01", Some(4), NodeHealth::Active),
        node("gpu-a-02", None, NodeHealth::Maintaining),
        node("gpu-a-03", Some(8), NodeHealth::Faulty),
    ];
    let hosts: Vec<&NodeUsage> = hosts.iter().collect();
    insta::assert_snapshot!(at_widths(|format, style| node_table::table(&hosts, format, true, style, now())));
}

#[test]
fn pools_fit() {
    let pool = |name: &str, description: Option<&str>| PoolUse {
        name: name.to_owned(),
        hosts: vec![node("gpu-a-01", Some(4), NodeHealth::Active), node("gpu-a-02", Some(0), NodeHealth::Active)],
        definition: description.map(|text| PoolDefinition { description: Some(text.to_owned()), ..PoolDefinition::default() }),
        defined: true,
        jobs: vec![job("a", JobKind::Training, 4)],
        all_jobs: true,
    };
    let pools = [pool("training-pool", Some("for trainings of up to two nodes, until further notice")), pool("dev", None)];
    insta::assert_snapshot!(at_widths(|format, style| pools::table(&pools, format, true, style)));
}

#[test]
fn quotas_fit() {
    let map = |gpus: &str| [("requests.nvidia.com/gpu".to_owned(), gpus.to_owned())].into();
    let quota = |namespace: &str, hard: &str, used: BTreeMap<String, String>| QuotaUse {
        namespace: namespace.to_owned(),
        name: "gpus".to_owned(),
        quota: None,
        hard: map(hard),
        used,
    };
    let quotas = [quota("ml-research", "16", map("12")), quota("web", "8", BTreeMap::new())];
    insta::assert_snapshot!(at_widths(|format, style| quotas::table(&quotas, format, true, style)));
}

#[test]
fn workloads_fit() {
    let found = [
        workload("PyTorchJob", "llama3-70b-pretrain", Standing::Running, 16),
        workload("Deployment", "a-service-with-quite-a-long-name", Standing::Pending, 0),
    ];
    let all: Vec<&Workload> = found.iter().collect();
    insta::assert_snapshot!("workloads", at_widths(|format, style| workloads::table(&all, format, true, style, now())));
    let rows: Vec<ConsumerRow<'_>> =
        found.iter().map(|workload| ConsumerRow { workload, figures: Some(figures(41.0)) }).collect();
    insta::assert_snapshot!("consumers", at_widths(|format, style| workloads::consumer_table(&rows, format, true, style)));
}

#[test]
fn events_fit() {
    let event = |warning: bool, reason: &str, message: &str| Event {
        at: "2026-01-31T11:58:00Z".parse().ok(),
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
        object: "Pod/qwen2-7b-sft-0-2gsvl".to_owned(),
        count: 3,
    };
    let found = [
        event(false, "Scheduled", "Successfully assigned ml-research/qwen2-7b-sft-0-2gsvl to gpu-a-01"),
        event(true, "Failed", "Failed to pull image \"registry.example.com/llama-factory:v9\": not found"),
    ];
    insta::assert_snapshot!(at_widths(|format, style| events::table(&found, format, true, style, now())));
}

#[test]
fn hourly_rows_fit() {
    fn summary<U: UnitValue>() -> Option<Summary<U>> {
        let [mean, max, min, p50, p95] = [91.25, 97.0, 80.5, 92.0, 96.5].map(U::of);
        Some(Summary { count: 12, mean, max, min, p50, p95 })
    }
    let sum = Sum { allocated: 23.99, requested: 24.0, windows: summary(), samples: summary(), workloads: 4 };
    let start: Timestamp = "2026-01-31T10:00:00Z".parse().unwrap();
    let end: Timestamp = "2026-01-31T11:00:00Z".parse().unwrap();
    let hour = Hour { cluster: "lab", start, end, partial: false };
    let present = Hour { partial: true, ..hour.clone() };
    let of = OfWorkload {
        top: TopOwner { namespace: "ml-research".to_owned(), kind: "Job".to_owned(), name: "qwen2-7b-sft".to_owned() },
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
            vec![hourly::of_cluster(&hour, Some(68), Some(&sum), 0), hourly::of_cluster(&present, None, None, 3)],
        ),
        ("namespaces", RowKind::Namespaces, vec![hourly::of_namespace(&hour, Some(68), "ml-research", &sum)]),
        ("labels", RowKind::Labels, vec![hourly::of_dimension(&hour, ["label", "team", "research"], &sum)]),
        ("workload_hours", RowKind::Workloads, vec![hourly::of_workload(&hour, &of)]),
    ];
    for (name, kind, rows) in tables {
        insta::assert_snapshot!(name, at_widths(|format, style| hourly_table::table(kind, &rows, format, true, style)));
    }
}

#[test]
fn scores_fit() {
    let row = |pod: &str, measured: bool, score: Score| Scored {
        reading: Reading {
            node: "gpu-a-01".to_owned(),
            index: 3,
            uuid: measured.then(|| "GPU-5fd4f087-86f3-7a43-b711-4771313afc50".to_owned()),
            holders: vec![("ml-research".to_owned(), pod.to_owned())],
            held: Some(true),
            ..Reading::default()
        },
        measured,
        score,
        whole: measured,
        trace: None,
        opinion: None,
        spared: false,
    };
    let idle = Score {
        utilization: Some(Percent(2.5)),
        memory_copy: Some(Percent(1.0)),
        memory_used: Some(Mebibytes(61_440.0)),
        memory_share: Some(Percent(75.0)),
        value: Some(9.75),
        at_most: Some(29.75),
        band: Band::Idle,
        samples: 10,
        ..Score::unknown(10)
    };
    let rows = [row("qwen2-7b-sft-0-2gsvl", true, idle), row("llama3-8b-7f6d9c-x2x4z", false, Score::unknown(10))];
    insta::assert_snapshot!(at_widths(|format, style| score::table(&rows, format, true, style)));
}

#[test]
fn rights_fit() {
    let tasks = [
        Task::new("create secrets", &[rights::SECRET]),
        Task::new("label nodes", &[rights::LABELS]),
        Task::new("logs jobs", &[rights::LOGS]),
    ];
    let may: BTreeMap<_, _> = tasks[2].rights(true).into_iter().map(|right| (right, true)).collect();
    let items = tasks.map(|task| checked(&task, &may, &BTreeMap::new()));
    insta::assert_snapshot!(at_widths(|format, style| rights_table(&items, format, true, style)));
}

#[test]
fn labels_of_nodes_fit() {
    let mut host = node("gpu-a-01", Some(4), NodeHealth::Active).details;
    host.node.labels.insert("nvidia.com/gpu-type".to_owned(), "a100-80g".to_owned());
    let bare = NodeDetails { node: Node { name: "cpu-01".to_owned(), ..Node::default() }, ..NodeDetails::default() };
    let hosts = [&host, &bare];
    let values = |format, style| labels::of_nodes_table(&hosts, "gpuctl/pool", format, true, style);
    insta::assert_snapshot!("node_labels", at_widths(values));
    insta::assert_snapshot!("gpu_labels", at_widths(|format, style| labels::of_gpus_table(&hosts, format, true, style)));
}

/// Returns an hour in which a training holds four of eight devices of one node and another pod waits, with its samples.
fn an_hour_of_the_past() -> (AllocationHistory, Usage) {
    let tenure = |name: &str, node: &str, gpus: u64, held: bool| Allocation {
        pod: ("ml-research".to_owned(), format!("{name}-0-2gsvl")),
        node: node.to_owned(),
        top: TopOwner { namespace: "ml-research".to_owned(), kind: "Job".to_owned(), name: name.to_owned() },
        gpus: GpuCount(gpus),
        requested: vec![true; 60],
        held: vec![held; 60],
        phase: Some((59, if held { "Running" } else { "Pending" }.to_owned())),
        labels: None,
        annotations: None,
    };
    let start = now().as_millisecond() - 3_600_000;
    let ledger = AllocationHistory {
        stretch: Stretch { start, end: start + 3_600_000 },
        slot: 60_000,
        observed: vec![true; 60],
        capacity: Some(16),
        capacities: vec![Some(16); 60],
        of_nodes: [("gpu-a-01".to_owned(), 8), ("gpu-a-02".to_owned(), 8)].into(),
        tenures: vec![tenure("qwen2-7b-sft", "gpu-a-01", 4, true), tenure("llama3-70b-pretrain", "", 16, false)],
    };
    let series = |index: u32| {
        let own = [
            ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
            ("Hostname", "gpu-a-01"),
            ("gpu", ["0", "1", "2", "3"][index as usize]),
            ("namespace", "ml-research"),
            ("pod", "qwen2-7b-sft-0-2gsvl"),
        ];
        let labels = own.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        let points = (0..60).map(|minute| Point { at: start + minute * 60_000, value: 90.0 + f64::from(index) }).collect();
        Series { labels, points }
    };
    let usage = Usage::of((0..4).map(series).collect(), &ledger, &NodeNames::default(), &[]);
    (ledger, usage)
}

#[test]
fn lists_of_the_past_fit() {
    let (ledger, usage) = an_hour_of_the_past();
    let then = At { cluster: "lab", time: now(), ledger: &ledger, usage: &usage };
    let (nodes, jobs) = (at_time::nodes(&then), at_time::jobs(&then));
    let snapshots = [snapshot::snapshot(&then, None, false)];
    insta::assert_snapshot!("nodes_at", at_widths(|format, style| at_time::node_table(&nodes.items, format, true, style)));
    insta::assert_snapshot!("jobs_at", at_widths(|format, style| at_time::job_table(&jobs.items, format, true, style)));
    insta::assert_snapshot!("snapshots", at_widths(|format, style| snapshot::table(&snapshots, format, true, style)));
}

#[test]
fn reports_fit() {
    let (ledger, usage) = an_hour_of_the_past();
    let account = GpuHours::of(&ledger, &usage, |_| true);
    let group = |name: Option<&str>| Group {
        name: name.map(ToOwned::to_owned),
        quota: name.map(|_| 32.0),
        cost: Some(account.held * 2.5),
        account: account.clone(),
    };
    let end = now();
    let report = GpuHourReport {
        by: "namespace",
        from: Timestamp::from_second(end.as_second() - 3600).unwrap(),
        to: end,
        currency: Some("EUR".to_owned()),
        groups: vec![group(Some("ml-research")), group(Some("a-team-with-a-rather-long-name"))],
        total: group(None),
    };
    let markdown = format!("── markdown\n{}", report::markdown(&report));
    insta::assert_snapshot!(at_widths(|format, style| report::table(&report, format, true, style)) + &markdown);
}
