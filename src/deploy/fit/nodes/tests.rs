use serde_json::json;

use super::*;

fn node(name: &str) -> Node {
    let map = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    Node {
        name: name.to_owned(),
        allocatable: map(&[("nvidia.com/gpu", "8")]),
        machine: map(&[("cpu", "96")]),
        schedulable: true,
        ..Node::default()
    }
}

/// Uses three nodes with eight GPUs each: the first has five free GPUs, the second is cordoned, and
/// the third is full.
#[test]
fn now_later_and_never() {
    let mut cordoned = node("b");
    cordoned.schedulable = false;
    let nodes = [node("a"), cordoned, node("c")];
    let free_of = |gpus: i128| {
        Amounts::from([
            ("nvidia.com/gpu".to_owned(), gpus * 1000),
            ("cpu".to_owned(), 96_000),
        ])
    };
    let free = [("a", 5), ("b", 8), ("c", 0)].map(|(name, gpus)| (name.to_owned(), free_of(gpus)));
    let free_resources = ClusterCapacity {
        free: free.into(),
        ..ClusterCapacity::default()
    };
    let requests = |gpus: i128| Amounts::from([("nvidia.com/gpu".to_owned(), gpus * 1000)]);
    let pod = PodRules::from_spec(&json!({"containers": []}));
    let volumes = VolumeRules::default();
    let fit = |requests: &Amounts, pods, nodes: &[Node], free: Option<&ClusterCapacity>| {
        compare_nodes(&pod, &volumes, requests, pods, nodes, free)
    };
    let verdict = |gpus, pods| fit(&requests(gpus), pods, &nodes, Some(&free_resources));
    let verdicts = [(5, 1), (2, 2), (2, 3), (8, 3), (8, 4), (9, 1)]
        .map(|(gpus, pods)| verdict(gpus, pods).verdict);
    use FitVerdict::{Never, NotNow, Now, Unknown};
    assert_eq!(verdicts, [Now, Now, NotNow, NotNow, Never, Never]);
    let causes: Vec<_> = verdict(2, 3)
        .groups
        .into_iter()
        .map(|group| (group.cause, group.nodes.len(), group.pods_now))
        .collect();
    assert_eq!(
        causes,
        [
            (None, 1, Some(2)),
            (Some("cordoned"), 1, Some(0)),
            (Some("insufficient-gpu"), 1, Some(0))
        ]
    );
    // The nodes of one rack have five and eight free GPUs, and the node of another rack has four.
    // Three pods with three GPUs each fit only into the first rack.
    let node_in_rack = |name: &str, rack: &str| {
        let mut node = node(name);
        node.labels.insert("rack".to_owned(), rack.to_owned());
        node
    };
    let racks = [
        node_in_rack("a", "r1"),
        node_in_rack("b", "r1"),
        node_in_rack("c", "r2"),
        node("d"),
    ];
    let fit_by_label = |pods, label: &str| {
        let free = [("a", 5), ("b", 8), ("c", 4), ("d", 8)]
            .map(|(name, gpus)| (name.to_owned(), free_of(gpus)));
        let free_resources = ClusterCapacity {
            free: free.into(),
            ..ClusterCapacity::default()
        };
        let compare = |nodes: &[Node]| fit(&requests(3), pods, nodes, Some(&free_resources));
        let mut fit = compare(&racks);
        fit_domains(&mut fit, label, &racks, compare);
        let domains: Vec<_> = fit
            .domains
            .iter()
            .map(|domain| {
                (
                    domain.value.clone(),
                    domain.verdict,
                    domain.pods_now,
                    domain.nodes,
                )
            })
            .collect();
        let nodes: usize = fit.groups.iter().map(|group| group.nodes.len()).sum();
        (fit.verdict, fit.pods_now, domains, nodes)
    };
    let (r1, r2) = ("r1".to_owned(), "r2".to_owned());
    assert_eq!(
        fit_by_label(3, "rack"),
        (
            Now,
            Some(3),
            vec![
                (r1.clone(), Now, Some(3), 2),
                (r2.clone(), Never, Some(1), 1)
            ],
            2
        )
    );
    // Without other jobs, the racks hold 2 + 2 and 2 pods. So five pods need more than one rack.
    assert_eq!(fit_by_label(5, "rack").0, Never);
    assert_eq!(fit_by_label(1, "row").0, Unknown, "no node has this label");
    assert_eq!(fit(&requests(1), 1, &nodes, None).verdict, Unknown);
    assert_eq!(fit(&requests(9), 1, &nodes, None).verdict, Never);
    assert_eq!(
        fit(&requests(1), 1, &[], Some(&free_resources)).verdict,
        Unknown
    );
}

#[test]
fn unknown_free_resources_are_not_zero_pods() {
    let mut cordoned = node("b");
    cordoned.schedulable = false;
    let pod = PodRules::from_spec(&json!({"containers": []}));
    let requests = |gpus: i128| Amounts::from([("nvidia.com/gpu".to_owned(), gpus * 1000)]);
    let groups = |gpus| {
        let fit = compare_nodes(
            &pod,
            &VolumeRules::default(),
            &requests(gpus),
            2,
            &[node("a"), cordoned.clone()],
            None,
        );
        assert_eq!(fit.pods_now, None);
        fit.groups
            .into_iter()
            .map(|group| (group.cause, group.pods_now))
            .collect::<Vec<_>>()
    };
    assert_eq!(groups(2), [(None, None), (Some("cordoned"), Some(0))]);
    // Nine GPUs do not fit on a node with eight, whatever runs on it.
    assert_eq!(
        groups(9),
        [
            (Some("cordoned"), Some(0)),
            (Some("insufficient-gpu"), Some(0))
        ]
    );
}
