//! `gpuctl auth check`: reports which commands the user may run, or prints roles that allow them.

mod emit_role;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::access::auth_check::AuthCheck;
use crate::context::Context;
use crate::observe::list::{self, Listing, Refresh};
use crate::observe::metrics::{self, StoreUse};
use crate::verbs;
use gpuctl_cluster::{Connection, JobFilter, unless_forbidden};
use gpuctl_core::error::{Error, ErrorKind};
use gpuctl_core::model::contract::rights::{PROXY, Right, Task};
use gpuctl_core::model::{Nodes, State};
use gpuctl_manifest::spec::nearest;
use gpuctl_view::program::rights;
use gpuctl_view::program::rights::{Checked, PoolRoom, Verdict};
use gpuctl_view::{Format, document};

pub(crate) async fn run(args: &AuthCheck, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let tasks = verbs::parse_tasks(&without_aliases(&args.words))
        .map_err(|error| unknown_command(&error.words))?;
    let tasks = Some(tasks).filter(|tasks| !tasks.is_empty());
    if let Some(extent) = args.emit_role {
        return emit_role::print(args, tasks, extent, context).await;
    }
    let connection = context.connect().await?;
    match tasks.as_deref() {
        Some([task]) => check_command(args, task, &connection, context).await,
        Some(_) if args.pool.is_some() => Err(Error::usage("`--pool` works with one command")
            .hint("gpuctl auth check create jobs --pool NAME")),
        Some(tasks) => check_commands(args, tasks, &connection, context).await,
        None => {
            check_commands(
                args,
                &verbs::tasks().collect::<Vec<_>>(),
                &connection,
                context,
            )
            .await
        }
    }
}

/// Replaces command aliases, for example `get wl` by `get workloads`.
fn without_aliases(words: &[String]) -> Vec<String> {
    let root = Cli::command();
    let mut parent = &root;
    let name = |word: &str| {
        let subcommand = parent
            .find_subcommand(word)
            .or_else(|| root.find_subcommand(word));
        parent = subcommand
            .filter(|subcommand| subcommand.has_subcommands())
            .unwrap_or(&root);
        subcommand
            .map_or(word, |subcommand| subcommand.get_name())
            .to_owned()
    };
    // A quoted argument can contain several words.
    words
        .iter()
        .flat_map(|word| word.split_whitespace())
        .map(name)
        .collect()
}

fn unknown_command(words: &str) -> Error {
    let error = Error::usage(format!("gpuctl has no command `{words}`"));
    let verb = words.split(' ').next().unwrap_or_default();
    let similar: Vec<&str> = verbs::tasks()
        .map(|task| task.words)
        .filter(|task| task.split(' ').next() == Some(verb))
        .collect();
    match similar.is_empty() {
        false => error.hint(format!("similar commands: {}", similar.join(", "))),
        true => match nearest(
            words,
            &verbs::tasks().map(|task| task.words).collect::<Vec<_>>(),
        ) {
            Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
            None => error.hint("`gpuctl auth check` lists all commands"),
        },
    }
}

/// Queries Prometheus once. Returns the error, or `None` on success.
async fn metrics_error(connection: &Connection, context: &Context) -> Option<String> {
    let query = async {
        let prometheus = metrics::find(
            context,
            connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        Ok::<_, Error>(prometheus.now("vector(1)").await?)
    };
    query.await.err().map(|error| error.to_string())
}

/// Collects the rights to check. Separates rights of API groups that the cluster does not serve.
async fn rights_to_check(
    tasks: &[&Task],
    connection: &Connection,
) -> Result<(BTreeSet<Right>, BTreeSet<Right>), Error> {
    let served_groups = connection.discovery().groups().await?;
    let rights: BTreeSet<Right> = tasks.iter().flat_map(|task| task.complete()).collect();
    let is_absent =
        |right: &&Right| !right.group.is_empty() && !served_groups.contains(right.group);
    let absent = rights.iter().filter(is_absent).copied().collect();
    Ok((rights, absent))
}

/// Checks the given commands, or all commands.
async fn check_commands(
    args: &AuthCheck,
    tasks: &[&Task],
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let options = args.print.options();
    let format = options.format;
    let namespace = connection.namespace.as_str();
    let UserAccess {
        items,
        user,
        metrics_error,
    } = access(tasks, connection, context).await?;
    list::run(&options, context, async |_: Refresh<'_>| {
        let allowed = items
            .iter()
            .filter(|item| item.allowed || format != Format::Name);
        let names = allowed.map(|item| item.command.clone()).collect();
        let table =
            |format, headers| rights::table(&items, format, headers, context.terminal.style());
        Ok(Listing::new(
            &options,
            &rights::list(user.as_deref(), namespace, &items),
            "items",
            names,
            table,
        ))
    })
    .await?;
    if !format.is_document() && !context.all_namespaces {
        let user = user.map_or_else(String::new, |user| format!("; you are {user}"));
        context
            .terminal
            .note(&format!("HERE is namespace {namespace}{user}"));
        if let Some(metrics_error) = &metrics_error {
            context
                .terminal
                .note(&format!("no metrics: {metrics_error}"));
        }
    }
    let refused = !args.words.is_empty() && items.iter().any(|item| !item.allowed);
    Ok(if refused {
        ExitCode::from(ErrorKind::Access.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// The user's access to several commands.
struct UserAccess {
    items: Vec<Checked>,
    user: Option<String>,
    /// Why Prometheus is unavailable, if a command needs it.
    metrics_error: Option<String>,
}

/// Checks the rights of the commands with the API server.
async fn access(
    tasks: &[&Task],
    connection: &Connection,
    context: &Context,
) -> Result<UserAccess, Error> {
    let (rights_to_check, absent) = rights_to_check(tasks, connection).await?;
    let needs_prometheus = tasks.iter().any(|task| task.complete().contains(&PROXY));
    let metrics_error = async {
        if needs_prometheus {
            metrics_error(connection, context).await
        } else {
            None
        }
    };
    let (namespaced, cluster_wide, user, metrics_error) = futures::future::join4(
        connection
            .discovery()
            .may(&rights_to_check, Some(&connection.namespace)),
        connection.discovery().may(&rights_to_check, None),
        connection.discovery().user(),
        metrics_error,
    )
    .await;
    let (mut namespaced, mut cluster_wide, user) = (namespaced?, cluster_wide?, user?);
    // If Prometheus responds, the right to use the proxy makes no difference.
    if metrics_error.is_none() {
        namespaced.insert(PROXY, true);
        cluster_wide.insert(PROXY, true);
    }
    let namespaced = if context.all_namespaces {
        &cluster_wide
    } else {
        &namespaced
    };
    let item = |task: &&Task| {
        rights::checked(task, namespaced, &cluster_wide, &absent)
            .without(metrics_error.as_deref().filter(|_| task.needs_prometheus()))
    };
    Ok(UserAccess {
        items: tasks.iter().map(item).collect(),
        user,
        metrics_error,
    })
}

async fn check_command(
    args: &AuthCheck,
    task: &'static Task,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (rights_to_check, absent) = rights_to_check(&[task], connection).await?;
    let namespace = (!context.all_namespaces).then_some(connection.namespace.as_str());
    let mut answers = connection
        .discovery()
        .may(&rights_to_check, namespace)
        .await?;
    let metrics_error = if task.needs_prometheus() {
        metrics_error(connection, context).await
    } else {
        None
    };
    if task.needs_prometheus() && metrics_error.is_none() {
        answers.insert(PROXY, true);
    }
    let checked =
        rights::checked(task, &answers, &answers, &absent).without(metrics_error.as_deref());
    let pool_room = match &args.pool {
        Some(pool) => Some(read_pool_room(connection, pool).await?),
        None => None,
    };
    let verdict = Verdict::new(&checked, namespace.map(ToOwned::to_owned), pool_room);
    let format = args.print.options().format;
    let text = document(format, &verdict)
        .unwrap_or_else(|| rights::text(&verdict, context.terminal.style()));
    context.terminal.print(&text)?;
    if !checked.allowed {
        let scope_option =
            namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        context.terminal.note(&format!(
            "gpuctl auth check {} {scope_option} --emit-role prints the role to request",
            task.words
        ));
    }
    Ok(if verdict.allowed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Access.exit_code())
    })
}

/// Reads whether the pool exists and how many jobs it has.
async fn read_pool_room(connection: &Connection, pool: &str) -> Result<PoolRoom, Error> {
    let selector = JobFilter {
        pool: Some(pool.to_owned()),
        ..JobFilter::default()
    };
    let (nodes, definition, jobs) = futures::future::join3(
        connection.nodes().list(),
        connection.pools().get_or_published(pool),
        connection.jobs().list(&selector),
    )
    .await;
    let nodes = nodes?;
    let definition = unless_forbidden(definition)?;
    let jobs = unless_forbidden(jobs)?;
    let job_count = jobs.as_ref().map(|selection| {
        selection
            .jobs
            .iter()
            .filter(|job| !State::from_job(job).status.is_final())
            .count()
    });
    let sees_all_jobs = jobs
        .as_ref()
        .is_some_and(|selection| selection.unseen().is_none());
    let is_labelled = nodes.all().iter().any(|node| node.pool() == Some(pool));
    let is_defined = definition.as_ref().is_some_and(Option::is_some);
    // A pool certainly does not exist only if the user may list all nodes and all pool definitions.
    let exists = match (&nodes, is_labelled || is_defined) {
        (_, true) => Some(true),
        (Nodes::Listed(_), false) if definition.is_some() => Some(false),
        _ => None,
    };
    let definition = definition.flatten().unwrap_or_default();
    // If some jobs are hidden, the count is a lower bound. Only a count at the limit is conclusive.
    let is_full = definition
        .max_jobs
        .zip(job_count)
        .is_some_and(|(maximum, jobs)| jobs >= maximum as usize);
    Ok(PoolRoom {
        name: pool.to_owned(),
        exists,
        jobs: job_count.filter(|_| sees_all_jobs || is_full),
        max_jobs: definition.max_jobs,
        max_gpu_per_job: definition.max_gpu_per_job,
    })
}
