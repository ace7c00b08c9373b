//! The parts of a document that only services and notebooks have.

use std::time::Duration;

/// `service`: how a job is reached.
#[derive(Clone, Debug)]
pub struct Service {
    /// 0 makes a service that is paused.
    pub replicas: u32,
    /// A port of the container or Service.
    pub port: Option<u16>,
    /// The port that the container listens on, if another.
    pub target_port: Option<u16>,
    /// `TCP` or `UDP`.
    pub protocol: Option<&'static str>,
    /// The type of the Service.
    pub exposure: &'static str,
    /// The host of an Ingress.
    pub host: Option<String>,
    /// Probes.
    pub health_check: Option<HealthCheck>,
    /// Longest request.
    pub timeout: Option<Duration>,
    /// Requests per second.
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
    /// The path of an HTTP probe.
    pub path: String,
    /// A port of the container or Service.
    pub port: Option<u16>,
    /// Time before the first probe.
    pub initial_delay: Option<Duration>,
    /// Time between two probes.
    pub period: Option<Duration>,
}

/// `autoscaling`.
#[derive(Clone, Debug)]
pub struct Autoscaling {
    /// False switches it off and keeps the settings.
    pub enabled: bool,
    /// Lower bound.
    pub min_replicas: u32,
    /// Upper bound.
    pub max_replicas: u32,
    /// Percent.
    pub gpu_utilization: Option<u32>,
    /// Percent of GPU memory.
    pub memory_utilization: Option<u32>,
    /// Target in percent of the request.
    pub cpu_utilization: Option<u32>,
    /// Requests that wait at each pod.
    pub queue_length: Option<u32>,
    /// Stabilization window upwards.
    pub scale_up_delay: Option<Duration>,
    /// Stabilization window downwards.
    pub scale_down_delay: Option<Duration>,
}
