//! Renders the answer of `doctor -o json` and of `/health`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::clean;

/// What is known of them.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HealthStatus {
    /// `healthy`; `degraded` without Prometheus; `unhealthy` when nothing goes on.
    pub status: &'static str,
    pub prometheus_connected: bool,
    /// Null before the first one has succeeded, and where nobody analyzes.
    pub last_analysis: Option<Timestamp>,
    /// True when none has ended for three intervals.
    pub analysis_timeout: bool,
    pub ai_enabled: bool,
    /// Seconds from one analysis to the next.
    pub interval: u64,
}

/// The cluster as a caller meets it.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct ClusterHealth {
    pub connected: bool,
    pub server: Option<String>,
    pub version: Option<String>,
    /// The context that was named.
    pub context: Option<String>,
    /// Of one small request.
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// Prometheus as a caller meets it.
#[derive(Debug, Default, JsonSchema, Serialize)]
pub struct PrometheusHealth {
    pub server: Option<String>,
    /// Null when it did not answer.
    pub has_gpus: Option<bool>,
    /// To find it and to ask once.
    pub seconds: Option<f64>,
    pub error: Option<String>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

impl CheckStatus {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Check {
    pub check: &'static str,
    pub status: CheckStatus,
    /// Null for what is of the whole cluster.
    pub node: Option<String>,
    pub message: String,
    /// What repairs it, or shows more.
    pub fix: Option<String>,
}

impl Check {
    pub fn new(status: CheckStatus, check: &'static str, message: String) -> Self {
        Self {
            check,
            status,
            node: None,
            message,
            fix: None,
        }
    }

    #[must_use]
    pub fn on(self, node: &str) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..self
        }
    }

    #[must_use]
    pub fn fix(self, fix: &str) -> Self {
        Self {
            fix: Some(fix.to_owned()),
            ..self
        }
    }
}

/// The answer of `doctor`: whether all is well, and what that rests on.
#[derive(Debug, JsonSchema, Serialize)]
pub struct DoctorReport {
    #[serde(flatten)]
    pub health: HealthStatus,
    pub kubernetes: ClusterHealth,
    pub prometheus: PrometheusHealth,
    /// What was looked at beyond that; empty where the cluster does not answer.
    pub checks: Vec<Check>,
}

/// Returns one line per piece, and what repairs it below.
pub fn text(report: &DoctorReport) -> String {
    let DoctorReport {
        health,
        kubernetes,
        prometheus,
        checks,
    } = report;
    let line =
        |word: &str, piece: &str, told: String| format!("{word:<5} {piece:<11} {}\n", clean(&told));
    let milliseconds = |seconds: Option<f64>| {
        seconds.map_or(String::new(), |seconds| {
            format!(", {:.0} ms", seconds * 1000.0)
        })
    };
    let mut text = match (&kubernetes.version, &kubernetes.error) {
        (Some(version), _) => {
            let server = kubernetes.server.as_deref().unwrap_or_default();
            line(
                "ok",
                "kubernetes",
                format!("{version} at {server}{}", milliseconds(kubernetes.seconds)),
            )
        }
        (None, error) => line("fail", "kubernetes", error.clone().unwrap_or_default()),
    };
    let server = prometheus.server.as_deref().unwrap_or_default();
    text.push_str(&match (prometheus.has_gpus, &prometheus.error) {
        (Some(true), _) => line(
            "ok",
            "prometheus",
            format!("{server}{}", milliseconds(prometheus.seconds)),
        ),
        (Some(false), _) => line(
            "warn",
            "prometheus",
            format!("{server} has no metrics of GPUs; is a GPU exporter running and scraped?"),
        ),
        (None, Some(error)) => line(
            "warn",
            "prometheus",
            format!("{error}; what GPUs do is not known"),
        ),
        (None, None) => line(
            "warn",
            "prometheus",
            "not asked: it is found through the cluster".to_owned(),
        ),
    });
    for check in checks {
        let node = check
            .node
            .as_ref()
            .map_or(String::new(), |node| format!("{node}: "));
        text.push_str(&line(
            check.status.word(),
            check.check,
            format!("{node}{}", check.message),
        ));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("      {}\n", clean(fix)));
        }
    }
    text.push_str(&format!("{}\n", health.status));
    text
}
