//! Reads where the ranks of a job stand, from what `py-spy dump` or `gdb` print of their processes, and puts ranks that stand in the same
//! place together. It knows nothing of how the ranks are asked.

/// Words of frames in which a rank waits for others: collectives of torch and NCCL, and what waits for them.
const COLLECTIVES: [&str; 11] = [
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "broadcast",
    "barrier",
    "all_to_all",
    "ncclKernel",
    "pg_nccl",
    "cudaStreamSynchronize",
];
/// Words of frames in which a rank waits for data.
const DATA: [&str; 3] = ["_next_data", "_try_get_data", "torch/utils/data/"];
/// Words of processes that only look after others: workers of data loaders, and torchrun.
const HELPERS: [&str; 4] = [
    "torch/utils/data/_utils/worker.py",
    "torch/distributed/elastic/agent/",
    "torch/distributed/launcher/",
    "multiprocessing/resource_tracker.py",
];
/// Frames by which processes are compared and that are told.
const TOLD: usize = 3;
/// Innermost frames in which a collective is looked for.
const INNER: usize = 6;

/// The main thread of a process, the innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub process: u64,
    /// `all_reduce (torch/distributed/distributed_c10d.py:2501)`
    pub frames: Vec<String>,
}

/// Ranks that stand in the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackGroup {
    /// Of [`group`]'s order.
    pub ranks: Vec<String>,
    /// The innermost frames of the first of them.
    pub frames: Vec<String>,
}

impl StackGroup {
    #[must_use]
    pub(crate) fn in_collective(&self) -> bool {
        // Further out, a name may only tell what a program is about.
        has(&self.frames[..self.frames.len().min(INNER)], &COLLECTIVES)
    }

    #[must_use]
    pub(crate) fn waits_for_data(&self) -> bool {
        has(&self.frames, &DATA)
    }

    /// Writes the frames on one line, from the inside to the outside.
    #[must_use]
    pub(crate) fn line(&self) -> String {
        self.frames.iter().take(TOLD).map(|frame| short(frame)).collect::<Vec<_>>().join(" ← ")
    }
}

fn has(frames: &[String], words: &[&str]) -> bool {
    frames.iter().any(|frame| words.iter().any(|word| frame.contains(word)))
}

/// Leaves only the name of the file: `all_reduce (distributed_c10d.py:2501)`.
fn short(frame: &str) -> String {
    match frame.split_once(" (") {
        Some((function, place)) => {
            format!("{function} ({}", place.rsplit('/').next().unwrap_or(place))
        }
        None => frame.to_owned(),
    }
}

/// Reads the main threads of all processes that compute, in the order in which they are told.
#[must_use]
pub(crate) fn read(text: &str) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    let (mut process, mut is_main) = (None, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Process ") {
            process = rest.split(':').next().and_then(|number| number.trim().parse::<u64>().ok());
            is_main = false;
        } else if line.starts_with("Thread ") {
            // py-spy names the thread; gdb tells the first one last.
            is_main = line.contains("\"MainThread\"") || line.starts_with("Thread 1 ");
            if let Some(process) = process.filter(|_| is_main) {
                stacks.push(Stack { process, frames: Vec::new() });
            }
        } else if let Some(stack) = stacks.last_mut().filter(|_| is_main) {
            let frame = line.trim();
            match frame.strip_prefix('#') {
                Some(numbered) => stack.frames.extend(of_gdb(numbered)),
                None if line.starts_with(' ') && !frame.is_empty() => stack.frames.push(frame.to_owned()),
                None => is_main = false,
            }
        }
    }
    stacks.retain(|stack| !stack.frames.is_empty() && !has(&stack.frames, &HELPERS));
    stacks
}

/// Reads `1  0x00007f… in poll () from /lib/…`.
fn of_gdb(numbered: &str) -> Option<String> {
    let (_, told) = numbered.split_once(char::is_whitespace)?;
    let told = told.trim_start();
    let function = told.split_once(" in ").map_or(told, |(_, function)| function);
    Some(function.split_whitespace().next()?.to_owned())
}

/// Puts ranks together whose innermost frames are in the same functions; the largest group first.
#[must_use]
pub(crate) fn group(stacks: Vec<(String, Stack)>) -> Vec<StackGroup> {
    // Lines differ within a loop that waits.
    let place = |frames: &[String]| -> Vec<String> {
        frames
            .iter()
            .take(TOLD)
            .map(|frame| frame.rsplit_once(':').map_or(frame.as_str(), |(place, _)| place).to_owned())
            .collect()
    };
    let mut groups: Vec<StackGroup> = Vec::new();
    for (rank, stack) in stacks {
        match groups.iter_mut().find(|group| place(&group.frames) == place(&stack.frames)) {
            Some(group) => group.ranks.push(rank),
            None => groups.push(StackGroup { ranks: vec![rank], frames: stack.frames }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.ranks.len()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const PY_SPY: &str = "Process 41: python train.py\nPython v3.11.4 (/usr/bin/python3.11)\n\nThread 41 (active): \"MainThread\"\n    all_reduce \
                          (torch/distributed/distributed_c10d.py:2501)\n    step (train.py:12)\n    <module> (train.py:40)\nThread 52 (idle): \
                          \"Thread-1\"\n    wait (threading.py:331)\nProcess 60: python train.py\n\nThread 60 (idle): \"MainThread\"\n    \
                          _worker_loop (torch/utils/data/_utils/worker.py:275)\n";

    #[test]
    fn main_threads_of_processes_that_compute() {
        let stacks = read(PY_SPY);
        assert_eq!(stacks.len(), 1, "a worker of a data loader is no rank: {stacks:?}");
        assert_eq!(stacks[0].process, 41);
        assert_eq!(stacks[0].frames.len(), 3);
        let gdb = "Process 7: python3\nThread 2 (Thread 0x7f1 (LWP 9) \"cuda\"):\n#0  0x01 in poll () from /lib/libc.so.6\n\nThread 1 (Thread 0x7f2 \
                   (LWP 7) \"python3\"):\n#0  0x02 in cudaStreamSynchronize () from /lib/libcudart.so\n#1  main () at main.c:3\n";
        let stacks = read(gdb);
        assert_eq!(stacks, [Stack { process: 7, frames: vec!["cudaStreamSynchronize".to_owned(), "main".to_owned()] }]);
        assert_eq!(read("py-spy: Permission Denied\n"), []);
    }

    #[test]
    fn ranks_in_the_same_functions_stand_together() {
        let collective = read(PY_SPY).remove(0);
        let other_line =
            Stack { frames: collective.frames.iter().map(|frame| frame.replace("2501", "2503")).collect(), ..collective.clone() };
        let data = Stack { process: 41, frames: vec!["_next_data (torch/utils/data/dataloader.py:630)".to_owned()] };
        let ranks = [("rank 0", data), ("rank 1", collective), ("rank 2", other_line)];
        let groups = group(ranks.into_iter().map(|(rank, stack)| (rank.to_owned(), stack)).collect());
        assert_eq!(groups.iter().map(|group| group.ranks.join(" ")).collect::<Vec<_>>(), ["rank 1 rank 2", "rank 0"]);
        assert!(groups[0].in_collective() && !groups[0].waits_for_data());
        assert!(groups[1].waits_for_data() && !groups[1].in_collective());
        assert_eq!(groups[0].line(), "all_reduce (distributed_c10d.py:2501) ← step (train.py:12) ← <module> (train.py:40)");
    }
}
