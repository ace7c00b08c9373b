//! Logs each request for `-vv` and `GPUCTL_LOG`: method, path, status, time and bytes. Callers
//! never pass headers, bodies or query strings, because these can contain credentials.

use std::time::Instant;

use tracing::debug;

/// The API that receives a request, which determines the target of the log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Logged under `gpuctl::kubernetes`.
    Kubernetes,
    /// Logged under `gpuctl::prometheus`.
    Prometheus,
}

/// A sent request whose outcome has not been logged yet.
#[derive(Debug)]
pub struct SentRequest<'r> {
    api: Api,
    method: &'r str,
    path: &'r str,
    start: Instant,
}

impl<'r> SentRequest<'r> {
    /// Starts measuring the request's time. `path` may be a complete URL; its host and query string
    /// are not logged.
    #[must_use]
    pub fn start(api: Api, method: &'r str, path: &'r str) -> Self {
        Self {
            api,
            method,
            path: path_only(path),
            start: Instant::now(),
        }
    }

    /// Logs the response and the bytes of its body.
    pub fn answered(self, status: u16, bytes: usize) {
        let Self { method, path, .. } = self;
        let ms = self.milliseconds();
        match self.api {
            Api::Kubernetes => {
                debug!(target: "gpuctl::kubernetes", method, path, status, ms, bytes);
            }
            Api::Prometheus => {
                debug!(target: "gpuctl::prometheus", method, path, status, ms, bytes);
            }
        }
    }

    /// Logs a response whose body is streamed.
    pub fn opened(self, status: u16) {
        let Self { method, path, .. } = self;
        let ms = self.milliseconds();
        debug!(target: "gpuctl::kubernetes", method, path, status, ms, stream = true);
    }

    /// Logs a request without a response. `cause` is logged, so it must not contain a URL.
    pub fn failed(self, cause: &str) {
        let Self { method, path, .. } = self;
        let ms = self.milliseconds();
        match self.api {
            Api::Kubernetes => {
                debug!(target: "gpuctl::kubernetes", method, path, ms, error = cause);
            }
            Api::Prometheus => {
                debug!(target: "gpuctl::prometheus", method, path, ms, error = cause);
            }
        }
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn path_only(url: &str) -> &str {
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => url,
    };
    path.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_users_and_query_strings_are_left_out() {
        for (url, path) in [
            (
                "https://eva:secret@host:9090/api/v1/query?query=up",
                "/api/v1/query",
            ),
            ("/api/v1/pods?continue=abc", "/api/v1/pods"),
            ("https://token@host", "/"),
            ("/apis", "/apis"),
        ] {
            assert_eq!(path_only(url), path);
        }
    }
}
