//! Reads workloads with the live metrics of their devices, and finds a workload by name.

use futures::future::join;

use super::list::Refresh;
use crate::context::Context;
use crate::lookup;
use crate::observe::cached_response::CachedResponse;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::{Connection, OtherPods, Owners, OwnersAndInventory};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::{is_namespace, plain_name};
use gpuctl_core::model::{Figures, Forest, GpuCount, Readings, Workload};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_manifest::spec::nearest;

/// Selects the pods with devices, or all pods if none has devices anymore.
pub(crate) fn gpu_pods(workload: &Workload) -> Pods {
    let has_devices = workload.pods.iter().any(|pod| pod.gpus > GpuCount::ZERO);
    let selected = workload
        .pods
        .iter()
        .filter(|pod| pod.gpus > GpuCount::ZERO || !has_devices);
    Pods::by_name(&workload.top.namespace, selected.map(|pod| &*pod.name))
}

/// Workloads with GPUs that the user may list.
pub(crate) struct WorkloadSnapshot {
    pub workloads: Vec<Workload>,
    pub forest: Forest,
    /// `None` without metrics.
    pub readings: Option<Readings>,
}

impl WorkloadSnapshot {
    /// Averages the metrics of the devices that a workload holds.
    pub(crate) fn figures(&self, workload: &Workload) -> Option<Figures> {
        let pods: Vec<&str> = workload
            .pods
            .iter()
            .filter(|pod| !pod.ended())
            .map(|pod| &*pod.name)
            .collect();
        self.readings
            .as_ref()
            .map(|readings| readings.figures_of(&workload.top.namespace, &pods))
    }
}

/// Objects that are reread only after a change notification.
pub(crate) type CachedObjects = CachedResponse<OwnersAndInventory>;

/// Reads the workloads of a namespace, or of all namespaces, for a command that prints them once.
pub(crate) async fn read_once(
    context: &Context,
    connection: &Connection,
    namespace: Option<&str>,
    quantities: &[Quantity],
) -> Result<WorkloadSnapshot, Error> {
    let metrics = OptionalMetrics::new(context, connection);
    let query = WorkloadQuery {
        namespace,
        quantities,
        others: OtherPods::Named,
    };
    let cache = CachedObjects::new(false);
    read(
        context,
        connection,
        query,
        &metrics,
        &cache,
        &Refresh::once(),
    )
    .await
}

/// Reads the workloads in which [`find_workload`] looks for `text`.
pub(crate) async fn read_named(
    context: &Context,
    connection: &Connection,
    quantities: &[Quantity],
    text: &str,
) -> Result<WorkloadSnapshot, Error> {
    let read_in = async |namespace| read_once(context, connection, namespace, quantities).await;
    let parts: Vec<&str> = text.split('/').collect();
    let (namespace, is_certain) = match parts[..] {
        [namespace, _, _] if is_namespace(namespace) => (Some(namespace), true),
        [first, _] if is_namespace(first) && !is_kind(first) => (Some(first), false),
        _ => (None, false),
    };
    let explicit_namespace = lookup::explicit_namespace(connection);
    if is_certain {
        lookup::check_namespace(explicit_namespace, namespace, text)?;
    }
    let is_found = |snapshot: &WorkloadSnapshot| find_workload(&snapshot.workloads, text).is_ok();
    if explicit_namespace.is_some() || namespace.is_none() {
        let snapshot = read_in(explicit_namespace).await?;
        if !is_found(&snapshot) {
            lookup::check_namespace(explicit_namespace, namespace, text)?;
        }
        return Ok(snapshot);
    }
    match read_in(namespace).await {
        // The first part may be a custom kind in lower case instead of a namespace, so search all
        // namespaces.
        first if !is_certain && !first.as_ref().is_ok_and(is_found) => {
            read_in(None).await.or(first)
        }
        first => first,
    }
}

/// Returns true for a built-in kind of workload, in singular or plural.
pub(crate) fn is_kind(text: &str) -> bool {
    const KINDS: [&str; 5] = ["pod", "job", "deployment", "statefulset", "leaderworkerset"];
    KINDS.contains(&text.trim_end_matches('s').to_ascii_lowercase().as_str())
}

/// Selects workloads and the data to read with them.
#[derive(Clone, Copy)]
pub(crate) struct WorkloadQuery<'q> {
    /// The namespace to read, or `None` for all.
    pub namespace: Option<&'q str>,
    /// The live metrics to read. Empty for none.
    pub quantities: &'q [Quantity],
    pub others: OtherPods,
}

/// Reads workloads with the live metrics of their devices.
pub(crate) async fn read(
    context: &Context,
    connection: &Connection,
    query: WorkloadQuery<'_>,
    metrics: &OptionalMetrics<'_>,
    cache: &CachedObjects,
    refresh: &Refresh<'_>,
) -> Result<WorkloadSnapshot, Error> {
    let WorkloadQuery {
        namespace,
        quantities,
        others,
    } = query;
    let reading = async {
        if quantities.is_empty() {
            Ok(None)
        } else {
            metrics.now(quantities).await
        }
    };
    let objects = cache.get_or_read(
        refresh.fresh,
        refresh.ask(|| connection.workloads().snapshot(namespace, others)),
    );
    let (objects, reading) = join(objects, reading).await;
    let (
        OwnersAndInventory {
            owners,
            inventory: stock,
        },
        reading,
    ) = (objects?, reading?);
    let mut snapshot = stock.ok();
    let gpu_pods = owners
        .forest
        .pods
        .iter()
        .filter(|pod| pod.gpus > GpuCount::ZERO && !pod.ended());
    let reading = metrics
        .or_read_exporters(
            reading,
            gpu_pods
                .filter_map(|pod| pod.node.as_deref().map(ToOwned::to_owned))
                .collect(),
        )
        .await;
    if refresh.first {
        warn_of_missing_rights(&owners, snapshot.is_some(), context);
    }
    let empty_inventory = gpuctl_core::model::Inventory::default();
    let readings = snapshot
        .as_mut()
        .and_then(|snapshot| metrics.measure(snapshot, reading.as_ref()));
    let inventory = snapshot
        .as_ref()
        .map_or(&empty_inventory, |snapshot| &snapshot.inventory);
    let workloads = owners.forest.workloads(inventory);
    let is_empty = refresh.first && workloads.is_empty();
    lookup::check_empty(connection, namespace, is_empty).await?;
    Ok(WorkloadSnapshot {
        workloads,
        forest: owners.forest,
        readings,
    })
}

fn warn_of_missing_rights(owners: &Owners, has_nodes: bool, context: &Context) {
    let warn = |text: &str| context.terminal.warn_missing_permission(text);
    if let Some(namespace) = &owners.narrowed_to {
        warn(&format!(
            "you are not allowed to list pods in all namespaces; only `{namespace}` is shown"
        ));
    }
    if !owners.unreadable.is_empty() {
        let kinds = owners.unreadable.join("s and ");
        warn(&format!(
            "you are not allowed to list {kinds}s: those without pods are not shown"
        ));
    }
    if !has_nodes {
        warn("you are not allowed to list nodes: the number of held GPUs is unknown");
    }
}

/// Finds a workload by UID, NAME or KIND/NAME. Names can be prefixed with a namespace, and must be
/// unique.
pub(crate) fn find_workload<'f>(all: &'f [Workload], text: &str) -> Result<&'f Workload, Error> {
    if let Some(workload) = all.iter().find(|workload| workload.top.uid == text) {
        return Ok(workload);
    }
    let parts: Vec<&str> = text.split('/').collect();
    let matches = |workload: &&Workload| {
        let top = &workload.top;
        let is_name = |name: &str| top.name == name || plain_name(&top.name) == name;
        let kind = |kind: &str| {
            top.kind.eq_ignore_ascii_case(kind)
                || kind.eq_ignore_ascii_case(&format!("{}s", top.kind))
        };
        match parts.as_slice() {
            [name] => is_name(name),
            [first, name] => is_name(name) && (kind(first) || top.namespace == *first),
            [namespace, kind_text, name] => {
                is_name(name) && kind(kind_text) && top.namespace == *namespace
            }
            _ => false,
        }
    };
    // Format names like the lists do. Such names are safe to paste into a shell, so a hint can run
    // only gpuctl.
    let full_name = |workload: &&Workload| {
        let top = &workload.top;
        format!(
            "{}/{}/{}",
            top.namespace,
            plain_name(&top.kind),
            plain_name(&top.name)
        )
    };
    match all.iter().filter(matches).collect::<Vec<_>>().as_slice() {
        [workload] => Ok(workload),
        [] => {
            let error = Error::new(
                ErrorName::NotFound,
                format!("there is no workload `{text}`"),
            );
            let name = parts.last().copied().unwrap_or_default();
            let names: Vec<&str> = all
                .iter()
                .map(|workload| workload.top.name.as_str())
                .collect();
            let similar = nearest(name, &names)
                .and_then(|similar| all.iter().find(|workload| workload.top.name == similar));
            Err(match similar {
                Some(similar) => error.hint(format!("did you mean `{}`?", full_name(&similar))),
                None => error.hint("`gpuctl get workloads` lists all workloads"),
            })
        }
        several => {
            let names: Vec<String> = several.iter().map(full_name).collect();
            let message = format!(
                "{} workloads are called `{text}`: {}",
                several.len(),
                names.join(", ")
            );
            Err(Error::new(ErrorName::AmbiguousName, message)
                .hint(format!("choose one: {}", names[0])))
        }
    }
}
