//! Checks a document before its objects are written: finds existing objects, and asks the API
//! server to validate the objects and one of their pods in a dry run.

use futures::future::join_all;
use serde_json::Value;

use super::companions::{belongs, is_fixed, is_optional, label, tolerated};
use crate::{Failure, JobFilter, handles::WritesApi, unless_forbidden};
use gpuctl_core::model::Job;
use gpuctl_core::model::contract::labels::{JOB, KUEUE_QUEUE, MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_core::model::values::quantity;
use gpuctl_manifest::render::{Object, Rendered};

/// Maximum number of replicas whose Service names are checked.
const MOST_REPLICAS: u64 = 16;

/// Why an object cannot be written.
#[derive(Debug)]
pub enum Obstacle {
    /// An object with the same name exists.
    Exists {
        kind: String,
        name: String,
        /// The gpuctl job that the object belongs to.
        job: Option<String>,
    },
    /// The existing object is being deleted, so gpuctl cannot reuse it.
    Terminating {
        label: String,
    },
    /// A claim that an earlier job with this name left does not match the document.
    KeptClaim {
        label: String,
        difference: String,
    },
    /// The priority class does not exist and the user cannot create it.
    NoPriorityClass,
    /// The quota is exhausted for now. Pods will be admitted when others end.
    PodQuota(Failure),
    Failure(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl WritesApi<'_> {
    /// Fails with the first obstacle, and returns warnings. Writes only shared priority classes,
    /// and not even these with `dry_run`. `namesake` is an earlier job of any kind with this name:
    /// two jobs with one name would share a Service and pods.
    pub async fn preflight(
        self,
        rendered: &Rendered,
        namesake: Option<&Job>,
        dry_run: bool,
    ) -> Result<Vec<String>, Obstacle> {
        namesake.map_or(Ok(()), |job| Err(in_the_way(job)))?;
        self.names_of_replicas_are_free(rendered).await?;
        let objects = rendered.objects.iter().filter(|object| !object.shared);
        let results = join_all(objects.map(|object| self.judge_new(rendered, object))).await;
        // Prefer an existing object, which explains more than a failed dry run of another object.
        let (failed, decided): (Vec<_>, Vec<_>) = results
            .into_iter()
            .partition(|result| matches!(result, Err(Obstacle::Failure(_))));
        let mut warnings = Vec::new();
        for result in decided.into_iter().chain(failed) {
            warnings.extend(result?);
        }
        warnings.extend(self.judge_pod(rendered, dry_run).await?);
        Ok(warnings)
    }

    /// Validates a new object, or checks the existing object with its name. Returns warnings.
    async fn judge_new(
        self,
        rendered: &Rendered,
        object: &Object,
    ) -> Result<Vec<String>, Obstacle> {
        match self.judge_one(rendered, object).await {
            Err(Obstacle::Failure(failure)) => Ok(vec![tolerated(object, failure)?]),
            result => result,
        }
    }

    async fn judge_one(
        self,
        rendered: &Rendered,
        object: &Object,
    ) -> Result<Vec<String>, Obstacle> {
        // An immutable object that an interrupted run left cannot be applied, and does not need to
        // be.
        if is_fixed(object)
            && let Some(live) = unless_forbidden(self.live_companion(object).await)?.flatten()
        {
            let usable = self.may_use(rendered, object, &live, &mut Vec::new());
            if usable.is_err() {
                self.name_is_free(rendered).await?;
            }
            return usable.map(|()| Vec::new());
        }
        let result = self.apply(object, true).await;
        let (is_new, is_webhook_down) = match &result {
            Ok(applied) => (applied.created, false),
            Err(failure) => (false, failure.code().is_none()),
        };
        let mut warnings = Vec::new();
        if !is_new
            && !is_webhook_down
            && let Some(live) = self.live(object).await?
            && let Err(obstacle) = self.may_use(rendered, object, &live, &mut warnings)
        {
            // If another run has created the job since the first check, report that job instead.
            self.name_is_free(rendered).await?;
            return Err(obstacle);
        }
        match result {
            Ok(applied) => warnings.extend(outside_queue(object, &applied.live)),
            Err(failure) if refuses_dry_runs(&failure) => {
                warnings.push(not_judged(object, &failure));
            }
            Err(failure) => return Err(failure.into()),
        }
        Ok(warnings)
    }

    /// Validates the objects of a document that replaces a job of another kind, which will be
    /// deleted first. Returns warnings.
    pub async fn judge_all(self, rendered: &Rendered) -> Result<Vec<String>, Obstacle> {
        let mut warnings = Vec::new();
        for object in rendered.objects.iter().filter(|object| !object.shared) {
            let live = match self.live_companion(object).await {
                Err(failure) if is_optional(object) => {
                    warnings.push(tolerated(object, failure)?);
                    continue;
                }
                live => live?,
            };
            match live {
                Some(live) if belongs(object, &live) && !object.kept => {}
                Some(live) => self.may_use(rendered, object, &live, &mut warnings)?,
                None => match self.apply(object, true).await {
                    Ok(applied) => warnings.extend(outside_queue(object, &applied.live)),
                    Err(failure) if refuses_dry_runs(&failure) => {
                        warnings.push(not_judged(object, &failure));
                    }
                    Err(failure) => warnings.push(tolerated(object, failure)?),
                },
            }
        }
        Ok(warnings)
    }

    /// Validates the owner of the pods as if its name were free, so that gpuctl does not delete a
    /// job whose replacement the server rejects. Returns warnings.
    pub async fn judge_owner(self, rendered: &Rendered) -> Result<Vec<String>, Obstacle> {
        let mut owner = rendered
            .objects
            .last()
            .expect("a document has an owner")
            .clone();
        if let Some(meta) = owner.body["metadata"].as_object_mut() {
            // With `generateName`, the server chooses a free name for the dry run, which stores
            // nothing.
            let name = meta.remove("name");
            meta.extend(name.map(|name| ("generateName".to_owned(), name)));
        }
        match self.judge(&owner).await {
            Ok(()) => Ok(Vec::new()),
            Err(failure) if refuses_dry_runs(&failure) => Ok(vec![not_judged(&owner, &failure)]),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Fails if there is a job of any kind with this name.
    async fn name_is_free(self, rendered: &Rendered) -> Result<(), Obstacle> {
        let root = rendered.objects.last().expect("a document has an owner");
        let filter = JobFilter::by_name(root.namespace().unwrap_or_default(), root.name());
        let jobs = match self.0.jobs().list(&filter).await {
            // The user cannot read jobs, so the server's validation has to find an existing one.
            Err(failure) if failure.is_forbidden() => return Ok(()),
            other => other?.jobs,
        };
        // Ignore a deleted job whose pods remain, because pods on a dead node remain forever.
        jobs.iter()
            .find(|job| !job.owner_is_gone)
            .map_or(Ok(()), |job| Err(in_the_way(job)))
    }

    /// Fails if foreign Services have the names of a multi-node service's replicas (NAME-0, NAME-1,
    /// …). LeaderWorkerSet would use them as its own, and the pods would not find each other.
    async fn names_of_replicas_are_free(self, rendered: &Rendered) -> Result<(), Obstacle> {
        let root = rendered.objects.last().expect("a document has an owner");
        let replicas = root
            .body
            .pointer("/spec/replicas")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        for index in 0..replicas.min(MOST_REPLICAS) {
            let name = format!("{}-{index}", root.name());
            let path = format!(
                "/api/v1/namespaces/{}/services/{name}",
                root.namespace().unwrap_or_default()
            );
            if root.kind() == "LeaderWorkerSet"
                && matches!(self.0.find::<Value>(&path).await, Ok(Some(_)))
            {
                let message = format!(
                    "service `{name}` exists, but replica {index} of `{}` needs that name",
                    root.name()
                );
                return Err(Failure::conflict("AlreadyExists", message).into());
            }
        }
        Ok(())
    }

    /// Fails unless the existing object is a leftover or a kept claim of the same job.
    fn may_use(
        self,
        rendered: &Rendered,
        object: &Object,
        live: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Obstacle> {
        let label_of = |key: &str| {
            live.pointer("/metadata/labels")
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        };
        let is_managed = label_of(MANAGED_BY) == Some(MANAGED_BY_US);
        let same_job = belongs(object, live);
        if live.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(Obstacle::Terminating {
                label: label(object),
            });
        }
        let root = rendered.objects.last() == Some(object);
        let is_owned = live
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array)
            .is_some_and(|owners| !owners.is_empty());
        // The owner of the object was deleted or is hidden from the user. gpuctl cannot reuse the
        // object in either case.
        if same_job && is_owned && !root {
            return Err(Obstacle::Terminating {
                label: label(object),
            });
        }
        if root || !same_job {
            return Err(Obstacle::Exists {
                kind: object.kind().to_lowercase(),
                name: object.name().to_owned(),
                job: label_of(JOB).filter(|_| is_managed).map(ToOwned::to_owned),
            });
        }
        if object.kept {
            if let Some(difference) = differs(object, live) {
                return Err(Obstacle::KeptClaim {
                    label: label(object),
                    difference,
                });
            }
            warnings.push(format!(
                "reusing {} from an earlier job with this name",
                label(object)
            ));
        }
        Ok(())
    }
}

/// Builds the obstacle for an existing job with the same name.
fn in_the_way(job: &Job) -> Obstacle {
    if job.deleting {
        return Obstacle::Terminating {
            label: format!("{}/{}", job.kind, job.name),
        };
    }
    Obstacle::Exists {
        kind: "job".to_owned(),
        name: job.name.clone(),
        job: Some(job.name.clone()),
    }
}

/// Returns a warning if Kueue did not modify an object with a queue. Kueue's webhook suspends Jobs
/// and labels the pods of other kinds, so its integration for this kind is off and the pods will
/// not wait.
fn outside_queue(object: &Object, applied: &Value) -> Option<String> {
    let queue = object
        .body
        .pointer("/metadata/labels")?
        .get(KUEUE_QUEUE)?
        .as_str()?;
    let labels = |template: &str| {
        applied
            .pointer(template)
            .and_then(|template| template["metadata"]["labels"].get(KUEUE_QUEUE))
    };
    let is_queued = [
        "/spec/template",
        "/spec/leaderWorkerTemplate/leaderTemplate",
    ]
    .into_iter()
    .any(|path| labels(path).is_some());
    if is_queued || applied.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return None;
    }
    let kind = object.kind().to_lowercase();
    Some(format!(
        "Kueue does not manage {kind}s on this cluster (the integration is off), so the job runs outside queue `{queue}` and its quota"
    ))
}

/// Returns true if the API server rejects a dry run because it would call a webhook with side
/// effects.
pub(crate) fn refuses_dry_runs(failure: &Failure) -> bool {
    failure.code() == Some(400) && failure.cause() == Some(RefusalCause::NoDryRun)
}

pub(super) fn not_judged(object: &Object, failure: &Failure) -> String {
    format!(
        "the {} was not validated: {failure}",
        object.kind().to_lowercase()
    )
}

/// Describes a relevant difference in an immutable field of a claim.
fn differs(desired: &Object, live: &Value) -> Option<String> {
    let text = |pointer: &str| {
        live.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mode = desired.text("/spec/accessModes/0");
    if text("/spec/accessModes/0") != mode {
        return Some(format!(
            "its access mode is {}, but this job requests {mode}",
            text("/spec/accessModes/0")
        ));
    }
    let class = desired.text("/spec/storageClassName");
    if !class.is_empty() && text("/spec/storageClassName") != class {
        return Some(format!(
            "it has storage class {}, but this job requests {class}",
            text("/spec/storageClassName")
        ));
    }
    let size = "/spec/resources/requests/storage";
    let bytes = |text: &str| quantity::milli(text).unwrap_or_default();
    (bytes(desired.text(size)) < bytes(text(size))).then(|| {
        format!(
            "it has {}, but this job requests {}, and claims cannot shrink",
            text(size),
            desired.text(size)
        )
    })
}
