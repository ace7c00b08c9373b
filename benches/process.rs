//! Reads a running process's CPU time and memory from `/proc`.

use std::fs;
use std::time::Duration;

/// Unit of the CPU times in `/proc/PID/stat` (USER_HZ is 100).
const TICK: Duration = Duration::from_millis(10);

/// Returns the user and system CPU time that a process has used so far.
pub fn cpu(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program name, in parentheses, can itself contain spaces and parentheses.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // Fields 14 and 15 of proc_pid_stat(5) are `utime` and `stime`; `fields` begins with field 3.
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some(TICK * (ticks(11)? + ticks(12)?))
}

/// Returns a process's peak resident memory so far, in MiB.
pub fn peak(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}
