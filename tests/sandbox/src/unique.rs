//! Detects tests that use the same name.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Panics if another test of this program uses the name, because the tests run at the same time and
/// share a cluster.
#[track_caller]
pub fn assert_unique(name: &str) {
    static USED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = used.insert(name.to_owned());
    drop(used);
    assert!(is_new, "two tests use the name `{name}`");
}
