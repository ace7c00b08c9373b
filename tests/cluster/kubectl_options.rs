//! Tests kubectl's options that replace parts of the kubeconfig, its selectors, and its policy for
//! credential plugins.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::runner::{gpuctl, run};
use crate::support::{Run, Scene, cluster, items};

/// Reads the kubeconfig of the administrator.
fn kubeconfig() -> Value {
    let text = std::fs::read_to_string(cluster().kubeconfig(Persona::Admin)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Writes a file into the folder of the cluster.
fn write(name: &str, text: &str) -> PathBuf {
    let path = cluster().folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn with_kubeconfig(path: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = gpuctl();
    command.env("KUBECONFIG", path).args(arguments);
    command
}

/// The user that the API server sees.
fn user_of(run: Run) -> Value {
    run.ok().json()["user"].clone()
}

const CHECK: [&str; 5] = ["auth", "check", "-o", "json", "-vv"];

#[test]
fn a_token_replaces_the_credentials_and_appears_nowhere() {
    let scene = Scene::new("tokens");
    let token = cluster().token(Persona::Carol);
    let seen = scene.gpuctl(&[&CHECK[..], &["--token", &token]].concat());
    assert!(!seen.err.contains(&token), "{}", seen.err);
    assert_eq!(user_of(seen), Persona::Carol.user());
    let mut command = scene.command(&CHECK);
    command.env("GPUCTL_TOKEN", &token);
    assert_eq!(user_of(run(command, "")), Persona::Carol.user());
    let wrong = scene
        .gpuctl(&["get", "jobs", "--token", "canary-wrong"])
        .exits(5);
    assert!(!wrong.err.contains("canary"), "{}", wrong.err);
    let invalid = scene
        .gpuctl(&["get", "jobs", "--token", "canary \u{e9}"])
        .exits(5);
    assert!(!invalid.err.contains("canary"), "{}", invalid.err);
    invalid.says("the token of `--token` or GPUCTL_TOKEN");
}

#[test]
fn options_select_the_cluster_the_user_and_the_server() {
    let scene = Scene::new("entries");
    let mut config = kubeconfig();
    let server = config["clusters"][0]["cluster"]["server"]
        .as_str()
        .unwrap()
        .to_owned();
    let ca = config["clusters"][0]["cluster"]["certificate-authority"]
        .as_str()
        .unwrap()
        .to_owned();
    let dead = json!({"name": "dead", "cluster": {"server": "https://127.0.0.1:1"}});
    config["clusters"].as_array_mut().unwrap().push(dead);
    let carol = json!({"name": "carol", "user": {"token": cluster().token(Persona::Carol)}});
    config["users"].as_array_mut().unwrap().push(carol);
    let path = write("entries.kubeconfig", &config.to_string());
    let check = |options: &[&str]| {
        let words = [options, &["auth", "check", "-o", "json", "-n", scene.name]].concat();
        run(with_kubeconfig(&path, &words), "")
    };
    assert_eq!(
        user_of(check(&["--kube-user", "carol"])),
        Persona::Carol.user()
    );
    let list = |options: &[&str]| {
        let words = [&["get", "jobs", "-n", scene.name, "-o", "name"], options].concat();
        run(with_kubeconfig(&path, &words), "")
    };
    list(&["--user", "carol"]).exits(5);
    list(&["--cluster", "sandbox"]).ok();
    list(&["--cluster", "dead"])
        .exits(6)
        .says("https://127.0.0.1:1");
    list(&["--cluster", "nosuch"])
        .exits(2)
        .says("cluster `nosuch` does not exist; available clusters: sandbox, dead");
    list(&["--user", "nosuch"])
        .exits(2)
        .says("user `nosuch` does not exist");
    list(&["--cluster", "dead", "--server", &server]).exits(6);
    list(&[
        "--cluster",
        "dead",
        "-s",
        &server,
        "--certificate-authority",
        &ca,
    ])
    .ok();
    list(&[
        "--cluster",
        "dead",
        "--server",
        &server,
        "--insecure-skip-tls-verify",
    ])
    .ok();
    list(&["--server", "127.0.0.1:1"])
        .exits(2)
        .says("expected a URL such as");
    // Without a kubeconfig, a server and a token are enough.
    let token = cluster().token(Persona::Admin);
    let words = [
        "get",
        "jobs",
        "-n",
        scene.name,
        "-s",
        &server,
        "--certificate-authority",
        &ca,
    ];
    let mut command = gpuctl();
    command
        .args(words)
        .env("HOME", cluster().folder())
        .env("GPUCTL_TOKEN", token);
    run(command, "").ok();
}

#[test]
fn jobs_are_selected_by_fields_and_show_their_labels() {
    let scene = Scene::with_nodes("fields", 1);
    scene.create("a", "job: {name: a, labels: {team: nlp}}");
    scene.create("b", "");
    let names = |selector: &str| {
        let run = scene.gpuctl(&["get", "jobs", "-o", "name", "--field-selector", selector]);
        run.ok().out
    };
    assert_eq!(names("metadata.name=a"), "fields/a\n");
    assert_eq!(
        names("metadata.name!=a,metadata.namespace=fields"),
        "fields/b\n"
    );
    assert_eq!(names("metadata.namespace=other"), "");
    scene
        .gpuctl(&["get", "jobs", "--field-selector", "status.successful=1"])
        .exits(2)
        .says("use `--status` instead");
    let table = scene
        .gpuctl(&["get", "jobs", "a", "--show-labels"])
        .ok()
        .out;
    assert!(table.lines().next().unwrap().ends_with("LABELS"), "{table}");
    assert!(table.contains("team=nlp"), "{table}");
    let list = scene
        .gpuctl(&["get", "jobs", "a", "--show-labels", "-o", "json"])
        .ok()
        .json();
    assert_eq!(items(&list).len(), 1);
}

#[test]
fn lists_show_the_labels_of_objects() {
    let scene = Scene::with_nodes("labelled", 1);
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "labelled", "labels": {"team": "nlp"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}));
    let labels = |arguments: &[&str], label: &str| {
        let shown = [arguments, &["--show-labels"]].concat();
        let table = scene.gpuctl(&shown).ok().out;
        let mut lines = table.lines();
        let header = lines.next().unwrap();
        assert!(header.ends_with("LABELS"), "{table}");
        assert!(lines.any(|line| line.contains(label)), "{table}");
        let plain = scene.gpuctl(arguments).ok().out;
        assert!(!plain.contains("LABELS"), "{plain}");
        let csv = scene.gpuctl(&[&shown[..], &["-o", "csv"]].concat()).ok();
        let header = csv.out.lines().next().unwrap().to_owned();
        assert!(header.ends_with(",labels"), "{header}");
    };
    labels(
        &["get", "nodes", "--pool", "labelled"],
        "gpuctl/pool=labelled",
    );
    labels(&["get", "claims", "--all"], "team=nlp");
    for list in ["pools", "workloads", "quotas"] {
        scene
            .gpuctl(&["get", list, "--show-labels"])
            .exits(2)
            .says("jobs, nodes, queues and claims have it");
    }
}

#[test]
fn the_policy_of_kuberc_decides_whether_a_credential_plugin_runs() {
    let scene = Scene::new("kuberc");
    let token = cluster().token(Persona::Admin);
    let marker = cluster().folder().join("plugin-ran");
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential", "status": {"token": token}});
    let script = format!(
        "#!/bin/sh\ntouch {}\necho '{credential}'\n",
        marker.display()
    );
    let plugin = write("fake-login", &script);
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = kubeconfig();
    config["users"][0]["user"] = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin, "interactiveMode": "Never"}});
    let path = write("plugin.kubeconfig", &config.to_string());
    let with = |policy: &str| {
        let header = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n";
        let kuberc = write("kuberc", &format!("{header}{policy}"));
        let _ = std::fs::remove_file(&marker);
        let mut command = with_kubeconfig(&path, &["get", "jobs", "-n", scene.name]);
        command.env("KUBERC", &kuberc);
        let run = run(command, "");
        (run, marker.exists(), kuberc.display().to_string())
    };
    let list = "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n";
    for allowed in [
        String::new(),
        "credentialPluginPolicy: AllowAll\n".to_owned(),
        format!("{list}- command: {}\n", plugin.display()),
        format!("{list}- name: {}\n", plugin.display()),
    ] {
        let (run, ran, _) = with(&allowed);
        run.ok();
        assert!(ran, "{allowed}");
    }
    let other = format!("{list}- command: kubelogin\n");
    for (refused, text) in [
        (
            "credentialPluginPolicy: DenyAll\n",
            "`credentialPluginPolicy: DenyAll`",
        ),
        (
            other.as_str(),
            "it is not in `credentialPluginAllowlist` of",
        ),
        (
            "credentialPluginPolicy: Allowlist\n",
            "needs `credentialPluginAllowlist`",
        ),
        (
            "credentialPluginPolicy: Nobody\n",
            "is not AllowAll, DenyAll or Allowlist",
        ),
    ] {
        let (run, ran, file) = with(refused);
        run.exits(5).says(text).says(&file).says("hint:");
        assert!(!ran, "{refused}");
    }
    // A token needs no plugin, so its policy does not matter.
    let kuberc = write(
        "kuberc",
        "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\ncredentialPluginPolicy: DenyAll\n",
    );
    let mut command = with_kubeconfig(&path, &["get", "jobs", "-n", scene.name]);
    command
        .env("KUBERC", kuberc)
        .env("GPUCTL_TOKEN", cluster().token(Persona::Admin));
    run(command, "").ok();
}
