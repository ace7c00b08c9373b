//! `create`: reads files, changes them as the command line says, and hands them on to be submitted. Knows names and files;
//! how a document gets into the cluster is known elsewhere.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::{Error, Kind};
use crate::spec::{Document, Override};

use super::inputs::{self, Input};
use super::submission::{self, How};
use super::{OneFormat, World, create_secret, planning};

/// Submit what files describe
///
/// Every document is checked as a whole before anything is written: all problems of the YAML at once, then the API
/// server's own judgement of the objects and of a pod as they will be made. A document whose objects fail part way is
/// taken away again.
#[derive(Args, Debug)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "Examples:
  gpuctl create -f job.yaml
  gpuctl create -f a.yaml -f b.yaml -n team-a
  gpuctl create -f job.yaml --set resources.gpu=4 --name qwen2-lr3
  gpuctl create -f job.yaml --dry-run=client -o yaml
  gpuctl create -f job.yaml --wait=complete --timeout 12h
  gpuctl create secret hub --from-env HF_TOKEN"
)]
pub struct Create {
    #[command(subcommand)]
    what: Option<What>,
    /// File, folder of *.yaml files, or - for stdin; may be repeated
    #[arg(short, long = "filename", required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<String>,
    /// Change a field of every document, as resources.gpu=4; may be repeated
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Override::parse)]
    sets: Vec<Override>,
    /// Name of the one job in the files, instead of job.name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Append a random suffix to each job's name, so that a file can be submitted many times
    #[arg(long)]
    generate_name: bool,
    #[command(flatten)]
    how: How,
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: OneFormat,
}

#[derive(Debug, Subcommand)]
enum What {
    Secret(create_secret::CreateSecret),
}

impl Create {
    /// As `auth check` names it; `None` where files decide.
    pub fn task(&self) -> Option<&'static str> {
        self.what.as_ref().map(|What::Secret(_)| "create secrets")
    }
}

pub async fn run(args: &Create, world: &World) -> Result<ExitCode, Error> {
    if let Some(What::Secret(secret)) = &args.what {
        if !args.files.is_empty() || !args.sets.is_empty() || args.name.is_some() || args.generate_name || args.how.is_said() {
            return Err(Error::usage("`create secret` takes its options behind its name").hint("gpuctl create secret --help"));
        }
        return create_secret::run(secret, world).await;
    }
    world.terminal.set_format(args.output.into());
    let mut overrides = args.sets.clone();
    overrides.extend(args.name.as_deref().map(|name| Override::text(&["job", "name"], name)));
    let inputs = inputs::read(&args.files, &overrides).map_err(|errors| planning::all(world, errors))?;
    inputs.warnings.iter().for_each(|problems| world.terminal.warn_about(problems));
    if args.name.is_some() && inputs.documents.len() != 1 {
        let message = format!("`--name` is for one job, and the files have {} documents", inputs.documents.len());
        return Err(Error::usage(message).hint("name them in the files, or use `--generate-name`"));
    }
    let documents = named(inputs.documents, args.generate_name)?;
    submission::submit(documents, &args.how, args.output.into(), world).await
}

/// Names of one run must differ; `--generate-name` makes them.
pub(super) fn named(mut inputs: Vec<Input>, generate: bool) -> Result<Vec<Input>, Error> {
    for input in &mut inputs {
        let Document::Job(job) = &mut input.document else { continue };
        if generate && !job.append(&suffix()) {
            let message = format!("`{}` is too long to get a suffix", job.name.value);
            return Err(Error::new(Kind::Specification, "NameTooLong", message).hint("shorten `job.name` by six characters"));
        }
    }
    let mut seen: Vec<(&'static str, &str, Option<&str>, &str)> = Vec::new();
    for input in &inputs {
        let (namespace, name) = match &input.document {
            Document::Job(job) => (job.namespace.as_ref().map(|space| space.value.as_str()), job.id()),
            other => (None, other.name()),
        };
        let kind = if matches!(input.document, Document::Job(_)) { "job" } else { input.document.kind() };
        if let Some((_, _, _, file)) = seen.iter().find(|other| (other.0, other.1, other.2) == (kind, name, namespace)) {
            let message = format!("two documents are called `{name}`: in {file} and in {}", input.file);
            return Err(Error::new(Kind::Specification, "DuplicateName", message).hint("rename one, or use `--generate-name`"));
        }
        seen.push((kind, name, namespace, &input.file));
    }
    Ok(inputs)
}

/// Five characters that no other run has chosen; letters that make no words.
pub(super) fn suffix() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = RandomState::new().build_hasher().finish();
    (0..5)
        .map(|_| {
            let letter = LETTERS[usize::try_from(random % 27).expect("below 27")];
            random /= 27;
            char::from(letter)
        })
        .collect()
}
