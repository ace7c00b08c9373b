//! Reads and writes the protobuf wire format: tags, varints and length-delimited fields. It has no
//! message definitions. Source: protobuf.dev, "Encoding".

use serde::de::Error as _;
use serde_json::{Error, Result};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<'de> {
    Number(u64),
    /// A string, a message, the packed values of a repeated field, or a fixed-width value.
    Bytes(&'de [u8]),
}

/// Reads a message. Copies are independent positions in the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct MessageReader<'de>(&'de [u8]);

impl<'de> MessageReader<'de> {
    pub fn new(bytes: &'de [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the number and value of the next field, or returns `None` at the end of the message.
    pub fn field(&mut self) -> Result<Option<(u64, Scalar<'de>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let scalar = match key & 7 {
            // Wire types 1 and 5 are fixed 64-bit and 32-bit values. Types 3 and 4, groups, are
            // deprecated.
            0 => Scalar::Number(self.varint()?),
            1 => Scalar::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Scalar::Bytes(self.take(length)?)
            }
            5 => Scalar::Bytes(self.take(4)?),
            other => {
                return Err(Error::custom(format!(
                    "a field has the unknown wire type {other}"
                )));
            }
        };
        Ok(Some((key >> 3, scalar)))
    }

    /// Skips all directly following fields with this number, and returns the bytes since `start`.
    pub fn run_since(&mut self, start: Self, number: u64) -> Result<&'de [u8]> {
        // Look ahead on a copy, so that a field with another number is not consumed.
        let mut ahead = *self;
        while let Some((next, _)) = ahead.field()?
            && next == number
        {
            *self = ahead;
        }
        Ok(&start.0[..start.0.len() - self.0.len()])
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        // A 64-bit varint has at most 10 bytes of 7 bits each.
        for (place, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.0 = &self.0[place + 1..];
                return Ok(value);
            }
        }
        Err(Error::custom("a varint is too long"))
    }

    /// Consumes the next `length` bytes.
    pub fn take(&mut self, length: u64) -> Result<&'de [u8]> {
        let end = usize::try_from(length)
            .ok()
            .filter(|end| *end <= self.0.len());
        let (taken, rest) = self
            .0
            .split_at(end.ok_or_else(|| Error::custom("the protobuf message is truncated"))?);
        self.0 = rest;
        Ok(taken)
    }
}

/// Appends a varint: seven bits per byte, least significant first.
pub fn put_varint(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(low_byte(number) | 0x80);
        number >>= 7;
    }
    into.push(low_byte(number));
}

fn low_byte(number: u64) -> u8 {
    number.to_le_bytes()[0]
}

/// Writes a varint field.
pub fn put_number(into: &mut Vec<u8>, field: u64, number: u64) {
    put_varint(into, field << 3);
    put_varint(into, number);
}

/// Writes a length-delimited field, which holds a string or a message.
pub fn put_bytes(into: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_varint(into, field << 3 | 2);
    put_varint(into, bytes.len() as u64);
    into.extend(bytes);
}
