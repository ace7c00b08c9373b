//! Provides the texts of `gpuctl help TOPIC`: variables, formats, job files, metrics and exit
//! codes. Generates parts of the texts from the program's tables.

use crate::config::KEYS;
use gpuctl_core::error;

#[cfg(test)]
pub(crate) const TOPICS: [&str; 5] = ["environment", "output", "manifest", "metrics", "exit-codes"];

const OUTPUT: &str = "\
Results go to stdout; warnings, errors and progress go to stderr. On a terminal, gpuctl shows progress if a command takes more than a second
(not with `--quiet` or `--plain`), and suggests a next command at the end (not with `--quiet`).

  -o table           a table, the default for lists; when piped, without colors or truncation
  -o text            text, the default for a single object
  -o wide            a table with all columns
  -o json, -o yaml   one document; warnings and errors on stderr are JSON, one object per line
  -o csv             the columns of the table, or every field; numbers without units; quoted as in RFC 4180
  -o name            one name per line
  -o jsonpath='{.items[*].jobId}'        kubectl's JSONPath on the JSON output
  -o custom-columns=TITLE:.field,...     fields of the JSON output; missing ones are <none>

Unknown values are `-` in tables, null in JSON and empty in CSV, never 0. Percentages are 0 to 100, except in `get overview`, `get consumers`
and the workload commands (0 to 1). `-w` prints the list again when it changes: in place on a terminal, one object per change with `-o json`.

  --color=auto|always|never, --plain, --pager, --quiet, -v, --no-headers

Examples:
  gpuctl get jobs -A -o json | jq -r '.items[] | select(.status == \"pending\") | .jobId'
  gpuctl get nodes -o custom-columns=NODE:.nodeName,FREE:.gpuFree
  gpuctl get jobs -o jsonpath='{range .items[*]}{.jobId}{\"\\t\"}{.status}{\"\\n\"}{end}'
  gpuctl get jobs --mine -o name | xargs -r gpuctl delete job
  gpuctl schema --output get-jobs         the JSON Schema of an output

`docs/scripts.md` describes which parts of the output are stable across versions.
";

const MANIFEST: &str = "\
A file contains one or more YAML documents. Jobs have the kind training, inference, notebook or compute. Administrators also use the kinds
pool, quota and defaults.

  kind: training
  version: v0.1
  job: {name: sft}
  environment: {image: 'pytorch/pytorch:2.9.0', command: [torchrun], args: [train.py]}
  resources: {gpu: 8, gpu_type: h100-80g, node_count: 2}
  storage: {workdirs: [{path: /data, size: 200Gi}]}

  gpuctl init training            a starter file that explains every field
  gpuctl explain resources.gpu    the meaning, values and default of a field
  gpuctl schema > gpuctl.json     the JSON Schema for an editor
  gpuctl validate -f FILE         every problem with line and column; --server also checks the cluster
  gpuctl fit FILE                 whether it fits now, later or never
  gpuctl convert FILE             converts a Job, PyTorchJob, Slurm script, SkyPilot task or dstack task
";

const METRICS: &str = "\
The Kubernetes API says which GPUs exist and which pods hold them. Their utilization comes from Prometheus, which scrapes an exporter
(dcgm-exporter, AMD's device-metrics-exporter, HAMi, nvidia_gpu_exporter). gpuctl uses the first of these sources:

  1. the URL in --prometheus, GPUCTL_PROMETHEUS, or prometheus.url of the config file
  2. a Prometheus that gpuctl finds in the cluster, through the API server
  3. the exporters' own pods, for lists of jobs, nodes and consumers

The URL `none` turns metrics off. With `--require-metrics`, missing metrics are an error. If Prometheus holds the metrics of several clusters,
gpuctl selects the series of this one. If it cannot tell which they are, select them with a label: --match cluster=prod.

Utilization is the mean over the GPUs that pods hold and that have samples; the output shows how many of them have samples. Impossible values
are dropped and counted, and a value older than two scrapes is shown with its age. Unknown values are never shown as numbers.

  gpuctl doctor                   checks the cluster, Prometheus and the exporters, and lists problems
  gpuctl get metrics job NAME     one job over time
  gpuctl stats cluster            GPU-hours held, and their utilization

`docs/metrics.md` explains how each number is computed.
";

/// Returns the text of a topic, or `None` for an unknown name.
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
    const OTHERS: [(&str, &str); 11] = [
        (
            "KUBECONFIG",
            "kubeconfig files, merged as kubectl does; --kubeconfig overrides it",
        ),
        (
            "GPUCTL_TOKEN",
            "bearer token for the API server, instead of the kubeconfig's credentials; --token overrides it",
        ),
        (
            "KUBERC",
            "kubectl's preferences file, for its policy on credential plugins; off ignores the file",
        ),
        (
            "HTTPS_PROXY, NO_PROXY",
            "proxies; the proxy-url of a kubeconfig overrides them for the API server",
        ),
        (
            "NO_COLOR, CLICOLOR_FORCE",
            "turn colors off, or force them on; --color overrides both",
        ),
        (
            "GPUCTL_PAGER, PAGER",
            "pager; GPUCTL_PAGER applies to every command on a terminal, PAGER only with --pager",
        ),
        (
            "GPUCTL_LOG",
            "log filter for stderr, such as debug (the same as -vv) or gpuctl::prometheus=debug",
        ),
        ("COLUMNS", "width of tables on a terminal"),
        (
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN",
            "credentials that sign queries to Amazon Managed Prometheus",
        ),
        (
            "XDG_CONFIG_HOME, XDG_CACHE_HOME",
            "folders for gpuctl/config.yaml and for the cache, on Linux",
        ),
        ("TZ", "time zone of times in options and output"),
    ];
    let own_variables = KEYS.iter().filter(|key| !key.variables.is_empty());
    let own_variables = own_variables.map(|key| {
        (
            key.variables.join(", "),
            format!("{}: {}", key.name, key.description),
        )
    });
    let all =
        own_variables.chain(OTHERS.map(|(name, meaning)| (name.to_owned(), meaning.to_owned())));
    let lines: String = all
        .map(|(name, meaning)| format!("  {name}\n      {meaning}\n"))
        .collect();
    format!(
        "Environment variables that gpuctl reads, with the equivalent setting in the config file. A flag overrides a variable, and a variable overrides\nthe config file.\n\n{lines}\nExamples:\n  GPUCTL_PROMETHEUS=http://localhost:9090 gpuctl top\n  GPUCTL_READ_ONLY=1 gpuctl delete job sft      rejected before it is sent\n  gpuctl config view --show-origin              every setting with the origin of its value\n"
    )
}

const EXIT_CODE_NOTES: &str = "\
`exec` exits with the exit code of the command that it runs. `logs -f`, `create --follow` and `--wait` exit with 0 if the job completed (or is
running, with `--wait=running`), and with 10 if it failed or was deleted. `logs -f` of a service exits with 0 when the service is deleted.
`open` exits with 0 after Ctrl-C, and `score --watch` after SIGTERM. With several documents, `create` and `apply` exit with 1 if any of them
failed, and `fit` exits with the worst result, in the order 9, 12, 8, 0.

If a Prometheus is configured, `report`, `stats`, `eff` and `snapshot` can exit with 0 even if the API server is down or your token has
expired: they read Prometheus, and warn about missing data.

Examples:
  gpuctl fit job.yaml; case $? in 0) gpuctl create job.yaml;; 8) echo later;; 9) echo never;; 12) echo 'not known';; *) exit 1;; esac
  gpuctl diff -f job.yaml; case $? in 0) ;; 11) gpuctl apply -f job.yaml;; *) exit 1;; esac
  gpuctl doctor >report.txt; case $? in 0|13) ;; *) mail -s 'GPU cluster' ops <report.txt;; esac
  gpuctl get jobs NAME >/dev/null || [ $? -eq 4 ]
";

fn exit_codes() -> String {
    let lines: String = error::exit_codes()
        .into_iter()
        .map(|(code, sentence)| format!("  {code:>3}  {sentence}\n"))
        .collect();
    format!("{lines}\n{EXIT_CODE_NOTES}")
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
                .contains("  6  the cluster or Prometheus is unreachable")
        );
        let codes = text("exit-codes").unwrap();
        for line in [
            "   11  `diff`: ",
            "   12  `fit`: ",
            "   14  `doctor`: ",
            "  143  ",
        ] {
            assert!(codes.contains(line), "{line}: {codes}");
        }
    }
}
