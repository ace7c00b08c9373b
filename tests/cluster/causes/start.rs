//! Scheduled pods that do not start. The simulated kubelet uses the messages of kubelet 1.36 and
//! containerd 2.2; `cargo reality` compares some of them with a real kubelet.

use serde_json::{Value, json};

use super::setup::{NS, Setup, gpus, job_with, pod, service, status, waiting, with};

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
    let with_status = |title: &str, truth, annotations| {
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
    let on_failure = with(pod(1), json!({"restartPolicy": "OnFailure"}));
    let bare = |annotations: Value| {
        let spec = with(
            pod(1),
            json!({"restartPolicy": "Always", "nodeName": format!("{NS}-0")}),
        );
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "annotations": annotations}, "spec": spec})
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
        with_status("a Secret for the environment", "secret-missing", waiting("CreateContainerConfigError", "secret \"hf-token\" not found")),
        with_status("a key of a Secret", "secret-missing", waiting("CreateContainerConfigError", "couldn't find key TOKEN in Secret team/hf-token")),
        with_status("a ConfigMap for the environment", "configmap-missing", waiting("CreateContainerConfigError", "configmap \"train-config\" not found")),
        with_status("a Secret as a volume", "secret-missing", creating())
            .emitted("FailedMount", "MountVolume.SetUp failed for volume \"keys\" : secret \"hf-keys\" not found")
            .without_events("unknown"),
        with_status("a ConfigMap as a volume", "configmap-missing", creating())
            .emitted("FailedMount", "MountVolume.SetUp failed for volume \"cfg\" : configmap \"train-config\" not found")
            .without_events("unknown"),
        with_status("a folder that is a file", "mount-failed", creating())
            .emitted("FailedMount", "MountVolume.SetUp failed for volume \"data\" : hostPath type check failed: /data is not a directory")
            .without_events("unknown"),
        with_status("a volume that another node has", "mount-failed", creating())
            .emitted("FailedAttachVolume", "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) other-0")
            .without_events("unknown"),
        with_status("no sandbox", "start-error", creating())
            .emitted("FailedCreatePodSandBox", "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: no addresses left")
            .without_events("unknown"),
        with_status("no such tag", "image-missing", image("ImagePullBackOff", &pull(&format!("{REFERENCE}: not found")))),
        with_status("no such tag, first try", "image-missing", image("ErrImagePull", &pull(&format!("{REFERENCE}: not found")))),
        with_status("no such manifest", "image-missing", image("ImagePullBackOff", "rpc error: code = NotFound desc = manifest unknown: manifest unknown")),
        with_status("an invalid name", "image-missing", waiting("InvalidImageName", "Failed to apply default image tag \"Team/Train\": couldn't parse image name")),
        with_status("an image that must be present", "image-missing", waiting("ErrImageNeverPull", "Container image \"train\" is not present with pull policy of Never")),
        with_status("an old kubelet that says it in an event", "image-missing", waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/team/train:v7\""))
            .emitted("Failed", "Failed to pull image \"registry.example.com/team/train:v7\": rpc error: code = NotFound desc = not found")
            .without_events("unknown"),
        with_status("no credentials", "image-auth", image("ImagePullBackOff", &pull("failed to authorize: failed to fetch anonymous token: unexpected status from GET request: 401 Unauthorized"))),
        with_status("credentials of another user", "image-auth", image("ImagePullBackOff", &pull("pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed"))),
        with_status("forbidden", "image-auth", image("ErrImagePull", &pull("unexpected status from HEAD request to https://registry.example.com/v2/team/train/manifests/v7: 403 Forbidden"))),
        with_status("an event that says unauthorized", "image-auth", waiting("ImagePullBackOff", "Back-off pulling image \"registry.example.com/team/train:v7\""))
            .emitted("Failed", "Failed to pull image \"registry.example.com/team/train:v7\": failed to authorize: 401 Unauthorized")
            .without_events("unknown"),
        with_status("digits in the name of an image", "image-missing", image("ErrImagePull", &pull("registry.example.com/team/401k-model:v1: not found"))),
        with_status("a rate limit", "image-rate-limit", image("ImagePullBackOff", &pull("unexpected status from HEAD request to https://registry.example.com/v2/team/train/manifests/v7: 429 Too Many Requests"))),
        with_status("another platform", "image-platform", image("ErrImagePull", &pull("no match for platform in manifest: not found"))),
        with_status("a full disk", "image-disk-full", image("ErrImagePull", &pull("failed to extract layer sha256:4a: write /var/lib/a.so: no space left on device: unknown"))),
        with_status("a registry that the kubelet calls unavailable", "registry-unreachable", waiting("RegistryUnavailable", "image pull failed for registry.example.com/team/train:v7 because the registry is unavailable")),
        with_status("an image without a signature", "image-policy", waiting("SignatureValidationFailed", "image pull failed for registry.example.com/team/train:v7 because the signature validation failed")),
        with_status("no such host", "registry-unreachable", image("ImagePullBackOff", &pull("failed to do request: Head \"https://registry.example.com/v2/\": dial tcp: lookup registry.example.com on 10.0.0.10:53: no such host"))),
        with_status("a registry that hangs", "registry-unreachable", image("ErrImagePull", &pull("failed to do request: Head \"https://registry.example.com/v2/\": dial tcp 10.1.2.3:443: i/o timeout"))),
        with_status("a registry that is down", "registry-unreachable", image("ImagePullBackOff", &pull("unexpected status from HEAD request to https://registry.example.com/v2/team/train/manifests/v7: 503 Service Unavailable"))),
        Setup { emitted: vec![super::setup::EmittedEvent { reason: "Pulling", message: "Pulling image \"registry.example.com/team/train:v7\"", warning: false, about: "Pod" }],
            ..with_status("a large image", "image-pulling", creating()).without_events("unknown") },
        with_status("no such program", "start-error", waiting("RunContainerError", "failed to create containerd task: exec: \"trian\": executable file not found in $PATH")),
        with_status("a container that cannot be made", "start-error", waiting("CreateContainerError", "failed to generate container spec: no CDI devices found")),
        new("an init container", "init-running").objects([init]),
        new("an init container that crashes", "crash-loop").objects([broken_init]),
        new("a model that loads", "probe-starting").objects([service(1, pod(1), status(running(json!({}))))]),
        new("a check that fails", "probe-starting")
            .objects([service(1, pod(1), status(running(json!({}))))])
            .emitted("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503"),
        new("a service that crashes", "crash-loop").objects([service(1, pod(1), status(running(json!({"containerStatuses": crash(1, "Error")}))))]),
        new("a training with restartPolicy OnFailure", "crash-loop").objects([job_with(1, on_failure, status(running(json!({"containerStatuses": crash(1, "Error")}))))]),
        new("a bare pod that crashes", "crash-loop").objects([bare(status(running(json!({"containerStatuses": crash(137, "OOMKilled")}))))]),
        new("a bare pod without its program", "crash-loop").objects([bare(status(running(json!({"containerStatuses": crash(128, "StartError")}))))]),
        new("a service that runs out of memory", "crash-loop").objects([service(1, pod(1), status(running(json!({"containerStatuses": crash(137, "OOMKilled")}))))]),
        new("a sidecar that stays", "sidecar-running").objects([job_with(1, with_proxy, status(running(json!({"containerStatuses": sidecar}))))]),
    ]
}
