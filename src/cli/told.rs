//! What a job or workload tells of its own work: lines of its logs, and metrics that it exposes itself.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::{Connection, LogQuery};
use crate::model::{Point, Series};
use crate::prometheus::Window;
use crate::stats::training::{self, Measure};
use crate::view::metrics::Told;

/// A pod whose log is read.
pub struct Speaker {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

/// Lines of one log that are looked at.
const LINES: u32 = 20_000;

/// What logs tell within a window. Trainers speak at one rank, the first or the last: the first of these that tells
/// anything counts. A log that cannot be read tells nothing.
pub async fn by_logs(connection: &Connection, speakers: &[Speaker], window: Window, now: i64) -> Told {
    let ends = speakers.first().into_iter().chain(speakers.last().filter(|_| speakers.len() > 1));
    for Speaker { namespace, pod, container } in ends {
        let since = Duration::from_secs(u64::try_from(now - window.start).unwrap_or(0).max(1));
        let query = LogQuery { container: container.clone(), tail: Some(LINES), since: Some(since), ..LogQuery::default() };
        let lines = connection.log(namespace, pod, &query).await.unwrap_or_default();
        let mut told = Told::new();
        for line in lines {
            let Some(at) = line.at.map(|at| at.as_millisecond()) else { continue };
            if at < window.start * 1000 || at > window.end * 1000 + 999 {
                continue;
            }
            for (measure, value) in training::read(&line.text) {
                told.entry(measure).or_default().push(Point { at, value });
            }
        }
        if !told.is_empty() {
            return told;
        }
    }
    Told::new()
}

/// What a workload exposes itself; the mean where several of its pods do. Logs say more about when, so what both tell is
/// taken from the metrics.
#[must_use]
pub fn with_exposed(mut told: Told, exposed: &[Series]) -> Told {
    let mut found: BTreeMap<Measure, Vec<&[Point]>> = BTreeMap::new();
    for series in exposed {
        if let Some(measure) = training::exposed(series.name()) {
            found.entry(measure).or_default().push(&series.points);
        }
    }
    for (measure, curves) in found {
        let finite: Vec<Vec<Point>> =
            curves.iter().map(|curve| curve.iter().filter(|point| point.value.is_finite()).copied().collect()).collect();
        let points = crate::stats::history::mean(finite.iter().map(Vec::as_slice));
        if !points.is_empty() {
            told.insert(measure, points);
        }
    }
    told
}
