//! `gpuctl run`: submits a job without a file. The flags are converted to YAML, which is then
//! parsed like a file.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::cli::jobs::run::{RunArgs, RunFormat};
use crate::context::Context;
use crate::deploy::inputs::InputDocument;
use crate::deploy::local_files::{FileAccess, attach};
use crate::deploy::names::with_unique_names;
use crate::deploy::options::DryRun;
use crate::deploy::options::Mode;
use crate::show::submission;
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::checks::plain_secrets;
use gpuctl_manifest::spec::{self, Problems};
use gpuctl_view::{Format, yaml};

pub(crate) async fn run(args: &RunArgs, context: &Context) -> Result<ExitCode, Error> {
    let format = match args.output {
        RunFormat::Text | RunFormat::Spec => Format::Table,
        RunFormat::Json => Format::Json,
        RunFormat::Yaml => Format::Yaml,
    };
    context.terminal.set_format(format);
    let text = yaml(&specification(args));
    let parsed = spec::parse(FILE, &text)?;
    context.terminal.warn_about(&parsed.warnings);
    let secrets = plain_secrets(FILE, &text, &parsed.documents);
    secrets
        .iter()
        .for_each(|problems| context.terminal.warn_about(problems));
    if args.output == RunFormat::Spec {
        if args.submit.dry_run != Some(DryRun::Client) {
            return Err(Error::usage("`-o spec` only prints").hint("add `--dry-run=client`"));
        }
        context.terminal.print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut problems = Vec::new();
    let input = |document| {
        // Allow any path, because the user gave each file on the command line.
        let attached = attach(&document, FILE, &FileAccess::Any, &mut problems);
        InputDocument {
            document,
            file: FILE.to_owned(),
            text: text.clone(),
            attached,
        }
    };
    let documents = parsed.documents.into_iter().map(input).collect();
    if !problems.is_empty() {
        return Err(Problems {
            file: FILE.to_owned(),
            text,
            list: problems,
        }
        .into());
    }
    let documents = with_unique_names(documents, args.generate_name)?;
    submission::submit(
        documents,
        &args.submit.options(Mode::default()),
        format,
        context,
    )
    .await
}

/// The file name that errors show for the YAML that `run` generates.
const FILE: &str = "the YAML of this command (--dry-run -o spec)";

/// Converts the flags to a document, without the fields that the user did not give.
fn specification(args: &RunArgs) -> Value {
    let mut job = Map::from_iter([("name".to_owned(), json!(args.name))]);
    put(&mut job, "priority", args.priority.as_ref());
    put(&mut job, "retries", args.retries);
    let mut environment = Map::from_iter([("image".to_owned(), json!(args.image))]);
    put(
        &mut environment,
        "command",
        Some(&args.command).filter(|command| !command.is_empty()),
    );
    put(
        &mut environment,
        "workingDir",
        Some("/workspace").filter(|_| !args.file.is_empty()),
    );
    let plain_variables = args
        .env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}));
    let secret_variables = args
        .env_secret
        .iter()
        .map(|(name, secret)| json!({"name": name, "secret": secret}));
    let variables: Vec<Value> = plain_variables.chain(secret_variables).collect();
    put(
        &mut environment,
        "env",
        Some(variables).filter(|list| !list.is_empty()),
    );
    let mut resources = Map::from_iter([("gpu".to_owned(), json!(args.gpus))]);
    put(&mut resources, "gpu-type", args.gpu_type.as_ref());
    put(&mut resources, "pool", args.pool.as_ref());
    put(&mut resources, "node_count", args.node_count);
    put(&mut resources, "cpu", args.cpu.as_ref());
    put(&mut resources, "memory", args.memory.as_ref());
    let mut document = json!({"kind": "training", "version": "v0.1", "job": job, "environment": environment, "resources": resources});
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
