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

/// Three nodes with eight GPUs each: one with five free, one cordoned, one full.
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
    let room = Room {
        free: free.into(),
        ..Room::default()
    };
    let wanted = |gpus: i128| Amounts::from([("nvidia.com/gpu".to_owned(), gpus * 1000)]);
    let pod = PodRules::from_spec(&json!({"containers": []}));
    let verdict = |gpus, pods| judged(&pod, &wanted(gpus), pods, &nodes, Some(&room));
    let told = [(5, 1), (2, 2), (2, 3), (8, 3), (8, 4), (9, 1)]
        .map(|(gpus, pods)| verdict(gpus, pods).verdict);
    use FitVerdict::{Never, NotNow, Now, Unknown};
    assert_eq!(told, [Now, Now, NotNow, NotNow, Never, Never]);
    let causes: Vec<_> = verdict(2, 3)
        .groups
        .into_iter()
        .map(|group| (group.cause, group.nodes.len(), group.pods_now))
        .collect();
    assert_eq!(
        causes,
        [
            (None, 1, 2),
            (Some("cordoned"), 1, 0),
            (Some("insufficient-gpu"), 1, 0)
        ]
    );
    // Two racks: five and eight GPUs free in one, four in the other. Three pods of three GPUs fit
    // only into the first rack.
    let racked = |name: &str, rack: &str| {
        let mut node = node(name);
        node.labels.insert("rack".to_owned(), rack.to_owned());
        node
    };
    let racks = [
        racked("a", "r1"),
        racked("b", "r1"),
        racked("c", "r2"),
        node("d"),
    ];
    let in_rack = |pods, label: &str| {
        let free = [("a", 5), ("b", 8), ("c", 4), ("d", 8)]
            .map(|(name, gpus)| (name.to_owned(), free_of(gpus)));
        let room = Room {
            free: free.into(),
            ..Room::default()
        };
        let judge = |nodes: &[Node]| judged(&pod, &wanted(3), pods, nodes, Some(&room));
        let mut fit = judge(&racks);
        within(&mut fit, label, &racks, judge);
        let domains: Vec<_> = fit
            .domains
            .iter()
            .map(|one| (one.value.clone(), one.verdict, one.pods_now, one.nodes))
            .collect();
        let nodes: usize = fit.groups.iter().map(|group| group.nodes.len()).sum();
        (fit.verdict, fit.pods_now, domains, nodes)
    };
    let (r1, r2) = ("r1".to_owned(), "r2".to_owned());
    assert_eq!(
        in_rack(3, "rack"),
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
    // Without other jobs the racks hold 2 + 2 pods and 2 pods, so five pods need more than one
    // rack.
    assert_eq!(in_rack(5, "rack").0, Never);
    assert_eq!(in_rack(1, "row").0, Unknown, "no node has this label");
    assert_eq!(judged(&pod, &wanted(1), 1, &nodes, None).verdict, Unknown);
    assert_eq!(judged(&pod, &wanted(9), 1, &nodes, None).verdict, Never);
    assert_eq!(
        judged(&pod, &wanted(1), 1, &[], Some(&room)).verdict,
        Unknown
    );
}
