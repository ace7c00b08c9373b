//! Tests the site's defaults. They are stored on the real API server and apply to new jobs, but
//! never to running ones.
//!
//! The cluster has only one defaults object, which all tests share. Therefore this is a single
//! test, and it sets defaults only for its own pool.

use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::nodes::node;
use serde_json::{Value, json};

use crate::runner::run;
use crate::support::{GPU, Scene, cluster, file, items};

const SITE: &str = "kind: defaults
version: v0.1
pools:
  site:
    env: {HTTPS_PROXY: 'http://proxy:3128', NCCL_SOCKET_IFNAME: eth0}
    labels: {site: berlin}
    imagePullSecret: registry
    tolerations: [{key: example.com/reserved, value: research}]
    node_selector: {example.com/rack: a}
    limits: {gpu: 8, max_runtime: 2d}
    enforced: [labels]
gpu_type_labels: example.com/accelerator
";

/// Nodes of the pool, tainted and with a site-specific label for the GPU type.
fn scene() -> Scene {
    let scene = Scene::new("site");
    let nodes: Vec<Value> = ["a", "b"]
        .into_iter()
        .map(|rack| {
            let mut one = node(&format!("site-{rack}"), None, &[(GPU, 8)]);
            one["metadata"]["labels"]["gpuctl/pool"] = "site".into();
            one["metadata"]["labels"]["example.com/rack"] = rack.into();
            one["metadata"]["labels"]["example.com/accelerator"] = "H200".into();
            one["spec"]["taints"] = json!([{"key": "example.com/reserved", "value": "research", "effect": "NoSchedule"}]);
            one
        })
        .collect();
    cluster().add_nodes(&nodes);
    scene
}

fn template(scene: &Scene, kind: &str, name: &str) -> Value {
    scene.get(&[kind, name])["spec"]["template"].clone()
}

/// Binds a role to anonymous users and returns the binding.
fn bind(scene: &Scene, role: &Value) -> Value {
    let (kind, metadata) = (role["kind"].as_str().unwrap(), &role["metadata"]);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": format!("{kind}Binding"), "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    });
    scene.admin.apply(role);
    scene.admin.apply(&binding);
    binding
}

#[test]
fn defaults_are_created_applied_to_jobs_enforced_changed_and_deleted() {
    let scene = scene();
    let make = |verb: &str, yaml: &str, more: &[&str]| {
        scene.gpuctl_with(&[&[verb, "-f", "-"], more].concat(), yaml)
    };
    assert_eq!(
        scene.gpuctl(&["get", "defaults", "-o", "json"]).ok().json(),
        json!({"total": 0, "items": []})
    );
    scene
        .gpuctl(&["describe", "defaults"])
        .exits(4)
        .says("this site has no defaults")
        .says("gpuctl init defaults");
    scene.gpuctl(&["delete", "defaults"]).exits(4);
    let before = make("create", SITE, &["--dry-run=server", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&before["status"], &before["dryRun"]),
        (&json!("created"), &json!(true))
    );
    let rehearsed = make("create", SITE, &["--dry-run=client", "-o", "json"]);
    assert_eq!(rehearsed.ok().json(), before);
    scene.gpuctl(&["describe", "defaults"]).exits(4);
    // Another test may have created the namespace without marking it.
    let created_defaults = make("create", SITE, &["--trust-namespace", "-o", "json"])
        .ok()
        .json();
    let set = "set for all jobs submitted from now on";
    assert_eq!(
        created_defaults,
        json!({"name": "gpuctl-defaults", "status": "created", "message": set})
    );
    assert_eq!(
        make("create", SITE, &["-o", "json"]).ok().json()["status"],
        "unchanged"
    );

    // Neither dry run changes or deletes them.
    let changed = SITE.replace("berlin", "munich");
    for place in ["client", "server"] {
        let dry_run = format!("--dry-run={place}");
        let updated = make("apply", &changed, &[&dry_run, "-o", "json"]);
        let updated = updated.ok().json();
        assert_eq!(
            (&updated["status"], &updated["dryRun"]),
            (&json!("updated"), &json!(true))
        );
        let deleted = scene.gpuctl(&["delete", "defaults", &dry_run]).ok().out;
        assert_eq!(
            deleted,
            format!("gpuctl-defaults deleted ({place} dry run): existing jobs keep their values\n")
        );
    }

    // The list shows every default, and `describe` shows the file as it was written.
    let listed = scene.gpuctl(&["get", "defaults", "-o", "json"]).ok().json();
    assert_eq!(listed["total"], 7);
    assert_eq!(
        listed["items"][0],
        json!({"scope": "pool site", "field": "labels", "value": {"site": "berlin"}, "enforced": true})
    );
    let table = scene
        .gpuctl(&["get", "defaults", "--sort-by", "field"])
        .ok();
    assert!(
        table.out.lines().next().unwrap().starts_with("SCOPE"),
        "{}",
        table.out
    );
    let described = scene.gpuctl(&["describe", "defaults"]).ok();
    assert!(
        described.out.contains("# written by")
            && described
                .out
                .contains("node_selector: {example.com/rack: a}"),
        "{}",
        described.out
    );
    let explained = scene
        .gpuctl(&["explain", "environment.env", "--server"])
        .ok()
        .out;
    assert!(
        explained.contains("HERE:") && explained.contains("(pool site)"),
        "{explained}"
    );

    // Every new job gets the defaults: the site's label selects the nodes, the taint is tolerated,
    // and the node selector is set.
    let yaml = scene
        .training("fit", "")
        .replace("resources: {", "resources: {gpu-type: h200, ");
    let dry = make("create", &yaml, &["--dry-run=server"]).ok().out;
    let proxy = "environment.env.HTTPS_PROXY: http://proxy:3128 (the site's defaults, pool site)";
    assert!(
        dry.contains(proxy) && dry.contains("node_selector.example.com/rack: a"),
        "{dry}"
    );
    let rendered = make("create", &yaml, &["--dry-run=client", "-o", "yaml"]).ok();
    assert!(
        rendered.err.contains("job.max_runtime") && !rendered.out.contains("the site's defaults,"),
        "{}",
        rendered.err
    );
    let created = make(
        "create",
        &yaml,
        &["-o", "json", "--wait", "--timeout", "60s"],
    )
    .ok()
    .json();
    let from_site = created["defaults"].as_array().unwrap();
    assert_eq!(from_site.len(), 7, "{from_site:#?}");
    let spec = template(&scene, "job", "fit")["spec"].clone();
    assert_eq!(spec["nodeSelector"], json!({"example.com/rack": "a"}));
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    assert!(
        spec["affinity"]
            .to_string()
            .contains(r#"{"key":"example.com/accelerator","operator":"In","values":["H200"]}"#),
        "{spec:#}"
    );
    assert_eq!(scene.pods("fit")[0]["spec"]["nodeName"], "site-a");
    assert_eq!(
        scene.get(&["job", "fit"])["spec"]["template"]["spec"]["activeDeadlineSeconds"],
        172_800
    );
    let nodes = scene.gpuctl(&["get", "nodes", "-o", "json"]).ok().json();
    let node = items(&nodes)
        .into_iter()
        .find(|node| node["nodeName"] == "site-a")
        .unwrap();
    assert!(node.to_string().to_lowercase().contains("h200"), "{node:#}");

    // The file overrides a default unless the default is enforced. Errors about limits name the
    // line of the file.
    let overriding = "job: {name: own, labels: {site: paris}}\nenvironment: {image: b, command: [sleep, '1'], env: {NCCL_SOCKET_IFNAME: ib0}}\n";
    let overriding =
        format!("kind: training\nversion: v0.1\n{overriding}resources: {{gpu: 1, pool: site}}\n");
    let output = make("create", &overriding, &[]).ok();
    assert!(
        output
            .err
            .contains("`job.labels.site` is berlin instead of the value in the file"),
        "{}",
        output.err
    );
    let job = scene.get(&["job", "own"]);
    assert_eq!(job["metadata"]["labels"]["site"], "berlin");
    let variables = job["spec"]["template"]["spec"]["containers"][0]["env"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        variables.contains(&json!({"name": "NCCL_SOCKET_IFNAME", "value": "ib0"})),
        "{variables:#?}"
    );
    let large = file(
        "large.yaml",
        &overriding
            .replace("name: own", "name: large")
            .replace("gpu: 1", "gpu: 8, node_count: 2"),
    );
    let refused = scene
        .gpuctl(&["create", "-f", large.to_str().unwrap()])
        .exits(1);
    refused
        .says("8 GPUs × 2 pods = 16 GPUs; the site allows 8 GPUs a job (defaults, pool site)")
        .says("large.yaml:5:");
    scene
        .gpuctl(&["create", "-f", large.to_str().unwrap(), "-o", "json"])
        .exits(1)
        .says(r#""error":"LimitExceeded""#);
    let validated = scene
        .gpuctl(&["validate", "--server", "-f", large.to_str().unwrap()])
        .exits(3);
    assert!(
        validated.out.contains("the site allows 8 GPUs a job"),
        "{}{}",
        validated.out,
        validated.err
    );

    // A running job gets changed defaults only when its file changes, or with `--replace`.
    let web = scene.service("web", "nginx:1", 1, "");
    make("create", &web, &[]).ok();
    let before = template(&scene, "deployment", "web");
    let changed = SITE.replace("proxy:3128", "proxy:4000");
    make("create", &changed, &[])
        .exits(1)
        .says("the site already has defaults")
        .says("gpuctl apply -f");
    assert!(
        scene
            .gpuctl_with(&["diff", "-f", "-"], &changed)
            .exits(11)
            .out
            .contains("proxy:4000")
    );
    assert_eq!(
        make("apply", &changed, &["-o", "json"]).ok().json()["status"],
        "updated"
    );
    scene.gpuctl_with(&["diff", "-f", "-"], &changed).ok();
    let again = make("apply", &web, &["-o", "json"]).ok();
    assert_eq!(again.json()["action"], "unchanged", "{}", again.out);
    assert!(again.err.contains("changed site defaults"), "{}", again.err);
    assert_eq!(template(&scene, "deployment", "web"), before);
    make("apply", &web.replace("nginx:1", "nginx:2"), &[]).ok();
    assert!(
        template(&scene, "deployment", "web")
            .to_string()
            .contains("proxy:4000")
    );
    make("apply", SITE, &[]).ok();
    make("apply", &web.replace("nginx:1", "nginx:2"), &["--replace"]).ok();
    assert!(
        template(&scene, "deployment", "web")
            .to_string()
            .contains("proxy:3128")
    );

    // Everyone can read the defaults. A secret in them is therefore refused at creation and masked
    // in output.
    let secret = SITE.replace("NCCL_SOCKET_IFNAME: eth0", "HF_TOKEN: hf_abcdef");
    make("create", &secret, &["--dry-run=server"])
        .exits(1)
        .says("every user can read `HF_TOKEN`");
    let output = scene.gpuctl_with(&["diff", "-f", "-"], &secret).exits(11);
    assert!(
        output.out.contains("HF_TOKEN: ***") && !output.out.contains("hf_abcdef"),
        "{}",
        output.out
    );
    make("apply", &secret, &[]).ok();
    for arguments in [
        &["get", "defaults"][..],
        &["get", "defaults", "-o", "json"],
        &["describe", "defaults"],
    ] {
        let shown = scene.gpuctl(arguments).ok().out;
        assert!(
            shown.contains("HF_TOKEN") && !shown.contains("hf_abcdef"),
            "{shown}"
        );
    }
    // An existing claim keeps its storage class, and the job's time to live does not become
    // shorter.
    let stored = "kind: training\nversion: v0.1\njob: {name: stored}\nenvironment: {image: a, command: [sleep, '1']}\nresources: {gpu: 1, pool: site}\nstorage: {workdirs: [{path: /out, size: 1Gi}]}\n";
    make("apply", stored, &[]).ok();
    let class = scene.get(&["pvc", "stored-out"])["spec"]["storageClassName"].clone();
    let other = SITE.replace(
        "    imagePullSecret: registry\n",
        "    storage_class: other\n    keep_for: 1m\n",
    );
    make("apply", &other, &[]).ok();
    assert_eq!(
        make("apply", stored, &["-o", "json"]).ok().json()["action"],
        "unchanged"
    );
    assert_eq!(
        scene.get(&["job", "stored"])["spec"]["ttlSecondsAfterFinished"],
        Value::Null
    );
    scene.gpuctl(&["delete", "job", "stored", "--force"]).ok();
    make("create", stored, &[]).ok();
    assert_eq!(
        scene.get(&["pvc", "stored-out"])["spec"]["storageClassName"],
        class
    );
    make("apply", SITE, &[]).ok();

    // A user who may not read the defaults gets one warning and can still submit jobs.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "nobody", "namespace": scene.name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    });
    scene.admin.apply(&binding);
    let cache = cluster().folder().join("stranger");
    let stranger = |name: &str| {
        let mut command = scene.command(&["--as", "system:anonymous", "create", "-f", "-"]);
        command.env("XDG_CACHE_HOME", &cache);
        run(command, &scene.training(name, ""))
            .ok()
            .err
            .contains("you are not allowed to read the site's defaults")
    };
    assert_eq!((stranger("first"), stranger("second")), (true, false));
    assert!(
        !template(&scene, "job", "first")
            .to_string()
            .contains("HTTPS_PROXY")
    );

    // Each command is refused without its role and succeeds with it.
    scene.gpuctl(&["delete", "defaults"]).ok();
    let changed = file("changed.yaml", &changed);
    let written = file("site.yaml", SITE);
    let (written, changed) = (written.to_str().unwrap(), changed.to_str().unwrap());
    let commands: [(&str, &[&str]); 5] = [
        ("create", &["create", "-f", written]),
        ("get", &["get", "defaults"]),
        ("describe", &["describe", "defaults"]),
        ("apply", &["apply", "-f", changed]),
        ("delete", &["delete", "defaults"]),
    ];
    for (verb, command) in commands {
        let as_stranger = || scene.gpuctl(&[&["--as", "system:anonymous"], command].concat());
        as_stranger().exits(5);
        let roles = scene
            .gpuctl(&[
                "auth",
                "check",
                verb,
                "defaults",
                "--emit-role",
                "-o",
                "json",
            ])
            .ok()
            .json();
        let roles: Vec<Value> = items(&roles)
            .into_iter()
            .filter(|object| object["rules"].is_array())
            .collect();
        let bindings: Vec<Value> = roles.iter().map(|role| bind(&scene, role)).collect();
        let what = format!("the role of {verb} defaults is sufficient: {roles:#?}");
        eventually(&what, Duration::from_secs(30), || as_stranger().code != 5);
        for object in roles.iter().chain(&bindings) {
            let space = object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default");
            let (kind, name) = (
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap(),
            );
            scene.admin.run(&["delete", kind, name, "-n", space]);
        }
    }

    scene.gpuctl(&["create", "-f", written]).ok();
    assert_eq!(
        scene
            .gpuctl(&["delete", "defaults", "-o", "json"])
            .ok()
            .json()["message"],
        "existing jobs keep their values"
    );
    scene
        .gpuctl(&["delete", "defaults", "--ignore-not-found"])
        .ok();
    assert_eq!(
        scene.gpuctl(&["get", "defaults", "-o", "json"]).ok().json()["total"],
        0
    );
    assert!(
        template(&scene, "job", "fit")
            .to_string()
            .contains("HTTPS_PROXY")
    );
}
