//! Computes the fraction of a device in one MIG instance or in one partition of AMD's devices.
//!
//! Sources: NVIDIA's MIG user guide for the compute slices of profiles, and AMD's partitioning
//! guide and product pages for compute modes and dies.

use super::gpu::GpuType;

/// Computes the fraction of the device's compute slices in a MIG profile: `3g.40gb` has 3 of 7. Two
/// product lines have four slices instead of seven.
pub(super) fn mig_fraction(profile: &str, product: Option<&GpuType>) -> Option<f64> {
    let mut parts = profile.split('.');
    let first = parts.next()?;
    // `1c.3g.40gb` is one of the three compute slices of a GPU instance.
    let count: f64 = first
        .strip_suffix('c')
        .or_else(|| first.strip_suffix('g'))?
        .parse()
        .ok()?;
    let sizes: Vec<&str> = profile
        .split('.')
        .filter(|word| word.ends_with('g') || word.ends_with("gb"))
        .collect();
    let total = match product.map(ToString::to_string) {
        Some(product) if product.starts_with("a30") || product.contains("pro-") => 4.0,
        Some(_) => 7.0,
        None => match sizes.as_slice() {
            // Profiles of devices with four slices: A30 (24 GB) and RTX PRO 6000 (96 GB).
            ["1g", "6gb"] | ["2g", "12gb" | "48gb"] | ["4g", "24gb" | "96gb"] => 4.0,
            // Ambiguous: the profile exists on an H100 with 96 GB and on an RTX PRO 6000.
            ["1g", "24gb"] => return None,
            _ => 7.0,
        },
    };
    (count <= total).then_some(count / total)
}

/// Computes the fraction of a device in one partition of a compute mode. A `cpx` partition is one
/// compute die, and the number of dies depends on the product.
pub(super) fn mode_fraction(mode: &str, product: Option<&GpuType>) -> Option<f64> {
    match mode {
        "spx" => Some(1.0),
        "dpx" => Some(1.0 / 2.0),
        "tpx" => Some(1.0 / 3.0),
        "qpx" => Some(1.0 / 4.0),
        "cpx" => {
            // Names of variants continue, as in `mi308x-hf` and `mi355x-vf`.
            let product = product?.to_string();
            let dies = [
                ("mi300a", 6.0),
                ("mi308x", 4.0),
                ("mi350p", 4.0),
                ("mi300", 8.0),
                ("mi325", 8.0),
                ("mi350", 8.0),
                ("mi355", 8.0),
            ];
            dies.iter()
                .find(|(name, _)| product.starts_with(name))
                .map(|(_, dies)| 1.0 / dies)
        }
        _ => None,
    }
}

/// Computes the fraction of an Ascend device's cores in a virtual device. The sizes of a 910 with
/// 30 and of one with 32 cores have the same names, so their fraction is unknown.
///
/// Source: Ascend/mind-cluster (templates of virtual instances): 310P has 8 cores, and the 910Bs
/// have 20 cores (templates of 5 and 10) or 24 (templates of 3, 6 and 12).
pub(super) fn core_fraction(chip: &str, cores: u32) -> Option<f64> {
    let total = match (chip.starts_with("Ascend310P"), cores) {
        (true, 1 | 2 | 4) => 8.0,
        (false, 5 | 10) if chip.starts_with("Ascend910") => 20.0,
        (false, 3 | 6 | 12) if chip.starts_with("Ascend910") => 24.0,
        _ => return None,
    };
    Some(f64::from(cores) / total)
}

/// Computes the fraction of a partition from the number of partitions on all devices of a node, for
/// products that [`mode_fraction`] does not know. `None` if no known device has this number of
/// partitions.
pub(super) fn counted_fraction(devices: u64, units: u64) -> Option<f64> {
    let per_device = units.checked_div(devices)?;
    (per_device * devices == units && (2..=8).contains(&per_device))
        .then(|| 1.0 / per_device as f64)
}
