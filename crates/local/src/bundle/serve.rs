//! Answers requests to the API server from a bundle: objects, lists with selectors and pages,
//! discovery, logs. Requests that the cluster denied are denied again. Requests that were not
//! captured are errors, never guessed responses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Bundle, NotInBundle, Question, RecordedAnswer};
use gpuctl_core::model::values::selector::Selector;

/// A response with its content type.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub media: &'static str,
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";

impl Bundle {
    /// Answers one request. `path` includes the query parameters.
    pub fn reply(&self, method: &str, path: &str, body: &[u8]) -> Result<Reply, NotInBundle> {
        let (location, query) = path.split_once('?').unwrap_or((path, ""));
        let parameters: BTreeMap<String, String> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        if method == "POST" && location.ends_with("reviews") {
            return self.exact(Question::Review(
                location.to_owned(),
                String::from_utf8_lossy(body).into_owned(),
            ));
        }
        if method != "GET" {
            return Ok(status(
                405,
                "MethodNotAllowed",
                "a bundle is read-only; remove --replay to use the cluster",
            ));
        }
        if parameters.contains_key("watch")
            || parameters
                .get("follow")
                .is_some_and(|follow| follow == "true")
        {
            return Err(NotInBundle {
                what: format!("{location}: it is a watch, and a bundle does not change"),
            });
        }
        if location.ends_with("/log") {
            return self.log(location, &parameters);
        }
        if let Some(recorded) = self.lists.get(location) {
            return Ok(listed(recorded, None, &parameters));
        }
        let (parent, last) = location.rsplit_once('/').unwrap_or(("", location));
        let split = split_namespace(location);
        if let Some((namespace, cluster_wide)) = &split
            && let Some(recorded) = self
                .lists
                .get(cluster_wide)
                .filter(|recorded| recorded.code == 200)
        {
            return Ok(listed(recorded, Some(namespace), &parameters));
        }
        // A user without the right to `list` may still `get` single objects. Use only collections
        // that were listed successfully, and otherwise look up the recorded response for the
        // object.
        let readable = |path: &str| self.lists.get(path).filter(|recorded| recorded.code == 200);
        let collection = readable(parent).map(|recorded| (recorded, None));
        let collection = collection.or_else(|| {
            let (namespace, cluster_wide) = split_namespace(parent)?;
            readable(&cluster_wide).map(|recorded| (recorded, Some(namespace)))
        });
        if let Some((recorded, namespace)) = collection {
            return Ok(object(recorded, namespace.as_deref(), last));
        }
        if !self.serves(location) {
            return Ok(status(
                404,
                "NotFound",
                "the server could not find the requested resource",
            ));
        }
        self.exact(Question::Get(path.to_owned()))
    }

    fn exact(&self, question: Question) -> Result<Reply, NotInBundle> {
        if let Some(recorded) = self.answer(&question) {
            return Ok(raw(&recorded));
        }
        let is_review = matches!(question, Question::Review(..));
        let missing = self.not_recorded(question);
        if is_review && self.is_being_made() {
            // Grant every access review during the capture, so that a single run of a command
            // reveals all of its reviews.
            let granted = json!({"status": {"allowed": true, "userInfo": {"username": ""}}});
            return Ok(raw(&RecordedAnswer {
                code: 201,
                body: granted,
            }));
        }
        Err(missing)
    }

    /// Returns false if API discovery shows that the cluster has no such group, version or
    /// resource.
    fn serves(&self, location: &str) -> bool {
        let mut parts = location.trim_start_matches('/').split('/');
        if parts.next() != Some("apis") {
            return true;
        }
        let (Some(group), version) = (parts.next(), parts.next()) else {
            return true;
        };
        let Some(RecordedAnswer { code: 200, body }) =
            self.answer(&Question::Get("/apis".to_owned()))
        else {
            return true;
        };
        let groups = body["groups"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(group_entry) = groups.iter().find(|entry| entry["name"] == group) else {
            return false;
        };
        let versions = group_entry["versions"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let Some(version) = version else { return true };
        if !versions.iter().any(|entry| entry["version"] == version) {
            return false;
        }
        let rest: Vec<&str> = parts.collect();
        let plural = if rest.first() == Some(&"namespaces") {
            rest.get(2)
        } else {
            rest.first()
        };
        let resources = self.answer(&Question::Get(format!("/apis/{group}/{version}")));
        match (plural, resources) {
            (Some(plural), Some(RecordedAnswer { code: 200, body })) => {
                body["resources"].as_array().is_some_and(|api_resources| {
                    api_resources.iter().any(|entry| entry["name"] == *plural)
                })
            }
            _ => true,
        }
    }

    /// Answers with the last lines of a container: all stored lines, or as many as the parameters
    /// request.
    fn log(
        &self,
        location: &str,
        parameters: &BTreeMap<String, String>,
    ) -> Result<Reply, NotInBundle> {
        let container = parameters.get("container").map_or("", String::as_str);
        let previous = if parameters.contains_key("previous") {
            "&previous=true"
        } else {
            ""
        };
        let question = Question::Log(format!("{location}?container={container}{previous}"));
        let Some(recorded) = self.answer(&question) else {
            return Err(self.not_recorded(question));
        };
        let Value::String(text) = &recorded.body else {
            return Ok(raw(&recorded));
        };
        let since = parameters
            .get("sinceSeconds")
            .and_then(|seconds| seconds.parse::<i64>().ok());
        let oldest = since.map(|seconds| self.at.as_second() - seconds);
        let timestamp = |line: &str| {
            line.split(' ')
                .next()
                .and_then(|time| time.parse::<jiff::Timestamp>().ok())
        };
        let is_new = |line: &&str| {
            oldest
                .is_none_or(|oldest| timestamp(line).is_some_and(|time| time.as_second() >= oldest))
        };
        let lines: Vec<&str> = text.lines().filter(is_new).collect();
        let tail = parameters
            .get("tailLines")
            .and_then(|count| count.parse().ok())
            .unwrap_or(lines.len());
        let body: String = lines[lines.len().saturating_sub(tail)..]
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        Ok(Reply {
            code: recorded.code,
            media: "text/plain",
            body: body.into_bytes(),
        })
    }
}

/// Splits `/api/v1/namespaces/x/pods` into `x` and `/api/v1/pods`.
fn split_namespace(location: &str) -> Option<(String, String)> {
    let (api, rest) = location.split_once("/namespaces/")?;
    let (namespace, plural) = rest.split_once('/')?;
    (!plural.contains('/')).then(|| (namespace.to_owned(), format!("{api}/{plural}")))
}

fn raw(recorded: &RecordedAnswer) -> Reply {
    Reply {
        code: recorded.code,
        media: JSON,
        body: recorded.body.to_string().into_bytes(),
    }
}

fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    Reply {
        code,
        media: JSON,
        body: body.to_string().into_bytes(),
    }
}

fn object(recorded: &RecordedAnswer, namespace: Option<&str>, name: &str) -> Reply {
    let items = recorded.body["items"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_match = |item: &&Value| {
        item["metadata"]["name"] == name
            && namespace.is_none_or(|namespace| item["metadata"]["namespace"] == namespace)
    };
    let Some(listed_item) = items.iter().find(is_match) else {
        return status(404, "NotFound", &format!("\"{name}\" not found"));
    };
    let mut object = listed_item.clone();
    object["apiVersion"] = recorded.body["apiVersion"].clone();
    object["kind"] = recorded.body["kind"]
        .as_str()
        .unwrap_or_default()
        .trim_end_matches("List")
        .into();
    Reply {
        code: 200,
        media: JSON,
        body: object.to_string().into_bytes(),
    }
}

/// Answers with one page of a list, filtered by the request's selectors. The continue token is the
/// number of objects before the page.
fn listed(
    recorded: &RecordedAnswer,
    namespace: Option<&str>,
    parameters: &BTreeMap<String, String>,
) -> Reply {
    if recorded.code != 200 {
        return raw(recorded);
    }
    let labels = match parameters
        .get("labelSelector")
        .filter(|text| !text.is_empty())
        .map(|text| Selector::parse(text))
    {
        Some(None) => return status(400, "BadRequest", "the label selector is invalid"),
        Some(parsed) => parsed,
        None => None,
    };
    let fields = parameters.get("fieldSelector").map_or("", String::as_str);
    let items = recorded.body["items"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_wanted = |item: &&Value| {
        namespace.is_none_or(|namespace| item["metadata"]["namespace"] == namespace)
            && labels
                .as_ref()
                .is_none_or(|labels| labels.matches(&labels_of(item)))
            && has_fields(item, fields)
    };
    let number = |key: &str| {
        parameters
            .get(key)
            .and_then(|text| text.parse::<usize>().ok())
    };
    let (start, limit) = (
        number("continue").unwrap_or(0),
        number("limit").unwrap_or(usize::MAX),
    );
    let matches: Vec<&Value> = items
        .iter()
        .filter(is_wanted)
        .skip(start)
        .take(limit.saturating_add(1))
        .collect();
    let is_truncated = matches.len() > limit;
    let mut metadata = recorded.body["metadata"].clone();
    metadata["continue"] = if is_truncated {
        (start + limit).to_string().into()
    } else {
        "".into()
    };
    let page = &matches[..matches.len().min(limit)];
    let body = json!({"kind": recorded.body["kind"], "apiVersion": recorded.body["apiVersion"], "metadata": metadata, "items": page});
    Reply {
        code: 200,
        media: JSON,
        body: body.to_string().into_bytes(),
    }
}

fn labels_of(item: &Value) -> BTreeMap<String, String> {
    let labels = item["metadata"]["labels"].as_object();
    labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Evaluates a field selector such as `status.phase!=Failed,spec.nodeName=a`. A missing field
/// equals the empty string, as in the API server.
fn has_fields(item: &Value, selector: &str) -> bool {
    selector
        .split(',')
        .filter(|rule| !rule.is_empty())
        .all(|rule| {
            let (path, value, equal) = match rule.split_once("!=") {
                Some((path, value)) => (path, value, false),
                None => rule
                    .split_once("==")
                    .or_else(|| rule.split_once('='))
                    .map_or((rule, "", true), |(path, value)| (path, value, true)),
            };
            let actual = item
                .pointer(&format!("/{}", path.replace('.', "/")))
                .and_then(Value::as_str)
                .unwrap_or_default();
            (actual == value) == equal
        })
}

#[cfg(test)]
mod tests;
