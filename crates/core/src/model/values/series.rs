//! Time series as Prometheus returns them: labels and points.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix milliseconds.
    pub at: i64,
    /// The exported value; may be NaN or infinite.
    pub value: f64,
}

/// Label names and values, sorted by name. A series has about ten labels, and many lookups are for
/// absent ones: a linear search is faster than a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// The value of a label, even if it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .find(|(label, _)| *label == name)
            .map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Labels {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort();
        Self(labels)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AnyLabels)
    }
}

struct AnyLabels;

impl<'de> Visitor<'de> for AnyLabels {
    type Value = Labels;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut labels = Vec::new();
        while let Some(label) = map.next_entry()? {
            labels.push(label);
        }
        Ok(labels.into_iter().collect())
    }
}

/// A series: its labels, and its points in order of time. The result of an instant query has one
/// point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub labels: Labels,
    /// In order of time.
    pub points: Vec<Point>,
}

impl Series {
    /// The value of a label. An empty value counts as absent, as in Prometheus.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).filter(|value| !value.is_empty())
    }

    /// The first value among these labels.
    pub fn first<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<&str> {
        names.into_iter().find_map(|name| self.label(name))
    }

    /// The name of the metric; empty when a PromQL operation removed it.
    pub fn name(&self) -> &str {
        self.label("__name__").unwrap_or_default()
    }

    /// All labels except the name of the metric.
    pub(crate) fn without_name(&self) -> Vec<(&str, &str)> {
        self.labels
            .iter()
            .filter(|(name, _)| *name != "__name__")
            .collect()
    }

    /// The newest point.
    pub fn last(&self) -> Option<Point> {
        self.points.last().copied()
    }
}
