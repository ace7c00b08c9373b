//! Permissions that each command needs in the cluster, and the output that it omits without the
//! optional ones. `auth check` and the roles that it prints are generated from these lists.

mod cluster_rules;
mod queue_rules;
mod rules;
mod user_role;

use std::collections::{BTreeMap, BTreeSet};

pub use cluster_rules::*;
pub use queue_rules::*;
pub use rules::*;
pub use user_role::UserRole;

/// Scope of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightScope {
    /// The namespace of the job.
    Namespace,
    /// The whole cluster.
    Cluster,
    /// The namespace with the pool definitions.
    Home,
}

/// Permissions for one resource, and when a command needs them.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub scope: RightScope,
    /// API group, or empty for the core group.
    pub group: &'static str,
    /// Plural name of the resource, with a subresource if necessary: `pods/log`.
    pub resource: &'static str,
    pub verbs: &'static [&'static str],
    pub need: Need,
}

/// When a command needs a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The command always fails without the permission.
    Always,
    /// The command fails without the permission, but only with these arguments or files.
    For(&'static str),
    /// Without the permission, the command only omits this part of its output.
    Optional(&'static str),
}

/// Permission for one verb on one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub scope: RightScope,
    pub group: &'static str,
    pub resource: &'static str,
    pub verb: &'static str,
}

impl Right {
    /// Formats the permission, for example `list jobs.batch`.
    pub fn text(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        format!("{} {}{dot}{}", self.verb, self.resource, self.group)
    }
}

impl Rule {
    /// Splits a rule into one permission per verb.
    pub fn rights(self) -> impl Iterator<Item = Right> {
        let Self {
            scope,
            group,
            resource,
            verbs,
            ..
        } = self;
        verbs.iter().map(move |verb| Right {
            scope,
            group,
            resource,
            verb,
        })
    }
}

/// A command of gpuctl and the permissions that it needs.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The command as passed to `auth check`, such as `create jobs` or `logs`. If the permissions
    /// of a verb depend on the kind of job, `jobs` means trainings.
    pub words: &'static str,
    rules: &'static [&'static [Rule]],
}

impl Task {
    pub const fn new(words: &'static str, rules: &'static [&'static [Rule]]) -> Self {
        Self { words, rules }
    }

    /// Returns the verb as the user types it, such as `create`.
    pub fn verb(&self) -> &'static str {
        self.words
            .split_once(' ')
            .map_or(self.words, |(verb, _)| verb)
    }

    /// Returns the resource that the command works on, such as `jobs`.
    pub fn resource(&self) -> &'static str {
        self.words
            .split_once(' ')
            .map_or("", |(_, resource)| resource)
    }

    /// Returns true if the command does not work without Prometheus.
    pub fn needs_prometheus(&self) -> bool {
        self.needed().contains(&PROXY)
    }

    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().flat_map(|rules| rules.iter().copied())
    }

    /// Collects the permissions of all rules whose need satisfies `includes`.
    pub(crate) fn rights_where(&self, includes: impl Fn(Need) -> bool) -> BTreeSet<Right> {
        self.rules()
            .filter(|rule| includes(rule.need))
            .flat_map(Rule::rights)
            .collect()
    }

    /// Returns the permissions without which the command always fails.
    pub fn needed(&self) -> BTreeSet<Right> {
        self.rights_where(|need| need == Need::Always)
    }

    /// Returns the permissions for all arguments and files, without the optional ones.
    pub fn sufficient(&self) -> BTreeSet<Right> {
        self.rights_where(|need| !matches!(need, Need::Optional(_)))
    }

    /// Returns all permissions, including the optional ones.
    pub fn complete(&self) -> BTreeSet<Right> {
        self.rights_where(|_| true)
    }

    /// Returns the command that creates or applies a document of this kind.
    pub fn writing(kind: &str, is_apply: bool) -> &'static str {
        match (kind, is_apply) {
            ("inference" | "compute", false) => "create services",
            ("inference" | "compute", true) => "apply services",
            ("notebook", false) => "create notebooks",
            ("notebook", true) => "apply notebooks",
            ("resource" | "pool", false) => "create pools",
            ("resource" | "pool", true) => "apply pools",
            ("quota", false) => "create quotas",
            ("quota", true) => "apply quotas",
            ("defaults", false) => "create defaults",
            ("defaults", true) => "apply defaults",
            (_, false) => "create jobs",
            (_, true) => "apply jobs",
        }
    }
}

/// Formats permissions as prose: `create, get and patch services`.
pub fn descriptions<'r>(rights: impl Iterator<Item = &'r Right>) -> Vec<String> {
    let mut grouped: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for right in rights {
        grouped
            .entry((right.group, right.resource))
            .or_default()
            .insert(right.verb);
    }
    let format_group = |((group, resource), verbs): ((&str, &str), BTreeSet<&str>)| {
        let verbs: Vec<&str> = verbs.into_iter().collect();
        let verbs = match verbs.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            _ => verbs.concat(),
        };
        let dot = if group.is_empty() { "" } else { "." };
        format!("{verbs} {resource}{dot}{group}")
    };
    grouped.into_iter().map(format_group).collect()
}

/// Groups permissions by scope, API group and resource, as in the rules of a role.
pub fn merged(
    rights: impl Iterator<Item = Right>,
) -> BTreeMap<RightScope, BTreeMap<(&'static str, &'static str), BTreeSet<&'static str>>> {
    let mut by_scope: BTreeMap<RightScope, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
    for right in rights {
        by_scope
            .entry(right.scope)
            .or_default()
            .entry((right.group, right.resource))
            .or_default()
            .insert(right.verb);
    }
    by_scope
}
