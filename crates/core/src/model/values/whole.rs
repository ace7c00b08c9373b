//! Converts measured values to whole numbers. Rust's `as` rounds toward zero, converts NaN to 0,
//! and saturates at the limits of the target type.

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
pub fn to_u32(value: f64) -> u32 {
    value as u32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
pub fn to_u64(value: f64) -> u64 {
    value as u64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates"
)]
pub fn to_usize(value: f64) -> usize {
    value as usize
}

#[expect(clippy::cast_possible_truncation, reason = "`as` saturates")]
pub fn to_i64(value: f64) -> i64 {
    value as i64
}
