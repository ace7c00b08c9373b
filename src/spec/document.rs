//! What a file can say, field by field. Only what the fields mean is here; how they are read is in their own files.

use std::time::Duration;

use crate::model::JobKind;

use super::fields::Located;
use super::problem::Problems;

/// The documents of a file that has no errors.
#[derive(Debug)]
pub struct Parsed {
    pub documents: Vec<Document>,
    pub warnings: Problems,
}

#[derive(Clone, Debug)]
pub enum Document {
    Job(Box<JobDocument>),
    Pool(Box<Pool>),
    Quota(Box<Quota>),
}

impl Document {
    /// The name under which it is created.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Job(job) => &job.name.value,
            Self::Pool(pool) => &pool.name.value,
            Self::Quota(quota) => &quota.name,
        }
    }

    /// The word behind `kind:`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Job(job) => job.kind.word(),
            Self::Pool(_) => "pool",
            Self::Quota(_) => "quota",
        }
    }
}

/// A training, an inference service, a notebook or a compute service.
#[derive(Clone, Debug)]
pub struct JobDocument {
    pub kind: JobKind,
    pub version: String,
    /// The document as written, comments included.
    pub source: String,
    pub name: Located<String>,
    /// The name with what `--generate-name` appends to it.
    pub generated: Option<String>,
    pub namespace: Option<Located<String>>,
    pub description: Option<String>,
    pub priority: Option<Priority>,
    pub labels: Vec<(String, String)>,
    pub annotations: Vec<(String, String)>,
    pub queue: Option<String>,
    pub image: String,
    pub image_pull_secrets: Vec<String>,
    pub image_pull_policy: Option<&'static str>,
    pub command: Command,
    pub args: Command,
    pub env: Vec<EnvVariable>,
    pub working_dir: Option<String>,
    pub model: Option<Model>,
    pub resources: JobResources,
    pub workdirs: Vec<Workdir>,
    /// Merged into the pod spec as it stands.
    pub pod: Option<serde_json::Value>,
    /// (path in the container, local path)
    pub files: Vec<(String, String)>,
    pub grace_period: Option<Duration>,
    pub training: Training,
    pub service: Option<Service>,
    pub autoscaling: Option<Autoscaling>,
}

impl JobDocument {
    /// Appends `suffix`: the name stays, the id gets it. False when the id would be too long.
    pub fn append(&mut self, suffix: &str) -> bool {
        let id = format!("{}-{suffix}", self.name.value);
        let fits = id.len() <= longest_name(self.kind, self.training.node_count);
        self.generated = Some(id);
        fits
    }

    /// `command` and `args` as one line, for those who look for a program or a flag in it.
    #[must_use]
    pub fn line(&self) -> String {
        let words = |command: &Command| match command {
            Command::Image => String::new(),
            Command::Shell(line) => line.clone(),
            Command::Exec(words) => words.join(" "),
        };
        format!("{} {}", words(&self.command), words(&self.args))
    }

    /// The name of the objects that are made, and the contract's `jobId`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.generated.as_deref().unwrap_or(&self.name.value)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    High,
    Medium,
    Low,
    /// An existing PriorityClass.
    Class(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Command {
    /// The image's own.
    #[default]
    Image,
    /// One string, for `sh -c`.
    Shell(String),
    Exec(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvVariable {
    pub name: String,
    pub value: EnvValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Text(String),
    Secret { name: String, key: String },
    ConfigMap { name: String, key: String },
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub source: Option<String>,
    pub name: Option<String>,
    pub version: Option<String>,
    pub format: Option<String>,
    pub cache: bool,
    pub path: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct JobResources {
    /// `default` is no restriction and reads as none.
    pub pool: Option<Located<String>>,
    /// Per pod.
    pub gpu: u32,
    pub gpu_at: Option<super::FilePosition>,
    pub gpu_type: Option<Located<String>>,
    pub gpu_share: Option<Located<Share>>,
    pub cpu: Option<String>,
    pub memory: Option<String>,
    pub shm: Option<String>,
}

/// A part of a GPU.
#[derive(Clone, Debug, PartialEq)]
pub enum Share {
    /// Device memory as written.
    Memory(String),
    /// Above 0, up to 1, which is the whole device.
    Fraction(f64),
}

#[derive(Clone, Debug)]
pub struct Workdir {
    /// Where it appears in the container.
    pub path: String,
    pub source: WorkdirSource,
    pub read_only: bool,
    /// A single file, by `type:` or by its ending.
    pub file: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkdirSource {
    Host(String),
    Claim {
        name: String,
        sub_path: Option<String>,
    },
    /// A claim that is made.
    Size {
        size: String,
        storage_class: Option<String>,
        access: Option<VolumeAccess>,
    },
    Empty,
    ConfigMap(String),
    Secret(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeAccess {
    ReadWriteOnce,
    ReadWriteMany,
    ReadOnlyMany,
    ReadWriteOncePod,
}

impl VolumeAccess {
    /// Kubernetes' word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}

/// Fields of `kind: training` only.
#[derive(Clone, Debug)]
pub struct Training {
    pub node_count: u32,
    pub epochs: Option<u32>,
    /// Per GPU.
    pub batch_size: Option<u32>,
    pub retries: u32,
    pub max_runtime: Option<Duration>,
    pub gang_timeout: Option<Duration>,
    pub keep_for: Option<Duration>,
}

impl Default for Training {
    fn default() -> Self {
        Self { node_count: 1, epochs: None, batch_size: None, retries: 3, max_runtime: None, gang_timeout: None, keep_for: None }
    }
}

#[derive(Clone, Debug)]
pub struct Service {
    /// 0 makes a service that is paused.
    pub replicas: u32,
    pub port: Option<u16>,
    pub target_port: Option<u16>,
    pub protocol: Option<&'static str>,
    pub exposure: &'static str,
    pub host: Option<String>,
    pub health_check: Option<HealthCheck>,
    pub timeout: Option<Duration>,
    pub request_limit: Option<u32>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            replicas: 1,
            port: None,
            target_port: None,
            protocol: None,
            exposure: "ClusterIP",
            host: None,
            health_check: None,
            timeout: None,
            request_limit: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    pub path: String,
    pub port: Option<u16>,
    pub initial_delay: Option<Duration>,
    pub period: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Autoscaling {
    pub enabled: bool,
    pub min_replicas: u32,
    pub max_replicas: u32,
    /// Percent.
    pub gpu_utilization: Option<u32>,
    /// Percent of GPU memory.
    pub memory_utilization: Option<u32>,
    pub cpu_utilization: Option<u32>,
    pub scale_up_delay: Option<Duration>,
    pub scale_down_delay: Option<Duration>,
}

/// A set of nodes that jobs can ask for by name.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: Located<String>,
    pub description: Option<String>,
    /// Allowed types; empty allows all.
    pub gpu_types: Vec<String>,
    pub quota: PoolQuota,
    pub nodes: Vec<PoolNode>,
}

#[derive(Clone, Debug, Default)]
pub struct PoolQuota {
    pub max_jobs: Option<u32>,
    pub max_gpu_per_job: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct PoolNode {
    pub name: Located<String>,
    pub gpu_type: Option<String>,
}

/// Limits of namespaces.
#[derive(Clone, Debug)]
pub struct Quota {
    pub name: String,
    pub description: Option<String>,
    pub namespaces: Vec<(String, QuotaLimits)>,
}

#[derive(Clone, Debug, Default)]
pub struct QuotaLimits {
    pub cpu: Option<String>,
    pub memory: Option<String>,
    pub gpu: Option<u32>,
    pub pods: Option<u32>,
    pub storage: Option<String>,
}

/// The longest name whose pods and objects Kubernetes accepts: an Indexed Job appends `-` and the highest index to a
/// name of 63, a StatefulSet beyond 52 is accepted and never gets a pod.
#[must_use]
pub fn longest_name(kind: JobKind, node_count: u32) -> usize {
    match kind {
        JobKind::Training => 62 - node_count.saturating_sub(1).to_string().len(),
        JobKind::Notebook => 52,
        JobKind::Inference | JobKind::Compute => 63,
    }
}
