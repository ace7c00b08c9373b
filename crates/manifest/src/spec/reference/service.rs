//! Reference table of the `service:` and `autoscaling:` blocks.

use super::super::shape::Shape::{
    Boolean, Duration, HealthCheck, ShortDuration, Text, UrlPath, Whole, Word,
};
use super::super::shape::{Field, field};

/// The map form of a health check.
pub const HEALTH_CHECK: &[Field] = &[
    field(
        &["path"],
        UrlPath,
        "Path that answers when the service is up.",
        "/health",
    )
    .needed(),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the check, where it is another.",
        "9090",
    ),
    field(
        &["initial_delay", "initialDelay"],
        Duration,
        "Time before the first try.",
        "30s",
    ),
    field(&["period"], Duration, "Time between two tries.", "10s"),
];

pub(in crate::spec) const SERVICE: &[Field] = &[
    field(
        &["replicas"],
        Whole(0, 10_000),
        "Pods that serve; 0 makes it paused. A notebook is one.",
        "1",
    ),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the service, and of the program unless targetPort says otherwise.",
        "8000",
    )
    .needed_to_serve(),
    field(
        &["targetPort", "target_port"],
        Whole(1, 65_535),
        "Port on which the program listens, where it is another.",
        "8080",
    ),
    field(
        &["protocol"],
        Word(&["TCP", "UDP", "SCTP"]),
        "Protocol of the port.",
        "TCP",
    ),
    field(
        &["type"],
        Word(&["ClusterIP", "NodePort", "LoadBalancer"]),
        "How it is reached from outside.",
        "ClusterIP",
    ),
    field(
        &["host"],
        Text,
        "Host name of an Ingress.",
        "model.example.com",
    ),
    field(
        &["health_check", "healthCheck", "health-check"],
        HealthCheck,
        "Path that answers when the service is up, or {path, port, initial_delay, period}.",
        "/health",
    ),
    field(&["timeout"], Duration, "Longest time of a request.", "60s"),
    field(
        &["request_limit", "requestLimit", "request-limit"],
        Whole(1, u32::MAX),
        "Requests per second, enforced by an Ingress where `host` asks for one.",
        "100",
    ),
];

pub(in crate::spec) const AUTOSCALING: &[Field] = &[
    field(
        &["enabled"],
        Boolean,
        "Whether it scales; true without it.",
        "true",
    ),
    field(
        &["minReplicas", "min_replicas"],
        Whole(1, 10_000),
        "Fewest pods; 1 without it.",
        "1",
    ),
    field(
        &["maxReplicas", "max_replicas"],
        Whole(1, 10_000),
        "Most pods.",
        "4",
    ),
    field(
        &[
            "targetGPUUtilization",
            "target_gpu_utilization",
            "targetGpuUtilization",
        ],
        Whole(1, 100),
        "Percent of GPU utilization that is aimed at.",
        "70",
    ),
    field(
        &["targetMemoryUtilization", "target_memory_utilization"],
        Whole(1, 100),
        "Percent of GPU memory that is aimed at.",
        "80",
    ),
    field(
        &[
            "targetCPUUtilization",
            "target_cpu_utilization",
            "targetCpuUtilization",
        ],
        Whole(1, 100),
        "Percent of the requested CPU that is aimed at.",
        "60",
    ),
    field(
        &["targetQueueLength", "target_queue_length"],
        Whole(1, 10_000),
        "Requests that wait at each pod of an inference server (vLLM, SGLang, text-generation-inference) that is aimed at.",
        "4",
    ),
    field(
        &["scaleUpDelay", "scale_up_delay"],
        ShortDuration,
        "Time that load must last before pods are added.",
        "1m",
    ),
    field(
        &["scaleDownDelay", "scale_down_delay"],
        ShortDuration,
        "Time that quiet must last before pods are taken away.",
        "5m",
    ),
];
