//! Converts an `sbatch` script into a training: its #SBATCH options, and its body as the command.

use serde_json::{Value, json};

use super::array::indices;
use super::sbatch::{gpus, memory, options, time};
use super::script::{ScriptContext, needs_bash, translate};
use super::{ConvertError, Converted, FieldMap};

fn mebibytes(amount: u64) -> String {
    if amount.is_multiple_of(1024) {
        format!("{}Gi", amount / 1024)
    } else {
        format!("{amount}Mi")
    }
}

/// What the options come to, beside the fields that are text.
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

/// Converts one script; an array is a document per index.
pub(super) fn convert(text: &str, image: Option<&str>) -> Result<Vec<Converted>, ConvertError> {
    let (mut lost, mut asked) = (Vec::new(), SlurmResources::default());
    let (mut job, mut environment, mut resources, mut labels) = (
        FieldMap::default(),
        FieldMap::default(),
        FieldMap::default(),
        FieldMap::default(),
    );
    let (mut name, mut image, mut array) = (
        "slurm-job".to_owned(),
        image.map(ToOwned::to_owned),
        None::<String>,
    );
    for (option, value) in options(text) {
        let unread = || {
            ConvertError::new(
                format!("`--{option}={value}` cannot be read"),
                "write it as sbatch takes it",
            )
        };
        let number = || {
            value
                .split('-')
                .next()
                .unwrap_or_default()
                .parse::<u64>()
                .map_err(|_| unread())
        };
        match option.as_str() {
            "array" => array = Some(value),
            "job-name" => name.clone_from(&value),
            "nodes" => {
                if value.contains('-') {
                    lost.push(format!("--nodes={value}: the fewest are taken"));
                }
                asked.nodes = Some(number()?);
            }
            "ntasks" => asked.tasks = Some(number()?),
            "ntasks-per-node" => asked.tasks_per_node = Some(number()?),
            "cpus-per-task" => asked.cpus_per_task = Some(number()?),
            "gres" if value.split(',').any(|part| part.starts_with("gpu")) => {
                let (own, others): (Vec<&str>, Vec<&str>) =
                    value.split(',').partition(|part| part.starts_with("gpu"));
                lost.extend(others.iter().map(|other| format!("--gres={other}")));
                if own.len() > 1 {
                    lost.push(format!(
                        "--gres={}: only {} is asked for",
                        own.join(","),
                        own[0]
                    ));
                }
                let (kind, count) = gpus(own[0]).ok_or_else(unread)?;
                asked.gpus_per_node = Some(count);
                resources.put("gpu-type", kind.map(Value::from));
            }
            "gpus" | "gpus-per-node" | "gpus-per-task" => {
                let (kind, count) = gpus(&value).ok_or_else(unread)?;
                resources.put("gpu-type", kind.map(Value::from));
                match option.as_str() {
                    "gpus" => asked.gpus_in_all = Some(count),
                    "gpus-per-node" => asked.gpus_per_node = Some(count),
                    _ => asked.gpus_per_task = Some(count),
                }
            }
            "mem" => asked.memory = Some(memory(&value).ok_or_else(unread)?),
            "mem-per-cpu" => asked.memory_per_cpu = Some(memory(&value).ok_or_else(unread)?),
            "mem-per-gpu" => asked.memory_per_gpu = Some(memory(&value).ok_or_else(unread)?),
            "time" => {
                let seconds = time(&value).ok_or_else(unread)?;
                job.put(
                    "max_runtime",
                    Some(format!("{seconds}s").into()).filter(|_| seconds > 0),
                );
            }
            "partition" => {
                let (first, others) = value.split_once(',').unwrap_or((&value, ""));
                if !others.is_empty() {
                    lost.push(format!("--partition={others}: one pool is taken"));
                }
                resources.put("pool", Some(first.into()));
            }
            "account" => labels.put("account", Some(value.into())),
            "chdir" => environment.put("workingDir", Some(value.into())),
            "comment" => job.put("description", Some(value.into())),
            "container-image" => image = Some(value.replace('#', "/")),
            "requeue" | "no-requeue" => job.put(
                "retries",
                Some(json!(if option == "requeue" { 3 } else { 0 })),
            ),
            "output" | "error" => lost.push(format!(
                "--{option}={value}: `gpuctl logs` reads what it says"
            )),
            _ => lost.push(if value.is_empty() {
                format!("--{option}")
            } else {
                format!("--{option}={value}")
            }),
        }
    }
    let named = dns_label(&name);
    if named != name {
        lost.push(format!("--job-name={name}: it is called {named}"));
    }
    let tasks = asked.tasks_per_node.or(asked
        .tasks
        .map(|tasks| tasks.div_ceil(asked.nodes.unwrap_or(1).max(1))));
    let one_task_per_pod = tasks.is_none_or(|tasks| tasks <= 1);
    let cpus = asked
        .cpus_per_task
        .map(|cpus| cpus.saturating_mul(tasks.unwrap_or(1)));
    let script = translate(
        text,
        &ScriptContext {
            name: &named,
            one_task_per_pod,
            cpus,
        },
    );
    let Some(image) = image.or(script.image) else {
        return Err(ConvertError::new(
            "the script names no container image",
            "say which one with `--image IMAGE`",
        ));
    };
    if script.text.is_empty() {
        return Err(ConvertError::new(
            "the script runs nothing",
            "it has only comments and #SBATCH lines",
        ));
    }
    job.put("labels", Some(labels.value()));
    place(&asked, &mut resources)?;
    if !one_task_per_pod {
        lost.push("several tasks per node: the command starts once per node; torchrun starts a process for each GPU".to_owned());
    }
    if asked.memory == Some(0) {
        lost.push("--mem=0: all memory of a node".to_owned());
    }
    let shell = text.lines().next().and_then(|line| line.strip_prefix("#!"));
    if let Some(interpreter) = shell.filter(|line| !line.trim_end().ends_with("sh")) {
        lost.push(format!("#!{interpreter}: the lines run in sh"));
    }
    lost.extend(script.lost);
    environment.put("image", Some(image.into()));
    let bash =
        needs_bash(&script.text) && shell.is_none_or(|shell| shell.trim_end().ends_with("bash"));
    let command = if bash {
        json!(["bash", "-c", script.text])
    } else {
        script.text.into()
    };
    environment.put("command", Some(command));
    let document = |name: &str, variables: Value| {
        let (mut job, mut environment) = (job.0.clone(), environment.0.clone());
        job.insert("name".to_owned(), name.into());
        if !variables.is_null() {
            environment.insert("env".to_owned(), variables);
        }
        json!({"kind": "training", "version": "v0.1", "job": job, "environment": environment, "resources": resources.0})
    };
    let from = |index: &str| format!("sbatch/{name}{index}");
    let Some(array) = array else {
        return Ok(vec![Converted {
            document: document(&named, Value::Null),
            from: from(""),
            lost,
        }]);
    };
    let (indices, at_once) = indices(&array)?;
    lost.extend(
        at_once.map(|limit| format!("--array={array}: all are submitted, not {limit} at a time")),
    );
    let (first, last, count) = (indices[0], indices[indices.len() - 1], indices.len());
    let one = |index: &u64| {
        let variables = json!({
            "SLURM_ARRAY_TASK_ID": index.to_string(), "SLURM_ARRAY_TASK_COUNT": count.to_string(),
            "SLURM_ARRAY_TASK_MIN": first.to_string(), "SLURM_ARRAY_TASK_MAX": last.to_string(), "SLURM_ARRAY_JOB_ID": named,
        });
        // The same parts are missing from every document of the array, so they are listed once.
        let lost = if *index == first {
            lost.clone()
        } else {
            Vec::new()
        };
        Converted {
            document: document(&format!("{named}-{index}"), variables),
            from: from(&format!("[{index}]")),
            lost,
        }
    };
    Ok(indices.iter().map(one).collect())
}

/// Sets how many pods there are, and what each of them gets.
fn place(asked: &SlurmResources, resources: &mut FieldMap) -> Result<(), ConvertError> {
    let per_node = asked.tasks_per_node;
    let nodes = asked
        .nodes
        .or_else(|| {
            asked
                .tasks
                .zip(per_node)
                .map(|(tasks, each)| tasks.div_ceil(each.max(1)))
        })
        .unwrap_or(1)
        .max(1);
    let tasks = per_node
        .or_else(|| asked.tasks.map(|tasks| tasks.div_ceil(nodes)))
        .unwrap_or(1);
    let gpus = match (asked.gpus_per_node, asked.gpus_per_task, asked.gpus_in_all) {
        (Some(gpus), ..) => gpus,
        (None, Some(gpus), _) => gpus.saturating_mul(tasks),
        (None, None, Some(all)) if all % nodes == 0 => all / nodes,
        (None, None, Some(all)) => {
            let message = format!("{all} GPUs do not divide over {nodes} nodes");
            return Err(ConvertError::new(
                message,
                "every pod of a training has as many: say `--gpus-per-node`",
            ));
        }
        (None, None, None) => 0,
    };
    resources.put("gpu", Some(gpus.into()));
    resources.put("node_count", Some(json!(nodes)).filter(|_| nodes > 1));
    let cpus = asked.cpus_per_task.map(|cpus| cpus.saturating_mul(tasks));
    resources.put("cpu", cpus.map(Value::from));
    let memory = asked
        .memory
        .or_else(|| asked.memory_per_gpu.map(|each| each.saturating_mul(gpus)))
        .or_else(|| {
            asked
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

/// Returns the nearest name that Kubernetes takes.
fn dns_label(text: &str) -> String {
    let plain: String = text
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let name: String = plain
        .trim_start_matches(|c: char| !c.is_ascii_lowercase())
        .chars()
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
