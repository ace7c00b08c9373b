//! Renders the events of a job as JSON, or as text that requires no knowledge of Kubernetes.

use colored::Color;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Event;

use crate::format::table::{Cell, Table, left, right};
use crate::format::text::{age, clean, paint, wrapped};
use crate::{Format, TextStyle};

#[derive(JsonSchema, Serialize)]
pub struct EventDocument<'a> {
    timestamp: Option<Timestamp>,
    warning: bool,
    reason: &'a str,
    message: &'a str,
    object: &'a str,
    count: u32,
}

/// The JSON output of `events`.
#[derive(JsonSchema, Serialize)]
pub struct EventList<'a> {
    pub total: usize,
    pub items: Vec<EventDocument<'a>>,
}

pub fn list(events: &[Event]) -> EventList<'_> {
    EventList {
        total: events.len(),
        items: events.iter().map(event_document).collect(),
    }
}

pub fn event_document(event: &Event) -> EventDocument<'_> {
    EventDocument {
        timestamp: event.at,
        warning: event.warning,
        reason: &event.reason,
        message: &event.message,
        object: &event.object,
        count: event.count,
    }
}

/// Renders events as a table, with the newest last.
pub fn table(
    events: &[Event],
    format: Format,
    headers: bool,
    style: TextStyle,
    now: Timestamp,
) -> String {
    let mut table = Table::new([
        right("AGE"),
        right("TIMES"),
        left("OBJECT"),
        left("REASON"),
        left("MESSAGE"),
    ]);
    for event in events {
        table.row(vec![
            age(event.at, now).into(),
            event.count.to_string().into(),
            event.object.clone().into(),
            Cell::colored(event.reason.clone(), event.warning.then_some(Color::Yellow)),
            event.message.clone().into(),
        ]);
    }
    table.show(format, headers, style)
}

/// Renders events for a terminal with their age, object and wrapped message. Omits the job's name
/// where an object's name begins with it.
pub fn listing(events: &[Event], job: &str, style: TextStyle, now: Timestamp) -> String {
    let object_text = |event: &Event| {
        let (kind, name) = event
            .object
            .split_once('/')
            .unwrap_or((event.object.as_str(), ""));
        let rest = name
            .strip_prefix(job)
            .map_or(name, |rest| rest.trim_start_matches('-'));
        let kind = match kind {
            "HorizontalPodAutoscaler" => "autoscaler".to_owned(),
            "PersistentVolumeClaim" => "claim".to_owned(),
            other => other.to_lowercase(),
        };
        clean(format!("{kind} {rest}").trim_end()).into_owned()
    };
    let widest = events
        .iter()
        .map(|event| object_text(event).chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for event in events {
        let times = if event.count > 1 {
            format!(" (×{})", event.count)
        } else {
            String::new()
        };
        let message = wrapped(&format!("{}{times}", plain_words(event)), widest + 9, style);
        let color = event.warning.then_some(Color::Yellow);
        text.push_str(&format!(
            "{:>5}  {:<widest$}  {}\n",
            age(event.at, now),
            object_text(event),
            paint(&message, color, style)
        ));
    }
    text
}

/// Renders an event on one line, for `--watch`.
pub fn line(event: &Event, style: TextStyle) -> String {
    let time = event
        .at
        .map_or_else(|| "-".to_owned(), |time| format!("{time:.0}"));
    let message = paint(
        &plain_words(event),
        event.warning.then_some(Color::Yellow),
        style,
    );
    format!("{time} {} {message}\n", clean(&event.object))
}

/// Renders the last events in plain words, with the newest last. Events with the same words, such
/// as those of several pods, are merged.
pub fn recent(events: &[Event], style: TextStyle, now: Timestamp) -> String {
    const SHOWN: usize = 8;
    let mut lines: Vec<(&Event, String, u32)> = Vec::new();
    for event in events {
        let message = plain_words(event);
        let earlier = lines
            .iter()
            .position(|(_, existing, _)| *existing == message);
        // Move a merged line to the end, because it shows the newest time.
        let count = earlier.map_or(0, |index| lines.remove(index).2);
        lines.push((event, message, count.saturating_add(event.count)));
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = "EVENTS\n".to_owned();
    for (event, message, count) in lines.iter().skip(lines.len().saturating_sub(SHOWN)) {
        let times = if *count > 1 {
            format!(" (×{count})")
        } else {
            String::new()
        };
        let message = wrapped(&format!("{message}{times}"), 9, style);
        let color = event.warning.then_some(Color::Yellow);
        text.push_str(&format!(
            "  {:>5}  {}\n",
            age(event.at, now),
            paint(&message, color, style)
        ));
    }
    text
}

/// Translates an event for users who do not know Kubernetes. Unknown events keep their message.
fn plain_words(event: &Event) -> String {
    let message = clean(&event.message);
    let last_word = message.rsplit(' ').next().unwrap_or_default();
    match event.reason.as_str() {
        // "Successfully assigned NAMESPACE/POD to NODE"
        "Scheduled" => format!("placed on {last_word}"),
        "SuccessfulCreate" => "created a pod".to_owned(),
        "SuccessfulDelete" => "deleted a pod".to_owned(),
        "FailedScheduling" => format!(
            "does not fit: {}",
            gpuctl_core::model::facts::state::scheduler_words(&message)
        ),
        // "Scaled up replica set NAME from 1 to 2", and "Scaled down …"
        "ScalingReplicaSet" if message.contains(" from ") => {
            format!(
                "scaled{} pods",
                message.find(" from ").map_or("", |at| &message[at..])
            )
        }
        // The job controller's event does not show who suspended the job.
        "Suspended" => "paused, or held back by its queue".to_owned(),
        "Resumed" => "resumed".to_owned(),
        "Completed" => "completed".to_owned(),
        // Omit the reason, because these messages are clear without it.
        "SuccessfulRescale" | "Started" | "Created" | "Pulling" | "Pulled" | "Killing"
        | "Failed" | "BackOff" => message.into_owned(),
        reason => format!("{}: {message}", clean(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, message: &str, object: &str) -> Event {
        Event {
            version: 0,
            at: None,
            warning: false,
            reason: reason.into(),
            message: message.into(),
            object: object.into(),
            count: 1,
        }
    }

    #[test]
    fn recent_events_are_in_the_order_of_their_times() {
        let at = |seconds: i64, event: Event| Event {
            at: Timestamp::from_second(seconds).ok(),
            ..event
        };
        let waits = |seconds| at(seconds, event("FailedScheduling", "no claim", "Pod/a-0"));
        let mut events = [
            waits(10),
            at(12, event("SuccessfulCreate", "Created pod: a-1", "Job/a")),
            at(20, event("Scheduled", "assigned a-0 to n1", "Pod/a-0")),
            waits(20),
        ];
        events.sort_by(Event::in_order);
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        let text = recent(&events, style, Timestamp::from_second(30).unwrap());
        let lines: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "18s  created a pod",
                "10s  does not fit: no claim (×2)",
                "10s  placed on n1"
            ]
        );
    }

    #[test]
    fn equal_events_of_several_pods_are_one_line() {
        let events = [
            event("SuccessfulCreate", "Created pod: a-0-x", "Job/a"),
            event("SuccessfulCreate", "Created pod: a-1-y", "Job/a"),
            event(
                "Scheduled",
                "Successfully assigned team-a/a-0-x to gpu-1",
                "Pod/a-0-x",
            ),
            event(
                "FailedScheduling",
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes",
                "Pod/a-1-y",
            ),
        ];
        let style = TextStyle {
            width: None,
            color: false,
            plain: false,
        };
        let text = recent(&events, style, Timestamp::UNIX_EPOCH);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(
            lines,
            [
                "EVENTS",
                "-  created a pod (×2)",
                "-  placed on gpu-1",
                "-  does not fit: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
            ]
        );
    }
}
