//! Time series with labels and points, as Prometheus returns them.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time in Unix milliseconds.
    pub at: i64,
    /// The exported value, which may be NaN or infinite.
    pub value: f64,
}

/// Names and values of labels, sorted by name. A series has about ten labels and is often asked for
/// absent ones, for which a linear search is faster than a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// Returns the value of a label, which may be empty.
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

/// A series: its labels, and its points. In the result of an instant query, each series has one
/// point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub labels: Labels,
    /// The points, ordered by time.
    pub points: Vec<Point>,
}

impl Series {
    /// Returns the value of a label. As in Prometheus, a label with an empty value counts as
    /// absent.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the first value of these labels that is present.
    pub fn first<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<&str> {
        names.into_iter().find_map(|name| self.label(name))
    }

    /// Returns the name of the metric, or an empty string if a PromQL operation removed it.
    pub fn name(&self) -> &str {
        self.label("__name__").unwrap_or_default()
    }

    /// Returns all labels except the metric name.
    pub(crate) fn without_name(&self) -> Vec<(&str, &str)> {
        self.labels
            .iter()
            .filter(|(name, _)| *name != "__name__")
            .collect()
    }

    /// Returns the newest point.
    pub fn last(&self) -> Option<Point> {
        self.points.last().copied()
    }
}
