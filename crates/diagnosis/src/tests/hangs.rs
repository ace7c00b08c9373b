//! Tests of running trainings: phases without steps, GPUs that wait, and what was not checked.

use std::collections::BTreeMap;

use gpuctl_core::model::{GpuCount, JobKind, Node, Point};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves::Trace;
use gpuctl_core::stats::logs::phases::LogPhase;
use gpuctl_core::stats::logs::steps::{Cadence, CurrentPhase};
use gpuctl_core::stats::score::bottlenecks::Bottlenecks;
use gpuctl_core::stats::score::peers::PeerReport;

use super::*;

fn ago(seconds: i64) -> jiff::Timestamp {
    NOW.parse::<jiff::Timestamp>().unwrap() - jiff::SignedDuration::from_secs(seconds)
}

/// Steps of nine seconds until some seconds ago.
fn steps(until: i64) -> Option<Cadence> {
    Some(Cadence {
        last: ago(until),
        seconds: 9.0,
        longest: 9.0,
    })
}

fn phase(phase: LogPhase, since: i64, line: &str) -> CurrentPhase {
    CurrentPhase {
        phase,
        since: Some(ago(since)),
        line: line.into(),
        lines_after: 0,
    }
}

fn log(phase: Option<CurrentPhase>, last: i64) -> Option<LogFacts> {
    Some(LogFacts {
        last_at: Some(ago(last)),
        phase,
    })
}

/// Facts about eight measured GPUs.
fn measured(report: PeerReport) -> RunningFacts {
    let curves = || BTreeMap::from([(Quantity::Utilization, vec![Point { at: 0, value: 1.0 }])]);
    RunningFacts {
        traces: (0..8)
            .map(|index| Trace::from_curves("n", index, "NVIDIA H100 80GB HBM3", curves()))
            .collect(),
        report: PeerReport {
            sampled: 8,
            ..report
        },
        bottlenecks: Some(Bottlenecks::default()),
        log: log(None, 5),
        cadence: steps(5),
        ..RunningFacts::default()
    }
}

fn idle() -> PeerReport {
    PeerReport {
        idle: (0..8).collect(),
        ..PeerReport::default()
    }
}

fn answer_as(
    kind: &str,
    job_kind: JobKind,
    nodes: &Nodes,
    running: Option<RunningFacts>,
) -> Answer {
    let subject = Subject {
        kind: kind.to_owned(),
        is_managed: kind == "training",
    };
    let pod = Pod {
        name: "t-0".into(),
        rank: Some(0),
        phase: PodPhase::Running,
        ready: true,
        node: Some("n".into()),
        gpus: GpuCount(8),
        containers: vec![Container {
            name: "main".into(),
            running: true,
            ..Container::default()
        }],
        ..Pod::default()
    };
    let job = Job {
        kind: job_kind,
        ..job(vec![pod])
    };
    diagnose(&Facts {
        nodes,
        running,
        ..facts(&subject, &job)
    })
}

fn listed() -> Nodes {
    Nodes::Listed(vec![Node {
        name: "n".into(),
        schedulable: true,
        ..Node::default()
    }])
}

fn answer(running: RunningFacts) -> Answer {
    answer_as("training", JobKind::Training, &listed(), Some(running))
}

#[test]
fn a_job_is_fine_only_if_everything_was_checked() {
    let kinds = ["training", "pod", "pytorchjob"];
    for kind in kinds {
        let all = Some(measured(PeerReport::default()));
        let answer = answer_as(kind, JobKind::Training, &listed(), all);
        assert_eq!(answer.situation, Situation::Fine, "{kind}");
        assert_eq!(answer.sentence, "t is running without known problems");
    }
    let without = |change: fn(&mut RunningFacts)| {
        let mut running = measured(PeerReport::default());
        change(&mut running);
        running
    };
    let cases = [
        (
            without(|facts| facts.traces.clear()),
            "activity of its GPUs (no metrics)",
        ),
        (
            without(|facts| facts.report.sampled = 5),
            "activity of 3 of its 8 GPUs (no recent metrics)",
        ),
        (
            without(|facts| facts.cadence = None),
            "training steps (its log shows none)",
        ),
        (
            without(|facts| (facts.cadence, facts.log) = (None, None)),
            "its log (it cannot be read)",
        ),
        (
            without(|facts| facts.bottlenecks = None),
            "links, network ports and CPU limits (Prometheus did not answer)",
        ),
    ];
    for kind in kinds {
        for (running, gap) in &cases {
            let running = Some(running.clone());
            let answer = answer_as(kind, JobKind::Training, &listed(), running);
            assert_eq!(answer.sentence, format!("t is running; not checked: {gap}"));
            assert_eq!(answer.situation, Situation::Unknown);
            assert_eq!(answer.not_evaluated, [*gap]);
            assert!(answer.is_unchecked);
        }
    }
    let running = Some(measured(PeerReport::default()));
    let hidden = answer_as("pod", JobKind::Training, &Nodes::Hidden, running);
    let gap = "its nodes (you are not allowed to list nodes)";
    assert_eq!(hidden.sentence, format!("t is running; not checked: {gap}"));
    // A service makes no steps.
    let service = without(|facts| (facts.cadence, facts.log) = (None, None));
    let service = answer_as("inference", JobKind::Inference, &listed(), Some(service));
    assert_eq!(service.situation, Situation::Fine);
}

#[test]
fn a_training_that_saves_or_evaluates_does_not_hang() {
    let line = "saving checkpoint at iteration 1000 to /ckpt";
    let saving = |report: PeerReport| RunningFacts {
        cadence: steps(245),
        log: log(Some(phase(LogPhase::Saving, 240, line)), 240),
        ..measured(report)
    };
    let spinning = PeerReport {
        spinning: (0..8).collect(),
        spinning_watts: Some(75.0),
        earlier_watts: Some(620.0),
        ..PeerReport::default()
    };
    for report in [idle(), spinning.clone()] {
        let answer = answer(saving(report));
        assert_eq!(
            (answer.situation, answer.causes.len()),
            (Situation::Unknown, 0)
        );
        let expected = format!(
            "t has been saving a checkpoint for 4 min («{line}»); its last step was 4 min ago"
        );
        assert_eq!(answer.sentence, expected);
    }
    for (one, doing) in [
        (LogPhase::Evaluating, "evaluating"),
        (LogPhase::Loading, "loading a model or checkpoint"),
        (LogPhase::Compiling, "compiling"),
        (LogPhase::Downloading, "downloading"),
        (LogPhase::PreparingData, "preparing data"),
    ] {
        let running = RunningFacts {
            cadence: steps(9000),
            log: log(Some(phase(one, 8000, "…")), 8000),
            ..measured(spinning.clone())
        };
        let sentence = answer(running).sentence;
        assert!(
            sentence.starts_with(&format!("t has been {doing} for 2 h")),
            "{sentence}"
        );
    }
}

#[test]
fn a_rank_that_saves_while_others_wait_does_not_hang() {
    let line = "Saving model checkpoint to /out/checkpoint-500";
    let running = RunningFacts {
        cadence: steps(300),
        waited_phase: Some(phase(LogPhase::Saving, 290, line)),
        ..measured(PeerReport {
            spinning: (1..8).collect(),
            ..PeerReport::default()
        })
    };
    let answer = answer(running);
    assert_eq!(
        (answer.situation, answer.causes.len()),
        (Situation::Unknown, 0)
    );
    let sentence = &answer.sentence;
    assert!(
        sentence.contains(" has been saving a checkpoint for 4 min"),
        "{sentence}"
    );
}

#[test]
fn a_training_without_a_first_step_does_not_hang() {
    let running = |phase: Option<CurrentPhase>| RunningFacts {
        cadence: None,
        log: log(phase, 900),
        ..measured(idle())
    };
    let compiling = phase(
        LogPhase::Compiling,
        900,
        "Compiling the model with torch.compile",
    );
    let compiling_answer = answer(running(Some(compiling.clone())));
    assert_eq!(
        (compiling_answer.situation, compiling_answer.causes.len()),
        (Situation::Unknown, 0)
    );
    assert_eq!(
        compiling_answer.sentence,
        "t has been compiling for 15 min («Compiling the model with torch.compile»); \
         its log has no training step yet"
    );
    // Many lines without a known meaning may be steps.
    let long_ago = CurrentPhase {
        lines_after: 100,
        ..compiling
    };
    for phase in [Some(long_ago), None] {
        let answer = answer(running(phase));
        assert_eq!(
            (answer.situation, answer.causes.len()),
            (Situation::Unknown, 0)
        );
        assert_eq!(
            answer.sentence,
            "t: its 8 GPUs are idle, and its last log line is 15 min old; it is unknown whether \
             it makes progress"
        );
    }
}

#[test]
fn idle_gpus_are_a_hang_only_after_the_time_of_a_checkpoint() {
    let after = |seconds: i64| {
        let answer = answer(RunningFacts {
            cadence: steps(seconds),
            ..measured(idle())
        });
        (
            answer.situation,
            answer.causes.first().map(|cause| cause.word),
        )
    };
    assert_eq!(after(240), (Situation::Unknown, None));
    assert_eq!(after(900), (Situation::Stuck, Some("silent")));
    // It has paused for as long before.
    let paused = RunningFacts {
        cadence: Some(Cadence {
            longest: 700.0,
            ..steps(900).unwrap()
        }),
        ..measured(idle())
    };
    assert_eq!(answer(paused).situation, Situation::Fine);
}

#[test]
fn gpus_that_draw_much_less_than_before_hang() {
    let running = |report: PeerReport| RunningFacts {
        cadence: steps(900),
        ..measured(report)
    };
    let hang = answer(running(PeerReport {
        spinning: (0..8).collect(),
        spinning_watts: Some(75.0),
        earlier_watts: Some(620.0),
        ..PeerReport::default()
    }));
    assert_eq!(hang.situation, Situation::Stuck);
    assert_eq!(hang.causes[0].word, "collective-hang");
    assert_eq!(
        hang.sentence,
        "t hangs: 8 of 8 GPUs show full utilization at 75 W, and drew 620 W before the last step: \
         they wait in a collective"
    );
    // Busy GPUs prove no hang.
    let busy = answer(running(PeerReport::default()));
    assert_eq!((busy.situation, busy.causes.len()), (Situation::Unknown, 0));
}
