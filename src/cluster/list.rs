//! Reads lists page by page: as protobuf where the kind and the server have it, which is a third of the bytes and of the server's work, and else
//! as JSON. It knows no kind itself.

use std::borrow::Cow;
use std::cell::Cell;

use bytes::{Bytes, BytesMut};
use futures::future::join;
use http::Method;
use serde::Deserialize;

use super::http::{ApiRequest, ApiResponse, JSON, unreadable, with_query};
use super::protobuf::{self, Message};
use super::{Connection, Failure};

/// Objects of the first page: what kubectl asks for, and cheap for the server end to end.
const PAGE: usize = 500;
/// Objects of any page.
const LARGEST: usize = 2000;
/// Bytes of a page that are aimed at: each page costs the server a look at all it has, and us its memory.
const BYTES: usize = 4 << 20;
/// Protobuf where there is one, and what every kind has.
const EITHER: &str = "application/vnd.kubernetes.protobuf,application/json";

/// What a server answered for one page.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    bytes: &'a [u8],
    /// The kind of list in protobuf; `None` for JSON.
    message: Option<&'static Message>,
}

impl<'a> Page<'a> {
    /// Decodes the page into a struct that names what is read of it.
    pub(super) fn decode<T: Deserialize<'a>>(self) -> serde_json::Result<T> {
        match self.message {
            Some(message) => protobuf::decode(self.bytes, message),
            None => serde_json::from_slice(self.bytes),
        }
    }
}

#[derive(Deserialize)]
struct PageHead<'a> {
    #[serde(borrow)]
    metadata: PageMetadata<'a>,
}

#[derive(Deserialize)]
struct PageMetadata<'a> {
    #[serde(borrow, default, rename = "continue")]
    next: Cow<'a, str>,
}

impl Connection {
    /// Reads a list page by page. `take` decodes each page.
    pub(super) async fn list(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        self.list_as(path, parameters, protobuf::list_of(path), take).await
    }

    /// Reads a list of whole objects, of which no struct names what is wanted.
    pub(super) async fn list_whole(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        self.list_as(path, parameters, None, take).await
    }

    async fn list_as(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        mut message: Option<&'static Message>,
        mut take: impl FnMut(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<(), Failure> {
        let (mut next, mut resumed, mut size) = (String::new(), false, PAGE);
        // Two pages are there at a time, and their buffers serve those that follow: large pieces that are given back and taken again leave
        // holes between what is kept of each page.
        let buffer = Cell::default();
        let mut answer = self.page(path, parameters, &next, size, message, &buffer).await?;
        loop {
            let after = next_size(size, answer.body.len());
            let page = Page { bytes: &answer.body, message: message.filter(|_| answer.is_protobuf) };
            let token = page.decode::<PageHead<'_>>().map(|head| head.metadata.next.into_owned());
            let ahead = async {
                match token.as_deref() {
                    Ok("") | Err(_) => None,
                    Ok(token) => Some(self.page(path, parameters, token, after, message, &buffer).await),
                }
            };
            // The server works on the next page while this one is decoded.
            let decoding = async {
                tokio::task::yield_now().await;
                take(page)
            };
            let (following, taken) = join(ahead, decoding).await;
            let following = match (token.and_then(|token| taken.map(|()| token)), following) {
                // Who encodes otherwise than Kubernetes does is asked for JSON.
                (Err(_), _) if answer.is_protobuf => {
                    (message, size) = (None, PAGE);
                    self.page(path, parameters, &next, size, None, &buffer).await?
                }
                (Err(error), _) => return Err(unreadable(&self.server, &error)),
                (Ok(_), None) => return Ok(()),
                // The list took longer than the server keeps its state; the rest is as of now.
                (Ok(_), Some(Err(Failure::Api { code: 410, resume: Some(token), .. }))) if !resumed => {
                    (next, resumed, size) = (token, true, after);
                    self.page(path, parameters, &next, size, message, &buffer).await?
                }
                (Ok(token), Some(following)) => {
                    (next, size) = (token, after);
                    following?
                }
            };
            let read = std::mem::replace(&mut answer, following).body;
            buffer.set(read.try_into_mut().unwrap_or_default());
        }
    }

    /// Asks for the page that a token names; an empty one names the first.
    async fn page(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        token: &str,
        size: usize,
        message: Option<&'static Message>,
        buffer: &Cell<BytesMut>,
    ) -> Result<ApiResponse, Failure> {
        let limit = size.to_string();
        let mut all = parameters.to_vec();
        all.push(("limit", &limit));
        if !token.is_empty() {
            all.push(("continue", token));
        }
        let accept = if message.is_some() { EITHER } else { JSON };
        let path = with_query(path, &all);
        let nothing = Bytes::new();
        self.answer(ApiRequest { method: &Method::GET, path: &path, content_type: "", body: &nothing, accept, buffer }).await
    }
}

/// Returns how many objects the page after one of so many objects and bytes has.
fn next_size(size: usize, bytes: usize) -> usize {
    (size.saturating_mul(BYTES) / bytes.max(1)).clamp(PAGE, LARGEST)
}

#[cfg(test)]
mod tests {
    use super::next_size;

    #[test]
    fn pages_grow_with_small_objects() {
        // 500 pods of 3.2 kB, of 9 kB, and of 200 bytes.
        assert_eq!((next_size(500, 1_600_000), next_size(500, 4_500_000), next_size(500, 100_000)), (1310, 500, 2000));
        // The first objects are small and the others are not.
        assert_eq!((next_size(2000, 40_000_000), next_size(500, 0)), (500, 2000));
    }
}
