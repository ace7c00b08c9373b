//! The envelope of Prometheus' answers, read in place: names and values are borrowed from the bytes until a series is kept.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::series::{Point, Series};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope<'a> {
    pub status: Cow<'a, str>,
    #[serde(borrow)]
    data: Option<Data<'a>>,
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
struct Data<'a> {
    #[serde(default)]
    result_type: Cow<'a, str>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireSeries<'a> {
    #[serde(borrow, default)]
    metric: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<WirePoint<'a>>,
    #[serde(borrow, default)]
    values: Vec<WirePoint<'a>>,
}

/// `[1609459200.123, "97"]`.
#[derive(Deserialize)]
struct WirePoint<'a>(f64, #[serde(borrow)] Cow<'a, str>);

impl WirePoint<'_> {
    fn point(&self) -> Point {
        #[expect(clippy::cast_possible_truncation, reason = "a time in milliseconds fits")]
        let at = (self.0 * 1000.0).round() as i64;
        // What is no number at all is as good as NaN: both are refused later, and counted.
        Point { at, value: self.1.parse().unwrap_or(f64::NAN) }
    }
}

impl Envelope<'_> {
    /// What the server says of its own answer.
    pub fn warnings(&self) -> impl Iterator<Item = String> + '_ {
        let partial = self.is_partial.then(|| "the answer is partial: not every store took part".to_owned());
        self.warnings.iter().flatten().cloned().chain(partial)
    }

    /// The series of a successful answer.
    pub fn series(&self) -> Result<Vec<Series>, String> {
        let data = self.data.as_ref().ok_or("an answer without data")?;
        let text = data.result.ok_or("an answer without a result")?.get();
        let broken = |error: serde_json::Error| error.to_string();
        match data.result_type.as_ref() {
            "vector" | "matrix" => {
                let found: Vec<WireSeries<'_>> = serde_json::from_str(text).map_err(broken)?;
                Ok(found.iter().map(WireSeries::series).collect())
            }
            "scalar" => {
                let point: WirePoint<'_> = serde_json::from_str(text).map_err(broken)?;
                Ok(vec![Series { labels: BTreeMap::new(), points: vec![point.point()] }])
            }
            other => Err(format!("an answer of the type `{other}`")),
        }
    }
}

impl WireSeries<'_> {
    fn series(&self) -> Series {
        let labels = self.metric.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Series { labels, points: self.value.iter().chain(&self.values).map(WirePoint::point).collect() }
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
        let found = envelope.series().unwrap();
        assert_eq!((found[0].label("gpu"), found[0].label("modelA")), (Some("0"), Some("x")));
        assert_eq!(found[0].points, [Point { at: 1_700_000_000_500, value: 97.0 }]);
        assert!(found[1].points[0].value.is_nan() && found[2].points[0].value.is_infinite());
        assert_eq!(envelope.warnings().collect::<Vec<_>>(), ["partial"]);
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
        assert_eq!((error.error_type.as_str(), error.series().is_err()), ("execution", true));
    }
}
