//! Collects the API server's warnings per task, because several tasks share one connection.
//! Admission policies and deprecated versions send them in `Warning` headers. Warnings outside a
//! task are dropped.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::Future;

use http::HeaderMap;

use gpuctl_core::model::values::excerpt::{SERVER_MESSAGE, excerpt};

/// Maximum number of warnings per task.
const MOST: usize = 100;

tokio::task_local! {
    static WARNINGS: RefCell<BTreeSet<String>>;
}

/// Runs `work`, and returns its result and the API server's warnings in the meantime, without
/// duplicates.
pub async fn with_warnings<T>(work: impl Future<Output = T>) -> (T, BTreeSet<String>) {
    let work = async {
        let outcome = work.await;
        (outcome, WARNINGS.with(RefCell::take))
    };
    WARNINGS.scope(RefCell::default(), work).await
}

/// Records the text of each `Warning` header of the form `299 - "text"`.
pub(crate) fn note(headers: &HeaderMap) {
    for header in headers.get_all("warning") {
        let text = header.to_str().unwrap_or_default();
        let quoted = text.splitn(3, ' ').nth(2).unwrap_or(text).trim();
        let inner = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
            .unwrap_or(quoted);
        if !inner.is_empty() {
            // Ignore the error of calls outside a task.
            let _ = WARNINGS.try_with(|warnings| {
                let mut warnings = warnings.borrow_mut();
                if warnings.len() < MOST {
                    warnings.insert(excerpt(inner, SERVER_MESSAGE).replace("\\\"", "\""));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join;
    use http::HeaderValue;

    use super::*;

    fn warning_header(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(http::header::WARNING, HeaderValue::from_static(text))])
    }

    #[tokio::test]
    async fn concurrent_tasks_collect_only_their_own_warnings() {
        let work = async |text: &'static str| {
            note(&warning_header(text));
            tokio::task::yield_now().await;
            note(&warning_header(text));
        };
        let first = with_warnings(work(r#"299 - "use \"batch/v1\"""#));
        let (first, second) = join(first, with_warnings(work("299 - unquoted"))).await;
        assert_eq!(first.1, BTreeSet::from([r#"use "batch/v1""#.to_owned()]));
        assert_eq!(second.1, BTreeSet::from(["unquoted".to_owned()]));
        note(&warning_header("299 - \"dropped\""));
        assert!(with_warnings(async {}).await.1.is_empty());
    }
}
