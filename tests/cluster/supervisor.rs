//! Tests the rank supervisor without a cluster. Real processes on this machine run shell scripts in
//! place of a training. `tests/reality/torch.rs` tests the supervisor in pods with real torch.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpuctl_sandbox::eventually;

/// Installs Python if it is missing. The images of trainings contain it.
fn python() -> &'static str {
    let is_installed = || {
        Command::new("python3")
            .arg("--version")
            .stdout(Stdio::null())
            .status()
            .is_ok()
    };
    if !is_installed() {
        let install = |arguments: &[&str]| {
            Command::new("apt-get")
                .args(arguments)
                .stdout(Stdio::null())
                .status()
        };
        let _ = install(&["update", "--quiet"]);
        let _ = install(&[
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            "python3",
        ]);
        assert!(
            is_installed(),
            "`python3` is not installed, and apt-get cannot install it"
        );
    }
    "python3"
}

/// Ranks that share a port and a folder.
struct Training {
    folder: PathBuf,
    port: u16,
    ranks: usize,
    options: Vec<String>,
    script: String,
}

/// The supervisor of one rank, which is killed when the test ends.
struct Rank {
    child: Child,
    /// The file to which the rank's command writes its process id.
    pid: PathBuf,
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Rank {
    /// Kills the rank as if its container ended: no process is notified, and none survives.
    fn kill(&mut self) {
        self.signal("STOP");
        if let Ok(pid) = fs::read_to_string(&self.pid) {
            let _ = Command::new("kill")
                .args(["-s", "KILL", "--", &format!("-{}", pid.trim())])
                .stderr(Stdio::null())
                .status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .stderr(Stdio::null())
            .status();
    }

    #[track_caller]
    fn code(&mut self) -> i32 {
        let status = eventually("the rank ends", Duration::from_secs(40), || {
            self.child.try_wait().unwrap()
        });
        status.code().unwrap_or(-1)
    }
}

impl Training {
    /// Defines a training in which each rank runs `script`, with RANK and `GPUCTL_ATTEMPT` set, in
    /// the training's folder.
    fn new(name: &str, ranks: usize, retries: u32, script: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("gpuctl-supervisor-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("token"), "0123456789abcdef".repeat(4)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let options = [
            "--retries",
            &retries.to_string(),
            "--grace",
            "2",
            "--settle",
            "0.5",
            "--patience",
            "3",
        ];
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self {
            folder,
            port,
            ranks,
            options,
            script: script.to_owned(),
        }
    }

    fn with(mut self, options: &[&str]) -> Self {
        self.options
            .extend(options.iter().map(|option| (*option).to_owned()));
        self
    }

    fn start(&self, rank: usize) -> Rank {
        self.start_pod(rank, "first", 0)
    }

    /// Starts a rank in a pod with this name. The Job controller has counted this number of
    /// failures before.
    fn start_pod(&self, rank: usize, pod: &str, failures: u32) -> Rank {
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/crates/manifest/src/render/supervisor.py"
        );
        let err = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("err.{rank}")))
            .unwrap();
        let mut command = Command::new(python());
        command.args([
            "-IS",
            program,
            "--run",
            "test",
            "--token",
            "token",
            "--pod",
            pod,
            "--rank",
            &rank.to_string(),
        ]);
        command.args([
            "--ranks",
            &self.ranks.to_string(),
            "--port",
            &self.port.to_string(),
        ]);
        let script = format!(
            "echo $$ > pid.$RANK; echo $GPUCTL_ATTEMPT >> attempts.$RANK; {}",
            self.script
        );
        command
            .args(["--failures", &failures.to_string()])
            .args(&self.options)
            .args(["--", "sh", "-c", &script]);
        command
            .env("RANK", rank.to_string())
            .current_dir(&self.folder)
            .stderr(err)
            .stdout(Stdio::null());
        Rank {
            child: command.spawn().unwrap(),
            pid: self.folder.join(format!("pid.{rank}")),
        }
    }

    fn all(&self) -> Vec<Rank> {
        (0..self.ranks).map(|rank| self.start(rank)).collect()
    }

    /// Returns the messages of a rank's supervisor, and what its command wrote to stderr.
    fn stderr(&self, rank: usize) -> String {
        fs::read_to_string(self.folder.join(format!("err.{rank}"))).unwrap()
    }

    /// Returns the attempts that a rank has started.
    fn attempts(&self, rank: usize) -> String {
        self.file(&format!("attempts.{rank}"))
            .replace('\n', " ")
            .trim()
            .to_owned()
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    #[track_caller]
    fn until(&self, what: &str, is_true: impl Fn() -> bool) {
        eventually(what, Duration::from_secs(20), || {
            is_true().then_some(()).ok_or_else(|| self.stderr(0))
        });
    }
}

#[test]
fn no_rank_starts_before_all_have_connected() {
    let training = Training::new("gate", 2, 0, "true");
    let mut late = training.start(1);
    // Rank 1 must not start without rank 0.
    sleep(Duration::from_secs(2));
    assert_eq!(training.attempts(1), "", "rank 1 waits");
    let mut first = training.start(0);
    assert_eq!((first.code(), late.code()), (0, 0));
    assert_eq!(
        (training.attempts(0).as_str(), training.attempts(1).as_str()),
        ("1", "1")
    );
}

#[test]
fn a_failed_rank_restarts_all_ranks_for_one_retry() {
    let training = Training::new(
        "one",
        3,
        1,
        "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; [ $RANK = 1 ] && exit 7; exec sleep 60",
    );
    let codes: Vec<i32> = training.all().iter_mut().map(Rank::code).collect();
    assert_eq!(codes, [0, 0, 0]);
    for rank in 0..3 {
        assert_eq!(training.attempts(rank), "1 2", "rank {rank}");
    }
    let output = training.stderr(2);
    assert!(
        output.contains("gpuctl: rank 1 ended with exit code 7; retry 1 of 1"),
        "{output}"
    );
    assert!(
        output.contains("gpuctl: attempt 2: all 3 ranks start (1 of 1 retries used)"),
        "{output}"
    );
}

#[test]
fn ranks_that_crash_together_cost_one_retry_and_restart_completed_ranks() {
    let script = "[ $GPUCTL_ATTEMPT = 3 ] && exit 0; [ $RANK = 3 ] && exit 0; sleep 0.3; exit 1";
    let training = Training::new("together", 4, 2, script);
    let codes: Vec<i32> = training.all().iter_mut().map(Rank::code).collect();
    assert_eq!(codes, [0, 0, 0, 0]);
    assert_eq!(training.attempts(3), "1 2 3");
}

#[test]
fn without_retries_the_failed_rank_keeps_its_exit_code_and_the_job_ends() {
    for culprit in [0, 1] {
        let script = format!("[ $RANK = {culprit} ] && exit 7; exec sleep 60");
        let training = Training::new(&format!("spent-{culprit}"), 2, 0, &script);
        let mut ranks = training.all();
        let codes = [ranks[culprit].code(), ranks[1 - culprit].code()];
        assert_eq!(codes, [7, 113]);
        let output = training.stderr(1 - culprit);
        assert!(
            output.contains(&format!(
                "gpuctl: rank {culprit} ended with exit code 7; there are no retries"
            )),
            "{output}"
        );
    }
}

#[test]
fn a_lost_pod_costs_the_failures_counted_by_the_job_controller() {
    for (counted, used) in [(0, 0), (1, 1)] {
        let training = Training::new(
            &format!("gone-{counted}"),
            2,
            1,
            "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; exec sleep 60",
        );
        let mut first = training.start(0);
        let mut second = training.start(1);
        training.until("both run", || {
            training.attempts(0) == "1" && training.attempts(1) == "1"
        });
        second.kill();
        training.until("rank 0 stops", || {
            training.stderr(0).contains("rank 1: the pod is gone")
        });
        let mut replaced = training.start_pod(1, "second", counted);
        assert_eq!((first.code(), replaced.code()), (0, 0));
        let output = training.stderr(0);
        assert!(
            output.contains(&format!(
                "attempt 2: all 2 ranks start ({used} of 1 retries used)"
            )),
            "{output}"
        );
    }
}

#[test]
fn a_new_rank_0_learns_the_used_retries_from_the_other_ranks() {
    let script =
        "[ $GPUCTL_ATTEMPT = 3 ] && exit 0; [ $GPUCTL_ATTEMPT$RANK = 11 ] && exit 7; exec sleep 60";
    let training = Training::new("zero", 2, 3, script);
    let mut first = training.start(0);
    let mut second = training.start(1);
    training.until("the second attempt runs", || {
        training.attempts(0) == "1 2" && training.attempts(1) == "1 2"
    });
    first.kill();
    let mut replaced = training.start_pod(0, "second", 1);
    assert_eq!((replaced.code(), second.code()), (0, 0));
    let output = training.stderr(1);
    assert!(output.contains("rank 0: the pod is new"), "{output}");
    // One retry was for the failed command, and one for the failed pod.
    assert!(
        output.contains("attempt 3: all 2 ranks start (2 of 3 retries used)"),
        "{output}"
    );
}

#[test]
fn an_evicted_pod_lets_all_ranks_save_and_costs_no_retry() {
    let script = "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; trap 'echo saved > saved.$RANK; exit 0' TERM; while :; do sleep 0.1; done";
    let training = Training::new("evicted", 2, 0, script);
    let mut first = training.start(0);
    let mut second = training.start(1);
    training.until("both run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    // The shells set their traps right after they have written their attempts.
    sleep(Duration::from_millis(300));
    second.signal("TERM");
    // A command that exits with 0 after SIGTERM has not completed. If the supervisor exited with 0,
    // the Job controller would count the rank as complete.
    assert_eq!(second.code(), 143);
    training.until("rank 0 saved too", || training.file("saved.0") == "saved\n");
    assert_eq!(training.file("saved.1"), "saved\n");
    let mut replaced = training.start_pod(1, "second", 0);
    assert_eq!((first.code(), replaced.code()), (0, 0));
    assert!(
        training
            .stderr(0)
            .contains("attempt 2: all 2 ranks start (0 of 0 retries used)"),
        "{}",
        training.stderr(0)
    );
}

#[test]
fn a_training_is_restarted_only_when_no_rank_prints() {
    let script = "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; [ $RANK = 0 ] && for i in 1 2 3 4 5 6; do echo step $i; sleep 0.5; done; exec sleep 60";
    let training = Training::new("hang", 2, 1, script).with(&["--hang-timeout", "2"]);
    let started = Instant::now();
    let codes: Vec<i32> = training.all().iter_mut().map(Rank::code).collect();
    assert_eq!(codes, [0, 0]);
    assert!(
        started.elapsed() > Duration::from_secs(4),
        "2.5 s with output, then 2 s without"
    );
    assert!(
        training
            .stderr(1)
            .contains("no rank printed a line for 2s (`job.hang_timeout`); retry 1 of 1"),
        "{}",
        training.stderr(1)
    );
}

#[test]
fn time_limits_cover_all_attempts_and_the_wait_for_ranks() {
    let training =
        Training::new("limit", 2, 9, "sleep 1; exit $RANK").with(&["--max-runtime", "4"]);
    let codes: Vec<i32> = training.all().iter_mut().map(Rank::code).collect();
    assert_eq!(codes, [113, 113]);
    let output = training.stderr(0);
    assert!(
        output.contains("the training ran longer than `job.max_runtime` (4s)")
            && output.contains("attempt 2"),
        "{output}"
    );

    let training = Training::new("placed", 2, 0, "true").with(&["--gang-timeout", "1"]);
    assert_eq!(
        training.start(1).code(),
        114,
        "its pod is replaced at no cost"
    );
    assert_eq!(training.attempts(1), "");
}

#[test]
fn no_process_outlives_its_attempt() {
    let script = "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; setsid sh -c 'echo $$ > worker; exec sleep 60' & while [ ! -s worker ]; do sleep 0.1; done; exit 1";
    let training = Training::new("orphan", 1, 1, script);
    assert_eq!(training.start(0).code(), 0);
    let worker = training.file("worker");
    let alive = Command::new("kill")
        .args(["-0", worker.trim()])
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(!alive.success(), "the worker in its own session still runs");
}

#[test]
fn a_temporarily_unreachable_rank_costs_a_retry() {
    let training = Training::new(
        "frozen",
        2,
        1,
        "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; exec sleep 60",
    );
    let mut first = training.start(0);
    let mut second = training.start(1);
    training.until("both run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    second.signal("STOP");
    training.until("rank 0 stops", || {
        training.stderr(0).contains("rank 1: the pod is gone")
    });
    second.signal("CONT");
    assert_eq!((first.code(), second.code()), (0, 0));
    assert!(
        training
            .stderr(0)
            .contains("attempt 2: all 2 ranks start (1 of 1 retries used)"),
        "{}",
        training.stderr(0)
    );
}

#[test]
fn unknown_connections_to_the_port_are_ignored() {
    let training = Training::new("stranger", 2, 0, "sleep 1");
    let mut first = training.start(0);
    training.until("rank 0 listens", || {
        TcpStream::connect(("127.0.0.1", training.port)).is_ok()
    });
    for words in [
        "GET / HTTP/1.1\r\n\r\n",
        "null\n",
        "[1]\n",
        "{\"kind\": \"hello\", \"run\": \"another\", \"rank\": 1}\n",
        "[]\n",
        "{\"kind\": \"leaving\"}\n",
    ] {
        let mut stranger = TcpStream::connect(("127.0.0.1", training.port)).unwrap();
        stranger.write_all(words.as_bytes()).unwrap();
    }
    // The supervisor must not mistake another client for rank 1.
    sleep(Duration::from_secs(1));
    assert_eq!(training.attempts(0), "", "rank 0 waits for its rank 1");
    let mut second = training.start(1);
    assert_eq!((first.code(), second.code()), (0, 0));
}

#[test]
fn sixty_four_ranks_start_and_restart_together() {
    let training = Training::new(
        "many",
        64,
        1,
        "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; [ $RANK = 63 ] && exit 1; exec sleep 60",
    );
    let codes: Vec<i32> = training.all().iter_mut().map(Rank::code).collect();
    assert!(codes.iter().all(|code| *code == 0), "{codes:?}");
    assert!((0..64).all(|rank| training.attempts(rank) == "1 2"));
}

#[test]
fn a_missing_program_counts_as_exit_code_127() {
    let mut training = Training::new("missing", 1, 0, "");
    "nosuch".clone_into(&mut training.script);
    // If a single rank exited with 127, the Job controller would retry it.
    assert_eq!(training.start(0).code(), 113);
    assert!(
        training
            .stderr(0)
            .contains("rank 0 ended with exit code 127; there are no retries"),
        "{}",
        training.stderr(0)
    );
}

#[test]
fn a_single_rank_is_retried_in_its_pod() {
    let training = Training::new("alone", 1, 2, "exit 7");
    assert_eq!(training.start(0).code(), 113);
    assert_eq!(training.attempts(0), "1 2 3");
}

#[test]
fn ranks_that_exit_cleanly_on_sigterm_wait_for_a_new_rank_0() {
    let script =
        "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let training = Training::new("wait", 2, 0, script);
    let mut first = training.start(0);
    let mut second = training.start(1);
    training.until("both run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    // The shells set their traps right after they have written their attempts.
    sleep(Duration::from_millis(300));
    first.signal("TERM");
    assert_eq!(first.code(), 143);
    // This is longer than the time after which a silent peer counts as lost.
    sleep(Duration::from_secs(5));
    assert!(
        second.child.try_wait().unwrap().is_none(),
        "rank 1 has not ended: {}",
        training.stderr(1)
    );
    let mut replaced = training.start_pod(0, "second", 0);
    assert_eq!((replaced.code(), second.code()), (0, 0));
}

#[test]
fn a_completed_rank_that_is_lost_is_waited_for() {
    let script = "[ $GPUCTL_ATTEMPT = 2 ] && exit 0; [ $RANK = 1 ] && exit 0; exec sleep 4";
    let training = Training::new("done", 2, 0, script);
    let mut first = training.start(0);
    let mut second = training.start(1);
    training.until("both ran", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    // Rank 1 completes, which its supervisor reports to rank 0.
    sleep(Duration::from_secs(1));
    second.kill();
    training.until("rank 0 stops", || {
        training.stderr(0).contains("rank 1: the pod is gone")
    });
    let mut replaced = training.start_pod(1, "second", 0);
    assert_eq!((first.code(), replaced.code()), (0, 0));
    assert_eq!(training.attempts(0), "1 2");
}
