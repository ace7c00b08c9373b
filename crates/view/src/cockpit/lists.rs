//! The lists of the cockpit, with their sort orders and scopes.

use jiff::Timestamp;

use crate::workloads::top::TopOrder;
use gpuctl_core::model::Figures;
use gpuctl_core::model::values::units::UnitValue;

/// The lists in the order of the keys `1` to `6`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tab {
    #[default]
    Jobs,
    Nodes,
    Gpus,
    Queues,
    Waiting,
    Overview,
}

impl Tab {
    pub const ALL: [Self; 6] = [
        Self::Jobs,
        Self::Nodes,
        Self::Gpus,
        Self::Queues,
        Self::Waiting,
        Self::Overview,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Nodes => "nodes",
            Self::Gpus => "GPUs",
            Self::Queues => "queues",
            Self::Waiting => "waiting",
            Self::Overview => "overview",
        }
    }
}

/// Sort key of a list. Values are sorted from high to low, and names from A to Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    #[default]
    Utilization,
    Gpus,
    Memory,
    Power,
    Age,
    Name,
}

impl From<TopOrder> for Order {
    fn from(order: TopOrder) -> Self {
        match order {
            TopOrder::Utilization => Self::Utilization,
            TopOrder::Memory => Self::Memory,
            TopOrder::Power => Self::Power,
            TopOrder::Gpus => Self::Gpus,
            TopOrder::Name => Self::Name,
        }
    }
}

impl Order {
    const ALL: [Self; 6] = [
        Self::Utilization,
        Self::Gpus,
        Self::Memory,
        Self::Power,
        Self::Age,
        Self::Name,
    ];

    pub(crate) fn next(self) -> Self {
        let index = Self::ALL
            .iter()
            .position(|order| *order == self)
            .unwrap_or(0);
        Self::ALL[(index + 1) % Self::ALL.len()]
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Utilization => "utilization",
            Self::Gpus => "GPUs",
            Self::Memory => "memory",
            Self::Power => "power",
            Self::Age => "age",
            Self::Name => "name",
        }
    }

    /// Returns the sort value of a row. Rows without a value come last, sorted by name.
    pub(super) fn number(
        self,
        figures: &Figures,
        gpus: Option<u64>,
        since: Option<Timestamp>,
    ) -> Option<f64> {
        match self {
            Self::Utilization => figures.utilization.map(UnitValue::value),
            Self::Gpus => gpus.map(|gpus| gpus as f64),
            Self::Memory => figures.memory_used.map(UnitValue::value),
            Self::Power => figures.power_in_all.map(UnitValue::value),
            // Negate the time: the highest value comes first, and the oldest row has the smallest
            // time.
            Self::Age => since.map(|since| -(since.as_second() as f64)),
            Self::Name => None,
        }
    }
}

/// Restricts a list to the rows that belong to an opened row of another list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Node(String),
    /// Full name of a job: NAMESPACE/KIND/NAME.
    Job(String),
    Namespace(String),
    GpuType(String),
}

impl Scope {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Job(name) | Self::Namespace(name) | Self::GpuType(name) => {
                name
            }
        }
    }
}

/// The object shown by a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowTarget {
    Job {
        namespace: String,
        kind: String,
        name: String,
    },
    Node(String),
    Gpu {
        node: String,
        holder: Option<(String, String)>,
    },
    Queue {
        namespace: Option<String>,
        name: String,
    },
    GpuType(String),
}
