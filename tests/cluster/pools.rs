//! Tests pools on the real API server: creating and deleting them, their members, and limits for
//! jobs.

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::node;
use serde_json::{Value, json};

use crate::support::{A100, GPU, Run, Scene, cluster, finish};

/// Creates a namespace, and nodes that belong to no pool.
fn scene(name: &'static str, nodes: usize) -> Scene {
    let scene = Scene::new(name);
    let nodes: Vec<Value> = (0..nodes)
        .map(|index| node(&format!("{name}-{index}"), Some(A100), &[(GPU, 8)]))
        .collect();
    cluster().add_nodes(&nodes);
    scene
}

fn make(scene: &Scene, yaml: &str, arguments: &[&str]) -> Run {
    scene.gpuctl_with(&[&["create", "-f", "-"], arguments].concat(), yaml)
}

fn labels(scene: &Scene, node: &str) -> Value {
    scene.admin.json(&["get", "node", node])["metadata"]["labels"].clone()
}

fn definition(scene: &Scene, pool: &str) -> Value {
    let map = scene.admin.json(&[
        "get",
        "configmap",
        &format!("pool-{pool}"),
        "-n",
        "gpuctl-system",
    ]);
    serde_json::from_str(map["data"]["pool"].as_str().unwrap()).unwrap()
}

#[test]
fn deleting_a_pool_removes_exactly_the_labels_it_set() {
    let scene = scene("pool-life", 3);
    scene.admin.run(&["label", "node", "pool-life-1", "team=x"]);
    let yaml = "kind: resource
version: v0.1
pool: {name: pool-life, description: for trainings, gpu-type: [A100-80G], quota: {maxJobs: 2, maxGpuPerJob: 8}}
nodes:
  pool-life-0: {gpu-type: A100-80G}
  pool-life-1:
";
    let created = make(&scene, yaml, &["-o", "json"]).ok().json();
    assert_eq!(
        created,
        json!({"name": "pool-life", "status": "created", "message": "created with 2 nodes"})
    );
    assert_eq!(
        (
            &labels(&scene, "pool-life-0")["gpuctl/pool"],
            &labels(&scene, "pool-life-0")["nvidia.com/gpu-type"]
        ),
        (&json!("pool-life"), &json!("a100-80g"))
    );
    assert_eq!(labels(&scene, "pool-life-2")["gpuctl/pool"], Value::Null);
    let again = make(&scene, yaml, &["-o", "json"]).ok().json();
    assert_eq!(
        (&again["status"], &again["message"]),
        (&json!("unchanged"), &json!("matches the file"))
    );
    let changed = yaml
        .replace("maxJobs: 2", "maxJobs: 3")
        .replace("pool-life-1:", "pool-life-2:");
    make(&scene, &changed, &[])
        .exits(1)
        .says("pool `pool-life` already exists and differs from the file")
        .says("--force");
    assert_eq!(labels(&scene, "pool-life-2")["gpuctl/pool"], Value::Null);
    let updated = make(&scene, &changed, &["--force", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&updated["status"], &updated["message"]),
        (&json!("updated"), &json!("changed, now with 3 nodes"))
    );
    assert_eq!(definition(&scene, "pool-life")["maxJobs"], 3);
    scene
        .gpuctl(&["remove", "node", "pool-life-2", "--pool", "pool-life"])
        .ok();
    make(&scene, yaml, &["--force"]).ok();
    let pools = scene.gpuctl(&["get", "pools", "-o", "json"]).ok().json();
    let listed = pools["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|pool| pool["name"] == "pool-life")
        .unwrap()
        .clone();
    assert_eq!(
        (
            &listed["gpuTotal"],
            &listed["gpuFree"],
            &listed["gpuType"],
            &listed["status"]
        ),
        (
            &json!(16),
            &json!(16),
            &json!(["a100-80g"]),
            &json!("active")
        )
    );
    scene.create("train", "");
    scene.until("train", "running", None);
    let pool = scene
        .gpuctl(&["describe", "pool", "pool-life", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&pool["gpuUsed"], &pool["gpuFree"], &pool["gpuType"]),
        (&json!(1), &json!(15), &json!({"a100-80g": 16}))
    );
    assert_eq!(pool["quota"], json!({"maxJobs": 2, "maxGpuPerJob": 8}));
    assert_eq!(
        pool["jobs"],
        json!([{"jobId": "train", "name": "train", "namespace": "pool-life", "gpu": 1}])
    );
    assert_eq!(pool["nodes"], json!(["pool-life-0", "pool-life-1"]));
    let text = scene.gpuctl(&["describe", "pool", "pool-life"]).ok().out;
    assert!(
        text.contains("16 × a100-80g: 1 held, 15 free") && text.contains("2 jobs, 8 GPUs per job"),
        "{text}"
    );
    scene
        .gpuctl(&["delete", "pool", "pool-life"])
        .exits(1)
        .says("pool `pool-life` has jobs: pool-life/train")
        .says("--force");
    scene.gpuctl(&["delete", "job", "train"]).ok();
    // gpuctl keeps a label that another user has since changed.
    scene.admin.run(&[
        "label",
        "node",
        "pool-life-0",
        "nvidia.com/gpu-type=h100",
        "--overwrite",
    ]);
    assert_eq!(
        scene.gpuctl(&["delete", "pool", "pool-life"]).ok().out,
        "pool-life deleted: labels removed from 2 nodes\n"
    );
    let (first, second) = (labels(&scene, "pool-life-0"), labels(&scene, "pool-life-1"));
    assert_eq!(
        (&first["gpuctl/pool"], &first["nvidia.com/gpu-type"]),
        (&Value::Null, &json!("h100"))
    );
    assert_eq!(
        (&second["gpuctl/pool"], &second["team"]),
        (&Value::Null, &json!("x"))
    );
    scene
        .gpuctl(&["delete", "pool", "pool-life"])
        .exits(4)
        .says("pool `pool-life` does not exist");
    scene
        .gpuctl(&["delete", "pool", "pool-life", "--ignore-not-found"])
        .ok();
    scene.gpuctl(&["describe", "pool", "pool-live"]).exits(4);
}

#[test]
fn a_missing_node_or_a_node_of_another_pool_prevents_all_writes() {
    let scene = scene("pool-whole", 2);
    let yaml = |name: &str, nodes: &str| {
        format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\nnodes: [{nodes}]\n")
    };
    let run = make(&scene, &yaml("whole-a", "pool-whole-0, nope, nada"), &[]).exits(1);
    assert!(
        run.err
            .starts_with("error: nodes not found: nope, nada; nothing was written\n"),
        "{}",
        run.err
    );
    assert_eq!(labels(&scene, "pool-whole-0")["gpuctl/pool"], Value::Null);
    make(
        &scene,
        &yaml("whole-a", "pool-whole-0, nope"),
        &["--keep-partial"],
    )
    .ok()
    .says("creating the pool without it");
    let refused = make(&scene, &yaml("whole-b", "pool-whole-1, pool-whole-0"), &[]).exits(1);
    refused
        .says("node `pool-whole-0` is in pool `whole-a`")
        .says("use `--force` to move it");
    assert_eq!(labels(&scene, "pool-whole-1")["gpuctl/pool"], Value::Null);
    // Labels that the first pool has set move to the second pool. Labels that others have set stay.
    make(
        &scene,
        &yaml("whole-a", "pool-whole-0: {gpu-type: A100-80G}")
            .replace('[', "{")
            .replace(']', "}"),
        &["--force"],
    )
    .ok();
    scene.admin.run(&[
        "label",
        "node",
        "pool-whole-1",
        "nvidia.com/gpu-type=a100-80g",
    ]);
    make(
        &scene,
        &yaml(
            "whole-b",
            "pool-whole-1: {gpu-type: A100-80G}, pool-whole-0: {}",
        )
        .replace('[', "{")
        .replace(']', "}"),
        &["--force"],
    )
    .ok();
    assert_eq!(labels(&scene, "pool-whole-0")["gpuctl/pool"], "whole-b");
    let membership = json!({"value": "whole-b"});
    let typed = json!({"gpuctl/pool": membership, "nvidia.com/gpu-type": {"value": "a100-80g"}});
    assert_eq!(
        definition(&scene, "whole-b")["labels"],
        json!({"pool-whole-0": typed, "pool-whole-1": {"gpuctl/pool": membership}})
    );
    assert_eq!(definition(&scene, "whole-a")["labels"], json!({}));
    let wrong = "kind: pool\nversion: v0.1\npool: {name: whole-c, gpu-type: h100-80g}\nnodes: [pool-whole-1]\n";
    make(&scene, wrong, &["--force"])
        .exits(1)
        .says("node `pool-whole-1` has a100-80g, which pool `whole-c` does not allow");
    make(
        &scene,
        &yaml("whole-d", "pool-whole-1"),
        &["--dry-run=server", "--force"],
    )
    .ok();
    assert_eq!(labels(&scene, "pool-whole-1")["gpuctl/pool"], "whole-b");
    scene.gpuctl(&["delete", "pool", "whole-a", "whole-b"]).ok();
    assert_eq!(
        labels(&scene, "pool-whole-0")["nvidia.com/gpu-type"],
        Value::Null
    );
    assert_eq!(
        labels(&scene, "pool-whole-1")["nvidia.com/gpu-type"],
        "a100-80g"
    );
    scene.gpuctl(&["describe", "pool", "whole-d"]).exits(4);
}

#[test]
fn dry_runs_of_a_pool_change_nothing() {
    let scene = scene("pool-dry", 2);
    let yaml = "kind: pool\nversion: v0.1\npool: {name: pool-dry}\nnodes: [pool-dry-0]\n";
    let larger = yaml.replace("[pool-dry-0]", "[pool-dry-0, pool-dry-1]");
    let pool_of = |node: &str| labels(&scene, node)["gpuctl/pool"].clone();
    let rehearse = |verb: &str, place: &str, yaml: &str| {
        let dry_run = format!("--dry-run={place}");
        let run = scene.gpuctl_with(&[verb, "-f", "-", &dry_run, "-o", "json"], yaml);
        let made = run.ok().json();
        assert_eq!(made["dryRun"], true, "{made:#}");
        made["status"].clone()
    };
    for place in ["client", "server"] {
        assert_eq!(rehearse("create", place, yaml), "created");
        assert_eq!(rehearse("apply", place, yaml), "created");
        assert_eq!(pool_of("pool-dry-0"), Value::Null);
    }
    scene.gpuctl(&["describe", "pool", "pool-dry"]).exits(4);
    make(&scene, yaml, &[]).ok();
    let before = definition(&scene, "pool-dry");
    for place in ["client", "server"] {
        assert_eq!(rehearse("apply", place, &larger), "updated");
        let dry_run = format!("--dry-run={place}");
        let delete = ["delete", "pool", "pool-dry", dry_run.as_str()];
        let text = scene.gpuctl(&delete).ok().out;
        let mark = format!("pool-dry deleted ({place} dry run): labels removed from 1 node");
        assert!(text.contains(&mark), "{text}");
        let deleted = scene.gpuctl(&[&delete[..], &["-o", "json"]].concat());
        assert_eq!(deleted.ok().json()["dryRun"], place);
        scene
            .gpuctl(&["delete", "pool", "pool-absent", &dry_run])
            .exits(4);
    }
    assert_eq!(definition(&scene, "pool-dry"), before);
    assert_eq!(pool_of("pool-dry-0"), "pool-dry");
    assert_eq!(pool_of("pool-dry-1"), Value::Null);
    scene.gpuctl(&["delete", "pool", "pool-dry"]).ok();
}

#[test]
fn concurrent_changes_of_a_pool_are_all_kept() {
    let scene = scene("pool-edit", 6);
    make(
        &scene,
        "kind: pool\nversion: v0.1\npool: {name: pool-edit}\n",
        &[],
    )
    .ok();
    let children: Vec<_> = (0..5)
        .map(|index| {
            scene.start(&[
                "add",
                "node",
                &format!("pool-edit-{index}"),
                "--pool",
                "pool-edit",
            ])
        })
        .collect();
    for child in children {
        finish(child, std::time::Duration::from_secs(60)).ok();
    }
    let members = definition(&scene, "pool-edit")["labels"]
        .as_object()
        .unwrap()
        .len();
    assert_eq!(members, 5, "concurrent writers do not overwrite each other");
    let batch = scene
        .gpuctl(&[
            "add",
            "node",
            "pool-edit-5",
            "nope",
            "--pool",
            "pool-edit",
            "-o",
            "json",
        ])
        .exits(1)
        .json();
    assert_eq!(
        (&batch["pool"], &batch["success"]),
        (&json!("pool-edit"), &json!(["pool-edit-5"]))
    );
    assert_eq!(
        (
            &batch["failed"][0]["nodeName"],
            &batch["failed"][0]["error"]
        ),
        (&json!("nope"), &json!("NodeNotFound"))
    );
    let removed = scene
        .gpuctl(&[
            "remove",
            "node",
            "pool-edit-0",
            "pool-edit-1",
            "--pool",
            "pool-edit",
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(removed["success"], json!(["pool-edit-0", "pool-edit-1"]));
    assert_eq!(labels(&scene, "pool-edit-0")["gpuctl/pool"], Value::Null);
    scene
        .gpuctl(&["remove", "node", "pool-edit-0", "--pool", "pool-edit"])
        .exits(1)
        .says("is in no pool");
    scene
        .gpuctl(&["add", "node", "pool-edit-0", "--pool", "pool-edlt"])
        .exits(4)
        .says("did you mean `pool-edit`?");
    let list = scene
        .gpuctl(&["get", "nodes", "--pool", "pool-edit", "-o", "name"])
        .ok()
        .out;
    assert_eq!(list.lines().count(), 4);
    scene.gpuctl(&["delete", "pool", "pool-edit"]).ok();
    assert_eq!(
        scene
            .gpuctl(&["get", "nodes", "--pool", "pool-edit", "-o", "name"])
            .ok()
            .out,
        ""
    );
}

#[test]
fn quota_and_types_of_a_pool_are_enforced_at_creation() {
    let scene = scene("pool-quota", 2);
    let yaml = "kind: pool
version: v0.1
pool: {name: pool-quota, gpu-type: a100-80g, quota: {maxJobs: 1, maxGpuPerJob: 4}}
nodes: [pool-quota-0, pool-quota-1]
";
    make(&scene, yaml, &[]).ok();
    let refused = make(
        &scene,
        &scene.training("big", "resources: {pool: POOL, gpu: 3, node_count: 2}"),
        &[],
    )
    .exits(1);
    assert_eq!(
        refused.err,
        "error: the job requests 6 GPUs in total; pool `pool-quota` allows 4 per job\n\nhint: request 4 or fewer, or choose another pool\n"
    );
    scene.create("first", "resources: {pool: POOL, gpu: 2, node_count: 2}");
    make(&scene, &scene.training("second", ""), &[])
        .exits(1)
        .says("pool `pool-quota` is at its job limit (1 of 1)");
    // The first pool makes the definitions readable for every user. A user with permissions in only
    // one namespace therefore gets the same check.
    scene.allow_edit(Persona::Alice);
    let alice = scene.seen_by(Persona::Alice);
    make(&alice, &scene.training("third", ""), &[])
        .exits(1)
        .says("pool `pool-quota` is at its job limit (1 of 1)");
    scene.gpuctl(&["delete", "job", "first"]).ok();
    make(&alice, &scene.training("second", ""), &[])
        .ok()
        .says("you may only list jobs in namespace `pool-quota`: other jobs were not counted against the quota");
    let pools = alice.gpuctl(&["get", "pools"]).exits(0);
    assert!(
        pools.out.contains("pool-quota") && pools.err.contains("without their status"),
        "{}{}",
        pools.out,
        pools.err
    );
    alice
        .gpuctl(&[
            "add",
            "node",
            "pool-quota-0",
            "--pool",
            "pool-quota",
            "--force",
        ])
        .exits(5);
    scene.gpuctl(&["delete", "job", "second"]).ok();
    scene.gpuctl(&["delete", "pool", "pool-quota"]).ok();
}

#[test]
fn a_pool_and_its_job_can_be_in_one_file() {
    let scene = scene("pool-both", 1);
    let yaml = format!(
        "kind: pool\nversion: v0.1\npool: {{name: pool-both}}\nnodes: [pool-both-0]\n---\n{}",
        scene.training("train", "")
    );
    let created = make(&scene, &yaml, &["-o", "json"]).ok().json();
    let kinds: Vec<&Value> = created["success"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["kind"])
        .collect();
    assert_eq!(kinds, ["pool", "training"]);
    scene.until("train", "running", None);
    let path = crate::support::file("pool-both.yaml", &yaml);
    scene.gpuctl(&["delete", "-f", path.to_str().unwrap()]).ok();
    assert_eq!(labels(&scene, "pool-both-0")["gpuctl/pool"], Value::Null);
    assert_eq!(scene.job("train"), Value::Null);
}

#[test]
fn labels_alone_define_a_pool() {
    let scene = scene("pool-labels", 2);
    scene
        .admin
        .run(&["label", "node", "pool-labels-0", "gpuctl/pool=pool-labels"]);
    let pool = scene
        .gpuctl(&["describe", "pool", "pool-labels", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&pool["nodes"], &pool["gpuTotal"], &pool["quota"]["maxJobs"]),
        (&json!(["pool-labels-0"]), &json!(8), &Value::Null)
    );
    scene
        .gpuctl(&["delete", "pool", "pool-labels"])
        .exits(1)
        .says("has no definition")
        .says("gpuctl remove node");
    scene
        .gpuctl(&["add", "node", "pool-labels-1", "--pool", "pool-labels"])
        .ok();
    scene
        .gpuctl(&[
            "remove",
            "node",
            "pool-labels-0",
            "pool-labels-1",
            "--pool",
            "pool-labels",
        ])
        .ok();
    assert_eq!(labels(&scene, "pool-labels-0")["gpuctl/pool"], Value::Null);
    scene.gpuctl(&["delete", "pool", "pool-labels"]).ok();
}

/// A type that contradicts the node's label is probably a mistake, so gpuctl refuses it. With
/// `--force` the type is set, and the old label returns when the pool is deleted.
#[test]
fn an_overwritten_type_label_is_restored() {
    let scene = scene("pool-types", 1);
    scene
        .admin
        .run(&["label", "node", "pool-types-0", "nvidia.com/gpu-type=h100"]);
    let yaml = "kind: pool\nversion: v0.1\npool: {name: pool-types}\nnodes: {pool-types-0: {gpu-type: a100-80g}}\n";
    make(&scene, yaml, &[])
        .exits(1)
        .says("node `pool-types-0` has h100 according to its labels, but the file says a100-80g");
    make(&scene, yaml, &["--force"]).ok();
    assert_eq!(
        labels(&scene, "pool-types-0")["nvidia.com/gpu-type"],
        "a100-80g"
    );
    scene.gpuctl(&["delete", "pool", "pool-types"]).ok();
    let after = labels(&scene, "pool-types-0");
    assert_eq!(
        (&after["nvidia.com/gpu-type"], &after["gpuctl/pool"]),
        (&json!("h100"), &Value::Null)
    );
}

/// When two users add the same node to different pools, one of them gets an error.
#[test]
fn a_node_added_to_two_pools_at_once_joins_one() {
    let scene = scene("pool-race", 4);
    for name in ["race-a", "race-b"] {
        make(
            &scene,
            &format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\n"),
            &[],
        )
        .ok();
    }
    for index in 0..4 {
        let node = format!("pool-race-{index}");
        let children =
            ["race-a", "race-b"].map(|pool| scene.start(&["add", "node", &node, "--pool", pool]));
        let codes = children.map(|child| finish(child, std::time::Duration::from_secs(60)).code);
        assert!(
            codes.contains(&0) && codes.contains(&1),
            "{node}: {codes:?}"
        );
        let winner = labels(&scene, &node)["gpuctl/pool"]
            .as_str()
            .unwrap()
            .to_owned();
        for pool in ["race-a", "race-b"] {
            assert_eq!(
                definition(&scene, pool)["labels"][&node].is_object(),
                pool == winner,
                "{node}: only the winner's definition contains the node"
            );
        }
    }
    scene.gpuctl(&["delete", "pool", "race-a", "race-b"]).ok();
}

#[test]
fn a_job_waits_in_a_pool_that_has_no_node_yet() {
    let scene = scene("pool-empty", 1);
    make(
        &scene,
        "kind: pool\nversion: v0.1\npool: {name: pool-empty}\n",
        &[],
    )
    .ok();
    let run = make(&scene, &scene.training("a", ""), &[]).ok();
    run.says("pool `pool-empty` has no nodes yet; the job waits for one; assuming nvidia.com/gpu");
    scene.until("a", "pending", Some("Unschedulable"));
    scene
        .gpuctl(&["add", "node", "pool-empty-0", "--pool", "pool-empty"])
        .ok();
    scene.until("a", "running", None);
    scene
        .gpuctl(&["delete", "pool", "pool-empty", "--force"])
        .ok();
}

#[test]
fn an_invalid_job_prevents_all_writes_of_the_run() {
    let scene = scene("pool-order", 1);
    let pool = "kind: pool\nversion: v0.1\npool: {name: pool-order}\nnodes: [pool-order-0]\n";
    let yaml = format!(
        "{pool}---\n{}",
        scene.training("a", "resources: {pool: POOL, gpu: 1, gpu-type: h100}")
    );
    let run = make(&scene, &yaml, &["-o", "json"]).exits(3);
    assert_eq!(
        (run.out.as_str(), run.err.contains("GpuTypeNotFound")),
        ("", true),
        "{}",
        run.err
    );
    scene.gpuctl(&["describe", "pool", "pool-order"]).exits(4);
    // The dry run names the checks that the server cannot make yet.
    let quota =
        "kind: quota\nversion: v0.1\nquota: {name: order}\nnamespace: {pool-order-new: {gpu: 1}}\n";
    let job = scene.training(
        "a",
        "job: {name: NAME, namespace: pool-order-new}\nresources: {pool: POOL, gpu: 1}",
    );
    let path = crate::support::file("pool-order.yaml", &format!("{pool}---\n{quota}---\n{job}"));
    let dry = scene
        .gpuctl_anywhere(&[
            "create",
            "-f",
            path.to_str().unwrap(),
            "--dry-run=server",
            "-o",
            "json",
        ])
        .ok();
    assert!(
        dry.err
            .contains("this command would create namespace `pool-order-new`"),
        "{}",
        dry.err
    );
    scene.gpuctl(&["describe", "pool", "pool-order"]).exits(4);
    let created = scene
        .gpuctl_anywhere(&["create", "-f", path.to_str().unwrap(), "-o", "json"])
        .ok()
        .json();
    let ids: Vec<&Value> = created["success"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["jobId"])
        .collect();
    assert_eq!(ids, [&Value::Null, &Value::Null, &json!("a")]);
    scene
        .gpuctl_anywhere(&["delete", "-f", path.to_str().unwrap(), "--purge"])
        .ok();
}

/// Returns the taints of a node.
fn taints(scene: &Scene, node: &str) -> Vec<String> {
    let all = scene.admin.json(&["get", "node", node])["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.iter()
        .map(|taint| {
            format!(
                "{}={}:{}",
                text(taint, "key"),
                text(taint, "value"),
                text(taint, "effect")
            )
        })
        .collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn an_exclusive_pool_repels_other_jobs_without_evicting_pods() {
    let scene = scene("fenced", 3);
    let pool_taint = "gpuctl/pool=fenced:NoSchedule";
    scene
        .admin
        .run(&["taint", "node", "fenced-0", "mine=x:PreferNoSchedule"]);
    let pool = |exclusive: bool, nodes: &str| {
        format!(
            "kind: pool\nversion: v0.1\npool: {{name: fenced, exclusive: {exclusive}}}\nnodes: [{nodes}]\n"
        )
    };
    make(&scene, &pool(false, "fenced-0, fenced-1"), &[]).ok();
    // The new taint does not evict running pods.
    let without_pool = "kind: training\nversion: v0.1\njob: {name: NAME}\nenvironment: {image: a, command: [sleep, '1']}\nresources: {gpu: 1}\n";
    let fixed = format!(
        "{}pod: {{nodeSelector: {{kubernetes.io/hostname: fenced-0}}}}\n",
        without_pool.replace("NAME", "before")
    );
    make(&scene, &fixed, &["--wait", "--timeout", "60s"]).ok();
    let exclusive = pool(true, "fenced-0, fenced-1");
    assert!(
        scene
            .gpuctl_with(&["diff", "-f", "-"], &exclusive)
            .exits(11)
            .out
            .contains("+exclusive: true")
    );
    assert_eq!(
        scene
            .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &exclusive)
            .ok()
            .json()["status"],
        "updated"
    );
    assert_eq!(
        taints(&scene, "fenced-0"),
        ["mine=x:PreferNoSchedule", pool_taint]
    );
    assert_eq!(taints(&scene, "fenced-1"), [pool_taint]);
    scene.gpuctl_with(&["diff", "-f", "-"], &exclusive).ok();
    assert_eq!(
        scene
            .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &exclusive)
            .ok()
            .json()["status"],
        "unchanged"
    );
    assert_eq!(scene.job("before")["status"], "running");
    let described = scene
        .gpuctl(&["describe", "pool", "fenced", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&described["exclusive"], &described["status"]),
        (&json!(true), &json!("active"))
    );

    // Jobs of the pool are scheduled on the node, and other jobs are not.
    let inside = without_pool
        .replace("NAME", "inside")
        .replace("gpu: 1", "gpu: 1, pool: fenced");
    make(&scene, &inside, &["--wait", "--timeout", "60s"]).ok();
    let fixed = fixed.replace("before", "outside");
    make(&scene, &fixed, &[]).ok();
    scene.until("outside", "pending", Some("Unschedulable"));
    // A job without a pool prefers nodes that are in no pool.
    let affinity =
        scene.get(&["job", "outside"])["spec"]["template"]["spec"]["affinity"].to_string();
    assert!(
        affinity.contains(
            r#""preference":{"matchExpressions":[{"key":"gpuctl/pool","operator":"DoesNotExist"}]}"#
        ),
        "{affinity}"
    );

    // `apply` restores a removed taint. Nodes get the taint when they join the pool and lose it
    // when they leave.
    scene
        .admin
        .run(&["taint", "node", "fenced-1", "gpuctl/pool-"]);
    assert_eq!(
        scene
            .gpuctl_with(&["apply", "-f", "-", "-o", "json"], &exclusive)
            .ok()
            .json()["status"],
        "updated"
    );
    assert_eq!(taints(&scene, "fenced-1"), [pool_taint]);
    scene
        .gpuctl(&["add", "node", "fenced-2", "--pool", "fenced"])
        .ok();
    assert_eq!(taints(&scene, "fenced-2"), [pool_taint]);
    scene
        .gpuctl(&["remove", "node", "fenced-2", "--pool", "fenced"])
        .ok();
    assert_eq!(taints(&scene, "fenced-2"), [""; 0]);
    let open = "kind: pool\nversion: v0.1\npool: {name: fenced-open}\nnodes: [fenced-1]\n";
    make(&scene, open, &["--force"]).ok();
    assert_eq!(taints(&scene, "fenced-1"), [""; 0]);
    scene
        .gpuctl(&["add", "node", "fenced-1", "--pool", "fenced", "--force"])
        .ok();
    assert_eq!(taints(&scene, "fenced-1"), [pool_taint]);

    // The taint is removed when the pool is deleted or when `exclusive` becomes false.
    scene
        .gpuctl_with(&["apply", "-f", "-"], &pool(false, "fenced-0, fenced-1"))
        .ok();
    assert_eq!(
        (taints(&scene, "fenced-0"), taints(&scene, "fenced-1").len()),
        (vec!["mine=x:PreferNoSchedule".to_owned()], 0)
    );
    scene.gpuctl_with(&["apply", "-f", "-"], &exclusive).ok();
    scene
        .gpuctl(&["delete", "pool", "fenced", "fenced-open", "--force"])
        .ok();
    assert_eq!(
        (taints(&scene, "fenced-0"), taints(&scene, "fenced-1").len()),
        (vec!["mine=x:PreferNoSchedule".to_owned()], 0)
    );
}

#[test]
fn a_dry_run_of_members_changes_neither_nodes_nor_definition() {
    let scene = scene("pool-members", 2);
    make(
        &scene,
        "kind: pool\nversion: v0.1\npool: {name: pool-members, exclusive: true}\nnodes: [pool-members-0]\n",
        &[],
    )
    .ok();
    let state = || {
        let nodes = ["pool-members-0", "pool-members-1"].map(|node| {
            let taints = scene.admin.json(&["get", "node", node])["spec"]["taints"].clone();
            (labels(&scene, node), taints)
        });
        (nodes, definition(&scene, "pool-members"))
    };
    let before = state();
    for place in ["client", "server"] {
        let dry_run = format!("--dry-run={place}");
        for (verb, node, text) in [
            ("add", "pool-members-1", "would be added to"),
            ("remove", "pool-members-0", "would be removed from"),
        ] {
            let arguments = [verb, "node", node, "--pool", "pool-members", &dry_run];
            assert_eq!(
                scene.gpuctl(&arguments).ok().out,
                format!("{node} {text} pool pool-members ({place} dry run)\n")
            );
            let run = scene.gpuctl(&[&arguments[..], &["-o", "json"]].concat());
            let answer = run.ok().json();
            assert_eq!(
                answer,
                json!({
                    "pool": "pool-members", "success": [node], "failed": [],
                    "message": "1 of 1 nodes would be updated", "dryRun": place,
                })
            );
        }
        scene
            .gpuctl(&[
                "remove",
                "node",
                "pool-members-1",
                "--pool",
                "pool-members",
                &dry_run,
            ])
            .exits(1)
            .says("is in no pool");
    }
    assert_eq!(state(), before);
}
