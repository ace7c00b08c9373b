//! Tests the evaluation of CEL selectors as Kubernetes defines it.

use super::*;
use crate::model::counting::device_supply::DeviceKey;

fn device() -> OfferedDevice {
    let text = |value: &str| AttributeValue::Text(value.to_owned());
    let attributes = [
        ("gpu.nvidia.com/type", text("gpu")),
        ("gpu.nvidia.com/productName", text("NVIDIA H100 80GB HBM3")),
        ("gpu.nvidia.com/index", AttributeValue::Int(3)),
        ("gpu.nvidia.com/mig", AttributeValue::Bool(true)),
        (
            "gpu.nvidia.com/driverVersion",
            AttributeValue::Version("580.65.6".to_owned()),
        ),
        ("resource.kubernetes.io/pcieRoot", text("pci0000:01")),
    ];
    OfferedDevice {
        key: DeviceKey {
            driver: "gpu.nvidia.com".to_owned(),
            ..DeviceKey::default()
        },
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        capacity: [("gpu.nvidia.com/memory".to_owned(), "81559Mi".to_owned())].into(),
        is_countable: true,
        is_pool_usable: true,
        ..OfferedDevice::default()
    }
}

fn select(expression: &str) -> Option<bool> {
    DeviceSelectors::compile(&[expression.to_owned()]).select(&device())
}

#[test]
fn selectors_are_evaluated_as_kubernetes_does() {
    for (expression, expected) in [
        ("device.driver == 'gpu.nvidia.com'", true),
        ("device.driver != \"gpu.nvidia.com\"", false),
        (
            "device.attributes['gpu.nvidia.com'].type == 'gpu' || true",
            true,
        ),
        (
            "!(device.driver == 'x') && device.attributes['gpu.nvidia.com'].index >= 2",
            true,
        ),
        ("device.attributes['gpu.nvidia.com'].mig", true),
        (
            "device.attributes['gpu.nvidia.com'].productName in ['A', 'NVIDIA H100 80GB HBM3']",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.startsWith('NVIDIA A')",
            false,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.lowerAscii().contains('h100')",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.matches('^.*h100.*$')",
            false,
        ),
        (
            "device.attributes['gpu.nvidia.com'].productName.matches('(?i)h100')",
            true,
        ),
        (
            "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:01'",
            true,
        ),
        // A domain without attributes is an empty map, and `&&` ends at the first false operand.
        ("has(device.attributes['other.example.com'].type)", false),
        ("'type' in device.attributes['gpu.nvidia.com']", true),
        ("'other.example.com' in device.attributes", false),
        (
            "device.driver == 'x' && device.attributes['x'].speed == 'fast'",
            false,
        ),
        // 81559 MiB is less than 80 GiB (81920 MiB).
        (
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('80Gi')) >= 0",
            false,
        ),
        (
            "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))",
            true,
        ),
        (
            "device.capacity['gpu.nvidia.com'].memory == quantity('83516416Ki')",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('580.100.0')) < 0",
            true,
        ),
        (
            "device.attributes['gpu.nvidia.com'].driverVersion.major() == 580",
            true,
        ),
        (
            "semver('1.0.0-rc.2').isLessThan(semver('1.0.0-rc.10'))",
            true,
        ),
        (
            "cel.bind(d, device.attributes['gpu.nvidia.com'], d.type == 'gpu' && d.index == 3)",
            true,
        ),
        ("device.allowMultipleAllocations", false),
    ] {
        assert_eq!(select(expression), Some(expected), "{expression}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_unknown() {
    for expression in [
        // For the scheduler, a missing attribute is an error.
        "device.attributes['gpu.nvidia.com'].missing == 'x'",
        "device.attributes['gpu.nvidia.com'].type == 'gpu' &&",
        "sets.contains(['a'], ['a'])",
        "device.attributes['gpu.nvidia.com'].type.unknownFunction()",
        "device.attributes['gpu.nvidia.com'].type",
        "other.driver == 'x'",
        "",
    ] {
        assert_eq!(select(expression), None, "{expression}");
    }
    // An earlier expression decides.
    let both = ["device.driver == 'x'".to_owned(), "nonsense(".to_owned()];
    assert_eq!(
        DeviceSelectors::compile(&both).select(&device()),
        Some(false)
    );
}
