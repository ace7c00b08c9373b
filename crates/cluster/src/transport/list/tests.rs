//! Tests for `list.rs`.

use std::time::Duration;

use crate::transport::decode::WirePod;
use gpuctl_core::model::values::omissions;

use super::{Page, PageLimits, next_size};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn an_undecodable_object_does_not_hide_others() {
    let text = r#"{"metadata":{},"items":[
            {"metadata":{"name":"a","namespace":"n"}},
            {"metadata":{"name":"b","namespace":"n"},"spec":{"priority":"high"}},
            {"metadata":{"namespace":7}},
            {"metadata":{"name":"c"},"status":{"startTime":"9999-12-31T23:59:59Z"}}]}"#;
    let page = Page {
        bytes: text.as_bytes(),
        message: None,
        path: "/api/v1/pods",
    };
    let pods = page.objects::<WirePod<'_>>().unwrap();
    assert_eq!(
        pods.items
            .iter()
            .map(|pod| pod.metadata.name.as_ref())
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
    assert_eq!(
        omissions::messages(),
        [
            "2 objects cannot be read and are skipped, so counts may be incomplete: pods n/b, pods without a name"
        ]
    );
    let page = Page {
        bytes: b"<html>",
        message: None,
        path: "/api/v1/pods",
    };
    assert!(page.objects::<WirePod<'_>>().is_err());
}

#[test]
fn pages_grow_with_small_objects() {
    // Pages of 500 pods with 3.2 kB, 9 kB and 200 bytes per pod.
    assert_eq!(
        (
            next_size(500, 1_600_000),
            next_size(500, 4_500_000),
            next_size(500, 100_000)
        ),
        (1310, 500, 2000)
    );
    // The first objects are small and later ones are not.
    assert_eq!(
        (next_size(2000, 40_000_000), next_size(500, 0)),
        (500, 2000)
    );
}

/// Accepts pages until a limit is exceeded, and returns their number and the error.
fn refused(objects: usize, token: impl Fn(usize) -> String, elapsed: Duration) -> (usize, String) {
    let mut limits = PageLimits::new(MINUTE);
    (0..10_000)
        .find_map(|page| {
            let result = limits.count(objects, objects * 100);
            result
                .and_then(|()| limits.take(objects, 2000, &token(page), elapsed))
                .err()
                .map(|error| (page, error.to_string()))
        })
        .expect("a limit is met")
}

#[test]
fn an_endless_list_is_abandoned() {
    let distinct = |page: usize| page.to_string();
    assert_eq!(
        refused(0, distinct, Duration::ZERO),
        (9, "10 pages in a row have no objects".to_owned())
    );
    assert_eq!(
        refused(1, distinct, Duration::ZERO),
        (200, "200 pages have only a few objects each".to_owned())
    );
    assert_eq!(
        refused(2000, distinct, Duration::ZERO),
        (375, "it has more than 750000 objects".to_owned())
    );
    let cycle = |page: usize| (page % 3).to_string();
    assert_eq!(
        refused(2000, cycle, Duration::ZERO),
        (3, "it returned to a page that was already read".to_owned())
    );
    let slow = refused(2000, distinct, Duration::from_secs(51));
    assert_eq!(
        PageLimits::new(MINUTE)
            .count(50_001, 3 * 50_001)
            .unwrap_err()
            .to_string(),
        "it has 50001 objects of less than 60 bytes each"
    );
    assert_eq!(
        slow,
        (
            0,
            "after 51 s, it has 2000 objects and is still going".to_owned()
        )
    );
}

#[test]
fn half_a_million_pods_are_read_from_a_slow_server() {
    let mut limits = PageLimits::new(MINUTE);
    for page in 1..=1000_u32 {
        // At a rate of 500 objects every half second, the list takes 500 s.
        limits.count(500, 500 * 1000).unwrap();
        limits
            .take(
                500,
                500,
                &page.to_string(),
                Duration::from_millis(499) * page,
            )
            .unwrap();
    }
}
