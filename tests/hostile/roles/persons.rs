//! Tests the roles for a viewer, a researcher and an operator.

use gpuctl_sandbox::Persona;

use super::scene::{Scene, is_lack, scene, training};
use crate::runner::{gpuctl, run};

/// Grants a person's role to a new user and waits until it takes effect.
fn grant_role(person: &str, user: &str) -> &'static Scene {
    let scene = scene();
    let text = scene
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                &format!("--emit-role={person}"),
                "--user",
                user,
            ],
        )
        .ok()
        .out;
    scene.admin.run_with(&["apply", "-f", "-"], &text);
    let run = scene.until_allowed(
        user,
        &["auth", "check", "get", "pools", "get", "jobs", "logs"],
    );
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    scene
}

const VIEWS: [&str; 20] = [
    "get jobs",
    "get nodes",
    "get pools",
    "get quotas",
    "get claims",
    "get overview",
    "get workloads",
    "get gpu-type --all",
    "get namespaces",
    "describe job a",
    "describe job web",
    "describe node roles-0",
    "describe pool roles",
    "tree web",
    "why a",
    "free",
    "logs a",
    "events a",
    "report",
    "stats cluster",
];

#[track_caller]
fn sees_everything(scene: &Scene, user: &str) {
    for line in VIEWS {
        let arguments: Vec<&str> = line.split(' ').collect();
        let run = scene.gpuctl(user, &arguments);
        assert!(
            run.code == 0 && !is_lack(&run),
            "{user}: {line}: exit {}\n{}{}",
            run.code,
            run.out,
            run.err
        );
    }
}

#[track_caller]
fn is_refused(scene: &Scene, user: &str, line: &str, input: &str) {
    let arguments: Vec<&str> = line.split(' ').collect();
    let run = scene.gpuctl_with(user, &arguments, input);
    assert_eq!(run.code, 5, "{user}: {line}\n{}{}", run.out, run.err);
}

const POOL: &str = "kind: pool\nversion: v0.1\npool: {name: person}\n";
const QUOTA: &str =
    "kind: quota\nversion: v0.1\nquota: {name: person}\nnamespace: {roles: {gpu: 900}}\n";

#[test]
fn a_viewer_reads_and_changes_nothing() {
    let scene = grant_role("viewer", "vera");
    sees_everything(scene, "vera");
    for line in [
        "exec a -- true",
        "delete job a",
        "scale web --replicas 3",
        "pause job a",
        "label node spare-6 vera=b",
    ] {
        is_refused(scene, "vera", line, "");
    }
    is_refused(
        scene,
        "vera",
        "create -f - --allow-pending",
        &training("by-vera", ""),
    );
    is_refused(scene, "vera", "create -f -", POOL);
    let can = |words: &str| {
        scene.admin.try_run(
            &[
                &["auth", "can-i", "--as", "vera"],
                &words.split(' ').collect::<Vec<_>>()[..],
            ]
            .concat(),
            "",
        )
    };
    for words in [
        "get secrets -n roles",
        "list secrets -n roles",
        "get pods --subresource=log -n default",
        "create pods --subresource=exec -n roles",
        "get services --subresource=proxy -n monitoring",
    ] {
        let answer = String::from_utf8(can(words).stdout).unwrap();
        assert_eq!(answer.trim(), "no", "{words}");
    }
}

#[test]
fn a_researcher_works_in_one_namespace() {
    let scene = grant_role("researcher", "rita");
    sees_everything(scene, "rita");
    let two = training(
        "by-rita",
        "resources: {pool: roles, gpu: 1, node_count: 2}\n",
    );
    scene
        .gpuctl_with("rita", &["create", "-f", "-", "--allow-pending"], &two)
        .ok();
    scene
        .gpuctl_with(
            "rita",
            &["apply", "-f", "-", "--allow-pending"],
            &training("by-rita-too", ""),
        )
        .ok();
    scene.gpuctl("rita", &["exec", "a", "--", "true"]).ok();
    let secret = scene.file("persons-secret", "not-a-secret");
    scene
        .gpuctl(
            "rita",
            &[
                "create",
                "secret",
                "by-rita",
                "--from-file",
                &format!("KEY={secret}"),
            ],
        )
        .ok();
    scene
        .gpuctl("rita", &["delete", "job", "by-rita", "by-rita-too"])
        .ok();
    scene
        .gpuctl("rita", &["delete", "job", "never-was"])
        .exits(4);
    is_refused(scene, "rita", "create -f -", POOL);
    is_refused(scene, "rita", "create -f -", QUOTA);
    for line in [
        "label node spare-6 rita=b",
        "add node spare-6 --pool joined",
    ] {
        is_refused(scene, "rita", line, "");
    }
    let cannot = [
        "list secrets -n roles",
        "patch nodes",
        "create resourcequotas -n roles",
        "get secrets -n default",
        "create roles -n roles",
    ];
    for words in cannot {
        let answer = scene.admin.try_run(
            &[
                &["auth", "can-i", "--as", "rita"],
                &words.split(' ').collect::<Vec<_>>()[..],
            ]
            .concat(),
            "",
        );
        assert_eq!(
            String::from_utf8(answer.stdout).unwrap().trim(),
            "no",
            "{words}"
        );
    }
}

#[test]
fn an_operator_manages_the_cluster_but_not_jobs() {
    let scene = grant_role("operator", "otto");
    sees_everything(scene, "otto");
    scene.gpuctl("otto", &["get", "jobs", "-A"]).ok();
    scene
        .gpuctl("otto", &["label", "node", "spare-6", "otto=b"])
        .ok();
    // The other persons try to create `person` at the same time.
    let rename = |text: &str| text.replace("name: person", "name: operated");
    scene
        .gpuctl_with("otto", &["create", "-f", "-"], &rename(POOL))
        .ok();
    scene
        .gpuctl(
            "otto",
            &["add", "node", "spare-6", "--pool", "operated", "--force"],
        )
        .ok();
    scene.gpuctl("otto", &["delete", "pool", "operated"]).ok();
    scene
        .gpuctl_with("otto", &["create", "-f", "-"], &rename(QUOTA))
        .ok();
    scene.gpuctl("otto", &["delete", "quota", "operated"]).ok();
    is_refused(scene, "otto", "exec a -- true", "");
    is_refused(scene, "otto", "delete job a", "");
    is_refused(
        scene,
        "otto",
        "create -f - --allow-pending",
        &training("by-otto", ""),
    );
    let answer = scene.admin.try_run(
        &["auth", "can-i", "--as", "otto", "list", "secrets", "-A"],
        "",
    );
    assert_eq!(String::from_utf8(answer.stdout).unwrap().trim(), "no");
}

/// Users without any role can read pools and defaults, but no other object in the namespace. The
/// two checks run one after the other, because the second one widens the role that the first one
/// tests.
#[test]
fn other_configmaps_in_the_namespace_of_pools_are_hidden() {
    let scene = scene();
    hides_other_configmaps(scene);
    narrows_an_older_role(scene);
}

fn hides_other_configmaps(scene: &Scene) {
    let settings = [
        "create",
        "configmap",
        "settings",
        "-n",
        "gpuctl-system",
        "--from-literal=config.yaml=not-a-secret",
    ];
    scene.admin.run(&settings);
    let stranger = scene.cluster.kubectl(Persona::Heidi);
    for name in ["settings", "pool-left"] {
        let read = stranger.try_run(&["get", "configmap", name, "-n", "gpuctl-system"], "");
        assert!(!read.status.success(), "{name} is readable");
    }
    assert!(
        !stranger
            .try_run(&["get", "configmaps", "-n", "gpuctl-system"], "")
            .status
            .success()
    );
    let mut command = gpuctl();
    command.env("KUBECONFIG", scene.cluster.kubeconfig(Persona::Heidi));
    command.args(["get", "pools", "-o", "json"]);
    let pools = run(command, "").json().to_string();
    assert!(
        pools.contains("roles-pool"),
        "published definitions are listed: {pools}"
    );
}

/// When an operator next changes pools, gpuctl narrows a role that an earlier version created.
fn narrows_an_older_role(scene: &Scene) {
    scene.admin.run_with(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "gpuctl-reader", "namespace": "gpuctl-system"},
           "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}"#,
    );
    scene
        .gpuctl_with(
            "",
            &["create", "-f", "-"],
            "kind: pool\nversion: v0.1\npool: {name: narrowing}\n",
        )
        .ok();
    let role = scene
        .admin
        .json(&["get", "role", "gpuctl-reader", "-n", "gpuctl-system"]);
    assert_eq!(
        role["rules"][0]["resourceNames"],
        serde_json::json!(["gpuctl-facts", "gpuctl-defaults"]),
        "{role:#}"
    );
    assert_eq!(role["rules"][0]["verbs"], serde_json::json!(["get"]));
}
