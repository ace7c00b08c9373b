//! Assigns the allocations and nodes of a report to its groups.

use std::collections::BTreeMap;

use crate::cli::history::report::{GroupBy, Report};
use crate::context::Context;
use gpuctl_core::model::contract::labels::{POOL_LABEL, USER};
use gpuctl_core::stats::exporters::kube_state;
use gpuctl_core::stats::exporters::node_traits::{NodeCatalog, NodeTraits};
use gpuctl_core::stats::history::allocations::{Allocation, AllocationGroup, AllocationHistory};
use gpuctl_core::stats::history::job_time::GroupValues;
use gpuctl_manifest::render::label_value;

impl GroupBy {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Namespace => "namespace",
            Self::Pool => "pool",
            Self::GpuType => "gpu-type",
            Self::Node => "node",
            Self::Cluster => "cluster",
            Self::Label(text, _) | Self::Annotation(text, _) => text,
        }
    }

    /// The key as kube-state-metrics spells it in label names.
    pub(super) fn exported_key(&self) -> String {
        match self {
            Self::Label(_, key) | Self::Annotation(_, key) => kube_state::label_key(key),
            _ => String::new(),
        }
    }

    /// Whether GPUs that no pod held belong to a group too.
    fn has_nodes(&self) -> bool {
        matches!(
            self,
            Self::Pool | Self::GpuType | Self::Node | Self::Cluster
        )
    }

    /// Whether the groups come from labels or annotations of pods.
    pub(super) fn has_labels(&self) -> bool {
        matches!(self, Self::Label(..) | Self::Annotation(..) | Self::Pool)
    }
}

/// A node, or the place of an allocation.
struct Place<'a> {
    /// Empty for pods without a node.
    node: &'a str,
    traits: &'a NodeTraits,
}

/// Selects the allocations of a report and assigns them to groups.
pub(super) struct Grouping<'a> {
    /// Grouping dimensions, with the keys as kube-state-metrics spells them.
    dimensions: Vec<(&'a GroupBy, String)>,
    /// Only this namespace is included, if set.
    namespace: Option<&'a str>,
    /// Only this value of the user label is included, if set.
    user: Option<String>,
    cluster: &'a str,
}

/// The allocations of a group by GPU type and pool, whose prices differ.
pub(super) type MembersByTraits = BTreeMap<NodeTraits, AllocationGroup>;

impl<'a> Grouping<'a> {
    pub(super) fn new(
        args: &'a Report,
        user: Option<&str>,
        cluster: &'a str,
        context: &'a Context,
    ) -> Self {
        Self {
            dimensions: args
                .by
                .iter()
                .map(|dimension| (dimension, dimension.exported_key()))
                .collect(),
            namespace: context.access.namespace.as_deref(),
            user: user.map(label_value),
            cluster,
        }
    }

    /// Whether the report covers all pods, so that the rest of the GPUs was idle.
    pub(super) fn has_all_pods(&self) -> bool {
        self.namespace.is_none() && self.user.is_none()
    }

    /// Whether each node belongs to a group.
    pub(super) fn has_nodes(&self) -> bool {
        self.dimensions
            .iter()
            .all(|(dimension, _)| dimension.has_nodes())
    }

    pub(super) fn includes(&self, allocation: &Allocation) -> bool {
        let is_user = |user: &String| {
            let labels = allocation.labels.as_ref();
            labels.and_then(|labels| labels.get(&kube_state::label_key(USER))) == Some(user)
        };
        self.namespace
            .is_none_or(|namespace| namespace == allocation.pod.0)
            && self.user.as_ref().is_none_or(is_user)
    }

    /// Returns the values of an allocation. Without the label or annotation of a dimension, or if
    /// the cluster exports none, the value is `None`.
    pub(super) fn values(&self, allocation: &Allocation, catalog: &NodeCatalog) -> GroupValues {
        let traits = traits(allocation, catalog);
        let place = Place {
            node: &allocation.node,
            traits: &traits,
        };
        let value = |(dimension, key): &(&GroupBy, String)| match dimension {
            GroupBy::Namespace => Some(allocation.pod.0.clone()),
            GroupBy::Label(..) => allocation.labels.as_ref()?.get(key).cloned(),
            GroupBy::Annotation(..) => allocation.annotations.as_ref()?.get(key).cloned(),
            of_node => self.value_of_place(of_node, &place),
        };
        self.dimensions.iter().map(value).collect()
    }

    /// Returns the values of a node, or no values unless each node belongs to a group.
    pub(super) fn node_values(&self, node: &str, catalog: &NodeCatalog) -> GroupValues {
        if !self.has_nodes() {
            return GroupValues::new();
        }
        let traits = catalog.traits(node);
        let place = Place {
            node,
            traits: &traits,
        };
        let dimensions = self.dimensions.iter();
        dimensions
            .map(|(dimension, _)| self.value_of_place(dimension, &place))
            .collect()
    }

    fn value_of_place(&self, dimension: &GroupBy, place: &Place<'_>) -> Option<String> {
        match dimension {
            GroupBy::Pool => place.traits.pool.clone(),
            GroupBy::GpuType => place.traits.gpu_type.clone(),
            GroupBy::Node => Some(place.node.to_owned()).filter(|node| !node.is_empty()),
            GroupBy::Cluster => Some(self.cluster.to_owned()),
            GroupBy::Namespace | GroupBy::Label(..) | GroupBy::Annotation(..) => None,
        }
    }

    pub(super) fn groups(
        &self,
        history: &AllocationHistory,
        catalog: &NodeCatalog,
    ) -> BTreeMap<GroupValues, MembersByTraits> {
        let mut groups: BTreeMap<GroupValues, MembersByTraits> = BTreeMap::new();
        let allocations = history.allocations.iter().enumerate();
        for (index, allocation) in allocations.filter(|(_, allocation)| self.includes(allocation)) {
            groups
                .entry(self.values(allocation, catalog))
                .or_default()
                .entry(traits(allocation, catalog))
                .or_default()
                .add(index, allocation);
        }
        groups
    }
}

/// Returns the GPU type and the pool of an allocation. The pool is that of the pod's label, which
/// is from the time of the sample, or else that of the pod's node.
fn traits(allocation: &Allocation, catalog: &NodeCatalog) -> NodeTraits {
    let of_node = catalog.traits(&allocation.node);
    let labels = allocation.labels.as_ref();
    let pool = labels.and_then(|labels| labels.get(&kube_state::label_key(POOL_LABEL)));
    NodeTraits {
        pool: pool.cloned().or(of_node.pool),
        ..of_node
    }
}
