//! Reads lists of any kind page by page. Pages are protobuf if the kind and the server support it,
//! because it needs a third of the bytes and of the server's work, and JSON otherwise.

mod first_page;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::future::join;
use http::Method;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decode::ListPage;
use super::http::{ApiRequest, ApiResponse, JSON, with_query};
use super::protobuf;
use super::protobuf::Message;
use super::refusal::unreadable;
use crate::{Connection, Failure};
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;

/// Number of objects on the first page. kubectl requests the same number.
const PAGE: usize = 500;
/// Maximum number of objects on a page.
const LARGEST: usize = 2000;
/// Target size of a page in bytes. Large pages cost gpuctl memory, and many small ones cost the API
/// server time, because it goes through the collection for every page.
const BYTES: usize = 4 << 20;
/// Requests protobuf, with JSON as the fallback that every kind supports.
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Maximum number of objects in a list. No cluster has more, and a server that sends more would
/// exhaust memory.
const MOST_OBJECTS: usize = 750_000;
/// Maximum number of consecutive empty pages, not counting the last page.
const EMPTY_PAGES: usize = 10;
/// Maximum number of pages with fewer than a tenth of the requested objects, not counting the last
/// page. The API server fills its pages, but some aggregated servers do not.
const SHORT_PAGES: usize = 200;
/// Minimum average size of an object in bytes, for lists of more than `FEW` objects.
const SMALLEST: usize = 60;
const FEW: usize = 50_000;
/// Fraction of the request timeout after which the rate limit applies, for example 50 s of 60 s.
const UNTIMED: f64 = 5.0 / 6.0;
/// Minimum number of objects per second of a slow list. Even a slow connection transfers thousands.
const SLOWEST: f64 = 100.0;

/// The response with one page of a list.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a> {
    bytes: &'a [u8],
    /// The list's protobuf message, or `None` if the page is JSON.
    message: Option<&'static Message>,
    /// The path of the list, whose last segment names the kind.
    path: &'a str,
}

impl<'a> Page<'a> {
    /// Decodes the page to a struct that declares the fields to read.
    pub(crate) fn decode<T: Deserialize<'a>>(self) -> serde_json::Result<T> {
        match self.message {
            Some(message) => protobuf::decode(self.bytes, message),
            None => serde_json::from_slice(self.bytes),
        }
    }

    /// Decodes the objects of the page. Skips and records objects that cannot be decoded, so that
    /// one invalid object does not hide the rest. Fails for an invalid protobuf page, which the
    /// caller requests again as JSON.
    pub(crate) fn objects<T: Deserialize<'a>>(self) -> serde_json::Result<ListPage<T>> {
        match self.decode() {
            Err(error) if self.message.is_none() && error.is_data() => {
                self.readable_objects().ok_or(error)
            }
            decoded => decoded,
        }
    }

    fn readable_objects<T: Deserialize<'a>>(self) -> Option<ListPage<T>> {
        let page: ListPage<&RawValue> = serde_json::from_slice(self.bytes).ok()?;
        let items = page.items.into_iter().filter_map(|item| {
            let decoded = serde_json::from_str(item.get()).ok();
            if decoded.is_none() {
                omissions::note(Omission::Unreadable, described(self.path, item));
            }
            decoded
        });
        Some(ListPage {
            items: items.collect(),
        })
    }
}

/// Returns a name for an object that cannot be decoded, such as `pods team-a/x`.
fn described(path: &str, item: &RawValue) -> String {
    let object: Value = serde_json::from_str(item.get()).unwrap_or_default();
    let text = |key: &str| {
        object["metadata"][key]
            .as_str()
            .filter(|text| !text.is_empty())
    };
    let plural = path.rsplit('/').next().unwrap_or_default();
    match (text("namespace"), text("name")) {
        (Some(namespace), Some(name)) => format!("{plural} {namespace}/{name}"),
        (None, Some(name)) => format!("{plural} {name}"),
        _ => format!("{plural} without a name"),
    }
}

#[derive(Deserialize)]
struct PageHead<'a> {
    #[serde(borrow)]
    metadata: PageMetadata<'a>,
    /// Counts the objects, which are decoded later. Go encodes an empty list as `null`.
    #[serde(default)]
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct PageMetadata<'a> {
    #[serde(borrow, default, rename = "continue")]
    next: Cow<'a, str>,
}

/// A list that is requested page by page.
#[derive(Clone, Copy)]
struct PagedList<'a> {
    path: &'a str,
    parameters: &'a [(&'a str, &'a str)],
    /// The list's protobuf message, or `None` to request JSON.
    message: Option<&'static Message>,
}

/// A limit that a server exceeded with a list.
#[derive(Debug, thiserror::Error)]
enum ExceededLimit {
    #[error("it has more than {most} objects", most = MOST_OBJECTS)]
    Objects,
    #[error("it has {objects} objects of less than {least} bytes each", least = SMALLEST)]
    SmallObjects { objects: usize },
    #[error("{pages} pages in a row have no objects", pages = EMPTY_PAGES)]
    EmptyPages,
    #[error("{pages} pages have only a few objects each", pages = SHORT_PAGES)]
    ShortPages,
    #[error("after {seconds} s, it has {objects} objects and is still going")]
    Slow { seconds: u64, objects: usize },
    #[error("it returned to a page that was already read")]
    RepeatedPage,
}

/// Counters that detect an endless list.
struct PageLimits {
    begun: Instant,
    /// Time after which `SLOWEST` applies.
    untimed: Duration,
    objects: usize,
    bytes: usize,
    empty: usize,
    short: usize,
    tokens: HashSet<String>,
}

impl PageLimits {
    fn new(request_timeout: Duration) -> Self {
        let untimed = request_timeout.mul_f64(UNTIMED);
        Self {
            begun: Instant::now(),
            untimed,
            objects: 0,
            bytes: 0,
            empty: 0,
            short: 0,
            tokens: HashSet::new(),
        }
    }

    /// Counts a page, and returns the token of the next page, which is empty after the last one.
    fn admit(
        &mut self,
        page: Page<'_>,
        size: usize,
    ) -> Result<serde_json::Result<String>, ExceededLimit> {
        let head = page.decode::<PageHead<'_>>();
        let objects = head
            .as_ref()
            .map_or(0, |head| head.items.as_ref().map_or(0, Vec::len));
        self.count(objects, page.bytes.len())?;
        let token = head.map(|head| head.metadata.next.into_owned());
        if let Ok(token) = &token
            && !token.is_empty()
        {
            self.take(objects, size, token, self.begun.elapsed())?;
        }
        Ok(token)
    }

    /// Counts the objects of a page before they are decoded. Fails if a limit is exceeded.
    fn count(&mut self, objects: usize, bytes: usize) -> Result<(), ExceededLimit> {
        (self.objects, self.bytes) = (self.objects + objects, self.bytes + bytes);
        if self.objects > MOST_OBJECTS {
            return Err(ExceededLimit::Objects);
        }
        if self.objects > FEW && self.bytes / self.objects < SMALLEST {
            return Err(ExceededLimit::SmallObjects {
                objects: self.objects,
            });
        }
        Ok(())
    }

    /// Accepts a page that another page follows. Fails if the next page should not be requested.
    fn take(
        &mut self,
        objects: usize,
        size: usize,
        token: &str,
        elapsed: Duration,
    ) -> Result<(), ExceededLimit> {
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        self.short += usize::from(objects < size / 10);
        if self.empty >= EMPTY_PAGES {
            return Err(ExceededLimit::EmptyPages);
        }
        if self.short > SHORT_PAGES {
            return Err(ExceededLimit::ShortPages);
        }
        if elapsed > self.untimed && (self.objects as f64) < SLOWEST * elapsed.as_secs_f64() {
            return Err(ExceededLimit::Slow {
                seconds: elapsed.as_secs(),
                objects: self.objects,
            });
        }
        match self.tokens.insert(token.to_owned()) {
            true => Ok(()),
            false => Err(ExceededLimit::RepeatedPage),
        }
    }
}

impl Connection {
    /// Reads a list page by page, calling `take` with each page.
    pub(crate) async fn list(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        let list = PagedList {
            path,
            parameters,
            message: protobuf::list_of(path),
        };
        self.list_as(list, take).await
    }

    /// Reads a list as JSON, for callers that read fields without a protobuf number in `kinds.rs`.
    pub(crate) async fn list_whole(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        let list = PagedList {
            path,
            parameters,
            message: None,
        };
        self.list_as(list, take).await
    }

    async fn list_as(
        &self,
        mut list: PagedList<'_>,
        mut take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        let (mut next, mut restarted, mut size) = (String::new(), false, PAGE);
        let mut limits = PageLimits::new(self.request_timeout);
        // Reuse the buffers of the two pages that are in memory at a time. Freeing and allocating
        // such large blocks would leave holes between the objects kept from each page.
        let buffer = Cell::default();
        let mut answer = self.page(list, &next, size, &buffer).await?;
        loop {
            let next_size = next_size(size, answer.body.len());
            let page = Page {
                bytes: &answer.body,
                message: list.message.filter(|_| answer.is_protobuf),
                path: list.path,
            };
            let token = limits
                .admit(page, size)
                .map_err(|exceeded| self.endless(list.path, &exceeded))?;
            let next_page = async {
                match token.as_deref() {
                    Ok("") | Err(_) => None,
                    Ok(token) => Some(self.page(list, token, next_size, &buffer).await),
                }
            };
            // Decode this page while the server works on the next one.
            let decoding = async {
                // Yield once, so that the request is sent before decoding blocks the thread.
                tokio::task::yield_now().await;
                take(page)
            };
            let (following, decoded) = join(next_page, decoding).await;
            let following = match (token.and_then(|token| decoded.map(|()| token)), following) {
                // The server encodes protobuf differently from Kubernetes, so request JSON.
                (Err(_), _) if answer.is_protobuf => {
                    (list.message, size) = (None, PAGE);
                    // The server sends the page again with the same token, so reset the limits.
                    limits = PageLimits {
                        begun: limits.begun,
                        ..PageLimits::new(self.request_timeout)
                    };
                    self.page(list, &next, size, &buffer).await?
                }
                (Err(error), _) => return Err(unreadable(&self.server, &error)),
                (Ok(_), None) => return Ok(()),
                // The continue token expired, because its `resourceVersion` was compacted (after
                // five minutes by default). Resume with the `metadata.continue` of the 410, which
                // continues the list with the current state. The list is then no longer consistent
                // (API concepts, "Retrieving large results sets in chunks").
                (
                    Ok(_),
                    Some(Err(Failure::Api {
                        code: 410,
                        resume: Some(token),
                        ..
                    })),
                ) if !restarted => {
                    (next, restarted, size) = (token, true, next_size);
                    self.page(list, &next, size, &buffer).await?
                }
                (Ok(token), Some(following)) => {
                    (next, size) = (token, next_size);
                    following?
                }
            };
            let body = std::mem::replace(&mut answer, following).body;
            buffer.set(body.try_into_mut().unwrap_or_default());
        }
    }

    fn endless(&self, path: &str, exceeded: &ExceededLimit) -> Failure {
        Failure::EndlessList {
            server: self.server.clone(),
            path: path.to_owned(),
            reason: exceeded.to_string(),
        }
    }

    /// Requests the page at a continue token. An empty token requests the first page.
    async fn page(
        &self,
        list: PagedList<'_>,
        token: &str,
        size: usize,
        buffer: &Cell<BytesMut>,
    ) -> Result<ApiResponse, Failure> {
        let limit = size.to_string();
        // Omit `resourceVersion`, so that the list includes earlier writes of this command. With
        // `0`, the watch cache may return stale objects (API concepts, "Resource versions").
        let mut parameters = list.parameters.to_vec();
        parameters.push(("limit", &limit));
        // A token requires the same query parameters as the request that returned it
        // (`ListOptions.continue`), but the API server accepts a different limit.
        if !token.is_empty() {
            parameters.push(("continue", token));
        }
        let media_types = if list.message.is_some() { EITHER } else { JSON };
        let path = with_query(list.path, &parameters);
        let empty_body = Bytes::new();
        self.answer(ApiRequest {
            method: &Method::GET,
            path: &path,
            content_type: "",
            body: &empty_body,
            accept: media_types,
            buffer,
        })
        .await
    }
}

/// Returns the size of the next page, based on the objects and bytes of the last one.
fn next_size(size: usize, bytes: usize) -> usize {
    (size.saturating_mul(BYTES) / bytes.max(1)).clamp(PAGE, LARGEST)
}

#[cfg(test)]
mod tests;
