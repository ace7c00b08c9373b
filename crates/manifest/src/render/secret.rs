//! Renders Secrets for the tokens of model hubs and the logins of image registries.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::Object;
use gpuctl_core::model::contract::labels::{MANAGED_BY, MANAGED_BY_US};

/// Credentials for an image registry.
pub struct Registry<'a> {
    /// The host as in image names, such as `registry.example.com`.
    pub host: &'a str,
    pub username: &'a str,
    /// The password or token.
    pub password: &'a str,
}

/// Builds a Secret with these keys and values.
pub fn opaque(namespace: &str, name: &str, values: BTreeMap<String, Vec<u8>>) -> Object {
    secret(namespace, name, "Opaque", values)
}

/// Builds a Secret for `imagePullSecret`.
pub fn registry(namespace: &str, name: &str, login: &Registry<'_>) -> Object {
    // `ByteString` serializes as base64, as `auth` requires.
    let auth = ByteString(format!("{}:{}", login.username, login.password).into_bytes());
    let entry = json!({"username": login.username, "password": login.password, "auth": auth});
    let config = json!({"auths": {login.host: entry}})
        .to_string()
        .into_bytes();
    secret(
        namespace,
        name,
        "kubernetes.io/dockerconfigjson",
        [(".dockerconfigjson".to_owned(), config)].into(),
    )
}

fn secret(namespace: &str, name: &str, kind: &str, values: BTreeMap<String, Vec<u8>>) -> Object {
    let body = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), MANAGED_BY_US.to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(
            values
                .into_iter()
                .map(|(key, value)| (key, ByteString(value)))
                .collect(),
        ),
        ..Secret::default()
    };
    Object::new(&body, "secrets")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_login_has_the_form_that_the_kubelet_reads() {
        let object = registry(
            "team-a",
            "pull",
            &Registry {
                host: "r.example.com",
                username: "u",
                password: "p:w",
            },
        );
        let data = object.text("/data/.dockerconfigjson");
        let decoded: ByteString = serde_json::from_value(json!(data)).unwrap();
        let config: serde_json::Value = serde_json::from_slice(&decoded.0).unwrap();
        // `echo -n u:p:w | base64`
        assert_eq!(
            config,
            json!({"auths": {"r.example.com": {"username": "u", "password": "p:w", "auth": "dTpwOnc="}}})
        );
    }
}
