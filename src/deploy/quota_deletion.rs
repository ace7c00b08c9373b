//! Deletes quotas, and with `--purge` the empty namespaces that gpuctl created for them.

use crate::deploy::events::{DeployEvent, Reporter};
use gpuctl_cluster::{Connection, Failure, Namespace};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::QuotaUse;

/// Reads the quotas of `-n`, or of all namespaces. Without the right to list all of them, reads the
/// quotas of the current namespace, and returns the refusal too.
async fn in_reach(connection: &Connection) -> Result<(Vec<QuotaUse>, Option<Failure>), Failure> {
    let named = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    match connection.quotas().list(named).await {
        Err(failure) if failure.is_forbidden() && named.is_none() => Ok((
            connection
                .quotas()
                .list(Some(&connection.namespace))
                .await?,
            Some(failure),
        )),
        other => Ok((other?, None)),
    }
}

/// Lists every part of a quota that `delete` would delete.
pub(crate) async fn deletable(connection: &Connection, name: &str) -> Result<Vec<QuotaUse>, Error> {
    let (mut all, unseen) = in_reach(connection).await?;
    if all.iter().any(|quota| quota.quota.as_deref() == Some(name)) {
        all.retain(|quota| quota.quota.as_deref() == Some(name));
        return Ok(all);
    }
    Err(unseen.map_or_else(|| missing(name, &all), Into::into))
}

/// Deletes a quota in the namespace of `-n`, or in every namespace. With `purge` it also deletes
/// the empty namespaces that gpuctl created.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    purge: bool,
    ignore_not_found: bool,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    let (all, unseen) = in_reach(connection).await?;
    let ours: Vec<&QuotaUse> = all
        .iter()
        .filter(|quota| quota.quota.as_deref() == Some(name))
        .collect();
    if ours.is_empty() {
        return match unseen {
            Some(failure) => Err(failure.into()),
            None if ignore_not_found => Ok(None),
            None => Err(missing(name, &all)),
        };
    }
    if unseen.is_some() {
        let home = &connection.namespace;
        reporter.tell(DeployEvent::Lack(&format!(
            "you may not list quotas of all namespaces: it is deleted from `{home}` only"
        )));
    }
    let (mut spaces, mut gone, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for quota in ours {
        for part in connection.quotas().parts(&quota.namespace, name).await? {
            connection.quotas().remove_part(&part).await?;
        }
        spaces.push(quota.namespace.clone());
        if purge {
            match connection
                .namespaces()
                .remove_empty(&quota.namespace)
                .await?
            {
                Namespace::Deleted => gone.push(quota.namespace.clone()),
                Namespace::RecordedAnswer(held) => {
                    kept.push(format!("{} has {held}", quota.namespace))
                }
                Namespace::NotOurs => kept.push(format!("{} belongs to others", quota.namespace)),
            }
        }
    }
    let mut message = format!("it applied in {}", spaces.join(", "));
    for (what, names) in [
        ("empty namespaces deleted", gone),
        ("namespaces kept", kept),
    ] {
        if !names.is_empty() {
            message.push_str(&format!("; {what}: {}", names.join(", ")));
        }
    }
    Ok(Some(message))
}

fn missing(name: &str, all: &[QuotaUse]) -> Error {
    let names: Vec<&str> = all
        .iter()
        .filter_map(|quota| quota.quota.as_deref())
        .collect();
    let error = Error::new(
        ErrorName::QuotaNotFound,
        format!("there is no quota `{name}` managed by gpuctl"),
    );
    match gpuctl_manifest::spec::nearest(name, &names) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("gpuctl get quotas"),
    }
}
