//! The quota of a tree of cohorts and ClusterQueues, and the part that is used. A ClusterQueue can
//! use quota of its cohort, and a cohort quota of its parent, within lending and borrowing limits.
//! Source: Kueue 0.18 (pkg/cache/scheduler/resource_node.go).

use std::collections::BTreeMap;

use super::facts::{FlavorAmounts, FlavorQuota, FlavorQuotas, FlavorResource, OpenQueue};

/// Why a tree cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QuotaGap {
    /// A cohort is its own ancestor, so Kueue admits nothing.
    Cycle(String),
    /// Kueue has not reported the usage of this ClusterQueue.
    Usage(String),
    /// The user cannot list Cohort objects, which may add quota and parents to this cohort.
    Cohorts(String),
}

#[derive(Clone, Debug, Default)]
struct QuotaNode {
    /// Name of the ClusterQueue, or `None` for a cohort.
    queue: Option<String>,
    parent: Option<usize>,
    children: Vec<usize>,
    quotas: FlavorQuotas,
    /// Quota of the node and of its children, as far as they lend it.
    subtree: FlavorAmounts,
    usage: FlavorAmounts,
}

impl QuotaNode {
    fn quota(&self, of: &FlavorResource) -> FlavorQuota {
        self.quotas.get(of).copied().unwrap_or_default()
    }

    fn subtree(&self, of: &FlavorResource) -> i128 {
        self.subtree.get(of).copied().unwrap_or(0)
    }

    fn usage(&self, of: &FlavorResource) -> i128 {
        self.usage.get(of).copied().unwrap_or(0)
    }

    /// Quota that the node never lends to its parent.
    fn reserved(&self, of: &FlavorResource) -> i128 {
        let lending_limit = self.quota(of).lending_limit;
        lending_limit.map_or(0, |limit| (self.subtree(of) - limit).max(0))
    }

    /// The unused part of `reserved`.
    fn unused_reserve(&self, of: &FlavorResource) -> i128 {
        (self.reserved(of) - self.usage(of)).max(0)
    }
}

/// Quota and usage of a ClusterQueue and everything that shares quota with it.
#[derive(Clone, Debug, Default)]
pub(super) struct QuotaTree {
    nodes: Vec<QuotaNode>,
    by_queue: BTreeMap<String, usize>,
}

impl QuotaTree {
    /// Builds the tree around the ClusterQueue `queue`. Other trees of the facts are kept, but may
    /// have gaps.
    pub(super) fn build(facts: &OpenQueue, queue: &str) -> Result<Self, QuotaGap> {
        let mut tree = Self::default();
        let mut by_cohort: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, cluster_queue) in &facts.cluster_queues {
            let parent = cluster_queue.cohort.as_deref();
            let parent = parent.map(|cohort| tree.cohort(cohort, &mut by_cohort));
            let index = tree.add_node(QuotaNode {
                queue: Some(name.clone()),
                parent,
                quotas: cluster_queue.quotas.clone(),
                usage: cluster_queue.usage.clone().unwrap_or_default(),
                ..QuotaNode::default()
            });
            tree.by_queue.insert(name.clone(), index);
        }
        for (name, cohort) in facts.cohorts.iter().flatten() {
            let index = tree.cohort(name, &mut by_cohort);
            let parent = cohort.parent.as_deref();
            tree.nodes[index].quotas = cohort.quotas.clone();
            tree.nodes[index].parent = parent.map(|parent| tree.cohort(parent, &mut by_cohort));
        }
        tree.check(facts, queue)?;
        tree.accumulate();
        Ok(tree)
    }

    /// Fails if anything that shares quota with the ClusterQueue is unknown or cyclic.
    fn check(&self, facts: &OpenQueue, queue: &str) -> Result<(), QuotaGap> {
        let own = facts.cluster_queues.get(queue);
        if let Some(cohort) = own.and_then(|own| own.cohort.clone()) {
            if facts.cohorts.is_none() {
                return Err(QuotaGap::Cohorts(cohort));
            }
            if self
                .by_queue
                .get(queue)
                .is_some_and(|own| self.root(*own).is_none())
            {
                return Err(QuotaGap::Cycle(cohort));
            }
        }
        let mut unknown = facts.cluster_queues.iter();
        let unknown =
            unknown.find(|(name, other)| other.usage.is_none() && self.shares_quota(queue, name));
        unknown.map_or(Ok(()), |(name, _)| Err(QuotaGap::Usage(name.clone())))
    }

    fn add_node(&mut self, node: QuotaNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Returns the node of a cohort, which need not have an object.
    fn cohort<'f>(&mut self, name: &'f str, by_name: &mut BTreeMap<&'f str, usize>) -> usize {
        *by_name
            .entry(name)
            .or_insert_with(|| self.add_node(QuotaNode::default()))
    }

    /// Returns the topmost ancestor, or `None` if the node's ancestors form a cycle.
    fn root(&self, index: usize) -> Option<usize> {
        let ancestors = std::iter::successors(Some(index), |node| self.nodes[*node].parent);
        let path: Vec<usize> = ancestors.take(self.nodes.len() + 1).collect();
        path.last()
            .copied()
            .filter(|_| path.len() <= self.nodes.len())
    }

    /// Whether two ClusterQueues are in the same tree of cohorts.
    pub(super) fn shares_quota(&self, queue: &str, other: &str) -> bool {
        let root = |name: &str| self.root(self.index(name)?);
        root(queue).is_some() && root(queue) == root(other)
    }

    /// Sums quota and usage from the leaves to the roots.
    fn accumulate(&mut self) {
        for index in 0..self.nodes.len() {
            if let Some(parent) = self.nodes[index].parent {
                self.nodes[parent].children.push(index);
            }
            let quotas = &self.nodes[index].quotas;
            let nominal = quotas.iter().map(|(of, quota)| (of.clone(), quota.nominal));
            self.nodes[index].subtree = nominal.collect();
        }
        let roots = (0..self.nodes.len()).filter(|index| self.nodes[*index].parent.is_none());
        for root in roots.collect::<Vec<_>>() {
            self.accumulate_below(root);
        }
    }

    fn accumulate_below(&mut self, index: usize) {
        for child in self.nodes[index].children.clone() {
            self.accumulate_below(child);
            let child = self.nodes[child].clone();
            let node = &mut self.nodes[index];
            for (of, quota) in &child.subtree {
                *node.subtree.entry(of.clone()).or_default() += quota - child.reserved(of);
            }
            for (of, used) in &child.usage {
                *node.usage.entry(of.clone()).or_default() += (used - child.reserved(of)).max(0);
            }
        }
    }

    fn node(&self, queue: &str) -> Option<&QuotaNode> {
        self.nodes.get(*self.by_queue.get(queue)?)
    }

    /// Unused quota that the ClusterQueue can use, including the cohort's. Negative if more is used
    /// than the quota.
    pub(super) fn available(&self, queue: &str, of: &FlavorResource) -> i128 {
        self.node(queue)
            .map_or(0, |node| self.available_to(node, of))
    }

    fn available_to(&self, node: &QuotaNode, of: &FlavorResource) -> i128 {
        let Some(parent) = node.parent else {
            return node.subtree(of) - node.usage(of);
        };
        let mut from_parent = self.available_to(&self.nodes[parent], of);
        if let Some(limit) = node.quota(of).borrowing_limit {
            let lent = node.subtree(of) - node.reserved(of);
            let used = (node.usage(of) - node.reserved(of)).max(0);
            from_parent = from_parent.min(lent - used + limit);
        }
        node.unused_reserve(of) + from_parent
    }

    /// Quota that the ClusterQueue can use if nothing else runs.
    pub(super) fn most(&self, queue: &str, of: &FlavorResource) -> i128 {
        self.node(queue).map_or(0, |node| self.most_of(node, of))
    }

    fn most_of(&self, node: &QuotaNode, of: &FlavorResource) -> i128 {
        let Some(parent) = node.parent else {
            return node.subtree(of);
        };
        let most = node.reserved(of) + self.most_of(&self.nodes[parent], of);
        let limit = node.quota(of).borrowing_limit;
        limit.map_or(most, |limit| most.min(node.subtree(of) + limit))
    }

    pub(super) fn nominal(&self, queue: &str, of: &FlavorResource) -> i128 {
        self.node(queue).map_or(0, |node| node.quota(of).nominal)
    }

    pub(super) fn usage(&self, queue: &str, of: &FlavorResource) -> i128 {
        self.node(queue).map_or(0, |node| node.usage(of))
    }

    /// Whether the ClusterQueue exceeds its own quota once it uses `amount` more.
    pub(super) fn borrows_with(&self, queue: &str, of: &FlavorResource, amount: i128) -> bool {
        self.usage(queue, of) + amount > self.nominal(queue, of)
    }

    /// Returns the height of the lowest subtree around the ClusterQueue that has quota for
    /// `amount`, and whether it is smaller than the whole tree. The height is 0 if the ClusterQueue
    /// does not borrow. Source: pkg/scheduler/preemption/classical/hierarchical_preemption.go.
    pub(super) fn borrowing_height(
        &self,
        queue: &str,
        of: &FlavorResource,
        amount: i128,
    ) -> (usize, bool) {
        let Some(node) = self.node(queue) else {
            return (0, false);
        };
        let Some(mut cohort) = node.parent.filter(|_| self.borrows_with(queue, of, amount)) else {
            return (0, node.parent.is_some());
        };
        let mut remaining = amount - node.unused_reserve(of);
        loop {
            let node = &self.nodes[cohort];
            if node.usage(of) + remaining <= node.subtree(of) {
                return (self.height(cohort), node.parent.is_some());
            }
            remaining -= node.unused_reserve(of);
            match node.parent {
                Some(parent) => cohort = parent,
                None => return (self.height(cohort), false),
            }
        }
    }

    /// Distance to the furthest leaf.
    fn height(&self, index: usize) -> usize {
        let children = self.nodes[index].children.iter();
        children
            .map(|child| self.height(*child) + 1)
            .max()
            .unwrap_or(0)
    }

    /// Nodes from the ClusterQueue's cohort to the root.
    pub(super) fn ancestors(&self, queue: &str) -> Vec<usize> {
        let first = self.node(queue).and_then(|node| node.parent);
        std::iter::successors(first, |node| self.nodes[*node].parent).collect()
    }

    /// Whether a node uses more of any of these than its subtree has.
    pub(super) fn exceeds_quota(&self, index: usize, of_any: &FlavorAmounts) -> bool {
        let node = &self.nodes[index];
        of_any.keys().any(|of| node.usage(of) > node.subtree(of))
    }

    /// Returns the children of a cohort with the names of those that are ClusterQueues.
    pub(super) fn children(&self, index: usize) -> impl Iterator<Item = (usize, Option<&str>)> {
        let children = self.nodes[index].children.iter();
        children.map(|child| (*child, self.nodes[*child].queue.as_deref()))
    }

    pub(super) fn index(&self, queue: &str) -> Option<usize> {
        self.by_queue.get(queue).copied()
    }

    /// Returns for each amount the part that the node cannot take from quota it does not lend, and
    /// whether the whole request fits into the quota of its subtree.
    pub(super) fn beyond_reserve(
        &self,
        index: usize,
        request: &FlavorAmounts,
    ) -> (bool, FlavorAmounts) {
        let node = &self.nodes[index];
        let fits = request
            .iter()
            .all(|(of, amount)| node.usage(of) + amount <= node.subtree(of));
        let rest = request
            .iter()
            .map(|(of, amount)| (of.clone(), (amount - node.unused_reserve(of)).max(0)));
        (fits, rest.collect())
    }

    /// Adds usage to the ClusterQueue and to the ancestors whose quota it needs.
    pub(super) fn add(&mut self, queue: &str, amounts: &FlavorAmounts) {
        for (of, amount) in amounts {
            let (mut next, mut amount) = (self.index(queue), *amount);
            while let Some(index) = next.filter(|_| amount > 0) {
                let node = &mut self.nodes[index];
                let beyond = amount - node.unused_reserve(of);
                *node.usage.entry(of.clone()).or_default() += amount;
                (next, amount) = (node.parent, beyond);
            }
        }
    }

    /// Removes usage from the ClusterQueue and from the ancestors whose quota it used.
    pub(super) fn remove(&mut self, queue: &str, amounts: &FlavorAmounts) {
        for (of, amount) in amounts {
            let (mut next, mut amount) = (self.index(queue), *amount);
            while let Some(index) = next.filter(|_| amount > 0) {
                let node = &mut self.nodes[index];
                let in_parent = node.usage(of) - node.reserved(of);
                *node.usage.entry(of.clone()).or_default() -= amount;
                (next, amount) = (node.parent, amount.min(in_parent));
            }
        }
    }

    /// Returns the tree without any usage.
    pub(super) fn emptied(&self) -> Self {
        let mut tree = self.clone();
        for node in &mut tree.nodes {
            node.usage.clear();
        }
        tree
    }
}
