//! Tests which devices pods request.

use super::*;
use crate::model::values::series::Point;

fn series(labels: &[(&str, &str)], times: &[i64]) -> Series {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    Series {
        labels,
        points: times
            .iter()
            .map(|at| Point {
                at: *at,
                value: 50.0,
            })
            .collect(),
    }
}

#[test]
fn sidecars_hold_their_devices_with_the_main_containers() {
    use ContainerRole::{Init, Main, Sidecar};
    let gpu = "nvidia_com_gpu";
    let request = |containers: &[(ContainerRole, f64)]| {
        let named = |(index, (role, value)): (usize, &(ContainerRole, f64))| {
            ((*role, index.to_string(), gpu.to_owned()), *value)
        };
        amount(&containers.iter().enumerate().map(named).collect(), gpu)
    };
    // A sidecar with one device and a main container with one device hold 1 + 1.
    assert_eq!(request(&[(Sidecar, 1.0), (Main, 1.0)]), 2.0);
    // An init container with four devices ends before the main container with one starts.
    assert_eq!(request(&[(Init, 4.0), (Main, 1.0)]), 4.0);
    // The sidecar runs while the init container does: max(1 + 2, 1 + 4).
    assert_eq!(request(&[(Sidecar, 1.0), (Init, 4.0), (Main, 2.0)]), 5.0);
    assert_eq!(request(&[(Init, 1.0)]), 1.0);
}

#[test]
fn restart_policy_always_marks_a_sidecar() {
    let init = |name: &str, metric: &str, extra: &[(&str, &str)]| {
        let labels = [
            ("__name__", metric),
            ("namespace", "ml"),
            ("pod", "p"),
            ("uid", "u"),
            ("container", name),
        ];
        series(&[&labels[..], extra].concat(), &[0])
    };
    let request = [("node", "n"), ("resource", "nvidia_com_gpu")];
    let mut requests = [
        init("mps", "kube_pod_init_container_resource_requests", &request),
        init("main", "kube_pod_container_resource_requests", &request),
    ];
    requests
        .iter_mut()
        .for_each(|series| series.points[0].value = 1.0);
    let info = [init(
        "mps",
        "kube_pod_init_container_info",
        &[("restart_policy", "Always")],
    )];
    let gpus = |info: &[Series]| {
        let presence = |_: &[&Series], _: &str| Presence::default();
        by_pod(&requests, info, presence, &NodeParts::default())[0]
            .1
            .gpus
    };
    // Older versions of kube-state-metrics do not report sidecars: max(1, 1) devices.
    assert_eq!((gpus(&info), gpus(&[])), (2, 1));
}
