//! Runs every command with exactly the role that `auth check --emit-role` prints, on a real API
//! server, as a user without other rights. The tests use a separate cluster, because some roles
//! change cluster-wide pools and defaults.

mod cases;
mod emitted;
mod persons;
mod scene;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cases::{Case, cases};
use gpuctl::generated::commands_with_rights;
use scene::{Scene, is_lack, scene};
use serde_json::Value;

/// A task that needs objects of Kueue or Volcano, which are not installed in this cluster.
/// `tests/queues` runs it.
const WITHOUT_OBJECTS: [&str; 1] = ["describe queues"];

#[test]
fn every_verb_of_the_table_has_a_case() {
    let all = commands_with_rights();
    assert!(all.len() > 50, "the table was read: {all:?}");
    let cases = cases(scene());
    let is_run = |command: &String| {
        // `get jobs` can also be typed as `get job`, but `describe job` has only the singular form.
        let line = |case: &Case| {
            case.args
                .iter()
                .take(3)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" ")
        };
        cases
            .iter()
            .any(|case| format!("{} ", line(case)).starts_with(&format!("{command} ")))
    };
    // The nouns of `stats` and `snapshot` need the same permissions as their verb.
    let of_verb = |command: &str| {
        let verb = command.split(' ').next().unwrap_or_default();
        cases.iter().any(|case| case.task == verb)
    };
    let missing: Vec<&String> = all
        .iter()
        .filter(|command| !is_run(command) && !of_verb(command))
        .filter(|command| *command != "describe queue")
        .collect();
    assert!(missing.is_empty(), "verbs without a case: {missing:?}");
    let listed = scene()
        .gpuctl("", &["auth", "check", "-o", "json"])
        .ok()
        .json();
    let tasks: BTreeSet<&str> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["command"].as_str().unwrap())
        .collect();
    let tried: BTreeSet<&str> = cases.iter().map(|case| case.task).collect();
    let untried: Vec<&&str> = tasks
        .difference(&tried)
        .filter(|task| !WITHOUT_OBJECTS.contains(task))
        .collect();
    assert!(
        untried.is_empty(),
        "tasks of `auth check` without a case: {untried:?}"
    );
}

/// Returns the roles that gpuctl prints for a case and its user.
fn printed(scene: &Scene, case: &Case, user: &str, extent: &str) -> String {
    let words: Vec<&str> = case.task.split(' ').collect();
    let extent = format!("--emit-role={extent}");
    scene
        .gpuctl(
            "",
            &[&["auth", "check"], &words[..], &[&extent, "--user", user]].concat(),
        )
        .ok()
        .out
}

fn try_case(scene: &Scene, case: &Case, user: &str) -> Result<(), String> {
    let what = format!("{} ({})", case.args.join(" "), case.task);
    let failed = |step: &str, code: i32, out: &str, err: &str| {
        Err(format!("{what}: {step}: exit {code}\n{out}{err}"))
    };
    let words: Vec<&str> = case.task.split(' ').collect();
    let run = scene.run_case(user, case);
    if !case.is_open && !is_lack(&run) {
        return failed(
            "is not refused without a role",
            run.code,
            &run.out,
            &run.err,
        );
    }
    let mut extents = vec!["minimal"];
    extents.extend(case.reads.then_some("full"));
    for extent in extents {
        // Cases run at the same time, and some of them have the same role.
        scene.admin.run_with(
            &["apply", "--server-side", "--force-conflicts", "-f", "-"],
            &printed(scene, case, user, extent),
        );
        let check = scene.until_allowed(user, &[&["auth", "check"], &words[..]].concat());
        if check.code != 0 {
            return failed(
                &format!("the role `{extent}` is not enough for `auth check`"),
                check.code,
                &check.out,
                &check.err,
            );
        }
        let run = scene.run_case(user, case);
        if !case.codes.contains(&run.code) || (extent == "full" && is_lack(&run)) {
            return failed(
                &format!("with the role `{extent}`"),
                run.code,
                &run.out,
                &run.err,
            );
        }
    }
    Ok(())
}

#[test]
fn every_command_runs_with_exactly_its_printed_role() {
    let scene = scene();
    let (in_order, cases): (Vec<Case>, Vec<Case>) =
        cases(scene).into_iter().partition(|case| case.in_order);
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let note = |result: Result<(), String>| failures.lock().unwrap().extend(result.err());
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while let Some((index, case)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|i| Some((i, cases.get(i)?)))
                {
                    note(try_case(scene, case, &format!("user-{index}")));
                }
            });
        }
    });
    for (index, case) in in_order.iter().enumerate() {
        note(try_case(scene, case, &format!("ordered-{index}")));
    }
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} fail:\n{}",
        failures.len(),
        cases.len() + in_order.len(),
        failures.join("\n")
    );
}

fn items(list: &Value) -> Vec<Value> {
    list["items"].as_array().cloned().unwrap_or_default()
}
