//! Decodes sample chunks in Prometheus' storage format. Timestamps are stored as deltas of deltas,
//! and values as the XOR with the previous value. Source: Prometheus, `tsdb/docs/format/chunks.md`
//! ("XOR chunk data").
//!
//! No crate reads these chunks. They reduce the bytes of a history to a fifth and its time to a
//! quarter (`cargo bench --bench history`).

use gpuctl_core::model::values::series::Point;

/// Bit pattern of Prometheus' staleness marker, which marks the end of a series (`model/value`,
/// `StaleNaN`).
const END_OF_SERIES: u64 = 0x7ff0_0000_0000_0002;

/// The previous value, and the position of the bits that differed when a position was last written.
#[derive(Default)]
struct Value {
    bits: u64,
    leading: u32,
    length: u32,
}

/// Reads bits, the most significant bit of each byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    /// Position in bits.
    at: usize,
}

impl Bits<'_> {
    /// Reads `count` bits (at most 64), or returns `None` if fewer are left.
    fn take(&mut self, count: u32) -> Option<u64> {
        let end = self.at + count as usize;
        if end > self.bytes.len() * 8 {
            return None;
        }
        let (mut value, mut left) = (0_u64, count);
        while left > 0 {
            let inside = u32::try_from(self.at % 8).ok()?;
            let taken = left.min(8 - inside);
            let byte =
                u64::from(self.bytes[self.at / 8]) >> (8 - inside - taken) & ((1 << taken) - 1);
            value = value << taken | byte;
            self.at += taken as usize;
            left -= taken;
        }
        Some(value)
    }

    /// Reads a varint: seven bits per byte, least significant first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let byte = self.take(8)?;
            value |= (byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads the difference between this time delta and the previous one.
    fn change_of_distance(&mut self) -> Option<i64> {
        // Bits of the difference after the prefixes 10, 110 and 1110.
        const LENGTHS: [u32; 3] = [14, 17, 20];
        let mut prefix = 0;
        while prefix < 4 && self.take(1)? == 1 {
            prefix += 1;
        }
        match prefix {
            0 => Some(0),
            4 => Some(self.take(64)?.cast_signed()),
            some => {
                let length = LENGTHS[some - 1];
                let bits = self.take(length)?.cast_signed();
                // Unlike in two's complement, the pattern with only the highest bit set is a
                // positive number.
                Some(if bits > 1 << (length - 1) {
                    bits - (1 << length)
                } else {
                    bits
                })
            }
        }
    }

    fn next_value(&mut self, value: &mut Value) -> Option<()> {
        if self.take(1)? == 0 {
            return Some(());
        }
        if self.take(1)? == 1 {
            value.leading = u32::try_from(self.take(5)?).ok()?;
            value.length = match u32::try_from(self.take(6)?).ok()? {
                // 64 does not fit into six bits and is written as 0.
                0 => 64,
                some => some,
            };
        }
        // A malformed chunk can claim more than 64 bits in total.
        let below = 64_u32.checked_sub(value.leading + value.length)?;
        value.bits ^= self.take(value.length)?.checked_shl(below).unwrap_or(0);
        Some(())
    }
}

/// Appends the samples of a chunk between `from` and `to` (Unix milliseconds, both inclusive), or
/// returns `None` if the chunk is malformed.
pub(super) fn read(chunk: &[u8], from: i64, to: i64, into: &mut Vec<Point>) -> Option<()> {
    let (count, bytes) = chunk.split_first_chunk::<2>()?;
    let count = u16::from_be_bytes(*count);
    let mut bits = Bits { bytes, at: 0 };
    let (mut time, mut distance, mut value) = (0_i64, 0_i64, Value::default());
    for number in 0..count {
        match number {
            0 => {
                let zigzag = bits.varint()?;
                // The first timestamp is a zigzag varint. The first delta is an unsigned one.
                time = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
                value.bits = bits.take(64)?;
            }
            1 => {
                distance = i64::try_from(bits.varint()?).ok()?;
                time = time.checked_add(distance)?;
                bits.next_value(&mut value)?;
            }
            _ => {
                distance = distance.checked_add(bits.change_of_distance()?)?;
                time = time.checked_add(distance)?;
                bits.next_value(&mut value)?;
            }
        }
        if (from..=to).contains(&time) && value.bits != END_OF_SERIES {
            into.push(Point {
                at: time,
                value: f64::from_bits(value.bits),
            });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode::encode_chunk;

    proptest! {
        #[test]
        fn decoded_samples_equal_encoded_samples(
            start in -5_i64..2_000_000_000_000,
            steps in prop::collection::vec((prop_oneof![Just(15_000_i64), 1_i64..40_000, 1_i64..5_000_000_000], prop_oneof![Just(97.0), -1e3..1e3, any::<f64>()]), 0..150),
        ) {
            let mut time = start;
            let points: Vec<(i64, f64)> = steps.into_iter().map(|(step, value)| { time += step; (time, value) }).collect();
            let (from, to) = (start + 20_000, time - 20_000);
            let mut read_back = Vec::new();
            prop_assert!(read(&encode_chunk(&points), from, to, &mut read_back).is_some());
            let expected: Vec<(i64, u64)> = points
                .iter()
                .filter(|(time, value)| *time >= from && *time <= to && value.to_bits() != END_OF_SERIES)
                .map(|(time, value)| (*time, value.to_bits()))
                .collect();
            let decoded: Vec<(i64, u64)> = read_back.iter().map(|point| (point.at, point.value.to_bits())).collect();
            prop_assert_eq!(decoded, expected);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut points = Vec::new();
            let _ = read(&bytes, i64::MIN, i64::MAX, &mut points);
            prop_assert!(u16::try_from(points.len()).is_ok());
        }
    }

    #[test]
    fn staleness_markers_are_not_samples() {
        let chunk = encode_chunk(&[
            (1000, 1.0),
            (2000, f64::from_bits(END_OF_SERIES)),
            (3000, f64::NAN),
        ]);
        let mut points = Vec::new();
        read(&chunk, 0, 9000, &mut points).unwrap();
        assert_eq!(
            points.iter().map(|point| point.at).collect::<Vec<_>>(),
            [1000, 3000]
        );
        assert!(
            read(&chunk[..chunk.len() - 1], 0, 9000, &mut points).is_none(),
            "it breaks off"
        );
    }
}
