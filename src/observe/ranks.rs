//! Asks the ranks of a job themselves, when the user wants it: NCCL's RAS subsystem over a port-forward, and `py-spy` or `gdb` in their
//! containers for their stacks. Each rank is asked once. What does not answer is told, and nothing is concluded from it.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::cluster::{Connection, ExecRequest, SessionEnd, SessionStream};
use crate::diagnosis::RankAnswers;
use crate::model::{Job, Pod, PodPhase};
use crate::stats::{ras, stacks};
use crate::view::text::count;

/// What is to be asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Questions {
    pub ras: bool,
    pub stacks: bool,
}

/// Where RAS listens unless `NCCL_RAS_ADDR` says otherwise.
const RAS_PORT: u16 = 28028;
/// RAS waits some seconds for processes that do not answer.
const RAS_WITHIN: Duration = Duration::from_secs(20);
/// Pods that are tried for RAS: the first may be the one that hangs, or have no process of NCCL.
const RAS_TRIED: usize = 3;
/// Pods whose stacks are read, and how many at the same time.
const STACKS_READ: usize = 64;
const AT_ONCE: usize = 16;
const STACKS_WITHIN: Duration = Duration::from_secs(30);
/// Bytes of one answer.
const LARGEST: usize = 4 << 20;

/// Reasons why pods did not answer that are told, and characters of one.
const REASONS: usize = 3;
const LONGEST: usize = 160;

/// Prints the stacks of all Python processes of a container.
const STACKS: &str = r#"tool=
command -v py-spy >/dev/null 2>&1 && tool=py-spy || { command -v gdb >/dev/null 2>&1 && tool=gdb; }
[ -n "$tool" ] || { echo 'neither py-spy nor gdb is in its image' >&2; exit 127; }
code=0
for folder in /proc/[0-9]*; do
  process=${folder#/proc/}
  case "$(readlink "$folder/exe" 2>/dev/null)" in *python*) ;; *) continue ;; esac
  if [ "$tool" = py-spy ]; then py-spy dump --pid "$process" || code=$?
  else echo "Process $process:"; gdb -p "$process" -batch -ex 'thread apply all bt 16' 2>/dev/null || code=$?; fi
done
exit $code"#;

/// Asks the ranks of a job that run.
pub(crate) async fn asked(connection: &Connection, job: &Job, questions: Questions) -> RankAnswers {
    let mut answers = RankAnswers::default();
    let pods: Vec<&Pod> = job.current_pods().into_iter().filter(|pod| pod.phase == PodPhase::Running && !pod.deleting).collect();
    if pods.len() > STACKS_READ && questions.stacks {
        answers.silent.push(format!(
            "stacks of {}: only {STACKS_READ} pods are asked",
            count((pods.len() - STACKS_READ) as u64, "more pod")
        ));
    }
    if questions.ras {
        match ras(connection, job, &pods).await {
            Ok(report) => answers.ras = Some(report),
            Err(why) => answers.silent.push(format!("RAS of NCCL: {why}")),
        }
    }
    if questions.stacks {
        let dumps = pods.iter().take(STACKS_READ).map(|pod| async move { (*pod, dump(connection, job, pod).await) });
        let dumps: Vec<_> = stream::iter(dumps).buffered(AT_ONCE).collect().await;
        let mut found = Vec::new();
        let mut silent: Vec<(String, Vec<String>)> = Vec::new();
        for (pod, dump) in dumps {
            let who = pod.rank.map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}"));
            let why = match dump.map(|text| stacks::read(&text)) {
                Ok(read) if read.is_empty() => "no process of Python".to_owned(),
                Ok(read) => {
                    let several = read.len() > 1;
                    let name = |stack: &stacks::Stack| {
                        if several { format!("{who} (process {})", stack.process) } else { who.clone() }
                    };
                    found.extend(read.into_iter().map(|stack| (name(&stack), stack)));
                    continue;
                }
                Err(why) => why,
            };
            match silent.iter_mut().find(|(known, _)| *known == why) {
                Some((_, ranks)) => ranks.push(who),
                None => silent.push((why, vec![who])),
            }
        }
        answers.stacks = stacks::group(found);
        let more = silent.len().saturating_sub(REASONS);
        let told = silent.into_iter().take(REASONS).map(|(why, ranks)| match ranks.as_slice() {
            [one] => format!("stack of {one}: {why}"),
            several => format!("stacks of {}: {why}", count(several.len() as u64, "pod")),
        });
        answers.silent.extend(told);
        answers.silent.extend((more > 0).then(|| format!("other stacks: {}", count(more as u64, "further reason"))));
    }
    answers
}

/// Asks the first pod that answers.
async fn ras(connection: &Connection, job: &Job, pods: &[&Pod]) -> Result<ras::RasReport, String> {
    let mut last = "no pod of it runs".to_owned();
    for pod in pods.iter().take(RAS_TRIED) {
        let asking = connection.beside_pod(&job.namespace, &pod.name, RAS_PORT, question);
        let answer = match tokio::time::timeout(RAS_WITHIN, asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(failure)) => {
                last = format!("{} does not take connections at port {RAS_PORT} ({failure})", pod.name);
                continue;
            }
            Err(_) => {
                last = format!("{} did not answer within {} s", pod.name, RAS_WITHIN.as_secs());
                continue;
            }
        };
        match answer.as_deref().map(ras::read) {
            Ok(Some(report)) => return Ok(report),
            Ok(None) => last = format!("{} answers at port {RAS_PORT}, and not as NCCL 2.24 or later does", pod.name),
            Err(error) => last = format!("{}: {error}", pod.name),
        }
    }
    Err(last)
}

/// Sends the question and reads to the end of the answer.
async fn question(address: String) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await?;
    stream.write_all(b"verbose status\n").await?;
    let mut answer = Vec::new();
    stream.take(LARGEST as u64).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns what the tool in a container prints; else why there is nothing.
async fn dump(connection: &Connection, job: &Job, pod: &Pod) -> Result<String, String> {
    let command = ["sh", "-c", STACKS].map(ToOwned::to_owned);
    let call = ExecRequest {
        namespace: &job.namespace,
        pod: &pod.name,
        container: pod.own_container(),
        command: Some(&command),
        stdin: false,
        tty: false,
    };
    let running = async {
        let session = connection.start(&call).await.map_err(|failure| failure.to_string())?;
        let (_sender, input) = mpsc::channel(1);
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let end = session
            .run(input, |stream, bytes| {
                let kept = if stream == SessionStream::Err { &mut errors } else { &mut out };
                kept.extend_from_slice(bytes);
                out.len() + errors.len() < LARGEST
            })
            .await;
        let text = String::from_utf8_lossy(&out).into_owned();
        match end {
            // One process that cannot be read leaves the others.
            SessionEnd::Exit(_) | SessionEnd::Unread if !text.trim().is_empty() => Ok(text),
            SessionEnd::Refused(told) => Err(told),
            SessionEnd::Exit(0) | SessionEnd::Unread => Ok(text),
            SessionEnd::Broken => Err("the connection broke off".to_owned()),
            SessionEnd::Exit(code) => {
                Err(reason(&String::from_utf8_lossy(&errors)).unwrap_or_else(|| format!("exit code {code}")))
            }
        }
    };
    tokio::time::timeout(STACKS_WITHIN, running)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {} s", STACKS_WITHIN.as_secs())))
}

/// Returns the last line of what a tool wrote to stderr, in words for a container.
fn reason(errors: &str) -> Option<String> {
    let last = errors.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    // It advises to use sudo.
    if last.starts_with("Permission Denied") {
        return Some("py-spy may not read its processes: the container lacks SYS_PTRACE".to_owned());
    }
    Some(last.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_says_is_told_in_words_for_a_container() {
        let told = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n";
        assert_eq!(reason(told).unwrap(), "py-spy may not read its processes: the container lacks SYS_PTRACE");
        assert_eq!(reason("one\n\n two \n").unwrap(), "two");
        assert_eq!(reason(&"x".repeat(4000)).unwrap().len(), LONGEST);
        assert_eq!(reason("\n"), None);
    }
}
