//! Reads only the first page of a list, for a count that may be a lower limit.

use std::cell::Cell;

use super::{PAGE, Page, PageHead, PagedList};
use crate::transport::protobuf;
use crate::transport::refusal::unreadable;
use crate::{Connection, Failure};

impl Connection {
    /// Reads at most 500 objects, and returns whether there are more.
    pub(crate) async fn first_page(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        take: impl FnOnce(Page<'_>) -> serde_json::Result<()>,
    ) -> Result<bool, Failure> {
        let list = PagedList {
            path,
            parameters,
            message: protobuf::list_of(path),
        };
        let answer = self.page(list, "", PAGE, &Cell::default()).await?;
        let page = Page {
            bytes: &answer.body,
            message: list.message.filter(|_| answer.is_protobuf),
            path,
        };
        let has_more = page
            .decode::<PageHead<'_>>()
            .map(|head| !head.metadata.next.is_empty());
        let read = has_more.and_then(|has_more| take(page).map(|()| has_more));
        read.map_err(|error| unreadable(&self.server, &error))
    }
}
