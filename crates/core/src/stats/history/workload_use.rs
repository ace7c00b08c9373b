//! Sums the GPU-hours of each workload over a report's range, and finds the workloads that wasted
//! the most, with their owners.

use std::collections::{BTreeMap, BTreeSet};

use super::allocations::{Allocation, AllocationGroup, AllocationHistory};
use super::gpu_hours::GpuHours;
use super::top_owner::TopOwner;
use super::usage::Usage;
use crate::model::contract::labels::USER;
use crate::stats::exporters::kube_state::label_key;

/// The GPU-hours of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadUse {
    pub account: GpuHours,
    /// The users that its pods name. Empty if kube-state-metrics exports no user.
    pub users: BTreeSet<String>,
    /// The values of its pods' label `team`.
    pub teams: BTreeSet<String>,
}

/// The GPU-hours of all workloads.
#[derive(Clone, Debug, Default)]
pub struct WorkloadUses(BTreeMap<TopOwner, WorkloadUse>);

impl WorkloadUses {
    /// Sums the allocations of one hour that `includes` selects.
    pub fn of_hour(
        history: &AllocationHistory,
        usage: &Usage,
        includes: impl Fn(&Allocation) -> bool,
    ) -> Self {
        let mut groups: BTreeMap<TopOwner, AllocationGroup> = BTreeMap::new();
        let mut uses: BTreeMap<TopOwner, WorkloadUse> = BTreeMap::new();
        for (index, allocation) in history.allocations.iter().enumerate() {
            if !includes(allocation) {
                continue;
            }
            let group = groups.entry(allocation.top.clone()).or_default();
            group.add(index, allocation);
            let use_of_top = uses.entry(allocation.top.clone()).or_default();
            use_of_top.users.extend(user(allocation));
            use_of_top.teams.extend(label(allocation, "team"));
        }
        for (top, group) in groups {
            uses.entry(top).or_default().account = GpuHours::for_group(history, usage, &group);
        }
        Self(uses)
    }

    /// Adds the sums of another hour.
    pub fn add(&mut self, other: Self) {
        for (top, more) in other.0 {
            let known = self.0.entry(top).or_default();
            known.account.add(more.account);
            known.users.extend(more.users);
            known.teams.extend(more.teams);
        }
    }

    /// Returns at most `count` workloads that wasted GPU-hours, the largest waste first. Workloads
    /// without measurements are not among them, because their waste is unknown.
    pub fn largest_wasters(self, count: usize) -> Vec<(TopOwner, WorkloadUse)> {
        let wasted = |(_, work): &(TopOwner, WorkloadUse)| work.account.wasted().unwrap_or(0.0);
        let mut wasters: Vec<_> = self
            .0
            .into_iter()
            .filter(|item| wasted(item) > 0.0)
            .collect();
        wasters.sort_by(|a, b| wasted(b).total_cmp(&wasted(a)));
        wasters.truncate(count);
        wasters
    }
}

fn label(allocation: &Allocation, key: &str) -> Option<String> {
    allocation.labels.as_ref()?.get(key).cloned()
}

/// The user of a pod. A label value cannot hold every user name, so the annotation is preferred.
fn user(allocation: &Allocation) -> Option<String> {
    let key = label_key(USER);
    let annotation = allocation
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(&key).cloned());
    annotation.or_else(|| label(allocation, &key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(name: &str) -> TopOwner {
        TopOwner {
            namespace: "ml".to_owned(),
            kind: "Job".to_owned(),
            name: name.to_owned(),
        }
    }

    fn uses(items: &[(&str, Option<f64>, &str)]) -> WorkloadUses {
        let item = |(name, utilization, user): &(&str, Option<f64>, &str)| {
            // One GPU for an hour.
            let account = GpuHours::of_one_gpu(1.0, *utilization);
            let work = WorkloadUse {
                account,
                users: BTreeSet::from([(*user).to_owned()]),
                teams: BTreeSet::new(),
            };
            (top(name), work)
        };
        WorkloadUses(items.iter().map(item).collect())
    }

    #[test]
    fn largest_wasters_come_first_and_unmeasured_workloads_are_left_out() {
        // Wasted in the first hour: a 1 - 0.9 = 0.1, b 1 - 0 = 1.0, c unknown, d 1 - 1 = 0.
        let mut all = uses(&[
            ("a", Some(90.0), "ann"),
            ("b", Some(0.0), "bob"),
            ("c", None, "cid"),
            ("d", Some(100.0), "dan"),
        ]);
        // In the second hour, a wastes 1.0, so that it wasted 1.1 in total.
        all.add(uses(&[("a", Some(0.0), "amy")]));
        let wasters = all.largest_wasters(10);
        let names: Vec<&str> = wasters.iter().map(|(top, _)| top.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let (_, first) = &wasters[0];
        assert!((first.account.wasted().unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(first.account.held, 2.0);
        let users: Vec<&str> = first.users.iter().map(String::as_str).collect();
        assert_eq!(users, ["amy", "ann"]);
        assert_eq!(uses(&[("a", Some(0.0), "x")]).largest_wasters(0), []);
    }
}
