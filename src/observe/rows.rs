//! Prints lists whose rows are all read at once. The verb reads the rows, and [`ListRow`] defines
//! how rows of one type are sorted, named and rendered.

use serde::Serialize;

use super::list::{ListOptions, Listing, Refresh};
use crate::context::Context;
use gpuctl_cluster::{Connection, Failure};
use gpuctl_view::Format;

/// A row of a list, with the behavior that differs between lists.
pub(crate) trait ListRow: Sized {
    /// The key of the rows in the JSON document.
    const ROWS: &'static str = "items";
    /// The note to print on stderr if the list has no rows, for example `no quotas found`.
    const NONE: &'static str;
    /// The sort keys that `--sort-by` accepts.
    type Key;
    /// Data that the document contains in addition to its rows, for example the number of measured
    /// devices.
    type Facts;

    /// Sorts the rows. Without a key, the rows stay in the order in which they were read, unless
    /// the list defines its own order.
    fn sort(rows: &mut [Self], key: Option<Self::Key>);

    /// The lines for `-o name`, one per row. A watch uses them to identify rows.
    fn names(page: &[Self]) -> Vec<String>;

    /// The document for `-o json`: one page of `total` rows.
    fn document(page: &[Self], total: usize, facts: Self::Facts) -> impl Serialize;

    /// The table, for people or as CSV.
    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String;

    /// The next step that is suggested for these rows.
    fn hint(_page: &[Self], _total: usize) -> Option<String> {
        None
    }
}

/// Sorts the rows, selects the requested page and renders it.
pub(crate) fn listing<R: ListRow>(
    mut rows: Vec<R>,
    key: Option<R::Key>,
    facts: R::Facts,
    options: &ListOptions,
    context: &Context,
) -> Listing {
    R::sort(&mut rows, key);
    let total = rows.len();
    let page = options.page.select(rows);
    let table = |format, headers| R::table(&page, format, headers, context);
    let document = R::document(&page, total, facts);
    Listing::new(options, &document, R::ROWS, R::names(&page), table)
        .none(R::NONE)
        .hints(R::hint(&page, total).into_iter().collect())
}

/// Reads `resource` in all namespaces, or only in the one given by `-n`. If the user may not list
/// all namespaces, reads the kubeconfig's namespace and warns.
pub(crate) async fn read_namespaces<T>(
    resource: &str,
    connection: &Connection,
    refresh: &Refresh<'_>,
    context: &Context,
    read: impl AsyncFn(Option<&str>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let default_namespace = connection.namespace.as_str();
    let explicit_namespace = connection
        .namespace_is_explicit
        .then_some(default_namespace);
    match refresh.ask(|| read(explicit_namespace)).await {
        Err(failure) if failure.is_forbidden() && explicit_namespace.is_none() => {
            let result = refresh.ask(|| read(Some(default_namespace))).await?;
            if refresh.first {
                context.terminal.warn_missing_permission(&format!(
                    "you are not allowed to list {resource} in all namespaces; only `{default_namespace}` is shown"
                ));
            }
            Ok(result)
        }
        result => result,
    }
}
