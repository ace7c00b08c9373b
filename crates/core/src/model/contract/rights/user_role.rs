//! Permissions for each kind of user: viewer, researcher or operator.

use std::collections::BTreeSet;

use super::{Right, RightScope, Task};

/// The kind of user that a role is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum UserRole {
    /// Can read every view.
    Viewer,
    /// A viewer who can also submit, watch and delete jobs in one namespace.
    Researcher,
    /// A viewer of all namespaces who can also manage nodes, pools, quotas and the site's defaults.
    Operator,
}

/// Commands with which a researcher changes the cluster.
const RESEARCH: [&str; 18] = [
    "create jobs",
    "create services",
    "create notebooks",
    "create secrets",
    "apply jobs",
    "apply services",
    "apply notebooks",
    "logs",
    "open",
    "exec",
    "attach",
    "cp",
    "scale",
    "pause jobs",
    "resume jobs",
    "restart jobs",
    "delete jobs",
    "fit",
];

/// Commands with which an operator changes the cluster.
const OPERATION: [&str; 14] = [
    "create pools",
    "create quotas",
    "create defaults",
    "apply pools",
    "apply quotas",
    "apply defaults",
    "delete pools",
    "delete quotas",
    "delete defaults",
    "add nodes",
    "remove nodes",
    "label nodes",
    "drain",
    "fit",
];

/// Commands that only read. `get` and `describe` stand for all their resources.
const VIEWS: [&str; 15] = [
    "fit", "tree", "why", "free", "top", "score", "stats", "eff", "who gpu", "report", "snapshot",
    "logs", "events", "get", "describe",
];

impl UserRole {
    /// The value of `--emit-role`.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Describes in one line what the role allows.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Viewer => {
                "A viewer can read jobs, logs and events in the namespace. The ClusterRole allows reading nodes and pods in all namespaces."
            }
            Self::Researcher => {
                "A researcher can submit, watch and delete jobs in the namespace, and read everything that a viewer can."
            }
            Self::Operator => {
                "An operator can manage nodes, pools, quotas and defaults, and read everything that a viewer can, in all namespaces."
            }
        }
    }

    /// Whether the role includes the permissions for this command.
    pub fn uses(self, task: &Task) -> bool {
        let reads = VIEWS.contains(&task.words) || VIEWS.contains(&task.verb());
        match self {
            Self::Viewer => reads,
            Self::Researcher => reads || RESEARCH.contains(&task.words),
            Self::Operator => reads || OPERATION.contains(&task.words),
        }
    }

    /// Collects the permissions for all commands of the role. Only an operator may write outside
    /// the namespace. No role may read the logs of all namespaces.
    pub fn rights<'t>(self, tasks: impl Iterator<Item = &'t Task>) -> BTreeSet<Right> {
        let is_read = |right: &Right| matches!(right.verb, "get" | "list" | "watch");
        let fits = |right: &Right| match (self, right.scope) {
            (_, RightScope::Cluster) if right.resource == "pods/log" => false,
            (Self::Operator, _) | (_, RightScope::Namespace) => true,
            _ => is_read(right),
        };
        tasks
            .filter(|task| self.uses(task))
            .flat_map(Task::complete)
            .filter(fits)
            .collect()
    }
}
