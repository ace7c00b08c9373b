//! How a service is reached: its Service, and an Ingress where the file names a host.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service as KubernetesService, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::spec::{Job, Service};

use super::labels::{JOB, annotations, metadata};
use super::{Object, Target};

/// The name of the one port, in the container and in the Service.
pub const PORT: &str = "main";

type Labels = BTreeMap<String, String>;

/// The Service. `listens` is the container's port.
pub fn service(job: &Job, target: &Target, labels: &Labels, service: &Service, listens: u16) -> Object {
    let body = KubernetesService {
        metadata: metadata(job, target, job.id(), labels),
        spec: Some(ServiceSpec {
            type_: Some(service.exposure.to_owned()),
            selector: Some([(JOB.to_owned(), job.id().to_owned())].into()),
            ports: Some(vec![ServicePort {
                name: Some(PORT.to_owned()),
                port: service.port.unwrap_or(listens).into(),
                target_port: Some(IntOrString::Int(listens.into())),
                protocol: Some(service.protocol.unwrap_or("TCP").to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    Object::new(&body, "services")
}

/// The Ingress of `service.host`. Limits are written as ingress-nginx reads them: nothing in Kubernetes itself counts
/// requests, and a Service has no limit.
pub fn ingress(job: &Job, target: &Target, labels: &Labels, service: &Service, warnings: &mut Vec<String>) -> Option<Object> {
    let Some(host) = &service.host else {
        if let Some(limit) = service.request_limit {
            warnings.push(format!("request_limit: {limit} has no effect without `service.host`: nothing counts requests"));
        }
        return None;
    };
    let mut meta = metadata(job, target, job.id(), labels);
    let mut notes = annotations(job);
    let mut put = |key: &str, value: String| notes.insert(format!("nginx.ingress.kubernetes.io/{key}"), value);
    if let Some(limit) = service.request_limit {
        put("limit-rps", limit.to_string());
        warnings.push(format!("request_limit: {limit} is enforced by ingress-nginx only, per second and client address"));
    }
    if let Some(timeout) = service.timeout {
        put("proxy-read-timeout", timeout.as_secs().to_string());
        put("proxy-send-timeout", timeout.as_secs().to_string());
    }
    if target.served.as_ref().is_some_and(|served| served.ingress_classes == Some(0)) {
        warnings.push(format!("this cluster has no IngressClass: nothing will answer for `{host}`"));
    }
    meta.annotations = Some(notes).filter(|notes| !notes.is_empty());
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: job.id().to_owned(),
            port: Some(ServiceBackendPort { name: Some(PORT.to_owned()), number: None }),
        }),
        resource: None,
    };
    let path = HTTPIngressPath { path: Some("/".to_owned()), path_type: "Prefix".to_owned(), backend };
    let rule = IngressRule { host: Some(host.clone()), http: Some(HTTPIngressRuleValue { paths: vec![path] }) };
    let spec = IngressSpec { rules: Some(vec![rule]), ..IngressSpec::default() };
    Some(Object::new(&Ingress { metadata: meta, spec: Some(spec), status: None }, "ingresses"))
}
