//! Types of field values: priorities, restart scopes and environment variables.

/// `job.priority`: one of gpuctl's three PriorityClasses, or an existing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// `high`.
    High,
    /// `medium`.
    Medium,
    /// `low`.
    Low,
    /// An existing PriorityClass.
    Class(String),
}

impl Priority {
    /// Parses `job.priority`.
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "high" => Self::High,
            "medium" => Self::Medium,
            "low" => Self::Low,
            other => Self::Class(other.to_owned()),
        }
    }
}

/// `job.restart`: which pods restart after a rank has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// All ranks restart together in their pods, which costs one retry.
    All,
    /// Only the pod of the failed rank restarts. Each rank has its own retries.
    Rank,
    /// No pod restarts: the first failure ends the training.
    Never,
}

impl Restart {
    pub const WORDS: [&'static str; 3] = ["all", "rank", "never"];

    pub(super) fn parse(word: &str) -> Self {
        match word {
            "rank" => Self::Rank,
            "never" => Self::Never,
            _ => Self::All,
        }
    }
}

/// An environment variable of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVariable {
    pub name: String,
    pub value: EnvValue,
}

/// The source of a variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// A value that the file contains.
    Text(String),
    /// A key of a Secret.
    Secret { name: String, key: String },
    /// A key of a ConfigMap.
    ConfigMap { name: String, key: String },
}
