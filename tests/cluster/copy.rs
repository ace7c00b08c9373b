//! Tests `cp` in both directions, with the real API server and a real tar.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuctl_sandbox::eventually;

use crate::support::{Scene, cluster, finish};

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
