//! Records a cluster into a bundle: the collections that commands read, and the responses to
//! individual requests. Secrets are never read. ConfigMaps of other owners are reduced to the names
//! of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use futures::stream::{self, StreamExt};
use http::Method;
use serde_json::{Value, json};

use super::http::with_query;
use crate::{Connection, Failure};
use gpuctl_local::bundle::{Bundle, Question, RecordedAnswer};

/// API groups with the collections that commands read. The core group has an empty name.
const COLLECTIONS: [(&str, &[&str]); 13] = [
    (
        "",
        &[
            "nodes",
            "pods",
            "services",
            "events",
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
            "limitranges",
            "replicationcontrollers",
        ],
    ),
    (
        "apps",
        &["deployments", "replicasets", "statefulsets", "daemonsets"],
    ),
    ("batch", &["jobs", "cronjobs"]),
    ("autoscaling", &["horizontalpodautoscalers"]),
    (
        "networking.k8s.io",
        &["ingresses", "ingressclasses", "networkpolicies"],
    ),
    ("storage.k8s.io", &["storageclasses", "csinodes"]),
    (
        "scheduling.k8s.io",
        &["priorityclasses", "podgroups", "workloads"],
    ),
    (
        "resource.k8s.io",
        &[
            "resourceclaims",
            "resourceslices",
            "deviceclasses",
            "resourceclaimtemplates",
            "devicetaintrules",
        ],
    ),
    (
        "kueue.x-k8s.io",
        &[
            "clusterqueues",
            "localqueues",
            "workloads",
            "resourceflavors",
            "topologies",
        ],
    ),
    ("scheduling.volcano.sh", &["queues", "podgroups"]),
    ("scheduling.run.ai", &["podgroups"]),
    ("scheduling.x-k8s.io", &["podgroups"]),
    ("leaderworkerset.x-k8s.io", &["leaderworkersets"]),
];
/// Collection of the ConfigMaps with pools, the site's defaults and facts about nodes.
const OWN_CONFIG: &str = "/api/v1/namespaces/gpuctl-system/configmaps";
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 4;
/// Number of lines kept from each log.
const LINES: &str = "200";
/// Maximum number of bytes read from a log if the server ignores `limitBytes`.
const LARGEST_LOG: usize = 1 << 20;
/// Number of bytes kept from each log.
const BYTES: &str = "1000000";

impl Connection {
    /// Reads discovery and all collections into a bundle. Returns the collections that could not be
    /// read, with the reason for each.
    pub async fn capture(&self, bundle: &mut Bundle) -> Result<Vec<String>, Failure> {
        let version = self.kept("/version").await?;
        bundle.record(Question::Get("/version".to_owned()), version);
        let groups = self.kept("/apis").await?;
        let versions = keep_groups(&groups.body, bundle);
        bundle.record(Question::Get("/apis".to_owned()), groups);
        let resources: Vec<(String, RecordedAnswer)> = stream::iter(versions)
            .map(|path| async move { (path.clone(), self.kept(&path).await) })
            .buffered(AT_ONCE)
            .filter_map(async |(path, answer)| Some((path, answer.ok()?)))
            .collect()
            .await;
        let mut lists: BTreeMap<String, bool> = BTreeMap::from([(OWN_CONFIG.to_owned(), false)]);
        for (path, answer) in &resources {
            let group = path
                .strip_prefix("/apis/")
                .and_then(|group| group.split_once('/'))
                .map_or("", |(group, _)| group);
            let plurals = COLLECTIONS
                .iter()
                .find(|(name, _)| *name == group)
                .map_or(&[][..], |(_, plurals)| plurals);
            lists.extend(collections(path, &answer.body, |resource| {
                plurals.iter().any(|plural| resource["name"] == *plural)
            }));
        }
        let mut unread = self.read_lists(lists, bundle).await;
        let owners = owners(&bundle.pods());
        let mut owner_lists = BTreeMap::new();
        for (path, answer) in &resources {
            let api = path
                .trim_start_matches("/apis/")
                .trim_start_matches("/api/");
            let is_owner = |resource: &Value| {
                resource["kind"]
                    .as_str()
                    .is_some_and(|kind| owners.contains(&(api.to_owned(), kind.to_owned())))
            };
            owner_lists.extend(collections(path, &answer.body, is_owner));
        }
        // Skip collections that `bundle` already contains.
        owner_lists.retain(|path, _| bundle.items(path).is_empty());
        unread.extend(self.read_lists(owner_lists, bundle).await);
        for (path, answer) in resources {
            bundle.record(Question::Get(path), answer);
        }
        Ok(unread)
    }

    /// Reads collections, given by their path and whether they are namespaced. Falls back to the
    /// current namespace if the user cannot list all namespaces. Returns the collections that could
    /// not be read.
    async fn read_lists(&self, lists: BTreeMap<String, bool>, bundle: &mut Bundle) -> Vec<String> {
        let answers = stream::iter(lists).map(|(path, namespaced)| async move {
            let answer = self.read_list(&path).await;
            let own_namespace = match &answer {
                Ok(RecordedAnswer { code: 403, .. }) if namespaced => {
                    let (api, plural) =
                        path.rsplit_once('/').expect("a collection is below an API");
                    let own_path = format!("{api}/namespaces/{}/{plural}", self.namespace);
                    let own_answer = self.read_list(&own_path).await;
                    Some((own_path, own_answer))
                }
                _ => None,
            };
            std::iter::once((path, answer))
                .chain(own_namespace)
                .collect::<Vec<_>>()
        });
        let mut unread = Vec::new();
        let mut answers = answers.buffered(AT_ONCE);
        while let Some(batch) = answers.next().await {
            for (path, answer) in batch {
                match answer {
                    // Record the bundle even if some collections cannot be read.
                    Err(failure) => unread.push(format!("{path}: {failure}")),
                    Ok(answer) => {
                        if answer.code != 200 {
                            unread.push(format!("{path}: {}", answer.code));
                        }
                        bundle.record_list(path, answer);
                    }
                }
            }
        }
        unread
    }

    /// Reads all pages of a collection. Records a permanent error of the API server as the
    /// response.
    async fn read_list(&self, path: &str) -> Result<RecordedAnswer, Failure> {
        let mut list: Option<Value> = None;
        let listing = self.list_whole(path, &[], |page| {
            let mut page: Value = page.decode()?;
            match &mut list {
                None => list = Some(page),
                Some(list) => {
                    let items = page["items"]
                        .as_array_mut()
                        .map(std::mem::take)
                        .unwrap_or_default();
                    list["items"]
                        .as_array_mut()
                        .expect("the first page is a list")
                        .extend(items);
                }
            }
            Ok(())
        });
        let result = listing.await;
        answered(result.map(|()| list.unwrap_or_default()))
    }

    /// Reads one response. Records a permanent error of the API server as the response.
    async fn kept(&self, path: &str) -> Result<RecordedAnswer, Failure> {
        answered(self.get::<Value>(path).await)
    }

    /// Requests a response that the bundle lacks. Returns `None` for requests to other servers.
    pub async fn captured(&self, question: &Question) -> Result<Option<RecordedAnswer>, Failure> {
        match question {
            Question::Get(path) if path.contains("/secrets") => Ok(None),
            Question::Get(path) => self.kept(path).await.map(Some),
            Question::Review(path, body) => {
                let response = self
                    .send(&Method::POST, path, "application/json", body.clone().into())
                    .await;
                answered(response.and_then(|answer| answer.json::<Value>(self.server()))).map(Some)
            }
            Question::Log(path) => {
                let path = format!(
                    "{path}&{}",
                    with_query(
                        "",
                        &[
                            ("timestamps", "true"),
                            ("tailLines", LINES),
                            ("limitBytes", BYTES)
                        ]
                    )
                    .trim_start_matches('?')
                );
                let mut text = String::new();
                // The server may ignore `limitBytes` and send more.
                let lines = self.stream_some(&path, true, LARGEST_LOG, |line| {
                    text.push_str(&String::from_utf8_lossy(line));
                    text.push('\n');
                    ControlFlow::Continue(())
                });
                let result = lines.await;
                answered(result.map(|_| text.into())).map(Some)
            }
            Question::Query(_) => Ok(None),
        }
    }
}

/// Records every API group, and returns the paths of all served versions.
fn keep_groups(list: &Value, bundle: &mut Bundle) -> Vec<String> {
    let mut versions = vec!["/api/v1".to_owned()];
    for group in list["groups"].as_array().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        bundle.record(
            Question::Get(format!("/apis/{name}")),
            RecordedAnswer {
                code: 200,
                body: group.clone(),
            },
        );
        let served = group["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|version| version["groupVersion"].as_str());
        versions.extend(served.map(|version| format!("/apis/{version}")));
    }
    versions
}

/// Selects the listable collections of one API version that satisfy `is_wanted`. The flag says
/// whether a collection is namespaced.
fn collections<'a>(
    path: &'a str,
    resources: &'a Value,
    is_wanted: impl Fn(&Value) -> bool + 'a,
) -> impl Iterator<Item = (String, bool)> + 'a {
    let listable = |resource: &Value| {
        resource["verbs"]
            .as_array()
            .is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
    };
    resources["resources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(move |resource| listable(resource) && is_wanted(resource))
        .filter_map(move |resource| {
            let plural = resource["name"]
                .as_str()
                .filter(|plural| *plural != "secrets")?;
            Some((
                format!("{path}/{plural}"),
                resource["namespaced"].as_bool().unwrap_or_default(),
            ))
        })
}

/// Lists the (API version, kind) pairs of all pod owners.
fn owners(pods: &[&Value]) -> BTreeSet<(String, String)> {
    let references = pods
        .iter()
        .filter_map(|pod| pod["metadata"]["ownerReferences"].as_array())
        .flatten();
    references
        .filter_map(|reference| {
            Some((
                reference["apiVersion"].as_str()?.to_owned(),
                reference["kind"].as_str()?.to_owned(),
            ))
        })
        .collect()
}

/// Converts permanent errors of the API server to recorded responses. Temporary errors, such as
/// those of an overloaded server, remain failures.
fn answered(result: Result<Value, Failure>) -> Result<RecordedAnswer, Failure> {
    match result {
        Ok(body) => Ok(RecordedAnswer { code: 200, body }),
        Err(Failure::Api {
            code,
            reason,
            message,
            ..
        }) if matches!(code, 403 | 404 | 405 | 410) => {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
            Ok(RecordedAnswer { code, body })
        }
        Err(failure) => Err(failure),
    }
}
