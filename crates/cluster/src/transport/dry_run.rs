//! The ways to rehearse changes.

/// Where a dry run is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// Sends no writes.
    Client,
    /// The API server admits and validates the writes without storing them.
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
