//! Finds the top-level owner of a pod. kube-state-metrics reports the owners of past objects, and
//! the API server those of existing ones.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::facts::reading::PodKey;
use crate::model::values::natural::Natural;
use crate::model::values::series::Series;

use crate::stats::exporters::kube_state::{label, owner, pod};

/// The object at the top of a pod's owner chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopOwner {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

impl Ord for TopOwner {
    /// Orders owners as lists show them.
    fn cmp(&self, other: &Self) -> Ordering {
        let [a, b] = [self, other]
            .map(|owner| (Natural(&owner.namespace), &owner.kind, Natural(&owner.name)));
        a.cmp(&b)
    }
}

impl PartialOrd for TopOwner {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Owners of existing objects: kind and name of the owner by namespace, kind and name of the
/// object.
pub type LiveOwners = BTreeMap<(String, String, String), (String, String)>;

/// Owner references in a window, from kube-state-metrics.
#[derive(Clone, Debug, Default)]
pub struct OwnerSeries {
    pub pods: Vec<Series>,
    pub replica_sets: Vec<Series>,
    pub jobs: Vec<Series>,
    pub deployments: Vec<Series>,
    /// Owners of custom resources, if kube-state-metrics is configured to export them.
    pub custom: Vec<Series>,
    /// Labels of StatefulSet pods that name the LeaderWorkerSet above them.
    pub groups: Vec<Series>,
}

impl OwnerSeries {
    /// Returns the names of the owners of this kind.
    pub fn names(answer: &[Series], kind: &str) -> BTreeSet<String> {
        answer
            .iter()
            .filter_map(owner)
            .filter(|(owner_kind, _)| owner_kind == kind)
            .map(|(_, name)| name)
            .collect()
    }

    /// Returns true if a pod has an owner whose own owner is missing in these results. Only metrics
    /// about custom resources or the API server report such owners.
    pub fn has_open_ends(&self) -> bool {
        let owners = self
            .pods
            .iter()
            .chain(&self.replica_sets)
            .chain(&self.jobs)
            .chain(&self.deployments);
        // kube-state-metrics exports the owners of Deployments since version 2.18.
        let answered: BTreeSet<&str> = self
            .deployments
            .iter()
            .filter_map(|series| label(series, "deployment"))
            .collect();
        let silent = Self::names(&self.replica_sets, "Deployment")
            .iter()
            .any(|name| !answered.contains(name.as_str()));
        silent
            || owners
                .filter_map(owner)
                .any(|(kind, _)| !TOPS.contains(&kind.as_str()))
    }
}

/// Kinds without an owner, or whose owner kube-state-metrics always exports.
const TOPS: [&str; 8] = [
    "Job",
    "CronJob",
    "ReplicaSet",
    "Deployment",
    "DaemonSet",
    "ReplicationController",
    "Node",
    "Pod",
];

/// Label with the LeaderWorkerSet of a pod, in the form of kube-state-metrics.
const OF_GROUP: &str = "label_leaderworkerset_sigs_k8s_io_name";

/// Maximum length of an owner chain. Real chains are much shorter, so a longer one is a cycle.
const DEEPEST: usize = 16;

/// Owners of pods, and the owners of those owners.
pub(crate) struct Tops {
    pods: BTreeMap<PodKey, (String, String)>,
    /// Owners by namespace, kind and name of the object.
    above: LiveOwners,
}

impl Tops {
    pub(crate) fn new(answers: &OwnerSeries, live: &LiveOwners) -> Self {
        let pods: BTreeMap<PodKey, (String, String)> = answers
            .pods
            .iter()
            .filter_map(|series| Some((pod(series)?.0, owner(series)?)))
            .collect();
        let mut above = live.clone();
        for (answer, kind, name) in [
            (&answers.replica_sets, Some("ReplicaSet"), "replicaset"),
            (&answers.jobs, Some("Job"), "job_name"),
            (&answers.deployments, Some("Deployment"), "deployment"),
            (&answers.custom, None, "name"),
        ] {
            let link = |series: &Series| {
                let kind = kind
                    .or_else(|| series.label("customresource_kind"))?
                    .to_owned();
                Some((
                    (
                        label(series, "namespace")?.to_owned(),
                        kind,
                        label(series, name)?.to_owned(),
                    ),
                    owner(series)?,
                ))
            };
            above.extend(answer.iter().filter_map(link));
        }
        for series in &answers.groups {
            let (Some((key, _)), Some(group)) = (pod(series), series.label(OF_GROUP)) else {
                continue;
            };
            if let Some((kind, name)) = pods.get(&key) {
                // A known owner takes precedence over the label.
                let owned = (key.0, kind.clone(), name.clone());
                above
                    .entry(owned)
                    .or_insert_with(|| ("LeaderWorkerSet".to_owned(), group.to_owned()));
            }
        }
        Self { pods, above }
    }

    /// Follows the known part of the owner chain. A pod without an owner is its own top-level
    /// owner.
    pub(crate) fn top_of(&self, pod: &PodKey) -> TopOwner {
        let (namespace, name) = pod.clone();
        let Some((mut kind, mut name)) = self.pods.get(pod).cloned() else {
            return TopOwner {
                namespace,
                kind: "Pod".to_owned(),
                name,
            };
        };
        for _ in 0..DEEPEST {
            let Some(above) = self
                .above
                .get(&(namespace.clone(), kind.clone(), name.clone()))
            else {
                break;
            };
            (kind, name) = above.clone();
        }
        TopOwner {
            namespace,
            kind,
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(labels: &[(&str, &str)]) -> Series {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        Series {
            labels,
            points: Vec::new(),
        }
    }

    fn pod_owner<'a>(pod: &'a str, kind: &'a str, name: &'a str) -> Series {
        series(&[
            ("namespace", "ml"),
            ("pod", pod),
            ("owner_kind", kind),
            ("owner_name", name),
            ("owner_is_controller", "true"),
        ])
    }

    #[test]
    fn owner_chains_combine_all_sources() {
        let above = |label: &str, name: &str, kind: &str, owner: &str| {
            series(&[
                ("namespace", "ml"),
                (label, name),
                ("owner_kind", kind),
                ("owner_name", owner),
            ])
        };
        let series = OwnerSeries {
            pods: vec![
                pod_owner("a", "ReplicaSet", "web-1"),
                pod_owner("b", "Job", "set-workers-0"),
                pod_owner("c", "RayCluster", "ray-xyz"),
                pod_owner("d", "StatefulSet", "big-0"),
                pod_owner("e", "PyTorchJob", "node-0"),
                pod_owner("f", "A", "a"),
            ],
            replica_sets: vec![above("replicaset", "web-1", "Deployment", "web")],
            deployments: vec![above("deployment", "web", "InferenceService", "chat")],
            jobs: vec![above("job_name", "set-workers-0", "JobSet", "set")],
            custom: vec![series(&[
                ("namespace", "ml"),
                ("customresource_kind", "JobSet"),
                ("name", "set"),
                ("owner_kind", "TrainJob"),
                ("owner_name", "train"),
            ])],
            groups: vec![series(&[
                ("namespace", "ml"),
                ("pod", "d"),
                (OF_GROUP, "big"),
            ])],
        };
        let key = |kind: &str, name: &str| ("ml".to_owned(), kind.to_owned(), name.to_owned());
        let owner = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let live = [
            (key("RayCluster", "ray-xyz"), owner("RayJob", "ray")),
            // A cycle must not loop forever.
            (key("A", "a"), owner("A", "a")),
        ];
        assert!(series.has_open_ends());
        let tops = Tops::new(&series, &live.into());
        let top = |pod: &str| {
            let top = tops.top_of(&("ml".to_owned(), pod.to_owned()));
            format!("{}/{}", top.kind, top.name)
        };
        let owners = ["a", "b", "c", "d", "e", "f", "g"].map(top);
        let expected = [
            "InferenceService/chat",
            "TrainJob/train",
            "RayJob/ray",
            "LeaderWorkerSet/big",
            "PyTorchJob/node-0",
            "A/a",
            "Pod/g",
        ];
        assert_eq!(owners, expected);
        let plain = OwnerSeries {
            pods: vec![pod_owner("a", "ReplicaSet", "web-1")],
            ..OwnerSeries::default()
        };
        assert!(!plain.has_open_ends());
    }
}
