//! Names of exporters for metrics, devices, pods and nodes, one table each. Units are converted here, and physically
//! impossible values are refused.
//!
//! Sources: dcgm-exporter's default-counters.csv and render_metrics.go, ROCm device-metrics-exporter's metricslist.md,
//! HAMi's cmd/vGPUmonitor/metrics.go and cmd/scheduler/metrics.go, and the `nvidia_gpu_*` exporters before DCGM.

/// What is measured of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// Percent.
    Utilization,
    /// Percent.
    MemoryCopy,
    /// MiB.
    MemoryUsed,
    /// MiB.
    MemoryFree,
    /// MiB.
    MemoryTotal,
    /// Watts.
    Power,
    /// Watts.
    PowerLimit,
    /// Degrees Celsius.
    Temperature,
    /// Of the multiprocessors, in MHz.
    Clock,
    /// The last error's number; 0 is none.
    Xid,
    /// 1 when a broken row of memory could not be replaced.
    RowRemapFailure,
    /// 1 is healthy.
    Health,
    /// Only who holds a part of the device.
    Share,
}

/// A metric of an exporter.
#[derive(Clone, Copy, Debug)]
pub struct ExporterMetric {
    /// The name in Prometheus.
    pub name: &'static str,
    /// What it measures.
    pub quantity: Quantity,
    /// Of several metrics for one quantity of a device the lowest counts.
    pub rank: u8,
    /// What turns its unit into ours.
    pub scale: f64,
}

const fn metric(name: &'static str, quantity: Quantity, rank: u8, scale: f64) -> ExporterMetric {
    ExporterMetric { name, quantity, rank, scale }
}

const BYTES: f64 = 1.0 / 1_048_576.0;

/// Every metric that is understood.
pub const METRICS: [ExporterMetric; 54] = [
    metric("DCGM_FI_DEV_GPU_UTIL", Quantity::Utilization, 0, 1.0),
    // MIG instances have no GPU_UTIL; the share of time in which the graphics engine is active is 0–1.
    metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Quantity::Utilization, 1, 100.0),
    metric("gpu_gfx_activity", Quantity::Utilization, 0, 1.0),
    metric("amd_gpu_gfx_activity", Quantity::Utilization, 0, 1.0),
    metric("nvidia_gpu_duty_cycle", Quantity::Utilization, 0, 1.0),
    metric("hami_host_gpu_utilization_ratio", Quantity::Utilization, 2, 1.0),
    metric("HostCoreUtilization", Quantity::Utilization, 3, 1.0),
    metric("DCGM_FI_DEV_MEM_COPY_UTIL", Quantity::MemoryCopy, 0, 1.0),
    metric("DCGM_FI_PROF_DRAM_ACTIVE", Quantity::MemoryCopy, 1, 100.0),
    metric("gpu_umc_activity", Quantity::MemoryCopy, 0, 1.0),
    metric("amd_gpu_umc_activity", Quantity::MemoryCopy, 0, 1.0),
    metric("DCGM_FI_DEV_FB_USED", Quantity::MemoryUsed, 0, 1.0),
    metric("gpu_used_vram", Quantity::MemoryUsed, 0, 1.0),
    metric("amd_gpu_used_vram", Quantity::MemoryUsed, 0, 1.0),
    metric("nvidia_gpu_memory_used_bytes", Quantity::MemoryUsed, 0, BYTES),
    metric("hami_host_gpu_memory_used_bytes", Quantity::MemoryUsed, 1, BYTES),
    metric("HostGPUMemoryUsage", Quantity::MemoryUsed, 2, BYTES),
    metric("DCGM_FI_DEV_FB_FREE", Quantity::MemoryFree, 0, 1.0),
    metric("gpu_free_vram", Quantity::MemoryFree, 0, 1.0),
    metric("amd_gpu_free_vram", Quantity::MemoryFree, 0, 1.0),
    metric("DCGM_FI_DEV_FB_TOTAL", Quantity::MemoryTotal, 1, 1.0),
    metric("gpu_total_vram", Quantity::MemoryTotal, 1, 1.0),
    metric("amd_gpu_total_vram", Quantity::MemoryTotal, 1, 1.0),
    metric("nvidia_gpu_memory_total_bytes", Quantity::MemoryTotal, 1, BYTES),
    metric("hami_gpu_memory_limit_bytes", Quantity::MemoryTotal, 2, BYTES),
    metric("DCGM_FI_DEV_POWER_USAGE", Quantity::Power, 0, 1.0),
    metric("DCGM_FI_DEV_POWER_USAGE_INSTANT", Quantity::Power, 1, 1.0),
    metric("gpu_package_power", Quantity::Power, 0, 1.0),
    metric("gpu_average_package_power", Quantity::Power, 1, 1.0),
    metric("gpu_power_usage", Quantity::Power, 2, 1.0),
    metric("amd_gpu_package_power", Quantity::Power, 0, 1.0),
    metric("amd_gpu_average_package_power", Quantity::Power, 1, 1.0),
    metric("amd_gpu_power_usage", Quantity::Power, 2, 1.0),
    metric("nvidia_gpu_power_usage_milliwatts", Quantity::Power, 0, 0.001),
    metric("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", Quantity::PowerLimit, 0, 1.0),
    metric("DCGM_FI_DEV_POWER_MGMT_LIMIT", Quantity::PowerLimit, 1, 1.0),
    metric("DCGM_FI_DEV_GPU_TEMP", Quantity::Temperature, 0, 1.0),
    metric("gpu_junction_temperature", Quantity::Temperature, 0, 1.0),
    metric("gpu_edge_temperature", Quantity::Temperature, 1, 1.0),
    metric("amd_gpu_junction_temperature", Quantity::Temperature, 0, 1.0),
    metric("amd_gpu_edge_temperature", Quantity::Temperature, 1, 1.0),
    metric("nvidia_gpu_temperature_celsius", Quantity::Temperature, 0, 1.0),
    metric("DCGM_FI_DEV_SM_CLOCK", Quantity::Clock, 0, 1.0),
    metric("DCGM_FI_DEV_XID_ERRORS", Quantity::Xid, 0, 1.0),
    metric("DCGM_FI_DEV_ROW_REMAP_FAILURE", Quantity::RowRemapFailure, 0, 1.0),
    metric("gpu_health", Quantity::Health, 0, 1.0),
    metric("amd_gpu_health", Quantity::Health, 0, 1.0),
    // A pod's part of a device: who asks for the pod alone learns nothing else.
    metric("hami_container_device_utilization_ratio", Quantity::Utilization, 8, 1.0),
    metric("Device_utilization_desc_of_container", Quantity::Utilization, 9, 1.0),
    metric("hami_vgpu_memory_used_bytes", Quantity::MemoryUsed, 8, BYTES),
    metric("vGPU_device_memory_usage_in_bytes", Quantity::MemoryUsed, 9, BYTES),
    metric("hami_vgpu_memory_limit_bytes", Quantity::MemoryTotal, 8, BYTES),
    metric("GPUDeviceSharedNum", Quantity::Share, 4, 1.0),
    metric("hami_gpu_shared_count", Quantity::Share, 5, 1.0),
];

/// Returns the metric of this name.
#[must_use]
pub fn metric_of(name: &str) -> Option<&'static ExporterMetric> {
    METRICS.iter().find(|metric| metric.name == name)
}

impl ExporterMetric {
    /// Returns a sample in our unit; `None` when no device can have it: NaN, infinities, sentinels, a utilization over 100.
    #[must_use]
    pub fn read(&self, value: f64) -> Option<f64> {
        let (lowest, highest) = self.quantity.range();
        let value = value * self.scale;
        // A ratio that a float brought to 100.00000001 is whole.
        (value.is_finite() && value >= lowest && value <= highest + 1e-6).then(|| value.min(highest))
    }
}

impl Quantity {
    /// Returns what is physically possible, in our unit.
    fn range(self) -> (f64, f64) {
        match self {
            Self::Utilization | Self::MemoryCopy => (0.0, 100.0),
            // 16 TiB in one device.
            Self::MemoryUsed | Self::MemoryFree => (0.0, 16_777_216.0),
            Self::MemoryTotal => (1.0, 16_777_216.0),
            Self::Power => (0.0, 5000.0),
            Self::PowerLimit => (1.0, 5000.0),
            Self::Temperature => (-40.0, 150.0),
            Self::Clock => (0.0, 20_000.0),
            Self::Xid => (0.0, 100_000.0),
            Self::RowRemapFailure | Self::Health => (0.0, 1.0),
            Self::Share => (0.0, f64::MAX),
        }
    }
}

/// Labels with the pod that holds a device, as (namespace, pod), the surest first. The first pair is what Prometheus
/// makes of an exporter's own labels where they clash with those of the target.
pub const POD_LABELS: [(&str, &str); 6] = [
    ("exported_namespace", "exported_pod"),
    ("pod_namespace", "pod_name"),
    ("namespace_name", "pod_name"),
    ("podnamespace", "podname"),
    ("kube_namespace", "kube_pod"),
    ("namespace", "pod"),
];

/// Labels with the container beside them.
pub const CONTAINER_LABELS: [&str; 5] = ["exported_container", "container_name", "ctrname", "kube_container", "container"];

/// What exporters call their own containers.
pub const EXPORTERS: [&str; 8] = [
    "exporter",
    "dcgm-exporter",
    "nvidia-dcgm-exporter",
    "nvidia-gpu-exporter",
    "node-exporter",
    "metrics-exporter-container",
    "amd-metrics-exporter",
    "vgpu-monitor",
];

/// Labels with the name of the node, the surest first.
pub(crate) const NODE_NAME_LABELS: [&str; 6] = ["Hostname", "hostname", "nodeid", "node", "node_name", "kubernetes_node"];

/// Labels with an address of the node, which counts only where no name is told.
pub(crate) const NODE_ADDRESS_LABELS: [&str; 2] = ["exported_instance", "instance"];

/// Labels with the device's identity.
pub const UUID_LABELS: [&str; 5] = ["UUID", "uuid", "gpu_uuid", "device_uuid", "deviceuuid"];

/// Labels with the device's number on its node.
pub const INDEX_LABELS: [&str; 6] = ["gpu", "gpu_id", "minor_number", "device_index", "deviceidx", "gpu_index"];

/// Labels with the device's model.
pub const MODEL_LABELS: [&str; 6] = ["modelName", "card_series", "card_model", "device_type", "devicetype", "name"];

/// All others that are read.
const OTHER_LABELS: [&str; 6] =
    ["GPU_I_PROFILE", "GPU_I_ID", "gpu_partition_id", "gpu_compute_partition_type", "gpu_memory_partition_type", "job"];

/// Returns every label that is read, so that a server may leave the others out.
pub fn labels() -> impl Iterator<Item = &'static str> {
    let pods = POD_LABELS.iter().flat_map(|(namespace, pod)| [*namespace, *pod]);
    let rest = [
        &CONTAINER_LABELS[..],
        &NODE_NAME_LABELS[..],
        &NODE_ADDRESS_LABELS[..],
        &UUID_LABELS[..],
        &INDEX_LABELS[..],
        &MODEL_LABELS[..],
        &OTHER_LABELS[..],
    ];
    let mut seen = std::collections::BTreeSet::new();
    pods.chain(rest.into_iter().flatten().copied()).filter(move |label| seen.insert(*label))
}

/// The codes that [`is_fatal_xid`] means.
pub const FATAL_XIDS: [u32; 8] = [48, 64, 74, 79, 95, 119, 120, 140];

/// Errors after which a device must not be used before somebody has looked at it (NVIDIA's catalog of XIDs): double bit
/// errors, row remapping failed, NVLink, fallen off the bus, uncontained errors, a firmware that does not answer,
/// unrecovered ECC errors. What a program can cause by itself is not among them.
#[must_use]
pub fn is_fatal_xid(code: u32) -> bool {
    FATAL_XIDS.contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_device_can_have_is_refused() {
        let read = |name: &str, value: f64| metric_of(name).unwrap().read(value);
        assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 97.0), Some(97.0));
        assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 0.0), Some(0.0));
        for garbage in [-1.0, 101.0, 2_147_483_632.0, 9_223_372_036_854_775_794.0, f64::NAN, f64::INFINITY] {
            assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", garbage), None, "{garbage}");
        }
        assert_eq!(read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.431), Some(43.1));
        assert_eq!(read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.000_000_001), Some(100.0));
        assert_eq!(read("nvidia_gpu_memory_used_bytes", 3.0 * 1024.0 * 1024.0), Some(3.0));
        assert_eq!(read("nvidia_gpu_power_usage_milliwatts", 312_500.0), Some(312.5));
        assert_eq!(read("DCGM_FI_DEV_GPU_TEMP", 151.0), None);
    }

    #[test]
    fn a_name_is_one_metric_and_a_label_is_read_once() {
        let names: std::collections::BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        assert_eq!(labels().filter(|label| *label == "pod_name").count(), 1);
    }
}
