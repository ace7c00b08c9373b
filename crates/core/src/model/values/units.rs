//! Units of measured values. A type per unit prevents confusing percent with ratios, MiB with
//! bytes, or watts with milliwatts. All of them serialize as plain numbers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measured value that can be summed and averaged.
pub trait UnitValue: Copy {
    /// Returns the number in the type's unit.
    fn value(self) -> f64;

    /// Creates a value from a number in the type's unit.
    fn from_value(value: f64) -> Self;
}

/// Plain numbers: ratios, hours, counts.
impl UnitValue for f64 {
    fn value(self) -> f64 {
        self
    }

    fn from_value(value: f64) -> Self {
        value
    }
}

macro_rules! units {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, JsonSchema, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl UnitValue for $name {
            fn value(self) -> f64 {
                self.0
            }

            fn from_value(value: f64) -> Self {
                Self(value)
            }
        }

        /// Writes the plain number, with the precision that the format string sets.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                without_negative_zero(self.0).fmt(f)
            }
        }
    )*};
}

units! {
    /// Percent of the whole, 0–100.
    Percent,
    /// Memory in MiB, 1,048,576 bytes each.
    Mebibytes,
    /// Power in watts.
    Watts,
    /// Temperature in degrees Celsius.
    Celsius,
}

/// A number of GPUs: whole devices, or units of a resource on nodes that offer slices or shares.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct GpuCount(pub u64);

/// Limit on the devices that one pod can request or one node can have, including slices and shares.
/// A pod runs on one node, and no node offers a tenth of this. A larger number is a mistake or an
/// attack, and would distort every sum.
pub const MOST_PER_NODE: u64 = 10_000;
/// The maximum number of devices that all pods of one owner can request.
pub const MOST_PER_OWNER: u64 = 1_000_000;

impl GpuCount {
    pub const ZERO: Self = Self(0);

    /// Converts to a floating-point number, for arithmetic with hours and shares.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl fmt::Display for GpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Add for GpuCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        // Counts from the cluster may be absurd, and a sum must not wrap around.
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for GpuCount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for GpuCount {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Sum for GpuCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

impl Percent {
    /// Returns the ratio from 0 to 1.
    pub fn ratio(self) -> f64 {
        self.0 / 100.0
    }

    /// Returns `part` as a percentage of `whole`, or `None` if `whole` is not positive.
    pub fn from_ratio<U: UnitValue>(part: U, whole: U) -> Option<Self> {
        (whole.value() > 0.0).then(|| Self(part.value() / whole.value() * 100.0))
    }
}

impl Mebibytes {
    pub fn gibibytes(self) -> f64 {
        self.0 / 1024.0
    }
}

/// Rounds to two decimal places, which exceeds the precision of every exporter.
pub fn rounded<U: UnitValue>(value: U) -> U {
    U::from_value(without_negative_zero(
        (value.value() * 100.0).round() / 100.0,
    ))
}

/// Converts -0.0 to 0.0. Small negative numbers can round to -0.0, which would be printed with its
/// sign.
pub fn without_negative_zero(value: f64) -> f64 {
    // Under IEEE 754, -0.0 + 0.0 is 0.0.
    value + 0.0
}

/// Sums numbers. `Iterator::sum` starts at -0.0 and returns that for an empty iterator
/// (<https://github.com/rust-lang/rust/pull/129321>).
pub fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, Add::add)
}

/// Computes the mean, or returns `None` if there are no values.
pub fn mean<U: UnitValue>(values: impl Iterator<Item = U>) -> Option<U> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| {
        (count + 1, sum + value.value())
    });
    (count > 0).then(|| U::from_value(sum / f64::from(count)))
}

pub fn lowest<U: UnitValue>(values: impl Iterator<Item = U>) -> Option<U> {
    values
        .map(UnitValue::value)
        .reduce(f64::min)
        .map(U::from_value)
}

pub fn highest<U: UnitValue>(values: impl Iterator<Item = U>) -> Option<U> {
    values
        .map(UnitValue::value)
        .reduce(f64::max)
        .map(U::from_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_saturate() {
        let max = GpuCount(u64::MAX);
        let mut sum = max;
        sum += GpuCount(3);
        assert_eq!(
            [sum, max + max, max * 2, [max, max].into_iter().sum()],
            [max; 4]
        );
    }

    #[test]
    fn zero_has_no_sign() {
        let texts = [
            total(std::iter::empty()),
            rounded(-0.004),
            rounded(-0.0),
            without_negative_zero(-0.0),
        ]
        .map(|value| format!("{value:.1}"));
        assert_eq!(texts, ["0.0"; 4]);
        assert_eq!(format!("{:.0}", Percent(-0.0)), "0");
        assert_eq!(
            serde_json::to_string(&rounded(Percent(-0.0))).unwrap(),
            "0.0"
        );
        assert_eq!(
            (rounded(-1.251), total([1.5, -2.0].into_iter())),
            (-1.25, -0.5)
        );
    }

    #[test]
    fn mean_and_share_of_nothing_are_none() {
        assert_eq!(
            mean([Percent(90.0), Percent(30.0)].into_iter()),
            Some(Percent(60.0))
        );
        assert_eq!(mean(std::iter::empty::<Watts>()), None);
        assert_eq!(
            (
                lowest([Watts(2.0), Watts(1.0)].into_iter()),
                highest([Watts(2.0), Watts(1.0)].into_iter())
            ),
            (Some(Watts(1.0)), Some(Watts(2.0)))
        );
        assert_eq!(
            Percent::from_ratio(Mebibytes(512.0), Mebibytes(2048.0)),
            Some(Percent(25.0))
        );
        assert_eq!(Percent::from_ratio(Mebibytes(512.0), Mebibytes(0.0)), None);
        assert_eq!(
            (Percent(25.0).ratio(), Mebibytes(1536.0).gibibytes()),
            (0.25, 1.5)
        );
        assert_eq!(serde_json::to_string(&Some(Percent(25.5))).unwrap(), "25.5");
    }
}
