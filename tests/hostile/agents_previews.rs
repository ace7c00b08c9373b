//! Tests what agents see of environment variables that programs print, and of changes before they
//! confirm them.

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::agents::{Session, create, exists, namespace, server, training, word};
use crate::support::{cluster, gpuctl_as};

#[test]
fn variables_that_replicas_print_are_masked() {
    let admin = namespace("agent-replicas");
    let service = "kind: compute\nversion: v0.1\njob: {name: web}\nenvironment: {image: busybox}\nresources: {cpu: 100m}\n\
                   service: {replicas: 2, port: 80}\n";
    create("agent-replicas", service);
    let selector = [
        "get",
        "pods",
        "-n",
        "agent-replicas",
        "-l",
        "gpuctl/job=web",
    ];
    let is_running = |pod: &Value| pod["status"]["phase"] == "Running";
    let pods = admin.until(&selector, |pods| {
        pods["items"]
            .as_array()
            .is_some_and(|pods| pods.len() == 2 && pods.iter().all(is_running))
    });
    let lines = [
        "MOTD=CANARY",
        "declare -rx A=\"CANARY\"",
        "http_proxy=http://CANARY",
        "environ({'MOTD': 'CANARY'})",
        "loss=0.4 lr=1e-4",
    ];
    for pod in pods["items"].as_array().unwrap() {
        let mut log = cluster().pod_log(
            "agent-replicas",
            pod["metadata"]["name"].as_str().unwrap(),
            "main",
        );
        lines.iter().for_each(|line| log.say(line));
    }
    let mut agent = Session::start(&["-n", "agent-replicas"]);
    let answer = agent.call("logs", json!({"job": "web"})).to_string();
    for shown in [
        " │ MOTD=[redacted]",
        "http_proxy=[redacted]",
        "loss=0.4 lr=1e-4",
    ] {
        assert!(answer.contains(shown), "{shown}: {answer}");
    }
    assert!(!answer.contains("CANARY"), "{answer}");
}

#[test]
fn previews_mask_variables_in_whole_containers_and_commands() {
    namespace("agent-changes");
    let service = |more: &str| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: web}}\nenvironment:\n  image: busybox\n{more}resources: {{cpu: 100m}}\nservice: {{port: 80}}\n"
        )
    };
    let pod = "pod:\n  initContainers:\n    - {name: x, image: busybox, env: [{name: MOTD, value: CANARY}]}\n";
    create(
        "agent-changes",
        &format!(
            "{}{pod}",
            service("  command: [sh, -c, MOTD=CANARY train]\n")
        ),
    );
    let mut agent = Session::start(&["--allow-writes", "-n", "agent-changes"]);
    let answer = agent
        .call(
            "apply_manifest",
            json!({"manifest": service("  command: [sh, -c, train]\n")}),
        )
        .to_string();
    assert!(
        answer.contains("initContainers") && answer.contains(" → ") && answer.contains("confirm"),
        "{answer}"
    );
    assert!(!answer.contains("CANARY"), "{answer}");
}

#[test]
fn a_deletion_previews_the_object_that_it_deletes() {
    let admin = namespace("agent-elsewhere");
    create("agent-elsewhere", &training("elsewhere", ""));
    // The server's arguments name no namespace, so a deletion uses the namespace of the kubeconfig.
    let mut agent = Session::start(&["--allow-writes=jobs,quotas"]);
    assert!(
        agent
            .text("describe_job", json!({"job": "elsewhere"}))
            .contains("agent-elsewhere")
    );
    let answer = agent.text("delete_job", json!({"job": "elsewhere"}));
    assert!(
        word(&answer).is_none() && answer.contains("job `elsewhere` does not exist in namespace"),
        "{answer}"
    );
    // The preview shows the quota with this name, not a namespace with the same name.
    let quota = "kind: quota\nversion: v0.1\nquota: {name: q-elsewhere}\nnamespace: {agent-elsewhere: {gpu: 1}}\n";
    gpuctl_as(Persona::Admin, &["apply", "-f", "-"], quota).ok();
    let answer = agent.text("delete_quota", json!({"quota": "agent-elsewhere"}));
    assert!(
        word(&answer).is_none() && answer.contains("does not exist or is not managed by gpuctl"),
        "{answer}"
    );
    let answer = agent.confirmed("delete_quota", json!({"quota": "q-elsewhere"}));
    assert!(answer.contains("it applied to agent-elsewhere"), "{answer}");
    // If a job with the same name was created after the preview, it is not deleted.
    let arguments = json!({"job": "elsewhere", "namespace": "agent-elsewhere"});
    let preview = agent.text("delete_job", arguments.clone());
    gpuctl_as(
        Persona::Admin,
        &[
            "delete",
            "job",
            "elsewhere",
            "-n",
            "agent-elsewhere",
            "--yes",
        ],
        "",
    )
    .ok();
    create("agent-elsewhere", &training("elsewhere", ""));
    let confirmed = json!({"job": "elsewhere", "namespace": "agent-elsewhere", "confirm": word(&preview).unwrap()});
    let answer = agent.text("delete_job", confirmed);
    assert!(answer.contains("is not the job that was shown"), "{answer}");
    assert!(exists(&admin, "job", "elsewhere", "agent-elsewhere"));
    agent.confirmed("delete_job", arguments);
    assert!(!exists(&admin, "job", "elsewhere", "agent-elsewhere"));
}

#[test]
fn a_confirmed_change_stays_in_the_cluster_of_its_preview() {
    let admin = namespace("agent-first");
    namespace("agent-second");
    let file = cluster().folder().join("agent-contexts.kubeconfig");
    let mut kubeconfig: Value =
        serde_json::from_slice(&std::fs::read(cluster().kubeconfig(Persona::Admin)).unwrap())
            .unwrap();
    let context = |name: &str, original: &Value| {
        let Value::Object(mut context) = original["context"].clone() else {
            panic!("{original}")
        };
        context.insert("namespace".to_owned(), format!("agent-{name}").into());
        json!({"name": name, "context": context})
    };
    let original = kubeconfig["contexts"][0].clone();
    kubeconfig["contexts"] = json!([context("first", &original), context("second", &original)]);
    let mut choose = |current: &str, first: &str| {
        kubeconfig["current-context"] = current.into();
        kubeconfig["contexts"][0]["context"]["namespace"] = first.into();
        std::fs::write(&file, kubeconfig.to_string()).unwrap();
    };
    choose("first", "agent-first");
    for space in ["agent-first", "agent-second"] {
        create(space, &training("twin", ""));
    }
    let mut command = server(&["--allow-writes"]);
    command.env("KUBECONFIG", &file);
    let mut agent = Session::with(command);
    let preview = agent.text("delete_job", json!({"job": "twin"}));
    // The context that was current when the server started now has another namespace.
    choose("first", "agent-second");
    let refused = agent.text(
        "delete_job",
        json!({"job": "twin", "confirm": word(&preview).unwrap()}),
    );
    assert!(
        refused.contains("was refused") && refused.contains("another namespace"),
        "{refused}"
    );
    // The kubeconfig now has another current context, but the server keeps its own.
    choose("first", "agent-first");
    let preview = agent.text("delete_job", json!({"job": "twin"}));
    choose("second", "agent-first");
    agent.text(
        "delete_job",
        json!({"job": "twin", "confirm": word(&preview).unwrap()}),
    );
    assert!(!exists(&admin, "job", "twin", "agent-first"));
    assert!(exists(&admin, "job", "twin", "agent-second"));
}

#[test]
fn every_answer_to_a_call_has_structured_content() {
    namespace("agent-structures");
    let mut agent = Session::start(&["--allow-writes", "-n", "agent-structures"]);
    let mut content = |tool: &str, arguments: Value| {
        agent.call(tool, arguments)["result"]["structuredContent"].clone()
    };
    assert!(
        content("example", json!({"kind": "training"}))["text"]
            .as_str()
            .unwrap()
            .contains("kind: training")
    );
    for tool in ["describe_job", "delete_job", "logs"] {
        let error = content(tool, json!({"job": "absent"}));
        assert_eq!(
            (&error["error"], &error["kind"]),
            (&json!("NotFound"), &json!("not_found")),
            "{tool}: {error}"
        );
    }
    let refused = content("delete_job", json!({"job": "absent", "confirm": "forged"}));
    assert!(
        refused["message"].as_str().unwrap().contains("was refused"),
        "{refused}"
    );
    let help = content("explain_field", json!({"field": "resources"}));
    assert!(help.is_object(), "{help}");
    let page = content(
        "validate",
        json!({"manifest": "kind: training\n---\n".repeat(60), "page": 2}),
    );
    assert!(page["text"].is_string(), "{page}");
}
