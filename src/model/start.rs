//! When a waiting job starts, as far as the past tells.

/// How long it still takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StartForecast {
    /// Seconds within which 10, 50 and 90 of 100 such jobs start; `None` where too few are known.
    pub quantiles: Option<(f64, f64, f64)>,
    /// Starts of similar jobs that waited at least as long.
    pub similar: u64,
    /// Days of history in which they were looked for.
    pub days: i64,
}
