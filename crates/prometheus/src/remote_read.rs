//! Encodes remote-read requests for samples in Prometheus' chunk format, and decodes the responses.
//! The transport sends them. Source: Prometheus, "Remote Read API" and `prompb/remote.proto`,
//! `prompb/types.proto`.
//!
//! Remote read is used only after it returned the same samples as a query. Otherwise missing
//! samples or the store's external labels could change results.

use std::cell::RefCell;
use std::collections::BTreeMap;

use gpuctl_core::model::UnixSeconds;
use gpuctl_core::model::values::series::{Labels, Point, Series};
use gpuctl_core::protobuf::{MessageReader, Scalar, put_bytes, put_number, put_varint};

use super::Matchers;
use super::chunk;
use super::matchers::optional;

/// The samples of some metrics in the half-open range `[start, end)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRange {
    /// PromQL query that returns these samples.
    pub query: String,
    /// Regex that matches the names of all metrics in `query`.
    pub names: String,
    pub start: UnixSeconds,
    pub end: UnixSeconds,
}

/// Media type of requests.
pub(super) const MEDIA_TYPE: &str = "application/x-protobuf";
/// Prefix of the media type of streamed chunks.
const CHUNKS: &str = "application/x-streamed-protobuf";
/// Number of ranges that are queried before remote read is tried. Remote read pays off only for
/// long histories.
const BEFORE_TRIAL: usize = 4;

/// Records whether remote read may replace queries to a store.
#[derive(Debug, Default)]
pub(super) struct ChunkTrust(RefCell<TrustState>);

#[derive(Debug)]
enum TrustState {
    /// Only queries were sent so far; holds their number.
    Untried(usize),
    /// One range is being fetched both ways.
    OnTrial,
    /// Remote read is used. Holds the labels that the store adds to every series.
    Trusted(Labels),
    Refused,
}

impl Default for TrustState {
    fn default() -> Self {
        Self::Untried(0)
    }
}

/// How to fetch one range of samples.
pub(super) enum ReadMethod {
    Query,
    /// Fetch by query and by remote read, to compare the results.
    Both,
    /// Fetch by remote read and remove these labels, which the store adds to every series.
    Chunks(Labels),
}

impl ChunkTrust {
    /// Returns how to fetch the next range.
    pub(super) fn next(&self) -> ReadMethod {
        let mut state = self.0.borrow_mut();
        match &mut *state {
            TrustState::Untried(queried) if *queried < BEFORE_TRIAL => *queried += 1,
            TrustState::Untried(_) => {
                *state = TrustState::OnTrial;
                return ReadMethod::Both;
            }
            TrustState::Trusted(added) => return ReadMethod::Chunks(added.clone()),
            TrustState::OnTrial | TrustState::Refused => {}
        }
        ReadMethod::Query
    }

    /// Ends the trial by comparing the results of both methods. If both are empty, the next range
    /// is another trial.
    pub(super) fn judge(&self, queried: &[Series], chunks: Option<&[Series]>) {
        *self.0.borrow_mut() = match chunks {
            None => TrustState::Refused,
            Some([]) if queried.is_empty() => TrustState::Untried(BEFORE_TRIAL),
            Some(chunks) => added(queried, chunks).map_or(TrustState::Refused, TrustState::Trusted),
        };
    }

    /// Disables remote read.
    pub(super) fn refuse(&self) {
        *self.0.borrow_mut() = TrustState::Refused;
    }
}

/// Returns the labels that all series of remote read have in addition to the queried ones, or
/// `None` if the results differ in any other way.
fn added(queried: &[Series], chunks: &[Series]) -> Option<Labels> {
    let (first, read_series) = (queried.first()?, chunks.iter());
    let extra_labels = |queried_series: &Series, read_series: &Series| -> Labels {
        let is_more = |(name, _): &(&str, &str)| queried_series.label(name).is_none();
        let pairs = read_series.labels.iter().filter(is_more);
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    let sizes = |series: &Series| series.labels.iter().count();
    let same = |read_series: &&Series| {
        first
            .labels
            .iter()
            .all(|(name, value)| read_series.label(name) == Some(value))
    };
    // Several series can contain all labels of `first`. Its counterpart is the one with the fewest
    // labels.
    let added = read_series
        .filter(same)
        .min_by_key(|series| sizes(series))
        .map(|read_series| extra_labels(first, read_series))?;
    let bare: BTreeMap<Labels, &[Point]> = chunks
        .iter()
        .map(|series| (without(&series.labels, &added), series.points.as_slice()))
        .collect();
    // Compare the bits, because NaN is not equal to itself.
    let bits = |points: &[Point]| -> Vec<(i64, u64)> {
        points
            .iter()
            .map(|sample| (sample.at, sample.value.to_bits()))
            .collect()
    };
    let is_alike = |series: &Series| {
        bare.get(&series.labels)
            .is_some_and(|points| bits(points) == bits(&series.points))
    };
    (bare.len() == queried.len() && chunks.len() == queried.len() && queried.iter().all(is_alike))
        .then_some(added)
}

fn without(labels: &Labels, added: &Labels) -> Labels {
    let kept = labels
        .iter()
        .filter(|(name, value)| added.get(name) != Some(value));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Encodes a request. The protocol requires Snappy, whose format allows uncompressed literals, so
/// this needs no compressor.
pub(super) fn question(range: &SampleRange, matchers: &Matchers) -> Vec<u8> {
    const PATTERN: u64 = 2;
    const STREAMED_CHUNKS: u64 = 1;
    // Maximum bytes of a literal: its length minus 1 is stored in two bytes.
    const PIECE: usize = 1 << 16;
    let mut query = Vec::new();
    put_number(&mut query, 1, range.start.millis().cast_unsigned());
    // `end_timestamp_ms` is inclusive.
    put_number(&mut query, 2, (range.end.millis() - 1).cast_unsigned());
    let names = ("__name__", range.names.as_str(), PATTERN);
    let patterns: Vec<String> = matchers
        .pairs()
        .iter()
        .filter(|_| matchers.includes_unlabeled())
        .map(|(_, value)| optional(value))
        .collect();
    let cluster_matchers = matchers
        .pairs()
        .iter()
        .enumerate()
        .map(|(number, (label, value))| match patterns.get(number) {
            Some(pattern) => (label.as_str(), pattern.as_str(), PATTERN),
            None => (label.as_str(), value.as_str(), 0),
        });
    for (label, value, how) in std::iter::once(names).chain(cluster_matchers) {
        let mut matcher = Vec::new();
        put_number(&mut matcher, 1, how);
        put_bytes(&mut matcher, 2, label.as_bytes());
        put_bytes(&mut matcher, 3, value.as_bytes());
        put_bytes(&mut query, 3, &matcher);
    }
    let mut request = Vec::new();
    put_bytes(&mut request, 1, &query);
    put_number(&mut request, 2, STREAMED_CHUNKS);
    let mut body = Vec::new();
    put_varint(&mut body, request.len() as u64);
    for piece in request.chunks(PIECE) {
        let length = u16::try_from(piece.len() - 1).expect("a piece has at most 2^16 bytes");
        // Tag of a literal whose length follows in two bytes. Source: google/snappy,
        // `format_description.txt`.
        body.push(61 << 2);
        body.extend(length.to_le_bytes());
        body.extend(piece);
    }
    body
}

/// Decodes the series of a response without the labels that the store adds. Returns `None` unless
/// the response consists of XOR chunks.
pub(super) fn series(
    media: &str,
    body: &[u8],
    range: &SampleRange,
    added: &Labels,
) -> Option<Vec<Series>> {
    if !media.starts_with(CHUNKS) {
        return None;
    }
    let (from, to) = (range.start.millis(), range.end.millis() - 1);
    let mut decoded_series: Vec<Series> = Vec::new();
    let mut frames = MessageReader::new(body);
    while !frames.is_at_end() {
        // A frame consists of its length, a 4-byte checksum and the message. Source: Prometheus,
        // `storage/remote/chunked.go`.
        let length = frames.varint().ok()?;
        // Skip the checksum: truncated and malformed chunks fail to decode anyway.
        frames.take(4).ok()?;
        let mut response = MessageReader::new(frames.take(length).ok()?);
        while let Some(field) = response.field().ok()? {
            let (1, Scalar::Bytes(decoded)) = field else {
                continue;
            };
            let decoded = one_series(decoded, from, to)?;
            match decoded_series.last_mut() {
                // Prometheus splits a long series across several frames.
                Some(last) if last.labels == decoded.labels => last.points.extend(decoded.points),
                _ => decoded_series.push(decoded),
            }
        }
    }
    let is_in_order = |series: &Series| series.points.windows(2).all(|two| two[0].at < two[1].at);
    if !decoded_series.iter().all(is_in_order) {
        return None;
    }
    // A chunk can overlap the range without having a sample in it.
    decoded_series.retain(|series| !series.points.is_empty());
    if added.iter().next().is_some() {
        decoded_series
            .iter_mut()
            .for_each(|series| series.labels = without(&series.labels, added));
    }
    Some(decoded_series)
}

fn one_series(message: &[u8], from: i64, to: i64) -> Option<Series> {
    const XOR: u64 = 1;
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(ToOwned::to_owned);
    let (mut labels, mut points) = (Vec::new(), Vec::new());
    let mut fields = MessageReader::new(message);
    while let Some(field) = fields.field().ok()? {
        let (number, Scalar::Bytes(inner)) = field else {
            continue;
        };
        let mut inner = MessageReader::new(inner);
        match number {
            1 => {
                let (mut name, mut value) = (String::new(), String::new());
                while let Some((number, Scalar::Bytes(bytes))) = inner.field().ok()? {
                    match number {
                        1 => name = text(bytes)?,
                        2 => value = text(bytes)?,
                        _ => {}
                    }
                }
                labels.push((name, value));
            }
            2 => {
                let (mut encoding, mut data) = (0, &[][..]);
                while let Some(field) = inner.field().ok()? {
                    match field {
                        (3, Scalar::Number(number)) => encoding = number,
                        (4, Scalar::Bytes(bytes)) => data = bytes,
                        _ => {}
                    }
                }
                if encoding != XOR {
                    return None;
                }
                chunk::read(data, from, to, &mut points)?;
            }
            _ => {}
        }
    }
    Some(Series {
        labels: labels.into_iter().collect(),
        points,
    })
}

#[cfg(test)]
mod tests;
