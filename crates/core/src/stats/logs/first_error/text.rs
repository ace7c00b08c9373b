//! Splits a line of a log into what launchers and loggers add to it (the process, the time, the
//! severity, the place in the source) and the text of the program.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// How severe the logger considers a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogSeverity {
    /// Trace, debug, info and notice.
    Quiet,
    Warning,
    Error,
    Fatal,
}

impl LogSeverity {
    /// Parses the name of a level, in any case, or its first letter in glog's format.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name.to_ascii_uppercase().as_str() {
            "TRACE" | "DEBUG" | "INFO" | "INFORMATION" | "NOTICE" | "VERBOSE" | "SUCCESS" | "I"
            | "V" | "D" => Some(Self::Quiet),
            "WARN" | "WARNING" | "W" => Some(Self::Warning),
            "ERROR" | "ERR" | "E" | "SEVERE" => Some(Self::Error),
            "FATAL" | "CRITICAL" | "PANIC" | "ALERT" | "EMERG" | "EMERGENCY" | "DPANIC" | "F" => {
                Some(Self::Fatal)
            }
            _ => None,
        }
    }
}

/// One line without its prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogText<'a> {
    /// The prefixes that name a process or rank, for example `[rank3]:`.
    pub source: String,
    /// `None` if the line has no severity.
    pub severity: Option<LogSeverity>,
    /// The text after all prefixes. Keeps its indentation.
    pub body: &'a str,
    /// Whether torch's hook for uncaught exceptions of a rank wrote the prefix.
    pub is_rank: bool,
}

macro_rules! any_of {
    ($($row:literal),+ $(,)?) => { concat!("^(?:", any_of!(@ $($row),+), ")") };
    (@ $first:literal) => { $first };
    (@ $first:literal, $($row:literal),+) => { concat!($first, "|", any_of!(@ $($row),+)) };
}

/// Prefixes that name the process of a line.
const SOURCES: &str = any_of!(
    // torch (excepthook of ranks), torchrun --tee (`[default3]:`), torchelastic's `[3]:`.
    r"\[[a-z]*[0-9]+\]: ?",
    // vLLM (`vllm/utils/system_utils.py`), Ray (`ray/_private/worker.py`), raylet, autoscaler.
    r"\([A-Za-z_][^()=]* ?(?:pid|rank|ip|actor_id)=[^()]*\)(?: \[repeated[^\]]*\])? ?",
    r"\((?:raylet|autoscaler|gcs_server)[^()]*\) ?",
    // srun --label, mpirun --tag-output, Horovod.
    r"[0-9]{1,5}: ",
    r"\[[0-9]+(?:,[0-9]+)?\]<std(?:out|err|diag)>: ?",
    // MPICH's Hydra with -prepend-rank.
    r"\[[0-9]{1,5}\] ",
    // pdsh of DeepSpeed, dask, the pods of Kubeflow.
    r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}: ",
    r"(?:worker|node|master|launcher|host|gpu)[A-Za-z0-9_.-]*[0-9]: ",
    // kubectl logs --prefix, docker compose.
    r"\[pod/[^\]]+\] ",
    r"[a-z][a-z0-9_.-]*[0-9] +\| ",
);

/// Prefixes with a severity, in the group `level`.
const LEVELS: &str = any_of!(
    // glog and klog, c10 (`c10/util/Logging.cpp`: `[E1003 18:37:01.8 ProcessGroupNCCL.cpp:1664] `).
    r"\[?(?P<glog>[IWEF])[0-9]{0,4} (?:[0-9:.]+ +)?(?:[0-9]+ +)?[A-Za-z0-9_./<>-]+:[0-9]+\] ?",
    r"\[(?P<letter>[IWEF]) ",
    // TensorFlow: `: E external/local_xla/...cc:9261] `.
    r": (?P<tensorflow>[IWEF]) [A-Za-z0-9_./-]+:[0-9]+\] ?",
    // TensorRT-LLM (`tensorrt_llm/logger.py`, `cpp/tensorrt_llm/common/logger.h`), TensorRT.
    r"\[TensorRT-LLM\]\[(?P<tensorrt>[A-Z]+)\] ?",
    r"\[(?:TRT-LLM|TRT)\] (?:\[RANK [0-9]+\] )?\[(?P<trt>[IWEFV])\] ?",
    // Hugging Face (`transformers/utils/logging.py`).
    r"\[(?P<transformers>[A-Z]+)\|[^\]]+\](?: [0-9-]+ [0-9:,]+ >>)? ?",
    // Hydra: `[2024-01-01 10:00:00,123][train][ERROR] - `.
    r"\[[A-Za-z0-9_.]+\]\[(?P<hydra>[A-Z]+)\] - ",
    // Python's `logging.basicConfig`: `ERROR:root:`.
    r"(?P<python>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL):[A-Za-z0-9_.-]+:",
    // Python's usual format: ` - name - ERROR - `.
    r"-? ?[A-Za-z0-9_.]+ - (?P<named>TRACE|DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL) - ",
    // A level on its own: uvicorn, vLLM, Ray, log4j, loguru (`| ERROR    | `), hclog (`[ERROR]`).
    r"[\[(<|-]? ?(?P<level>TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN|WARNING|ERROR|ERR|SEVERE|CRITICAL|FATAL)(?: *[\])>|]|:| -|$|\b) ?",
    r"[\[<](?P<lower>trace|debug|info|notice|warn|warning|error|critical|fatal)[\]>] ?",
    r"(?P<word>warning|info|debug|note): ",
);

/// Prefixes without use here: times and places.
const DECORATIONS: &str = any_of!(
    r"[\[(]?[0-9]{4}-[0-9]{2}-[0-9]{2}[T _-][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?(?: (?:[A-Z]+[0-9]+ ?)+)?[\])]?(?:: (?P<space>)|:$| - |,|[ \t])?",
    r"[\[(]?[0-9]{2,4}/[0-9]{2}/[0-9]{2,4}[ -][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?[\])]?(?: -| )? ?",
    r"[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)? ?",
    r"\[?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?\]? ",
    r"\[[A-Za-z0-9_./<>-]+\.(?:py|cpp|cc|cu|h|go|rs|c):[0-9]+(?::[A-Za-z0-9_]+)?\] ?",
    r"\[?[A-Za-z0-9_./-]+\.(?:py|cpp|cc|cu|h|go|rs|c):[0-9]+\](?: ?)",
    r"[A-Za-z0-9_./-]+\.py:[0-9]+ -- ",
    r"[A-Za-z0-9_.]+:[A-Za-z0-9_<>.]+:[0-9]+ - ",
    r"\[(?:PG|Rank|PG ID|rank) [^\]]*\] ?",
    r"-{1,2} ",
    r"\| ",
);

static SOURCE: LazyLock<Regex> = LazyLock::new(|| regex(SOURCES));
static LEVEL: LazyLock<Regex> = LazyLock::new(|| regex(LEVELS));
static DECORATION: LazyLock<Regex> = LazyLock::new(|| regex(DECORATIONS));
static LOGFMT: LazyLock<Regex> = LazyLock::new(|| regex(r#"\b(?:level|lvl)="?([A-Za-z]+)"#));
/// NCCL, RCCL and their plugins: `host:pid:tid [device] NCCL WARN `.
static NCCL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bR?NCCL (INFO|TRACE|VERSION|WARN|ERROR)\b"));
/// A warning of NCCL and RCCL. NCCL 2.0 omits its name: `host:pid:tid [device] file:line WARN `.
static NCCL_WARNING: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\bR?NCCL WARN |\[[0-9]+\] [\w./-]+\.(?:h|cc|cu):[0-9]+ WARN "));
/// Escape sequences for colors and for moving the cursor.
static ANSI: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are tested")
}

/// Removes colors and everything that a carriage return has overwritten.
pub(super) fn visible(line: &str) -> Cow<'_, str> {
    let plain = if line.contains('\x1b') {
        ANSI.replace_all(line, "")
    } else {
        Cow::Borrowed(line)
    };
    // A progress bar redraws itself with carriage returns, so only its last state counts.
    let last = |text: &str| {
        let parts = text.rsplit('\r').find(|part| !part.trim().is_empty());
        parts.unwrap_or("").trim_end().to_owned()
    };
    if plain.contains('\r') {
        return Cow::Owned(last(&plain));
    }
    match plain {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim_end()),
        Cow::Owned(text) => Cow::Owned(text.trim_end().to_owned()),
    }
}

/// Maximum number of prefixes before the text.
const MAX_PREFIXES: usize = 9;

impl<'a> LogText<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let (mut source, mut severity, mut body) = (String::new(), None, line);
        let mut is_rank = false;
        for _ in 0..MAX_PREFIXES {
            // Prefixes start with these characters. Most lines of programs do not.
            let may_be_prefix = body.starts_with(|first: char| {
                first.is_ascii_alphanumeric() || "[(<|-:".contains(first)
            });
            if !may_be_prefix {
                break;
            }
            if let Some(found) = SOURCE.find(body) {
                is_rank |= found.as_str().starts_with("[rank");
                source.push_str(found.as_str().trim());
                body = &body[found.end()..];
            } else if let Some(found) = DECORATION.captures(body) {
                // TensorFlow's severity follows the colon of the time.
                let end = found.name("space").map_or(found[0].len(), |at| {
                    if LEVEL.is_match(&body[at.start() - 2..]) {
                        at.start() - 2
                    } else {
                        at.start()
                    }
                });
                body = &body[end..];
            } else if let Some(found) = LEVEL.captures(body) {
                let name = found.iter().skip(1).flatten().next();
                let parsed = name.and_then(|name| LogSeverity::parse(name.as_str()));
                severity = severity.or(parsed);
                body = &body[found[0].len()..];
            } else {
                break;
            }
        }
        if severity.is_none() {
            severity = severity_within(line);
        }
        Self {
            source,
            severity,
            body,
            is_rank,
        }
    }
}

/// Returns the message of a warning of NCCL or RCCL. `None` for other lines.
pub(super) fn nccl_warning(line: &str) -> Option<&str> {
    let found = line.contains(" WARN ").then(|| NCCL_WARNING.find(line))??;
    Some(&line[found.end()..])
}

/// Finds a severity that is not at the start of the line: NCCL's and logfmt's.
fn severity_within(line: &str) -> Option<LogSeverity> {
    if line.contains("NCCL ")
        && let Some(found) = NCCL.captures(line)
    {
        return match &found[1] {
            "WARN" => Some(LogSeverity::Warning),
            "ERROR" => Some(LogSeverity::Error),
            _ => Some(LogSeverity::Quiet),
        };
    }
    if nccl_warning(line).is_some() {
        return Some(LogSeverity::Warning);
    }
    if line.contains("level=") || line.contains("lvl=") {
        return LogSeverity::parse(&LOGFMT.captures(line)?[1]);
    }
    None
}
