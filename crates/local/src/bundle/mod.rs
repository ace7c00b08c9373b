//! Stores responses of the cluster and of Prometheus in one file, so that read-only commands can
//! run without them on another machine. This module knows nothing about connections or commands. It
//! also records the requests that the bundle could not answer.

mod read;
mod redact;
mod serve;

pub use gpuctl_core::model::secrets::scrubbed;
pub use redact::{REDACTED, redact};

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::files::{self, FileError};

/// Version of the file format. Bundles of other versions are rejected.
const FORMAT: u32 = 1;

/// Message of `expect` on the bundle's locks.
const NEVER_POISONED: &str = "no code panics while it holds the lock";

/// The captured answers, with secrets redacted.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    format: u32,
    /// The version of gpuctl that made the bundle.
    program: String,
    /// The time of the capture, which applies to all answers.
    pub at: Timestamp,
    /// The context in the kubeconfig, used as the cluster's name in answers.
    pub cluster: String,
    /// The address of the API server.
    pub server: String,
    /// The namespace in which commands ran.
    pub namespace: String,
    /// The name of the Prometheus server; `None` if there was none.
    pub prometheus: Option<String>,
    /// Label matchers that restrict Prometheus queries to this cluster.
    #[serde(default)]
    pub matchers: Vec<(String, String)>,
    /// True if series without these labels match too.
    #[serde(default)]
    pub matchers_include_unlabeled: bool,
    /// The label that distinguishes several clusters, if this cluster's value was unknown.
    #[serde(default)]
    pub unclear: Option<(String, Vec<String>)>,
    /// Collections, by path without parameters.
    lists: BTreeMap<String, RecordedAnswer>,
    /// Single answers. Requests that commands missed are added later, while clients already hold
    /// the bundle.
    answers: Mutex<BTreeMap<Question, RecordedAnswer>>,
    /// True during the capture. A missed query then returns no series instead of an error, so that
    /// one run of a command reveals most of its queries.
    #[serde(skip)]
    is_being_made: AtomicBool,
    /// Requests that the bundle could not answer.
    #[serde(skip)]
    missed: Mutex<BTreeSet<Question>>,
}

/// One response of the API server or of Prometheus.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct RecordedAnswer {
    pub code: u16,
    pub body: Value,
}

/// A request, which must match a recorded one exactly.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, JsonSchema, Serialize)]
#[serde(into = "String", try_from = "String")]
pub enum Question {
    /// A path of the API server.
    Get(String),
    /// An access review: path and body.
    Review(String, String),
    /// The last log lines of a container: path and parameters.
    Log(String),
    /// A path of Prometheus with its parameters.
    Query(String),
}

impl From<Question> for String {
    fn from(question: Question) -> Self {
        match question {
            Question::Get(path) => format!("GET {path}"),
            Question::Review(path, body) => format!("POST {path} {body}"),
            Question::Log(path) => format!("LOG {path}"),
            Question::Query(path) => format!("QUERY {path}"),
        }
    }
}

/// Error from parsing a recorded request.
#[derive(Debug, thiserror::Error)]
pub enum QuestionError {
    #[error("a request must have a verb and a path")]
    NoPath,
    #[error("a review must have a body")]
    NoBody,
    #[error("`{0}` is not a valid request verb")]
    UnknownVerb(String),
}

impl TryFrom<String> for Question {
    type Error = QuestionError;

    fn try_from(text: String) -> Result<Self, QuestionError> {
        let (word, rest) = text.split_once(' ').ok_or(QuestionError::NoPath)?;
        let path = rest.to_owned();
        match word {
            "GET" => Ok(Self::Get(path)),
            "LOG" => Ok(Self::Log(path)),
            "QUERY" => Ok(Self::Query(path)),
            "POST" => {
                let (path, body) = rest.split_once(' ').ok_or(QuestionError::NoBody)?;
                Ok(Self::Review(path.to_owned(), body.to_owned()))
            }
            other => Err(QuestionError::UnknownVerb(other.to_owned())),
        }
    }
}

/// Error from reading or writing a bundle file.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{file} is not a gpuctl bundle: {cause}")]
    NotBundle { file: String, cause: String },
}

/// Error for a request whose response is not in the bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bundle has no answer for {what}")]
pub struct NotInBundle {
    pub what: String,
}

impl Bundle {
    pub fn new(at: Timestamp, cluster: String, server: String, namespace: String) -> Self {
        Self {
            format: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            at,
            cluster,
            server,
            namespace,
            prometheus: None,
            matchers: Vec::new(),
            matchers_include_unlabeled: false,
            unclear: None,
            lists: BTreeMap::new(),
            answers: Mutex::default(),
            is_being_made: AtomicBool::new(true),
            missed: Mutex::default(),
        }
    }

    /// Stores a response that lists a collection, with secrets redacted.
    pub fn record_list(&mut self, path: String, mut recorded: RecordedAnswer) {
        // Keep `managedFields` only in nodes, where they show when labels were written. In other
        // objects they would only enlarge the bundle.
        if !path.ends_with("/nodes") {
            let items = recorded.body.get_mut("items").and_then(Value::as_array_mut);
            let metadata = items
                .into_iter()
                .flatten()
                .filter_map(|item| item.get_mut("metadata")?.as_object_mut());
            metadata.for_each(|metadata| drop(metadata.shift_remove("managedFields")));
        }
        redact::redact(&mut recorded.body);
        self.lists.insert(path, recorded);
    }

    /// Stores the response to a single request, with secrets redacted.
    pub fn record(&self, question: Question, mut recorded: RecordedAnswer) {
        // ConfigMaps outside gpuctl's own namespace can contain anything, so store only the names
        // of their files.
        if matches!(&question, Question::Get(path) if path.contains("/configmaps") && !path.contains("/namespaces/gpuctl-system/"))
        {
            redact::hide_files(&mut recorded.body);
        }
        redact::redact(&mut recorded.body);
        self.answers
            .lock()
            .expect(NEVER_POISONED)
            .insert(question, recorded);
    }

    /// Returns the objects of a stored collection, or an empty slice if it was not captured.
    pub fn items(&self, path: &str) -> &[Value] {
        self.lists
            .get(path)
            .and_then(|recorded| recorded.body["items"].as_array())
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the pods of all namespaces, or only of the bundle's namespace if the user could not
    /// list the others.
    pub fn pods(&self) -> Vec<&Value> {
        self.namespaced_items("/api/v1", "pods")
    }

    /// Returns the objects of a namespaced kind: those of all namespaces if the user could list
    /// them, otherwise those of the bundle's namespace.
    pub fn namespaced_items(&self, api: &str, plural: &str) -> Vec<&Value> {
        let namespaced = format!("{api}/namespaces/{}/{plural}", self.namespace);
        self.items(&format!("{api}/{plural}"))
            .iter()
            .chain(self.items(&namespaced))
            .collect()
    }

    /// Looks up the response to a single request.
    pub fn answer(&self, question: &Question) -> Option<RecordedAnswer> {
        self.answers
            .lock()
            .expect(NEVER_POISONED)
            .get(question)
            .cloned()
    }

    /// Removes and returns the requests that could not be answered since the previous call.
    pub fn take_missing(&self) -> BTreeSet<Question> {
        std::mem::take(&mut *self.missed.lock().expect(NEVER_POISONED))
    }

    fn not_recorded(&self, question: Question) -> NotInBundle {
        let what = match &question {
            Question::Get(path) | Question::Log(path) | Question::Review(path, _) => path.clone(),
            Question::Query(path) => {
                form_urlencoded::parse(path.split_once('?').map_or("", |(_, rest)| rest).as_bytes())
                    .map(|(key, value)| format!("{key} {value}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            }
        };
        self.missed.lock().expect(NEVER_POISONED).insert(question);
        NotInBundle { what }
    }

    /// Answers a Prometheus query with its status code and body. During the capture, an unknown
    /// query returns no series.
    pub fn query(&self, path: &str) -> Result<(u16, String), NotInBundle> {
        let question = Question::Query(path.to_owned());
        match self.answer(&question) {
            Some(recorded) => Ok((recorded.code, recorded.body.to_string())),
            None => {
                let missing = self.not_recorded(question);
                if !self.is_being_made() {
                    return Err(missing);
                }
                let kind = if path.contains("query_range") {
                    "matrix"
                } else {
                    "vector"
                };
                Ok((
                    200,
                    json!({"status": "success", "data": {"resultType": kind, "result": []}})
                        .to_string(),
                ))
            }
        }
    }

    fn is_being_made(&self) -> bool {
        self.is_being_made.load(Ordering::Relaxed)
    }

    /// Ends the capture. From now on, unknown queries are errors.
    pub fn close(&self) {
        self.is_being_made.store(false, Ordering::Relaxed);
    }

    /// Writes the bundle to a file that only its owner can read.
    pub fn write(&self, path: &Path) -> Result<(), BundleError> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let write_error = |source: std::io::Error| FileError::Write {
            path: path.to_path_buf(),
            source,
        };
        serde_json::to_writer(&mut encoder, self).map_err(|error| write_error(error.into()))?;
        encoder.flush().map_err(write_error)?;
        let bytes = encoder.finish().map_err(write_error)?;
        Ok(files::replace(path, &bytes, files::Purpose::Private)?)
    }
}
