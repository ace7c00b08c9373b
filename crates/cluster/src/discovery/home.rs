//! Checks whether an administrator has marked the namespace `gpuctl-system`. Without this check,
//! any user with permission to create namespaces could create it first and set defaults for all
//! users.
//!
//! The mark is a ClusterRole that names the UID of the namespace. Permission to create namespaces
//! does not include permission to create ClusterRoles. A namespace that is deleted and created
//! again gets another UID, so the old mark no longer matches. The role's binding lets every user
//! read the ClusterRole and the namespace, and nothing else.

use serde_json::Value;

use crate::{Failure, handles::SiteApi, unless_forbidden};
use gpuctl_core::model::contract::labels::{HOME, HOME_UID};
use gpuctl_manifest::render::{self, HOME_ROLE};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The state of an administrator's mark on the namespace `gpuctl-system`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeMark {
    Marked,
    Unmarked,
    /// The user cannot read the namespace or its mark.
    Hidden,
}

impl SiteApi<'_> {
    /// Compares the UID in the mark with the UID of the namespace.
    pub async fn home_mark(self) -> Result<HomeMark, Failure> {
        let home = self.0.find_in::<Value>("/api/v1/namespaces", HOME);
        let (role, home) =
            futures::future::join(self.0.find_in::<Value>(ROLES, HOME_ROLE), home).await;
        let (role, home) = match (unless_forbidden(role), unless_forbidden(home)) {
            // Bundles from earlier versions contain neither object.
            (Err(Failure::NotInBundle(_)), _) | (_, Err(Failure::NotInBundle(_))) => {
                return Ok(HomeMark::Unmarked);
            }
            (role, home) => (role?, home?),
        };
        let (Some(role), Some(home)) = (role, home) else {
            return Ok(HomeMark::Hidden);
        };
        let marked_uid = role
            .as_ref()
            .and_then(|role| role["metadata"]["annotations"][HOME_UID].as_str());
        let uid = home
            .as_ref()
            .and_then(|home| home["metadata"]["uid"].as_str());
        Ok(if marked_uid.is_some() && marked_uid == uid {
            HomeMark::Marked
        } else {
            HomeMark::Unmarked
        })
    }

    /// Reads the namespace `gpuctl-system`; `None` if it does not exist or the user cannot read it.
    pub async fn home(self) -> Result<Option<Value>, Failure> {
        unless_forbidden(self.0.find_in::<Value>("/api/v1/namespaces", HOME).await)
            .map(Option::flatten)
    }

    /// Marks the namespace `gpuctl-system`. Returns false if the user lacks the necessary
    /// permissions.
    pub async fn mark_home(self, private: bool) -> Result<bool, Failure> {
        let Some(home) = self.home().await? else {
            return Ok(false);
        };
        let uid = home["metadata"]["uid"].as_str().unwrap_or_default();
        for object in render::home_role(uid, private) {
            if unless_forbidden(self.0.writes().apply_with(&object, false, true).await)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mark_grants_reading_only_the_mark() {
        let objects = render::home_role("u-1", false);
        assert_eq!(
            objects[0].body["metadata"]["annotations"],
            json!({HOME_UID: "u-1"})
        );
        assert_eq!(
            objects[0].body["rules"],
            json!([
                {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["gpuctl-system"], "verbs": ["get"]},
                {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["gpuctl-home"], "verbs": ["get"]},
            ])
        );
        assert_eq!(
            (objects.len(), render::home_role("u-1", true).len()),
            (2, 1)
        );
    }
}
