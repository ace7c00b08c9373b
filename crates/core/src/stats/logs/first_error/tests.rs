//! Tests which error of a log counts.

use super::*;

mod endings;
mod mutations;

fn first(lines: &[&str]) -> Option<String> {
    let mut scan = LogScan::default();
    lines.iter().for_each(|line| scan.take(None, line));
    scan.finish().error.map(|error| error.line)
}

#[test]
fn errors_differ_from_similar_lines() {
    for line in [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[rank3]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384",
        "gpu-a-01:211:302 [3] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
        "[2026-01-31 10:00:00,123] ERROR trainer: loss is nan",
        "Bus error (core dumped)",
        "/bin/sh: 1: Killed",
        "thread 'main' panicked at src/main.rs:1:1:",
        "python: can't open file '/train.py': [Errno 2] No such file or directory",
        "KeyboardInterrupt",
        "E0131 10:00:00.1 12 server.cc:1] refused",
    ] {
        assert_eq!(
            first(&["step 1/2 loss 0.1", line]),
            Some(line.to_owned()),
            "{line}"
        );
    }
    for line in [
        "step 100/2000 loss 2.31 error_rate 0.12",
        "UserWarning: TypedStorage is deprecated, RuntimeError: later",
        "checked 12 files, 0 errors",
        "Epoch 3: validation error 0.02",
        "connection lost, retrying in 5 s (ConnectionError: x)",
    ] {
        assert_eq!(first(&[line]), None, "{line}");
    }
}

#[test]
fn traceback_is_reported_by_its_last_line() {
    let lines = [
        "step 1",
        "Traceback (most recent call last):",
        "  File \"a.py\", line 3, in <module>",
        "    x()",
        "MyOwnTrouble",
        "after",
    ];
    let mut scan = LogScan::default();
    lines.iter().for_each(|line| scan.take(None, line));
    let error = scan.finish().error.unwrap();
    assert_eq!(
        (error.line.as_str(), error.before.len()),
        ("MyOwnTrouble", 4)
    );
    let ranked = [
        "[rank7]: Traceback (most recent call last):",
        "[rank7]:   File \"a.py\"",
        "[rank7]: ValueError: 7",
    ];
    assert_eq!(first(&ranked), Some("[rank7]: ValueError: 7".to_owned()));
}

/// The end of the log cuts off the exception, so its source line must not stand for it.
#[test]
fn truncated_traceback_is_not_quoted() {
    let header = "Traceback (most recent call last):";
    let frame = "  File \"a.py\", line 3, in <module>";
    assert_eq!(first(&[header]), None);
    assert_eq!(first(&[header, frame]), None);
    assert_eq!(first(&[header, frame, "    run(args)"]), None);
    let error = "ERROR:root:cannot read the shard";
    assert_eq!(first(&[error, header, frame]), Some(error.to_owned()));
    assert_eq!(first(&[error, "step 1 loss 0.1", header, frame]), None);
}

/// Of 512 ranks, rank 200 fails first. The others lose the connection within the next second.
#[test]
fn earliest_error_of_all_ranks_wins() {
    let time = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
    let error = |rank: i64| {
        let mut scan = LogScan::default();
        (0..100).for_each(|step| scan.take(Some(time(step)), &format!("step {step}/9999")));
        let line = if rank == 200 {
            "ValueError: bad shard 812".to_owned()
        } else {
            format!("[rank{rank}]: ConnectionResetError: peer {rank} of 512")
        };
        scan.take(
            Some(time(if rank == 200 { 500 } else { 600 + rank })),
            &line,
        );
        scan.finish().error.unwrap()
    };
    let errors: Vec<LogError> = (0..512).map(error).collect();
    assert_eq!(earliest(&errors), Some((200, 0)));
    assert_eq!(
        (
            errors[200].before.len(),
            errors[200].before.last().map(String::as_str)
        ),
        (30, Some("step 99/9999"))
    );
    assert_eq!(earliest(&errors[..200]), Some((0, 199)));
    assert_eq!(earliest(&[]), None);
}

#[test]
fn last_checkpoint_wins() {
    let time = |second: i64| Timestamp::from_second(second).unwrap();
    let mut scan = LogScan::default();
    for (second, line) in [
        (10, "Saving model checkpoint to /out/checkpoint-500"),
        (20, "step 600"),
        (30, "saved checkpoint at iteration 700 to /out"),
        (40, "RuntimeError: x"),
        (50, "loading checkpoint /out/700"),
    ] {
        scan.take(Some(time(second)), line);
    }
    let findings = scan.finish();
    assert_eq!(
        (findings.checkpoint, findings.error.unwrap().at),
        (Some(time(30)), Some(time(40)))
    );
}

/// Python writes what its output still holds at the exit, after the traceback on standard error.
#[test]
fn output_that_python_writes_at_its_exit_is_not_work() {
    let time = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
    let scan = |lines_after: i64, pause: i64, frame: &str| {
        let mut scan = LogScan::default();
        scan.take(Some(time(0)), "Traceback (most recent call last):");
        scan.take(
            Some(time(0)),
            &format!("  File \"/train.py\", line 3, in {frame}"),
        );
        scan.take(Some(time(0)), "ValueError: bad shard");
        for step in 0..lines_after {
            scan.take(
                Some(time(10 + pause * step)),
                &format!("step {step} loss 2.5"),
            );
        }
        scan.finish().error.map(|error| error.line)
    };
    assert_eq!(
        scan(100, 0, "<module>"),
        Some("ValueError: bad shard".to_owned())
    );
    assert_eq!(scan(100, 0, "handler"), None);
    assert_eq!(scan(100, 1000, "<module>"), None);
    assert_eq!(scan(2000, 0, "<module>"), None);
}

/// A rank that only lost its peer, or its launcher, may be ahead by its clock.
#[test]
fn cause_wins_over_its_consequences_elsewhere() {
    let error = |second: i64, lines: &[&str]| {
        let mut scan = LogScan::default();
        let at = Timestamp::from_second(second).unwrap();
        lines.iter().for_each(|line| scan.take(Some(at), line));
        scan.finish().error.unwrap()
    };
    let lost = error(100, &["ConnectionResetError: peer 3 is gone"]);
    let killed = error(101, &["Killed"]);
    let cause = |second| error(second, &["ValueError: bad shard 812"]);
    assert_eq!(earliest(&[lost.clone(), cause(130)]), Some((1, 0)));
    assert_eq!(earliest(&[killed, cause(130), cause(140)]), Some((1, 1)));
    // A minute later, it is a different failure.
    assert_eq!(earliest(&[lost, cause(300)]), Some((0, 0)));
}
