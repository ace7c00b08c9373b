//! Tests nodes that do not answer. Every command about their pods must end within a time limit and
//! report the reason.

use std::time::{Duration, Instant};

use gpuctl_sandbox::debian::{PYTHON, python_image};
use gpuctl_sandbox::{Cluster, Hardware, Options, Persona};

use crate::runner::{Run, gpuctl, run};
use crate::support::{POOL, eventually, training};

#[test]
fn commands_end_when_the_kubelet_does_not_answer() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    cluster
        .add_real_node(&Hardware::gpus(1).in_pool(POOL))
        .unwrap();
    let run_within = |arguments: &[&str], input: &str, seconds: u64| -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        let started = Instant::now();
        let run = run(command, input);
        assert!(
            started.elapsed() < Duration::from_secs(seconds),
            "{arguments:?} took {:?}: {}",
            started.elapsed(),
            run.err
        );
        run
    };
    run_within(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("job", "echo hello; sleep 600", ""),
        90,
    )
    .ok();
    eventually("the job writes its log", || {
        let log = run_within(&["logs", "job"], "", 60);
        if log.out.contains("hello") {
            Ok(())
        } else {
            Err(log.err)
        }
    });
    cluster.on_real_node(0, |node| node.freeze("kubelet"));
    let file = cluster.folder().join("file");
    std::fs::write(&file, "x").unwrap();
    let file = file.display().to_string();
    for arguments in [
        &["logs", "job"][..],
        &["exec", "job", "--", "true"],
        &["cp", &file, "job:/tmp/file"],
        &["cp", "job:/tmp/file", &file],
    ] {
        // The default timeout is one minute.
        let run = run_within(&[&["--request-timeout", "5s"], arguments].concat(), "", 30);
        assert_ne!(run.code, 0, "{arguments:?}: {}{}", run.out, run.err);
        assert!(
            run.err.contains("gpu-real-0"),
            "{arguments:?} does not name the node: {}",
            run.err
        );
    }
    cluster.on_real_node(0, |node| node.thaw("kubelet"));
    eventually("the kubelet answers again", || {
        let exec = run_within(&["exec", "job", "--", "true"], "", 75);
        if exec.code == 0 {
            Ok(())
        } else {
            Err(exec.err)
        }
    });
}

/// This training fills a disk that all pods of the node share.
#[test]
fn a_full_disk_is_shown_on_its_node_and_its_job() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    cluster
        .add_real_node(&Hardware {
            disk: Some(64),
            ..Hardware::gpus(2).in_pool(POOL)
        })
        .unwrap();
    let run_gpuctl = |arguments: &[&str], input: &str| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    let fill = "echo writes; dd if=/dev/zero of=/scratch/data bs=1M; sleep 600";
    let extra =
        "job: {name: writer, retries: 0}\nstorage: {workdirs: [{path: /scratch, emptyDir: true}]}";
    run_gpuctl(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("writer", fill, extra),
    )
    .ok();
    let why = eventually("the writer is evicted", || {
        let why = run_gpuctl(&["why", "writer", "-o", "json"], "").json();
        if why["causes"][0]["cause"] == "evicted-disk" {
            Ok(why)
        } else {
            Err(why)
        }
    });
    assert!(why.to_string().contains("ephemeral-storage"), "{why:#}");
    // The kubelet keeps the DiskPressure condition for minutes after it has freed disk space.
    let node = eventually("the node reports DiskPressure", || {
        let nodes = run_gpuctl(&["get", "nodes", "-o", "json"], "").ok().json();
        let node = nodes["items"][0].clone();
        if node["reason"] == "DiskPressure" {
            Ok(node)
        } else {
            Err(node)
        }
    });
    assert_eq!(
        (&node["nodeName"], &node["status"]),
        (&"gpu-real-0".into(), &"faulty".into())
    );
    run_gpuctl(&["create", "-f", "-"], &training("next", "echo hello", "")).ok();
    let why = eventually("the next job waits for the disk", || {
        let why = run_gpuctl(&["why", "next"], "").out;
        if why.contains("disk-pressure") {
            Ok(why)
        } else {
            Err(why)
        }
    });
    assert!(why.contains("gpu-real-0"), "{why}");
}

/// Kubernetes marks a silent node NotReady after 40 s, but keeps its pods for another five minutes.
#[test]
#[ignore = "takes minutes: `cargo reality --slow`"]
fn jobs_on_a_node_without_power_can_be_deleted() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    cluster
        .add_real_node(&Hardware::gpus(2).in_pool(POOL))
        .unwrap();
    let run_gpuctl = |arguments: &[&str], input: &str| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    run_gpuctl(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("job", "sleep 600", ""),
    )
    .ok();
    cluster.on_real_node(0, gpuctl_sandbox::RealNode::end);
    let job = eventually("the job's node is lost", || {
        let job = run_gpuctl(&["get", "jobs", "--no-progress", "-o", "json"], "")
            .ok()
            .json()["items"][0]
            .clone();
        if job["reason"] == "NodeLost" {
            Ok(job)
        } else {
            Err(job)
        }
    });
    assert!(
        job["message"]
            .as_str()
            .is_some_and(|message| message.contains("gpu-real-0")),
        "{job:#}"
    );
    let nodes = run_gpuctl(&["get", "nodes", "-o", "json"], "").ok().out;
    assert!(nodes.contains("NotReady"), "{nodes}");
    // An ordinary deletion waits for the kubelet, which is no longer running. A forced one does not
    // wait, and warns about the consequences.
    let timed_out = run_gpuctl(&["delete", "job", "job", "--timeout", "5s"], "");
    assert_ne!(timed_out.code, 0, "{}", timed_out.err);
    assert!(timed_out.err.contains("--force"), "{}", timed_out.err);
    let deleted = run_gpuctl(&["delete", "job", "job", "--force"], "")
        .ok()
        .says("gpu-real-0 does not respond (NodeStatusUnknown): containers of job `job` may still be running there: job-0-")
        .says("/main");
    assert_eq!(
        deleted.out,
        "job deleted: 1 GPU stays in use on gpu-real-0 until the node responds again or is removed\n"
    );
}

/// The training uses two of three nodes with one GPU each. The third one replaces a dead node.
#[test]
#[ignore = "makes an image of Debian: `cargo reality --slow`"]
fn restart_moves_a_rank_off_a_dead_node() {
    let image = python_image().unwrap_or_else(|error| panic!("{error:#}"));
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    for index in 0..3 {
        cluster
            .add_real_node(&Hardware::gpus(1).in_pool(POOL))
            .unwrap();
        cluster.on_real_node(index, |node| node.load(&image));
    }
    let run_gpuctl = |arguments: &[&str], input: &str| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    let yaml = format!(
        "kind: training\nversion: v0.1\njob: {{name: pair, retries: 0, grace_period: 5s}}\n\
         environment: {{image: '{PYTHON}', command: [sleep, '600']}}\nresources: {{pool: {POOL}, gpu: 1, node_count: 2}}\n"
    );
    run_gpuctl(&["create", "-f", "-", "--wait", "--timeout", "90s"], &yaml).ok();
    let until_log_contains = |text: &str| {
        eventually(&format!("the log has «{text}»"), || {
            let log = run_gpuctl(&["logs", "pair", "--rank", "0"], "");
            if log.out.contains(text) {
                Ok(())
            } else {
                Err(log.out + &log.err)
            }
        });
    };
    until_log_contains("attempt 1: all 2 ranks start");
    let admin = cluster.kubectl(Persona::Admin);
    let node_of = |rank: &str| {
        let pods = admin.json(&[
            "get",
            "pods",
            "-l",
            &format!("gpuctl/job=pair,batch.kubernetes.io/job-completion-index={rank}"),
        ]);
        pods["items"][0]["spec"]["nodeName"]
            .as_str()
            .map(ToOwned::to_owned)
    };
    let dead = node_of("1").unwrap();
    let index = dead.strip_prefix("gpu-real-").unwrap().parse().unwrap();
    cluster.on_real_node(index, gpuctl_sandbox::RealNode::end);
    eventually("the node of rank 1 is lost", || {
        let job = run_gpuctl(&["get", "jobs", "--no-progress", "-o", "json"], "")
            .ok()
            .json()["items"][0]
            .clone();
        if job["reason"] == "NodeLost" {
            Ok(())
        } else {
            Err(job)
        }
    });
    run_gpuctl(&["restart", "pair", "--rank", "1"], "")
        .ok()
        .says(&format!("{dead} did not respond: containers of job `pair` may still be running there and writing its files"));
    until_log_contains("attempt 2: all 2 ranks start (0 of 0 retries used)");
    assert!(node_of("1").is_some_and(|node| node != dead));
}
