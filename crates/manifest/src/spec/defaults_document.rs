//! What a site sets for everybody's jobs, as `kind: defaults` describes it. It knows no cluster and
//! no job.

use std::time::Duration;

use serde_json::Value;

use super::fields::Located;
use super::loader_variables::{allows, changes_what_runs};
use super::security::Security;
use super::site_share::SiteToleration;
use super::values::{EnvVariable, Priority};
use gpuctl_core::model::JobKind;
use gpuctl_core::model::secrets::is_secret_name;

/// The defaults of a site.
#[derive(Clone, Debug, Default)]
pub struct SiteDefaults {
    /// For every job.
    pub all: Defaults,
    /// For jobs of one kind.
    pub kinds: Vec<(JobKind, Defaults)>,
    /// For jobs in one pool.
    pub pools: Vec<(String, Defaults)>,
    /// Labels of nodes that tell the type of their GPUs, before the usual ones.
    pub gpu_type_labels: Vec<String>,
    /// Allowed variables that change which code a program loads: names, or prefixes followed by
    /// `*`.
    pub allow_env: Vec<String>,
    /// The document as written.
    pub source: String,
}

/// What one scope sets; what it leaves out is empty.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// `resources.pool`.
    pub pool: Option<Located<String>>,
    /// `job.queue`.
    pub queue: Option<String>,
    /// `job.priority`.
    pub priority: Option<Priority>,
    /// `job.grace_period`.
    pub grace_period: Option<Duration>,
    /// `job.max_runtime`.
    pub max_runtime: Option<Duration>,
    /// `job.keep_for`.
    pub keep_for: Option<Duration>,
    /// `job.labels`.
    pub labels: Vec<(String, String)>,
    /// `job.annotations`.
    pub annotations: Vec<(String, String)>,
    /// `environment.imagePullSecret`.
    pub image_pull_secrets: Vec<String>,
    /// `environment.imagePullPolicy`.
    pub image_pull_policy: Option<&'static str>,
    /// `environment.env`.
    pub env: Vec<EnvVariable>,
    /// `resources.shm`.
    pub shm: Option<String>,
    /// `security`.
    pub security: Security,
    /// `storageClass` of claims that are made.
    pub storage_class: Option<String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<SiteToleration>,
    /// Labels that a node must have.
    pub node_selector: Vec<(String, String)>,
    /// What a job may not exceed.
    pub limits: SiteLimits,
    /// Fields of this scope that a file cannot set otherwise.
    pub enforced: Vec<&'static str>,
    /// Every field as it is written, by its canonical name.
    pub written: Vec<(&'static str, Value)>,
}

/// What a job may not exceed; `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteLimits {
    /// GPUs of all pods.
    pub gpu: Option<u32>,
    /// Pods of a training.
    pub node_count: Option<u32>,
    /// Pods of a service.
    pub replicas: Option<u32>,
    /// CPUs of each pod.
    pub cpu: Option<String>,
    /// Bytes of each pod.
    pub memory: Option<String>,
    /// Longest run of a training.
    pub max_runtime: Option<Duration>,
}

/// One field of one scope, as `get defaults` lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultRow {
    /// `all`, `kind training`, `pool infer-pool`.
    pub scope: String,
    /// The canonical name of the field.
    pub field: &'static str,
    /// The value as it is written.
    pub value: Value,
    /// True when a file cannot set it otherwise.
    pub enforced: bool,
}

impl SiteDefaults {
    /// The name under which they are kept.
    pub const NAME: &'static str = "gpuctl-defaults";

    /// The reason why jobs do not get a variable; `None` if they do.
    pub(super) fn withholds_variable(&self, name: &str) -> Option<String> {
        let is_withheld =
            changes_what_runs(name) && !self.allow_env.iter().any(|pattern| allows(pattern, name));
        is_withheld.then(|| {
            format!("`{name}` of the site's defaults is not set: it changes which programs run, and `allow_env` does not name it")
        })
    }

    /// Returns what holds for a job of this kind in this pool, the nearest first, each with the
    /// name of its scope.
    pub(super) fn scopes(&self, kind: JobKind, pool: Option<&str>) -> Vec<(String, &Defaults)> {
        let of_pool = self
            .pools
            .iter()
            .filter(|(name, _)| Some(name.as_str()) == pool);
        let of_kind = self.kinds.iter().filter(|(own, _)| *own == kind);
        of_pool
            .map(|(name, set)| (format!("pool {name}"), set))
            .chain(of_kind.map(|(kind, set)| (format!("kind {kind}"), set)))
            .chain([("all".to_owned(), &self.all)])
            .collect()
    }

    /// Returns what is set anywhere.
    pub(super) fn scopes_of_all(&self) -> impl Iterator<Item = &Defaults> {
        let kinds = self.kinds.iter().map(|(_, set)| set);
        [&self.all]
            .into_iter()
            .chain(kinds)
            .chain(self.pools.iter().map(|(_, set)| set))
    }

    /// Returns every field that is set, secrets masked, in the order of the file's form: all,
    /// kinds, pools.
    pub fn rows(&self) -> Vec<DefaultRow> {
        let kinds = self
            .kinds
            .iter()
            .map(|(kind, set)| (format!("kind {kind}"), set));
        let pools = self
            .pools
            .iter()
            .map(|(name, set)| (format!("pool {name}"), set));
        let scopes = [("all".to_owned(), &self.all)]
            .into_iter()
            .chain(kinds)
            .chain(pools);
        let mut rows: Vec<DefaultRow> = scopes
            .flat_map(|(scope, set)| {
                set.written.iter().map(move |(field, value)| DefaultRow {
                    scope: scope.clone(),
                    field,
                    value: if *field == "env" {
                        without_secrets(value)
                    } else {
                        value.clone()
                    },
                    enforced: set.enforced.contains(field),
                })
            })
            .collect();
        if !self.allow_env.is_empty() {
            let value = self.allow_env.clone().into();
            rows.push(DefaultRow {
                scope: "all".to_owned(),
                field: "allow_env",
                value,
                enforced: false,
            });
        }
        if !self.gpu_type_labels.is_empty() {
            let value = self.gpu_type_labels.clone().into();
            rows.push(DefaultRow {
                scope: "nodes".to_owned(),
                field: "gpu_type_labels",
                value,
                enforced: false,
            });
        }
        rows
    }
}

/// Returns variables, a map or a list, with the values masked whose names say that they are secret.
fn without_secrets(env: &Value) -> Value {
    let mut env = env.clone();
    for (name, value) in env.as_object_mut().into_iter().flatten() {
        if is_secret_name(name) {
            *value = "***".into();
        }
    }
    for item in env.as_array_mut().into_iter().flatten() {
        if item["name"].as_str().is_some_and(is_secret_name) && !item["value"].is_null() {
            item["value"] = "***".into();
        }
    }
    env
}
