//! Tests `logs` with the real API server: logs are merged, filtered, followed until the job ends,
//! and survive broken connections.

use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpuctl_sandbox::Persona;

use crate::support::{Scene, cluster, file, finish, items};

fn pod_names(scene: &Scene, job: &str) -> Vec<String> {
    scene
        .pods(job)
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn logs_of_ranks_are_merged_by_time_and_filtered() {
    let scene = Scene::with_nodes("merged", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.until("a", "running", None);
    let pods = pod_names(&scene, "a");
    let mut logs: Vec<_> = pods
        .iter()
        .map(|pod| cluster().pod_log("merged", pod, "main"))
        .collect();
    let start = jiff::Timestamp::now();
    for step in 0..6 {
        let at = start
            .checked_add(jiff::SignedDuration::from_millis(step * 10))
            .unwrap();
        logs[usize::try_from(step % 2).unwrap()].say_at(at, &format!("step {step}"));
    }
    let lines = |arguments: &[&str]| scene.gpuctl(&[&["logs", "a"], arguments].concat()).ok().out;
    assert_eq!(
        lines(&[]),
        " 0 │ step 0\n 1 │ step 1\n 0 │ step 2\n 1 │ step 3\n 0 │ step 4\n 1 │ step 5\n"
    );
    assert_eq!(lines(&["--tail", "2"]), " 0 │ step 4\n 1 │ step 5\n");
    assert_eq!(lines(&["--rank", "1"]), "step 1\nstep 3\nstep 5\n");
    assert_eq!(lines(&["--pod", &pods[0]]), "step 0\nstep 2\nstep 4\n");
    assert_eq!(lines(&["--grep", "[13]$"]), " 1 │ step 1\n 1 │ step 3\n");
    assert_eq!(lines(&["--grep", "step", "--tail", "1"]), " 1 │ step 5\n");
    let hour_ago = start
        .checked_sub(jiff::SignedDuration::from_hours(1))
        .unwrap()
        .to_string();
    for time in ["1h", "yesterday", &hour_ago] {
        let recent_lines = lines(&["--since", time, "--rank", "0"]);
        assert_eq!(recent_lines.lines().count(), 3, "{time}");
    }
    for (time, message) in [
        ("soon", "`soon` is not a valid time"),
        ("2999-01-01", "`2999-01-01` is in the future"),
    ] {
        scene
            .gpuctl(&["logs", "a", "--since", time])
            .exits(2)
            .says(message);
    }
    let stamped = lines(&["--timestamps", "--rank", "0", "--tail", "1"]);
    assert!(
        stamped.ends_with("Z step 4\n") && stamped.starts_with("20"),
        "{stamped}"
    );
    let json = scene.gpuctl(&["logs", "a", "-o", "json"]).ok().json();
    assert_eq!(json["logs"].as_array().unwrap().len(), 6);
    assert_eq!(json["lines"][5]["rank"], 1);
    assert_eq!(json["lastTimestamp"], json["lines"][5]["timestamp"]);
    scene
        .gpuctl(&["logs", "a", "--rank", "7"])
        .exits(4)
        .says("job `a` has no rank 7")
        .says("available: 0, 1");
    scene.gpuctl(&["logs", "a", "--grep", "["]).exits(2);
    scene.gpuctl(&["logs", "nope"]).exits(4);
}

#[test]
fn a_pending_job_explains_why_there_is_no_log() {
    let scene = Scene::with_nodes("silent", 1);
    scene.create("a", "resources: {pool: POOL, gpu: 9}");
    scene.until("a", "pending", Some("Unschedulable"));
    let run = scene
        .gpuctl(&["logs", "a"])
        .ok()
        .says("no log yet: a is pending Unschedulable");
    assert_eq!(run.out, "");
}

#[test]
fn previous_reads_the_log_of_the_earlier_pod() {
    let scene = Scene::with_nodes("previous", 1);
    scene.create("a", "job: {name: NAME, retries: 1}\nenvironment: {image: busybox, env: {SIM_SECONDS: 2, SIM_EXIT: 1}}");
    scene.until("a", "running", None);
    let first = pod_names(&scene, "a").remove(0);
    cluster()
        .pod_log("previous", &first, "main")
        .say("the first try");
    scene
        .gpuctl(&["logs", "a", "--previous"])
        .exits(4)
        .says("no pod of job `a` has an earlier attempt");
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |pods| {
        items(pods).len() == 2
    });
    let second = pod_names(&scene, "a")
        .into_iter()
        .find(|name| *name != first)
        .unwrap();
    scene.get_until(&["pod", &second], |pod| pod["status"]["phase"] != "Pending");
    cluster()
        .pod_log("previous", &second, "main")
        .say("the second try");
    assert_eq!(
        scene.gpuctl(&["logs", "a", "--previous"]).ok().out,
        "the first try\n"
    );
    assert_eq!(scene.gpuctl(&["logs", "a"]).ok().out, "the second try\n");
}

#[test]
fn following_includes_later_pods_and_ends_with_the_job() {
    let scene = Scene::with_nodes("follow", 1);
    // The second rank waits for its GPUs.
    scene.create("blocker", "resources: {pool: POOL, gpu: 4}");
    scene.until("blocker", "running", None);
    scene.create("a", "environment: {image: busybox, env: {SIM_SECONDS: 8}}\nresources: {pool: POOL, gpu: 4, node_count: 2}");
    scene.until("a", "pending", Some("WaitingForPeers"));
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |pods| {
        items(pods)
            .iter()
            .any(|pod| pod["status"]["phase"] == "Running")
    });
    let child = scene.start(&["logs", "a", "-f"]);
    let first = scene
        .pods("a")
        .into_iter()
        .find(|pod| pod["status"]["phase"] == "Running")
        .unwrap();
    let rank = |pod: &serde_json::Value| {
        pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let name = |pod: &serde_json::Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    let mut early = cluster().pod_log("follow", &name(&first), "main");
    early.say("alone");
    scene.gpuctl(&["delete", "job", "blocker", "--force"]).ok();
    scene.until("a", "running", None);
    let second = scene
        .pods("a")
        .into_iter()
        .find(|pod| name(pod) != name(&first))
        .unwrap();
    let mut late = cluster().pod_log("follow", &name(&second), "main");
    late.say("joined");
    early.say("together");
    // This is written while the pod still runs, because `-f` exits shortly after the job ends.
    late.say("the last word");
    scene.until("a", "succeeded", None);
    let run = finish(child, Duration::from_secs(60)).ok();
    let mut lines: Vec<&str> = run.out.lines().collect();
    lines.sort_unstable();
    let (one, two) = (rank(&first), rank(&second));
    let mut expected = [
        format!(" {one} │ alone"),
        format!(" {one} │ together"),
        format!(" {two} │ joined"),
        format!(" {two} │ the last word"),
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected, "{}", run.err);
    assert!(run.err.contains("a succeeded"), "{}", run.err);
}

#[test]
fn following_continues_with_the_new_pod_of_a_retried_rank() {
    let scene = Scene::with_nodes("retried", 1);
    scene.create("a", "job: {name: NAME, retries: 1}\nenvironment: {image: busybox, env: {SIM_SECONDS: 3, SIM_EXIT: 1}}");
    scene.until("a", "running", None);
    let first = pod_names(&scene, "a").remove(0);
    cluster().pod_log("retried", &first, "main").say("one");
    let child = scene.start(&["logs", "a", "-f"]);
    scene.get_until(&["pods", "-l", "gpuctl/job=a"], |pods| {
        items(pods).len() == 2
    });
    let second = pod_names(&scene, "a")
        .into_iter()
        .find(|name| *name != first)
        .unwrap();
    cluster().pod_log("retried", &second, "main").say("two");
    // The retry fails too, so the job fails.
    let run = finish(child, Duration::from_secs(90)).exits(10);
    assert_eq!(run.out, "one\ntwo\n", "{}", run.err);
    assert!(
        run.err.contains(&format!(
            "rank 0 continues in {second}: {first} exited with code 1 (Error)"
        )),
        "{}",
        run.err
    );
}

/// Starts a proxy to the API server that breaks all connections at an interval, and accepts none
/// while it is closed.
fn unreliable_proxy(every: Duration, closed: &Arc<AtomicBool>) -> u16 {
    let (closed, is_closed) = (Arc::clone(closed), Arc::clone(closed));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = cluster()
        .api_server()
        .trim_start_matches("https://")
        .to_owned();
    let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
    let cut = Arc::clone(&open);
    std::thread::spawn(move || {
        let mut last = Instant::now();
        loop {
            std::thread::sleep(every.min(Duration::from_millis(100)));
            let due = last.elapsed() >= every;
            if !due && !is_closed.load(Ordering::Relaxed) {
                continue;
            }
            last = Instant::now();
            for stream in cut.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    });
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if closed.load(Ordering::Relaxed) {
                continue;
            }
            let server = TcpStream::connect(&target).unwrap();
            open.lock()
                .unwrap()
                .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
            let (mut up, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut up, &mut to));
            let (mut down, mut back) = (server, client);
            std::thread::spawn(move || std::io::copy(&mut down, &mut back));
        }
    });
    port
}

#[test]
fn broken_connections_neither_lose_nor_repeat_lines() {
    const LINES: usize = 300;
    let scene = Scene::with_nodes("shaky", 1);
    scene.create("a", "");
    scene.until("a", "running", None);
    let pod = pod_names(&scene, "a").remove(0);
    let mut log = cluster().pod_log("shaky", &pod, "main");
    log.say("line 0");
    let port = unreliable_proxy(Duration::from_millis(900), &Arc::default());
    let kubeconfig = std::fs::read_to_string(cluster().kubeconfig(Persona::Admin)).unwrap();
    let config = file(
        "shaky.kubeconfig",
        &kubeconfig.replace(
            &cluster().api_server(),
            &format!("https://127.0.0.1:{port}"),
        ),
    );
    let mut child = scene.start(&[
        "logs",
        "a",
        "-f",
        "--tail",
        "1000",
        "--kubeconfig",
        config.to_str().unwrap(),
    ]);
    let reader = BufReader::new(child.stdout.take().unwrap());
    let reading = std::thread::spawn(move || {
        reader
            .lines()
            .map_while(Result::ok)
            .take(LINES)
            .collect::<Vec<_>>()
    });
    for number in 1..LINES {
        log.say(&format!("line {number}"));
        // Spreads the lines over several broken connections.
        std::thread::sleep(Duration::from_millis(20));
    }
    // This loop only waits. The assertion below shows the lines and stderr.
    let end = Instant::now() + Duration::from_secs(60);
    while !reading.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    let run = finish(child, Duration::from_secs(5));
    let seen = reading.join().unwrap();
    assert_eq!(
        seen,
        (0..LINES)
            .map(|number| format!("line {number}"))
            .collect::<Vec<_>>(),
        "{}",
        run.err
    );
}

#[test]
fn logs_show_the_main_container_by_default() {
    let scene = Scene::with_nodes("sidecar", 1);
    scene.create(
        "a",
        "resources: {pool: POOL, gpu: 1}\npod: {containers: [{name: agent, image: busybox}]}",
    );
    // Containers of the overlay are merged by name, so `agent` is added to the job's own container.
    scene.until("a", "running", None);
    let pod = pod_names(&scene, "a").remove(0);
    let mut log = cluster().pod_log("sidecar", &pod, "main");
    log.say("a\u{1b}[2Jb\u{1b}[32mc");
    log.say(" 10%|#    | 1/10\r 20%|##   | 2/10");
    // A pipe gets no colors and no cursor movements.
    assert_eq!(
        scene.gpuctl(&["logs", "a"]).ok().out,
        "abc\n 20%|##   | 2/10\n"
    );
    assert_eq!(
        scene
            .gpuctl(&["logs", "a", "--raw", "--tail", "1"])
            .ok()
            .out,
        " 10%|#    | 1/10\r 20%|##   | 2/10\n"
    );
    assert_eq!(
        scene.gpuctl(&["logs", "a", "-o", "json"]).ok().json()["logs"][0],
        "a\u{1b}[2Jb\u{1b}[32mc"
    );
    scene
        .gpuctl(&["logs", "a", "-c", "typo"])
        .exits(4)
        .says("job `a` has no container `typo`")
        .says("available: main, agent");
    scene
        .gpuctl(&["logs", "a", "-f", "-c", "typo"])
        .exits(4)
        .says("has no container `typo`");
}

#[test]
fn following_survives_an_outage_of_the_api_server() {
    let scene = Scene::with_nodes("away", 1);
    scene.create("a", "environment: {image: busybox, env: {SIM_SECONDS: 9}}");
    scene.until("a", "running", None);
    let pod = pod_names(&scene, "a").remove(0);
    let mut log = cluster().pod_log("away", &pod, "main");
    log.say("before");
    let closed: Arc<AtomicBool> = Arc::default();
    let port = unreliable_proxy(Duration::from_secs(3600), &closed);
    let kubeconfig = std::fs::read_to_string(cluster().kubeconfig(Persona::Admin)).unwrap();
    let config = file(
        "away.kubeconfig",
        &kubeconfig.replace(
            &cluster().api_server(),
            &format!("https://127.0.0.1:{port}"),
        ),
    );
    let child = scene.start(&["logs", "a", "-f", "--kubeconfig", config.to_str().unwrap()]);
    // Lets the command open its stream before the outage of four seconds.
    std::thread::sleep(Duration::from_secs(2));
    closed.store(true, Ordering::Relaxed);
    log.say("meanwhile");
    std::thread::sleep(Duration::from_secs(4));
    closed.store(false, Ordering::Relaxed);
    log.say("after");
    let run = finish(child, Duration::from_secs(60)).ok();
    assert_eq!(run.out, "before\nmeanwhile\nafter\n", "{}", run.err);
    assert!(
        run.err.contains("retrying") && run.err.contains("a succeeded"),
        "{}",
        run.err
    );
}

/// Rank 1 fails first. Then both other ranks report that they lost it, in lines that differ only in
/// numbers.
#[test]
fn first_error_finds_the_rank_that_failed_first() {
    let scene = Scene::with_nodes("first-error", 1);
    scene.create(
        "a",
        "job: {name: NAME, retries: 0, gang: none, restart: rank}\nresources: {pool: POOL, gpu: 1, node_count: 3}\n\
         environment: {image: busybox, command: [train], env: {SIM_SECONDS: 20, SIM_EXIT: 1}}",
    );
    scene.until("a", "running", None);
    for (rank, pod) in scene.pods("a").iter().enumerate() {
        let mut log = cluster().pod_log(
            "first-error",
            pod["metadata"]["name"].as_str().unwrap(),
            "main",
        );
        let second = |second: usize| {
            jiff::Timestamp::from_second(1_769_853_600 + i64::try_from(second).unwrap()).unwrap()
        };
        log.say_at(second(0), "saved checkpoint at step 100");
        (0..40).for_each(|step| log.say_at(second(step), &format!("step {step}/100")));
        match rank {
            1 => {
                log.say_at(second(50), "Traceback (most recent call last):");
                log.say_at(second(50), "  File \"train.py\", line 7, in <module>");
                log.say_at(second(50), "ValueError: shard 812 is broken");
            }
            rank => log.say_at(
                second(60 + rank),
                &format!("ConnectionResetError: peer 1 of rank {rank} is gone"),
            ),
        }
    }
    let output = scene.gpuctl(&["logs", "a", "--first-error"]).ok().out;
    let head = output.lines().next().unwrap();
    assert!(
        head.starts_with("rank 1 on first-error-0 at ")
            && head.ends_with("; a different error later on 2 other pods"),
        "{output}"
    );
    assert_eq!(output.lines().count(), 32, "{output}");
    assert!(
        output.ends_with(
            "    File \"train.py\", line 7, in <module>\n> ValueError: shard 812 is broken\n"
        ),
        "{output}"
    );
    let rank_0 = scene
        .gpuctl(&["logs", "a", "--first-error", "--rank", "0", "-o", "json"])
        .ok()
        .json();
    assert_eq!(
        (
            rank_0["first"]["rank"].as_u64(),
            rank_0["podsRead"].as_u64()
        ),
        (Some(0), Some(1))
    );
    scene.until("a", "failed", None);
    let why = scene.gpuctl(&["why", "a"]).ok().out;
    assert!(
        why.contains("the first error in the logs, from rank 1: ValueError: shard 812 is broken"),
        "{why}"
    );
    assert!(
        why.contains("of work since the last log line about a checkpoint"),
        "{why}"
    );
}

/// Start-up messages and errors before more steps are not the cause. After the error, the launcher
/// repeats it.
#[test]
fn first_error_is_the_one_that_ended_the_job() {
    let scene = Scene::with_nodes("first-error-cause", 1);
    scene.create(
        "a",
        "job: {name: NAME, retries: 0}\nresources: {pool: POOL, gpu: 1}\n\
         environment: {image: busybox, command: [train], env: {SIM_SECONDS: 20, SIM_EXIT: 1}}",
    );
    scene.until("a", "running", None);
    let pod = scene.pods("a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = cluster().pod_log("first-error-cause", &pod, "main");
    log.say("gpu-1:211:302 [0] NCCL INFO NET/Plugin : Plugin load (libnccl-net.so) returned 2");
    log.say("/entrypoint.sh: line 3: ldconfig: command not found");
    log.say("Traceback (most recent call last):");
    log.say("  File \"data.py\", line 3, in read");
    log.say("OSError: shard 3 is missing");
    (0..40).for_each(|step| log.say(&format!("step {step}/100 loss 2.5")));
    log.say("[rank0]: Traceback (most recent call last):");
    log.say("[rank0]:   File \"train.py\", line 7, in <module>");
    log.say("[rank0]: ValueError: shard 812 is broken");
    log.say("E0131 10:00:00.123456 12 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 42) of binary: /usr/bin/python");
    let output = scene.gpuctl(&["logs", "a", "--first-error"]).ok().out;
    assert!(
        output.ends_with("> [rank0]: ValueError: shard 812 is broken\n"),
        "{output}"
    );
    scene.until("a", "failed", None);
    let why = scene.gpuctl(&["why", "a"]).ok().out;
    assert!(
        why.contains("[rank0]: ValueError: shard 812 is broken") && !why.contains("OSError"),
        "{why}"
    );
}
