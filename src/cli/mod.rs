//! What the user types. clap lives here and nowhere else; each verb has a file of its own.

mod analysis;
pub mod apply;
pub mod archive;
pub mod auth_check;
mod columns;
pub mod command;
pub mod completion;
pub mod config;
pub mod config_reference;
pub mod convert;
pub mod copy;
pub mod create;
pub mod create_secret;
pub mod delete;
pub mod describe_job;
pub mod describe_node;
pub mod describe_workload;
pub mod diff;
pub mod doctor;
pub mod eff;
pub mod events;
pub mod exec;
pub mod get_heatmap;
pub mod get_history;
pub mod get_jobs;
pub mod get_metrics;
pub mod get_nodes;
pub mod get_overview;
pub mod get_pools;
pub mod get_workloads;
mod hours;
pub mod inputs;
mod interrupt;
mod judgement;
pub mod label_node;
pub mod logs;
pub mod lookup;
pub mod man;
mod metrics;
pub mod node_labels;
mod obstacles;
pub mod open;
mod past;
mod planning;
mod pool_changes;
pub mod pool_nodes;
mod pool_rules;
mod quota_changes;
pub mod quotas;
pub mod report;
pub mod run;
pub mod scale;
pub mod schema;
pub mod score;
mod score_outbound;
mod score_settings;
mod score_watch;
mod shared_documents;
pub mod snapshot;
pub mod stats;
mod submission;
mod task;
mod then;
mod times;
mod told;
pub mod top;
pub mod validate;
pub mod version;
mod waiting;
mod watch;
mod workloads;
mod writing;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, ValueEnum};
use jiff::Timestamp;

use crate::cluster::{Access, Connection};
use crate::config::{Config, Environment, MetricsSource};
use crate::error::{Error, Kind};
use crate::terminal::{ColorChoice, Talk, Terminal};
use crate::view::Format;

use command::dispatch;
pub use command::{Command, Describe, Get};

/// Run and watch GPU jobs on Kubernetes from a short YAML
///
/// gpuctl turns a small file into Kubernetes objects on your own machine, applies them with your kubeconfig, and answers
/// who holds which GPU and why a job waits. Nothing is installed in the cluster.
#[derive(Debug, Parser)]
#[command(name = "gpuctl", version, propagate_version = true, max_term_width = 100, after_help = FIRST_STEPS)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(flatten)]
    pub metrics: metrics::MetricsArgs,
    #[command(subcommand)]
    pub command: Command,
}

const FIRST_STEPS: &str = "First steps:
  gpuctl create -f job.yaml      submit what a file describes
  gpuctl get jobs                see it wait, run and end
  gpuctl logs NAME -f            read what it says
  gpuctl delete job NAME         free its GPUs";

/// Options of every command
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// Kubeconfig file to use instead of KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub context: Option<String>,
    /// Namespace to work in
    #[arg(short, long, global = true, value_name = "NAME", value_parser = object_name, help_heading = "Global options")]
    pub namespace: Option<String>,
    /// User to act as
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Global options")]
    pub impersonate: Option<String>,
    /// Group to act as; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "impersonate", help_heading = "Global options")]
    pub impersonate_group: Vec<String>,
    /// Longest time that one request may take
    #[arg(long, global = true, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "Global options")]
    pub request_timeout: Duration,
    /// When to use colors
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN", help_heading = "Global options")]
    pub color: When,
    /// Draw bars and boxes with ASCII characters
    #[arg(long, global = true, help_heading = "Global options")]
    pub plain: bool,
    /// Say nothing but data and errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true, conflicts_with = "quiet", help_heading = "Global options")]
    pub verbose: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// Formats of commands that print a list.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ListFormat {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    Name,
    Csv,
}

impl From<ListFormat> for Format {
    fn from(format: ListFormat) -> Self {
        match format {
            ListFormat::Table => Self::Table,
            ListFormat::Wide => Self::Wide,
            ListFormat::Json => Self::Json,
            ListFormat::Yaml => Self::Yaml,
            ListFormat::Name => Self::Name,
            ListFormat::Csv => Self::Csv,
        }
    }
}

/// Formats of commands that answer about one thing.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum OneFormat {
    #[default]
    Text,
    Json,
    Yaml,
}

impl From<OneFormat> for Format {
    fn from(format: OneFormat) -> Self {
        match format {
            OneFormat::Text => Self::Table,
            OneFormat::Json => Self::Json,
            OneFormat::Yaml => Self::Yaml,
        }
    }
}

/// What a verb works with: the streams and the way to the cluster.
pub struct World {
    pub terminal: Terminal,
    pub access: Access,
    /// Where metrics come from; an error waits until somebody asks for them.
    metrics: RefCell<Result<MetricsSource, Error>>,
    /// What the command line says of it.
    flags: metrics::MetricsArgs,
    /// True once somebody was told what the config file has that nobody reads.
    told: Cell<bool>,
    /// True when cells of metrics must not be empty.
    pub require_metrics: bool,
}

impl World {
    /// Connects; only verbs that need the cluster do.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let connection = Connection::open(&self.access).await?;
        self.terminal.detail(&format!("cluster {}, namespace {}", connection.server(), connection.namespace));
        Ok(connection)
    }

    /// Where metrics come from. Tells once of keys in the config file that are none.
    pub fn metrics(&self) -> Result<MetricsSource, Error> {
        let source = self.metrics.borrow().clone()?;
        if !self.told.replace(true) {
            source.unknown.iter().for_each(|unknown| self.terminal.warn(unknown));
        }
        Ok(source)
    }

    /// What environment and config file say now.
    pub fn config(&self) -> Result<Config, Error> {
        Config::read(self.flags.config.as_deref()).map_err(Error::usage)
    }

    /// The config file that was named.
    #[must_use]
    pub fn config_file(&self) -> Option<&Path> {
        self.flags.config.as_deref()
    }

    /// What a flag of every command says of a setting.
    #[must_use]
    pub fn flag(&self, key: &str) -> Option<serde_json::Value> {
        self.flags.said(key)
    }

    /// Reads files with tokens again, for those are replaced while a program runs. What cannot be read stays as it was.
    pub fn renew_credentials(&self) {
        if let Ok(source) = self.flags.source() {
            *self.metrics.borrow_mut() = Ok(source);
        }
    }

    /// Reads where metrics come from again: the config file has changed.
    pub fn read_again(&self) -> Result<(), Error> {
        let source = self.flags.source()?;
        self.told.set(false);
        *self.metrics.borrow_mut() = Ok(source);
        Ok(())
    }

    /// The time that ages count from.
    #[expect(clippy::disallowed_methods, reason = "the world is where the clock is")]
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Parses the command line, runs the verb, reports its failure.
#[must_use]
pub fn run() -> ExitCode {
    clap_complete::CompleteEnv::with_factory(Cli::command).complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return misused(&error);
        }
    };
    let mut world = world(&cli.global);
    world.require_metrics = cli.metrics.require_metrics;
    world.terminal.set_task(task::of(&cli.command));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    world.metrics = RefCell::new(cli.metrics.source());
    world.flags = cli.metrics;
    let result = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli.command, &world)),
        Err(error) => Err(Error::new(Kind::Request, "RuntimeFailed", format!("cannot start: {error}"))),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            world.terminal.fail(&error);
            ExitCode::from(error.kind.exit_code())
        }
    }
}

/// Help and version are data; everything else is wrong usage, which clap explains best to people.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let asked = |pair: &[String]| matches!(pair[0].as_str(), "-o" | "--output") && matches!(pair[1].as_str(), "json" | "yaml");
    let joined =
        |word: &String| matches!(word.as_str(), "-ojson" | "-oyaml" | "-o=json" | "-o=yaml" | "--output=json" | "--output=yaml");
    if words.windows(2).any(asked) || words.iter().any(joined) {
        let text = error.to_string();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let terminal = Terminal::new(Environment::read().wishes());
        terminal.set_format(Format::Json);
        terminal.fail(&Error::usage(message).hint("gpuctl --help"));
    } else {
        let _ = error.print();
    }
    ExitCode::from(Kind::Usage.exit_code())
}

fn world(global: &Global) -> World {
    let environment = Environment::read();
    let mut wishes = environment.wishes();
    wishes.color = match global.color {
        When::Auto => ColorChoice::Auto,
        When::Always => ColorChoice::Always,
        When::Never => ColorChoice::Never,
    };
    wishes.plain |= global.plain;
    wishes.talk = match (global.quiet, global.verbose) {
        (true, _) => Talk::Errors,
        (_, true) => Talk::Details,
        _ => Talk::default(),
    };
    let terminal = Terminal::new(wishes);
    let access = Access {
        kubeconfig: global.kubeconfig.clone().map_or(environment.kubeconfig, |file| vec![file]),
        context: global.context.clone(),
        namespace: global.namespace.clone(),
        impersonate: global.impersonate.clone(),
        impersonate_groups: global.impersonate_group.clone(),
        request_timeout: global.request_timeout,
        interactive: terminal.is_interactive(),
    };
    World {
        terminal,
        access,
        metrics: RefCell::new(Ok(MetricsSource::default())),
        flags: metrics::MetricsArgs::default(),
        told: Cell::new(false),
        require_metrics: false,
    }
}

/// What Kubernetes' names look like: anything else would only get lost in a URL or a selector.
fn object_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let edge = |c: char| c.is_ascii_alphanumeric();
    let good =
        text.len() <= 253 && text.bytes().all(plain) && text.starts_with(edge) && text.ends_with(edge) && !text.contains("..");
    if good { Ok(text.to_owned()) } else { Err("a name of letters, digits, `-` and `.`".to_owned()) }
}

/// `30s`, `5m`, `2d` on the command line.
fn duration(text: &str) -> Result<Duration, String> {
    crate::model::quantity::duration(text).ok_or_else(|| "a duration such as 30s, 5m or 2h".to_owned())
}
