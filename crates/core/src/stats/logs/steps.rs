//! Finds the training steps in log lines, and the phase after the last step. Lines of other phases
//! also contain step numbers, and evaluations and data sets also draw progress bars.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;

use super::bars::{bar_counts, is_training_bar};
use super::phases::{LogPhase, PhaseMark, phase_mark};
use super::training::{self, Measure};

/// Time of a program's last step, and the interval between its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Cadence {
    pub last: Timestamp,
    /// Median interval in seconds.
    pub seconds: f64,
    /// Longest interval in seconds. It may include a checkpoint or an evaluation.
    pub longest: f64,
}

/// The phase of a training after its last step, according to its log.
#[derive(Clone, Debug, PartialEq)]
pub struct CurrentPhase {
    pub phase: LogPhase,
    /// Time of the first line of the phase.
    pub since: Option<Timestamp>,
    /// The last line of the phase.
    pub line: String,
    /// Number of later lines without a phase or step.
    pub lines_after: usize,
}

/// Pattern for lines that mention a step, other than bars.
const STEP: &str = r"(?i)\b(?:step|iter|iteration|batch)\b[\s:=\[#]*\d+";

static STEPS: LazyLock<Regex> = LazyLock::new(|| Regex::new(STEP).expect("the pattern is tested"));

/// Reads lines in order, because a bar is judged by the bars before it.
#[derive(Default)]
struct LineReader {
    /// Done and all steps of the last bar that may be the training's.
    bar: Option<(f64, f64)>,
}

/// The meaning of a line.
enum LineKind {
    Step,
    Phase(LogPhase),
    PhaseEnd,
    Other,
}

impl LineReader {
    fn kind(&mut self, line: &str) -> LineKind {
        let is_bar = line.rsplit('\r').any(is_training_bar);
        let is_inner = is_bar && self.is_inner_bar(line);
        match phase_mark(line) {
            Some(PhaseMark::In(_)) if !is_bar && !is_of_other_phase(line) => LineKind::Step,
            Some(PhaseMark::In(phase)) => LineKind::Phase(phase),
            Some(PhaseMark::End) => LineKind::PhaseEnd,
            None if is_inner => LineKind::Phase(LogPhase::Evaluating),
            None if is_bar || STEPS.is_match(line) => LineKind::Step,
            None => LineKind::Other,
        }
    }

    /// Returns true for a bar that is shorter than an unfinished one before it, as the bar of an
    /// evaluation by Hugging Face's Trainer, which has no title.
    fn is_inner_bar(&mut self, line: &str) -> bool {
        let Some((done, total)) = bar_counts(line) else {
            return false;
        };
        let is_inner = self
            .bar
            .is_some_and(|(outer_done, outer)| total < outer && outer_done < outer);
        if !is_inner {
            self.bar = Some((done, total));
        }
        is_inner
    }
}

/// Whether the line belongs to a phase without training steps. A line with a step and its loss
/// does not, although it may mention the time for loading data.
pub(super) fn is_of_other_phase(line: &str) -> bool {
    match phase_mark(line) {
        Some(PhaseMark::In(LogPhase::Saving | LogPhase::Evaluating)) => true,
        Some(PhaseMark::In(_)) => !is_step_with_loss(line),
        Some(PhaseMark::End) | None => false,
    }
}

fn is_step_with_loss(line: &str) -> bool {
    let values = training::read(line);
    let has = |searched: Measure| values.iter().any(|(measure, _)| *measure == searched);
    has(Measure::Iteration) && has(Measure::Loss)
}

/// Returns the time of the first line that mentions a training step.
pub fn first_step<'a>(mut lines: impl Iterator<Item = (Timestamp, &'a str)>) -> Option<Timestamp> {
    let mut reader = LineReader::default();
    lines
        .find(|(_, line)| matches!(reader.kind(line), LineKind::Step))
        .map(|(time, _)| time)
}

/// Computes the interval between lines that mention a training step, or returns `None` if there are
/// fewer than three.
pub fn cadence<'a>(lines: impl Iterator<Item = (Timestamp, &'a str)>) -> Option<Cadence> {
    let mut reader = LineReader::default();
    let times: Vec<Timestamp> = lines
        .filter(|(_, line)| matches!(reader.kind(line), LineKind::Step))
        .map(|(time, _)| time)
        .collect();
    let mut between: Vec<f64> = times
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_secs_f64())
        .collect();
    if between.len() < 2 {
        return None;
    }
    between.sort_by(f64::total_cmp);
    Some(Cadence {
        last: *times.last()?,
        seconds: between[between.len() / 2].max(0.0),
        longest: between.last().copied().unwrap_or_default().max(0.0),
    })
}

/// Returns the phase that the last lines show, or `None` if a training step or the end of the phase
/// follows it. Other lines do not end a phase.
pub fn current_phase<'a>(
    lines: impl Iterator<Item = (Option<Timestamp>, &'a str)>,
) -> Option<CurrentPhase> {
    let mut reader = LineReader::default();
    let mut current: Option<CurrentPhase> = None;
    for (time, line) in lines {
        match reader.kind(line) {
            LineKind::Phase(phase) => {
                let earlier = current.filter(|current| current.phase == phase);
                let last = line.rsplit('\r').find(|part| !part.trim().is_empty());
                current = Some(CurrentPhase {
                    phase,
                    since: earlier.map_or(time, |earlier| earlier.since),
                    line: last.unwrap_or(line).trim().to_owned(),
                    lines_after: 0,
                });
            }
            LineKind::Step | LineKind::PhaseEnd => current = None,
            LineKind::Other => {
                if let Some(current) = &mut current {
                    current.lines_after += 1;
                }
            }
        }
    }
    current
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn cadence_is_measured_from_steps() {
        let lines = [
            (0, "loading"),
            (10, "step 1/100 loss 2"),
            (19, "iteration 2"),
            (28, "step: 3"),
            (90, "evaluating"),
            (91, "Batch 4"),
        ];
        let cadence_of = |count: usize| {
            cadence(
                lines[..count]
                    .iter()
                    .map(|(second, line)| (time(*second), *line)),
            )
        };
        // The intervals are 9, 9 and 63 seconds.
        assert_eq!(
            cadence_of(6),
            Some(Cadence {
                last: time(91),
                seconds: 9.0,
                longest: 63.0,
            })
        );
        assert_eq!(cadence_of(3), None);
    }

    fn phase_of(lines: &[&str]) -> Option<(LogPhase, i64)> {
        let lines = lines.iter().enumerate();
        let timed = lines.map(|(index, line)| (Some(time(i64::try_from(index).unwrap())), *line));
        current_phase(timed).map(|current| (current.phase, current.since.unwrap().as_second()))
    }

    #[test]
    fn a_phase_lasts_until_the_next_step_or_its_end() {
        let saving = "saving checkpoint at iteration 1000 to /ckpt";
        let step = "iteration 1000/ 5000 | lm loss: 2.3";
        assert_eq!(phase_of(&[step, saving]), Some((LogPhase::Saving, 1)));
        assert_eq!(
            phase_of(&[step, saving, "W0101 a warning"]),
            Some((LogPhase::Saving, 1))
        );
        assert_eq!(phase_of(&[step, saving, step]), None);
        let end = "  successfully saved checkpoint from iteration 1000 to /ckpt";
        assert_eq!(phase_of(&[step, saving, end]), None);
        // The first line of the phase counts.
        let files = [
            step,
            saving,
            "[Torch] Saving /ckpt/a.pt...",
            "[Torch] Saved /ckpt/a.pt.",
        ];
        assert_eq!(phase_of(&files), Some((LogPhase::Saving, 1)));
        let logged = "step 7 | loss: 2.3 | loading data 0.01 s";
        assert_eq!(phase_of(&[saving, logged]), None);
        let other = [saving, "***** Running Evaluation *****"];
        assert_eq!(phase_of(&other), Some((LogPhase::Evaluating, 1)));
    }

    #[test]
    fn bars_inside_the_bar_of_the_training_are_evaluations() {
        let lines = [
            " 50%|█████     | 500/1000 [10:00<10:00,  1.2s/it]",
            "  2%|▏         | 1/50 [00:01<00:49]",
            "  4%|▍         | 2/50 [00:02<00:48]",
        ];
        assert_eq!(phase_of(&lines), Some((LogPhase::Evaluating, 1)));
        // A bar that has ended may be of a data set, and then the training begins.
        let lines = [
            "100%|██████████| 9000/9000 [00:10<00:00]",
            "  1%| | 1/100 [00:10<10:00]",
        ];
        assert_eq!(phase_of(&lines), None);
        let steps = |bars: &[&str]| {
            let timed = bars.iter().enumerate();
            let timed = timed.map(|(index, line)| (time(i64::try_from(index).unwrap()), *line));
            cadence(timed).map(|cadence| cadence.last.as_second())
        };
        let inner = " 50%|█████     | 25/50 [00:01<00:01]";
        let outer = |done: u32| format!(" 50%|█████     | {done}/1000 [10:00<10:00]");
        let (first, second, third) = (outer(500), outer(501), outer(502));
        assert_eq!(steps(&[&first, &second, &third, inner, inner]), Some(2));
    }

    #[test]
    fn text_after_a_bar_begins_a_phase() {
        let bar = " 50%|█████     | 500/1000 [10:00<10:00,  1.2s/it]";
        let line = format!("{bar}Saving model checkpoint to /out/checkpoint-500");
        assert_eq!(phase_of(&[&line]), Some((LogPhase::Saving, 0)));
        assert_eq!(phase_of(&[bar]), None);
    }
}
