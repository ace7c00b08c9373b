//! The modes of `--dry-run`.

/// Which side evaluates a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// The client sends no writes.
    Client,
    /// The API server admits and validates writes without storing them.
    Server,
}

impl DryRun {
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}
