//! The container's command: a string becomes a shell line that passes signals on, and the launchers of distributed
//! trainings get the flags that they do not read from the environment.

use crate::spec::{Command, Job};

use super::Refusal;

/// Who starts the processes of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    None,
    /// Reads every flag from the `PET_*` variables.
    Torchrun,
    /// Has no environment default for its machine flags.
    Accelerate,
    /// Sets MASTER_ADDR to loopback when it finds no hostfile.
    DeepSpeed,
    /// Starts torchrun with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT.
    LlamaFactory,
}

/// The words to run: `command` and `args` of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    pub command: Option<Vec<String>>,
    pub args: Option<Vec<String>>,
    pub launcher: Launcher,
    pub warnings: Vec<String>,
}

/// The command of `job`, made fit for several nodes.
pub fn words(job: &Job) -> Result<Words, Refusal> {
    let (mut command, mut args) = (plain(&job.command), plain(&job.args));
    if let (Command::Shell(line), None) = (&job.args, &command) {
        // Without a command the image's own would get one long argument.
        command = Some(shell(line));
        args = None;
    }
    let text: Vec<&str> = command.iter().chain(&args).flatten().flat_map(|word| word.split_whitespace()).collect();
    let launcher = recognise(&text);
    let mut warnings = Vec::new();
    if job.training.node_count > 1 {
        match launcher {
            Launcher::DeepSpeed => return Err(deepspeed(&text)),
            Launcher::Torchrun if text.contains(&"--standalone") => {
                let message = "`torchrun --standalone` trains on each node for itself";
                return Err(Refusal::new(
                    "LauncherConflict",
                    message,
                    "remove `--standalone`; gpuctl sets the rendezvous of all nodes",
                ));
            }
            Launcher::Accelerate => {
                let flags = accelerate_flags(job, &text);
                if !flags.is_empty() {
                    let done = insert_after_launch(&mut command, &flags) || insert_after_launch(&mut args, &flags);
                    if done {
                        warnings.push(format!("accelerate gets {}", flags.join(" ")));
                    }
                }
            }
            _ if text.iter().any(|word| matches!(base(word), "mpirun" | "mpiexec" | "horovodrun")) => {
                warnings.push("mpirun starts ranks over SSH, which these pods do not have; use torchrun".to_owned());
            }
            _ => {}
        }
    }
    Ok(Words { command, args, launcher, warnings })
}

fn plain(command: &Command) -> Option<Vec<String>> {
    match command {
        Command::Image => None,
        Command::Shell(line) => Some(shell(line)),
        Command::Exec(words) => Some(words.clone()),
    }
}

/// `exec` lets SIGTERM arrive at the program instead of the shell; only where one simple command is certain.
fn shell(line: &str) -> Vec<String> {
    const BUILTINS: [&str; 24] = [
        "cd", "export", "set", "source", ".", "if", "for", "while", "until", "case", "exec", "ulimit", "trap", "eval", "time",
        "umask", "unset", "read", "wait", "alias", "shift", "{", "!", ":",
    ];
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    let simple = !line.contains([';', '&', '|', '\n', '(', ')', '`'])
        && !first.contains('=')
        && !first.is_empty()
        && !BUILTINS.contains(&first);
    let line = if simple { format!("exec {line}") } else { line.to_owned() };
    vec!["sh".to_owned(), "-c".to_owned(), line]
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn recognise(words: &[&str]) -> Launcher {
    let module = |name: &str| {
        words.windows(2).any(|pair| pair[0] == "-m" && (pair[1] == name || pair[1].starts_with(&format!("{name}."))))
    };
    let program = |name: &str| words.iter().any(|word| base(word) == name);
    if program("torchrun") || module("torch.distributed.run") || module("torch.distributed.launch") {
        Launcher::Torchrun
    } else if program("deepspeed") || module("deepspeed.launcher") {
        Launcher::DeepSpeed
    } else if module("accelerate.commands.launch")
        || words.windows(2).any(|pair| base(pair[0]) == "accelerate" && pair[1] == "launch")
    {
        Launcher::Accelerate
    } else if program("llamafactory-cli") || program("llama-factory-cli") {
        Launcher::LlamaFactory
    } else {
        Launcher::None
    }
}

fn deepspeed(words: &[&str]) -> Refusal {
    let at = words.iter().position(|word| base(word) == "deepspeed");
    let script: Vec<&str> =
        at.map_or(&[][..], |at| &words[at + 1..]).iter().copied().skip_while(|word| word.starts_with('-')).collect();
    let script = if script.is_empty() { "train.py …".to_owned() } else { script.join(" ") };
    let message = "`deepspeed` without a hostfile trains on each node for itself, into the same checkpoint";
    let hint = format!("write `torchrun {script}`: DeepSpeed reads what torchrun sets, on every node");
    Refusal::new("LauncherConflict", message, hint)
}

/// The flags that are not written yet. Processes are counted over all nodes.
fn accelerate_flags(job: &Job, words: &[&str]) -> Vec<String> {
    let nodes = job.training.node_count;
    let processes = u64::from(job.resources.gpu.max(1)) * u64::from(nodes);
    let written = |flag: &str| words.iter().any(|word| *word == flag || word.starts_with(&format!("{flag}=")));
    [
        ("--num_machines", nodes.to_string()),
        ("--num_processes", processes.to_string()),
        ("--machine_rank", "$(NODE_RANK)".to_owned()),
        ("--main_process_ip", "$(MASTER_ADDR)".to_owned()),
        ("--main_process_port", "$(MASTER_PORT)".to_owned()),
    ]
    .into_iter()
    .filter(|(flag, _)| !written(flag))
    .map(|(flag, value)| format!("{flag}={value}"))
    .collect()
}

/// Puts the flags behind `accelerate launch`, whether its words stand alone or in a shell line. Kubernetes expands
/// `$(NAME)` in both before the shell sees it.
fn insert_after_launch(words: &mut Option<Vec<String>>, flags: &[String]) -> bool {
    let Some(words) = words else { return false };
    let launches = |before: &str, word: &str| {
        (base(before) == "accelerate" && word == "launch") || (before == "-m" && word == "accelerate.commands.launch")
    };
    if let Some(at) = words.windows(2).position(|pair| launches(&pair[0], &pair[1])) {
        words.splice(at + 2..at + 2, flags.iter().cloned());
        return true;
    }
    for line in words.iter_mut() {
        for launch in ["accelerate launch", "accelerate.commands.launch"] {
            if let Some(at) = line.find(launch) {
                line.insert_str(at + launch.len(), &format!(" {}", flags.join(" ")));
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_line_is_executed_and_a_list_is_not() {
        assert_eq!(shell("python train.py --lr $LR > log")[2], "exec python train.py --lr $LR > log");
        for line in
            ["cd /x && python a.py", "A=1 python a.py", "python a.py | tee log", "a; b", "source x", "if true\nthen a\nfi"]
        {
            assert_eq!(shell(line)[2], line, "{line}");
        }
    }

    #[test]
    fn launchers_are_recognised() {
        let of = |line: &str| recognise(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(of("/opt/conda/bin/torchrun train.py"), Launcher::Torchrun);
        assert_eq!(of("python -m torch.distributed.launch x.py"), Launcher::Torchrun);
        assert_eq!(of("deepspeed --num_gpus 8 train.py"), Launcher::DeepSpeed);
        assert_eq!(of("accelerate launch train.py"), Launcher::Accelerate);
        assert_eq!(of("llama-factory-cli train --deepspeed ds.json"), Launcher::LlamaFactory);
        assert_eq!(of("python train.py --deepspeed ds.json"), Launcher::None);
    }
}
