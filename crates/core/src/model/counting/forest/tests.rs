//! Tests how workloads are built from owners and pods.

use super::*;

fn owner(kind: &str, uid: &str, parent: Option<&str>) -> (String, OwnerObject) {
    let object = OwnerObject {
        kind: kind.into(),
        namespace: "ns".into(),
        name: format!("{uid}-name"),
        uid: uid.into(),
        parent: parent.map(ToOwned::to_owned),
        ..OwnerObject::default()
    };
    (uid.to_owned(), object)
}

fn pod(name: &str, parent: Option<&str>, gpus: u64, phase: PodPhase) -> Rc<WorkPod> {
    Rc::new(WorkPod {
        namespace: "ns".into(),
        name: name.into(),
        uid: name.into(),
        parent: parent.map(Into::into),
        gpus: GpuCount(gpus),
        phase,
        ..WorkPod::default()
    })
}

#[test]
fn topmost_owner_of_a_chain_is_the_workload() {
    let forest = Forest {
        owners: [
            owner("RayJob", "job", None),
            owner("RayCluster", "cluster", Some("job")),
            owner("Deployment", "web", None),
        ]
        .into(),
        pods: vec![
            pod("head", Some("cluster"), 0, PodPhase::Running),
            pod("worker", Some("cluster"), 4, PodPhase::Pending),
            pod("orphan", Some("gone"), 1, PodPhase::Failed),
            pod("cpu", Some("web"), 0, PodPhase::Running),
        ],
        ..Forest::default()
    };
    let workloads = forest.workloads(&Inventory::default());
    let summaries: Vec<_> = workloads
        .iter()
        .map(|workload| {
            (
                workload.top.kind.as_str(),
                workload.requested.0,
                workload.state,
                workload.pods.len(),
            )
        })
        .collect();
    assert_eq!(
        summaries,
        [
            ("RayJob", 4, WorkloadState::Running, 2),
            ("Pod", 0, WorkloadState::Failed, 1)
        ]
    );
    let tree = forest.branch(&workloads[0].top);
    assert_eq!(
        (
            tree.children[0].kind.as_str(),
            tree.children[0].children.len()
        ),
        ("RayCluster", 2)
    );
}

#[test]
fn owner_without_pods_is_a_workload_if_its_template_requests_gpus() {
    let mut paused = owner("Job", "paused", None);
    (paused.1.gpus, paused.1.resting) = (GpuCount(8), Some("Suspended"));
    let mut ended = owner("Job", "ended", None);
    (ended.1.gpus, ended.1.verdict) = (GpuCount(8), Some(WorkloadState::Completed));
    let forest = Forest {
        owners: [paused, ended].into(),
        ..Forest::default()
    };
    let workloads = forest.workloads(&Inventory::default());
    let summaries: Vec<_> = workloads
        .iter()
        .map(|workload| (workload.state, workload.requested.0, workload.gpus_held().0))
        .collect();
    assert_eq!(
        summaries,
        [
            (WorkloadState::Completed, 0, 0),
            (WorkloadState::Pending, 8, 0)
        ]
    );
}

#[test]
fn requests_of_sibling_templates_are_summed() {
    let with = |mut owner: (String, OwnerObject), gpus| {
        owner.1.gpus = GpuCount(gpus);
        owner
    };
    let owners = [
        owner("JobSet", "set", None),
        with(owner("Job", "a", Some("set")), 4),
        with(owner("Job", "b", Some("set")), 4),
        with(owner("Deployment", "web", None), 2),
        with(owner("ReplicaSet", "new", Some("web")), 2),
    ];
    let workloads = Forest {
        owners: owners.into(),
        ..Forest::default()
    }
    .workloads(&Inventory::default());
    assert_eq!(
        workloads
            .iter()
            .map(|owner| owner.requested.0)
            .collect::<Vec<_>>(),
        [8, 2]
    );
}

#[test]
fn held_gpus_are_counted_from_pods_without_cluster_rights() {
    let running = WorkPod {
        node: Some("n".into()),
        ..(*pod("p", None, 8, PodPhase::Running)).clone()
    };
    let workloads = Forest {
        owners: BTreeMap::new(),
        pods: vec![running.into()],
        ..Forest::default()
    }
    .workloads(&Inventory::default());
    assert_eq!(
        (workloads[0].gpus_held(), workloads[0].held.get("unknown")),
        (GpuCount(8), Some(&GpuCount(8)))
    );
}

#[test]
fn unnamed_pods_count_for_their_workload() {
    let sums = |phase| PodSums::from_pods([&*pod("x", None, 0, phase)]);
    let forest = Forest {
        owners: [
            owner("RayJob", "job", None),
            owner("RayCluster", "cluster", Some("job")),
            owner("Deployment", "web", None),
        ]
        .into(),
        pods: vec![pod("worker", Some("cluster"), 4, PodPhase::Pending)],
        others: [
            ("cluster", PodPhase::Running),
            ("web", PodPhase::Running),
            ("gone", PodPhase::Failed),
        ]
        .map(|(parent, phase)| (parent.into(), sums(phase)))
        .into(),
    };
    let workloads = forest.workloads(&Inventory::default());
    let summaries: Vec<_> = workloads
        .iter()
        .map(|workload| {
            (
                workload.top.kind.as_str(),
                workload.state,
                workload.pods.len(),
            )
        })
        .collect();
    assert_eq!(summaries, [("RayJob", WorkloadState::Running, 1)]);
}

#[test]
fn owner_cycles_terminate() {
    let forest = Forest {
        owners: [owner("A", "a", Some("b")), owner("B", "b", Some("a"))].into(),
        pods: vec![pod("p", Some("a"), 1, PodPhase::Running)],
        ..Forest::default()
    };
    assert_eq!(forest.workloads(&Inventory::default()).len(), 1);
    assert!(!forest.branch(&forest.owners["a"]).children.is_empty());
}
