//! Tests every kind of job in a namespace that enforces the restricted Pod Security level.

use serde_json::json;

use crate::support::Scene;

#[test]
fn every_kind_runs_under_the_restricted_level() {
    let scene = Scene::new("real-restricted");
    scene.admin.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "real-restricted", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}));
    let documents = [
        (
            "training",
            "job: {name: fit}",
            "command: [train, --steps, '100000']",
            "",
        ),
        (
            "inference",
            "job: {name: web}",
            "command: [serve, '8000']",
            "service: {port: 8000, health_check: /health}",
        ),
        (
            "compute",
            "job: {name: cpu}",
            "command: [serve, '8000']",
            "service: {port: 8000}",
        ),
        (
            "notebook",
            "job: {name: book}",
            "command: [serve, '8888']",
            "",
        ),
    ];
    for (kind, job, command, sections) in documents {
        let gpus = u32::from(kind != "compute");
        let yaml = format!(
            "kind: {kind}\nversion: v0.1\n{job}\nenvironment: {{image: 'toolbox-user:1', {command}}}\nresources: {{pool: real, gpu: {gpus}}}\n{sections}\n"
        );
        // The level is checked before any object is created, and the error names the field to set.
        scene
            .gpuctl_with(&["create", "-f", "-"], &yaml)
            .exits(1)
            .says("violates PodSecurity")
            .says("security: restricted");
        let yaml = format!("{yaml}security: restricted\n");
        scene
            .gpuctl_with(&["create", "-f", "-", "--wait", "--timeout", "90s"], &yaml)
            .ok();
    }
    for name in ["fit", "web", "cpu", "book"] {
        let id = scene.gpuctl(&["exec", name, "--", "id", "-u"]).ok().out;
        assert_eq!(id.trim(), "1000", "{name}");
        scene.gpuctl(&["delete", "job", name, "--force"]).ok();
    }
}

/// Under `runAsNonRoot`, the kubelet refuses to start an image whose user is root, and gpuctl shows
/// its message.
#[test]
fn a_root_image_is_reported_under_run_as_non_root() {
    let scene = Scene::new("real-root");
    scene.train("root", "id", "security: restricted");
    scene.until("root", "pending", None);
    crate::support::eventually("the job shows the kubelet's reason", || {
        let job = scene.job("root");
        if job["message"]
            .as_str()
            .is_some_and(|message| message.contains("runAsNonRoot"))
        {
            Ok(())
        } else {
            Err(job)
        }
    });
    scene.gpuctl(&["delete", "job", "root", "--force"]).ok();
}
