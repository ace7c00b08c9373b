//! Tests `why` for deleted jobs, which uses samples of kube-state-metrics in a real Prometheus.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::past::{Sample, ask, store};

const SPACE: &str = "deleted-why";

/// Ten minutes of jobs two hours ago. None of the jobs exists anymore.
struct History {
    begin: i64,
    samples: Vec<Sample>,
}

impl History {
    fn put(&mut self, metric: &str, labels: &str, value: i64) {
        for at in [0, 300, 600] {
            let series = format!("{metric}{{namespace=\"{SPACE}\",{labels}}}");
            self.samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        }
    }

    fn job(&mut self, name: &str, metric: &str, label: &str) {
        self.put(
            "kube_job_created",
            &format!("job_name=\"{name}\""),
            self.begin,
        );
        if !metric.is_empty() {
            self.put(metric, &format!("job_name=\"{name}\",{label}"), 1);
        }
    }

    /// Adds a pod with its last phase and the reason of its container. The times are seconds after
    /// the begin.
    fn pod(
        &mut self,
        job: &str,
        pod: &str,
        (created, ended): (i64, i64),
        last_phase: &str,
        reason: &str,
    ) {
        let labels_of_pod = format!("pod=\"{pod}\",uid=\"{pod}\"");
        self.put(
            "kube_pod_owner",
            &format!("{labels_of_pod},owner_kind=\"Job\",owner_name=\"{job}\",owner_is_controller=\"true\""),
            1,
        );
        self.put("kube_pod_created", &labels_of_pod, self.begin + created);
        self.put(
            "kube_pod_info",
            &format!("{labels_of_pod},node=\"gone-1\""),
            1,
        );
        for phase in ["Pending", "Running", "Succeeded", "Failed", "Unknown"] {
            self.put(
                "kube_pod_status_phase",
                &format!("{labels_of_pod},phase=\"{phase}\""),
                i64::from(phase == last_phase),
            );
        }
        if ended > 0 {
            self.put(
                "kube_pod_completion_time",
                &labels_of_pod,
                self.begin + ended,
            );
        }
        if !reason.is_empty() {
            let labels = format!("{labels_of_pod},container=\"main\",reason=\"{reason}\"");
            self.put("kube_pod_container_status_terminated_reason", &labels, 1);
        }
    }
}

#[test]
fn why_explains_deleted_jobs_from_metrics() {
    let now = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let begin = now - 7200;
    let mut history = History {
        begin,
        samples: Vec::new(),
    };
    history.job(
        "oom",
        "kube_job_status_failed",
        "reason=\"BackoffLimitExceeded\"",
    );
    history.put("kube_job_failed", "job_name=\"oom\",condition=\"true\"", 1);
    history.pod("oom", "oom-0-aaaaa", (0, 402), "Failed", "Error");
    history.pod("oom", "oom-1-bbbbb", (0, 400), "Failed", "OOMKilled");
    history.job(
        "late",
        "kube_job_status_failed",
        "reason=\"DeadlineExceeded\"",
    );
    history.pod("late", "late-0-aaaaa", (0, 0), "Running", "");
    history.job("done", "kube_job_complete", "condition=\"true\"");
    history.pod("done", "done-0-aaaaa", (0, 500), "Succeeded", "Completed");
    history.job("stopped", "", "");
    history.pod("stopped", "stopped-0-aaaaa", (0, 0), "Running", "");
    // An earlier pod of the same job name was OOM-killed.
    history.job("again", "kube_job_complete", "condition=\"true\"");
    history.pod(
        "again",
        "again-0-aaaaa",
        (-3600, -3000),
        "Failed",
        "OOMKilled",
    );
    history.pod("again", "again-0-bbbbb", (0, 500), "Succeeded", "Completed");
    let prometheus = store(SPACE, history.samples, begin);
    let why_at = |source: &str, name: &str| {
        ask(
            source,
            &PathBuf::from("/dev/null"),
            &["-n", SPACE, "why", name, "-o", "json"],
        )
    };
    let why = |name: &str| -> Value { why_at(&prometheus, name).ok().json() };
    let oom = why("oom");
    assert_eq!(
        oom["sentence"],
        "oom failed: rank 1 used more memory than its limit on gone-1: host memory, not GPU memory; it was then deleted"
    );
    assert_eq!(
        (
            &oom["kind"],
            &oom["situation"],
            &oom["causes"][0]["cause"],
            &oom["coverage"]["events"]
        ),
        (
            &"job".into(),
            &"dead".into(),
            &"oom-container".into(),
            &"expired".into()
        )
    );
    assert_eq!(
        oom["since"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second(),
        begin + 400
    );
    assert_eq!(why("late")["causes"][0]["cause"], "deadline");
    assert_eq!(
        why("stopped")["sentence"],
        "stopped: it was deleted while it ran"
    );
    for name in ["done", "again"] {
        assert_eq!(
            why(name)["sentence"],
            format!("{name} succeeded and was then deleted")
        );
    }
    let pod = why("oom-0-aaaaa");
    assert_eq!(
        (&pod["kind"], &pod["causes"][0]["cause"]),
        (&"pod".into(), &"exit-code".into())
    );
    check_namespaces(&prometheus);
    for (source, name) in [("none", "oom"), (prometheus.as_str(), "never-was")] {
        let missing = why_at(source, name);
        let output = format!("{}{}", missing.out, missing.err);
        assert!(
            missing.code != 0 && output.contains(&format!("namespace `{SPACE}` does not exist")),
            "{output}"
        );
    }
}

/// A namespace that had pods is not a mistake, although it no longer exists. A mistyped one is.
fn check_namespaces(prometheus: &str) {
    let in_namespace = |namespace: &str, arguments: &[&str]| {
        let options = ["-n", namespace];
        let range = ["--start", "3h"];
        ask(
            prometheus,
            &PathBuf::from("/dev/null"),
            &[&options, arguments, &range].concat(),
        )
    };
    for arguments in [
        &["report"][..],
        &["stats", "namespaces"],
        &["stats", "workloads"],
        &["get", "namespaces"],
    ] {
        in_namespace(SPACE, arguments)
            .ok()
            .says(&format!("warning: namespace `{SPACE}` no longer exists"));
        in_namespace("deleted-wyh", arguments)
            .exits(4)
            .says("namespace `deleted-wyh` does not exist");
    }
    in_namespace("deleted-wyh", &["eff", "oom"])
        .exits(4)
        .says("namespace `deleted-wyh` does not exist");
    in_namespace(SPACE, &["eff", "oom"])
        .exits(4)
        .says("has held no GPUs since 3h");
}
