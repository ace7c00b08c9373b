//! `gpuctl delete`: deletes jobs, pools and quotas by name or by file. Only what gpuctl made is
//! deleted.

use std::process::ExitCode;
use std::time::Instant;

use indicatif::ProgressBar;

use crate::cli::jobs::delete::{Delete, DeleteArgs, DeleteTarget};
use crate::concurrent::SideBySide;
use crate::context::Context;
use crate::deploy::delete::{DeleteOptions, begin, end, told};
use crate::deploy::local_files::FileAccess;
use crate::deploy::pool_deletion::{self, PoolDeletion};
use crate::deploy::{AT_ONCE, defaults, inputs, quota_deletion};
use crate::lookup;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_manifest::spec::{Document, SiteDefaults};
use gpuctl_view::jobs::deleted;
use gpuctl_view::jobs::deleted::Deleted;
use gpuctl_view::{Format, document};

/// What is deleted.
#[derive(Clone, Debug)]
enum DeleteItem {
    Job(String),
    Pool(String),
    Quota(String),
    Defaults,
}

impl DeleteItem {
    fn name(&self) -> &str {
        match self {
            Self::Job(name) | Self::Pool(name) | Self::Quota(name) => name,
            Self::Defaults => SiteDefaults::NAME,
        }
    }
}

pub(crate) async fn run(args: &Delete, context: &Context) -> Result<ExitCode, Error> {
    let (items, how) = match &args.what {
        Some(DeleteTarget::Job(names)) => (
            names.names.iter().cloned().map(DeleteItem::Job).collect(),
            &names.options,
        ),
        Some(DeleteTarget::Pool(names)) => (
            names.names.iter().cloned().map(DeleteItem::Pool).collect(),
            &names.options,
        ),
        Some(DeleteTarget::Defaults(args)) => (vec![DeleteItem::Defaults], &args.options),
        Some(DeleteTarget::Quota(names)) => (
            names.names.iter().cloned().map(DeleteItem::Quota).collect(),
            &names.options,
        ),
        None => (Vec::new(), &args.options),
    };
    let format: Format = how.output.into();
    context.terminal.set_format(format);
    if args.what.is_none() && args.files.is_empty() {
        return Err(Error::usage("nothing to delete was given")
            .hint("`gpuctl delete job NAME` or `gpuctl delete -f FILE`"));
    }
    let items = if args.what.is_some() {
        items
    } else {
        items_in(&args.files, context)?
    };
    for item in &items {
        let DeleteItem::Job(name) = item else {
            continue;
        };
        let (namespace, job) = lookup::split(name)?;
        if let (Some(namespace), Some(given)) = (
            namespace,
            context
                .access
                .namespace
                .as_deref()
                .filter(|given| Some(*given) != namespace),
        ) {
            let message =
                format!("`{job}` is in namespace `{namespace}`, and `-n {given}` says another");
            return Err(Error::new(ErrorName::NamespaceConflict, message).hint("omit `-n`"));
        }
    }
    let connection = context.connect().await?;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut answers = Vec::new();
    let only_uid = if let Some(DeleteTarget::Job(names)) = &args.what {
        names.only_uid.clone()
    } else {
        None
    };
    let of_job = DeleteOptions {
        only_uid,
        ..how.of_job()
    };
    // Questions are asked one after the other.
    let at_once = if of_job.may_ask(context) { 1 } else { AT_ONCE };
    let jobs = items.iter().filter_map(|item| {
        if let DeleteItem::Job(name) = item {
            Some(name)
        } else {
            None
        }
    });
    let beginning = jobs.map(async |name| {
        (
            name,
            begin(&connection, name, &of_job, context).await,
            Instant::now(),
        )
    });
    let mut beginning = SideBySide::new(beginning, at_once);
    while let Some((name, begun, at)) = beginning.next().await {
        match begun {
            Ok(begun) => done.extend(begun.map(|begun| (begun, at))),
            Err(error) if items.len() == 1 => return Err(error),
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((name.clone(), error));
            }
        }
    }
    for item in items
        .iter()
        .filter(|item| !matches!(item, DeleteItem::Job(_)))
    {
        match shared(&connection, item, how, context).await {
            Ok(answer) => answers.extend(answer),
            Err(error) if items.len() == 1 => return Err(error),
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((item.name().to_owned(), error));
            }
        }
    }
    if !format.is_document() {
        answers
            .iter()
            .try_for_each(|answer| context.terminal.print(&deleted::text(answer)))?;
    }
    let many = done.len() > 1;
    let progress = context.terminal.progress(done.len() as u64, "jobs");
    progress.tick();
    let ending = done.into_iter().map(async |(begun, start)| {
        // The progress bar shows all of several jobs.
        let line = if many {
            ProgressBar::hidden()
        } else {
            context.terminal.spinner()
        };
        let ended = end(&connection, &begun, start, &of_job, line, context).await;
        (begun, ended)
    });
    let mut ending = SideBySide::new(ending, AT_ONCE);
    while let Some((begun, ended)) = ending.next().await {
        progress.inc(1);
        let answer = match ended {
            Ok(answer) => answer,
            Err(error) if items.len() == 1 => return Err(error),
            Err(error) => {
                context.terminal.fail(&error);
                failed.push((begun.name.clone(), error));
                continue;
            }
        };
        if !format.is_document() {
            context.terminal.print(&deleted::text(&answer))?;
        }
        told(&begun, context);
        answers.push(answer);
    }
    progress.finish_and_clear();
    let text = match (items.len(), answers.first()) {
        (1, Some(answer)) => document(format, answer),
        _ => document(format, &deleted::batch(&answers, &failed)),
    };
    context.terminal.print(&text.unwrap_or_default())?;
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

/// Returns what files describe, last first.
fn items_in(files: &[String], context: &Context) -> Result<Vec<DeleteItem>, Error> {
    let inputs = inputs::read(files, &[], &FileAccess::Unread)
        .map_err(|unreadable| unreadable.tell(context))?;
    let item = |document: &Document| match document {
        Document::Job(job) => DeleteItem::Job(match &job.namespace {
            Some(space) => format!("{}/{}", space.value, job.name.value),
            None => job.name.value.clone(),
        }),
        Document::Pool(pool) => DeleteItem::Pool(pool.name.value.clone()),
        Document::Quota(quota) => DeleteItem::Quota(quota.name.clone()),
        Document::Defaults(_) => DeleteItem::Defaults,
    };
    // Jobs before the pools and quotas that they are in.
    let (jobs, shared): (Vec<DeleteItem>, Vec<DeleteItem>) = inputs
        .documents
        .iter()
        .rev()
        .map(|input| item(&input.document))
        .partition(|item| matches!(item, DeleteItem::Job(_)));
    Ok(jobs.into_iter().chain(shared).collect())
}

/// Takes a pool or a quota away.
async fn shared(
    connection: &Connection,
    item: &DeleteItem,
    how: &DeleteArgs,
    context: &Context,
) -> Result<Option<Deleted>, Error> {
    let message = match item {
        DeleteItem::Pool(name) => {
            let ending = PoolDeletion {
                force: how.force,
                keep_labels: how.keep_labels,
                ignore_not_found: how.ignore_not_found,
            };
            pool_deletion::delete(connection, name, ending, context).await?
        }
        DeleteItem::Quota(name) => {
            quota_deletion::delete(connection, name, how.purge, how.ignore_not_found, context)
                .await?
        }
        DeleteItem::Defaults => defaults::delete(connection, how.ignore_not_found).await?,
        DeleteItem::Job(_) => None,
    };
    let answer = |message| Deleted {
        name: Some(item.name().to_owned()),
        ..Deleted::new("deleted", message)
    };
    Ok(message.map(answer))
}
