//! Documents of a file, with their fields as parsed.

use std::time::Duration;

use super::defaults_document::SiteDefaults;
use super::fields::{Located, WrittenGpuType};
use super::pool_document::{Pool, Quota};
use super::service_document::{Autoscaling, Service};
use super::site_share::SiteShare;
use super::values::{EnvVariable, Priority, Restart};
use gpuctl_core::error::Problems;
use gpuctl_core::model::{GangMode, JobKind, QueueSystem};

/// Documents of a file without errors.
#[derive(Debug)]
pub struct Parsed {
    /// In file order.
    pub documents: Vec<Document>,
    /// Problems that do not prevent submission.
    pub warnings: Problems,
}

#[derive(Clone, Debug)]
pub enum Document {
    /// A training, inference, notebook or compute service.
    Job(Box<JobDocument>),
    /// A pool of nodes.
    Pool(Box<Pool>),
    /// Quotas of namespaces.
    Quota(Box<Quota>),
    /// The site's defaults for all jobs.
    Defaults(Box<SiteDefaults>),
}

impl Document {
    /// Returns the name of the object that the document creates.
    pub fn name(&self) -> &str {
        match self {
            Self::Job(job) => &job.name.value,
            Self::Pool(pool) => &pool.name.value,
            Self::Quota(quota) => &quota.name,
            Self::Defaults(_) => SiteDefaults::NAME,
        }
    }

    /// Returns the value of `kind:`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Job(job) => job.kind.word(),
            Self::Pool(_) => "pool",
            Self::Quota(_) => "quota",
            Self::Defaults(_) => "defaults",
        }
    }
}

/// An entry of `files`: a local file that is copied into the job's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    /// The path in the container.
    pub path: String,
    /// The path on this machine, as written in the file.
    pub local: Located<String>,
}

#[derive(Clone, Debug)]
pub struct JobDocument {
    pub kind: JobKind,
    pub version: String,
    /// The document as written, with its comments.
    pub source: String,
    /// The name, with its position in the file.
    pub name: Located<String>,
    /// The name with the suffix of `--generate-name`, if the option is used.
    pub generated: Option<String>,
    /// `job.namespace`.
    pub namespace: Option<Located<String>>,
    /// `job.description`.
    pub description: Option<String>,
    /// `job.priority`.
    pub priority: Option<Priority>,
    /// `job.labels`.
    pub labels: Vec<(String, String)>,
    /// `job.annotations`.
    pub annotations: Vec<(String, String)>,
    /// `job.queue`, a queue of Kueue or Volcano.
    pub queue: Option<String>,
    /// `job.queue_system`; `None` to detect the queue system.
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
    pub model: Option<Model>,
    /// `resources`, per pod.
    pub resources: JobResources,
    /// `storage.workdirs`.
    pub workdirs: Vec<Workdir>,
    pub security: super::Security,
    /// `pod`, which is merged into the pod spec.
    pub pod: Option<serde_json::Value>,
    /// `files`, local files that gpuctl reads on this machine.
    pub files: Vec<AttachedFile>,
    /// Time between SIGTERM and SIGKILL.
    pub grace_period: Option<Duration>,
    /// Fields that only trainings have.
    pub training: Training,
    /// `service`, of services and notebooks.
    pub service: Option<Service>,
    /// `autoscaling`, of services.
    pub autoscaling: Option<Autoscaling>,
    /// Values inherited from the site's defaults; empty until they are applied.
    pub site: SiteShare,
}

impl JobDocument {
    /// Appends `suffix` to the job's id, but not to its name. Returns false if the id becomes too
    /// long.
    pub fn append(&mut self, suffix: &str) -> bool {
        let id = format!("{}-{suffix}", self.name.value);
        let fits = id.len() <= longest_name(self.kind, self.resources.node_count);
        self.generated = Some(id);
        fits
    }

    /// Joins `command` and `args` into one line, to search it for programs and flags.
    pub fn line(&self) -> String {
        let words = |command: &Command| match command {
            Command::Image => String::new(),
            Command::Shell(line) => line.clone(),
            Command::Exec(words) => words.join(" "),
        };
        format!("{} {}", words(&self.command), words(&self.args))
    }

    /// Returns the name of the job's objects, which is `jobId` in JSON output.
    pub fn id(&self) -> &str {
        self.generated.as_deref().unwrap_or(&self.name.value)
    }
}

/// `command` or `args`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// The image's default.
    #[default]
    Image,
    /// One string, run with `sh -c`.
    Shell(String),
    /// A list of words, run without a shell.
    Exec(Vec<String>),
}

/// `model`, which placeholders and the model cache refer to.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// A model hub or registry.
    pub source: Option<String>,
    pub name: Option<String>,
    pub version: Option<String>,
    /// The format, such as `safetensors`.
    pub format: Option<String>,
    /// Whether the cache directory is mounted.
    pub cache: bool,
    /// The model's path in the container.
    pub path: Option<String>,
}

/// `resources`, the requests of each pod.
#[derive(Clone, Debug)]
pub struct JobResources {
    /// `pool: default` means no restriction and becomes `None`.
    pub pool: Option<Located<String>>,
    /// Whether the file says `pool: default`: no restriction, even if the site has a default pool.
    pub no_pool: bool,
    /// GPUs per pod.
    pub gpu: u32,
    /// Position of `gpu` in the file.
    pub gpu_at: Option<super::FilePosition>,
    /// `gpu-type`.
    pub gpu_type: Option<Located<WrittenGpuType>>,
    /// `gpu_share`.
    pub gpu_share: Option<Located<Share>>,
    /// A CPU quantity.
    pub cpu: Option<String>,
    /// A memory quantity.
    pub memory: Option<String>,
    /// Size of `/dev/shm`.
    pub shm: Option<String>,
    /// RDMA devices for the network between nodes.
    pub rdma: Option<Rdma>,
    /// Nodes that the pods must not use.
    pub exclude_nodes: Vec<String>,
    /// `qos: guaranteed`, which makes limits equal to requests.
    pub guaranteed: bool,
    /// Pods of a training, or of each replica of a service; each pod has its own GPUs. At least 1.
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
    /// The node's devices, in proportion to the requested GPUs.
    Auto,
    /// A fixed number of one extended resource per pod.
    Named {
        /// The resource's name, with its domain.
        name: String,
        /// At least one.
        count: u32,
    },
}

/// A fraction of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Share {
    /// Device memory, as written.
    Memory(String),
    /// Greater than 0 and at most 1, which is the whole device.
    Fraction(f64),
}

/// A mounted directory or file.
#[derive(Clone, Debug)]
pub struct Workdir {
    /// Mount path in the container.
    pub path: String,
    pub source: WorkdirSource,
    pub read_only: bool,
    /// Whether the source is a single file, according to `type:` or the file extension.
    pub file: bool,
}

/// The source of a mounted directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkdirSource {
    /// A path on the node.
    Host(String),
    /// An existing PersistentVolumeClaim.
    Claim {
        name: String,
        /// A directory within the volume.
        sub_path: Option<String>,
    },
    /// A new PersistentVolumeClaim.
    Size {
        /// A quantity of bytes.
        size: String,
        /// `None` uses the cluster's default class.
        storage_class: Option<String>,
        /// `None` uses the default of the job's kind.
        access: Option<VolumeAccess>,
    },
    /// An `emptyDir`, which is deleted with the pod.
    Empty,
    /// The files of a ConfigMap.
    ConfigMap(String),
    /// The files of a Secret.
    Secret(String),
}

/// Kubernetes' access modes of a volume.
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
    /// Returns the name in the Kubernetes API.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The block `checkpoint` of a training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// A directory in the container.
    pub path: Located<String>,
    /// Arguments appended to the command once the directory is not empty.
    pub resume: Vec<String>,
}

/// Fields of `kind: training` only.
#[derive(Clone, Debug)]
pub struct Training {
    /// The number of epochs, passed to the program as a variable.
    pub epochs: Option<u32>,
    /// The batch size per GPU.
    pub batch_size: Option<u32>,
    /// Number of restarts after failures.
    pub retries: u32,
    /// The scope of a restart; `None` if the file does not set it.
    pub restart: Option<Restart>,
    /// Time without output from any rank after which the training counts as hung.
    pub hang_timeout: Option<Duration>,
    /// The directory of the checkpoints, and the arguments to resume from them.
    pub checkpoint: Option<Checkpoint>,
    /// Longest run time of the job.
    pub max_runtime: Option<Duration>,
    /// The requested gang scheduler.
    pub gang: GangMode,
    /// `rack`, `block`, or a node label with equal values on nearby nodes.
    pub topology: Option<Located<String>>,
    /// Time after which a partly placed gang releases its GPUs.
    pub gang_timeout: Option<Duration>,
    /// Time until a finished job is deleted.
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
            gang: GangMode::Auto,
            topology: None,
            gang_timeout: None,
            keep_for: None,
        }
    }
}

/// Returns the longest job name for which Kubernetes accepts all derived names. An Indexed Job
/// appends `-` and the highest index, up to 63 characters. A StatefulSet with more than 52
/// characters is accepted but never gets a pod. A LeaderWorkerSet creates StatefulSets whose names
/// also end in a number.
pub fn longest_name(kind: JobKind, node_count: u32) -> usize {
    match kind {
        JobKind::Training => 62 - node_count.saturating_sub(1).to_string().len(),
        JobKind::Notebook => 52,
        JobKind::Inference | JobKind::Compute if node_count > 1 => 46,
        JobKind::Inference | JobKind::Compute => 63,
    }
}
