//! Tests objects with which one tenant tries to mislead the commands of other users: owners, pool
//! definitions, defaults, times and numbers.

use gpuctl_sandbox::nodes::node;
use gpuctl_sandbox::{Kubectl, Persona};
use serde_json::{Value, json};

use crate::support::{cluster, gpuctl_as};

fn admin() -> Kubectl {
    cluster().kubectl(Persona::Admin)
}

/// Creates a namespace unless it already exists.
fn namespace(name: &str) {
    admin().apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
}

/// Returns a pod that requests GPUs and fits on no node.
fn pod(namespace: &str, name: &str, gpus: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "nodeSelector": {"example.com/nowhere": "true"},
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        },
    })
}

/// Returns the paths that a user requested, from the API server's audit log.
fn requests_by(persona: Persona) -> Vec<String> {
    let text = std::fs::read_to_string(cluster().folder().join("audit.log")).unwrap_or_default();
    let entries = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    entries
        .filter(|entry| entry["user"]["username"] == persona.user())
        .map(|entry| entry["requestURI"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn owners_of_pods_cause_only_reads_of_workloads() {
    let space = "hostile-owners";
    namespace(space);
    admin().apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "heidi", "namespace": space},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Persona::Heidi.user()}],
    }));
    let owners = [
        ("v1", "Service", "evil/proxy/admin/delete"),
        ("v1", "Service", "plain"),
        ("v1", "Secret", "token"),
        ("v1", "Pod", "x/proxy/admin"),
        ("apps/v1", "ReplicaSet", "a/scale"),
        ("apps/v1", "ReplicaSet", "a?watch=true"),
        ("apps/v1", "ReplicaSet", "../../../../api/v1/secrets"),
        ("apps/v1", "ReplicaSet", "%2e%2e"),
        ("policy/v1", "PodDisruptionBudget", "a"),
        ("rbac.authorization.k8s.io/v1", "Role", "a"),
        ("batch/v1/namespaces", "Job", "a"),
    ];
    for (index, (api_version, kind, name)) in owners.into_iter().enumerate() {
        let mut pod = pod(space, &format!("owned-{index}"), "1");
        // Without a finalizer, the garbage collector would delete a pod whose owner does not exist.
        pod["metadata"]["finalizers"] = json!(["example.com/stay"]);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("u-{index}"), "controller": true}]);
        // The API server itself refuses some of these pods.
        let _ = admin().try_run(&["create", "-f", "-"], &pod.to_string());
    }
    let pods = admin().json(&["get", "pods", "-n", space]);
    assert!(pods["items"].as_array().unwrap().len() >= 8, "{pods}");
    let seen = gpuctl_as(
        Persona::Heidi,
        &["get", "workloads", "-n", space, "-o", "json"],
        "",
    )
    .ok();
    assert!(
        seen.json().to_string().contains("owned-0"),
        "the pod itself is the workload: {}",
        seen.out
    );
    for verb in [
        ["tree", "pod/owned-0"],
        ["describe", "workload"],
        ["get", "consumers"],
    ] {
        gpuctl_as(
            Persona::Heidi,
            &[verb.as_slice(), &["-n", space]].concat(),
            "",
        );
    }
    let paths = requests_by(Persona::Heidi);
    assert!(
        paths
            .iter()
            .any(|path| path.contains(&format!("/namespaces/{space}/pods"))),
        "{paths:?}"
    );
    let unexpected: Vec<&String> = paths
        .iter()
        .filter(|path| path.contains(space))
        .filter(|path| {
            [
                "proxy",
                "/services/",
                "/secrets",
                "/scale",
                "watch=true",
                "..",
                "%2e",
                "poddisruptionbudgets",
                "/roles/",
            ]
            .iter()
            .any(|part| path.contains(part))
        })
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}

#[test]
fn unreadable_times_and_counts_do_not_hide_objects() {
    let space = "hostile-times";
    namespace(space);
    admin().apply(&pod(space, "victim", "1"));
    admin().apply(&json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "far", "namespace": space},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "victim", "namespace": space},
        "reason": "Preempted", "message": "by the end of time", "type": "Warning", "count": -5,
        "firstTimestamp": "9999-12-31T23:59:59Z", "lastTimestamp": "9999-12-31T23:59:59Z",
    }));
    let status = json!({"status": {
        "startTime": "9999-12-31T23:59:59Z",
        "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "9999-12-31T23:59:59Z"}],
        "containerStatuses": [{
            "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": i32::MAX,
            "state": {"terminated": {"exitCode": 1, "startedAt": "9999-12-31T23:59:59Z", "finishedAt": "9999-12-31T23:59:59Z"}},
        }],
    }});
    admin().run(&[
        "patch",
        "pod",
        "victim",
        "-n",
        space,
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ]);
    for arguments in [
        &["get", "queues", "--preemptions"][..],
        &["get", "workloads", "-A"],
        &["get", "nodes"],
        &["get", "overview"],
        &["get", "jobs", "-A"],
    ] {
        let run = gpuctl_as(Persona::Admin, arguments, "").ok();
        assert!(
            !run.err.contains("is not a Kubernetes API server"),
            "{arguments:?}: {}",
            run.err
        );
    }
    let workloads = gpuctl_as(
        Persona::Admin,
        &["get", "workloads", "-n", space, "-o", "json"],
        "",
    )
    .ok();
    assert!(workloads.out.contains("victim"), "{}", workloads.out);
}

#[test]
fn impossible_requests_are_reported_and_not_counted() {
    let space = "hostile-numbers";
    namespace(space);
    for index in 0..3 {
        admin().apply(&pod(space, &format!("huge-{index}"), "9223372036854775807"));
    }
    admin().apply(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many", "namespace": space},
        "spec": {
            "replicas": 2_147_483_647, "paused": true, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod(space, "x", "9000")["spec"]},
        },
    }));
    let seen = gpuctl_as(Persona::Admin, &["get", "overview"], "").ok();
    assert!(
        seen.err.contains("impossible device request")
            && seen.err.contains("hostile-numbers/huge-0"),
        "{}",
        seen.err
    );
    assert!(
        !seen.out.contains("9223372036854775") && !seen.out.contains("18446744073709551"),
        "{}",
        seen.out
    );
    for arguments in [
        &["get", "workloads", "-n", space][..],
        &["get", "consumers"],
        &["why", "--all", "-n", space],
        &["get", "gpu-types"],
    ] {
        let run = gpuctl_as(Persona::Admin, arguments, "");
        assert!(
            !run.err.contains("panicked") && (0..=8).contains(&run.code),
            "{arguments:?}: {} {}",
            run.code,
            run.err
        );
        assert!(
            !run.out.contains("9223372036854775") && !run.out.contains("18446744073709551"),
            "{}",
            run.out
        );
    }
    admin().run(&["delete", "deployment", "many", "-n", space]);
    admin().run(&[
        "delete",
        "pods",
        "--all",
        "-n",
        space,
        "--force",
        "--grace-period=0",
    ]);
}

#[test]
fn deleting_a_pool_touches_only_labels_that_gpuctl_sets() {
    let mut host = node("evil-01", None, &[]);
    for (key, value) in [
        ("security-zone", "trusted"),
        ("type", "kwok"),
        ("gpuctl/pool", "evil"),
    ] {
        host["metadata"]["labels"][key] = value.into();
    }
    cluster().add_nodes(&[host]);
    namespace("gpuctl-system");
    let notes = json!({
        "security-zone": {"value": "trusted", "before": "dmz"},
        "type": {"value": "kwok"},
        "gpuctl/pool": {"value": "evil", "before": "production"},
    });
    let definition = json!({"name": "evil", "labels": {
        "evil-01": notes, "evil-01/status": notes, "../namespaces/default": notes, "evil-01?dryRun=All": notes,
    }});
    admin().apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "pool-evil", "namespace": "gpuctl-system",
            "labels": {"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/kind": "pool"},
        },
        "data": {"pool": definition.to_string()},
    }));
    let run = gpuctl_as(Persona::Admin, &["delete", "pool", "evil", "--yes"], "").ok();
    assert!(
        run.err.contains("gpuctl does not set") && run.err.contains("security-zone"),
        "{}",
        run.err
    );
    let labels = admin().json(&["get", "node", "evil-01"])["metadata"]["labels"].clone();
    assert_eq!(
        (&labels["security-zone"], &labels["type"]),
        (&json!("trusted"), &json!("kwok")),
        "{labels}"
    );
    assert_eq!(labels["gpuctl/pool"], Value::Null, "{labels}");
    admin().run(&["delete", "node", "evil-01"]);
}

/// Removes the defaults at the end of the test even if it fails, because every job of the cluster
/// reads them.
struct Defaults;

impl Drop for Defaults {
    fn drop(&mut self) {
        let _ = admin().try_run(
            &[
                "delete",
                "configmap",
                "gpuctl-defaults",
                "-n",
                "gpuctl-system",
                "--ignore-not-found",
            ],
            "",
        );
    }
}

#[test]
fn foreign_defaults_never_apply_silently() {
    let space = "hostile-defaults";
    namespace(space);
    let mut host = node("default-01", None, &[("nvidia.com/gpu", 8)]);
    host["metadata"]["labels"]["gpuctl/pool"] = "deceived".into();
    cluster().add_nodes(&[host]);
    namespace("gpuctl-system");
    let _end = Defaults;
    let text = "kind: defaults\nversion: v1\npools:\n  deceived:\n    env: {LD_PRELOAD: /evil.so, BASH_ENV: /evil, \
                HTTPS_PROXY: 'http://proxy:3128', MY_PASSWORD: PRETEND-SECRET}\n    labels: {app: other-service, site: berlin}\n    \
                imagePullSecret: evil-login\n    tolerations: [{key: evil-taint, value: x}]\n    keep_for: 1h\n    \
                limits: {max_runtime: 1m}\n";
    admin().apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpuctl-defaults", "namespace": "gpuctl-system"},
        "data": {"defaults.yaml": text},
    }));
    let job = "kind: training\nversion: v1\njob: {name: t}\nenvironment: {image: busybox, command: [sleep, '1']}\n\
               resources: {gpu: 1, pool: deceived}\n";
    let create = |more: &[&str]| {
        gpuctl_as(
            Persona::Admin,
            &[&["create", "-f", "-", "-n", space], more].concat(),
            job,
        )
    };
    let run = create(&["--dry-run=client", "-o", "yaml"]).ok();
    let fields = "(env, imagePullSecret, keep_for, labels, limits, tolerations)";
    assert!(
        run.err.contains("--trust-namespace") && run.err.contains(fields),
        "{}",
        run.err
    );
    for hidden in [
        "LD_PRELOAD",
        "HTTPS_PROXY",
        "other-service",
        "berlin",
        "evil",
        "activeDeadlineSeconds",
    ] {
        assert!(!run.out.contains(hidden), "{hidden}: {}", run.out);
    }
    let garbage = json!({"data": {"defaults.yaml": "kind: defaults\nversion: v1\nlimitz: 3\n"}});
    admin().run(&[
        "patch",
        "configmap",
        "gpuctl-defaults",
        "-n",
        "gpuctl-system",
        "--type=merge",
        "-p",
        &garbage.to_string(),
    ]);
    let run = create(&["--dry-run=client", "-o", "yaml"]).ok();
    assert!(
        run.err.contains("unreadable"),
        "an unmarked namespace must not block a create: {}",
        run.err
    );
    let site = "kind: defaults\nversion: v1\npools: {deceived: {queue: a}}\n";
    let tenant = gpuctl_as(
        Persona::Alice,
        &["apply", "-f", "-", "--trust-namespace"],
        site,
    );
    assert_ne!(
        tenant.code, 0,
        "a user without cluster-wide rights cannot mark the namespace: {}",
        tenant.err
    );
    gpuctl_as(
        Persona::Admin,
        &["apply", "-f", "-", "--trust-namespace", "--force"],
        text,
    )
    .ok();
    let run = create(&[]).ok();
    assert!(
        run.out
            .contains("environment.env.HTTPS_PROXY: http://proxy:3128"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("MY_PASSWORD") && !run.out.contains("PRETEND-SECRET"),
        "{}",
        run.out
    );
    assert!(
        run.err.contains("LD_PRELOAD")
            && run.err.contains("allow_env")
            && run.err.contains("label `app`"),
        "{}",
        run.err
    );
    let template = admin().json(&["get", "job", "t", "-n", space])["spec"]["template"].to_string();
    assert!(
        template.contains("HTTPS_PROXY") && template.contains("berlin"),
        "{template}"
    );
    assert!(
        !template.contains("LD_PRELOAD")
            && !template.contains("BASH_ENV")
            && !template.contains("other-service"),
        "{template}"
    );
}

#[test]
fn a_name_with_a_path_traversal_is_refused() {
    gpuctl_as(Persona::Admin, &["describe", "job", "../x"], "")
        .exits(2)
        .says("error: ");
}
