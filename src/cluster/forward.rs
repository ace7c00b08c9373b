//! Leads a local port to a port of a job's pod. Each connection finds its way anew, so that one made after the pod was
//! replaced reaches the new pod, and one made meanwhile waits for it.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::model::{Job, Pod, PodPhase, State};

use super::{Connection, Failure, Wanted};

/// Which pod and port are meant.
#[derive(Clone, Debug)]
pub struct Route {
    pub namespace: String,
    pub job: String,
    /// Only this pod, or only this rank; the first that is ready otherwise.
    pub pod: Option<String>,
    pub rank: Option<u32>,
    pub port: u16,
}

/// Something to tell.
#[derive(Clone, Debug)]
pub enum RouteEvent {
    /// Connections go to this pod from now on.
    Pod(String),
    /// No pod can take them, and why; they wait.
    Waiting(String),
    /// A connection failed.
    Failed(String),
}

const LOOK: Duration = Duration::from_secs(1);
/// How long a connection waits for a pod that takes it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may be silent after its client has said all, or is gone: the two look alike.
const LAST_WORDS: Duration = Duration::from_secs(20);

impl Route {
    fn wants(&self, pod: &Pod) -> bool {
        let meant = self.pod.as_ref().is_none_or(|name| &pod.name == name) && self.rank.is_none_or(|rank| pod.rank == Some(rank));
        meant && pod.phase == PodPhase::Running && !pod.deleting
    }

    /// The pod to use: a ready one before one that only runs, for a notebook may be opened while it is not ready.
    fn pod_of(&self, job: &Job) -> Option<String> {
        let mut pods: Vec<&Pod> = job.current_pods().into_iter().filter(|pod| self.wants(pod)).collect();
        pods.sort_by_key(|pod| !pod.ready);
        pods.first().map(|pod| pod.name.clone())
    }
}

impl Connection {
    /// Carries connections of `listener` until the job is gone; returns its last state then.
    pub async fn serve(
        &self,
        route: &Route,
        listener: &TcpListener,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) -> Result<Option<State>, Failure> {
        let current = RefCell::new(None::<String>);
        let mut carried = FuturesUnordered::new();
        let mut looking = tokio::time::interval(LOOK);
        looking.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut told, mut last) = (None, None);
        let wanted = Wanted::one(&route.namespace, &route.job);
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => carried.push(self.carry(route, socket, &current, sink)),
                    // Too many open files; it passes.
                    Err(_) => tokio::time::sleep(LOOK).await,
                },
                Some(()) = carried.next(), if !carried.is_empty() => {}
                _ = looking.tick() => match self.jobs(&wanted).await {
                    Ok(selection) => {
                        let Some(job) = selection.jobs.into_iter().next().filter(|job| !job.deleting) else { return Ok(last) };
                        let state = State::of(&job);
                        let pod = route.pod_of(&job);
                        if pod.is_some() && *current.borrow() != pod {
                            sink.borrow_mut()(RouteEvent::Pod(pod.clone().unwrap_or_default()));
                            told = None;
                        }
                        if pod.is_none() && told.as_ref() != Some(&state) {
                            let why = state.message.clone().or(state.reason.clone()).unwrap_or_default();
                            sink.borrow_mut()(RouteEvent::Waiting(format!("{} is {} {why}", job.name, state.status)));
                            told = Some(state.clone());
                        }
                        current.replace(pod);
                        if state.status.is_final() {
                            return Ok(Some(state));
                        }
                        last = Some(state);
                    }
                    // What runs goes on; the pod is asked for again in a moment.
                    Err(failure) if failure.is_transient() => {}
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    async fn carry(
        &self,
        route: &Route,
        local: TcpStream,
        current: &RefCell<Option<String>>,
        sink: &RefCell<impl FnMut(RouteEvent)>,
    ) {
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
                        return;
                    }
                    Err(failure) if failure.is_transient() || failure.is_not_found() => failed = Some(failure),
                    Err(failure) => {
                        failed = Some(failure);
                        break;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let why = failed.map_or_else(|| "no pod takes connections".to_owned(), |failure| failure.to_string());
        sink.borrow_mut()(RouteEvent::Failed(why));
    }

    async fn tunnel(&self, namespace: &str, pod: &str, port: u16) -> Result<Tunnel, Failure> {
        loop {
            let (client, used) = self.streaming();
            let pods: Api<KubernetesPod> = Api::namespaced(client, namespace);
            match pods.portforward(pod, &[port]).await.map_err(|error| self.upgrade_failure(error)) {
                Ok(forwarder) => return Ok(Tunnel { forwarder, port }),
                Err(failure) if failure.code() == Some(401) && self.renew(used).await? => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// One connection to a port of a pod.
struct Tunnel {
    forwarder: kube::api::Portforwarder,
    port: u16,
}

impl Tunnel {
    /// Carries both directions to their end. Returns what the node said when the port does not answer.
    async fn carry(mut self, mut local: TcpStream) -> Option<String> {
        let error = self.forwarder.take_error(self.port)?;
        let remote = self.forwarder.take_stream(self.port)?;
        let (mut from_pod, mut to_pod) = tokio::io::split(remote);
        let (mut from_local, mut to_local) = local.split();
        let last = Cell::new(Instant::now());
        let mut down = pin!(async {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(count) = from_pod.read(&mut bytes).await {
                last.set(Instant::now());
                if count == 0 || to_local.write_all(&bytes[..count]).await.is_err() {
                    break;
                }
            }
            let _ = to_local.shutdown().await;
        });
        let mut up = pin!(async {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(count) = from_local.read(&mut bytes).await {
                if count == 0 || to_pod.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
        });
        let mut error = pin!(error);
        let mut said = false;
        loop {
            tokio::select! {
                () = &mut down => return None,
                // Ending this direction would end the other with it: the answer may still come.
                () = &mut up, if !said => {
                    said = true;
                    last.set(Instant::now());
                }
                () = tokio::time::sleep_until(last.get() + LAST_WORDS), if said => {
                    if last.get().elapsed() >= LAST_WORDS {
                        return None;
                    }
                }
                told = &mut error => if let Some(text) = told {
                    return Some(text.trim().to_owned());
                } else {
                    down.await;
                    return None;
                },
            }
        }
    }
}
