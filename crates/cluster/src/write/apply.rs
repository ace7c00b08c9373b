//! Writes objects with server-side apply, validates them with dry runs, and deletes them together
//! with their pods.

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

/// A `resourceVersion` that no object has. For a new object the server ignores it, and for an
/// existing one it reports a conflict. An apply with it can therefore create an object but never
/// change one.
const NEVER: &str = "1";

/// The outcome of creating an object.
#[derive(Clone, Debug)]
pub enum Creation {
    Created(Value),
    /// An object with this name already existed.
    Existing(Value),
}

/// The outcome of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Whether the object did not exist before.
    pub created: bool,
    pub live: Value,
}

/// Conditions and options for deleting one object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deletion<'a> {
    /// Delete the object only if it has this UID, and is not a newer one with the same name.
    pub uid: Option<&'a str>,
    /// Delete the object only if it still has this resource version.
    pub version: Option<&'a str>,
    /// Delete immediately, without waiting for the containers to exit.
    pub force: bool,
}

impl<'a> Deletion<'a> {
    /// Deletes only the object with this UID, and lets its containers use their grace period.
    pub fn with_uid(uid: &'a str) -> Self {
        Self {
            uid: Some(uid),
            ..Self::default()
        }
    }
}

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

pub(crate) fn path_of(object: &Object) -> String {
    format!("{}/{}", collection(object), object.name())
}

impl WritesApi<'_> {
    /// Reads the live object with this name.
    pub async fn live(self, object: &Object) -> Result<Option<Value>, Failure> {
        self.0.find(&path_of(object)).await
    }

    /// Creates `object` as the field manager `gpuctl` and marks it with `run`. Does not change an
    /// existing object.
    pub async fn create(self, object: &Object, run: &str) -> Result<Creation, Failure> {
        let mut guarded = with_content(object);
        guarded.body["metadata"]["resourceVersion"] = NEVER.into();
        guarded.body["metadata"]["annotations"][RUN] = run.into();
        match self.apply(&guarded, false).await {
            Ok(applied) => Ok(Creation::Created(applied.live)),
            // The server returned a conflict for `NEVER`, so the object exists. An earlier attempt
            // of this run may have created it without receiving the response, so check the mark.
            Err(failure) if failure.reason() == "Conflict" => {
                match self.live_companion(object).await? {
                    Some(live) if is_of(&live, run) => Ok(Creation::Created(live)),
                    Some(live) => Ok(Creation::Existing(live)),
                    None => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        }
    }

    /// Applies `object` as the field manager `gpuctl`. With `dry_run`, the server only validates
    /// it.
    pub async fn apply(self, object: &Object, dry_run: bool) -> Result<Applied, Failure> {
        self.apply_with(object, dry_run, false).await
    }

    /// Like `apply`, but takes over fields of other managers if `force` is set.
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
                // The API server parses the body of an apply as YAML.
                Bytes::from(for_yaml(&object.body)),
            )
            .await?;
        Ok(Applied {
            // The server answers an apply with 201 if it created the object, and with 200
            // otherwise.
            created: answer.code == 201,
            live: answer.json(&self.0.server)?,
        })
    }

    /// Deletes `object`, including the pods of a Job. Returns false if it does not exist. By
    /// default, `batch/v1` would orphan the pods (`DefaultGarbageCollectionPolicy` in
    /// pkg/registry/batch/job/strategy.go), and they would keep their GPUs.
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
            // A 409 means that the object was replaced or changed after it was read, so it must not
            // be deleted.
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

    /// Changes some fields of an object.
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

    /// Returns the API server's message if an unreachable webhook blocks changes to an object.
    /// Finds out with a dry run of a patch.
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
        let message = failure.to_string();
        (RefusalCause::from_message(&message) == Some(RefusalCause::WebhookUnreachable))
            .then_some(message)
    }

    /// Creates an object that the server does not store, such as a review, or any object if
    /// `dry_run` is set.
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

    /// Asks the API server to validate an object as if it were created now.
    pub async fn judge(self, object: &Object) -> Result<(), Failure> {
        self.post(&collection(object), &object.body, true)
            .await
            .map(|_| ())
    }
}

/// Returns true if this run created the object.
pub(crate) fn is_of(live: &Value, run: &str) -> bool {
    live.pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(RUN))
        .and_then(Value::as_str)
        == Some(run)
}
