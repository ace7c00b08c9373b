//! Reads and writes pool definitions, and publishes facts about nodes and pools. Each write carries
//! the `resourceVersion` that was read, so that concurrent writers do not overwrite each other.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::transport::decode::ListPage;
use crate::write::apply::Deletion;
use crate::{Failure, handles::PoolsApi};
use gpuctl_core::model::PoolDefinition;
use gpuctl_core::model::contract::labels::{HOME, KIND, MANAGED_BY, MANAGED_BY_US, PRIVATE};
use gpuctl_core::model::values::natural;
use gpuctl_manifest::render::{
    FACTS_POOLS, Object, POOL_KIND, definition, facts, home_namespace, reader_rules,
    reads_all_configmaps,
};

/// A definition and the `resourceVersion` of its ConfigMap.
#[derive(Clone, Debug)]
pub struct StoredPool {
    pub pool: PoolDefinition,
    pub version: String,
}

/// The state of the namespace for pool definitions after `ensure_home`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolNamespace {
    /// The namespace already existed.
    Older,
    /// gpuctl created the namespace, and every user can read it.
    Read,
    /// gpuctl created the namespace, and no other user can read it.
    Unread,
}

#[derive(Deserialize)]
struct PoolConfigMap {
    metadata: StoredMetadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredMetadata {
    name: String,
    resource_version: String,
}

impl PoolConfigMap {
    /// Parses the definition. Returns `None` if it is invalid, or if its pool is not the one in the
    /// ConfigMap's name.
    fn pool(self) -> Option<StoredPool> {
        let pool: PoolDefinition = serde_json::from_str(self.data.get("pool")?).ok()?;
        let has_own_name = self.metadata.name.strip_prefix("pool-") == Some(&pool.name);
        has_own_name.then_some(StoredPool {
            pool,
            version: self.metadata.resource_version,
        })
    }
}

fn path(pool: &str) -> String {
    format!("/api/v1/namespaces/{HOME}/configmaps/pool-{pool}")
}

fn contended(object: &str) -> Failure {
    let message = format!("other clients keep changing {object}; try again");
    Failure::conflict("Conflict", message)
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/gpuctl-system/roles";

/// Maximum number of attempts per write if other writers cause conflicts.
const TRIES: u32 = 8;

impl PoolsApi<'_> {
    /// Lists all definitions by name. Falls back to the published ones if the user cannot list
    /// them.
    pub async fn list(self) -> Result<Vec<PoolDefinition>, Failure> {
        match self.defined_pools().await {
            Err(failure) if failure.is_forbidden() => self.published_pools().await.ok_or(failure),
            other => other,
        }
    }

    async fn published_pools(self) -> Option<Vec<PoolDefinition>> {
        let facts: PoolConfigMap = self.0.get(super::nodes::FACTS).await.ok()?;
        serde_json::from_str(facts.data.get(FACTS_POOLS)?).ok()
    }

    async fn defined_pools(self) -> Result<Vec<PoolDefinition>, Failure> {
        let selector = format!("{MANAGED_BY}={MANAGED_BY_US},{KIND}={POOL_KIND}");
        let mut pools = Vec::new();
        self.0
            .list(
                &format!("/api/v1/namespaces/{HOME}/configmaps"),
                &[("labelSelector", &selector)],
                |page| {
                    let page: ListPage<PoolConfigMap> = page.objects()?;
                    pools.extend(
                        page.items
                            .into_iter()
                            .filter_map(PoolConfigMap::pool)
                            .map(|stored| stored.pool),
                    );
                    Ok(())
                },
            )
            .await?;
        pools.sort_by(|a, b| natural::compare(&a.name, &b.name));
        Ok(pools)
    }

    pub async fn get(self, name: &str) -> Result<Option<StoredPool>, Failure> {
        Ok(self
            .0
            .find::<PoolConfigMap>(&path(name))
            .await?
            .and_then(PoolConfigMap::pool))
    }

    /// Reads one definition for display. Falls back to the published one if the user cannot read
    /// the definition. Writes must not rely on the published one, which may be stale.
    pub async fn get_or_published(self, name: &str) -> Result<Option<PoolDefinition>, Failure> {
        match self.get(name).await {
            Err(failure) if failure.is_forbidden() => {
                let pools = self.published_pools().await.ok_or(failure)?;
                Ok(pools.into_iter().find(|pool| pool.name == name))
            }
            other => Ok(other?.map(|stored| stored.pool)),
        }
    }

    /// Creates the namespace for definitions, readable by every user unless `private` is set. An
    /// existing private namespace stays private. Adds the readers' role to an existing namespace
    /// that lacks only this role.
    pub async fn ensure_home(self, private: bool) -> Result<PoolNamespace, Failure> {
        let objects = home_namespace(private);
        let Some((namespace, readers)) = objects.split_first() else {
            return Ok(PoolNamespace::Older);
        };
        let exists = match self.0.writes().live(namespace).await {
            Err(failure) if failure.is_forbidden() => return Ok(PoolNamespace::Older),
            Ok(Some(live)) if live["metadata"]["annotations"][PRIVATE].is_string() => {
                return Ok(PoolNamespace::Older);
            }
            other => other?.is_some(),
        };
        if !exists {
            // Mark only a namespace that this call created. Any user may have created an existing
            // one, so an administrator must inspect and mark it.
            if self.0.writes().apply(namespace, false).await?.created {
                self.0.site().mark_home(private).await?;
            }
        }
        let mut updated = false;
        for object in readers {
            match self.grant_access(object, exists).await {
                Err(failure) if failure.is_forbidden() => {
                    return Ok(if exists {
                        PoolNamespace::Older
                    } else {
                        PoolNamespace::Unread
                    });
                }
                other => updated |= other?,
            }
        }
        Ok(match (exists, updated) {
            (true, false) => PoolNamespace::Older,
            (_, true) => PoolNamespace::Read,
            (false, false) => PoolNamespace::Unread,
        })
    }

    /// Creates a role or binding. Returns false if it already exists.
    async fn grant_access(self, object: &Object, exists: bool) -> Result<bool, Failure> {
        if exists && let Some(live) = self.0.writes().live(object).await? {
            // Earlier versions created a role that exposes every ConfigMap in the namespace to all
            // users. Publish the pools before replacing it, because users then read them from the
            // published facts.
            if object.plural == "roles"
                && reads_all_configmaps(&live["rules"])
                && self.publishes_pools().await
            {
                self.0
                    .writes()
                    .merge_patch(
                        &format!("{ROLES}/gpuctl-reader"),
                        &json!({"rules": reader_rules()}),
                    )
                    .await?;
            }
            return Ok(false);
        }
        self.0
            .writes()
            .apply(object, false)
            .await
            .map(|applied| applied.created)
    }

    /// Publishes the facts with the pools. Returns false if the published facts contain no pools,
    /// for example because the user cannot list nodes.
    async fn publishes_pools(self) -> bool {
        self.publish(true).await.is_ok() && self.published_pools().await.is_some()
    }

    /// Creates a definition. Returns false if another definition with this name exists.
    pub async fn add(self, pool: &PoolDefinition) -> Result<bool, Failure> {
        match self
            .0
            .writes()
            .post(
                &format!("/api/v1/namespaces/{HOME}/configmaps"),
                &definition(pool).body,
                false,
            )
            .await
        {
            Ok(_) => Ok(true),
            // A 409 may also mean that an earlier attempt succeeded and its response was lost.
            Err(failure) if failure.code() == Some(409) => Ok(self
                .get(&pool.name)
                .await?
                .is_some_and(|stored| stored.pool == *pool)),
            Err(failure) => Err(failure),
        }
    }

    /// Changes a definition with `change`, which is called again after each conflict with another
    /// writer. Returns `None` if the definition does not exist.
    pub async fn change(
        self,
        name: &str,
        change: impl Fn(&mut PoolDefinition),
    ) -> Result<Option<PoolDefinition>, Failure> {
        for _ in 0..TRIES {
            let Some(StoredPool { mut pool, version }) = self.get(name).await? else {
                return Ok(None);
            };
            let before = pool.clone();
            change(&mut pool);
            if pool == before {
                return Ok(Some(pool));
            }
            let text = serde_json::to_string_pretty(&pool).expect("a definition is JSON");
            let patch = json!({"metadata": {"resourceVersion": version}, "data": {"pool": text}});
            match self.0.writes().merge_patch(&path(name), &patch).await {
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|_: Value| Some(pool)),
            }
        }
        Err(contended(&format!("pool {name}")))
    }

    /// Deletes a definition, but only at `version` if it is set. Returns false if the definition
    /// has changed or no longer exists.
    pub async fn remove(self, name: &str, version: Option<&str>) -> Result<bool, Failure> {
        self.0
            .writes()
            .delete_at(
                &path(name),
                Deletion {
                    version,
                    ..Deletion::default()
                },
            )
            .await
    }

    /// Publishes the facts about nodes for users who cannot read nodes. Creates a missing ConfigMap
    /// only if `create` is set. Does nothing if the user cannot list nodes.
    pub async fn publish(self, create: bool) -> Result<(), Failure> {
        for _ in 0..TRIES {
            // Read the facts before the nodes. If another process publishes in between, its nodes
            // are newer, and the stale `resourceVersion` makes this write fail.
            let existing: Option<PoolConfigMap> = self.0.find(super::nodes::FACTS).await?;
            if existing.is_none() && !create {
                return Ok(());
            }
            let nodes = match self.0.nodes().described_nodes().await {
                Err(failure) if failure.is_forbidden() => return Ok(()),
                other => other?,
            };
            // If the user cannot list definitions, keep the ones published earlier.
            let pools = match self.defined_pools().await {
                Err(failure) if failure.is_forbidden() => self.published_pools().await,
                other => Some(other?),
            };
            let object = facts(nodes.iter(), pools.as_deref());
            let result = match existing {
                None => {
                    self.0
                        .writes()
                        .post(
                            &format!("/api/v1/namespaces/{HOME}/configmaps"),
                            &object.body,
                            false,
                        )
                        .await
                }
                Some(PoolConfigMap { data, .. }) if json!(data) == object.body["data"] => {
                    return Ok(());
                }
                Some(PoolConfigMap { metadata, .. }) => {
                    let version = json!({"resourceVersion": metadata.resource_version});
                    self.0
                        .writes()
                        .merge_patch(
                            super::nodes::FACTS,
                            &json!({"metadata": version, "data": object.body["data"]}),
                        )
                        .await
                }
            };
            match result {
                Err(failure) if failure.code() == Some(409) => {}
                other => return other.map(|_| ()),
            }
        }
        Err(contended("the published node facts"))
    }
}
