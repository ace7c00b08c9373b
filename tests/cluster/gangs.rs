//! Tests trainings on several nodes where Kubernetes itself schedules gangs (1.36, behind feature
//! gates). Either all pods of a training are placed, or none. The tests have their own cluster,
//! because the gates change how every pod with a group is scheduled.

use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};

const RANKS: usize = 64;

fn training(name: &str, more: &str) -> String {
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}, retries: 1{more}}}\nenvironment: {{image: busybox, command: [train]}}\n\
         resources: {{pool: gang, gpu: 1, node_count: {RANKS}}}\n"
    )
}

struct Scene {
    cluster: Cluster,
}

impl Scene {
    fn gpuctl(&self, persona: Persona, arguments: &[&str], input: &str) -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", self.cluster.kubeconfig(persona))
            .args(arguments);
        run(command, input)
    }

    fn create(&self, yaml: &str) -> Run {
        self.gpuctl(Persona::Admin, &["create", "-f", "-"], yaml)
    }

    /// Returns how many pods of a job are bound to a node and have not failed.
    fn placed(&self, job: &str) -> usize {
        let list = self.cluster.kubectl(Persona::Admin).json(&[
            "get",
            "pods",
            "-l",
            &format!("gpuctl/job={job}"),
        ]);
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let is_bound = |pod: &&Value| {
            pod["spec"]["nodeName"].is_string()
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["phase"] != "Failed"
        };
        pods.iter().filter(is_bound).count()
    }

    #[track_caller]
    fn until(&self, what: &str, good: impl FnMut() -> bool) {
        eventually(what, Duration::from_secs(90), good);
    }
}

#[test]
fn gangs_are_placed_completely_or_not_at_all() {
    let scene = Scene {
        cluster: Cluster::start(&Options {
            with_gangs: true,
            ..Options::default()
        })
        .unwrap_or_else(|error| panic!("{error:#}")),
    };
    let nodes: Vec<Value> = (0..12)
        .map(|index| {
            in_pool(
                node(
                    &format!("gang-{index}"),
                    Some(("NVIDIA-A100-SXM4-80GB", "81920")),
                    &[("nvidia.com/gpu", 8)],
                ),
                "gang",
            )
        })
        .collect();
    scene.cluster.add_nodes(&nodes);
    check_a_dry_run(&scene);
    check_competing_gangs(&scene);
    check_a_replaced_rank(&scene);
    check_users_without_rights_on_groups(&scene);
}

fn check_a_dry_run(scene: &Scene) {
    let shown = scene
        .gpuctl(
            Persona::Admin,
            &["create", "-f", "-", "--dry-run=client", "-o", "yaml"],
            &training("shown", ""),
        )
        .ok()
        .out;
    assert!(
        shown.contains("kind: PodGroup") && shown.contains("minCount: 64"),
        "{shown}"
    );
    assert!(
        shown.contains("schedulingGroup:\n") && shown.contains("podGroupName: shown"),
        "{shown}"
    );
    let alone = training("shown", ", gang: none");
    let shown = scene
        .gpuctl(
            Persona::Admin,
            &["create", "-f", "-", "--dry-run=client", "-o", "yaml"],
            &alone,
        )
        .ok()
        .out;
    assert!(
        !shown.contains("PodGroup") && !shown.contains("schedulingGroup"),
        "{shown}"
    );
    scene
        .create(&training("shown", ", gang: volcano"))
        .exits(3)
        .says("`job.gang: volcano` needs a scheduler that this cluster does not have");
}

/// Each training needs 64 of 96 GPUs. Without gangs, the second one would hold 32 of them and wait
/// forever.
fn check_competing_gangs(scene: &Scene) {
    thread::scope(|scope| {
        for name in ["one", "two"] {
            scope.spawn(move || scene.create(&training(name, "")).ok());
        }
    });
    scene.until("one of them is placed", || [0, RANKS] == sorted(scene));
    // For some time, the training that lost must not get any pod.
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        assert_eq!(sorted(scene), [0, RANKS]);
        thread::sleep(Duration::from_millis(500));
    }
    let (winner, loser) = if scene.placed("one") == RANKS {
        ("one", "two")
    } else {
        ("two", "one")
    };
    let jobs = scene
        .gpuctl(Persona::Admin, &["get", "jobs", "-o", "json"], "")
        .ok()
        .json();
    let job_entry = |name: &str| {
        jobs["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|job| job["jobId"] == name)
            .cloned()
            .unwrap()
    };
    assert_eq!(
        (&job_entry(winner)["status"], &job_entry(winner)["gpuHeld"]),
        (&json!("running"), &json!(64))
    );
    assert_eq!(
        (&job_entry(loser)["status"], &job_entry(loser)["gpuHeld"]),
        (&json!("pending"), &json!(0)),
        "{:#}",
        job_entry(loser)
    );
    let third = scene.create(&training("three", "")).ok();
    assert!(
        third
            .err
            .contains("only 32 of 64 pods fit now; none start until all fit"),
        "{}",
        third.err
    );
    scene
        .gpuctl(Persona::Admin, &["delete", "job", "three", "--force"], "")
        .ok();
    scene
        .gpuctl(Persona::Admin, &["delete", "job", winner, "--force"], "")
        .ok();
    scene.until("all pods of the loser are placed", || {
        scene.placed(loser) == RANKS
    });
    scene
        .gpuctl(Persona::Admin, &["delete", "job", loser, "--force"], "")
        .ok();
    let groups = || {
        scene
            .cluster
            .kubectl(Persona::Admin)
            .json(&["get", "podgroups.scheduling.k8s.io"])
    };
    scene.until("their groups are deleted", || {
        groups()["items"].as_array().is_some_and(Vec::is_empty)
    });
}

fn sorted(scene: &Scene) -> [usize; 2] {
    let mut placed = [scene.placed("one"), scene.placed("two")];
    placed.sort_unstable();
    placed
}

fn check_a_replaced_rank(scene: &Scene) {
    scene.create(&training("again", "")).ok();
    scene.until("it is placed", || scene.placed("again") == RANKS);
    let same = scene
        .gpuctl(
            Persona::Admin,
            &["apply", "-f", "-"],
            &training("again", ""),
        )
        .ok();
    assert!(same.out.contains("unchanged"), "{}", same.out);
    let admin = scene.cluster.kubectl(Persona::Admin);
    let pods = admin.json(&[
        "get",
        "pods",
        "-l",
        "gpuctl/job=again,batch.kubernetes.io/job-completion-index=7",
    ]);
    let name = pods["items"][0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    admin.run(&["delete", "pod", &name, "--grace-period=0", "--force"]);
    scene.until("rank 7 is replaced", || {
        let pods = admin.json(&[
            "get",
            "pods",
            "-l",
            "gpuctl/job=again,batch.kubernetes.io/job-completion-index=7",
        ]);
        let is_replacement = |pod: &Value| {
            let grouped = pod["spec"]["schedulingGroup"]["podGroupName"] == "again";
            pod["metadata"]["name"] != name.as_str()
                && pod["spec"]["nodeName"].is_string()
                && grouped
        };
        pods["items"].as_array().unwrap().iter().any(is_replacement)
    });
    assert_eq!(scene.placed("again"), RANKS);
    // The old group is deleted with its last pod, and the new one has the same name.
    let faster = training("again", "").replace("[train]", "[train, --faster]");
    scene
        .gpuctl(Persona::Admin, &["apply", "-f", "-", "--replace"], &faster)
        .ok();
    scene.until("its replacement is placed", || {
        scene.placed("again") == RANKS
    });
    scene
        .gpuctl(Persona::Admin, &["delete", "job", "again", "--force"], "")
        .ok();
}

/// The built-in role `edit` includes permissions on PodGroups, but a site's own roles may lack
/// them.
fn check_users_without_rights_on_groups(scene: &Scene) {
    let admin = scene.cluster.kubectl(Persona::Admin);
    admin.run(&["create", "namespace", "team-a"]);
    let rule = |group: &str, resources: Value| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
    admin.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "jobs", "namespace": "team-a"},
        "rules": [rule("batch", json!(["jobs"])), rule("", json!(["pods", "services", "configmaps", "secrets", "events", "resourcequotas"]))]}));
    let user = format!("--user={}", Persona::Alice.user());
    admin.run(&[
        "create",
        "rolebinding",
        "jobs",
        "-n",
        "team-a",
        "--role=jobs",
        &user,
    ]);
    let yaml = training("mine", "");
    let created = scene
        .gpuctl(
            Persona::Alice,
            &["-n", "team-a", "create", "-f", "-"],
            &yaml,
        )
        .ok();
    assert!(
        created.err.contains(
            "you are not allowed to create podgroups.scheduling.k8s.io, so the pods are placed one by one"
        ),
        "{}",
        created.err
    );
    let refused = scene
        .gpuctl(
            Persona::Alice,
            &["-n", "team-a", "create", "-f", "-"],
            &training("other", ", gang: native"),
        )
        .exits(5);
    assert!(refused.err.contains("podgroups"), "{}", refused.err);
}
