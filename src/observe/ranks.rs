//! Queries the ranks of a job if the user requests it: NCCL's RAS subsystem over a port-forward,
//! and stacks with `py-spy` or `gdb` in the containers. Each rank is queried once. A rank without a
//! response is reported, but is not treated as evidence.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::concurrent::OrderedConcurrent;
use gpuctl_cluster::{Connection, ExecRequest, Failure, SessionEnd, SessionStream};
use gpuctl_core::model::values::text::count;
use gpuctl_core::model::{Job, Pod, PodPhase};
use gpuctl_core::stats::logs::{ras, stacks};
use gpuctl_diagnosis::RankAnswers;

/// Data to read from the ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RankQueries {
    pub ras: bool,
    pub stacks: bool,
}

/// RAS's default port, see `NCCL_RAS_ADDR`.
const RAS_PORT: u16 = 28028;
/// Longer than RAS itself waits for processes that do not respond.
const RAS_TIMEOUT: Duration = Duration::from_secs(20);
/// Number of pods to try, because the first one may hang or not use NCCL.
const RAS_PODS: usize = 3;
/// Number of pods whose stacks are read in total and concurrently.
const MAX_STACK_PODS: usize = 64;
const MAX_CONCURRENT: usize = 16;
const STACKS_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of one response in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Number of reported reasons for missing responses, and the maximum length of a reason in
/// characters.
const MAX_REASONS: usize = 3;
const MAX_REASON_CHARS: usize = 160;

/// Prints the stacks of the container's Python processes that are ranks: processes that hold a GPU
/// or whose launcher has set a rank. Unsets the debuginfod variable, which makes `gdb` download
/// symbols.
const STACK_SCRIPT: &str = r#"unset DEBUGINFOD_URLS
tool=
command -v py-spy >/dev/null 2>&1 && tool=py-spy || { command -v gdb >/dev/null 2>&1 && tool=gdb; }
[ -n "$tool" ] || { echo 'neither py-spy nor gdb is in its image' >&2; exit 127; }
within=
command -v timeout >/dev/null 2>&1 && within='timeout 10'
code=0
for folder in /proc/[0-9]*; do
  process=${folder#/proc/}
  exe=$(readlink "$folder/exe" 2>/dev/null) || continue
  case "${exe##*/}" in python*|pypy*) ;; *) continue ;; esac
  case "$(tr '\0' ' ' 2>/dev/null < "$folder/environ")" in
    RANK=*|LOCAL_RANK=*|*' RANK='*|*' LOCAL_RANK='*) ;;
    *) case "$(ls -l "$folder/fd" 2>/dev/null)" in */dev/nvidia[0-9]*|*/dev/kfd*) ;; *) continue ;; esac ;;
  esac
  if [ "$tool" = py-spy ]; then $within py-spy dump --pid "$process" || code=$?
  else
    said=$($within gdb -p "$process" -batch -ex 'thread apply all bt 16' 2>&1)
    case "$said" in *'#0'*) echo "Process $process:"; echo "$said" ;; *) echo "$said" >&2; code=1 ;; esac
  fi
done
exit $code"#;

/// Queries the running ranks of a job for RAS reports and stacks.
pub(crate) async fn query_ranks(
    connection: &Connection,
    job: &Job,
    queries: RankQueries,
) -> RankAnswers {
    let mut answers = RankAnswers::default();
    let current = job.current_pods();
    let pods: Vec<&Pod> = current
        .iter()
        .filter(|pod| pod.phase == PodPhase::Running && !pod.deleting)
        .copied()
        .collect();
    if pods.len() > MAX_STACK_PODS && queries.stacks {
        answers.silent.push(format!(
            "stacks of {}: only {MAX_STACK_PODS} pods are queried",
            count((pods.len() - MAX_STACK_PODS) as u64, "more pod")
        ));
    }
    if queries.ras {
        match ras(connection, job, &pods).await {
            Ok(report) => answers.ras = Some(report),
            Err(reason) => answers.silent.push(format!("RAS of NCCL: {reason}")),
        }
    }
    if queries.stacks {
        read_stacks(connection, job, &pods, &mut answers).await;
        answers.unread += current.len() - pods.len().min(MAX_STACK_PODS);
    }
    answers
}

/// Reads the stacks of the pods and groups equal ones.
async fn read_stacks(connection: &Connection, job: &Job, pods: &[&Pod], answers: &mut RankAnswers) {
    let dumps = pods
        .iter()
        .take(MAX_STACK_PODS)
        .map(|pod| async move { (*pod, dump(connection, job, pod).await) });
    let dumps = OrderedConcurrent::new(dumps, MAX_CONCURRENT).all().await;
    let mut stacks = Vec::new();
    let mut failures: Vec<(String, Vec<String>)> = Vec::new();
    for (pod, (text, failure)) in dumps {
        let rank_name = pod
            .rank
            .map_or_else(|| pod.name.clone(), |rank| format!("rank {rank}"));
        // An incomplete dump can still contain stacks, so report them together with the failure.
        let parsed = stacks::read(&text);
        let (is_empty, has_several) = (parsed.is_empty(), parsed.len() > 1);
        let name = |stack: &stacks::Stack| {
            if has_several {
                format!("{rank_name} (process {})", stack.process)
            } else {
                rank_name.clone()
            }
        };
        stacks.extend(parsed.into_iter().map(|stack| (name(&stack), stack)));
        let Some(cause) = failure.or_else(|| {
            is_empty.then(|| "no Python process that is a rank or holds a GPU".to_owned())
        }) else {
            continue;
        };
        answers.unread += 1;
        match failures.iter_mut().find(|(other, _)| *other == cause) {
            Some((_, ranks)) => ranks.push(rank_name),
            None => failures.push((cause, vec![rank_name])),
        }
    }
    answers.stacks = Some(stacks::group(stacks));
    answers.silent.extend(reasons(failures));
}

/// Lists the first reasons for missing responses, and the number of further ones.
fn reasons(failures: Vec<(String, Vec<String>)>) -> Vec<String> {
    let hidden_count = failures.len().saturating_sub(MAX_REASONS);
    let first = failures
        .into_iter()
        .take(MAX_REASONS)
        .map(|(cause, ranks)| match ranks.as_slice() {
            [rank] => format!("stack of {rank}: {cause}"),
            ranks => format!("stacks of {}: {cause}", count(ranks.len() as u64, "pod")),
        });
    let summary = (hidden_count > 0).then(|| {
        format!(
            "other stacks: {}",
            count(hidden_count as u64, "further reason")
        )
    });
    first.chain(summary).collect()
}

/// Why NCCL's RAS subsystem returned no report.
#[derive(Debug, thiserror::Error)]
enum RasError {
    #[error("no pod of the job is running")]
    NoPod,
    #[error("{0} does not accept connections on port {RAS_PORT} ({1})")]
    Unreachable(String, Failure),
    #[error("{0} did not answer within {seconds} s", seconds = RAS_TIMEOUT.as_secs())]
    TimedOut(String),
    #[error("the response of {0} on port {RAS_PORT} is not from NCCL 2.24 or later")]
    NotRas(String),
    #[error("{0}: {1}")]
    Unread(String, std::io::Error),
}

/// Queries the first pods in turn. Returns the first report that reaches most processes, or else
/// the one with the fewest unreachable processes.
async fn ras(
    connection: &Connection,
    job: &Job,
    pods: &[&Pod],
) -> Result<ras::RasReport, RasError> {
    let mut last_error = RasError::NoPod;
    let mut best: Option<ras::RasReport> = None;
    for pod in pods.iter().take(RAS_PODS) {
        match ras_of(connection, job, pod).await {
            Ok(report) if report.reaches_most() => return Ok(report),
            Ok(report) => {
                if best
                    .as_ref()
                    .is_none_or(|other| report.unreached() < other.unreached())
                {
                    best = Some(report);
                }
            }
            Err(error) => last_error = error,
        }
    }
    best.ok_or(last_error)
}

async fn ras_of(connection: &Connection, job: &Job, pod: &Pod) -> Result<ras::RasReport, RasError> {
    let name = || pod.name.clone();
    let request = connection.metrics().with_port_forward(
        &job.namespace,
        &pod.name,
        RAS_PORT,
        send_ras_command,
    );
    let answer = tokio::time::timeout(RAS_TIMEOUT, request)
        .await
        .map_err(|_| RasError::TimedOut(name()))?
        .map_err(|failure| RasError::Unreachable(name(), failure))?
        .map_err(|error| RasError::Unread(name(), error))?;
    ras::read(&answer).ok_or_else(|| RasError::NotRas(name()))
}

/// Sends RAS's status command and reads the response to its end.
async fn send_ras_command(address: String) -> std::io::Result<String> {
    // The port-forward returns a URL, but RAS uses a text protocol over plain TCP. NCCL's
    // documentation sends the same command with `nc`.
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await?;
    stream.write_all(b"verbose status\n").await?;
    let mut response = Vec::new();
    stream
        .take(MAX_RESPONSE_BYTES as u64)
        .read_to_end(&mut response)
        .await?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// Runs the stack script in a container. Returns the output, with a reason if the output is
/// incomplete.
async fn dump(connection: &Connection, job: &Job, pod: &Pod) -> (String, Option<String>) {
    let command = ["sh", "-c", STACK_SCRIPT].map(ToOwned::to_owned);
    let request = ExecRequest {
        namespace: &job.namespace,
        pod: &pod.name,
        container: pod.own_container(),
        command: Some(&command),
        stdin: false,
        tty: false,
    };
    let (mut output, mut stderr) = (Vec::new(), Vec::new());
    let running = async {
        let session = connection.sessions().start(&request).await?;
        let (_sender, input) = mpsc::channel(1);
        let end = session.run(input, |stream, bytes| {
            let buffer = if stream == SessionStream::Err {
                &mut stderr
            } else {
                &mut output
            };
            buffer.extend_from_slice(bytes);
            // Returning `false` ends the session, because a container could print endlessly.
            output.len() + stderr.len() < MAX_RESPONSE_BYTES
        });
        Ok::<SessionEnd, Failure>(end.await)
    };
    let end = tokio::time::timeout(STACKS_TIMEOUT, running).await;
    let failure = match end {
        Ok(Ok(SessionEnd::Exit(0))) => None,
        Ok(Ok(SessionEnd::Exit(code))) => Some(
            reason(&String::from_utf8_lossy(&stderr))
                .unwrap_or_else(|| format!("exit code {code}")),
        ),
        Ok(Ok(SessionEnd::Unread)) => Some(format!(
            "the stacks exceed {} MiB",
            MAX_RESPONSE_BYTES >> 20
        )),
        Ok(Ok(SessionEnd::Broken)) => Some("lost the connection".to_owned()),
        Ok(Ok(SessionEnd::Refused(message))) => Some(shortened(&message)),
        Ok(Err(failure)) => Some(shortened(&failure.to_string())),
        Err(_) => Some(format!("no response within {} s", STACKS_TIMEOUT.as_secs())),
    };
    (String::from_utf8_lossy(&output).into_owned(), failure)
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}

/// Returns the reason for a tool's failure in a container: a missing capability, or else the last
/// line of stderr.
fn reason(errors: &str) -> Option<String> {
    const DENIED: [&str; 3] = ["permission denied", "operation not permitted", "ptrace"];
    let mut lines = errors
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    // The tools suggest `sudo`, which does not help in a container.
    if lines.clone().any(|line| {
        DENIED
            .iter()
            .any(|word| line.to_ascii_lowercase().contains(word))
    }) {
        return Some("cannot read its processes: the container lacks SYS_PTRACE".to_owned());
    }
    lines.next_back().map(shortened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_tool_errors_in_terms_of_containers() {
        let stderr = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n";
        let denied = "cannot read its processes: the container lacks SYS_PTRACE";
        assert_eq!(reason(stderr).unwrap(), denied);
        assert_eq!(
            reason("Could not attach to process.\nptrace: Operation not permitted.\nNo stack.\n")
                .unwrap(),
            denied
        );
        assert_eq!(reason("one\n\n two \n").unwrap(), "two");
        assert_eq!(reason(&"x".repeat(4000)).unwrap().len(), MAX_REASON_CHARS);
        assert_eq!(reason("\n"), None);
    }
}
