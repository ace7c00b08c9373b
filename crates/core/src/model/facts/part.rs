//! Determines the fraction of a device that one unit of an extended resource represents. Such a
//! unit is an instance, a partition, or a share of a device.

use std::collections::BTreeMap;

use super::fractions::{mig_fraction, mode_fraction};
use super::gpu::{GpuType, SHARED_MEMORY};
use super::node::Node;
use super::registered;
use super::resource::{resource_name, virtual_gpu};
use super::unit::{SHARED, SliceSize, Unit, by_resource, is_instance, is_share, unit};
use crate::model::values::quantity;

/// The part of a device that one unit of an extended resource represents.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Name in node lists, such as `mig-1g.10gb`, `cpx_nps4`, `gpu.shared` or `gpu-mem`.
    pub name: String,
    /// Fraction of the device's compute (for shares, of its memory or time) from 0 to 1, or `None`
    /// if unknown.
    pub fraction: Option<f64>,
    /// True if exporters measure the part. They measure a shared device only as a whole.
    pub instance: bool,
    /// True if pods request an amount of the device's memory.
    pub by_memory: bool,
    /// Memory of the whole device in MiB, if all devices of the node have the same amount.
    pub device_memory: Option<f64>,
}

impl Part {
    /// Classifies a unit of `resource`, or returns `None` if it is a whole device or no device.
    pub fn read(node: &Node, capacity: &BTreeMap<String, String>, resource: &str) -> Option<Self> {
        let Some(Unit::Slice(slice)) = unit(node, capacity, resource) else {
            return None;
        };
        let product = node.model();
        let plain = Self::from_name(&slice.name, product.as_ref());
        Some(match slice.size {
            SliceSize::Name => plain,
            SliceSize::Gibibyte => {
                let amount = |name: &str| {
                    capacity
                        .get(name)
                        .and_then(|text| quantity::units(text))
                        .filter(|amount| *amount > 0)
                };
                // One unit is 1 GiB, so the fraction is the number of devices divided by their
                // total GiB.
                let fraction = amount("aliyun.com/gpu-count")
                    .zip(amount(SHARED_MEMORY))
                    .map(|(count, all)| count as f64 / all as f64);
                Self { fraction, ..plain }
            }
            SliceSize::Registered { annotation, units } => Self {
                by_memory: true,
                device_memory: registered::memory(node, annotation),
                // Pods request memory, so this is the fraction in sums of the capacity.
                fraction: Some(registered::devices(node, annotation).len() as u64)
                    .filter(|devices| (1..=units).contains(devices))
                    .map(|devices| devices as f64 / units as f64),
                ..plain
            },
            SliceSize::Gigabytes(size) => Self {
                fraction: product
                    .or_else(|| GpuType::parse(virtual_gpu(resource)?.model))
                    .and_then(|product| product.gigabytes())
                    .map(|all| (f64::from(size) / f64::from(all)).min(1.0)),
                ..plain
            },
            SliceSize::Fraction { ratio, profile } => {
                let of_device = profile.map_or(Some(1.0), |profile| {
                    mig_fraction(&profile, product.as_ref())
                });
                let fraction = ratio
                    .zip(of_device)
                    .map(|(ratio, of_device)| ratio * of_device);
                Self { fraction, ..plain }
            }
        })
    }

    /// Creates the part with this name on a device of this product.
    pub fn from_name(name: &str, product: Option<&GpuType>) -> Self {
        let of_modes = || {
            name.split_once("_nps")
                .and_then(|(mode, _)| mode_fraction(mode, product))
        };
        let profile = name.strip_prefix("mig-");
        // The name of a share does not contain the number of shares.
        let fraction = match is_share(name) {
            true => None,
            false => profile.map_or_else(of_modes, |profile| mig_fraction(profile, product)),
        };
        // In SPX mode, a device has one partition, which exporters measure as the whole device.
        let instance = is_instance(name) && !name.starts_with("spx");
        Self {
            name: name.to_owned(),
            fraction,
            instance,
            by_memory: false,
            device_memory: None,
        }
    }

    /// Classifies a resource by its name in labels of kube-state-metrics, without facts about its
    /// node. Returns `None` for whole devices and other resources.
    pub fn from_label(resource: &str) -> Option<Self> {
        let slice = by_resource(&resource_name(resource))?;
        let plain = Self::from_name(&slice.name, None);
        Some(match slice.size {
            SliceSize::Registered { .. } => Self {
                by_memory: true,
                ..plain
            },
            SliceSize::Fraction {
                ratio,
                profile: None,
            } => Self {
                fraction: ratio,
                ..plain
            },
            _ => plain,
        })
    }

    /// Returns the weight of a unit whose fraction is unknown: 1, as for a whole device, or 0 for a
    /// GiB of memory, because a device has many.
    pub fn unknown(&self) -> f64 {
        if self.name == "gpu-mem" { 0.0 } else { 1.0 }
    }

    /// Creates the share of each pod if several pods claim one device or instance (`shared`).
    pub(crate) fn shared_by(pods: usize, shared: Option<Self>) -> Self {
        let whole = shared.map_or(Some(1.0), |part| part.fraction);
        Self {
            fraction: whole.map(|whole| whole / pods.max(1) as f64),
            ..Self::share(1.0)
        }
    }

    /// Creates a share with this fraction of a device.
    pub(crate) fn share(fraction: f64) -> Self {
        Self {
            name: SHARED.to_owned(),
            fraction: Some(fraction),
            instance: false,
            by_memory: false,
            device_memory: None,
        }
    }

    /// Sets the fraction for a pod that requests device memory in MiB or in percent. A pod that
    /// requests neither may use all memory.
    pub(crate) fn with_memory(self, mebibytes: Option<f64>, percent: Option<f64>) -> Self {
        let Some(total) = self.device_memory.filter(|total| *total > 0.0) else {
            return Self {
                fraction: percent.map(|percent| (percent / 100.0).min(1.0)),
                ..self
            };
        };
        let of_memory = mebibytes
            .map(|requested| requested / total)
            .or(percent.map(|percent| percent / 100.0));
        Self {
            fraction: Some(of_memory.unwrap_or(1.0).min(1.0)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::facts::gpu::HAMI_REGISTER;

    fn node(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Node {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let allocatable = [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
        Node {
            name: "n".into(),
            labels: map(labels),
            annotations: map(annotations),
            allocatable,
            ..Node::default()
        }
    }

    fn fraction(node: &Node, resource: &str) -> Option<f64> {
        Part::read(node, &BTreeMap::new(), resource).and_then(|part| part.fraction)
    }

    #[test]
    fn mig_fractions_depend_on_the_product() {
        let node_of = |product: &str| node(&[("nvidia.com/gpu.product", product)], &[]);
        assert_eq!(
            fraction(&node_of("NVIDIA-A100-SXM4-80GB"), "nvidia.com/mig-3g.40gb"),
            Some(3.0 / 7.0)
        );
        assert_eq!(
            fraction(&node_of("NVIDIA-A30"), "nvidia.com/mig-1g.6gb"),
            Some(0.25)
        );
        assert_eq!(
            fraction(
                &node_of("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
                "nvidia.com/mig-1g.24gb"
            ),
            Some(0.25)
        );
        assert_eq!(
            fraction(&node_of("NVIDIA-H100-NVL"), "nvidia.com/mig-1g.24gb"),
            Some(1.0 / 7.0)
        );
        assert_eq!(
            Part::from_label("nvidia_com_mig_1g_24gb").unwrap().fraction,
            None,
            "two products have it"
        );
        let media = Part::from_label("nvidia_com_mig_1g_10gb_me").unwrap();
        assert_eq!(
            (media.name.as_str(), media.fraction, media.instance),
            ("mig-1g.10gb.me", Some(1.0 / 7.0), true)
        );
        assert_eq!(
            Part::from_name("mig-1c.3g.40gb", None).fraction,
            Some(1.0 / 7.0)
        );
        assert_eq!(
            fraction(
                &node_of("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"),
                "nvidia.com/gpu"
            ),
            Some(1.0 / 7.0)
        );
        assert_eq!(
            Part::read(
                &node_of("NVIDIA-A100-SXM4-80GB"),
                &BTreeMap::new(),
                "nvidia.com/gpu"
            ),
            None
        );
        for resource in ["nvidia_com_gpu", "amd_com_gpu", "cpu"] {
            assert_eq!(Part::from_label(resource), None);
        }
    }

    #[test]
    fn partition_fractions_depend_on_the_mode() {
        let node_of = |product: &str| node(&[("amd.com/gpu.product-name", product)], &[]);
        assert_eq!(
            fraction(&node_of("AMD_Instinct_MI300X_OAM"), "amd.com/cpx_nps4"),
            Some(0.125)
        );
        assert_eq!(
            fraction(&node_of("AMD_Instinct_MI300A"), "amd.com/cpx_nps1"),
            Some(1.0 / 6.0)
        );
        // 8 dies, except 4 of the MI308X and the MI350P, which has half of the dies of an MI350X.
        for (product, dies) in [
            ("AMD_Instinct_MI308X_HF", 4.0),
            ("AMD_Instinct_MI350P", 4.0),
            ("AMD_Instinct_MI325X_VF", 8.0),
            ("AMD_Instinct_MI350X", 8.0),
            ("AMD_Instinct_MI355X_VF", 8.0),
            ("AMD_Instinct_MI350", 8.0),
        ] {
            assert_eq!(
                fraction(&node_of(product), "amd.com/cpx_nps1"),
                Some(1.0 / dies),
                "{product}"
            );
        }
        assert_eq!(
            Part::from_label("amd_com_cpx_nps4").unwrap().fraction,
            None,
            "by the product alone"
        );
        assert_eq!(
            Part::from_label("amd_com_dpx_nps1").unwrap().fraction,
            Some(0.5)
        );
    }

    #[test]
    fn shares_divide_time_or_memory() {
        let sliced = node(
            &[
                ("nvidia.com/gpu.product", "NVIDIA-L4-SHARED"),
                ("nvidia.com/gpu.replicas", "4"),
            ],
            &[],
        );
        let part = Part::read(&sliced, &BTreeMap::new(), "nvidia.com/gpu").unwrap();
        assert_eq!(
            (part.name.as_str(), part.fraction, part.instance),
            ("gpu.shared", Some(0.25), false)
        );
        let cut = [
            (
                "nvidia.com/gpu.product",
                "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED",
            ),
            ("nvidia.com/gpu.replicas", "2"),
        ];
        assert_eq!(
            fraction(&node(&cut, &[]), "nvidia.com/gpu"),
            Some(1.0 / 14.0)
        );
        for register in [
            r#"[{"id":"GPU-a","count":10,"devmem":81920,"devcore":100},{"id":"GPU-b","count":10,"devmem":81920,"devcore":100}]"#,
            "GPU-a,10,81920,100,NVIDIA-A100,0,true:GPU-b,10,81920,100,NVIDIA-A100,0,true:",
        ] {
            let part = Part::read(
                &node(&[], &[(HAMI_REGISTER, register)]),
                &BTreeMap::new(),
                "nvidia.com/gpu",
            )
            .unwrap();
            assert_eq!(part.fraction, Some(0.25), "two devices in 8 units");
            assert_eq!(
                part.clone().with_memory(Some(8192.0), None).fraction,
                Some(0.1)
            );
            assert_eq!(
                part.clone().with_memory(None, Some(30.0)).fraction,
                Some(0.3)
            );
            assert_eq!(
                part.with_memory(None, None).fraction,
                Some(1.0),
                "all of the memory"
            );
        }
        let mixed = r#"[{"id":"GPU-a","devmem":81920},{"id":"GPU-b","devmem":40960}]"#;
        let part = Part::read(
            &node(&[], &[(HAMI_REGISTER, mixed)]),
            &BTreeMap::new(),
            "nvidia.com/gpu",
        )
        .unwrap();
        assert_eq!(part.fraction, Some(0.25));
        assert_eq!(
            part.with_memory(Some(8192.0), None).fraction,
            None,
            "8192 MiB of one of two sizes"
        );
        let capacity = [("aliyun.com/gpu-mem", "320"), ("aliyun.com/gpu-count", "4")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let part = Part::read(&node(&[], &[]), &capacity.into(), "aliyun.com/gpu-mem").unwrap();
        assert_eq!(
            (part.name.as_str(), part.fraction),
            ("gpu-mem", Some(0.0125))
        );
    }
}
