//! Computes the utilization score, from 0 to 100 or unknown.
//!
//! A wrong `idle` can cost a user a training, so a GPU with too few samples has an unknown score,
//! never a low one.

use crate::model::{Mebibytes, Percent, Point, Watts};

use crate::stats::exporters::dialect::Quantity;
use crate::stats::exporters::limits;
use crate::stats::history::curves::Trace;

/// Weights of the terms. The weight of a missing term is distributed over the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    pub utilization: f64,
    pub memory_copy: f64,
    pub memory_used: f64,
    pub power: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            utilization: 0.5,
            memory_copy: 0.2,
            memory_used: 0.2,
            power: 0.1,
        }
    }
}

/// Limits of the bands. A score is idle below `idle`, low below `low`, and high above `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    pub idle: f64,
    pub low: f64,
    pub high: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            idle: 10.0,
            low: 20.0,
            high: 70.0,
        }
    }
}

/// Band of a score.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Band {
    Idle,
    Low,
    Normal,
    High,
    Unknown,
}

impl Band {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Returns the name of the band in documents.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns true if utilization is low or idle.
    pub fn is_low(self) -> bool {
        matches!(self, Self::Idle | Self::Low)
    }
}

impl Thresholds {
    fn band(self, score: f64) -> Band {
        match score {
            score if score < self.idle => Band::Idle,
            score if score < self.low => Band::Low,
            score if score <= self.high => Band::Normal,
            _ => Band::High,
        }
    }
}

/// Score of a device with its terms. A term is a mean over the window, or `None` if it has too few
/// samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    pub utilization: Option<Percent>,
    pub memory_copy: Option<Percent>,
    pub memory_used: Option<Mebibytes>,
    /// Used memory in percent of the device's memory.
    pub memory_share: Option<Percent>,
    pub power: Option<Watts>,
    /// Power in percent of the device's limit.
    pub power_share: Option<Percent>,
    /// Clock of the multiprocessors in MHz.
    pub clock_mhz: Option<f64>,
    /// Weighted mean of the known terms, from 0 to 100.
    pub value: Option<f64>,
    /// The value if every unknown term were 100.
    pub at_most: Option<f64>,
    pub band: Band,
    /// Number of utilization samples.
    pub samples: usize,
    /// Number of samples in a complete window.
    pub expected: usize,
}

/// Names of the terms in the order of the weights, which documents use for the metrics.
pub const TERMS: [&str; 4] = ["gpu_util", "mem_copy", "mem_used", "power_usage"];

impl Score {
    /// Scores a device by its curves. A complete window has `expected` samples.
    pub fn new(trace: &Trace, expected: usize, weights: Weights, thresholds: Thresholds) -> Self {
        let mean = |points: &[Point]| {
            // Require at least half of the expected samples.
            let enough = points.len() * 2 >= expected.max(1);
            enough
                .then(|| points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64)
        };
        let curve = |quantity| mean(trace.curve(quantity));
        let power = curve(Quantity::Power).map(Watts);
        let limit = curve(Quantity::PowerLimit)
            .map(Watts)
            .or_else(|| limits::watts(trace.model.as_deref()?));
        let power_share = power
            .zip(limit)
            .and_then(|(power, limit)| Percent::from_ratio(power, limit));
        let power_share = power_share.map(|Percent(share)| Percent(share.min(100.0)));
        let utilization = curve(Quantity::Utilization).map(Percent);
        let memory_copy = curve(Quantity::MemoryCopy).map(Percent);
        let memory_share = mean(&trace.memory_share()).map(Percent);
        let terms = [
            (weights.utilization, utilization),
            (weights.memory_copy, memory_copy),
            (weights.memory_used, memory_share),
            (weights.power, power_share),
        ];
        let known_terms = || {
            terms
                .iter()
                .filter_map(|(weight, term)| Some((*weight, (*term)?.0)))
        };
        let weight: f64 = known_terms().map(|(weight, _)| weight).sum();
        let value = (weight > 0.0).then(|| {
            known_terms()
                .map(|(weight, term)| weight * term)
                .sum::<f64>()
                / weight
        });
        let total_weight: f64 = terms.iter().map(|(weight, _)| weight).sum();
        let at_most = value.map(|_| {
            terms
                .iter()
                .map(|(weight, term)| weight * term.map_or(100.0, |Percent(term)| term))
                .sum::<f64>()
                / total_weight
        });
        // Without utilization, the other terms do not show whether the device is used.
        let band = utilization
            .and(value)
            .map_or(Band::Unknown, |value| thresholds.band(value));
        Self {
            utilization,
            memory_copy,
            memory_used: curve(Quantity::MemoryUsed).map(Mebibytes),
            memory_share,
            power,
            power_share,
            clock_mhz: curve(Quantity::Clock),
            value,
            at_most,
            band,
            samples: trace.curve(Quantity::Utilization).len(),
            expected,
        }
    }

    /// Creates the score of a device without samples.
    pub fn unknown(expected: usize) -> Self {
        Self {
            utilization: None,
            memory_copy: None,
            memory_used: None,
            memory_share: None,
            power: None,
            power_share: None,
            clock_mhz: None,
            value: None,
            at_most: None,
            band: Band::Unknown,
            samples: 0,
            expected,
        }
    }

    /// Returns the names of the known terms.
    pub fn terms(&self) -> Vec<&'static str> {
        let is_known = [
            self.utilization,
            self.memory_copy,
            self.memory_share,
            self.power_share,
        ];
        TERMS
            .iter()
            .zip(is_known)
            .filter(|(_, term)| term.is_some())
            .map(|(name, _)| *name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Series;
    use crate::stats::exporters::identity::ApiFacts;
    use crate::stats::history::curves as history;
    use crate::stats::history::curves::Lifetimes;

    /// Builds a device with these metrics, each with `samples` equal samples.
    fn trace(model: &str, metrics: &[(&str, f64)], samples: i64) -> Trace {
        let series: Vec<Series> = metrics
            .iter()
            .map(|(name, value)| Series {
                labels: [
                    ("__name__", *name),
                    ("gpu", "0"),
                    ("Hostname", "n"),
                    ("modelName", model),
                ]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
                points: (0..samples)
                    .map(|index| Point {
                        at: index * 30_000,
                        value: *value,
                    })
                    .collect(),
            })
            .collect();
        history::read(&series, &ApiFacts::default(), &Lifetimes::new())
            .traces
            .remove(0)
    }

    const ALL: [(&str, f64); 6] = [
        ("DCGM_FI_DEV_GPU_UTIL", 80.0),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 40.0),
        ("DCGM_FI_DEV_FB_USED", 30_000.0),
        ("DCGM_FI_DEV_FB_FREE", 10_000.0),
        ("DCGM_FI_DEV_POWER_USAGE", 200.0),
        ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 400.0),
    ];

    fn score(trace: &Trace) -> Score {
        Score::new(trace, 10, Weights::default(), Thresholds::default())
    }

    #[test]
    fn score_is_the_weighted_mean_of_four_terms() {
        let score = score(&trace("NVIDIA A100-SXM4-80GB", &ALL, 10));
        // 0.5·80 + 0.2·40 + 0.2·75 + 0.1·50 = 40 + 8 + 15 + 5.
        assert!((score.value.unwrap() - 68.0).abs() < 1e-9);
        assert_eq!((score.band, score.terms().len()), (Band::Normal, 4));
    }

    #[test]
    fn missing_terms_are_reweighted_and_named() {
        let without = |name: &str, model: &str| {
            let left: Vec<_> = ALL
                .iter()
                .copied()
                .filter(|(term, _)| *term != name)
                .collect();
            score(&trace(model, &left, 10))
        };
        let near = |score: &Score, expected: f64| {
            assert!((score.value.unwrap() - expected).abs() < 1e-9, "{score:?}");
        };
        // (40 + 15 + 5) / 0.8, (40 + 8 + 5) / 0.8, (40 + 8 + 15) / 0.9.
        let copy = without("DCGM_FI_DEV_MEM_COPY_UTIL", "x");
        near(&copy, 75.0);
        assert_eq!(copy.terms(), ["gpu_util", "mem_used", "power_usage"]);
        near(&without("DCGM_FI_DEV_FB_FREE", "x"), 66.25);
        near(&without("DCGM_FI_DEV_POWER_USAGE", "x"), 70.0);
        // Without a measured limit, that of the model applies, so this is 200 of 700 W. An unknown
        // model has no limit.
        near(
            &without("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "NVIDIA H100 80GB HBM3"),
            40.0 + 8.0 + 15.0 + 0.1 * 200.0 / 7.0,
        );
        near(&without("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "x"), 70.0);
        // Without utilization, the score is shown but the band is unknown.
        let blind = without("DCGM_FI_DEV_GPU_UTIL", "x");
        near(&blind, 56.0);
        assert_eq!(blind.band, Band::Unknown);
    }

    #[test]
    fn too_few_samples_are_unknown_not_idle() {
        let idle = [("DCGM_FI_DEV_GPU_UTIL", 0.0)];
        assert_eq!(score(&trace("x", &idle, 10)).band, Band::Idle);
        assert_eq!(
            score(&trace("x", &idle, 5)).band,
            Band::Idle,
            "half of them is enough"
        );
        let few = score(&trace("x", &idle, 4));
        assert_eq!(
            (few.band, few.value, few.samples, few.expected),
            (Band::Unknown, None, 4, 10)
        );
    }

    #[test]
    fn band_limits_match_the_documentation() {
        let band = |value| Thresholds::default().band(value);
        for (value, expected) in [
            (0.0, Band::Idle),
            (9.99, Band::Idle),
            (10.0, Band::Low),
            (19.99, Band::Low),
            (20.0, Band::Normal),
            (70.0, Band::Normal),
            (70.01, Band::High),
        ] {
            assert_eq!(band(value), expected, "{value}");
        }
        assert!(Band::Idle.is_low() && Band::Low.is_low() && !Band::Unknown.is_low());
    }
}
