//! Objects that stay as they were created for as long as their Job exists: the supervisor's program and the token of its
//! ranks. Applying a file again repairs them and never changes them. Also sets owner references that an interrupted run left
//! out, on any object of a job.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use bytes::Bytes;
use http::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::cell::Cell;

use super::apply::{Deletion, path_of};
use super::change::Effect;
use super::http::ApiRequest;
use super::keep::{is_supervisor, program_hash};
use super::submit::{belongs, label};
use super::{Connection, Failure};
use crate::model::fingerprint::sha256;
use crate::model::labels::{SUPERVISOR_FILE, TOKEN_FILE, TOKEN_TYPE};
use crate::render::Object;

/// Answers for one object without its content, so that a token is never read.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// How an object that must not change becomes what it was.
#[derive(Clone, Debug)]
pub(crate) struct Repair {
    pub live: Value,
    pub wanted: Value,
    /// What is repaired, for people.
    pub changes: Vec<&'static str>,
    action: RepairAction,
}

#[derive(Clone, Debug)]
enum RepairAction {
    /// A merge patch.
    Patch(Value),
    /// Its content cannot be changed: the object of this UID is deleted and created again.
    Recreate { uid: String },
}

/// Returns true for the program and the token.
pub(super) fn is_fixed(object: &Object) -> bool {
    is_supervisor(object) || is_token(object)
}

/// Returns true for the Secret with the token of the ranks.
pub(super) fn is_token(object: &Object) -> bool {
    object.plural == "secrets" && object.text("/type") == TOKEN_TYPE
}

/// Returns true for an object without which a job works all the same.
pub(super) fn is_optional(object: &Object) -> bool {
    object.plural == "networkpolicies"
}

/// Returns a warning when the API server refuses an object without which a job works; any other failure stays one.
pub(super) fn tolerated(object: &Object, failure: Failure) -> Result<String, Failure> {
    match failure.code() {
        Some(code) if is_optional(object) && (400..500).contains(&code) => Ok(format!(
            "{} is left out, so any pod of the cluster can connect to the port of rank 0; \
             the token of the job protects it (docs/recovery.md): {failure}",
            label(object)
        )),
        _ => Err(failure),
    }
}

/// Adds a new random token to the Secret of the ranks. Every other object stays as it is.
pub(super) fn with_content(object: &Object) -> Object {
    let mut object = object.clone();
    if is_token(&object) {
        let mut random = [0; 32];
        SystemRandom::new().fill(&mut random).expect("the operating system has random numbers");
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        object.body["data"] = json!({TOKEN_FILE: ByteString(token.into_bytes())});
    }
    object
}

impl Connection {
    /// Returns the live object, of a Secret only its metadata.
    pub(super) async fn live_companion(&self, object: &Object) -> Result<Option<Value>, Failure> {
        if is_token(object) { self.find_metadata(&path_of(object)).await } else { self.live(object).await }
    }

    /// Returns the metadata of an object, or nothing where it does not exist.
    pub(super) async fn find_metadata(&self, path: &str) -> Result<Option<Value>, Failure> {
        let (body, buffer) = (Bytes::new(), Cell::default());
        let request =
            ApiRequest { method: &Method::GET, path, content_type: "", body: &body, accept: METADATA_ONLY, buffer: &buffer };
        match self.answer(request).await {
            Ok(answer) => answer.json(&self.server).map(Some),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Returns what applying the program or the token of a live Job does; an error text where its program is lost.
    pub(super) async fn effect_of_fixed(&self, object: &Object, owner: &Value) -> Result<Result<Effect, String>, Failure> {
        let live = self.live_companion(object).await?;
        if is_token(object) {
            return Ok(Ok(live.map_or(Effect::Made, |live| owner_effect(object, live))));
        }
        let wanted = program(&object.body).map(sha256);
        let original = program_hash(owner);
        let is_known = original.is_some() && original == wanted.as_deref();
        let Some(live) = live else {
            let lost = || format!("{} of this job does not exist any more", label(object));
            return Ok(if is_known { Ok(Effect::Made) } else { Err(lost()) });
        };
        // Earlier versions did not note the hash, so their program is taken for what it is.
        let Some(original) = original else { return Ok(Ok(owner_effect(object, live))) };
        if program(&live).map(sha256).as_deref() == Some(original) && is_only_program(&live) {
            return Ok(Ok(owner_effect(object, live)));
        }
        if !is_known {
            return Ok(Err(format!("{} was changed after the job was created", label(object))));
        }
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Ok(Effect::Repaired(Box::new(Repair {
            wanted: super::change::told(&object.body),
            live: super::change::told(&live),
            changes: vec!["was changed after the job was created: its program is restored"],
            action: RepairAction::Recreate { uid },
        }))))
    }

    /// Writes a repair.
    pub(super) async fn repair(&self, object: &Object, repair: &Repair) -> Result<(), Failure> {
        match &repair.action {
            RepairAction::Patch(patch) => self.merge_patch(&path_of(object), patch).await.map(drop),
            RepairAction::Recreate { uid } => {
                self.delete(object, Deletion::of(uid)).await?;
                self.apply(&with_content(object), false).await.map(drop)
            }
        }
    }

    /// Makes the owner own an object of its job that must not be applied again.
    pub(super) async fn adopt_fixed(&self, object: &Object) -> Result<(), Failure> {
        let patch = json!({"metadata": {"ownerReferences": object.body["metadata"]["ownerReferences"]}});
        self.merge_patch(&path_of(object), &patch).await.map(drop)
    }

    /// Uses the program or the token that an interrupted run of the same job left behind. Another version's program is replaced.
    pub(super) async fn reuse(&self, object: &Object, live: Value) -> Result<Value, Failure> {
        if is_token(object) || program(&live) == program(&object.body) && is_only_program(&live) {
            return Ok(live);
        }
        let uid = live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        self.delete(object, Deletion::of(uid)).await?;
        Ok(self.apply(&with_content(object), false).await?.live)
    }
}

fn program(body: &Value) -> Option<&str> {
    body.pointer("/data")?.get(SUPERVISOR_FILE)?.as_str()
}

/// Returns true for a ConfigMap with this one file.
fn is_only_program(live: &Value) -> bool {
    let files = |field: &str| live[field].as_object().map_or(0, serde_json::Map::len);
    files("data") == 1 && files("binaryData") == 0
}

/// Returns what an object lacks that is otherwise left as it is: owner, labels, immutability.
pub(super) fn owner_effect(object: &Object, live: Value) -> Effect {
    let references = &object.body["metadata"]["ownerReferences"];
    let uid = references.pointer("/0/uid").unwrap_or(&Value::Null);
    let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let (mut patch, mut changes) = (json!({"metadata": {}}), Vec::new());
    // Kept claims have no owner.
    if !uid.is_null() && !owners.is_some_and(|all| all.iter().any(|owner| owner["uid"] == *uid)) {
        patch["metadata"]["ownerReferences"] = references.clone();
        changes.push("is owned by the job again");
    }
    if is_fixed(object) && !belongs(object, &live) {
        patch["metadata"]["labels"] = object.body["metadata"]["labels"].clone();
        changes.push("has its labels again");
    }
    if is_supervisor(object) && live["immutable"] != true {
        patch["immutable"] = true.into();
        changes.push("is immutable");
    }
    if changes.is_empty() {
        return Effect::Nothing;
    }
    // The patch is for this object, and not for another of its name.
    patch["metadata"]["uid"] = live.pointer("/metadata/uid").cloned().unwrap_or_default();
    let live = super::change::told(&live);
    let mut wanted = live.clone();
    for (key, value) in patch["metadata"].as_object().into_iter().flatten().filter(|(key, _)| *key != "uid") {
        wanted["metadata"][key] = value.clone();
    }
    if patch.get("immutable").is_some() {
        wanted["immutable"] = true.into();
    }
    Effect::Repaired(Box::new(Repair { live, wanted, changes, action: RepairAction::Patch(patch) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::labels::{JOB, MANAGED_BY, MANAGED_BY_US};

    fn object(plural: &'static str, body: Value) -> Object {
        Object { body, plural, shared: false, kept: false }
    }

    #[test]
    fn every_token_differs_and_only_secrets_of_ranks_get_one() {
        let secret = object("secrets", json!({"type": TOKEN_TYPE}));
        let token = |object: &Object| with_content(object).body["data"][TOKEN_FILE].as_str().unwrap().to_owned();
        assert_eq!(token(&secret).len(), 88, "64 characters, as base64");
        assert_ne!(token(&secret), token(&secret));
        for other in [object("secrets", json!({"type": "Opaque"})), object("configmaps", json!({"type": TOKEN_TYPE}))] {
            assert_eq!(with_content(&other), other);
        }
    }

    #[test]
    fn only_an_object_that_a_job_can_do_without_may_be_refused() {
        let forbidden = || Failure::conflict("Forbidden", "no".to_owned());
        assert!(tolerated(&object("networkpolicies", json!({})), forbidden()).is_ok());
        assert!(tolerated(&object("secrets", json!({})), forbidden()).is_err());
        let outage = Failure::TimedOut { server: String::new(), seconds: 1 };
        assert!(tolerated(&object("networkpolicies", json!({})), outage).is_err());
    }

    #[test]
    fn a_missing_owner_is_set_and_nothing_else_is_touched() {
        let labels = json!({MANAGED_BY: MANAGED_BY_US, JOB: "a"});
        let owners = json!([{"uid": "1"}]);
        let service = object("services", json!({"metadata": {"labels": labels, "ownerReferences": owners}}));
        let live =
            |owners: Value| json!({"metadata": {"uid": "9", "labels": labels, "ownerReferences": owners}, "spec": {"a": 1}});
        assert!(matches!(owner_effect(&service, live(owners.clone())), Effect::Nothing));
        for others in [json!(null), json!([]), json!([{"uid": "2"}])] {
            let Effect::Repaired(repair) = owner_effect(&service, live(others)) else { panic!("nothing is repaired") };
            let RepairAction::Patch(patch) = &repair.action else { panic!("it is deleted") };
            assert_eq!(*patch, json!({"metadata": {"uid": "9", "ownerReferences": owners}}));
            assert_eq!(repair.wanted["spec"], json!({"a": 1}));
        }
        let claim = object("persistentvolumeclaims", json!({"metadata": {"labels": labels}}));
        assert!(matches!(owner_effect(&claim, live(json!(null))), Effect::Nothing));
    }
}
