//! Follows Python's tracebacks, of several processes at the same time.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::code;
use super::error::{LogError, Strength};
use super::patterns;
use super::text::{LogSeverity, LogText};

const HEADER: &str = "Traceback (most recent call last)";
/// Lines between tracebacks of one chain (`Lib/traceback.py`).
const CHAIN: [&str; 2] = [
    "During handling of the above exception, another exception occurred",
    "The above exception was the direct cause of the following exception",
];
/// Lines before a traceback that does not end the program.
const IGNORED: [&str; 4] = [
    "Exception ignored in",
    "--- Logging error ---",
    "Error in atexit._run_exitfuncs:",
    "Error in sys.excepthook:",
];
/// Maximum number of other processes' lines within a traceback.
const MAX_STRAY: u32 = 20;
/// The same without a header: a stack that a program prints is not followed by an exception.
const MAX_STRAY_HEADLESS: u32 = 3;
/// Maximum number of processes whose tracebacks are followed.
const MAX_SOURCES: usize = 1024;

static FRAME: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"^(?:> )?File "([^"]*)", line [0-9]+(?:, in (.+))?"#));
/// The line that states the exception. Its name need not end with `Error`.
static EXCEPTION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^([A-Za-z_]\w*(?:\.[\w<>]+)*)(?:\([\w.]+\))?(?::|$)"));
/// The same, if source lines have lost their indentation: `else:` is not an exception.
static CLASS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^(?:[\w<>]+\.)*[A-Z]\w*(?:\([\w.]+\))?(?::|$)"));
/// The same, if the header is missing. Frames without a header need not end in an exception.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:(?:[A-Za-z_]\w*\.)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception|Interrupt|Exit))(?:\([\w.]+\))?(?::|$)",
    )
});
/// Names of values that another process may log within a traceback.
static VALUE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)^(?:loss|epoch|step|iter\w*|lr|acc\w*|batch|time|eta):"));
/// The header that `multiprocessing/process.py` prints above an uncaught exception.
static PROCESS: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^Process [\w.<>-]+(?:-|_)[0-9]+(?::[0-9]+)*:$|^Process [A-Z]\w+:$"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are tested")
}

/// Role of a line in the tracebacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TracebackLine {
    /// It does not belong to a traceback.
    Outside,
    Inside,
    /// It states an exception.
    Exception {
        /// Whether nothing caught the exception in its process.
        is_uncaught: bool,
        /// Whether the exception left the top level of a program.
        is_exit: bool,
        /// Position of the exception in its chain: the first one is the root.
        chain: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TracebackPhase {
    Frames,
    /// The exception was on the last line.
    Stated,
    Chained,
}

#[derive(Clone, Debug)]
struct OpenTraceback {
    phase: TracebackPhase,
    /// Number of spaces before the header.
    indent: usize,
    frames: u32,
    stray: u32,
    is_uncaught: bool,
    is_exit: bool,
    /// A thread may die without its process.
    is_thread: bool,
    is_ignored: bool,
    /// Whether the lines start with the margin of an exception group.
    is_group: bool,
    /// Whether the header is missing.
    is_headless: bool,
    /// Whether the frames have lost their indentation.
    is_flat: bool,
    /// Whether the last line was a frame without indentation, so that its source line follows.
    is_source_next: bool,
    severity: Option<LogSeverity>,
    chain: u32,
    root: Option<(Strength, LogError)>,
}

/// The tracebacks that are open, by the prefix of their process.
#[derive(Clone, Debug, Default)]
pub(super) struct Tracebacks {
    open: HashMap<String, OpenTraceback>,
    is_ignored_next: bool,
    is_process_next: bool,
    is_thread_next: bool,
    /// Number of lines of loggers that may still follow a traceback that the end of the log cuts
    /// off. 0 if the newest traceback is complete.
    truncated: u32,
}

impl Tracebacks {
    pub(super) fn take(&mut self, text: &LogText<'_>) -> TracebackLine {
        let body = text.body.trim_end();
        if body.contains(HEADER) && self.start(text, body) {
            self.truncated = MAX_STRAY;
            return TracebackLine::Inside;
        }
        let mut line = self.next(text, body);
        if line == TracebackLine::Outside && code::is_code(body.trim_start()) {
            self.start_headless(text, body);
            line = TracebackLine::Inside;
        }
        let is_logged = text
            .severity
            .is_some_and(|level| level < LogSeverity::Error);
        self.truncated = match line {
            TracebackLine::Inside if self.has_frames(&text.source) => MAX_STRAY,
            TracebackLine::Outside if is_logged => self.truncated.saturating_sub(1),
            _ => 0,
        };
        if line == TracebackLine::Outside {
            self.is_ignored_next = IGNORED.iter().any(|start| body.contains(start));
            self.is_process_next = body.ends_with(':') && PROCESS.is_match(body);
            self.is_thread_next = body.starts_with("Exception in thread ");
        }
        line
    }

    /// Returns whether the log ends within a traceback.
    pub(super) fn is_truncated(&self) -> bool {
        self.truncated > 0
    }

    /// The first exception of the chain that the process is in.
    pub(super) fn root(&mut self, source: &str) -> Option<&mut Option<(Strength, LogError)>> {
        self.open.get_mut(source).map(|open| &mut open.root)
    }

    fn has_frames(&self, source: &str) -> bool {
        let open = self.open.get(source);
        open.is_some_and(|open| {
            open.phase == TracebackPhase::Frames && !open.is_ignored && !open.is_headless
        })
    }

    /// Opens a traceback. Returns `false` for prose that only mentions one.
    fn start(&mut self, text: &LogText<'_>, body: &str) -> bool {
        let Some((before, after)) = body.split_once(HEADER) else {
            return false;
        };
        let is_box = after.contains('─');
        if !(is_box || matches!(after.trim(), ":" | "") || after.starts_with(" from ")) {
            return false;
        }
        let is_group = before.trim_start().starts_with(['|', '+']);
        let indent = match before.trim() {
            "" => before.len(),
            // torchrun indents the traceback of an error file by two spaces.
            label if label.starts_with("traceback") => 2,
            _ => 0,
        };
        let known = self.open.get(&text.source);
        let chained = known.filter(|open| open.phase == TracebackPhase::Chained);
        let group = known.filter(|open| open.is_group && is_group);
        let inherited = group.or(chained);
        let quiet = text
            .severity
            .is_some_and(|level| level < LogSeverity::Error);
        let opened = OpenTraceback {
            phase: TracebackPhase::Frames,
            indent,
            frames: 0,
            stray: 0,
            is_uncaught: self.is_process_next
                || text.is_rank && text.severity.is_none()
                || group.is_some_and(|open| open.is_uncaught),
            is_exit: group.is_some_and(|open| open.is_exit),
            is_thread: self.is_thread_next,
            is_ignored: self.is_ignored_next
                || quiet
                || inherited.is_some_and(|open| open.is_ignored),
            is_group,
            is_headless: false,
            is_flat: false,
            is_source_next: false,
            severity: text.severity,
            chain: chained.map_or(0, |open| open.chain + 1),
            root: chained.and_then(|open| open.root.clone()),
        };
        (
            self.is_ignored_next,
            self.is_process_next,
            self.is_thread_next,
        ) = (false, false, false);
        self.insert(text, opened);
        true
    }

    fn insert(&mut self, text: &LogText<'_>, opened: OpenTraceback) {
        if self.open.len() >= MAX_SOURCES {
            self.open.clear();
        }
        self.open.insert(text.source.clone(), opened);
    }

    /// Opens a traceback at a frame, if its header is missing.
    fn start_headless(&mut self, text: &LogText<'_>, body: &str) {
        let trimmed = body.trim_start();
        let is_frame = FRAME
            .captures(trimmed)
            .is_some_and(|found| found.get(2).is_some());
        let known = self.open.get(&text.source);
        if !is_frame || known.is_some_and(|open| open.phase == TracebackPhase::Frames) {
            return;
        }
        let chained = known.filter(|open| open.phase == TracebackPhase::Chained);
        let quiet = text
            .severity
            .is_some_and(|level| level < LogSeverity::Error);
        let indent = body.len() - trimmed.len();
        let opened = OpenTraceback {
            phase: TracebackPhase::Frames,
            indent: indent.saturating_sub(2),
            // The first frame need not be the outermost one.
            frames: 1,
            stray: 0,
            is_uncaught: false,
            is_exit: false,
            is_thread: false,
            is_ignored: quiet || chained.is_some_and(|open| open.is_ignored),
            is_group: false,
            is_headless: true,
            is_flat: indent == 0,
            is_source_next: indent == 0,
            severity: text.severity,
            chain: chained.map_or(0, |open| open.chain + 1),
            root: chained.and_then(|open| open.root.clone()),
        };
        self.insert(text, opened);
    }

    fn next(&mut self, text: &LogText<'_>, body: &str) -> TracebackLine {
        let Some(open) = self.open.get_mut(&text.source) else {
            return TracebackLine::Outside;
        };
        let body = if open.is_group {
            let margin = body.trim_start();
            if margin.starts_with("+-") {
                return TracebackLine::Inside;
            }
            margin
                .strip_prefix('|')
                .map_or(body, |rest| rest.strip_prefix(' ').unwrap_or(rest))
        } else {
            body
        };
        let trimmed = body.trim_start();
        let indent = body.len() - trimmed.len();
        if trimmed.is_empty() {
            return TracebackLine::Inside;
        }
        if open.phase != TracebackPhase::Frames {
            return open.after_exception(trimmed, indent);
        }
        let line = open.among_frames(text, trimmed, indent);
        let limit = if open.is_headless {
            MAX_STRAY_HEADLESS
        } else {
            MAX_STRAY
        };
        if open.stray > limit {
            self.open.remove(&text.source);
        }
        line
    }
}

impl OpenTraceback {
    /// Classifies a line before the exception.
    fn among_frames(&mut self, text: &LogText<'_>, trimmed: &str, indent: usize) -> TracebackLine {
        let is_box = trimmed.starts_with(['╭', '│', '╰', '>', '└', '├']);
        let is_other_level = self.is_headless && text.severity != self.severity;
        let is_named_frame = FRAME.is_match(trimmed);
        if !is_other_level && (indent > self.indent || is_box || is_named_frame) {
            self.is_source_next = is_named_frame && indent <= self.indent;
            self.is_flat |= self.is_source_next;
            self.frame(trimmed);
            return TracebackLine::Inside;
        }
        let is_logged_apart = text.severity != self.severity
            && text
                .severity
                .is_some_and(|level| level < LogSeverity::Error);
        let is_exception = self.is_exception(trimmed);
        if self.is_source_next && !is_exception && text.severity == self.severity {
            self.is_source_next = false;
            // The report of a signal may follow a frame.
            if patterns::strength(trimmed) != Some(Strength::Killed) {
                return TracebackLine::Inside;
            }
        }
        if is_exception && !is_logged_apart {
            (self.phase, self.stray) = (TracebackPhase::Stated, 0);
            if self.is_ignored {
                return TracebackLine::Inside;
            }
            let is_logged = text.severity.is_some();
            return TracebackLine::Exception {
                is_uncaught: self.is_uncaught && !self.is_thread && !is_logged,
                is_exit: self.is_exit && !is_logged,
                chain: self.chain,
            };
        }
        // Lines of loggers are certainly not a part of it.
        self.stray += u32::from(!is_logged_apart);
        TracebackLine::Outside
    }

    /// Returns whether a line after the frames states the exception.
    fn is_exception(&self, trimmed: &str) -> bool {
        let form = if self.is_headless {
            &NAMED
        } else if self.is_flat {
            &CLASS
        } else {
            &EXCEPTION
        };
        form.is_match(trimmed) && !VALUE.is_match(trimmed)
    }

    /// Classifies a line after the exception.
    fn after_exception(&mut self, trimmed: &str, indent: usize) -> TracebackLine {
        if CHAIN.iter().any(|link| trimmed.starts_with(link)) {
            self.phase = TracebackPhase::Chained;
            return TracebackLine::Inside;
        }
        // Ray appends the frames and the exception of the task to its own exception.
        let is_next = self.phase == TracebackPhase::Stated && self.stray == 0;
        if is_next && indent > self.indent && FRAME.is_match(trimmed) {
            self.phase = TracebackPhase::Frames;
            return TracebackLine::Inside;
        }
        self.stray += 1;
        TracebackLine::Outside
    }

    /// Reads a frame. The outermost one tells whether a caller could catch the exception.
    fn frame(&mut self, line: &str) {
        // rich draws a box: `│ /train.py:12 in <module>  │`.
        if self.frames == 0 && line.starts_with('│') && line.contains(" in ") {
            self.frames = 1;
            self.is_exit |= line.contains(" in <module>");
            self.is_uncaught |= self.is_exit;
            return;
        }
        let Some(found) = FRAME.captures(line) else {
            return;
        };
        self.frames += 1;
        if self.frames > 1 {
            return;
        }
        let (file, name) = (&found[1], found.get(2).map_or("", |name| name.as_str()));
        let name = name.trim();
        match name {
            "<module>" | "_run_module_as_main" | "_run_code" => {
                (self.is_exit, self.is_uncaught) = (true, true);
            }
            "_bootstrap_inner" => self.is_thread = true,
            "_bootstrap" if file.contains("process") => self.is_uncaught = true,
            // `torch/multiprocessing/spawn.py`
            "_wrap" if file.ends_with("spawn.py") => self.is_uncaught = true,
            _ => {}
        }
    }
}
