//! Renders `auth check`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::contract::rights::{Need, Right, Task, descriptions};

use crate::format::table::{Cell, Table, left};
use crate::format::text::{clean, count, wrapped};
use crate::{Format, TextStyle};
use colored::Color;

/// A command, and the permissions that it lacks.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub command: String,
    verb: &'static str,
    resource: &'static str,
    /// Whether it works in the namespace.
    pub allowed: bool,
    /// Whether it works in all namespaces.
    allowed_everywhere: bool,
    /// Missing permissions without which it fails in the namespace.
    pub missing: Vec<String>,
    /// Missing permissions without which it fails only for some arguments or files.
    missing_for: Vec<MissingFor>,
    #[serde(skip)]
    said: Vec<String>,
    /// Features that the command lacks in the namespace because optional permissions are missing.
    without: Vec<&'static str>,
}

/// A use of a command that fails, and the permissions that it lacks.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingFor {
    /// For example `multi-node trainings`.
    pub used: &'static str,
    pub missing: Vec<String>,
}

/// Checks a command against the permissions in the namespace and in all namespaces. Permissions in
/// `absent` are for API groups that the cluster does not serve, so no command needs them.
pub fn checked(
    task: &Task,
    here: &BTreeMap<Right, bool>,
    cluster_answers: &BTreeMap<Right, bool>,
    absent: &BTreeSet<Right>,
) -> Checked {
    let may = |answers: &BTreeMap<Right, bool>, right: &Right| {
        answers.get(right).copied().unwrap_or(false)
    };
    let needed = task.needed();
    let lacks_right = |right: &Right| !may(here, right);
    let mut unavailable = BTreeSet::new();
    let mut missing_for: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for rule in task.rules() {
        let lacks: Vec<Right> = rule.rights().filter(lacks_right).collect();
        match rule.need {
            Need::Optional(feature) if !lacks.is_empty() => drop(unavailable.insert(feature)),
            Need::For(feature) => {
                // Skip permissions that every use needs, because they are already in `missing`.
                let lacks = lacks
                    .iter()
                    .filter(|right| !absent.contains(right) && !needed.contains(right));
                let lacks: Vec<String> = lacks.map(Right::text).collect();
                if !lacks.is_empty() {
                    missing_for.entry(feature).or_default().extend(lacks);
                }
            }
            _ => {}
        }
    }
    let missing_for: Vec<MissingFor> = missing_for
        .into_iter()
        .map(|(used, missing)| MissingFor { used, missing })
        .collect();
    let sufficient = task.sufficient();
    let everywhere_sufficient = sufficient
        .iter()
        .all(|right| may(cluster_answers, right) || absent.contains(right));
    Checked {
        command: task.words.to_owned(),
        verb: task.verb(),
        resource: task.resource(),
        allowed: missing_for.is_empty() && needed.iter().all(|right| may(here, right)),
        allowed_everywhere: everywhere_sufficient,
        missing: needed
            .iter()
            .filter(|right| !may(here, right))
            .map(Right::text)
            .collect(),
        said: descriptions(needed.iter().filter(|right| !may(here, right))),
        missing_for,
        without: unavailable.into_iter().collect(),
    }
}

/// Shown as missing if a command has all permissions but no metrics.
const PROMETHEUS: &str = "Prometheus";

impl Checked {
    /// Returns true if the command works only for some arguments and files.
    fn is_partial(&self) -> bool {
        self.missing.is_empty() && !self.missing_for.is_empty()
    }

    /// Formats the uses that fail, such as `size: workdirs; multi-node trainings`.
    fn lacking_uses(&self) -> String {
        self.missing_for
            .iter()
            .map(|entry| entry.used)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Records why a command that needs Prometheus cannot query it.
    #[must_use]
    pub fn without(mut self, error: Option<&str>) -> Self {
        if let Some(error) = error {
            (self.allowed, self.allowed_everywhere) = (false, false);
            if self.missing.is_empty() {
                self.missing.push(error.to_owned());
                self.said.push(PROMETHEUS.to_owned());
            }
        }
        self
    }
}

/// The JSON output of `auth check`.
#[derive(JsonSchema, Serialize)]
pub struct RightsList<'a> {
    user: Option<&'a str>,
    namespace: &'a str,
    total: usize,
    items: &'a [Checked],
}

pub fn list<'a>(user: Option<&'a str>, namespace: &'a str, items: &'a [Checked]) -> RightsList<'a> {
    RightsList {
        user,
        namespace,
        total: items.len(),
        items,
    }
}

fn answer(allowed: bool) -> Cell {
    if allowed {
        Cell::from("yes")
    } else {
        Cell::colored("no", Some(Color::Red))
    }
}

pub fn table(items: &[Checked], format: Format, headers: bool, style: TextStyle) -> String {
    let mut table = Table::new([
        left("COMMAND"),
        left("HERE"),
        left("EVERYWHERE"),
        left("MISSING"),
    ]);
    for item in items {
        let missing = match item.said.split_first() {
            None => item.lacking_uses(),
            Some((first, [])) => first.clone(),
            Some((first, rest)) if format == Format::Table => format!("{first} +{}", rest.len()),
            Some(_) => item.said.join("; "),
        };
        let here = if item.is_partial() {
            Cell::colored("part", Some(Color::Yellow))
        } else {
            answer(item.allowed)
        };
        table.row(vec![
            item.command.clone().into(),
            here,
            answer(item.allowed_everywhere),
            missing.into(),
        ]);
    }
    table.show(format, headers, style)
}

/// Whether a pool accepts one more job.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRoom {
    pub name: String,
    /// `null` when neither nodes nor definitions are visible.
    pub exists: Option<bool>,
    /// Visible jobs that have not ended.
    pub jobs: Option<usize>,
    pub max_jobs: Option<u32>,
    pub max_gpu_per_job: Option<u32>,
}

/// The JSON output of `auth check` for one command.
#[derive(JsonSchema, Serialize)]
pub struct Verdict {
    pub allowed: bool,
    pub message: String,
    /// `null` for all namespaces.
    pub namespace: Option<String>,
    pub missing: Vec<String>,
    /// Uses of the command that fail, with the permissions that they lack.
    pub missing_for: Vec<MissingFor>,
    pub without: Vec<&'static str>,
    pub pool: Option<PoolRoom>,
}

impl Verdict {
    pub fn new(checked: &Checked, namespace: Option<String>, pool: Option<PoolRoom>) -> Self {
        let scope = namespace.as_ref().map_or_else(
            || "all namespaces".to_owned(),
            |namespace| format!("namespace {namespace}"),
        );
        let refusal = pool.as_ref().and_then(PoolRoom::refuses);
        let action = if checked.resource.is_empty() {
            format!("use `{}`", checked.command)
        } else {
            checked.command.clone()
        };
        let message = match (&checked.said[..], &refusal) {
            ([], _) if checked.is_partial() => {
                let uses = checked
                    .missing_for
                    .iter()
                    .map(|entry| format!("{} ({})", entry.used, entry.missing.join(", ")));
                format!(
                    "you may {action} in {scope}, but not for: {}",
                    uses.collect::<Vec<_>>().join("; ")
                )
            }
            ([], None) => format!("you may {action} in {scope}"),
            ([], Some(refusal)) => format!("you may {action} in {scope}, but {refusal}"),
            ([right], _) if right == PROMETHEUS => format!(
                "`{}` needs Prometheus: {}",
                checked.command,
                checked.missing.join("; ")
            ),
            (missing, _) => format!(
                "you are not allowed to {action} in {scope}: missing {}",
                missing.join("; ")
            ),
        };
        let allowed = checked.allowed && refusal.is_none();
        let (missing, missing_for) = (checked.missing.clone(), checked.missing_for.clone());
        Self {
            allowed,
            message,
            namespace,
            missing,
            missing_for,
            without: checked.without.clone(),
            pool,
        }
    }
}

impl PoolRoom {
    fn refuses(&self) -> Option<String> {
        let full = self
            .max_jobs
            .zip(self.jobs)
            .filter(|(limit, jobs)| *jobs >= *limit as usize);
        match (self.exists, full) {
            (Some(false), _) => Some(format!("pool `{}` does not exist", self.name)),
            (_, Some((limit, jobs))) => Some(format!(
                "pool `{}` is at its job limit ({jobs} of {limit})",
                self.name
            )),
            _ => None,
        }
    }
}

impl PoolRoom {
    fn text(&self) -> String {
        let name = clean(&self.name);
        if self.exists.is_none() {
            return format!("unknown whether pool {name} exists");
        }
        let jobs = self.jobs.map_or_else(
            || "an unknown number of jobs".to_owned(),
            |jobs| count(jobs as u64, "job"),
        );
        let limit = self.max_jobs.map_or_else(
            || "no known limit".to_owned(),
            |limit| format!("{limit} allowed"),
        );
        format!("{jobs} in {name}, {limit}")
    }
}

/// Renders a verdict as text.
pub fn text(verdict: &Verdict, style: TextStyle) -> String {
    let answer = match (
        verdict.allowed,
        verdict.missing.is_empty() && !verdict.missing_for.is_empty(),
    ) {
        (true, _) => "yes",
        (false, true) => "in part",
        (false, false) => "no",
    };
    let mut text = format!("{answer}: {}\n", verdict.message);
    if !verdict.without.is_empty() {
        text.push_str(&format!(
            "  without {}\n",
            wrapped(&verdict.without.join("; "), 10, style)
        ));
    }
    if let Some(pool) = verdict
        .pool
        .as_ref()
        .filter(|pool| pool.exists != Some(false))
    {
        text.push_str(&format!("  pool    {}\n", pool.text()));
    }
    text
}
