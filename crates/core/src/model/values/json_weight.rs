//! Estimates the memory for parsing a JSON text, without allocating it. A text like `0,0,0` needs
//! 36 times its length, so limiting the length is not enough.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Reads a value and returns its estimated size in memory. Fails if the size exceeds this limit in
/// bytes.
#[derive(Clone, Copy)]
pub struct WithinWeight(pub usize);

/// Size of a value without its heap allocations.
const VALUE: usize = size_of::<Value>();
/// Overhead of a map's field in addition to its key text and value: the key's `String`, its hash
/// and its index.
const FIELD: usize = size_of::<String>() + 2 * size_of::<usize>();

impl WithinWeight {
    fn add<E: Error>(self, sum: usize, more: usize) -> Result<usize, E> {
        // Check after every value, so that the parser stops at the limit.
        match sum.saturating_add(more) {
            sum if sum > self.0 => Err(E::custom(format!(
                "its values need more than {} MiB of memory",
                self.0 >> 20
            ))),
            sum => Ok(sum),
        }
    }
}

impl<'de> DeserializeSeed<'de> for WithinWeight {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for WithinWeight {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(VALUE)
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(VALUE)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(VALUE)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(VALUE)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(VALUE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        self.add(VALUE, text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut sum = VALUE;
        while let Some(item) = items.next_element_seed(self)? {
            sum = self.add(sum, item)?;
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let mut sum = VALUE;
        while let Some(key) = fields.next_key_seed(self)? {
            sum = self.add(sum, FIELD + key)?;
            sum = self.add(sum, fields.next_value_seed(self)?)?;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_is_the_sum_of_parts() {
        let weight = |text: &str| {
            let mut json = serde_json::Deserializer::from_str(text);
            WithinWeight(1 << 20)
                .deserialize(&mut json)
                .map_err(|error| error.to_string())
        };
        assert_eq!(weight("0").unwrap(), VALUE);
        assert_eq!(weight("[0,null,true,-1,1.5]").unwrap(), 6 * VALUE);
        assert_eq!(weight(r#"{"ab":"cde"}"#).unwrap(), 3 * VALUE + FIELD + 5);
        let zeros = format!("[{}0]", "0,".repeat((1 << 20) / VALUE + 1));
        assert!(
            weight(&zeros)
                .unwrap_err()
                .starts_with("its values need more than 1 MiB of memory")
        );
    }
}
