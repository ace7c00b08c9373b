//! Tests the objects of a training whose ranks restart together. The objects were tampered with,
//! have no owner, come from another version, or were refused.

use std::process::{Command, Stdio};

use gpuctl_sandbox::{Kubectl, Persona};
use serde_json::{Value, json};

use crate::runner::Run;
use crate::support::{cluster, gpuctl_as};

const YAML: &str = "kind: training\nversion: v0.1\njob: {name: pair}\nenvironment: {image: i, command: [train]}\n\
                    resources: {gpu: 0, node_count: 2}\n";
const NAME: &str = "pair-supervisor";
/// The objects that the supervisor needs. Each kind needs a separate permission.
const COMPANIONS: [&str; 3] = ["configmap", "secret", "networkpolicy"];

/// A namespace for one test.
struct Scene {
    namespace: &'static str,
    admin: Kubectl,
}

impl Scene {
    fn new(namespace: &'static str) -> Self {
        let admin = cluster().kubectl(Persona::Admin);
        admin.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        );
        Self { namespace, admin }
    }

    fn gpuctl(&self, arguments: &[&str]) -> Run {
        self.gpuctl_as(Persona::Admin, arguments)
    }

    fn gpuctl_as(&self, persona: Persona, arguments: &[&str]) -> Run {
        gpuctl_as(
            persona,
            &[&["-n", self.namespace], arguments].concat(),
            YAML,
        )
    }

    fn created(namespace: &'static str) -> Self {
        let scene = Self::new(namespace);
        scene.gpuctl(&["create", "-f", "-"]).ok();
        scene
    }

    fn kubectl(&self, arguments: &[&str]) {
        self.admin
            .run(&[arguments, &["-n", self.namespace]].concat());
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        self.admin.json(&["get", kind, name, "-n", self.namespace])
    }

    fn exists(&self, kind: &str) -> bool {
        self.admin
            .try_run(&["get", kind, NAME, "-n", self.namespace], "")
            .status
            .success()
    }

    fn owners(&self, kind: &str, name: &str) -> Value {
        self.get(kind, name)["metadata"]["ownerReferences"].clone()
    }

    fn token(&self) -> Value {
        self.get("secret", NAME)["data"]["token"].clone()
    }

    #[track_caller]
    fn apply(&self, action: &str) -> Run {
        let run = self.gpuctl(&["apply", "-f", "-", "-o", "json"]).ok();
        assert_eq!(run.json()["action"], action, "{}{}", run.out, run.err);
        run
    }

    /// Allows Frank to submit trainings, but not to write these kinds.
    fn allow(&self, without: &str) {
        let rules: Vec<Value> = [
            ("", "pods", &["create", "list", "get"][..]),
            ("", "services", &["get", "create", "patch", "delete"]),
            ("", "configmaps", &["get", "create", "patch", "delete"]),
            ("", "secrets", &["get", "create", "patch", "delete"]),
            ("networking.k8s.io", "networkpolicies", &["get", "list", "create", "patch", "delete"]),
            ("batch", "jobs", &["get", "list", "create", "patch", "delete"]),
            ("apps", "deployments", &["list", "get"]),
            ("apps", "statefulsets", &["list", "get"]),
        ]
        .iter()
        .filter(|(_, resource, _)| *resource != without)
        .map(|(group, resource, verbs)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}))
        .collect();
        let meta = json!({"name": "submits", "namespace": self.namespace});
        let api = "rbac.authorization.k8s.io/v1";
        self.admin
            .apply(&json!({"apiVersion": api, "kind": "Role", "metadata": meta, "rules": rules}));
        self.admin.apply(&json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "submits"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "frank"}],
        }));
    }
}

#[test]
fn the_token_is_random_kept_and_never_shown() {
    let scene = Scene::created("token");
    let secret = scene.get("secret", NAME);
    let encoded = scene.token().as_str().unwrap().to_owned();
    let token = decoded(&encoded);
    assert!(
        token.len() == 64 && token.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{token}"
    );
    assert_eq!(
        (
            &secret["immutable"],
            &secret["metadata"]["ownerReferences"][0]["kind"]
        ),
        (&json!(true), &json!("Job"))
    );
    let template = scene.get("job", "pair")["spec"]["template"].to_string();
    assert!(
        !template.contains(&token) && template.contains("/etc/gpuctl/token"),
        "{template}"
    );
    scene.apply("unchanged");
    assert_eq!(
        scene.token(),
        json!(encoded),
        "a new token would lock out running pods"
    );
    let bundle = scene.admin_file("bundle.gpuctl");
    for arguments in [
        &[
            "create",
            "-f",
            "-",
            "--generate-name",
            "--dry-run=client",
            "-o",
            "yaml",
        ][..],
        &[
            "create",
            "-f",
            "-",
            "--generate-name",
            "--dry-run=server",
            "-o",
            "json",
        ],
        &["apply", "-f", "-", "-o", "yaml"],
        &["diff", "-f", "-"],
        &["describe", "job", "pair", "-o", "json"],
        &["describe", "job", "pair"],
        &["-vv", "apply", "-f", "-"],
        &["doctor", "--bundle", &bundle],
    ] {
        let run = scene.gpuctl(arguments);
        let shown = [run.out.as_str(), run.err.as_str()].concat();
        assert!(
            !shown.contains(&token) && !shown.contains(&encoded),
            "{arguments:?}: {shown}"
        );
    }
    let unpacked = Command::new("gzip")
        .args(["-dc", &bundle])
        .stderr(Stdio::null())
        .output()
        .unwrap()
        .stdout;
    let unpacked = String::from_utf8_lossy(&unpacked);
    assert!(
        unpacked.contains("pair") && !unpacked.contains(&token) && !unpacked.contains(&encoded)
    );
    // Another job has a different token.
    let second = gpuctl_as(
        Persona::Admin,
        &["-n", "token", "create", "-f", "-"],
        &YAML.replace("pair", "other"),
    );
    second.ok();
    assert_ne!(
        scene.get("secret", "other-supervisor")["data"]["token"],
        json!(encoded)
    );
}

fn decoded(base64: &str) -> String {
    let mut child = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), base64.as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

impl Scene {
    fn admin_file(&self, name: &str) -> String {
        let folder = cluster()
            .folder()
            .join(format!("hostile-{}", self.namespace));
        std::fs::create_dir_all(&folder).unwrap();
        folder.join(name).to_str().unwrap().to_owned()
    }
}

#[test]
fn the_next_run_sets_owners_missing_after_an_interruption() {
    let scene = Scene::created("owner");
    let owned = scene.owners("configmap", NAME);
    assert_eq!(owned[0]["kind"], "Job");
    for (kind, name) in COMPANIONS
        .iter()
        .map(|kind| (*kind, NAME))
        .chain([("service", "pair")])
    {
        let patch = json!({"metadata": {"ownerReferences": null}}).to_string();
        scene.kubectl(&["patch", kind, name, "--type=merge", "-p", &patch]);
        assert_eq!(scene.owners(kind, name), Value::Null);
        let diff = scene.gpuctl(&["diff", "-f", "-"]).exits(11);
        assert!(
            diff.out.contains(&format!("{kind}/{name}")) && diff.out.contains("ownerReferences"),
            "{kind}: {}",
            diff.out
        );
        let run = scene.apply("updated");
        assert!(run.out.contains(&format!("{kind}/{name}")), "{}", run.out);
        assert_eq!(scene.owners(kind, name), owned, "{kind}");
        scene.apply("unchanged");
        scene.gpuctl(&["diff", "-f", "-"]).ok();
    }
    // All companions are missing at once, as after an interruption between the Job and its
    // companions.
    let token = scene.token();
    for kind in COMPANIONS {
        scene.kubectl(&[
            "patch",
            kind,
            NAME,
            "--type=merge",
            "-p",
            r#"{"metadata":{"ownerReferences":[]}}"#,
        ]);
    }
    scene.apply("updated");
    assert!(
        COMPANIONS
            .iter()
            .all(|kind| scene.owners(kind, NAME) == owned)
    );
    assert_eq!(scene.token(), token);
}

#[test]
fn a_tampered_program_is_refused_or_restored() {
    let scene = Scene::created("tampered");
    let original = scene.get("configmap", NAME);
    assert_eq!(original["immutable"], true);
    let evil = r#"{"data":{"supervisor.py":"print('EVIL')"}}"#;
    let update = [
        "patch",
        "configmap",
        NAME,
        "-n",
        "tampered",
        "--type=merge",
        "-p",
        evil,
    ];
    assert!(
        !scene.admin.try_run(&update, "").status.success(),
        "`update configmaps` alone changes nothing"
    );
    for labels in [original["metadata"]["labels"].clone(), json!({})] {
        scene.kubectl(&["delete", "configmap", NAME]);
        scene.admin.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"supervisor.py": "print('EVIL')"},
            "metadata": {"name": NAME, "namespace": "tampered", "labels": labels},
        }));
        let diff = scene.gpuctl(&["diff", "-f", "-"]).exits(11);
        assert!(diff.out.contains("EVIL"), "{}", diff.out);
        let run = scene.apply("updated");
        assert!(run.out.contains("its program is restored"), "{}", run.out);
        let restored = scene.get("configmap", NAME);
        assert_eq!(
            (&restored["data"], &restored["immutable"]),
            (&original["data"], &json!(true))
        );
        assert_eq!(
            restored["metadata"]["ownerReferences"],
            original["metadata"]["ownerReferences"]
        );
        scene.apply("unchanged");
    }
    // The content is the same, but because the ConfigMap is mutable, it could be changed later.
    scene.kubectl(&["delete", "configmap", NAME]);
    let mut open = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": original["data"]});
    open["metadata"] =
        json!({"name": NAME, "namespace": "tampered", "labels": original["metadata"]["labels"]});
    scene.admin.apply(&open);
    scene.apply("updated");
    assert_eq!(scene.get("configmap", NAME)["immutable"], true);
    // `apply` creates the program if it is missing.
    scene.kubectl(&["delete", "configmap", NAME]);
    scene.apply("updated");
    assert_eq!(scene.get("configmap", NAME)["data"], original["data"]);
}

/// Pods can start after the tampering and before the next `apply`.
#[test]
fn a_tampered_program_is_not_run() {
    let scene = Scene::created("notrun");
    let folder = scene.admin_file("program").replace("/program", "");
    let program = scene.get("configmap", NAME)["data"]["supervisor.py"]
        .as_str()
        .unwrap()
        .to_owned();
    let job = scene.get("job", "pair");
    let words = job["spec"]["template"]["spec"]["containers"][0]["command"]
        .as_array()
        .unwrap();
    let words: Vec<String> = words
        .iter()
        .map(|word| word.as_str().unwrap().replace("/etc/gpuctl", &folder))
        .collect();
    let run = |text: &str| {
        std::fs::write(format!("{folder}/supervisor.py"), text).unwrap();
        let output = Command::new(&words[0]).args(&words[1..]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, error) = run(&program);
    assert!(
        code == Some(2) && error.contains("argument --rank: invalid int value"),
        "its own arguments are read: {error}"
    );
    for tampered in [
        format!("{program}\n"),
        format!("print('EVIL')\n{program}"),
        String::new(),
    ] {
        let (code, error) = run(&tampered);
        assert_eq!(
            (code, error.as_str()),
            (
                Some(1),
                "gpuctl: the supervisor was changed after the job was created; `gpuctl apply -f FILE` restores it\n"
            )
        );
    }
}

/// Another version of gpuctl may have created the job. Its program stays and does not count as
/// tampered with.
#[test]
fn a_program_of_another_version_is_kept_and_a_tampered_one_is_reported() {
    let scene = Scene::created("versions");
    let older = "print('an older program')\n";
    let hash = "2ac7a2e5ab4bb3f4f3b2b1b5ff4d1ebe7ea1c4ff";
    let replace = |text: &str| {
        scene.kubectl(&["delete", "configmap", NAME]);
        let owners = scene.owners("job", "pair");
        assert!(owners.is_null());
        let uid = scene.get("job", "pair")["metadata"]["uid"].clone();
        scene.admin.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"supervisor.py": text}, "immutable": true,
            "metadata": {
                "name": NAME, "namespace": "versions",
                "labels": {"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/job": "pair"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "pair", "uid": uid}],
            },
        }));
    };
    let annotate = |hash: &str| {
        let annotation = format!("gpuctl/supervisor-sha256{hash}");
        scene.kubectl(&[
            "annotate",
            "job",
            "pair",
            "--overwrite",
            "--field-manager=gpuctl",
            &annotation,
        ]);
    };
    replace(older);
    annotate(&format!("={}", sha256(older)));
    scene.apply("unchanged");
    annotate(&format!("={hash}"));
    let error = scene
        .gpuctl(&["apply", "-f", "-"])
        .exits(1)
        .says("was changed after the job was created");
    assert!(
        error
            .err
            .contains("another version of gpuctl created the job"),
        "{}",
        error.err
    );
    scene
        .gpuctl(&["diff", "-f", "-"])
        .says("was changed after the job was created");
    assert_eq!(
        scene.get("configmap", NAME)["data"]["supervisor.py"],
        older,
        "nothing is replaced"
    );
    // Earlier versions did not record a hash, so their programs cannot be verified.
    annotate("-");
    scene.apply("unchanged");
}

fn sha256(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn leftovers_of_an_interrupted_create_are_reused_or_deleted() {
    let scene = Scene::created("leftover");
    let token = scene.token();
    let interrupt = || {
        for kind in COMPANIONS {
            scene.kubectl(&[
                "patch",
                kind,
                NAME,
                "--type=merge",
                "-p",
                r#"{"metadata":{"ownerReferences":null}}"#,
            ]);
        }
        scene.kubectl(&["delete", "job", "pair", "--cascade=foreground"]);
    };
    interrupt();
    scene.gpuctl(&["create", "-f", "-"]).ok();
    assert_ne!(
        scene.token(),
        token,
        "any user may have planted a leftover token"
    );
    for kind in COMPANIONS {
        assert_eq!(
            scene.owners(kind, NAME)[0]["uid"],
            scene.get("job", "pair")["metadata"]["uid"],
            "{kind}"
        );
    }
    interrupt();
    scene.gpuctl(&["delete", "job", "pair"]).ok();
    assert!(COMPANIONS.iter().all(|kind| !scene.exists(kind)));
    // A job that is replaced gets another token.
    scene.gpuctl(&["create", "-f", "-"]).ok();
    let before = scene.token();
    let changed = YAML.replace("image: i", "image: j");
    gpuctl_as(
        Persona::Admin,
        &["-n", "leftover", "apply", "--replace", "-f", "-"],
        &changed,
    )
    .ok();
    assert_ne!(scene.token(), before);
}

#[test]
fn without_the_right_to_network_policies_a_training_is_submitted_with_a_warning() {
    let scene = Scene::new("nopolicy");
    scene.allow("networkpolicies");
    let run = scene.gpuctl_as(Persona::Frank, &["create", "-f", "-"]).ok();
    assert_eq!(
        run.err
            .matches("any pod in the cluster can connect to rank 0's port")
            .count(),
        1,
        "{}",
        run.err
    );
    assert!(run.err.contains("docs/recovery.md"), "{}", run.err);
    assert!(!scene.exists("networkpolicy") && scene.exists("secret"));
    let run = scene
        .gpuctl_as(Persona::Frank, &["apply", "-f", "-", "-o", "json"])
        .ok();
    assert_eq!(run.json()["action"], "unchanged", "{}", run.err);
    // An administrator applies the file and closes the port.
    scene.apply("updated");
    assert!(scene.exists("networkpolicy"));
    scene.apply("unchanged");
}

/// NetworkPolicies add up. A policy that allows other ports would therefore weaken the isolation of
/// a namespace.
#[test]
fn the_policy_does_not_weaken_other_policies_of_the_namespace() {
    let scene = Scene::created("isolated");
    let rules = || {
        scene.get("networkpolicy", NAME)["spec"]["ingress"]
            .as_array()
            .unwrap()
            .clone()
    };
    assert_eq!(rules().len(), 2, "{:?}", rules());
    scene.admin.apply(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "default-deny", "namespace": "isolated"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }));
    scene.apply("updated");
    let peers = json!([{"podSelector": {"matchLabels": {"gpuctl/job": "pair"}}}]);
    assert_eq!(json!(rules()), json!([{"from": peers}]));
    scene.apply("unchanged");
    gpuctl_as(
        Persona::Admin,
        &["-n", "isolated", "create", "-f", "-"],
        &YAML.replace("pair", "other"),
    )
    .ok();
    let other = scene.get("networkpolicy", "other-supervisor");
    assert_eq!(
        other["spec"]["ingress"].as_array().unwrap().len(),
        1,
        "{other}"
    );
}

#[test]
fn a_refusal_without_the_right_to_secrets_has_a_hint() {
    let scene = Scene::new("nosecret");
    scene.allow("secrets");
    let run = scene.gpuctl_as(Persona::Frank, &["create", "-f", "-"]);
    assert_ne!(run.code, 0, "{}", run.err);
    assert!(
        run.err.contains("job.restart: rank") && run.err.contains("secrets"),
        "{}",
        run.err
    );
    assert!(
        COMPANIONS.iter().all(|kind| !scene.exists(kind)),
        "nothing is left"
    );
    let alone = YAML.replace("name: pair", "name: pair, restart: rank");
    gpuctl_as(
        Persona::Frank,
        &["-n", "nosecret", "create", "-f", "-"],
        &alone,
    )
    .ok();
}
