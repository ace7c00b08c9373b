//! Builds the container's command. A string runs in a shell that passes on signals. Launchers of
//! distributed trainings get flags for the values that they do not read from the environment.

use std::sync::LazyLock;

use regex::Regex;

use crate::spec::{Command, JobDocument};
use gpuctl_core::model::JobKind;

use super::Refusal;

/// The program that starts the processes of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    None,
    /// Reads all its flags from `PET_*` variables.
    Torchrun,
    /// Does not read its machine flags from the environment.
    Accelerate,
    /// Sets MASTER_ADDR to loopback if it finds no hostfile.
    DeepSpeed,
    /// Starts ranks over SSH.
    Mpi,
    /// Starts torchrun with NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT.
    LlamaFactory,
}

/// `command` and `args` of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub command: Option<Vec<String>>,
    pub args: Option<Vec<String>>,
    pub launcher: Launcher,
    pub warnings: Vec<String>,
}

/// Builds the command of `job`, with the flags that several nodes need.
pub(super) fn words(job: &JobDocument) -> Result<Words, Refusal> {
    let (mut command, mut args) = combine(&job.command, &job.args)?;
    let launched = programs(command.iter().chain(&args).flatten());
    let launcher = launched
        .iter()
        .map(|program| program.launcher)
        .find(|launcher| *launcher != Launcher::None)
        .unwrap_or(Launcher::None);
    let program = launched.iter().find(|program| program.launcher == launcher);
    let rest: &[String] = program.map_or(&[], |program| &program.rest);
    let has = |flag: &str| {
        rest.iter()
            .any(|word| word == flag || word.starts_with(&format!("{flag}=")))
    };
    let mut warnings = Vec::new();
    if job.kind == JobKind::Training && job.resources.node_count > 1 {
        match launcher {
            Launcher::DeepSpeed if !has("--hostfile") && !has("-H") => {
                return Err(deepspeed(rest));
            }
            Launcher::Torchrun if has("--standalone") => {
                let message = "`torchrun --standalone` trains on each node separately";
                let hint =
                    "remove `--standalone`; gpuctl configures the rendezvous across all nodes";
                return Err(Refusal::new("LauncherConflict", message, hint));
            }
            Launcher::Accelerate => {
                let flags = accelerate_flags(job, &has);
                if !flags.is_empty() {
                    if !insert_after(&mut command, &ACCELERATE, &flags)
                        && !insert_after(&mut args, &ACCELERATE, &flags)
                    {
                        let message =
                            "cannot add the machine flags to this `accelerate launch` command";
                        return Err(Refusal::new(
                            "LauncherConflict",
                            message,
                            format!("write `accelerate launch {} …`", flags.join(" ")),
                        ));
                    }
                    warnings.push(format!("adding {} to `accelerate launch`", flags.join(" ")));
                }
            }
            Launcher::Mpi => warnings.push(
                "mpirun starts ranks over SSH, which these pods do not have; use torchrun"
                    .to_owned(),
            ),
            Launcher::None if job.resources.gpu > 1 && command.is_some() => {
                let message = "no known launcher: each pod starts one process for all its GPUs, without RANK and WORLD_SIZE";
                warnings.push(message.to_owned());
            }
            _ => {}
        }
    }
    Ok(Words {
        command,
        args,
        launcher,
        warnings,
    })
}

/// A container field that may be absent.
type OptionalWords = Option<Vec<String>>;

/// Combines `command` and `args`. A string is a shell line, and the following words are its
/// arguments.
fn combine(command: &Command, args: &Command) -> Result<(OptionalWords, OptionalWords), Refusal> {
    Ok(match (command, args) {
        (Command::Shell(line), Command::Shell(appended)) => {
            (Some(shell(&format!("{line} {appended}"))), None)
        }
        (Command::Shell(line), Command::Exec(appended)) => {
            let mut words = shell(&format!("{} \"$@\"", line.trim()));
            words.push("sh".to_owned());
            (Some(words), Some(appended.clone()))
        }
        // Without `command`, the image's entrypoint would get the line as a single argument.
        (Command::Image, Command::Shell(line)) => (Some(shell(line)), None),
        (Command::Exec(_), Command::Shell(_)) => {
            let message = "`args` is a string, but `command` is a list";
            return Err(Refusal::new(
                "InvalidCommand",
                message,
                "write both as lists or both as strings",
            ));
        }
        (command, args) => (to_words(command), to_words(args)),
    })
}

fn to_words(command: &Command) -> Option<Vec<String>> {
    match command {
        Command::Image => None,
        Command::Shell(line) => Some(shell(line)),
        Command::Exec(words) => Some(words.clone()),
    }
}

/// Wraps a line in `sh -c`. A single simple command gets `exec`, so that it receives SIGTERM
/// instead of the shell.
fn shell(line: &str) -> Vec<String> {
    const BUILTINS: [&str; 42] = [
        "cd", "export", "set", "source", ".", "if", "for", "while", "until", "case", "exec",
        "ulimit", "trap", "eval", "time", "umask", "unset", "read", "wait", "alias", "shift", "{",
        "!", ":", "exit", "return", "[[", "[", "test", "command", "builtin", "type", "pushd",
        "popd", "declare", "local", "shopt", "let", "echo", "printf", "true", "false",
    ];
    let line = line.trim();
    let first = line.split_whitespace().next().unwrap_or_default();
    // Redirections such as `2>&1` contain `&`, but do not make a command compound.
    let joined = line
        .replace("2>&1", "")
        .replace("1>&2", "")
        .replace(">&2", "");
    let simple = !joined.contains([';', '&', '|', '\n', '(', ')', '`'])
        && !first.contains('=')
        && !first.is_empty()
        && !BUILTINS.contains(&first);
    let line = if simple {
        format!("exec {line}")
    } else {
        line.to_owned()
    };
    vec!["sh".to_owned(), "-c".to_owned(), line]
}

fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// A program that the command starts, and the words that follow it.
struct Program {
    launcher: Launcher,
    rest: Vec<String>,
}

/// Finds every program in command position, in a list of words or in each part of a shell line.
fn programs<'w>(words: impl Iterator<Item = &'w String>) -> Vec<Program> {
    let words: Vec<&str> = words.map(String::as_str).collect();
    let is_shell = words
        .first()
        .is_some_and(|first| matches!(base(first), "sh" | "bash" | "dash" | "zsh"));
    if !is_shell {
        return program(words.iter().copied()).into_iter().collect();
    }
    let Some(line) = words.iter().skip(1).find(|word| !word.starts_with('-')) else {
        return Vec::new();
    };
    let spaced = line
        .replace("&&", "\n")
        .replace("||", "\n")
        .replace([';', '|', '(', ')', '&'], "\n");
    spaced
        .lines()
        .filter_map(|part| program(part.split_whitespace()))
        .collect()
}

fn program<'w>(words: impl Iterator<Item = &'w str>) -> Option<Program> {
    let is_prefix = |word: &&str| {
        matches!(*word, "exec" | "env" | "nohup" | "time" | "command")
            || word
                .split_once('=')
                .is_some_and(|(name, _)| !name.starts_with('-'))
    };
    let mut words = words.skip_while(is_prefix).peekable();
    let first = base(words.next()?);
    let name = if first.starts_with("python") {
        while words
            .next_if(|word| word.starts_with('-') && *word != "-m")
            .is_some()
        {}
        if words.next_if_eq(&"-m").is_none() {
            return Some(Program {
                launcher: Launcher::None,
                rest: Vec::new(),
            });
        }
        words.next()?
    } else {
        first
    };
    let launcher = match name {
        "torchrun" | "torch.distributed.run" | "torch.distributed.launch" => Launcher::Torchrun,
        "deepspeed" | "deepspeed.launcher.runner" => Launcher::DeepSpeed,
        "accelerate" if words.peek() == Some(&"launch") => Launcher::Accelerate,
        "accelerate.commands.launch" => Launcher::Accelerate,
        "llamafactory-cli" | "llama-factory-cli" => Launcher::LlamaFactory,
        "mpirun" | "mpiexec" | "horovodrun" => Launcher::Mpi,
        _ => Launcher::None,
    };
    Some(Program {
        launcher,
        rest: words.map(ToOwned::to_owned).collect(),
    })
}

fn deepspeed(arguments: &[String]) -> Refusal {
    let script: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .skip_while(|word| !word.ends_with(".py"))
        .collect();
    let script = if script.is_empty() {
        "train.py …".to_owned()
    } else {
        script.join(" ")
    };
    let message =
        "`deepspeed` without a hostfile trains on each node separately, into the same checkpoint";
    let hint = format!(
        "write `torchrun {script}`: DeepSpeed reads the variables that torchrun sets on every node"
    );
    Refusal::new("LauncherConflict", message, hint)
}

/// Returns accelerate's flags for several machines, except those that the command already has.
/// `--num_processes` is the total over all nodes.
fn accelerate_flags(job: &JobDocument, has_flag: &impl Fn(&str) -> bool) -> Vec<String> {
    let nodes = job.resources.node_count;
    let processes = u64::from(job.resources.gpu.max(1)) * u64::from(nodes);
    [
        ("--num_machines", nodes.to_string()),
        ("--num_processes", processes.to_string()),
        ("--machine_rank", "$(NODE_RANK)".to_owned()),
        ("--main_process_ip", "$(MASTER_ADDR)".to_owned()),
        ("--main_process_port", "$(MASTER_PORT)".to_owned()),
    ]
    .into_iter()
    .filter(|(flag, _)| !has_flag(flag))
    .map(|(flag, value)| format!("{flag}={value}"))
    .collect()
}

static ACCELERATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\baccelerate\s+launch\b|\baccelerate\.commands\.launch\b")
        .expect("the pattern is tested")
});

/// Inserts flags after the first program that matches the pattern, in a list of words or in a shell
/// line. Kubernetes expands `$(NAME)` in both before the shell runs.
pub(super) fn insert_after(
    words: &mut Option<Vec<String>>,
    pattern: &Regex,
    flags: &[String],
) -> bool {
    let Some(words) = words else { return false };
    let exact = |text: &str| {
        pattern
            .find(text)
            .is_some_and(|found| found.range() == (0..text.len()))
    };
    let pair = |pair: &[String]| exact(&format!("{} {}", base(&pair[0]), pair[1]));
    let single = words.iter().position(|word| exact(word)).map(|i| i + 1);
    if let Some(i) = words.windows(2).position(pair).map(|i| i + 2).or(single) {
        words.splice(i..i, flags.iter().cloned());
        return true;
    }
    for line in words.iter_mut() {
        if let Some(end) = pattern.find(line).map(|found| found.end()) {
            line.insert_str(end, &format!(" {}", flags.join(" ")));
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_lines_are_executed_but_lists_are_not() {
        assert_eq!(
            shell("python train.py --lr $LR > log 2>&1")[2],
            "exec python train.py --lr $LR > log 2>&1"
        );
        for line in [
            "cd /x && python a.py",
            "A=1 python a.py",
            "python a.py | tee log",
            "a; b",
            "source x",
            "exit 3",
            "if true\nthen a\nfi",
        ] {
            assert_eq!(shell(line)[2], line, "{line}");
        }
    }

    #[test]
    fn launchers_are_recognized_only_as_programs() {
        let launcher_of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            programs(words.iter())
                .iter()
                .map(|program| program.launcher)
                .find(|launcher| *launcher != Launcher::None)
        };
        let line = |line: &str| launcher_of(&["bash", "-lc", line]);
        let plain = |line: &str| launcher_of(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(
            plain("/opt/conda/bin/torchrun train.py"),
            Some(Launcher::Torchrun)
        );
        assert_eq!(
            plain("python3 -u -m torch.distributed.launch x.py"),
            Some(Launcher::Torchrun)
        );
        assert_eq!(
            plain("env A=b deepspeed --num_gpus 8 train.py"),
            Some(Launcher::DeepSpeed)
        );
        assert_eq!(
            line("cd /x && NCCL_DEBUG=INFO exec accelerate  launch train.py"),
            Some(Launcher::Accelerate)
        );
        assert_eq!(
            line("pip install x; llama-factory-cli train --deepspeed ds.json"),
            Some(Launcher::LlamaFactory)
        );
        for command in [
            "python train.py --deepspeed ds.json",
            "python train.py --backend deepspeed",
            "accelerate config",
        ] {
            assert_eq!(plain(command), None, "{command}");
        }
        for command in [
            "pip install deepspeed && python t.py",
            "cd /opt/deepspeed && python t.py",
            "python t.py --launcher torchrun",
        ] {
            assert_eq!(line(command), None, "{command}");
        }
    }

    #[test]
    fn strings_and_lists_join_as_in_a_shell() {
        let exec = |words: &[&str]| Command::Exec(words.iter().map(ToString::to_string).collect());
        let line = |text: &str| Command::Shell(text.to_owned());
        let (command, args) = combine(&line("python a.py"), &exec(&["--x", "1 2"])).unwrap();
        assert_eq!(
            (command.unwrap()[2].as_str(), args.unwrap().len()),
            ("exec python a.py \"$@\"", 2)
        );
        assert_eq!(
            combine(&line("python a.py"), &line("--x 1"))
                .unwrap()
                .0
                .unwrap()[2],
            "exec python a.py --x 1"
        );
        assert!(combine(&exec(&["python"]), &line("--x 1")).is_err());
    }
}
