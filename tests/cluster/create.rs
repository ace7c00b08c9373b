//! Tests the checks that `create` makes before the first write, and its messages.

use gpuctl_sandbox::Persona;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::json;

use crate::support::{A100, GPU, Scene, cluster, file, finish, items};

fn nothing_is_left(scene: &Scene) {
    for kind in [
        "jobs",
        "services",
        "configmaps",
        "persistentvolumeclaims",
        "pods",
    ] {
        let left = items(&scene.get(&[kind, "-l", "app.kubernetes.io/managed-by=gpuctl"]));
        assert!(left.is_empty(), "{kind}: {left:#?}");
    }
}

#[test]
fn an_existing_name_is_refused_unless_a_name_is_generated() {
    let scene = Scene::with_nodes("exists", 1);
    scene.create("a", "");
    let again = scene
        .gpuctl_with(&["create", "-f", "-"], &scene.training("a", ""))
        .exits(1);
    assert!(again.out.is_empty());
    assert_eq!(
        again.err,
        "error: job `a` already exists in namespace `exists`\n\nhint: use `gpuctl apply` to update it, `gpuctl restart exists/a` to run it again, or `--generate-name` to create another\n"
    );
    let other = scene
        .gpuctl_with(
            &["create", "-f", "-", "--generate-name", "-o", "json"],
            &scene.training("a", ""),
        )
        .ok()
        .json();
    let id = other["jobId"].as_str().unwrap();
    assert_eq!(other["name"], "a");
    assert!(id.starts_with("a-") && id.len() == 7, "{id}");
    assert_eq!(scene.job(id)["name"], "a");
}

#[test]
fn a_foreign_object_of_the_same_name_is_not_touched() {
    let scene = Scene::with_nodes("foreign", 1);
    scene.admin.run(&[
        "create",
        "service",
        "clusterip",
        "web",
        "--tcp=80",
        "-n",
        "foreign",
    ]);
    let before = scene.get(&["service", "web"]);
    scene
        .gpuctl_with(&["create", "-f", "-"], &scene.training("web", ""))
        .exits(1)
        .says("service `web` already exists")
        .says("it was not created by gpuctl");
    assert_eq!(scene.get(&["service", "web"]), before);
    nothing_is_left(&scene);
}

#[test]
fn a_quota_refuses_before_anything_is_written() {
    let scene = Scene::with_nodes("quota", 1);
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "quota"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}));
    scene.get_until(&["resourcequota", "q"], |quota| {
        quota["status"]["hard"].is_object()
    });
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.training("a", "resources: {pool: POOL, gpu: 4}"),
        )
        .exits(1)
        .says("quota `q` allows at most 2 of requests.nvidia.com/gpu, but the job needs 4")
        .says("hint: request less");
    nothing_is_left(&scene);
}

#[test]
fn pod_security_refuses_before_anything_is_written() {
    let scene = Scene::with_nodes("podsec", 1);
    scene.admin.run(&[
        "label",
        "namespace",
        "podsec",
        "pod-security.kubernetes.io/enforce=baseline",
    ]);
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-", "-o", "json"],
            &scene.training("a", "storage: {workdirs: [/data]}"),
        )
        .exits(1);
    assert!(run.out.is_empty());
    let error: serde_json::Value = serde_json::from_str(run.err.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"], "PodSecurity", "{error}");
    nothing_is_left(&scene);
}

#[test]
fn a_missing_namespace_is_not_found() {
    let scene = Scene::with_nodes("nowhere", 1);
    let yaml = scene.training("a", "");
    let run = scene
        .seen_by(Persona::Admin)
        .gpuctl_anywhere(&["get", "jobs", "-n", "does-not-exist", "-o", "json"])
        .exits(4)
        .says("namespace `does-not-exist` does not exist");
    assert_eq!(run.out, "");
    let path = file("nowhere.yaml", &yaml);
    scene
        .gpuctl_anywhere(&[
            "create",
            "-n",
            "does-not-exist",
            "-f",
            path.to_str().unwrap(),
        ])
        .exits(4)
        .says("namespaces \"does-not-exist\" not found")
        .says("hint: create the namespace `does-not-exist`");
}

#[test]
fn an_unknown_pool_or_type_points_at_its_line_and_lists_alternatives() {
    let scene = Scene::with_nodes("wrong", 1);
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.training("a", "resources:\n  pool: wrongg\n  gpu: 1"),
        )
        .exits(3);
    assert!(
        run.err.contains("stdin:6:9: there is no pool `wrongg`"),
        "{}",
        run.err
    );
    assert!(run.err.contains("did you mean `wrong`?"), "{}", run.err);
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.training("a", "resources:\n  pool: POOL\n  gpu: 1\n  gpu-type: h100"),
        )
        .exits(3);
    assert!(
        run.err
            .contains("stdin:8:13: no node in pool `wrong` has GPUs of type `h100`"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("in pool `wrong`: a100-80g (1 node)"),
        "{}",
        run.err
    );
}

#[test]
fn a_type_that_an_autoscaler_may_provide_is_a_warning() {
    let scene = Scene::new("elastic");
    let mut elastic = in_pool(node("elastic-0", Some(A100), &[(GPU, 8)]), "elastic");
    elastic["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("gpu");
    cluster().add_nodes(&[elastic]);
    scene
        .create("a", "resources: {pool: POOL, gpu: 1, gpu-type: h100-80g}")
        .says("no node has h100-80g yet");
    scene.until("a", "pending", Some("Unschedulable"));
    scene.gpuctl(&["delete", "job", "a"]).ok();
    cluster()
        .kubectl(Persona::Admin)
        .run(&["delete", "node", "elastic-0"]);
}

#[test]
fn each_vendor_has_its_own_resource_names() {
    let scene = Scene::new("vendors");
    let amd = in_pool(
        node(
            "vendors-amd",
            Some(("amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")),
            &[("amd.com/gpu", 8)],
        ),
        "vendors",
    );
    let mig = in_pool(
        node(
            "vendors-mig",
            Some(A100),
            &[("nvidia.com/mig-1g.10gb", 4), ("nvidia.com/mig-3g.40gb", 1)],
        ),
        "vendors-mig",
    );
    let mut hami = in_pool(
        node("vendors-hami", Some(A100), &[(GPU, 80)]),
        "vendors-hami",
    );
    hami["metadata"]["annotations"] =
        json!({"hami.io/node-nvidia-register": "GPU-1,10,81920,100,NVIDIA-A100,0,true:"});
    let aliyun = in_pool(
        node("vendors-ali", Some(A100), &[("aliyun.com/gpu-mem", 80)]),
        "vendors-ali",
    );
    let plain = in_pool(
        node("vendors-whole", Some(A100), &[(GPU, 8)]),
        "vendors-whole",
    );
    cluster().add_nodes(&[amd, mig, hami, aliyun, plain]);
    let limits = |name: &str, resources: &str| {
        let dry = scene
            .gpuctl_with(
                &["create", "-f", "-", "--dry-run=client", "-o", "json"],
                &scene.training(name, resources),
            )
            .ok();
        let job = items(&dry.json()).pop().unwrap();
        (
            job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"].clone(),
            dry.err,
        )
    };
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.training("x", "resources: {pool: vendors-mig, gpu: 1}"),
        )
        .exits(3)
        .says("offer only partial GPUs: 1g.10gb, 3g.40gb")
        .says("`gpu_share: 10Gi`");
    assert_eq!(
        limits("a", "resources: {pool: vendors, gpu: 8, gpu-type: mi300x}").0,
        json!({"amd.com/gpu": "8"})
    );
    assert_eq!(
        limits(
            "b",
            "resources: {pool: vendors-mig, gpu: 1, gpu_share: 10Gi}"
        )
        .0,
        json!({"nvidia.com/mig-1g.10gb": "1"})
    );
    assert_eq!(
        limits(
            "c",
            "resources: {pool: vendors-mig, gpu: 1, gpu_share: 20Gi}"
        )
        .0,
        json!({"nvidia.com/mig-3g.40gb": "1"})
    );
    assert_eq!(
        limits(
            "d",
            "resources: {pool: vendors-hami, gpu: 1, gpu_share: 2Gi}"
        )
        .0,
        json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2048"})
    );
    assert_eq!(
        limits(
            "e",
            "resources: {pool: vendors-hami, gpu: 1, gpu_share: 0.5}"
        )
        .0,
        json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"})
    );
    assert_eq!(
        limits(
            "f",
            "resources: {pool: vendors-ali, gpu: 1, gpu_share: 12Gi}"
        )
        .0,
        json!({"aliyun.com/gpu-mem": "12"})
    );
    let (granted, warning) = limits(
        "g",
        "resources: {pool: vendors-whole, gpu: 2, gpu_share: 2Gi}",
    );
    assert_eq!(granted, json!({"nvidia.com/gpu": "2"}));
    assert!(
        warning.contains("gpu_share: 2Gi has no effect on this cluster"),
        "{warning}"
    );
    let (granted, warning) = limits(
        "h",
        "resources: {pool: vendors-whole, gpu: 2, gpu_share: 1.0}",
    );
    assert_eq!(
        (granted, warning.as_str()),
        (json!({"nvidia.com/gpu": "2"}), "")
    );
    // Checks that the AMD job actually starts.
    scene.create("amd", "resources: {pool: POOL, gpu: 8}");
    scene.until("amd", "running", None);
}

#[test]
fn a_queue_must_exist_in_a_queueing_system() {
    let scene = Scene::with_nodes("queue", 1);
    let yaml = scene.training("a", "job: {name: NAME, queue: team}");
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .exits(3)
        .says("this cluster has no queueing system");
    let service = scene
        .service("web", "vllm", 1, "")
        .replace("name: web", "name: web, queue: team");
    let notebook =
        "kind: notebook\nversion: v0.1\njob: {name: lab, queue: team}\nenvironment: {image: i}\n";
    for other in [service.as_str(), notebook] {
        scene
            .gpuctl_with(&["create", "-f", "-"], other)
            .exits(3)
            .says("this cluster has no queueing system");
    }
    cluster().kubectl(Persona::Admin).apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "localqueues.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"}},
        "spec": {"group": "kueue.x-k8s.io", "scope": "Namespaced", "names": {"plural": "localqueues", "kind": "LocalQueue"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    }));
    cluster().kubectl(Persona::Admin).run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/localqueues.kueue.x-k8s.io",
    ]);
    // A job whose queue does not exist would wait forever.
    let missing = "queue `team` does not exist in namespace `queue`; there are none";
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .exits(4)
        .says(missing);
    scene.admin.apply(
        &json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": "team", "namespace": "queue"}}),
    );
    let misspelt = yaml.replace("queue: team", "queue: teem");
    scene
        .gpuctl_with(&["create", "-f", "-"], &misspelt)
        .exits(4)
        .says("; Kueue has team");
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--dry-run=server", "--allow-pending"],
            &misspelt,
        )
        .ok()
        .says("warning: queue `teem`");
    let other = yaml.replace("queue: team", "queue: team, queue_system: volcano");
    scene
        .gpuctl_with(&["create", "-f", "-"], &other)
        .exits(3)
        .says("selects Volcano, which is not installed on this cluster");
    scene.gpuctl_with(&["create", "-f", "-"], &yaml).ok();
    assert_eq!(
        scene.get(&["job", "a"])["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
        "team"
    );
    assert_eq!(scene.job("a")["queue"], "team");
    scene.gpuctl_with(&["create", "-f", "-"], &service).ok();
    assert_eq!(
        scene.get(&["deployment", "web"])["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
        "team"
    );
    // Kueue suspends a job until it admits it, so the job is pending and not paused.
    scene.admin.run(&[
        "patch",
        "job",
        "a",
        "-n",
        "queue",
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    scene.until("a", "pending", Some("Queued"));
    // If the job has no Workload, pausing suspends the job and marks it. If it has one, pausing
    // sets `spec.active` of the Workload, which is Kueue's own switch.
    scene.gpuctl(&["pause", "job", "a"]).ok();
    scene.until("a", "paused", None);
    scene.gpuctl(&["resume", "job", "a"]).ok();
    scene.until("a", "running", None);
    assert_eq!(
        scene.get(&["job", "a"])["metadata"]["annotations"]["gpuctl/paused"],
        json!(null)
    );
    let active = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"active": {"type": "boolean"}}}}});
    scene.admin.apply(&json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "workloads.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"}},
        "spec": {"group": "kueue.x-k8s.io", "scope": "Namespaced", "names": {"plural": "workloads", "kind": "Workload"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": active}}]},
    }));
    scene.admin.run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/workloads.kueue.x-k8s.io",
    ]);
    let uid = scene.get(&["job", "a"])["metadata"]["uid"].clone();
    scene.admin.apply(&json!({
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": "job-a-1f2e3", "namespace": "queue",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": uid}]},
        "spec": {"active": true},
    }));
    let paused = scene.gpuctl(&["pause", "job", "a"]).ok().out;
    assert_eq!(
        paused,
        "a: paused; 1 GPU becomes free; on resume, the command restarts and continues only if it loads a checkpoint\n"
    );
    assert_eq!(
        scene.get(&["workload", "job-a-1f2e3"])["spec"]["active"],
        false
    );
    assert_eq!(
        scene.get(&["job", "a"])["spec"]["suspend"],
        false,
        "only Kueue changes `suspend`"
    );
    scene.admin.run(&[
        "patch",
        "job",
        "a",
        "-n",
        "queue",
        "--type=merge",
        "-p",
        r#"{"spec":{"suspend":true}}"#,
    ]);
    scene.until("a", "paused", None);
    scene
        .gpuctl(&["resume", "job", "a"])
        .ok()
        .out
        .contains("when its queue admits it")
        .then_some(())
        .unwrap();
    assert_eq!(
        scene.get(&["workload", "job-a-1f2e3"])["spec"]["active"],
        true
    );
    scene.until("a", "pending", Some("Queued"));
    check_queues_of_volcano_and_kueue(&scene);
}

/// Kueue and Volcano both have queues here, and one name exists in both.
fn check_queues_of_volcano_and_kueue(scene: &Scene) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = |plural: &str, kind: &str, scope: &str| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.scheduling.volcano.sh")},
            "spec": {"group": "scheduling.volcano.sh", "scope": scope, "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}]},
        })
    };
    let (queues, groups) = (
        crd("queues", "Queue", "Cluster"),
        crd("podgroups", "PodGroup", "Namespaced"),
    );
    scene
        .admin
        .apply(&json!({"apiVersion": "v1", "kind": "List", "items": [queues, groups]}));
    scene.admin.run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/queues.scheduling.volcano.sh",
    ]);
    let api = "scheduling.volcano.sh/v1beta1";
    let queue = |name: &str| json!({"apiVersion": api, "kind": "Queue", "metadata": {"name": name}, "spec": {"capability": {"nvidia.com/gpu": 16}}});
    let group = json!({"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "g", "namespace": "queue"},
        "spec": {"queue": "batch"}, "status": {"phase": "Pending"}});
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [queue("team"), queue("batch"), group]}));
    let training = |more: &str| scene.training("v", &format!("job: {{name: NAME{more}}}"));
    let dry = |yaml: &str| {
        scene
            .gpuctl_with(
                &["create", "-f", "-", "--dry-run=client", "-o", "yaml"],
                yaml,
            )
            .ok()
            .out
    };
    scene
        .gpuctl_with(&["create", "-f", "-"], &training(", queue: team"))
        .exits(3)
        .says("queue `team` exists in both Kueue and Volcano");
    assert!(
        dry(&training(", queue: team, queue_system: kueue"))
            .contains("kueue.x-k8s.io/queue-name: team")
    );
    let shown = dry(&training(", queue: batch"));
    assert_eq!(
        shown
            .matches("scheduling.volcano.sh/queue-name: batch")
            .count(),
        2,
        "on the job and on its pods: {shown}"
    );
    assert!(shown.contains("schedulerName: volcano"), "{shown}");
    let two =
        scene.training("v", "job: {name: NAME, queue: batch, gang: native}\nresources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.gpuctl_with(&["create", "-f", "-"], &two).exits(3);
    let list = scene.gpuctl(&["get", "queues", "-o", "json"]).ok().json();
    let listed: Vec<String> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}/{}/{}", one["system"], one["name"], one["jobsWaiting"]))
        .collect();
    assert_eq!(
        listed,
        [
            r#""volcano"/"batch"/1"#,
            r#""volcano"/"team"/0"#,
            r#""kueue"/"team"/null"#
        ],
        "{list:#}"
    );
    scene
        .gpuctl(&["describe", "queue", "team"])
        .exits(2)
        .says("gpuctl describe queue queue/team");
    let described = scene.gpuctl(&["describe", "queue", "queue/team"]).ok().out;
    assert!(
        described.starts_with("queue/team   Kueue") && described.contains("\na "),
        "{described}"
    );
    scene
        .gpuctl(&["describe", "queue", "nope"])
        .exits(4)
        .says("there are batch, team, queue/team");
    // A user who may read only Kueue's queues gets a list of those and a warning.
    let user = format!("--user={}", Persona::Grace.user());
    scene.admin.run(&[
        "create",
        "role",
        "queues",
        "-n",
        "queue",
        "--verb=list",
        "--resource=localqueues.kueue.x-k8s.io",
    ]);
    scene.admin.run(&[
        "create",
        "rolebinding",
        "queues",
        "-n",
        "queue",
        "--role=queues",
        &user,
    ]);
    let seen = scene
        .seen_by(Persona::Grace)
        .gpuctl(&["get", "queues", "-o", "name"])
        .ok()
        .says("you are not allowed to list Volcano queues");
    assert_eq!(seen.out, "queue/team\n");
    scene.admin.run(&[
        "delete",
        "crd",
        "queues.scheduling.volcano.sh",
        "podgroups.scheduling.volcano.sh",
    ]);
}

#[test]
fn wait_ends_when_the_job_runs_completes_or_times_out() {
    let scene = Scene::with_nodes("waits", 1);
    let run = scene
        .gpuctl_with(
            &[
                "create",
                "-f",
                "-",
                "--wait",
                "--timeout",
                "1m",
                "-o",
                "json",
            ],
            &scene.training("a", ""),
        )
        .ok();
    assert_eq!(run.json()["status"], "running");
    let short = scene.training("b", "environment: {image: busybox, env: {SIM_SECONDS: 1}}");
    let run = scene
        .gpuctl_with(
            &[
                "create",
                "-f",
                "-",
                "--wait=complete",
                "--timeout",
                "1m",
                "-o",
                "json",
            ],
            &short,
        )
        .ok();
    assert_eq!(run.json()["status"], "succeeded");
    let failing =
        scene.training("c", "job: {name: NAME, retries: 0}\nenvironment: {image: busybox, env: {SIM_SECONDS: 1, SIM_EXIT: 3}}");
    scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait=complete", "--timeout", "1m"],
            &failing,
        )
        .exits(10)
        .says("rank 0 exited with code 3");
    let large = scene.training("d", "resources: {pool: POOL, gpu: 9}");
    let run = scene
        .gpuctl_with(
            &[
                "create",
                "-f",
                "-",
                "--allow-pending",
                "--wait",
                "--timeout",
                "2s",
                "-o",
                "json",
            ],
            &large,
        )
        .exits(7);
    assert_eq!(run.json()["status"], "pending");
    assert!(run.err.contains("\"Timeout\""), "{}", run.err);
}

#[test]
fn a_gang_that_does_not_fit_now_causes_a_warning() {
    let scene = Scene::with_nodes("gangwarn", 2);
    scene.create("a", "resources: {pool: POOL, gpu: 8}");
    scene.until("a", "running", None);
    let run = scene.create("b", "resources: {pool: POOL, gpu: 8, node_count: 2}");
    assert!(run.err.contains("only 1 of 2 pods fit now"), "{}", run.err);
}

#[test]
fn a_dry_run_writes_nothing() {
    let scene = Scene::with_nodes("dry", 1);
    let yaml = scene.training("a", "job: {name: NAME, priority: low}");
    let client = scene
        .gpuctl_with(
            &["create", "-f", "-", "--dry-run=client", "-o", "yaml"],
            &yaml,
        )
        .ok();
    assert!(
        client.out.contains("kind: Service\n") && client.out.contains("---\n"),
        "{}",
        client.out
    );
    let server = scene
        .gpuctl_with(
            &["create", "-f", "-", "--dry-run=server", "-o", "json"],
            &yaml,
        )
        .ok()
        .json();
    assert_eq!(server["message"], "would be submitted to dry");
    nothing_is_left(&scene);
    // The client-side dry run prints the objects exactly as they are sent: strict validation on the
    // server accepts every field.
    scene.admin.run_with(
        &[
            "apply",
            "--server-side",
            "--dry-run=server",
            "--validate=strict",
            "-f",
            "-",
        ],
        &client.out,
    );
}

#[test]
fn warnings_of_the_api_server_are_printed_once() {
    let scene = Scene::with_nodes("warned", 1);
    scene.admin.run(&[
        "label",
        "namespace",
        "warned",
        "pod-security.kubernetes.io/warn=restricted",
    ]);
    let run = scene.create("a", "");
    assert!(run.err.contains("would violate PodSecurity"), "{}", run.err);
    let lines: Vec<&str> = run
        .err
        .lines()
        .filter(|line| line.contains("would violate PodSecurity"))
        .collect();
    assert!(
        lines
            .iter()
            .enumerate()
            .all(|(index, line)| !lines[..index].contains(line)),
        "the warning is repeated: {}",
        run.err
    );
}

#[test]
fn an_interrupted_wait_says_that_the_job_continues() {
    let scene = Scene::with_nodes("interrupt", 1);
    let path = file(
        "interrupt.yaml",
        &scene.training("a", "resources: {pool: POOL, gpu: 9}"),
    );
    let child = scene.start(&[
        "create",
        "-f",
        path.to_str().unwrap(),
        "--allow-pending",
        "--wait",
        "-o",
        "json",
    ]);
    scene.until("a", "pending", Some("Unschedulable"));
    // The command starts to wait shortly after it has created the job, but nothing shows when.
    std::thread::sleep(std::time::Duration::from_millis(500));
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    let run = finish(child, std::time::Duration::from_secs(20)).exits(130);
    assert_eq!(run.json()["jobId"], "a");
    assert!(
        run.err
            .contains("the jobs still exist and are not affected"),
        "{}",
        run.err
    );
}

#[test]
fn a_missing_image_pull_secret_causes_a_warning() {
    let scene = Scene::with_nodes("pullsecret", 1);
    scene
        .admin
        .run(&["create", "secret", "generic", "there", "-n", "pullsecret"]);
    let run = scene.create(
        "a",
        "environment: {image: busybox, imagePullSecrets: [there, my.registry]}",
    );
    assert!(
        run.err.contains("secret `my.registry` does not exist") && !run.err.contains("`there`"),
        "{}",
        run.err
    );
}

#[test]
fn an_interrupted_gang_is_not_left_paused() {
    let scene = Scene::with_nodes("gangint", 2);
    scene.create("blocker", "resources: {pool: POOL, gpu: 8}");
    scene.until("blocker", "running", None);
    let path = file(
        "gangint.yaml",
        &scene.training(
            "a",
            "job: {name: NAME, gang_timeout: 4s}\nresources: {pool: POOL, gpu: 8, node_count: 2}",
        ),
    );
    let child = scene.start(&["create", "-f", path.to_str().unwrap(), "--wait"]);
    scene.until("a", "paused", None);
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, std::time::Duration::from_secs(20)).exits(130);
    assert_eq!(scene.get(&["job", "a"])["spec"]["suspend"], false);
}
