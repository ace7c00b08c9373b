//! Checks whether an administrator has marked the namespace `gpuctl-system`. Where users may create namespaces, one of them
//! could create it first and set defaults for everyone.
//!
//! The mark is a ClusterRole that names the UID of the namespace. Users who may create namespaces cannot create cluster-wide
//! roles, and a namespace that is deleted and created again gets another UID. The binding of the role lets every user read the
//! role itself and the namespace, and nothing else.

use serde_json::Value;

use super::{Connection, Failure, unless_forbidden};
use crate::model::labels::{HOME, HOME_UID};
use crate::render::{HOME_ROLE, home_mark};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

impl Connection {
    /// Returns whether the mark names the UID of the current namespace.
    pub(crate) async fn home_is_marked(&self) -> Result<bool, Failure> {
        let (role, home) = futures::future::join(self.find_in::<Value>(ROLES, HOME_ROLE), self.home()).await;
        let (role, home) = match (unless_forbidden(role), home) {
            // A bundle of an earlier version has neither.
            (Err(Failure::NotInBundle(_)), _) | (_, Err(Failure::NotInBundle(_))) => return Ok(false),
            (role, home) => (role?.flatten(), home?),
        };
        let named = role.as_ref().and_then(|role| role["metadata"]["annotations"][HOME_UID].as_str());
        let uid = home.as_ref().and_then(|home| home["metadata"]["uid"].as_str());
        Ok(named.is_some() && named == uid)
    }

    /// Returns the namespace of definitions; `None` where there is none or it may not be read.
    pub(crate) async fn home(&self) -> Result<Option<Value>, Failure> {
        unless_forbidden(self.find_in::<Value>("/api/v1/namespaces", HOME).await).map(Option::flatten)
    }

    /// Marks the namespace of definitions. Returns false without the right to.
    pub(crate) async fn mark_home(&self, private: bool) -> Result<bool, Failure> {
        let Some(home) = self.home().await? else { return Ok(false) };
        let uid = home["metadata"]["uid"].as_str().unwrap_or_default();
        for object in home_mark(uid, private) {
            if unless_forbidden(self.apply_with(&object, false, true).await)?.is_none() {
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
    fn the_mark_lets_users_read_the_mark_and_nothing_else() {
        let objects = home_mark("u-1", false);
        assert_eq!(objects[0].body["metadata"]["annotations"], json!({HOME_UID: "u-1"}));
        assert_eq!(
            objects[0].body["rules"],
            json!([
                {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["gpuctl-system"], "verbs": ["get"]},
                {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["gpuctl-home"], "verbs": ["get"]},
            ])
        );
        assert_eq!((objects.len(), home_mark("u-1", true).len()), (2, 1));
    }
}
