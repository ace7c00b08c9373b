//! The table of all config keys: type, default, variables, flag and description. Settings, `gpuctl
//! config`, warnings about unknown keys and the documentation are derived from this table.
//!
//! Some sections also exist in the config of the GPU utilization monitor. Their names, units and
//! defaults are the monitor's, so that its config files work here. Only `ai.language` has another
//! default.

use serde_json::{Value, json};

use gpuctl_core::model::values::quantity;
use gpuctl_core::model::values::text::is_namespace;

/// Types of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number between a minimum and a maximum.
    Number(f64, f64),
    /// An integer between a minimum and a maximum.
    Whole(f64, f64),
    /// `true` or `false`.
    Switch,
    /// A duration such as `30s`, or a number of seconds.
    Duration,
    /// A map from names to texts.
    Map,
    /// The name of a namespace.
    Namespace,
}

/// A key of the config file.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// The full name, such as `prometheus.url`, or `namespace` outside of sections.
    pub name: &'static str,
    /// The type of the value.
    pub kind: ValueKind,
    /// The default as text, or empty.
    pub default: &'static str,
    /// Environment variables that override the file. The first variable that is set applies.
    pub variables: &'static [&'static str],
    /// The flag that overrides the environment and the file.
    pub flag: &'static str,
    /// One sentence, which is the help of the flag and the description in the documentation.
    pub description: &'static str,
    /// Further remark in the documentation, for keys whose flag works differently.
    pub remark: &'static str,
    /// Whether gpuctl never displays the value.
    pub secret: bool,
}

/// The section with settings for individual kubeconfig contexts.
pub(super) const CONTEXTS: &str = "contexts";
/// Sections that a context may contain.
pub(super) const OF_CONTEXTS: [&str; 3] = ["cluster", "prometheus", "safety"];

const NONE: &[&str] = &[];
// One year in seconds, the maximum for durations.
const MANY: f64 = 31_536_000.0;

const fn key(
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    flag: &'static str,
    meaning: &'static str,
) -> SettingKey {
    SettingKey {
        name,
        kind,
        default,
        variables: NONE,
        flag,
        description: meaning,
        remark: "",
        secret: false,
    }
}

impl SettingKey {
    const fn with_variables(self, variables: &'static [&'static str]) -> Self {
        Self { variables, ..self }
    }

    const fn with_remark(self, remark: &'static str) -> Self {
        Self { remark, ..self }
    }

    const fn hidden(self) -> Self {
        Self {
            secret: true,
            ..self
        }
    }
}

/// All keys, grouped by section.
#[rustfmt::skip]
pub const KEYS: [SettingKey; 57] = [
    key("namespace", ValueKind::Namespace, "", "--namespace", "Namespace to use if neither `-n` nor the context of the kubeconfig sets one"),
    key("cluster.name", ValueKind::Text, "", "", "Name of the cluster in HTML reports, messages and the label `cluster` of exported scores; defaults to the context, and to no label").with_variables(&["GPUCTL_CLUSTER_NAME"]),
    key("prometheus.url", ValueKind::Text, "", "--prometheus", "URL of Prometheus, instead of the one found in the cluster; `none` disables metrics").with_variables(&["GPUCTL_PROMETHEUS", "PROM_URL"]),
    key("prometheus.user", ValueKind::Text, "", "", "User name for the Prometheus server").with_variables(&["GPUCTL_PROMETHEUS_USER"]),
    key("prometheus.password_file", ValueKind::Text, "", "", "File with the user's password; the variable contains the password itself").with_variables(&["GPUCTL_PROMETHEUS_PASSWORD"]),
    key("prometheus.token_file", ValueKind::Text, "", "--prometheus-token-file", "File with a bearer token for the Prometheus server").with_remark("the variable contains the token itself").with_variables(&["GPUCTL_PROMETHEUS_TOKEN"]),
    key("prometheus.token_command", ValueKind::Text, "", "", "Command that prints a token, such as a cloud provider's CLI; runs once per gpuctl command that has no other token"),
    key("prometheus.aws_region", ValueKind::Text, "", "", "Region for signing requests (SigV4) with keys from `AWS_ACCESS_KEY_ID` or the `aws` command; optional for URLs of Amazon's service, which contain the region"),
    key("prometheus.cert_file", ValueKind::Text, "", "", "PEM file with the client certificate for the Prometheus server"),
    key("prometheus.key_file", ValueKind::Text, "", "", "PEM file with the key of that certificate"),
    key("prometheus.ca_file", ValueKind::Text, "", "--prometheus-ca-file", "PEM file of CA certificates that verify the Prometheus server"),
    key("prometheus.headers", ValueKind::Map, "", "--prometheus-header", "Headers to send to the Prometheus server").hidden(),
    key("prometheus.matchers", ValueKind::Map, "", "--match", "Use only series with these labels, when one store holds several clusters").with_remark("such as `{cluster: prod}`"),
    key("prometheus.exact_names", ValueKind::Switch, "false", "", "Query each metric by its exact name, for stores without `__name__` patterns (always on for Google Cloud)"),
    key("prometheus.time_window_min", ValueKind::Number(1.0 / 60.0, MANY / 60.0), "10", "--start", "Length of the scoring window, ending now").with_remark("in minutes"),
    key("prometheus.step", ValueKind::Duration, "30s", "--step", "Time between two samples"),
    key("scoring.gpu_util_weight", ValueKind::Number(0.0, 1e6), "0.5", "--weights", "Weight of utilization; must be more than 0"),
    key("scoring.mem_copy_weight", ValueKind::Number(0.0, 1e6), "0.2", "--weights", "Weight of memory copy utilization"),
    key("scoring.mem_used_weight", ValueKind::Number(0.0, 1e6), "0.2", "--weights", "Weight of the fraction of memory used"),
    key("scoring.power_weight", ValueKind::Number(0.0, 1e6), "0.1", "--weights", "Weight of the fraction of power drawn"),
    key("thresholds.low_utilization", ValueKind::Number(0.0, 100.0), "20", "--threshold", "GPUs scoring below this are `low`").with_variables(&["THRESHOLD"]),
    key("thresholds.idle", ValueKind::Number(0.0, 100.0), "10", "--idle", "GPUs scoring below this are `idle`"),
    key("thresholds.high", ValueKind::Number(0.0, 100.0), "70", "--high", "GPUs scoring above this are `high`"),
    key("scheduler.interval", ValueKind::Duration, "300", "--watch=", "Interval between analyses with `--watch`").with_variables(&["INTERVAL"]),
    key("scheduler.max_workers", ValueKind::Whole(1.0, 64.0), "8", "", "Maximum number of concurrent calls to an AI or a control system"),
    key("ai.enabled", ValueKind::Switch, "false", "--ai", "Ask an AI about the lowest scores; the key comes from AI_API_KEY or the config file").with_variables(&["AI_ENABLED"]),
    key("ai.api_url", ValueKind::Text, "", "--ai-url", "URL of a chat completions API, or of Anthropic's messages API"),
    key("ai.api_key", ValueKind::Text, "", "", "API key; preferably set in the environment").with_variables(&["AI_API_KEY"]).hidden(),
    key("ai.model", ValueKind::Text, "gpt-4", "--ai-model", "Model to ask"),
    key("ai.threshold", ValueKind::Number(0.0, 1.0), "0.7", "", "Verdicts below this confidence are shown but change nothing"),
    key("ai.language", ValueKind::Text, "en", "--ai-language", "Language of the AI's explanations, such as en or zh"),
    key("ai.max", ValueKind::Whole(0.0, 10_000.0), "20", "--ai-max", "Maximum number of GPUs to ask about, starting with the lowest scores"),
    key("ai.timeout", ValueKind::Duration, "30s", "", "Timeout for one call"),
    key("ai.retries", ValueKind::Whole(0.0, 10.0), "2", "", "Number of retries after a temporary failure"),
    key("ai.redact", ValueKind::Switch, "false", "--ai-redact", "Do not send the names of pods, namespaces and nodes to the AI"),
    key("control.enabled", ValueKind::Switch, "false", "--control-api", "Call a control system; a dry run without `--execute`"),
    key("control.api_url", ValueKind::Text, "", "--control-api", "POST every idle GPU to this URL; prints what it would post unless --execute is given"),
    key("control.timeout", ValueKind::Duration, "5", "", "Timeout for one call"),
    key("control.status", ValueKind::Word(&["low", "idle"]), "idle", "--control-status", "Post low GPUs (idle ones included), or only idle ones"),
    key("control.headers", ValueKind::Map, "", "", "Headers to send to the control system").hidden(),
    key("notify.enabled", ValueKind::Switch, "false", "--notify", "Send a message about low-scoring GPUs"),
    key("notify.url", ValueKind::Text, "", "--notify", "Webhook to notify about low-scoring GPUs").hidden(),
    key("notify.format", ValueKind::Word(&["auto", "feishu", "lark", "slack", "dingtalk", "wecom", "generic"]), "auto", "--notify-format", "Format of the message; auto derives it from the host"),
    key("notify.secret", ValueKind::Text, "", "", "Secret that signs messages to Feishu, Lark and DingTalk").with_variables(&["GPUCTL_NOTIFY_SECRET"]).hidden(),
    key("notify.quiet_hours", ValueKind::Text, "", "--notify-quiet-hours", "Quiet hours, in local time, such as 22:00-08:00"),
    key("notify.repeat", ValueKind::Duration, "24h", "--notify-repeat", "Time after which a GPU that is still low is reported again"),
    key("notify.timeout", ValueKind::Duration, "5s", "", "Timeout for sending one message"),
    key("report.send", ValueKind::Text, "", "--send", "Send the report to a webhook (https://…), by mail (smtp://HOST?from=ADDRESS&to=ADDRESS), to a file, or into a folder (PATH/)").with_variables(&["GPUCTL_REPORT_SEND"]).hidden(),
    key("report.headers", ValueKind::Map, "", "", "Headers to send to the webhook in `report.send`").hidden(),
    key("report.timeout", ValueKind::Duration, "30s", "", "Timeout for sending the report to one receiver"),
    key("smtp.user", ValueKind::Text, "", "", "User name for the mail server").with_variables(&["GPUCTL_SMTP_USER"]),
    key("smtp.password_file", ValueKind::Text, "", "", "File with the user's password; the variable contains the password itself").with_variables(&["GPUCTL_SMTP_PASSWORD"]),
    key("smtp.ca_file", ValueKind::Text, "", "", "PEM file of CA certificates that verify the mail server"),
    key("server.listen", ValueKind::Text, "", "--listen", "Serve /metrics, /health, /results, /results/low and /results/stats at this address"),
    key("server.allow_hosts", ValueKind::Text, "", "--allow-host", "Answer requests whose `Host` is this name; IP addresses, names without a dot and Service names are always allowed").with_remark("separate several names with commas"),
    key("safety.read_only", ValueKind::Switch, "false", "--read-only", "Refuse all changes to the cluster").with_remark("can also be set for individual contexts, by name").with_variables(&["GPUCTL_READ_ONLY"]),
    key("log.level", ValueKind::Word(&["debug", "info", "warning", "error", "critical"]), "info", "-v, -q", "How much `score` writes to stderr").with_variables(&["LOG_LEVEL"]),
];

impl SettingKey {
    /// Finds the key with this name.
    ///
    /// # Panics
    ///
    /// If the table does not contain the key. Callers only use names from the table.
    pub fn by_name(name: &str) -> &'static Self {
        Self::find(name).unwrap_or_else(|| panic!("the table of keys has `{name}`"))
    }

    /// Finds the key with this name, or returns `None`.
    pub fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Returns the help text for the key's flag.
    pub(crate) fn help(name: &str) -> &'static str {
        Self::by_name(name).description
    }

    /// Returns the help text for the key's flag, followed by `addition`.
    pub(crate) fn help_with(name: &str, addition: &str) -> String {
        format!("{}{addition}", Self::help(name))
    }

    /// Returns the help text for the key's flag, with the default.
    pub(crate) fn with_default(name: &str) -> String {
        let key = Self::by_name(name);
        format!("{} [default: {}]", key.description, key.default)
    }

    /// Splits the key's name into its section, if any, and its name within the section.
    pub fn path(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, self.name),
        }
    }

    /// Returns all sections, in the order of the table.
    pub fn sections() -> Vec<&'static str> {
        let mut sections: Vec<&str> = KEYS.iter().filter_map(|key| key.path().0).collect();
        sections.dedup();
        sections
    }

    /// Returns the default value, or null if there is none.
    pub fn default_value(&self) -> Value {
        if self.default.is_empty() {
            Value::Null
        } else {
            self.kind.parse(self.default).expect("a default is valid")
        }
    }
}

impl ValueKind {
    /// Describes valid values in messages.
    pub fn description(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Word(words) => format!("one of {}", words.join(", ")),
            Self::Number(min, max) if max > 1000.0 => {
                format!("a number of at least {}", (min * 1000.0).round() / 1000.0)
            }
            Self::Number(min, max) => format!("a number from {min} to {max}"),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Switch => "true or false".to_owned(),
            Self::Duration => "a duration such as 30s, 5m or 2h, or seconds".to_owned(),
            Self::Map => "a map of names to strings".to_owned(),
            Self::Namespace => "a namespace of lower-case letters, digits and `-`".to_owned(),
        }
    }

    /// Parses a value from a variable or from `config set`. Returns `None` if it is invalid.
    pub fn parse(self, text: &str) -> Option<Value> {
        let text = text.trim();
        match self {
            Self::Text => Some(json!(text)),
            Self::Word(words) => {
                let word = text.to_ascii_lowercase();
                // Python's `logging` calls this level both `WARN` and `WARNING`.
                let word = if word == "warn" {
                    "warning".to_owned()
                } else {
                    word
                };
                words.contains(&word.as_str()).then(|| json!(word))
            }
            Self::Number(..) | Self::Whole(..) => self.accept(&number(text.parse().ok()?)),
            Self::Switch => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(json!(true)),
                "false" | "0" | "no" | "off" => Some(json!(false)),
                _ => None,
            },
            Self::Duration => match text.parse() {
                Ok(seconds) => self.accept(&number(seconds)),
                Err(_) => self.accept(&json!(text)),
            },
            Self::Map => None,
            Self::Namespace => (text.is_empty() || is_namespace(text)).then(|| json!(text)),
        }
    }

    /// Checks and normalizes a value from the file. Returns `None` if it is invalid.
    pub fn accept(self, value: &Value) -> Option<Value> {
        match (self, value) {
            (Self::Number(min, max), Value::Number(given)) => (min..=max)
                .contains(&given.as_f64()?)
                .then(|| value.clone()),
            (Self::Whole(min, max), Value::Number(given)) => {
                let given = given.as_f64()?;
                ((min..=max).contains(&given) && given.fract() == 0.0).then(|| number(given))
            }
            (Self::Duration, Value::Number(given)) => (0.1..=MANY)
                .contains(&given.as_f64()?)
                .then(|| value.clone()),
            (Self::Duration, Value::String(text)) => match text.parse::<f64>() {
                Ok(seconds) => self.accept(&number(seconds)),
                Err(_) => quantity::duration(text)
                    .filter(|span| (0.1..=MANY).contains(&span.as_secs_f64()))
                    .map(|_| value.clone()),
            },
            (Self::Switch, Value::Bool(_)) => Some(value.clone()),
            (Self::Map, Value::Object(map)) => {
                // YAML parses an unquoted value such as `X-Scope-OrgID: 1` as a number.
                let text = |value: &Value| match value {
                    Value::String(text) => Some(json!(text)),
                    Value::Number(_) | Value::Bool(_) => Some(json!(value.to_string())),
                    _ => None,
                };
                let texts = map
                    .iter()
                    .map(|(name, value)| Some((name.clone(), text(value)?)));
                texts
                    .collect::<Option<serde_json::Map<_, _>>>()
                    .map(Value::Object)
            }
            (_, Value::String(text)) => self.parse(text),
            // YAML parses some unquoted texts as other types, such as `model: 4` and `language:
            // no`.
            (Self::Text, Value::Number(_) | Value::Bool(_)) => Some(json!(value.to_string())),
            _ => None,
        }
    }
}

/// Writes an integer without a fraction: 5 instead of 5.0.
fn number(value: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    if value.fract() == 0.0 && value.abs() < 1e15 {
        json!(value as i64)
    } else {
        json!(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_accept_their_defaults() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(
                KEYS[..index].iter().all(|other| other.name != key.name),
                "{}",
                key.name
            );
            assert!(
                key.default.is_empty() || !key.default_value().is_null(),
                "{}",
                key.name
            );
        }
        assert_eq!(
            SettingKey::sections(),
            [
                "cluster",
                "prometheus",
                "scoring",
                "thresholds",
                "scheduler",
                "ai",
                "control",
                "notify",
                "report",
                "smtp",
                "server",
                "safety",
                "log"
            ]
        );
    }

    #[test]
    fn values_match_the_kind_of_their_key() {
        let parse = |name: &str, text: &str| SettingKey::by_name(name).kind.parse(text);
        assert_eq!(parse("thresholds.idle", "12.5"), Some(json!(12.5)));
        assert_eq!(parse("thresholds.idle", "112"), None);
        assert_eq!(parse("thresholds.idle", "NaN"), None);
        assert_eq!(parse("scheduler.interval", "600"), Some(json!(600)));
        assert_eq!(parse("scheduler.interval", "5m"), Some(json!("5m")));
        assert_eq!(parse("scheduler.interval", "soon"), None);
        assert_eq!(parse("scheduler.interval", "0"), None);
        assert_eq!(parse("scheduler.max_workers", "2.5"), None);
        assert_eq!(parse("ai.enabled", "True"), Some(json!(true)));
        assert_eq!(parse("log.level", "WARN"), Some(json!("warning")));
        assert_eq!(
            SettingKey::by_name("ai.model").kind.accept(&json!(4)),
            Some(json!("4"))
        );
        assert_eq!(
            SettingKey::by_name("ai.enabled").kind.accept(&json!("yes")),
            Some(json!(true))
        );
        assert_eq!(
            SettingKey::by_name("ai.enabled").kind.accept(&json!(3)),
            None
        );
        assert_eq!(
            SettingKey::by_name("prometheus.headers")
                .kind
                .accept(&json!({"a": 1})),
            Some(json!({"a": "1"}))
        );
        assert_eq!(
            SettingKey::by_name("prometheus.headers")
                .kind
                .accept(&json!({"a": [1]})),
            None
        );
    }
}
