//! Tests users with permissions in one namespace only. The main workflow works, and each missing
//! permission causes one warning.

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::support::{Scene, cluster, items};

#[test]
fn an_edit_user_can_run_a_job_from_create_to_delete() {
    let scene = Scene::with_nodes("editor", 1);
    scene.allow_edit(Persona::Alice);
    // The priority class does not exist, and a user with the `edit` role may neither read nor
    // create it.
    let mine = scene.seen_by(Persona::Alice);
    let yaml = mine.training(
        "a",
        "job: {name: NAME, priority: medium}\nresources: {pool: POOL, gpu: 2, gpu-type: A100-80G, cpu: 1, memory: 1Gi}",
    );
    let run = mine
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &yaml)
        .ok();
    assert_eq!(run.json()["namespace"], "editor");
    assert!(
        run.err.contains("`job.priority` has no effect"),
        "{}",
        run.err
    );
    let job = mine.until("a", "running", None);
    assert_eq!(
        (job["user"].as_str(), job["gpuHeld"].as_u64()),
        (Some("alice"), Some(2))
    );
    let pod = &scene.pods("a")[0];
    assert!(
        pod["spec"]["nodeName"]
            .as_str()
            .unwrap()
            .starts_with("editor-"),
        "{pod:#}"
    );
    mine.gpuctl(&["describe", "job", "a"]).ok();
    cluster()
        .pod_log("editor", pod["metadata"]["name"].as_str().unwrap(), "main")
        .say("hello");
    assert_eq!(mine.gpuctl(&["logs", "a"]).ok().out, "hello\n");
    mine.gpuctl(&["delete", "job", "a"]).ok();
    assert!(scene.pods("a").is_empty());
}

#[test]
fn a_foreign_priority_class_must_exist() {
    let scene = Scene::with_nodes("classless", 1);
    let yaml = scene.training("a", "job: {name: NAME, priority: nobody-made-this}");
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .exits(1)
        .says("priority class `nobody-made-this` does not exist");
    scene.create("b", "job: {name: NAME, priority: system-cluster-critical}");
    assert_eq!(scene.pods("b")[0]["spec"]["priority"], 2_000_000_000);
}

#[test]
fn an_ambiguous_name_lists_both_jobs() {
    let (one, two) = (
        Scene::with_nodes("twin-one", 1),
        Scene::with_nodes("twin-two", 1),
    );
    one.create("twin", "");
    two.create("twin", "");
    one.gpuctl_anywhere(&["describe", "job", "twin"])
        .exits(4)
        .says("2 jobs are named `twin`: twin-one/twin, twin-two/twin")
        .says("choose one: twin-one/twin");
    let described = one
        .gpuctl_anywhere(&["describe", "job", "twin-two/twin", "-o", "json"])
        .ok()
        .json();
    assert_eq!(described["namespace"], "twin-two");
}

#[test]
fn lists_fall_back_to_the_namespace_with_rights() {
    let scene = Scene::with_nodes("narrow", 1);
    scene.allow_edit(Persona::Carol);
    scene.create("a", "");
    let carol = scene.seen_by(Persona::Carol);
    // The context sets no namespace, and Carol may not read `default`.
    carol
        .gpuctl_anywhere(&["get", "jobs"])
        .exits(5)
        .says("jobs.batch is forbidden")
        .says("hint: ask your cluster administrator");
    let list = carol.gpuctl(&["get", "jobs", "-o", "json"]).ok().json();
    assert_eq!(list["total"], 1);
    carol.gpuctl_anywhere(&["describe", "job", "narrow/a"]).ok();
    carol
        .gpuctl_anywhere(&["delete", "job", "default/a"])
        .exits(5);
    cluster().kubectl(Persona::Admin).run(&[
        "create",
        "rolebinding",
        "carol-default",
        "--clusterrole=view",
        "--user=carol",
        "-n",
        "default",
    ]);
    let run = carol.gpuctl_anywhere(&["get", "jobs", "-o", "json"]).ok();
    let warning: serde_json::Value = serde_json::from_str(run.err.lines().next().unwrap()).unwrap();
    assert_eq!(
        warning["message"],
        "you are not allowed to list jobs in all namespaces; only `default` is shown"
    );
}

#[test]
fn any_user_name_becomes_a_valid_label() {
    let scene = Scene::with_nodes("whoami", 1);
    scene.allow_edit(Persona::Dave);
    let dave = scene.seen_by(Persona::Dave);
    dave.create("a", "");
    scene.create("b", "");
    let object = scene.get(&["job", "a"]);
    assert_eq!(
        object["metadata"]["labels"]["gpuctl/user"],
        "oidc_dave_example.com"
    );
    assert_eq!(
        object["metadata"]["annotations"]["gpuctl/user"],
        "oidc:dave@example.com"
    );
    assert_eq!(
        dave.gpuctl(&["get", "jobs", "--mine", "-o", "name"])
            .ok()
            .out,
        "whoami/a\n"
    );
    let table = scene.gpuctl(&["get", "jobs"]).ok().out;
    assert!(
        table.lines().next().unwrap().contains("USER") && table.contains("oidc:dave@example.com"),
        "{table}"
    );
    // `--mine` means the jobs of the impersonated user.
    assert_eq!(
        scene
            .gpuctl(&[
                "get",
                "jobs",
                "--mine",
                "--as",
                "oidc:dave@example.com",
                "-o",
                "name"
            ])
            .ok()
            .out,
        "whoami/a\n"
    );
}

#[test]
fn published_facts_replace_missing_rights_on_nodes() {
    let scene = Scene::new("facts");
    let amd = gpuctl_sandbox::nodes::node(
        "facts-amd",
        Some(("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")),
        &[("amd.com/gpu", 8)],
    );
    cluster().add_nodes(&[gpuctl_sandbox::nodes::in_pool(amd, "facts")]);
    scene.allow_edit(Persona::Viewer);
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            "kind: pool\nversion: v0.1\npool: {name: facts-published}\n",
        )
        .ok();
    scene.seen_by(Persona::Viewer).create("a", "");
    let limits = &scene.pods("a")[0]["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits, &json!({"amd.com/gpu": "1"}));
}

#[test]
fn an_unknown_certificate_authority_has_its_own_error() {
    let scene = Scene::new("tls");
    assert!(cluster().api_server().starts_with("https://"));
    scene.gpuctl(&["get", "jobs"]).ok();
    let text = std::fs::read_to_string(cluster().kubeconfig(Persona::Admin)).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    config["clusters"][0]["cluster"]
        .as_object_mut()
        .unwrap()
        .remove("certificate-authority");
    let path = crate::support::file("tls.kubeconfig", &config.to_string());
    let run = scene
        .gpuctl(&["get", "jobs", "--kubeconfig", path.to_str().unwrap()])
        .exits(6);
    assert!(
        run.err
            .contains("its certificate is signed by an authority that is not in the kubeconfig"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("sandbox-token"), "{}", run.err);
}

/// A user who may read one namespace gets everything that is allowed there. The rest is blank. For
/// each missing permission, one warning names the command that shows how to ask for it.
#[test]
fn a_reader_of_one_namespace_sees_what_its_rights_allow() {
    let scene = Scene::with_nodes("reader", 1);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "reads",
        "--clusterrole=view",
        "--user=grace",
        "-n",
        "reader",
    ]);
    let pool =
        "kind: pool\nversion: v0.1\npool: {name: reader, quota: {maxJobs: 3}}\nnodes: [reader-0]\n";
    scene.gpuctl_with(&["create", "-f", "-"], pool).ok();
    let quota =
        "kind: quota\nversion: v0.1\nquota: {name: reader}\nnamespace: {reader: {gpu: 5}}\n";
    scene.gpuctl_with(&["create", "-f", "-"], quota).ok();
    scene.create("a", "");
    let grace = scene.seen_by(Persona::Grace);
    let ask_hint = |task: &str| {
        format!(
            "hint: ask your cluster administrator for this permission; `gpuctl auth check {task} --emit-role=full`"
        )
    };
    for (task, command, missing) in [
        (
            "get nodes",
            &["get", "nodes", "--pool", "reader"][..],
            &[
                "you are not allowed to list nodes:",
                "you are not allowed to list the pods in all",
            ][..],
        ),
        (
            "describe nodes",
            &["describe", "node", "reader-0"],
            &["you are not allowed to list nodes:"],
        ),
        (
            "get pools",
            &["get", "pools"],
            &[
                "you are not allowed to list nodes:",
                "you may only list jobs in namespace `reader`",
            ],
        ),
        (
            "describe pools",
            &["describe", "pool", "reader"],
            &["you are not allowed to list the pods in all namespaces"],
        ),
        (
            "get labels",
            &["get", "gpu-type", "--all"],
            &["you are not allowed to list nodes:"],
        ),
    ] {
        let run = grace.gpuctl(command).ok();
        assert!(run.out.contains("reader"), "{task}: {}", run.out);
        for message in missing {
            assert_eq!(
                run.err.matches(message).count(),
                1,
                "{task}: {message}\n{}",
                run.err
            );
        }
        assert_eq!(
            run.err.matches(&ask_hint(task)).count(),
            1,
            "{task}: {}",
            run.err
        );
    }
    let pools = grace.gpuctl(&["get", "pools", "-o", "json"]).ok();
    let listed_pool = items(&pools.json())
        .into_iter()
        .find(|pool| pool["name"] == "reader")
        .unwrap();
    let facts = (
        &listed_pool["gpuTotal"],
        &listed_pool["gpuUsed"],
        &listed_pool["gpuFree"],
        &listed_pool["jobs"],
        &listed_pool["status"],
    );
    assert_eq!(
        facts,
        (
            &json!(8),
            &json!(null),
            &json!(null),
            &json!(null),
            &json!(null)
        )
    );
    grace
        .gpuctl(&["get", "nodes", "--status", "active"])
        .exits(5);
    for line in pools.err.lines() {
        let warning: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(warning["kind"], "warning", "{line}");
    }
    let pool = grace
        .gpuctl(&["describe", "pool", "reader", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&pool["quota"]["maxJobs"], &pool["jobs"][0]["jobId"]),
        (&json!(3), &json!("a"))
    );
    let quotas = grace.gpuctl(&["get", "quotas", "-o", "json"]).ok().json();
    assert_eq!(
        (
            &quotas["total"],
            &quotas["items"][0]["used"]["requests.nvidia.com/gpu"]
        ),
        (&json!(1), &json!("1"))
    );
    grace.gpuctl(&["describe", "quota", "reader"]).ok();
    for (task, command) in [
        ("label nodes", &["label", "node", "reader-0", "a=b"][..]),
        (
            "add nodes",
            &["add", "node", "reader-0", "--pool", "reader"],
        ),
        (
            "remove nodes",
            &["remove", "node", "reader-0", "--pool", "reader"],
        ),
        ("delete pools", &["delete", "pool", "reader", "--force"]),
        ("delete quotas", &["delete", "quota", "reader"]),
        ("pause jobs", &["pause", "job", "a"]),
        ("get quotas", &["get", "quotas", "-n", "default"]),
    ] {
        let run = grace.gpuctl(command).exits(5);
        assert!(
            run.out.is_empty() || task == "remove nodes",
            "{task}: {}",
            run.out
        );
        run.says(&format!(
            "`gpuctl auth check {task} --emit-role` prints the role"
        ));
    }
    grace
        .gpuctl_with(&["create", "-f", "-"], &quota.replace("reader", "other"))
        .exits(5)
        .says("auth check create quotas");
    grace
        .gpuctl_with(&["create", "-f", "-"], &pool_of("other"))
        .exits(5)
        .says("auth check create pools");
    scene.gpuctl(&["delete", "quota", "reader"]).ok();
    scene.gpuctl(&["delete", "pool", "reader", "--force"]).ok();
}

fn pool_of(name: &str) -> String {
    format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\n")
}
