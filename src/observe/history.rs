//! Reads a past time range from Prometheus: which pods held which devices, and the devices'
//! metrics. A query covers at most one hour, so memory use does not grow with the range.

use std::collections::BTreeMap;

use futures::future::{join, try_join};
use tokio::sync::{Mutex, OnceCell};

use crate::context::Context;
use crate::observe::contexts::all_contexts;
use crate::observe::device_evidence::DeviceEvidence;
use crate::observe::first_sample::first_sample;
use crate::observe::metrics::{self, StoreUse};
use crate::observe::past_queries::{HistoryScope, NodeSeries, PastQueries};
use gpuctl_cluster::{Access, Connection, OtherPods};
use gpuctl_core::error::Error;
use gpuctl_core::model::{Series, UnixSeconds};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::exporters::node_traits::NodeCatalog;
use gpuctl_core::stats::exporters::parts::NodeParts;
use gpuctl_core::stats::exporters::query;
use gpuctl_core::stats::history::allocations::{AllocationHistory, AllocationSeries};
use gpuctl_core::stats::history::node_history::NodeHistory;
use gpuctl_core::stats::history::outage::Outage;
use gpuctl_core::stats::history::serving_hours;
use gpuctl_core::stats::history::serving_hours::Servers;
use gpuctl_core::stats::history::slots::TimeSpan;
use gpuctl_core::stats::history::top_owner::LiveOwners;
use gpuctl_core::stats::history::usage::{NodeNames, Usage};
use gpuctl_prometheus::{Prometheus, SampleRange};

/// Access to the history of one cluster.
pub(crate) struct ClusterHistory<'c> {
    /// The cluster's context in the kubeconfig.
    pub cluster: String,
    pub prometheus: Prometheus<'c>,
    pub(super) now: UnixSeconds,
    /// A time before which the store has no samples, or `None` if unknown.
    first_sample: Option<UnixSeconds>,
    /// Names and addresses of the nodes that exist now.
    nodes: NodeNames,
    /// GPU types and pools of the nodes that exist now.
    pub catalog: NodeCatalog,
    /// Everything that affects results except the query, as part of the cache key. `None` disables
    /// caching.
    cache_scope: Option<String>,
    connection: &'c Connection,
    /// Owners of existing objects. Read only if kube-state-metrics lacks some of the owners.
    live: OnceCell<LiveOwners>,
    evidence: DeviceEvidence,
    /// Outages whose edges are known.
    pub(super) outages: Mutex<Vec<Outage>>,
}

/// What a past range of at most an hour contains.
pub(crate) struct PastHour {
    pub allocations: AllocationHistory,
    pub usage: Usage,
    pub nodes: NodeHistory,
    /// Labels of nodes that kube-state-metrics recorded.
    pub node_labels: Vec<Series>,
    /// True if the result depends on more than the samples of the hour. A later read can then
    /// differ, so the caller must not cache it.
    pub may_differ: bool,
}

/// Selects the current context's cluster, the one given by `--cluster`, or all clusters.
/// `--cluster` names a context, or else a cluster in the kubeconfig.
pub(crate) fn clusters(all: bool, context: &Context) -> Result<Vec<(String, Access)>, Error> {
    if all {
        return all_contexts(context);
    }
    let name = context.access.overrides.cluster.clone();
    if let (Some(bundle), Some(name)) = (&context.access.bundle, &name)
        && *name != bundle.cluster
    {
        return Err(Error::usage(format!(
            "the bundle was created from cluster {}, not from {name}",
            bundle.cluster
        )));
    }
    let access = Access {
        default_namespace: context.default_namespace()?,
        ..context.access.clone()
    };
    let (contexts, current) = Connection::contexts(&access)?;
    let access_to = |name: &String| {
        let mut access = Access {
            context: Some(name.clone()),
            ..access.clone()
        };
        access.overrides.cluster = None;
        (name.clone(), access)
    };
    match name {
        Some(name) if contexts.contains(&name) => return Ok(vec![access_to(&name)]),
        Some(name) => return Ok(vec![(name, access)]),
        None => {}
    }
    match &context.access.context {
        Some(name) => Ok(vec![access_to(name)]),
        // In a pod, the in-cluster configuration replaces the kubeconfig and has no contexts.
        None => Ok(vec![(
            current.unwrap_or_else(|| "in-cluster".to_owned()),
            access.clone(),
        )]),
    }
}

impl<'c> ClusterHistory<'c> {
    /// Finds the cluster's Prometheus. Fails if its series since `since` may include devices of
    /// other clusters.
    pub(crate) async fn open(
        cluster: String,
        context: &Context,
        connection: &'c Connection,
        since: UnixSeconds,
    ) -> Result<Self, Error> {
        let store = async {
            let prometheus = metrics::find(
                context,
                connection,
                context.access.request_timeout,
                StoreUse::Sums { since },
            )
            .await?;
            let first_sample = first_sample(&prometheus, since, context.now().into()).await;
            Ok::<_, Error>((prometheus, first_sample))
        };
        let (store, snapshot) = join(store, connection.inventory().snapshot()).await;
        // Prometheus has no series about sharing of devices. Only the API server knows it, for the
        // present and only if the user may list nodes.
        let has_inventory = snapshot.is_ok();
        if let Err(failure) = &snapshot {
            context.terminal.warn(&format!(
                "nodes that share GPUs are unknown, so shares are counted as GPUs: {failure}"
            ));
        }
        let inventory = snapshot.map(|read| read.inventory).unwrap_or_default();
        // Exporters may report the address of a node instead of its name.
        let aliases = inventory.hosts.iter().flat_map(|host| {
            host.details
                .addresses
                .iter()
                .map(|alias| (alias.clone(), host.name().to_owned()))
        });
        let nodes = NodeNames {
            parts: NodeParts::from_nodes(inventory.hosts.iter()),
            aliases: aliases.collect(),
        };
        let catalog = NodeCatalog::from_nodes(inventory.hosts.iter());
        let (prometheus, first_sample) = store?;
        let aliases: Vec<(&String, &String)> = nodes.aliases.iter().collect();
        // Results can depend on the credentials, so the cache key includes their fingerprint.
        let credentials = context.metrics_of(connection)?.credentials.fingerprint();
        let cache_scope = serde_json::json!([
            connection.server(),
            prometheus.server,
            credentials,
            format!("{:?}", nodes.parts),
            aliases,
            prometheus.matchers().to_string()
        ])
        .to_string();
        // Without the nodes, shares of devices count as whole GPUs. Do not cache such results.
        let cache_scope = (has_inventory && context.access.bundle.is_none()).then_some(cache_scope);
        Ok(Self {
            cluster,
            prometheus,
            now: context.now().into(),
            first_sample,
            nodes,
            catalog,
            cache_scope,
            connection,
            live: OnceCell::new(),
            evidence: DeviceEvidence::new(since, context.now().into()),
            outages: Mutex::default(),
        })
    }

    /// Prepares for ranges that start earlier than the one with which the history was opened.
    pub(crate) async fn extend(&mut self, since: UnixSeconds) {
        self.first_sample = first_sample(&self.prometheus, since, self.now).await;
        self.evidence = DeviceEvidence::new(since, self.now);
    }

    pub(crate) fn connection(&self) -> &Connection {
        self.connection
    }

    /// Builds the cache key for a result. Returns `None` if caching is disabled.
    pub(crate) fn cache_key(&self, query: &str, start: UnixSeconds) -> Option<String> {
        Some(
            serde_json::json!([self.cache_scope.as_ref()?, self.cluster, query, start.0])
                .to_string(),
        )
    }

    /// Reads which pods held which devices in the half-open range `[start, end)`, and the devices'
    /// metrics.
    pub(crate) async fn read(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
        scope: HistoryScope,
    ) -> Result<(AllocationHistory, Usage), Error> {
        let hour = self.read_hour(start, end, scope).await?;
        Ok((hour.allocations, hour.usage))
    }

    /// Reads what [`Self::read`] does, and the nodes.
    pub(crate) async fn read_hour(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
        scope: HistoryScope,
    ) -> Result<PastHour, Error> {
        if self.is_before_first_sample(end) {
            let allocations = self.without_samples(start, end);
            return Ok(PastHour {
                usage: Usage::new(Vec::new(), &allocations, &self.nodes, &[]),
                allocations,
                nodes: NodeHistory::default(),
                node_labels: Vec::new(),
                may_differ: false,
            });
        }
        let seconds = (end - start).max(1);
        let mut quantities = vec![Quantity::Utilization];
        if scope.memory {
            quantities.extend([
                Quantity::MemoryUsed,
                Quantity::MemoryFree,
                Quantity::MemoryTotal,
            ]);
        }
        if scope.power {
            quantities.push(Quantity::Power);
        }
        let range = SampleRange {
            query: query::samples(&quantities, seconds),
            names: query::pattern(&quantities),
            start: end - seconds,
            end,
        };
        let samples = async { Ok::<_, Error>(self.prometheus.samples(&range).await?) };
        // Samples take the longest to read, so run the small queries in parallel.
        let facts = self.facts(start, end, scope);
        let (facts, devices) = try_join(facts, samples).await?;
        let ((from, to), nodes) = (facts.range, facts.nodes);
        let (parts, uses_evidence) = self.parts(&nodes, &devices).await;
        let allocations = self.allocations(&facts.pods, &nodes, &parts, span(start, end));
        let exporters = self
            .queries(to - from, to)
            .exporters(&devices, &facts.pods.requests)
            .await?;
        Ok(PastHour {
            usage: Usage::new(devices, &allocations, &self.nodes, &exporters),
            nodes: NodeHistory::new(&nodes.capacity, &nodes.states, &allocations, &parts),
            allocations,
            node_labels: nodes.labels,
            may_differ: facts.may_differ || uses_evidence,
        })
    }

    /// Reads the request metrics of inference servers between two times.
    pub(crate) async fn servers(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
    ) -> Result<Servers, Error> {
        if self.is_before_first_sample(end) {
            return Ok(Servers::new(&[], start.millis()));
        }
        let series = self
            .prometheus
            .query_at(&serving_hours::query((end - start).max(1)), end)
            .await?;
        Ok(Servers::new(&series, start.millis()))
    }

    /// Reads which pods held which devices, without the devices' metrics.
    pub(crate) async fn pods(
        &self,
        start: UnixSeconds,
        end: UnixSeconds,
    ) -> Result<AllocationHistory, Error> {
        if self.is_before_first_sample(end) {
            return Ok(self.without_samples(start, end));
        }
        let facts = self.facts(start, end, HistoryScope::default()).await?;
        let (parts, _) = self.parts(&facts.nodes, &[]).await;
        Ok(self.allocations(&facts.pods, &facts.nodes, &parts, span(start, end)))
    }

    /// Returns true if the store certainly has no samples before `end`.
    pub(crate) fn is_before_first_sample(&self, end: UnixSeconds) -> bool {
        self.first_sample.is_some_and(|first| end <= first)
    }

    fn without_samples(&self, start: UnixSeconds, end: UnixSeconds) -> AllocationHistory {
        let (pods, nodes) = (AllocationSeries::default(), NodeSeries::default());
        self.allocations(&pods, &nodes, &self.nodes.parts, span(start, end))
    }

    /// The kinds of units that nodes offered, from recorded labels, the exporters' series and the
    /// API server. Nodes whose exporters have no series in this range are as in the rest of the
    /// whole range. The flag is true if the result depends on that range.
    async fn parts(&self, nodes: &NodeSeries, devices: &[Series]) -> (NodeParts, bool) {
        let (capacity, aliases) = (&nodes.capacity, &self.nodes.aliases);
        let parts = self.nodes.parts.clone();
        let parts = parts
            .with_past_labels(&nodes.labels, capacity)
            .with_exported(devices, capacity, aliases);
        if !parts.has_unseen_devices(capacity) {
            return (parts, false);
        }
        let evidence = self.evidence.series(&self.prometheus).await;
        (parts.with_exported(evidence, capacity, aliases), true)
    }

    fn allocations(
        &self,
        pod_series: &AllocationSeries,
        nodes: &NodeSeries,
        parts: &NodeParts,
        stretch: TimeSpan,
    ) -> AllocationHistory {
        let no_owners = LiveOwners::new();
        let live_owners = self.live.get().unwrap_or(&no_owners);
        AllocationHistory::new(
            pod_series,
            &nodes.capacity,
            stretch,
            parts,
            &self.nodes.aliases,
            live_owners,
        )
    }

    /// Creates the queries for the range of `seconds` before `end`.
    pub(crate) fn queries(&self, seconds: i64, end: UnixSeconds) -> PastQueries<'_, 'c> {
        PastQueries {
            prometheus: &self.prometheus,
            connection: self.connection,
            live: &self.live,
            seconds,
            end,
        }
    }
}

/// Maps existing top-level owners (namespace, kind, name) to their UIDs. Omits owners created after
/// `end`, because they are different objects with the same names.
pub(crate) async fn uids(
    connection: &Connection,
    end: UnixSeconds,
) -> BTreeMap<(String, String, String), String> {
    let Ok(owners) = connection.workloads().owners(None, OtherPods::Summed).await else {
        return BTreeMap::new();
    };
    let workloads = owners
        .forest
        .workloads(&gpuctl_core::model::Inventory::default());
    let existed = |workload: &gpuctl_core::model::Workload| {
        workload
            .top
            .created_at
            .is_none_or(|at| UnixSeconds::from(at) < end)
    };
    let existing = workloads.into_iter().filter(existed);
    existing
        .map(|workload| {
            (
                (workload.top.namespace, workload.top.kind, workload.top.name),
                workload.top.uid,
            )
        })
        .collect()
}

pub(super) fn span(start: UnixSeconds, end: UnixSeconds) -> TimeSpan {
    TimeSpan {
        start: start.millis(),
        end: end.millis(),
    }
}

const HOUR: i64 = 3600;

/// Splits a time range at full hours. The first and last pieces may be shorter than an hour.
pub(crate) fn pieces(start: UnixSeconds, end: UnixSeconds) -> Vec<(UnixSeconds, UnixSeconds)> {
    let hour = |number: i64| UnixSeconds(number * HOUR);
    let hours = start.spans_of(HOUR)..=(end - 1).spans_of(HOUR);
    hours
        .map(|number| (hour(number).max(start), hour(number + 1).min(end)))
        .collect()
}
