//! Measures the accuracy of `why` on a corpus of labelled scenarios on a real control plane. It
//! asks about each setup three times: as an administrator, as a user without rights on nodes, and
//! after the events are deleted. Setups whose cause the visible data cannot decide are labelled
//! `unknown` and scored separately; a confident wrong answer there fails the test.
//!
//! `cargo test --test cluster causes:: -- --nocapture` prints the accuracy of each family.

mod capacity;
mod dead;
mod pairs;
mod rules;
mod setup;
mod start;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Options, Persona};
use serde_json::{Value, json};

use self::setup::Setup;
use crate::runner::{Run, gpuctl, run};

/// Which user asks, or at which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum View {
    Admin,
    WithoutNodes,
    WithoutEvents,
}

/// One question and its answer.
struct Answered {
    family: &'static str,
    title: String,
    view: View,
    label: &'static str,
    /// The actual cause of the setup, whether the view shows it or not.
    truth: &'static str,
    answer: Value,
    bytes: usize,
}

impl Answered {
    fn top(&self) -> &str {
        self.answer["causes"][0]["cause"]
            .as_str()
            .unwrap_or("unknown")
    }
}

fn ask(cluster: &Cluster, persona: Persona, setup: &Setup) -> Run {
    let mut command = gpuctl();
    command.env("KUBECONFIG", cluster.kubeconfig(persona));
    command.args([
        "why",
        &format!("{}/{}", setup.namespace, setup.subject),
        "-o",
        "json",
    ]);
    run(command, "")
}

#[test]
fn why_names_the_actual_causes() {
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let admin = cluster.kubectl(Persona::Admin);
    let mut setups: Vec<Setup> = Vec::new();
    for setup in [
        capacity::setups(),
        rules::setups(),
        start::setups(),
        dead::setups(),
        pairs::setups(),
    ]
    .into_iter()
    .flatten()
    {
        let number = setups.len();
        setups.push(setup.numbered(number));
    }
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    admin.apply(&list(setups.iter().map(Setup::namespace_object).collect()));
    admin.apply(&list(setups.iter().map(Setup::role_binding).collect()));
    let (ready, unready): (Vec<Value>, Vec<Value>) = setups
        .iter()
        .flat_map(|setup| setup.nodes.clone())
        .partition(|node| node["metadata"]["labels"]["type"] == "kwok");
    cluster.add_nodes(&ready);
    admin.apply(&list(unready));
    for setup in &setups {
        for (resource, message) in &setup.denials {
            let message = *message;
            cluster.judge_by(
                &setup.namespace,
                resource,
                Box::new(move |_| Some(json!({"code": 403, "message": message}))),
            );
        }
    }
    admin.apply(&list(
        setups
            .iter()
            .flat_map(|setup| setup.before.clone())
            .collect(),
    ));
    // Quotas, policies and webhooks take effect a moment after their creation, and the GPUs of a
    // pod count once it is bound. No field shows when all of this is done.
    thread::sleep(Duration::from_secs(8));
    admin.apply(&list(
        setups
            .iter()
            .flat_map(|setup| setup.objects.clone())
            .collect(),
    ));
    // Gives the controllers and the scheduler time to handle the jobs before the setups act on
    // them.
    let created = Instant::now();
    thread::sleep(Duration::from_secs(12));
    for setup in &setups {
        setup.acts(&admin);
    }
    admin.apply(&list(
        setups
            .iter()
            .flat_map(|setup| setup.events(&admin))
            .collect(),
    ));
    // By then the jobs are at least 20 s old and the last events at least 3 s, so the conditions
    // have settled.
    thread::sleep(
        Duration::from_secs(20).saturating_sub(created.elapsed()) + Duration::from_secs(3),
    );

    let mut answers = Vec::new();
    let mut ask_all = |view: View, persona: Persona| {
        for setup in &setups {
            let Some(label) = setup.label(view) else {
                continue;
            };
            let answer = ask(&cluster, persona, setup).ok();
            answers.push(Answered {
                family: setup.family,
                title: format!("{} ({view:?})", setup.title),
                view,
                label,
                truth: setup.truth,
                bytes: answer.out.len(),
                answer: answer.json(),
            });
        }
    };
    ask_all(View::Admin, Persona::Admin);
    ask_all(View::WithoutNodes, Persona::Alice);
    admin.run(&["delete", "events", "-A", "--all", "--wait=false"]);
    ask_all(View::WithoutEvents, Persona::Admin);
    report(&answers);
    let misspelt = Setup {
        namespace: "why-0".to_owned(),
        subject: "trian",
        ..setups[0].clone()
    };
    ask(&cluster, Persona::Admin, &misspelt)
        .exits(4)
        .says("/train`?");
}

/// Prints the accuracy of each family. Fails if it is below 95 %, or if an answer is a guess where
/// the data do not decide the cause.
#[expect(
    clippy::disallowed_macros,
    clippy::cast_precision_loss,
    reason = "the accuracy is what this test prints"
)]
fn report(answers: &[Answered]) {
    let (open, decided): (Vec<&Answered>, Vec<&Answered>) =
        answers.iter().partition(|one| one.label == "unknown");
    let mut families: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut views: BTreeMap<View, (usize, usize)> = BTreeMap::new();
    let (mut right, mut wrong) = (0, Vec::new());
    for one in &decided {
        let good = one.top() == one.label;
        right += usize::from(good);
        let family = families.entry(one.family).or_default();
        *family = (family.0 + usize::from(good), family.1 + 1);
        let view = views.entry(one.view).or_default();
        *view = (view.0 + usize::from(good), view.1 + 1);
        if !good {
            wrong.push(format!(
                "{}: {} instead of {}: {}",
                one.title,
                one.top(),
                one.label,
                one.answer["sentence"]
            ));
        }
    }
    // If the data do not decide the cause, the correct answer is `unknown`, the quoted words of
    // another program, or a list of equally likely causes.
    let fair = |one: &Answered| {
        let causes = one.answer["causes"].as_array().cloned().unwrap_or_default();
        one.top() == "unknown"
            || one.top().ends_with("-other")
            || one.top() == one.truth
            || causes.len() > 1
                && causes
                    .iter()
                    .all(|cause| cause["weight"] == causes[0]["weight"])
    };
    let guesses: Vec<String> = open
        .iter()
        .filter(|one| !fair(one))
        .map(|one| {
            format!(
                "{}: {} is a guess: {}",
                one.title,
                one.top(),
                one.answer["sentence"]
            )
        })
        .collect();
    let mut text = format!(
        "{} scenarios, {} of them undecidable\n",
        answers.len(),
        open.len()
    );
    let mut line = |name: &str, (right, all): (usize, usize)| {
        text.push_str(&format!(
            "  {name:<15} {right} of {all} ({:.1} %)\n",
            100.0 * right as f64 / all as f64
        ));
    };
    families
        .iter()
        .for_each(|(family, count)| line(family, *count));
    views
        .iter()
        .for_each(|(view, count)| line(&format!("{view:?}"), *count));
    line("without a guess", (open.len() - guesses.len(), open.len()));
    line("top-1", (right, decided.len()));
    wrong
        .iter()
        .chain(&guesses)
        .for_each(|one| text.push_str(&format!("  wrong: {one}\n")));
    println!("{text}");
    assert!(answers.len() >= 200, "{} scenarios", answers.len());
    assert!(
        right * 100 >= decided.len() * 95,
        "{right} of {}",
        decided.len()
    );
    assert!(guesses.is_empty(), "{guesses:?}");
    let largest = answers
        .iter()
        .max_by_key(|one| one.bytes)
        .expect("something was asked");
    assert!(
        largest.bytes <= 2048,
        "{}: {} bytes",
        largest.title,
        largest.bytes
    );
}
