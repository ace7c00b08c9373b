//! Reads all workloads once, with their devices' metrics, and finds the one that a user names.

use futures::future::join;

use super::list::Round;
use crate::context::Context;
use crate::observe::kept::KeptAnswer;
use crate::observe::optional_metrics::OptionalMetrics;
use gpuctl_cluster::{Connection, OtherPods, OwnersAndStock};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::text::plain_name;
use gpuctl_core::model::{Figures, Forest, GpuCount, Readings, Workload};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::query::Pods;
use gpuctl_manifest::spec::nearest;

/// Selects the pods with devices, or all pods if none has devices any more.
pub(crate) fn pods_of(workload: &Workload) -> Pods {
    let any = workload.pods.iter().any(|pod| pod.gpus > GpuCount::ZERO);
    let meant = workload
        .pods
        .iter()
        .filter(|pod| pod.gpus > GpuCount::ZERO || !any);
    Pods::named(&workload.top.namespace, meant.map(|pod| &*pod.name))
}

/// All workloads that request GPUs, as far as the user may list them.
pub(crate) struct WorkloadsFound {
    pub workloads: Vec<Workload>,
    pub forest: Forest,
    /// `None` without metrics.
    pub readings: Option<Readings>,
}

impl WorkloadsFound {
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

/// Objects that are read again only after a change.
pub(crate) type KeptObjects = KeptAnswer<OwnersAndStock>;

/// Reads workloads for a command that prints them once.
pub(crate) async fn read_once(
    context: &Context,
    connection: &Connection,
    quantities: &[Quantity],
) -> Result<WorkloadsFound, Error> {
    let cells = OptionalMetrics::new(context, connection);
    read(
        context,
        connection,
        quantities,
        &cells,
        OtherPods::Named,
        &KeptObjects::new(false),
        &Round::single(),
    )
    .await
}

/// Reads the workloads of the given namespace or of all. `quantities` is empty if no metrics are
/// shown.
pub(crate) async fn read(
    context: &Context,
    connection: &Connection,
    quantities: &[Quantity],
    cells: &OptionalMetrics<'_>,
    others: OtherPods,
    kept: &KeptObjects,
    round: &Round<'_>,
) -> Result<WorkloadsFound, Error> {
    let namespace = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    let moment = async {
        if quantities.is_empty() {
            Ok(None)
        } else {
            cells.now(quantities).await
        }
    };
    let objects = kept.or(
        round.fresh,
        round.ask(|| connection.workloads().owners_and_stock(namespace, others)),
    );
    let (objects, moment) = join(objects, moment).await;
    let (OwnersAndStock { owners, stock }, moment) = (objects?, moment?);
    let mut stock = stock.ok();
    let holding = owners
        .forest
        .pods
        .iter()
        .filter(|pod| pod.gpus > GpuCount::ZERO && !pod.ended());
    let moment = cells
        .or_exporters(
            moment,
            holding
                .filter_map(|pod| pod.node.as_deref().map(ToOwned::to_owned))
                .collect(),
        )
        .await;
    if let Some(namespace) = owners.narrowed_to.as_ref().filter(|_| round.first) {
        context.terminal.warn_missing_permission(&format!(
            "you may not list pods of all namespaces; only `{namespace}` is shown"
        ));
    }
    if !owners.unreadable.is_empty() && round.first {
        let kinds = owners.unreadable.join("s and ");
        context.terminal.warn_missing_permission(&format!(
            "you may not list {kinds}s: those without pods are not shown"
        ));
    }
    if stock.is_none() && round.first {
        context
            .terminal
            .warn_missing_permission("you may not list nodes: the number of held GPUs is unknown");
    }
    let empty = gpuctl_core::model::Inventory::default();
    let readings = stock
        .as_mut()
        .and_then(|stock| cells.measure(stock, moment.as_ref()));
    let inventory = stock.as_ref().map_or(&empty, |stock| &stock.inventory);
    let workloads = owners.forest.workloads(inventory);
    Ok(WorkloadsFound {
        workloads,
        forest: owners.forest,
        readings,
    })
}

/// Finds a workload by UID, KIND/NAME or NAMESPACE/KIND/NAME, or by NAME if it is unique.
pub(crate) fn named<'f>(found: &'f [Workload], text: &str) -> Result<&'f Workload, Error> {
    if let Some(workload) = found.iter().find(|workload| workload.top.uid == text) {
        return Ok(workload);
    }
    let parts: Vec<&str> = text.split('/').collect();
    let is = |workload: &&Workload| {
        let top = &workload.top;
        let is_name = |name: &str| top.name == name || plain_name(&top.name) == name;
        let kind = |kind: &str| {
            top.kind.eq_ignore_ascii_case(kind)
                || kind.eq_ignore_ascii_case(&format!("{}s", top.kind))
        };
        match parts.as_slice() {
            [name] => is_name(name),
            [first, name] => is_name(name) && (kind(first) || top.namespace == *first),
            [namespace, of_kind, name] => {
                is_name(name) && kind(of_kind) && top.namespace == *namespace
            }
            _ => false,
        }
    };
    // Use the spelling of lists, which is safe to paste into a shell: a hint must run only gpuctl.
    let full = |workload: &&Workload| {
        let top = &workload.top;
        format!(
            "{}/{}/{}",
            top.namespace,
            plain_name(&top.kind),
            plain_name(&top.name)
        )
    };
    match found.iter().filter(is).collect::<Vec<_>>().as_slice() {
        [one] => Ok(one),
        [] => {
            let error = Error::new(
                ErrorName::NotFound,
                format!("there is no workload `{text}`"),
            );
            let name = parts.last().copied().unwrap_or_default();
            let names: Vec<&str> = found
                .iter()
                .map(|workload| workload.top.name.as_str())
                .collect();
            let near = nearest(name, &names)
                .and_then(|near| found.iter().find(|workload| workload.top.name == near));
            Err(match near {
                Some(near) => error.hint(format!("did you mean `{}`?", full(&near))),
                None => error.hint("`gpuctl get workloads` lists all workloads"),
            })
        }
        several => {
            let places: Vec<String> = several.iter().map(full).collect();
            let message = format!(
                "{} workloads are called `{text}`: {}",
                several.len(),
                places.join(", ")
            );
            Err(Error::new(ErrorName::AmbiguousName, message)
                .hint(format!("choose one: {}", places[0])))
        }
    }
}
