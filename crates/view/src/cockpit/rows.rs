//! Builds the rows of the cockpit's lists: rows in the scope that match the filter, sorted.

use std::cmp::Ordering;

use super::cells::{Tint, memory, plain, utilization, watts};
use super::lists::{Order, RowTarget, Scope, Tab};
use super::snapshot::{CockpitSnapshot, Curves, JobLine, PAST, gpu_name};
use crate::TextStyle;
use crate::format::chart::{ChartFrame, spark};
use crate::format::coverage::percent;
use crate::format::text::{age, clean, joined, or_dash};
use gpuctl_core::model::counting::held_use::held_figures;
use gpuctl_core::model::counting::inventory;
use gpuctl_core::model::facts::workload::WorkloadState;
use gpuctl_core::model::values::natural;
use gpuctl_core::model::{Figures, NodeHealth, NodeUsage, Queue, Reading};

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub key: String,
    pub place: RowTarget,
    pub cells: Vec<(String, Tint)>,
    number: Option<f64>,
}

/// Width of a curve in columns.
const CURVE_WIDTH: usize = 12;

/// The list to build, with its scope, filter and order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRequest<'a> {
    pub tab: Tab,
    pub scope: Option<&'a Scope>,
    /// Text that one of a row's cells must contain. An empty text matches every row.
    pub filter: &'a str,
    pub order: Order,
}

pub(crate) fn rows(
    request: ListRequest<'_>,
    snapshot: &CockpitSnapshot,
    curves: &Curves,
    style: TextStyle,
) -> Vec<Row> {
    let curve = |line: &str| {
        let to = snapshot.at.as_millisecond();
        let frame = ChartFrame {
            from: to - PAST,
            to,
            top: 100.0,
            height: 2,
            width: CURVE_WIDTH,
        };
        (spark(curves.points(line), frame, style), Tint::Usual)
    };
    let mut rows = rows_in_scope(request, snapshot, &curve);
    let needle = request.filter.to_lowercase();
    rows.retain(|row| {
        needle.is_empty()
            || row
                .cells
                .iter()
                .any(|(text, _)| text.to_lowercase().contains(&needle))
    });
    // Sort rows with a value first, and equal values by key.
    rows.sort_by(|a, b| match (a.number, b.number) {
        (Some(a_number), Some(b_number)) => b_number
            .total_cmp(&a_number)
            .then_with(|| natural::compare(&a.key, &b.key)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => natural::compare(&a.key, &b.key),
    });
    rows
}

/// Returns the rows in the scope, unsorted and unfiltered.
fn rows_in_scope(
    request: ListRequest<'_>,
    snapshot: &CockpitSnapshot,
    curve: &dyn Fn(&str) -> (String, Tint),
) -> Vec<Row> {
    let ListRequest {
        tab, scope, order, ..
    } = request;
    match tab {
        Tab::Jobs | Tab::Waiting => snapshot
            .jobs
            .iter()
            .filter(|job| (tab == Tab::Jobs || job.waits()) && in_scope(job, scope))
            .map(|job| job_row(tab, job, snapshot, order, curve))
            .collect(),
        Tab::Nodes => snapshot
            .nodes
            .iter()
            .filter(|node| match scope {
                Some(Scope::GpuType(kind)) => kind_of(node) == *kind,
                _ => true,
            })
            .map(|node| node_row(node, order, curve))
            .collect(),
        Tab::Gpus => {
            let nodes = snapshot.nodes_by_name();
            gpus_in_scope(snapshot, scope)
                .map(|gpu| gpu_row(gpu, nodes.get(&*gpu.node).copied(), order, curve))
                .collect()
        }
        Tab::Queues => snapshot.queues.iter().flatten().map(queue_row).collect(),
        Tab::Overview => type_rows(snapshot),
    }
}

/// Returns the GPUs of the node or job in the scope.
fn gpus_in_scope<'a>(
    snapshot: &'a CockpitSnapshot,
    scope: Option<&'a Scope>,
) -> impl Iterator<Item = &'a Reading> {
    let job = scope.and_then(|scope| match scope {
        Scope::Job(name) => snapshot.jobs.iter().find(|job| job.full_name() == *name),
        _ => None,
    });
    snapshot.gpus.iter().filter(move |gpu| match scope {
        Some(Scope::Node(name)) => gpu.node == *name,
        Some(Scope::Job(_)) => job.is_some_and(|job| {
            gpu.holders
                .iter()
                .any(|(namespace, pod)| *namespace == job.namespace && job.pods.contains(pod))
        }),
        _ => true,
    })
}

fn in_scope(job: &JobLine, scope: Option<&Scope>) -> bool {
    match scope {
        Some(Scope::Job(name)) => job.full_name() == *name,
        Some(Scope::Namespace(namespace)) => job.namespace == *namespace,
        Some(Scope::Node(_) | Scope::GpuType(_)) | None => true,
    }
}

fn job_status(job: &JobLine) -> (String, Tint) {
    let status = job.standing.word().to_lowercase();
    let status = job.reason.as_ref().map_or_else(
        || status.clone(),
        |reason| format!("{status} {}", clean(reason)),
    );
    let tint = match job.standing {
        // The reason of a job that is not waiting describes a problem of one of its pods.
        _ if job.reason.is_some() && job.standing != WorkloadState::Pending => Tint::Bad,
        WorkloadState::Running => Tint::Good,
        WorkloadState::Pending => Tint::Waiting,
        WorkloadState::Failed => Tint::Bad,
        WorkloadState::Completed | WorkloadState::Unknown => Tint::Dim,
    };
    (status, tint)
}

fn job_row(
    tab: Tab,
    job: &JobLine,
    snapshot: &CockpitSnapshot,
    order: Order,
    curve: &dyn Fn(&str) -> (String, Tint),
) -> Row {
    let key = job.full_name();
    let name = plain(format!("{}/{}", clean(&job.namespace), clean(&job.name)));
    let kind = plain(clean(&job.kind));
    let since = if tab == Tab::Waiting {
        job.waiting_since
    } else {
        job.created_at
    };
    let age = plain(age(since, snapshot.at));
    let cells = if tab == Tab::Waiting {
        vec![
            name,
            kind,
            job_status(job),
            plain(job.requested.to_string()),
            plain(job.held.to_string()),
            age,
        ]
    } else {
        let gpus = if job.held == job.requested {
            job.held.to_string()
        } else {
            format!("{}/{}", job.held, job.requested)
        };
        let curve = curve(&key);
        vec![
            name,
            kind,
            job_status(job),
            plain(gpus),
            plain(clean(&job.types)),
            utilization(&job.figures),
            curve,
            memory(&job.figures),
            watts(&job.figures),
            age,
        ]
    };
    // Waiting jobs have no utilization, so sort them by age, with the longest wait first.
    let order = if tab == Tab::Waiting && order == Order::Utilization {
        Order::Age
    } else {
        order
    };
    let number = order.number(&job.figures, Some(job.requested.0), since);
    Row {
        key,
        place: RowTarget::Job {
            namespace: job.namespace.clone(),
            kind: job.kind.clone(),
            name: job.name.clone(),
        },
        cells,
        number,
    }
}

fn node_row(node: &NodeUsage, order: Order, curve: &dyn Fn(&str) -> (String, Tint)) -> Row {
    let figures = node.figures();
    let tint = match node.health {
        NodeHealth::Active => Tint::Good,
        NodeHealth::Maintaining => Tint::Waiting,
        NodeHealth::Faulty => Tint::Bad,
        NodeHealth::Unknown => Tint::Dim,
    };
    let status = node.reason.as_ref().map_or_else(
        || node.health.word().to_owned(),
        |reason| format!("{} {}", node.health.word(), clean(reason)),
    );
    let cells = vec![
        plain(clean(node.name())),
        (status, tint),
        plain(clean(&kind_of(node))),
        plain(or_dash(node.details.node.pool().map(clean))),
        plain(format!("{}/{}", or_dash(node.gpus.used), node.gpus.total)),
        utilization(&figures),
        curve(node.name()),
        memory(&figures),
        watts(&figures),
    ];
    let number = order.number(&figures, node.gpus.used, node.details.created_at);
    Row {
        key: node.name().to_owned(),
        place: RowTarget::Node(node.name().to_owned()),
        cells,
        number,
    }
}

/// Joins the GPU types of a node with commas.
fn kind_of(node: &NodeUsage) -> String {
    joined(&node.kinds())
}

/// Returns whether a job can get a GPU that no pod holds.
fn unheld(node: Option<&NodeUsage>) -> &'static str {
    match node {
        Some(node) if !node.accepts_pods() => "cordoned",
        Some(node) if node.gpus.lost > 0 => "free or lost",
        _ => "free",
    }
}

fn gpu_row(
    gpu: &Reading,
    node: Option<&NodeUsage>,
    order: Order,
    curve: &dyn Fn(&str) -> (String, Tint),
) -> Row {
    let figures = Figures::from_readings(std::iter::once(gpu));
    let holder = gpu.holders.first().cloned();
    let name = holder
        .as_ref()
        .map(|(namespace, pod)| format!("{}/{}", clean(namespace), clean(pod)));
    let holder_text = match (name, gpu.held, gpu.fault.as_deref().map(clean)) {
        (Some(name), _, Some(fault)) => (format!("{name} {fault}"), Tint::Bad),
        (None, _, Some(fault)) => (fault.into_owned(), Tint::Bad),
        (Some(name), _, None) => plain(name),
        (None, Some(false), None) => (unheld(node).to_owned(), Tint::Dim),
        (None, _, None) => ("-".to_owned(), Tint::Dim),
    };
    let key = gpu_name(gpu);
    // Dim the utilization of a free GPU, which is expected to be idle.
    let usage = if gpu.held == Some(false) {
        (percent(gpu.utilization), Tint::Dim)
    } else {
        utilization(&figures)
    };
    let cells = vec![
        plain(clean(&key)),
        holder_text,
        usage,
        curve(&key),
        memory(&figures),
        watts(&figures),
        plain(
            gpu.temperature
                .map_or_else(|| "-".to_owned(), |celsius| format!("{celsius:.0}℃")),
        ),
    ];
    let number = order.number(&figures, gpu.held.map(u64::from), None);
    Row {
        key,
        place: RowTarget::Gpu {
            node: gpu.node.clone(),
            holder,
        },
        cells,
        number,
    }
}

fn queue_row(queue: &Queue) -> Row {
    let key = queue.namespace.as_ref().map_or_else(
        || queue.name.clone(),
        |namespace| format!("{namespace}/{}", queue.name),
    );
    let tint = if queue.waiting > Some(0) {
        Tint::Waiting
    } else {
        Tint::Usual
    };
    let cells = vec![
        (
            clean(&key).into_owned(),
            if queue.active { Tint::Usual } else { Tint::Bad },
        ),
        plain(queue.system.word()),
        plain(or_dash(queue.quota)),
        plain(or_dash(queue.used)),
        plain(or_dash(queue.borrowed)),
        plain(or_dash(queue.running)),
        (or_dash(queue.waiting), tint),
    ];
    // Sort queues by their waiting jobs, regardless of the sort order that the user chose.
    let number = queue.waiting.map(|waiting| waiting as f64);
    Row {
        key,
        place: RowTarget::Queue {
            namespace: queue.namespace.clone(),
            name: queue.name.clone(),
        },
        cells,
        number,
    }
}

fn type_rows(snapshot: &CockpitSnapshot) -> Vec<Row> {
    let mut kinds: Vec<String> = snapshot.nodes.iter().map(kind_of).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let row = |kind: String| {
        let nodes: Vec<&NodeUsage> = snapshot
            .nodes
            .iter()
            .filter(|node| kind_of(node) == kind)
            .collect();
        let count = inventory::total(nodes.iter().map(|node| node.gpus));
        let figures = held_figures(nodes.iter().copied());
        let cells = vec![
            plain(clean(&kind)),
            plain(nodes.len().to_string()),
            plain(count.total.to_string()),
            plain(or_dash(count.used)),
            plain(or_dash(count.free())),
            plain(count.lost.to_string()),
            plain(count.cordoned.to_string()),
            utilization(&figures),
        ];
        Row {
            key: kind.clone(),
            place: RowTarget::GpuType(kind),
            cells,
            number: Some(count.total as f64),
        }
    };
    kinds.into_iter().map(row).collect()
}
