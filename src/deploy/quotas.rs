//! Creates and changes quotas. A quota is a ResourceQuota and a LimitRange in each namespace that
//! the file names.

use crate::deploy::events::Reporter;
use crate::deploy::quota_plan::{QuotaPlan, plan};
use gpuctl_cluster::{Connection, Deletion};
use gpuctl_core::error::Error;
use gpuctl_core::model::contract::submission::Made;
use gpuctl_manifest::render::{Object, namespace};
use gpuctl_manifest::spec::Quota;

/// Options for writing a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaOptions {
    /// Whether to change existing objects.
    pub change: bool,
    /// Whether to take over fields that other managers own.
    pub force: bool,
    pub keep_partial: bool,
    pub dry_run: bool,
}

/// Writes a quota into each of its namespaces, and creates missing namespaces.
pub(crate) async fn create(
    connection: &Connection,
    desired: &Quota,
    options: QuotaOptions,
    reporter: &dyn Reporter,
) -> Result<Made, Error> {
    let dry_run = options.dry_run;
    let plan = plan(
        connection,
        desired,
        (options.change, options.force),
        reporter,
    )
    .await?;
    let steps = plan.new_namespaces.len() + plan.objects.len() + plan.stale.len();
    let status = match (plan.is_unchanged, steps, plan.exists) {
        (true, 0, true) => "unchanged",
        (_, _, true) => "updated",
        _ => "created",
    };
    if !dry_run {
        write(connection, desired, plan, options).await?;
    }
    if options.change {
        warn_of_other_namespaces(connection, desired, reporter).await;
    }
    let mut limits = desired.namespaces.iter().map(|(_, limits)| limits);
    if limits.any(|limits| limits.gpu.is_some()) {
        reporter.note("quotas do not count GPUs claimed through dynamic resource allocation");
    }
    let spaces: Vec<&str> = desired
        .namespaces
        .iter()
        .map(|(space, _)| space.as_str())
        .collect();
    let verb = match (status, dry_run) {
        ("unchanged", _) => "matches the file",
        (_, true) => "would apply",
        (_, false) => "applies",
    };
    Ok(Made {
        kind: "quota",
        name: desired.name.clone(),
        status,
        message: format!("{verb} in {}", spaces.join(", ")),
        dry_run,
    })
}

/// Writes the namespaces and objects, then deletes the objects that the file no longer declares.
async fn write(
    connection: &Connection,
    desired: &Quota,
    plan: QuotaPlan,
    options: QuotaOptions,
) -> Result<(), Error> {
    let mut created = Vec::new();
    let spaces = plan.new_namespaces.iter().map(|space| namespace(space));
    for object in spaces.chain(plan.objects) {
        // Never take over fields of a namespace, which may have another manager.
        let force = options.force && object.kind() != "Namespace";
        match connection.writes().apply_with(&object, false, force).await {
            Ok(applied) => {
                let uid = applied
                    .live
                    .pointer("/metadata/uid")
                    .and_then(|uid| uid.as_str())
                    .unwrap_or_default()
                    .to_owned();
                created.extend(applied.created.then_some((object, uid)));
            }
            Err(failure) => {
                let error = Error::from(failure)
                    .during(format!("quota `{}` could not be created", desired.name));
                return Err(if options.keep_partial {
                    error
                } else {
                    error.note(roll_back(connection, created).await)
                });
            }
        }
    }
    for part in &plan.stale {
        if let Err(failure) = connection.quotas().remove_part(part).await {
            let error = Error::from(failure).during(format!(
                "{} of {} could not be removed",
                part.label(),
                part.namespace
            ));
            return Err(error
                .note("the rest of the quota was written")
                .hint("run `gpuctl apply` again to continue"));
        }
    }
    Ok(())
}

/// Warns about other namespaces with a quota of this name. Another file may declare them, so
/// nothing is deleted there.
pub(crate) async fn warn_of_other_namespaces(
    connection: &Connection,
    desired: &Quota,
    reporter: &dyn Reporter,
) {
    let Ok(quotas) = connection.quotas().list(None).await else {
        return;
    };
    for quota in quotas
        .iter()
        .filter(|quota| quota.quota.as_ref() == Some(&desired.name))
    {
        let space = &quota.namespace;
        if desired
            .namespaces
            .iter()
            .all(|(declared, _)| declared != space)
        {
            reporter.warn(&format!(
                "quota `{0}` also applies in {space}, which the file does not list; `gpuctl delete \
                 quota {0} -n {space}` removes it there",
                desired.name
            ));
        }
    }
}

/// Deletes the created objects, newest first, and describes those that remain.
async fn roll_back(connection: &Connection, created: Vec<(Object, String)>) -> String {
    let mut leftovers = Vec::new();
    for (object, uid) in created.into_iter().rev() {
        // With the UID, this does not delete an object that another user has created with the same
        // name.
        let deletion = Deletion::with_uid(&uid);
        if connection.writes().delete(&object, deletion).await.is_err() {
            leftovers.push(format!(
                "{} {}/{}",
                object.kind(),
                object.namespace().unwrap_or_default(),
                object.name()
            ));
        }
    }
    if leftovers.is_empty() {
        "everything created so far was removed".to_owned()
    } else {
        format!("not removed: {}", leftovers.join(", "))
    }
}
