//! Tests the printed YAML itself: its names, its subjects, and the rules that grant access to
//! Prometheus.

use serde_json::{Value, json};

use super::items;
use super::scene::scene;

fn printed(arguments: &[&str]) -> Vec<Value> {
    let all = [
        &["auth", "check"],
        arguments,
        &["--emit-role", "-o", "json"],
    ]
    .concat();
    items(&scene().gpuctl("", &all).ok().json())
}

fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    objects
        .iter()
        .filter(|object| object["kind"] == kind)
        .collect()
}

#[test]
fn hostile_names_of_subjects_stay_values() {
    let names = [
        "a: b\n".trim(),
        "null",
        "yes",
        "*",
        "&x",
        "!!binary x",
        "- x",
        "#",
        "{a: b}",
        "o'b\"c\\",
        "'",
        "%x",
        "é ü",
        "$(id)",
    ];
    let subjects: Vec<String> = names
        .iter()
        .flat_map(|name| [format!("--user={name}"), format!("--group={name}")])
        .collect();
    let subjects: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let text = scene()
        .gpuctl(
            "",
            &[&["auth", "check", "logs", "--emit-role"], &subjects[..]].concat(),
        )
        .ok()
        .out;
    let applied = scene().admin.run_with(
        &["apply", "--dry-run=client", "-o", "json", "-f", "-"],
        &text,
    );
    let list: Value = serde_json::from_str(&applied).unwrap();
    let binding = items(&list)
        .into_iter()
        .find(|object| object["kind"] == "RoleBinding")
        .unwrap();
    let of_kind = |kind: &str| -> Vec<String> {
        let all = binding["subjects"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|subject| subject["kind"] == kind);
        all.map(|subject| subject["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (of_kind("User"), of_kind("Group")),
        (
            names.map(str::to_owned).to_vec(),
            names.map(str::to_owned).to_vec()
        )
    );
    let object_name = binding["metadata"]["name"].as_str().unwrap();
    let is_label = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    assert!(
        object_name.len() <= 63 && object_name.bytes().all(is_label),
        "{object_name}"
    );
    for bad in ["", " ", "a\nb", "a\u{1b}[2Jb", "a\u{85}b"] {
        scene()
            .gpuctl("", &["auth", "check", "logs", "--emit-role", "--user", bad])
            .exits(2);
    }
    for bad in ["a", "a:", ":b", "a/b:c", "a:b c"] {
        scene()
            .gpuctl(
                "",
                &[
                    "auth",
                    "check",
                    "logs",
                    "--emit-role",
                    "--serviceaccount",
                    bad,
                ],
            )
            .exits(2);
    }
    scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "logs",
                "--emit-role",
                "--group",
                "system:authenticated",
            ],
        )
        .ok()
        .says("not a single user");
}

#[test]
fn several_commands_share_one_role() {
    let objects = printed(&[
        "create",
        "logs",
        "why",
        "run",
        "logs",
        "--serviceaccount",
        "team-a:bot",
    ]);
    let roles = of_kind(&objects, "Role");
    let matches: Vec<&&Value> = roles
        .iter()
        .filter(|role| role["metadata"]["namespace"] == "roles")
        .collect();
    assert_eq!(matches.len(), 1, "{objects:#?}");
    let resources: Vec<(String, String)> = matches[0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|rule| {
            let group = rule["apiGroups"][0].as_str().unwrap().to_owned();
            rule["resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(move |resource| (group.clone(), resource.as_str().unwrap().to_owned()))
        })
        .collect();
    let unique: std::collections::BTreeSet<_> = resources.iter().collect();
    assert_eq!(
        unique.len(),
        resources.len(),
        "each resource is in one rule: {resources:?}"
    );
    for resource in [
        "jobs",
        "statefulsets",
        "deployments",
        "pods/log",
        "configmaps",
        "secrets",
    ] {
        assert!(
            resources.iter().any(|(_, granted)| granted == resource),
            "{resource}: {resources:?}"
        );
    }
    assert!(
        !resources
            .iter()
            .any(|(_, resource)| resource == "resourcequotas/status" || resource == "limitranges")
    );
    let subject = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "team-a"}]);
    assert!(
        of_kind(&objects, "RoleBinding")
            .iter()
            .all(|binding| binding["subjects"] == subject),
        "{objects:#?}"
    );
    // The permissions for a verb include those for all of its nouns. A wrong noun must not be
    // parsed as the next command.
    scene()
        .gpuctl("", &["auth", "check", "create", "nodes", "--emit-role"])
        .exits(2)
        .says("create jobs");
    scene()
        .gpuctl("", &["auth", "check", "logs", "--emit-role=viewer"])
        .exits(2)
        .says("accepts no commands");
    scene()
        .gpuctl("", &["auth", "check", "logs", "--user", "x"])
        .exits(2);
}

#[test]
fn yaml_is_applied_and_the_default_subject_is_the_user_itself() {
    let run = scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "--as",
                "zoe",
                "logs",
                "events",
                "--emit-role",
                "-n",
                "roles",
            ],
        )
        .ok();
    run.says("the bindings are for you (zoe)");
    let text = scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "logs",
                "events",
                "--emit-role",
                "--user",
                "zoe",
            ],
        )
        .ok()
        .out;
    scene().admin.run_with(&["apply", "-f", "-"], &text);
    let check = scene().until_allowed("zoe", &["auth", "check", "logs", "events"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    // If one command is not allowed, the answer is no.
    scene()
        .gpuctl("zoe", &["auth", "check", "logs", "exec"])
        .exits(5);
    for everywhere in [&["-A"][..], &[]] {
        let names = printed(&[&["get", "jobs"], everywhere].concat());
        assert_eq!(
            names[0]["metadata"]["name"]
                .as_str()
                .unwrap()
                .ends_with("everywhere"),
            !everywhere.is_empty()
        );
    }
}

#[test]
fn prometheus_is_granted_by_name_only() {
    let rules = |objects: &[Value]| -> Vec<(Value, Value)> {
        let all = objects.iter().flat_map(|object| {
            let place = object["metadata"]["namespace"].clone();
            object["rules"]
                .as_array()
                .cloned()
                .unwrap_or_default()
                .into_iter()
                .map(move |rule| (place.clone(), rule))
        });
        let proxies =
            all.filter(|(_, rule)| rule["resources"].to_string().contains("services/proxy"));
        proxies
            .map(|(place, rule)| (place, rule["resourceNames"].clone()))
            .collect()
    };
    let default_rules = rules(&printed(&["report"]));
    assert_eq!(
        default_rules,
        [(json!("monitoring"), json!(["prometheus-operated:9090"]))]
    );
    let service_rules = rules(&printed(&[
        "report",
        "--prometheus-service",
        "metrics/store:8443",
    ]));
    assert_eq!(
        service_rules,
        [(json!("metrics"), json!(["store:8443", "https:store:8443"]))]
    );
    let by_url = scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "report",
                "--emit-role",
                "--prometheus",
                "http://127.0.0.1:9",
            ],
        )
        .ok();
    assert!(!by_url.out.contains("services/proxy"), "{}", by_url.out);
    scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "report",
                "--emit-role",
                "--prometheus-service",
                "monitoring/nothing",
            ],
        )
        .exits(4);
    for extent in ["viewer", "researcher", "operator", "full"] {
        let list = scene()
            .gpuctl(
                "",
                &[
                    "auth",
                    "check",
                    &format!("--emit-role={extent}"),
                    "-o",
                    "json",
                ],
            )
            .ok()
            .json();
        let granted = rules(&items(&list));
        assert_eq!(
            granted,
            [(json!("monitoring"), json!(["prometheus-operated:9090"]))],
            "{extent}"
        );
    }
}

#[test]
fn a_role_without_configmaps_does_not_allow_two_nodes() {
    let text = scene()
        .gpuctl(
            "",
            &[
                "auth",
                "check",
                "create",
                "jobs",
                "--emit-role",
                "--user",
                "partial",
                "-o",
                "json",
            ],
        )
        .ok()
        .json();
    let mut objects = items(&text);
    for rule in objects
        .iter_mut()
        .filter_map(|object| object.get_mut("rules")?.as_array_mut())
        .flatten()
    {
        rule["resources"]
            .as_array_mut()
            .unwrap()
            .retain(|resource| resource != "configmaps");
    }
    for object in &mut objects {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned() + "-partial";
        object["metadata"]["name"] = json!(name);
        if object["roleRef"].is_object() {
            object["roleRef"]["name"] =
                json!(object["roleRef"]["name"].as_str().unwrap().to_owned() + "-partial");
        }
        if let Some(rules) = object.get_mut("rules").and_then(Value::as_array_mut) {
            rules.retain(|rule| rule["resources"] != json!([]));
        }
    }
    scene()
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}));
    scene().until_allowed("partial", &["get", "jobs", "--no-progress"]);
    let run = scene().until_code("partial", &["auth", "check", "create", "jobs"], |code| {
        code == 5
    });
    assert!(
        run.out.starts_with("in part: ") && run.out.contains("multi-node trainings"),
        "{}{}",
        run.out,
        run.err
    );
}
