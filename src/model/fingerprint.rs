//! Hashes a text to a short number that is the same on every machine and with every version. It keeps no secret.

/// Returns FNV-1a of a text: the same on every machine and with every version, which the standard library's hasher is not.
#[must_use]
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
