//! Snapshot tests of lists at 80 and 120 columns, and in a pipe.

mod past;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use gpuctl_core::model::contract::rights;
use gpuctl_core::model::contract::rights::Task;
use gpuctl_core::model::facts::condition::HostCondition;
use gpuctl_core::model::facts::work_pod::{PodSums, WorkPod};
use gpuctl_core::model::facts::workload::{OwnerObject, WorkloadState};
use gpuctl_core::model::{
    Count, Event, Figures, GpuCount, Job, JobKind, Mebibytes, Node, NodeDetails, NodeHealth,
    NodeUsage, Percent, PoolDefinition, Preemption, Queue, QueueSystem, QuotaUse, Reading, State,
    Taint, Workload,
};
use gpuctl_core::stats::logs::remaining::Remaining;
use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::{Band, Score};

use super::{Format, TextStyle};
use crate::format::row_contexts::RowContexts;
use crate::jobs::list::JobRow;
use crate::jobs::{events, list as jobs};
use crate::nodes::pool_use::PoolUse;
use crate::nodes::{labels, pools, table as node_table};
use crate::program::rights::{checked, table as rights_table};
use crate::queues::list::QueueRow;
use crate::queues::{list as queues, preemptions, quotas};
use crate::score::list as score;
use crate::workloads::consumers::{ConsumerRow, consumer_table};
use crate::workloads::list as workloads;

fn now() -> Timestamp {
    "2026-01-31T12:00:00Z".parse().unwrap()
}

/// Renders a table at 80 and 120 columns, in a pipe, with every column, and as CSV.
fn at_widths(table: impl Fn(Format, TextStyle) -> String) -> String {
    let style = |width| TextStyle {
        width,
        color: false,
        plain: false,
    };
    let views = [
        ("80 columns", Format::Table, style(Some(80))),
        ("120 columns", Format::Table, style(Some(120))),
        ("pipe", Format::Table, style(None)),
        ("wide", Format::Wide, style(Some(120))),
        ("csv", Format::Csv, style(None)),
    ];
    views
        .map(|(title, format, style)| format!("── {title}\n{}", table(format, style)))
        .concat()
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
            node: Node {
                name: name.to_owned(),
                labels,
                schedulable: health != NodeHealth::Maintaining,
                ..Node::default()
            },
            capacity: [
                ("cpu".to_owned(), "96".to_owned()),
                ("memory".to_owned(), "1Ti".to_owned()),
            ]
            .into(),
            created_at: "2026-01-01T00:00:00Z".parse().ok(),
            ..NodeDetails::default()
        },
        health,
        reason: (health == NodeHealth::Faulty).then(|| "gpu-3: XID 79".to_owned()),
        gpus: Count::usable_units(8, used),
        slices: BTreeMap::new(),
        listed_board_slices: BTreeMap::new(),
        types: [("a100-80g".to_owned(), 8)].into(),
        cpu_used_milli: used.map(|_| 32_000),
        memory_used_bytes: used.map(|_| 137_438_953_472),
        holders: Vec::new(),
        devices: None,
    }
}

fn workload(kind: &str, name: &str, standing: WorkloadState, held: u64) -> Workload {
    Workload {
        top: OwnerObject {
            kind: kind.to_owned(),
            namespace: "ml-research".to_owned(),
            name: name.to_owned(),
            uid: "7c1f9f52-0d3c-4a53-9a6e-6f1d5a0a9d51".to_owned(),
            created_at: "2026-01-31T09:00:00Z".parse().ok(),
            ..OwnerObject::default()
        },
        // A waiting workload has no start time.
        pods: Vec::new(),
        sums: PodSums::from_pods([&WorkPod {
            // The workload was paused and resumed after its creation.
            started_at: "2026-01-31T11:00:00Z"
                .parse()
                .ok()
                .filter(|_| standing == WorkloadState::Running),
            ..WorkPod::default()
        }]),
        state: standing,
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
    let rows: Vec<JobRow> = [
        ("qwen2-7b-sft", JobKind::Training, 8, Some(Percent(64.5))),
        ("llama3-8b", JobKind::Inference, 1, None),
    ]
    .into_iter()
    .map(|(name, kind, gpus, progress)| {
        let job = job(name, kind, gpus);
        JobRow {
            state: State::from_job(&job),
            job,
            remaining: progress.map(|_| Remaining {
                seconds: 8_700.0,
                low: 7_800.0,
                high: 9_600.0,
            }),
            progress,
            figures: Some(figures(93.4)),
        }
    })
    .collect();
    insta::assert_snapshot!(at_widths(|format, style| jobs::table(
        &rows,
        RowContexts::NONE,
        format,
        true,
        false,
        style,
        now()
    )));
}

#[test]
fn nodes_fit() {
    let hosts = [
        node("gpu-a-01", Some(4), NodeHealth::Active),
        node("gpu-a-02", None, NodeHealth::Maintaining),
        node("gpu-a-03", Some(8), NodeHealth::Faulty),
    ];
    let hosts: Vec<&NodeUsage> = hosts.iter().collect();
    insta::assert_snapshot!(at_widths(|format, style| node_table::table(
        &hosts,
        RowContexts::NONE,
        format,
        true,
        false,
        style,
        now()
    )));
}

#[test]
fn pools_fit() {
    let pool = |name: &str, description: Option<&str>| PoolUse {
        name: name.to_owned(),
        hosts: vec![
            node("gpu-a-01", Some(4), NodeHealth::Active),
            node("gpu-a-02", Some(0), NodeHealth::Active),
        ],
        definition: description.map(|text| PoolDefinition {
            description: Some(text.to_owned()),
            ..PoolDefinition::default()
        }),
        defined: true,
        jobs: vec![job("a", JobKind::Training, 4)],
        all_jobs: true,
    };
    let pools = [
        pool(
            "training-pool",
            Some("for trainings of up to two nodes, until further notice"),
        ),
        pool("dev", None),
    ];
    insta::assert_snapshot!(at_widths(|format, style| pools::table(
        &pools, format, true, style
    )));
}

#[test]
fn a_pool_is_degraded_if_some_but_not_all_nodes_accept_pods() {
    let status = |hosts: &[&NodeUsage]| {
        let hosts = hosts.iter().map(|host| (*host).clone());
        let pool = PoolUse {
            name: "pool".to_owned(),
            hosts: hosts.collect(),
            definition: None,
            defined: true,
            jobs: Vec::new(),
            all_jobs: true,
        };
        pool.status().unwrap()
    };
    let open = node("n", Some(0), NodeHealth::Active);
    let cordoned = node("n", Some(0), NodeHealth::Maintaining);
    // A node with a lost device accepts new pods, and a node that is not ready does not.
    let lost = node("n", Some(0), NodeHealth::Faulty);
    let mut not_ready = lost.clone();
    not_ready.details.conditions.push(HostCondition {
        kind: "Ready".to_owned(),
        status: "False".to_owned(),
        ..HostCondition::default()
    });
    let mut tainted = open.clone();
    tainted.details.node.taints.push(Taint {
        key: "team".to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    });
    // One of three nodes accepts new pods.
    assert_eq!(status(&[&open, &cordoned, &cordoned]), "degraded");
    assert_eq!(status(&[&lost, &cordoned]), "degraded");
    assert_eq!(status(&[&open, &tainted]), "degraded");
    assert_eq!(status(&[&open, &open]), "active");
    assert_eq!(status(&[&open, &lost]), "active");
    // No node accepts new pods.
    assert_eq!(status(&[&cordoned, &cordoned]), "maintaining");
    assert_eq!(status(&[&tainted, &tainted]), "maintaining");
    assert_eq!(status(&[&tainted, &cordoned]), "maintaining");
    assert_eq!(status(&[&tainted, &not_ready]), "maintaining");
    assert_eq!(status(&[&not_ready, &not_ready]), "faulty");
    assert_eq!(status(&[&not_ready, &cordoned]), "maintaining");
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
        scoped: false,
    };
    let quotas = [
        quota("ml-research", "16", map("12")),
        quota("web", "8", BTreeMap::new()),
    ];
    insta::assert_snapshot!(at_widths(|format, style| quotas::table(
        &quotas, format, true, style
    )));
}

#[test]
fn queues_fit() {
    let queue = |system, namespace: Option<&str>, name: &str, waiting| Queue {
        system,
        name: name.to_owned(),
        namespace: namespace.map(ToOwned::to_owned),
        cluster_queue: namespace.map(|_| "all-of-science".to_owned()),
        active: waiting < 9,
        message: None,
        quota: Some(GpuCount(64)),
        used: Some(GpuCount(48)),
        borrowed: namespace.map(|_| GpuCount(16)),
        running: namespace.map(|_| 6),
        waiting: namespace.map(|_| waiting),
        labels: None,
    };
    let busy = Figures {
        devices: 48,
        sampled: 48,
        utilization: Some(Percent(37.5)),
        ..Figures::default()
    };
    let queues = [
        QueueRow {
            queue: queue(QueueSystem::Volcano, None, "default", 0),
            figures: None,
        },
        QueueRow {
            queue: queue(
                QueueSystem::Kueue,
                Some("ml-research"),
                "long-running-trainings",
                12,
            ),
            figures: Some(busy),
        },
    ];
    insta::assert_snapshot!(at_widths(|format, style| queues::table(
        &queues, format, true, style
    )));
}

#[test]
fn preemptions_fit() {
    let preemption = |job: &str, by: Option<&str>, admitted_again| Preemption {
        at: Some(now() - SignedDuration::from_mins(12)).filter(|_| admitted_again != Some(true)),
        namespace: "ml-research".to_owned(),
        job: job.to_owned(),
        by: by.map(ToOwned::to_owned),
        queue: by.map(|_| "long-running-trainings".to_owned()),
        times: by.map(|_| 2),
        admitted_again,
        message: "Preempted to accommodate a workload".to_owned(),
    };
    let preemptions = [
        preemption(
            "llama3-70b-pretrain",
            Some("ml-production/qwen2-7b-sft"),
            Some(false),
        ),
        preemption(
            "ablation-17",
            Some("ml-production/qwen2-7b-sft"),
            Some(true),
        ),
        preemption("sweep", None, None),
    ];
    insta::assert_snapshot!(at_widths(|format, style| preemptions::table(
        &preemptions,
        format,
        true,
        style,
        now()
    )));
}

#[test]
fn workloads_fit() {
    let workloads = [
        workload(
            "PyTorchJob",
            "llama3-70b-pretrain",
            WorkloadState::Running,
            16,
        ),
        workload(
            "Deployment",
            "a-service-with-quite-a-long-name",
            WorkloadState::Pending,
            0,
        ),
    ];
    let refs: Vec<&Workload> = workloads.iter().collect();
    insta::assert_snapshot!(
        "workloads",
        at_widths(|format, style| workloads::table(
            &refs,
            RowContexts::NONE,
            format,
            true,
            style,
            now()
        ))
    );
    let rows: Vec<ConsumerRow<'_>> = workloads
        .iter()
        .map(|workload| ConsumerRow {
            workload,
            figures: Some(figures(41.0)),
        })
        .collect();
    insta::assert_snapshot!(
        "consumers",
        at_widths(|format, style| consumer_table(&rows, format, true, style))
    );
}

#[test]
fn events_fit() {
    let event = |warning: bool, reason: &str, message: &str| Event {
        version: 0,
        at: "2026-01-31T11:58:00Z".parse().ok(),
        warning,
        reason: reason.to_owned(),
        message: message.to_owned(),
        object: "Pod/qwen2-7b-sft-0-2gsvl".to_owned(),
        count: 3,
    };
    let events = [
        event(
            false,
            "Scheduled",
            "Successfully assigned ml-research/qwen2-7b-sft-0-2gsvl to gpu-a-01",
        ),
        event(
            true,
            "Failed",
            "Failed to pull image \"registry.example.com/llama-factory:v9\": not found",
        ),
    ];
    insta::assert_snapshot!(at_widths(|format, style| events::table(
        &events,
        format,
        true,
        style,
        now()
    )));
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
        serving: None,
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
    let rows = [
        row("qwen2-7b-sft-0-2gsvl", true, idle),
        row("llama3-8b-7f6d9c-x2x4z", false, Score::unknown(10)),
    ];
    insta::assert_snapshot!(at_widths(|format, style| score::table(
        &rows, format, true, style
    )));
}

#[test]
fn rights_fit() {
    let tasks = [
        Task::new("create secrets", &[rights::SECRET]),
        Task::new("label nodes", &[rights::LABELS]),
        Task::new("logs jobs", &[rights::LOGS]),
    ];
    let may: BTreeMap<_, _> = tasks[2]
        .needed()
        .into_iter()
        .map(|right| (right, true))
        .collect();
    let items = tasks.map(|task| checked(&task, &may, &BTreeMap::new(), &BTreeSet::new()));
    insta::assert_snapshot!(at_widths(|format, style| rights_table(
        &items, format, true, style
    )));
}

#[test]
fn labels_of_nodes_fit() {
    let mut host = node("gpu-a-01", Some(4), NodeHealth::Active).details;
    host.node
        .labels
        .insert("nvidia.com/gpu-type".to_owned(), "a100-80g".to_owned());
    let bare = NodeDetails {
        node: Node {
            name: "cpu-01".to_owned(),
            ..Node::default()
        },
        ..NodeDetails::default()
    };
    let hosts = [&host, &bare];
    let values = |format, style| {
        labels::of_nodes_table(
            &hosts,
            RowContexts::NONE,
            "gpuctl/pool",
            format,
            true,
            style,
        )
    };
    insta::assert_snapshot!("node_labels", at_widths(values));
    insta::assert_snapshot!(
        "gpu_labels",
        at_widths(|format, style| labels::of_gpus_table(&hosts, format, true, style))
    );
}
