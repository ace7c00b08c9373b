//! `gpuctl delete`: deletes jobs, pools and quotas by name or file, if gpuctl created them.

use std::process::ExitCode;
use std::time::Instant;

use crate::cli::jobs::delete::{
    Delete, DeleteArgs, DeleteDefaults, JobNames, PoolNames, QuotaNames,
};
use crate::concurrent::OrderedConcurrent;
use crate::context::Context;
use crate::deploy::delete::{DeleteOptions, StartedDeletion, begin, end, report_claims};
use crate::deploy::events::Reporter;
use crate::deploy::local_files::FileAccess;
use crate::deploy::pool_deletion::{self, PoolDeletion};
use crate::deploy::{self, MAX_CONCURRENT, inputs, quota_deletion};
use crate::lookup::{self, LookupPurpose};
use crate::selection::{self, ChangeOptions};
use crate::show::reporter::TerminalReporter;
use gpuctl_cluster::{Connection, DryRun};
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::deletion::Deleted;
use gpuctl_manifest::spec::{Document, SiteDefaults};
use gpuctl_view::jobs::batch::batch;
use gpuctl_view::jobs::deleted;
use gpuctl_view::{Format, document};

/// An object to delete.
#[derive(Clone, Debug)]
enum DeleteItem {
    Job {
        name: String,
        /// UID of a job that was selected by a filter, so that a newer job of this name is not
        /// deleted.
        uid: Option<String>,
    },
    Pool(String),
    Quota(String),
    Defaults,
}

impl DeleteItem {
    fn name(&self) -> &str {
        match self {
            Self::Job { name, .. } | Self::Pool(name) | Self::Quota(name) => name,
            Self::Defaults => SiteDefaults::NAME,
        }
    }
}

pub(crate) async fn run(args: &Delete, context: &Context) -> Result<ExitCode, Error> {
    if let Some(subcommand) = &args.what {
        return subcommand.run(context).await;
    }
    let format = args.options.output.into();
    context.terminal.set_format(format);
    if args.files.is_empty() {
        return Err(Error::usage("nothing to delete was specified")
            .hint("use `gpuctl delete job NAME` or `gpuctl delete -f FILE`"));
    }
    let reporter = TerminalReporter::new(&context.terminal, format);
    let items = items_in(&args.files, &reporter)?;
    delete(&items, &args.options, context).await
}

pub(crate) async fn jobs(args: &JobNames, context: &Context) -> Result<ExitCode, Error> {
    let change = ChangeOptions {
        yes: args.options.yes,
        dry_run: args.options.dry_run,
    };
    if args.jobs.is_by_name() {
        let uid = args.only_uid.as_ref();
        let items = named_items(&args.jobs.names, |name| DeleteItem::Job {
            name,
            uid: uid.cloned(),
        });
        return delete(&items, &args.options, context).await;
    }
    context.terminal.set_format(args.options.output.into());
    let connection = context.connect_with(args.options.dry_run).await?;
    let jobs = selection::jobs(context, &connection, &args.jobs, LookupPurpose::Change).await?;
    selection::confirm(context, &args.jobs, change, &jobs, "delete")?;
    let item = |job: &Job| DeleteItem::Job {
        name: selection::full_name(job),
        uid: Some(job.uid.clone()),
    };
    let items: Vec<DeleteItem> = jobs.iter().map(item).collect();
    delete_from(&items, &args.options, &connection, context).await
}

pub(crate) async fn pools(args: &PoolNames, context: &Context) -> Result<ExitCode, Error> {
    let items = named_items(&args.names, DeleteItem::Pool);
    delete(&items, &args.options, context).await
}

pub(crate) async fn quotas(args: &QuotaNames, context: &Context) -> Result<ExitCode, Error> {
    let items = named_items(&args.names, DeleteItem::Quota);
    delete(&items, &args.options, context).await
}

pub(crate) async fn defaults(args: &DeleteDefaults, context: &Context) -> Result<ExitCode, Error> {
    delete(&[DeleteItem::Defaults], &args.options, context).await
}

fn named_items(names: &[String], item: impl Fn(String) -> DeleteItem) -> Vec<DeleteItem> {
    names.iter().cloned().map(item).collect()
}

async fn delete(
    items: &[DeleteItem],
    args: &DeleteArgs,
    context: &Context,
) -> Result<ExitCode, Error> {
    context.terminal.set_format(args.output.into());
    check_namespaces(items, context)?;
    let connection = context.connect_with(args.dry_run).await?;
    delete_from(items, args, &connection, context).await
}

async fn delete_from(
    items: &[DeleteItem],
    args: &DeleteArgs,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    let reporter = TerminalReporter::new(&context.terminal, format);
    let configured = args.of_job();
    let job_options = DeleteOptions {
        ask: configured.ask && context.terminal.is_interactive(),
        ..configured
    };
    let mut deletion = DeletionRun {
        items,
        args,
        job_options: &job_options,
        connection,
        context,
        reporter: &reporter,
        answers: Vec::new(),
        failed: Vec::new(),
    };
    let started = deletion.start_jobs().await?;
    deletion.delete_shared().await?;
    deletion.wait_for_jobs(started).await?;
    let DeletionRun {
        answers, failed, ..
    } = deletion;
    let text = match (items.len(), answers.first()) {
        (1, Some(answer)) => document(format, answer),
        _ => document(format, &batch(&answers, &failed)),
    };
    context.terminal.print(&text.unwrap_or_default())?;
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

/// Fails if a job's namespace differs from `-n`.
fn check_namespaces(items: &[DeleteItem], context: &Context) -> Result<(), Error> {
    let explicit_namespace = context.access.namespace.as_deref();
    for item in items {
        let DeleteItem::Job { name, .. } = item else {
            continue;
        };
        let (namespace, job) = lookup::split(name)?;
        lookup::check_namespace(explicit_namespace, namespace, job)?;
    }
    Ok(())
}

/// A run of `delete` with its results so far.
struct DeletionRun<'a> {
    items: &'a [DeleteItem],
    args: &'a DeleteArgs,
    job_options: &'a DeleteOptions,
    connection: &'a Connection,
    context: &'a Context,
    reporter: &'a dyn Reporter,
    answers: Vec<Deleted>,
    failed: Vec<(String, Error)>,
}

impl DeletionRun<'_> {
    /// Starts deleting the jobs. Returns the jobs that are still terminating, with their start
    /// times.
    async fn start_jobs(&mut self) -> Result<Vec<(StartedDeletion, Instant)>, Error> {
        let Self {
            items,
            job_options,
            connection,
            reporter,
            ..
        } = *self;
        // Delete one job at a time if the user confirms each deletion.
        let limit = if job_options.ask { 1 } else { MAX_CONCURRENT };
        let jobs = items.iter().filter_map(|item| match item {
            DeleteItem::Job { name, uid } => Some((name, uid)),
            _ => None,
        });
        let deletions = jobs.map(async |(name, uid)| {
            let options = DeleteOptions {
                only_uid: uid.clone(),
                ..job_options.clone()
            };
            (
                name,
                begin(connection, name, &options, reporter).await,
                Instant::now(),
            )
        });
        let mut deletions = OrderedConcurrent::new(deletions, limit);
        let mut started = Vec::new();
        while let Some((name, deletion, start)) = deletions.next().await {
            match deletion {
                Ok(deletion) => started.extend(deletion.map(|deletion| (deletion, start))),
                Err(error) => self.fail(name, error)?,
            }
        }
        Ok(started)
    }

    /// Deletes pools, quotas and defaults.
    async fn delete_shared(&mut self) -> Result<(), Error> {
        for item in self
            .items
            .iter()
            .filter(|item| !matches!(item, DeleteItem::Job { .. }))
        {
            match shared(self.connection, item, self.args, self.reporter).await {
                Ok(answer) => self.answers.extend(answer),
                Err(error) => self.fail(item.name(), error)?,
            }
        }
        if self.is_text() {
            self.answers
                .iter()
                .try_for_each(|answer| self.context.terminal.print(&deleted::text(answer)))?;
        }
        Ok(())
    }

    /// Waits until the deleted jobs are gone.
    async fn wait_for_jobs(
        &mut self,
        started: Vec<(StartedDeletion, Instant)>,
    ) -> Result<(), Error> {
        let (connection, job_options, context) = (self.connection, self.job_options, self.context);
        let has_several = started.len() > 1;
        let progress = context.terminal.progress(started.len() as u64, "jobs");
        progress.tick();
        let reporter = TerminalReporter::new(&context.terminal, self.args.output.into());
        // For several jobs, the progress bar replaces the waiting messages.
        let quiet =
            TerminalReporter::new(&context.terminal, self.args.output.into()).without_waiting();
        let reporter = if has_several { &quiet } else { &reporter };
        let waits = started.into_iter().map(async |(started, start)| {
            let result = end(connection, &started, start, job_options, reporter).await;
            (started, result)
        });
        let mut waits = OrderedConcurrent::new(waits, MAX_CONCURRENT);
        while let Some((started, result)) = waits.next().await {
            progress.inc(1);
            let answer = match result {
                Ok(answer) => answer,
                Err(error) => {
                    self.fail(&started.name, error)?;
                    continue;
                }
            };
            if self.is_text() {
                context.terminal.print(&deleted::text(&answer))?;
            }
            report_claims(&started, self.reporter);
            self.answers.push(answer);
        }
        progress.finish_and_clear();
        Ok(())
    }

    fn is_text(&self) -> bool {
        !Format::from(self.args.output).is_document()
    }

    /// Records an error and continues with the other items. Returns the error if there is only one
    /// item.
    fn fail(&mut self, name: &str, error: Error) -> Result<(), Error> {
        if self.items.len() == 1 {
            return Err(error);
        }
        self.context.terminal.fail(&error);
        self.failed.push((name.to_owned(), error));
        Ok(())
    }
}

/// Lists the objects of the files in the order of deletion.
fn items_in(files: &[String], reporter: &dyn Reporter) -> Result<Vec<DeleteItem>, Error> {
    let inputs = inputs::read(files, &[], &FileAccess::Unread)
        .map_err(|unreadable| unreadable.report(reporter))?;
    let item = |document: &Document| match document {
        Document::Job(job) => DeleteItem::Job {
            name: match &job.namespace {
                Some(namespace) => format!("{}/{}", namespace.value, job.name.value),
                None => job.name.value.clone(),
            },
            uid: None,
        },
        Document::Pool(pool) => DeleteItem::Pool(pool.name.value.clone()),
        Document::Quota(quota) => DeleteItem::Quota(quota.name.clone()),
        Document::Defaults(_) => DeleteItem::Defaults,
    };
    // Delete jobs before their pools and quotas.
    let (jobs, shared): (Vec<DeleteItem>, Vec<DeleteItem>) = inputs
        .documents
        .iter()
        .rev()
        .map(|input| item(&input.document))
        .partition(|item| matches!(item, DeleteItem::Job { .. }));
    Ok(jobs.into_iter().chain(shared).collect())
}

/// Deletes a pool, a quota or the defaults.
async fn shared(
    connection: &Connection,
    item: &DeleteItem,
    args: &DeleteArgs,
    reporter: &dyn Reporter,
) -> Result<Option<Deleted>, Error> {
    let message = match item {
        DeleteItem::Pool(name) => {
            let options = PoolDeletion {
                force: args.force,
                keep_labels: args.keep_labels,
                ignore_not_found: args.ignore_not_found,
            };
            pool_deletion::delete(connection, name, options, reporter).await?
        }
        DeleteItem::Quota(name) => {
            quota_deletion::delete(
                connection,
                name,
                args.purge,
                args.ignore_not_found,
                reporter,
            )
            .await?
        }
        DeleteItem::Defaults => deploy::defaults::delete(connection, args.ignore_not_found).await?,
        DeleteItem::Job { .. } => None,
    };
    let answer = |message| Deleted {
        name: Some(item.name().to_owned()),
        dry_run: args.dry_run.map(DryRun::word),
        ..Deleted::new("deleted", message)
    };
    Ok(message.map(answer))
}
