//! `gpuctl auth check`: asks the API server which commands the user may use, and prints the roles
//! that allow them.

mod emit_role;

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::access::auth_check::AuthCheck;
use crate::context::Context;
use crate::observe::list::{self, Listing, Round};
use crate::observe::metrics::{self, StoreUse};
use crate::verbs;
use gpuctl_cluster::{Connection, Wanted, unless_forbidden};
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
    let tasks =
        verbs::parse_tasks(&without_aliases(&args.words)).map_err(|error| unknown(&error.words))?;
    let tasks = Some(tasks).filter(|tasks| !tasks.is_empty());
    if let Some(extent) = args.emit_role {
        return emit_role::print(args, tasks, extent, context).await;
    }
    let connection = context.connect().await?;
    match tasks.as_deref() {
        Some([task]) => one(args, task, &connection, context).await,
        Some(_) if args.pool.is_some() => Err(Error::usage("`--pool` works with one command")
            .hint("gpuctl auth check create jobs --pool NAME")),
        Some(tasks) => several(args, tasks, &connection, context).await,
        None => {
            several(
                args,
                &verbs::tasks().collect::<Vec<_>>(),
                &connection,
                context,
            )
            .await
        }
    }
}

/// Replaces command aliases by command names, such as `get wl` by `get workloads`.
fn without_aliases(words: &[String]) -> Vec<String> {
    let root = Cli::command();
    let mut parent = &root;
    let name = |word: &str| {
        let found = parent
            .find_subcommand(word)
            .or_else(|| root.find_subcommand(word));
        parent = found
            .filter(|found| found.has_subcommands())
            .unwrap_or(&root);
        found.map_or(word, |found| found.get_name()).to_owned()
    };
    // A quoted argument can contain several words.
    words
        .iter()
        .flat_map(|word| word.split_whitespace())
        .map(name)
        .collect()
}

fn unknown(words: &str) -> Error {
    let error = Error::usage(format!("gpuctl has no command `{words}`"));
    let verb = words.split(' ').next().unwrap_or_default();
    let known: Vec<&str> = verbs::tasks()
        .map(|task| task.words)
        .filter(|task| task.split(' ').next() == Some(verb))
        .collect();
    match known.is_empty() {
        false => error.hint(format!("there is: {}", known.join(", "))),
        true => match nearest(
            words,
            &verbs::tasks().map(|task| task.words).collect::<Vec<_>>(),
        ) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`gpuctl auth check` lists all"),
        },
    }
}

/// Checks that Prometheus responds, by its address or through the API server. The result is the
/// error, or `None` on success.
async fn trouble(connection: &Connection, context: &Context) -> Option<String> {
    let asked = async {
        let prometheus = metrics::find(
            context,
            connection,
            context.access.request_timeout,
            StoreUse::Devices,
        )
        .await?;
        Ok::<_, Error>(prometheus.now("vector(1)").await?)
    };
    asked.await.err().map(|error| error.to_string())
}

/// Collects the rights to check, and separately those in API groups that the cluster does not
/// serve.
async fn asked(
    tasks: &[&Task],
    connection: &Connection,
) -> Result<(BTreeSet<Right>, BTreeSet<Right>), Error> {
    let served = connection.discovery().groups().await?;
    let all: BTreeSet<Right> = tasks.iter().flat_map(|task| task.complete()).collect();
    let is_absent = |right: &&Right| !right.group.is_empty() && !served.contains(right.group);
    let absent = all.iter().filter(is_absent).copied().collect();
    Ok((all, absent))
}

/// Reports on several commands, or on all of them if the user names none.
async fn several(
    args: &AuthCheck,
    tasks: &[&Task],
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let options = args.print.options();
    let format = options.format;
    let home = connection.namespace.as_str();
    let UserAccess {
        items,
        user,
        trouble,
    } = access(tasks, connection, context).await?;
    list::run(&options, context, async |_: Round<'_>| {
        let allowed = items
            .iter()
            .filter(|item| item.allowed || format != Format::Name);
        let names = allowed.map(|item| item.command.clone()).collect();
        let table =
            |format, headers| rights::table(&items, format, headers, context.terminal.style());
        Ok(Listing::new(
            &options,
            &rights::list(user.as_deref(), home, &items),
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
            .note(&format!("HERE is namespace {home}{user}"));
        if let Some(trouble) = &trouble {
            context.terminal.note(&format!("no metrics: {trouble}"));
        }
    }
    let refused = !args.words.is_empty() && items.iter().any(|item| !item.allowed);
    Ok(if refused {
        ExitCode::from(ErrorKind::Access.exit_code())
    } else {
        ExitCode::SUCCESS
    })
}

/// Rights of the user for several commands.
struct UserAccess {
    items: Vec<Checked>,
    user: Option<String>,
    /// Why Prometheus is unavailable, if a command needs it.
    trouble: Option<String>,
}

/// Asks the API server which of the commands the user may use.
async fn access(
    tasks: &[&Task],
    connection: &Connection,
    context: &Context,
) -> Result<UserAccess, Error> {
    let (asked, absent) = asked(tasks, connection).await?;
    let needs_prometheus = tasks.iter().any(|task| task.complete().contains(&PROXY));
    let trouble = async {
        if needs_prometheus {
            trouble(connection, context).await
        } else {
            None
        }
    };
    let (here, everywhere, user, trouble) = futures::future::join4(
        connection
            .discovery()
            .may(&asked, Some(&connection.namespace)),
        connection.discovery().may(&asked, None),
        connection.discovery().user(),
        trouble,
    )
    .await;
    let (mut here, mut everywhere, user) = (here?, everywhere?, user?);
    // A Prometheus that responds needs no further right, whichever way it was reached.
    if trouble.is_none() {
        here.insert(PROXY, true);
        everywhere.insert(PROXY, true);
    }
    let here = if context.all_namespaces {
        &everywhere
    } else {
        &here
    };
    let item = |task: &&Task| {
        rights::checked(task, here, &everywhere, &absent)
            .without(trouble.as_deref().filter(|_| task.needs_prometheus()))
    };
    Ok(UserAccess {
        items: tasks.iter().map(item).collect(),
        user,
        trouble,
    })
}

async fn one(
    args: &AuthCheck,
    task: &'static Task,
    connection: &Connection,
    context: &Context,
) -> Result<ExitCode, Error> {
    let (asked, absent) = asked(&[task], connection).await?;
    let namespace = (!context.all_namespaces).then_some(connection.namespace.as_str());
    let mut answers = connection.discovery().may(&asked, namespace).await?;
    let trouble = if task.needs_prometheus() {
        trouble(connection, context).await
    } else {
        None
    };
    if task.needs_prometheus() && trouble.is_none() {
        answers.insert(PROXY, true);
    }
    let checked = rights::checked(task, &answers, &answers, &absent).without(trouble.as_deref());
    let room = match &args.pool {
        Some(pool) => Some(room(connection, pool).await?),
        None => None,
    };
    let verdict = Verdict::new(&checked, namespace.map(ToOwned::to_owned), room);
    let format = args.print.options().format;
    let text = document(format, &verdict)
        .unwrap_or_else(|| rights::text(&verdict, context.terminal.style()));
    context.terminal.print(&text)?;
    if !checked.allowed {
        let place =
            namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        context.terminal.note(&format!(
            "gpuctl auth check {} {place} --emit-role prints the role to ask for",
            task.words
        ));
    }
    Ok(if verdict.allowed {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Access.exit_code())
    })
}

/// Checks whether the pool exists and how many jobs it has.
async fn room(connection: &Connection, pool: &str) -> Result<PoolRoom, Error> {
    let wanted = Wanted {
        pool: Some(pool.to_owned()),
        ..Wanted::default()
    };
    let (nodes, known, jobs) = futures::future::join3(
        connection.nodes().list(),
        connection.pools().shown(pool),
        connection.jobs().list(&wanted),
    )
    .await;
    let nodes = nodes?;
    let known = unless_forbidden(known)?;
    let jobs = unless_forbidden(jobs)?;
    let counted = jobs.as_ref().map(|found| {
        found
            .jobs
            .iter()
            .filter(|job| !State::of(job).status.is_final())
            .count()
    });
    let all_seen = jobs.as_ref().is_some_and(|found| found.unseen().is_none());
    let labelled = nodes.all().iter().any(|node| node.pool() == Some(pool));
    let defined = known.as_ref().is_some_and(Option::is_some);
    // A pool is known not to exist only if the user may list all nodes and read all pool
    // definitions.
    let exists = match (&nodes, labelled || defined) {
        (_, true) => Some(true),
        (Nodes::Listed(_), false) if known.is_some() => Some(false),
        _ => None,
    };
    let definition = known.flatten().unwrap_or_default();
    // If some jobs are not visible, the count is a lower bound. It is conclusive only once it
    // reaches the limit.
    let full = definition
        .max_jobs
        .zip(counted)
        .is_some_and(|(most, jobs)| jobs >= most as usize);
    Ok(PoolRoom {
        name: pool.to_owned(),
        exists,
        jobs: counted.filter(|_| all_seen || full),
        max_jobs: definition.max_jobs,
        max_gpu_per_job: definition.max_gpu_per_job,
    })
}
