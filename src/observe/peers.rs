//! Reads what the devices of one job did lately and when it told its last step, for `why` of a job that runs.

use crate::cluster::{Connection, LogQuery};
use crate::context::Context;
use crate::diagnosis::RunningFacts;
use crate::error::Error;
use crate::model::{Job, UnixSeconds};
use crate::observe::curves::lifetimes;
use crate::observe::metrics::OptionalMetrics;
use crate::prometheus::Window;
use crate::stats::identity::ApiFacts;
use crate::stats::query::{self, Pods};
use crate::stats::{history, peers, progress};

/// Seconds that are looked at, and between two samples.
const WINDOW: i64 = 600;
const STEP: i64 = 15;
const SHORTEST_STEP: i64 = 5;
const POINTS: i64 = 40;
/// Lines of a log in which steps are looked for.
const LINES: u32 = 200;

/// Returns what is known of a job that runs; `None` where no metrics tell.
pub(crate) async fn running(context: &Context, connection: &Connection, job: &Job) -> Result<Option<RunningFacts>, Error> {
    let holding: Vec<&str> = job.pods.iter().filter(|pod| pod.holds()).map(|pod| pod.name.as_str()).collect();
    if holding.is_empty() {
        return Ok(None);
    }
    let now = context.now();
    let end = UnixSeconds::from(now);
    let begin = job.started_at().map_or(end - WINDOW, |at| UnixSeconds::from(at).max(end - WINDOW));
    // A job that has just begun has few samples.
    let window = Window { start: begin, end, step: ((end - begin) / POINTS).clamp(SHORTEST_STEP, STEP) };
    let pods = Pods::named(&job.namespace, holding);
    let cells = OptionalMetrics::new(context, connection);
    let asked = query::gauges(&peers::READ, Some(&pods));
    let answer = cells.optional(async |prometheus| Ok(prometheus.range(&asked, window).await?));
    let (answer, lines) = futures::future::join(answer, lines(connection, job, None)).await;
    let Some(series) = answer? else { return Ok(None) };
    let traces = history::read(&series, &ApiFacts::default(), &lifetimes(job)).traces;
    let report = peers::compare(&traces, end.millis());
    let cadence = progress::cadence(lines.iter().filter_map(|line| Some((line.at?, line.text.as_str()))));
    let mut facts = RunningFacts { traces, report, cadence, last_line: None };
    let odd = facts.waited_for().and_then(|device| facts.traces[device].pods.iter().next().cloned());
    if let Some((_, pod)) = odd {
        let last = self::lines(connection, job, Some(&pod)).await.pop();
        facts.last_line = last.map(|line| (line.at, line.text));
    }
    Ok(Some(facts))
}

/// Returns the last lines of a pod, of the first rank where none is named; none where they cannot be had.
async fn lines(connection: &Connection, job: &Job, pod: Option<&str>) -> Vec<crate::cluster::LogLine> {
    let pods = job.current_pods();
    let chosen = pods.iter().find(|one| pod.is_none_or(|name| one.name == name));
    let Some(chosen) = chosen else { return Vec::new() };
    let query = LogQuery { container: chosen.own_container().to_owned(), tail: Some(LINES), ..LogQuery::default() };
    connection.log(&job.namespace, &chosen.name, &query).await.unwrap_or_default()
}
