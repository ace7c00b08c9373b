//! Parses the stacks of ranks from the output of `py-spy dump` or `gdb`, which the caller runs, and
//! groups ranks with the same innermost frames.

/// Functions that wait for other ranks, in any file.
const COLLECTIVES: [&str; 9] = [
    "all_reduce",
    "allreduce",
    "all_gather",
    "allgather",
    "reduce_scatter",
    "barrier",
    "all_to_all",
    "batch_isend_irecv",
    "_communicate",
];
/// Parts of the names of functions that wait for other ranks. They apply only to files in
/// [`DISTRIBUTED`], because the names mean other things elsewhere.
const EXCHANGES: [&str; 9] = [
    "reduce",
    "gather",
    "scatter",
    "broadcast",
    "barrier",
    "all_to_all",
    "send",
    "recv",
    "wait",
];
const DISTRIBUTED: &str = "torch/distributed/";
/// Frames of a rank that waits for its own device, which may be executing a collective.
const DEVICE: [&str; 1] = ["synchronize (torch/cuda/"];
/// Frames of a rank that waits for data.
const DATA: [&str; 3] = ["_next_data", "_try_get_data", "torch/utils/data/"];
/// Frames of processes that do not compute: launchers, and workers of data loaders and compilers.
const HELPERS: [&str; 9] = [
    "torch/utils/data/_utils/worker.py",
    "torch/distributed/elastic/agent/",
    "torch/distributed/launcher/",
    "join (torch/multiprocessing/spawn.py",
    "torch/_inductor/compile_worker/",
    "accelerate/commands/launch.py",
    "deepspeed/launcher/",
    "multiprocessing/resource_tracker.py",
    "multiprocessing/forkserver.py",
];
/// Number of innermost frames that are compared and shown.
const SHOWN_FRAMES: usize = 3;
/// Number of innermost frames that are searched for a collective.
const INNER_FRAMES: usize = 6;

/// The main thread of a process, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub process: u64,
    /// Frames of the form `all_reduce (torch/distributed/distributed_c10d.py:2501)`.
    pub frames: Vec<String>,
}

/// Ranks with the same innermost frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackGroup {
    /// Ranks, in the order of the input to [`group`].
    pub ranks: Vec<String>,
    /// Frames of the first rank.
    pub frames: Vec<String>,
}

impl StackGroup {
    pub fn in_collective(&self) -> bool {
        self.inner().iter().any(|frame| is_collective(frame))
    }

    /// Returns true if the ranks wait for their device. The stack does not show whether the device
    /// computes or waits for other ranks.
    pub fn waits_for_device(&self) -> bool {
        has(self.inner(), &DEVICE)
    }

    /// Returns true if the frames contain names of Python files. The output of `gdb` contains only
    /// functions of the interpreter.
    pub fn is_python(&self) -> bool {
        self.frames.iter().any(|frame| frame.contains(" ("))
    }

    /// Returns the innermost frames. Outer frames may describe the whole program instead of a wait.
    fn inner(&self) -> &[String] {
        &self.frames[..self.frames.len().min(INNER_FRAMES)]
    }

    pub fn waits_for_data(&self) -> bool {
        has(&self.frames, &DATA)
    }

    /// Formats the innermost frames on one line, innermost first.
    pub fn line(&self) -> String {
        self.frames
            .iter()
            .take(SHOWN_FRAMES)
            .map(|frame| short(frame))
            .collect::<Vec<_>>()
            .join(" ← ")
    }
}

fn is_collective(frame: &str) -> bool {
    let (function, file) = frame.split_once(" (").unwrap_or((frame, ""));
    let plain = function.rsplit('.').next().unwrap_or(function);
    COLLECTIVES.contains(&plain)
        || (file.starts_with(DISTRIBUTED) && EXCHANGES.iter().any(|word| plain.contains(word)))
}

fn has(frames: &[String], words: &[&str]) -> bool {
    frames
        .iter()
        .any(|frame| words.iter().any(|word| frame.contains(word)))
}

/// Shortens the path in a frame to the file name: `all_reduce (distributed_c10d.py:2501)`.
fn short(frame: &str) -> String {
    match frame.split_once(" (") {
        Some((function, file)) => {
            format!("{function} ({}", file.rsplit('/').next().unwrap_or(file))
        }
        None => frame.to_owned(),
    }
}

/// Parses the main threads of all processes that compute, in the order of the text.
pub fn read(text: &str) -> Vec<Stack> {
    let mut stacks: Vec<Stack> = Vec::new();
    let (mut process, mut is_main) = (None, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("Process ") {
            process = rest
                .split(':')
                .next()
                .and_then(|number| number.trim().parse::<u64>().ok());
            is_main = false;
        } else if line.starts_with("Thread ") {
            // py-spy names the main thread, and gdb prints it last, as thread 1.
            is_main = line.contains("\"MainThread\"") || line.starts_with("Thread 1 ");
            if let Some(process) = process.filter(|_| is_main) {
                stacks.push(Stack {
                    process,
                    frames: Vec::new(),
                });
            }
        } else if let Some(stack) = stacks.last_mut().filter(|_| is_main) {
            let frame = line.trim();
            match frame.strip_prefix('#') {
                Some(numbered) => stack.frames.extend(gdb_function(numbered)),
                None if line.starts_with(' ') && !frame.is_empty() => {
                    stack.frames.push(frame.to_owned());
                }
                None => is_main = false,
            }
        }
    }
    stacks.retain(|stack| !stack.frames.is_empty() && !has(&stack.frames, &HELPERS));
    stacks
}

/// Parses a frame such as `1  0x00007f… in poll () from /lib/…`.
fn gdb_function(numbered: &str) -> Option<String> {
    let (_, frame) = numbered.split_once(char::is_whitespace)?;
    let frame = frame.trim_start();
    // Inlined frames have no address.
    let function = if frame.starts_with("0x") {
        frame.split_once(" in ")?.1
    } else {
        frame
    };
    Some(function.split_whitespace().next()?.to_owned())
}

/// Groups ranks by the functions of their innermost frames, largest group first.
pub fn group(stacks: Vec<(String, Stack)>) -> Vec<StackGroup> {
    // Ranks in a waiting loop differ in line numbers, so compare frames without them.
    let functions = |frames: &[String]| -> Vec<String> {
        frames
            .iter()
            .take(SHOWN_FRAMES)
            .map(|frame| {
                frame
                    .rsplit_once(':')
                    .map_or(frame.as_str(), |(functions, _)| functions)
                    .to_owned()
            })
            .collect()
    };
    let mut groups: Vec<StackGroup> = Vec::new();
    for (rank, stack) in stacks {
        match groups
            .iter_mut()
            .find(|group| functions(&group.frames) == functions(&stack.frames))
        {
            Some(group) => group.ranks.push(rank),
            None => groups.push(StackGroup {
                ranks: vec![rank],
                frames: stack.frames,
            }),
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
    fn reads_main_threads_of_computing_processes() {
        let stacks = read(PY_SPY);
        assert_eq!(
            stacks.len(),
            1,
            "a data loader worker is not a rank: {stacks:?}"
        );
        assert_eq!(stacks[0].process, 41);
        assert_eq!(stacks[0].frames.len(), 3);
        let gdb = "Process 7: python3\nThread 2 (Thread 0x7f1 (LWP 9) \"cuda\"):\n#0  0x01 in poll () from /lib/libc.so.6\n\nThread 1 (Thread 0x7f2 \
                   (LWP 7) \"python3\"):\n#0  0x02 in cudaStreamSynchronize () from /lib/libcudart.so\n#1  main () at main.c:3\n";
        let stacks = read(gdb);
        assert_eq!(
            stacks,
            [Stack {
                process: 7,
                frames: vec!["cudaStreamSynchronize".to_owned(), "main".to_owned()]
            }]
        );
        assert_eq!(read("py-spy: Permission Denied\n"), []);
        let launcher = PY_SPY.replace(
            "step (train.py:12)",
            "launch_command (accelerate/commands/launch.py:1198)",
        );
        assert_eq!(read(&launcher), []);
    }

    #[test]
    fn waits_are_recognized_by_function_not_folder() {
        let group = |frame: &str| StackGroup {
            ranks: Vec::new(),
            frames: vec![frame.to_owned()],
        };
        for frame in [
            "recv (torch/distributed/distributed_c10d.py:2470)",
            "_broadcast_coalesced (torch/distributed/utils.py:12)",
            "_communicate (megatron/core/pipeline_parallel/p2p_communication.py:300)",
            "barrier (accelerate/state.py:7)",
        ] {
            assert!(group(frame).in_collective(), "{frame}");
        }
        for frame in [
            "broadcast_to (numpy/lib/_stride_tricks_impl.py:2)",
            "save (/work/barrier/all_reduce/train.py:3)",
            "recv (multiprocessing/connection.py:250)",
            "wait (threading.py:331)",
        ] {
            assert!(!group(frame).in_collective(), "{frame}");
        }
        let device = group("synchronize (torch/cuda/__init__.py:985)");
        assert!(device.waits_for_device() && !device.in_collective());
        assert!(!group("ncclAllReduce").is_python());
        assert_eq!(
            gdb_function("2  0x00007f1 in ncclAllReduce () from /lib/libnccl.so").as_deref(),
            Some("ncclAllReduce")
        );
        assert_eq!(
            gdb_function("3  read_in in () at a.c:1").as_deref(),
            Some("read_in")
        );
    }

    #[test]
    fn ranks_in_the_same_functions_are_grouped() {
        let collective = read(PY_SPY).remove(0);
        let other_line = Stack {
            frames: collective
                .frames
                .iter()
                .map(|frame| frame.replace("2501", "2503"))
                .collect(),
            ..collective.clone()
        };
        let data = Stack {
            process: 41,
            frames: vec!["_next_data (torch/utils/data/dataloader.py:630)".to_owned()],
        };
        let ranks = [
            ("rank 0", data),
            ("rank 1", collective),
            ("rank 2", other_line),
        ];
        let groups = group(
            ranks
                .into_iter()
                .map(|(rank, stack)| (rank.to_owned(), stack))
                .collect(),
        );
        assert_eq!(
            groups
                .iter()
                .map(|group| group.ranks.join(" "))
                .collect::<Vec<_>>(),
            ["rank 1 rank 2", "rank 0"]
        );
        assert!(groups[0].in_collective() && !groups[0].waits_for_data());
        assert!(groups[1].waits_for_data() && !groups[1].in_collective());
        assert!(groups.iter().all(StackGroup::is_python));
        assert_eq!(
            groups[0].line(),
            "all_reduce (distributed_c10d.py:2501) ← step (train.py:12) ← <module> (train.py:40)"
        );
    }
}
