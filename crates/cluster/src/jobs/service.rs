//! Reads the addresses of a service, the state of its autoscaler, and the optional APIs that the
//! cluster serves.

use std::collections::BTreeSet;

use futures::future::{join, join3};
use serde_json::Value;

use gpuctl_core::model::{Autoscaler, Endpoint, Job, Scaling};
use gpuctl_manifest::render::{IngressClass, Served};

use crate::{Failure, handles::ServicesApi};

impl ServicesApi<'_> {
    /// Reads which optional APIs for services the cluster serves. Ingress classes are unknown if
    /// the user cannot list them.
    pub async fn served(self) -> Result<Served, Failure> {
        let classes = self
            .0
            .find::<Value>("/apis/networking.k8s.io/v1/ingressclasses");
        let groups = join(
            self.0.discovery().serves("metrics.k8s.io"),
            self.0.discovery().serves("leaderworkerset.x-k8s.io"),
        );
        let (custom, (resource, sets), classes) =
            join3(self.custom_metrics(), groups, classes).await;
        let ingress_classes = match classes {
            Ok(list) => list.map(|list| {
                list["items"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(ingress_class)
                    .collect()
            }),
            Err(failure) if failure.is_forbidden() => None,
            Err(failure) => return Err(failure),
        };
        Ok(Served {
            custom_metrics: custom?,
            resource_metrics: resource?,
            leader_worker_sets: sets?,
            ingress_classes,
        })
    }

    /// Lists the pod metrics of the custom metrics API. Returns `None` if the cluster does not
    /// serve the API or its backend is down.
    async fn custom_metrics(self) -> Result<Option<BTreeSet<String>>, Failure> {
        let discovery = self.0.discovery();
        let Some(version) = discovery.preferred_version("custom.metrics.k8s.io").await? else {
            return Ok(None);
        };
        // While the backend of an aggregated API is down, the API server answers its discovery with
        // 503.
        let list: Option<Value> = match self.0.find(&format!("/apis/{version}")).await {
            Err(failure) if failure.is_transient() || failure.is_forbidden() => None,
            other => other?,
        };
        let Some(list) = list else { return Ok(None) };
        let names = list["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|resource| resource["name"].as_str());
        Ok(Some(
            names
                // The API lists each pod metric as a resource named `pods/NAME`.
                .filter_map(|name| name.strip_prefix("pods/"))
                .map(ToOwned::to_owned)
                .collect(),
        ))
    }

    /// Lists the addresses of a service or notebook, without those of objects that the user cannot
    /// read.
    pub async fn addresses(self, job: &Job) -> Result<Vec<Endpoint>, Failure> {
        let (namespace, name) = (&job.namespace, &job.name);
        let service = format!("/api/v1/namespaces/{namespace}/services/{name}");
        let ingress = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}");
        let (service, ingress) = join(
            self.0.find::<Value>(&service),
            self.0.find::<Value>(&ingress),
        )
        .await;
        let mut endpoints = Vec::new();
        if let Some(service) = readable(service)? {
            endpoints.extend(service_endpoints(&service, job));
        }
        let hosts = readable(ingress)?;
        let rules = hosts
            .as_ref()
            .and_then(|ingress| ingress.pointer("/spec/rules")?.as_array())
            .into_iter()
            .flatten();
        endpoints.extend(
            rules
                .filter_map(|rule| rule["host"].as_str())
                .map(|host| Endpoint::new("ingress", format!("http://{host}"))),
        );
        Ok(endpoints)
    }

    /// Reads the job's autoscaler, or returns `None` if it has none.
    pub async fn autoscaler(self, job: &Job) -> Result<Option<Autoscaler>, Failure> {
        let path = format!(
            "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/{}",
            job.namespace, job.name
        );
        Ok(readable(self.0.find::<Value>(&path).await)?.map(|object| autoscaler(&object)))
    }
}

fn ingress_class(class: &Value) -> IngressClass {
    let default =
        class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"] == "true";
    IngressClass {
        name: class["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        default,
    }
}

fn readable(answer: Result<Option<Value>, Failure>) -> Result<Option<Value>, Failure> {
    match answer {
        Err(failure) if failure.is_forbidden() => Ok(None),
        other => other,
    }
}

fn service_endpoints(service: &Value, job: &Job) -> Vec<Endpoint> {
    let (namespace, name) = (&job.namespace, &job.name);
    let port = &service["spec"]["ports"][0];
    let number = |key: &str| port[key].as_u64();
    let mut endpoints = Vec::new();
    let Some(service_port) = number("port") else {
        return endpoints;
    };
    let scheme = match port["protocol"].as_str() {
        Some("UDP") => "udp",
        Some("SCTP") => "sctp",
        _ => "http",
    };
    endpoints.push(Endpoint::new(
        "cluster",
        format!("{scheme}://{name}.{namespace}.svc:{service_port}"),
    ));
    if let Some(node_port) = number("nodePort") {
        // Use the node of a ready pod. Every node accepts connections to the port, but others
        // forward them.
        let host = job
            .pods
            .iter()
            .filter(|pod| pod.ready)
            .find_map(|pod| pod.host_ip.as_ref());
        endpoints.push(Endpoint {
            kind: "node",
            url: host.map(|host| format!("{scheme}://{}:{node_port}", bracketed(host))),
        });
    }
    let balancers = service
        .pointer("/status/loadBalancer/ingress")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let host = |balancer: &Value| {
        // A cloud sets either the host name or the IP address (`LoadBalancerIngress`).
        balancer["hostname"]
            .as_str()
            .or(balancer["ip"].as_str())
            .map(ToOwned::to_owned)
    };
    let hosts: Vec<String> = balancers.filter_map(host).collect();
    if hosts.is_empty() && service["spec"]["type"] == "LoadBalancer" {
        endpoints.push(Endpoint {
            kind: "loadBalancer",
            url: None,
        });
    }
    endpoints.extend(hosts.into_iter().map(|host| {
        Endpoint::new(
            "loadBalancer",
            format!("{scheme}://{}:{service_port}", bracketed(&host)),
        )
    }));
    endpoints
}

/// Encloses an IPv6 address in brackets, as URLs require.
fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

fn autoscaler(object: &Value) -> Autoscaler {
    let number = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_u64)
            .and_then(|number| u32::try_from(number).ok())
    };
    let current = object
        .pointer("/status/currentMetrics")
        .and_then(Value::as_array);
    let metrics = object
        .pointer("/spec/metrics")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let scaling = metrics.map(|metric| {
        let name = metric_name(metric);
        let current_value = |list: &Vec<Value>| {
            list.iter()
                .find(|candidate| metric_name(candidate) == name)
                .and_then(|candidate| value(candidate, "current"))
        };
        Scaling {
            current: current.and_then(current_value),
            target: value(metric, "target"),
            metric: name,
        }
    });
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let false_conditions = conditions
        .clone()
        .find(|condition| condition["type"] == "ScalingActive" && condition["status"] == "False");
    // The controller sets the reason `ScalingDisabled` while the service is paused with 0 replicas.
    let false_conditions =
        false_conditions.filter(|condition| condition["reason"] != "ScalingDisabled");
    Autoscaler {
        min_replicas: number("/spec/minReplicas").unwrap_or(1),
        max_replicas: number("/spec/maxReplicas").unwrap_or(1),
        // The field is 0 until the first evaluation, which also sets the first condition.
        desired_replicas: number("/status/desiredReplicas")
            .filter(|_| conditions.clone().next().is_some()),
        metrics: scaling.collect(),
        problem: false_conditions
            .and_then(|condition| condition["message"].as_str())
            .map(ToOwned::to_owned),
    }
}

fn metric_name(metric: &Value) -> String {
    let name = metric
        .pointer("/pods/metric/name")
        .or_else(|| metric.pointer("/resource/name"));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Reads the average value of a pod metric, or the average utilization of a resource in percent.
fn value(metric: &Value, field: &str) -> Option<f64> {
    let average = metric
        .pointer(&format!("/pods/{field}/averageValue"))
        .and_then(Value::as_str);
    let utilization = metric
        .pointer(&format!("/resource/{field}/averageUtilization"))
        .and_then(Value::as_f64);
    utilization.or_else(|| {
        gpuctl_core::model::values::quantity::milli(average?).map(|milli| milli as f64 / 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::Pod;
    use serde_json::json;

    #[test]
    fn autoscaler_values_are_percent_and_unknown_is_not_zero() {
        let object = json!({
            "spec": {"minReplicas": 1, "maxReplicas": 4, "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "gpu_utilization"}, "target": {"averageValue": "70"}}},
                {"type": "Pods", "pods": {"metric": {"name": "gpu_memory_utilization"}, "target": {"averageValue": "85"}}},
            ]},
            "status": {"desiredReplicas": 2, "currentMetrics": [
                {"type": "Pods", "pods": {"metric": {"name": "gpu_utilization"}, "current": {"averageValue": "95500m"}}},
                {"type": ""},
            ], "conditions": [{"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric", "message": "no metric"}]},
        });
        let parsed = autoscaler(&object);
        assert_eq!(
            (parsed.metrics[0].current, parsed.metrics[0].target),
            (Some(95.5), Some(70.0))
        );
        assert_eq!(
            (parsed.metrics[1].current, parsed.metrics[1].target),
            (None, Some(85.0))
        );
        assert_eq!(
            (parsed.desired_replicas, parsed.problem.as_deref()),
            (Some(2), Some("no metric"))
        );
    }

    #[test]
    fn a_balancer_without_an_address_is_unknown() {
        let service =
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000}]}});
        let mut job = Job {
            namespace: "ns".into(),
            name: "web".into(),
            ..Job::default()
        };
        assert_eq!(
            service_endpoints(&service, &job)[1],
            Endpoint {
                kind: "node",
                url: None
            }
        );
        job.pods = vec![Pod {
            ready: true,
            host_ip: Some("fd00::1".into()),
            ..Pod::default()
        }];
        let endpoints = service_endpoints(&service, &job);
        assert_eq!(
            endpoints[2],
            Endpoint {
                kind: "loadBalancer",
                url: None
            }
        );
        assert_eq!(endpoints[1].url.as_deref(), Some("http://[fd00::1]:30000"));
    }
}
