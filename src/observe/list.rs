//! Prints lists, once or again and again, in every format that `-o` has. A verb says how its rows
//! are read and how its table looks; pages, watching, custom columns and empty lists are the same
//! for all of them.

use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::watch::{self, WatchFrame};
use crate::context::Context;
use gpuctl_cluster::{Failure, OutageRetry};
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::nearest;
use gpuctl_view::format::columns;
use gpuctl_view::format::columns::CustomColumn;
use gpuctl_view::format::text::clean;
use gpuctl_view::{Format, document};

/// How a list is printed.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub page: PageOptions,
    pub watch: bool,
    /// Time between two looks of a watch.
    pub interval: Duration,
    pub headers: bool,
    pub format: Format,
    /// Columns of the user's own instead of a table.
    pub columns: Option<Vec<CustomColumn>>,
}

/// Which part of a list; everything when neither number nor size was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PageOptions {
    pub number: Option<u32>,
    pub size: Option<u32>,
    /// Rows on a page when only the number was given.
    pub usual: u32,
}

impl PageOptions {
    /// Returns the rows of the page.
    pub(crate) fn of<T>(self, rows: Vec<T>) -> Vec<T> {
        if self.number.is_none() && self.size.is_none() {
            return rows;
        }
        let size = self.size.unwrap_or(self.usual) as usize;
        let skipped = (self.number.unwrap_or(1) as usize - 1).saturating_mul(size);
        rows.into_iter().skip(skipped).take(size).collect()
    }
}

/// The rows of a list as they are printed.
pub(crate) struct Listing {
    /// The answer of `-o json`; null where the table alone is wanted, for that of a large cluster
    /// is larger than all that was read.
    document: Value,
    /// The key of the rows in it; empty where the answer is the list itself.
    rows: &'static str,
    /// What `-o name` prints, a line per row. A watch tells rows apart by it.
    names: Vec<String>,
    /// The table; empty where the format is another.
    table: String,
    /// Said when there are no rows.
    none: &'static str,
    /// Said after the list.
    hints: Vec<String>,
}

impl Listing {
    /// Makes a listing. `table` renders the rows for people or as CSV and is called only when that
    /// is what is printed.
    ///
    /// # Panics
    /// Never: our documents are JSON.
    pub(crate) fn new(
        options: &ListOptions,
        document: &impl Serialize,
        rows: &'static str,
        names: Vec<String>,
        table: impl FnOnce(Format, bool) -> String,
    ) -> Self {
        let fields_wanted =
            options.columns.is_some() || options.format.is_document() || options.watch;
        let document = match fields_wanted {
            true => serde_json::to_value(document).expect("our structs are JSON"),
            false => Value::Null,
        };
        let text_wanted = options.columns.is_none()
            && !options.format.is_document()
            && options.format != Format::Name;
        // A header without rows would look like an answer to people; programs that read CSV want
        // it.
        let table = if text_wanted && (!names.is_empty() || options.format == Format::Csv) {
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
            hints: Vec::new(),
        }
    }

    /// Says this on stderr when there are no rows.
    pub(crate) fn none(self, none: &'static str) -> Self {
        Self { none, ..self }
    }

    /// Says these on stderr after the list.
    pub(crate) fn hints(self, hints: Vec<String>) -> Self {
        Self { hints, ..self }
    }

    fn rows(&self) -> &[Value] {
        let rows = if self.rows.is_empty() {
            &self.document
        } else {
            &self.document[self.rows]
        };
        rows.as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns what stdout gets.
    fn text(&self, options: &ListOptions, context: &Context) -> Result<String, Error> {
        if let Some(own) = &options.columns {
            if let Some((key, known)) = columns::unknown(own, self.rows()) {
                let error = Error::usage(format!("the list has no field `{key}`"));
                return Err(match nearest(key, &known) {
                    Some(near) => error.hint(format!("did you mean `.{near}`?")),
                    None => error.hint(format!("fields: {}", known.join(", "))),
                });
            }
            return Ok(columns::table(
                self.rows(),
                own,
                options.headers,
                context.terminal.look(),
            ));
        }
        if options.format == Format::Name {
            return Ok(self
                .names
                .iter()
                .map(|name| format!("{}\n", clean(name)))
                .collect());
        }
        Ok(document(options.format, &self.document).unwrap_or_else(|| self.table.clone()))
    }
}

/// One look at the cluster. A watch outlives a restart of the API server; a single answer is an
/// answer now.
pub(crate) struct Round<'a> {
    /// True when what was read before is to be read again.
    pub fresh: bool,
    /// True the first time: warnings about missing rights are printed once.
    pub first: bool,
    /// Set in a watch that has shown something, for its warnings: a server that never answered is
    /// told at once.
    watching: Option<&'a Context>,
}

impl Round<'_> {
    /// Returns the only look of a command that is no list.
    pub(crate) fn single() -> Self {
        Self {
            fresh: true,
            first: true,
            watching: None,
        }
    }

    /// Sends a request; in a watch it waits out an outage.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let Some(context) = self.watching else {
            return ask().await;
        };
        OutageRetry::new(|failure| context.terminal.warn(&format!("{failure}; retrying")))
            .ask(ask)
            .await
    }
}

/// Prints the list that `look` reads, once, or with `-w` again and again until it is interrupted.
pub(crate) async fn run(
    options: &ListOptions,
    context: &Context,
    look: impl AsyncFnMut(Round<'_>) -> Result<Listing, Error>,
) -> Result<ExitCode, Error> {
    let pause = async || {
        tokio::time::sleep(options.interval).await;
        true
    };
    run_after(options, context, pause, look).await
}

/// The same; `pause` lasts until there may be news, and says whether what was read before is to be
/// read again.
pub(crate) async fn run_after(
    options: &ListOptions,
    context: &Context,
    pause: impl AsyncFnMut() -> bool,
    mut look: impl AsyncFnMut(Round<'_>) -> Result<Listing, Error>,
) -> Result<ExitCode, Error> {
    context.terminal.set_format(options.format);
    if options.watch {
        return watch::watch(options.format, pause, context, async |first, fresh| {
            let listing = look(Round {
                fresh,
                first,
                watching: (!first).then_some(context),
            })
            .await?;
            context.warn_of_left_out();
            let rows = listing.names.iter().cloned().zip(listing.rows());
            Ok(WatchFrame::new(listing.text(options, context)?, rows))
        })
        .await;
    }
    let listing = look(Round {
        fresh: true,
        first: true,
        watching: None,
    })
    .await?;
    context.terminal.print(&listing.text(options, context)?)?;
    if listing.names.is_empty() && !listing.none.is_empty() {
        context.terminal.note(listing.none);
        context.terminal.suggest_nothing();
    }
    listing
        .hints
        .iter()
        .for_each(|hint| context.terminal.hint(hint));
    Ok(ExitCode::SUCCESS)
}
