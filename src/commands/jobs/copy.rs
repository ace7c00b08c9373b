//! `gpuctl cp`: copies files into a running container and out of it, with the `tar` of the image.

mod stream;

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use self::stream::{Sink, Unpacking, interrupted};

use crate::cli::jobs::copy::Copy;
use crate::context::Context;
use crate::deploy::names::suffix;
use crate::inside::choice::{ContainerChoice, from_node, pod};
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Connection, ExecRequest, SessionEnd, SessionInput, SessionStream};
use gpuctl_core::error::{Error, ErrorKind, ErrorName};
use gpuctl_core::model::Pod;
use gpuctl_core::model::contract::refusal::ContainerComplaint;
use gpuctl_local::files::archive::{Copied, is_file, pack, target};
use gpuctl_local::platform::ended_from_outside;
use gpuctl_view::document;
use gpuctl_view::jobs::copied;
use gpuctl_view::jobs::copied::CopyResult;

/// Pieces of an archive on their way between the disk and the network.
const PIECES: usize = 16;

/// Bytes that are kept of what a command says about its failure.
const MOST_WORDS: usize = 16 << 10;

/// With which tar ends after a fatal error.
const TAR_FAILED: i32 = 2;

/// How long tar may take to write the last of what it got.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Time limit for tar to exit after the end of its archive.
const AFTER_END: Duration = Duration::from_secs(10);

/// Time limit for an interrupted upload to remove its file in the container.
const CLEANUP: Duration = Duration::from_millis(800);

/// Parses `JOB:PATH`. Text that begins like a path, or has no colon, is a local file.
fn remote(text: &str) -> Option<(&str, &str)> {
    let (job, path) = text.split_once(':')?;
    let local = job.starts_with(['.', '/', '~']) || job.matches('/').count() > 1 || job.is_empty();
    (!local).then_some((job, path))
}

pub(crate) async fn run(args: &Copy, context: &Context) -> Result<ExitCode, Error> {
    context.must_change("omit `--replay` to reach the cluster")?;
    context.terminal.set_format(args.output.into());
    let (job, path, download) = match (remote(&args.from), remote(&args.to)) {
        (Some((job, path)), None) => (job, path, true),
        (None, Some((job, path))) => (job, path, false),
        (Some(_), Some(_)) => {
            return Err(Error::usage("source and destination are both in a job")
                .hint("copy to this machine first, or write the local path as `./NAME`"));
        }
        (None, None) => {
            return Err(Error::usage("neither source nor destination is in a job")
                .hint("gpuctl cp JOB:/path ./path"));
        }
    };
    if path.is_empty() {
        return Err(Error::usage(format!("`{job}:` has no path")).hint(format!("{job}:/workspace")));
    }
    let connection = context.connect().await?;
    let job = lookup::job(&connection, job, LookupPurpose::Change).await?;
    let choice = ContainerChoice {
        rank: args.rank,
        pod: args.pod.as_deref(),
        container: args.container.as_deref(),
    };
    let pod = pod(&job, choice)?;
    let container = choice
        .container
        .unwrap_or_else(|| pod.own_container())
        .to_owned();
    let inside = Inside {
        connection: &connection,
        namespace: &job.namespace,
        pod,
        container: &container,
        context,
    };
    let copied = if download {
        inside.download(path, &args.to).await?
    } else {
        inside.upload(&args.from, path).await?
    };
    let skipped = &copied.skipped;
    skipped
        .first
        .iter()
        .for_each(|one| context.terminal.warn(&format!("left out {one}")));
    let unnamed = skipped.count - skipped.first.len() as u64;
    if unnamed > 0 {
        context.terminal.warn(&format!("left out {unnamed} more"));
    }
    let whole = skipped.count == 0;
    let answer = CopyResult {
        from: args.from.clone(),
        to: args.to.clone(),
        files: copied.files,
        bytes: copied.bytes,
        skipped: copied.skipped.first,
        skipped_count: copied.skipped.count,
    };
    context
        .terminal
        .print(&document(args.output.into(), &answer).unwrap_or_else(|| copied::text(&answer)))?;
    Ok(if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(ErrorKind::Request.exit_code())
    })
}

struct Inside<'a> {
    connection: &'a Connection,
    namespace: &'a str,
    pod: &'a Pod,
    container: &'a str,
    context: &'a Context,
}

impl Inside<'_> {
    /// Runs a command; what it says as an error comes back with its end. A `sink` that takes no
    /// more ends it.
    async fn command(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<SessionInput>>,
        sink: impl AsyncFnMut(&[u8]) -> bool,
    ) -> Result<(SessionEnd, String), Error> {
        let said = RefCell::default();
        let ending = self.command_saying(command, input, sink, &said).await?;
        Ok((ending, words(&said)))
    }

    /// The same; what it says as an error is in `said` as soon as it is said.
    async fn command_saying(
        &self,
        command: &[&str],
        input: Option<mpsc::Receiver<SessionInput>>,
        mut sink: impl AsyncFnMut(&[u8]) -> bool,
        said: &RefCell<Vec<u8>>,
    ) -> Result<SessionEnd, Error> {
        let command: Vec<String> = command.iter().map(ToString::to_string).collect();
        let call = ExecRequest {
            namespace: self.namespace,
            pod: &self.pod.name,
            container: self.container,
            command: Some(&command),
            stdin: input.is_some(),
            tty: false,
        };
        let session = self
            .connection
            .start(&call)
            .await
            .map_err(|failure| from_node(failure, self.pod))?;
        let input = input.unwrap_or_else(|| mpsc::channel(1).1);
        let ending = session
            .run_slowly(input, async |stream, bytes: &[u8]| match stream {
                SessionStream::Out => sink(bytes).await,
                SessionStream::Err => {
                    let mut said = said.borrow_mut();
                    let room = MOST_WORDS.saturating_sub(said.len());
                    said.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    true
                }
            })
            .await;
        Ok(ending)
    }

    async fn download(&self, path: &str, to: &str) -> Result<Copied, Error> {
        let (folder, name) = parts(path)?;
        let to = target(to, name);
        // A signal between two steps counts as well.
        let mut signal = pin!(ended_from_outside());
        let (sender, mut unpacking) = Unpacking::start(name, &to, PIECES);
        let name = format!("./{name}");
        let spinner = self.context.terminal.spinner();
        let mut bytes = 0;
        let command = ["tar", "cf", "-", "-C", folder, name.as_str()];
        let spinner_message =
            |bytes| spinner.set_message(format!("{path}: {}", copied::size(bytes)));
        let ended = {
            let mut running = pin!(self.command(&command, None, async move |piece: &[u8]| {
                bytes += piece.len() as u64;
                spinner_message(bytes);
                // False if unpacking failed.
                sender.send(Bytes::copy_from_slice(piece)).await.is_ok()
            }));
            tokio::select! {
                both = async {
                    tokio::select! {
                        ended = &mut running => (Some(ended), unpacking.end().await),
                        // A hostile tar may never exit.
                        staged = unpacking.end() => {
                            let within = if staged.is_ok() { AFTER_END } else { LAST_WORDS };
                            (tokio::time::timeout(within, &mut running).await.ok(), staged)
                        }
                    }
                } => Some(both),
                _ = &mut signal => None,
            }
        };
        spinner.finish_and_clear();
        let failed = || {
            Error::new(
                ErrorName::CopyFailed,
                format!("`{path}` could not be copied"),
            )
        };
        let Some((ended, staged)) = ended else {
            return Err(unpacking.abort().await);
        };
        let (ending, said) = match ended {
            Some(ended) => ended?,
            None => (SessionEnd::Unread, String::new()),
        };
        let complaint = ContainerComplaint::of_tar(&said);
        match (ending, staged) {
            (SessionEnd::Exit(0), Ok(staged)) => unpacking
                .place(staged, &to, signal)
                .await?
                .map_err(|error| failed().cause(error.to_string())),
            // tar says so of a file that was written to meanwhile, as checkpoints and logs are.
            (SessionEnd::Exit(1), Ok(staged)) if complaint == Some(ContainerComplaint::Changed) => {
                self.context
                    .terminal
                    .warn(&format!("the file changed while it was copied: {said}"));
                unpacking
                    .place(staged, &to, signal)
                    .await?
                    .map_err(|error| failed().cause(error.to_string()))
            }
            (_, Err(error))
                if !matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::Other
                ) =>
            {
                Err(failed().cause(error.to_string()))
            }
            (SessionEnd::Exit(_), Err(_)) if complaint == Some(ContainerComplaint::NoFile) => {
                Err(Error::new(
                    ErrorName::FileNotFound,
                    format!("there is no `{path}` in the job"),
                )
                .cause(said))
            }
            (SessionEnd::Exit(0), Err(error)) => Err(failed().cause(error.to_string())),
            (SessionEnd::Unread, Ok(_)) => {
                Err(failed().cause("tar in the container did not exit after its archive"))
            }
            (ending, _) => Err(of_tar(ending, said, path)),
        }
    }

    async fn upload(&self, from: &str, path: &str) -> Result<Copied, Error> {
        let missing = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Error::new(
                ErrorName::FileNotFound,
                format!("there is no `{from}` here"),
            ),
            _ => Error::new(
                ErrorName::CopyFailed,
                format!("`{from}` could not be copied"),
            )
            .cause(error.to_string()),
        };
        let file = is_file(from).map_err(missing)?;
        let own_name = Path::new(from).file_name().and_then(|name| name.to_str());
        let is_folder = self
            .command(&["test", "-d", path], None, async |_| true)
            .await?
            .0
            == SessionEnd::Exit(0);
        if !is_folder && path.ends_with('/') {
            return Err(Error::new(
                ErrorName::FileNotFound,
                format!("there is no folder `{path}` in {}", self.pod.name),
            ));
        }
        let (folder, name) = match (is_folder, own_name) {
            (true, Some(name)) => (path.trim_end_matches('/'), name),
            (true, None) => {
                let error = Error::usage(format!("`{from}` ends in no file name"));
                return Err(error.hint("name the copy: JOB:/path/NAME"));
            }
            (false, _) => parts(path)?,
        };
        let folder = if folder.is_empty() { "/" } else { folder };
        // A file takes its name only when it is whole; a folder grows in place.
        let arriving = if file {
            format!(".gpuctl-cp-{}", suffix())
        } else {
            name.to_owned()
        };
        let (temporary, place) = (format!("{folder}/{arriving}"), format!("{folder}/{name}"));
        let (sent, is_interrupted) = tokio::select! {
            sent = self.send(from, folder, &arriving, path) => (sent, false),
            _ = ended_from_outside() => (Err(interrupted()), true),
        };
        if file {
            let last = match &sent {
                Ok(_) => ["mv", "-f", "--", &temporary, &place].to_vec(),
                Err(_) => ["rm", "-f", "--", &temporary].to_vec(),
            };
            let within = if is_interrupted { CLEANUP } else { LAST_WORDS };
            let moved =
                tokio::time::timeout(within, self.command(&last, None, async |_| true)).await;
            if sent.is_ok() {
                let lost = || {
                    Error::new(
                        ErrorName::ConnectionLost,
                        "lost the connection while copying",
                    )
                };
                let (ending, said) = moved.map_err(|_| lost())??;
                if ending != SessionEnd::Exit(0) {
                    return Err(of_tar(ending, said, path));
                }
            }
        }
        sent
    }

    /// Sends the archive to a tar that unpacks it in `folder`.
    async fn send(
        &self,
        from: &str,
        folder: &str,
        name: &str,
        path: &str,
    ) -> Result<Copied, Error> {
        let (sender, receiver) = mpsc::channel(PIECES);
        let (source, inside) = (from.to_owned(), name.to_owned());
        let (done, mut packed) = oneshot::channel();
        let (open, taken) = (sender.clone(), Arc::new(AtomicU64::new(0)));
        let counter = Arc::clone(&taken);
        std::thread::spawn(move || {
            let sink = io::BufWriter::with_capacity(
                64 << 10,
                Sink {
                    sender,
                    taken: counter,
                },
            );
            let _ = done.send(pack(Path::new(&source), &inside, sink));
        });
        let extracting = ["tar", "xmf", "-", "-C", folder];
        let said = RefCell::default();
        let mut running =
            pin!(self.command_saying(&extracting, Some(receiver), async |_| true, &said));
        let failed = || {
            Error::new(
                ErrorName::CopyFailed,
                format!("`{from}` could not be copied"),
            )
        };
        let (ended, packed) = tokio::select! {
            // containerd goes on reading nothing when the command has ended, and tells its end only
            // when all is read.
            () = stalled(&taken, &said) => (Ok(SessionEnd::Exit(TAR_FAILED)), None),
            // It read no further: its own words say why, unless it had all.
            ended = &mut running => (ended, tokio::time::timeout(LAST_WORDS, &mut packed).await.ok()),
            packed = &mut packed => {
                if let Ok(Err(error)) = packed {
                    return Err(failed().cause(error.to_string()));
                }
                // Old servers end the process with its input, so tar gets a moment to end by
                // itself.
                let ended = tokio::time::timeout(LAST_WORDS, &mut running).await;
                drop(open);
                (match ended { Ok(ended) => ended, Err(_) => running.await }, Some(packed))
            }
        };
        match (ended?, words(&said)) {
            (SessionEnd::Exit(0), _) => {}
            (SessionEnd::Exit(_), said)
                if ContainerComplaint::of_tar(&said) == Some(ContainerComplaint::NoFile) =>
            {
                return Err(Error::new(
                    ErrorName::FileNotFound,
                    format!("there is no `{path}` in the job"),
                )
                .cause(said));
            }
            (ending, said) => return Err(of_tar(ending, said, path)),
        }
        match packed {
            Some(Ok(Ok(copied))) => Ok(copied),
            Some(Ok(Err(error))) => Err(failed().cause(error.to_string())),
            _ => Err(failed().cause("tar in the container exited before it read everything")),
        }
    }
}

/// Returns what a command said, for people.
fn words(said: &RefCell<Vec<u8>>) -> String {
    String::from_utf8_lossy(&said.borrow()).trim().to_owned()
}

/// Ends when the command has complained and takes nothing more. A warning of tar's alone is no
/// reason to stop.
async fn stalled(taken: &AtomicU64, said: &RefCell<Vec<u8>>) {
    let mut before = None;
    loop {
        let now = taken.load(Ordering::Relaxed);
        if before == Some(now) && !said.borrow().is_empty() {
            return;
        }
        before = Some(now);
        tokio::time::sleep(LAST_WORDS).await;
    }
}

/// Returns the folder of a path in a container, and the last part, which may not climb.
fn parts(path: &str) -> Result<(&str, &str), Error> {
    let trimmed = path.trim_end_matches('/');
    let (folder, name) = trimmed
        .rsplit_once('/')
        .map_or((".", trimmed), |(folder, name)| {
            (if folder.is_empty() { "/" } else { folder }, name)
        });
    if name.is_empty() || name == "." || name == ".." {
        return Err(
            Error::usage(format!("`{path}` ends in no file or folder name"))
                .hint("name one: JOB:/path/NAME"),
        );
    }
    Ok((folder, name))
}

/// Returns what the command in the container came to.
fn of_tar(ending: SessionEnd, said: String, path: &str) -> Error {
    let failed = |cause: String| {
        Error::new(
            ErrorName::CopyFailed,
            format!("`{path}` could not be copied"),
        )
        .cause(cause)
    };
    match ending {
        SessionEnd::Exit(code) => failed(if said.is_empty() {
            format!("tar ended with exit code {code}")
        } else {
            said
        }),
        SessionEnd::Refused(why)
            if ContainerComplaint::of_runtime(&why) == Some(ContainerComplaint::NoProgram) =>
        {
            failed(why).hint("the image has no `tar`: gpuctl exec JOB -- cat FILE > FILE")
        }
        SessionEnd::Refused(why) => failed(why),
        SessionEnd::Unread | SessionEnd::Broken => Error::new(
            ErrorName::ConnectionLost,
            "lost the connection while copying",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_side_is_the_job() {
        assert_eq!(remote("a:/x"), Some(("a", "/x")));
        assert_eq!(
            remote("ns/a:x/y"),
            Some(("ns", "")).map(|_| ("ns/a", "x/y"))
        );
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
