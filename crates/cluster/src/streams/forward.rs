//! Forwards a local port to a port of a job's pod. Each connection looks up the pod again, so that
//! it reaches the new pod after a replacement.

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
use crate::{Failure, JobFilter, handles::SessionsApi};

/// The job's pod and port that connections are forwarded to.
#[derive(Clone, Debug)]
pub struct Route {
    pub namespace: String,
    pub job: String,
    pub kind: JobKind,
    /// Forwards only to this pod or rank. The default is the first ready pod.
    pub pod: Option<String>,
    pub rank: Option<u32>,
    pub port: u16,
}

/// A change that the command reports to the user.
#[derive(Clone, Debug)]
pub enum RouteEvent {
    /// New connections are forwarded to this pod.
    Pod(String),
    /// No pod accepts connections for this reason, so new connections wait.
    Waiting(String),
    Failed(String),
}
/// How long a connection waits for a pod.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the server may stay silent after the client has finished sending. The socket does not
/// show whether the client still reads or has disconnected.
const MAX_SILENCE: Duration = Duration::from_secs(20);

impl Route {
    fn accepts(&self, pod: &Pod) -> bool {
        let matches = self.pod.as_ref().is_none_or(|name| &pod.name == name)
            && self.rank.is_none_or(|rank| pod.rank == Some(rank));
        matches && pod.phase == PodPhase::Running && !pod.deleting
    }

    /// Returns a pod of the job. Prefers ready pods, but accepts a running one, because a notebook
    /// can be opened before it is ready.
    fn pod_of(&self, job: &Job) -> Option<String> {
        let mut pods: Vec<&Pod> = job
            .current_pods()
            .into_iter()
            .filter(|pod| self.accepts(pod))
            .collect();
        if self.pod.is_none() {
            pods.retain(|pod| Job::answers(pod));
        }
        pods.sort_by_key(|pod| !pod.ready);
        pods.first().map(|pod| pod.name.clone())
    }
}

impl SessionsApi<'_> {
    /// Returns true if a pod accepts connections now. Fails if the user may not forward ports.
    pub async fn try_route(self, route: &Route, job: &Job) -> Result<bool, Failure> {
        match route.pod_of(job) {
            Some(pod) => self
                .tunnel(&route.namespace, &pod, route.port)
                .await
                .map(|_| true),
            None => Ok(false),
        }
    }

    /// Forwards connections from `listener` until the job is deleted, and returns the job's last
    /// state.
    pub async fn serve(
        self,
        route: &Route,
        listener: &TcpListener,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<Option<State>, Failure> {
        let current = RefCell::new(None::<String>);
        let forwarding = async {
            let mut connections = FuturesUnordered::new();
            loop {
                tokio::select! {
                    // Ignore errors such as too many open files, which are temporary.
                    accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                        connections.push(self.carry(route, socket, &current, sink));
                    },
                    Some(result) = connections.next(), if !connections.is_empty() => result?,
                }
            }
        };
        tokio::select! {
            ended = self.track_pod(route, &current, sink) => ended,
            failed = forwarding => failed,
        }
    }

    /// Keeps `current` set to a pod that accepts connections until the job is deleted.
    async fn track_pod(
        self,
        route: &Route,
        current: &RefCell<Option<String>>,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<Option<State>, Failure> {
        let filter = JobFilter {
            kind: Some(route.kind),
            ..JobFilter::by_name(&route.namespace, &route.job)
        };
        let (mut noted, mut last_state) = (None, None);
        let mut watch = self.0.watch_job(&route.namespace, &route.job);
        loop {
            match self.0.jobs().list(&filter).await {
                Ok(selection) => {
                    let Some(job) = selection
                        .jobs
                        .into_iter()
                        .next()
                        .filter(|job| !job.deleting)
                    else {
                        return Ok(last_state);
                    };
                    let (state, pod) = (State::from_job(&job), route.pod_of(&job));
                    if pod.is_some() && *current.borrow() != pod {
                        sink.borrow_mut()(RouteEvent::Pod(pod.clone().unwrap_or_default()));
                        noted = None;
                    }
                    if pod.is_none() && noted.as_ref() != Some(&state) {
                        let details = state
                            .message
                            .clone()
                            .or(state.reason.clone())
                            .unwrap_or_default();
                        sink.borrow_mut()(RouteEvent::Waiting(format!(
                            "{}: {} {details}",
                            job.name, state.status
                        )));
                        noted = Some(state.clone());
                    }
                    current.replace(pod);
                    if state.status.is_final() {
                        return Ok(Some(state));
                    }
                    last_state = Some(state);
                }
                // Keep open connections, and look for the pod again at the next poll.
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
            watch.changed(None).await;
        }
    }

    /// Forwards one connection. Fails only if no connection can succeed, for example because of
    /// missing permissions.
    async fn carry(
        self,
        route: &Route,
        client: TcpStream,
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
                        if let Some(error) = tunnel.carry(client).await {
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
        let message = failed.map_or_else(
            || "no pod accepts connections".to_owned(),
            |failure| failure.to_string(),
        );
        sink.borrow_mut()(RouteEvent::Failed(message));
        Ok(())
    }

    /// Forwards connections from `listener` to a port of a pod until one fails.
    pub(crate) async fn carry_to(
        self,
        listener: &TcpListener,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Failure {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((socket, _)) = accepted {
                    connections.push(async move {
                        let tunnel = self.tunnel(namespace, pod, port).await?;
                        Ok::<_, Failure>(tunnel.carry(socket).await)
                    });
                },
                Some(result) = connections.next(), if !connections.is_empty() => match result {
                    Ok(None) => {}
                    Ok(Some(cause)) => return Failure::Unreachable { server: format!("{namespace}/{pod}"), cause },
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

/// Waits until nothing has arrived for `MAX_SILENCE` after the local program has finished sending.
async fn silence(has_ended: &Cell<bool>, last_read: &Cell<Instant>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if has_ended.get() && last_read.get().elapsed() >= MAX_SILENCE {
            return;
        }
    }
}

/// A connection through the API server to a port of a pod.
struct Tunnel {
    socket: Socket,
}

/// Channels of the first and only requested port. The first message on each channel contains only
/// the port number (pkg/kubelet/cri/streaming/portforward/websocket.go).
const DATA: u8 = 0;
const ERROR: u8 = 1;

impl Tunnel {
    /// Transfers data until both directions have ended. Returns the kubelet's error message if the
    /// port does not respond.
    async fn carry(self, mut client: TcpStream) -> Option<String> {
        let Socket {
            mut send,
            mut receive,
            ..
        } = self.socket;
        let (mut client_read, mut client_write) = client.split();
        let last_read = Cell::new(Instant::now());
        let from_pod = async {
            let (mut data_port_seen, mut error_port_seen) = (false, false);
            while let Some((channel, content)) = receive.next().await {
                last_read.set(Instant::now());
                match channel {
                    DATA if std::mem::replace(&mut data_port_seen, true) => {
                        let written = client_write.write_all(&content).await;
                        if written.is_err() {
                            break;
                        }
                    }
                    ERROR if std::mem::replace(&mut error_port_seen, true) => {
                        let _ = client_write.shutdown().await;
                        return Some(String::from_utf8_lossy(&content).trim().to_owned());
                    }
                    _ => {}
                }
            }
            let _ = client_write.shutdown().await;
            None
        };
        let client_closed = Cell::new(false);
        let to_pod = async {
            let mut pings = tokio::time::interval(PING);
            let mut bytes = vec![0; 64 << 10];
            loop {
                let message = tokio::select! {
                    read = client_read.read(&mut bytes), if !client_closed.get() => match read {
                        Ok(count @ 1..) => framed(DATA, &bytes[..count]),
                        // The protocol cannot close only one direction, and closing both would lose
                        // the response.
                        _ => {
                            client_closed.set(true);
                            last_read.set(Instant::now());
                            continue;
                        }
                    },
                    _ = pings.tick() => Message::Ping(Bytes::new()),
                };
                if send.send(message).await.is_err() {
                    // Wait for the reading direction, which reports how the connection ended.
                    std::future::pending::<()>().await;
                }
            }
        };
        let mut from_pod = pin!(from_pod);
        tokio::select! {
            error = &mut from_pod => error,
            () = to_pod => None,
            () = silence(&client_closed, &last_read) => None,
        }
    }
}
