//! Tests for `notify.rs`.

use super::*;

#[test]
fn a_lost_node_is_a_change_but_a_heartbeat_is_not() {
    let mut changes = WatchedCollection::default();
    let mut event = |kind: &str, version: u32, ready: &str, heartbeat: &str| {
        let event = serde_json::json!({"type": kind, "object": {
            "metadata": {"uid": "u", "resourceVersion": version.to_string()},
            "status": {"conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat}]},
        }});
        (
            changes.is_change(event.to_string().as_bytes()),
            changes.version.clone(),
        )
    };
    let version_of = |version: u32| Some(version.to_string());
    assert_eq!(
        event("MODIFIED", 5, "True", "a"),
        (true, version_of(5)),
        "the earlier state is unknown"
    );
    assert_eq!(event("MODIFIED", 6, "True", "b"), (false, version_of(6)));
    assert_eq!(event("BOOKMARK", 9, "True", "b"), (false, version_of(9)));
    assert_eq!(
        event("MODIFIED", 10, "Unknown", "b"),
        (true, version_of(10))
    );
    assert_eq!(event("DELETED", 11, "Unknown", "b"), (true, version_of(11)));
    assert_eq!(
        event("ERROR", 0, "", ""),
        (true, None),
        "changes in between are unknown, so the state is read again"
    );
}
