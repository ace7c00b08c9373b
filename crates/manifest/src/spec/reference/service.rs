//! Reference table of the `service:` and `autoscaling:` blocks.

use super::super::shape::Shape::{
    Boolean, Duration, HealthCheck, ShortDuration, Text, UrlPath, Whole, Word,
};
use super::super::shape::{Field, field};

/// Fields of the map form of a health check.
pub const HEALTH_CHECK: &[Field] = &[
    field(
        &["path"],
        UrlPath,
        "HTTP path that answers once the service is ready.",
        "/health",
    )
    .needed(),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the check, if it differs from the service port.",
        "9090",
    ),
    field(
        &["initial_delay", "initialDelay"],
        Duration,
        "Time before the first check.",
        "30s",
    ),
    field(&["period"], Duration, "Time between checks.", "10s"),
];

pub(in crate::spec) const SERVICE: &[Field] = &[
    field(
        &["replicas"],
        Whole(0, 10_000),
        "Number of replicas; 0 creates a paused service. A notebook always has one.",
        "1",
    ),
    field(
        &["port"],
        Whole(1, 65_535),
        "Port of the service, and of the program unless targetPort is set.",
        "8000",
    )
    .needed_to_serve(),
    field(
        &["targetPort", "target_port"],
        Whole(1, 65_535),
        "Port that the program listens on, if different.",
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
        "Kubernetes Service type, which determines how it can be reached.",
        "ClusterIP",
    ),
    field(
        &["host"],
        Text,
        "Host name of the Ingress.",
        "model.example.com",
    ),
    field(
        &["health_check", "healthCheck", "health-check"],
        HealthCheck,
        "HTTP path that answers once the service is ready, or {path, port, initial_delay, period}.",
        "/health",
    ),
    field(
        &["timeout"],
        Duration,
        "Maximum duration of a request.",
        "60s",
    ),
    field(
        &["request_limit", "requestLimit", "request-limit"],
        Whole(1, u32::MAX),
        "Maximum requests per second, enforced by the Ingress; needs `host`.",
        "100",
    ),
];

pub(in crate::spec) const AUTOSCALING: &[Field] = &[
    field(
        &["enabled"],
        Boolean,
        "Whether autoscaling is on; default true.",
        "true",
    ),
    field(
        &["minReplicas", "min_replicas"],
        Whole(1, 10_000),
        "Minimum number of replicas; default 1.",
        "1",
    ),
    field(
        &["maxReplicas", "max_replicas"],
        Whole(1, 10_000),
        "Maximum number of replicas.",
        "4",
    ),
    field(
        &[
            "targetGPUUtilization",
            "target_gpu_utilization",
            "targetGpuUtilization",
        ],
        Whole(1, 100),
        "Target GPU utilization in percent.",
        "70",
    ),
    field(
        &["targetMemoryUtilization", "target_memory_utilization"],
        Whole(1, 100),
        "Target GPU memory utilization in percent.",
        "80",
    ),
    field(
        &[
            "targetCPUUtilization",
            "target_cpu_utilization",
            "targetCpuUtilization",
        ],
        Whole(1, 100),
        "Target CPU utilization in percent of the request.",
        "60",
    ),
    field(
        &["targetQueueLength", "target_queue_length"],
        Whole(1, 10_000),
        "Target number of waiting requests per pod of an inference server (vLLM, SGLang, text-generation-inference).",
        "4",
    ),
    field(
        &["scaleUpDelay", "scale_up_delay"],
        ShortDuration,
        "Time that a high load must last before pods are added.",
        "1m",
    ),
    field(
        &["scaleDownDelay", "scale_down_delay"],
        ShortDuration,
        "Time that a low load must last before pods are removed.",
        "5m",
    ),
];
