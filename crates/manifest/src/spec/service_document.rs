//! Blocks that only documents of services and notebooks have.

use std::time::Duration;

/// `service`: how clients reach a job.
#[derive(Clone, Debug)]
pub struct Service {
    /// Number of replicas. 0 creates a paused service.
    pub replicas: u32,
    /// The port of the Service.
    pub port: Option<u16>,
    /// The container's port, if it differs from the Service's.
    pub target_port: Option<u16>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<&'static str>,
    /// The type of the Service.
    pub exposure: &'static str,
    /// The host name of an Ingress.
    pub host: Option<String>,
    pub health_check: Option<HealthCheck>,
    /// Longest duration of a request.
    pub timeout: Option<Duration>,
    /// Limit on the requests per second.
    pub request_limit: Option<u32>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            replicas: 1,
            port: None,
            target_port: None,
            protocol: None,
            exposure: "ClusterIP",
            host: None,
            health_check: None,
            timeout: None,
            request_limit: None,
        }
    }
}

/// `service.health_check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Path of the HTTP probe.
    pub path: String,
    /// The probed port, if it differs from the container's.
    pub port: Option<u16>,
    /// Time before the first probe.
    pub initial_delay: Option<Duration>,
    /// Time between probes.
    pub period: Option<Duration>,
}

/// `autoscaling`.
#[derive(Clone, Debug)]
pub struct Autoscaling {
    /// Whether autoscaling is on. If false, the other settings have no effect.
    pub enabled: bool,
    pub min_replicas: u32,
    pub max_replicas: u32,
    /// Target GPU utilization in percent.
    pub gpu_utilization: Option<u32>,
    /// Target GPU memory utilization in percent.
    pub memory_utilization: Option<u32>,
    /// Target CPU utilization in percent of the request.
    pub cpu_utilization: Option<u32>,
    /// Target number of waiting requests per pod.
    pub queue_length: Option<u32>,
    /// Stabilization window for scaling up.
    pub scale_up_delay: Option<Duration>,
    /// Stabilization window for scaling down.
    pub scale_down_delay: Option<Duration>,
}
