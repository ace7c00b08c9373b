//! Tests trainings with two ranks and real torch: after any rank ends, all ranks resume together
//! from the last checkpoint. The table in `docs/recovery.md` records the results of these tests and
//! of the same steps done by hand.

use std::time::Duration;

use gpuctl_sandbox::debian::{TORCH, torch_image};

use crate::support::{POOL, Scene, cluster, eventually};

const SCRIPT: &str = include_str!("train.py");

/// Submits the training with additional `job:` fields. The fault occurs in its first attempt.
fn train(scene: &Scene, name: &str, job: &str, fault: &str) {
    let folder = cluster().folder().join("torch");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("train.py"), SCRIPT).unwrap();
    let yaml = format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}{job}}}\n\
         environment: {{image: '{TORCH}', command: [torchrun, train.py], workingDir: /workspace, env: {{USE_LIBUV: '0', FAULT: '{fault}'}}}}\n\
         resources: {{gpu: 1, pool: {POOL}, node_count: 2, memory: 1Gi}}\nfiles: [train.py]\n\
         storage: {{workdirs: [{{path: /out, host_path: /var/lib/gpuctl-sandbox/{name}}}]}}\n\
         checkpoint: {{path: /out/checkpoints, resume: [--resume, $CHECKPOINT_LATEST]}}\n"
    );
    let file = folder.join(format!("{name}.yaml"));
    std::fs::write(&file, yaml).unwrap();
    scene.gpuctl(&["create", "-f", file.to_str().unwrap()]).ok();
}

/// The steps and losses in a log, in order.
fn steps(log: &str) -> Vec<(u32, f64)> {
    let step = |line: &str| {
        let (step, rest) = line.split_once("step ")?.1.split_once('/')?;
        Some((
            step.parse().ok()?,
            rest.split_once("loss=")?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()?,
        ))
    };
    log.lines().filter_map(step).collect()
}

/// Asserts that the job succeeded, resumed from a checkpoint with a lower loss, logged `message`,
/// and used this many retries.
#[track_caller]
fn assert_resumed(scene: &Scene, name: &str, retries: u32, message: &str) {
    let log = || scene.gpuctl(&["logs", name, "--tail", "2000"]).out;
    let what = format!("{name} succeeds");
    gpuctl_sandbox::eventually(&what, Duration::from_secs(180), || {
        let job = scene.job(name);
        assert_ne!(job["status"], "failed", "{name}: {job:#}\n{}", log());
        if job["status"] == "succeeded" {
            Ok(())
        } else {
            Err(job)
        }
    });
    let log = scene
        .gpuctl(&["logs", name, "--rank", "0", "--tail", "2000"])
        .ok()
        .out;
    assert!(log.contains(message), "«{message}» is not in:\n{log}");
    assert!(
        log.contains(&format!(
            "attempt 2: all 2 ranks start ({retries} of 1 retries used)"
        )),
        "{log}"
    );
    assert!(log.contains("rank 0 resumed from step 30"), "{log}");
    let steps = steps(&log);
    let first = steps[0].1;
    let resumed = steps.iter().rposition(|(step, _)| *step == 40).unwrap();
    assert!(
        steps[resumed].1 < first / 2.0,
        "the loss did not continue from the checkpoint: {steps:?}"
    );
    assert_eq!(steps.last().map(|(step, _)| *step), Some(120));
}

#[test]
#[ignore = "makes an image with torch: `cargo reality --slow`"]
fn all_ranks_resume_from_the_last_checkpoint_after_any_rank_ends() {
    let scene = Scene::new("real-torch");
    let image = torch_image().unwrap_or_else(|error| panic!("{error:#}"));
    cluster().on_real_node(0, |node| node.load(&image));
    train(&scene, "killed", ", retries: 1", "exit-1");
    assert_resumed(
        &scene,
        "killed",
        1,
        "gpuctl: rank 1 ended with exit code 1; retry 1 of 1",
    );
    train(&scene, "first-killed", ", retries: 1", "exit-0");
    assert_resumed(
        &scene,
        "first-killed",
        1,
        "gpuctl: rank 0 ended with exit code 1; retry 1 of 1",
    );
    train(&scene, "memory", ", retries: 1", "memory-1");
    assert_resumed(&scene, "memory", 1, "retry 1 of 1");
    train(
        &scene,
        "hang",
        ", retries: 1, hang_timeout: 10s, grace_period: 5s",
        "hang-1",
    );
    assert_resumed(
        &scene,
        "hang",
        1,
        "no rank printed a line for 10s (`job.hang_timeout`); retry 1 of 1",
    );
    // Deleting the pod of any rank does not use up a retry.
    for rank in ["1", "0"] {
        let name = format!("taken-{rank}");
        train(&scene, &name, ", retries: 1", "");
        eventually("the job has saved three checkpoints", || {
            let log = scene.gpuctl(&["logs", &name, "--rank", "0"]).out;
            if log.contains("step 30/") {
                Ok(())
            } else {
                Err(log)
            }
        });
        scene.gpuctl(&["restart", &name, "--rank", rank]).ok();
        eventually("the job succeeds", || {
            let job = scene.job(&name);
            if job["status"] == "succeeded" {
                Ok(())
            } else {
                Err(job)
            }
        });
        let log = scene.gpuctl(&["logs", &name, "--tail", "2000"]).ok().out;
        assert!(
            log.contains("(0 of 1 retries used)") && log.contains("rank 1 resumed from step"),
            "{name}: {log}"
        );
    }
}
