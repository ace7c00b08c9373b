//! `run`: a job without a file. The flags become the YAML that they stand for, which is read, checked and submitted like
//! any other; `-o spec` prints it.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::spec;
use crate::view::{Format, yaml};

use super::create::named;
use super::inputs::Input;
use super::submission::{self, DryRun, How};
use super::{World, object_name};

/// Run a command on GPUs, without a file
///
/// Everything is as if the YAML that the flags stand for had been given to `gpuctl create`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gpuctl run --name sft --gpus 1 --image pytorch/pytorch:2.9.0 --file train.py -- python train.py
  gpuctl run --name big --gpus 8 --node-count 2 --pool training-pool --image my/image:1 --wait -- torchrun train.py
  gpuctl run --name sft --gpus 1 --image my/image:1 --dry-run=client -o spec -- python train.py > sft.yaml")]
pub struct Run {
    /// Name of the job
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Container image
    #[arg(long, value_name = "IMAGE")]
    image: String,
    /// GPUs per node
    #[arg(long, value_name = "N", default_value_t = 1)]
    gpus: u32,
    /// Type of the GPUs, such as a100-80g
    #[arg(long, value_name = "TYPE")]
    gpu_type: Option<String>,
    /// Nodes
    #[arg(long, value_name = "N")]
    node_count: Option<u32>,
    /// Pool to run in
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pool: Option<String>,
    /// CPUs per node
    #[arg(long, value_name = "AMOUNT")]
    cpu: Option<String>,
    /// Memory per node, such as 64Gi
    #[arg(long, value_name = "AMOUNT")]
    memory: Option<String>,
    /// Local file to bring along; it is in /workspace, where the command starts. May be repeated
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    file: Vec<String>,
    /// Environment variable, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Secret whose key of the same name becomes a variable, as NAME=SECRET; may be repeated
    #[arg(long, value_name = "NAME=SECRET", value_parser = variable)]
    env_secret: Vec<(String, String)>,
    /// Priority: high, medium, low, or an existing class
    #[arg(long, value_name = "PRIORITY")]
    priority: Option<String>,
    /// Retries per node
    #[arg(long, value_name = "N")]
    retries: Option<u32>,
    /// Append a random suffix to the name, so that a command can be run many times
    #[arg(long)]
    generate_name: bool,
    #[command(flatten)]
    how: How,
    /// Output format; spec is the YAML that this command stands for
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: RunFormat,
    /// Command and its arguments, after `--`; the image's own if there is none
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum RunFormat {
    #[default]
    Text,
    Json,
    Yaml,
    Spec,
}

fn variable(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| "a name and a value, such as LR=0.1".to_owned())
}

pub async fn run(args: &Run, world: &World) -> Result<ExitCode, Error> {
    let format = match args.output {
        RunFormat::Text | RunFormat::Spec => Format::Table,
        RunFormat::Json => Format::Json,
        RunFormat::Yaml => Format::Yaml,
    };
    world.terminal.set_format(format);
    let text = yaml(&specification(args));
    let parsed = spec::parse("the YAML of this command (-o spec)", &text)?;
    world.terminal.warn_about(&parsed.warnings);
    if args.output == RunFormat::Spec {
        if args.how.dry_run != Some(DryRun::Client) {
            return Err(Error::usage("`-o spec` only shows").hint("add `--dry-run=client`"));
        }
        world.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let input = |document| Input { document, file: "-".to_owned(), text: text.clone() };
    let documents = named(parsed.documents.into_iter().map(input).collect(), args.generate_name)?;
    submission::submit(documents, &args.how, format, world).await
}

/// The document that the flags stand for; what was not said is left out.
fn specification(args: &Run) -> Value {
    let mut job = Map::from_iter([("name".to_owned(), json!(args.name))]);
    put(&mut job, "priority", args.priority.as_ref());
    put(&mut job, "retries", args.retries);
    let mut environment = Map::from_iter([("image".to_owned(), json!(args.image))]);
    put(&mut environment, "command", Some(&args.command).filter(|command| !command.is_empty()));
    put(&mut environment, "workingDir", Some("/workspace").filter(|_| !args.file.is_empty()));
    let plain = args.env.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let secret = args.env_secret.iter().map(|(name, secret)| json!({"name": name, "secret": secret}));
    let variables: Vec<Value> = plain.chain(secret).collect();
    put(&mut environment, "env", Some(variables).filter(|list| !list.is_empty()));
    let mut resources = Map::from_iter([("gpu".to_owned(), json!(args.gpus))]);
    put(&mut resources, "gpu-type", args.gpu_type.as_ref());
    put(&mut resources, "pool", args.pool.as_ref());
    put(&mut resources, "node_count", args.node_count);
    put(&mut resources, "cpu", args.cpu.as_ref());
    put(&mut resources, "memory", args.memory.as_ref());
    let mut document =
        json!({"kind": "training", "version": "v0.1", "job": job, "environment": environment, "resources": resources});
    if !args.file.is_empty() {
        document["files"] = json!(args.file);
    }
    document
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        map.insert(key.to_owned(), json!(value));
    }
}
