//! The envelope of Prometheus' answers, read in place: names and values are borrowed from the bytes until a series is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::model::series::{Point, Series};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a> {
    pub status: Cow<'a, str>,
    #[serde(default)]
    data: Option<Data>,
    #[serde(default)]
    pub error_type: String,
    #[serde(default)]
    pub error: String,
    /// Go writes `null` for an empty list.
    #[serde(default)]
    warnings: Option<Vec<String>>,
    /// How VictoriaMetrics says that a part of its stores did not answer.
    #[serde(default)]
    is_partial: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    #[serde(default)]
    result_type: String,
    result: Option<Answer>,
}

/// `[1609459200.123, "97"]`.
struct OnePoint(Point);

fn point(seconds: f64, text: &str) -> Point {
    #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds fits")]
    let at = (seconds * 1000.0).round() as i64;
    // What is no number at all is as good as NaN: both are refused later, and counted.
    Point { at, value: text.parse().unwrap_or(f64::NAN) }
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
        // Numbers are written without escapes.
        let text: &str = pair.next_element()?.ok_or_else(short)?;
        Ok(OnePoint(point(seconds, text)))
    }
}

#[derive(Deserialize)]
struct WireSeries {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    value: Option<OnePoint>,
    #[serde(default)]
    values: Points,
}

/// Samples one after the other, for there are many.
#[derive(Default)]
struct Points(Vec<Point>);

impl<'de> Deserialize<'de> for Points {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Points {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        while let Some(OnePoint(point)) = list.next_element()? {
            self.0.push(point);
        }
        self.0.shrink_to_fit();
        Ok(self)
    }
}

/// What stands under `result`: series, or the time and the text of one number.
#[derive(Default)]
struct Answer {
    series: Vec<Series>,
    scalar: (Option<f64>, Option<String>),
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self::default())
    }
}

impl<'de> Visitor<'de> for Answer {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self, A::Error> {
        while let Some(item) = list.next_element::<Item>()? {
            match item {
                Item::Series(series) => self.series.push(series),
                Item::Number(number) => self.scalar.0 = Some(number),
                Item::Text(text) => self.scalar.1 = Some(text),
            }
        }
        Ok(self)
    }
}

enum Item {
    Series(Series),
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyItem)
    }
}

struct AnyItem;

impl<'de> Visitor<'de> for AnyItem {
    type Value = Item;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a series")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        let series = WireSeries::deserialize(MapAccessDeserializer::new(map))?;
        let mut points = series.values.0;
        points.extend(series.value.map(|OnePoint(point)| point));
        Ok(Item::Series(Series { labels: series.metric, points }))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Item, E> {
        Ok(Item::Number(number as f64))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Item, E> {
        Ok(Item::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
        Ok(Item::Text(text.to_owned()))
    }
}

impl Envelope<'_> {
    /// What the server says of its own answer.
    pub fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let partial = self.is_partial.then(|| "the answer is partial: not every store took part".to_owned());
        self.warnings.iter().flatten().cloned().chain(partial)
    }

    /// The series of a successful answer.
    pub fn series(self) -> Result<Vec<Series>, String> {
        let data = self.data.ok_or("an answer without data")?;
        let answer = data.result.ok_or("an answer without a result")?;
        match (data.result_type.as_str(), answer.scalar) {
            ("vector" | "matrix", (None, None)) => Ok(answer.series),
            ("scalar", (Some(seconds), Some(text))) => {
                Ok(vec![Series { labels: BTreeMap::new(), points: vec![point(seconds, &text)] }])
            }
            (other, _) => Err(format!("an answer of the type `{other}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_answer_is_series() {
        let vector = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"gpu":"0","model\u0041":"x"},"value":[1700000000.5,"97"]},{"metric":{},"value":[1,"NaN"]},
            {"metric":{},"value":[1,"+Inf"]}]},"warnings":["partial"]}"#;
        let envelope: Envelope<'_> = serde_json::from_str(vector).unwrap();
        assert_eq!(envelope.warnings().collect::<Vec<_>>(), ["partial"]);
        let found = envelope.series().unwrap();
        assert_eq!((found[0].label("gpu"), found[0].label("modelA")), (Some("0"), Some("x")));
        assert_eq!(found[0].points, [Point { at: 1_700_000_000_500, value: 97.0 }]);
        assert!(found[1].points[0].value.is_nan() && found[2].points[0].value.is_infinite());

        let matrix = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"],[3,"4"]]}]}}"#;
        let envelope: Envelope<'_> = serde_json::from_str(matrix).unwrap();
        assert_eq!(envelope.series().unwrap()[0].points.len(), 2);
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2.5"]}}"#;
        let envelope: Envelope<'_> = serde_json::from_str(scalar).unwrap();
        assert_eq!(envelope.series().unwrap()[0].points[0].value, 2.5);
        let partial = r#"{"status":"success","isPartial":true,"warnings":null,"data":{"resultType":"vector","result":[]}}"#;
        let envelope: Envelope<'_> = serde_json::from_str(partial).unwrap();
        assert_eq!((envelope.warnings().count(), envelope.series().unwrap().len()), (1, 0));
        let error: Envelope<'_> =
            serde_json::from_str(r#"{"status":"error","errorType":"execution","error":"too many"}"#).unwrap();
        assert_eq!(error.error_type, "execution");
        assert!(error.series().is_err());
    }
}
