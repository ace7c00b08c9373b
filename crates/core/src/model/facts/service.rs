//! How a service is reached, and what its autoscaler does.

/// One way to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `cluster`, `node`, `loadBalancer` or `ingress`.
    pub kind: &'static str,
    /// `None` while nobody has given one.
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

/// An autoscaler as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaler {
    pub min_replicas: u32,
    pub max_replicas: u32,
    /// What it wants now; `None` before it has looked.
    pub desired_replicas: Option<u32>,
    pub metrics: Vec<Scaling>,
    /// Why it does not scale.
    pub problem: Option<String>,
}

/// The name under which adapters serve the requests that wait at a pod.
pub const QUEUE_LENGTH: &str = "inference_queue_length";

/// One figure that it follows: percent, but for requests that wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    pub metric: String,
    /// `None` while nobody serves it.
    pub current: Option<f64>,
    pub target: Option<f64>,
}

impl Scaling {
    /// Returns true for percent, false for a number of requests.
    pub fn is_percent(&self) -> bool {
        self.metric != QUEUE_LENGTH && !self.metric.contains("num_requests_waiting")
    }
}
