//! How a container ended: its exit code, and the reason of the runtime or the kubelet.

use crate::model::contract::labels::TERMINATION_PREFIX;

/// Exit code, reason and message of a terminated container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerEnd {
    pub code: i32,
    /// Reason from the container runtime, such as `OOMKilled`, `Error` or `StartError`.
    pub reason: String,
    /// Message of the runtime if it could not start the container, otherwise the program's
    /// termination message.
    pub message: String,
}

impl ContainerEnd {
    /// Returns true if the container's command never ran.
    pub fn never_started(&self) -> bool {
        // containerd reports `StartError`, and Docker reports `ContainerCannotRun`.
        matches!(self.reason.as_str(), "StartError" | "ContainerCannotRun")
    }

    /// Returns true if the end of the container was not recorded. The kubelet then makes up its
    /// code: 137 for a container that it cannot find, and containerd 255 for one that ran before the node
    /// restarted (kubernetes#104107).
    pub fn is_unseen(&self) -> bool {
        self.reason == "ContainerStatusUnknown" || self.reason == "Unknown" && self.code == 255
    }

    /// Returns the exit code of the command. The supervisor exits with its own code, and states the
    /// command's code in its termination message.
    pub fn command_code(&self) -> i32 {
        let reported = self
            .message
            .strip_prefix(TERMINATION_PREFIX)
            .and_then(|text| text.split_once("exit code "));
        let digits = reported.and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        });
        digits.unwrap_or(self.code)
    }

    /// Returns the rank that ended the training, as gpuctl's supervisor records it for every rank
    /// in its termination message, such as `gpuctl/Error: rank 1 ended with exit code 3`.
    pub fn supervised_rank(&self) -> Option<u32> {
        let (_, text) = self
            .message
            .strip_prefix(TERMINATION_PREFIX)?
            .split_once(": ")?;
        let (rank, _) = text.strip_prefix("rank ")?.split_once(' ')?;
        rank.parse().ok()
    }

    /// Formats the end, such as `exit code 1`, `SIGKILL (exit code 137)` or `OOMKilled (exit code
    /// 137)`.
    pub fn describe(&self) -> String {
        let code = self.command_code();
        match self.reason.as_str() {
            _ if self.is_unseen() => format!("an unknown result ({})", self.reason),
            "OOMKilled" => format!("OOMKilled (exit code {code})"),
            _ if is_signal(code) => format!("{} (exit code {code})", signal_name(code - SIGNALS)),
            _ => format!("exit code {code}"),
        }
    }
}

/// Offset of exit codes that report a signal: 128 + the signal number.
pub const SIGNALS: i32 = 128;

/// Names of signals by number. Source: signal(7).
const NAMES: [(i32, &str); 11] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
];

/// Returns true if the exit code reports a signal.
pub fn is_signal(code: i32) -> bool {
    // Linux has 64 signals.
    code > SIGNALS && code <= SIGNALS + 64
}

/// Returns the name of a signal, such as `SIGKILL`.
pub fn signal_name(number: i32) -> String {
    let name = NAMES.iter().find(|(code, _)| *code == number);
    name.map_or_else(
        || format!("signal {number}"),
        |(_, name)| (*name).to_owned(),
    )
}
