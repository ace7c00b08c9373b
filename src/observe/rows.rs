//! Lists whose rows are read at once. A verb says how its rows are read; [`ListRow`] says how rows
//! of that type are ordered, named and rendered. What all of them have in common is here.

use serde::Serialize;

use super::list::{ListOptions, Listing, Round};
use crate::context::Context;
use gpuctl_cluster::{Connection, Failure};
use gpuctl_view::Format;

/// A row of a list.
pub(crate) trait ListRow: Sized {
    /// The key of the rows in the document.
    const ROWS: &'static str = "items";
    /// What stderr gets when there are no rows: `no quotas found`.
    const NONE: &'static str;
    /// What `--sort-by` takes.
    type Key;
    /// What the document has beside its rows, such as how many devices were measured.
    type Facts;

    /// Sorts the rows. Without a key they stay as they were read, unless the list has an order of
    /// its own.
    fn sort(rows: &mut [Self], key: Option<Self::Key>);

    /// What `-o name` prints for each row. A watch tells rows apart by it.
    fn names(page: &[Self]) -> Vec<String>;

    /// The answer of `-o json`: a page of `total` rows.
    fn document(page: &[Self], total: usize, facts: Self::Facts) -> impl Serialize;

    /// The table for people, or CSV.
    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String;

    /// What to do about these rows.
    fn hint(_page: &[Self], _total: usize) -> Option<String> {
        None
    }
}

/// Sorts rows, takes the page that was asked for, and renders it.
pub(crate) fn listing<R: ListRow>(
    mut rows: Vec<R>,
    key: Option<R::Key>,
    facts: R::Facts,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    R::sort(&mut rows, key);
    let total = rows.len();
    let page = options.page.of(rows);
    let table = |format, headers| R::table(&page, format, headers, context);
    let document = R::document(&page, total, facts);
    Listing::new(options, &document, R::ROWS, R::names(&page), table)
        .none(R::NONE)
        .hints(R::hint(&page, total).into_iter().collect())
}

/// Reads `what` of all namespaces, or of the one that `-n` names. Where all may not be listed, reads
/// the namespace of the kubeconfig and warns.
pub(crate) async fn of_namespaces<T>(
    what: &str,
    connection: &Connection,
    round: &Round<'_>,
    context: &Context,
    read: impl AsyncFn(Option<&str>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let home = connection.namespace.as_str();
    let named = connection.namespace_is_explicit.then_some(home);
    match round.ask(|| read(named)).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => {
            let found = round.ask(|| read(Some(home))).await?;
            if round.first {
                context.terminal.lack(&format!(
                    "you may not list {what} of all namespaces; only `{home}` is shown"
                ));
            }
            Ok(found)
        }
        other => other,
    }
}
