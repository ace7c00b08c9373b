//! Options of every list that can be printed page by page.

use clap::Args;

/// Which part of a list.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Page {
    /// Page to print, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page: Option<u32>,
    /// Items on a page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub page_size: Option<u32>,
}

/// Items on a page when only `--page` is given: the contract's number.
pub const PAGE_SIZE: u32 = 20;

/// The same for workloads: the workloads document's number.
pub const WORKLOADS_PAGE_SIZE: u32 = 10;

impl Page {
    /// The items of the page; all of them when no page was asked for.
    pub fn of<T>(self, items: Vec<T>) -> Vec<T> {
        self.of_size(items, PAGE_SIZE)
    }

    /// The same with another size of a page, where none was asked for.
    pub fn of_size<T>(self, items: Vec<T>, size: u32) -> Vec<T> {
        if self.page.is_none() && self.page_size.is_none() {
            return items;
        }
        let size = self.page_size.unwrap_or(size) as usize;
        let skipped = (self.page.unwrap_or(1) as usize - 1).saturating_mul(size);
        items.into_iter().skip(skipped).take(size).collect()
    }
}
