//! Estimates the remaining time of a training, as an interval, from the progress in its log.
//! `docs/metrics.md` explains the computation.

use jiff::Timestamp;

use super::progress::ProgressPoint;
use crate::model::{Job, Pod};

/// Minimum number of different progress values for a rate.
const MIN_VALUES: usize = 4;

/// Minimum time in seconds that these values must span, because buffered output arrives in bursts.
const MIN_SPAN: f64 = 20.0;

/// Minimum length of a run in seconds for a mean rate. In a shorter run, loading the model takes
/// much of the time.
const MIN_RUN: f64 = 120.0;

/// Relative half-width of the interval for a perfectly regular log, because the lines may contain
/// no checkpoint or evaluation. Added once more for every doubling of the remaining time over the
/// observed time.
const DRIFT: f64 = 0.05;

/// Factors of the limits for the mean rate since the start, which includes the time for loading.
const MEAN_LIMITS: (f64, f64) = (0.6, 1.5);

/// Seconds without progress after which a training has stalled, if they are also [`STALLED_STEPS`]
/// times its longest step.
const STALLED: f64 = 600.0;
const STALLED_STEPS: f64 = 10.0;

/// Maximum remaining time in seconds. A rate that leads to more is practically zero.
const MAX_SECONDS: f64 = 365.0 * 86_400.0;

/// Remaining time of a training in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remaining {
    pub seconds: f64,
    pub low: f64,
    pub high: f64,
}

/// The current run of a training's container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurrentRun {
    pub started_at: Option<Timestamp>,
    /// True if the run may have started from a checkpoint, so that its progress may not have begun
    /// at zero.
    pub is_repeated: bool,
}

impl CurrentRun {
    pub fn new(job: &Job, pod: &Pod) -> Self {
        let replaces = |other: &Pod| other.uid != pod.uid && other.rank == pod.rank;
        Self {
            started_at: pod.started_at,
            is_repeated: pod.restarts() > 0 || job.pods.iter().any(replaces),
        }
    }
}

/// Estimates the remaining time from the progress lines of a log, oldest first, or returns `None`
/// if they show no rate.
pub fn remaining(points: &[ProgressPoint], run: CurrentRun, now: Timestamp) -> Option<Remaining> {
    let lines = since_last_reset(points);
    let last = lines.last()?;
    if last.done <= 0.0 || last.done >= 1.0 {
        return None;
    }
    let values = first_of_each_value(lines);
    if has_stalled(&values, last, now) {
        return None;
    }
    let began_at_zero = !run.is_repeated && lines.len() == points.len();
    let mean = run
        .started_at
        .filter(|_| began_at_zero)
        .and_then(|start| from_mean_rate(&values, last, start, now));
    let estimate = match (from_recent_rate(&values, now), mean) {
        (Some(recent), Some(mean)) => recent.combined(mean),
        (recent, mean) => recent.or(mean)?,
    };
    (estimate.high <= MAX_SECONDS).then_some(estimate)
}

/// Returns the lines since the last decrease, where the training restarted from a checkpoint.
fn since_last_reset(points: &[ProgressPoint]) -> &[ProgressPoint] {
    let reset = points
        .windows(2)
        .rposition(|pair| pair[1].done < pair[0].done);
    &points[reset.map_or(0, |index| index + 1)..]
}

fn first_of_each_value(lines: &[ProgressPoint]) -> Vec<ProgressPoint> {
    let mut values: Vec<ProgressPoint> = Vec::new();
    for line in lines {
        if values.last().is_none_or(|value| line.done > value.done) {
            values.push(*line);
        }
    }
    values
}

fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn has_stalled(values: &[ProgressPoint], last_line: &ProgressPoint, now: Timestamp) -> bool {
    let steps = values
        .windows(2)
        .map(|pair| seconds_between(pair[0].at, pair[1].at));
    let longest = steps.fold(0.0, f64::max);
    // A single value may be an epoch, which takes long although the log continues.
    let since = match values {
        [_, .., newest] => newest.at,
        _ => last_line.at,
    };
    seconds_between(since, now) > STALLED.max(STALLED_STEPS * longest)
}

/// Extrapolates the rate of the newest lines. The interval's width follows from the scatter of the
/// steps around that rate: the standard error of a ratio, plus the scatter of the remaining steps.
fn from_recent_rate(values: &[ProgressPoint], now: Timestamp) -> Option<Remaining> {
    let (first, last) = (values.first()?, values.last()?);
    let (span, done) = (seconds_between(first.at, last.at), last.done - first.done);
    if values.len() < MIN_VALUES || span < MIN_SPAN {
        return None;
    }
    let steps = (values.len() - 1) as f64;
    // Seconds per unit of progress, where 1 is the whole training.
    let pace = span / done;
    let residual = |pair: &[ProgressPoint]| {
        let expected = pace * (pair[1].done - pair[0].done);
        (seconds_between(pair[0].at, pair[1].at) - expected).powi(2)
    };
    let variance = values.windows(2).map(residual).sum::<f64>() / (steps - 1.0);
    let steps_to_come = (1.0 - last.done) * steps / done;
    let scatter = (variance * (steps_to_come + steps_to_come.powi(2) / steps)).sqrt();
    let total = (1.0 - last.done) * pace;
    let drift = total * DRIFT * (1.0 + (1.0 + total / span).log2());
    // The step in progress may take longer than usual, but the following steps will not be shorter.
    let gap = seconds_between(last.at, now).clamp(0.0, span / steps);
    Some(Remaining::around(total - gap, 2.0 * scatter + drift))
}

/// Extrapolates the mean rate since the start, assuming regular progress from zero.
fn from_mean_rate(
    values: &[ProgressPoint],
    last_line: &ProgressPoint,
    start: Timestamp,
    now: Timestamp,
) -> Option<Remaining> {
    // The time of a change is exact, but a single value may have begun before the first line.
    let (at, exact, most) = match values {
        [_, .., newest] => (newest.at, newest.done, newest.done),
        _ => {
            let most = (last_line.done + last_line.resolution).min(1.0);
            (last_line.at, last_line.done, most)
        }
    };
    let run = seconds_between(start, at);
    if run < MIN_RUN {
        return None;
    }
    let gap = seconds_between(at, now).max(0.0);
    let after = |done: f64, factor: f64| (run * (1.0 - done) / done * factor - gap).max(0.0);
    Some(Remaining {
        seconds: after(f64::midpoint(exact, most), 1.0),
        low: after(most, MEAN_LIMITS.0),
        high: after(exact, MEAN_LIMITS.1),
    })
}

impl Remaining {
    fn around(seconds: f64, half_width: f64) -> Self {
        let seconds = seconds.max(0.0);
        Self {
            seconds,
            low: (seconds - half_width).max(0.0),
            high: seconds + half_width,
        }
    }

    fn width(self) -> f64 {
        self.high - self.low
    }

    /// Returns the narrower of the estimates from the recent and the mean rate.
    fn combined(self, mean: Self) -> Self {
        if mean.high < self.low {
            // A higher mean rate suggests that the run started from a checkpoint of an earlier job.
            return self;
        }
        if mean.low > self.high {
            // The recent lines do not show the delays that slowed the training down before.
            return Self {
                high: mean.high,
                ..self
            };
        }
        if mean.width() < self.width() {
            mean
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests;
