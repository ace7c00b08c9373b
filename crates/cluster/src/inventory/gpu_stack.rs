//! Lists the pods of GPU operators (driver, toolkit, device plugin, feature discovery, exporter),
//! selected by the labels of NVIDIA's and AMD's charts.

use futures::future::join;

use crate::transport::decode::{Condition, ListPage, WirePod};
use crate::{Failure, handles::InventoryApi};
use gpuctl_core::model::facts::gpu_stack::{StackLink, StackPod};

/// Label values, each with the component that it identifies. Sources:
/// NVIDIA/gpu-operator manifests (state-dra-driver, state-dcgm-exporter), NVIDIA/k8s-device-plugin,
/// NVIDIA/dcgm-exporter, kubernetes-sigs/dra-driver-nvidia-gpu, ROCm/gpu-operator,
/// ROCm/k8s-device-plugin, ROCm/k8s-gpu-dra-driver, utkuozdemir/nvidia_gpu_exporter,
/// Ascend/mind-cluster, intel/xpumanager and docs.habana.ai.
const PROGRAMS: [(&str, StackLink); 20] = [
    ("nvidia-driver-daemonset", StackLink::Driver),
    ("nvidia-container-toolkit-daemonset", StackLink::Toolkit),
    ("nvidia-device-plugin-daemonset", StackLink::DevicePlugin),
    ("nvidia-device-plugin", StackLink::DevicePlugin),
    ("amdgpu-dp-ds", StackLink::DevicePlugin),
    ("amd-gpu-device-plugin", StackLink::DevicePlugin),
    ("nvidia-dra-driver-kubelet-plugin", StackLink::DraDriver),
    ("nvidia-dra-driver-gpu", StackLink::DraDriver),
    ("dra-driver-nvidia-gpu", StackLink::DraDriver),
    ("k8s-gpu-dra-driver", StackLink::DraDriver),
    ("gpu-feature-discovery", StackLink::FeatureDiscovery),
    ("nvidia-dcgm-exporter", StackLink::Exporter),
    ("nvidia-dcgm-exporter-dra", StackLink::Exporter),
    ("dcgm-exporter", StackLink::Exporter),
    ("nvidia-gpu-exporter", StackLink::Exporter),
    ("habana-metric-exporter-ds", StackLink::Exporter),
    ("npu-exporter", StackLink::Exporter),
    ("intel-xpumanager", StackLink::Exporter),
    ("device-metrics-exporter", StackLink::Exporter),
    ("metrics-exporter", StackLink::Exporter),
];
const LABELS: [&str; 2] = ["app", "app.kubernetes.io/name"];

impl InventoryApi<'_> {
    /// Lists the pods of GPU operators in all namespaces.
    pub async fn gpu_stack(self) -> Result<Vec<StackPod>, Failure> {
        let [app, name] = LABELS.map(|label| self.stack_pods(label));
        let (app, name) = join(app, name).await;
        let mut pods = app?;
        for pod in name? {
            if pods.iter().all(|existing: &StackPod| {
                (&existing.namespace, &existing.name) != (&pod.namespace, &pod.name)
            }) {
                pods.push(pod);
            }
        }
        Ok(pods)
    }

    async fn stack_pods(self, label: &str) -> Result<Vec<StackPod>, Failure> {
        let names: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        let selector = format!("{label} in ({})", names.join(","));
        let mut pods = Vec::new();
        self.0
            .list("/api/v1/pods", &[("labelSelector", &selector)], |page| {
                let page: ListPage<WirePod<'_>> = page.objects()?;
                // The controllers of DRA drivers share a label with the pods on the nodes.
                let on_nodes = page.items.iter().filter(|pod| {
                    let mut values = pod.metadata.labels.values();
                    values.all(|value| value != "controller")
                });
                pods.extend(on_nodes.map(|pod| {
                    let program = pod.metadata.labels.get(label);
                    StackPod {
                        link: program
                            .and_then(|name| PROGRAMS.iter().find(|(program, _)| program == name))
                            .map(|(_, link)| *link),
                        namespace: pod.metadata.namespace.to_string(),
                        name: pod.metadata.name.to_string(),
                        node: pod.spec.node_name.to_string(),
                        ready: pod.status.conditions.iter().any(|condition| {
                            condition.kind == "Ready" && Condition::holds(condition)
                        }),
                        trouble: pod.status.trouble(),
                    }
                }));
                Ok(())
            })
            .await?;
        Ok(pods)
    }
}
