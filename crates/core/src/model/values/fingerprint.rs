//! Hashes that never change between machines or versions: SHA-256, and a short non-cryptographic
//! hash.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};

/// Computes the 64-bit FNV-1a hash. Unlike the standard library's hasher, FNV-1a never changes
/// between machines or versions.
pub fn fnv(text: &str) -> u64 {
    // Offset basis and prime of 64-bit FNV.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Returns the SHA-256 hash of a text in hexadecimal.
pub fn sha256(text: &str) -> String {
    digest(&SHA256, text.as_bytes())
        .as_ref()
        .iter()
        .fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}
