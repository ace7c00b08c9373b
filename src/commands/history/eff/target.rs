//! Finds the job or workload that the argument of `gpuctl eff` names.

use std::collections::BTreeSet;

use crate::cli::history::eff::Eff;
use crate::lookup;
use crate::observe::history::uids;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::UnixSeconds;
use gpuctl_core::stats::history::top_owner::TopOwner;

/// The job or workload that the user names.
pub(super) struct EffTarget {
    pub namespace: Option<String>,
    kind: Option<String>,
    pub name: String,
}

impl EffTarget {
    pub(super) fn matches(&self, top: &TopOwner) -> bool {
        top.name == self.name
            && self
                .namespace
                .as_ref()
                .is_none_or(|namespace| *namespace == top.namespace)
            && self.kind.as_ref().is_none_or(|kind| *kind == top.kind)
    }

    pub(super) fn not_found(&self, start: &str) -> Error {
        let place = self
            .namespace
            .as_ref()
            .map_or(String::new(), |namespace| format!(" in {namespace}"));
        let error = Error::new(
            ErrorName::NotFound,
            format!(
                "according to Prometheus, `{}`{place} has held no GPUs since {start}",
                self.name
            ),
        );
        error.hint(
            "use `--start 30d` to look further back, or find past workloads with `gpuctl stats \
             workloads`",
        )
    }
}

pub(super) async fn read_target(args: &Eff, connection: &Connection) -> Result<EffTarget, Error> {
    let explicit_namespace = lookup::explicit_namespace(connection);
    if let Some((namespace, rest)) = args.name.split_once('/') {
        lookup::check_namespace(explicit_namespace, Some(namespace), rest)?;
        let (kind, name) = match rest.split_once('/') {
            Some((kind, name)) => (Some(kind.to_owned()), name),
            None => (None, rest),
        };
        return Ok(EffTarget {
            namespace: Some(namespace.to_owned()),
            kind,
            name: name.to_owned(),
        });
    }
    // A UUID in text form has 36 characters with 4 hyphens.
    let is_uid =
        args.name.len() == 36 && args.name.bytes().filter(|byte| *byte == b'-').count() == 4;
    if is_uid {
        let owner = uids(connection, UnixSeconds::NEVER)
            .await
            .into_iter()
            .find(|(_, uid)| *uid == args.name);
        if let Some(((namespace, kind, name), _)) = owner {
            return Ok(EffTarget {
                namespace: Some(namespace),
                kind: Some(kind),
                name,
            });
        }
    }
    Ok(EffTarget {
        namespace: explicit_namespace.map(ToOwned::to_owned),
        kind: None,
        name: args.name.clone(),
    })
}

/// Builds the error for a name that several workloads have, with the command for each of them. Two
/// kinds in one namespace need the kind as well.
pub(super) fn ambiguous(name: &str, tops: &BTreeSet<TopOwner>) -> Error {
    let namespaces: BTreeSet<&str> = tops.iter().map(|top| top.namespace.as_str()).collect();
    let full_name = |top: &TopOwner| match namespaces.len() == tops.len() {
        true => format!("{}/{}", top.namespace, top.name),
        false => format!("{}/{}/{}", top.namespace, top.kind, top.name),
    };
    let full_names: Vec<String> = tops.iter().map(full_name).collect();
    let message = format!(
        "{} workloads are named `{name}`: {}",
        tops.len(),
        full_names.join(", ")
    );
    let commands: Vec<String> = full_names
        .iter()
        .map(|full_name| format!("`gpuctl eff {full_name}`"))
        .collect();
    let hint = format!("choose one: {}", commands.join(", "));
    Error::new(ErrorName::AmbiguousName, message).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tops(names: &[[&str; 3]]) -> BTreeSet<TopOwner> {
        let top = |[namespace, kind, name]: &[&str; 3]| TopOwner {
            namespace: (*namespace).to_owned(),
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
        };
        names.iter().map(top).collect()
    }

    #[test]
    fn an_ambiguous_name_lists_the_command_for_each_workload() {
        let error = ambiguous(
            "bert",
            &tops(&[["team-a", "Job", "bert"], ["team-b", "Job", "bert"]]),
        );
        assert_eq!(
            error.message,
            "2 workloads are named `bert`: team-a/bert, team-b/bert"
        );
        assert_eq!(
            error.hints,
            ["choose one: `gpuctl eff team-a/bert`, `gpuctl eff team-b/bert`"]
        );
        let error = ambiguous(
            "web",
            &tops(&[["team-a", "Deployment", "web"], ["team-a", "Job", "web"]]),
        );
        assert_eq!(
            error.hints,
            ["choose one: `gpuctl eff team-a/Deployment/web`, `gpuctl eff team-a/Job/web`"]
        );
    }
}
