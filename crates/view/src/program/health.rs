//! Renders `doctor` and the response of `/health`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::clean;
use gpuctl_core::model::contract::check::{CheckStatus, ClusterVerdict, DoctorCheck};

/// The state of gpuctl's analysis and of its connections.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HealthStatus {
    /// `healthy`, `degraded` without Prometheus, or `unhealthy` when the cluster does not answer or
    /// analyses do not finish.
    pub status: &'static str,
    pub prometheus_connected: bool,
    /// `null` before the first successful analysis, and in `doctor`, which runs none.
    pub last_analysis: Option<Timestamp>,
    /// True when no analysis has finished for three intervals.
    pub analysis_timeout: bool,
    pub ai_enabled: bool,
    /// Seconds from one analysis to the next.
    pub interval: u64,
}

/// The connection to the Kubernetes API server.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct ClusterHealth {
    pub connected: bool,
    pub server: Option<String>,
    pub version: Option<String>,
    /// The context that the user named.
    pub context: Option<String>,
    /// Seconds that one small request took.
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// The connection to Prometheus.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct PrometheusHealth {
    pub server: Option<String>,
    /// Whether it has metrics about GPUs; `null` when it did not answer.
    pub has_gpus: Option<bool>,
    /// Seconds to find Prometheus and to run one query.
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// The JSON output of `doctor`: the verdict, and the facts behind it.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DoctorReport {
    /// The result of all checks, which decides the exit code. `status` covers only the connections.
    pub verdict: ClusterVerdict,
    #[serde(flatten)]
    pub health: HealthStatus,
    pub kubernetes: ClusterHealth,
    pub prometheus: PrometheusHealth,
    /// Further checks; empty when the cluster does not answer.
    pub checks: Vec<DoctorCheck>,
}

/// Combines the connections and all checks. A cluster without GPU metrics is degraded.
pub fn verdict(
    kubernetes: &ClusterHealth,
    prometheus: &PrometheusHealth,
    checks: &[DoctorCheck],
) -> ClusterVerdict {
    if !kubernetes.connected {
        return ClusterVerdict::Broken;
    }
    match (ClusterVerdict::from_checks(checks), prometheus.has_gpus) {
        (ClusterVerdict::Healthy, Some(false) | None) => ClusterVerdict::Degraded,
        (verdict, _) => verdict,
    }
}

/// Renders a line for each check, followed by the command that fixes a problem.
pub fn text(report: &DoctorReport) -> String {
    let mut text = kubernetes_line(&report.kubernetes) + &prometheus_line(&report.prometheus);
    for check in &report.checks {
        let node = check
            .node
            .as_ref()
            .map_or(String::new(), |node| format!("{node}: "));
        text.push_str(&line(
            check.status,
            check.check,
            &format!("{node}{}", check.message),
        ));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      {}\n", clean(fix)));
        }
    }
    text.push_str(&format!("{}\n", report.verdict.word()));
    text
}

fn line(status: CheckStatus, component: &str, message: &str) -> String {
    format!("{:<5} {component:<11} {}\n", status.word(), clean(message))
}

/// Formats the duration of a request, for printing after the server's name.
fn milliseconds(seconds: Option<f64>) -> String {
    seconds.map_or(String::new(), |seconds| {
        format!(", {:.0} ms", seconds * 1000.0)
    })
}

fn kubernetes_line(kubernetes: &ClusterHealth) -> String {
    let (status, message) = match (&kubernetes.version, &kubernetes.error) {
        (Some(version), _) => {
            let server = kubernetes.server.as_deref().unwrap_or_default();
            let time = milliseconds(kubernetes.seconds);
            (CheckStatus::Ok, format!("{version} at {server}{time}"))
        }
        (None, error) => (CheckStatus::Fail, error.clone().unwrap_or_default()),
    };
    line(status, "kubernetes", &message)
}

fn prometheus_line(prometheus: &PrometheusHealth) -> String {
    let server = prometheus.server.as_deref().unwrap_or_default();
    let (status, message) = match (prometheus.has_gpus, &prometheus.error) {
        (Some(true), _) => {
            let time = milliseconds(prometheus.seconds);
            (CheckStatus::Ok, format!("{server}{time}"))
        }
        (Some(false), _) => (
            CheckStatus::Warn,
            format!("{server} has no GPU metrics; is a GPU exporter running and scraped?"),
        ),
        (None, Some(error)) => (
            CheckStatus::Warn,
            format!("{error}; GPU metrics are unavailable"),
        ),
        (None, None) => (
            CheckStatus::Warn,
            "not queried, because it is discovered through the cluster".to_owned(),
        ),
    };
    line(status, "prometheus", &message)
}

#[cfg(test)]
mod tests {
    use gpuctl_core::model::contract::check::GPU_STACK;

    use super::*;

    #[test]
    fn the_verdict_follows_from_the_connections_and_the_checks() {
        let connected = ClusterHealth {
            connected: true,
            ..ClusterHealth::default()
        };
        let metrics = |has_gpus| PrometheusHealth {
            has_gpus,
            ..PrometheusHealth::default()
        };
        let check = |status, name| DoctorCheck::new(status, name, String::new());
        let verdict_of = |has_gpus, check: DoctorCheck| {
            let checks = [fine_queues(), check];
            verdict(&connected, &metrics(has_gpus), &checks).word()
        };
        let fine = || check(CheckStatus::Ok, GPU_STACK);
        assert_eq!(verdict_of(Some(true), fine()), "healthy");
        assert_eq!(verdict_of(Some(false), fine()), "degraded");
        assert_eq!(verdict_of(None, fine()), "degraded");
        let warning = check(CheckStatus::Warn, "rights");
        assert_eq!(verdict_of(Some(true), warning), "degraded");
        // One node without a driver does not affect other nodes.
        let node = check(CheckStatus::Fail, GPU_STACK).on("gpu-a-01");
        assert_eq!(verdict_of(Some(true), node), "degraded");
        let every_node = check(CheckStatus::Fail, GPU_STACK);
        assert_eq!(verdict_of(Some(true), every_node), "broken");
        let unreachable = ClusterHealth::default();
        let verdict = verdict(&unreachable, &metrics(Some(true)), &[]);
        assert_eq!(verdict.word(), "broken");
    }

    fn fine_queues() -> DoctorCheck {
        DoctorCheck::new(CheckStatus::Ok, "queues", String::new())
    }
}
