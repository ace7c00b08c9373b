//! `create`: from files to objects in the cluster, one document after the other, each whole or not at all. Knows the order of
//! the steps; what an object looks like and how it is written is known elsewhere.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cluster::{Broken, Connection, Failure, Obstacle, label};
use crate::error::{Error, Kind};
use crate::model::Node;
use crate::render::{Queueing, Rendered, Target, gpus_in_all, render};
use crate::spec::Document;
use crate::view::created::{self, Created};
use crate::view::{Format, document, json, yaml};

use super::inputs::{self, Input};
use super::waiting::{Goal, wait};
use super::{OneFormat, World, duration};

/// Submit what files describe
///
/// Every document is checked as a whole before anything is written: all problems of the YAML at once, then the API
/// server's own judgement of the objects and of a pod as they will be made. A document whose objects fail part way is
/// taken away again.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl create -f job.yaml
  gpuctl create -f a.yaml -f b.yaml -n team-a
  gpuctl create -f job.yaml --dry-run=client -o yaml
  gpuctl create -f job.yaml --wait=complete --timeout 12h")]
pub struct Create {
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    /// Only show what would be sent (client), or let the server judge it too (server)
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    dry_run: Option<DryRun>,
    /// Append a random suffix to each job's name, so that a file can be submitted many times
    #[arg(long)]
    generate_name: bool,
    /// Keep the objects of a document that fails part way
    #[arg(long)]
    keep_partial: bool,
    /// Wait until the jobs run, or until they are complete
    #[arg(long, value_enum, value_name = "UNTIL", num_args = 0..=1, require_equals = true, default_missing_value = "running", conflicts_with = "dry_run")]
    wait: Option<Goal>,
    /// Longest time to wait; the jobs stay
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DryRun {
    Client,
    Server,
}

/// A document with its objects.
struct Plan {
    input: Input,
    target: Target,
    rendered: Rendered,
}

type Failed = (&'static str, String, Error);

pub async fn run(args: &Create, world: &World) -> Result<ExitCode, Error> {
    let format: Format = args.output.into();
    world.terminal.set_format(format);
    let inputs = inputs::read(&args.files).map_err(|errors| all(world, errors))?;
    inputs.warnings.iter().for_each(|problems| world.terminal.warn_about(problems));
    let documents = named(inputs.documents, args.generate_name)?;
    let (connection, facts) = match known(world).await {
        Ok((connection, facts)) => (Some(connection), facts),
        Err(error) if args.dry_run == Some(DryRun::Client) && error.kind == Kind::Unreachable => {
            world.terminal.warn(&format!("{error}; the objects are shown as for a cluster whose nodes may not be seen"));
            (None, Facts::default())
        }
        Err(error) => return Err(error),
    };
    let plans = plan(documents, connection.as_ref(), &facts, world).await?;
    match (args.dry_run, connection) {
        (Some(DryRun::Client), _) | (_, None) => show(&plans, format, world),
        (dry_run, Some(connection)) => submit(args, plans, &connection, dry_run.is_some(), format, world).await,
    }
}

/// What the cluster tells before anything is rendered.
#[derive(Default)]
struct Facts {
    nodes: Option<Vec<Node>>,
    user: Option<String>,
}

async fn known(world: &World) -> Result<(Connection, Facts), Error> {
    let connection = world.connect().await?;
    let (nodes, user) = futures::future::join(connection.nodes(), connection.user()).await;
    let facts = Facts { nodes: nodes?, user: user? };
    Ok((connection, facts))
}

/// Reports all but the last error and returns that one.
fn all(world: &World, mut errors: Vec<Error>) -> Error {
    let last = errors.pop().expect("a failed reading has an error");
    errors.iter().for_each(|error| world.terminal.fail(error));
    last
}

/// Names of one run must differ; `--generate-name` makes them.
fn named(mut inputs: Vec<Input>, generate: bool) -> Result<Vec<Input>, Error> {
    for input in &mut inputs {
        let Document::Job(job) = &mut input.document else { continue };
        if generate && !job.append(&suffix()) {
            let message = format!("`{}` is too long to get a suffix", job.name.value);
            return Err(Error::new(Kind::Specification, "NameTooLong", message).hint("shorten `job.name` by six characters"));
        }
    }
    let mut seen: Vec<(&'static str, &str, Option<&str>, &str)> = Vec::new();
    for input in &inputs {
        let (namespace, name) = match &input.document {
            Document::Job(job) => (job.namespace.as_ref().map(|space| space.value.as_str()), job.id()),
            other => (None, other.name()),
        };
        let kind = if matches!(input.document, Document::Job(_)) { "job" } else { input.document.kind() };
        if let Some((_, _, _, file)) = seen.iter().find(|other| (other.0, other.1, other.2) == (kind, name, namespace)) {
            let message = format!("two documents are called `{name}`: in {file} and in {}", input.file);
            return Err(Error::new(Kind::Specification, "DuplicateName", message).hint("rename one, or use `--generate-name`"));
        }
        seen.push((kind, name, namespace, &input.file));
    }
    Ok(inputs)
}

/// Five characters that no other run has chosen; letters that make no words.
fn suffix() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = RandomState::new().build_hasher().finish();
    (0..5)
        .map(|_| {
            let letter = LETTERS[usize::try_from(random % 27).expect("below 27")];
            random /= 27;
            char::from(letter)
        })
        .collect()
}

/// Renders every document for this cluster; all refusals come back together.
async fn plan(inputs: Vec<Input>, connection: Option<&Connection>, facts: &Facts, world: &World) -> Result<Vec<Plan>, Error> {
    let mut queueing = None;
    if let (Some(connection), true) =
        (connection, inputs.iter().any(|input| matches!(&input.document, Document::Job(job) if job.queue.is_some())))
    {
        queueing = served_queueing(connection).await?;
    }
    let (mut plans, mut errors) = (Vec::new(), Vec::new());
    for input in inputs {
        let namespace = match namespace_of(&input.document, connection) {
            Ok(namespace) => namespace,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let files = inputs::attachments(&input)?;
        let target =
            Target { namespace, nodes: facts.nodes.clone(), user: facts.user.clone(), files, queueing, without_priority: false };
        match render(&input.document, &target) {
            Ok(rendered) => plans.push(Plan { input, target, rendered }),
            Err(refusal) => errors.push(Error::refused(refusal, &input.file, &input.text)),
        }
    }
    if errors.is_empty() { Ok(plans) } else { Err(all(world, errors)) }
}

async fn served_queueing(connection: &Connection) -> Result<Option<Queueing>, Error> {
    if connection.serves("kueue.x-k8s.io").await? {
        return Ok(Some(Queueing::Kueue));
    }
    Ok(connection.serves("scheduling.volcano.sh").await?.then_some(Queueing::Volcano))
}

/// `job.namespace`, else `-n`, else the context's; a `-n` that contradicts the file is an error.
fn namespace_of(document: &Document, connection: Option<&Connection>) -> Result<String, Error> {
    let written = match document {
        Document::Job(job) => job.namespace.as_ref().map(|space| space.value.clone()),
        _ => None,
    };
    let given = connection.filter(|connection| connection.namespace_is_explicit).map(|connection| connection.namespace.clone());
    match (written, given) {
        (Some(written), Some(given)) if written != given => {
            let message = format!("`{}` is for namespace `{written}`, and `-n {given}` says another", document.name());
            Err(Error::new(Kind::Usage, "NamespaceConflict", message).hint("leave `-n` out, or change `job.namespace`"))
        }
        (Some(namespace), _) | (None, Some(namespace)) => Ok(namespace),
        (None, None) => Ok(connection.map_or_else(|| "default".to_owned(), |connection| connection.namespace.clone())),
    }
}

/// The objects themselves: exactly what would be sent.
fn show(plans: &[Plan], format: Format, world: &World) -> Result<ExitCode, Error> {
    plans.iter().flat_map(|plan| &plan.rendered.warnings).for_each(|warning| world.terminal.warn(warning));
    let objects: Vec<&Value> = plans.iter().flat_map(|plan| &plan.rendered.objects).map(|object| &object.body).collect();
    let text = match format {
        Format::Json => json(&serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects})),
        Format::Yaml => objects.iter().map(yaml).collect::<Vec<_>>().join("---\n"),
        _ => plans.iter().map(|plan| created::text(&outcome(plan, &Value::Null, true))).collect(),
    };
    world.terminal.print(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn submit(
    args: &Create,
    plans: Vec<Plan>,
    connection: &Connection,
    dry_run: bool,
    format: Format,
    world: &World,
) -> Result<ExitCode, Error> {
    let single = plans.len() == 1;
    let (mut done, mut failed): (Vec<Created>, Vec<Failed>) = (Vec::new(), Vec::new());
    for plan in plans {
        let kind = plan.input.document.kind();
        let name = plan.input.document.name().to_owned();
        match submit_one(plan, connection, dry_run, args.keep_partial, world).await {
            Ok(created) => {
                if !format.is_document() {
                    world.terminal.print(&created::text(&created))?;
                }
                done.push(created);
            }
            Err(error) if single => return Err(error),
            Err(error) => {
                world.terminal.fail(&error);
                failed.push((kind, name, error));
            }
        }
    }
    let answer = match (single, done.first()) {
        (true, Some(created)) => document(format, created),
        _ => document(format, &created::batch(&done, &failed)),
    };
    if let Some(text) = answer.filter(|_| args.wait.is_none()) {
        world.terminal.print(&text)?;
    }
    if let Some(goal) = args.wait {
        let waited = wait(connection, &mut done, goal, args.timeout, world).await;
        let answer = if single { document(format, &done[0]) } else { document(format, &created::batch(&done, &failed)) };
        if let Some(text) = answer {
            world.terminal.print(&text)?;
        }
        waited?;
    } else if let Some(created) = done.first().filter(|_| !dry_run) {
        world.terminal.hint(&format!("gpuctl logs {} -f", created.job_id));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Request.exit_code()) })
}

async fn submit_one(
    mut plan: Plan,
    connection: &Connection,
    dry_run: bool,
    keep_partial: bool,
    world: &World,
) -> Result<Created, Error> {
    let mut warnings = match connection.preflight(&plan.rendered, dry_run).await {
        Err(Obstacle::NoPriorityClass) => {
            plan.target.without_priority = true;
            plan.rendered = render(&plan.input.document, &plan.target)
                .map_err(|refusal| Error::refused(refusal, &plan.input.file, &plan.input.text))?;
            let mut warnings =
                connection.preflight(&plan.rendered, dry_run).await.map_err(|obstacle| in_the_way(obstacle, &plan))?;
            warnings.push("`job.priority` has no effect: its priority class is not there and you may not create it".to_owned());
            warnings
        }
        other => other.map_err(|obstacle| in_the_way(obstacle, &plan))?,
    };
    warnings.extend(plan.rendered.warnings.clone());
    warnings.extend(gang_warning(&plan, connection).await);
    let live = if dry_run { Value::Null } else { connection.submit(&plan.rendered, keep_partial).await.map_err(broken)? };
    warnings.extend(connection.take_warnings());
    warnings.iter().for_each(|warning| world.terminal.warn(warning));
    Ok(outcome(&plan, &live, dry_run))
}

/// Without a gang scheduler a half-placed job holds GPUs and waits for ever: better to know beforehand.
async fn gang_warning(plan: &Plan, connection: &Connection) -> Option<String> {
    let Document::Job(job) = &plan.input.document else { return None };
    let (resource, per_pod) = plan.rendered.choice.resources.iter().next()?;
    let per_pod: u64 = per_pod.0.parse().ok()?;
    let nodes: Vec<Node> =
        plan.target.nodes.as_ref()?.iter().filter(|node| plan.rendered.choice.candidates.contains(&node.name)).cloned().collect();
    if job.training.node_count < 2 || per_pod == 0 {
        return None;
    }
    let free = connection.free_gpus(resource, &nodes).await.ok()??;
    let fit: u64 = free.values().map(|free| free / per_pod).sum();
    let wanted = u64::from(job.training.node_count);
    (fit < wanted)
        .then(|| format!("only {fit} of {wanted} pods fit now; those that start hold their GPUs while they wait for the others"))
}

fn in_the_way(obstacle: Obstacle, plan: &Plan) -> Error {
    let namespace = &plan.target.namespace;
    match obstacle {
        Obstacle::Exists { kind, name, ours } => {
            let error =
                Error::new(Kind::Request, "AlreadyExists", format!("{kind} `{name}` exists already in namespace `{namespace}`"));
            match ours {
                Some(job) => error.hint(format!("`gpuctl delete job {namespace}/{job}` first, or submit with `--generate-name`")),
                None => error.hint("it was not made by gpuctl; choose another `job.name`"),
            }
        }
        Obstacle::Terminating { label } => {
            Error::new(Kind::Request, "Terminating", format!("{label} is still being deleted")).hint("try again in a moment")
        }
        Obstacle::NoPriorityClass => {
            Error::new(Kind::Request, "PriorityClassNotFound", "the priority class of `job.priority` does not exist")
        }
        Obstacle::Failure(failure) => refused(failure, namespace),
    }
}

/// The API server's refusal, with what to do about the usual ones.
fn refused(failure: Failure, namespace: &str) -> Error {
    let text = failure.to_string();
    let (code, error) = (failure.code(), Error::from(failure));
    if code == Some(404) && text.contains("namespaces") {
        return error.hint(format!("create the namespace `{namespace}`, or choose another with `-n`"));
    }
    error
}

fn broken(broken: Broken) -> Error {
    let error = Error::from(broken.failure).during(format!("{} could not be created", broken.object));
    if broken.left.is_empty() {
        error.cause("everything made before it was removed again")
    } else {
        error.cause(format!("still there: {}", broken.left.join(", ")))
    }
}

fn outcome(plan: &Plan, live: &Value, dry_run: bool) -> Created {
    let Document::Job(job) = &plan.input.document else { unreachable!("only jobs are rendered") };
    let pool = job.resources.pool.as_ref().map(|pool| pool.value.clone());
    let place = pool.clone().unwrap_or_else(|| plan.target.namespace.clone());
    Created {
        job_id: job.id().to_owned(),
        name: job.name.value.clone(),
        kind: job.kind.word(),
        status: "pending".to_owned(),
        created_at: live.pointer("/metadata/creationTimestamp").and_then(Value::as_str).and_then(|text| text.parse().ok()),
        message: if dry_run { format!("would be submitted to {place}") } else { format!("submitted to {place}") },
        namespace: plan.target.namespace.clone(),
        pods: if job.resources.gpu == 0 { 1 } else { gpus_in_all(job) / u64::from(job.resources.gpu) },
        gpus_per_pod: job.resources.gpu.into(),
        gpu_type: plan.rendered.choice.gpu_type.clone(),
        pool,
        objects: plan.rendered.objects.iter().map(label).collect(),
        dry_run,
    }
}
