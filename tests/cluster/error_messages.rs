//! Takes a snapshot of the errors of every command that writes, so that a changed message shows up
//! in review. A real cluster produces the errors, and only the address of the API server is
//! replaced.

use std::fmt::Write as _;

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::support::{Scene, cluster, file};

fn training(name: &str, rest: &str) -> String {
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox}}\n{rest}\n"
    )
}

fn service(name: &str, rest: &str) -> String {
    format!(
        "kind: compute\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: 'nginx:1'}}\nservice: {{port: 80}}\n{rest}\n"
    )
}

fn pool(name: &str, nodes: &str) -> String {
    format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\nnodes: {nodes}\n")
}

fn quota(name: &str, namespaces: &str) -> String {
    format!("kind: quota\nversion: v0.1\nquota: {{name: {name}}}\nnamespace: {namespaces}\n")
}

/// The title, the arguments and the stdin of a command that fails.
type Case<'c> = (&'c str, &'c [&'c str], String);

const CREATE: &[&str] = &["create", "-f", "-"];
const APPLY: &[&str] = &["apply", "-f", "-"];
const REPLACE: &[&str] = &["apply", "-f", "-", "--replace"];
const DELETE: &[&str] = &["delete", "-f", "-"];

/// Creates the objects that the errors need.
fn arrange(scene: &Scene) {
    let claim = "storage: {workdirs: [{path: /out, size: 2Gi}]}";
    scene
        .gpuctl_with(
            CREATE,
            &training("taken", "resources: {pool: words, gpu: 1}"),
        )
        .ok();
    scene.until("taken", "running", None);
    scene.gpuctl_with(CREATE, &training("kept", claim)).ok();
    scene.gpuctl(&["delete", "job", "kept"]).ok();
    scene.gpuctl_with(CREATE, &training("stays", claim)).ok();
    scene.gpuctl_with(CREATE, &service("web", "")).ok();
    scene.gpuctl_with(CREATE, &pool("words-there", "[]")).ok();
    scene
        .gpuctl_with(CREATE, &quota("words-quota", "{words: {pods: 50}}"))
        .ok();
    let run = |arguments: &[&str]| scene.admin.run(&[arguments, &["-n", "words"]].concat());
    run(&["create", "deployment", "foreign", "--image=x"]);
    run(&["create", "service", "clusterip", "address", "--tcp=80:80"]);
    run(&["create", "quota", "foreign-quota", "--hard=pods=60"]);
    run(&[
        "create",
        "quota",
        "gpus",
        "--hard=requests.nvidia.com/gpu=3",
    ]);
    scene.get_until(&["resourcequota", "gpus"], |quota| {
        quota["status"]["hard"].is_object()
    });
    let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "words"},
        "spec": {"replicas": 3, "selector": {}, "template": {"spec": {"containers": [{"name": "main", "image": "theirs:1"}]}}}});
    let deployment = scene.get(&["deployment", "web"]);
    let mut owned = theirs;
    owned["spec"]["selector"] = deployment["spec"]["selector"].clone();
    owned["spec"]["template"]["metadata"] =
        json!({"labels": deployment["spec"]["template"]["metadata"]["labels"]});
    scene.admin.apply(&owned);
    // A finalizer keeps this job from being deleted.
    scene.gpuctl_with(CREATE, &training("going", "")).ok();
    run(&[
        "patch",
        "job",
        "going",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":["words/held"]}}"#,
    ]);
    run(&["delete", "job", "going", "--wait=false"]);
}

#[test]
fn errors_of_writing_commands_match_the_snapshot() {
    let scene = Scene::with_nodes("words", 2);
    arrange(&scene);
    let missing = file("words-missing.yaml", "").with_file_name("nothing-like-any-other");
    let missing = missing.to_str().unwrap();
    let from_missing = ["create", "-f", missing];
    let gpu = |name: &str, resources: &str| training(name, &format!("resources: {resources}"));
    let small = "storage: {workdirs: [{path: /out, size: 1Gi}]}";
    let twice = format!("{}---\n{}", training("a", ""), service("a", ""));
    let cases: Vec<Case<'_>> =
        vec![
        ("the job exists", CREATE, training("taken", "")),
        (
            "a foreign Deployment has the name",
            CREATE,
            service("foreign", ""),
        ),
        (
            "a foreign Service has the name",
            CREATE,
            service("address", ""),
        ),
        (
            "the job is still being deleted",
            CREATE,
            training("going", ""),
        ),
        ("applying while the job is still being deleted", APPLY, training("going", "")),
        (
            "an earlier job's claim is larger",
            CREATE,
            training("kept", small),
        ),
        ("a claim cannot shrink", APPLY, training("stays", small)),
        (
            "the priority class does not exist",
            CREATE,
            training("low", "pod: {priorityClassName: nobody}"),
        ),
        (
            "the class of `job.priority` does not exist",
            CREATE,
            training("low", "").replace("{name: low}", "{name: low, priority: nobody}"),
        ),
        (
            "the template of a training is fixed",
            APPLY,
            training("taken", "resources: {pool: words, gpu: 2}"),
        ),
        ("another kind has the name", APPLY, service("taken", "")),
        (
            "applying over a foreign Deployment",
            APPLY,
            service("foreign", ""),
        ),
        (
            "another manager set a field",
            APPLY,
            service("web", "").replace("nginx:1", "nginx:2"),
        ),
        (
            "the replacement is refused",
            REPLACE,
            training("taken", "pod: {priorityClassName: nobody}"),
        ),
        (
            "more GPUs than any node has",
            CREATE,
            gpu("huge", "{pool: words, gpu: 64}"),
        ),
        (
            "a claim and a secret are missing",
            CREATE,
            training(
                "poor",
                "storage: {workdirs: [{path: /m, pvc: models}, {path: /k, secret: keys}]}",
            ),
        ),
        (
            "the quota of the namespace is spent",
            CREATE,
            gpu("many", "{pool: words, gpu: 4}"),
        ),
        (
            "the namespace does not exist",
            &["create", "-f", "-", "-n", "words-none"],
            training("a", ""),
        ),
        (
            "the pool does not exist",
            CREATE,
            gpu("a", "{pool: wrods, gpu: 1}"),
        ),
        (
            "no node has GPUs of the type",
            CREATE,
            gpu("a", "{pool: words, gpu: 1, gpu-type: h200}"),
        ),
        ("two documents with one name", CREATE, twice.clone()),
        (
            "one of several is refused",
            CREATE,
            format!("{}---\n{}", training("fine", ""), training("taken", "")),
        ),
        (
            "the file names another namespace",
            CREATE,
            training("a", "").replace("{name: a}", "{name: a, namespace: default}"),
        ),
        ("the file does not exist", &from_missing, String::new()),
        ("invalid YAML", CREATE, "kind: [training".to_owned()),
        (
            "invalid fields",
            CREATE,
            "kind: training\nversion: v0.1\njob: {name: A_b}\nresources: {gpus: 1, memory: 3}\n"
                .to_owned(),
        ),
        (
            "the node does not exist",
            CREATE,
            pool("words-new", "[words-none]"),
        ),
        (
            "the node is in another pool",
            CREATE,
            pool("words-new", "[words-0]"),
        ),
        (
            "the pool exists",
            CREATE,
            pool("words-there", "[]")
                .replace("name: words-there", "name: words-there, description: x"),
        ),
        (
            "the quota exists",
            CREATE,
            quota("words-quota", "{words: {pods: 51}}"),
        ),
        (
            "a foreign quota has the name",
            APPLY,
            quota("foreign-quota", "{words: {pods: 1}}"),
        ),
        (
            "nothing to delete",
            &["delete", "job", "takne"],
            String::new(),
        ),
        (
            "no object of the file exists",
            DELETE,
            training("nobody", ""),
        ),
        (
            "no pool to delete",
            &["delete", "pool", "words-their"],
            String::new(),
        ),
        (
            "no quota to delete",
            &["delete", "quota", "words-qota"],
            String::new(),
        ),
        (
            "a pool that only labels define",
            &["delete", "pool", "words"],
            String::new(),
        ),
        (
            "a training is not scaled",
            &["scale", "taken", "--replicas", "2"],
            String::new(),
        ),
        (
            "a label reserved for pools",
            &["label", "node", "words-0", "gpuctl/pool=x"],
            String::new(),
        ),
        (
            "an invalid label",
            &["label", "node", "words-0", "a=b c"],
            String::new(),
        ),
        (
            "a label reserved for Kubernetes",
            &["label", "node", "words-0", "kubernetes.io/hostname=x"],
            String::new(),
        ),
    ];
    let mut text = String::new();
    let mut record = |title: &str, scene: &Scene, arguments: &[&str], input: &str| {
        let run = scene.gpuctl_with(arguments, input);
        assert_ne!(run.code, 0, "{title}: {}{}", run.out, run.err);
        let shown = arguments.join(" ").replace(missing, "missing.yaml");
        let message = run
            .err
            .replace(missing, "missing.yaml")
            .replace(&cluster().api_server(), "https://api");
        // Removes the names of other pools, because other tests create pools at the same time.
        let line = |line: &str| {
            line.split_once(" existing pools: ")
                .map_or(line, |(before, _)| before)
                .trim_end()
                .to_owned()
        };
        let message = message.lines().map(line).collect::<Vec<_>>().join("\n");
        assert!(
            run.out.is_empty() || title == "one of several is refused",
            "{title}: {}",
            run.out
        );
        writeln!(
            text,
            "# {title}\n$ gpuctl {shown}\n{message}\nexit {}\n",
            run.code
        )
        .unwrap();
    };
    for (title, arguments, input) in &cases {
        record(title, &scene, arguments, input);
    }
    let grace = scene.seen_by(Persona::Grace);
    record("without any right", &grace, CREATE, &training("a", ""));
    record(
        "without any right to apply",
        &grace,
        APPLY,
        &training("a", ""),
    );
    let unreachable_config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [
        {"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}]});
    let unreachable_config = file("words.kubeconfig", &unreachable_config.to_string());
    let unreachable = [
        "create",
        "-f",
        "-",
        "--kubeconfig",
        unreachable_config.to_str().unwrap(),
    ];
    let run = scene.gpuctl_with(&unreachable, &training("a", "")).exits(6);
    writeln!(
        text,
        "# the server is unreachable\n$ gpuctl create -f -\n{}exit 6",
        run.err
    )
    .unwrap();
    scene.admin.run(&[
        "patch",
        "job",
        "going",
        "-n",
        "words",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ]);
    insta::assert_snapshot!(text);
}
