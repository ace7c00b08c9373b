//! Pods that have a node and do not start. The simulated kubelet reports what real ones do, in the
//! words of kubelet 1.36 and containerd 2.2; `cargo reality` holds some of them against the real
//! ones.

use serde_json::{Value, json};

use super::setup::{Setup, gpus, job_with, pod, service, status, waiting, with};

const REFERENCE: &str = "registry.example.com/team/train:v7";

fn image(reason: &str, words: &str) -> Value {
    let message = format!("Back-off pulling image \"{REFERENCE}\": ErrImagePull: {words}");
    waiting(
        reason,
        if reason == "ErrImagePull" {
            words
        } else {
            &message
        },
    )
}

fn pull(words: &str) -> String {
    format!(
        "rpc error: code = Unknown desc = failed to pull and unpack image \"{REFERENCE}\": failed to resolve reference \"{REFERENCE}\": {words}"
    )
}

pub fn setups() -> Vec<Setup> {
    let new = |title: &str, truth| Setup::new("start", title, truth).nodes([gpus(0)]);
    let of = |title: &str, truth, annotations| {
        new(title, truth).objects([job_with(1, pod(1), annotations)])
    };
    let creating = || waiting("ContainerCreating", "");
    let running = |more: Value| {
        let base = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}],
            "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false, "started": false, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-31T10:00:00Z"}}}]});
        with(base, more)
    };
    let crash = |code: i32, reason: &str| {
        json!([{"name": "main", "image": "busybox", "imageID": "", "ready": false, "started": false, "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
            "lastState": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-31T10:51:00Z"}}}])
    };
    let sidecar = json!([
        {"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
        {"name": "proxy", "image": "busybox", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-31T10:00:00Z"}}}
    ]);
    let with_proxy = {
        let mut spec = pod(1);
        let mut second = spec["containers"][0].clone();
        second["name"] = json!("proxy");
        second["resources"] = json!({});
        spec["containers"].as_array_mut().unwrap().push(second);
        spec
    };
    let init = {
        let statuses = json!({"phase": "Pending", "initContainerStatuses": [{"name": "fetch", "image": "busybox", "imageID": "", "ready": false,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-31T10:00:00Z"}}}],
            "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}}}]});
        let spec = with(
            pod(1),
            json!({"initContainers": [{"name": "fetch", "image": "busybox"}]}),
        );
        job_with(1, spec, status(statuses))
    };
    let broken_init = {
        let statuses = json!({"phase": "Pending", "initContainerStatuses": [{"name": "fetch", "image": "busybox", "imageID": "", "ready": false,
            "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}}}],
            "containerStatuses": [{"name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}}}]});
        let spec = with(
            pod(1),
            json!({"initContainers": [{"name": "fetch", "image": "busybox"}]}),
        );
        job_with(1, spec, status(statuses))
    };
    vec![
        of("a Secret for the environment", "secret-missing", waiting("CreateContainerConfigError", "secret \"hf-token\" not found")),
        of("a key of a Secret", "secret-missing", waiting("CreateContainerConfigError", "couldn't find key TOKEN in Secret team/hf-token")),
        of("a ConfigMap for the environment", "configmap-missing", waiting("CreateContainerConfigError", "configmap \"train-config\" not found")),
        of("a Secret as a volume", "secret-missing", creating())
            .told("FailedMount", "MountVolume.SetUp failed for volume \"keys\" : secret \"hf-keys\" not found")
            .without_events("unknown"),
        of("a ConfigMap as a volume", "configmap-missing", creating())
            .told("FailedMount", "MountVolume.SetUp failed for volume \"cfg\" : configmap \"train-config\" not found")
            .without_events("unknown"),
        of("a folder that is a file", "mount-failed", creating())
            .told("FailedMount", "MountVolume.SetUp failed for volume \"data\" : hostPath type check failed: /data is not a directory")
            .without_events("unknown"),
        of("a volume that another node has", "mount-failed", creating())
            .told("FailedAttachVolume", "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) other-0")
            .without_events("unknown"),
        of("no sandbox", "start-error", creating())
            .told("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: no addresses left")
            .without_events("unknown"),
        of("no such tag", "image-missing", image("ImagePullBackOff", &pull(&format!("{REFERENCE}: not found")))),
        of("no such tag, first try", "image-missing", image("ErrImagePull", &pull(&format!("{REFERENCE}: not found")))),
        of("no such manifest", "image-missing", image("ImagePullBackOff", "rpc error: code = NotFound desc = manifest unknown: manifest unknown")),
        of("a name that is none", "image-missing", waiting("InvalidImageName", "Failed to apply default image tag \"Team/Train\": couldn't parse image name")),
        of("an image that must be there", "image-missing", waiting("ErrImageNeverPull", "Container image \"train\" is not present with pull policy of Never")),
        of("an old kubelet that says it in an event", "image-missing", waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/team/train:v7\""))
            .told("Failed", "Failed to pull image \"registry.example.com/team/train:v7\": rpc error: code = NotFound desc = not found")
            .without_events("unknown"),
        of("no credentials", "image-auth", image("ImagePullBackOff", &pull("failed to authorize: failed to fetch anonymous token: unexpected status from GET request: 401 Unauthorized"))),
        of("credentials of somebody else", "image-auth", image("ImagePullBackOff", &pull("pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"))),
        of("forbidden", "image-auth", image("ErrImagePull", &pull("unexpected status from HEAD request to https://registry.example.com/v2/team/train/manifests/v7: 403 Forbidden"))),
        of("an event that says unauthorized", "image-auth", waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/team/train:v7\""))
            .told("Failed", "Failed to pull image \"registry.example.com/team/train:v7\": failed to authorize: 401 Unauthorized")
            .without_events("unknown"),
        of("no such host", "registry-unreachable", image("ImagePullBackOff", &pull("failed to do request: Head \"https://registry.example.com/v2/\": dial tcp: lookup registry.example.com on 10.0.0.10:53: no such host"))),
        of("a registry that hangs", "registry-unreachable", image("ErrImagePull", &pull("failed to do request: Head \"https://registry.example.com/v2/\": dial tcp 10.1.2.3:443: i/o timeout"))),
        of("a registry that is down", "registry-unreachable", image("ImagePullBackOff", &pull("unexpected status from HEAD request to https://registry.example.com/v2/team/train/manifests/v7: 503 Service Unavailable"))),
        Setup { told: vec![super::setup::Told { reason: "Pulling", message: "Pulling image \"registry.example.com/team/train:v7\"", warning: false, about: "Pod" }],
            ..of("a large image", "image-pulling", creating()).without_events("unknown") },
        of("no such program", "start-error", waiting("RunContainerError", "failed to create containerd task: exec: \"trian\": executable file not found in $PATH")),
        of("a container that cannot be made", "start-error", waiting("CreateContainerError", "failed to generate container spec: no CDI devices found")),
        new("an init container", "init-running").objects([init]),
        new("an init container that crashes", "crash-loop").objects([broken_init]),
        new("a model that loads", "probe-starting").objects([service(1, pod(1), status(running(json!({}))))]),
        new("a check that fails", "probe-starting")
            .objects([service(1, pod(1), status(running(json!({}))))])
            .told("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
        new("a service that crashes", "crash-loop").objects([service(1, pod(1), status(running(json!({"containerStatuses": crash(1, "Error")}))))]),
        new("a service that runs out of memory", "crash-loop").objects([service(1, pod(1), status(running(json!({"containerStatuses": crash(137, "OOMKilled")}))))]),
        new("a sidecar that stays", "sidecar-running").objects([job_with(1, with_proxy, status(running(json!({"containerStatuses": sidecar}))))]),
    ]
}
