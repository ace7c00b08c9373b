//! Converts an `sbatch` script to a training: its options become fields, its body the command.

use serde_json::{Value, json};

use super::array::indices;
use super::sbatch::{self, gpus, memory};
use super::script::{ScriptContext, needs_bash, translate};
use super::{ConvertError, Converted, FieldMap};
use gpuctl_core::model::values::quantity::slurm_time;

fn mebibytes(amount: u64) -> String {
    if amount.is_multiple_of(1024) {
        format!("{}Gi", amount / 1024)
    } else {
        format!("{amount}Mi")
    }
}

/// The numeric options of a script.
#[derive(Default)]
struct SlurmResources {
    nodes: Option<u64>,
    tasks: Option<u64>,
    tasks_per_node: Option<u64>,
    cpus_per_task: Option<u64>,
    gpus_in_all: Option<u64>,
    gpus_per_node: Option<u64>,
    gpus_per_task: Option<u64>,
    memory: Option<u64>,
    memory_per_cpu: Option<u64>,
    memory_per_gpu: Option<u64>,
}

impl SlurmResources {
    /// Tasks per node; `None` if no option sets them.
    fn tasks_on_node(&self) -> Option<u64> {
        self.tasks_per_node.or(self
            .tasks
            .map(|tasks| tasks.div_ceil(self.nodes.unwrap_or(1).max(1))))
    }
}

/// The options of a script, sorted into the blocks of a job.
struct SbatchOptions {
    slurm: SlurmResources,
    job: FieldMap,
    environment: FieldMap,
    resources: FieldMap,
    labels: FieldMap,
    name: String,
    image: Option<String>,
    array: Option<String>,
    /// Options without an equivalent.
    omitted: Vec<String>,
}

fn invalid_option(option: &str, value: &str) -> ConvertError {
    ConvertError::new(
        format!("invalid `--{option}={value}`"),
        "use `sbatch` syntax",
    )
}

impl SbatchOptions {
    fn new(image: Option<&str>) -> Self {
        Self {
            slurm: SlurmResources::default(),
            job: FieldMap::default(),
            environment: FieldMap::default(),
            resources: FieldMap::default(),
            labels: FieldMap::default(),
            name: "slurm-job".to_owned(),
            image: image.map(ToOwned::to_owned),
            array: None,
            omitted: Vec::new(),
        }
    }

    fn set(&mut self, option: &str, value: String) -> Result<(), ConvertError> {
        if self.set_size(option, &value)? {
            return Ok(());
        }
        match option {
            "array" => self.array = Some(value),
            "job-name" => self.name.clone_from(&value),
            "time" => {
                let seconds = slurm_time(&value).ok_or_else(|| invalid_option(option, &value))?;
                self.job.put(
                    "max_runtime",
                    Some(format!("{seconds}s").into()).filter(|_| seconds > 0),
                );
            }
            "partition" => {
                let (first, others) = value.split_once(',').unwrap_or((&value, ""));
                if !others.is_empty() {
                    self.omitted
                        .push(format!("--partition={others}: a job can use only one pool"));
                }
                self.resources.put("pool", Some(first.into()));
            }
            "account" => self.labels.put("account", Some(value.into())),
            "chdir" => self.environment.put("workingDir", Some(value.into())),
            "comment" => self.job.put("description", Some(value.into())),
            // Pyxis separates the registry from the image with `#`.
            "container-image" => self.image = Some(value.replace('#', "/")),
            // `retries: 0` is Slurm's default: a lost node or a preemption starts the job again,
            // but a failed command does not (`--requeue` in the manual of sbatch).
            "requeue" => {}
            "no-requeue" => self.omitted.push(
                "--no-requeue: the job starts again after an eviction or the loss of its node"
                    .to_owned(),
            ),
            "output" | "error" => self.omitted.push(format!(
                "--{option}={value}: `gpuctl logs` shows the output"
            )),
            _ => self.omitted.push(if value.is_empty() {
                format!("--{option}")
            } else {
                format!("--{option}={value}")
            }),
        }
        Ok(())
    }

    /// Sets an option about nodes, tasks, CPUs, GPUs or memory. Returns false for any other option.
    fn set_size(&mut self, option: &str, value: &str) -> Result<bool, ConvertError> {
        let refuse = || invalid_option(option, value);
        let number = || {
            value
                // `--nodes=2-4` is a range; take its lower bound.
                .split('-')
                .next()
                .unwrap_or_default()
                .parse::<u64>()
                .map_err(|_| refuse())
        };
        match option {
            "nodes" => {
                if value.contains('-') {
                    self.omitted
                        .push(format!("--nodes={value}: the minimum is used"));
                }
                self.slurm.nodes = Some(number()?);
            }
            "ntasks" => self.slurm.tasks = Some(number()?),
            "ntasks-per-node" => self.slurm.tasks_per_node = Some(number()?),
            "cpus-per-task" => self.slurm.cpus_per_task = Some(number()?),
            "gres" if value.split(',').any(|part| part.starts_with("gpu")) => {
                let (gpu_requests, others): (Vec<&str>, Vec<&str>) =
                    value.split(',').partition(|part| part.starts_with("gpu"));
                self.omitted
                    .extend(others.iter().map(|other| format!("--gres={other}")));
                if gpu_requests.len() > 1 {
                    self.omitted.push(format!(
                        "--gres={}: only {} is requested",
                        gpu_requests.join(","),
                        gpu_requests[0]
                    ));
                }
                let (kind, count) = gpus(gpu_requests[0]).ok_or_else(refuse)?;
                self.slurm.gpus_per_node = Some(count);
                self.resources.put("gpu-type", kind.map(Value::from));
            }
            "gpus" | "gpus-per-node" | "gpus-per-task" => {
                let (kind, count) = gpus(value).ok_or_else(refuse)?;
                self.resources.put("gpu-type", kind.map(Value::from));
                match option {
                    "gpus" => self.slurm.gpus_in_all = Some(count),
                    "gpus-per-node" => self.slurm.gpus_per_node = Some(count),
                    _ => self.slurm.gpus_per_task = Some(count),
                }
            }
            "mem" => self.slurm.memory = Some(memory(value).ok_or_else(refuse)?),
            "mem-per-cpu" => self.slurm.memory_per_cpu = Some(memory(value).ok_or_else(refuse)?),
            "mem-per-gpu" => self.slurm.memory_per_gpu = Some(memory(value).ok_or_else(refuse)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Converts one script. An array becomes one document per index.
pub(super) fn convert(text: &str, image: Option<&str>) -> Result<Vec<Converted>, ConvertError> {
    let mut options = SbatchOptions::new(image);
    for (option, value) in sbatch::options(text) {
        options.set(&option, value)?;
    }
    let SbatchOptions {
        slurm,
        mut job,
        mut environment,
        mut resources,
        labels,
        name,
        image,
        array,
        mut omitted,
    } = options;
    let label = dns_label(&name);
    if label != name {
        omitted.push(format!("--job-name={name}: renamed to {label}"));
    }
    let tasks = slurm.tasks_on_node();
    let one_task_per_pod = tasks.is_none_or(|tasks| tasks <= 1);
    let cpus = slurm
        .cpus_per_task
        .map(|cpus| cpus.saturating_mul(tasks.unwrap_or(1)));
    let context = ScriptContext {
        name: &label,
        one_task_per_pod,
        cpus,
    };
    let script = translate(text, &context);
    let Some(image) = image.or(script.image) else {
        return Err(ConvertError::new(
            "the script does not specify a container image",
            "specify one with `--image IMAGE`",
        ));
    };
    if script.text.is_empty() {
        return Err(ConvertError::new(
            "the script runs no commands",
            "it contains only comments and #SBATCH lines",
        ));
    }
    job.put("retries", Some(json!(0)));
    job.put("labels", Some(labels.value()));
    put_resources(&slurm, &mut resources)?;
    let shell = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    omitted.extend(differences(&slurm, one_task_per_pod, shell));
    omitted.extend(script.omitted);
    environment.put("image", Some(image.into()));
    let bash =
        needs_bash(&script.text) && shell.is_none_or(|shell| shell.trim_end().ends_with("bash"));
    let command = if bash {
        json!(["bash", "-c", script.text])
    } else {
        script.text.into()
    };
    environment.put("command", Some(command));
    let script = ConvertedScript {
        name,
        label,
        job,
        environment,
        resources,
        omitted,
    };
    match array {
        Some(array) => script.array(&array),
        None => Ok(vec![script.single()]),
    }
}

/// A script, converted into the blocks of a job.
struct ConvertedScript {
    /// The name in the script.
    name: String,
    /// The name after conversion to a DNS label.
    label: String,
    job: FieldMap,
    environment: FieldMap,
    resources: FieldMap,
    omitted: Vec<String>,
}

impl ConvertedScript {
    fn document(&self, name: &str, variables: Value) -> Value {
        let (mut job, mut environment) = (self.job.0.clone(), self.environment.0.clone());
        job.insert("name".to_owned(), name.into());
        if !variables.is_null() {
            environment.insert("env".to_owned(), variables);
        }
        json!({"kind": "training", "version": "v0.1", "job": job, "environment": environment, "resources": self.resources.0})
    }

    fn single(self) -> Converted {
        Converted {
            document: self.document(&self.label, Value::Null),
            from: format!("sbatch/{}", self.name),
            omitted: self.omitted,
        }
    }

    /// Builds one document per index of an array.
    fn array(mut self, array: &str) -> Result<Vec<Converted>, ConvertError> {
        let (indices, at_once) = indices(array)?;
        self.omitted.extend(at_once.map(|limit| {
            format!("--array={array}: all jobs are submitted at once, not {limit} at a time")
        }));
        let (first, last, count) = (indices[0], indices[indices.len() - 1], indices.len());
        let element = |index: &u64| {
            let variables = json!({
                "SLURM_ARRAY_TASK_ID": index.to_string(), "SLURM_ARRAY_TASK_COUNT": count.to_string(),
                "SLURM_ARRAY_TASK_MIN": first.to_string(), "SLURM_ARRAY_TASK_MAX": last.to_string(), "SLURM_ARRAY_JOB_ID": self.label,
            });
            // The same parts are missing from every document of the array, so list them only once.
            let omitted = if *index == first {
                self.omitted.clone()
            } else {
                Vec::new()
            };
            Converted {
                document: self.document(&format!("{}-{index}", self.label), variables),
                from: format!("sbatch/{}[{index}]", self.name),
                omitted,
            }
        };
        Ok(indices.iter().map(element).collect())
    }
}

/// Describes where the job behaves differently than under Slurm.
fn differences(slurm: &SlurmResources, one_task_per_pod: bool, shell: Option<&str>) -> Vec<String> {
    let mut differences = Vec::new();
    if !one_task_per_pod {
        differences.push("multiple tasks per node: the command runs once per node, and torchrun starts one process per GPU".to_owned());
    }
    if slurm.memory == Some(0) {
        differences.push("--mem=0: Slurm allocates all of a node's memory".to_owned());
    }
    if let Some(interpreter) = shell.filter(|line| !line.trim_end().ends_with("sh")) {
        differences.push(format!("#!{interpreter}: the script runs in sh"));
    }
    differences
}

/// Sets the number of pods and the resources of each.
fn put_resources(slurm: &SlurmResources, resources: &mut FieldMap) -> Result<(), ConvertError> {
    let per_node = slurm.tasks_per_node;
    let nodes = slurm
        .nodes
        .or_else(|| {
            slurm
                .tasks
                .zip(per_node)
                .map(|(tasks, each)| tasks.div_ceil(each.max(1)))
        })
        .unwrap_or(1)
        .max(1);
    let tasks = per_node
        .or_else(|| slurm.tasks.map(|tasks| tasks.div_ceil(nodes)))
        .unwrap_or(1);
    let gpus = match (slurm.gpus_per_node, slurm.gpus_per_task, slurm.gpus_in_all) {
        (Some(gpus), ..) => gpus,
        (None, Some(gpus), _) => gpus.saturating_mul(tasks),
        (None, None, Some(total)) if total % nodes == 0 => total / nodes,
        (None, None, Some(total)) => {
            let message = format!("{total} GPUs cannot be divided evenly across {nodes} nodes");
            return Err(ConvertError::new(
                message,
                "all pods of a training must have the same number of GPUs; set `--gpus-per-node`",
            ));
        }
        (None, None, None) => 0,
    };
    resources.put("gpu", Some(gpus.into()));
    resources.put("node_count", Some(json!(nodes)).filter(|_| nodes > 1));
    let cpus = slurm.cpus_per_task.map(|cpus| cpus.saturating_mul(tasks));
    resources.put("cpu", cpus.map(Value::from));
    let memory = slurm
        .memory
        .or_else(|| slurm.memory_per_gpu.map(|each| each.saturating_mul(gpus)))
        .or_else(|| {
            slurm
                .memory_per_cpu
                .map(|each| each.saturating_mul(cpus.unwrap_or(tasks)))
        });
    resources.put(
        "memory",
        memory
            .filter(|amount| *amount > 0)
            .map(|amount| mebibytes(amount).into()),
    );
    Ok(())
}

/// Converts text to the nearest DNS label.
fn dns_label(text: &str) -> String {
    let plain: String = text
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name: String = plain
        .trim_start_matches(|c: char| !c.is_ascii_lowercase())
        .chars()
        // Leave space for an array index and for pod suffixes within the 63 characters of a label.
        .take(50)
        .collect();
    let name = name.trim_end_matches('-');
    if name.is_empty() {
        "slurm-job".to_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests;
