//! Forwards a local port to a port of a job's pod. Every connection looks up the pod again, so that
//! connections made after a replacement reach the new pod.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::SinkExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use gpuctl_core::model::{Job, JobKind, Pod, PodPhase, State};

use crate::transport::socket::{PING, Socket, framed};
use crate::{Failure, Wanted, handles::SessionsApi};

/// The pod and port to forward to.
#[derive(Clone, Debug)]
pub struct Route {
    pub namespace: String,
    pub job: String,
    pub kind: JobKind,
    /// Only this pod or this rank; by default the first ready pod.
    pub pod: Option<String>,
    pub rank: Option<u32>,
    pub port: u16,
}

/// An event to report to the user.
#[derive(Clone, Debug)]
pub enum RouteEvent {
    /// New connections go to this pod.
    Pod(String),
    /// No pod accepts connections, with the reason; connections wait.
    Waiting(String),
    Failed(String),
}
/// Maximum time that a connection waits for a pod.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum silence of the server after the client has ended its requests. A client that only
/// half-closed its socket cannot be distinguished from one that left.
const LAST_WORDS: Duration = Duration::from_secs(20);

impl Route {
    fn wants(&self, pod: &Pod) -> bool {
        let meant = self.pod.as_ref().is_none_or(|name| &pod.name == name)
            && self.rank.is_none_or(|rank| pod.rank == Some(rank));
        meant && pod.phase == PodPhase::Running && !pod.deleting
    }

    /// Selects the pod to use. Prefers ready pods, but accepts a pod that is only running: a
    /// notebook can be opened before it is ready.
    fn pod_of(&self, job: &Job) -> Option<String> {
        let mut pods: Vec<&Pod> = job
            .current_pods()
            .into_iter()
            .filter(|pod| self.wants(pod))
            .collect();
        if self.pod.is_none() {
            pods.retain(|pod| Job::answers(pod));
        }
        pods.sort_by_key(|pod| !pod.ready);
        pods.first().map(|pod| pod.name.clone())
    }
}

impl SessionsApi<'_> {
    /// Whether a pod accepts connections now. Also fails early if the user may not open them.
    pub async fn try_route(self, route: &Route, job: &Job) -> Result<bool, Failure> {
        match route.pod_of(job) {
            Some(pod) => self
                .tunnel(&route.namespace, &pod, route.port)
                .await
                .map(|_| true),
            None => Ok(false),
        }
    }

    /// Carries connections of `listener` until the job no longer exists, then returns its last
    /// state.
    pub async fn serve(
        self,
        route: &Route,
        listener: &TcpListener,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<Option<State>, Failure> {
        let current = RefCell::new(None::<String>);
        let carrying = async {
            let mut carried = FuturesUnordered::new();
            loop {
                tokio::select! {
                    // An error such as too many open files is temporary, and open connections
                    // continue.
                    accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                        carried.push(self.carry(route, socket, &current, sink));
                    },
                    Some(result) = carried.next(), if !carried.is_empty() => result?,
                }
            }
        };
        tokio::select! {
            ended = self.look(route, &current, sink) => ended,
            failed = carrying => failed,
        }
    }

    /// Keeps `current` at a pod that accepts connections, until the job no longer exists.
    async fn look(
        self,
        route: &Route,
        current: &RefCell<Option<String>>,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<Option<State>, Failure> {
        let wanted = Wanted {
            kind: Some(route.kind),
            ..Wanted::one(&route.namespace, &route.job)
        };
        let (mut told, mut last) = (None, None);
        let mut bell = self.0.doorbell(&route.namespace, &route.job);
        loop {
            match self.0.jobs().list(&wanted).await {
                Ok(selection) => {
                    let Some(job) = selection
                        .jobs
                        .into_iter()
                        .next()
                        .filter(|job| !job.deleting)
                    else {
                        return Ok(last);
                    };
                    let (state, pod) = (State::from_job(&job), route.pod_of(&job));
                    if pod.is_some() && *current.borrow() != pod {
                        sink.borrow_mut()(RouteEvent::Pod(pod.clone().unwrap_or_default()));
                        told = None;
                    }
                    if pod.is_none() && told.as_ref() != Some(&state) {
                        let why = state
                            .message
                            .clone()
                            .or(state.reason.clone())
                            .unwrap_or_default();
                        sink.borrow_mut()(RouteEvent::Waiting(format!(
                            "{}: {} {why}",
                            job.name, state.status
                        )));
                        told = Some(state.clone());
                    }
                    current.replace(pod);
                    if state.status.is_final() {
                        return Ok(Some(state));
                    }
                    last = Some(state);
                }
                // Open connections continue; the next poll looks for the pod again.
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
            bell.news(None).await;
        }
    }

    /// Carries one connection. Returns an error only for a failure that affects all connections,
    /// such as missing rights.
    async fn carry(
        self,
        route: &Route,
        local: TcpStream,
        current: &RefCell<Option<String>>,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut failed = None;
        while Instant::now() < deadline {
            let pod = current.borrow().clone();
            if let Some(pod) = pod {
                match self.tunnel(&route.namespace, &pod, route.port).await {
                    Ok(tunnel) => {
                        if let Some(error) = tunnel.carry(local).await {
                            sink.borrow_mut()(RouteEvent::Failed(format!("{pod}: {error}")));
                        }
                        return Ok(());
                    }
                    Err(failure) if matches!(failure.code(), Some(401 | 403)) => {
                        return Err(failure);
                    }
                    Err(failure) => failed = Some(failure),
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let why = failed.map_or_else(
            || "no pod accepts connections".to_owned(),
            |failure| failure.to_string(),
        );
        sink.borrow_mut()(RouteEvent::Failed(why));
        Ok(())
    }

    /// Carries connections of `listener` to a port of a pod, until one fails.
    pub(crate) async fn carry_to(
        self,
        listener: &TcpListener,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Failure {
        let mut carried = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                    carried.push(async move {
                        let tunnel = self.tunnel(namespace, pod, port).await?;
                        Ok::<_, Failure>(tunnel.carry(socket).await)
                    });
                },
                Some(result) = carried.next(), if !carried.is_empty() => match result {
                    Ok(None) => {}
                    Ok(Some(told)) => return Failure::Unreachable { server: format!("{namespace}/{pod}"), cause: told },
                    Err(failure) => return failure,
                },
            }
        }
    }

    async fn tunnel(self, namespace: &str, pod: &str, port: u16) -> Result<Tunnel, Failure> {
        let socket = self
            .0
            .upgrade(&format!(
                "/api/v1/namespaces/{namespace}/pods/{pod}/portforward?ports={port}"
            ))
            .await?;
        Ok(Tunnel { socket })
    }
}

/// Waits until nothing has arrived for a while after the local program has ended its requests.
async fn silence(has_ended: &Cell<bool>, last: &Cell<Instant>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if has_ended.get() && last.get().elapsed() >= LAST_WORDS {
            return;
        }
    }
}

/// One connection to a port of a pod.
struct Tunnel {
    socket: Socket,
}

/// Channels of the first port; this code requests only one. The first message on each channel holds
/// only the port number (pkg/kubelet/cri/streaming/portforward/websocket.go).
const DATA: u8 = 0;
const ERROR: u8 = 1;

impl Tunnel {
    /// Carries both directions until they end. Returns the node's error message if the port does
    /// not respond.
    async fn carry(self, mut local: TcpStream) -> Option<String> {
        let Socket {
            mut send,
            mut receive,
            ..
        } = self.socket;
        let (mut from_local, mut to_local) = local.split();
        let last = Cell::new(Instant::now());
        let down = async {
            let (mut announced, mut error_announced) = (false, false);
            while let Some((channel, content)) = receive.next().await {
                last.set(Instant::now());
                match channel {
                    DATA if std::mem::replace(&mut announced, true) => {
                        let written = to_local.write_all(&content).await;
                        if written.is_err() {
                            break;
                        }
                    }
                    ERROR if std::mem::replace(&mut error_announced, true) => {
                        let _ = to_local.shutdown().await;
                        return Some(String::from_utf8_lossy(&content).trim().to_owned());
                    }
                    _ => {}
                }
            }
            let _ = to_local.shutdown().await;
            None
        };
        let said = Cell::new(false);
        let up = async {
            let mut pings = tokio::time::interval(PING);
            let mut bytes = vec![0; 64 << 10];
            loop {
                let message = tokio::select! {
                    read = from_local.read(&mut bytes), if !said.get() => match read {
                        Ok(count @ 1..) => framed(DATA, &bytes[..count]),
                        // The protocol cannot close one direction only: ending this one would also
                        // end the other, and the response may still arrive.
                        _ => {
                            said.set(true);
                            last.set(Instant::now());
                            continue;
                        }
                    },
                    _ = pings.tick() => Message::Ping(Bytes::new()),
                };
                if send.send(message).await.is_err() {
                    // The other direction reports how the connection ended.
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut down = pin!(down);
        tokio::select! {
            error = &mut down => error,
            () = up => None,
            () = silence(&said, &last) => None,
        }
    }
}
