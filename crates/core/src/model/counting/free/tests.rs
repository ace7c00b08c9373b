//! Tests which free GPUs are usable.

use super::*;

/// Name of the node, its free GPUs, and the pods that hold the rest of its eight GPUs.
type EightGpus<'a> = (&'a str, u64, &'a [(&'a str, u64)]);

fn group(nodes: &[EightGpus<'_>]) -> FreeGpus {
    let mut group = FreeGpus::default();
    for (node, free, pods) in nodes {
        assert_eq!(
            free + pods.iter().map(|(_, gpus)| gpus).sum::<u64>(),
            8,
            "{node}"
        );
        group.sizes.insert((*node).to_owned(), 8);
        group.total += 8;
        group.blocks.extend((*free > 0).then(|| Block {
            node: (*node).to_owned(),
            free: *free,
        }));
        group.movable.extend(
            pods.iter()
                .map(|(pod, gpus)| ((*node).to_owned(), (*pod).to_owned(), *gpus)),
        );
    }
    group
}

#[test]
fn blocks_and_gangs_match_manual_counts() {
    let fleet = group(&[
        ("a", 8, &[]),
        ("b", 8, &[]),
        ("c", 3, &[("n/x", 5)]),
        ("d", 0, &[("n/y", 8)]),
    ]);
    assert_eq!(
        (fleet.free(), fleet.sizes_of_blocks()),
        (19, vec![(8, 2), (3, 1)])
    );
    assert_eq!(
        fleet.largest_gang(),
        LargestGang {
            nodes: 2,
            gpus_per_node: 8
        }
    );
    // With two GPUs per job, each node with eight free GPUs fits four jobs. The block of three fits
    // one.
    assert_eq!(
        [1, 2, 3, 8, 9, 16, 17, 64].map(|slots| fleet.jobs(slots)),
        [19, 9, 5, 2, 1, 1, 0, 0]
    );
    // Six nodes with three free GPUs each fit a gang of 18 GPUs. The two nodes with eight free GPUs
    // fit only 16.
    let thin = group(&[
        ("a", 8, &[]),
        ("b", 8, &[]),
        ("c", 3, &[("n/1", 5)]),
        ("d", 3, &[("n/2", 5)]),
        ("e", 3, &[("n/3", 5)]),
        ("f", 3, &[("n/4", 5)]),
    ]);
    assert_eq!(
        thin.largest_gang(),
        LargestGang {
            nodes: 6,
            gpus_per_node: 3
        }
    );
    assert_eq!(FreeGpus::default().largest_gang(), LargestGang::default());
    assert_eq!(FreeGpus::default().jobs(8), 0);
}

#[test]
fn moves_use_the_fewest_gpus_and_keep_blocks() {
    let fleet = group(&[
        ("a", 8, &[]),
        ("b", 7, &[("n/lab", 1)]),
        ("c", 2, &[("n/x", 6)]),
        ("d", 0, &[("n/y", 8)]),
    ]);
    let expected = Move {
        pod: "n/lab".to_owned(),
        gpus: 1,
        from: "b".to_owned(),
        to: "c".to_owned(),
    };
    assert_eq!(fleet.moves(8, 3), std::slice::from_ref(&expected));
    // A job of sixteen needs two whole nodes.
    assert_eq!(fleet.moves(16, 3), std::slice::from_ref(&expected));
    // The pod with six GPUs fits only on an empty node, so moving it gains nothing.
    assert_eq!(fleet.moves(24, 3), []);
    let tight = group(&[("a", 8, &[]), ("b", 2, &[("n/x", 6)])]);
    assert_eq!(tight.moves(8, 3), []);
    let many = group(&[
        ("a", 4, &[("n/1", 1), ("n/2", 1), ("n/3", 1), ("n/4", 1)]),
        ("b", 4, &[("n/5", 4)]),
    ]);
    assert_eq!(
        many.moves(8, 3).len(),
        1,
        "the pod of four goes before the four pods of one"
    );
    // Emptying the cheapest node would break up a whole node. Moving both pods with three GPUs does
    // not.
    let breaking = group(&[
        ("a", 3, &[("n/a", 5)]),
        ("b", 8, &[]),
        ("c", 2, &[("n/1", 3), ("n/2", 3)]),
        ("d", 3, &[("n/d", 5)]),
        ("e", 3, &[("n/e", 5)]),
    ]);
    let pods: Vec<String> = breaking
        .moves(8, 3)
        .into_iter()
        .map(|expected| expected.pod)
        .collect();
    assert_eq!(pods, ["n/1", "n/2"]);
}
