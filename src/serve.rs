//! Serves text pages over HTTP, for `score --watch --listen`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

/// What stands at a path.
#[derive(Clone, Debug)]
pub(crate) struct HttpPage {
    pub code: u16,
    pub media: &'static str,
    pub text: String,
}

/// Pages by their path.
pub(crate) type Pages = Rc<RefCell<BTreeMap<&'static str, HttpPage>>>;

/// A reader that takes longer to ask is none.
const ASKS_WITHIN: Duration = Duration::from_secs(10);
/// A connection is kept for the next question no longer than this, and for who does not read the answer.
const READS_WITHIN: Duration = Duration::from_secs(120);
/// Readers at the same time; more wait.
const MOST_READERS: usize = 64;

/// An open door.
pub(crate) struct Server {
    listener: TcpListener,
    pages: Pages,
}

impl Server {
    /// Opens it at `HOST:PORT`; port 0 is any that is free.
    pub(crate) async fn open(address: &str, pages: Pages) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| anyhow!("cannot listen at {address}: {error}"))?;
        Ok(Self { listener, pages })
    }

    #[must_use]
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until it is dropped.
    pub(crate) async fn run(self) {
        let readers = Arc::new(Semaphore::new(MOST_READERS));
        let here = LocalSet::new();
        let accept = async {
            loop {
                let Ok(place) = Arc::clone(&readers).acquire_owned().await else { return };
                let Ok((stream, _)) = self.listener.accept().await else {
                    // The process has no file descriptor left: connections that end give some back.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    continue;
                };
                let pages = Rc::clone(&self.pages);
                tokio::task::spawn_local(async move {
                    let answer = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &pages))));
                    let mut connection = http1::Builder::new();
                    connection.timer(TokioTimer::new()).header_read_timeout(ASKS_WITHIN);
                    // A reader that went away is no trouble of ours.
                    let served = connection.serve_connection(TokioIo::new(stream), answer);
                    let _ = tokio::time::timeout(READS_WITHIN, served).await;
                    drop(place);
                });
            }
        };
        here.run_until(accept).await;
    }
}

fn answer(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let pages = pages.borrow();
    let page = match (request.method(), pages.get(path)) {
        (&Method::GET | &Method::HEAD, Some(page)) => page.clone(),
        (_, Some(_)) => plain(405, "only GET\n".to_owned()),
        (_, None) => {
            let known: Vec<&str> = pages.keys().copied().collect();
            plain(404, format!("nothing at this path; there is {}\n", known.join(", ")))
        }
    };
    let mut response = Response::new(Full::from(page.text));
    *response.status_mut() = StatusCode::from_u16(page.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert("content-type", http::HeaderValue::from_static(page.media));
    response
}

fn plain(code: u16, text: String) -> HttpPage {
    HttpPage { code, media: "text/plain; charset=utf-8", text }
}
