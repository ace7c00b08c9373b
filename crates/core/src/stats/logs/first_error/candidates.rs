//! Keeps the lines that may state why a program ended, and drops the errors that it survived.

use jiff::Timestamp;

use super::error::{LogError, Strength};
use super::patterns;
use super::text;

/// Maximum number of ordinary lines between a logged error and the signal that follows from it. A
/// launcher ends its other processes at once.
const KILLED_AFTER: u32 = 8;

const COUNT: usize = Strength::Summary as usize + 1;

impl Strength {
    /// Maximum number of ordinary lines between two errors of one failure. The first of them
    /// counts, because the others follow from it.
    const fn gap(self) -> u32 {
        match self {
            Self::Cause => 100,
            Self::Logged | Self::Killed | Self::Lost | Self::Summary => 20,
            Self::LastLine | Self::Marked => 10,
        }
    }

    /// Maximum number of ordinary lines between an error and the end that it caused. A program
    /// that logs more has survived it.
    const fn reach(self) -> u32 {
        match self {
            Self::Cause => 1000,
            Self::Logged | Self::Killed | Self::Lost | Self::Summary => 200,
            Self::Marked => 50,
            Self::LastLine => 2,
        }
    }

    /// Number of steps after which the program has certainly survived the error. Another rank may
    /// log one more step after an exception, and a summary of the run may look like one.
    const fn steps(self) -> u32 {
        match self {
            Self::Marked | Self::LastLine => 1,
            _ => 2,
        }
    }
}

/// The first error of the latest failure with one strength.
#[derive(Clone, Debug)]
struct ErrorCandidate {
    error: LogError,
    /// Position among all candidates.
    order: u64,
    /// Ordinary lines after the last error of this failure.
    since: u32,
    /// Lines of any kind after the last error of this failure.
    age: u32,
    steps: u32,
    /// Whether Python's top level raised it, so the interpreter exits.
    is_exit: bool,
}

/// Size of the buffer that Python writes at its exit, after the traceback, if its output is a pipe
/// (`io.DEFAULT_BUFFER_SIZE`).
const EXIT_BUFFER: usize = 8192;
/// Maximum time between a traceback and the buffer that Python writes at its exit, in seconds.
const EXIT_SECONDS: i64 = 1;

/// An uncaught exception, and the output after it, which may be older than the exception.
#[derive(Clone, Debug)]
struct ExitOutput {
    error: LogError,
    at: Timestamp,
    bytes: usize,
}

/// The lines that may state why the program ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    by_strength: [Option<ErrorCandidate>; COUNT],
    exit: Option<ExitOutput>,
    count: u64,
}

impl Candidates {
    /// Adds an error. `error` is called only if the error is the first of its failure.
    pub(super) fn add(
        &mut self,
        strength: Strength,
        is_exit: bool,
        error: impl FnOnce() -> LogError,
    ) {
        self.exit = None;
        self.count += 1;
        if strength != Strength::Summary {
            self.drop_survived(strength);
        }
        let slot = &mut self.by_strength[strength as usize];
        match slot {
            Some(known) if known.since <= strength.gap() && known.steps == 0 => {
                (known.since, known.age) = (0, 0);
            }
            _ => {
                *slot = Some(ErrorCandidate {
                    error: error(),
                    order: self.count,
                    since: 0,
                    age: 0,
                    steps: 0,
                    is_exit,
                });
            }
        }
    }

    /// Drops the weak errors that the program survived: before an error with this strength, it did
    /// other things.
    pub(super) fn drop_survived(&mut self, strength: Strength) {
        for weak in [Strength::Logged, Strength::Marked, Strength::LastLine] {
            let slot = &mut self.by_strength[weak as usize];
            let gap = if strength == Strength::Killed {
                KILLED_AFTER
            } else {
                weak.gap()
            };
            slot.take_if(|known| known.since > gap || known.steps > 0);
        }
    }

    /// Counts a line of any kind except an error.
    pub(super) fn line(&mut self, at: Option<Timestamp>, length: usize) {
        let known = self.by_strength.iter_mut().flatten();
        known.for_each(|candidate| candidate.age = candidate.age.saturating_add(1));
        self.exit.take_if(|exit| {
            exit.bytes += length + 1;
            let late = at.is_none_or(|at| at.as_second() - exit.at.as_second() > EXIT_SECONDS);
            late || exit.bytes > EXIT_BUFFER
        });
    }

    /// Counts an ordinary line. `is_logged` is true for lines with a severity below errors.
    pub(super) fn ordinary(&mut self, is_logged: bool) {
        for (index, slot) in self.by_strength.iter_mut().enumerate() {
            let strength = STRENGTHS[index];
            slot.take_if(|known| {
                known.since += 1;
                let ended = strength == Strength::LastLine && !is_logged;
                ended || known.since > strength.reach()
            });
        }
    }

    /// Counts a step of a training, or other proof that the program works.
    pub(super) fn step(&mut self, at: Option<Timestamp>, length: usize) {
        for (index, slot) in self.by_strength.iter_mut().enumerate() {
            let strength = STRENGTHS[index];
            let dropped = slot.take_if(|known| {
                known.steps += 1;
                known.since += 1;
                known.steps >= strength.steps()
            });
            let exit = dropped.filter(|known| known.is_exit);
            if let Some(known) = exit
                && let Some((start, end)) = known.error.at.zip(at)
                && end.as_second() - start.as_second() <= EXIT_SECONDS
            {
                self.exit = Some(ExitOutput {
                    error: known.error,
                    at: start,
                    bytes: length,
                });
            }
        }
    }

    /// Drops everything: the program has started again.
    pub(super) fn restart(&mut self) {
        self.by_strength = Default::default();
        self.exit = None;
    }

    /// Drops the errors of the last lines, because the program has handled them.
    pub(super) fn handled(&mut self, lines: u32) {
        for slot in &mut self.by_strength {
            slot.take_if(|known| known.age < lines);
        }
    }

    /// Drops the lines of torchrun, before its summary of the same failure.
    pub(super) fn drop_launcher_lines(&mut self) {
        for strength in [Strength::Killed, Strength::Summary] {
            self.by_strength[strength as usize].take_if(|known| {
                let line = &known.error.line;
                line.contains("local_rank: ") || line.contains("ChildFailedError")
            });
        }
    }

    /// Prefers a warning of NCCL to its error without a cause, because the warning names the cause.
    pub(super) fn promote_warning(&mut self, is_exit: bool, strength: Strength) {
        let warning = [Strength::Logged, Strength::Lost]
            .into_iter()
            .find_map(|weak| {
                let known = self.by_strength[weak as usize].as_ref()?;
                let is_near = known.since <= weak.gap() && known.steps == 0;
                let is_warning = text::nccl_warning(&known.error.line).is_some();
                (is_near && is_warning).then(|| known.error.clone())
            });
        if let Some(warning) = warning {
            self.add(strength, is_exit, || warning);
        }
    }

    /// Replaces the line of a logged error by that of its cause. Returns whether there is one.
    pub(super) fn replace_logged(&mut self, line: &str) -> bool {
        let known = self.by_strength[Strength::Logged as usize].as_mut();
        let known = known.filter(|known| known.since <= Strength::Logged.gap());
        known
            .map(|known| line.trim_end().clone_into(&mut known.error.line))
            .is_some()
    }

    /// Returns the error that ended the program.
    pub(super) fn verdict(mut self) -> Option<LogError> {
        let steps = |slots: &[Option<ErrorCandidate>; COUNT], strength: Strength| {
            slots[strength as usize].as_ref().map(|known| known.steps)
        };
        // The other ranks time out in a collective, because this one failed before.
        let [cause, logged] = [Strength::Cause, Strength::Logged]
            .map(|strength| self.by_strength[strength as usize].as_ref());
        if let Some((cause, logged)) = cause.zip(logged)
            && logged.order < cause.order
            && logged.steps == 0
            && patterns::is_timeout(&cause.error.line)
        {
            self.by_strength[Strength::Cause as usize] = None;
        }
        // A step followed the uncaught exception and preceded the logged one.
        if steps(&self.by_strength, Strength::Cause) > Some(0)
            && steps(&self.by_strength, Strength::Logged) == Some(0)
        {
            self.by_strength[Strength::Cause as usize] = None;
        }
        let order = |slots: &[Option<ErrorCandidate>; COUNT], strength: Strength| {
            slots[strength as usize].as_ref().map(|known| known.order)
        };
        let (lost, marked) = (
            order(&self.by_strength, Strength::Lost),
            order(&self.by_strength, Strength::Marked),
        );
        if lost.zip(marked).is_some_and(|(lost, marked)| lost < marked) {
            self.by_strength[Strength::Marked as usize] = None;
        }
        let mut slots = self.by_strength.into_iter().zip(STRENGTHS);
        let best = slots.find_map(|(slot, strength)| {
            let error = slot?.error;
            Some(LogError { strength, ..error })
        });
        best.or(self.exit.map(|exit| LogError {
            strength: Strength::Cause,
            ..exit.error
        }))
    }
}

const STRENGTHS: [Strength; COUNT] = [
    Strength::Cause,
    Strength::Logged,
    Strength::Killed,
    Strength::LastLine,
    Strength::Marked,
    Strength::Lost,
    Strength::Summary,
];
