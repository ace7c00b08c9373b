//! Finds usable free GPUs: free blocks by node, the number of jobs of a given size that fit,
//! stranded GPUs with the reason, and the pods to move so that one more job fits. Only whole GPUs
//! count. Of the scheduler's constraints, only CPU, memory, taints and health are considered.

use std::collections::BTreeMap;

use super::consumer::{Consumers, ConsumersByNode};
use super::inventory::Inventory;
use super::node_usage::{Holder, NodeUsage, UNTYPED};
pub use super::stranded::HostPerGpu;
use super::stranded::{PREFERENCE, Stranded, StrandedBy, closed};
use crate::model::contract::labels::POOL_LABEL;
use crate::model::facts::gpu::GpuType;

/// Maximum number of nodes to consider for emptying. Nodes that lack the fewest GPUs come first.
const LOOKED_AT: usize = 32;

/// GPUs of one type and, if a label defines topology domains, of one domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreeGpus {
    pub gpu_type: String,
    pub domain: Option<String>,
    /// The only pool whose jobs may use these GPUs.
    pub exclusive_pool: Option<String>,
    /// Number of installed GPUs.
    pub total: u64,
    /// GPUs that the kubelet took out of service.
    pub lost: u64,
    /// Allocatable GPUs on nodes that accept no new pods.
    pub cordoned: u64,
    /// Nodes with usable free GPUs, sorted by name.
    pub blocks: Vec<Block>,
    pub stranded: Vec<Stranded>,
    /// Pods with whole GPUs on nodes that accept new pods, as (node, pod, number of GPUs).
    movable: Vec<(String, String, u64)>,
    /// Number of usable GPUs of each node that accepts new pods.
    sizes: BTreeMap<String, u64>,
}

/// The usable free GPUs of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub node: String,
    pub free: u64,
}

/// A pod that would have to move to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// NAMESPACE/NAME of the pod.
    pub pod: String,
    pub gpus: u64,
    pub from: String,
    pub to: String,
}

/// The largest gang of equal pods that fits, with one pod per node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargestGang {
    pub nodes: u64,
    pub gpus_per_node: u64,
}

/// Groups free GPUs by type, domain and pool, or returns `None` if usage is unknown. `domain_label`
/// is the node label that defines domains.
pub fn free_gpus(
    inventory: &Inventory,
    consumers: &Consumers,
    host_per_gpu: HostPerGpu,
    domain_label: Option<&str>,
    includes: impl Fn(&NodeUsage) -> bool,
) -> Option<Vec<FreeGpus>> {
    let mut groups: BTreeMap<(String, Option<String>, Option<String>), FreeGpus> = BTreeMap::new();
    let consumers = consumers.by_node();
    for host in inventory
        .hosts
        .iter()
        .filter(|host| host.gpus.total > 0 && includes(host))
    {
        let kind = host
            .gpu_type()
            .map_or_else(|| UNTYPED.to_owned(), |kind: GpuType| kind.to_string());
        let domain = domain_label.map(|label| {
            host.details
                .node
                .labels
                .get(label)
                .cloned()
                .unwrap_or_default()
        });
        let pool = host
            .details
            .node
            .taints
            .iter()
            .find(|taint| taint.key == POOL_LABEL && taint.effect != PREFERENCE);
        let pool = pool.map(|taint| taint.value.clone().unwrap_or_default());
        let group = groups
            .entry((kind.clone(), domain.clone(), pool.clone()))
            .or_default();
        (group.gpu_type, group.domain, group.exclusive_pool) = (kind, domain, pool);
        group.total += host.gpus.total;
        group.lost += host.gpus.lost;
        group.cordoned += host.gpus.cordoned;
        group.take(host, &consumers, host_per_gpu)?;
    }
    Some(groups.into_values().collect())
}

impl FreeGpus {
    /// Adds the GPUs of a node, or returns `None` if its usage is unknown.
    fn take(
        &mut self,
        host: &NodeUsage,
        consumers: &ConsumersByNode<'_>,
        host_per_gpu: HostPerGpu,
    ) -> Option<()> {
        // The smallest request of the lists does not count here: this job's request may be smaller.
        let (name, free) = (host.name(), host.gpus.unheld()?);
        let strand = |gpus, cause, detail, holder| Stranded {
            node: name.to_owned(),
            gpus,
            by: cause,
            detail,
            holder,
        };
        // The GPUs of a closed node count only towards the total: no job can use them, and no pod
        // can move there.
        if let Some((cause, detail)) = closed(host) {
            let blocked = host.gpus.blocked()?;
            self.stranded
                .extend((blocked > 0).then(|| strand(blocked, cause, detail, None)));
            return Some(());
        }
        let (by_cpu, by_memory) = host_per_gpu.units_on(host)?;
        let usable = free.min(by_cpu).min(by_memory);
        if usable < free {
            let (cause, holder) = if by_cpu <= by_memory {
                (
                    StrandedBy::Cpu,
                    consumers.largest_on(name, |requests| requests.cpu_milli),
                )
            } else {
                (
                    StrandedBy::Memory,
                    consumers.largest_on(name, |requests| requests.memory_bytes),
                )
            };
            self.stranded
                .push(strand(free - usable, cause, None, holder));
        }
        if host.gpus.usable() > 0 {
            self.sizes.insert(name.to_owned(), host.gpus.usable());
        }
        let held = |holder: &Holder| {
            (
                name.to_owned(),
                format!("{}/{}", holder.namespace, holder.pod),
                holder.gpus.0,
            )
        };
        self.movable.extend(
            host.holders
                .iter()
                .filter(|holder| holder.gpus.0 > 0)
                .map(held),
        );
        self.blocks.extend((usable > 0).then(|| Block {
            node: name.to_owned(),
            free: usable,
        }));
        Some(())
    }

    /// Returns the number of usable free GPUs.
    pub fn free(&self) -> u64 {
        self.blocks.iter().map(|block| block.free).sum()
    }

    /// Returns the sizes of free blocks, largest first, with the number of nodes that have such a
    /// block.
    pub fn sizes_of_blocks(&self) -> Vec<(u64, u64)> {
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        self.blocks
            .iter()
            .for_each(|block| *sizes.entry(block.free).or_default() += 1);
        sizes.into_iter().rev().collect()
    }

    /// Returns the gang with the most GPUs. For each block size, considers a gang on all nodes with
    /// at least this much free.
    pub fn largest_gang(&self) -> LargestGang {
        let gang = |(size, _): &(u64, u64)| LargestGang {
            nodes: self
                .blocks
                .iter()
                .filter(|block| block.free >= *size)
                .count() as u64,
            gpus_per_node: *size,
        };
        // `max_by_key` returns the last maximum, so reverse the order to prefer larger blocks.
        let sums = self.sizes_of_blocks();
        sums.iter()
            .map(gang)
            .rev()
            .max_by_key(|gang| gang.nodes * gang.gpus_per_node)
            .unwrap_or_default()
    }

    /// Returns the number of jobs with `slots` GPUs each that fit at the same time.
    pub fn jobs(&self, slots: u64) -> u64 {
        self.jobs_with(
            &self
                .blocks
                .iter()
                .map(|block| (block.node.clone(), block.free))
                .collect(),
            slots,
        )
    }

    /// Like `jobs`, for given free GPUs. A job that is larger than a node uses whole nodes of the
    /// largest size.
    fn jobs_with(&self, free: &BTreeMap<String, u64>, slots: u64) -> u64 {
        let Some((block, nodes)) = self.shape(slots) else {
            return 0;
        };
        match nodes {
            1 => free.values().map(|free| free / block).sum(),
            nodes => free.values().filter(|free| **free >= block).count() as u64 / nodes,
        }
    }

    /// Returns the GPUs per node and the number of nodes that a job uses.
    fn shape(&self, slots: u64) -> Option<(u64, u64)> {
        let largest = self.sizes.values().copied().max().filter(|_| slots > 0)?;
        Some(if slots <= largest {
            (slots, 1)
        } else {
            (largest, slots.div_ceil(largest))
        })
    }

    /// Returns the pods to move so that one more job fits, or an empty list if more than `limit`
    /// moves are necessary. Each pod moves to the smallest block that fits.
    pub fn moves(&self, slots: u64, limit: usize) -> Vec<Move> {
        let Some((block, nodes)) = self.shape(slots) else {
            return Vec::new();
        };
        let now = self.jobs(slots);
        let mut free: BTreeMap<String, u64> = self
            .sizes
            .keys()
            .map(|node| (node.clone(), 0))
            .chain(
                self.blocks
                    .iter()
                    .map(|block| (block.node.clone(), block.free)),
            )
            .collect();
        let (mut moves, mut pods) = (Vec::<Move>::new(), self.movable.clone());
        for _ in 0..nodes {
            let lacks =
                |(node, free): &(&String, &u64)| self.sizes[*node] >= block && **free < block;
            let mut candidates: Vec<(&String, &u64)> = free.iter().filter(lacks).collect();
            candidates.sort_by_key(|(node, free_gpus)| (block - **free_gpus, *node));
            let steps = candidates
                .into_iter()
                .take(LOOKED_AT)
                .filter_map(|(node, free_gpus)| {
                    free_up(node, block - free_gpus, &free, &pods, block)
                });
            // Prefer the most whole blocks, then the fewest moved GPUs, then the fewest moves.
            let whole_blocks =
                |free: &BTreeMap<String, u64>| free.values().map(|free| free / block).sum::<u64>();
            let cost =
                |moves: &[Move]| (moves.iter().map(|step| step.gpus).sum::<u64>(), moves.len());
            let best = steps
                .min_by_key(|(after, moves)| (std::cmp::Reverse(whole_blocks(after)), cost(moves)));
            let Some((after, steps)) =
                best.filter(|(after, _)| whole_blocks(after) > whole_blocks(&free))
            else {
                break;
            };
            for step in &steps {
                pods.retain(|(_, pod, _)| *pod != step.pod);
            }
            free = after;
            moves.extend(steps);
            if moves.len() > limit {
                break;
            }
            if self.jobs_with(&free, slots) > now {
                return moves;
            }
        }
        Vec::new()
    }
}

/// Frees GPUs of a node by moving its smallest pods to other nodes, or returns `None` if too few
/// pods can move.
fn free_up(
    node: &str,
    missing: u64,
    free: &BTreeMap<String, u64>,
    pods: &[(String, String, u64)],
    block: u64,
) -> Option<(BTreeMap<String, u64>, Vec<Move>)> {
    let mut node_pods: Vec<&(String, String, u64)> =
        pods.iter().filter(|(on, ..)| on == node).collect();
    node_pods.sort_by_key(|(_, pod, gpus)| (*gpus, pod));
    let (mut free, mut moves, mut freed) = (free.clone(), Vec::new(), 0);
    for (from, pod, gpus) in node_pods {
        if freed >= missing {
            break;
        }
        // Prefer blocks that are too small for a job, so that larger blocks stay intact.
        let takes = free
            .iter()
            .filter(|(target, target_free)| *target != node && **target_free >= *gpus);
        let Some(target) = takes
            .min_by_key(|(target, target_free)| (**target_free >= block, **target_free, *target))
            .map(|(target, _)| target.clone())
        else {
            continue;
        };
        *free.get_mut(&target)? -= gpus;
        freed += gpus;
        moves.push(Move {
            pod: pod.clone(),
            gpus: *gpus,
            from: from.clone(),
            to: target,
        });
    }
    *free.get_mut(node)? += freed;
    (freed >= missing).then_some((free, moves))
}

#[cfg(test)]
mod tests;
