//! `open`: a local address for a notebook or service, for as long as it is wanted. The way there is the cluster module's.

use std::cell::RefCell;
use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use tokio::net::TcpListener;

use crate::cluster::{Route, RouteEvent};
use crate::error::{Error, Kind};
use crate::model::{Job, State, Status};
use crate::spec::{self, Document};
use crate::terminal::raw;
use crate::view::opened::{self, Opened};
use crate::view::{document, text};

use super::exec::{Place, pod};
use super::lookup::{self, Purpose};
use super::{OneFormat, World, completion};

/// Open a notebook or service on this machine
///
/// Forwards a local port and prints the URL; connections go on with the next pod when one is replaced. It ends with
/// Ctrl-C. A port that is free is chosen, the job's own if possible. The token of a notebook is printed only with
/// --show-token.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl open data-prep --show-token
  gpuctl open llama3-8b --local-port 8000
  gpuctl open qwen2-7b-sft --target-port 6006")]
pub struct Open {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    name: String,
    /// Port on this machine; 0 takes any that is free
    #[arg(long, value_name = "PORT")]
    local_port: Option<u16>,
    /// Port in the pod, where it is not the job's own
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    target_port: Option<u16>,
    /// Rank of a training, or number of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    rank: Option<u32>,
    /// Only this pod
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Print the URL with the notebook's token
    #[arg(long)]
    show_token: bool,
    /// Open the URL in a browser; with --show-token other users of this machine may see it while the browser starts
    #[arg(long)]
    browser: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

pub async fn run(args: &Open, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let connection = world.connect().await?;
    let job = lookup::job(&connection, &args.name, Purpose::Change).await?;
    let state = State::of(&job);
    let full = format!("{}/{}", job.namespace, job.name);
    if state.status.is_final() {
        let error = Error::new(Kind::Request, "NotRunning", format!("job `{}` has {}", job.name, state.status));
        return Err(error.hint(format!("gpuctl logs {full}")));
    }
    if state.status == Status::Paused {
        let error = Error::new(Kind::Request, "Paused", format!("job `{}` is paused", job.name));
        return Err(error.hint(format!("gpuctl resume job {full}")));
    }
    let Some(port) = args.target_port.or(job.port) else {
        let error = Error::usage(format!("job `{}` names no port", job.name));
        return Err(error.hint(format!("gpuctl open {full} --target-port 6006")));
    };
    let route = route(args, &job, port)?;
    // Rights that are missing show before an address is printed.
    connection.try_route(&route, &job).await.or_else(|failure| if failure.is_transient() { Ok(false) } else { Err(failure) })?;
    let listener = listen(args.local_port, port).await?;
    let local = listener.local_addr().map_err(|error| taken(port, &error))?.port();
    let token = token(&job).filter(|_| args.target_port.is_none_or(|port| Some(port) == job.port));
    let opened = Opened::new(&job, local, port, token.as_deref().filter(|_| args.show_token));
    // Whoever has read the address may end it at once.
    let ended_from_outside = raw::ended_from_outside();
    world.terminal.print(&document(args.output.into(), &opened).unwrap_or_else(|| opened::text(&opened)))?;
    if token.is_some() && !args.show_token {
        world.terminal.note("it asks for a token, which `--show-token` prints");
    }
    if token.is_none() && args.show_token {
        let note =
            format!("its token is not in its file: see `gpuctl logs {full} --grep token`, or the secret that it comes from");
        world.terminal.note(&note);
    }
    if args.browser
        && let Err(error) = open::that_detached(&opened.url)
    {
        world.terminal.warn(&format!("no browser could be started: {error}"));
    }
    world.terminal.note("Ctrl-C ends it");
    let sink = RefCell::new(|event: RouteEvent| match event {
        RouteEvent::Pod(pod) => world.terminal.note(&format!("── {pod} takes connections ──")),
        RouteEvent::Waiting(why) => world.terminal.note(&format!("── {} ──", why.trim_end())),
        RouteEvent::Failed(why) => world.terminal.warn(&format!("a connection failed: {why}")),
    });
    let gone = tokio::select! {
        ended = connection.serve(&route, &listener, &sink) => ended?,
        // That is how it ends.
        number = ended_from_outside => {
            return Ok(if number == raw::INTERRUPT { ExitCode::SUCCESS } else { ExitCode::from(128 + number) });
        }
    };
    match gone.filter(|state| state.status.is_final()) {
        Some(state) => {
            world.terminal.note(&format!("── {} {} ──", job.name, text::state(&state)));
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Error::new(Kind::NotFound, "NotFound", format!("job `{}` was deleted meanwhile", job.name))),
    }
}

/// The way to the pod that is meant; a service's pods are told by number too.
fn route(args: &Open, job: &Job, port: u16) -> Result<Route, Error> {
    let place = Place { name: job.name.clone(), rank: args.rank, pod: args.pod.clone(), container: None };
    let mut route =
        Route { namespace: job.namespace.clone(), job: job.name.clone(), kind: job.kind, pod: None, rank: None, port };
    if args.pod.is_some() || args.rank.is_some() {
        let pod = pod(job, &place)?;
        // A rank is found again in another pod; a pod is itself.
        (route.pod, route.rank) =
            if pod.rank.is_some() && args.pod.is_none() { (None, pod.rank) } else { (Some(pod.name.clone()), None) };
    }
    Ok(route)
}

/// The port that was asked for, else the job's own, else any.
async fn listen(asked: Option<u16>, own: u16) -> Result<TcpListener, Error> {
    let bind = |port| TcpListener::bind(("127.0.0.1", port));
    match asked {
        Some(port) => bind(port).await.map_err(|error| taken(port, &error)),
        None => match bind(own).await {
            Ok(listener) => Ok(listener),
            Err(_) => bind(0).await.map_err(|error| taken(0, &error)),
        },
    }
}

fn taken(port: u16, error: &std::io::Error) -> Error {
    let message = format!("cannot listen on port {port} of this machine");
    Error::new(Kind::Request, "PortTaken", message)
        .cause(error.to_string())
        .hint("leave `--local-port` out to take one that is free")
}

fn token(job: &Job) -> Option<String> {
    let documents = spec::parse("", job.source.as_deref()?).ok()?.documents;
    documents.iter().find_map(|document| match document {
        Document::Job(job) => spec::notebook_token(job),
        _ => None,
    })
}
