//! Queries Prometheus for the pods that held devices in a past range, with their owners and nodes.

use std::collections::BTreeSet;

use futures::future::{join, try_join, try_join3, try_join4};
use tokio::sync::OnceCell;

use crate::concurrent::OrderedConcurrent;
use gpuctl_cluster::{Connection, OtherPods};
use gpuctl_core::error::Error;
use gpuctl_core::model::facts::reading::PodKey;
use gpuctl_core::model::facts::workload::OwnerObject;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::kube_state::PodQuery;
use gpuctl_core::stats::exporters::kube_state::node_state;
use gpuctl_core::stats::exporters::kube_state::node_state::NodeStateQuery;
use gpuctl_core::stats::exporters::kube_state::sharing;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::allocations::AllocationSeries;
use gpuctl_core::stats::history::claims;
use gpuctl_core::stats::history::node_history::NodeStateSeries;
use gpuctl_core::stats::history::reserved;
use gpuctl_core::stats::history::top_owner::{LiveOwners, OwnerSeries};
use gpuctl_prometheus::Prometheus;

/// Node series of kube-state-metrics.
#[derive(Default)]
pub(crate) struct NodeSeries {
    pub capacity: Vec<Series>,
    pub labels: Vec<Series>,
    pub states: NodeStateSeries,
}

/// Pods and nodes of a past range.
pub(super) struct PastFacts {
    pub(super) pods: AllocationSeries,
    pub(super) nodes: NodeSeries,
    /// The range that was read, which includes the requested one.
    pub(super) range: (UnixSeconds, UnixSeconds),
    /// True if a later read of the same range can find other samples beyond it.
    pub(super) may_differ: bool,
}

/// Data to read in addition to the pods that held devices.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HistoryScope {
    pub memory: bool,
    pub power: bool,
    pub names: bool,
    /// Whether nodes were cordoned or lost.
    pub node_states: bool,
}

/// Maximum number of pods or nodes per query, which limits the length of its regex.
const MAX_NAMES_PER_QUERY: usize = 150;

/// Number of concurrent queries about pods.
const MAX_CONCURRENT: usize = 4;

/// Queries of one past range.
pub(crate) struct PastQueries<'h, 'c> {
    pub prometheus: &'h Prometheus<'c>,
    pub connection: &'h Connection,
    /// Owners of existing objects. Read only if kube-state-metrics lacks some of the owners.
    pub live: &'h OnceCell<LiveOwners>,
    /// Length of the range.
    pub seconds: i64,
    pub end: UnixSeconds,
}

impl PastQueries<'_, '_> {
    async fn ask(&self, query: &str) -> Result<Vec<Series>, Error> {
        Ok(self.prometheus.query_at(query, self.end).await?)
    }

    pub(crate) async fn nodes(&self, scope: HistoryScope) -> Result<NodeSeries, Error> {
        let (capacity, labels) = (
            kube_state::capacity(self.seconds),
            kube_state::node_labels(self.seconds),
        );
        let (capacity, labels) = try_join(self.ask(&capacity), self.ask(&labels)).await?;
        let states = match scope.node_states {
            true => self.node_states(&capacity).await?,
            false => NodeStateSeries::default(),
        };
        Ok(NodeSeries {
            capacity,
            labels,
            states,
        })
    }

    /// Queries the states of the nodes with this capacity. Only nodes that were cordoned or lost
    /// need their states over time.
    async fn node_states(&self, capacity: &[Series]) -> Result<NodeStateSeries, Error> {
        let label = kube_state::label_name(capacity, "node");
        let gpu_nodes = names(capacity, "node");
        let gpu_nodes: Vec<&str> = gpu_nodes.iter().map(String::as_str).collect();
        let worst = async |names: &[&str]| {
            self.ask(&node_state::worst(names, &label, self.seconds))
                .await
        };
        let worst = OrderedConcurrent::new(
            gpu_nodes.chunks(MAX_NAMES_PER_QUERY).map(worst),
            MAX_CONCURRENT,
        );
        let worst: Vec<Series> = worst.all_or_error().await?.into_iter().flatten().collect();
        let affected = NodeStateSeries::affected(&worst, capacity);
        let affected: Vec<&str> = affected.into_iter().collect();
        let of_state = async |(state, names): (NodeStateQuery, &[&str])| {
            let query = node_state::states(state, names, &label, self.seconds);
            Ok::<_, Error>((state, self.ask(&query).await?))
        };
        let chunks = affected.chunks(MAX_NAMES_PER_QUERY);
        let queries = chunks.flat_map(|names| NodeStateQuery::ALL.map(|state| (state, names)));
        let over_time = OrderedConcurrent::new(queries.map(of_state), MAX_CONCURRENT);
        let over_time = over_time.all_or_error().await?;
        Ok(NodeStateSeries { worst, over_time })
    }

    /// Maps exporter pods to their nodes: some exporters report the name of their pod as the
    /// hostname.
    pub(crate) async fn exporters(
        &self,
        devices: &[Series],
        requests: &[Series],
    ) -> Result<Vec<(PodKey, String)>, Error> {
        let holders = names(requests, "pod");
        let exporters = devices
            .iter()
            .filter_map(|series| series.label("pod"))
            .map(ToOwned::to_owned);
        let exporter_pods: BTreeSet<String> =
            exporters.filter(|pod| !holders.contains(pod)).collect();
        let label = kube_state::label_name(requests, "pod");
        let series = self.about(PodQuery::Places, &exporter_pods, &label).await?;
        let node = kube_state::label_name(&series, "node");
        let pod_node =
            |series: &Series| Some((kube_state::pod(series)?.0, series.label(&node)?.to_owned()));
        Ok(series.iter().filter_map(pod_node).collect())
    }

    /// Queries the pods that held devices, with their owners, phases and names.
    pub(crate) async fn pods(&self, scope: HistoryScope) -> Result<AllocationSeries, Error> {
        let (requests, claimed) = (
            kube_state::requests(self.seconds),
            query::claimed(self.seconds),
        );
        let (requests, claimed) = try_join(self.ask(&requests), self.ask(&claimed)).await?;
        let mut pod_series = AllocationSeries {
            requests,
            claimed,
            ..AllocationSeries::default()
        };
        let mut pods = names(&pod_series.requests, "pod");
        pods.extend(
            pod_series
                .claimed
                .iter()
                .filter_map(claims::claimant)
                .map(|(_, pod)| pod),
        );
        if reserved::has_reservations(&pod_series.requests) {
            let (groups, fractions) = (
                sharing::groups(self.seconds),
                sharing::fractions(self.seconds),
            );
            (pod_series.groups, pod_series.fractions) =
                try_join(self.ask(&groups), self.ask(&fractions)).await?;
            pods.extend(names(&pod_series.groups, "pod"));
        }
        let init = pod_series
            .requests
            .iter()
            .filter(|series| series.name() == "kube_pod_init_container_resource_requests");
        let with_init_containers = names(init, "pod");
        // If every pod uses resource claims, no request series shows which label holds the pod
        // name. Exporter series use other labels than kube-state-metrics, so query the label.
        let label = match pod_series.requests.is_empty() && !pod_series.claimed.is_empty() {
            false => kube_state::label_name(&pod_series.requests, "pod"),
            true => self.pod_name_label().await?,
        };
        let query = |about| self.about(about, &pods, &label);
        let names = async |about| {
            if scope.names {
                query(about).await
            } else {
                Ok(Vec::new())
            }
        };
        (
            pod_series.phases_ever,
            pod_series.owners.pods,
            pod_series.labels,
            pod_series.annotations,
        ) = try_join4(
            query(PodQuery::PhasesEver),
            query(PodQuery::Owners),
            names(PodQuery::Labels),
            names(PodQuery::Annotations),
        )
        .await?;
        // Only pods whose phase changed within the range need the phases over time.
        let changed = kube_state::changed(&pod_series.phases_ever);
        let phases = self.about(PodQuery::Phases, &changed, &label);
        let owners = self.owners(std::mem::take(&mut pod_series.owners.pods), &label);
        let sidecars = self.about(PodQuery::Sidecars, &with_init_containers, &label);
        (
            pod_series.phases,
            pod_series.owners,
            pod_series.init_containers,
        ) = try_join3(phases, owners, sidecars).await?;
        Ok(pod_series)
    }

    /// Finds the label that holds pod names in series of kube-state-metrics if there is no request
    /// series.
    async fn pod_name_label(&self) -> Result<String, Error> {
        let pods = self.ask(&kube_state::any_pod(self.seconds)).await?;
        Ok(kube_state::label_name(&pods, "pod"))
    }

    /// Queries the owners of the pods' owners, up to the top-level objects.
    async fn owners(&self, pods: Vec<Series>, label: &str) -> Result<OwnerSeries, Error> {
        let (replica_set_names, jobs) = (
            OwnerSeries::names(&pods, "ReplicaSet"),
            OwnerSeries::names(&pods, "Job"),
        );
        let is_in_stateful_set = |series: &&Series| {
            kube_state::owner(series).is_some_and(|(kind, _)| kind == "StatefulSet")
        };
        let stateful_set_pods = pods
            .iter()
            .filter(is_in_stateful_set)
            .filter_map(kube_state::pod)
            .map(|((_, name), _)| name)
            .collect();
        let (replica_sets, jobs, groups) = try_join3(
            self.about(PodQuery::ReplicaSets, &replica_set_names, "replicaset"),
            self.about(PodQuery::Jobs, &jobs, "job_name"),
            self.about(PodQuery::Groups, &stateful_set_pods, label),
        )
        .await?;
        let deployments = OwnerSeries::names(&replica_sets, "Deployment");
        let deployments = self
            .about(PodQuery::Deployments, &deployments, "deployment")
            .await?;
        let mut owners = OwnerSeries {
            pods,
            replica_sets,
            jobs,
            deployments,
            custom: Vec::new(),
            groups,
        };
        // Owners that are custom resources appear only in custom-resource metrics and in the API
        // server.
        if owners.has_open_ends() {
            let query = kube_state::custom_owners(self.seconds);
            let (custom, _) = join(
                self.ask(&query),
                self.live.get_or_init(|| live_owners(self.connection)),
            )
            .await;
            owners.custom = custom?;
        }
        Ok(owners)
    }

    /// Queries series about the given pods, ReplicaSets or Jobs, whose names are in `label`.
    pub(crate) async fn about(
        &self,
        about: PodQuery,
        names: &BTreeSet<String>,
        label: &str,
    ) -> Result<Vec<Series>, Error> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let query_chunk = async |names: &[&str]| {
            self.ask(&kube_state::pod_facts(about, names, label, self.seconds))
                .await
        };
        let parts = OrderedConcurrent::new(
            names.chunks(MAX_NAMES_PER_QUERY).map(query_chunk),
            MAX_CONCURRENT,
        )
        .all_or_error()
        .await?;
        Ok(parts.into_iter().flatten().collect())
    }
}

/// Distinct values of a label.
fn names<'s>(series: impl IntoIterator<Item = &'s Series>, label: &str) -> BTreeSet<String> {
    series
        .into_iter()
        .filter_map(|series| kube_state::label(series, label))
        .map(ToOwned::to_owned)
        .collect()
}

/// Reads the owners of existing objects, or returns none if the user may not list them.
async fn live_owners(connection: &Connection) -> LiveOwners {
    let Ok(listing) = connection.workloads().owners(None, OtherPods::Summed).await else {
        return LiveOwners::new();
    };
    let owners = &listing.forest.owners;
    let owner_of_owner = |object: &OwnerObject| {
        let owner = owners.get(object.parent.as_ref()?)?;
        Some((
            (
                object.namespace.clone(),
                object.kind.clone(),
                object.name.clone(),
            ),
            (owner.kind.clone(), owner.name.clone()),
        ))
    };
    owners.values().filter_map(owner_of_owner).collect()
}
