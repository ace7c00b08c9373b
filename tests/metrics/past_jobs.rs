//! Tests how errors about deleted jobs name the commands that know them, and `get jobs --at` with
//! `--mine`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::past::{Sample, ask, store};
use crate::support::cluster;

const SPACE: &str = "past-jobs";

/// Samples of twenty minutes. Each pod has an owner, a label and one GPU.
fn history() -> Vec<Sample> {
    let pods = [
        ("lora-0-aaaaa", "Job", "lora", "label_gpuctl_user=\"admin\""),
        ("other-0-aaaaa", "Job", "other", "label_team=\"nlp\""),
        (
            "sweep-10-0-aaaaa",
            "Job",
            "sweep-10",
            "label_gpuctl_user=\"bob\"",
        ),
        (
            "sweep-2-0-aaaaa",
            "Job",
            "sweep-2",
            "label_gpuctl_user=\"bob\"",
        ),
        (
            "web-7c9d5f6b8-x2x4z",
            "ReplicaSet",
            "web-7c9d5f6b8",
            "label_gpuctl_user=\"bob\"",
        ),
    ];
    let mut samples = Vec::new();
    for at in (0..1200).step_by(30) {
        let mut put = |series: String, value: i64| {
            samples.push(Sample {
                series,
                at,
                value: value.to_string(),
            });
        };
        put(
            "kube_node_status_capacity{node=\"p1\",resource=\"nvidia_com_gpu\"}".to_owned(),
            8,
        );
        for (pod, kind, owner, label) in pods {
            let id = format!("namespace=\"{SPACE}\",pod=\"{pod}\",uid=\"u-{pod}\"");
            let request = format!("{id},container=\"c\",node=\"p1\",resource=\"nvidia_com_gpu\"");
            put(
                format!("kube_pod_container_resource_requests{{{request}}}"),
                1,
            );
            let phase = format!("{id},phase=\"Running\"");
            put(format!("kube_pod_status_phase{{{phase}}}"), 1);
            let of_owner = format!("{id},owner_kind=\"{kind}\",owner_name=\"{owner}\"");
            put(format!("kube_pod_owner{{{of_owner}}}"), 1);
            put(format!("kube_pod_labels{{{id},{label}}}"), 1);
        }
        let of_deployment = "owner_kind=\"Deployment\",owner_name=\"web\"";
        put(
            format!(
                "kube_replicaset_owner{{namespace=\"{SPACE}\",replicaset=\"web-7c9d5f6b8\",{of_deployment}}}"
            ),
            1,
        );
    }
    samples
}

#[test]
fn errors_about_deleted_jobs_name_the_commands_that_know_them() {
    let admin = cluster().kubectl(Persona::Admin);
    admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let begin = i64::try_from(now.as_secs()).unwrap() - 7200;
    let prometheus = store(SPACE, history(), begin);
    let ask_at =
        |source: &str, arguments: &[&str]| ask(source, &PathBuf::from("/dev/null"), arguments);
    for arguments in [
        &["get", "job", "lora"][..],
        &["describe", "job", "lora"],
        &["logs", "lora"],
        &["wait", "lora"],
        &["events", "lora"],
    ] {
        ask_at(&prometheus, arguments)
            .exits(4)
            .says("job `lora` does not exist")
            .says("gpuctl eff past-jobs/lora")
            .says("gpuctl get jobs --at TIME");
        // Without a history, these commands would not help.
        let error = ask_at("none", arguments).exits(4).err;
        assert!(!error.contains("gpuctl eff"), "{error}");
    }
    for arguments in [&["restart", "web"][..], &["why", "web"]] {
        let arguments = [&["-n", SPACE], arguments].concat();
        ask_at(&prometheus, &arguments)
            .exits(4)
            .says("gpuctl eff past-jobs/web");
    }
    // A mistyped name, and the start of another name, get no such hint.
    for name in ["loar", "sweep"] {
        let error = ask_at(&prometheus, &["describe", "job", name]).exits(4).err;
        assert!(!error.contains("gpuctl eff"), "{error}");
    }
    for name in ["past-jobs/lora", "past-jobs/web"] {
        ask_at(&prometheus, &["eff", name]).ok();
    }

    let at = (begin + 900).to_string();
    let jobs_at = |more: &[&str]| {
        let arguments = ["get", "jobs", "-n", SPACE, "--at", &at];
        ask_at(&prometheus, &[&arguments, more].concat()).ok()
    };
    // The order is that of namespaces, kinds and names.
    assert_eq!(
        jobs_at(&["-o", "name"]).out,
        "past-jobs/web\npast-jobs/lora\npast-jobs/other\npast-jobs/sweep-2\npast-jobs/sweep-10\n"
    );
    let own = jobs_at(&["--mine", "-o", "name"]);
    assert_eq!(own.out, "past-jobs/lora\n");
    own.says("1 job without a recorded user is not shown");
    let document = jobs_at(&["--mine", "-o", "json"]);
    let answer = document.json();
    assert_eq!(
        (&answer["total"], &answer["items"][0]["user"]),
        (&json!(1), &json!("admin"))
    );
    document.says("1 job without a recorded user is not shown");
}
