//! Tests `kind: quota`: the API server enforces the quota, and deleting it removes everything it
//! created.

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::support::{Scene, items};

#[test]
fn a_quota_is_enforced_and_pods_without_requests_still_run() {
    let scene = Scene::with_nodes("quota-a", 1);
    let yaml = "kind: quota
version: v0.1
quota: {name: teams, description: what teams may use}
namespace:
  quota-a: {cpu: 10, memory: 20Gi, gpu: 2, pods: 5}
  quota-new: {gpu: 1}
";
    let created = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], yaml)
        .ok()
        .json();
    assert_eq!(
        created,
        json!({"name": "teams", "status": "created", "message": "applies in quota-a, quota-new"})
    );
    let hard = scene.get_until(&["resourcequota", "teams"], |quota| {
        quota["status"]["hard"].is_object()
    })["spec"]["hard"]
        .clone();
    assert_eq!(
        (
            &hard["requests.nvidia.com/gpu"],
            &hard["requests.cpu"],
            &hard["pods"]
        ),
        (&json!("2"), &json!("10"), &json!("5"))
    );
    // A CPU quota rejects pods without a CPU request. gpuctl also creates a LimitRange that sets a
    // default.
    scene.create("a", "resources: {pool: POOL, gpu: 2}");
    scene.until("a", "running", None);
    let pending = scene
        .gpuctl_with(&["create", "-f", "-"], &scene.training("b", ""))
        .ok();
    pending.says("quota `teams` has 0 of 2 requests.nvidia.com/gpu left, but the job needs 1");
    scene.until("b", "pending", Some("QuotaExceeded"));
    scene.gpuctl(&["delete", "job", "b"]).ok();
    let quotas = scene.gpuctl(&["get", "quotas", "-o", "json"]).ok().json();
    let entry = quotas["items"][0].clone();
    assert_eq!(
        (
            &entry["quota"],
            &entry["used"]["requests.nvidia.com/gpu"],
            &entry["used"]["requests.cpu"]
        ),
        (&json!("teams"), &json!("2"), &json!("100m"))
    );
    let fullest = scene
        .gpuctl_anywhere(&["get", "quotas", "-A", "--sort-by", "used", "-o", "name"])
        .ok()
        .out;
    assert!(
        fullest.lines().any(|line| line == "quota-a/teams"),
        "{fullest}"
    );
    let mut watch = scene.start(&["get", "quotas", "-w", "-o", "json"]);
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(watch.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    let first: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&first["namespace"], &first["quota"]),
        (&json!("quota-a"), &json!("teams"))
    );
    let text = scene.gpuctl(&["describe", "quota", "quota-a"]).ok().out;
    assert!(
        text.contains("nvidia.com/gpu") && text.contains("2 of 2") && text.contains("100%"),
        "{text}"
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], yaml)
        .exits(1)
        .says("already exists in namespace `quota-a`");
    assert_eq!(
        scene.admin.json(&["get", "namespace", "quota-new"])["metadata"]["labels"]["app.kubernetes.io/managed-by"],
        "gpuctl"
    );
    // Any object that a user created in a namespace keeps gpuctl from deleting the namespace.
    scene.admin.run(&[
        "create",
        "secret",
        "generic",
        "hub",
        "--from-literal=a=b",
        "-n",
        "quota-new",
    ]);
    let path = crate::support::file("quota-teams.yaml", yaml);
    let anywhere = |arguments: &[&str]| scene.gpuctl_anywhere(arguments).ok().out;
    let kept = anywhere(&["delete", "quota", "teams", "--purge"]);
    let stay = "namespaces kept: quota-a was not created by gpuctl, quota-new has secrets";
    assert_eq!(
        kept,
        format!("teams deleted: it applied to quota-a, quota-new; {stay}\n")
    );
    scene
        .admin
        .run(&["delete", "secret", "hub", "-n", "quota-new"]);
    anywhere(&["create", "-f", path.to_str().unwrap()]);
    // With `-n`, the quota is deleted only in that namespace.
    assert_eq!(
        scene.gpuctl(&["delete", "quota", "teams"]).ok().out,
        "teams deleted: it applied to quota-a\n"
    );
    let deleted = anywhere(&["delete", "quota", "teams", "--purge"]);
    assert_eq!(
        deleted,
        "teams deleted: it applied to quota-new; empty namespaces deleted: quota-new\n"
    );
    assert!(items(&scene.get(&["resourcequota,limitrange"])).is_empty());
    assert_eq!(scene.job("a")["status"], "running", "running jobs continue");
    scene
        .gpuctl(&["delete", "quota", "teams"])
        .exits(4)
        .says("quota `teams` does not exist");
    scene
        .gpuctl(&["describe", "quota", "quota-a"])
        .exits(4)
        .says("namespace `quota-a` has no quota");
    let none = scene.gpuctl(&["get", "quotas", "-o", "json"]).ok().json();
    assert_eq!((&none["total"], &none["items"]), (&json!(0), &json!([])));
}

#[test]
fn a_quota_that_fails_halfway_is_removed() {
    let scene = Scene::new("quota-back");
    scene.admin.run(&[
        "create",
        "quota",
        "half",
        "-n",
        "quota-back",
        "--hard=pods=3",
    ]);
    let yaml = "kind: quota\nversion: v0.1\nquota: {name: half}\nnamespace: {quota-first: {gpu: 1}, quota-back: {gpu: 1}}\n";
    let run = scene.gpuctl_with(&["create", "-f", "-"], yaml).exits(1);
    run.says("quota `half` already exists in namespace `quota-back`; nothing was written")
        .says("it was not created by gpuctl");
    assert!(
        !scene
            .admin
            .try_run(&["get", "namespace", "quota-first"], "")
            .status
            .success()
    );
    let left = scene.get(&["resourcequota", "half"]);
    assert_eq!(
        left["spec"]["hard"],
        json!({"pods": "3"}),
        "a quota created by others stays"
    );
    // This user may read both namespaces but write to only one, so the failure comes after the
    // first write.
    scene.admin.run(&["create", "namespace", "quota-first"]);
    let quotas = "--resource=resourcequotas,limitranges";
    let readable = "--resource=resourcequotas,limitranges,namespaces,nodes";
    scene.admin.run(&[
        "create",
        "clusterrole",
        "quota-looks",
        "--verb=get,list",
        readable,
    ]);
    scene.admin.run(&[
        "create",
        "clusterrolebinding",
        "quota-looks",
        "--clusterrole=quota-looks",
        "--user=erin",
    ]);
    scene.admin.run(&[
        "create",
        "role",
        "writes",
        "--verb=create,patch,delete",
        quotas,
        "-n",
        "quota-first",
    ]);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "writes",
        "--role=writes",
        "--user=erin",
        "-n",
        "quota-first",
    ]);
    let run = scene
        .seen_by(Persona::Erin)
        .gpuctl_with(&["create", "-f", "-"], &yaml.replace("half", "part"))
        .exits(5);
    run.says("quota `part` could not be created")
        .says("everything created so far was removed");
    assert!(
        items(
            &scene
                .admin
                .json(&["get", "resourcequota", "-n", "quota-first"])
        )
        .is_empty()
    );
    for kind in ["clusterrole", "clusterrolebinding"] {
        scene.admin.run(&["delete", kind, "quota-looks"]);
    }
}

#[test]
fn dry_runs_of_a_quota_change_nothing() {
    let scene = Scene::new("quota-dry");
    let yaml = |gpus: u32| {
        format!(
            "kind: quota\nversion: v0.1\nquota: {{name: dry}}\nnamespace:\n  quota-dry: {{gpu: \
             {gpus}}}\n  quota-dry-new: {{gpu: 1}}\n"
        )
    };
    let rehearse = |verb: &str, place: &str, gpus: u32| {
        let dry_run = format!("--dry-run={place}");
        let run = scene.gpuctl_with(&[verb, "-f", "-", &dry_run, "-o", "json"], &yaml(gpus));
        let made = run.ok().json();
        assert_eq!(made["dryRun"], true, "{made:#}");
        assert_eq!(made["message"], "would apply in quota-dry, quota-dry-new");
        made["status"].clone()
    };
    for place in ["client", "server"] {
        assert_eq!(rehearse("create", place, 2), "created");
        assert_eq!(rehearse("apply", place, 2), "created");
    }
    assert!(items(&scene.get(&["resourcequotas"])).is_empty());
    let namespaces = scene.admin.json(&["get", "namespaces"]);
    let is_new = |namespace: &serde_json::Value| namespace["metadata"]["name"] == "quota-dry-new";
    assert!(!items(&namespaces).iter().any(is_new));
    scene.gpuctl_with(&["create", "-f", "-"], &yaml(2)).ok();
    for place in ["client", "server"] {
        assert_eq!(rehearse("apply", place, 5), "updated");
        let dry_run = format!("--dry-run={place}");
        let delete = ["delete", "quota", "dry", dry_run.as_str()];
        let text = scene.gpuctl_anywhere(&delete).ok().out;
        let mark = format!("dry deleted ({place} dry run): it applied to ");
        assert!(text.starts_with(&mark), "{text}");
        let deleted = scene.gpuctl_anywhere(&[&delete[..], &["-o", "json"]].concat());
        assert_eq!(deleted.ok().json()["dryRun"], place);
        scene
            .gpuctl(&["delete", "quota", "absent", &dry_run])
            .exits(4);
    }
    let quota = scene.get(&["resourcequota", "dry"]);
    assert_eq!(quota["spec"]["hard"]["requests.nvidia.com/gpu"], "2");
    assert!(quota["metadata"]["deletionTimestamp"].is_null());
    scene
        .gpuctl_anywhere(&["delete", "quota", "dry", "--purge"])
        .ok();
}
