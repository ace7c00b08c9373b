//! Endpoints of a service, and the state of its autoscaler.

/// An endpoint of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Kind of address: `cluster`, `node`, `loadBalancer` or `ingress`.
    pub kind: &'static str,
    /// URL of the endpoint, or `None` until one is assigned.
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

/// State of an autoscaler.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaler {
    pub min_replicas: u32,
    pub max_replicas: u32,
    /// Number of replicas that the autoscaler wants, or `None` before its first evaluation.
    pub desired_replicas: Option<u32>,
    pub metrics: Vec<Scaling>,
    /// Reason why the autoscaler does not scale.
    pub problem: Option<String>,
}

/// Name under which metrics adapters expose the number of requests that wait at a pod.
pub const QUEUE_LENGTH: &str = "inference_queue_length";

/// A metric that the autoscaler follows, in percent or, for waiting requests, as a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    pub metric: String,
    /// Current value, or `None` while no adapter serves the metric.
    pub current: Option<f64>,
    pub target: Option<f64>,
}

impl Scaling {
    /// Returns true for percent and false for a number of requests.
    pub fn is_percent(&self) -> bool {
        self.metric != QUEUE_LENGTH && !self.metric.contains("num_requests_waiting")
    }
}
