//! Hashes text to values that are the same on every machine and in every version: SHA-256, and a
//! short hash that is not cryptographic.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

/// Computes the 64-bit FNV-1a hash, which is the same on all machines and in all versions. The
/// standard library does not guarantee this for its own hasher.
pub fn fnv(text: &str) -> u64 {
    // The offset basis and the prime of 64-bit FNV.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Formats the SHA-256 of a text in hexadecimal.
pub fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes())
        .as_ref()
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
