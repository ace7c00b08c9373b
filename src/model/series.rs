//! Time series as a metrics server answers them: labels and points. What they mean is not known here.

use std::collections::BTreeMap;

/// One value at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix milliseconds.
    pub at: i64,
    /// As it was exported; NaN and infinities included.
    pub value: f64,
}

/// A series: what it is of, and its points in order of time. An instant answer has one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub points: Vec<Point>,
}

impl Series {
    /// A label's value; an empty one is none, as in Prometheus.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The first of these labels that has a value.
    #[must_use]
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.label(name))
    }

    /// The metric's name, empty where an operation took it away.
    #[must_use]
    pub fn name(&self) -> &str {
        self.label("__name__").unwrap_or_default()
    }

    /// The newest value.
    #[must_use]
    pub fn last(&self) -> Option<Point> {
        self.points.last().copied()
    }
}
