//! Prints lists whose rows are all read at once. A verb reads the rows. [`ListRow`] defines how to
//! sort, name and render them.

use serde::Serialize;

use super::list::{ListOptions, Listing, Refresh};
use crate::context::Context;
use gpuctl_cluster::{Connection, Failure};
use gpuctl_view::Format;

/// A row of a list, with everything that differs between lists.
pub(crate) trait ListRow: Sized {
    /// Key of the rows in the JSON document.
    const ROWS: &'static str = "items";
    /// Note on stderr for an empty list, such as `no quotas found`.
    const NONE: &'static str;
    /// Sort keys of `--sort-by`.
    type Key;
    /// Data that the document contains in addition to the rows, such as the number of measured
    /// devices.
    type Facts;

    /// Sorts the rows. Without a key, uses the default order of the list.
    fn sort(rows: &mut [Self], key: Option<Self::Key>);

    /// Lines of `-o name`, one per row. A watch identifies rows by these lines.
    fn names(page: &[Self]) -> Vec<String>;

    /// Builds the document for `-o json` from one page of `total` rows.
    fn document(page: &[Self], total: usize, facts: Self::Facts) -> impl Serialize;

    /// Renders the table for people or as CSV.
    fn table(page: &[Self], format: Format, headers: bool, context: &Context) -> String;

    /// Suggests a next command for these rows.
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

/// Reads `resource` in all namespaces, or in the one given by `-n`. If the user may not list all
/// namespaces, warns and reads the kubeconfig's namespace.
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
