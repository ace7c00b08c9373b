//! Tests for `decode.rs`.

use super::*;

#[test]
fn a_nearly_empty_pod_is_a_pod() {
    let page: ListPage<WirePod<'_>> =
        serde_json::from_str(r#"{"items":[{"metadata":{"name":"a\u001bb"}},{}]}"#).unwrap();
    assert_eq!(page.items[0].pod().name, "a\u{1b}b");
    assert_eq!(page.items[1].pod().phase, PodPhase::Pending);
    let text = r#"{"items":[{"status":{"containerStatuses":[{"name":"main","state":{"terminated":{"exitCode":128,
            "reason":"StartError","message":"no such program\n","startedAt":"1970-01-01T00:00:00Z","finishedAt":"2026-01-31T10:00:00Z"}}}]}}]}"#;
    let page: ListPage<WirePod<'_>> = serde_json::from_str(text).unwrap();
    let pod = page.items[0].pod();
    assert_eq!(
        (pod.started_at, pod.ended_at),
        (None, Some("2026-01-31T10:00:00Z".parse().unwrap()))
    );
    assert_eq!(
        pod.containers[0].terminated.as_ref().unwrap().message,
        "no such program"
    );
    let empty: ListPage<WirePod<'_>> = serde_json::from_str(r#"{"items":null}"#).unwrap();
    assert!(empty.items.is_empty());
}
