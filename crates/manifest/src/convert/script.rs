//! Translates batch scripts: replaces the variables and launch commands of other systems by those
//! of gpuctl's pods. Lines that only work on the other system are removed and reported.
//!
//! Sources: sbatch(1) and srun(1) of Slurm 24; SkyPilot's and dstack's pages on distributed jobs.
//! gpuctl sets NNODES, NODE_RANK, MASTER_ADDR, MASTER_PORT and NPROC_PER_NODE, and runs the script
//! once in each pod.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Value, json};

/// Facts about the job that the translation needs.
pub(super) struct ScriptContext<'c> {
    /// The job's name, which replaces other systems' job ids in the script.
    pub name: &'c str,
    /// Whether each pod runs one task, so that a task's rank is the pod's rank.
    pub one_task_per_pod: bool,
    pub cpus: Option<u64>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script {
    pub text: String,
    /// The image of a `docker://` reference in the script.
    pub image: Option<String>,
    pub omitted: Vec<String>,
}

static SRUN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(\s*)(?:exec\s+)?srun\s+((?:(?:-[nNcGptwxJDoeim]\s+\S+|--(?:nodes|ntasks|ntasks-per-node|cpus-per-task|gpus|gpus-per-node|gpus-per-task|gres|mem|mpi|nodelist|partition|time|job-name|output|error|chdir|container-image|container-mounts)\s+\S+|--?[A-Za-z][\w-]*(?:=\S+)?)\s+)*)")
        .expect("the pattern is tested")
});
/// Matches `singularity exec --nv -B /a:/b IMAGE COMMAND`.
static CONTAINER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:singularity|apptainer)\s+(?:exec|run)\s+((?:(?:(?:-B|--bind|--env|--home|-H|--pwd|-W|--overlay)[ =]\S+|--?[A-Za-z][\w-]*(?:=\S+)?)\s+)*)(\S+)\s*",
    )
    .expect("the pattern is tested")
});
/// Matches the first host of a list, from `scontrol` or from SkyPilot's addresses.
static FIRST_HOST: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\$\(\s*(?:scontrol\s+show\s+hostnames?[^)|]*|echo\s+"?\$\{?SKYPILOT_NODE_IPS\}?"?)\s*\|\s*head\s+-n?\s*1\s*\)"#)
        .expect("the pattern is tested")
});
/// Matches a call of `srun` that determines the first node's address, as in PyTorch's tutorial.
static ADDRESS_BY_SRUN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$\(\s*srun\s[^)]*hostname[^)]*\)").expect("the pattern is tested")
});
static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$(?:\{((?:SLURM|SKYPILOT|DSTACK)_\w+|RANDOM)([^}]*)\}|((?:SLURM|SKYPILOT|DSTACK)_\w+|RANDOM)\b)")
        .expect("the pattern is tested")
});
static ENVIRONMENT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^\s*(?:(?:source|\.)\s+\S*(?:bin/activate|conda\.sh|bashrc|profile)\b.*|(?:conda|mamba|micromamba)\s+(?:activate|deactivate)\b.*|eval\s+"?\$\((?:conda|mamba|micromamba)\s.*|(?:module|ml)\s.*)$"#)
        .expect("the pattern is tested")
});
static CONTINUED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\\\n\s*").expect("the pattern is tested"));
static SRUN_WITHIN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bsrun\b").expect("the pattern is tested"));
static ONLY_THERE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(scontrol|sbatch|squeue|sacct|scancel|sstat|sbcast)\b")
        .expect("the pattern is tested")
});
static LOCAL_FILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?:^|[\s=])((?:\./|\.\./|~/|/home/|\$HOME/)[\w./-]+|[\w-][\w./-]*\.(?:py|sh|yaml|yml|json|toml|txt))(?:\s|$|")"#,
    )
    .expect("the pattern is tested")
});

/// Warns about paths on the user's machine, which do not exist in pods.
fn missing_files(text: &str) -> Option<String> {
    let mut files: Vec<&str> = LOCAL_FILE
        .captures_iter(text)
        .map(|captures| captures.get(1).map_or("", |path| path.as_str()))
        .collect();
    files.sort_unstable();
    files.dedup();
    (!files.is_empty()).then(|| {
        format!(
            "{}: pods cannot access the directory you submit from; use the image, `files:` or a workdir",
            files.join(", ")
        )
    })
}

pub(super) fn translate(text: &str, context: &ScriptContext<'_>) -> Script {
    let mut script = Script::default();
    let mut lines = Vec::new();
    // Join continued lines first, because a command may span several lines.
    let joined = CONTINUED.replace_all(text, " ");
    for line in joined.lines() {
        let trimmed = line.trim_start();
        if trimmed.starts_with('#') || (trimmed.is_empty() && lines.is_empty()) {
            continue;
        }
        let line = without_environment(line, &mut script.omitted);
        if line.is_empty() {
            continue;
        }
        // `$$` is a literal `$` in a replacement of the regex crate.
        let line = ADDRESS_BY_SRUN.replace_all(&line, "$$MASTER_ADDR");
        let line = FIRST_HOST.replace_all(&line, "$$MASTER_ADDR");
        let line = without_srun(&line, &mut script.omitted);
        let line = without_container(&line, &mut script);
        let line = VARIABLE.replace_all(&line, |found: &Captures<'_>| {
            let text = |index: usize| found.get(index).map_or("", |one| one.as_str());
            let name = if text(1).is_empty() { text(3) } else { text(1) };
            variable(name, text(2), &found[0], context, &mut script.omitted)
        });
        if let Some(setting) = ["MASTER_ADDR", "MASTER_PORT"]
            .into_iter()
            .find(|setting| assigns(&line, setting))
        {
            script.omitted.push(format!(
                "{}: gpuctl sets {setting} in every pod",
                line.trim()
            ));
            continue;
        }
        if let Some(found) = ONLY_THERE.find(&line) {
            script.omitted.push(format!(
                "{}: {} only exists on a Slurm cluster",
                line.trim(),
                found.as_str()
            ));
            continue;
        }
        if SRUN_WITHIN.is_match(&line) {
            script.omitted.push(format!(
                "{}: remove `srun`; each pod runs the script once",
                line.trim()
            ));
        }
        lines.push(line.into_owned());
    }
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    script.text = lines.join("\n");
    script.omitted.extend(missing_files(&script.text));
    script.omitted.dedup();
    script
}

/// Builds the command that runs a script: a string, which runs in `sh`, or a call of `bash`.
pub(super) fn command(text: &str) -> Value {
    if needs_bash(text) {
        json!(["bash", "-c", text])
    } else {
        text.into()
    }
}

/// Returns true if a script uses bash syntax that `sh` lacks.
pub(super) fn needs_bash(text: &str) -> bool {
    static BASH: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\[\[|=\s*\(|\$\{\w+\[|\bsource\s|<\(|\bset -o pipefail|\bset -\w*o pipefail|\bfunction\s|\(\(")
            .expect("the pattern is tested")
    });
    BASH.is_match(text)
}

/// Removes the setup of modules and virtual environments from a line, and keeps a command that
/// follows it.
fn without_environment(line: &str, omitted: &mut Vec<String>) -> String {
    let mut rest = line;
    while ENVIRONMENT.is_match(rest) {
        let separator = ["&&", ";"]
            .iter()
            .filter_map(|mark| rest.find(mark).map(|at| (at, mark.len())))
            .min();
        let (step, next) = match separator {
            Some((at, length)) => (&rest[..at], &rest[at + length..]),
            None => (rest, ""),
        };
        omitted.push(format!(
            "{}: the image must provide this environment",
            step.trim()
        ));
        rest = next;
    }
    if rest.len() == line.len() {
        line.to_owned()
    } else {
        rest.trim_start().to_owned()
    }
}

fn assigns(line: &str, name: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    // A line can be removed only if it consists of a single assignment.
    let Some(value) = line
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('='))
    else {
        return false;
    };
    // A space outside quotes starts a command, as in `NAME=value command`.
    let simple = !value.trim_end().contains(char::is_whitespace);
    let quoted = value.starts_with(['"', '\'', '$', '`'])
        && value.trim_end().ends_with(['"', '\'', ')', '`']);
    (simple || quoted) && !line.contains(';') && !line.contains("&&")
}

fn without_srun(line: &str, omitted: &mut Vec<String>) -> String {
    let Some(captures) = SRUN.captures(line) else {
        return line.to_owned();
    };
    let flags = captures[2].trim();
    if !flags.is_empty() {
        omitted.push(format!("srun {flags}: each pod runs the command once"));
    }
    format!("{}{}", &captures[1], &line[captures[0].len()..])
}

fn without_container(line: &str, script: &mut Script) -> String {
    let Some(captures) = CONTAINER.captures(line) else {
        return line.to_owned();
    };
    let (flags, image) = (captures[1].trim(), &captures[2]);
    match image.strip_prefix("docker://") {
        Some(image) => script.image = Some(image.to_owned()),
        None => script.omitted.push(format!(
            "{image}: pods need an image from a registry; specify one with `--image IMAGE`"
        )),
    }
    let flags = flags.replace("--nv", "").trim().to_owned();
    if !flags.is_empty() {
        script.omitted.push(format!(
            "{flags}: mount directories with `storage.workdirs`"
        ));
    }
    CONTAINER.replace(line, "").into_owned()
}

/// Translates a variable of another system. Keeps and reports a variable without an equivalent.
fn variable(
    name: &str,
    operator: &str,
    written: &str,
    context: &ScriptContext<'_>,
    omitted: &mut Vec<String>,
) -> String {
    let rank_of_tasks = || {
        if context.one_task_per_pod {
            Some("$NODE_RANK")
        } else {
            None
        }
    };
    let replacement = match name {
        "SLURM_NNODES" | "SLURM_JOB_NUM_NODES" | "SKYPILOT_NUM_NODES" | "DSTACK_NODES_NUM" => {
            Some("$NNODES")
        }
        "SLURM_NODEID" | "SKYPILOT_NODE_RANK" | "DSTACK_NODE_RANK" => Some("$NODE_RANK"),
        "SLURM_PROCID" => rank_of_tasks(),
        "SLURM_LOCALID" if context.one_task_per_pod => Some("0"),
        "SLURM_NTASKS" | "SLURM_NPROCS" if context.one_task_per_pod => Some("$NNODES"),
        "SLURM_GPUS_ON_NODE"
        | "SLURM_GPUS_PER_NODE"
        | "SKYPILOT_NUM_GPUS_PER_NODE"
        | "DSTACK_GPUS_PER_NODE" => Some("$NPROC_PER_NODE"),
        "SLURM_LAUNCH_NODE_IPADDR" | "DSTACK_MASTER_NODE_IP" => Some("$MASTER_ADDR"),
        // Use the job's name, because all pods must see the same value. Slurm evaluates `$RANDOM`
        // once per job, but gpuctl runs the script once in each pod.
        "SLURM_JOB_ID" | "SLURM_JOBID" | "SLURM_JOB_NAME" | "RANDOM" => {
            return context.name.to_owned();
        }
        "SLURM_ARRAY_TASK_ID"
        | "SLURM_ARRAY_TASK_COUNT"
        | "SLURM_ARRAY_TASK_MIN"
        | "SLURM_ARRAY_TASK_MAX"
        | "SLURM_ARRAY_JOB_ID" => return written.to_owned(),
        "SLURM_CPUS_PER_TASK" | "SLURM_CPUS_ON_NODE" => match context.cpus {
            Some(cpus) => return cpus.to_string(),
            None => None,
        },
        _ => None,
    };
    let Some(replacement) = replacement else {
        omitted.push(format!("${name} is not set"));
        return written.to_owned();
    };
    // Keep the operator of `${NAME:-1}` and the braces of `${NAME}_x`.
    match replacement.strip_prefix('$') {
        Some(name) if written.starts_with("${") => format!("${{{name}{operator}}}"),
        _ => replacement.to_owned(),
    }
}

#[cfg(test)]
mod tests;
