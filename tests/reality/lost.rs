//! Nodes that do not answer: every command about their pods ends, with the reason, in bounded time.

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
    let within = |arguments: &[&str], input: &str, longest: u64| -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        let started = Instant::now();
        let run = run(command, input);
        assert!(
            started.elapsed() < Duration::from_secs(longest),
            "{arguments:?} took {:?}: {}",
            started.elapsed(),
            run.err
        );
        run
    };
    within(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("job", "echo hello; sleep 600", ""),
        90,
    )
    .ok();
    eventually("it speaks", || {
        let log = within(&["logs", "job"], "", 60);
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
        // The default is a minute.
        let run = within(&[&["--request-timeout", "5s"], arguments].concat(), "", 30);
        assert_ne!(run.code, 0, "{arguments:?}: {}{}", run.out, run.err);
        assert!(
            run.err.contains("gpu-real-0"),
            "{arguments:?} names no node: {}",
            run.err
        );
    }
    cluster.on_real_node(0, |node| node.thaw("kubelet"));
    eventually("it answers again", || {
        let again = within(&["exec", "job", "--", "true"], "", 75);
        if again.code == 0 {
            Ok(())
        } else {
            Err(again.err)
        }
    });
}

/// A training fills the disk that all pods of its node share.
#[test]
fn a_node_whose_disk_is_full_says_so_and_so_does_the_job_that_filled_it() {
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
    let ask = |arguments: &[&str], input: &str| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    let fill = "echo writes; dd if=/dev/zero of=/scratch/data bs=1M; sleep 600";
    let extra =
        "job: {name: writer, retries: 0}\nstorage: {workdirs: [{path: /scratch, emptyDir: true}]}";
    ask(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("writer", fill, extra),
    )
    .ok();
    let why = eventually("the writer is evicted", || {
        let why = ask(&["why", "writer", "-o", "json"], "").json();
        if why["causes"][0]["cause"] == "evicted-disk" {
            Ok(why)
        } else {
            Err(why)
        }
    });
    assert!(why.to_string().contains("ephemeral-storage"), "{why:#}");
    // The kubelet keeps pods away for minutes after it has deleted what filled the disk.
    let node = eventually("the node says so", || {
        let nodes = ask(&["get", "nodes", "-o", "json"], "").ok().json();
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
    ask(&["create", "-f", "-"], &training("next", "echo hello", "")).ok();
    let why = eventually("the next one waits for the disk", || {
        let why = ask(&["why", "next"], "").out;
        if why.contains("disk-pressure") {
            Ok(why)
        } else {
            Err(why)
        }
    });
    assert!(why.contains("gpu-real-0"), "{why}");
}

/// The API server gives a node up after 40 seconds; its pods are kept for five minutes more.
#[test]
#[ignore = "takes minutes: `cargo reality --slow`"]
fn a_node_without_power_is_told_and_its_jobs_can_be_taken_away() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    cluster
        .add_real_node(&Hardware::gpus(2).in_pool(POOL))
        .unwrap();
    let ask = |arguments: &[&str], input: &str| {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    ask(
        &["create", "-f", "-", "--wait", "--timeout", "60s"],
        &training("job", "sleep 600", ""),
    )
    .ok();
    cluster.on_real_node(0, gpuctl_sandbox::RealNode::end);
    let job = eventually("the job's node is lost", || {
        let job = ask(&["get", "jobs", "--no-progress", "-o", "json"], "")
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
    let nodes = ask(&["get", "nodes", "-o", "json"], "").ok().out;
    assert!(nodes.contains("NotReady"), "{nodes}");
    // A deletion waits for the kubelet, which is gone; by force it does not, and says what that
    // means.
    let waited = ask(&["delete", "job", "job", "--timeout", "5s"], "");
    assert_ne!(waited.code, 0, "{}", waited.err);
    assert!(waited.err.contains("--force"), "{}", waited.err);
    ask(&["delete", "job", "job", "--force"], "")
        .ok()
        .says("gpu-real-0 did not answer: containers of job `job` may still run there");
}

/// Three nodes of one GPU, a training over two of them: the third takes over.
#[test]
#[ignore = "makes an image of Debian: `cargo reality --slow`"]
fn a_rank_on_a_dead_node_is_freed_and_all_ranks_go_on() {
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
    let ask = |arguments: &[&str], input: &str| {
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
    ask(&["create", "-f", "-", "--wait", "--timeout", "90s"], &yaml).ok();
    let until_said = |words: &str| {
        eventually(words, || {
            let log = ask(&["logs", "pair", "--rank", "0"], "");
            if log.out.contains(words) {
                Ok(())
            } else {
                Err(log.out + &log.err)
            }
        });
    };
    until_said("attempt 1: all 2 ranks start");
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
        let job = ask(&["get", "jobs", "--no-progress", "-o", "json"], "")
            .ok()
            .json()["items"][0]
            .clone();
        if job["reason"] == "NodeLost" {
            Ok(())
        } else {
            Err(job)
        }
    });
    ask(&["restart", "pair", "--rank", "1"], "")
        .ok()
        .says(&format!("{dead} did not answer: containers of job `pair` may still run there and write its files"));
    until_said("attempt 2: all 2 ranks start (0 of 0 retries used)");
    assert!(node_of("1").is_some_and(|node| node != dead));
}
