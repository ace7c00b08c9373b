//! Decodes fields that any user can have written. An invalid value becomes `None`, so that the rest
//! of the object remains usable.

use std::fmt;

use jiff::Timestamp;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Earliest accepted time. The range leaves room for arithmetic with ages and durations.
const EARLIEST: Timestamp = Timestamp::UNIX_EPOCH;
/// End of the accepted range, 2200-01-01. Kubernetes accepts years up to 9999, where jiff's
/// arithmetic overflows.
const LATEST_SECOND: i64 = 7_258_118_400;

/// Decodes a time, or returns `None` if it is invalid.
pub(crate) fn time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    Ok(deserializer.deserialize_any(TextOf)?.and_then(believed))
}

/// Decodes a time whose presence matters, such as `deletionTimestamp`. An invalid time becomes the
/// end of the accepted range, so that it still counts as present.
pub(crate) fn marker<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let text = deserializer.deserialize_any(TextOf)?;
    let far_future = Timestamp::from_second(LATEST_SECOND).unwrap_or_default();
    Ok(text.map(|text| believed(text).unwrap_or(far_future)))
}

fn believed(text: Option<Timestamp>) -> Option<Timestamp> {
    text.filter(|time| *time >= EARLIEST && time.as_second() < LATEST_SECOND)
}

/// Decodes a non-negative 32-bit number. An invalid value becomes 0.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    deserializer.deserialize_any(CountOf)
}

/// Decodes a string as a time. The result is `None` for a value that is not a string, and
/// `Some(None)` for an invalid time.
struct TextOf;

impl<'de> Visitor<'de> for TextOf {
    type Value = Option<Option<Timestamp>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.parse().ok()))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

struct CountOf;

impl Visitor<'_> for CountOf {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_i64<E: Error>(self, count: i64) -> Result<u32, E> {
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn visit_u64<E: Error>(self, count: u64) -> Result<u32, E> {
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<u32, E> {
        Ok(0)
    }

    fn visit_unit<E: Error>(self) -> Result<u32, E> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    struct Timed {
        #[serde(default, deserialize_with = "super::time")]
        at: Option<jiff::Timestamp>,
        #[serde(default, deserialize_with = "super::count")]
        count: u32,
        #[serde(default, deserialize_with = "super::marker")]
        gone: Option<jiff::Timestamp>,
    }

    #[test]
    fn an_object_with_an_unreadable_value_is_kept() {
        for bad in [
            "\"9999-12-31T23:59:59Z\"",
            "\"9999-12-30T21:00:00Z\"",
            "\"0001-01-01T00:00:00Z\"",
            "\"garbage\"",
            "\"\"",
            "null",
            "7",
            "-1.5",
            "true",
            "[1, {\"a\": 2}]",
            "{\"a\": [1]}",
        ] {
            let timed: Timed =
                serde_json::from_str(&format!("{{\"at\": {bad}, \"count\": -5}}")).unwrap();
            assert_eq!((timed.at, timed.count), (None, 0), "{bad}");
        }
        let timed: Timed =
            serde_json::from_str(r#"{"at": "2026-01-31T10:00:00Z", "count": 3}"#).unwrap();
        assert_eq!(
            (timed.at, timed.count),
            (Some("2026-01-31T10:00:00Z".parse().unwrap()), 3)
        );
        assert_eq!(serde_json::from_str::<Timed>("{}").unwrap().at, None);
        let read_marker = |text: &str| {
            serde_json::from_str::<Timed>(&format!("{{\"gone\": {text}}}"))
                .unwrap()
                .gone
        };
        assert!(
            read_marker("\"9999-12-31T23:59:59Z\"").is_some()
                && read_marker("null").is_none()
                && read_marker("3").is_none()
        );
    }
}
