//! Tests how claims are compared with the devices that nodes offer.

use super::*;

fn device(node: &str, kind: &str, is_held: bool, taint: Option<&str>) -> OfferedDevice {
    let taint = taint.map(|key| Taint {
        key: key.to_owned(),
        value: None,
        effect: "NoSchedule".to_owned(),
    });
    OfferedDevice {
        node: node.to_owned(),
        driver: "gpu.nvidia.com".to_owned(),
        attributes: BTreeMap::from([("gpu.nvidia.com/type".to_owned(), kind.to_owned())]),
        taints: taint.into_iter().collect(),
        is_held,
        is_countable: true,
    }
}

fn demand(selector: &str) -> DeviceDemand {
    DeviceDemand {
        class: "gpu.nvidia.com".to_owned(),
        count: 2,
        selectors: vec![selector.to_owned()],
        tolerations: Vec::new(),
    }
}

const WHOLE: &str =
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == \"gpu\"";

#[test]
fn counts_exclude_held_tainted_and_unmatched_devices() {
    let devices = [
        device("a", "gpu", false, None),
        device("a", "gpu", true, None),
        device("a", "gpu", false, Some("example.com/broken")),
        device("a", "mig", false, None),
        device("b", "gpu", false, None),
    ];
    let claims = DeviceClaims::compared(vec![demand(WHOLE)], &devices);
    let on_a = ClassCapacity {
        free: 1,
        tainted: 1,
        taint: Some("example.com/broken".to_owned()),
        all: 3,
    };
    assert_eq!(claims.on_node("gpu.nvidia.com", "a"), Some(on_a));
    assert_eq!(
        claims.on_node("gpu.nvidia.com", "c"),
        Some(ClassCapacity::default())
    );
    let toleration = DeviceToleration {
        key: "example.com/broken".to_owned(),
        ..DeviceToleration::default()
    };
    let tolerant = DeviceDemand {
        tolerations: vec![toleration],
        ..demand(WHOLE)
    };
    let claims = DeviceClaims::compared(vec![tolerant], &devices);
    assert_eq!(claims.on_node("gpu.nvidia.com", "a").unwrap().free, 2);
}

#[test]
fn unsupported_selectors_are_not_evaluated() {
    for expression in [
        "device.attributes['gpu.nvidia.com'].type == 'gpu' || true",
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "!(device.driver == 'x')",
        "device.attributes['gpu.nvidia.com'].index == 3",
        "device.attributes['a'].b == 'x && y'",
    ] {
        assert_eq!(terms(expression), None, "{expression}");
    }
    let selector =
        r#"device.attributes["gpu.nvidia.com"].productName in ["NVIDIA H100", "NVIDIA H200"]"#;
    let products = ["NVIDIA H100", "NVIDIA H200"]
        .map(ToOwned::to_owned)
        .to_vec();
    assert_eq!(
        terms(selector),
        Some(vec![Term::Attribute(
            "gpu.nvidia.com/productName".to_owned(),
            products
        )])
    );
    // For the scheduler, a missing attribute is an error, unless an earlier comparison was false.
    let devices = [device("a", "gpu", false, None)];
    let not_evaluated = DeviceClaims::NotEvaluated(
        "devices of class gpu.nvidia.com (CEL expressions, or shared devices)".to_owned(),
    );
    assert_eq!(
        DeviceClaims::compared(vec![demand(selector)], &devices),
        not_evaluated
    );
    let other = demand(
        "device.driver == 'nic.example.com' && device.attributes['nic.example.com'].speed == 'fast'",
    );
    let DeviceClaims::Compared(compared) = DeviceClaims::compared(vec![other], &devices) else {
        panic!("it is compared")
    };
    assert!(compared[0].1.is_empty());
}

#[test]
fn claims_become_amounts_of_nodes_and_requests() {
    let devices = [
        device("a", "gpu", false, None),
        device("a", "gpu", true, None),
    ];
    let claims = DeviceClaims::compared(vec![demand(WHOLE)], &devices);
    let (mut requests, mut nodes) = (
        Amounts::new(),
        [Node {
            name: "a".to_owned(),
            ..Node::default()
        }],
    );
    let mut cluster = ClusterCapacity {
        free: BTreeMap::from([("a".to_owned(), Amounts::new())]),
        ..ClusterCapacity::default()
    };
    claims.add_to(&mut requests, &mut nodes, Some(&mut cluster));
    let resource = "deviceclass.resource.kubernetes.io/gpu.nvidia.com".to_owned();
    assert_eq!(requests, Amounts::from([(resource.clone(), 2000)]));
    assert_eq!(cluster.free["a"], Amounts::from([(resource.clone(), 1000)]));
    assert_eq!(nodes[0].most(), Amounts::from([(resource, 2000)]));
}
