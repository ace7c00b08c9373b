//! Shows a past state for `--at TIME`, and the holder of a GPU for `who gpu`. The data comes from
//! kube-state-metrics and GPU exporters in Prometheus.

use std::process::ExitCode;

use super::history::{ClusterHistory, clusters};
use super::list::{self, ListOptions, Listing, Refresh};
use super::metrics::print_warnings;
use super::past_namespace;
use super::past_queries::HistoryScope;
use super::times;
use crate::context::Context;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::contract::labels::USER;
use gpuctl_core::model::values::text::count;
use gpuctl_view::history::at_time as view;
use gpuctl_view::history::snapshot::PointInTime;

/// Maximum age in seconds of a sample, relative to the requested time.
const WINDOW_SECONDS: i64 = 300;

/// Reads the state at the time `at`, or the current state, and passes it to `read`. `read` returns
/// `None` if the requested GPU did not exist.
pub(crate) async fn read_at<T>(
    at: Option<&str>,
    context: &Context,
    read: impl FnOnce(&PointInTime<'_>) -> Option<T>,
) -> Result<T, Error> {
    let now = context.now();
    let time = UnixSeconds::from(at.map_or(Ok(now), |text| times::instant(text, now))?);
    if time > now.into() {
        return Err(Error::usage("that time is in the future"));
    }
    let (cluster, access) = clusters(false, context)?.swap_remove(0);
    let connection = Connection::open(&access).await?;
    let history =
        ClusterHistory::open(cluster, context, &connection, time - WINDOW_SECONDS).await?;
    let (allocations, usage) = history
        .read(
            time - WINDOW_SECONDS,
            time,
            HistoryScope {
                names: true,
                ..HistoryScope::default()
            },
        )
        .await?;
    print_warnings(context, &history.prometheus);
    let no_history = |message: String| Error::new(ErrorName::NoHistory, message);
    // Without this error, missing data would look like an idle cluster.
    if allocations.observed_slots() == 0 {
        let error = no_history(format!(
            "Prometheus at {} has no data about pods for that time",
            history.prometheus.server
        ));
        return Err(error.hint("it must have scraped kube-state-metrics at that time"));
    }
    let namespace = context.access.namespace.as_deref();
    let range = (time - WINDOW_SECONDS, time);
    let unseen = namespace.filter(|namespace| !allocations.has_pods_in(namespace));
    past_namespace::check(unseen, &history, range, context).await?;
    let time = time.timestamp();
    let state = PointInTime {
        cluster: &history.cluster,
        time,
        ledger: &allocations,
        usage: &usage,
    };
    read(&state).ok_or_else(|| {
        let nodes = format!("gpuctl get nodes --at {}", time.as_second());
        no_history("this GPU did not exist at that time".to_owned())
            .hint(format!("`{nodes}` lists nodes with their GPUs"))
    })
}

/// Prints the nodes as they were at a time.
pub(crate) async fn nodes(
    at: &str,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    list::run(options, context, async |_: Refresh<'_>| {
        let answer = read_at(Some(at), context, |state| Some(view::nodes(state))).await?;
        let names = answer
            .items
            .iter()
            .map(|item| item.node_name.clone())
            .collect();
        let table = |format, headers| {
            view::node_table(&answer.items, format, headers, context.terminal.style())
        };
        Ok(Listing::new(options, &answer, "items", names, table)
            .none("no node had GPUs at that time"))
    })
    .await
}

/// Prints the jobs as they were at a time. `-n` selects a namespace, and `user` is the value of the
/// label for the user. Jobs without a recorded user may be anybody's, so they are only counted.
pub(crate) async fn jobs(
    at: &str,
    user: Option<&str>,
    options: &ListOptions,
    context: &Context,
) -> Result<ExitCode, Error> {
    list::run(options, context, async |_: Refresh<'_>| {
        let answer = read_at(Some(at), context, |state| Some(view::jobs(state))).await?;
        let answer = match &context.access.namespace {
            Some(namespace) => answer.only(|item| item.namespace == *namespace),
            None => answer,
        };
        let answer = match user {
            Some(user) => {
                let unknown = answer.items.iter().filter(|item| item.user.is_none());
                if let Some(note) = without_user(unknown.count()) {
                    context.terminal.report(&note);
                }
                answer.only(|item| item.user.as_deref() == Some(user))
            }
            None => answer,
        };
        let names = answer
            .items
            .iter()
            .map(|item| format!("{}/{}", item.namespace, item.job_id))
            .collect();
        let table = |format, headers| {
            view::job_table(&answer.items, format, headers, context.terminal.style())
        };
        Ok(Listing::new(options, &answer, "items", names, table)
            .none("no GPU was requested at that time"))
    })
    .await
}

/// The note about jobs that `--mine` leaves out because their user is not recorded.
fn without_user(jobs: usize) -> Option<String> {
    let (verb, object) = match jobs {
        1 => ("is", "it"),
        _ => ("are", "them"),
    };
    (jobs > 0).then(|| {
        format!(
            "{} without a recorded user {verb} not shown: another tool submitted {object}, or \
             kube-state-metrics does not export the label `{USER}` \
             (--metric-labels-allowlist=pods=[*])",
            count(jobs as u64, "job")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_unknown_users_are_counted() {
        assert_eq!(without_user(0), None);
        assert_eq!(
            without_user(2).unwrap(),
            "2 jobs without a recorded user are not shown: another tool submitted them, or \
             kube-state-metrics does not export the label `gpuctl/user` \
             (--metric-labels-allowlist=pods=[*])"
        );
    }
}
