//! Reads the published texts under `crates/diagnosis/tests/texts/`, one file per family.
//!
//! The texts are short and literal. Names of people, their home folders and their addresses are
//! replaced. Where the source states no exit code or container state, those of the text's kind are
//! set: exit code 1 for an exception, and the code of the signal for a crash.

use std::fs;
use std::path::Path;

use serde::Deserialize;

/// One published text in its literal form, with its source and its correct explanation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// A DNS label, unique in the corpus.
    pub id: String,
    /// OWNER/REPOSITORY, or the host of a page.
    pub project: String,
    /// `issue N`, `pull N`, or a path or address.
    pub source: String,
    /// Strings in the text that are names of objects, hosts, users, files or images.
    #[serde(default)]
    pub names: Vec<String>,
    /// Acceptable classes of the first cause; see `CLASSES`.
    pub expect: Vec<String>,
    /// Kueue's Workload of a suspended Job.
    pub workload: Option<Workload>,
    /// A gang scheduler's PodGroup.
    pub group: Option<PodGroup>,
    /// The condition `PodScheduled` of a pod without a node.
    pub scheduler: Option<Condition>,
    /// Status of a pod.
    pub pod: Option<PodStatus>,
    /// State of the pod's container.
    pub container: Option<ContainerState>,
    /// Events of the pod, or of another object.
    #[serde(default)]
    pub events: Vec<TextEvent>,
    /// Conditions of a Job that has no pods.
    pub job: Option<Vec<Condition>>,
    /// The end of the container's log.
    pub log: Option<String>,
    /// The lines of the log that name the error. Several are right for exceptions that follow from
    /// each other. Empty if no line names it.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Name of the file without its extension.
    #[serde(skip)]
    pub family: String,
}

/// A condition of an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub status: Option<String>,
    pub reason: String,
    pub message: String,
}

/// Status of a Kueue Workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub checks: Vec<AdmissionCheck>,
    pub active: Option<bool>,
}

/// State of an admission check of a Workload.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionCheck {
    pub name: String,
    pub state: String,
    #[serde(default)]
    pub message: String,
}

/// Status of a pod group. `api` is its group and version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodGroup {
    pub api: String,
    #[serde(default)]
    pub members: u32,
    #[serde(default)]
    pub phase: String,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Status fields of a pod. The phase is `Failed` unless stated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PodStatus {
    pub phase: Option<String>,
    pub reason: String,
    pub message: String,
    pub conditions: Vec<Condition>,
}

/// State of a container: waiting, unless it runs or has an exit code.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ContainerState {
    pub reason: String,
    pub message: String,
    pub exit: Option<i32>,
    pub running: bool,
    pub restarts: u32,
    /// Exit code and reason of the previous run.
    pub last: Option<LastRun>,
}

/// The previous run of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LastRun {
    pub exit: i32,
    pub reason: String,
    pub message: String,
}

/// An event of the pod (`on` is absent) or of an object of another kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextEvent {
    #[serde(default)]
    pub on: Option<String>,
    /// `Warning` if absent.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    pub reason: String,
    pub message: String,
}

/// Files of the corpus.
pub const FAMILIES: [&str; 9] = [
    "queue",
    "scheduler",
    "autoscaler",
    "image",
    "node",
    "mount",
    "refused",
    "start",
    "log",
];

impl Text {
    /// Whether the project belongs to the half that the program is developed with. The other half
    /// is only scored. FNV-1a of the name decides, so the halves never change.
    pub fn is_for_development(&self) -> bool {
        let hash = self
            .project
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        // The low bits of FNV depend on few bits of the last bytes.
        (hash >> 32) % 2 == 0
    }

    /// Applies a function to every message, reason and log of the text.
    pub fn map_messages(&mut self, change: impl Fn(&str) -> String) {
        let replace = |text: &mut String| *text = change(text);
        if let Some(workload) = &mut self.workload {
            workload
                .conditions
                .iter_mut()
                .for_each(|condition| replace(&mut condition.message));
            workload
                .checks
                .iter_mut()
                .for_each(|check| replace(&mut check.message));
        }
        if let Some(group) = &mut self.group {
            group
                .conditions
                .iter_mut()
                .for_each(|condition| replace(&mut condition.message));
        }
        self.scheduler
            .iter_mut()
            .for_each(|condition| replace(&mut condition.message));
        self.job
            .iter_mut()
            .flatten()
            .for_each(|condition| replace(&mut condition.message));
        if let Some(pod) = &mut self.pod {
            replace(&mut pod.message);
            pod.conditions
                .iter_mut()
                .for_each(|condition| replace(&mut condition.message));
        }
        if let Some(container) = &mut self.container {
            replace(&mut container.message);
            container
                .last
                .iter_mut()
                .for_each(|last| replace(&mut last.message));
        }
        self.events
            .iter_mut()
            .for_each(|event| replace(&mut event.message));
        self.log.iter_mut().for_each(replace);
        self.errors.iter_mut().for_each(replace);
    }
}

/// Reads all texts, in the order of the files.
pub fn texts() -> Vec<Text> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/diagnosis/tests/texts");
    let mut texts = Vec::new();
    for family in FAMILIES {
        let path = folder.join(format!("{family}.yaml"));
        let source = fs::read_to_string(&path).unwrap();
        let read: Vec<Text> = serde_saphyr::from_str(&source)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        texts.extend(read.into_iter().map(|text| Text {
            family: family.to_owned(),
            ..text
        }));
    }
    texts
}
