//! Writes objects: server-side apply, dry runs, and deletes that also delete the pods.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::companions::with_content;
use crate::transport::http::with_query;
use crate::{Failure, handles::WritesApi};
use gpuctl_core::model::contract::labels::RUN;
use gpuctl_core::model::contract::refusal::RefusalCause;
use gpuctl_core::model::values::json_text::for_yaml;
use gpuctl_manifest::render::Object;

const APPLY: &str = "application/apply-patch+yaml";
const MANAGER: &str = "gpuctl";

/// No object has this version. Where there is none the server takes no notice of it, and where
/// there is one it refuses: so an apply creates and never changes.
const NEVER: &str = "1";

/// What became of a creation.
#[derive(Clone, Debug)]
pub enum Creation {
    Made(Value),
    /// Something of that name was there.
    There(Value),
}

/// What an apply did.
#[derive(Clone, Debug)]
pub struct Applied {
    /// False when the object was there before.
    pub created: bool,
    pub live: Value,
}

/// How to delete one object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deletion<'a> {
    /// Only the object with this UID; a namesake made since then stays.
    pub uid: Option<&'a str>,
    /// Only the object at this resource version.
    pub version: Option<&'a str>,
    /// At once, without waiting for the containers to end.
    pub force: bool,
}

impl<'a> Deletion<'a> {
    /// Selects the object with this UID, with the grace period that its containers have.
    pub fn of(uid: &'a str) -> Self {
        Self {
            uid: Some(uid),
            ..Self::default()
        }
    }
}

/// Returns the path of an object's collection.
fn collection(object: &Object) -> String {
    let group = match object.api_version() {
        "v1" => "/api/v1".to_owned(),
        version => format!("/apis/{version}"),
    };
    match object.namespace() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{}", object.plural),
        None => format!("{group}/{}", object.plural),
    }
}

/// Returns the path of an object.
pub(crate) fn path_of(object: &Object) -> String {
    format!("{}/{}", collection(object), object.name())
}

impl WritesApi<'_> {
    /// Returns the live object of that name.
    pub async fn live(self, object: &Object) -> Result<Option<Value>, Failure> {
        self.0.find(&path_of(object)).await
    }

    /// Creates `object` as the field manager `gpuctl`, marked as this run's. What is there already
    /// is not touched.
    pub async fn create(self, object: &Object, run: &str) -> Result<Creation, Failure> {
        let mut marked = with_content(object);
        marked.body["metadata"]["resourceVersion"] = NEVER.into();
        marked.body["metadata"]["annotations"][RUN] = run.into();
        match self.apply(&marked, false).await {
            Ok(applied) => Ok(Creation::Made(applied.live)),
            Err(failure) if failure.reason() == "Conflict" => {
                match self.live_companion(object).await? {
                    Some(live) if is_of(&live, run) => Ok(Creation::Made(live)),
                    Some(live) => Ok(Creation::There(live)),
                    None => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// Applies `object` as the field manager `gpuctl`. `dry_run` lets the server judge without
    /// writing.
    pub async fn apply(self, object: &Object, dry_run: bool) -> Result<Applied, Failure> {
        self.apply_with(object, dry_run, false).await
    }

    /// Returns the same; `force` takes over fields that others own.
    pub async fn apply_with(
        self,
        object: &Object,
        dry_run: bool,
        force: bool,
    ) -> Result<Applied, Failure> {
        let mut parameters = vec![("fieldManager", MANAGER), ("fieldValidation", "Strict")];
        if dry_run {
            parameters.push(("dryRun", "All"));
        }
        if force {
            parameters.push(("force", "true"));
        }
        let path = with_query(
            &format!("{}/{}", collection(object), object.name()),
            &parameters,
        );
        let answer = self
            .0
            .send(
                &Method::PATCH,
                &path,
                APPLY,
                Bytes::from(for_yaml(&object.body)),
            )
            .await?;
        Ok(Applied {
            created: answer.code == 201,
            live: answer.json(&self.0.server)?,
        })
    }

    /// Deletes `object`. False when it is not there. Pods of a Job go with it: without a policy the
    /// API server would orphan them, and the GPUs would stay busy.
    pub async fn delete(self, object: &Object, deletion: Deletion<'_>) -> Result<bool, Failure> {
        self.delete_at(
            &format!("{}/{}", collection(object), object.name()),
            deletion,
        )
        .await
    }

    pub async fn delete_at(self, path: &str, deletion: Deletion<'_>) -> Result<bool, Failure> {
        let mut options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if let Some(uid) = deletion.uid {
            options["preconditions"]["uid"] = uid.into();
        }
        if let Some(version) = deletion.version {
            options["preconditions"]["resourceVersion"] = version.into();
        }
        if deletion.force {
            options["gracePeriodSeconds"] = json!(0);
        }
        match self
            .0
            .send(
                &Method::DELETE,
                path,
                "application/json",
                Bytes::from(options.to_string()),
            )
            .await
        {
            Ok(_) => Ok(true),
            // A conflict is a failed precondition: ours is gone, the namesake stays.
            Err(failure)
                if failure.is_not_found()
                    || (failure.code() == Some(409)
                        && (deletion.uid.or(deletion.version)).is_some()) =>
            {
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Changes a few fields of an object.
    pub(crate) async fn merge_patch(self, path: &str, patch: &Value) -> Result<Value, Failure> {
        let path = with_query(path, &[("fieldManager", MANAGER)]);
        let answer = self
            .0
            .send(
                &Method::PATCH,
                &path,
                "application/merge-patch+json",
                Bytes::from(patch.to_string()),
            )
            .await?;
        answer.json(&self.0.server)
    }

    /// Returns the API server's message when an unreachable webhook blocks changes of an object.
    /// Asks by a patch as a dry run.
    pub async fn blocked_by(self, path: &str) -> Option<String> {
        let path = with_query(path, &[("dryRun", "All"), ("fieldManager", MANAGER)]);
        let patch = json!({"metadata": {"annotations": {RUN: "dry run"}}}).to_string();
        let failure = self
            .0
            .send(
                &Method::PATCH,
                &path,
                "application/merge-patch+json",
                Bytes::from(patch),
            )
            .await
            .err()?;
        let told = failure.to_string();
        (RefusalCause::of(&told) == Some(RefusalCause::WebhookUnreachable)).then_some(told)
    }

    /// Creates an object that the server answers but does not keep, such as a review; or, with
    /// `dry_run`, any object.
    pub async fn post(self, path: &str, body: &Value, dry_run: bool) -> Result<Value, Failure> {
        let parameters: &[(&str, &str)] = if dry_run {
            &[("dryRun", "All"), ("fieldManager", MANAGER)]
        } else {
            &[]
        };
        let answer = self
            .0
            .send(
                &Method::POST,
                &with_query(path, parameters),
                "application/json",
                Bytes::from(body.to_string()),
            )
            .await?;
        answer.json(&self.0.server)
    }

    /// Lets the API server judge an object as if it were created now.
    pub async fn judge(self, object: &Object) -> Result<(), Failure> {
        self.post(&collection(object), &object.body, true)
            .await
            .map(|_| ())
    }
}

/// Returns true when this run made it.
pub(crate) fn is_of(live: &Value, run: &str) -> bool {
    live.pointer("/metadata/annotations")
        .and_then(|all| all.get(RUN))
        .and_then(Value::as_str)
        == Some(run)
}
