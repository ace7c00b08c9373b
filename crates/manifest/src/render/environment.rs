//! Builds the container's environment variables: the job's parameters, the rendezvous of its ranks,
//! and the model. The user's variables take precedence.

use k8s_openapi::api::core::v1::{
    ConfigMapKeySelector, EnvVar, EnvVarSource, ObjectFieldSelector, SecretKeySelector,
};

use crate::spec::{EnvValue, JobDocument};
use gpuctl_core::model::JobKind;

use super::command::Launcher;
use super::fabric::ports;
use super::storage::CACHE;
use super::supervisor::{self, RANK};
use super::{Target, servers};

/// Cache directories of libraries, each with its directory in the model cache: huggingface_hub,
/// modelscope, torch.hub, compiled graphs of vLLM, and Triton kernels.
pub const CACHES: [(&str, &str); 5] = [
    ("HF_HOME", "huggingface"),
    ("MODELSCOPE_CACHE", "modelscope"),
    ("TORCH_HOME", "torch"),
    ("VLLM_CACHE_ROOT", "vllm"),
    ("TRITON_CACHE_DIR", "triton"),
];

/// Builds all variables. gpuctl's variables come first, because a variable in Kubernetes can refer
/// only to earlier ones.
pub(super) fn variables(job: &JobDocument, target: &Target, launcher: Launcher) -> Vec<EnvVar> {
    let mut variables = Variables::default();
    if job.kind == JobKind::Training {
        training_parameters(&mut variables, job);
        rendezvous(&mut variables, job, target, launcher);
        // Python buffers output that does not go to a terminal, which would delay the log.
        variables.set("PYTHONUNBUFFERED", "1");
    }
    if servers::spans_nodes(job) {
        // The LeaderWorkerSet controller sets the variables that `$(…)` refers to.
        variables.set("NNODES", &job.resources.node_count.to_string());
        variables.set("NODE_RANK", "$(LWS_WORKER_INDEX)");
        variables.set("MASTER_ADDR", "$(LWS_LEADER_ADDRESS)");
        variables.set("MASTER_PORT", &servers::PORT.to_string());
    }
    if let Some(model) = &job.model {
        let texts = [
            ("SOURCE", &model.source),
            ("NAME", &model.name),
            ("VERSION", &model.version),
            ("FORMAT", &model.format),
            ("PATH", &model.path),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                variables.set(&format!("MODEL_{name}"), text);
            }
        }
    }
    if job.model.as_ref().is_some_and(|model| model.cache) {
        for (name, folder) in CACHES {
            variables.set(name, &format!("{CACHE}/{folder}"));
        }
    }
    if job.resources.gpu == 0 {
        // CUDA images set this variable to `all`, and some container runtimes then expose every
        // GPU.
        variables.set("NVIDIA_VISIBLE_DEVICES", "void");
    }
    variables
        .list
        .retain(|variable| !job.env.iter().any(|entry| entry.name == variable.name));
    variables.list.extend(
        job.env
            .iter()
            .map(|entry| user_variable(&entry.name, &entry.value)),
    );
    variables.list
}

#[derive(Default)]
struct Variables {
    list: Vec<EnvVar>,
}

impl Variables {
    fn set(&mut self, name: &str, value: &str) {
        self.list.push(EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..EnvVar::default()
        });
    }

    fn set_from_pod(&mut self, name: &str, path: &str) {
        let source = EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: path.to_owned(),
            }),
            ..EnvVarSource::default()
        };
        self.list.push(EnvVar {
            name: name.to_owned(),
            value_from: Some(source),
            ..EnvVar::default()
        });
    }
}

/// Sets the training's parameters. `batch_size` is per GPU; the global batch size is the sum over
/// all GPUs.
fn training_parameters(variables: &mut Variables, job: &JobDocument) {
    let training = &job.training;
    if let Some(epochs) = training.epochs {
        variables.set("EPOCHS", &epochs.to_string());
        variables.set("TRAIN_EPOCHS", &epochs.to_string());
    }
    if let Some(batch) = training.batch_size {
        let devices = u64::from(job.resources.gpu.max(1)) * u64::from(job.resources.node_count);
        variables.set("BATCH_SIZE", &batch.to_string());
        variables.set("TRAIN_BATCH_SIZE", &batch.to_string());
        variables.set(
            "GLOBAL_BATCH_SIZE",
            &(u64::from(batch) * devices).to_string(),
        );
    }
}

/// Sets the variables that torchrun, accelerate and torch's env:// rendezvous read. `RANK` and
/// `WORLD_SIZE` count processes, so they are set only if each pod runs one process and no launcher
/// starts more.
fn rendezvous(variables: &mut Variables, job: &JobDocument, target: &Target, launcher: Launcher) {
    let nodes = job.resources.node_count.to_string();
    let processes = job.resources.gpu.max(1).to_string();
    let name = job.id();
    let address = format!("{name}-0.{name}.{}.svc", target.namespace);
    let port = ports(job, target).master.to_string();
    variables.set("MASTER_ADDR", &address);
    variables.set("MASTER_PORT", &port);
    variables.set("NNODES", &nodes);
    variables.set_from_pod("NODE_RANK", RANK);
    if supervisor::supervises(job) {
        variables.set("GPUCTL_HOST", &address);
        for (name, field) in supervisor::pod_facts() {
            variables.set_from_pod(name, field);
        }
    }
    if let Some(checkpoint) = &job.training.checkpoint {
        variables.set("CHECKPOINT_PATH", &checkpoint.path.value);
    }
    variables.set("NPROC_PER_NODE", &processes);
    variables.set("PET_MASTER_ADDR", &address);
    variables.set("PET_MASTER_PORT", &port);
    // Only the c10d backend reads this variable; the static backend reads the address and port
    // above.
    variables.set("PET_RDZV_ENDPOINT", &format!("{address}:{port}"));
    variables.set("PET_NNODES", &nodes);
    variables.set_from_pod("PET_NODE_RANK", RANK);
    variables.set("PET_NPROC_PER_NODE", &processes);
    if job.resources.node_count == 1 {
        return;
    }
    match launcher {
        Launcher::None if job.resources.gpu <= 1 => {
            variables.set("WORLD_SIZE", &nodes);
            variables.set_from_pod("RANK", RANK);
            variables.set("LOCAL_RANK", "0");
        }
        // LLaMA-Factory starts torchrun on its own only if a pod has several GPUs.
        Launcher::LlamaFactory => variables.set("FORCE_TORCHRUN", "1"),
        _ => {}
    }
}

fn user_variable(name: &str, value: &EnvValue) -> EnvVar {
    let mut variable = EnvVar {
        name: name.to_owned(),
        ..EnvVar::default()
    };
    match value {
        EnvValue::Text(text) => variable.value = Some(text.clone()),
        EnvValue::Secret { name, key } => {
            let selector = SecretKeySelector {
                name: name.clone(),
                key: key.clone(),
                optional: None,
            };
            variable.value_from = Some(EnvVarSource {
                secret_key_ref: Some(selector),
                ..EnvVarSource::default()
            });
        }
        EnvValue::ConfigMap { name, key } => {
            let selector = ConfigMapKeySelector {
                name: name.clone(),
                key: key.clone(),
                optional: None,
            };
            variable.value_from = Some(EnvVarSource {
                config_map_key_ref: Some(selector),
                ..EnvVarSource::default()
            });
        }
    }
    variable
}
