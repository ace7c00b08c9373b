//! The site's defaults for all jobs, as parsed from a `kind: defaults` document.

use std::time::Duration;

use serde_json::Value;

use super::fields::Located;
use super::loader_variables::{loads_code, matches_pattern};
use super::security::Security;
use super::site_share::SiteToleration;
use super::values::{EnvVariable, Priority};
use gpuctl_core::model::JobKind;
use gpuctl_core::model::secrets::is_secret_name;

#[derive(Clone, Debug, Default)]
pub struct SiteDefaults {
    /// Defaults of every job.
    pub all: Defaults,
    /// Defaults of the jobs of one kind.
    pub kinds: Vec<(JobKind, Defaults)>,
    /// Defaults of the jobs in one pool.
    pub pools: Vec<(String, Defaults)>,
    /// Node labels that contain the GPU type. They take precedence over the built-in labels.
    pub gpu_type_labels: Vec<String>,
    /// Variables that jobs may set although they change which code a program loads: names, or
    /// prefixes followed by `*`.
    pub allow_env: Vec<String>,
    /// The document as written.
    pub source: String,
}

/// Defaults of one scope. Fields that the scope does not set are empty.
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
    /// `storageClass` of new PersistentVolumeClaims.
    pub storage_class: Option<String>,
    /// Taints that jobs tolerate.
    pub tolerations: Vec<SiteToleration>,
    /// Labels that nodes must have.
    pub node_selector: Vec<(String, String)>,
    /// Upper limits of a job.
    pub limits: SiteLimits,
    /// Fields of this scope that a manifest cannot override.
    pub enforced: Vec<&'static str>,
    /// Every set field as written, with its canonical name.
    pub source_values: Vec<(&'static str, Value)>,
}

/// Upper limits of a job. `None` means unlimited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteLimits {
    /// GPUs of all pods together.
    pub gpu: Option<u32>,
    /// Pods of a training.
    pub node_count: Option<u32>,
    /// Replicas of a service.
    pub replicas: Option<u32>,
    /// CPUs per pod.
    pub cpu: Option<String>,
    /// Memory per pod.
    pub memory: Option<String>,
    /// Longest run time of a training.
    pub max_runtime: Option<Duration>,
}

/// A row of `gpuctl get defaults`: one field of one scope.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultRow {
    /// Scope, such as `all`, `kind training` or `pool infer-pool`.
    pub scope: String,
    /// The canonical name of the field.
    pub field: &'static str,
    /// The value as written.
    pub value: Value,
    /// Whether manifests cannot override it.
    pub enforced: bool,
}

impl SiteDefaults {
    /// Name of the ConfigMap that stores the defaults.
    pub const NAME: &'static str = "gpuctl-defaults";

    /// Explains why jobs do not inherit a variable. Returns `None` if they do.
    pub(super) fn withholds_variable(&self, name: &str) -> Option<String> {
        let is_withheld = loads_code(name)
            && !self
                .allow_env
                .iter()
                .any(|pattern| matches_pattern(pattern, name));
        is_withheld.then(|| {
            format!("ignoring `{name}` in the site's defaults: it can change which programs run and is not listed in `allow_env`")
        })
    }

    /// Selects the scopes that apply to a job of this kind in this pool, each with its name,
    /// starting with the most specific one.
    pub(super) fn scopes(&self, kind: JobKind, pool: Option<&str>) -> Vec<(String, &Defaults)> {
        let pool_scope = self
            .pools
            .iter()
            .filter(|(name, _)| Some(name.as_str()) == pool);
        let kind_scope = self
            .kinds
            .iter()
            .filter(|(scope_kind, _)| *scope_kind == kind);
        pool_scope
            .map(|(name, set)| (format!("pool {name}"), set))
            .chain(kind_scope.map(|(kind, set)| (format!("kind {kind}"), set)))
            .chain([("all".to_owned(), &self.all)])
            .collect()
    }

    pub(super) fn all_scopes(&self) -> impl Iterator<Item = &Defaults> {
        let kinds = self.kinds.iter().map(|(_, set)| set);
        [&self.all]
            .into_iter()
            .chain(kinds)
            .chain(self.pools.iter().map(|(_, set)| set))
    }

    /// Lists all set fields in the order of the document: all, kinds, pools. Secrets are masked.
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
                set.source_values
                    .iter()
                    .map(move |(field, value)| DefaultRow {
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

/// Masks the values of variables with secret-looking names, in a map or a list.
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
