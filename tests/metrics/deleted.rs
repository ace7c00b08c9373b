//! `why` of jobs that are deleted, from what a real Prometheus keeps of kube-state-metrics.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::past::{Written, ask, store};

const SPACE: &str = "deleted-why";

/// Ten minutes of jobs two hours ago; all of them are gone since.
struct RecordedAnswer {
    begin: i64,
    written: Vec<Written>,
}

impl RecordedAnswer {
    fn put(&mut self, metric: &str, labels: &str, value: i64) {
        for at in [0, 300, 600] {
            let series = format!("{metric}{{namespace=\"{SPACE}\",{labels}}}");
            self.written.push(Written {
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

    /// A pod that ended so many seconds after the begin, in a phase and for the reason of its
    /// container.
    fn pod(
        &mut self,
        job: &str,
        pod: &str,
        (created, ended): (i64, i64),
        last: &str,
        reason: &str,
    ) {
        let own = format!("pod=\"{pod}\",uid=\"{pod}\"");
        self.put(
            "kube_pod_owner",
            &format!("{own},owner_kind=\"Job\",owner_name=\"{job}\",owner_is_controller=\"true\""),
            1,
        );
        self.put("kube_pod_created", &own, self.begin + created);
        self.put("kube_pod_info", &format!("{own},node=\"gone-1\""), 1);
        for phase in ["Pending", "Running", "Succeeded", "Failed", "Unknown"] {
            self.put(
                "kube_pod_status_phase",
                &format!("{own},phase=\"{phase}\""),
                i64::from(phase == last),
            );
        }
        if ended > 0 {
            self.put("kube_pod_completion_time", &own, self.begin + ended);
        }
        if !reason.is_empty() {
            let labels = format!("{own},container=\"main\",reason=\"{reason}\"");
            self.put("kube_pod_container_status_terminated_reason", &labels, 1);
        }
    }
}

#[test]
fn what_is_deleted_is_told_from_what_was_kept() {
    let now = i64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs(),
    )
    .unwrap();
    let begin = now - 7200;
    let mut kept = RecordedAnswer {
        begin,
        written: Vec::new(),
    };
    kept.job(
        "oom",
        "kube_job_status_failed",
        "reason=\"BackoffLimitExceeded\"",
    );
    kept.put("kube_job_failed", "job_name=\"oom\",condition=\"true\"", 1);
    kept.pod("oom", "oom-0-aaaaa", (0, 402), "Failed", "Error");
    kept.pod("oom", "oom-1-bbbbb", (0, 400), "Failed", "OOMKilled");
    kept.job(
        "late",
        "kube_job_status_failed",
        "reason=\"DeadlineExceeded\"",
    );
    kept.pod("late", "late-0-aaaaa", (0, 0), "Running", "");
    kept.job("done", "kube_job_complete", "condition=\"true\"");
    kept.pod("done", "done-0-aaaaa", (0, 500), "Succeeded", "Completed");
    kept.job("stopped", "", "");
    kept.pod("stopped", "stopped-0-aaaaa", (0, 0), "Running", "");
    // Its namesake of an hour before was killed.
    kept.job("again", "kube_job_complete", "condition=\"true\"");
    kept.pod(
        "again",
        "again-0-aaaaa",
        (-3600, -3000),
        "Failed",
        "OOMKilled",
    );
    kept.pod("again", "again-0-bbbbb", (0, 500), "Succeeded", "Completed");
    let prometheus = store(SPACE, kept.written, begin);
    let asked = |source: &str, name: &str| {
        ask(
            source,
            &PathBuf::from("/nonexistent"),
            &["-n", SPACE, "why", name, "-o", "json"],
        )
    };
    let why = |name: &str| -> Value { asked(&prometheus, name).ok().json() };
    let oom = why("oom");
    assert_eq!(
        oom["sentence"],
        "oom failed: rank 1 used more memory than its limit on gone-1: host memory, not GPU memory; it is deleted since"
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
            format!("{name} succeeded, and is deleted since")
        );
    }
    let pod = why("oom-0-aaaaa");
    assert_eq!(
        (&pod["kind"], &pod["causes"][0]["cause"]),
        (&"pod".into(), &"exit-code".into())
    );
    for (source, name) in [("none", "oom"), (prometheus.as_str(), "never-was")] {
        let missing = asked(source, name);
        let said = format!("{}{}", missing.out, missing.err);
        assert!(
            missing.code != 0 && said.contains(&format!("there is no job `{name}`")),
            "{said}"
        );
    }
}
