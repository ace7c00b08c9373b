//! Options of commands with a time range.

use clap::Args;

use crate::observe::times::TimeRange;

/// Time range
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TimeRangeArgs {
    /// Start time in RFC 3339 or Unix seconds, a span before now such as 1h, or yesterday
    #[arg(long, value_name = "TIME")]
    pub start: Option<String>,
    /// End time, in the same formats [default: now]
    #[arg(long, value_name = "TIME")]
    pub end: Option<String>,
    /// Time between two points, such as 60 or 5m
    #[arg(long, value_name = "TIME")]
    pub step: Option<String>,
}

impl TimeRangeArgs {
    /// The range as typed. The workflow resolves it against the clock.
    pub(crate) fn range(&self) -> TimeRange {
        TimeRange {
            start: self.start.clone(),
            end: self.end.clone(),
            step: self.step.clone(),
        }
    }
}
