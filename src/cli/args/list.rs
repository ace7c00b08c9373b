//! Options of lists: sort order, page, watch, header and format. A list without some of these
//! options states the reason.

use clap::{Args, ValueEnum};

use super::format::ListFormat;
use crate::cli::args::output::output_format;
use crate::observe::list::{ListOptions, PageOptions};
use crate::observe::watch::WATCH_INTERVAL;

/// Options of every list. `K` is the enum of its sort keys.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs<K: ValueEnum + Clone + Send + Sync + 'static> {
    /// Sort the list by this key
    #[arg(long, alias = "order-by", value_enum, value_name = "KEY")]
    pub sort_by: Option<K>,
    #[command(flatten)]
    pub page: PageArgs,
    /// Keep watching; redraw on a terminal, or print one JSON object per change when piped
    #[arg(short, long)]
    pub watch: bool,
    #[command(flatten)]
    pub print: PrintArgs,
}

/// Page of a list
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct PageArgs {
    /// Print this page, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page: Option<u32>,
    /// Number of rows on a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub page_size: Option<u32>,
}

/// Format of a list
#[derive(Args, Clone, Debug)]
pub(crate) struct PrintArgs {
    /// Omit the header row
    #[arg(long)]
    pub no_headers: bool,
    /// Output format; jsonpath= and custom-columns= select fields from the JSON output
    #[arg(short, long, value_parser = output_format::<ListFormat>(), default_value_t, value_name = "FORMAT")]
    pub output: ListFormat,
}

/// Default rows per page if the user sets only `--page`, as defined by the API contract.
pub(crate) const PAGE_SIZE: u32 = 20;
/// Default rows per page of workloads if the user sets only `--page`.
pub(crate) const WORKLOADS_PAGE_SIZE: u32 = 10;

impl PageArgs {
    /// The requested page. `default` is the number of rows per page if only `--page` is given.
    pub(crate) fn page(&self, default: u32) -> PageOptions {
        PageOptions {
            number: self.page,
            size: self.page_size,
            default_size: default,
        }
    }
}

impl<K: ValueEnum + Clone + Send + Sync + 'static> ListArgs<K> {
    /// Converts the arguments for the list workflow. `page_size` is the number of rows per page if
    /// only `--page` is given.
    pub(crate) fn options(&self, page_size: u32) -> ListOptions {
        ListOptions {
            page: self.page.page(page_size),
            watch: self.watch,
            ..self.print.options()
        }
    }
}

impl PrintArgs {
    /// Converts the arguments of a list that is printed once, without pages.
    pub(crate) fn options(&self) -> ListOptions {
        ListOptions {
            page: PageOptions::default(),
            watch: false,
            interval: WATCH_INTERVAL,
            headers: !self.no_headers,
            format: self.output.into(),
        }
    }
}
