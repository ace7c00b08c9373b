//! Decodes protobuf responses of the API server with a serde deserializer. It maps field numbers to
//! the names in `kinds.rs`, so that structs decode from protobuf and JSON alike. Fields without a
//! name are skipped, and strings are borrowed. Source of the envelope: Kubernetes API Concepts,
//! "Kubernetes Protobuf encoding".

mod kinds;
mod pod_messages;

use jiff::Timestamp;
use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::{Error, Result};

pub(crate) use kinds::{STATUS, list_of};

use gpuctl_core::protobuf::{MessageReader, Scalar};

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The fields that gpuctl reads from a protobuf message.
#[derive(Debug)]
pub(crate) struct Message {
    pub fields: &'static [MessageField],
    /// Fields that a struct for several kinds decodes, but that this kind lacks.
    pub absent: &'static [&'static str],
}

#[derive(Debug)]
pub(crate) struct MessageField {
    pub number: u64,
    /// Name of the field in JSON.
    pub name: &'static str,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Integer,
    Flag,
    /// Seconds since 1970, where 0 means that no time is set.
    Time,
    /// A message that contains a string.
    Quantity,
    Message(&'static Message),
    /// A message whose fields are part of the surrounding object in JSON.
    Inline(&'static Message),
    List(&'static Kind),
    /// A map from strings to values of this kind.
    Map(&'static Kind),
}

impl Message {
    fn field(&self, number: u64) -> Option<&'static MessageField> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// Returns true if a struct may decode a field with this name.
    fn names(&self, name: &str) -> bool {
        self.absent.contains(&name)
            || self.fields.iter().any(|field| match field.kind {
                Kind::Inline(message) => message.names(name),
                _ => field.name == name,
            })
    }
}

/// Decodes a response that contains `message`.
pub(crate) fn decode<'de, T: Deserialize<'de>>(
    answer: &'de [u8],
    message: &'static Message,
) -> Result<T> {
    T::deserialize(Payload {
        kind: Kind::Message(message),
        raw: Scalar::Bytes(object(answer)?),
    })
}

/// Extracts the object from its envelope: four magic bytes and a `runtime.Unknown` message with the
/// object in field 2.
fn object(answer: &[u8]) -> Result<&[u8]> {
    let envelope = answer
        .strip_prefix(b"k8s\0")
        .ok_or_else(|| Error::custom("a protobuf response lacks the Kubernetes prefix"))?;
    let mut fields = MessageReader::new(envelope);
    while let Some((number, scalar)) = fields.field()? {
        if let (2, Scalar::Bytes(raw)) = (number, scalar) {
            return Ok(raw);
        }
    }
    // The envelope has no field 2 if all fields of the object are empty.
    Ok(&[])
}

/// An undecoded value and its kind.
struct Payload<'de> {
    kind: Kind,
    raw: Scalar<'de>,
}

impl Payload<'_> {
    /// Returns true if JSON would omit the field or write `null`. Go omits empty strings, and
    /// writes the zero time as `null`.
    fn is_absent(&self) -> Result<bool> {
        Ok(match (self.kind, self.raw) {
            (Kind::Text, Scalar::Bytes(text)) => text.is_empty(),
            (Kind::Time, raw) => seconds(raw)? == 0,
            _ => false,
        })
    }

    fn message(&self) -> Option<&'static Message> {
        match self.kind {
            Kind::Message(message) => Some(message),
            _ => None,
        }
    }
}

fn bytes(raw: Scalar<'_>) -> Result<&[u8]> {
    match raw {
        Scalar::Bytes(bytes) => Ok(bytes),
        Scalar::Number(_) => Err(Error::custom(
            "expected a string or an object, found a number",
        )),
    }
}

fn number(raw: Scalar<'_>) -> Result<i64> {
    match raw {
        // Protobuf encodes negative numbers as 64-bit two's complement, even in `int32` fields.
        Scalar::Number(number) => Ok(number.cast_signed()),
        Scalar::Bytes(_) => Err(Error::custom(
            "expected a number, found a string or an object",
        )),
    }
}

fn text(raw: Scalar<'_>) -> Result<&str> {
    std::str::from_utf8(bytes(raw)?).map_err(|_| Error::custom("a string is not valid UTF-8"))
}

/// Returns the first field of a `Time` or `Quantity` message.
fn first(raw: Scalar<'_>) -> Result<Option<Scalar<'_>>> {
    let mut fields = MessageReader::new(bytes(raw)?);
    while let Some((number, scalar)) = fields.field()? {
        if number == 1 {
            return Ok(Some(scalar));
        }
    }
    Ok(None)
}

fn seconds(raw: Scalar<'_>) -> Result<i64> {
    first(raw)?.map_or(Ok(0), number)
}

impl<'de> Deserializer<'de> for Payload<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.kind {
            Kind::Text => visitor.visit_borrowed_str(text(self.raw)?),
            Kind::Integer => visitor.visit_i64(number(self.raw)?),
            Kind::Flag => visitor.visit_bool(number(self.raw)? != 0),
            Kind::Time => {
                // Structs decode an empty string as an unknown time.
                let time = Timestamp::from_second(seconds(self.raw)?);
                visitor.visit_string(time.map_or_else(|_| String::new(), |time| time.to_string()))
            }
            Kind::Quantity => visitor.visit_borrowed_str(first(self.raw)?.map_or(Ok(""), text)?),
            Kind::Message(message) | Kind::Inline(message) => visitor.visit_map(MessageFields {
                message,
                rest: MessageReader::new(bytes(self.raw)?),
                outer: Vec::new(),
                next: None,
            }),
            Kind::List(element) => visitor.visit_seq(Items {
                element: *element,
                rest: MessageReader::new(bytes(self.raw)?),
            }),
            Kind::Map(element) => visitor.visit_map(Entries {
                element: *element,
                rest: MessageReader::new(bytes(self.raw)?),
                value: None,
            }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        // A field without a number in `kinds.rs` would always be empty, so fail debug builds.
        debug_assert!(
            self.message()
                .is_none_or(|message| fields.iter().all(|field| message.names(field))),
            "kinds.rs lacks a field of {name}: {fields:?}"
        );
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map enum identifier
    }
}

/// Iterator over the fields of a message.
struct MessageFields<'de> {
    message: &'static Message,
    rest: MessageReader<'de>,
    /// The messages around an inline message, with their remaining bytes.
    outer: Vec<(&'static Message, MessageReader<'de>)>,
    next: Option<Payload<'de>>,
}

impl<'de> MapAccess<'de> for MessageFields<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        loop {
            let start = self.rest;
            let Some((number, raw)) = self.rest.field()? else {
                match self.outer.pop() {
                    Some(outer) => (self.message, self.rest) = outer,
                    None => return Ok(None),
                }
                continue;
            };
            let Some(field) = self.message.field(number) else {
                continue;
            };
            let payload = match field.kind {
                Kind::Inline(message) => {
                    self.outer.push((self.message, self.rest));
                    (self.message, self.rest) = (message, MessageReader::new(bytes(raw)?));
                    continue;
                }
                // Include the keys: the value of a list or map is the run of consecutive fields
                // with its number.
                Kind::List(_) | Kind::Map(_) => {
                    let run = self.rest.run_since(start, number)?;
                    Payload {
                        kind: field.kind,
                        raw: Scalar::Bytes(run),
                    }
                }
                _ => Payload {
                    kind: field.kind,
                    raw,
                },
            };
            if payload.is_absent()? {
                continue;
            }
            self.next = Some(payload);
            return seed
                .deserialize(BorrowedStrDeserializer::new(field.name))
                .map(Some);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(
            self.next
                .take()
                .ok_or_else(|| Error::custom("a value was requested before its name"))?,
        )
    }
}

/// Iterator over the items of a list.
struct Items<'de> {
    element: Kind,
    rest: MessageReader<'de>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some((_, raw)) = self.rest.field()? else {
            return Ok(None);
        };
        seed.deserialize(Payload {
            kind: self.element,
            raw,
        })
        .map(Some)
    }
}

/// Iterator over the entries of a map. An entry is a message with a key and a value, each omitted
/// if empty.
struct Entries<'de> {
    element: Kind,
    rest: MessageReader<'de>,
    value: Option<Scalar<'de>>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some((_, raw)) = self.rest.field()? else {
            return Ok(None);
        };
        let (mut entry, mut key) = (MessageReader::new(bytes(raw)?), "");
        self.value = Some(Scalar::Bytes(&[]));
        while let Some((number, scalar)) = entry.field()? {
            match number {
                1 => key = text(scalar)?,
                2 => self.value = Some(scalar),
                _ => {}
            }
        }
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        let raw = self
            .value
            .take()
            .ok_or_else(|| Error::custom("a value was requested before its key"))?;
        seed.deserialize(Payload {
            kind: self.element,
            raw,
        })
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod encode;
#[cfg(test)]
mod tests;
