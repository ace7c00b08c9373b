//! Reads the events about a job and its objects, oldest first.

use std::borrow::Cow;
use std::collections::BTreeSet;

use futures::future::join_all;
use jiff::Timestamp;
use serde::Deserialize;

use gpuctl_core::model::{Event, Job};

use super::owner::OwnerKind;
use crate::transport::decode::{ListPage, ObjectMetadata};
use crate::transport::lenient;
use crate::{Failure, handles::EventsApi};

/// Maximum number of pods whose events are requested pod by pod. For more pods, one list of all
/// events in the namespace is cheaper.
const ONE_BY_ONE: usize = 8;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireEvent<'a> {
    #[serde(borrow, default)]
    metadata: ObjectMetadata<'a>,
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    reason: Cow<'a, str>,
    #[serde(borrow, default)]
    message: Cow<'a, str>,
    #[serde(borrow, default)]
    involved_object: Involved<'a>,
    #[serde(default, deserialize_with = "lenient::time")]
    last_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::time")]
    event_time: Option<Timestamp>,
    #[serde(default, deserialize_with = "lenient::count")]
    count: u32,
    #[serde(default)]
    series: Option<EventSeries>,
}

/// The repetition count of recorders of `events.k8s.io/v1`, such as kube-scheduler's, which leave
/// `count` and `lastTimestamp` empty.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventSeries {
    #[serde(default, deserialize_with = "lenient::count")]
    count: u32,
    #[serde(default, deserialize_with = "lenient::time")]
    last_observed_time: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Involved<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl EventsApi<'_> {
    /// Lists the events about the object with this UID.
    pub async fn for_object(self, namespace: &str, uid: &str) -> Result<Vec<Event>, Failure> {
        self.events_where(
            namespace,
            Some(&format!("involvedObject.uid={uid}")),
            |_| true,
        )
        .await
    }

    /// Lists the events about a job, its pods, ReplicaSets, claims, autoscaler and Service.
    pub async fn for_job(self, job: &Job) -> Result<Vec<Event>, Failure> {
        let namespace = job.namespace.as_str();
        let pods: BTreeSet<&str> = job.pods.iter().map(|pod| pod.uid.as_str()).collect();
        let mut answers = Vec::new();
        // The names of a Deployment's ReplicaSets are unknown, so their events can only be found in
        // the full list.
        if pods.len() <= ONE_BY_ONE && OwnerKind::for_job(job) != OwnerKind::Deployment {
            let by_name = format!("involvedObject.name={}", job.name);
            let of_pods = join_all(pods.iter().map(|uid| self.for_object(namespace, uid)));
            let (by_name, of_pods) = futures::future::join(
                self.events_where(namespace, Some(&by_name), |object| is_related(job, object)),
                of_pods,
            )
            .await;
            answers.push(by_name);
            answers.extend(of_pods);
            for claim in &job.claims {
                let by_owner_name = format!(
                    "involvedObject.kind=PersistentVolumeClaim,involvedObject.name={claim}"
                );
                answers.push(
                    self.events_where(namespace, Some(&by_owner_name), |_| true)
                        .await,
                );
            }
        } else {
            let is_related = |object: &Involved<'_>| {
                pods.contains(object.uid.as_ref()) || is_related(job, object)
            };
            answers.push(self.events_where(namespace, None, is_related).await);
        }
        let mut events = Vec::new();
        for answer in answers {
            events.extend(answer?);
        }
        // Drop the events of a deleted job with the same name. The API server keeps events for an
        // hour by default.
        events.retain(|event| {
            event.at.is_none() || job.created_at.is_none() || event.at >= job.created_at
        });
        events.sort_by(Event::in_order);
        Ok(events)
    }

    /// Lists the events about the StatefulSets through which a LeaderWorkerSet creates its pods:
    /// NAME, NAME-0, NAME-1, ….
    pub(crate) async fn for_groups(self, job: &Job) -> Result<Vec<Event>, Failure> {
        let sets = |object: &Involved<'_>| is_group_of(job, object);
        self.events_where(
            &job.namespace,
            Some("involvedObject.kind=StatefulSet"),
            sets,
        )
        .await
    }

    /// Lists the events that a node's kubelet reported. They are in the namespace `default`,
    /// because Nodes have no namespace.
    pub async fn for_node(self, node: &str) -> Result<Vec<Event>, Failure> {
        // Select by name, because kubelets set `involvedObject.uid` to the node's name
        // (pkg/kubelet/kubelet.go).
        let selector = format!("involvedObject.kind=Node,involvedObject.name={node}");
        self.events_where("default", Some(&selector), |_| true)
            .await
    }

    /// Lists the events with this reason, each with its namespace. `None` lists all namespaces.
    pub(crate) async fn with_reason(
        self,
        namespace: Option<&str>,
        reason: &str,
    ) -> Result<Vec<(String, Event)>, Failure> {
        let path = namespace.map_or("/api/v1/events".to_owned(), |namespace| {
            format!("/api/v1/namespaces/{namespace}/events")
        });
        let selector = format!("reason={reason}");
        let mut events = Vec::new();
        self.0
            .list(&path, &[("fieldSelector", &selector)], |page| {
                let page: ListPage<WireEvent<'_>> = page.objects()?;
                events.extend(
                    page.items
                        .iter()
                        .map(|event| (event.metadata.namespace.to_string(), event.event())),
                );
                Ok(())
            })
            .await?;
        Ok(events)
    }

    async fn events_where(
        self,
        namespace: &str,
        selector: Option<&str>,
        filter: impl Fn(&Involved<'_>) -> bool,
    ) -> Result<Vec<Event>, Failure> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let parameters: Vec<(&str, &str)> = selector
            .map(|selector| ("fieldSelector", selector))
            .into_iter()
            .collect();
        let mut events = Vec::new();
        self.0
            .list(&path, &parameters, |page| {
                let page: ListPage<WireEvent<'_>> = page.objects()?;
                events.extend(
                    page.items
                        .iter()
                        .filter(|event| filter(&event.involved_object))
                        .map(WireEvent::event),
                );
                Ok(())
            })
            .await?;
        events.sort_by(Event::in_order);
        Ok(events)
    }
}

/// Returns true if the event is about the job's owner, one of its ReplicaSets, or an object that is
/// named after the job.
fn is_related(job: &Job, object: &Involved<'_>) -> bool {
    // A ReplicaSet is named after its Deployment and the hash of the template. Checking the hash
    // excludes Deployments whose names begin with this job's name.
    let hash = object
        .name
        .strip_prefix(job.name.as_str())
        .and_then(|rest| rest.strip_prefix('-'));
    match object.kind.as_ref() {
        "StatefulSet" if job.group_size > 1 => is_group_of(job, object),
        "Job" | "Deployment" | "StatefulSet" | "LeaderWorkerSet" => object.uid == job.uid,
        "ReplicaSet" => {
            OwnerKind::for_job(job) == OwnerKind::Deployment
                && hash.is_some_and(|hash| hash.chars().all(|c| c.is_ascii_alphanumeric()))
        }
        "PersistentVolumeClaim" => job.claims.iter().any(|claim| object.name == claim.as_str()),
        "HorizontalPodAutoscaler" | "Service" | "Ingress" => object.name == job.name,
        _ => false,
    }
}

/// Returns true if the object is a StatefulSet of the job's LeaderWorkerSet.
fn is_group_of(job: &Job, object: &Involved<'_>) -> bool {
    let rest = object.name.strip_prefix(job.name.as_str());
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('-')
                .is_some_and(|number| number.parse::<u32>().is_ok())
    })
}

impl WireEvent<'_> {
    fn event(&self) -> Event {
        Event {
            // Recorders of `events.k8s.io/v1` set `eventTime` and `series`; older ones set
            // `lastTimestamp`.
            at: self
                .series
                .as_ref()
                .and_then(|series| series.last_observed_time)
                .or(self.last_timestamp)
                .or(self.event_time)
                .or(self.metadata.creation_timestamp),
            warning: self.kind == "Warning",
            reason: self.reason.to_string(),
            message: self.message.to_string(),
            object: format!(
                "{}/{}",
                self.involved_object.kind, self.involved_object.name
            ),
            // Orders events of the same second. Resource versions are opaque by contract: if one is
            // not a number, the events are ordered by message.
            version: self.metadata.resource_version.parse().unwrap_or(0),
            count: self
                .series
                .as_ref()
                .map_or(self.count, |series| series.count)
                .max(1),
        }
    }
}
