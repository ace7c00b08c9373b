//! Finds the plural names of the kinds of an API version, which paths are made of. A cluster keeps its kinds, so what it said is believed
//! for some minutes, unless a kind is wanted that it did not name.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Connection;
use crate::cache::Cache;

/// Seconds for which kinds are believed.
const KEPT: i64 = 600;

/// The plural of each kind; `None` for one that lives in no namespace.
pub(super) type Kinds = BTreeMap<String, Option<String>>;

impl Connection {
    /// Returns the kinds of a version, `wanted` among them if the server has them; none where the version is not served or may not be seen.
    pub(super) async fn kinds_of(&self, version: &str, wanted: &BTreeSet<&str>) -> Kinds {
        if !is_plain(version) {
            return Kinds::new();
        }
        // A bundle answers for another cluster than the one at its address.
        let cache = if self.access.bundle.is_some() { Cache::none() } else { Cache::of_found() };
        let question = json!(["kinds", self.server, version]).to_string();
        let now = self.server_time().map(Timestamp::as_second);
        if let Some(kinds) = now.and_then(|now| young(cache.get(&question)?, now))
            && wanted.iter().all(|kind| kinds.contains_key(*kind))
        {
            return kinds;
        }
        let found = self.find::<Value>(&format!("{}/{version}", root_of(version))).await.ok().flatten();
        let kinds = found.as_ref().map(kinds_in).unwrap_or_default();
        if let Some(now) = now.filter(|_| !kinds.is_empty()) {
            cache.put(&question, &json!({"at": now, "kinds": kinds}));
        }
        kinds
    }
}

/// Returns what was kept, if it is of the last minutes. A clock that was set back makes nothing young.
fn young(mut kept: Value, now: i64) -> Option<Kinds> {
    let is_young = (0..KEPT).contains(&(now - kept["at"].as_i64()?));
    is_young.then(|| serde_json::from_value(kept["kinds"].take()).ok()).flatten()
}

/// Reads an answer of discovery. A name with `/` is a part of a kind.
fn kinds_in(list: &Value) -> Kinds {
    list["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| Some((one["kind"].as_str()?, one["name"].as_str()?, one["namespaced"].as_bool()?)))
        .filter(|(_, plural, _)| !plural.contains('/'))
        .map(|(kind, plural, namespaced)| (kind.to_owned(), namespaced.then(|| plural.to_owned())))
        .collect()
}

/// Returns where the versions of a group begin.
pub(super) fn root_of(version: &str) -> &'static str {
    if version.contains('/') { "/apis" } else { "/api" }
}

/// Returns true for what can stand in a path as it is: references are anybody's words.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/' | b'_')) && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_kinds_age() {
        let kept = json!({"at": 1000, "kinds": {"RayJob": "rayjobs", "Region": null}});
        let of = |now| young(kept.clone(), now);
        assert_eq!(of(1599).and_then(|kinds| kinds["RayJob"].clone()).as_deref(), Some("rayjobs"));
        assert_eq!((of(1600), of(999)), (None, None));
        assert_eq!(young(json!({"at": 1000, "kinds": "x"}), 1001), None);
    }
}
