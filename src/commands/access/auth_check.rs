//! `gpuctl auth check`: asks the API server which commands the user may use, and prints the roles that would allow them.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::cli::access::auth_check::{Auth, AuthCheck, RoleExtent};
use crate::cluster::{Connection, Wanted, unless_forbidden};
use crate::context::Context;
use crate::error::{Error, ErrorKind};
use crate::model::rights::{PROXY, Right, Task};
use crate::model::{Nodes, State};
use crate::observe::list::{self, Listing, Round};
use crate::observe::metrics::{self, StoreUse};
use crate::render::roles;
use crate::spec::nearest;
use crate::verbs;
use crate::view::objects::ObjectList;
use crate::view::rights::{self, PoolRoom, Verdict};
use crate::view::{Format, document, json, yaml};

pub(crate) async fn run(auth: &Auth, context: &Context) -> Result<ExitCode, Error> {
    let Auth::Check(args) = auth;
    let options = args.print.options();
    context.terminal.set_format(options.format);
    let words = args.words.join(" ");
    let task = match words.as_str() {
        "" => None,
        words => Some(verbs::task(words).ok_or_else(|| unknown(words))?),
    };
    if let Some(extent) = args.emit_role {
        return emit(args, task, extent, context).await;
    }
    let connection = context.connect().await?;
    match task {
        Some(task) => one(args, task, &connection, context).await,
        None => all(args, &connection, context).await,
    }
}

fn unknown(words: &str) -> Error {
    let error = Error::usage(format!("gpuctl has no command `{words}`"));
    let verb = words.split(' ').next().unwrap_or_default();
    let known: Vec<&str> = verbs::tasks().map(|task| task.words).filter(|task| task.split(' ').next() == Some(verb)).collect();
    match known.is_empty() {
        false => error.hint(format!("there is: {}", known.join(", "))),
        true => match nearest(words, &verbs::tasks().map(|task| task.words).collect::<Vec<_>>()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`gpuctl auth check` lists all"),
        },
    }
}

/// Returns why Prometheus cannot be asked; `None` when it answers, whether by its address or through the API server.
async fn trouble(connection: &Connection, context: &Context) -> Option<String> {
    let asked = async {
        let prometheus = metrics::find(context, connection, context.access.request_timeout, StoreUse::Devices).await?;
        Ok::<_, Error>(prometheus.now("vector(1)").await?)
    };
    asked.await.err().map(|error| error.to_string())
}

/// Returns all rights of some commands.
fn rights<'t>(tasks: impl IntoIterator<Item = &'t Task>, extent: RoleExtent) -> BTreeSet<Right> {
    tasks
        .into_iter()
        .flat_map(|task| {
            let more = if extent == RoleExtent::Full { task.rights(false) } else { BTreeSet::new() };
            task.rights(true).into_iter().chain(more)
        })
        .collect()
}

async fn all(args: &AuthCheck, connection: &Connection, context: &Context) -> Result<ExitCode, Error> {
    let options = args.print.options();
    let format = options.format;
    let asked = rights(verbs::tasks(), RoleExtent::Full);
    let home = connection.namespace.as_str();
    let (here, everywhere, user, trouble) = futures::future::join4(
        connection.may(&asked, Some(home)),
        connection.may(&asked, None),
        connection.user(),
        trouble(connection, context),
    )
    .await;
    let (mut here, mut everywhere, user) = (here?, everywhere?, user?);
    if trouble.is_none() {
        here.insert(PROXY, true);
        everywhere.insert(PROXY, true);
    }
    let here = if context.all_namespaces { &everywhere } else { &here };
    let item =
        |task: &Task| rights::checked(task, here, &everywhere).without(trouble.as_deref().filter(|_| task.needs_prometheus()));
    let items: Vec<_> = verbs::tasks().map(item).collect();
    list::run(&options, context, async |_: Round<'_>| {
        let allowed = items.iter().filter(|item| item.allowed || format != Format::Name);
        let names = allowed.map(|item| item.command.clone()).collect();
        let table = |format, headers| rights::table(&items, format, headers, context.terminal.look());
        Ok(Listing::new(&options, &rights::list(user.as_deref(), home, &items), "items", names, table))
    })
    .await?;
    if !format.is_document() && !context.all_namespaces {
        let user = user.map_or_else(String::new, |user| format!("; you are {user}"));
        context.terminal.note(&format!("HERE is namespace {home}{user}"));
        if let Some(trouble) = &trouble {
            context.terminal.note(&format!("no metrics: {trouble}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn one(args: &AuthCheck, task: &'static Task, connection: &Connection, context: &Context) -> Result<ExitCode, Error> {
    let asked = rights([task], RoleExtent::Full);
    let namespace = (!context.all_namespaces).then_some(connection.namespace.as_str());
    let mut answers = connection.may(&asked, namespace).await?;
    let trouble = if task.needs_prometheus() { trouble(connection, context).await } else { None };
    if task.needs_prometheus() && trouble.is_none() {
        answers.insert(PROXY, true);
    }
    let checked = rights::checked(task, &answers, &answers).without(trouble.as_deref());
    let room = match &args.pool {
        Some(pool) => Some(room(connection, pool).await?),
        None => None,
    };
    let verdict = Verdict::new(&checked, namespace.map(ToOwned::to_owned), room);
    let format = args.print.options().format;
    let text = document(format, &verdict).unwrap_or_else(|| rights::text(&verdict, context.terminal.look()));
    context.terminal.print(&text)?;
    if !checked.missing.is_empty() {
        let place = namespace.map_or_else(|| "-A".to_owned(), |namespace| format!("-n {namespace}"));
        context.terminal.note(&format!("gpuctl auth check {} {place} --emit-role prints the role to ask for", task.words));
    }
    Ok(if verdict.allowed { ExitCode::SUCCESS } else { ExitCode::from(ErrorKind::Access.exit_code()) })
}

/// Returns whether the pool is there and how full it is.
async fn room(connection: &Connection, pool: &str) -> Result<PoolRoom, Error> {
    let wanted = Wanted { pool: Some(pool.to_owned()), ..Wanted::default() };
    let (nodes, known, jobs) = futures::future::join3(connection.nodes(), connection.pool(pool), connection.jobs(&wanted)).await;
    let nodes = nodes?;
    let known = unless_forbidden(known)?;
    let jobs = unless_forbidden(jobs)?;
    let counted = jobs.as_ref().map(|found| found.jobs.iter().filter(|job| !State::of(job).status.is_final()).count());
    let all_seen = jobs.as_ref().is_some_and(|found| found.unseen().is_none());
    let labelled = nodes.all().iter().any(|node| node.pool() == Some(pool));
    let defined = known.as_ref().is_some_and(Option::is_some);
    // Only who sees all nodes and all definitions can say that it is not there.
    let exists = match (&nodes, labelled || defined) {
        (_, true) => Some(true),
        (Nodes::Listed(_), false) if known.is_some() => Some(false),
        _ => None,
    };
    let definition = known.flatten().map(|known| known.pool).unwrap_or_default();
    // Of jobs that may be seen in part only their number being too many already says something.
    let full = definition.max_jobs.zip(counted).is_some_and(|(most, jobs)| jobs >= most as usize);
    Ok(PoolRoom {
        name: pool.to_owned(),
        exists,
        jobs: counted.filter(|_| all_seen || full),
        max_jobs: definition.max_jobs,
        max_gpu_per_job: definition.max_gpu_per_job,
    })
}

/// Returns the roles as YAML, or one list as JSON. Nothing is written.
async fn emit(args: &AuthCheck, task: Option<&'static Task>, extent: RoleExtent, context: &Context) -> Result<ExitCode, Error> {
    let connection = context.connect().await?;
    let namespace = (!context.all_namespaces).then_some(connection.namespace.as_str());
    let (name, tasks) = match task {
        Some(task) => (format!("gpuctl-{}", task.words.replace(' ', "-")), vec![task]),
        None => ("gpuctl".to_owned(), verbs::tasks().collect()),
    };
    let roles = roles(&name, &rights(tasks, extent), namespace);
    let text = match args.print.options().format {
        Format::Json => json(&ObjectList::of(&roles)),
        _ => roles.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
    };
    context.terminal.print(&text)?;
    for role in &roles {
        let space = role["metadata"]["namespace"].as_str();
        let (kind, place) = match space {
            Some(space) => ("rolebinding", format!(" --role={name} -n {space}")),
            None => ("clusterrolebinding", format!(" --clusterrole={name}")),
        };
        context.terminal.hint(&format!("kubectl create {kind} {name}{place} --user=NAME"));
    }
    Ok(ExitCode::SUCCESS)
}
