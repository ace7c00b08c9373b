//! Renders the volumes of a pod and the objects behind them: workdirs, `/dev/shm`, the model cache,
//! and local files.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource,
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimVolumeSource,
    SecretVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::spec::{JobDocument, VolumeAccess, Workdir, WorkdirSource};
use gpuctl_core::model::contract::labels::SHARED_MEMORY_VOLUME;
use gpuctl_core::model::values::quantity;
use gpuctl_core::model::{JobKind, Nodes};

use super::labels::metadata;
use super::{Object, Refusal, Target, supervisor};

/// Limit on the total size of all local files, in KiB. A ConfigMap holds at most 1 MiB, including
/// the overhead of the encoding.
pub const FILES_KIB: usize = 900;

/// Directory of the model cache, which is on the node unless a volume is mounted there.
pub(super) const CACHE: &str = "/cache/models";

/// Size limit of `/dev/shm` per GPU in GiB, for jobs without a memory limit. The limit reserves no
/// memory.
const SHM_GIB: u32 = 16;

/// Volumes of a pod, and the objects that must exist before the pod can mount them.
#[derive(Default)]
pub(super) struct PodStorage {
    pub volumes: Vec<Volume>,
    pub mounts: Vec<VolumeMount>,
    pub objects: Vec<Object>,
    pub warnings: Vec<String>,
}

/// Builds the volumes of `job` for `pods` pods. `nodes` is the number of nodes that it may use.
pub(super) fn storage(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
    pods: u32,
    nodes: usize,
) -> Result<PodStorage, Refusal> {
    let mut storage = PodStorage::default();
    for (index, workdir) in job.workdirs.iter().enumerate() {
        storage.workdir(job, target, labels, workdir, index, pods);
    }
    storage.model(job);
    storage.shm(job);
    storage.files(job, target, labels)?;
    if supervisor::supervises(job) {
        storage.add(supervisor::volume(job), supervisor::FOLDER, true, None);
        storage
            .objects
            .push(supervisor::config_map(job, target, labels));
        storage
            .objects
            .push(supervisor::secret(job, target, labels));
        storage
            .objects
            .extend(supervisor::network_policy(job, target, labels));
    }
    let on_host = storage
        .volumes
        .iter()
        .any(|volume| volume.host_path.is_some());
    if on_host && target.nodes == Nodes::Hidden {
        storage.warnings.push(
            "host paths are local to each node, and the number of eligible nodes is unknown"
                .to_owned(),
        );
    }
    if on_host && nodes > 1 {
        storage.warnings.push(format!(
            "host paths are local to each node, and {nodes} nodes are eligible; files written on one node are missing on the others (use `pvc:` or `size:` for shared files)"
        ));
    }
    Ok(storage)
}

/// Returns the name of the PersistentVolumeClaim for a mount path. The name is stable, so that a
/// new job with the same name mounts the old volume again.
pub fn claim_name(job: &str, path: &str) -> String {
    let slug: String = path
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    format!("{job}-{}", slug.trim_matches('-'))
}

impl PodStorage {
    fn add(&mut self, volume: Volume, path: &str, read_only: bool, sub_path: Option<String>) {
        self.mounts.push(VolumeMount {
            name: volume.name.clone(),
            mount_path: path.to_owned(),
            read_only: read_only.then_some(true),
            sub_path,
            ..VolumeMount::default()
        });
        if !self.volumes.iter().any(|other| other.name == volume.name) {
            self.volumes.push(volume);
        }
    }

    /// Chooses the access mode of a new claim. Warns if pods on several nodes cannot share it.
    fn claim_access(
        &mut self,
        access: Option<VolumeAccess>,
        path: &str,
        pods: u32,
    ) -> VolumeAccess {
        let default = if pods > 1 {
            VolumeAccess::ReadWriteMany
        } else {
            VolumeAccess::ReadWriteOnce
        };
        let access = access.unwrap_or(default);
        if pods > 1
            && matches!(
                access,
                VolumeAccess::ReadWriteOnce | VolumeAccess::ReadWriteOncePod
            )
        {
            self.warnings.push(format!(
                "{pods} pods mount `{}`, which is {}: pods on other nodes will wait",
                path,
                access.word()
            ));
        }
        access
    }

    fn workdir(
        &mut self,
        job: &JobDocument,
        target: &Target,
        labels: &BTreeMap<String, String>,
        workdir: &Workdir,
        index: usize,
        pods: u32,
    ) {
        let mut volume = Volume {
            name: format!("workdir-{index}"),
            ..Volume::default()
        };
        let mut sub = None;
        match &workdir.source {
            WorkdirSource::Host(path) => {
                volume.host_path = Some(host_folder(path, workdir));
            }
            WorkdirSource::Claim { name, sub_path } => {
                let read_only = workdir.read_only.then_some(true);
                volume.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
                    claim_name: name.clone(),
                    read_only,
                });
                sub.clone_from(sub_path);
            }
            WorkdirSource::Size {
                size,
                storage_class,
                access,
            } => {
                let mut name = claim_name(job.id(), &workdir.path);
                if self.objects.iter().any(|object| object.name() == name) {
                    // Different paths can have the same slug, such as `/a/b` and `/a-b`.
                    name = format!("{name}-{index}");
                }
                let access = self.claim_access(*access, &workdir.path, pods);
                self.objects.push(claim(
                    job,
                    target,
                    labels,
                    &name,
                    size,
                    storage_class.as_deref(),
                    access,
                ));
                volume.persistent_volume_claim = Some(PersistentVolumeClaimVolumeSource {
                    claim_name: name,
                    read_only: None,
                });
            }
            WorkdirSource::Empty => volume.empty_dir = Some(EmptyDirVolumeSource::default()),
            WorkdirSource::ConfigMap(name) => {
                volume.config_map = Some(ConfigMapVolumeSource {
                    name: name.clone(),
                    ..ConfigMapVolumeSource::default()
                });
            }
            WorkdirSource::Secret(name) => {
                volume.secret = Some(SecretVolumeSource {
                    secret_name: Some(name.clone()),
                    ..SecretVolumeSource::default()
                });
            }
        }
        self.add(volume, &workdir.path, workdir.read_only, sub);
    }

    /// Mounts the model's directory, which must exist, and the cache, which the kubelet creates if
    /// needed.
    fn model(&mut self, job: &JobDocument) {
        let Some(model) = &job.model else { return };
        let mounted = |path: &str| is_in_workdir(job, path);
        if let Some(path) = model
            .path
            .as_deref()
            .filter(|path| path.starts_with('/') && !mounted(path))
        {
            self.add(host("model", path, "Directory"), path, true, None);
        }
        if model.cache && !mounted(CACHE) {
            self.add(
                host("model-cache", CACHE, "DirectoryOrCreate"),
                CACHE,
                false,
                None,
            );
        }
    }

    /// Mounts `/dev/shm`. The container runtime's default of 64 MiB is too small for NCCL and data
    /// loaders, whose workers then die of a bus error.
    fn shm(&mut self, job: &JobDocument) {
        let is_mounted = job
            .workdirs
            .iter()
            .any(|workdir| workdir.path == "/dev/shm");
        let is_needed = job.resources.gpu > 0 || job.kind == JobKind::Notebook;
        if is_mounted || (job.resources.shm.is_none() && !is_needed) {
            return;
        }
        let half_of_memory = || {
            job.resources
                .memory
                .as_deref()
                .and_then(quantity::whole)
                .map(|bytes| quantity::binary(bytes / 2))
        };
        let size = job
            .resources
            .shm
            .clone()
            .or_else(half_of_memory)
            .unwrap_or_else(|| format!("{}Gi", SHM_GIB * job.resources.gpu.max(1)));
        let source = EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity(size)),
        };
        self.add(
            Volume {
                name: SHARED_MEMORY_VOLUME.to_owned(),
                empty_dir: Some(source),
                ..Volume::default()
            },
            "/dev/shm",
            false,
            None,
        );
    }

    fn files(
        &mut self,
        job: &JobDocument,
        target: &Target,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        if job.files.is_empty() {
            return Ok(());
        }
        let bytes: usize = target.files.iter().map(Vec::len).sum();
        if bytes > FILES_KIB * 1024 {
            let message = format!(
                "`files` have {} KiB together; at most {FILES_KIB} fit",
                bytes / 1024
            );
            return Err(Refusal::new(
                "FilesTooLarge",
                message,
                "put large files on a volume: `storage.workdirs` with `pvc:` or `size:`",
            ));
        }
        let name = files_name(job.id());
        let (mut data, mut binary) = (BTreeMap::new(), BTreeMap::new());
        // Mount each file with a `subPath`, so that the mount does not hide other files of its
        // directory.
        let source = ConfigMapVolumeSource {
            name: name.clone(),
            ..ConfigMapVolumeSource::default()
        };
        let volume = Volume {
            name: "files".to_owned(),
            config_map: Some(source),
            ..Volume::default()
        };
        for (index, (file, content)) in job.files.iter().zip(&target.files).enumerate() {
            let key = file_key(index);
            match String::from_utf8(content.clone()) {
                Ok(text) => data.insert(key.clone(), text).map(|_| ()),
                Err(error) => binary
                    .insert(key.clone(), ByteString(error.into_bytes()))
                    .map(|_| ()),
            };
            self.add(volume.clone(), &file.path, true, Some(key));
        }
        let map = ConfigMap {
            metadata: metadata(job, target, &name, labels),
            data: Some(data).filter(|data| !data.is_empty()),
            binary_data: Some(binary).filter(|data| !data.is_empty()),
            immutable: None,
        };
        self.objects.push(Object::new(&map, "configmaps"));
        Ok(())
    }
}

/// Builds the volume for a directory or file of the node.
fn host_folder(path: &str, workdir: &Workdir) -> HostPathVolumeSource {
    let kind = match (workdir.file, workdir.read_only) {
        (true, _) => "File",
        (false, true) => "Directory",
        (false, false) => "DirectoryOrCreate",
    };
    HostPathVolumeSource {
        path: path.to_owned(),
        type_: Some(kind.to_owned()),
    }
}

/// Returns true if a path is a workdir or below one.
pub(super) fn is_in_workdir(job: &JobDocument, path: &str) -> bool {
    job.workdirs
        .iter()
        .any(|workdir| path == workdir.path || path.starts_with(&format!("{}/", workdir.path)))
}

fn host(name: &str, path: &str, kind: &str) -> Volume {
    let source = HostPathVolumeSource {
        path: path.to_owned(),
        type_: Some(kind.to_owned()),
    };
    Volume {
        name: name.to_owned(),
        host_path: Some(source),
        ..Volume::default()
    }
}

/// Builds a claim as a separate object. Deployments and Jobs have no claim templates, and those of
/// a StatefulSet are immutable.
fn claim(
    job: &JobDocument,
    target: &Target,
    labels: &BTreeMap<String, String>,
    name: &str,
    size: &str,
    storage_class: Option<&str>,
    access: VolumeAccess,
) -> Object {
    let requests = BTreeMap::from([("storage".to_owned(), Quantity(size.to_owned()))]);
    let claim = PersistentVolumeClaim {
        metadata: metadata(job, target, name, labels),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec![access.word().to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(requests),
                limits: None,
            }),
            storage_class_name: storage_class.map(ToOwned::to_owned),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    };
    Object {
        kept: true,
        ..Object::new(&claim, "persistentvolumeclaims")
    }
}

pub fn files_name(job_id: &str) -> String {
    format!("{job_id}-files")
}

/// Returns the key of the entry of `files` at `index` in the ConfigMap.
pub fn file_key(index: usize) -> String {
    format!("file-{index}")
}
