//! Texts of `gpuctl help TOPIC`: variables, formats, job files, metrics, exit codes. Generates the
//! parts that the program has as tables.

use crate::config::KEYS;
use gpuctl_core::error::ErrorKind;

/// Names of the topics.
#[cfg(test)]
pub(crate) const TOPICS: [&str; 5] = ["environment", "output", "manifest", "metrics", "exit-codes"];

const OUTPUT: &str = "\
Answers go to stdout; warnings, errors and progress to stderr. On a terminal a line says so where answers take more than a second, without
`--quiet` and `--plain`. There a command ends with what is usually typed next, without `--quiet`.

  -o table           lists for people, the default; in a pipe without colors and without cut columns
  -o text            the same of a single thing
  -o wide            every column
  -o json, -o yaml   one document; warnings and errors on stderr are JSON, one object a line
  -o csv             the table's columns, or every field; numbers without units; quoted as in RFC 4180
  -o name            one name a line
  -o custom-columns=TITLE:.field,...

Unknown is `-` in tables, null in JSON and empty in CSV, never 0. Percentages are 0 to 100, except in `get overview`, `get consumers` and the
workload commands (0 to 1). `-w` prints the list again when it changes: on a terminal in place, with `-o json` an object for each change.

  --color=auto|always|never, --plain, --pager, --quiet, -v, --no-headers

Examples:
  gpuctl get jobs -A -o json | jq -r '.items[] | select(.status == \"pending\") | .jobId'
  gpuctl get nodes -o custom-columns=NODE:.nodeName,FREE:.gpuFree
  gpuctl get jobs -o name | xargs -r gpuctl delete job
  gpuctl schema --output get-jobs         the JSON Schema of an answer

`docs/scripts.md` has the rules that hold between versions.
";

const MANIFEST: &str = "\
A file has one or more documents, each of a kind: training, inference, notebook, compute (jobs); pool, quota, defaults (for administrators).

  kind: training
  version: v0.1
  job: {name: sft}
  environment: {image: 'pytorch/pytorch:2.9.0', command: [torchrun], args: [train.py]}
  resources: {gpu: 8, gpu_type: h100-80g, node_count: 2}
  storage: {workdirs: [{path: /data, size: 200Gi}]}

  gpuctl init training            a file to begin with, every field explained
  gpuctl explain resources.gpu    what a field means, its values and its default
  gpuctl schema > gpuctl.json     the JSON Schema for an editor
  gpuctl validate -f FILE         every problem with line and column; --server asks the cluster as well
  gpuctl fit -f FILE              whether and when it would run
  gpuctl convert FILE             a Job, PyTorchJob, Slurm script, task of SkyPilot or dstack as such a file
";

const METRICS: &str = "\
Which GPUs there are and who holds them comes from the Kubernetes API; how busy they are from Prometheus, which scrapes an exporter
(dcgm-exporter, AMD's device-metrics-exporter, HAMi, nvidia_gpu_exporter).

  1. --prometheus URL, GPUCTL_PROMETHEUS, prometheus.url of the config file: that one
  2. else one that is found in the cluster, through the API server
  3. else the exporters' own pods, for lists of jobs, nodes and consumers

`none` as the URL turns metrics off; `--require-metrics` makes it an error that there are none. A store of several clusters is narrowed to this
one, or told so: --match cluster=prod.

Utilization is the mean over the GPUs that a pod holds and that were sampled; how many of how many stands beside it. Samples that no device can
have are dropped and counted, and a value older than two scrapes says its age. What is not known is no number.

  gpuctl doctor                   whether the cluster, Prometheus and the exporters answer, and what is missing
  gpuctl get metrics job NAME     one job over time
  gpuctl stats cluster            GPU-hours held, and how busy they were

`docs/metrics.md` says how each number is computed.
";

/// Returns the text of a topic; `None` for an unknown name.
pub(crate) fn text(name: &str) -> Option<String> {
    match name {
        "environment" => Some(environment()),
        "output" => Some(OUTPUT.to_owned()),
        "manifest" => Some(MANIFEST.to_owned()),
        "metrics" => Some(METRICS.to_owned()),
        "exit-codes" => Some(exit_codes()),
        _ => None,
    }
}

fn environment() -> String {
    const OTHERS: [(&str, &str); 8] = [
        (
            "KUBECONFIG",
            "kubeconfig files, merged as kubectl merges them; --kubeconfig comes before it",
        ),
        (
            "HTTPS_PROXY, NO_PROXY",
            "the way to servers outside; kubeconfigs may name their own",
        ),
        (
            "NO_COLOR, CLICOLOR_FORCE",
            "colors never, or always; --color comes before them",
        ),
        (
            "GPUCTL_PAGER, PAGER",
            "the first: what shows data of every command on a terminal a screen at a time; either: what --pager shows it with",
        ),
        ("COLUMNS", "the width of tables on a terminal"),
        (
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
            "sign queries to Amazon Managed Prometheus",
        ),
        (
            "XDG_CONFIG_HOME, XDG_CACHE_HOME",
            "where gpuctl/config.yaml and its cache are, on Linux",
        ),
        ("TZ", "the zone of times that are read and shown"),
    ];
    let own = KEYS.iter().filter(|key| !key.variables.is_empty());
    let own = own.map(|key| {
        (
            key.variables.join(", "),
            format!("{}: {}", key.name, key.meaning),
        )
    });
    let all = own.chain(OTHERS.map(|(name, meaning)| (name.to_owned(), meaning.to_owned())));
    let lines: String = all
        .map(|(name, meaning)| format!("  {name}\n      {meaning}\n"))
        .collect();
    format!(
        "Variables that gpuctl reads, with the setting of the config file that each stands for. A flag comes before a variable, a variable before the\nconfig file.\n\n{lines}\nExamples:\n  GPUCTL_PROMETHEUS=http://localhost:9090 gpuctl top\n  GPUCTL_READ_ONLY=1 gpuctl delete job sft      refused before it is sent\n  gpuctl config view --show-origin              every setting with who gave its value\n"
    )
}

fn exit_codes() -> String {
    let codes = std::iter::once((0, "done")).chain(
        ErrorKind::ALL
            .iter()
            .map(|kind| (kind.exit_code(), kind.sentence())),
    );
    let lines: String = codes
        .map(|(code, sentence)| format!("  {code:>3}  {sentence}\n"))
        .collect();
    format!(
        "{lines}\n`gpuctl fit` ends with 0 (fits now), 8 (not now), 9 (never on these nodes) or 1 (not known); `gpuctl diff` with 1 when something differs;\n`gpuctl exec` and `create --follow` with the code of the job's own command.\n\nExamples:\n  gpuctl fit -f job.yaml; case $? in 0) gpuctl create job.yaml;; 8) echo later;; esac\n  gpuctl get jobs NAME >/dev/null || [ $? -eq 4 ]\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_is_a_page_with_commands() {
        for name in TOPICS {
            let page = text(name).unwrap();
            assert!(page.ends_with('\n') && page.contains("  gpuctl "), "{name}");
            assert!(
                page.lines().all(|line| line.chars().count() <= 150),
                "{name}"
            );
        }
        assert!(
            text("environment").unwrap().contains("GPUCTL_READ_ONLY") && text("nodes").is_none()
        );
        assert!(
            text("exit-codes")
                .unwrap()
                .contains("  6  the cluster or Prometheus cannot be reached")
        );
    }
}
