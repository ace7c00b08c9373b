//! `cp` in both directions, through the real API server and a real tar.

use std::fs;
use std::path::PathBuf;

use crate::support::{Scene, cluster, finish};

fn folder(name: &str) -> PathBuf {
    let folder = cluster().folder().join("copies").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn files_and_folders_go_both_ways() {
    let scene = Scene::with_nodes("copy", 1);
    let (here, there) = (folder("here"), folder("there"));
    cluster().allow_exec("copy", &there);
    scene.create("a", "");
    scene.until("a", "running", None);
    let text = |path: &std::path::Path| path.display().to_string();
    let inside = |path: &str| format!("a:{}", text(&there.join(path)));
    fs::create_dir_all(here.join("data/deep")).unwrap();
    fs::write(here.join("data/deep/x"), vec![3; 200_000]).unwrap();
    fs::write(here.join("data/y"), "why").unwrap();
    let run = scene
        .gpuctl(&["cp", &text(&here.join("data")), &inside(""), "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (run["files"].as_u64(), run["bytes"].as_u64()),
        (Some(2), Some(200_003))
    );
    assert_eq!(
        fs::read(there.join("data/deep/x")).unwrap(),
        vec![3; 200_000]
    );
    // A name of its own, and one that a folder gives.
    scene
        .gpuctl(&["cp", &text(&here.join("data/y")), &inside("renamed")])
        .ok();
    assert_eq!(fs::read_to_string(there.join("renamed")).unwrap(), "why");
    scene
        .gpuctl(&["cp", &text(&here.join("data/y")), &inside("data/")])
        .ok();
    // Relative paths begin where the container's commands do.
    fs::write(there.join("result.bin"), vec![9; 3_000_000]).unwrap();
    let back = scene
        .gpuctl(&["cp", "copy/a:result.bin", &text(&here)])
        .ok();
    assert_eq!(
        back.out,
        format!("copied 1 file, 2.9 MiB, to {}\n", text(&here))
    );
    assert_eq!(
        fs::read(here.join("result.bin")).unwrap(),
        vec![9; 3_000_000]
    );
    scene
        .gpuctl(&["cp", &inside("data"), &text(&here.join("back"))])
        .ok();
    assert_eq!(fs::read(here.join("back/deep/x")).unwrap().len(), 200_000);
}

#[test]
fn a_copy_that_cannot_be_says_why_and_leaves_nothing() {
    let scene = Scene::with_nodes("copy-fails", 1);
    let (here, there) = (folder("fails-here"), folder("fails-there"));
    cluster().allow_exec("copy-fails", &there);
    scene.create("a", "");
    scene.until("a", "running", None);
    let local = |name: &str| here.join(name).display().to_string();
    scene
        .gpuctl(&["cp", "a:missing", &local("x")])
        .exits(4)
        .says("there is no `missing` in the job");
    scene
        .gpuctl(&["cp", &local("missing"), "a:x"])
        .exits(4)
        .says("there is no");
    scene
        .gpuctl(&["cp", &local("missing"), &local("x")])
        .exits(2)
        .says("neither source nor destination is in a job");
    scene
        .gpuctl(&["cp", "a:x", "b:y"])
        .exits(2)
        .says("source and destination are both in a job");
    scene.gpuctl(&["cp", "a:..", &local("x")]).exits(2);
    fs::write(here.join("file"), "x").unwrap();
    scene
        .gpuctl(&["cp", &local("file"), "a:nowhere/"])
        .exits(4)
        .says("folder `nowhere/` does not exist");
    scene
        .gpuctl(&["cp", &local("file"), "a:nowhere/y"])
        .exits(4);
    std::os::unix::fs::symlink("/etc/passwd", there.join("leak")).unwrap();
    fs::create_dir_all(there.join("tree")).unwrap();
    std::os::unix::fs::symlink("../../..", there.join("tree/up")).unwrap();
    fs::write(there.join("tree/good"), "good").unwrap();
    scene
        .gpuctl(&["cp", "a:tree", &local("tree")])
        .exits(1)
        .says("skipped tree/up: its link leads out of the folder, or nowhere");
    assert!(fs::symlink_metadata(here.join("tree/up")).is_err() && here.join("tree/good").exists());
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
        .says("already exists with another file type");
    fs::create_dir_all(there.join("shut")).unwrap();
    fs::write(there.join("shut/x"), "").unwrap();
    // An interrupted copy goes as it came.
    fs::File::create(there.join("large"))
        .unwrap()
        .set_len(4 << 30)
        .unwrap();
    let child = scene.start(&["cp", "a:large", &local("large")]);
    std::thread::sleep(std::time::Duration::from_millis(700));
    std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, std::time::Duration::from_secs(20))
        .exits(130)
        .says("interrupted while copying");
    let child = scene.start(&[
        "cp",
        &there.join("large").display().to_string(),
        "a:arrives",
    ]);
    std::thread::sleep(std::time::Duration::from_millis(700));
    std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, std::time::Duration::from_secs(20)).exits(130);
    // The command does not wait long for the container to remove the file.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let names = fs::read_dir(&there)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<_> = names.collect();
        left.sort();
        if left == ["large", "leak", "shut", "tree"] {
            break;
        }
        assert!(std::time::Instant::now() < end, "{left:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let mut left: Vec<_> = fs::read_dir(&here)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["file", "tree"]);
}
