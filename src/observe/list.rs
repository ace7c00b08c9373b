//! Prints lists in every format of `-o`, once or as a watch. A verb defines how to read its rows
//! and render its table. Paging, watching and empty lists are the same for all verbs.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::watch::{self, WatchFrame};
use crate::context::Context;
use gpuctl_cluster::{Failure, OutageRetry};
use gpuctl_core::error::Error;
use gpuctl_view::format::text::name_lines;
use gpuctl_view::{Format, document};

#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub page: PageOptions,
    pub watch: bool,
    /// Time between two refreshes of a watch.
    pub interval: Duration,
    pub headers: bool,
    pub format: Format,
}

/// A page of a list. Without number and size, the page is the whole list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageOptions {
    pub number: Option<u32>,
    pub size: Option<u32>,
    /// Number of rows per page if `size` is `None`.
    pub default_size: u32,
}

impl PageOptions {
    /// Returns the rows up to the end of the page. Each part of a list needs them, if the parts are
    /// merged before the page is selected.
    pub(crate) fn including_previous(self) -> Self {
        if self.number.is_none() && self.size.is_none() {
            return self;
        }
        let size = self.size.unwrap_or(self.default_size);
        Self {
            number: Some(1),
            size: Some(size.saturating_mul(self.number.unwrap_or(1))),
            ..self
        }
    }

    /// Returns the rows of the page.
    pub(crate) fn select<T>(self, rows: Vec<T>) -> Vec<T> {
        if self.number.is_none() && self.size.is_none() {
            return rows;
        }
        let size = self.size.unwrap_or(self.default_size) as usize;
        let skipped = (self.number.unwrap_or(1) as usize - 1).saturating_mul(size);
        rows.into_iter().skip(skipped).take(size).collect()
    }
}

pub(crate) struct Listing {
    /// The document for `-o json`. Null if only the table is needed, because the document of a
    /// large cluster is larger than the data it was built from.
    document: Value,
    /// Key of the rows in the document. Empty if the document itself is the list.
    rows: &'static str,
    /// Lines of `-o name`, one per row. A watch identifies rows by these lines.
    names: Vec<String>,
    /// The rendered table. Empty for other formats.
    table: String,
    /// Note on stderr if the list is empty.
    none: &'static str,
    /// A note for people that is printed after the list.
    note: Option<String>,
    /// Hints to print after the list.
    hints: Vec<String>,
    /// Error for requested rows that do not exist. Returned after the existing rows were printed.
    missing: Option<Error>,
}

impl Listing {
    /// Builds a listing. `table` renders the rows for people or as CSV, and is called only for
    /// these formats.
    ///
    /// # Panics
    ///
    /// Never, because gpuctl's documents can always be serialized to JSON.
    pub(crate) fn new(
        options: &ListOptions,
        document: &impl Serialize,
        rows: &'static str,
        names: Vec<String>,
        table: impl FnOnce(Format, bool) -> String,
    ) -> Self {
        let needs_document = options.format.is_document() || options.watch;
        let document = match needs_document {
            true => serde_json::to_value(document).expect("our structs are JSON"),
            false => Value::Null,
        };
        let needs_table = !options.format.is_document() && options.format != Format::Name;
        // A header without rows looks like a result to people, but programs that read CSV need the
        // header.
        let table = if needs_table && (!names.is_empty() || options.format == Format::Csv) {
            table(options.format, options.headers)
        } else {
            String::new()
        };
        Self {
            document,
            rows,
            names,
            table,
            none: "",
            note: None,
            hints: Vec::new(),
            missing: None,
        }
    }

    pub(crate) fn none(self, note: &'static str) -> Self {
        Self { none: note, ..self }
    }

    /// Sets the note that is printed to stderr after the list, for people.
    pub(crate) fn note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    pub(crate) fn hints(self, hints: Vec<String>) -> Self {
        Self { hints, ..self }
    }

    /// Sets the error for requested rows that do not exist. `errors` has one entry per row.
    pub(crate) fn missing(self, errors: Vec<Error>) -> Self {
        let missing = errors
            .into_iter()
            .reduce(|first, other| first.note(other.message));
        Self { missing, ..self }
    }

    fn rows(&self) -> &[Value] {
        let rows = if self.rows.is_empty() {
            &self.document
        } else {
            &self.document[self.rows]
        };
        rows.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    fn text(&self, options: &ListOptions) -> String {
        if options.format == Format::Name {
            return name_lines(&self.names);
        }
        document(options.format, &self.document).unwrap_or_else(|| self.table.clone())
    }
}

/// One read of the cluster. In a watch, a request waits until an API server outage is over. A
/// command that reads once fails immediately.
pub(crate) struct Refresh<'a> {
    /// Whether cached data must be read again.
    pub fresh: bool,
    /// Whether this is the first read. Warnings about missing permissions are printed only once.
    pub first: bool,
    /// The context for a watch's warnings. `None` before the first frame, so that an unreachable
    /// server at startup is an error.
    watching: Option<&'a Context>,
}

impl Refresh<'_> {
    /// Creates the single read of a command that does not repeat.
    pub(crate) fn once() -> Self {
        Self {
            fresh: true,
            first: true,
            watching: None,
        }
    }

    /// Sends a request. In a watch, waits out an API server outage.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let Some(context) = self.watching else {
            return request().await;
        };
        OutageRetry::new(|failure| context.terminal.warn(&format!("{failure}; retrying")))
            .ask(request)
            .await
    }
}

/// Prints the list that `read` returns. With `-w`, repeats this until the user interrupts the
/// command.
pub(crate) async fn run(
    options: &ListOptions,
    context: &Context,
    read: impl AsyncFnMut(Refresh<'_>) -> Result<Listing, Error>,
) -> Result<ExitCode, Error> {
    let pause = async || {
        tokio::time::sleep(options.interval).await;
        true
    };
    run_after(options, context, pause, read).await
}

/// Like [`run`], but `pause` decides when to refresh. `pause` resolves after a possible change and
/// returns true if cached data must be read again.
pub(crate) async fn run_after(
    options: &ListOptions,
    context: &Context,
    pause: impl AsyncFnMut() -> bool,
    mut read: impl AsyncFnMut(Refresh<'_>) -> Result<Listing, Error>,
) -> Result<ExitCode, Error> {
    context.terminal.set_format(options.format);
    if options.watch {
        return watch::watch(options.format, pause, context, async |first, fresh| {
            let listing = read(Refresh {
                fresh,
                first,
                watching: (!first).then_some(context),
            })
            .await?;
            if let Some(error) = listing.missing {
                return Err(error);
            }
            context.warn_of_omissions();
            let rows = listing.names.iter().cloned().zip(listing.rows());
            Ok(WatchFrame::new(listing.text(options), rows))
        })
        .await;
    }
    let listing = read(Refresh {
        fresh: true,
        first: true,
        watching: None,
    })
    .await?;
    if let Some(error) = &listing.missing
        && listing.names.is_empty()
    {
        return Err(error.clone());
    }
    context.terminal.print(&listing.text(options))?;
    if listing.names.is_empty() && !listing.none.is_empty() {
        context.terminal.note(listing.none);
        context.terminal.disable_suggestion();
    }
    listing
        .note
        .iter()
        .for_each(|note| context.terminal.note(note));
    listing
        .hints
        .iter()
        .for_each(|hint| context.terminal.hint(hint));
    listing.missing.map_or(Ok(ExitCode::SUCCESS), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_merged_parts_needs_their_first_rows() {
        let page = |number, size| PageOptions {
            number,
            size,
            default_size: 2,
        };
        let rows = |page: PageOptions| {
            page.including_previous()
                .select((0..10).collect::<Vec<u32>>())
        };
        // The second page of three rows ends at the sixth row.
        assert_eq!(rows(page(Some(2), Some(3))), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rows(page(Some(2), None)), [0, 1, 2, 3]);
        assert_eq!(rows(page(None, Some(3))), [0, 1, 2]);
        assert_eq!(rows(page(None, None)).len(), 10);
    }
}
