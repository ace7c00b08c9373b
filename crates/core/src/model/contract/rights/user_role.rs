//! Roles for three kinds of users: viewer, researcher and operator.

use std::collections::BTreeSet;

use super::{Right, RightScope, Task};

/// A kind of user for whom `auth check` can print a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum UserRole {
    /// Can run all commands that only read.
    Viewer,
    /// A viewer who can also submit, watch and delete jobs in one namespace.
    Researcher,
    /// A viewer of all namespaces who can also manage nodes, pools, quotas and the site defaults.
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

/// Commands that only read. `get` and `describe` are included for every resource.
const VIEWS: [&str; 15] = [
    "fit", "tree", "why", "free", "top", "score", "stats", "eff", "who gpu", "report", "snapshot",
    "logs", "events", "get", "describe",
];

impl UserRole {
    /// Returns the value for `--emit-role`.
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

    /// Returns true if the role includes the permissions of this command.
    pub fn uses(self, task: &Task) -> bool {
        let reads = VIEWS.contains(&task.words) || VIEWS.contains(&task.verb());
        match self {
            Self::Viewer => reads,
            Self::Researcher => reads || RESEARCH.contains(&task.words),
            Self::Operator => reads || OPERATION.contains(&task.words),
        }
    }

    /// Collects the permissions for all commands of the role. Only operators may write outside the
    /// namespace, and no role may read logs of all namespaces.
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
