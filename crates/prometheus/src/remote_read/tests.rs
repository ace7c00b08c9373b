//! Tests the requests and responses of remote read.

use proptest::prelude::*;

use super::*;
use crate::encode::{encode_chunk, frame};

fn range() -> SampleRange {
    SampleRange {
        query: String::new(),
        names: "a|b".to_owned(),
        start: UnixSeconds(10),
        end: UnixSeconds(20),
    }
}

fn labelled_series(labels: &[(&str, &str)], points: &[(i64, f64)]) -> Series {
    let labels = labels
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Series {
        labels,
        points: points
            .iter()
            .map(|(at, value)| Point {
                at: *at,
                value: *value,
            })
            .collect(),
    }
}

#[test]
fn series_split_over_frames_are_joined() {
    let labels = [("__name__", "a"), ("cluster", "x")];
    let mut body = frame(
        &labels,
        &[
            (1, encode_chunk(&[(9_999, 1.0), (10_000, 2.0)])),
            (1, encode_chunk(&[(19_999, 3.0)])),
        ],
    );
    body.extend(frame(&labels, &[(1, encode_chunk(&[(20_000, 4.0)]))]));
    body.extend(frame(
        &[("__name__", "b"), ("cluster", "x")],
        &[(1, encode_chunk(&[(5, 4.0)]))],
    ));
    let none = Labels::default();
    let decoded = series(
        "application/x-streamed-protobuf; proto=x",
        &body,
        &range(),
        &none,
    )
    .unwrap();
    assert_eq!(
        decoded,
        [labelled_series(&labels, &[(10_000, 2.0), (19_999, 3.0)])]
    );
    let added: Labels = [("cluster".to_owned(), "x".to_owned())]
        .into_iter()
        .collect();
    let bare = series(CHUNKS, &body, &range(), &added).unwrap();
    assert_eq!(
        bare,
        [labelled_series(
            &[("__name__", "a")],
            &[(10_000, 2.0), (19_999, 3.0)]
        )]
    );
    assert_eq!(series("text/html", &body, &range(), &none), None);
    assert_eq!(
        series(CHUNKS, &body[..body.len() - 1], &range(), &none),
        None,
        "it breaks off"
    );
    let histogram = frame(&labels, &[(2, encode_chunk(&[(10_000, 2.0)]))]);
    assert_eq!(series(CHUNKS, &histogram, &range(), &none), None);
    let twice = frame(
        &labels,
        &[
            (1, encode_chunk(&[(11_000, 1.0)])),
            (1, encode_chunk(&[(11_000, 1.0)])),
        ],
    );
    assert_eq!(
        series(CHUNKS, &twice, &range(), &none),
        None,
        "samples overlap"
    );
}

#[test]
fn store_is_trusted_if_both_results_match() {
    let queried = [
        labelled_series(&[("__name__", "a"), ("gpu", "0")], &[(1, 1.0)]),
        labelled_series(&[("__name__", "a"), ("gpu", "1")], &[(1, f64::NAN)]),
    ];
    let with = |more: &[(&str, &str)], value: f64| {
        let series_of = |gpu: &'static str, value: f64| {
            labelled_series(
                &[&[("__name__", "a"), ("gpu", gpu)], more].concat(),
                &[(1, value)],
            )
        };
        [series_of("0", value), series_of("1", f64::NAN)]
    };
    let judged = |chunks: Option<&[Series]>| {
        let trust = ChunkTrust::default();
        for _ in 0..BEFORE_TRIAL {
            assert!(matches!(trust.next(), ReadMethod::Query));
        }
        assert!(
            matches!(trust.next(), ReadMethod::Both) && matches!(trust.next(), ReadMethod::Query),
            "one is tried at a time"
        );
        trust.judge(&queried, chunks);
        match trust.next() {
            ReadMethod::Chunks(added) => Some(
                added
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect::<Vec<_>>(),
            ),
            ReadMethod::Query => None,
            ReadMethod::Both => panic!("an answer tells something"),
        }
    };
    assert_eq!(judged(Some(&with(&[], 1.0))), Some(Vec::new()));
    assert_eq!(
        judged(Some(&with(&[("cluster", "x"), ("zone", "y")], 1.0))),
        Some(vec!["cluster=x".to_owned(), "zone=y".to_owned()])
    );
    assert_eq!(judged(Some(&with(&[], 2.0))), None, "another value");
    assert_eq!(judged(Some(&with(&[], 1.0)[..1])), None, "a series less");
    assert_eq!(judged(Some(&[])), None);
    assert_eq!(judged(None), None);
    let mut mixed = with(&[("cluster", "x")], 1.0);
    mixed[1] = with(&[("cluster", "z")], 1.0)[1].clone();
    assert_eq!(judged(Some(&mixed)), None, "each has another label");
    let trust = ChunkTrust::default();
    trust.judge(&[], Some(&[]));
    assert!(
        matches!(trust.next(), ReadMethod::Both),
        "nothing tells nothing"
    );
}

proptest! {
    #[test]
    fn arbitrary_answers_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0_usize..60) {
        let _ = series(CHUNKS, &bytes, &range(), &Labels::default());
        let mut frames = frame(&[("__name__", "a")], &[(1, encode_chunk(&[(10_000, 2.0), (15_000, 3.0)]))]);
        let place = cut.min(frames.len() - 1);
        frames[place] ^= bytes.first().copied().unwrap_or(1);
        let _ = series(CHUNKS, &frames, &range(), &Labels::default());
    }
}
