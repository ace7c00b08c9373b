//! Decodes Prometheus responses: status, warnings and series.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use gpuctl_core::model::values::excerpt::{SERVER_MESSAGE, excerpt};
use gpuctl_core::model::values::json_weight::WithinWeight;
use gpuctl_core::model::values::series::{Labels, Point, Series};

use super::samples::CutResponse;

/// Responses up to this size (without their samples) are parsed without estimating their memory.
const UNWEIGHED: usize = 4 << 20;
/// Maximum estimated memory of a response without its samples, in bytes.
const MEMORY: usize = 192 << 20;

/// Maximum number of warnings that are shown for one response.
const MOST_WARNINGS: usize = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    pub status: String,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    pub error_type: String,
    #[serde(default)]
    pub error: String,
    /// Go encodes an empty list as `null`.
    #[serde(default)]
    warnings: Option<Vec<String>>,
    /// VictoriaMetrics sets this if some of its storage nodes did not respond.
    #[serde(default)]
    is_partial: bool,
    /// Lists of samples that were cut out of the JSON before parsing.
    #[serde(skip)]
    lists: Vec<Option<Vec<Point>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default)]
    result_type: String,
    result: Option<QueryResult>,
}

/// One sample of an instant vector, such as `[1609459200.123, "97"]`.
struct OnePoint(Point);

fn point(seconds: f64, text: &str) -> Point {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a time in milliseconds fits"
    )]
    let time = (seconds * 1000.0).round() as i64;
    // Text that is not a number becomes NaN, which callers reject and count.
    Point {
        at: time,
        value: text.parse().unwrap_or(f64::NAN),
    }
}

impl<'de> Deserialize<'de> for OnePoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_tuple(2, PairOfNumbers)
    }
}

struct PairOfNumbers;

impl<'de> Visitor<'de> for PairOfNumbers {
    type Value = OnePoint;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a time and a number in quotes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<OnePoint, A::Error> {
        let short = || de::Error::invalid_length(0, &self);
        let seconds: f64 = pair.next_element()?.ok_or_else(short)?;
        // Prometheus writes numbers without escapes, so the text can be borrowed from the response.
        let text: &str = pair.next_element()?.ok_or_else(short)?;
        Ok(OnePoint(point(seconds, text)))
    }
}

#[derive(Deserialize)]
struct WireSeries {
    #[serde(default)]
    metric: Labels,
    value: Option<OnePoint>,
    values: Option<Points>,
}

/// Parsed samples, or the index of the list that was cut out.
#[derive(Deserialize)]
#[serde(untagged)]
enum Points {
    Extracted(usize),
    Inline(Vec<OnePoint>),
}

/// The `result` field: a list of series, or the time and text of a scalar.
#[derive(Default)]
struct QueryResult {
    series: Vec<WireSeries>,
    scalar: (Option<f64>, Option<String>),
}

impl<'de> Deserialize<'de> for QueryResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for QueryResult {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        while let Some(item) = list.next_element::<ResultItem>()? {
            match item {
                ResultItem::Series(series) => self.series.push(series),
                ResultItem::Number(number) => self.scalar.0 = Some(number),
                ResultItem::Text(text) => self.scalar.1 = Some(text),
            }
        }
        Ok(self)
    }
}

enum ResultItem {
    Series(WireSeries),
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for ResultItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyItem)
    }
}

struct AnyItem;

impl<'de> Visitor<'de> for AnyItem {
    type Value = ResultItem;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ResultItem, A::Error> {
        WireSeries::deserialize(MapAccessDeserializer::new(map)).map(ResultItem::Series)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<ResultItem, E> {
        Ok(ResultItem::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<ResultItem, E> {
        Ok(ResultItem::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ResultItem, E> {
        Ok(ResultItem::Text(text.to_owned()))
    }
}

impl WireSeries {
    /// Converts to the domain type. Returns `None` if the index refers to a missing list or to one
    /// of another series.
    fn series(self, lists: &mut [Option<Vec<Point>>]) -> Option<Series> {
        let mut points = match self.values {
            None => Vec::new(),
            Some(Points::Extracted(number)) => lists.get_mut(number)?.take()?,
            Some(Points::Inline(points)) => {
                points.into_iter().map(|OnePoint(point)| point).collect()
            }
        };
        points.extend(self.value.map(|OnePoint(point)| point));
        Some(Series {
            labels: self.metric,
            points,
        })
    }
}

/// Error in a response that was parsed successfully.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("the response has no data")]
    NoData,
    #[error("the response has no result")]
    NoResult,
    #[error("the samples in the response are not a list")]
    NoList,
    #[error("unexpected response type `{0}`")]
    Type(String),
}

impl Envelope {
    /// Parses a response, or returns `None` if it is not a Prometheus response.
    pub(super) fn read(answer: &str) -> Option<Self> {
        let CutResponse { rest, lists } = CutResponse::new(answer);
        if rest.len() > UNWEIGHED {
            let mut json = serde_json::Deserializer::from_str(&rest);
            WithinWeight(MEMORY).deserialize(&mut json).ok()?;
        }
        let envelope: Self = serde_json::from_str(&rest).ok()?;
        Some(Self {
            lists: lists.into_iter().map(Some).collect(),
            ..envelope
        })
    }

    /// Returns the server's warnings about its response.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let partial = self
            .is_partial
            .then(|| "the response is partial: some stores did not respond".to_owned());
        let texts = self.warnings.iter().flatten().take(MOST_WARNINGS);
        texts
            .map(|text| excerpt(text, SERVER_MESSAGE).into_owned())
            .chain(partial)
    }

    /// Extracts the series of a successful response.
    pub(super) fn series(mut self) -> Result<Vec<Series>, DecodeError> {
        let data = self.data.ok_or(DecodeError::NoData)?;
        let answer = data.result.ok_or(DecodeError::NoResult)?;
        match (data.result_type.as_str(), answer.scalar) {
            ("vector" | "matrix", (None, None)) => {
                let series = answer
                    .series
                    .into_iter()
                    .map(|series| series.series(&mut self.lists));
                series.collect::<Option<_>>().ok_or(DecodeError::NoList)
            }
            ("scalar", (Some(seconds), Some(text))) => Ok(vec![Series {
                labels: Labels::default(),
                points: vec![point(seconds, &text)],
            }]),
            (result_type, _) => Err(DecodeError::Type(result_type.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares cut-out lists of samples with lists that serde_json parses.
        #[test]
        fn both_decoders_return_the_same_samples(
            lists in prop::collection::vec(prop::collection::vec((0_u32..2_000_000_000, 0_u32..1000, any::<f64>(), 0_u8..4), 0..6), 0..4),
            space in prop::bool::weighted(0.2),
        ) {
            let pair = |(seconds, part, value, form): &(u32, u32, f64, u8)| match form {
                0 => format!("[{seconds},\"{value}\"]"),
                1 => format!("[{seconds}.{part:03},\"{}\"]", part % 101),
                2 => format!("[{seconds}.{part},\"{value:e}\"]"),
                _ => format!("[{seconds}.5,\"{}\"]", ["NaN", "+Inf", "-Inf", "0.5"][*part as usize % 4]),
            };
            let series = |list: &Vec<_>| {
                let pairs: Vec<String> = list.iter().map(pair).collect();
                format!("{{\"metric\":{{\"a\":\"\\\"values\\\":[[1,\"}},\"values\":[{}]}}", pairs.join(if space { ", " } else { "," }))
            };
            let texts: Vec<String> = lists.iter().map(series).collect();
            let text = format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{}]}}}}", texts.join(","));
            let cut = Envelope::read(&text).unwrap().series().unwrap();
            let plain = serde_json::from_str::<Envelope>(&text).unwrap().series().unwrap();
            let points = |texts: &[Series]| -> Vec<(i64, u64)> {
                texts.iter().flat_map(|decoded| &decoded.points).map(|point| (point.at, point.value.to_bits())).collect()
            };
            prop_assert_eq!(points(&cut), points(&plain));
            prop_assert!(cut.iter().zip(&plain).all(|(a, b)| a.labels == b.labels));
        }
    }

    #[test]
    fn all_result_types_become_series() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"gpu":"0","model\u0041":"x"},"value":[1700000000.5,"97"]},{"metric":{},"value":[1,"NaN"]},
            {"metric":{},"value":[1,"+Inf"]}]},"warnings":["partial"]}"#;
        let envelope = Envelope::read(vector).unwrap();
        assert_eq!(envelope.warnings().collect::<Vec<_>>(), ["partial"]);
        let series = envelope.series().unwrap();
        assert_eq!(
            (series[0].label("gpu"), series[0].label("modelA")),
            (Some("0"), Some("x"))
        );
        assert_eq!(
            series[0].points,
            [Point {
                at: 1_700_000_000_500,
                value: 97.0
            }]
        );
        assert!(series[1].points[0].value.is_nan() && series[2].points[0].value.is_infinite());

        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"],[3,"4"]]}]}}"#;
        let envelope = Envelope::read(matrix).unwrap();
        let point = |at: i64, value: f64| Point { at, value };
        assert_eq!(
            envelope.series().unwrap()[0].points,
            [point(1000, 2.0), point(3000, 4.0)]
        );
        // Other servers write spaces after commas, or format times as Python does.
        let spaced = matrix.replace(",[", ", [").replace("[3,", "[3.0000001,");
        assert_eq!(
            Envelope::read(&spaced).unwrap().series().unwrap()[0].points,
            [point(1000, 2.0), point(3000, 4.0)]
        );
        let number = matrix.replace(r#"[[1,"2"],[3,"4"]]"#, "7");
        assert!(Envelope::read(&number).unwrap().series().is_err());
        let taken = matrix.replace(
            r#"{"metric":{},"#,
            r#"{"metric":{},"values":0},{"metric":{},"#,
        );
        assert!(
            Envelope::read(&taken).unwrap().series().is_err(),
            "it is another's"
        );
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#;
        let envelope = Envelope::read(scalar).unwrap();
        assert_eq!(envelope.series().unwrap()[0].points[0].value, 2.5);
        let partial = r#"{"status":"success","isPartial":true,"warnings":null,"data":{"resultType":"vector","result":[]}}"#;
        let envelope = Envelope::read(partial).unwrap();
        assert_eq!(
            (
                envelope.warnings().count(),
                envelope.series().unwrap().len()
            ),
            (1, 0)
        );
        let error =
            Envelope::read(r#"{"status":"error","errorType":"execution","error":"too many"}"#)
                .unwrap();
        assert_eq!(error.error_type, "execution");
        assert!(error.series().is_err());
    }
}
