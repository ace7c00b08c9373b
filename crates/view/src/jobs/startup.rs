//! Renders how long the stages of a job's start-up took.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::format::text::span;
use gpuctl_core::model::facts::startup::Startup;
use gpuctl_core::model::values::quantity;

/// Times of a job's start-up; `null` for stages that are not complete or not recorded. With several
/// pods, a time is that of the last pod.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartupItem {
    /// When its queue admitted the job.
    admitted_at: Option<Timestamp>,
    pods_created_at: Option<Timestamp>,
    scheduled_at: Option<Timestamp>,
    /// Duration of the slowest image pull, according to events; `null` if the nodes had the image
    /// or the event has expired.
    pull_seconds: Option<f64>,
    /// Compressed size of that image.
    image_bytes: Option<u64>,
    started_at: Option<Timestamp>,
    /// Time of the first log line of a running training that mentions a step.
    first_step_at: Option<Timestamp>,
}

impl From<&Startup> for StartupItem {
    fn from(startup: &Startup) -> Self {
        Self {
            admitted_at: startup.admitted_at,
            pods_created_at: startup.pods_created_at,
            scheduled_at: startup.scheduled_at,
            pull_seconds: startup.pull.map(|pull| pull.seconds),
            image_bytes: startup.pull.and_then(|pull| pull.bytes),
            started_at: startup.started_at,
            first_step_at: startup.first_step_at,
        }
    }
}

/// Renders the durations of the known stages, or returns `None` if none is known.
pub(super) fn text(startup: &Startup) -> Option<String> {
    let between =
        |from: Option<Timestamp>, to: Option<Timestamp>| Some(span(to?.duration_since(from?)));
    let queued = between(startup.created_at, startup.admitted_at);
    let scheduled = between(startup.pods_created_at, startup.scheduled_at);
    let pulled = startup.pull.map(|pull| {
        let seconds = jiff::SignedDuration::from_secs_f64(pull.seconds.round());
        let size = pull.bytes.map_or(String::new(), |bytes| {
            format!(" ({})", quantity::binary(bytes))
        });
        format!("{}{size}", span(seconds))
    });
    let started = between(startup.scheduled_at, startup.started_at);
    let first_step = between(startup.started_at, startup.first_step_at);
    let stages = [
        ("queued ", queued, ""),
        ("scheduled in ", scheduled, ""),
        ("image pulled in ", pulled, ""),
        ("started ", started, " after scheduling"),
        ("first step ", first_step, " after that"),
    ];
    let stages: Vec<String> = stages
        .into_iter()
        .filter_map(|(before, duration, after)| Some(format!("{before}{}{after}", duration?)))
        .collect();
    (!stages.is_empty()).then(|| stages.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::facts::startup::ImagePull;

    #[test]
    fn stages_have_durations() {
        let at = |second| Timestamp::from_second(second).ok();
        let startup = Startup {
            created_at: at(0),
            admitted_at: at(240),
            pods_created_at: at(241),
            scheduled_at: at(243),
            pull: Some(ImagePull {
                seconds: 72.4,
                bytes: Some(4 << 30),
            }),
            started_at: at(323),
            first_step_at: at(363),
        };
        assert_eq!(
            text(&startup).unwrap(),
            "queued 4m, scheduled in 2s, image pulled in 72s (4Gi), started 80s after \
             scheduling, first step 40s after that"
        );
        let waiting = Startup {
            created_at: at(0),
            pods_created_at: at(1),
            ..Startup::default()
        };
        assert_eq!(text(&waiting), None);
    }
}
