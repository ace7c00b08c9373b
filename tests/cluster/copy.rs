//! Tests `cp` in both directions, with the real API server and a real tar.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuctl_sandbox::{Persona, eventually};
use serde_json::{Value, json};

use crate::support::{Scene, cluster, finish, items, run};

fn folder(name: &str) -> PathBuf {
    let folder = cluster().folder().join("copies").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn files_and_folders_are_copied_in_both_directions() {
    let scene = Scene::with_nodes("copy", 1);
    let (local_folder, remote) = (folder("here"), folder("there"));
    cluster().allow_exec("copy", &remote);
    scene.create("a", "");
    scene.until("a", "running", None);
    let text = |path: &std::path::Path| path.display().to_string();
    let inside = |path: &str| format!("a:{}", text(&remote.join(path)));
    fs::create_dir_all(local_folder.join("data/deep")).unwrap();
    fs::write(local_folder.join("data/deep/x"), vec![3; 200_000]).unwrap();
    fs::write(local_folder.join("data/y"), "why").unwrap();
    let run = scene
        .gpuctl(&[
            "cp",
            &text(&local_folder.join("data")),
            &inside(""),
            "-o",
            "json",
        ])
        .ok()
        .json();
    assert_eq!(
        (run["files"].as_u64(), run["bytes"].as_u64()),
        (Some(2), Some(200_003))
    );
    assert_eq!(
        fs::read(remote.join("data/deep/x")).unwrap(),
        vec![3; 200_000]
    );
    // The destination is either a new name, or a folder in which the copy keeps its name.
    scene
        .gpuctl(&[
            "cp",
            &text(&local_folder.join("data/y")),
            &inside("renamed"),
        ])
        .ok();
    assert_eq!(fs::read_to_string(remote.join("renamed")).unwrap(), "why");
    scene
        .gpuctl(&["cp", &text(&local_folder.join("data/y")), &inside("data/")])
        .ok();
    // Relative paths are resolved against the container's working directory.
    fs::write(remote.join("result.bin"), vec![9; 3_000_000]).unwrap();
    let back = scene
        .gpuctl(&["cp", "copy/a:result.bin", &text(&local_folder)])
        .ok();
    assert_eq!(
        back.out,
        format!("copied 1 file, 2.9 MiB, to {}\n", text(&local_folder))
    );
    assert_eq!(
        fs::read(local_folder.join("result.bin")).unwrap(),
        vec![9; 3_000_000]
    );
    scene
        .gpuctl(&["cp", &inside("data"), &text(&local_folder.join("back"))])
        .ok();
    assert_eq!(
        fs::read(local_folder.join("back/deep/x")).unwrap().len(),
        200_000
    );
}

#[test]
fn a_failed_copy_explains_why_and_leaves_nothing() {
    let scene = Scene::with_nodes("copy-fails", 1);
    let (local_folder, remote) = (folder("fails-here"), folder("fails-there"));
    cluster().allow_exec("copy-fails", &remote);
    scene.create("a", "");
    scene.until("a", "running", None);
    let local = |name: &str| local_folder.join(name).display().to_string();
    scene
        .gpuctl(&["cp", "a:missing", &local("x")])
        .exits(4)
        .says("`missing` does not exist in the job");
    scene
        .gpuctl(&["cp", &local("missing"), "a:x"])
        .exits(4)
        .says("does not exist on this machine");
    scene
        .gpuctl(&["cp", &local("missing"), &local("x")])
        .exits(2)
        .says("neither source nor destination is in a job");
    scene
        .gpuctl(&["cp", "a:x", "b:y"])
        .exits(2)
        .says("source and destination are both in a job");
    scene.gpuctl(&["cp", "a:..", &local("x")]).exits(2);
    fs::write(local_folder.join("file"), "x").unwrap();
    scene
        .gpuctl(&["cp", &local("file"), "a:nowhere/"])
        .exits(4)
        .says("folder `nowhere/` does not exist");
    scene
        .gpuctl(&["cp", &local("file"), "a:nowhere/y"])
        .exits(4);
    std::os::unix::fs::symlink("/etc/passwd", remote.join("leak")).unwrap();
    fs::create_dir_all(remote.join("tree")).unwrap();
    std::os::unix::fs::symlink("../../..", remote.join("tree/up")).unwrap();
    fs::write(remote.join("tree/good"), "good").unwrap();
    scene
        .gpuctl(&["cp", "a:tree", &local("tree")])
        .exits(1)
        .says("skipped tree/up: its link points outside the folder, or nowhere");
    assert!(
        fs::symlink_metadata(local_folder.join("tree/up")).is_err()
            && local_folder.join("tree/good").exists()
    );
    scene
        .gpuctl(&["cp", "a:leak", &local("leak")])
        .exits(1)
        .says("it is a link to /etc/passwd; copy that path instead");
    scene
        .gpuctl(&["cp", "a:tree", &local("no/such/folder")])
        .exits(1)
        .says("No such file");
    scene
        .gpuctl(&["cp", "a:tree", &local("file")])
        .exits(1)
        .says("already exists with a different file type");
    fs::create_dir_all(remote.join("shut")).unwrap();
    fs::write(remote.join("shut/x"), "").unwrap();
    // An interrupted copy leaves nothing behind.
    fs::File::create(remote.join("large"))
        .unwrap()
        .set_len(4 << 30)
        .unwrap();
    // 4 GiB take longer than the appearance of the partial file, so the signal arrives in between.
    let entries = |folder: &Path| fs::read_dir(folder).unwrap().count();
    let limit = Duration::from_secs(60);
    let before = entries(&local_folder);
    let child = scene.start(&["cp", "a:large", &local("large")]);
    eventually("the download has begun", limit, || {
        entries(&local_folder) > before
    });
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, Duration::from_secs(20))
        .exits(130)
        .says("interrupted while copying");
    let before = entries(&remote);
    let child = scene.start(&[
        "cp",
        &remote.join("large").display().to_string(),
        "a:arrives",
    ]);
    eventually("the upload has begun", limit, || entries(&remote) > before);
    std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, Duration::from_secs(20)).exits(143);
    // The command exits before the container has removed the file.
    let limit = Duration::from_secs(20);
    eventually("the container removes the partial file", limit, || {
        let names = fs::read_dir(&remote)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<_> = names.collect();
        left.sort();
        if left == ["large", "leak", "shut", "tree"] {
            return Ok(());
        }
        Err(left)
    });
    let mut left: Vec<_> = fs::read_dir(&local_folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["file", "tree"]);
}

/// Submits a training with a claim at `path` that succeeds after a second.
fn ended_job(scene: &Scene, name: &str, path: &Path) {
    let extra = format!(
        "environment: {{image: busybox, env: {{SIM_SECONDS: 1}}}}\nstorage: {{workdirs: \
         [{{path: {}, size: 1Gi}}, {{path: /scratch, emptyDir: true}}]}}",
        path.display()
    );
    scene.create(name, &extra);
    scene.until(name, "succeeded", None);
}

fn copy_pods(scene: &Scene) -> Vec<Value> {
    items(&scene.get(&["pods", "-l", "gpuctl/copy-of"]))
}

#[test]
fn an_ended_job_is_copied_through_a_pod_that_is_removed() {
    let scene = Scene::with_nodes("copy-ended", 1);
    // The simulated kubelet runs commands on this machine, so the claim has the path of a folder.
    let (local_folder, remote) = (folder("ended-here"), folder("ended-there"));
    cluster().allow_exec("copy-ended", &remote);
    ended_job(&scene, "a", &remote);
    fs::write(remote.join("result.bin"), vec![9; 100_000]).unwrap();
    let local = |name: &str| local_folder.join(name).display().to_string();
    let inside = |name: &str| format!("a:{}", remote.join(name).display());
    let copied = scene
        .gpuctl(&["cp", &inside("result.bin"), &local("result.bin")])
        .ok()
        .says("job `a` has status succeeded; starting pod copy-ended/a-cp-")
        .says("read-only and is removed after the copy");
    assert!(copied.out.starts_with("copied 1 file"), "{}", copied.out);
    assert_eq!(
        fs::read(local_folder.join("result.bin")).unwrap(),
        vec![9; 100_000]
    );
    let no_pods = |pods: &Value| items(pods).is_empty();
    scene.get_until(&["pods", "-l", "gpuctl/copy-of"], no_pods);
    // The pod is also removed if the copy fails.
    scene
        .gpuctl(&["cp", &inside("nothing"), &local("x")])
        .exits(4)
        .says("does not exist in the job");
    scene.get_until(&["pods", "-l", "gpuctl/copy-of"], no_pods);
    assert_eq!(scene.pods("a").len(), 1, "the job has only its own pod");
}

#[test]
fn copies_that_need_no_pod_start_none() {
    let scene = Scene::with_nodes("copy-refused", 1);
    let (local_folder, claim) = (folder("refused-here"), Path::new("/out"));
    ended_job(&scene, "a", claim);
    let local = |name: &str| local_folder.join(name).display().to_string();
    scene
        .gpuctl(&["cp", "a:/scratch/x", &local("x")])
        .exits(4)
        .says("`/scratch/x` no longer exists: it was not on a claim")
        .says("these paths still exist: /out (claim a-out)");
    scene
        .gpuctl(&["cp", "a:/out/../etc/passwd", &local("x")])
        .exits(2)
        .says("contains `..`");
    scene
        .gpuctl(&["cp", "a:out/x", &local("x")])
        .exits(2)
        .says("is relative");
    scene
        .gpuctl(&["cp", "a:/out/x", &local("x"), "-c", "nope"])
        .exits(4)
        .says("available: main");
    fs::write(local_folder.join("file"), "x").unwrap();
    scene
        .gpuctl(&["cp", &local("file"), "a:/out/x"])
        .exits(1)
        .says("nothing can be copied into it")
        .says("gpuctl restart job copy-refused/a");
    let mut command = scene.command(&["cp", "a:/out/x", &local("x")]);
    command.env("GPUCTL_READ_ONLY", "1");
    run(command, "").exits(5).says("GPUCTL_READ_ONLY is set");
    // A user who can read jobs and enter pods, but not create pods.
    scene.admin.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "enters", "namespace": "copy-refused"},
        "rules": [
            {"apiGroups": ["batch", "apps", ""], "resources": ["jobs", "pods", "events", "deployments",
             "statefulsets"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"]},
        ],
    }));
    scene.admin.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "enters", "namespace": "copy-refused"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "enters"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": Persona::Frank.user()}],
    }));
    let frank = scene.seen_by(Persona::Frank);
    let limit = Duration::from_secs(30);
    eventually("the role is in effect", limit, || {
        let run = frank.gpuctl(&["cp", "a:/out/x", &local("x")]);
        let is_refused = run.err.contains("cannot create resource \"pods\"")
            && run.err.contains("`cp` starts a pod");
        if run.code == 5 && is_refused {
            Ok(())
        } else {
            Err(run.err)
        }
    });
    assert!(copy_pods(&scene).is_empty(), "none of these started a pod");
    // A quota that the job fits into, but no further pod.
    scene.admin.apply(&json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": "copy-refused"},
        "spec": {"hard": {"limits.memory": "1Mi"}},
    }));
    eventually("the quota is in effect", limit, || {
        let run = scene.gpuctl(&["cp", "a:/out/x", &local("x"), "-o", "json"]);
        if run.err.contains("QuotaExceeded") {
            Ok(())
        } else {
            Err(run.err)
        }
    });
}

#[test]
fn the_pod_of_a_copy_only_reads_and_ends_with_the_command() {
    let scene = Scene::with_nodes("copy-pod", 1);
    let local = folder("pod-here").join("x").display().to_string();
    ended_job(&scene, "a", Path::new("/out"));
    let uid = scene.get(&["job", "a"])["metadata"]["uid"].clone();
    // The pod stays pending, because the only node of the pool accepts no pods.
    scene.admin.run(&["cordon", "copy-pod-0"]);
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let child = scene.start(&["cp", "a:/out/x", &local]);
        let limit = Duration::from_secs(60);
        let pod = eventually("the pod exists", limit, || {
            copy_pods(&scene).pop().ok_or("no pod")
        });
        let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
        assert_eq!(metadata["labels"]["gpuctl/copy-of"], "a");
        assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "gpuctl");
        assert_eq!(metadata["ownerReferences"][0]["uid"], uid);
        assert_eq!(spec["activeDeadlineSeconds"], 4 * 3600);
        assert_eq!(
            spec["volumes"][0]["persistentVolumeClaim"],
            json!({"claimName": "a-out", "readOnly": true})
        );
        let container = &spec["containers"][0];
        assert_eq!(
            (&container["image"], &container["command"][0]),
            (&json!("busybox"), &json!("sleep"))
        );
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/out");
        assert_eq!(container["volumeMounts"][0]["readOnly"], true);
        assert_eq!(
            container["securityContext"]["capabilities"]["drop"],
            json!(["ALL"])
        );
        assert!(container["resources"]["limits"]["nvidia.com/gpu"].is_null());
        assert_eq!(
            scene.job("a")["status"],
            "succeeded",
            "the job does not own this pod"
        );
        std::process::Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .unwrap();
        finish(child, Duration::from_secs(20))
            .exits(code)
            .says("interrupted while copying");
        scene.get_until(&["pods", "-l", "gpuctl/copy-of"], |pods| {
            items(pods).is_empty()
        });
    }
    // The pod is deleted with the job.
    let child = scene.start(&["cp", "a:/out/x", &local]);
    eventually("the pod exists", Duration::from_secs(60), || {
        copy_pods(&scene).pop().ok_or("no pod")
    });
    scene.gpuctl(&["delete", "job", "a"]).ok();
    finish(child, Duration::from_secs(60))
        .exits(4)
        .says("was deleted before it could read the claims");
}
