//! `gpuctl open`: forwards a local port to a notebook or service until interrupted.

use std::cell::RefCell;
use std::process::ExitCode;

use tokio::net::TcpListener;

use crate::cli::jobs::open::Open;
use crate::context::Context;
use crate::inside::choice::{ContainerChoice, pod};
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Route, RouteEvent};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::{Job, State, Status};
use gpuctl_local::platform;
use gpuctl_manifest::spec::{self, Document};
use gpuctl_view::document;
use gpuctl_view::jobs::opened;
use gpuctl_view::jobs::opened::Opened;

pub(crate) async fn run(args: &Open, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("remove `--replay` to use a live cluster")?;
    context.terminal.set_format(args.output.into());
    let connection = context.connect().await?;
    let job = lookup::job(&connection, &args.name, LookupPurpose::Change).await?;
    let port = target_port(args, &job)?;
    let route = route(args, &job, port)?;
    // Report missing permissions before printing the address.
    connection
        .sessions()
        .try_route(&route, &job)
        .await
        .or_else(|failure| {
            if failure.is_transient() {
                Ok(false)
            } else {
                Err(failure)
            }
        })?;
    let listener = listen(args.local_port, port).await?;
    let local_port = listener
        .local_addr()
        .map_err(|error| port_taken(port, &error))?
        .port();
    // The notebook's token is valid only on the job's own port.
    let token = token(&job).filter(|_| args.target_port.is_none_or(|port| Some(port) == job.port));
    let opened = Opened::new(
        &job,
        local_port,
        port,
        token.as_deref().filter(|_| args.show_token),
    );
    // Listen for signals before printing the address: a script may interrupt the command
    // immediately afterwards.
    let ended_from_outside = platform::termination_signal();
    announce(args, &job, &opened, token.is_some(), context)?;
    let sink = RefCell::new(|event: RouteEvent| match event {
        RouteEvent::Pod(pod) => context
            .terminal
            .note(&format!("── {pod} accepts connections ──")),
        RouteEvent::Waiting(message) => context
            .terminal
            .note(&format!("── {} ──", message.trim_end())),
        RouteEvent::Failed(message) => context
            .terminal
            .warn(&format!("a connection failed: {message}")),
    });
    let end_state = tokio::select! {
        state = connection.sessions().serve(&route, &listener, &sink) => state?,
        // An interrupt ends this command normally.
        number = ended_from_outside => {
            return Ok(if number == platform::INTERRUPT { ExitCode::SUCCESS } else { ExitCode::from(128 + number) });
        }
    };
    match end_state.filter(|state| state.status.is_final()) {
        Some(state) => {
            context
                .terminal
                .note(&format!("── {} {state} ──", job.name));
            Ok(ExitCode::SUCCESS)
        }
        None => Err(Error::new(
            ErrorName::NotFound,
            format!("job `{}` was deleted during port forwarding", job.name),
        )),
    }
}

/// Returns the port in the pod. Fails if the job is finished or paused.
fn target_port(args: &Open, job: &Job) -> Result<u16, Error> {
    let state = State::from_job(job);
    let full_name = format!("{}/{}", job.namespace, job.name);
    if state.status.is_final() {
        let error = Error::new(
            ErrorName::NotRunning,
            format!("job `{}` has {}", job.name, state.status),
        );
        return Err(error.hint(format!("gpuctl logs {full_name}")));
    }
    if state.status == Status::Paused {
        let error = Error::new(ErrorName::Paused, format!("job `{}` is paused", job.name));
        return Err(error.hint(format!("gpuctl resume job {full_name}")));
    }
    args.target_port.or(job.port).ok_or_else(|| {
        let error = Error::usage(format!("job `{}` has no port", job.name));
        error.hint(format!("gpuctl open {full_name} --target-port 6006"))
    })
}

/// Prints the address and the hint about the token, and starts the browser.
fn announce(
    args: &Open,
    job: &Job,
    opened: &Opened,
    has_token: bool,
    context: &Context,
) -> Result<(), Error> {
    context.terminal.stream()?;
    context
        .terminal
        .print(&document(args.output.into(), opened).unwrap_or_else(|| opened::text(opened)))?;
    if has_token && !args.show_token {
        context
            .terminal
            .note("the notebook asks for a token; `--show-token` prints it");
    }
    if !has_token && args.show_token {
        let note = format!(
            "the notebook's token is not in the job file: see \
             `gpuctl logs {}/{} --grep token`, or the secret that contains it",
            job.namespace, job.name
        );
        context.terminal.note(&note);
    }
    if args.browser
        && let Err(error) = open::that_detached(&opened.url)
    {
        context
            .terminal
            .warn(&format!("cannot open a browser: {error}"));
    }
    context.terminal.note("Ctrl-C stops forwarding");
    Ok(())
}

/// Builds the route to the selected pod. `--rank` also selects a service's pod by its number.
fn route(args: &Open, job: &Job, port: u16) -> Result<Route, Error> {
    let choice = ContainerChoice {
        rank: args.rank,
        pod: args.pod.as_deref(),
        container: None,
    };
    let mut route = Route {
        namespace: job.namespace.clone(),
        job: job.name.clone(),
        kind: job.kind,
        pod: None,
        rank: None,
        port,
    };
    if args.pod.is_some() || args.rank.is_some() {
        let pod = pod(job, choice)?;
        // A rank survives the replacement of its pod, so forwarding continues with the new pod. A
        // pod name does not.
        (route.pod, route.rank) = if pod.rank.is_some() && args.pod.is_none() {
            (None, pod.rank)
        } else {
            (Some(pod.name.clone()), None)
        };
    }
    Ok(route)
}

/// Listens on the requested port, or else on the job's port or any free port.
async fn listen(requested: Option<u16>, job_port: u16) -> Result<TcpListener, Error> {
    // Bind only to loopback: the forwarded service may not require a password.
    let bind = |port| TcpListener::bind(("127.0.0.1", port));
    match requested {
        Some(port) => bind(port).await.map_err(|error| port_taken(port, &error)),
        None => match bind(job_port).await {
            Ok(listener) => Ok(listener),
            // The port may be in use, for example by another `gpuctl open`.
            Err(_) => bind(0).await.map_err(|error| port_taken(0, &error)),
        },
    }
}

fn port_taken(port: u16, error: &std::io::Error) -> Error {
    let message = format!("cannot listen on port {port} on this machine");
    Error::new(ErrorName::PortTaken, message)
        .cause(error.to_string())
        .hint("remove `--local-port` to use a free port")
}

fn token(job: &Job) -> Option<String> {
    let documents = spec::parse("", job.source.as_deref()?).ok()?.documents;
    documents.iter().find_map(|document| match document {
        Document::Job(job) => spec::notebook_token(job),
        _ => None,
    })
}
