//! Encodes lists in protobuf for tests and fuzzers.

use serde_json::Value;

use super::{Kind, Message, Timestamp, list_of};

pub(super) fn varint(mut number: u64, buffer: &mut Vec<u8>) {
    while number >= 0x80 {
        buffer.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    buffer.push(number.to_le_bytes()[0]);
}

pub(super) fn bytes_field(number: u64, content: &[u8], buffer: &mut Vec<u8>) {
    varint(number << 3 | 2, buffer);
    varint(content.len() as u64, buffer);
    buffer.extend_from_slice(content);
}

pub(super) fn number_field(number: u64, value: i64, buffer: &mut Vec<u8>) {
    varint(number << 3, buffer);
    varint(value.cast_unsigned(), buffer);
}

/// Encodes a value like Go, with fields in the order of their numbers and including empty strings.
pub(super) fn value(number: u64, kind: Kind, json: &Value, buffer: &mut Vec<u8>) {
    let mut inner = Vec::new();
    match kind {
        Kind::Text => bytes_field(number, json.as_str().unwrap().as_bytes(), buffer),
        Kind::Integer => number_field(number, json.as_i64().unwrap(), buffer),
        Kind::Flag => number_field(number, i64::from(json.as_bool().unwrap()), buffer),
        Kind::Time => {
            number_field(
                1,
                json.as_str()
                    .unwrap()
                    .parse::<Timestamp>()
                    .unwrap()
                    .as_second(),
                &mut inner,
            );
            number_field(2, 0, &mut inner);
            bytes_field(number, &inner, buffer);
        }
        Kind::Quantity => {
            bytes_field(1, json.as_str().unwrap().as_bytes(), &mut inner);
            bytes_field(number, &inner, buffer);
        }
        Kind::Message(message) => bytes_field(number, &encoded(message, json), buffer),
        Kind::Inline(_) => unreachable!("written with the message around it"),
        Kind::List(element) => json
            .as_array()
            .unwrap()
            .iter()
            .for_each(|item| value(number, *element, item, buffer)),
        Kind::Map(element) => json.as_object().unwrap().iter().for_each(|(key, item)| {
            let mut entry = Vec::new();
            bytes_field(1, key.as_bytes(), &mut entry);
            value(2, *element, item, &mut entry);
            bytes_field(number, &entry, buffer);
        }),
    }
}

pub(super) fn encoded(message: &Message, json: &Value) -> Vec<u8> {
    let mut buffer = Vec::new();
    // Add a field that this version does not know, which the decoder must skip.
    bytes_field(900, b"newer", &mut buffer);
    for field in message.fields {
        match field.kind {
            Kind::Inline(inline) => bytes_field(field.number, &encoded(inline, json), &mut buffer),
            Kind::Text if json.get(field.name).is_none() => {
                bytes_field(field.number, b"", &mut buffer);
            }
            kind => {
                if let Some(field_value) = json.get(field.name) {
                    value(field.number, kind, field_value, &mut buffer);
                }
            }
        }
    }
    number_field(901, -1, &mut buffer);
    buffer
}

pub(super) fn answer(message: &Message, json: &Value) -> Vec<u8> {
    let mut envelope = b"k8s\0".to_vec();
    let mut kind = Vec::new();
    bytes_field(1, b"v1", &mut kind);
    bytes_field(2, b"PodList", &mut kind);
    bytes_field(1, &kind, &mut envelope);
    bytes_field(2, &encoded(message, json), &mut envelope);
    bytes_field(3, b"", &mut envelope);
    envelope
}

/// Encodes a list of the kind at this path.
pub(crate) fn encoded_list(path: &str, json: &Value) -> (&'static Message, Vec<u8>) {
    let message = list_of(path).unwrap();
    (message, answer(message, json))
}
