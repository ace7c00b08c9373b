//! What Linux tells of a process while it runs.

use std::fs;
use std::time::Duration;

/// Linux counts CPU in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

/// CPU that a process used so far.
pub fn cpu(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u32>().ok();
    Some(TICK * (ticks(11)? + ticks(12)?))
}

/// Resident memory of a process at its most so far, in MiB.
pub fn peak(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(kib.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}
