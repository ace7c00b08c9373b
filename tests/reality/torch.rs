//! Trainings over two ranks with real torch: whatever ends a rank, all go on together from the last
//! checkpoint. The table of `docs/recovery.md` is what these tests and the same steps by hand
//! showed.

use std::time::{Duration, Instant};

use gpuctl_sandbox::debian::{TORCH, torch_image};

use crate::support::{POOL, Scene, cluster, eventually};

const SCRIPT: &str = include_str!("train.py");

/// Submits the training under this name, with more fields of `job:` and a fault that its first
/// attempt has.
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

/// Steps and losses in the order of the log of rank 0.
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

/// Waits for the end; it went on from a checkpoint with a loss that had fallen, and used so many
/// retries.
#[track_caller]
fn goes_on(scene: &Scene, name: &str, used: u32, told: &str) {
    let end = Instant::now() + Duration::from_secs(180);
    while scene.job(name)["status"] != "succeeded" {
        let job = scene.job(name);
        let fails = job["status"] == "failed" || Instant::now() > end;
        assert!(
            !fails,
            "{name}: {job:#}\n{}",
            scene.gpuctl(&["logs", name, "--tail", "2000"]).out
        );
        std::thread::sleep(Duration::from_millis(500));
    }
    let log = scene
        .gpuctl(&["logs", name, "--rank", "0", "--tail", "2000"])
        .ok()
        .out;
    assert!(log.contains(told), "«{told}» is not in:\n{log}");
    assert!(
        log.contains(&format!(
            "attempt 2: all 2 ranks start ({used} of 1 retries used)"
        )),
        "{log}"
    );
    assert!(log.contains("rank 0 resumed from step 30"), "{log}");
    let steps = steps(&log);
    let first = steps[0].1;
    let resumed = steps.iter().rposition(|(step, _)| *step == 40).unwrap();
    assert!(
        steps[resumed].1 < first / 2.0,
        "the loss goes on where it was: {steps:?}"
    );
    assert_eq!(steps.last().map(|(step, _)| *step), Some(120));
}

#[test]
#[ignore = "makes an image with torch: `cargo reality --slow`"]
fn whatever_ends_a_rank_all_go_on_from_the_last_checkpoint() {
    let scene = Scene::new("real-torch");
    let image = torch_image().unwrap_or_else(|error| panic!("{error:#}"));
    cluster().on_real_node(0, |node| node.load(&image));
    train(&scene, "killed", ", retries: 1", "exit-1");
    goes_on(
        &scene,
        "killed",
        1,
        "gpuctl: rank 1 ended with exit code 1; retry 1 of 1",
    );
    train(&scene, "first-killed", ", retries: 1", "exit-0");
    goes_on(
        &scene,
        "first-killed",
        1,
        "gpuctl: rank 0 ended with exit code 1; retry 1 of 1",
    );
    train(&scene, "memory", ", retries: 1", "memory-1");
    goes_on(&scene, "memory", 1, "retry 1 of 1");
    train(
        &scene,
        "hang",
        ", retries: 1, hang_timeout: 10s, grace_period: 5s",
        "hang-1",
    );
    goes_on(
        &scene,
        "hang",
        1,
        "no rank printed a line for 10s (`job.hang_timeout`); retry 1 of 1",
    );
    // A pod that is taken away costs nothing, whichever rank it is.
    for rank in ["1", "0"] {
        let name = format!("taken-{rank}");
        train(&scene, &name, ", retries: 1", "");
        eventually("it has saved three times", || {
            let log = scene.gpuctl(&["logs", &name, "--rank", "0"]).out;
            if log.contains("step 30/") {
                Ok(())
            } else {
                Err(log)
            }
        });
        scene.gpuctl(&["restart", &name, "--rank", rank]).ok();
        let told = if rank == "1" {
            "rank 1 told to end"
        } else {
            "attempt 2"
        };
        eventually("it has ended", || {
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
            "{told}: {log}"
        );
    }
}
