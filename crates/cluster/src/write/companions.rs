//! Classifies the companion objects of a job. The supervisor's program and the ranks' token are
//! immutable as long as their Job exists. A job works without the others, so they are optional.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::preserve::is_supervisor;
use crate::Failure;
use gpuctl_core::model::contract::labels::{
    JOB, MANAGED_BY, MANAGED_BY_US, RUN, SUPERVISOR_FILE, TOKEN_FILE, TOKEN_TYPE,
};
use gpuctl_manifest::render::Object;

/// Returns `kind/name`.
pub fn label(object: &Object) -> String {
    format!("{}/{}", object.kind().to_lowercase(), object.name())
}

/// Returns true if gpuctl manages the live object and it belongs to the same job as `object`.
pub(crate) fn belongs(object: &Object, live: &Value) -> bool {
    let label_of = |body: &Value, key: &str| {
        body.pointer("/metadata/labels")
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
            .map(ToOwned::to_owned)
    };
    label_of(live, MANAGED_BY).as_deref() == Some(MANAGED_BY_US)
        && label_of(live, JOB) == label_of(&object.body, JOB)
}

/// Removes the status and server-managed metadata from a live object, leaving only its desired
/// state.
pub(crate) fn comparable(live: &Value) -> Value {
    let mut comparable = live.clone();
    if let Some(object) = comparable.as_object_mut() {
        object.remove("status");
    }
    if let Some(metadata) = comparable["metadata"].as_object_mut() {
        for key in [
            "managedFields",
            "resourceVersion",
            "generation",
            "uid",
            "creationTimestamp",
        ] {
            metadata.remove(key);
        }
        let annotations = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut);
        let empty = annotations.is_some_and(|annotations| {
            annotations.remove(RUN);
            annotations.is_empty()
        });
        if empty {
            metadata.remove("annotations");
        }
    }
    comparable
}

/// Returns true if the object is the program or the token.
pub(crate) fn is_fixed(object: &Object) -> bool {
    is_supervisor(object) || is_token(object)
}

/// Returns true if the object is the Secret with the ranks' token.
pub(crate) fn is_token(object: &Object) -> bool {
    object.plural == "secrets" && object.text("/type") == TOKEN_TYPE
}

/// Returns true if the job works without the object.
pub(crate) fn is_optional(object: &Object) -> bool {
    object.plural == "networkpolicies"
}

/// Returns a warning if the API server refused an optional object. Passes other failures on.
pub(crate) fn tolerated(object: &Object, failure: Failure) -> Result<String, Failure> {
    match failure.code() {
        Some(code) if is_optional(object) && (400..500).contains(&code) => {
            Ok(policy_left_out(object.name(), &failure))
        }
        _ => Err(failure),
    }
}

/// Builds the warning that a job has no NetworkPolicy.
pub fn policy_left_out(name: &str, failure: &Failure) -> String {
    format!(
        "networkpolicy/{name} is omitted, so any pod in the cluster can connect to rank 0's port; \
         the job's token protects it (docs/recovery.md): {failure}"
    )
}

/// Adds a new random token if the object is the ranks' Secret.
pub(crate) fn with_content(object: &Object) -> Object {
    let mut object = object.clone();
    if is_token(&object) {
        let mut random = [0; 32];
        SystemRandom::new()
            .fill(&mut random)
            .expect("the operating system has random numbers");
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        object.body["data"] = json!({TOKEN_FILE: ByteString(token.into_bytes())});
    }
    object
}

/// Returns the text of the supervisor's program.
pub(crate) fn program(body: &Value) -> Option<&str> {
    body.pointer("/data")?.get(SUPERVISOR_FILE)?.as_str()
}

/// Returns true if the object is a ConfigMap with only one file.
pub(crate) fn is_only_program(live: &Value) -> bool {
    let files = |field: &str| live[field].as_object().map_or(0, serde_json::Map::len);
    files("data") == 1 && files("binaryData") == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(plural: &'static str, body: Value) -> Object {
        Object {
            body,
            plural,
            shared: false,
            kept: false,
        }
    }

    #[test]
    fn every_token_differs_and_only_secrets_of_ranks_get_one() {
        let secret = object("secrets", json!({"type": TOKEN_TYPE}));
        let token = |object: &Object| {
            with_content(object).body["data"][TOKEN_FILE]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(token(&secret).len(), 88, "64 characters, as base64");
        assert_ne!(token(&secret), token(&secret));
        for object in [
            object("secrets", json!({"type": "Opaque"})),
            object("configmaps", json!({"type": TOKEN_TYPE})),
        ] {
            assert_eq!(with_content(&object), object);
        }
    }

    #[test]
    fn only_optional_objects_may_be_refused() {
        let forbidden = || Failure::conflict("Forbidden", "no".to_owned());
        assert!(tolerated(&object("networkpolicies", json!({})), forbidden()).is_ok());
        assert!(tolerated(&object("secrets", json!({})), forbidden()).is_err());
        let outage = Failure::TimedOut {
            server: String::new(),
            seconds: 1,
        };
        assert!(tolerated(&object("networkpolicies", json!({})), outage).is_err());
    }
}
