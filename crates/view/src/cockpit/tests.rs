//! Tests the cockpit's screens and keys.

use std::collections::{BTreeMap, BTreeSet};

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use jiff::Timestamp;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::snapshot::JobLine;
use super::{Cockpit, CockpitAction, CockpitSnapshot, Curves, Pane, Tab, draw};
use crate::TextStyle;
use crate::workloads::top::TopOrder;
use gpuctl_core::model::facts::workload::WorkloadState;
use gpuctl_core::model::{
    Count, Figures, GpuCount, HeldUse, Inventory, Mebibytes, Node, NodeDetails, NodeHealth,
    NodeUsage, Percent, Point, Queue, QueueSystem, Reading, Readings, Watts,
};
use gpuctl_core::stats::exporters::dialect::Quantity;
use gpuctl_core::stats::history::curves::{History, Trace};

const NOW: i64 = 1_769_853_600;

fn reading(
    node: &str,
    index: u32,
    utilization: Option<f64>,
    holder: Option<(&str, &str)>,
) -> Reading {
    Reading {
        node: node.into(),
        index,
        utilization: utilization.map(Percent),
        memory_used: Some(Mebibytes(53_248.0)),
        memory_total: Some(Mebibytes(81_920.0)),
        power: Some(Watts(400.0)),
        holders: holder
            .iter()
            .map(|(namespace, pod)| ((*namespace).to_owned(), (*pod).to_owned()))
            .collect(),
        held: Some(holder.is_some()),
        ..Reading::default()
    }
}

fn job(
    namespace: &str,
    name: &str,
    standing: WorkloadState,
    (held, requested): (u64, u64),
    gpus: &[Reading],
    since: i64,
) -> JobLine {
    let job_gpus: Vec<&Reading> = gpus
        .iter()
        .filter(|gpu| gpu.holders.iter().any(|(_, pod)| pod.starts_with(name)))
        .collect();
    JobLine {
        namespace: namespace.into(),
        kind: "Job".into(),
        name: name.into(),
        standing,
        reason: (standing == WorkloadState::Pending).then(|| "Queued".to_owned()),
        held: GpuCount(held),
        requested: GpuCount(requested),
        unplaced: GpuCount(0),
        types: if held > 0 {
            "a100-80g".into()
        } else {
            String::new()
        },
        figures: Figures::from_readings(job_gpus.iter().copied()),
        created_at: Timestamp::from_second(NOW - since).ok(),
        started_at: Timestamp::from_second(NOW - since).ok(),
        waiting_since: Timestamp::from_second(NOW - since).ok(),
        is_paused: false,
        is_ours: (namespace != "lab").then_some(true).or(Some(false)),
        pods: job_gpus
            .iter()
            .flat_map(|gpu| &gpu.holders)
            .map(|(_, pod)| pod.clone())
            .collect::<BTreeSet<_>>(),
    }
}

/// Two nodes with four GPUs each, a busy job, an idle notebook and a waiting job.
fn snapshot() -> CockpitSnapshot {
    let mut gpus: Vec<Reading> = (0..4)
        .map(|index| {
            reading(
                "gpu-a-01",
                index,
                Some(90.0 + f64::from(index)),
                Some(("team-a", "bert-0-x")),
            )
        })
        .collect();
    gpus.push(reading(
        "gpu-a-02",
        0,
        Some(1.0),
        Some(("lab", "notebook-0")),
    ));
    gpus.push(reading("gpu-a-02", 1, None, Some(("lab", "notebook-0"))));
    gpus.extend([
        reading("gpu-a-02", 2, Some(0.0), None),
        reading("gpu-a-02", 3, Some(0.0), None),
    ]);
    let node = |name: &str, used: u64| NodeUsage {
        details: NodeDetails {
            node: Node {
                name: name.into(),
                schedulable: true,
                ..Node::default()
            },
            ..NodeDetails::default()
        },
        health: NodeHealth::Active,
        reason: None,
        gpus: Count::usable_units(4, Some(used)),
        slices: BTreeMap::new(),
        listed_board_slices: BTreeMap::new(),
        types: BTreeMap::from([("a100-80g".to_owned(), 4)]),
        cpu_used_milli: None,
        memory_used_bytes: None,
        holders: Vec::new(),
        devices: Some(
            gpus.iter()
                .filter(|gpu| gpu.node == name)
                .cloned()
                .collect(),
        ),
    };
    let nodes = vec![node("gpu-a-01", 4), node("gpu-a-02", 2)];
    CockpitSnapshot {
        at: Timestamp::from_second(NOW).unwrap(),
        count: Some(Count::usable_units(8, Some(6))),
        coverage: None,
        held_use: HeldUse::from_hosts(nodes.iter()),
        jobs: vec![
            job(
                "team-a",
                "bert",
                WorkloadState::Running,
                (4, 4),
                &gpus,
                1020,
            ),
            job(
                "lab",
                "notebook",
                WorkloadState::Running,
                (2, 2),
                &gpus,
                200_000,
            ),
            job(
                "team-b",
                "llama",
                WorkloadState::Pending,
                (0, 16),
                &gpus,
                720,
            ),
        ],
        nodes,
        gpus,
        queues: Some(vec![Queue {
            system: QueueSystem::Kueue,
            name: "research".into(),
            namespace: Some("team-b".into()),
            cluster_queue: None,
            active: true,
            message: None,
            quota: Some(GpuCount(8)),
            used: Some(GpuCount(6)),
            borrowed: Some(GpuCount(0)),
            running: Some(2),
            waiting: Some(1),
            labels: None,
        }]),
        narrowed_to: None,
    }
}

fn cockpit(tab: Tab, width: usize) -> Cockpit {
    let style = TextStyle {
        width: Some(width),
        color: false,
        plain: false,
    };
    let mut cockpit = Cockpit::new(
        "lab".into(),
        style,
        (tab, TopOrder::Utilization),
        false,
        snapshot(),
    );
    let mut curves = Curves::default();
    // The utilization rises from 0 during half an hour.
    let points = (0..30)
        .map(|minute| Point {
            at: (NOW - 60 * (30 - minute)) * 1000,
            value: minute as f64 * 3.0,
        })
        .collect();
    curves.prepend("team-a/Job/bert".into(), points);
    cockpit.curves.prepend_all(curves);
    cockpit
}

fn screen(cockpit: &mut Cockpit, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(cockpit, frame)).unwrap();
    let text = terminal.backend().to_string();
    // Skip the first line, which contains the local time.
    let lines = text.lines().map(|line| {
        line.trim_start_matches('"')
            .trim_end_matches('"')
            .trim_end()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn press(cockpit: &mut Cockpit, keys: &str) -> Option<CockpitAction> {
    let mut action = None;
    for key in keys.split(' ') {
        let code = match key {
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "down" => KeyCode::Down,
            "up" => KeyCode::Up,
            "end" => KeyCode::End,
            "tab" => KeyCode::Tab,
            letter => KeyCode::Char(letter.chars().next().unwrap()),
        };
        action = cockpit.take(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }
    action
}

fn words(action: Option<CockpitAction>) -> String {
    match action {
        Some(CockpitAction::Show(words) | CockpitAction::RunInTerminal(words)) => words.join(" "),
        other => format!("{other:?}"),
    }
}

/// Renders a screen without the first line, which contains the local time.
fn body(cockpit: &mut Cockpit, width: u16, height: u16) -> String {
    screen(cockpit, width, height)
        .split_once('\n')
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn every_list_has_its_screen() {
    let mut screens = String::new();
    for tab in Tab::ALL {
        screens.push_str(&format!(
            "=== {}\n{}\n",
            tab.title(),
            body(&mut cockpit(tab, 100), 100, 9)
        ));
    }
    insta::assert_snapshot!(screens);
}

#[test]
fn the_first_line_has_correct_sums() {
    let head = screen(&mut cockpit(Tab::Jobs, 120), 120, 8)
        .lines()
        .next()
        .unwrap()
        .to_owned();
    // (90 + 91 + 92 + 93 + 1) ÷ 5 = 73.4. The sixth held GPU has no sample.
    assert!(
        head.starts_with(
            " lab   2 nodes   6 of 8 GPUs held   73% used, mean of 5 of 6 held, 1 unknown   \
             1 job waits for 16 GPUs "
        ),
        "{head}"
    );
    let narrow = screen(&mut cockpit(Tab::Jobs, 40), 40, 8);
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 40),
        "{narrow}"
    );
    assert!(
        narrow.contains(">team-a/bert") && narrow.contains("92%"),
        "{narrow}"
    );
}

fn head_of(change: impl FnOnce(&mut CockpitSnapshot)) -> String {
    let mut cockpit = cockpit(Tab::Jobs, 120);
    change(&mut cockpit.snapshot);
    let screen = screen(&mut cockpit, 120, 8);
    screen.lines().next().unwrap().to_owned()
}

#[test]
fn only_jobs_that_lack_gpus_wait() {
    let with_job = |held, requested, is_paused| {
        head_of(|snapshot| {
            let job = &mut snapshot.jobs[2];
            job.held = GpuCount(held);
            job.requested = GpuCount(requested);
            job.is_paused = is_paused;
        })
    };
    // A job that holds all requested GPUs does not wait, even if it is pulling its image.
    assert!(!with_job(2, 2, false).contains("wait"));
    assert!(with_job(1, 2, false).contains("1 job waits for 1 GPU "));
    // A paused job does not wait.
    assert!(!with_job(0, 2, true).contains("wait"));
}

#[test]
fn a_job_that_is_placed_in_part_waits_for_the_rest() {
    let change = |snapshot: &mut CockpitSnapshot| {
        let job = &mut snapshot.jobs[0];
        (job.held, job.requested) = (GpuCount(8), GpuCount(24));
        // One of its three pods runs, so that its state is `running`.
        job.unplaced = GpuCount(16);
    };
    // 16 of bert, and 16 of llama, which holds none.
    let head = head_of(change);
    assert!(head.contains("2 jobs wait for 32 GPUs"), "{head}");
    let mut cockpit = cockpit(Tab::Waiting, 100);
    change(&mut cockpit.snapshot);
    let body = body(&mut cockpit, 100, 9);
    let row = body.lines().find(|line| line.contains("bert")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[3..5], ["24", "8"], "{row}");
}

#[test]
fn gpus_without_samples_and_gpus_that_no_job_can_get_are_marked() {
    let mut hosts = snapshot().nodes;
    // Of the first node, one of four GPUs has no sample. The second one is cordoned.
    hosts[0].devices.as_mut().unwrap().pop();
    hosts[1].details.node.schedulable = false;
    let devices = hosts.iter().flat_map(|host| host.devices.iter().flatten());
    let readings = Readings::new(devices.cloned().collect(), 8, 0, 0);
    let inventory = Inventory { hosts };
    let shown = CockpitSnapshot::new(
        Some(inventory),
        None,
        &[],
        Some(readings),
        None,
        Timestamp::from_second(NOW).unwrap(),
    );
    let mut cockpit = cockpit(Tab::Gpus, 100);
    cockpit.snapshot = shown;
    let body = body(&mut cockpit, 100, 14);
    assert!(body.contains("gpu-a-01 ███?  gpu-a-02 ▁?××"), "{body}");
    assert!(body.contains("gpu-a-02/gpu-3 cordoned"), "{body}");
}

#[test]
fn a_broken_gpu_still_names_its_holder() {
    let mut cockpit = cockpit(Tab::Gpus, 100);
    cockpit.snapshot.gpus[3].fault = Some("XID 79".to_owned());
    let body = body(&mut cockpit, 100, 14);
    let row = body.lines().find(|line| line.contains("/gpu-3")).unwrap();
    assert!(row.contains("team-a/bert-0-x XID 79"), "{row}");
}

#[test]
fn nodes_that_the_user_may_not_list_are_not_zero() {
    let head = head_of(|snapshot| {
        snapshot.count = None;
        snapshot.held_use = HeldUse::default();
        snapshot.nodes.clear();
        snapshot.gpus.clear();
    });
    assert!(
        head.starts_with(" lab   nodes not visible   no metrics   1 job waits"),
        "{head}"
    );
}

#[test]
fn types_without_a_held_gpu_have_no_utilization() {
    let mut cockpit = cockpit(Tab::Overview, 100);
    let snapshot = &mut cockpit.snapshot;
    for device in snapshot
        .nodes
        .iter_mut()
        .flat_map(|node| node.devices.iter_mut().flatten())
    {
        (device.held, device.holders) = (Some(false), Vec::new());
    }
    let body = body(&mut cockpit, 100, 9);
    let row = body.lines().find(|line| line.contains("a100-80g")).unwrap();
    assert!(row.trim_end().ends_with(" -"), "{row}");
}

#[test]
fn steps_lead_from_a_type_to_a_log_and_back() {
    let mut cockpit = cockpit(Tab::Overview, 100);
    assert_eq!(press(&mut cockpit, "enter"), None);
    assert!(
        body(&mut cockpit, 100, 9)
            .contains("2 nodes  3 GPUs  4 queues  5 waiting 1  6 overview  › a100-80g")
    );
    press(&mut cockpit, "enter");
    let gpus = body(&mut cockpit, 100, 14);
    assert!(
        gpus.contains("› gpu-a-01")
            && gpus.contains("gpu-a-01/gpu-3")
            && !gpus.contains("gpu-a-02"),
        "{gpus}"
    );
    press(&mut cockpit, "enter");
    let jobs = body(&mut cockpit, 100, 9);
    assert!(
        jobs.contains("› team-a/Job/bert") && !jobs.contains("notebook"),
        "{jobs}"
    );
    assert_eq!(
        words(press(&mut cockpit, "enter")),
        "logs -n team-a bert -f --tail 500"
    );
    cockpit.pane.as_mut().unwrap().push("step 1 loss 2.5");
    let pane = body(&mut cockpit, 100, 9);
    assert!(
        pane.contains("$ gpuctl logs -n team-a bert") && pane.contains("step 1 loss 2.5"),
        "{pane}"
    );
    assert_eq!(press(&mut cockpit, "q"), Some(CockpitAction::Stop));
    assert!(cockpit.pane.is_none());
    assert_eq!(press(&mut cockpit, "q q q"), None);
    assert_eq!(cockpit.tab, Tab::Overview);
    assert_eq!(press(&mut cockpit, "q"), Some(CockpitAction::Quit));
}

#[test]
fn keys_run_other_commands_for_the_selected_row() {
    let command_of = |tab: Tab, keys: &str| words(press(&mut cockpit(tab, 100), keys));
    assert_eq!(command_of(Tab::Jobs, "w"), "why -n team-a team-a/Job/bert");
    assert_eq!(
        command_of(Tab::Jobs, "down w"),
        "why -n lab lab/Job/notebook"
    );
    assert_eq!(
        command_of(Tab::Waiting, "w"),
        "why -n team-b team-b/Job/llama"
    );
    assert_eq!(
        command_of(Tab::Jobs, "d"),
        "describe workload -n team-a team-a/Job/bert"
    );
    assert_eq!(command_of(Tab::Jobs, "e"), "exec -n team-a bert -it");
    assert_eq!(command_of(Tab::Jobs, "o"), "open -n team-a bert");
    assert_eq!(command_of(Tab::Nodes, "d"), "describe node gpu-a-01");
    assert_eq!(
        command_of(Tab::Queues, "d"),
        "describe queue team-b/research"
    );
    assert_eq!(
        command_of(Tab::Overview, "d"),
        "get nodes --gpu-type a100-80g"
    );
    // Keys on a GPU apply to the job that holds it.
    assert_eq!(command_of(Tab::Gpus, "w"), "why -n team-a team-a/Job/bert");
    // A node has no logs.
    let mut nodes = cockpit(Tab::Nodes, 100);
    assert_eq!(press(&mut nodes, "l"), None);
    assert!(body(&mut nodes, 100, 9).contains("`logs` needs a job"));
    let mut free = cockpit(Tab::Gpus, 100);
    press(&mut free, "/ f r e e enter enter");
    assert!(body(&mut free, 100, 14).contains("free, or held by a pod you cannot see"));
    // `logs` supports only jobs that gpuctl created.
    let mut foreign = cockpit(Tab::Jobs, 100);
    assert_eq!(press(&mut foreign, "down l"), None);
    assert!(body(&mut foreign, 100, 9).contains("`logs` only works with jobs that gpuctl created"));
    let mut careful = Cockpit {
        is_read_only: true,
        ..cockpit(Tab::Jobs, 100)
    };
    assert_eq!(press(&mut careful, "e"), None);
    assert!(body(&mut careful, 100, 9).contains("read-only mode"));
}

#[test]
fn filters_and_orders_change_what_comes_first() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    let first = |cockpit: &mut Cockpit| {
        body(cockpit, 100, 9)
            .lines()
            .nth(2)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(first(&mut cockpit), ">team-a/bert");
    // The order is 16, 4, 2 GPUs.
    press(&mut cockpit, "s");
    assert_eq!(
        body(&mut cockpit, 100, 9)
            .lines()
            .nth(2)
            .unwrap()
            .split_whitespace()
            .next(),
        Some(">team-b/llama")
    );
    press(&mut cockpit, "/ l a b");
    assert!(body(&mut cockpit, 100, 9).contains("/lab▏"));
    press(&mut cockpit, "enter");
    let screen = body(&mut cockpit, 100, 9);
    assert!(
        screen.contains("lab/notebook") && !screen.contains("bert"),
        "{screen}"
    );
    press(&mut cockpit, "/ z");
    assert!(body(&mut cockpit, 100, 9).contains("nothing matches the filter"));
    press(&mut cockpit, "esc");
    assert!(body(&mut cockpit, 100, 9).contains("bert"));
}

#[test]
fn the_selected_row_stays_selected_when_rows_move() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    press(&mut cockpit, "down");
    let mut later = snapshot();
    later.jobs[1].figures.utilization = Some(Percent(99.0));
    cockpit.update(later);
    let screen = body(&mut cockpit, 100, 9);
    assert!(
        screen.lines().nth(2).unwrap().starts_with(">lab/notebook"),
        "{screen}"
    );
    // The selection moves to the first row if the selected row disappears.
    let mut without_selected = snapshot();
    without_selected.jobs.remove(1);
    cockpit.update(without_selected);
    assert!(body(&mut cockpit, 100, 9).contains(">team-a/bert"));
}

#[test]
fn curves_keep_a_point_each_half_minute_and_the_newest() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    let count_before = cockpit.curves.points("gpu-a-01/gpu-0").len();
    for second in 1..=600 {
        let mut later = snapshot();
        later.at = Timestamp::from_second(NOW + second).unwrap();
        later.gpus[0].utilization = Some(Percent(f64::from(u32::try_from(second).unwrap() % 100)));
        cockpit.update(later);
    }
    let points = cockpit.curves.points("gpu-a-01/gpu-0");
    // Ten minutes have 20 points, one for each half minute.
    assert!(
        (count_before + 19..=count_before + 21).contains(&points.len()),
        "{}",
        points.len()
    );
    assert_eq!(
        points.last().map(|point| (point.at, point.value)),
        Some(((NOW + 600) * 1000, 0.0))
    );
    assert!(points.windows(2).all(|two| two[0].at < two[1].at));
}

#[test]
fn curves_of_nodes_and_jobs_are_means_of_their_gpus() {
    let trace = |node: &str, index: u32, values: [f64; 3]| {
        let points = [300, 200, 1]
            .into_iter()
            .zip(values)
            .map(|(ago, value)| Point {
                at: (NOW - ago) * 1000,
                value,
            })
            .collect();
        Trace::from_curves(
            node,
            index,
            "NVIDIA A100",
            BTreeMap::from([(Quantity::Utilization, points)]),
        )
    };
    let traces = vec![
        trace("gpu-a-01", 0, [10.0, 20.0, 90.0]),
        trace("gpu-a-01", 1, [30.0, 80.0, 100.0]),
    ];
    let mut snapshot = snapshot();
    // The job began 250 s ago, so earlier samples of its GPUs belong to another job.
    snapshot.jobs[0].started_at = Timestamp::from_second(NOW - 250).ok();
    let curves = snapshot.curves(&History {
        traces,
        ..History::default()
    });
    let values = |line: &str| {
        curves
            .points(line)
            .iter()
            .map(|point| point.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(values("gpu-a-01/gpu-0"), [10.0, 20.0, 90.0]);
    // (10 + 30) ÷ 2, (20 + 80) ÷ 2, (90 + 100) ÷ 2.
    assert_eq!(values("gpu-a-01"), [20.0, 50.0, 95.0]);
    assert_eq!(values("team-a/Job/bert"), [50.0, 95.0]);
    assert_eq!(
        (values("gpu-a-02"), values("lab/Job/notebook")),
        (vec![], vec![]),
        "unknown utilization has no curve, rather than zeros"
    );
}

#[test]
fn the_mouse_selects_rows_and_lists() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    let click = |cockpit: &mut Cockpit, column: u16, row: u16| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        cockpit.take(&Event::Mouse(MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        }));
    };
    body(&mut cockpit, 100, 9);
    click(&mut cockpit, 5, 4);
    assert!(body(&mut cockpit, 100, 9).contains(">lab/notebook"));
    click(&mut cockpit, 10, 1);
    assert_eq!(cockpit.tab, Tab::Nodes);
    // A click below the list has no effect.
    body(&mut cockpit, 100, 9);
    click(&mut cockpit, 5, 7);
    assert!(body(&mut cockpit, 100, 9).contains(">gpu-a-01"));
}

#[test]
fn help_covers_the_list_until_the_next_key() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    press(&mut cockpit, "?");
    let help = body(&mut cockpit, 100, 20);
    assert!(
        help.contains("step into it: type → nodes → GPUs → job → logs"),
        "{help}"
    );
    press(&mut cockpit, "x");
    assert!(!body(&mut cockpit, 100, 20).contains("step into it"));
}

#[test]
fn an_outage_is_reported_and_the_last_answer_stays() {
    let mut cockpit = cockpit(Tab::Jobs, 100);
    cockpit.trouble = Some("cannot reach the cluster".into());
    let screen = body(&mut cockpit, 100, 9);
    assert!(
        screen.contains("as of the time above: cannot reach the cluster")
            && screen.contains("bert"),
        "{screen}"
    );
    press(&mut cockpit, "/ b enter");
    assert!(
        body(&mut cockpit, 100, 9).contains("as of the time above"),
        "a filter does not hide an outage"
    );
    cockpit.update(snapshot());
    assert!(!body(&mut cockpit, 100, 9).contains("as of the time"));
}

#[test]
fn texts_from_the_cluster_contain_no_control_sequences() {
    let mut hostile = snapshot();
    hostile.jobs[0].name = "a\u{1b}]0;x\u{7}\u{202e}b".into();
    hostile.jobs[0].reason = Some("\u{9b}2J".into());
    let style = TextStyle {
        width: Some(100),
        color: true,
        plain: false,
    };
    let mut cockpit = Cockpit::new(
        "\u{1b}[2J".into(),
        style,
        (Tab::Jobs, TopOrder::Utilization),
        false,
        hostile,
    );
    let mut pane = Pane::new("gpuctl logs a".into(), 100, true);
    pane.push("\u{1b}[31mred\u{1b}[0m \u{7}");
    let list = screen(&mut cockpit, 100, 9);
    cockpit.pane = Some(pane);
    let narrow = screen(&mut cockpit, 100, 9);
    // Control characters must be shown escaped, because ratatui would drop them silently.
    assert!(
        list.contains("a\\u{1b}]0;x\\u{7}\\u{202e}b") && list.contains("\\u{9b}2J"),
        "{list}"
    );
    assert!(
        list.contains("\\u{1b}[2J") && narrow.contains("\\u{7}"),
        "{list}{narrow}"
    );
}
