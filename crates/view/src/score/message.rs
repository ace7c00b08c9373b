//! Renders the chat message about underused devices.

use gpuctl_core::stats::score::selection::Scored;
use gpuctl_core::stats::score::value::Score;

use crate::format::text::{count, in_chat};

/// Maximum number of characters of an AI's reason.
const REASON: usize = 120;

/// Renders a chat message about underused devices with at most `max_length` bytes. Also returns the
/// number of devices in the message.
pub fn message(rows: &[&Scored], threshold: f64, max_length: usize) -> (String, usize) {
    let mut text = format!(
        "{} with a utilization score below {threshold}\n",
        count(rows.len() as u64, "GPU")
    );
    for (count, row) in rows.iter().enumerate() {
        let (namespace, pod) = row.holder();
        let score = row
            .score
            .value
            .map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        let Scored {
            reading,
            score: Score { band, .. },
            ..
        } = row;
        let mut line = format!(
            "- {}/{}: score {score} ({}), {} on {}\n",
            in_chat(namespace.unwrap_or("-")),
            in_chat(pod.unwrap_or("-")),
            band.word(),
            in_chat(&row.id().unwrap_or_default()),
            in_chat(&reading.node)
        );
        if let Some(opinion) = &row.opinion {
            let reason: String = in_chat(&opinion.reason).chars().take(REASON).collect();
            line.push_str(&format!("  AI: {}, {reason}\n", opinion.verdict.word()));
        }
        let rest = format!("and {} more\n", rows.len() - count);
        // The last device can use the space reserved for the note about further devices.
        let available = if count + 1 == rows.len() {
            max_length
        } else {
            max_length.saturating_sub(rest.len())
        };
        if text.len() + line.len() > available {
            text.push_str(&rest);
            return (text, count);
        }
        text.push_str(&line);
    }
    (text, rows.len())
}
