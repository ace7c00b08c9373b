//! What a file can say, field by field.

use std::time::Duration;

use super::defaults_document::SiteDefaults;
use super::fields::{Located, WrittenGpuType};
use super::pool_document::{Pool, Quota};
use super::service_document::{Autoscaling, Service};
use super::site_share::SiteShare;
use super::values::{EnvVariable, Priority, Restart};
use gpuctl_core::error::Problems;
use gpuctl_core::model::{GangWish, JobKind, QueueSystem};

/// The documents of a file that has no errors.
#[derive(Debug)]
pub struct Parsed {
    /// In the order of the file.
    pub documents: Vec<Document>,
    /// Problems that do not prevent submission.
    pub warnings: Problems,
}

/// A document of any kind.
#[derive(Clone, Debug)]
pub enum Document {
    /// A training, service or notebook.
    Job(Box<JobDocument>),
    /// A pool of nodes.
    Pool(Box<Pool>),
    /// Limits of namespaces.
    Quota(Box<Quota>),
    /// What the site sets for everybody's jobs.
    Defaults(Box<SiteDefaults>),
}

impl Document {
    /// Returns the name under which it is created.
    pub fn name(&self) -> &str {
        match self {
            Self::Job(job) => &job.name.value,
            Self::Pool(pool) => &pool.name.value,
            Self::Quota(quota) => &quota.name,
            Self::Defaults(_) => SiteDefaults::NAME,
        }
    }

    /// Returns the word behind `kind:`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Job(job) => job.kind.word(),
            Self::Pool(_) => "pool",
            Self::Quota(_) => "quota",
            Self::Defaults(_) => "defaults",
        }
    }
}

/// An entry of `files`: a local file to copy into the job's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    /// The path in the container.
    pub path: String,
    /// The path on this machine, as written in the file.
    pub local: Located<String>,
}

/// A training, an inference service, a notebook or a compute service.
#[derive(Clone, Debug)]
pub struct JobDocument {
    /// `kind`.
    pub kind: JobKind,
    /// `version`.
    pub version: String,
    /// The document as written, comments included.
    pub source: String,
    /// The name, with its place in the file.
    pub name: Located<String>,
    /// The name with what `--generate-name` appends to it.
    pub generated: Option<String>,
    /// `job.namespace`.
    pub namespace: Option<Located<String>>,
    /// Free text.
    pub description: Option<String>,
    /// `job.priority`.
    pub priority: Option<Priority>,
    /// `job.labels`.
    pub labels: Vec<(String, String)>,
    /// `job.annotations`.
    pub annotations: Vec<(String, String)>,
    /// `job.queue`, of Kueue or Volcano.
    pub queue: Option<String>,
    /// `job.queue_system`; `None` where it is found out.
    pub queue_system: Option<QueueSystem>,
    /// `environment.image`.
    pub image: String,
    /// `environment.imagePullSecret`.
    pub image_pull_secrets: Vec<String>,
    /// `environment.imagePullPolicy`.
    pub image_pull_policy: Option<&'static str>,
    /// `environment.command`.
    pub command: Command,
    /// `environment.args`.
    pub args: Command,
    /// `environment.env`.
    pub env: Vec<EnvVariable>,
    /// `environment.workingDir`.
    pub working_dir: Option<String>,
    /// `model`.
    pub model: Option<Model>,
    /// `resources`, per pod.
    pub resources: JobResources,
    /// `storage.workdirs`.
    pub workdirs: Vec<Workdir>,
    /// `security`.
    pub security: super::Security,
    /// Merged into the pod spec as it stands.
    pub pod: Option<serde_json::Value>,
    /// Local files that gpuctl reads from this machine.
    pub files: Vec<AttachedFile>,
    /// Time between SIGTERM and SIGKILL.
    pub grace_period: Option<Duration>,
    /// What only trainings have.
    pub training: Training,
    /// `service`, of services and notebooks.
    pub service: Option<Service>,
    /// `autoscaling`, of services.
    pub autoscaling: Option<Autoscaling>,
    /// What the site adds; empty as long as only the file is known.
    pub site: SiteShare,
}

impl JobDocument {
    /// Appends `suffix`: the name stays, the id gets it. False when the id would be too long.
    pub fn append(&mut self, suffix: &str) -> bool {
        let id = format!("{}-{suffix}", self.name.value);
        let fits = id.len() <= longest_name(self.kind, self.resources.node_count);
        self.generated = Some(id);
        fits
    }

    /// `command` and `args` as one line, for those who look for a program or a flag in it.
    pub fn line(&self) -> String {
        let words = |command: &Command| match command {
            Command::Image => String::new(),
            Command::Shell(line) => line.clone(),
            Command::Exec(words) => words.join(" "),
        };
        format!("{} {}", words(&self.command), words(&self.args))
    }

    /// Returns the name of the objects that are made, and the contract's `jobId`.
    pub fn id(&self) -> &str {
        self.generated.as_deref().unwrap_or(&self.name.value)
    }
}

/// A command, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// The image's own.
    #[default]
    Image,
    /// One string, for `sh -c`.
    Shell(String),
    /// A list of words, run without a shell.
    Exec(Vec<String>),
}

/// `model`: what placeholders and the model cache refer to.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// A hub or registry.
    pub source: Option<String>,
    /// The name of the model.
    pub name: Option<String>,
    /// A revision of the model.
    pub version: Option<String>,
    /// Such as `safetensors`.
    pub format: Option<String>,
    /// Whether the cache folder is mounted.
    pub cache: bool,
    /// Where the model lies in the container.
    pub path: Option<String>,
}

/// `resources`: what each pod requests.
#[derive(Clone, Debug)]
pub struct JobResources {
    /// `default` is no restriction and reads as none.
    pub pool: Option<Located<String>>,
    /// `pool: default` was written: no restriction, whatever the site's default.
    pub no_pool: bool,
    /// Per pod.
    pub gpu: u32,
    /// Place of `gpu` in the file.
    pub gpu_at: Option<super::FilePosition>,
    /// `gpu-type`.
    pub gpu_type: Option<Located<WrittenGpuType>>,
    /// `gpu_share`.
    pub gpu_share: Option<Located<Share>>,
    /// A quantity of CPUs.
    pub cpu: Option<String>,
    /// A quantity of bytes.
    pub memory: Option<String>,
    /// The size of `/dev/shm`.
    pub shm: Option<String>,
    /// Devices of the network between nodes.
    pub rdma: Option<Rdma>,
    /// Names of nodes that its pods must not use.
    pub exclude_nodes: Vec<String>,
    /// `qos: guaranteed`: what is requested is also the limit.
    pub guaranteed: bool,
    /// Pods of a training, or of each replica of a service; each is on GPUs of its own. At least 1.
    pub node_count: u32,
}

impl Default for JobResources {
    fn default() -> Self {
        Self {
            pool: None,
            no_pool: false,
            gpu: 0,
            gpu_at: None,
            gpu_type: None,
            gpu_share: None,
            cpu: None,
            memory: None,
            shm: None,
            rdma: None,
            exclude_nodes: Vec::new(),
            guaranteed: false,
            node_count: 1,
        }
    }
}

/// `resources.rdma`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rdma {
    /// What the nodes have, in proportion to the GPUs.
    Auto,
    /// So many of a resource, for each pod.
    Named {
        /// The resource's name, with its domain.
        name: String,
        /// At least one.
        count: u32,
    },
}

/// A part of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Share {
    /// Device memory as written.
    Memory(String),
    /// Above 0, up to 1, which is the whole device.
    Fraction(f64),
}

/// A folder that is mounted.
#[derive(Clone, Debug)]
pub struct Workdir {
    /// Where it appears in the container.
    pub path: String,
    /// Where it comes from.
    pub source: WorkdirSource,
    /// Mounted without the right to write.
    pub read_only: bool,
    /// A single file, by `type:` or by its ending.
    pub file: bool,
}

/// Where a mounted folder comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkdirSource {
    /// A path of the node.
    Host(String),
    /// A claim that exists.
    Claim {
        /// The name of the claim.
        name: String,
        /// A folder within it.
        sub_path: Option<String>,
    },
    /// A claim that is made.
    Size {
        /// A quantity of bytes.
        size: String,
        /// The default class without it.
        storage_class: Option<String>,
        /// The default of the kind without it.
        access: Option<VolumeAccess>,
    },
    /// A folder that ends with the pod.
    Empty,
    /// The files of a ConfigMap.
    ConfigMap(String),
    /// The files of a Secret.
    Secret(String),
}

/// Access modes of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum VolumeAccess {
    /// One node reads and writes.
    ReadWriteOnce,
    /// Many nodes read and write.
    ReadWriteMany,
    /// Many nodes read.
    ReadOnlyMany,
    /// One pod reads and writes.
    ReadWriteOncePod,
}

impl VolumeAccess {
    /// Kubernetes' word.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// `checkpoint`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// A folder of the container.
    pub path: Located<String>,
    /// Arguments for the command as soon as the folder has something in it.
    pub resume: Vec<String>,
}

/// Fields of `kind: training` only.
#[derive(Clone, Debug)]
pub struct Training {
    /// Passed on as a variable.
    pub epochs: Option<u32>,
    /// Per GPU.
    pub batch_size: Option<u32>,
    /// How often a failure is followed by another attempt.
    pub retries: u32,
    /// What a failure restarts; `None` where the file does not say.
    pub restart: Option<Restart>,
    /// Longest time without a line from any rank.
    pub hang_timeout: Option<Duration>,
    /// Where checkpoints lie, and how to go on from them.
    pub checkpoint: Option<Checkpoint>,
    /// Longest run of the job.
    pub max_runtime: Option<Duration>,
    /// Who is to place the pods together.
    pub gang: GangWish,
    /// `rack`, `block`, or the label of nodes that says what is near.
    pub topology: Option<Located<String>>,
    /// Time after which a half-placed gang gives its GPUs back.
    pub gang_timeout: Option<Duration>,
    /// How long the finished job is kept.
    pub keep_for: Option<Duration>,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            epochs: None,
            batch_size: None,
            retries: 3,
            restart: None,
            hang_timeout: None,
            checkpoint: None,
            max_runtime: None,
            gang: GangWish::Auto,
            topology: None,
            gang_timeout: None,
            keep_for: None,
        }
    }
}

/// Returns the longest name whose pods and objects Kubernetes accepts: an Indexed Job appends `-`
/// and the highest index to a name of 63, a StatefulSet beyond 52 is accepted and never gets a pod.
/// A LeaderWorkerSet makes StatefulSets whose names have a number as well.
pub fn longest_name(kind: JobKind, node_count: u32) -> usize {
    match kind {
        JobKind::Training => 62 - node_count.saturating_sub(1).to_string().len(),
        JobKind::Notebook => 52,
        JobKind::Inference | JobKind::Compute if node_count > 1 => 46,
        JobKind::Inference | JobKind::Compute => 63,
    }
}
