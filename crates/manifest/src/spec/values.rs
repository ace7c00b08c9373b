//! Values with words of their own: a priority, what a failed rank restarts, a variable of the
//! container.

/// `job.priority`: one of the three PriorityClasses of gpuctl.
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
    /// Reads `job.priority`.
    pub(super) fn of(text: &str) -> Self {
        match text {
            "high" => Self::High,
            "medium" => Self::Medium,
            "low" => Self::Low,
            other => Self::Class(other.to_owned()),
        }
    }
}

/// `job.restart`: what the failure of a rank restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// All ranks together, in their pods; that costs one retry.
    All,
    /// The pod of that rank; each rank has retries of its own.
    Rank,
    /// Nothing: the first failure ends the training.
    Never,
}

impl Restart {
    /// The words of the field.
    pub const WORDS: [&'static str; 3] = ["all", "rank", "never"];

    /// Returns the value of a word.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "rank" => Self::Rank,
            "never" => Self::Never,
            _ => Self::All,
        }
    }
}

/// A variable of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EnvValue,
}

/// Where the value of a variable comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// The file itself.
    Text(String),
    /// A key of a Secret.
    Secret {
        /// The name of the Secret.
        name: String,
        /// The key in it.
        key: String,
    },
    /// A key of a ConfigMap.
    ConfigMap {
        /// The name of the ConfigMap.
        name: String,
        /// The key in it.
        key: String,
    },
}
