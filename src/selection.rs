//! Selects the jobs that a command applies to: by name, pattern, label, owner and status.

use std::collections::BTreeSet;

use futures::future::try_join_all;
use regex::Regex;

use crate::cli::args::selection::{JobSelection, is_pattern};
use crate::context::Context;
use crate::lookup::{self, LookupPurpose};
use crate::observe::past_jobs;
use gpuctl_cluster::{Connection, DryRun, JobFilter, Selection};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::values::natural;
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Job, State, Status};

/// Lists the selected jobs without duplicates, sorted by namespace and name. Fails if no job
/// matches, or if a name or a pattern matches no job.
pub(crate) async fn jobs(
    context: &Context,
    connection: &Connection,
    selection: &JobSelection,
    purpose: LookupPurpose,
) -> Result<Vec<Job>, Error> {
    if selection.is_by_name() {
        let names = selection.names.iter();
        let found = names.map(|name| past_jobs::job(context, connection, name, purpose));
        return Ok(unique(try_join_all(found).await?));
    }
    // Changes are limited to the current namespace, unless `-A` is set. A name that includes a
    // namespace applies only there.
    let is_change = purpose == LookupPurpose::Change && !context.all_namespaces;
    let is_limited = connection.namespace_is_explicit || is_change;
    let limit = is_limited.then_some(connection.namespace.as_str());
    let names: Vec<NamePattern> = selection
        .names
        .iter()
        .map(|name| NamePattern::parse(name, limit))
        .collect::<Result<_, _>>()?;
    let explicit_namespace = lookup::explicit_namespace(connection);
    for (pattern, text) in names.iter().zip(&selection.names) {
        lookup::check_namespace(explicit_namespace, pattern.namespace.as_deref(), text)?;
    }
    let user = match selection.mine {
        false => None,
        true => Some(own_name(connection).await?),
    };
    let lists = namespaces(&names, limit).into_iter().map(|namespace| {
        let filter = JobFilter {
            namespace,
            user: user.clone(),
            ..JobFilter::default()
        };
        async move { connection.jobs().list(&filter).await }
    });
    let lists = try_join_all(lists).await?;
    let status: Option<Status> = selection
        .status
        .as_deref()
        .and_then(|word| word.parse().ok());
    let unseen = lists.iter().find_map(Selection::unseen);
    let mut jobs: Vec<Job> = lists.into_iter().flat_map(|list| list.jobs).collect();
    let unmatched = unmatched(&names, selection, &jobs);
    let matches = |job: &Job| {
        (user.is_none() || job.user == user)
            && (names.is_empty() || names.iter().any(|name| name.matches(job)))
            && selection
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&job.labels))
            && status.is_none_or(|status| State::from_job(job).status == status)
    };
    jobs.retain(matches);
    if jobs.is_empty() || !unmatched.is_empty() {
        lookup::check_empty(connection, explicit_namespace, jobs.is_empty()).await?;
        let error = Error::new(ErrorName::NotFound, nothing_matches(&unmatched));
        return Err(unseen
            .into_iter()
            .fold(error, Error::note)
            .hint("`gpuctl get jobs` lists all jobs"));
    }
    if let Some(unseen) = unseen {
        context.terminal.warn(&unseen);
    }
    Ok(unique(jobs))
}

/// The names and patterns that no job has. With filters, a job may have the name without being
/// selected, so there are none.
fn unmatched<'s>(names: &[NamePattern], selection: &'s JobSelection, jobs: &[Job]) -> Vec<&'s str> {
    if selection.selector.is_some() || selection.mine || selection.status.is_some() {
        return Vec::new();
    }
    let texts = selection.names.iter().map(String::as_str);
    names
        .iter()
        .zip(texts)
        .filter(|(name, _)| !jobs.iter().any(|job| name.matches(job)))
        .map(|(_, text)| text)
        .collect()
}

fn nothing_matches(patterns: &[&str]) -> String {
    let quoted: Vec<String> = patterns.iter().map(|text| format!("`{text}`")).collect();
    match quoted.is_empty() {
        true => "no job matches the selection".to_owned(),
        false => format!("no job matches {}", quoted.join(" or ")),
    }
}

/// Options that skip the confirmation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeOptions {
    pub yes: bool,
    pub dry_run: Option<DryRun>,
}

/// Asks for confirmation before changing jobs that were selected by a pattern or filter, after
/// listing them. `verb` is the action in the question. Without a terminal, fails unless `--yes` is
/// set.
pub(crate) fn confirm(
    context: &Context,
    selection: &JobSelection,
    options: ChangeOptions,
    jobs: &[Job],
    verb: &str,
) -> Result<(), Error> {
    if selection.is_by_name() || options.yes || options.dry_run.is_some() {
        return Ok(());
    }
    let jobs_text = count(jobs.len() as u64, "job");
    if !context.terminal.is_interactive() {
        let names = jobs.iter().map(full_name).collect::<Vec<_>>().join(", ");
        let message =
            format!("changing {jobs_text} needs a confirmation, but there is no terminal");
        return Err(Error::new(ErrorName::NotConfirmed, message)
            .note(names)
            .hint(format!(
                "add `--yes` to {verb} them, or `--dry-run` to see the result"
            )));
    }
    for job in jobs {
        let gpus = count(job.gpus_held().0, "GPU");
        let status = State::from_job(job).status;
        let kind = job.kind.word();
        let line = format!("  {}  {kind}  {status}  {gpus}", full_name(job));
        context.terminal.print_message(&line);
    }
    match context.terminal.confirm(&format!("{verb} {jobs_text}?")) {
        true => Ok(()),
        false => Err(Error::new(ErrorName::NotConfirmed, "nothing was changed")),
    }
}

/// Formats NAMESPACE/NAME, which identifies exactly one job.
pub(crate) fn full_name(job: &Job) -> String {
    format!("{}/{}", job.namespace, job.name)
}

fn unique(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.sort_by(|a, b| {
        natural::full_name(&a.namespace, &a.name).cmp(&natural::full_name(&b.namespace, &b.name))
    });
    jobs.dedup_by(|a, b| a.uid == b.uid);
    jobs
}

/// The user name that `--mine` compares with, as reported by the API server.
pub(crate) async fn own_name(connection: &Connection) -> Result<String, Error> {
    connection.discovery().user().await?.ok_or_else(|| {
        let message = "the API server does not report your user name";
        Error::new(ErrorName::UserUnknown, message).hint("remove `--mine`")
    })
}

/// Returns the namespaces to list, or one `None` for all of them.
fn namespaces(names: &[NamePattern], limit: Option<&str>) -> Vec<Option<String>> {
    let named: Option<BTreeSet<&String>> =
        names.iter().map(|name| name.namespace.as_ref()).collect();
    match named.filter(|named| !named.is_empty()) {
        Some(named) => named.into_iter().cloned().map(Some).collect(),
        None => vec![limit.map(ToOwned::to_owned)],
    }
}

/// A name, or a glob pattern with `*` and `?`, optionally prefixed with a namespace.
struct NamePattern {
    /// The only namespace in which it applies. `None` for all namespaces.
    namespace: Option<String>,
    name: Regex,
}

impl NamePattern {
    /// Parses a pattern. Without a namespace of its own, it applies in the namespace `limit`.
    fn parse(text: &str, limit: Option<&str>) -> Result<Self, Error> {
        // Replace the wildcards by a letter, so that the rest of the pattern is validated as a
        // name.
        let plain = text.replace(['*', '?'], "x");
        lookup::split(&plain)?;
        let (namespace, name) = text
            .split_once('/')
            .map_or((None, text), |(namespace, name)| (Some(namespace), name));
        if namespace.is_some_and(is_pattern) {
            let error = Error::usage(format!("`{text}` has a pattern in its namespace"));
            return Err(error.hint("use `-A` for all namespaces"));
        }
        let pattern = regex::escape(name).replace(r"\*", ".*").replace(r"\?", ".");
        let name = Regex::new(&format!("^{pattern}$"))
            .map_err(|_| Error::usage(format!("`{text}` is not a valid pattern")))?;
        Ok(Self {
            namespace: namespace.or(limit).map(ToOwned::to_owned),
            name,
        })
    }

    fn matches(&self, job: &Job) -> bool {
        self.namespace
            .as_ref()
            .is_none_or(|namespace| *namespace == job.namespace)
            && self.name.is_match(&job.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(namespace: &str, name: &str) -> Job {
        Job {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Job::default()
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, matches) in [
            ("trial-*", true),
            ("*-1", true),
            ("trial-?", true),
            ("team/trial-*", true),
            ("other/trial-*", false),
            ("trial", false),
            ("*", true),
            ("trial-1?", false),
            ("trial.1*", false),
        ] {
            let parsed = NamePattern::parse(pattern, None).unwrap();
            assert_eq!(
                parsed.matches(&job("team", "trial-1")),
                matches,
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_name_with_a_namespace_does_not_widen_the_others() {
        let parsed = |texts: &[&str], limit: Option<&str>| -> Vec<NamePattern> {
            let parse = |text: &&str| NamePattern::parse(text, limit).unwrap();
            texts.iter().map(parse).collect()
        };
        let listed = |texts: &[&str], limit: Option<&str>| -> Vec<String> {
            let namespaces = namespaces(&parsed(texts, limit), limit);
            let word = |namespace: Option<String>| namespace.unwrap_or_else(|| "all".to_owned());
            namespaces.into_iter().map(word).collect()
        };
        assert_eq!(listed(&["team-a/x", "trial-*"], Some("b")), ["b", "team-a"]);
        assert_eq!(listed(&["team-a/x", "trial-*"], None), ["all"]);
        assert_eq!(listed(&["team-a/*"], None), ["team-a"]);
        assert_eq!(listed(&[], Some("b")), ["b"]);
        assert_eq!(listed(&[], None), ["all"]);
        let bare = &parsed(&["trial-*"], Some("b"))[0];
        assert!(bare.matches(&job("b", "trial-1")));
        assert!(!bare.matches(&job("team-a", "trial-1")));
    }

    #[test]
    fn a_pattern_cannot_leave_the_names_of_jobs() {
        for pattern in ["../*", "te*m/a", "a b*", "*/", "a|b*", "$(x)*"] {
            assert!(NamePattern::parse(pattern, None).is_err(), "{pattern}");
        }
    }
}
