//! Tests `apply` and `diff` with fields that can change in place, fields that cannot, and fields
//! that other managers own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::support::{Run, Scene, cluster, items};

const JSON: [&str; 5] = ["apply", "-f", "-", "-o", "json"];

pub fn apply(scene: &Scene, yaml: &str) -> Run {
    scene.gpuctl_with(&JSON, yaml)
}

pub fn service(name: &str, replicas: u32, image: &str, more: &str) -> String {
    format!(
        "kind: compute\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: '{image}'}}\nresources: {{cpu: 100m}}\nservice: {{replicas: {replicas}, port: 80}}\n{more}"
    )
}

#[test]
fn apply_and_diff_report_each_changed_field_of_a_service() {
    let scene = Scene::new("applies");
    let first = service("web", 1, "nginx:1", "");
    assert_eq!(
        scene
            .gpuctl_with(&["diff", "-f", "-"], &first)
            .exits(11)
            .err,
        ""
    );
    assert_eq!(apply(&scene, &first).ok().json()["action"], "created");
    scene.until("web", "running", None);
    assert_eq!(apply(&scene, &first).ok().json()["action"], "unchanged");
    let none = scene.gpuctl_with(&["diff", "-f", "-"], &first).ok();
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", ""));
    let uid = scene.get(&["deployment", "web"])["metadata"]["uid"].clone();

    // A server-side dry run does not write anything.
    let second =
        service("web", 2, "nginx:2", "").replace("{name: web}", "{name: web, labels: {team: a}}");
    let tried = scene
        .gpuctl_with(
            &["apply", "-f", "-", "--dry-run=server", "-o", "json"],
            &second,
        )
        .ok()
        .json();
    assert_eq!(
        (&tried["action"], &tried["dryRun"]),
        (&json!("updated"), &json!(true))
    );
    let difference = scene
        .gpuctl_with(&["diff", "-f", "-"], &second)
        .exits(11)
        .out;
    for line in [
        "--- live/applies/deployment/web",
        "-  replicas: 1",
        "+  replicas: 2",
        "+        image: nginx:2",
    ] {
        assert!(
            difference.lines().any(|candidate| candidate == line),
            "{line}: {difference}"
        );
    }
    assert!(
        !difference.contains("revisionHistoryLimit: 1\n+") && !difference.contains("status:"),
        "{difference}"
    );
    // The changes to the user's file are shown before the changes to the objects.
    let first_lines: Vec<&str> = difference.lines().take(2).collect();
    assert_eq!(
        first_lines,
        [
            "--- submitted/applies/compute/web",
            "+++ file/applies/compute/web"
        ],
        "{difference}"
    );
    assert!(
        difference
            .contains("\n-service: {replicas: 1, port: 80}\n+service: {replicas: 2, port: 80}\n"),
        "{difference}"
    );
    let value = scene
        .gpuctl_with(&["diff", "-f", "-", "-o", "json"], &second)
        .exits(11)
        .json();
    let fields = items(&value)
        .iter()
        .find(|one| one["object"] == "deployment/web")
        .unwrap()["fields"]
        .clone();
    assert!(
        fields
            .as_array()
            .unwrap()
            .contains(&json!("spec.replicas: 1 → 2")),
        "{value:#}"
    );
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 1);

    let changed = apply(&scene, &second).ok().json();
    assert_eq!(changed["action"], "updated");
    let changes = changed["changes"].as_array().unwrap();
    assert!(
        changes.contains(&json!(
            "deployment/web spec.template.spec.containers.main.image: nginx:1 → nginx:2"
        )),
        "{changes:#?}"
    );
    let live = scene.get(&["deployment", "web"]);
    assert_eq!(
        (&live["metadata"]["uid"], &live["spec"]["replicas"]),
        (&uid, &json!(2))
    );
    assert_eq!(live["metadata"]["labels"]["team"], "a");
    let text = scene.gpuctl_with(&["apply", "-f", "-"], &first).ok().out;
    assert!(
        text.contains("compute/web updated in applies") && text.contains("spec.replicas: 2 → 1"),
        "{text}"
    );
    // Labels that the file no longer declares are removed.
    assert!(scene.get(&["deployment", "web"])["metadata"]["labels"]["team"].is_null());
}

#[test]
fn an_autoscaler_keeps_its_replicas_until_its_block_is_removed() {
    let scene = Scene::new("hpas");
    let scaled = service(
        "web",
        1,
        "nginx:1",
        "autoscaling: {enabled: true, minReplicas: 1, maxReplicas: 4, targetCPUUtilization: 50}\n",
    );
    apply(&scene, &scaled).ok();
    assert_eq!(apply(&scene, &scaled).ok().json()["action"], "unchanged");
    // Another user raises `minReplicas`, and the autoscaler scales to it.
    scene.admin.run(&[
        "patch",
        "hpa",
        "web",
        "-n",
        "hpas",
        "--type=merge",
        "-p",
        r#"{"spec":{"minReplicas":3}}"#,
    ]);
    scene.get_until(&["deployment", "web"], |live| live["spec"]["replicas"] == 3);
    // Another field manager now owns `minReplicas`.
    let conflict = apply(&scene, &scaled)
        .exits(1)
        .says("FieldConflict")
        .says("conflict with")
        .says(".spec.minReplicas");
    assert_eq!(conflict.out, "");
    scene
        .gpuctl_with(&["diff", "-f", "-"], &scaled)
        .exits(11)
        .says("use `apply --force-conflicts` to take over the field");
    let forced = scene.gpuctl_with(
        &["apply", "-f", "-", "--force-conflicts", "-o", "json"],
        &scaled.replace("nginx:1", "nginx:2"),
    );
    assert_eq!(forced.ok().json()["action"], "updated");
    let live = scene.get(&["deployment", "web"]);
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:2"
    );
    assert_eq!(
        live["spec"]["replicas"], 3,
        "the autoscaler owns the number of replicas"
    );
    assert_eq!(scene.get(&["hpa", "web"])["spec"]["minReplicas"], 1);
    // Removing the `autoscaling` block deletes the autoscaler, and `replicas` comes from the file
    // again.
    let plain = service("web", 2, "nginx:2", "");
    let difference = scene
        .gpuctl_with(&["diff", "-f", "-", "-o", "json"], &plain)
        .exits(11)
        .json();
    assert!(
        items(&difference)
            .iter()
            .any(|one| one["change"] == "removed"),
        "{difference:#}"
    );
    let run = apply(&scene, &plain);
    assert_eq!(run.ok().json()["action"], "updated");
    assert!(items(&scene.get(&["hpa"])).is_empty());
}

#[test]
fn an_autoscaler_created_by_another_tool_is_a_conflict() {
    let scene = Scene::new("theirhpa");
    let web = service("web", 1, "nginx:1", "");
    apply(&scene, &web).ok();
    scene.admin.run(&[
        "autoscale",
        "deployment",
        "web",
        "--min=3",
        "--max=5",
        "--cpu=50%",
        "-n",
        "theirhpa",
    ]);
    scene.get_until(&["deployment", "web"], |live| live["spec"]["replicas"] == 3);
    apply(&scene, &web.replace("nginx:1", "nginx:2"))
        .exits(1)
        .says("FieldConflict")
        .says(".spec.replicas");
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 3);
}

#[test]
fn nothing_is_deleted_when_the_new_version_would_be_refused() {
    let scene = Scene::with_nodes("refusals", 1);
    let first = scene.training("t", "");
    apply(&scene, &first).ok();
    scene.until("t", "running", None);
    let uid = scene.get(&["job", "t"])["metadata"]["uid"].clone();
    let refused = format!(
        "{}pod: {{priorityClassName: missing}}\n",
        first.replace("image: busybox", "image: 'busybox:2'")
    );
    scene
        .gpuctl_with(&["apply", "-f", "-", "--replace"], &refused)
        .exits(1)
        .says("priority class");
    assert_eq!(scene.get(&["job", "t"])["metadata"]["uid"], uid);
    // A service does not change, either.
    let web = service("web", 1, "nginx:1", "");
    apply(&scene, &web).ok();
    apply(
        &scene,
        &format!(
            "{}pod: {{priorityClassName: missing}}\n",
            web.replace("nginx:1", "nginx:2")
        ),
    )
    .exits(1);
    let live = scene.get(&["deployment", "web"]);
    assert_eq!(
        live["spec"]["template"]["spec"]["containers"][0]["image"],
        "nginx:1"
    );
}

#[test]
fn diff_and_apply_mask_secrets_however_they_are_quoted() {
    let scene = Scene::new("secretdiff");
    let with_password = |value: &str| {
        service("web", 0, "nginx:1", "").replace(
            "'nginx:1'}",
            &format!("'nginx:1', env: {{DB_PASSWORD: {value}}}}}"),
        )
    };
    let first = with_password("'it''s-s3cret'");
    let shown = scene.gpuctl_with(&["diff", "-f", "-"], &first).exits(11);
    assert!(
        !shown.out.contains("s3cret") && shown.out.contains("DB_PASSWORD"),
        "{}",
        shown.out
    );
    apply(&scene, &first).ok();
    scene.admin.run(&[
        "set",
        "env",
        "deployment/web",
        "OTHER_TOKEN=theirs3cret",
        "-n",
        "secretdiff",
    ]);
    let second = with_password("\"other-s3cret\"");
    for arguments in [
        &["diff", "-f", "-"][..],
        &["diff", "-f", "-", "-o", "json"],
        &["apply", "-f", "-"],
    ] {
        let run = scene.gpuctl_with(arguments, &second);
        assert!(
            !run.out.contains("s3cret") && run.out.contains("DB_PASSWORD"),
            "{arguments:?}: {}",
            run.out
        );
    }
}

#[test]
fn apply_keeps_jobs_paused_and_may_change_what_scale_wrote() {
    let scene = Scene::new("apply-paused");
    let web = service("web", 2, "nginx:1", "");
    apply(&scene, &web).ok();
    scene.gpuctl(&["pause", "job", "web"]).ok();
    let run = apply(&scene, &web.replace("nginx:1", "nginx:2"))
        .ok()
        .json();
    assert_eq!(run["action"], "updated");
    let live = scene.get(&["deployment", "web"]);
    assert_eq!(
        (
            &live["spec"]["replicas"],
            &live["metadata"]["annotations"]["gpuctl/replicas"]
        ),
        (&json!(0), &json!("2"))
    );
    scene.gpuctl(&["resume", "job", "web"]).ok();
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 2);
    // `gpuctl scale` and `gpuctl apply` share a field manager, so their changes never conflict.
    scene.gpuctl(&["scale", "web", "--replicas", "3"]).ok();
    apply(&scene, &web.replace("nginx:1", "nginx:2")).ok();
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 2);
    // A paused training stays paused.
    let training =
        "kind: training\nversion: v0.1\njob: {name: t}\nenvironment: {image: 'busybox:1'}\n";
    apply(&scene, training).ok();
    scene.gpuctl(&["pause", "job", "t"]).ok();
    let relabelled = training.replace("{name: t}", "{name: t, description: later}");
    assert_eq!(apply(&scene, &relabelled).ok().json()["action"], "updated");
    assert_eq!(scene.get(&["job", "t"])["spec"]["suspend"], true);
}

#[test]
fn a_training_is_replaced_only_with_the_replace_option() {
    let scene = Scene::with_nodes("replaces", 1);
    let first = scene.training("t", "storage: {workdirs: [{path: /out, size: 1Gi}]}");
    apply(&scene, &first).ok();
    scene.until("t", "running", None);
    let uid = scene.get(&["job", "t"])["metadata"]["uid"].clone();
    let second = first.replace("image: busybox", "image: 'busybox:2'");
    let refused = apply(&scene, &second)
        .exits(1)
        .says("Immutable")
        .says("busybox → busybox:2")
        .says("--replace");
    assert_eq!(refused.out, "");
    assert!(
        refused.err.contains("replacing it stops 1 pod on 1 GPU"),
        "{}",
        refused.err
    );
    scene
        .gpuctl_with(&["diff", "-f", "-"], &second)
        .exits(11)
        .says("cannot be changed in place");
    assert_eq!(scene.get(&["job", "t"])["metadata"]["uid"], uid);
    // A user who may delete a job but not create one must not lose the job.
    for (name, verbs, resources) in [
        (
            "keeps",
            "get,list,watch,patch,delete",
            "jobs.batch,pods,services,persistentvolumeclaims,configmaps",
        ),
        ("tries", "create", "pods"),
    ] {
        let (verbs, resources) = (format!("--verb={verbs}"), format!("--resource={resources}"));
        scene
            .admin
            .run(&["create", "role", name, &verbs, &resources, "-n", "replaces"]);
        let (role, user) = (
            format!("--role={name}"),
            format!("--user={}", Persona::Bob.user()),
        );
        scene.admin.run(&[
            "create",
            "rolebinding",
            name,
            &role,
            &user,
            "-n",
            "replaces",
        ]);
    }
    let bob = scene.seen_by(Persona::Bob);
    let forbidden = bob
        .gpuctl_with(&["apply", "-f", "-", "--replace"], &second)
        .exits(5);
    assert!(
        forbidden.err.contains("cannot create resource \"jobs\""),
        "{}",
        forbidden.err
    );
    assert_eq!(scene.get(&["job", "t"])["metadata"]["uid"], uid);
    let replaced = scene
        .gpuctl_with(&["apply", "-f", "-", "--replace", "-o", "json"], &second)
        .ok()
        .json();
    assert_eq!(replaced["action"], "replaced");
    assert_ne!(scene.get(&["job", "t"])["metadata"]["uid"], uid);
    assert_eq!(items(&scene.get(&["pvc"])).len(), 1, "its files stay");
    // A job of another kind with the same name.
    let other = service("t", 0, "nginx:1", "");
    apply(&scene, &other)
        .exits(1)
        .says("KindConflict")
        .says("`t` exists with kind training");
    // If the server refuses one of the new objects, the old job stays.
    let before = scene.get(&["job", "t"])["metadata"]["uid"].clone();
    let shrunk = format!("{other}storage: {{workdirs: [{{path: /out, size: 1Mi}}]}}\n");
    scene
        .gpuctl_with(&["apply", "-f", "-", "--replace"], &shrunk)
        .exits(1)
        .says("claims cannot shrink");
    assert_eq!(scene.get(&["job", "t"])["metadata"]["uid"], before);
    scene
        .gpuctl_with(&["apply", "-f", "-", "--replace"], &other)
        .ok();
    scene.get(&["deployment", "t"]);
    // Objects that gpuctl did not create are not changed.
    scene.admin.run(&[
        "create",
        "deployment",
        "theirs",
        "--image=x",
        "-n",
        "replaces",
    ]);
    apply(&scene, &service("theirs", 1, "nginx:1", ""))
        .exits(1)
        .says("AlreadyExists")
        .says("not created by gpuctl");
    let images = scene.get(&["deployment", "theirs"])["spec"]["template"]["spec"]["containers"][0]
        ["image"]
        .clone();
    assert_eq!(images, "x");
}

/// A child process that is killed when the test ends.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An interrupted run loses at most one job, because each job is created again before the next one
/// is deleted.
#[test]
fn trainings_are_replaced_one_at_a_time() {
    const JOBS: usize = 5;
    let scene = Scene::with_nodes("replaces-many", 1);
    let yaml = |image: &str| {
        let one = |index: usize| {
            scene
                .training(&format!("t{index}"), "")
                .replace("image: busybox", &format!("image: '{image}'"))
        };
        (0..JOBS).map(one).collect::<Vec<_>>().join("---\n")
    };
    apply(&scene, &yaml("busybox:1")).ok();
    let watch = Command::new(cluster().binary("kubectl"))
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .args([
            "get",
            "jobs.batch",
            "-n",
            "replaces-many",
            "--watch",
            "--output-watch-events",
            "--no-headers",
        ])
        .args(["--request-timeout", "120s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut watch = Watch(watch.unwrap());
    let lines = BufReader::new(watch.0.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    // The watch first lists the existing jobs.
    let mut changes = lines.filter_map(|line| {
        let mut words = line.split_whitespace().map(ToOwned::to_owned);
        let (event, name) = (words.next()?, words.next()?);
        (event != "MODIFIED").then_some((event, name))
    });
    assert_eq!(
        changes
            .by_ref()
            .take(JOBS)
            .filter(|(event, _)| event == "ADDED")
            .count(),
        JOBS
    );
    scene
        .gpuctl_with(&["apply", "-f", "-", "--replace"], &yaml("busybox:2"))
        .ok();
    let seen: Vec<(String, String)> = changes.take(2 * JOBS).collect();
    assert_eq!(seen.len(), 2 * JOBS, "{seen:#?}");
    for pair in seen.chunks(2) {
        let [(first, deleted), (second, created)] = pair else {
            panic!("{seen:#?}")
        };
        assert_eq!(
            (first.as_str(), second.as_str(), deleted),
            ("DELETED", "ADDED", created),
            "{seen:#?}"
        );
    }
}

#[test]
fn apply_keeps_the_user_who_submitted_the_job() {
    let scene = Scene::with_nodes("users", 1);
    scene.allow_edit(Persona::Alice);
    let web = service("web", 1, "nginx:1", "");
    apply(&scene.seen_by(Persona::Alice), &web).ok();
    let user = |live: &Value| live["metadata"]["annotations"]["gpuctl/user"].clone();
    let before = user(&scene.get(&["deployment", "web"]));
    assert_eq!(apply(&scene, &web).ok().json()["action"], "unchanged");
    apply(&scene, &web.replace("nginx:1", "nginx:2")).ok();
    assert_eq!(user(&scene.get(&["deployment", "web"])), before);
    // Without permission to list nodes, gpuctl renders different objects. `apply` does not treat
    // that as a change.
    let gpus = scene.service("gpus", "serve:1", 1, "");
    apply(&scene, &gpus).ok();
    let again = apply(&scene.seen_by(Persona::Alice), &gpus).ok().json();
    assert_eq!(again["action"], "unchanged", "{again:#}");
    // A priority class that the user may not create does not count as a change, either.
    let low = service("low", 1, "nginx:1", "").replace("{name: low}", "{name: low, priority: low}");
    let alice = scene.seen_by(Persona::Alice);
    apply(&alice, &low).ok();
    assert_eq!(apply(&alice, &low).ok().json()["action"], "unchanged");
    assert_eq!(alice.gpuctl_with(&["diff", "-f", "-"], &low).ok().out, "");
}

#[test]
fn one_invalid_document_prevents_all_writes() {
    let scene = Scene::new("together");
    let bad = "kind: training\nversion: v0.1\njob: {name: b}\nenvironment: {image: x}\nresources: {pool: nowhere, gpu: 1}\n";
    let yaml = format!("{}---\n{bad}", service("a", 0, "nginx:1", ""));
    scene.gpuctl_with(&["create", "-f", "-"], &yaml).exits(3);
    assert!(items(&scene.get(&["deployments"])).is_empty());
    // Only the server knows that the PriorityClass does not exist. gpuctl checks this before the
    // first write.
    let refused = "kind: compute\nversion: v0.1\njob: {name: b}\nenvironment: {image: x}\nservice: {port: 80}\npod: {priorityClassName: missing}\n";
    let yaml = format!(
        "{}---\n{refused}---\n{}",
        service("a", 0, "nginx:1", ""),
        service("c", 0, "nginx:1", "")
    );
    let run = scene
        .gpuctl_with(&["create", "-f", "-", "-o", "json"], &yaml)
        .exits(1)
        .json();
    let names = |list: &Value| {
        list.as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&run["success"]), names(&run["failed"])),
        (vec![], vec!["b".to_owned()])
    );
    assert_eq!(names(&run["notTried"]), ["a", "c"]);
    assert!(
        items(&scene.get(&[
            "deployments,services",
            "-l",
            "app.kubernetes.io/managed-by=gpuctl"
        ]))
        .is_empty()
    );
}

#[test]
fn pools_and_quotas_can_be_applied() {
    let scene = Scene::with_nodes("apppool", 1);
    let pool = "kind: pool\nversion: v0.1\npool: {name: app-extra, description: one}\n";
    assert!(
        scene
            .gpuctl_with(&["diff", "-f", "-"], pool)
            .exits(11)
            .out
            .contains("+description: one")
    );
    scene.gpuctl_with(&["apply", "-f", "-"], pool).ok();
    assert!(
        scene
            .gpuctl_with(&["apply", "-f", "-"], pool)
            .ok()
            .out
            .contains("matches the file")
    );
    scene
        .gpuctl_with(&["apply", "-f", "-"], &pool.replace("one", "two"))
        .ok();
    assert_eq!(
        scene
            .gpuctl(&["describe", "pool", "app-extra", "-o", "json"])
            .ok()
            .json()["description"],
        "two"
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], pool)
        .exits(1)
        .says("already exists");
    scene.gpuctl(&["delete", "pool", "app-extra"]).ok();
    // A node is a member only with the pool's labels; `diff` shows the missing ones.
    let model = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
    cluster().add_nodes(&[gpuctl_sandbox::nodes::node(
        "apppool-spare",
        Some(model),
        &[("nvidia.com/gpu", 8)],
    )]);
    let typed = "kind: pool\nversion: v0.1\npool: {name: app-typed}\nnodes: {apppool-spare: {gpu-type: a100-80g}}\n";
    scene.gpuctl_with(&["apply", "-f", "-"], typed).ok();
    assert_eq!(scene.gpuctl_with(&["diff", "-f", "-"], typed).ok().out, "");
    scene.admin.run(&[
        "label",
        "node",
        "apppool-spare",
        "gpuctl/pool-",
        "nvidia.com/gpu-type-",
    ]);
    let difference = scene.gpuctl_with(&["diff", "-f", "-"], typed).exits(11).out;
    assert!(
        difference.contains("+    gpuctl/pool: app-typed")
            && difference.contains("+    nvidia.com/gpu-type: a100-80g"),
        "{difference}"
    );
    scene
        .gpuctl_with(
            &["diff", "-f", "-"],
            &typed.replace("apppool-spare", "apppool-none"),
        )
        .exits(11)
        .says("node apppool-none does not exist");
    scene.gpuctl_with(&["apply", "-f", "-"], typed).ok();
    assert_eq!(scene.gpuctl_with(&["diff", "-f", "-"], typed).ok().out, "");
    scene.gpuctl(&["delete", "pool", "app-typed"]).ok();
    let quota =
        "kind: quota\nversion: v0.1\nquota: {name: app-quota}\nnamespace: {apppool: {cpu: 10}}\n";
    scene.gpuctl_with(&["apply", "-f", "-"], quota).ok();
    assert_eq!(scene.gpuctl_with(&["diff", "-f", "-"], quota).ok().out, "");
    let more = quota.replace("10", "12");
    assert!(
        scene
            .gpuctl_with(&["diff", "-f", "-"], &more)
            .exits(11)
            .out
            .contains("requests.cpu")
    );
    scene.gpuctl_with(&["apply", "-f", "-"], &more).ok();
    let hard = |space: &str| {
        let quotas = items(&scene.admin.json(&["get", "resourcequota", "-n", space]));
        quotas.first().map(|one| one["spec"]["hard"].clone())
    };
    assert_eq!(hard("apppool").unwrap()["requests.cpu"], "12");
    // A LimitRange that the quota no longer needs is pruned. A namespace that the file no longer
    // names keeps its quota, because another file with the same quota name may have created it.
    let wider = format!(
        "{}\n",
        more.trim_end()
            .replace("{cpu: 12}}", "{cpu: 12}, apppool-two: {cpu: 1}}")
    );
    scene.gpuctl_with(&["apply", "-f", "-"], &wider).ok();
    assert_eq!(hard("apppool-two").unwrap()["requests.cpu"], "1");
    let fewer = quota.replace("{cpu: 10}", "{pods: 7}");
    let difference = scene
        .gpuctl_with(&["diff", "-f", "-"], &fewer)
        .exits(11)
        .out;
    assert!(
        difference.contains("\n-limitrange/app-quota")
            && !difference.contains("\n-resourcequota/app-quota"),
        "{difference}"
    );
    scene
        .gpuctl_with(&["apply", "-f", "-", "--dry-run=server"], &fewer)
        .ok()
        .says("`app-quota` also applies in apppool-two");
    assert_eq!(items(&scene.get(&["limitrange"])).len(), 1);
    scene
        .gpuctl_with(&["apply", "-f", "-"], &fewer)
        .ok()
        .says("`gpuctl delete quota app-quota -n apppool-two` removes it there");
    assert_eq!(
        (
            &hard("apppool-two").unwrap()["requests.cpu"],
            &hard("apppool").unwrap()
        ),
        (&json!("1"), &json!({"pods": "7"}))
    );
    assert!(items(&scene.get(&["limitrange"])).is_empty());
    scene
        .gpuctl_anywhere(&["delete", "quota", "app-quota", "-n", "apppool-two"])
        .ok();
    assert_eq!(hard("apppool-two"), None);
    let again = scene.gpuctl_with(&["apply", "-f", "-"], &fewer).ok();
    assert!(
        again.out.contains("matches the file") && again.err.is_empty(),
        "{}{}",
        again.out,
        again.err
    );
    // `apply` changes fields of another manager only with `--force-conflicts`.
    let theirs = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "app-quota", "namespace": "apppool"},
        "spec": {"hard": {"pods": "9"}}});
    scene.admin.apply(&theirs);
    scene
        .gpuctl_with(&["diff", "-f", "-"], &fewer)
        .exits(11)
        .says("use `apply --force-conflicts` to take over the field");
    scene
        .gpuctl_with(&["apply", "-f", "-"], &fewer)
        .exits(1)
        .says("another manager set these fields")
        .says(".spec.hard.pods");
    scene
        .gpuctl_with(&["apply", "-f", "-", "--force-conflicts"], &fewer)
        .ok();
    assert_eq!(hard("apppool").unwrap(), json!({"pods": "7"}));
}

/// Applies unchanged files to objects created by version 0.1.0 (November 2026), which did not set
/// `/dev/shm` for single-GPU jobs, an fsGroup for claims, or cache folders. Newer defaults alone
/// must not restart a job.
#[test]
fn newer_defaults_restart_nothing_until_the_file_changes() {
    let scene = Scene::with_nodes("earlier", 1);
    let earlier = [
        (
            "deployment",
            "web",
            include_str!("earlier/service.json"),
            include_str!("earlier/service.yaml"),
        ),
        (
            "statefulset",
            "book",
            include_str!("earlier/notebook.json"),
            include_str!("earlier/notebook.yaml"),
        ),
        (
            "job",
            "fit",
            include_str!("earlier/training.json"),
            include_str!("earlier/training.yaml"),
        ),
    ];
    let template = |kind: &str, name: &str| scene.get(&[kind, name])["spec"]["template"].clone();
    for (kind, name, objects, yaml) in earlier {
        scene.admin.run_with(
            &[
                "apply",
                "--server-side",
                "--field-manager=gpuctl",
                "-f",
                "-",
            ],
            objects,
        );
        let before = template(kind, name);
        assert!(!before.to_string().contains("/dev/shm"), "{before:#}");
        let first = apply(&scene, yaml).ok();
        assert_eq!(
            first.err.contains("is unchanged"),
            kind != "job",
            "{}",
            first.err
        );
        assert_eq!(apply(&scene, yaml).ok().json()["action"], "unchanged");
        scene.gpuctl_with(&["diff", "-f", "-"], yaml).ok();
        assert_eq!(template(kind, name), before);
    }
    // A service gets the new defaults when it next changes, or with `--replace`.
    let (_, _, _, web) = earlier[0];
    apply(&scene, &web.replace("nginx:1", "nginx:2")).ok();
    let after = template("deployment", "web").to_string();
    assert!(
        after.contains("/dev/shm") && after.contains("HF_HOME"),
        "{after}"
    );
    let (_, _, _, book) = earlier[1];
    let replaced = scene
        .gpuctl_with(&["apply", "-f", "-", "--replace", "-o", "json"], book)
        .ok();
    assert_eq!(replaced.json()["action"], "updated", "{}", replaced.err);
    assert!(
        template("statefulset", "book")
            .to_string()
            .contains("/dev/shm")
    );
    // A training is not submitted again just because the defaults are newer.
    let (_, _, _, fit) = earlier[2];
    assert_eq!(
        scene
            .gpuctl_with(&["apply", "-f", "-", "--replace", "-o", "json"], fit)
            .ok()
            .json()["action"],
        "unchanged"
    );
}

/// Earlier versions restarted each rank separately, and later versions may have a different
/// supervisor. A running job keeps the supervisor that it started with.
#[test]
fn ranks_keep_their_supervisor_until_the_file_changes() {
    let scene = Scene::with_nodes("apply-ranks", 2);
    let yaml = "kind: training\nversion: v0.1\njob: {name: pair}\nenvironment: {image: i, command: [train]}\nresources: {gpu: 1, node_count: 2}\n";
    let programs = || {
        scene.get(&["configmaps", "-l", "gpuctl/job=pair"])["items"]
            .as_array()
            .unwrap()
            .clone()
    };
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &yaml.replace("name: pair", "name: pair, restart: rank"),
        )
        .ok();
    assert!(programs().is_empty());
    scene.admin.run(&[
        "annotate",
        "job",
        "pair",
        "-n",
        scene.name,
        "--overwrite",
        "--field-manager=gpuctl",
        &format!("gpuctl/source={yaml}"),
    ]);
    let first = apply(&scene, yaml).ok();
    assert_eq!(
        first.json()["action"],
        "unchanged",
        "{} {}",
        first.out,
        first.err
    );
    assert!(programs().is_empty());
    // After the job is submitted again, its ranks restart together.
    apply(&scene, &yaml.replace("image: i,", "image: j,")).says("--replace");
    scene
        .gpuctl_with(
            &["apply", "-f", "-", "--replace"],
            &yaml.replace("image: i,", "image: j,"),
        )
        .ok();
    assert_eq!(programs().len(), 1);
    // Earlier versions created a mutable ConfigMap for the supervisor and did not record its hash.
    let mut program = programs()[0].clone();
    let metadata = program["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| {
        ["name", "namespace", "labels", "ownerReferences"].contains(&key.as_str())
    });
    program["immutable"] = false.into();
    program["data"] = json!({"supervisor.py": "of another version"});
    scene
        .admin
        .run(&["delete", "configmap", "pair-supervisor", "-n", scene.name]);
    scene.admin.apply(&program);
    let hash = "gpuctl/supervisor-sha256-";
    scene.admin.run(&[
        "annotate",
        "job",
        "pair",
        "-n",
        scene.name,
        "--field-manager=gpuctl",
        hash,
    ]);
    assert_eq!(
        apply(&scene, &yaml.replace("image: i,", "image: j,"))
            .ok()
            .json()["action"],
        "unchanged"
    );
    assert_eq!(programs()[0]["data"]["supervisor.py"], "of another version");
}
