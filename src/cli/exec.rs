//! `exec` and `attach`: inside a running job. Knows which pod is meant and whose terminal it is; what passes between them
//! is the cluster module's.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use tokio::sync::mpsc;

use crate::cluster::{Call, Connection, Ending, Input, Output};
use crate::error::{Error, Kind};
use crate::model::{Job, Pod, PodPhase, State};
use crate::terminal::raw::{self, RawMode};
use crate::view::text;

use super::lookup::{self, Purpose};
use super::{World, completion};

/// Run a command inside a job
///
/// Without a command it is a shell, with this terminal. The exit code is the command's own.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl exec qwen2-7b-sft
  gpuctl exec qwen2-7b-sft --rank 3 -- nvidia-smi
  gpuctl exec data-prep -i -- tee /workspace/x.txt < x.txt")]
pub struct Exec {
    #[command(flatten)]
    place: Place,
    /// Pass stdin on
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command this terminal
    #[arg(short, long)]
    tty: bool,
    /// Command and its arguments, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Join the process that a job runs
///
/// Shows what it says from now on, output and errors as they come. Ctrl-C leaves, and the job goes on.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl attach qwen2-7b-sft
  gpuctl attach qwen2-7b-sft --rank 1")]
pub struct Attach {
    #[command(flatten)]
    place: Place,
}

/// Which container of which pod.
#[derive(Args, Debug)]
pub struct Place {
    /// Job, as NAME or NAMESPACE/NAME
    #[arg(add = ArgValueCandidates::new(completion::job_names))]
    pub name: String,
    /// Rank of a training, or number of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    pub rank: Option<u32>,
    /// Pod by its name
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
    /// Container instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
}

/// A shell that most images have; bash where there is one.
const SHELL: [&str; 3] = ["sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash || exec sh"];

pub async fn run(args: &Exec, world: &World) -> Result<ExitCode, Error> {
    let shell = args.command.is_empty();
    let command = if shell { SHELL.map(ToOwned::to_owned).to_vec() } else { args.command.clone() };
    let person = world.terminal.in_is_terminal();
    let wants = Wants { stdin: args.stdin || shell, tty: args.tty || (shell && person) };
    within(&args.place, Some(&command), wants, world).await
}

pub async fn attach(args: &Attach, world: &World) -> Result<ExitCode, Error> {
    world.terminal.note("Ctrl-C leaves; the job goes on");
    // The containers of jobs have neither a terminal nor stdin that could be joined.
    within(&args.place, None, Wants { stdin: false, tty: false }, world).await
}

struct Wants {
    stdin: bool,
    tty: bool,
}

async fn within(place: &Place, command: Option<&[String]>, wants: Wants, world: &World) -> Result<ExitCode, Error> {
    let connection = world.connect().await?;
    let job = lookup::job(&connection, &place.name, Purpose::Change).await?;
    let pod = pod(&job, place)?;
    let tty = wants.tty && world.terminal.in_is_terminal();
    if wants.tty && !tty {
        world.terminal.warn("stdin is no terminal, so the command gets none");
    }
    let container = place.container.clone().unwrap_or_else(|| pod.own_container().to_owned());
    let call = Call { namespace: &job.namespace, pod: &pod.name, container: &container, command, stdin: wants.stdin || tty, tty };
    let session = connection.start(&call).await.map_err(|failure| refused(&connection, failure, &job, &container))?;
    let raw = if tty { RawMode::enter().ok() } else { None };
    let input = input(call.stdin, tty);
    let mut failed = None;
    let running = session.run(input, |stream, bytes| match world.terminal.pass(stream == Output::Err, bytes) {
        Ok(read) => read,
        Err(error) => {
            failed = Some(error);
            false
        }
    });
    let ending = tokio::select! {
        ending = running => ending,
        // The terminal must be itself again, whoever ends us.
        number = raw::ended_from_outside() => {
            drop(raw);
            return Ok(ExitCode::from(128 + number));
        }
    };
    drop(raw);
    if let Some(error) = failed {
        return Err(error);
    }
    match ending {
        // A reader that went away ends us silently, as it ends every filter.
        Ending::Unread => Ok(ExitCode::SUCCESS),
        Ending::Exit(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        Ending::Refused(why) if why.contains("executable file not found") || why.contains("no such file") => {
            let program = command.and_then(|command| command.first()).map_or("", String::as_str);
            let message = format!("the image of job `{}` has no `{program}`", job.name);
            Err(Error::new(Kind::Request, "CommandNotFound", message).cause(why))
        }
        Ending::Refused(why) => {
            Err(Error::new(Kind::Request, "CommandFailed", format!("the command could not be run in {}", pod.name)).cause(why))
        }
        Ending::Broken => {
            Err(Error::new(Kind::Unreachable, "ConnectionLost", format!("the connection to {} broke off", pod.name))
                .hint(format!("the command may still run: gpuctl describe job {}/{}", job.namespace, job.name)))
        }
    }
}

fn refused(connection: &Connection, failure: crate::cluster::Failure, job: &Job, container: &str) -> Error {
    let text = failure.to_string();
    let names: Vec<&str> = job.pods.iter().flat_map(|pod| &pod.containers).map(|one| one.name.as_str()).collect();
    if failure.code() == Some(400) && text.contains("not valid for pod") {
        let message = format!("job `{}` has no container `{container}`", job.name);
        return Error::new(Kind::NotFound, "ContainerNotFound", message).hint(format!("there are: {}", names.join(", ")));
    }
    let _ = connection.take_warnings();
    failure.into()
}

/// The pod that is meant: by name, by rank, else the first that runs.
pub fn pod<'j>(job: &'j Job, place: &Place) -> Result<&'j Pod, Error> {
    let mut pods = job.current_pods();
    if job.kind.serves() {
        pods.retain(|pod| !pod.ended());
        pods.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let runs = |pod: &&&Pod| pod.phase == PodPhase::Running;
    let found = match (&place.pod, place.rank) {
        (Some(name), _) => pods.iter().find(|pod| &pod.name == name),
        (None, Some(rank)) if job.kind.serves() => pods.get(rank as usize),
        (None, Some(rank)) => pods.iter().find(|pod| pod.rank == Some(rank)),
        (None, None) => pods.iter().find(runs).or_else(|| pods.first()),
    };
    let state = State::of(job);
    let full = format!("{}/{}", job.namespace, job.name);
    let Some(pod) = found else {
        if pods.is_empty() {
            let error =
                Error::new(Kind::Request, "NotRunning", format!("job `{}` is {} and has no pod", job.name, text::state(&state)));
            return Err(error.hint(format!("gpuctl describe job {full}")));
        }
        let what =
            place.rank.map_or_else(|| format!("pod `{}`", place.pod.as_deref().unwrap_or("")), |rank| format!("rank {rank}"));
        let name = |(index, pod): (usize, &&Pod)| match (place.rank, pod.rank) {
            (Some(_), Some(rank)) => rank.to_string(),
            (Some(_), None) => index.to_string(),
            (None, _) => pod.name.clone(),
        };
        let names: Vec<String> = pods.iter().enumerate().map(name).collect();
        let error = Error::new(Kind::NotFound, "PodNotFound", format!("job `{}` has no {what}", job.name));
        return Err(error.hint(format!("there are: {}", names.join(", "))));
    };
    if pod.phase != PodPhase::Running {
        let error = Error::new(
            Kind::Request,
            "NotRunning",
            format!("{} does not run: job `{}` is {}", pod.name, job.name, text::state(&state)),
        );
        return Err(error.hint(format!("gpuctl logs {full}")));
    }
    Ok(*pod)
}

/// Keys or a pipe, and the window's size now and whenever it changes.
fn input(stdin: bool, tty: bool) -> mpsc::Receiver<Input> {
    let (sender, receiver) = mpsc::channel(16);
    if tty {
        let sizes = sender.clone();
        tokio::spawn(async move {
            let Ok(mut changes) = raw::window_changes() else { return };
            loop {
                if let Some((columns, rows)) = raw::window()
                    && sizes.send(Input::Resize { columns, rows }).await.is_err()
                {
                    return;
                }
                if changes.recv().await.is_none() {
                    return;
                }
            }
        });
    }
    if stdin {
        tokio::spawn(async move {
            let mut bytes = raw::stdin();
            while let Some(bytes) = bytes.recv().await {
                if sender.send(Input::Bytes(bytes)).await.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
