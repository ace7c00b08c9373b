//! Tests `auth check`: its answers and the roles that it prints must match the decisions of the
//! real authorizer.

use std::time::Duration;

use gpuctl_sandbox::{Kubectl, Persona, eventually};
use serde_json::{Value, json};

use crate::support::{Run, Scene, cluster, file, items};

#[test]
fn auth_check_covers_every_command_in_the_namespace_and_the_cluster() {
    let scene = Scene::new("auth");
    let all = scene.gpuctl(&["auth", "check", "-o", "json"]).ok().json();
    assert_eq!(
        (&all["user"], &all["namespace"]),
        (&json!("admin"), &json!("auth"))
    );
    // An administrator may do everything; commands that need metrics fail because Prometheus is
    // disabled.
    let off = json!(["metrics are disabled by `--prometheus none`"]);
    let (without, with): (Vec<_>, Vec<_>) = items(&all)
        .into_iter()
        .partition(|item| item["missing"] == off);
    assert!(
        with.len() > 25
            && with
                .iter()
                .all(|item| item["allowed"] == true && item["allowedEverywhere"] == true)
    );
    let names: Vec<&str> = without
        .iter()
        .map(|item| item["command"].as_str().unwrap())
        .collect();
    let metrics = [
        "score",
        "stats",
        "eff",
        "who gpu",
        "report",
        "snapshot",
        "get health",
        "get heatmap",
        "get namespaces",
        "get metrics job",
        "get metrics workload",
    ];
    assert_eq!(names, metrics);
    scene.allow_edit(Persona::Carol);
    let carol = scene.seen_by(Persona::Carol);
    let some = carol.gpuctl(&["auth", "check", "-o", "json"]).ok().json();
    let command_entry = |command: &str| {
        items(&some)
            .into_iter()
            .find(|item| item["command"] == command)
            .unwrap()
    };
    let create = command_entry("create jobs");
    assert_eq!(
        (
            &create["allowed"],
            &create["allowedEverywhere"],
            &create["missing"]
        ),
        (&json!(true), &json!(false), &json!([]))
    );
    assert!(
        create["without"]
            .as_array()
            .unwrap()
            .contains(&json!("checking the pool and GPU type")),
        "{create}"
    );
    let nodes = command_entry("get nodes");
    assert_eq!(
        (&nodes["allowed"], &nodes["missing"]),
        (&json!(false), &json!(["list nodes"]))
    );
    let table = carol.gpuctl(&["auth", "check"]).ok();
    let words = |line: &str| {
        line.split_whitespace()
            .map(ToOwned::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(
        table
            .out
            .lines()
            .any(|line| words(line) == ["create", "jobs", "yes", "no", "-"]),
        "{}",
        table.out
    );
    assert!(
        table
            .out
            .lines()
            .any(|line| words(line) == ["get", "nodes", "no", "no", "list", "nodes"]),
        "{}",
        table.out
    );
    assert!(
        table.out.lines().all(|line| line.len() <= 80),
        "{}",
        table.out
    );
    table.says("HERE is namespace auth; you are carol");
}

#[test]
fn auth_check_of_one_command_considers_its_pool() {
    let scene = Scene::with_nodes("auth-one", 1);
    let pool = "kind: pool\nversion: v0.1\npool: {name: auth-one, quota: {maxJobs: 1, maxGpuPerJob: 4}}\nnodes: [auth-one-0]\n";
    scene.gpuctl_with(&["create", "-f", "-"], pool).ok();
    let check = [
        "auth", "check", "create", "jobs", "--pool", "auth-one", "-o", "json",
    ];
    let free = scene.gpuctl(&check).ok().json();
    let expected =
        json!({"name": "auth-one", "exists": true, "jobs": 0, "maxJobs": 1, "maxGpuPerJob": 4});
    assert_eq!((&free["allowed"], &free["pool"]), (&json!(true), &expected));
    assert_eq!(free["message"], "you may create jobs in namespace auth-one");
    scene.create("a", "");
    let full = scene.gpuctl(&check).exits(5).json();
    assert_eq!(
        (&full["allowed"], &full["missing"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(
        full["message"],
        "you may create jobs in namespace auth-one, but pool `auth-one` is at its job limit (1 of 1)"
    );
    let none = scene
        .gpuctl(&[
            "auth", "check", "create", "job", "--pool", "nope", "-o", "json",
        ])
        .exits(5)
        .json();
    assert_eq!(
        (&none["pool"]["exists"], &none["allowed"]),
        (&json!(false), &json!(false))
    );
    let frank = scene.seen_by(Persona::Frank);
    let denied = frank
        .gpuctl(&["auth", "check", "create", "secrets"])
        .exits(5);
    assert_eq!(
        denied.out,
        "no: you are not allowed to create secrets in namespace auth-one: missing create, get and patch secrets\n"
    );
    denied.says(
        "gpuctl auth check create secrets -n auth-one --emit-role prints the role to request",
    );
    // Without permission to list nodes, gpuctl cannot know whether a pool exists.
    let unknown = frank
        .gpuctl(&[
            "auth", "check", "create", "jobs", "--pool", "nope", "-o", "json",
        ])
        .exits(5)
        .json();
    assert_eq!(unknown["pool"]["exists"], Value::Null);
    scene
        .gpuctl(&["auth", "check", "create", "nodes"])
        .exits(2)
        .says("similar commands: create jobs, create services");
    let several = scene
        .gpuctl(&["auth", "check", "create", "-o", "name"])
        .ok()
        .out;
    assert_eq!(several, "create jobs\ncreate notebooks\ncreate services\n");
    scene
        .gpuctl(&["auth", "check", "rport"])
        .exits(2)
        .says("did you mean `report`?");
    // Having the permissions is not enough when Prometheus is disabled.
    let off = scene
        .gpuctl(&["auth", "check", "report", "-o", "json"])
        .exits(5)
        .json();
    assert_eq!(
        off["missing"],
        json!(["metrics are disabled by `--prometheus none`"])
    );
    let denied = frank
        .gpuctl(&["auth", "check", "get", "heatmap", "-o", "json"])
        .exits(5)
        .json();
    assert_eq!(denied["missing"], json!(["get services/proxy"]));
    scene
        .gpuctl_anywhere(&["auth", "check", "-A", "get", "jobs"])
        .ok();
    scene
        .gpuctl(&["delete", "pool", "auth-one", "--force"])
        .ok();
}

/// Runs a command until it exits with the expected code, because the authorizer takes a moment to
/// see a changed role.
fn until(what: &str, good: impl Fn(i32) -> bool, again: impl Fn() -> Run) {
    eventually(what, Duration::from_secs(10), || {
        let run = again();
        good(run.code).then_some(()).ok_or(run)
    });
}

/// Applies roles and binds them to Frank.
fn grant(admin: &Kubectl, roles: &[Value]) {
    admin.apply(&with_bindings(roles));
}

/// Returns the roles and their bindings as one list, because each call of kubectl takes 0.1 s.
fn with_bindings(roles: &[Value]) -> Value {
    let binding = |role: &Value| {
        let mut binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": if role["kind"] == "Role" { "RoleBinding" } else { "ClusterRoleBinding" },
            "metadata": role["metadata"],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "frank"}],
        });
        binding["metadata"]["labels"] = json!({"test": "auth-roles"});
        binding
    };
    let bindings: Vec<Value> = roles.iter().map(binding).collect();
    let all = [roles, bindings.as_slice()].concat();
    json!({"apiVersion": "v1", "kind": "List", "items": all})
}

/// Returns one copy of the roles for each of their resources, with that resource removed.
fn roles_without_one_resource(roles: &[Value]) -> Vec<(String, Vec<Value>)> {
    let mut variants = Vec::new();
    for (r, role) in roles.iter().enumerate() {
        for (i, rule) in role["rules"].as_array().unwrap().iter().enumerate() {
            for (j, resource) in rule["resources"].as_array().unwrap().iter().enumerate() {
                let mut reduced = roles.to_vec();
                reduced[r]["rules"][i]["resources"]
                    .as_array_mut()
                    .unwrap()
                    .remove(j);
                if reduced[r]["rules"][i]["resources"]
                    .as_array()
                    .unwrap()
                    .is_empty()
                {
                    reduced[r]["rules"].as_array_mut().unwrap().remove(i);
                }
                variants.push((
                    format!("{resource} of {}", role["kind"].as_str().unwrap()),
                    reduced,
                ));
            }
        }
    }
    variants
}

/// Commands whose roles need another cluster, metrics, or a program in the pod. The roles for site
/// defaults are tested in `defaults.rs`, because all tests share the one defaults object.
const TESTED_ELSEWHERE: [&str; 27] = [
    "diff",
    "drain",
    "fit",
    "open",
    "apply defaults",
    "attach",
    "cp",
    "create defaults",
    "delete defaults",
    "describe defaults",
    "describe queues",
    "eff",
    "get consumers",
    "get defaults",
    "get health",
    "get heatmap",
    "get namespaces",
    "get overview",
    "get queues",
    "get metrics job",
    "get metrics workload",
    "report",
    "score",
    "snapshot",
    "stats",
    "top",
    "who gpu",
];

/// The role printed for each command is sufficient, and each of its rules is necessary.
#[test]
fn the_emitted_role_is_sufficient_and_minimal() {
    let scene = Scene::with_nodes("auth-roles", 3);
    cluster().allow_exec("auth-roles", cluster().folder());
    let frank = scene.seen_by(Persona::Frank);
    let pool = |name: &str| format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\n");
    scene
        .gpuctl_with(&["create", "-f", "-"], &pool("roles-a"))
        .ok();
    let second = format!("{}nodes: [auth-roles-2]\n", pool("roles-b"));
    scene
        .gpuctl_with(&["create", "-f", "-", "--force"], &second)
        .ok();
    scene.create("a", "");
    scene.create("b", "");
    scene.serve("web", "vllm", 1, "");
    scene.until("a", "running", None);
    let quota = "kind: quota\nversion: v0.1\nquota: {name: roles}\nnamespace: {auth-roles: {gpu: 10, cpu: 10}}\n";
    let yaml = |name: &str, text: &str| {
        file(&format!("roles-{name}.yaml"), text)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let training = yaml("training", &scene.training("made", ""));
    let service = yaml("service", &scene.service("served", "vllm", 1, ""));
    let booked = "kind: notebook\nversion: v0.1\njob: {name: booked}\nenvironment: {image: jupyter}\nresources: {gpu: 1}\n";
    let notebook = yaml("notebook", booked);
    let third = format!("{}nodes: [auth-roles-1]\n", pool("roles-c"));
    let (made_pool, made_quota, value) = (
        yaml("pool", &third),
        yaml("quota", quota),
        yaml("secret", "x"),
    );
    let applied = yaml("applied", &scene.training("applied", ""));
    let applied_service = yaml(
        "applied-service",
        &scene.service("applied-web", "vllm", 1, ""),
    );
    let applied_notebook = yaml(
        "applied-notebook",
        &booked.replace("booked", "applied-book"),
    );
    let applied_pool = yaml(
        "applied-pool",
        &format!("{}nodes: [auth-roles-0]\n", pool("roles-d")),
    );
    let applied_quota = yaml(
        "applied-quota",
        &quota.replace("name: roles", "name: roles-applied"),
    );
    let from_file = format!("KEY={value}");
    let cases: &[(&str, &str, &[&str])] = &[
        ("create", "jobs", &["create", "-f", &training]),
        ("create", "services", &["create", "-f", &service]),
        ("create", "notebooks", &["create", "-f", &notebook]),
        ("apply", "jobs", &["apply", "-f", &applied]),
        ("apply", "services", &["apply", "-f", &applied_service]),
        ("apply", "notebooks", &["apply", "-f", &applied_notebook]),
        ("apply", "quotas", &["apply", "-f", &applied_quota]),
        (
            "create",
            "secrets",
            &["create", "secret", "s", "--from-file", &from_file],
        ),
        ("get", "jobs", &["get", "jobs"]),
        ("describe", "jobs", &["describe", "job", "a"]),
        ("logs", "jobs", &["logs", "a"]),
        ("events", "jobs", &["events", "a"]),
        ("wait", "jobs", &["wait", "a", "--for", "running"]),
        ("exec", "jobs", &["exec", "a", "--", "true"]),
        ("pause", "jobs", &["pause", "job", "a"]),
        ("resume", "jobs", &["resume", "job", "a"]),
        ("restart", "jobs", &["restart", "job", "a"]),
        ("scale", "services", &["scale", "web", "--replicas", "2"]),
        ("delete", "jobs", &["delete", "job", "b"]),
        (
            "label",
            "nodes",
            &["label", "node", "auth-roles-0", "team=x"],
        ),
        (
            "add",
            "nodes",
            &[
                "add",
                "node",
                "auth-roles-0",
                "--pool",
                "roles-a",
                "--force",
            ],
        ),
        (
            "remove",
            "nodes",
            &["remove", "node", "auth-roles-0", "--pool", "roles-a"],
        ),
        ("create", "pools", &["create", "-f", &made_pool, "--force"]),
        ("apply", "pools", &["apply", "-f", &applied_pool, "--force"]),
        ("delete", "pools", &["delete", "pool", "roles-b"]),
        ("create", "quotas", &["create", "-f", &made_quota]),
        ("get", "quotas", &["get", "quotas"]),
        ("describe", "quotas", &["describe", "quota", "auth-roles"]),
        ("delete", "quotas", &["delete", "quota", "roles"]),
    ];
    let role_of = |verb: &str, resource: &str| {
        let list = scene
            .gpuctl(&["auth", "check", verb, resource, "--emit-role", "-o", "json"])
            .ok()
            .json();
        let is_role = |object: &Value| object["rules"].is_array();
        let roles: Vec<Value> = items(&list).into_iter().filter(is_role).collect();
        assert!(!roles.is_empty(), "{verb} {resource}");
        roles
    };
    let suffices = |verb: &str, resource: &str, command: &[&str], roles: &[Value]| {
        let what = format!("{verb} {resource}");
        grant(&scene.admin, roles);
        until(
            &format!("auth check {what} succeeds"),
            |code| code == 0,
            || frank.gpuctl(&["auth", "check", verb, resource]),
        );
        let run = frank.gpuctl(command);
        assert_eq!(run.code, 0, "{what}: {}{}", run.out, run.err);
        let list = with_bindings(roles).to_string();
        scene.admin.run_with(&["delete", "-f", "-"], &list);
    };
    for (verb, resource, command) in cases {
        let (what, roles) = (format!("{verb} {resource}"), role_of(verb, resource));
        for (without, reduced) in roles_without_one_resource(&roles) {
            grant(&scene.admin, &reduced);
            let check = ["auth", "check", verb, resource];
            until(
                &format!("auth check {what} fails without {without}"),
                |code| code == 5,
                || frank.gpuctl(&check),
            );
            let answer = frank
                .gpuctl(&[&check[..], &["-o", "json"]].concat())
                .exits(5)
                .json();
            // Only some arguments and files need this resource, and this test does not use them.
            if answer["missing"] == json!([]) {
                continue;
            }
            let run = frank.gpuctl(command);
            assert_eq!(
                run.code, 5,
                "{what} without {without}: {}{}",
                run.out, run.err
            );
        }
        suffices(verb, resource, command, &roles);
    }
    // With part of their role missing, these commands show less and print a warning.
    let narrowing: &[(&str, &str, &[&str])] = &[
        ("get", "nodes", &["get", "nodes"]),
        ("describe", "nodes", &["describe", "node", "auth-roles-0"]),
        ("get", "labels", &["get", "gpu-type", "--all"]),
        ("get", "claims", &["get", "claims"]),
        ("get", "pools", &["get", "pools"]),
        ("describe", "pools", &["describe", "pool", "roles-a"]),
        ("get", "workloads", &["get", "workloads"]),
        ("describe", "workloads", &["describe", "workload", "a"]),
        ("tree", "workloads", &["tree", "a"]),
        ("free", "nodes", &["free"]),
        ("why", "jobs", &["why", "a"]),
    ];
    for (verb, resource, command) in narrowing {
        suffices(verb, resource, command, &role_of(verb, resource));
    }
    // `logs jobs` is an alias of `logs`.
    let single = [
        "logs", "events", "wait", "exec", "scale", "tree", "free", "why",
    ];
    let name = |verb: &str, resource: &str| {
        if single.contains(&verb) {
            verb.to_owned()
        } else {
            format!("{verb} {resource}")
        }
    };
    let tested: Vec<String> = cases
        .iter()
        .chain(narrowing)
        .map(|(verb, resource, _)| name(verb, resource))
        .collect();
    let all = scene.gpuctl(&["auth", "check", "-o", "json"]).ok().json();
    let untested: Vec<String> = items(&all)
        .iter()
        .map(|item| item["command"].as_str().unwrap().to_owned())
        .filter(|command| {
            !tested.contains(command) && !TESTED_ELSEWHERE.contains(&command.as_str())
        })
        .collect();
    assert!(
        untested.is_empty(),
        "commands whose role is not tested here and that are not in TESTED_ELSEWHERE: {untested:?}"
    );
    scene
        .gpuctl(&["delete", "pool", "roles-a", "roles-c", "roles-d", "--force"])
        .ok();
}
