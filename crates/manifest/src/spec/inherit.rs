//! Fills the unset fields of a job from the site's defaults, and records the scope of every
//! inherited value. The most specific scope wins: pool, then kind, then all.

use std::time::Duration;

use serde_json::Value;

use super::defaults_document::{Defaults, SiteDefaults};
use super::document::{JobDocument, WorkdirSource};
use super::fields::Located;
use super::loader_variables::{is_selector, weakens_pods};
use super::site_share::Inherited;
use super::values::EnvValue;
use gpuctl_core::model::JobKind;
use gpuctl_core::model::secrets::is_secret_name;
use gpuctl_core::model::values::fingerprint::fnv;
use gpuctl_core::model::values::quantity;

/// Fills the unset fields of `job` from `site`, and overrides fields that the site enforces.
pub fn inherit(job: &mut JobDocument, site: &SiteDefaults) {
    let mut inheritance = Inheritance {
        site,
        scopes: site.scopes(job.kind, None),
        inherited: Vec::new(),
        withheld: Vec::new(),
    };
    // Set the pool first, because it determines which scopes apply to the other fields.
    inheritance.pool(job);
    inheritance.scopes = site.scopes(
        job.kind,
        job.resources.pool.as_ref().map(|pool| pool.value.as_str()),
    );
    inheritance.value("queue", "job.queue", &mut job.queue, |set| {
        set.queue.clone()
    });
    inheritance.value("priority", "job.priority", &mut job.priority, |set| {
        set.priority.clone()
    });
    inheritance.value(
        "grace_period",
        "job.grace_period",
        &mut job.grace_period,
        |set| set.grace_period,
    );
    if job.kind == JobKind::Training {
        inheritance.value(
            "max_runtime",
            "job.max_runtime",
            &mut job.training.max_runtime,
            |set| set.max_runtime,
        );
        inheritance.value(
            "keep_for",
            "job.keep_for",
            &mut job.training.keep_for,
            |set| set.keep_for,
        );
        inheritance.longest_run(&mut job.training.max_runtime);
    }
    inheritance.inherit_pairs("labels", "job.labels", &mut job.labels, |set| &set.labels);
    inheritance.inherit_pairs(
        "annotations",
        "job.annotations",
        &mut job.annotations,
        |set| &set.annotations,
    );
    inheritance.image_pulling(job);
    inheritance.variables(job);
    inheritance.shared_memory(job);
    inheritance.security(job);
    for workdir in &mut job.workdirs {
        if let WorkdirSource::Size { storage_class, .. } = &mut workdir.source {
            let path = format!("storage.workdirs[{}].storageClass", workdir.path);
            inheritance.value("storage_class", &path, storage_class, |set| {
                set.storage_class.clone()
            });
        }
    }
    inheritance.placement(job);
    job.site.inherited = inheritance.inherited;
    job.site.withheld = inheritance.withheld;
}

struct Inheritance<'s> {
    site: &'s SiteDefaults,
    /// Scopes of the job, the most specific first.
    scopes: Vec<(String, &'s Defaults)>,
    inherited: Vec<Inherited>,
    /// Warnings about site values that the job does not get.
    withheld: Vec<String>,
}

/// Explains why defaults cannot set this key of a map. Returns `None` if they can.
fn withholds(field: &str, key: &str) -> Option<String> {
    match field {
        "labels" if is_selector(key) => Some(format!(
            "ignoring label `{key}` in the site's defaults: Services use it to select pods"
        )),
        "annotations" if weakens_pods(key) => Some(format!(
            "ignoring annotation `{key}` in the site's defaults: it weakens container isolation"
        )),
        _ => None,
    }
}

impl<'s> Inheritance<'s> {
    /// Returns true if any scope of the job enforces the field.
    fn is_enforced(&self, field: &str) -> bool {
        self.scopes
            .iter()
            .any(|(_, set)| set.enforced.contains(&field))
    }

    fn record(&mut self, scope: &str, path: impl Into<String>, value: String, replaced: bool) {
        let mark = value.clone();
        self.inherited.push(Inherited {
            field: path.into(),
            value,
            mark,
            scope: scope.to_owned(),
            replaced,
        });
    }

    /// Sets a single value if the file does not set it, or if the site enforces a different one.
    fn value<T: PartialEq>(
        &mut self,
        field: &str,
        path: &str,
        slot: &mut Option<T>,
        field_of: impl Fn(&Defaults) -> Option<T>,
    ) {
        let nearest = self
            .scopes
            .iter()
            .find_map(|(scope, set)| Some((scope.clone(), *set, field_of(set)?)));
        let Some((scope, set, value)) = nearest else {
            return;
        };
        let replaced = slot.as_ref().is_some_and(|job_value| *job_value != value);
        if slot.is_none() || replaced && self.is_enforced(field) {
            let text = set
                .source_values
                .iter()
                .find(|(name, _)| *name == field)
                .map(|(_, value)| plain(value));
            *slot = Some(value);
            self.record(&scope, path, text.unwrap_or_default(), replaced);
        }
    }

    /// Sets `max_runtime` to the site's limit if the training does not set it.
    fn longest_run(&mut self, slot: &mut Option<Duration>) {
        let nearest = self
            .scopes
            .iter()
            .find_map(|(scope, set)| Some((scope.clone(), set.limits.max_runtime?)));
        let Some((scope, time)) = nearest.filter(|_| slot.is_none()) else {
            return;
        };
        *slot = Some(time);
        self.record(
            &scope,
            "job.max_runtime",
            format!("{}, the site's limit", quantity::duration_text(time)),
            false,
        );
    }

    /// Merges a map entry by entry. A key in a more specific scope overrides the same key in all
    /// others.
    fn inherit_pairs(
        &mut self,
        field: &str,
        path: &str,
        pairs: &mut Vec<(String, String)>,
        field_of: impl Fn(&'s Defaults) -> &'s [(String, String)],
    ) {
        let enforced = self.is_enforced(field);
        let mut seen: Vec<&str> = Vec::new();
        for (scope, set) in self.scopes.clone() {
            for (key, value) in field_of(set) {
                if seen.contains(&key.as_str()) {
                    continue;
                }
                seen.push(key);
                if let Some(reason) = withholds(field, key) {
                    self.withheld.push(reason);
                    continue;
                }
                let existing = pairs.iter_mut().find(|(name, _)| name == key);
                let replaced = existing
                    .as_ref()
                    .is_some_and(|(_, current)| current != value);
                match existing {
                    None => pairs.push((key.clone(), value.clone())),
                    Some((_, current)) if replaced && enforced => current.clone_from(value),
                    Some(_) => continue,
                }
                self.record(&scope, format!("{path}.{key}"), value.clone(), replaced);
            }
        }
    }

    fn pool(&mut self, job: &mut JobDocument) {
        if !job.resources.no_pool || self.is_enforced("pool") {
            let mut pool = job.resources.pool.as_ref().map(|pool| pool.value.clone());
            self.value("pool", "resources.pool", &mut pool, |set| {
                set.pool.as_ref().map(|pool| pool.value.clone())
            });
            let at = job
                .resources
                .pool
                .as_ref()
                .map_or(job.name.at, |pool| pool.at);
            job.resources.pool = pool.map(|value| Located { value, at });
        }
    }

    fn image_pulling(&mut self, job: &mut JobDocument) {
        let policy = |set: &Defaults| set.image_pull_policy;
        self.value(
            "imagePullPolicy",
            "environment.imagePullPolicy",
            &mut job.image_pull_policy,
            policy,
        );
        let mut secrets =
            Some(std::mem::take(&mut job.image_pull_secrets)).filter(|list| !list.is_empty());
        let inherited =
            |set: &Defaults| Some(set.image_pull_secrets.clone()).filter(|list| !list.is_empty());
        self.value(
            "imagePullSecret",
            "environment.imagePullSecret",
            &mut secrets,
            inherited,
        );
        job.image_pull_secrets = secrets.unwrap_or_default();
    }

    fn shared_memory(&mut self, job: &mut JobDocument) {
        if job.resources.gpu > 0 || job.kind == JobKind::Notebook {
            // `/dev/shm` is memory and counts against the pod's memory limit.
            let memory = job.resources.memory.as_deref().and_then(quantity::milli);
            let fits = |size: &String| {
                memory.is_none_or(|memory| quantity::milli(size).is_some_and(|size| size <= memory))
            };
            self.value("shm", "resources.shm", &mut job.resources.shm, |set| {
                set.shm.clone().filter(fits)
            });
        }
    }

    fn security(&mut self, job: &mut JobDocument) {
        self.value(
            "security",
            "security.run_as",
            &mut job.security.run_as,
            |set| set.security.run_as,
        );
        self.value(
            "security",
            "security.fs_group",
            &mut job.security.fs_group,
            |set| set.security.fs_group,
        );
        let mut restricted = job.security.restricted.then_some(true);
        self.value("security", "security.level", &mut restricted, |set| {
            set.security.restricted.then_some(true)
        });
        job.security.restricted = restricted.is_some();
    }

    fn variables(&mut self, job: &mut JobDocument) {
        let enforced = self.is_enforced("env");
        let mut seen: Vec<&str> = Vec::new();
        for (scope, set) in self.scopes.clone() {
            for variable in &set.env {
                if seen.contains(&variable.name.as_str()) {
                    continue;
                }
                seen.push(&variable.name);
                if let Some(reason) = self.site.withholds_variable(&variable.name) {
                    self.withheld.push(reason);
                    continue;
                }
                let existing = job.env.iter_mut().find(|entry| entry.name == variable.name);
                let replaced = existing
                    .as_ref()
                    .is_some_and(|entry| entry.value != variable.value);
                match existing {
                    None => job.env.push(variable.clone()),
                    Some(entry) if replaced && enforced => *entry = variable.clone(),
                    Some(_) => continue,
                }
                let value = match &variable.value {
                    EnvValue::Text(_) if is_secret_name(&variable.name) => "•••".to_owned(),
                    EnvValue::Text(text) => text.clone(),
                    EnvValue::Secret { name, key } => format!("{key} of Secret {name}"),
                    EnvValue::ConfigMap { name, key } => format!("{key} of ConfigMap {name}"),
                };
                self.record(
                    &scope,
                    format!("environment.env.{}", variable.name),
                    value,
                    replaced,
                );
                // The mark must change with the value, but must not reveal a secret.
                if let (EnvValue::Text(text), Some(inherited)) =
                    (&variable.value, self.inherited.last_mut())
                {
                    inherited.mark = if is_secret_name(&variable.name) {
                        format!("{:016x}", fnv(text))
                    } else {
                        text.clone()
                    };
                }
            }
        }
    }

    /// Collects node labels and tolerations of the site, for which a job's document has no field.
    fn placement(&mut self, job: &mut JobDocument) {
        job.site.tolerations_enforced = self.is_enforced("tolerations");
        job.site.node_selector_enforced = self.is_enforced("node_selector");
        for (scope, set) in self.scopes.clone() {
            for toleration in &set.tolerations {
                if !job.site.tolerations.contains(toleration) {
                    job.site.tolerations.push(toleration.clone());
                    let value = toleration
                        .value
                        .as_ref()
                        .map_or_else(String::new, |value| format!("={value}"));
                    self.record(
                        &scope,
                        format!("tolerations.{}{value}", toleration.key),
                        toleration.effect.to_owned(),
                        false,
                    );
                }
            }
        }
        let mut selector = std::mem::take(&mut job.site.node_selector);
        self.inherit_pairs("node_selector", "node_selector", &mut selector, |set| {
            &set.node_selector
        });
        job.site.node_selector = selector;
    }
}

/// Formats a value on one line, without quotes around text.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests;
