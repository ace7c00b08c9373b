//! Tests the cockpit of `gpuctl top` in a pseudo-terminal. It shows the output of other commands,
//! opens a shell, and restores the terminal at the end.

use gpuctl_sandbox::{Persona, Tty};

use crate::support::{Scene, cluster};

/// Starts the cockpit for a scene. The shell prints `as before` when the cockpit has restored the
/// terminal.
fn start(scene: &Scene, options: &str) -> Tty {
    let kubeconfig = cluster().kubeconfig(Persona::Admin).display().to_string();
    let line = format!(
        "before=$(stty -g); \"$GPUCTL\" -n {} {options} top; echo exit code $?; [ \"$before\" = \"$(stty -g)\" ] && echo as before; sleep 60",
        scene.name
    );
    let environment = [
        ("KUBECONFIG", kubeconfig.as_str()),
        ("GPUCTL", env!("CARGO_BIN_EXE_gpuctl")),
        ("GPUCTL_PROMETHEUS", "none"),
    ];
    Tty::start(&line, (100, 24), &environment)
}

#[test]
fn keys_open_logs_a_diagnosis_and_a_shell() {
    let scene = Scene::with_nodes("piloted", 1);
    cluster().allow_exec("piloted", cluster().folder());
    scene.create("a", "");
    scene.until("a", "running", None);
    scene.create("waits", "resources: {pool: POOL, gpu: 9}");
    scene.until("waits", "pending", Some("Unschedulable"));
    let pod = scene.pods("a").remove(0)["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut log = cluster().pod_log("piloted", &pod, "main");
    log.say("step 1 loss 2.5");

    let mut tty = start(&scene, "");
    let first = tty.sees("piloted/waits");
    assert!(
        first.contains("piloted/a")
            && first.contains("no metrics")
            && first.contains("1 job waits for 9"),
        "{first}"
    );
    assert!(tty.is_taken());
    // Neither job has a utilization, so they are sorted by name and `a` is selected.
    tty.press("l");
    tty.sees("step 1 loss 2.5");
    log.say("step 2 loss 2.4");
    let followed = tty.sees("step 2 loss 2.4");
    assert!(
        followed.contains("$ gpuctl logs -n piloted a -f"),
        "{followed}"
    );
    tty.press("q");
    tty.until("the list", |text| text.contains(">piloted/a"));
    tty.press("5\rq");
    tty.until("the job that waits", |text| {
        text.contains(">piloted/waits") && text.contains("WANTS")
    });
    tty.press("w");
    let why = tty.sees("done");
    assert!(
        why.contains("$ gpuctl why -n piloted piloted/Job/waits")
            && why.contains("the largest eligible node has 8"),
        "{why}"
    );
    tty.press("q1");
    tty.until("the list", |text| text.contains(">piloted/a"));
    // A shell takes over the terminal, and the cockpit returns when it ends.
    tty.press("e");
    tty.until("the shell", |text| !text.contains("piloted/waits"));
    assert!(!tty.is_taken());
    tty.press("echo from a $((40 + 2)) shell\r");
    tty.sees("from a 42 shell");
    tty.press("exit\r");
    tty.until("the list", |text| {
        text.contains(">piloted/a") && text.contains("piloted/waits")
    });
    // The error of a failed command stays on the screen until the user presses Enter.
    tty.press("5e");
    tty.sees("exit code 1; press Enter to go back");
    tty.press("\r");
    tty.sees("WANTS");
    // Changes in the cluster appear on the screen.
    scene.gpuctl(&["delete", "job", "waits"]).ok();
    tty.sees("no job is waiting");
    tty.press("q");
    let after = tty.sees("as before");
    assert!(after.contains("exit code 0") && !tty.is_taken(), "{after}");
}

#[test]
fn empty_views_say_so_and_read_only_mode_refuses_changes() {
    let scene = Scene::with_nodes("unpiloted", 1);
    let mut tty = start(&scene, "--read-only");
    tty.sees("no workload holds GPUs or waits for them");
    tty.press("3");
    tty.sees("no GPU metrics");
    tty.press("4");
    tty.sees("no queueing system is visible");
    tty.press("?");
    tty.sees("type → nodes → GPUs → job → logs");
    tty.press("x1");
    scene.create("waits", "resources: {pool: POOL, gpu: 9}");
    tty.sees(">unpiloted/waits");
    tty.press("e");
    tty.sees("read-only mode: `exec` is refused");
    assert!(tty.is_taken());
    tty.press("\u{3}");
    let after = tty.sees("as before");
    assert!(after.contains("exit code 0"), "{after}");
}

#[test]
fn a_job_that_pulls_its_image_waits_for_no_gpus() {
    let scene = Scene::with_nodes("unhurried", 1);
    scene.create("pulls", "environment: {image: 'slow/image:pulling'}");
    scene.until("pulls", "pending", None);
    let mut tty = start(&scene, "");
    let screen = tty.sees(">unhurried/pulls");
    let head = screen.lines().next().unwrap_or_default();
    assert!(
        head.contains("GPUs held") && !head.contains("wait") && screen.contains("5 waiting 0"),
        "{screen}"
    );
    tty.press("q");
    tty.sees("as before");
}
