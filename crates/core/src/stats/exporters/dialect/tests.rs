//! Tests the tables with the literal text of each exporter.

use super::*;
use crate::model::{Inventory, Mebibytes, Percent, Reading, Watts};
use crate::stats::exporters::devices::ExporterReading;
use crate::stats::exporters::identity::ApiFacts;
use crate::stats::exporters::{devices, exposition};

#[test]
fn impossible_values_are_dropped() {
    let read = |name: &str, value: f64| metric_of(name).unwrap().read(value);
    assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 97.0), Some(97.0));
    assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", 0.0), Some(0.0));
    for garbage in [
        -1.0,
        101.0,
        2_147_483_632.0,
        9_223_372_036_854_775_794.0,
        f64::NAN,
        f64::INFINITY,
    ] {
        assert_eq!(read("DCGM_FI_DEV_GPU_UTIL", garbage), None, "{garbage}");
    }
    assert_eq!(read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.431), Some(43.1));
    assert_eq!(
        read("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1.000_000_001),
        Some(100.0)
    );
    assert_eq!(
        read("nvidia_gpu_memory_used_bytes", 3.0 * 1024.0 * 1024.0),
        Some(3.0)
    );
    assert_eq!(
        read("nvidia_gpu_power_usage_milliwatts", 312_500.0),
        Some(312.5)
    );
    assert_eq!(read("DCGM_FI_DEV_GPU_TEMP", 151.0), None);
}

#[test]
fn metric_names_and_labels_are_unique() {
    let names: BTreeSet<_> = metrics().map(|metric| metric.name).collect();
    assert_eq!(names.len(), metrics().count());
    assert_eq!(labels().filter(|label| *label == "pod_name").count(), 1);
}

#[test]
fn dialects_have_device_labels_but_no_target_labels() {
    for dialect in DIALECTS {
        assert!(!dialect.metrics.is_empty(), "{dialect:?}");
        assert!(
            !dialect.uuid.is_empty() || !dialect.index.is_empty(),
            "{dialect:?}"
        );
        assert!(
            !dialect.pod.contains(&PLAIN_POD) && !dialect.pod.contains(&EXPORTED_POD),
            "{dialect:?}"
        );
    }
}

/// Reads the literal text of an exporter as scraped from node `n`, and returns the reading of each
/// device.
fn readings(text: &str) -> Vec<Reading> {
    let samples = ExporterReading {
        values: exposition::read(text, "n", 0),
        ..ExporterReading::default()
    };
    devices::read(&samples, &Inventory::default(), &ApiFacts::default()).devices
}

/// Returns utilization, used memory in MiB, total memory in MiB, power and the holder.
type Row = (
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<f64>,
    Option<String>,
);

fn row(reading: &Reading) -> Row {
    (
        reading.utilization.map(|Percent(value)| value),
        reading.memory_used.map(|Mebibytes(value)| value),
        reading.memory_total.map(|Mebibytes(value)| value),
        reading.power.map(|Watts(value)| value),
        reading.holders.first().map(|(_, pod)| pod.clone()),
    )
}

#[test]
fn nvidia_smi_ratios_and_bytes_are_converted() {
    // docs/METRICS.md of utkuozdemir/nvidia_gpu_exporter.
    let text = r#"
nvidia_smi_gpu_info{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa",name="NVIDIA GeForce RTX 2080 SUPER",driver_version="471.11",cuda_version="11.4",pci_bus_id="00000000:71:00.0",index="0"} 1
nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0.42
nvidia_smi_memory_used_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 7.06740224e+08
nvidia_smi_memory_total_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 8.589934592e+09
nvidia_smi_power_draw_watts{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 28.07
nvidia_smi_temperature_gpu{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 34
nvidia_smi_last_collect_success 1
"#;
    let readings = readings(text);
    // 706740224 / 2^20 = 674 MiB, and 8589934592 / 2^20 = 8192 MiB.
    let expected = (Some(42.0), Some(674.0), Some(8192.0), Some(28.07), None);
    assert_eq!(readings.iter().map(row).collect::<Vec<_>>(), [expected]);
    assert_eq!(
        readings[0].uuid.as_deref(),
        Some("GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa")
    );
    assert_eq!(
        readings[0].model.as_deref(),
        Some("NVIDIA GeForce RTX 2080 SUPER")
    );
}

#[test]
fn lower_case_metrics_of_the_first_dcgm_exporter_are_read() {
    // README of exporters/prometheus-dcgm in NVIDIA/gpu-monitoring-tools.
    let text = r#"
dcgm_gpu_temp{container_name="pod1-ctr",gpu="0",pod_name="pod1",pod_namespace="default",uuid="GPU-2b399198-c670-a848-173b-d3400051a200"} 33
dcgm_gpu_temp{container_name="pod1-ctr",gpu="1",pod_name="pod1",pod_namespace="default",uuid="GPU-9567a9e7-341e-bb7e-fcf5-788d8caa50f9"} 34
dcgm_gpu_utilization{container_name="pod1-ctr",gpu="0",pod_name="pod1",pod_namespace="default",uuid="GPU-2b399198-c670-a848-173b-d3400051a200"} 0
dcgm_gpu_utilization{container_name="pod1-ctr",gpu="1",pod_name="pod1",pod_namespace="default",uuid="GPU-9567a9e7-341e-bb7e-fcf5-788d8caa50f9"} 57
dcgm_power_usage{container_name="pod1-ctr",gpu="0",pod_name="pod1",pod_namespace="default",uuid="GPU-2b399198-c670-a848-173b-d3400051a200"} 31.737
"#;
    let pod = || Some("pod1".to_owned());
    assert_eq!(
        readings(text).iter().map(row).collect::<Vec<_>>(),
        [
            (Some(0.0), None, None, Some(31.737), pod()),
            (Some(57.0), None, None, None, pod())
        ]
    );
}

#[test]
fn gke_metrics_have_devices_of_containers() {
    // Labels of pkg/gpu/nvidia/metrics/metrics.go. The metrics of nodes are not read.
    let text = r#"
duty_cycle{accelerator_id="GPU-a",container="main",make="nvidia",model="Tesla T4",namespace="team",pod="train-0"} 73
memory_used{accelerator_id="GPU-a",container="main",make="nvidia",model="Tesla T4",namespace="team",pod="train-0"} 1.048576e+09
memory_total{accelerator_id="GPU-a",container="main",make="nvidia",model="Tesla T4",namespace="team",pod="train-0"} 1.6777216e+10
request{container="main",namespace="team",pod="train-0",resource_name="nvidia.com/gpu"} 1
duty_cycle_gpu_node{accelerator_index="0",make="nvidia",model="Tesla T4",node_name="n"} 73
memory_used 12
memory_used{id="3",instance="10.0.0.1:8080",job="cache",namespace="team",pod="train-0",node="n"} 5e9
"#;
    // 1048576000 / 2^20 = 1000 MiB, and 16777216000 / 2^20 = 16000 MiB.
    let held = (
        Some(73.0),
        Some(1000.0),
        Some(16_000.0),
        None,
        Some("train-0".to_owned()),
    );
    let read = readings(text);
    assert_eq!(read.iter().map(row).collect::<Vec<_>>(), [held]);
    assert_eq!(read[0].model.as_deref(), Some("Tesla T4"));
    let managed = r#"
kubernetes_io:container_accelerator_duty_cycle{accelerator_id="48-0",make="cloud-tpu",model="tpu-v5",namespace_name="team",pod_name="tpu-0",container_name="main",cluster_name="c",project_id="p"} 41
container_accelerator_duty_cycle{acc_id="GPU-b",container="main",id="/kubepods/x",make="nvidia",model="Tesla K80",namespace="team",pod="old-0"} 12
"#;
    let utilization: Vec<_> = readings(managed)
        .iter()
        .map(|reading| (row(reading).0, row(reading).4))
        .collect();
    assert_eq!(
        utilization,
        [
            (Some(41.0), Some("tpu-0".to_owned())),
            (Some(12.0), Some("old-0".to_owned()))
        ]
    );
}

#[test]
fn tiles_of_an_intel_device_are_not_devices() {
    let common = r#"dev_file="card0",dev_name="Intel(R) Data Center GPU Max 1550",kube_container="main",kube_namespace="team",kube_pod="train-0",node="n",pci_bdf="0000:4d:00.0",pci_dev="0xbd5",uuid="01000000-0000-0000-0000-0000004d0000",vendor="Intel(R) Corporation""#;
    let text = format!(
        "xpum_engine_ratio{{{common}}} 0.6\n\
         xpum_engine_ratio{{{common},sub_dev=\"0\"}} 0.9\n\
         xpum_engine_ratio{{{common},sub_dev=\"1\"}} 0.3\n\
         xpum_power_watts{{{common}}} 412.5\n\
         xpum_temperature_celsius{{{common},location=\"mem\"}} 61\n"
    );
    // The exporter averages both tiles: (90 + 30) / 2 = 60.
    let held = (
        Some(60.0),
        None,
        None,
        Some(412.5),
        Some("train-0".to_owned()),
    );
    let read = readings(&text);
    assert_eq!(read.iter().map(row).collect::<Vec<_>>(), [held]);
    assert_eq!(read[0].temperature, None);
}

#[test]
fn ascend_gaudi_and_neuron_are_read() {
    let ascend = r#"
npu_chip_info_utilization{container_name="main",id="0",model_name="910B3-Ascend-V1",namespace="team",pcie_bus_info="0000:C1:00.0",pod_name="train-0",vdie_id="C43DA66C-012042DB"} 36
npu_chip_info_power{container_name="main",id="0",model_name="910B3-Ascend-V1",namespace="team",pcie_bus_info="0000:C1:00.0",pod_name="train-0",vdie_id="C43DA66C-012042DB"} 188.4
npu_chip_info_hbm_total_memory{container_name="main",id="0",model_name="910B3-Ascend-V1",namespace="team",pcie_bus_info="0000:C1:00.0",pod_name="train-0",vdie_id="C43DA66C-012042DB"} 65536
npu_chip_info_hbm_used_memory{container_name="main",id="0",model_name="910B3-Ascend-V1",namespace="team",pcie_bus_info="0000:C1:00.0",pod_name="train-0",vdie_id="C43DA66C-012042DB"} 8192
npu_chip_info_used_memory{container_name="main",id="0",model_name="910B3-Ascend-V1",namespace="team",pcie_bus_info="0000:C1:00.0",pod_name="train-0",vdie_id="C43DA66C-012042DB"} 0
npu_chip_info_health_status{container_name="",id="1",model_name="910B3-Ascend-V1",namespace="",pcie_bus_info="0000:01:00.0",pod_name="",vdie_id="C43DA66C-012042DC"} 0
"#;
    let read = readings(ascend);
    let train = Some("train-0".to_owned());
    assert_eq!(
        read.iter().map(row).collect::<Vec<_>>(),
        [
            (Some(36.0), Some(8192.0), Some(65_536.0), Some(188.4), train),
            (None, None, None, None, None)
        ]
    );
    assert_eq!(read[1].fault.as_deref(), Some("unhealthy"));
    let gaudi = r#"
habanalabs_utilization{UUID="01P4-HL3080A0-1",device="2"} 88
habanalabs_memory_used_bytes{UUID="01P4-HL3080A0-1",device="2"} 1.073741824e+09
habanalabs_power_mW{UUID="01P4-HL3080A0-1",device="2"} 312500
"#;
    let read = readings(gaudi);
    assert_eq!(
        read.iter().map(row).collect::<Vec<_>>(),
        [(Some(88.0), Some(1024.0), None, Some(312.5), None)]
    );
    assert_eq!(read[0].index, 2);
    let neuron = r#"
neuroncore_utilization_ratio{availability_zone="us-east-2a",instance_id="i-0823d657f57057590",instance_name="",instance_type="inf1.xlarge",neuroncore="0",region="us-east-2",runtime_tag="15439",subnet_id="subnet-dd4589b6"} 0.86
neuroncore_utilization_ratio{availability_zone="us-east-2a",instance_id="i-0823d657f57057590",instance_name="",instance_type="inf1.xlarge",neuroncore="1",region="us-east-2",runtime_tag="15439",subnet_id="subnet-dd4589b6"} 0.0
"#;
    let utilization: Vec<_> = readings(neuron).iter().map(|one| row(one).0).collect();
    assert_eq!(utilization, [Some(86.0), Some(0.0)]);
}

#[test]
fn dcgm_jobs_of_slurm_and_fabric_health_are_read() {
    // `hpc_job` repeats a device for each Slurm job. DCGM's summary of the fabric is 1 if healthy,
    // 2 if unhealthy and 3 with limited capacity (NVML_GPU_FABRIC_HEALTH_SUMMARY).
    let text = r#"
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="n",hpc_job="4711"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="n",hpc_job="4712"} 97
DCGM_FI_DEV_POWER_MGMT_LIMIT{gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="n"} 700
DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY{gpu="0",UUID="GPU-a",pci_bus_id="00000000:18:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",hostname="n"} 1
DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY{gpu="1",UUID="GPU-b",pci_bus_id="00000000:2A:00.0",device="nvidia1",modelName="NVIDIA H100 80GB HBM3",hostname="n"} 2
"#;
    let read = readings(text);
    let shown: Vec<_> = read
        .iter()
        .map(|reading| {
            let limit = reading.power_limit.map(|Watts(limit)| limit);
            (row(reading).0, limit, reading.fault.as_deref())
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Some(97.0), Some(700.0), None),
            (None, None, Some("fabric unhealthy"))
        ]
    );
}

#[test]
fn hami_devices_have_their_own_use_and_the_pods_that_share_them() {
    // Labels of HAMi's cmd/vGPUmonitor/metrics.go. Its ratios are percentages.
    let text = r#"
hami_host_gpu_utilization_ratio{device_index="0",device_type="NVIDIA-Tesla V100",device_uuid="GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec"} 71
hami_host_gpu_memory_used_bytes{device_index="0",device_type="NVIDIA-Tesla V100",device_uuid="GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec"} 2.87309824e+08
hami_container_device_utilization_ratio{container="main",device_uuid="GPU-00552014-5c87-89ac-b1a6-7b53aa24b0ec",namespace="team",pod="share-0",vdevice_index="0"} 30
"#;
    // 287309824 / 2^20 = 274 MiB.
    let shared = (
        Some(71.0),
        Some(274.0),
        None,
        None,
        Some("share-0".to_owned()),
    );
    assert_eq!(readings(text).iter().map(row).collect::<Vec<_>>(), [shared]);
}
