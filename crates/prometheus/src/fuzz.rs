//! Entry points for fuzzers that pass Prometheus responses and queries. Each checks invariants that
//! hold for any input.

use super::decode::Envelope;
use super::remote_read::{self, SampleRange};
use super::{chunk, encode, exact_names};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::series::{Labels, Series};

/// Parses any bytes as a JSON response.
pub fn answer(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Some(envelope) = Envelope::read(text) {
        assert!(
            serde_json::from_str::<serde_json::Value>(text).is_ok(),
            "invalid JSON was accepted"
        );
        let _ = envelope.warnings().count();
        let _ = envelope.series();
    }
}

/// Decodes any bytes as a chunk and as a remote-read response.
pub fn chunks(bytes: &[u8]) {
    let (start, end) = (UnixSeconds(-1_000), UnixSeconds(4_000_000_000));
    let (from, to) = (start.millis(), end.millis() - 1);
    let mut points = Vec::new();
    let _ = chunk::read(bytes, from, to, &mut points);
    assert!(
        points.iter().all(|point| (from..=to).contains(&point.at)),
        "a sample outside of the time"
    );
    let range = SampleRange {
        query: String::new(),
        names: String::new(),
        start,
        end,
    };
    let media = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse";
    let read: Option<Vec<Series>> = remote_read::series(media, bytes, &range, &Labels::default());
    for series in read.iter().flatten() {
        assert!(
            series.points.windows(2).all(|two| two[0].at < two[1].at),
            "samples out of order"
        );
    }
}

/// Searches any text for metric names.
pub fn names(text: &str) {
    let _ = exact_names::patterns(text).count();
}

/// Seeds for `chunks`: a chunk, and a response with two frames.
pub fn chunk_seeds() -> Vec<Vec<u8>> {
    let chunk = encode::encode_chunk(&[
        (1_000, 1.0),
        (16_000, 1.5),
        (31_000, f64::NAN),
        (46_007, -3e9),
    ]);
    let labels = [("__name__", "up"), ("pod", "a")];
    let frame = || encode::frame(&labels, &[(1, chunk.clone())]);
    vec![chunk.clone(), [frame(), frame()].concat()]
}

/// Counts the samples in a response.
pub fn points_in(answer: &str) -> usize {
    let series = Envelope::read(answer)
        .and_then(|envelope| envelope.series().ok())
        .expect("an answer");
    series.iter().map(|series| series.points.len()).sum()
}
