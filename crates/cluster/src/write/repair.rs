//! Repairs the immutable companion objects of a live job, and sets owner references that an
//! interrupted run did not set. Applying the objects again would not change them.

use std::cell::Cell;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::apply::{Deletion, path_of};
use super::companions::{
    belongs, comparable, is_fixed, is_only_program, is_token, label, program, with_content,
};
use super::preserve::{is_supervised, program_hash};
use crate::transport::http::ApiRequest;
use crate::{Failure, handles::WritesApi};
use gpuctl_core::model::values::fingerprint::sha256;
use gpuctl_manifest::render::Object;

/// Requests only the metadata of an object, so that gpuctl never reads a token.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// A repair of an immutable object.
#[derive(Clone, Debug)]
pub struct Repair {
    pub live: Value,
    pub desired: Value,
    /// Descriptions of the repaired parts.
    pub changes: Vec<&'static str>,
    action: RepairAction,
}

/// Description of a restored owner reference.
const OWNED_AGAIN: &str = "is owned by the job again";

impl Repair {
    /// Returns true if only the owner reference is missing.
    pub(super) fn only_adopts(&self) -> bool {
        self.changes == [OWNED_AGAIN]
    }
}

#[derive(Clone, Debug)]
enum RepairAction {
    /// Applies a merge patch.
    Patch(Value),
    /// Deletes the object with this UID and creates it again, because its content is immutable.
    Recreate { uid: String },
}

/// The state of an immutable companion object.
pub(crate) enum FixedState {
    Missing,
    Intact,
    Broken(Box<Repair>),
    /// The content can be restored only by the gpuctl version that created the object.
    Lost(String),
}

impl WritesApi<'_> {
    /// Reads the live object, or only its metadata if it is a Secret.
    pub(crate) async fn live_companion(self, object: &Object) -> Result<Option<Value>, Failure> {
        if is_token(object) {
            self.find_metadata(&path_of(object)).await
        } else {
            self.live(object).await
        }
    }

    /// Reads the metadata of an object, or returns `None` if it does not exist.
    pub(crate) async fn find_metadata(self, path: &str) -> Result<Option<Value>, Failure> {
        let (body, buffer) = (Bytes::new(), Cell::default());
        let request = ApiRequest {
            method: &Method::GET,
            path,
            content_type: "",
            body: &body,
            accept: METADATA_ONLY,
            buffer: &buffer,
        };
        match self.0.answer(request).await {
            Ok(answer) => answer.json(&self.0.server).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Compares the live program or token with the one that the Job was created with.
    pub(crate) async fn fixed_state(
        self,
        object: &Object,
        owner: &Value,
    ) -> Result<FixedState, Failure> {
        let live = self.live_companion(object).await?;
        if is_token(object) {
            return Ok(live.map_or(FixedState::Missing, |live| {
                state_of(owner_repair(object, live))
            }));
        }
        let rendered_hash = program(&object.body).map(sha256);
        let original = program_hash(owner);
        let is_original = original.is_some() && original == rendered_hash.as_deref();
        let Some(live) = live else {
            let missing = || format!("{} of this job no longer exists", label(object));
            // The Job has no supervisor yet. It must be replaced, because its template is
            // immutable.
            return Ok(if is_original || !is_supervised(owner) {
                FixedState::Missing
            } else {
                FixedState::Lost(missing())
            });
        };
        // Jobs of earlier versions have no hash to compare with.
        let Some(original) = original else {
            return Ok(state_of(owner_repair(object, live)));
        };
        if program(&live).map(sha256).as_deref() == Some(original) && is_only_program(&live) {
            return Ok(state_of(repaired(object, live, true)));
        }
        if !is_original {
            return Ok(FixedState::Lost(format!(
                "{} was changed after the job was created",
                label(object)
            )));
        }
        let uid = live
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        Ok(FixedState::Broken(Box::new(Repair {
            desired: comparable(&object.body),
            live: comparable(&live),
            changes: vec!["was changed after the job was created: its program is restored"],
            action: RepairAction::Recreate { uid },
        })))
    }

    pub(crate) async fn repair(self, object: &Object, repair: &Repair) -> Result<(), Failure> {
        match &repair.action {
            RepairAction::Patch(patch) => match self.merge_patch(&path_of(object), patch).await {
                Err(failure) if failure.is_other_uid() => {
                    let message = format!("another run replaced {} first", label(object));
                    Err(Failure::conflict("Conflict", message))
                }
                patched => patched.map(drop),
            },
            RepairAction::Recreate { uid } => {
                self.delete(object, Deletion::with_uid(uid)).await?;
                self.apply(&with_content(object), false).await.map(drop)
            }
        }
    }

    /// Adds the owner reference with a patch, because an apply without the content would remove it.
    pub(crate) async fn adopt_fixed(self, object: &Object) -> Result<(), Failure> {
        let patch =
            json!({"metadata": {"ownerReferences": object.body["metadata"]["ownerReferences"]}});
        self.merge_patch(&path_of(object), &patch).await.map(drop)
    }

    /// Reuses a program that an interrupted run of the same job created. Deletes a program of
    /// another version or of an earlier job. Also deletes every token, because any user may have
    /// created it. Returns `None` if the object must be created again.
    pub(crate) async fn reuse(
        self,
        object: &Object,
        live: Value,
    ) -> Result<Option<Value>, Failure> {
        let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str);
        let is_original =
            !is_token(object) && program(&live) == program(&object.body) && is_only_program(&live);
        let owners = live
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array);
        let is_owned = owners.is_some_and(|owners| !owners.is_empty());
        if is_original && !is_owned {
            return Ok(Some(live));
        }
        let uid = text("/metadata/uid").unwrap_or_default();
        // Delete only this version, because another run may have given the object to its job since
        // it was read.
        let deletion = Deletion {
            version: text("/metadata/resourceVersion"),
            ..Deletion::with_uid(uid)
        };
        match self.delete(object, deletion).await {
            // The user may not delete the object, so remove its owner. The garbage collector would
            // delete an object whose owner no longer exists.
            Err(failure) if failure.is_forbidden() && is_original => {
                let patch = json!({"metadata": {"uid": uid, "ownerReferences": null}});
                match self.merge_patch(&path_of(object), &patch).await {
                    Err(failure) if failure.is_other_uid() => Ok(None),
                    patched => patched.map(Some),
                }
            }
            Err(failure) if failure.is_forbidden() && is_token(object) => {
                let name = label(object);
                let message = format!(
                    "{name} is left over from an earlier job, and you are not allowed to delete it to create a new token: {failure}"
                );
                Err(Failure::conflict("AlreadyExists", message))
            }
            deleted => deleted.map(|_| None),
        }
    }
}

/// Compares the owner reference and labels of an object, but not its content.
pub(crate) fn owner_repair(object: &Object, live: Value) -> Option<Box<Repair>> {
    repaired(object, live, false)
}

fn state_of(repair: Option<Box<Repair>>) -> FixedState {
    repair.map_or(FixedState::Intact, FixedState::Broken)
}

fn repaired(object: &Object, live: Value, is_immutable: bool) -> Option<Box<Repair>> {
    let references = &object.body["metadata"]["ownerReferences"];
    let uid = references.pointer("/0/uid").unwrap_or(&Value::Null);
    let owners = live
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let (mut patch, mut changes) = (json!({"metadata": {}}), Vec::new());
    // Volume claims that outlive their job have no owner.
    if !uid.is_null()
        && !owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == *uid))
    {
        patch["metadata"]["ownerReferences"] = references.clone();
        changes.push(OWNED_AGAIN);
    }
    if is_fixed(object) && !belongs(object, &live) {
        patch["metadata"]["labels"] = object.body["metadata"]["labels"].clone();
        changes.push("has its labels again");
    }
    if is_immutable && live["immutable"] != true {
        patch["immutable"] = true.into();
        changes.push("is immutable");
    }
    if changes.is_empty() {
        return None;
    }
    // With the UID, the patch cannot change a newer object with the same name.
    patch["metadata"]["uid"] = live.pointer("/metadata/uid").cloned().unwrap_or_default();
    let live = comparable(&live);
    let mut desired = live.clone();
    for (key, value) in patch["metadata"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "uid")
    {
        desired["metadata"][key] = value.clone();
    }
    if patch.get("immutable").is_some() {
        desired["immutable"] = true.into();
    }
    Some(Box::new(Repair {
        live,
        desired,
        changes,
        action: RepairAction::Patch(patch),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::contract::labels::{JOB, MANAGED_BY, MANAGED_BY_US};

    fn object(plural: &'static str, body: Value) -> Object {
        Object {
            body,
            plural,
            shared: false,
            kept: false,
        }
    }

    #[test]
    fn only_a_missing_owner_is_set() {
        let labels = json!({MANAGED_BY: MANAGED_BY_US, JOB: "a"});
        let owners = json!([{"uid": "1"}]);
        let service = object(
            "services",
            json!({"metadata": {"labels": labels, "ownerReferences": owners}}),
        );
        let live = |owners: Value| json!({"metadata": {"uid": "9", "labels": labels, "ownerReferences": owners}, "spec": {"a": 1}});
        assert!(owner_repair(&service, live(owners.clone())).is_none());
        for others in [json!(null), json!([]), json!([{"uid": "2"}])] {
            let Some(repair) = owner_repair(&service, live(others)) else {
                panic!("nothing is repaired")
            };
            let RepairAction::Patch(patch) = &repair.action else {
                panic!("it is deleted")
            };
            assert_eq!(
                *patch,
                json!({"metadata": {"uid": "9", "ownerReferences": owners}})
            );
            assert_eq!(repair.desired["spec"], json!({"a": 1}));
        }
        let claim = object(
            "persistentvolumeclaims",
            json!({"metadata": {"labels": labels}}),
        );
        assert!(owner_repair(&claim, live(json!(null))).is_none());
    }
}
