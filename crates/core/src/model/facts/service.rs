//! The endpoints of a service, and the state of its autoscaler.

/// An endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `cluster`, `node`, `loadBalancer` or `ingress`.
    pub kind: &'static str,
    /// `None` until a URL is assigned.
    pub url: Option<String>,
}

impl Endpoint {
    pub fn new(kind: &'static str, url: String) -> Self {
        Self {
            kind,
            url: Some(url),
        }
    }
}

/// The current state of an autoscaler.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaler {
    pub min_replicas: u32,
    pub max_replicas: u32,
    /// The desired number of replicas. `None` before the autoscaler's first evaluation.
    pub desired_replicas: Option<u32>,
    pub metrics: Vec<Scaling>,
    /// Why the autoscaler does not scale.
    pub problem: Option<String>,
}

/// The name under which metrics adapters expose the number of requests that wait at a pod.
pub const QUEUE_LENGTH: &str = "inference_queue_length";

/// A metric that the autoscaler follows. It is in percent, except for the number of waiting
/// requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    pub metric: String,
    /// The current value. `None` while no adapter serves the metric.
    pub current: Option<f64>,
    pub target: Option<f64>,
}

impl Scaling {
    /// True for percent, false for a number of requests.
    pub fn is_percent(&self) -> bool {
        self.metric != QUEUE_LENGTH && !self.metric.contains("num_requests_waiting")
    }
}
