//! Serves text pages over HTTP for `score --watch --listen`. The whole network may be able to
//! connect, so each peer can use only some of the connections. A page with `is_always_served` is
//! available even when all connections are in use.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Response to a request for a path.
#[derive(Clone, Debug)]
pub(crate) struct HttpPage {
    pub code: u16,
    pub media: &'static str,
    pub text: Bytes,
    /// Whether to serve the page for any `Host`, and on connections beyond the limits.
    pub is_always_served: bool,
}

/// Pages by path.
pub(crate) type Pages = Rc<RefCell<BTreeMap<&'static str, HttpPage>>>;

/// Timeout for reading a request's headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of a request's headers in bytes.
const HEADER_BYTES: usize = 16 << 10;
/// Timeout for a connection, including all its requests.
const OPEN_WITHIN: Duration = Duration::from_secs(120);
/// Timeout for a connection while more than three quarters of the connections are in use.
const BRIEF: Duration = Duration::from_secs(10);
/// Timeout for a connection beyond the limits, which serves a single request.
const SPARE_WITHIN: Duration = Duration::from_secs(3);
/// Maximum number of connections with access to all pages.
const MOST: usize = 64;
/// Maximum number of connections with access to all pages per peer.
const MOST_PER_PEER: usize = 16;
/// Maximum number of connections beyond the limits. A further connection replaces the oldest one of
/// the peer with the most connections.
const SPARE: usize = 32;

pub(crate) struct PageServer {
    listener: TcpListener,
    pages: Pages,
    /// Allowed values of `Host`, in addition to addresses and local names.
    hosts: Rc<[String]>,
}

impl PageServer {
    /// Binds `HOST:PORT`. Port 0 selects a free port.
    pub(crate) async fn open(
        address: &str,
        hosts: &[String],
        pages: Pages,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| anyhow!("cannot listen on {address}: {error}"))?;
        Ok(Self {
            listener,
            pages,
            hosts: hosts.into(),
        })
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers requests until the future is dropped.
    pub(crate) async fn run(self) {
        let connections = Rc::new(RefCell::new(Connections::default()));
        let local_set = LocalSet::new();
        let accept = async {
            loop {
                let Ok((stream, peer)) = self.listener.accept().await else {
                    // The process has no free file descriptors. Try again after some connections
                    // may have ended.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                };
                let (slot, replaced) = connections.borrow_mut().admit(peer.ip().to_canonical());
                let (pages, hosts, connections) = (
                    Rc::clone(&self.pages),
                    Rc::clone(&self.hosts),
                    Rc::clone(&connections),
                );
                tokio::task::spawn_local(async move {
                    tokio::select! {
                        () = serve(stream, slot, &pages, &hosts) => {}
                        _ = replaced => {}
                    }
                    connections.borrow_mut().leave(slot);
                });
            }
        };
        local_set.run_until(accept).await;
    }
}

/// Limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConnectionSlot {
    number: u64,
    is_spare: bool,
    time_limit: Duration,
}

/// An open connection.
struct OpenConnection {
    peer: IpAddr,
    /// Closes the connection when dropped.
    _end: oneshot::Sender<Infallible>,
}

/// Open connections, by number and thus by age.
#[derive(Default)]
struct Connections {
    count: u64,
    regular: BTreeMap<u64, OpenConnection>,
    spare: BTreeMap<u64, OpenConnection>,
}

impl Connections {
    /// Admits a connection. The receiver resolves when a later connection replaces it.
    fn admit(&mut self, peer: IpAddr) -> (ConnectionSlot, oneshot::Receiver<Infallible>) {
        let (end, replaced) = oneshot::channel();
        let peer_count = self
            .regular
            .values()
            .filter(|connection| connection.peer == peer)
            .count();
        if self.regular.len() >= MOST && peer_count < MOST_PER_PEER {
            // A peer with few connections takes precedence over the peer with the most.
            let (largest, oldest) = busiest_peer(&self.regular);
            if peer_count + 1 < largest {
                self.regular.remove(&oldest);
            }
        }
        let is_spare = self.regular.len() >= MOST || peer_count >= MOST_PER_PEER;
        if is_spare && self.spare.len() >= SPARE {
            let (_, oldest) = busiest_peer(&self.spare);
            self.spare.remove(&oldest);
        }
        self.count += 1;
        let connection = OpenConnection { peer, _end: end };
        let places = if is_spare {
            &mut self.spare
        } else {
            &mut self.regular
        };
        places.insert(self.count, connection);
        let time_limit = match (is_spare, self.regular.len() > MOST / 4 * 3) {
            (true, _) => SPARE_WITHIN,
            (false, true) => BRIEF,
            (false, false) => OPEN_WITHIN,
        };
        (
            ConnectionSlot {
                number: self.count,
                is_spare,
                time_limit,
            },
            replaced,
        )
    }

    fn leave(&mut self, slot: ConnectionSlot) {
        let places = if slot.is_spare {
            &mut self.spare
        } else {
            &mut self.regular
        };
        places.remove(&slot.number);
    }
}

/// Returns the highest number of connections of one peer, and that peer's oldest connection.
fn busiest_peer(connections: &BTreeMap<u64, OpenConnection>) -> (usize, u64) {
    let mut by_peer: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
    for (number, connection) in connections {
        by_peer.entry(connection.peer).or_insert((0, *number)).0 += 1;
    }
    by_peer
        .into_values()
        .max_by_key(|(count, oldest)| (*count, u64::MAX - oldest))
        .unwrap_or_default()
}

async fn serve(stream: TcpStream, slot: ConnectionSlot, pages: &Pages, hosts: &[String]) {
    let answer = service_fn(|request: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(answer(
            &request,
            pages,
            hosts,
            slot.is_spare,
        )))
    });
    let mut connection = http1::Builder::new();
    connection
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES);
    connection.keep_alive(!slot.is_spare);
    let serving = connection.serve_connection(TokioIo::new(stream), answer);
    // Ignore errors, because clients may disconnect at any time.
    let _ = tokio::time::timeout(slot.time_limit, serving).await;
}

fn answer(
    request: &Request<Incoming>,
    pages: &Pages,
    hosts: &[String],
    is_spare: bool,
) -> Response<Full<Bytes>> {
    let pages = pages.borrow();
    let page = pages.get(request.uri().path());
    let is_always_served = page.is_some_and(|page| page.is_always_served);
    let page = match (request.method(), page) {
        _ if !is_always_served && !is_host_allowed(request.uri(), request.headers(), hosts) => {
            plain(
                421,
                "this host name is not allowed; `--allow-host NAME` allows it\n".to_owned(),
            )
        }
        _ if !is_always_served && is_spare => {
            plain(503, "too many connections; try again\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, Some(page)) => page.clone(),
        (_, Some(_)) => plain(405, "only GET\n".to_owned()),
        (_, None) => {
            let paths: Vec<&str> = pages.keys().copied().collect();
            plain(
                404,
                format!("no page at this path; available: {}\n", paths.join(", ")),
            )
        }
    };
    let mut response = Response::new(Full::from(page.text));
    *response.status_mut() =
        StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        http::HeaderValue::from_static(page.media),
    );
    headers.insert(
        "x-content-type-options",
        http::HeaderValue::from_static("nosniff"),
    );
    response
}

/// Returns true if all hosts that a request names are allowed. This prevents DNS rebinding: a web
/// page can resolve a name in its own domain to this server's address, and let a browser send
/// requests here. Such requests have the foreign name as `Host`.
fn is_host_allowed(uri: &http::Uri, headers: &HeaderMap, allowed: &[String]) -> bool {
    let mut hosts = headers
        .get_all(header::HOST)
        .iter()
        .map(|host| host.to_str().unwrap_or("/"));
    hosts.all(|host| is_name_allowed(host, allowed))
        && uri
            .authority()
            .is_none_or(|authority| is_name_allowed(authority.as_str(), allowed))
}

/// Returns true for addresses, names without a dot, and names inside the cluster, which cannot be
/// in an attacker's domain. Other names must be in `allowed`.
fn is_name_allowed(host: &str, allowed: &[String]) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else {
        return host.is_empty();
    };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || [".localhost", ".svc", ".cluster.local"]
            .iter()
            .any(|end| name.ends_with(end))
        || allowed.iter().any(|allowed_name| {
            allowed_name
                .trim_end_matches('.')
                .eq_ignore_ascii_case(&name)
        })
}

fn plain(code: u16, text: String) -> HttpPage {
    HttpPage {
        code,
        media: "text/plain; charset=utf-8",
        text: text.into(),
        is_always_served: false,
    }
}

#[cfg(test)]
mod tests;
