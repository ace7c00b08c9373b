//! Builds the Service of a job, and an Ingress if the file sets a host.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service as KubernetesService, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::labels::{annotations, metadata};
use super::servers::spans_nodes;
use super::{Object, Target};
use crate::spec::{JobDocument, Service};
use gpuctl_core::model::contract::labels::{GROUP_RANK, JOB};

/// The port's name in the container and in the Service.
pub(super) const PORT: &str = "main";

type ObjectLabels = BTreeMap<String, String>;

/// Builds the Service. `container_port` is the container's port.
pub(super) fn service(
    job: &JobDocument,
    target: &Target,
    labels: &ObjectLabels,
    service: &Service,
    container_port: u16,
) -> Object {
    let body = KubernetesService {
        metadata: metadata(job, target, job.id(), labels),
        spec: Some(ServiceSpec {
            type_: Some(service.exposure.to_owned()),
            selector: Some(answering(job)),
            ports: Some(vec![ServicePort {
                name: Some(PORT.to_owned()),
                port: service.port.unwrap_or(container_port).into(),
                target_port: Some(IntOrString::Int(container_port.into())),
                protocol: Some(service.protocol.unwrap_or("TCP").to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    Object::new(&body, "services")
}

/// Returns the labels of the pods that answer requests: of all pods, or of each replica's first pod
/// if a replica spans nodes.
fn answering(job: &JobDocument) -> ObjectLabels {
    let mut labels = ObjectLabels::from([(JOB.to_owned(), job.id().to_owned())]);
    if spans_nodes(job) {
        labels.insert(GROUP_RANK.to_owned(), "0".to_owned());
    }
    labels
}

/// Builds the Ingress for `service.host`. Limits become annotations of ingress-nginx, because
/// Kubernetes itself cannot limit requests.
pub(super) fn ingress(
    job: &JobDocument,
    target: &Target,
    labels: &ObjectLabels,
    service: &Service,
    warnings: &mut Vec<String>,
) -> Option<Object> {
    let Some(host) = &service.host else {
        if let Some(limit) = service.request_limit {
            warnings.push(format!("request_limit: {limit} has no effect without `service.host`: only an Ingress can limit requests"));
        }
        if service.timeout.is_some() {
            let effect = "without `service.host`, `timeout` only limits how long a stopping pod can take to finish its requests; it does not cancel slow requests";
            warnings.push(effect.to_owned());
        }
        return None;
    };
    let mut meta = metadata(job, target, job.id(), labels);
    let mut notes = annotations(job);
    let mut annotate = |key: &str, value: String| {
        notes.insert(format!("nginx.ingress.kubernetes.io/{key}"), value)
    };
    if let Some(limit) = service.request_limit {
        annotate("limit-rps", limit.to_string());
        warnings.push(format!("request_limit: {limit} is enforced only by ingress-nginx, per second and client address"));
    }
    if let Some(timeout) = service.timeout {
        annotate("proxy-read-timeout", timeout.as_secs().to_string());
        annotate("proxy-send-timeout", timeout.as_secs().to_string());
    }
    let class = class(target, host, warnings);
    meta.annotations = Some(notes).filter(|notes| !notes.is_empty());
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: job.id().to_owned(),
            port: Some(ServiceBackendPort {
                name: Some(PORT.to_owned()),
                number: None,
            }),
        }),
        resource: None,
    };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend,
    };
    let rule = IngressRule {
        host: Some(host.clone()),
        http: Some(HTTPIngressRuleValue { paths: vec![path] }),
    };
    let spec = IngressSpec {
        ingress_class_name: class,
        rules: Some(vec![rule]),
        ..IngressSpec::default()
    };
    Some(Object::new(
        &Ingress {
            metadata: meta,
            spec: Some(spec),
            status: None,
        },
        "ingresses",
    ))
}

/// Returns the ingress class to set: none if the cluster has a default class, otherwise its only
/// class.
fn class(target: &Target, host: &str, warnings: &mut Vec<String>) -> Option<String> {
    let classes = target.served.as_ref()?.ingress_classes.as_ref()?;
    if classes.iter().any(|class| class.default) {
        return None;
    }
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    match names[..] {
        [] => warnings.push(format!(
            "this cluster has no IngressClass, so nothing will serve `{host}`"
        )),
        [only] => return Some(only.to_owned()),
        _ => warnings.push(format!(
            "no IngressClass is the default ({}), so nothing will serve `{host}`",
            names.join(", ")
        )),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{IngressClass, Served};

    #[test]
    fn an_ingress_names_its_class_only_if_necessary() {
        let chosen = |classes: &[(&str, bool)]| {
            let classes = classes
                .iter()
                .map(|(name, default)| IngressClass {
                    name: (*name).to_owned(),
                    default: *default,
                })
                .collect();
            let served = Served {
                ingress_classes: Some(classes),
                ..Served::default()
            };
            let mut warnings = Vec::new();
            let class = class(
                &Target {
                    served: Some(served),
                    ..Target::default()
                },
                "h",
                &mut warnings,
            );
            (class, warnings.len())
        };
        assert_eq!(chosen(&[]), (None, 1));
        assert_eq!(chosen(&[("nginx", false)]), (Some("nginx".to_owned()), 0));
        assert_eq!(chosen(&[("nginx", true), ("other", false)]), (None, 0));
        assert_eq!(chosen(&[("nginx", false), ("other", false)]), (None, 1));
    }
}
