//! Builds the HorizontalPodAutoscaler of a service. Kubernetes has no resource metric for GPUs:
//! their values come from the custom metrics API, under names that the cluster's adapter chooses.
//! The API server also accepts an autoscaler for a metric that does not exist, but this autoscaler
//! never scales. Therefore gpuctl looks up the metric first, and warns if it is missing.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingRules, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec, MetricIdentifier, MetricSpec,
    MetricTarget, PodsMetricSource, ResourceMetricSource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::spec::{Autoscaling, JobDocument};
use gpuctl_core::model::facts::service::QUEUE_LENGTH;

use super::labels::metadata;
use super::servers::spans_nodes;
use super::{Object, Served, Target, groups};

/// Names under which adapters serve the mean utilization of a pod's GPUs in percent, with gpuctl's
/// own name first.
const UTILIZATION: [&str; 4] = [
    "gpu_utilization",
    "DCGM_FI_DEV_GPU_UTIL",
    "dcgm_gpu_utilization",
    "DCGM_FI_DEV_GPU_UTIL_AVG",
];
/// Names of GPU memory utilization. Does not include `DCGM_FI_DEV_MEM_COPY_UTIL`, which measures
/// memory bandwidth.
const MEMORY: [&str; 1] = ["gpu_memory_utilization"];
/// Names of the number of requests waiting at a pod, with gpuctl's own name first.
const QUEUE: [&str; 3] = [
    QUEUE_LENGTH,
    "vllm:num_requests_waiting",
    "vllm_num_requests_waiting",
];

/// Programs that allocate most GPU memory at startup, regardless of the load.
const PREALLOCATING: [&str; 6] = [
    "vllm",
    "sglang",
    "tensorrt_llm",
    "trtllm",
    "lmdeploy",
    "text-generation-launcher",
];

/// Builds the metrics with their target values, and warns about metrics that the cluster does not
/// serve.
fn metrics(
    target: &Target,
    autoscaling: &Autoscaling,
    warnings: &mut Vec<String>,
) -> Vec<MetricSpec> {
    let (mut metrics, mut missing) = (Vec::new(), Vec::new());
    let targets = [
        (autoscaling.gpu_utilization, &UTILIZATION[..]),
        (autoscaling.memory_utilization, &MEMORY[..]),
        (autoscaling.queue_length, &QUEUE[..]),
    ];
    for (target_value, names) in targets {
        let Some(target_value) = target_value else {
            continue;
        };
        let name = target
            .served
            .as_ref()
            .map_or(Ok(names[0]), |served| served_name(names, served));
        missing.extend(name.err());
        metrics.push(pods_metric(name.unwrap_or(names[0]), target_value));
    }
    if let Some(served) = target.served.as_ref().filter(|_| !missing.is_empty()) {
        warnings.push(unserved_warning(&missing, served));
    }
    if let Some(percent) = autoscaling.cpu_utilization {
        metrics.push(cpu_metric(percent));
        if target
            .served
            .as_ref()
            .is_some_and(|served| !served.resource_metrics)
        {
            let message = "this cluster does not serve metrics.k8s.io, so autoscaling on CPU does not work; install metrics-server";
            warnings.push(message.to_owned());
        }
    }
    metrics
}

pub(super) fn autoscaler(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
    autoscaling: &Autoscaling,
    warnings: &mut Vec<String>,
) -> Object {
    let metrics = metrics(target, autoscaling, warnings);
    if autoscaling.memory_utilization.is_some() && preallocates(job) {
        let message = "targetMemoryUtilization: this server allocates its GPU memory at startup regardless of the load, so the \
                       autoscaler would scale to maxReplicas (use targetGPUUtilization or targetQueueLength)";
        warnings.push(message.to_owned());
    }
    let (api, kind) = if spans_nodes(job) {
        (groups::API, "LeaderWorkerSet")
    } else {
        ("apps/v1", "Deployment")
    };
    let count = |number: u32| i32::try_from(number).expect("at most 10,000 replicas");
    let window = |delay: Option<std::time::Duration>| {
        delay.map(|delay| HPAScalingRules {
            stabilization_window_seconds: Some(
                i32::try_from(delay.as_secs()).expect("at most an hour"),
            ),
            ..HPAScalingRules::default()
        })
    };
    let (scale_up, scale_down) = (
        window(autoscaling.scale_up_delay),
        window(autoscaling.scale_down_delay),
    );
    let body = HorizontalPodAutoscaler {
        metadata: metadata(job, target, job.id(), labels),
        spec: Some(HorizontalPodAutoscalerSpec {
            scale_target_ref: CrossVersionObjectReference {
                api_version: Some(api.to_owned()),
                kind: kind.to_owned(),
                name: job.id().to_owned(),
            },
            min_replicas: Some(count(autoscaling.min_replicas)),
            max_replicas: count(autoscaling.max_replicas),
            metrics: Some(metrics),
            behavior: (scale_up.is_some() || scale_down.is_some()).then_some(
                HorizontalPodAutoscalerBehavior {
                    scale_up,
                    scale_down,
                },
            ),
        }),
        status: None,
    };
    Object::new(&body, "horizontalpodautoscalers")
}

/// Returns the first of `names` that the cluster serves, or the first name as the error.
fn served_name<'n>(names: &[&'n str], served: &Served) -> Result<&'n str, &'n str> {
    let is_served = |name: &&&str| {
        served
            .custom_metrics
            .as_ref()
            .is_some_and(|metrics| metrics.contains(**name))
    };
    names.iter().find(is_served).copied().ok_or(names[0])
}

/// Explains that the autoscaler will not scale until its metrics are served.
fn unserved_warning(missing: &[&str], served: &Served) -> String {
    let names = missing.join(" and ");
    if served.custom_metrics.is_some() {
        return format!(
            "the custom metrics API of this cluster does not serve pods/{names}; autoscaling on them does not work until it does"
        );
    }
    format!(
        "this cluster does not serve custom.metrics.k8s.io, so autoscaling on {names} does not work and the replica count stays the same \
         (install prometheus-adapter with the rules in examples/autoscaling)"
    )
}

fn pods_metric(name: &str, target: u32) -> MetricSpec {
    MetricSpec {
        type_: "Pods".to_owned(),
        pods: Some(PodsMetricSource {
            metric: MetricIdentifier {
                name: name.to_owned(),
                selector: None,
            },
            target: MetricTarget {
                type_: "AverageValue".to_owned(),
                average_value: Some(Quantity(target.to_string())),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn cpu_metric(percent: u32) -> MetricSpec {
    MetricSpec {
        type_: "Resource".to_owned(),
        resource: Some(ResourceMetricSource {
            name: "cpu".to_owned(),
            target: MetricTarget {
                type_: "Utilization".to_owned(),
                average_utilization: Some(i32::try_from(percent).expect("at most 100")),
                ..MetricTarget::default()
            },
        }),
        ..MetricSpec::default()
    }
}

fn preallocates(job: &JobDocument) -> bool {
    let words = job.line();
    PREALLOCATING
        .iter()
        .any(|program| words.contains(program) || job.image.contains(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_the_names_that_the_cluster_serves() {
        let served = |names: &[&str]| Served {
            custom_metrics: Some(names.iter().map(ToString::to_string).collect()),
            ..Served::default()
        };
        assert_eq!(
            served_name(&UTILIZATION, &served(&["DCGM_FI_DEV_GPU_UTIL", "x"])),
            Ok("DCGM_FI_DEV_GPU_UTIL")
        );
        let two_names = served(&["DCGM_FI_DEV_GPU_UTIL", "gpu_utilization"]);
        assert_eq!(served_name(&UTILIZATION, &two_names), Ok("gpu_utilization"));
        // Memory bandwidth is not memory utilization.
        let copy = served(&["DCGM_FI_DEV_MEM_COPY_UTIL"]);
        assert_eq!(served_name(&MEMORY, &copy), Err("gpu_memory_utilization"));
        assert!(unserved_warning(&["a", "b"], &copy).contains("does not serve pods/a and b"));
        assert!(
            unserved_warning(&["a"], &Served::default())
                .contains("does not serve custom.metrics.k8s.io")
        );
    }
}
