//! Deletes quotas and, with `--purge`, the empty namespaces that gpuctl created for them.

use crate::deploy::events::{DeployEvent, Reporter};
use gpuctl_cluster::{Connection, Failure, Namespace};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::QuotaUse;

/// Reads the quotas of the namespace in `-n`, or of all namespaces. If the user is not allowed to
/// list all of them, reads those of the current namespace, and also returns the failure.
async fn readable_quotas(
    connection: &Connection,
) -> Result<(Vec<QuotaUse>, Option<Failure>), Failure> {
    let explicit_namespace = connection
        .namespace_is_explicit
        .then_some(connection.namespace.as_str());
    match connection.quotas().list(explicit_namespace).await {
        Err(failure) if failure.is_forbidden() && explicit_namespace.is_none() => Ok((
            connection
                .quotas()
                .list(Some(&connection.namespace))
                .await?,
            Some(failure),
        )),
        quotas => Ok((quotas?, None)),
    }
}

/// Lists the parts of a quota that `delete` would delete.
pub(crate) async fn deletable(connection: &Connection, name: &str) -> Result<Vec<QuotaUse>, Error> {
    let (mut quotas, list_failure) = readable_quotas(connection).await?;
    if quotas
        .iter()
        .any(|quota| quota.quota.as_deref() == Some(name))
    {
        quotas.retain(|quota| quota.quota.as_deref() == Some(name));
        return Ok(quotas);
    }
    Err(list_failure.map_or_else(|| missing(name, &quotas), Into::into))
}

/// Deletes a quota in the namespace of `-n`, or in all namespaces. With `purge`, also deletes the
/// empty namespaces that gpuctl created.
pub(crate) async fn delete(
    connection: &Connection,
    name: &str,
    purge: bool,
    ignore_not_found: bool,
    reporter: &dyn Reporter,
) -> Result<Option<String>, Error> {
    let (quotas, list_failure) = readable_quotas(connection).await?;
    let matching: Vec<&QuotaUse> = quotas
        .iter()
        .filter(|quota| quota.quota.as_deref() == Some(name))
        .collect();
    if matching.is_empty() {
        return match list_failure {
            Some(failure) => Err(failure.into()),
            None if ignore_not_found => Ok(None),
            None => Err(missing(name, &quotas)),
        };
    }
    if list_failure.is_some() {
        let namespace = &connection.namespace;
        reporter.report(DeployEvent::MissingRight(&format!(
            "you are not allowed to list quotas in all namespaces: deleting it only from `{namespace}`"
        )));
    }
    let (mut namespaces, mut deleted, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for quota in matching {
        for part in connection.quotas().parts(&quota.namespace, name).await? {
            connection.quotas().remove_part(&part).await?;
        }
        namespaces.push(quota.namespace.clone());
        if purge {
            match connection
                .namespaces()
                .remove_empty(&quota.namespace)
                .await?
            {
                Namespace::Deleted => deleted.push(quota.namespace.clone()),
                Namespace::StillUsed(held) => {
                    kept.push(format!("{} has {held}", quota.namespace));
                }
                Namespace::NotOurs => {
                    kept.push(format!("{} was not created by gpuctl", quota.namespace));
                }
            }
        }
    }
    let mut message = format!("it applied to {}", namespaces.join(", "));
    for (action, names) in [
        ("empty namespaces deleted", deleted),
        ("namespaces kept", kept),
    ] {
        if !names.is_empty() {
            message.push_str(&format!("; {action}: {}", names.join(", ")));
        }
    }
    Ok(Some(message))
}

fn missing(name: &str, quotas: &[QuotaUse]) -> Error {
    let names: Vec<&str> = quotas
        .iter()
        .filter_map(|quota| quota.quota.as_deref())
        .collect();
    let error = Error::new(
        ErrorName::QuotaNotFound,
        format!("quota `{name}` does not exist or is not managed by gpuctl"),
    );
    match gpuctl_manifest::spec::nearest(name, &names) {
        Some(suggestion) => error.hint(format!("did you mean `{suggestion}`?")),
        None => error.hint("gpuctl get quotas"),
    }
}
