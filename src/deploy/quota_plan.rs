//! Plans the changes of a quota in a file, in each of its namespaces.

use std::collections::BTreeSet;

use crate::deploy::errors::conflict;
use crate::deploy::events::Reporter;
use gpuctl_cluster::{Connection, Effect, QuotaPart};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::facts::gpu::{WHOLE, mig_profile};
use gpuctl_core::model::facts::node::Node;
use gpuctl_manifest::render::{Object, namespace, quota};
use gpuctl_manifest::spec::Quota;

/// The new namespaces and the objects of a quota.
pub(crate) struct QuotaPlan {
    pub new_namespaces: Vec<String>,
    pub objects: Vec<Object>,
    /// Whether some of the quota's objects exist.
    pub exists: bool,
    /// Whether all existing objects match the file.
    pub is_unchanged: bool,
    /// Existing objects that the file no longer declares.
    pub stale: Vec<QuotaPart>,
}

/// Reads all namespaces of a quota before anything is written. With `change`, objects of the quota
/// may exist. With `force`, takes over fields that other managers own.
pub(crate) async fn plan(
    connection: &Connection,
    desired: &Quota,
    (change, force): (bool, bool),
    reporter: &dyn Reporter,
) -> Result<QuotaPlan, Error> {
    let declared = objects(connection, desired, reporter).await?;
    let stale = if change {
        stale(connection, desired, &declared).await?
    } else {
        Vec::new()
    };
    let mut plan = QuotaPlan {
        new_namespaces: Vec::new(),
        objects: Vec::new(),
        exists: !stale.is_empty(),
        is_unchanged: stale.is_empty(),
        stale,
    };
    for (space, objects) in declared {
        if connection
            .writes()
            .live(&namespace(&space))
            .await?
            .is_none()
        {
            plan.new_namespaces.push(space.clone());
            plan.objects.extend(objects);
            continue;
        }
        for object in objects {
            let Some(live) = connection.writes().live(&object).await? else {
                plan.objects.push(object);
                continue;
            };
            let is_managed = live["metadata"]["labels"][MANAGED_BY] == MANAGED_BY_US;
            if !(is_managed && change) {
                return Err(already_exists(&object, &space, is_managed));
            }
            plan.exists = true;
            match connection.writes().effect(&object, force).await? {
                Effect::Unchanged => {}
                Effect::Conflict(fields) => return Err(conflict(&object, &fields)),
                _ => {
                    plan.is_unchanged = false;
                    plan.objects.push(object);
                }
            }
        }
    }
    Ok(plan)
}

fn already_exists(object: &Object, namespace: &str, is_managed: bool) -> Error {
    let kind = if object.kind() == "LimitRange" {
        "limit range"
    } else {
        "quota"
    };
    let message = format!(
        "{kind} `{}` already exists in namespace `{namespace}`; nothing was written",
        object.name()
    );
    let error = Error::new(ErrorName::AlreadyExists, message);
    match is_managed {
        true => error.hint("use `gpuctl apply` to change it"),
        false => error.hint("it was not created by gpuctl; choose another `quota.name`"),
    }
}

/// Returns the resource names of whole GPUs in the cluster.
async fn resources(
    connection: &Connection,
    desired: &Quota,
    reporter: &dyn Reporter,
) -> Result<BTreeSet<String>, Error> {
    let mut resources = BTreeSet::new();
    if desired
        .namespaces
        .iter()
        .all(|(_, limits)| limits.gpu.is_none())
    {
        return Ok(resources);
    }
    let nodes = connection.nodes().list().await?;
    resources.extend(
        nodes
            .all()
            .iter()
            .filter_map(Node::whole_resource)
            .map(ToOwned::to_owned),
    );
    // A quota on GPUs needs a resource name, so use the most common one.
    if resources.is_empty() {
        resources.insert(WHOLE[0].to_owned());
        reporter.warn(&format!(
            "no nodes with GPUs were found: the quota is written for {}",
            WHOLE[0]
        ));
    }
    let sliced: BTreeSet<&str> = nodes
        .all()
        .iter()
        .flat_map(|node| node.allocatable.keys())
        .filter_map(|name| mig_profile(name))
        .collect();
    if !sliced.is_empty() {
        let sliced: Vec<&str> = sliced.into_iter().collect();
        reporter.warn(&format!(
            "slices ({}) do not count towards `gpu`",
            sliced.join(", ")
        ));
    }
    if resources.len() > 1 {
        let names: Vec<&str> = resources.iter().map(String::as_str).collect();
        let message = format!(
            "{} are counted separately: a namespace may use the full amount of each",
            names.join(" and ")
        );
        reporter.warn(&message);
    }
    Ok(resources)
}

/// Renders the objects of a quota for all of its namespaces.
pub(crate) async fn objects(
    connection: &Connection,
    desired: &Quota,
    reporter: &dyn Reporter,
) -> Result<Vec<(String, Vec<Object>)>, Error> {
    let resources = resources(connection, desired, reporter).await?;
    let namespace_objects = |space: &str, limits| {
        quota(
            &desired.name,
            desired.description.as_deref(),
            space,
            limits,
            &resources,
        )
    };
    Ok(desired
        .namespaces
        .iter()
        .map(|(space, limits)| (space.clone(), namespace_objects(space, limits)))
        .collect())
}

/// Lists the quota's existing objects that the file no longer declares.
pub(crate) async fn stale(
    connection: &Connection,
    desired: &Quota,
    declared: &[(String, Vec<Object>)],
) -> Result<Vec<QuotaPart>, Error> {
    let mut stale = Vec::new();
    for (space, objects) in declared {
        let parts = connection.quotas().parts(space, &desired.name).await?;
        stale.extend(
            parts
                .into_iter()
                .filter(|part| objects.iter().all(|object| object.plural != part.plural)),
        );
    }
    Ok(stale)
}
