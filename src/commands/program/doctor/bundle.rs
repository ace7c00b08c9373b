//! `gpuctl doctor --bundle FILE`: captures the cluster's objects, runs read-only commands on the
//! capture, and fetches the data that they lack, until nothing is missing. A bundle therefore
//! contains everything that these commands read.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use futures::stream::{self, StreamExt};

use crate::cli::Cli;
use crate::context::Context;
use crate::observe::metrics::{self, StoreUse};
use crate::observe::store_identity::{StoreClusters, identify};
use crate::verbs::ROWS;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::contract::labels::JOB;
use gpuctl_local::bundle::{Bundle, Question, RecordedAnswer};
use gpuctl_prometheus::Prometheus;
use gpuctl_view::format::text::count;
use gpuctl_view::program::bundle::BundleWritten;
use gpuctl_view::{Format, document};

/// Range of history that a replay may query, in seconds.
const HISTORY_SECONDS: i64 = 31 * 86_400;
/// Maximum number of jobs whose details are captured.
const MAX_JOBS: usize = 30;
/// Maximum number of rounds. Several are needed, because reads can depend on earlier results.
const MAX_ROUNDS: usize = 24;
/// Number of items to fetch concurrently.
const MAX_CONCURRENT: usize = 8;

/// Captures the cluster and Prometheus to a file.
pub(crate) async fn write(
    file: &Path,
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    if context.access.bundle.is_some() {
        return Err(
            Error::usage("a bundle is created from a cluster, not from another bundle")
                .hint("remove `--replay`"),
        );
    }
    let connection = context.connect().await?;
    let (_, current) = Connection::contexts(&context.access)?;
    let cluster = context
        .access
        .context
        .clone()
        .or(current)
        .unwrap_or_else(|| "in-cluster".to_owned());
    let mut bundle = Bundle::new(
        context.now(),
        cluster,
        connection.server().to_owned(),
        connection.namespace.clone(),
    );
    let unreadable = connection.capture(&mut bundle).await?;
    let prometheus = find_store(&connection, &mut bundle, context).await;
    let bundle = Arc::new(bundle);
    let failed_count = fill(&bundle, &connection, prometheus.as_ref(), context).await?;
    if failed_count > 0 {
        context.terminal.warn(&format!(
            "{} could not be captured; a replay that needs them exits with code 6",
            count(failed_count as u64, "item")
        ));
    }
    bundle
        .write(file)
        .map_err(|error| Error::new(ErrorName::FileNotWritten, error))?;
    if let Err(error) = Bundle::check_size(file) {
        context
            .terminal
            .warn(&format!("`--replay` will reject this bundle: {error}"));
    }
    report(file, &bundle, &unreadable, format, context)
}

/// Finds Prometheus, limits it to this cluster's series, and records its queries in the bundle.
async fn find_store<'c>(
    connection: &'c Connection,
    bundle: &mut Bundle,
    context: &Context,
) -> Option<Prometheus<'c>> {
    let candidate = metrics::find(
        context,
        connection,
        context.access.request_timeout,
        StoreUse::Devices,
    )
    .await;
    let candidate = match candidate {
        Ok(candidate) => candidate,
        Err(error) => {
            context
                .terminal
                .warn(&format!("the bundle contains no metrics: {error}"));
            return None;
        }
    };
    // A replay may query this whole range, and its sums must not include other clusters' devices.
    let until = UnixSeconds::from(context.now());
    let clusters = match candidate.matchers().is_empty() {
        true => identify(&candidate, connection, (until - HISTORY_SECONDS, until))
            .await
            .unwrap_or(StoreClusters::One),
        false => StoreClusters::One,
    };
    let prometheus = match clusters {
        StoreClusters::One => candidate,
        StoreClusters::Proven(matchers) => candidate.with_matchers(matchers),
        StoreClusters::Unclear { label, values } => {
            bundle.unclear = Some((label.to_owned(), values));
            candidate
        }
    };
    bundle.prometheus = Some(prometheus.server.clone());
    bundle.matchers = prometheus.matchers().pairs().to_vec();
    bundle.matchers_include_unlabeled = prometheus.matchers().includes_unlabeled();
    Some(prometheus)
}

/// Prints the bundle's path and the data that it lacks.
fn report(
    file: &Path,
    bundle: &Bundle,
    unread: &[String],
    format: Format,
    context: &Context,
) -> Result<ExitCode, Error> {
    let bytes = file.metadata().map_or(0, |data| data.len());
    let server = bundle.prometheus.as_deref();
    let written = BundleWritten {
        file: file.display().to_string(),
        bytes,
        captured_at: bundle.at,
        unread,
        prometheus: server,
    };
    let text = || {
        let mut text = format!(
            "{} written, {} KiB; known forms of secrets are redacted, but the bundle contains \
             names, addresses and log lines\n",
            file.display(),
            bytes.div_ceil(1024)
        );
        unread
            .iter()
            .for_each(|path| text.push_str(&format!("not read: {path}\n")));
        text
    };
    context
        .terminal
        .print(&document(format, &written).unwrap_or_else(text))?;
    context
        .terminal
        .hint(&format!("gpuctl --replay {} get jobs", file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Fetches the data that the commands lack until nothing is missing. Returns the number of failed
/// items.
async fn fill(
    bundle: &Arc<Bundle>,
    connection: &Connection,
    prometheus: Option<&Prometheus<'_>>,
    context: &Context,
) -> Result<usize, Error> {
    let mut pending = commands(&jobs(bundle));
    let progress = context.terminal.spinner();
    let mut failed = BTreeSet::new();
    for _ in 0..MAX_ROUNDS {
        let mut missed = BTreeSet::new();
        let mut incomplete = Vec::new();
        for command in std::mem::take(&mut pending) {
            progress.set_message(format!("gpuctl {command}"));
            run_on_bundle(&command, bundle, context).await;
            let mut missed_by_command = bundle.take_missing();
            // Do not retry failed items.
            missed_by_command.retain(|question| !failed.contains(question));
            if !missed_by_command.is_empty() {
                incomplete.push(command);
                missed.extend(missed_by_command);
            }
        }
        if missed.is_empty() {
            break;
        }
        let fetches = stream::iter(missed).map(|question| async {
            let answer = fetch(&question, connection, prometheus).await;
            (question, answer)
        });
        let mut fetches = fetches.buffer_unordered(MAX_CONCURRENT);
        while let Some((question, answer)) = fetches.next().await {
            match answer {
                Some(content) => bundle.record(question, content),
                None => drop(failed.insert(question)),
            }
        }
        pending = incomplete;
    }
    progress.finish_and_clear();
    // From here on, missing data is an error instead of an item to fetch.
    bundle.close();
    failed.iter().for_each(|question| {
        context
            .terminal
            .detail(&format!("not answered: {}", String::from(question.clone())));
    });
    pending.iter().for_each(|command| {
        context
            .terminal
            .detail(&format!("incomplete: gpuctl {command}"));
    });
    Ok(failed.len() + pending.len())
}

/// Command lines that can run on a bundle.
fn commands(jobs: &[String]) -> Vec<String> {
    let mut commands = Vec::new();
    for row in ROWS {
        for options in row.bundle {
            let command = format!("{} {options}", row.words()).trim_end().to_owned();
            if options.starts_with("JOB") {
                commands.extend(jobs.iter().map(|job| command.replacen("JOB", job, 1)));
            } else {
                commands.push(command);
            }
        }
    }
    commands
}

/// Runs a command on the captured data, which records the data that it lacks.
async fn run_on_bundle(command: &str, bundle: &Arc<Bundle>, context: &Context) {
    let words = std::iter::once("gpuctl").chain(command.split(' '));
    let Ok(cli) = Cli::try_parse_from(words) else {
        return;
    };
    let mut silent_context = context.silent(Arc::clone(bundle));
    silent_context.all_namespaces = cli.global.all_namespaces;
    // Box the future: `doctor` is itself a command, so its type would be infinite.
    let _ = Box::pin(cli.command.run(&silent_context)).await;
}

async fn fetch(
    question: &Question,
    connection: &Connection,
    prometheus: Option<&Prometheus<'_>>,
) -> Option<RecordedAnswer> {
    match question {
        Question::Query(path) => {
            let reply = prometheus?.relay(path).await.ok()?;
            Some(RecordedAnswer {
                code: reply.code,
                body: serde_json::from_slice(&reply.body).ok()?,
            })
        }
        other => connection.captured(other).await.ok()?,
    }
}

/// Lists gpuctl's jobs as `NAMESPACE/NAME`, newest first. Reads owners too, because queued jobs
/// have no pods.
fn jobs(bundle: &Bundle) -> Vec<String> {
    const KINDS: [(&str, &str); 4] = [
        ("/apis/batch/v1", "jobs"),
        ("/apis/apps/v1", "deployments"),
        ("/apis/apps/v1", "statefulsets"),
        ("/api/v1", "pods"),
    ];
    let mut objects: Vec<_> = KINDS
        .iter()
        .flat_map(|(api, plural)| bundle.namespaced_items(api, plural))
        .collect();
    objects
        .sort_by_key(|object| std::cmp::Reverse(object["metadata"]["creationTimestamp"].as_str()));
    let mut names = Vec::new();
    for object in objects {
        let metadata = &object["metadata"];
        let (Some(namespace), Some(job)) = (
            metadata["namespace"].as_str(),
            metadata["labels"][JOB].as_str(),
        ) else {
            continue;
        };
        let name = format!("{namespace}/{job}");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MAX_JOBS);
    names
}
