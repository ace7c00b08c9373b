//! `cp`: files into a running container and out of it, through the `tar` that the image has.

use std::io::{self, Read, Write};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::mpsc as blocking;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::{Call, Connection, Ending, Input, Output};
use crate::error::{Error, Kind};
use crate::view::copied::{self, Answer};
use crate::view::document;

use super::archive::{Copied, is_there, pack, target, unpack};
use super::exec::{Place, pod};
use super::lookup::{self, Purpose};
use super::{OneFormat, World};

/// Copy files into a job or out of it
///
/// One of the two is JOB:PATH or NAMESPACE/JOB:PATH. A folder is copied with all that is in it. Links that lead out of
/// the copied folder are left out, and a copy that breaks off leaves nothing behind. The image needs `tar`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl cp qwen2-7b-sft:/output/checkpoint-100 ./checkpoint-100
  gpuctl cp ./data.jsonl team-a/data-prep:/home/jovyan/work/")]
pub struct Copy {
    /// What to copy
    from: String,
    /// Where to; a folder that is there gets the copy inside
    to: String,
    /// Rank of a training, or number of a service's pod, from 0
    #[arg(long, value_name = "N", conflicts_with = "pod")]
    rank: Option<u32>,
    /// Pod by its name
    #[arg(long, value_name = "NAME")]
    pod: Option<String>,
    /// Container instead of the job's own
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

/// Pieces of an archive on their way between the disk and the network.
const PIECES: usize = 16;
/// How long tar may take to write the last of what it got.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// `JOB:PATH`. Whatever begins like a path is a local file, and so is what has no colon.
fn remote(text: &str) -> Option<(&str, &str)> {
    let (job, path) = text.split_once(':')?;
    let local = job.starts_with(['.', '/', '~']) || job.matches('/').count() > 1 || job.is_empty();
    (!local).then_some((job, path))
}

pub async fn run(args: &Copy, world: &World) -> Result<ExitCode, Error> {
    world.terminal.set_format(args.output.into());
    let (job, path, download) = match (remote(&args.from), remote(&args.to)) {
        (Some((job, path)), None) => (job, path, true),
        (None, Some((job, path))) => (job, path, false),
        (Some(_), Some(_)) => {
            return Err(Error::usage("both are in a job").hint("copy to this machine first, or write a local path as `./NAME`"));
        }
        (None, None) => return Err(Error::usage("neither is in a job").hint("gpuctl cp JOB:/path ./path")),
    };
    if path.is_empty() {
        return Err(Error::usage(format!("`{job}:` names no path")).hint(format!("{job}:/workspace")));
    }
    let connection = world.connect().await?;
    let job = lookup::job(&connection, job, Purpose::Change).await?;
    let place = Place { name: job.name.clone(), rank: args.rank, pod: args.pod.clone(), container: args.container.clone() };
    let pod = pod(&job, &place)?;
    let container = place.container.clone().unwrap_or_else(|| pod.own_container().to_owned());
    let inside = Inside { connection: &connection, namespace: &job.namespace, pod: &pod.name, container: &container, world };
    let copied = if download { inside.download(path, &args.to).await? } else { inside.upload(&args.from, path).await? };
    for skipped in &copied.skipped {
        world.terminal.warn(&format!("left out {skipped}"));
    }
    let answer = Answer {
        from: args.from.clone(),
        to: args.to.clone(),
        files: copied.files,
        bytes: copied.bytes,
        skipped: copied.skipped,
    };
    world.terminal.print(&document(args.output.into(), &answer).unwrap_or_else(|| copied::text(&answer)))?;
    Ok(ExitCode::SUCCESS)
}

struct Inside<'a> {
    connection: &'a Connection,
    namespace: &'a str,
    pod: &'a str,
    container: &'a str,
    world: &'a World,
}

impl Inside<'_> {
    /// Runs a command; what it says as an error comes back with its end.
    async fn command(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<Input>>,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(Ending, String), Error> {
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        let call = Call {
            namespace: self.namespace,
            pod: self.pod,
            container: self.container,
            command: Some(&command),
            stdin: input.is_some(),
            tty: false,
        };
        let session = self.connection.start(&call).await?;
        let mut said = Vec::new();
        let input = input.unwrap_or_else(|| mpsc::channel(1).1);
        let ending = session
            .run(input, |stream, bytes| match stream {
                Output::Out => sink(bytes),
                Output::Err => said.extend_from_slice(&bytes[..bytes.len().min(4096)]),
            })
            .await;
        Ok((ending, String::from_utf8_lossy(&said).trim().to_owned()))
    }

    async fn download(&self, path: &str, to: &str) -> Result<Copied, Error> {
        let (folder, name) = parts(path)?;
        let to = target(to, name);
        let (sender, receiver) = blocking::sync_channel::<Bytes>(PIECES);
        let (wanted, name) = (name.to_owned(), format!("./{name}"));
        let unpacking = std::thread::spawn(move || unpack(Pieces { receiver, rest: Bytes::new() }, &wanted, &to));
        let spinner = self.world.terminal.spinner();
        let mut bytes = 0;
        let command = ["tar", "cf", "-", "-C", folder, name.as_str()];
        let ended = self
            .command(&command, None, |piece| {
                bytes += piece.len() as u64;
                spinner.set_message(format!("{path}: {}", copied::size(bytes)));
                // A disk that is full ends the other side; its error comes below.
                let _ = sender.send(Bytes::copy_from_slice(piece));
            })
            .await;
        drop(sender);
        spinner.finish_and_clear();
        let unpacked = unpacking.join().expect("unpacking does not panic");
        check(ended?, path)?;
        unpacked.map_err(|error| {
            Error::new(Kind::Request, "CopyFailed", format!("`{path}` could not be copied")).cause(error.to_string())
        })
    }

    async fn upload(&self, from: &str, path: &str) -> Result<Copied, Error> {
        if !is_there(from) {
            return Err(Error::new(Kind::NotFound, "FileNotFound", format!("there is no `{from}` here")));
        }
        let own_name = Path::new(from).file_name().and_then(|name| name.to_str());
        let is_folder = self.command(&["test", "-d", path], None, |_| {}).await?.0 == Ending::Exit(0);
        if !is_folder && path.ends_with('/') {
            return Err(Error::new(Kind::NotFound, "FileNotFound", format!("there is no folder `{path}` in {}", self.pod)));
        }
        let (folder, name) = match (is_folder, own_name) {
            (true, Some(name)) => (path, name),
            (true, None) => {
                let error = Error::usage(format!("`{from}` has no name of its own"));
                return Err(error.hint("name the copy: JOB:/path/NAME"));
            }
            (false, _) => parts(path)?,
        };
        let (sender, receiver) = mpsc::channel(PIECES);
        let (source, inside) = (from.to_owned(), name.to_owned());
        let (done, packed) = oneshot::channel();
        let open = sender.clone();
        std::thread::spawn(move || {
            let sink = io::BufWriter::with_capacity(64 << 10, Sink { sender });
            let _ = done.send(pack(Path::new(&source), &inside, sink));
        });
        let extracting = ["tar", "xmf", "-", "-C", folder];
        let mut running = pin!(self.command(&extracting, Some(receiver), |_| {}));
        let (ended, packed) = tokio::select! {
            // It read no further: its own words say why.
            ended = &mut running => (ended, None),
            packed = packed => {
                // Old servers end the process with its input, so tar gets a moment to end by itself.
                let ended = tokio::time::timeout(LAST_WORDS, &mut running).await;
                drop(open);
                (match ended { Ok(ended) => ended, Err(_) => running.await }, packed.ok())
            }
        };
        check(ended?, path)?;
        let failed = || Error::new(Kind::Request, "CopyFailed", format!("`{from}` could not be copied"));
        let packed = packed.ok_or_else(|| failed().cause("tar in the container ended before it had read all"))?;
        packed.map_err(|error| failed().cause(error.to_string()))
    }
}

/// The folder of a path in a container, and the last part, which may not climb.
fn parts(path: &str) -> Result<(&str, &str), Error> {
    let trimmed = path.trim_end_matches('/');
    let (folder, name) =
        trimmed.rsplit_once('/').map_or((".", trimmed), |(folder, name)| (if folder.is_empty() { "/" } else { folder }, name));
    if name.is_empty() || name == "." || name == ".." {
        return Err(Error::usage(format!("`{path}` names no file or folder of its own")).hint("name one: JOB:/path/NAME"));
    }
    Ok((folder, name))
}

fn check((ending, said): (Ending, String), path: &str) -> Result<(), Error> {
    let failed = |cause: String| Error::new(Kind::Request, "CopyFailed", format!("`{path}` could not be copied")).cause(cause);
    match ending {
        Ending::Exit(0) => Ok(()),
        Ending::Exit(_) if said.contains("No such file") || said.contains("can't open") => {
            Err(Error::new(Kind::NotFound, "FileNotFound", format!("there is no `{path}` in the job")).cause(said))
        }
        Ending::Exit(code) => Err(failed(if said.is_empty() { format!("tar ended with exit code {code}") } else { said })),
        Ending::Refused(why) => Err(failed(why).hint("the image may have no `tar`: gpuctl exec JOB -- cat FILE > FILE")),
        Ending::Broken => {
            Err(Error::new(Kind::Unreachable, "ConnectionLost", "the connection broke off while copying".to_owned()))
        }
    }
}

/// An archive as it arrives.
struct Pieces {
    receiver: blocking::Receiver<Bytes>,
    rest: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.recv() {
                Ok(piece) => self.rest = piece,
                Err(_) => return Ok(0),
            }
        }
        let count = buffer.len().min(self.rest.len());
        buffer[..count].copy_from_slice(&self.rest.split_to(count));
        Ok(count)
    }
}

/// An archive as it leaves.
struct Sink {
    sender: mpsc::Sender<Input>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.sender.blocking_send(Input::Bytes(Bytes::copy_from_slice(bytes)));
        sent.map(|()| bytes.len()).map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the container reads no more"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_side_is_the_job() {
        assert_eq!(remote("a:/x"), Some(("a", "/x")));
        assert_eq!(remote("ns/a:x/y"), Some(("ns", "")).map(|_| ("ns/a", "x/y")));
        for local in ["./a:b", "/tmp/a:b", "a", "x/y/z:1", ":x"] {
            assert_eq!(remote(local), None, "{local}");
        }
    }

    #[test]
    fn a_path_has_a_last_part() {
        assert_eq!(parts("/a/b").ok(), Some(("/a", "b")));
        assert_eq!(parts("/a/").ok(), Some(("/", "a")));
        assert_eq!(parts("x").ok(), Some((".", "x")));
        assert!(parts("/").is_err() && parts("/a/..").is_err());
    }
}
