//! Tests `kind: inference` and `kind: compute`: readiness, rollouts when all GPUs are in use,
//! scaling, autoscaling, addresses, and the reasons for failures.

use std::io::Read;
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{Scene, cluster, finish, items};

/// Waits until the job's JSON output meets a condition.
fn until(scene: &Scene, name: &str, good: impl Fn(&Value) -> bool) -> Value {
    let what = format!("{name} meets the condition");
    eventually(&what, Duration::from_secs(90), || {
        let job = scene.job(name);
        if good(&job) { Ok(job) } else { Err(job) }
    })
}

fn message(job: &Value) -> &str {
    job["message"].as_str().unwrap_or_default()
}

#[test]
fn a_service_runs_when_its_pods_are_ready() {
    let scene = Scene::with_nodes("serve", 1);
    let run = scene.serve("web", "vllm", 2, "");
    assert!(
        run.out
            .starts_with("inference/web created in serve: 2 replicas × 1 a100-80g, pool serve\n"),
        "{}",
        run.out
    );
    assert!(
        run.out.contains("service/web, deployment/web"),
        "{}",
        run.out
    );
    // With one of two replicas ready, the job is already `running`, but degraded.
    let job = until(&scene, "web", |job| {
        job["status"] == "running" && job["podsRunning"] == 2
    });
    assert_eq!(
        (
            &job["podsRunning"],
            &job["podsWanted"],
            &job["gpu"],
            &job["gpuHeld"]
        ),
        (&json!(2), &json!(2), &json!(2), &json!(2))
    );
    assert_eq!(
        (&job["kind"], &job["reason"]),
        (&json!("inference"), &Value::Null)
    );
    let table = scene.gpuctl(&["get", "jobs"]).ok().out;
    assert!(table.contains("running 2/2"), "{table}");
    let described = scene
        .gpuctl(&["describe", "job", "web", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        described["addresses"][0],
        json!({"type": "cluster", "url": "http://web.serve.svc:8000"})
    );
    assert_eq!(described["pods"][1]["ready"], true);
    assert_eq!(
        described["k8sResources"]["objects"],
        json!(["deployment/web", "service/web"])
    );
    let service = scene.get(&["service", "web"]);
    assert_eq!(
        service["metadata"]["ownerReferences"][0]["kind"],
        "Deployment"
    );
    // The Service selects the pods of the Deployment.
    let slices = scene.get_until(
        &["endpointslices", "-l", "kubernetes.io/service-name=web"],
        |list| {
            items(list)
                .iter()
                .filter_map(|slice| slice["endpoints"].as_array())
                .map(Vec::len)
                .sum::<usize>()
                == 2
        },
    );
    assert_eq!(items(&slices)[0]["ports"][0]["port"], 8000);
    scene.gpuctl(&["delete", "job", "web"]).ok().says("");
    assert!(scene.pods("web").is_empty());
    for kind in ["services", "deployments", "replicasets"] {
        assert!(
            items(&scene.get(&[kind, "-l", "gpuctl/job=web"])).is_empty(),
            "{kind}"
        );
    }
}

#[test]
fn a_service_that_cannot_run_has_a_reason() {
    let scene = Scene::with_nodes("broken-services", 1);
    for (name, image) in [
        ("crash", "crash/image:loop"),
        ("slow", "big/image:loading"),
        ("pull", "bad/image:missing"),
    ] {
        scene.serve(name, image, 1, "");
    }
    scene.serve(
        "sick",
        "sick/image:unhealthy",
        1,
        "service: {port: 8000, health_check: /health}",
    );
    scene.serve("deaf", "sick/image:unhealthy", 1, "");
    scene.serve("large", "vllm", 1, "resources: {pool: POOL, gpu: 9}");
    let crash = scene.until("crash", "pending", Some("CrashLoopBackOff"));
    assert!(
        message(&crash).ends_with("exited with code 1, 4 restarts"),
        "{crash:#}"
    );
    let sick = scene.until("sick", "pending", Some("Unhealthy"));
    assert!(
        message(&sick).ends_with("is running, but fails its health check"),
        "{sick:#}"
    );
    scene.until("slow", "pending", Some("Starting"));
    let deaf = scene.until("deaf", "pending", Some("Starting"));
    assert_eq!(
        message(&deaf),
        "nothing is listening on port 8000 yet",
        "without a health check the cause is unknown"
    );
    let pull = scene.until("pull", "pending", Some("ImagePullBackOff"));
    assert_eq!(pull["gpuHeld"], 1);
    let large = scene.until("large", "pending", Some("Unschedulable"));
    assert!(
        message(&large).contains("Insufficient nvidia.com/gpu"),
        "{large:#}"
    );
    let waited = scene.gpuctl_with(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &scene.service("again", "crash/image:loop", 1, ""),
    );
    waited
        .exits(10)
        .says("job `again` cannot start, CrashLoopBackOff: again-")
        .says("keeps exiting with code 1");
    let refused = scene
        .gpuctl_with(
            &["create", "-f", "-", "--wait=complete"],
            &scene.service("never", "vllm", 1, ""),
        )
        .exits(2);
    assert!(
        refused.err.contains("it never completes"),
        "{}",
        refused.err
    );
}

#[test]
fn a_service_with_some_failing_pods_is_degraded() {
    let scene = Scene::with_nodes("degraded", 1);
    scene.serve("web", "vllm", 2, "");
    scene.until("web", "running", None);
    let pod = scene.pods("web").remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let patch = json!({"status": {
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}, {"type": "ContainersReady", "status": "False"}],
        "containerStatuses": [{"name": "main", "image": "vllm", "imageID": "", "ready": false, "started": false, "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
    }});
    scene.admin.run(&[
        "patch",
        "pod",
        &pod,
        "-n",
        "degraded",
        "--subresource=status",
        "-p",
        &patch.to_string(),
    ]);
    let job = scene.until("web", "running", Some("Degraded"));
    let expected = format!(
        "1 of 2 pods are ready; CrashLoopBackOff: {pod} ran out of memory (exit code 137), 5 restarts"
    );
    assert_eq!(
        (message(&job), job["podsRunning"].as_u64()),
        (expected.as_str(), Some(1))
    );
    let text = scene.gpuctl(&["describe", "job", "web"]).ok().out;
    assert!(
        text.contains("running 1/2 Degraded") && text.contains("waiting CrashLoopBackOff"),
        "{text}"
    );
}

#[test]
fn a_rollout_works_when_all_gpus_are_in_use() {
    let scene = Scene::with_nodes("rollout", 1);
    // All eight GPUs are in use, so a surge pod would never fit.
    scene.serve("web", "model:1", 2, "resources: {pool: POOL, gpu: 4}");
    scene.until("web", "running", None);
    let deployment = scene.get(&["deployment", "web"]);
    let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
    assert_eq!(strategy, &json!({"maxSurge": 0, "maxUnavailable": 1}));
    scene.admin.run(&[
        "set",
        "image",
        "deployment/web",
        "main=model:2",
        "-n",
        "rollout",
    ]);
    scene.admin.run(&[
        "rollout",
        "status",
        "deployment/web",
        "-n",
        "rollout",
        "--timeout=60s",
    ]);
    let job = until(&scene, "web", |job| {
        job["status"] == "running" && job["podsRunning"] == 2 && job["reason"].is_null()
    });
    assert_eq!(job["gpuHeld"], 8);
    let images: Vec<Value> = scene
        .pods("web")
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect();
    assert_eq!(images, ["model:2", "model:2"]);
}

#[test]
fn probes_leave_a_model_time_to_load() {
    let scene = Scene::with_nodes("probes", 1);
    scene.serve(
        "web",
        "vllm",
        1,
        "service: {port: 8000, health_check: {path: /health, initial_delay: 20s, period: 5s}, timeout: 90s}",
    );
    let spec = scene.get(&["deployment", "web"])["spec"].clone();
    let container = &spec["template"]["spec"]["containers"][0];
    let number = |probe: &str, field: &str| container[probe][field].as_u64().unwrap();
    let budget =
        number("startupProbe", "periodSeconds") * number("startupProbe", "failureThreshold") + 20;
    assert_eq!(budget, 1820, "half an hour plus the initial delay");
    assert!(spec["progressDeadlineSeconds"].as_u64().unwrap() > budget);
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(
            container[probe]["httpGet"],
            json!({"path": "/health", "port": 8000, "scheme": "HTTP"}),
            "{probe}"
        );
    }
    assert!(
        number("livenessProbe", "failureThreshold") > number("readinessProbe", "failureThreshold")
    );
    assert_eq!(
        spec["template"]["spec"]["terminationGracePeriodSeconds"],
        90
    );
    scene.serve("plain", "vllm", 1, "");
    let plain =
        scene.get(&["deployment", "plain"])["spec"]["template"]["spec"]["containers"][0].clone();
    assert_eq!(
        (
            &plain["readinessProbe"]["tcpSocket"]["port"],
            &plain["livenessProbe"]
        ),
        (&json!(8000), &Value::Null)
    );
}

const SCALING: &str = "autoscaling: {minReplicas: 1, maxReplicas: 3, targetGPUUtilization: 70, targetMemoryUtilization: 85, scaleUpDelay: 1m, scaleDownDelay: 5m}";

#[test]
fn autoscaling_without_a_metrics_api_causes_a_warning() {
    let scene = Scene::with_nodes("hpa", 1);
    let run = scene.serve("web", "vllm/vllm-openai:1", 2, SCALING);
    assert_eq!(
        run.err
            .matches("does not serve custom.metrics.k8s.io")
            .count(),
        1,
        "{}",
        run.err
    );
    let run = run.says("autoscaling on gpu_utilization and gpu_memory_utilization does not work");
    run.says("targetMemoryUtilization: this server allocates its GPU memory at startup");
    let hpa = scene.get(&["hpa", "web"]);
    assert_eq!(
        hpa["spec"]["scaleTargetRef"],
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
    );
    let metric = |index: usize| hpa["spec"]["metrics"][index]["pods"].clone();
    let pods = |name: &str, value: &str| json!({"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": value}});
    assert_eq!(
        (metric(0), metric(1)),
        (
            pods("gpu_utilization", "70"),
            pods("gpu_memory_utilization", "85")
        )
    );
    let window =
        |direction: &str| hpa["spec"]["behavior"][direction]["stabilizationWindowSeconds"].as_u64();
    assert_eq!(
        (window("scaleUp"), window("scaleDown")),
        (Some(60), Some(300))
    );
    // The HPA controller reports the same problem some time later.
    let limit = Duration::from_secs(60);
    let described = eventually("the controller reports a problem", limit, || {
        let described = scene
            .gpuctl(&["describe", "job", "web", "-o", "json"])
            .ok()
            .json();
        if described["autoscaling"]["problem"].is_string() {
            return Ok(described["autoscaling"].clone());
        }
        Err(described)
    });
    assert!(
        described["problem"]
            .as_str()
            .unwrap()
            .contains("custom metrics API"),
        "{described:#}"
    );
    assert_eq!(
        (
            &described["metrics"][0]["currentPercent"],
            &described["metrics"][0]["targetPercent"]
        ),
        (&Value::Null, &json!(70.0))
    );
    let plain = scene.serve(
        "steady",
        "tgi",
        1,
        "autoscaling: {maxReplicas: 3, targetGPUUtilization: 70}",
    );
    assert!(
        !plain.err.contains("targetMemoryUtilization"),
        "{}",
        plain.err
    );
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.service(
                "x",
                "i",
                1,
                "autoscaling: {maxReplicas: 3, targetGPUUtilization: 70, minReplicas: 0}",
            ),
        )
        .exits(3);
}

#[test]
fn pausing_an_autoscaled_service_restores_its_size_on_resume() {
    let scene = Scene::with_nodes("pause-hpa", 1);
    scene.serve("web", "vllm", 2, SCALING);
    scene.until("web", "running", None);
    let paused = scene
        .gpuctl(&["pause", "job", "web", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (
            &paused["status"],
            &paused["replicasBefore"],
            &paused["replicas"]
        ),
        (&json!("paused"), &json!(2), &json!(0))
    );
    let job = until(&scene, "web", |job| {
        job["status"] == "paused" && job["gpuHeld"] == 0
    });
    assert_eq!(job["gpu"], 2, "the GPUs that it uses after `resume`");
    // In the sandbox, the HPA controller runs every two seconds.
    scene.get_until(&["hpa", "web"], |hpa| {
        hpa["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| one["reason"] == "ScalingDisabled")
    });
    assert_eq!(scene.get(&["deployment", "web"])["spec"]["replicas"], 0);
    let described = scene
        .gpuctl(&["describe", "job", "web", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        described["autoscaling"]["problem"],
        Value::Null,
        "a pause is not a problem"
    );
    assert_eq!(
        scene.gpuctl(&["pause", "job", "web"]).ok().out,
        "web: paused already\n"
    );
    assert_eq!(
        scene.gpuctl(&["resume", "job", "web"]).ok().out,
        "web: resumed with 2 pods\n"
    );
    until(&scene, "web", |job| {
        job["status"] == "running" && job["podsRunning"] == 2
    });
}

#[test]
fn services_can_be_scaled_and_trainings_cannot() {
    let scene = Scene::with_nodes("scaled", 1);
    scene.serve("web", "vllm", 1, "");
    scene.until("web", "running", None);
    assert_eq!(
        scene.gpuctl(&["scale", "web", "--replicas", "3"]).ok().out,
        "web: scaled from 1 to 3 replicas\n"
    );
    until(&scene, "web", |job| job["podsRunning"] == 3);
    let scaled = scene
        .gpuctl(&["scale", "web", "--replicas", "0", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (&scaled["status"], &scaled["message"]),
        (&json!("paused"), &json!("paused; it had 3 replicas"))
    );
    until(&scene, "web", |job| job["status"] == "paused");
    assert_eq!(
        scene.gpuctl(&["scale", "web", "--replicas", "2"]).ok().out,
        "web: scaled from 0 to 2 replicas\n"
    );
    until(&scene, "web", |job| {
        job["podsRunning"] == 2 && job["podsWanted"] == 2
    });
    scene.create("train", "");
    scene
        .gpuctl(&["scale", "train", "--replicas", "2"])
        .exits(1)
        .says("is a training")
        .says("gpuctl pause job scaled/train");
    scene.gpuctl(&["scale", "nope", "--replicas", "2"]).exits(4);
    scene.gpuctl(&["scale", "web", "--replicas", "-1"]).exits(2);
    scene.gpuctl(&["pause", "job", "train"]).ok();
    scene.until("train", "paused", None);
    scene.gpuctl(&["resume", "job", "train"]).ok();
    scene.until("train", "running", None);
}

#[test]
fn describe_lists_the_known_addresses() {
    let scene = Scene::with_nodes("addresses", 1);
    scene.serve("node", "vllm", 1, "service: {port: 8000, type: NodePort}");
    scene.serve(
        "balanced",
        "vllm",
        1,
        "service: {port: 80, type: LoadBalancer}",
    );
    let hosted = scene.serve(
        "hosted",
        "vllm",
        1,
        "service: {port: 80, targetPort: 8000, host: llm.example.com, request_limit: 50, timeout: 2m}",
    );
    let hosted = hosted.says("enforced only by ingress-nginx, per second and client address");
    hosted.says("this cluster has no IngressClass, so nothing will serve `llm.example.com`");
    let addresses = |name: &str| {
        scene
            .gpuctl(&["describe", "job", name, "-o", "json"])
            .ok()
            .json()["addresses"]
            .clone()
    };
    scene.until("node", "running", None);
    let port = scene.get(&["service", "node"])["spec"]["ports"][0]["nodePort"].clone();
    assert_eq!(
        addresses("node")[1],
        json!({"type": "node", "url": format!("http://127.0.0.1:{port}")}),
        "the node of a ready pod"
    );
    assert_eq!(
        addresses("balanced")[2],
        json!({"type": "loadBalancer", "url": null})
    );
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}});
    scene.admin.run(&[
        "patch",
        "service",
        "balanced",
        "-n",
        "addresses",
        "--subresource=status",
        "-p",
        &status.to_string(),
    ]);
    assert_eq!(
        addresses("balanced")[2],
        json!({"type": "loadBalancer", "url": "http://192.0.2.7:80"})
    );
    assert_eq!(
        addresses("hosted")[1],
        json!({"type": "ingress", "url": "http://llm.example.com"})
    );
    let ingress = scene.get(&["ingress", "hosted"]);
    let note = |key: &str| {
        ingress["metadata"]["annotations"][format!("nginx.ingress.kubernetes.io/{key}")].clone()
    };
    assert_eq!(
        (note("limit-rps"), note("proxy-read-timeout")),
        (json!("50"), json!("120"))
    );
    let silent = scene.serve(
        "silent",
        "vllm",
        1,
        "service: {port: 80, request_limit: 50}",
    );
    silent.says("request_limit: 50 has no effect without `service.host`");
    scene.gpuctl(&["delete", "job", "hosted"]).ok();
    assert!(items(&scene.get(&["ingress"])).is_empty());
}

#[test]
fn a_name_belongs_to_one_job_of_any_kind() {
    let scene = Scene::with_nodes("one-name", 1);
    scene.create("same", "");
    let run = scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.service("same", "vllm", 1, ""),
        )
        .exits(1);
    assert!(
        run.err
            .starts_with("error: job `same` already exists in namespace `one-name`\n"),
        "{}",
        run.err
    );
    assert!(items(&scene.get(&["deployments"])).is_empty());
    let warned = scene.serve("web", "vllm", 1, "").err;
    assert!(!warned.contains("port"), "{warned}");
    let yaml = scene.service(
        "other",
        "vllm, command: [python, serve.py, --port, \"9000\"]",
        1,
        "",
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], &yaml)
        .ok()
        .says("the command uses port 9000, but `service.port` is 8000");
}

#[test]
fn a_service_without_gpus_prefers_nodes_without_gpus() {
    let scene = Scene::with_nodes("compute", 1);
    let yaml = "kind: compute\nversion: v0.1\njob: {name: gateway}\nenvironment: {image: nginx}\nservice: {replicas: 1, port: 80}\n";
    let run = scene.gpuctl_with(&["create", "-f", "-"], yaml).ok();
    assert!(
        run.out
            .starts_with("compute/gateway created in compute: 1 replica, no GPU\n"),
        "{}",
        run.out
    );
    let job = scene.until("gateway", "running", None);
    assert_eq!((&job["kind"], &job["gpu"]), (&json!("compute"), &json!(0)));
    let pod = scene.pods("gateway").remove(0);
    let node = scene
        .admin
        .json(&["get", "node", pod["spec"]["nodeName"].as_str().unwrap()]);
    let is_gpu_label = |key: &String| key.contains("gpu-type") || key.contains("gpu.product");
    assert!(
        !node["metadata"]["labels"]
            .as_object()
            .unwrap()
            .keys()
            .any(is_gpu_label),
        "{}",
        node["metadata"]
    );
    assert_eq!(
        scene.get(&["deployment", "gateway"])["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
        "25%",
        "the default of Kubernetes"
    );
}

#[test]
fn logs_of_replicas_are_merged_and_follow_a_rollout() {
    let scene = Scene::with_nodes("service-logs", 1);
    scene.serve("web", "model:1", 2, "");
    scene.until("web", "running", None);
    let names = |scene: &Scene| -> Vec<String> {
        scene
            .pods("web")
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let old = names(&scene);
    for pod in &old {
        cluster()
            .pod_log("service-logs", pod, "main")
            .say(&format!("old {pod}"));
    }
    let merged = scene.gpuctl(&["logs", "web"]).ok().out;
    for pod in &old {
        let tail = pod.rsplit('-').next().unwrap();
        assert!(
            merged.contains(&format!("{tail} │ old {pod}\n")),
            "{merged}"
        );
    }
    let mut child = scene.start(&["logs", "web", "-f", "-o", "json"]);
    // Gives the command time to open the streams of the old pods, because nothing shows when it
    // has.
    std::thread::sleep(Duration::from_millis(800));
    scene.admin.run(&[
        "set",
        "image",
        "deployment/web",
        "main=model:2",
        "-n",
        "service-logs",
    ]);
    scene.admin.run(&[
        "rollout",
        "status",
        "deployment/web",
        "-n",
        "service-logs",
        "--timeout=60s",
    ]);
    let new: Vec<String> = names(&scene)
        .into_iter()
        .filter(|pod| !old.contains(pod))
        .collect();
    for pod in &new {
        cluster()
            .pod_log("service-logs", pod, "main")
            .say(&format!("new {pod}"));
    }
    // Gives new lines time to arrive, including any that would be printed twice.
    std::thread::sleep(Duration::from_secs(12));
    child.kill().unwrap();
    let out = finish(child, Duration::from_secs(5)).out;
    for pod in &new {
        let line = format!("\"line\":\"new {pod}\"");
        assert_eq!(out.matches(&line).count(), 1, "{line} in {out}");
    }
    for pod in &old {
        assert_eq!(
            out.matches(&format!("\"line\":\"old {pod}\"")).count(),
            1,
            "{out}"
        );
    }
}

#[test]
fn following_reports_restarts_and_new_and_deleted_pods() {
    let scene = Scene::with_nodes("restarts", 1);
    scene.serve("web", "vllm", 1, "");
    scene.until("web", "running", None);
    let pod = scene.pods("web").remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = cluster().pod_log("restarts", &pod, "main");
    log.say("first");
    let mut child = scene.start(&["logs", "web", "-f"]);
    // The command must see each state of the pod before the next one. The test reads stderr at the
    // end.
    std::thread::sleep(Duration::from_secs(3));
    let patch = json!({"status": {"containerStatuses": [{"name": "main", "image": "vllm", "imageID": "", "ready": true, "started": true,
        "restartCount": 1, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}});
    scene.admin.run(&[
        "patch",
        "pod",
        &pod,
        "-n",
        "restarts",
        "--subresource=status",
        "-p",
        &patch.to_string(),
    ]);
    std::thread::sleep(Duration::from_secs(3));
    scene.admin.run(&["delete", "pod", &pod, "-n", "restarts"]);
    std::thread::sleep(Duration::from_secs(5));
    child.kill().unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    let _ = child.wait();
    assert!(
        err.contains(&format!("── {pod} restarted (exit 137, OOMKilled) ──")),
        "{err}"
    );
    assert!(
        err.contains(" joins ──") && err.contains(&format!("── {pod} no longer exists ──")),
        "{err}"
    );
}

#[test]
fn an_edit_user_can_create_scale_and_delete_a_service() {
    let scene = Scene::with_nodes("edit-services", 1);
    scene.allow_edit(Persona::Alice);
    let alice = scene.seen_by(Persona::Alice);
    let run = alice.gpuctl_with(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &scene.service(
            "web",
            "vllm",
            2,
            "service: {replicas: 2, port: 8000, host: a.example.com}\nautoscaling: {maxReplicas: 3, targetGPUUtilization: 70}",
        ),
    );
    // Alice may not list nodes or IngressClasses. Missing access to nodes causes a warning, but the
    // check of IngressClasses is just skipped.
    let run = run
        .ok()
        .says("you are not allowed to list nodes")
        .says("does not serve custom.metrics.k8s.io");
    assert!(!run.err.contains("IngressClass"), "{}", run.err);
    assert_eq!(
        alice.gpuctl(&["get", "jobs", "-o", "name"]).ok().out,
        "edit-services/web\n"
    );
    alice.gpuctl(&["describe", "job", "web"]).ok();
    alice.gpuctl(&["events", "web"]).ok();
    alice
        .gpuctl(&["scale", "web", "--replicas", "1"])
        .ok()
        .says("the autoscaler keeps between 1 and 3 replicas");
    alice.gpuctl(&["pause", "job", "web"]).ok();
    until(&scene, "web", |job| job["status"] == "paused");
    alice.gpuctl(&["resume", "job", "web"]).ok();
    scene.until("web", "running", None);
    alice.gpuctl(&["delete", "job", "web"]).ok();
    for kind in ["deployments", "services", "hpa", "ingress"] {
        assert!(items(&scene.get(&[kind])).is_empty(), "{kind}");
    }
}

#[test]
fn events_of_all_objects_are_listed_in_order() {
    let scene = Scene::with_nodes("events", 1);
    scene.serve("web", "bad/image:missing", 1, "");
    scene.until("web", "pending", Some("ImagePullBackOff"));
    let list = scene.gpuctl(&["events", "web", "-o", "json"]).ok().json();
    let objects: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["object"].as_str())
        .collect();
    for kind in ["Deployment/web", "ReplicaSet/web-", "Pod/web-"] {
        assert!(
            objects.iter().any(|object| object.starts_with(kind)),
            "{kind} in {objects:?}"
        );
    }
    assert_eq!(list["total"].as_u64(), Some(objects.len() as u64));
    // Some components report whole seconds, so events of the same second keep the API server's
    // order.
    let time = |event: &Value| {
        event["timestamp"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_second()
    };
    let times: Vec<i64> = list["items"].as_array().unwrap().iter().map(time).collect();
    assert!(times.is_sorted(), "{times:?}");
    let warnings = scene.gpuctl(&["events", "web", "--warnings"]).ok().out;
    assert!(
        warnings.contains("Failed to pull image") && !warnings.contains("Scheduled"),
        "{warnings}"
    );
    scene.create("train", "");
    scene.until("train", "running", None);
    let train = scene.gpuctl(&["events", "train"]).ok().out;
    assert!(
        train.contains("Job/train") && train.contains("Pod/train-0-") && !train.contains("web"),
        "{train}"
    );
    scene.gpuctl(&["events", "nope"]).exits(4);
}

#[test]
fn jobs_on_a_lost_node_have_an_unknown_status() {
    let scene = Scene::with_nodes("silent-node", 1);
    scene.serve("web", "vllm", 1, "");
    scene.create("train", "");
    for name in ["web", "train"] {
        scene.until(name, "running", None);
        let pod = scene.pods(name).remove(0)["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        // The node controller writes this when the kubelet stops reporting. The container statuses
        // stay as the kubelet last reported them.
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        scene.admin.run(&[
            "patch",
            "pod",
            &pod,
            "-n",
            "silent-node",
            "--subresource=status",
            "-p",
            &patch.to_string(),
        ]);
        let job = scene.until(name, "unknown", Some("NodeLost"));
        assert!(
            message(&job).ends_with("'s node silent-node-0 does not respond"),
            "{job:#}"
        );
        let answer = scene.gpuctl(&["why", name, "-o", "json"]).ok().json();
        assert_eq!(answer["causes"][0]["cause"], "node-lost", "{answer:#}");
    }
}

#[test]
fn forced_deletion_leaves_no_replacement_pod() {
    let scene = Scene::with_nodes("force-service", 1);
    scene.serve("web", "vllm", 3, "");
    scene.until("web", "running", None);
    let run = scene.gpuctl(&["delete", "job", "web", "--force"]).ok();
    assert_eq!(run.out, "web deleted: 3 GPUs are free again\n");
    assert!(scene.pods("web").is_empty());
    // If a pod were created during the deletion, it would have appeared by now.
    std::thread::sleep(Duration::from_secs(2));
    assert!(scene.pods("web").is_empty() && items(&scene.get(&["replicasets"])).is_empty());
}

#[test]
fn objects_without_read_rights_are_not_assumed_absent() {
    let scene = Scene::with_nodes("half-blind", 1);
    scene.notebook("lab", "");
    scene.until("lab", "running", None);
    scene.admin.apply(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "jobs-only", "namespace": "half-blind"},
        "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
                  {"apiGroups": [""], "resources": ["pods", "services", "configmaps"], "verbs": ["*"]}]}));
    scene.admin.run(&[
        "create",
        "rolebinding",
        "jobs-only",
        "--role=jobs-only",
        "--user=oidc:dave@example.com",
        "-n",
        "half-blind",
    ]);
    let dave = scene.seen_by(Persona::Dave);
    for arguments in [
        &["delete", "job", "lab"][..],
        &["describe", "job", "lab"],
        &["logs", "lab"],
        &["scale", "lab", "--replicas", "0"],
    ] {
        dave.gpuctl(arguments)
            .exits(5)
            .says("so it is unknown whether job `lab` exists");
    }
    dave.gpuctl_with(&["create", "-f", "-"], &scene.training("lab", ""))
        .exits(1)
        .says("service/lab is still being deleted");
    let list = dave.gpuctl(&["get", "jobs"]).ok().says(
        "you are not allowed to list every kind of job: deployments and statefulsets are not shown",
    );
    assert!(!list.out.contains("lab"));
    assert_eq!(scene.job("lab")["status"], "running");
    assert_eq!(
        scene.get(&["service", "lab"])["metadata"]["labels"]["gpuctl/kind"],
        "notebook"
    );
}

#[test]
fn a_service_with_a_single_node_volume_does_not_surge() {
    let scene = Scene::with_nodes("one-volume", 1);
    let yaml = |name: &str, storage: &str| {
        format!(
            "kind: compute\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: db}}\nservice: {{port: 80}}\nstorage: {{workdirs: [{storage}]}}\n"
        )
    };
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &yaml("db", "{path: /data, size: 1Gi}"),
        )
        .ok();
    assert_eq!(
        scene.get(&["deployment", "db"])["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
        0
    );
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &yaml("web", "{path: /data, emptyDir: true}"),
        )
        .ok();
    assert_eq!(
        scene.get(&["deployment", "web"])["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
        "25%"
    );
    scene.gpuctl(&["delete", "job", "db"]).ok();
    // The claim comes from an earlier job with one pod, and the new job has two.
    let for_two_pods =
        yaml("db", "{path: /data, size: 1Gi}").replace("port: 80", "port: 80, replicas: 2");
    let refused = scene
        .gpuctl_with(&["create", "-f", "-"], &for_two_pods)
        .exits(1);
    assert_eq!(
        refused.err,
        "error: persistentvolumeclaim/db-data was kept from an earlier job with this name: its access mode is ReadWriteOnce, but this job requests ReadWriteMany\n\nhint: change `storage.workdirs` to match it, or choose another `job.name` for a new claim\n"
    );
    let smaller = yaml("db", "{path: /data, size: 500Mi}");
    scene
        .gpuctl_with(&["create", "-f", "-"], &smaller)
        .exits(1)
        .says("claims cannot shrink");
    assert!(items(&scene.get(&["deployments", "-l", "gpuctl/job=db"])).is_empty());
    scene.gpuctl(&["delete", "job", "db", "--purge"]).ok();
}

#[test]
fn autoscaling_needs_a_maximum_and_clamps_the_replicas() {
    let scene = Scene::with_nodes("bounds", 1);
    let create = |autoscaling: &str| {
        scene.gpuctl_with(
            &["create", "-f", "-"],
            &scene.service("web", "tgi", 4, autoscaling),
        )
    };
    create("autoscaling: {targetGPUUtilization: 70}")
        .exits(3)
        .says("`autoscaling.maxReplicas` is missing");
    let run = create("autoscaling: {maxReplicas: 3, targetGPUUtilization: 70}").ok();
    let run = run.says("replicas: 4 is outside the autoscaling range; starting with 3");
    assert!(
        run.out
            .starts_with("inference/web created in bounds: 3 replicas"),
        "{}",
        run.out
    );
}

#[test]
fn wait_ends_with_the_submitted_version() {
    let scene = Scene::with_nodes("newversion", 1);
    scene.serve("web", "model:1", 2, "resources: {pool: POOL, gpu: 1}");
    scene.until("web", "running", None);
    let apply = |image: &str, timeout: &str| {
        let yaml = scene.service("web", image, 2, "resources: {pool: POOL, gpu: 1}");
        scene.gpuctl_with(&["apply", "-f", "-", "--wait", "--timeout", timeout], &yaml)
    };
    apply("model:2", "60s").ok();
    let images: Vec<Value> = scene
        .pods("web")
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect();
    assert_eq!(
        images,
        ["model:2", "model:2"],
        "the wait ends after the last pod of the old version"
    );
    // The old pods keep serving while the new ones cannot start, but the wait must not succeed.
    apply("bad/image:missing", "60s")
        .exits(10)
        .says("ImagePullBackOff")
        .says("the job still exists and keeps trying");
}
