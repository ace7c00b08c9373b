//! Time series as Prometheus returns them, with their labels and points.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The time in Unix milliseconds.
    pub at: i64,
    /// The exported value. It may be NaN or infinite.
    pub value: f64,
}

/// The names and values of labels, sorted by name. A series has about ten labels, and many lookups
/// are for labels that it does not have. For this, a linear search is faster than a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// Returns the value of a label, even if it is empty.
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

/// A series: its labels, and its points ordered by time. In the result of an instant query, each
/// series has one point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub labels: Labels,
    /// The points, ordered by time.
    pub points: Vec<Point>,
}

impl Series {
    /// Returns the value of a label. As in Prometheus, an empty value counts as absent.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of the first of these labels that has one.
    pub fn first<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<&str> {
        names.into_iter().find_map(|name| self.label(name))
    }

    /// Returns the name of the metric. It is empty if a PromQL operation removed it.
    pub fn name(&self) -> &str {
        self.label("__name__").unwrap_or_default()
    }

    /// Returns all labels except the name of the metric.
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
