//! Renders `auth check`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::rights::{Right, Task, said};

use super::table::{Cell, Table, left};
use super::text::{clean, count, wrapped};
use super::{Format, TextStyle};
use colored::Color;

/// A command and what of its rights is missing.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checked {
    pub command: String,
    verb: &'static str,
    resource: &'static str,
    /// In the namespace.
    pub allowed: bool,
    /// In all namespaces.
    allowed_everywhere: bool,
    /// Rights without which it fails in the namespace.
    pub missing: Vec<String>,
    #[serde(skip)]
    said: Vec<String>,
    /// What the command does without there for lack of further rights.
    without: Vec<&'static str>,
}

/// Judges a command by what may be done in the namespace and in all.
#[must_use]
pub(crate) fn checked(task: &Task, here: &BTreeMap<Right, bool>, everywhere: &BTreeMap<Right, bool>) -> Checked {
    let may = |answers: &BTreeMap<Right, bool>, right: &Right| answers.get(right).copied().unwrap_or(false);
    let needed = task.rights(true);
    let without: BTreeSet<&'static str> =
        task.rules().filter(|rule| rule.rights().any(|right| !may(here, &right))).filter_map(|rule| rule.lost).collect();
    Checked {
        command: task.words.to_owned(),
        verb: task.verb(),
        resource: task.resource(),
        allowed: needed.iter().all(|right| may(here, right)),
        allowed_everywhere: needed.iter().all(|right| may(everywhere, right)),
        missing: needed.iter().filter(|right| !may(here, right)).map(Right::text).collect(),
        said: said(needed.iter().filter(|right| !may(here, right))),
        without: without.into_iter().collect(),
    }
}

/// The table's word for a command that has all rights and no metrics.
const PROMETHEUS: &str = "Prometheus";

impl Checked {
    /// Notes why Prometheus cannot be asked, which the command needs.
    #[must_use]
    pub(crate) fn without(mut self, trouble: Option<&str>) -> Self {
        if let Some(trouble) = trouble {
            (self.allowed, self.allowed_everywhere) = (false, false);
            if self.missing.is_empty() {
                self.missing.push(trouble.to_owned());
                self.said.push(PROMETHEUS.to_owned());
            }
        }
        self
    }
}

/// The answer of `auth check`.
#[derive(JsonSchema, Serialize)]
pub(crate) struct RightsList<'a> {
    user: Option<&'a str>,
    namespace: &'a str,
    total: usize,
    items: &'a [Checked],
}

#[must_use]
pub(crate) fn list<'a>(user: Option<&'a str>, namespace: &'a str, items: &'a [Checked]) -> RightsList<'a> {
    RightsList { user, namespace, total: items.len(), items }
}

fn answer(allowed: bool) -> Cell {
    if allowed { Cell::from("yes") } else { Cell::colored("no", Some(Color::Red)) }
}

#[must_use]
pub(crate) fn table(items: &[Checked], format: Format, headers: bool, look: TextStyle) -> String {
    let mut table = Table::new([left("COMMAND"), left("HERE"), left("EVERYWHERE"), left("MISSING")]);
    for item in items {
        let missing = match item.said.split_first() {
            None => String::new(),
            Some((first, [])) => first.clone(),
            Some((first, rest)) if format == Format::Table => format!("{first} +{}", rest.len()),
            Some(_) => item.said.join("; "),
        };
        table.row(vec![item.command.clone().into(), answer(item.allowed), answer(item.allowed_everywhere), missing.into()]);
    }
    table.show(format, headers, look)
}

/// Whether a pool takes one more job.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolRoom {
    pub name: String,
    /// `null` when neither nodes nor definitions may be seen.
    pub exists: Option<bool>,
    /// Jobs that have not ended, as far as they may be seen.
    pub jobs: Option<usize>,
    pub max_jobs: Option<u32>,
    pub max_gpu_per_job: Option<u32>,
}

/// The answer about one command.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Verdict {
    pub allowed: bool,
    pub message: String,
    /// `null` for all namespaces.
    pub namespace: Option<String>,
    pub missing: Vec<String>,
    pub without: Vec<&'static str>,
    pub pool: Option<PoolRoom>,
}

impl Verdict {
    #[must_use]
    pub(crate) fn new(checked: &Checked, namespace: Option<String>, pool: Option<PoolRoom>) -> Self {
        let place = namespace.as_ref().map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
        let refused = pool.as_ref().and_then(PoolRoom::refuses);
        let what = if checked.resource.is_empty() { format!("use `{}`", checked.command) } else { checked.command.clone() };
        let message = match (&checked.said[..], &refused) {
            ([], None) => format!("you may {what} in {place}"),
            ([], Some(refused)) => format!("you may {what} in {place}, but {refused}"),
            ([one], _) if one == PROMETHEUS => format!("`{}` needs Prometheus: {}", checked.command, checked.missing.join("; ")),
            (missing, _) => format!("you may not {what} in {place}: missing {}", missing.join("; ")),
        };
        let allowed = checked.missing.is_empty() && refused.is_none();
        Self { allowed, message, namespace, missing: checked.missing.clone(), without: checked.without.clone(), pool }
    }
}

impl PoolRoom {
    fn refuses(&self) -> Option<String> {
        let full = self.max_jobs.zip(self.jobs).filter(|(most, jobs)| *jobs >= *most as usize);
        match (self.exists, full) {
            (Some(false), _) => Some(format!("there is no pool `{}`", self.name)),
            (_, Some((most, jobs))) => Some(format!("pool `{}` has {jobs} jobs and allows {most}", self.name)),
            _ => None,
        }
    }
}

impl PoolRoom {
    fn text(&self) -> String {
        let name = clean(&self.name);
        if self.exists.is_none() {
            return format!("whether there is a pool {name} is not known");
        }
        let jobs = self.jobs.map_or_else(|| "an unknown number of jobs".to_owned(), |jobs| count(jobs as u64, "job"));
        let most = self.max_jobs.map_or_else(|| "no limit is known".to_owned(), |most| format!("{most} allowed"));
        format!("{jobs} in {name}, {most}")
    }
}

/// Returns the answer for people.
#[must_use]
pub(crate) fn text(verdict: &Verdict, look: TextStyle) -> String {
    let mut text = format!("{}: {}\n", if verdict.allowed { "yes" } else { "no" }, verdict.message);
    if !verdict.without.is_empty() {
        text.push_str(&format!("  without {}\n", wrapped(&verdict.without.join("; "), 10, look)));
    }
    if let Some(pool) = verdict.pool.as_ref().filter(|pool| pool.exists != Some(false)) {
        text.push_str(&format!("  pool    {}\n", pool.text()));
    }
    text
}
