//! Finds the type of the GPUs that a job holds from the labels of the nodes of its pods.

use std::collections::BTreeMap;

use super::job::Job;
use super::node::Node;
use crate::model::values::units::GpuCount;

/// Names of nodes that have GPUs of the job.
pub fn nodes_with_gpus_of(job: &Job) -> impl Iterator<Item = &str> {
    let pods = job.pods.iter().filter(|pod| pod.holds());
    pods.filter(|pod| pod.gpus > GpuCount::ZERO)
        .filter_map(|pod| pod.node.as_deref())
}

/// Returns the GPU type of a job's nodes. `None` if the job holds no GPUs, if a node or its type is
/// unknown, or if the types differ.
pub fn held_type(job: &Job, nodes: &BTreeMap<&str, &Node>) -> Option<String> {
    let mut types = nodes_with_gpus_of(job)
        .map(|name| nodes.get(name)?.model())
        .map(|model| model.map(|model| model.to_string()));
    let first = types.next()??;
    types
        .all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Pod, PodPhase};

    #[test]
    fn nodes_of_one_type_name_the_type() {
        let node = |name: &str, product: &str| Node {
            name: name.to_owned(),
            labels: [("nvidia.com/gpu.product".to_owned(), product.to_owned())].into(),
            ..Node::default()
        };
        let nodes = [
            node("a", "NVIDIA-A100-SXM4-80GB"),
            node("b", "NVIDIA-A100-SXM4-80GB"),
            node("h", "NVIDIA-H100-80GB-HBM3"),
        ];
        let mut by_name: BTreeMap<&str, &Node> = nodes
            .iter()
            .map(|node| (node.name.as_str(), node))
            .collect();
        let unlabelled = Node::default();
        by_name.insert("unlabelled", &unlabelled);
        let held = |places: &[(&str, u64)]| {
            let pod = |(node, gpus): &(&str, u64)| Pod {
                node: Some((*node).to_owned()),
                gpus: GpuCount(*gpus),
                phase: PodPhase::Running,
                ..Pod::default()
            };
            let job = Job {
                pods: places.iter().map(pod).collect(),
                ..Job::default()
            };
            held_type(&job, &by_name)
        };
        assert_eq!(held(&[("a", 8), ("b", 8)]).as_deref(), Some("a100-80g"));
        assert_eq!(held(&[("a", 8), ("h", 8)]), None);
        // The launcher without GPUs runs elsewhere.
        assert_eq!(held(&[("a", 8), ("h", 0)]).as_deref(), Some("a100-80g"));
        for unknown in ["unlabelled", "deleted"] {
            assert_eq!(held(&[("a", 8), (unknown, 8)]), None, "{unknown}");
            assert_eq!(held(&[(unknown, 8)]), None, "{unknown}");
        }
        assert_eq!(held(&[("a", 0)]), None);
        assert_eq!(held(&[]), None);
    }
}
