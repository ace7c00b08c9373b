//! Tests the checks about Prometheus.

use super::*;

#[test]
fn retention_is_read_as_prometheus_writes_it() {
    assert_eq!(
        (days("15d"), days("1w2d"), days("36h")),
        (Some(15.0), Some(9.0), Some(1.5))
    );
    assert_eq!((days("d"), days("15"), days("x5d")), (None, None, None));
    let check = |text: &str| {
        check_retention(format!("{{\"data\":{{\"storageRetention\":\"{text}\"}}}}").as_bytes())
    };
    assert_eq!(check("15d or 10GiB").unwrap().status, CheckStatus::Ok);
    assert_eq!(check("6h").unwrap().status, CheckStatus::Warn);
    assert!(check("").is_none() && check_retention(b"{}").is_none());
}

#[test]
fn clocks_may_differ_by_a_request() {
    let at = |second| Timestamp::from_second(second).unwrap();
    assert!(
        check_clock("X", None, at(0)).is_none()
            && check_clock("X", Some(at(100)), at(105)).is_none()
    );
    assert!(
        check_clock("X", Some(at(100)), at(40))
            .unwrap()
            .message
            .contains("60 s behind that of X")
    );
    assert!(
        check_clock("X", Some(at(40)), at(100))
            .unwrap()
            .message
            .contains("60 s ahead of that of X")
    );
}

#[test]
fn a_cluster_without_pods_is_not_a_missing_exporter() {
    promql_parser::parser::parse(PODS_OF_KUBE_STATE).unwrap();
    let status = |count| check_pods(count).status;
    assert_eq!(status(Some(12.0)), CheckStatus::Ok);
    assert_eq!(status(Some(0.0)), CheckStatus::Ok);
    assert_eq!(status(Some(-1.0)), CheckStatus::Warn);
    let failed = check_pods(None);
    assert_eq!(failed.status, CheckStatus::Warn);
    assert!(
        failed.message.contains("failed"),
        "a failure proves nothing"
    );
}
