//! Maps words of kubectl, Slurm, docker, gh and other tools to gpuctl's commands, or explains that
//! gpuctl has no equivalent.

/// Words that users type as the first command.
const COMMANDS: [(&[&str], &str); 32] = [
    (
        &["kubectl", "oc", "docker", "podman", "gh", "sudo"],
        "leave out this word; `gpuctl help WORD` finds commands",
    ),
    (
        &["stop"],
        "use `gpuctl pause NAME` (keeps the job) or `gpuctl delete NAME`",
    ),
    (
        &[
            "kill",
            "cancel",
            "scancel",
            "rm",
            "qdel",
            "terminate",
            "destroy",
            "down",
        ],
        "use `gpuctl delete NAME`",
    ),
    (
        &["start", "up"],
        "use `gpuctl resume NAME` (for a paused job) or `gpuctl create FILE`",
    ),
    (&["suspend", "hold"], "use `gpuctl pause NAME`"),
    (
        &["unpause", "release", "continue"],
        "use `gpuctl resume NAME`",
    ),
    (
        &["rerun", "requeue", "retry", "resubmit"],
        "use `gpuctl restart NAME`, or `gpuctl apply FILE --replace` for a job that has ended",
    ),
    (
        &["rollout"],
        "use `gpuctl restart NAME`, and `gpuctl wait NAME --for running`",
    ),
    (&["submit", "launch"], "use `gpuctl create FILE`"),
    (
        &["sbatch", "qsub", "bsub"],
        "use `gpuctl create FILE`; `gpuctl convert` translates Slurm scripts",
    ),
    (
        &["srun"],
        "use `gpuctl run --name NAME --image IMAGE -- COMMAND`",
    ),
    (
        &["salloc", "interactive"],
        "use `gpuctl run --name NAME --image IMAGE --wait -- sleep 8h`, then `gpuctl exec NAME`",
    ),
    (
        &["edit", "patch", "set", "update", "replace"],
        "change the file, then `gpuctl apply FILE`",
    ),
    (
        &["ps", "ls", "list", "squeue", "qstat", "status", "state"],
        "use `gpuctl get jobs`",
    ),
    (&["watch"], "use `gpuctl top`, or `gpuctl get jobs -w`"),
    (
        &["sinfo"],
        "use `gpuctl get nodes`, and `gpuctl free` for free GPUs",
    ),
    (
        &["sacct", "history"],
        "use `gpuctl stats workloads`, `gpuctl eff NAME`, or `gpuctl get jobs --at TIME`",
    ),
    (&["usage", "sreport", "billing"], "use `gpuctl report`"),
    (
        &["info", "show", "inspect", "scontrol"],
        "use `gpuctl describe NAME`",
    ),
    (&["debug"], "use `gpuctl why NAME`, or `gpuctl exec NAME`"),
    (
        &["ssh", "shell", "sh", "bash", "enter"],
        "use `gpuctl exec NAME`",
    ),
    (
        &["port-forward", "forward", "proxy", "tunnel", "expose"],
        "use `gpuctl open NAME`",
    ),
    (
        &["copy", "scp", "rsync", "download", "upload", "sync"],
        "use `gpuctl cp NAME:PATH PATH`",
    ),
    (
        &[
            "nvidia-smi",
            "rocm-smi",
            "nvtop",
            "nvitop",
            "gpustat",
            "htop",
        ],
        "use `gpuctl top gpus`",
    ),
    (
        &["whoami", "can-i"],
        "use `gpuctl auth check`, which shows your user and your permissions",
    ),
    (
        &["login", "logout", "signin"],
        "gpuctl uses the credentials of your kubeconfig; `gpuctl auth check` shows your user",
    ),
    (
        &["cordon", "uncordon", "taint"],
        "use kubectl for this; `gpuctl drain NODE --plan` shows the affected pods",
    ),
    (
        &["build", "pull", "push", "images", "image", "tag"],
        "push the image to a registry, and set `environment.image` in the job file",
    ),
    (
        &["api-resources", "api-versions", "annotate"],
        "use kubectl for this",
    ),
    (
        &["cluster-info"],
        "use `gpuctl get overview`, or `gpuctl doctor`",
    ),
    (
        &["clone", "duplicate"],
        "use `gpuctl create --from NAME --name OTHER --set FIELD=VALUE`",
    ),
    (
        &["find", "search"],
        "`gpuctl help WORD` finds commands; `gpuctl get jobs` lists jobs",
    ),
];

/// Words that users type as a type of object.
const OBJECTS: [(&[&str], &str); 13] = [
    (
        &["pods", "pod", "po"],
        "`gpuctl describe job NAME` lists the pods of a job (`po` means pools here)",
    ),
    (
        &["secrets", "secret"],
        "only `gpuctl create secret` exists; kubectl lists and deletes Secrets",
    ),
    (
        &[
            "deployments",
            "deployment",
            "deploy",
            "statefulsets",
            "statefulset",
            "sts",
            "replicasets",
            "replicaset",
            "rs",
            "daemonsets",
            "daemonset",
            "ds",
            "services",
            "service",
            "svc",
            "ingresses",
            "ingress",
            "ing",
            "configmaps",
            "configmap",
            "cm",
        ],
        "`gpuctl get jobs` lists jobs, and `gpuctl tree NAME` shows the objects of a job",
    ),
    (
        &[
            "trainings",
            "training",
            "inferences",
            "inference",
            "notebooks",
            "notebook",
        ],
        "use `job` for jobs of every kind; `gpuctl get jobs --kind KIND` lists one kind",
    ),
    (
        &["cronjobs", "cronjob", "cj"],
        "gpuctl cannot run jobs on a schedule; see `gpuctl help cron`",
    ),
    (&["events", "event", "ev"], "use `gpuctl events NAME`"),
    (&["logs", "log"], "use `gpuctl logs NAME`"),
    (
        &[
            "pvc",
            "pvcs",
            "pv",
            "pvs",
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            "volumes",
            "volume",
        ],
        "`gpuctl get claims` lists volume claims and their jobs",
    ),
    (
        &["all"],
        "`gpuctl get jobs` lists jobs, `gpuctl get workloads` all workloads with GPUs",
    ),
    (
        &["gpus", "gpu"],
        "use `gpuctl free`, `gpuctl top gpus` or `gpuctl get gpu-type`",
    ),
    (&["partitions", "partition"], "use `gpuctl get pools`"),
    (
        &["users", "user", "accounts", "account"],
        "use `gpuctl report --by user`",
    ),
    (
        &["contexts", "context", "ctx", "use-context"],
        "`--context NAME` selects a cluster; `gpuctl get clusters` lists them",
    ),
];

/// Options, the command that has no such option (`""`: any), and what to use instead.
const OPTIONS: [(&str, &[&str], &str); 15] = [
    ("get", &["--all"], "`-A` reads all namespaces"),
    ("get", &["-u", "--me"], "use `--mine`"),
    (
        "get",
        &["--show-labels"],
        "jobs, nodes, queues and claims have it; `kubectl get KIND --show-labels` shows labels of \
         other objects",
    ),
    (
        "",
        &["--all"],
        "use `--mine` for your jobs, `-l` for labels, or the pattern `'*'` for all names",
    ),
    (
        "run",
        &["--time", "--time-limit", "--walltime"],
        "use `--max-runtime 12h`",
    ),
    (
        "",
        &["--time", "--time-limit", "--walltime"],
        "`job.max_runtime` in a job file limits the run time",
    ),
    ("", &["--json", "--format"], "use `-o json`"),
    ("", &["--sort"], "use `--sort-by KEY`"),
    ("", &["--debug"], "use `-vv`"),
    ("", &["--no-color"], "use `--color=never`"),
    (
        "run",
        &["-i", "-t", "--interactive", "--tty", "--stdin"],
        "use `--wait`, then `gpuctl exec NAME`",
    ),
    (
        "run",
        &["-G", "--gpu", "--gres", "--gpus-per-node"],
        "use `--gpus N`",
    ),
    (
        "run",
        &["-p", "--partition", "--queue"],
        "use `--pool NAME`",
    ),
    ("run", &["-N", "--nodes"], "use `--node-count N`"),
    (
        "run",
        &["--volume", "--mount", "--rm"],
        "write a job file: `gpuctl init training` explains its fields",
    ),
];

/// Returns the replacement for an unknown first command.
pub(super) fn instead_of_command(word: &str) -> Option<&'static str> {
    find(&COMMANDS, word).or_else(|| instead_of_object(word))
}

/// Returns the replacement for an unknown type of object.
pub(super) fn instead_of_object(word: &str) -> Option<&'static str> {
    find(&OBJECTS, word)
}

/// Returns the replacement for an option that the command lacks.
pub(super) fn instead_of_option(verb: &str, option: &str) -> Option<&'static str> {
    OPTIONS
        .iter()
        .find(|(of, options, _)| (of.is_empty() || *of == verb) && options.contains(&option))
        .map(|(.., hint)| *hint)
}

fn find(table: &[(&[&str], &'static str)], word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    table
        .iter()
        .find(|(words, _)| words.contains(&word.as_str()))
        .map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_hint_names_commands_that_exist() {
        let root = Cli::command();
        let hints = COMMANDS.iter().chain(&OBJECTS).map(|(_, hint)| *hint);
        let hints = hints.chain(OPTIONS.iter().map(|(.., hint)| *hint));
        let quoted = hints.flat_map(|hint| hint.split('`').skip(1).step_by(2));
        for line in quoted.filter_map(|text| text.strip_prefix("gpuctl ")) {
            let mut command = &root;
            for word in line.split(' ') {
                let Some(inner) = command.find_subcommand(word) else {
                    break;
                };
                command = inner;
            }
            let is_complete = !command.is_subcommand_required_set()
                || matches!(
                    command.get_name(),
                    "describe" | "pause" | "resume" | "restart"
                );
            let is_help = line.starts_with("help ");
            assert!(is_complete || is_help, "{line}");
        }
    }

    #[test]
    fn words_of_other_tools_are_not_commands_and_have_one_meaning() {
        let root = Cli::command();
        let mut seen = std::collections::BTreeSet::new();
        for word in COMMANDS
            .iter()
            .chain(&OBJECTS)
            .flat_map(|(words, _)| *words)
        {
            assert!(seen.insert(*word), "`{word}` is listed twice");
        }
        for word in COMMANDS.iter().flat_map(|(words, _)| *words) {
            assert!(
                root.find_subcommand(word).is_none(),
                "`{word}` is a command"
            );
        }
    }

    #[test]
    fn options_depend_on_the_command() {
        let all = |verb| instead_of_option(verb, "--all").unwrap();
        assert!(all("get").contains("-A") && all("delete").contains("--mine"));
        assert!(
            instead_of_option("run", "--time")
                .unwrap()
                .contains("--max-runtime")
        );
        assert!(
            instead_of_option("create", "--time")
                .unwrap()
                .contains("max_runtime")
        );
        assert_eq!(instead_of_option("get", "--partition"), None);
    }
}
