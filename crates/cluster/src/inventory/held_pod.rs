//! Decodes only the resources that a pod holds on its node, for lists of all pods in a cluster.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::rc::Rc;

use jiff::Timestamp;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::transport::decode::{ListPage, PodSpec, Running};
use crate::transport::lenient;
use crate::transport::list::Page;
use crate::transport::shared_texts::SharedTexts;
use gpuctl_core::model::contract::labels::{JOB, MANAGED_BY, MANAGED_BY_US};
use gpuctl_core::model::facts::gpu_group;
use gpuctl_core::model::values::omissions;
use gpuctl_core::model::values::omissions::Omission;
use gpuctl_core::model::{Consumer, MachineRequests};

/// A pod with only the fields that determine what it holds on its node. A cluster has more pods
/// than objects of any other kind, so decoding the rest would be expensive.
#[derive(Deserialize)]
pub(crate) struct HeldPod<'a> {
    #[serde(borrow, default)]
    metadata: HeldMetadata<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
    #[serde(borrow, default)]
    status: HeldStatus<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeldMetadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    labels: JobLabels,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct HeldStatus<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    container_statuses: Vec<HeldContainer>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeldContainer {
    state: HeldState,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeldState {
    running: Option<Running>,
    terminated: Option<EndedContainer>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct EndedContainer {
    #[serde(deserialize_with = "lenient::time")]
    started_at: Option<Timestamp>,
}

impl HeldStatus<'_> {
    /// Returns when the last container started, or `None` if a container has not started. A pod
    /// that is still pulling its image holds its devices but does not use them. A sidecar can keep the
    /// pod and its devices after the main container has ended.
    fn runs_since(&self) -> Option<Timestamp> {
        let started = |state: &HeldState| match (&state.running, &state.terminated) {
            (Some(running), _) => running.started_at,
            (None, Some(ended)) => ended.started_at,
            (None, None) => None,
        };
        let states = || self.container_statuses.iter().map(|status| &status.state);
        let is_running = states().any(|state| state.running.is_some());
        let starts: Option<Vec<Timestamp>> = states().map(started).collect();
        starts.filter(|_| is_running)?.into_iter().max()
    }
}

/// The pod labels that identify the job and the pods on the same device; all others are skipped.
#[derive(Default)]
struct JobLabels {
    is_ours: bool,
    job: Option<String>,
    gpu_groups: Vec<String>,
}

impl<'de> Deserialize<'de> for JobLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = JobLabels;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("labels")
            }

            fn visit_unit<E>(self) -> Result<JobLabels, E> {
                Ok(JobLabels::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut labels: M) -> Result<JobLabels, M::Error> {
                let mut result = JobLabels::default();
                while let Some(Text(key)) = labels.next_key()? {
                    match &*key {
                        MANAGED_BY => {
                            result.is_ours = labels.next_value::<Text<'de>>()?.0 == MANAGED_BY_US;
                        }
                        JOB => result.job = Some(labels.next_value::<Text<'de>>()?.0.into_owned()),
                        key if gpu_group::is_group(key) => {
                            let value = labels.next_value::<Text<'de>>()?.0;
                            result.gpu_groups.push(value.into_owned());
                        }
                        _ => drop(labels.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(result)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A string that is borrowed unless it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Converts pages of pods to consumers. Interns namespaces, nodes, jobs and requests, so that equal
/// ones share memory.
#[derive(Default)]
pub(crate) struct ConsumerReader {
    texts: SharedTexts,
    devices: HashSet<Rc<BTreeMap<String, u64>>>,
}

impl ConsumerReader {
    /// Reads the consumers of one page.
    pub(crate) fn of_page(&mut self, page: Page<'_>) -> serde_json::Result<Vec<Consumer>> {
        let page: ListPage<HeldPod<'_>> = page.objects()?;
        Ok(self.living(&page.items))
    }

    /// Converts the pods that have not terminated. Terminated pods hold no resources.
    pub(crate) fn living(&mut self, pods: &[HeldPod<'_>]) -> Vec<Consumer> {
        let has_ended =
            |pod: &HeldPod<'_>| matches!(pod.status.phase.as_ref(), "Succeeded" | "Failed");
        pods.iter()
            .filter(|pod| !has_ended(pod))
            .map(|pod| self.consumer(pod))
            .collect()
    }

    fn consumer(&mut self, pod: &HeldPod<'_>) -> Consumer {
        let labels = &pod.metadata.labels;
        let job = labels
            .job
            .as_ref()
            .filter(|_| labels.is_ours)
            .map(|job| self.texts.intern(job));
        let node = Some(&*pod.spec.node_name)
            .filter(|node| !node.is_empty())
            .map(|node| self.texts.intern(node));
        let gpu_groups = labels
            .gpu_groups
            .iter()
            .map(|group| self.texts.intern(group))
            .collect();
        let total = pod.spec.total();
        if total.is_absurd {
            omissions::note(
                Omission::AbsurdRequest,
                format!("{}/{}", pod.metadata.namespace, pod.metadata.name),
            );
        }
        let devices = self
            .devices
            .get(&total.extended)
            .cloned()
            .unwrap_or_else(|| {
                let devices = Rc::new(total.extended);
                self.devices.insert(Rc::clone(&devices));
                devices
            });
        Consumer {
            namespace: self.texts.intern(&pod.metadata.namespace),
            name: pod.metadata.name.as_ref().into(),
            node,
            runs_since: pod.status.runs_since(),
            job,
            devices,
            asks_for_devices: pod.spec.asks_for_devices() || !labels.gpu_groups.is_empty(),
            gpu_groups,
            requests: MachineRequests {
                cpu_milli: total.cpu_milli,
                memory_bytes: total.memory_bytes,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_contain_held_resources() {
        let json = r#"{"items":[{"metadata":{"name":"p","namespace":"n","labels":{"app":"x\u0041","app.kubernetes.io/managed-by":"gpuctl","gpuctl/job":"j"}}},
            {"metadata":{"labels":{"gpuctl/job":"j"}}},{"metadata":{"labels":null}},{},{"status":{"phase":"Failed"}}]}"#;
        let page: ListPage<HeldPod<'_>> = serde_json::from_str(json).unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&json.replace("\"labels\":null", "\"name\":\"q\"")).unwrap();
        let (message, bytes) =
            crate::transport::protobuf::encode::encoded_list("/api/v1/pods", &value);
        let json_page: ListPage<HeldPod<'_>> =
            crate::transport::protobuf::decode(&bytes, message).unwrap();
        for page in [page, json_page] {
            let held = ConsumerReader::default().living(&page.items);
            let jobs: Vec<_> = held.into_iter().map(|pod| pod.job).collect();
            assert_eq!(jobs, [Some("j".into()), None, None, None]);
        }
    }

    #[test]
    fn devices_of_an_ended_container_are_in_use_while_a_sidecar_runs() {
        let since = |states: &[&str]| {
            let statuses: Vec<String> = states
                .iter()
                .map(|state| format!(r#"{{"state":{{{state}}}}}"#))
                .collect();
            let json = format!(r#"{{"containerStatuses":[{}]}}"#, statuses.join(","));
            let status: HeldStatus<'_> = serde_json::from_str(&json).unwrap();
            status.runs_since().map(|time| time.to_string())
        };
        let running = r#""running":{"startedAt":"2026-01-31T10:00:00Z"}"#;
        let ended = r#""terminated":{"exitCode":1,"startedAt":"2026-01-31T11:00:00Z"}"#;
        assert_eq!(
            since(&[running, ended]).as_deref(),
            Some("2026-01-31T11:00:00Z")
        );
        assert_eq!(since(&[ended]), None);
        assert_eq!(since(&[running, r#""waiting":{"reason":"x"}"#]), None);
    }
}
