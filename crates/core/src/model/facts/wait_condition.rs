//! Conditions of `gpuctl wait`, evaluated on the state of a job.

use std::fmt;
use std::str::FromStr;

use super::job::Job;
use super::state::{State, Status};

/// A condition that `gpuctl wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// All pods run, or the job has succeeded.
    Running,
    Complete,
    Failed,
    /// The job has succeeded or failed.
    Ended,
    /// The job and its pods no longer exist.
    Deleted,
    /// At least this many pods run or, for services, are ready.
    Ready(u32),
}

/// Whether a job meets a condition, or still can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitVerdict {
    Met,
    Waiting,
    /// The job can no longer meet the condition.
    Impossible,
}

impl WaitCondition {
    /// Forms of the conditions, for help and error messages.
    pub const FORMS: [&'static str; 6] = [
        "running", "complete", "failed", "ended", "deleted", "ready=N",
    ];

    /// Returns true if jobs that never end, such as services, cannot meet the condition.
    pub fn needs_an_end(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Ended)
    }

    /// Evaluates the condition on a job, or on `None` if the job does not exist.
    pub fn judge(self, job: Option<(&Job, &State)>) -> WaitVerdict {
        let Some((job, state)) = job else {
            return match self {
                Self::Deleted => WaitVerdict::Met,
                _ => WaitVerdict::Impossible,
            };
        };
        let is_met = match self {
            Self::Running => {
                state.status == Status::Succeeded
                    || state.status == Status::Running && is_whole(job, state)
            }
            Self::Complete => state.status == Status::Succeeded,
            Self::Failed => state.status == Status::Failed,
            Self::Ended => state.status.is_final(),
            Self::Deleted => false,
            Self::Ready(count) => state.running >= count,
        };
        let is_over = state.status.is_final() || job.owner_is_gone;
        match (is_met, is_over) {
            (true, _) => WaitVerdict::Met,
            (false, true) if self != Self::Deleted => WaitVerdict::Impossible,
            _ => WaitVerdict::Waiting,
        }
    }
}

/// Returns true for a training, and for a service whose pods are all ready and have the newest
/// version.
fn is_whole(job: &Job, state: &State) -> bool {
    !job.kind.serves() || (!job.rolling_out && state.running >= state.wanted)
}

impl FromStr for WaitCondition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "running" => Self::Running,
            "complete" => Self::Complete,
            "failed" => Self::Failed,
            "ended" => Self::Ended,
            "deleted" => Self::Deleted,
            _ => {
                let count = text.strip_prefix("ready=").ok_or(())?;
                Self::Ready(count.parse().ok().filter(|count| *count > 0).ok_or(())?)
            }
        })
    }
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Complete => f.write_str("complete"),
            Self::Failed => f.write_str("failed"),
            Self::Ended => f.write_str("ended"),
            Self::Deleted => f.write_str("deleted"),
            Self::Ready(count) => write!(f, "ready={count}"),
        }
    }
}
