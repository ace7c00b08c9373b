//! What the user types. clap lives here and nowhere else; each verb has a file of its own.

pub mod archive;
pub mod auth_check;
pub mod completion;
pub mod copy;
pub mod create;
pub mod create_secret;
pub mod delete;
pub mod describe_job;
pub mod describe_node;
pub mod events;
pub mod exec;
pub mod get_jobs;
pub mod get_nodes;
pub mod get_pools;
pub mod inputs;
pub mod label_node;
pub mod logs;
pub mod lookup;
pub mod man;
pub mod node_labels;
mod obstacles;
pub mod open;
mod planning;
mod pool_changes;
pub mod pool_nodes;
mod pool_rules;
mod quota_changes;
pub mod quotas;
pub mod run;
pub mod scale;
mod shared_documents;
mod submission;
mod task;
pub mod version;
mod waiting;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use jiff::Timestamp;

use crate::cluster::{Access, Connection};
use crate::config::Environment;
use crate::error::{Error, Kind};
use crate::terminal::{ColorChoice, Terminal};
use crate::view::Format;

/// Run and watch GPU jobs on Kubernetes from a short YAML
///
/// gpuctl turns a small file into Kubernetes objects on your own machine, applies them with your kubeconfig, and answers
/// who holds which GPU and why a job waits. Nothing is installed in the cluster.
#[derive(Debug, Parser)]
#[command(name = "gpuctl", version, propagate_version = true, max_term_width = 100, after_help = FIRST_STEPS)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
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

#[derive(Debug, Subcommand)]
pub enum Command {
    Create(create::Create),
    Run(run::Run),
    /// List jobs, nodes or labels
    #[command(subcommand)]
    Get(Get),
    /// Show everything about one job or node
    #[command(subcommand)]
    Describe(Describe),
    Logs(logs::Logs),
    Events(events::Events),
    Open(open::Open),
    Exec(exec::Exec),
    Attach(exec::Attach),
    #[command(name = "cp")]
    Copy(copy::Copy),
    Scale(scale::Scale),
    /// Pause a job and free its GPUs
    #[command(subcommand)]
    Pause(scale::Pause),
    /// Let a paused job go on
    #[command(subcommand)]
    Resume(scale::Resume),
    Delete(delete::Delete),
    /// Put nodes into pools
    #[command(subcommand)]
    Add(pool_nodes::Add),
    /// Take nodes out of pools
    #[command(subcommand)]
    Remove(pool_nodes::Remove),
    /// Set labels of nodes
    #[command(subcommand)]
    Label(label_node::Label),
    #[command(subcommand)]
    Auth(auth_check::Auth),
    Version(version::Version),
    Completion(completion::Completion),
    Man(man::Man),
}

#[derive(Debug, Subcommand)]
pub enum Get {
    #[command(visible_alias = "job")]
    Jobs(get_jobs::GetJobs),
    #[command(visible_alias = "node")]
    Nodes(get_nodes::GetNodes),
    #[command(visible_alias = "pool")]
    Pools(get_pools::GetPools),
    #[command(visible_alias = "quota")]
    Quotas(quotas::GetQuotas),
    Label(node_labels::NodeLabels),
    NodeLabels(node_labels::NodeLabels),
    GpuType(node_labels::NodeLabels),
}

#[derive(Debug, Subcommand)]
pub enum Describe {
    #[command(visible_alias = "jobs")]
    Job(describe_job::DescribeJob),
    #[command(visible_alias = "nodes")]
    Node(describe_node::DescribeNode),
    #[command(visible_alias = "pools")]
    Pool(get_pools::DescribePool),
    #[command(visible_alias = "quotas")]
    Quota(quotas::DescribeQuota),
}

/// What a verb works with: the streams and the way to the cluster.
pub struct World {
    pub terminal: Terminal,
    pub access: Access,
}

impl World {
    /// Connects; only verbs that need the cluster do.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let connection = Connection::open(&self.access).await?;
        self.terminal.detail(&format!("cluster {}, namespace {}", connection.server(), connection.namespace));
        Ok(connection)
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
    let world = world(&cli.global);
    world.terminal.set_task(task::of(&cli.command));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
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
    (wishes.quiet, wishes.verbose) = (global.quiet, global.verbose);
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
    World { terminal, access }
}

async fn dispatch(command: Command, world: &World) -> Result<ExitCode, Error> {
    match command {
        Command::Create(args) => create::run(&args, world).await,
        Command::Get(Get::Jobs(args)) => get_jobs::run(&args, world).await,
        Command::Get(Get::Nodes(args)) => get_nodes::run(&args, world).await,
        Command::Get(Get::Label(args) | Get::NodeLabels(args) | Get::GpuType(args)) => node_labels::run(&args, world).await,
        Command::Describe(Describe::Job(args)) => describe_job::run(&args, world).await,
        Command::Describe(Describe::Node(args)) => describe_node::run(&args, world).await,
        Command::Get(Get::Pools(args)) => get_pools::run(&args, world).await,
        Command::Get(Get::Quotas(args)) => quotas::run(&args, world).await,
        Command::Describe(Describe::Quota(args)) => quotas::describe(&args, world).await,
        Command::Describe(Describe::Pool(args)) => get_pools::describe(&args, world).await,
        Command::Add(args) => pool_nodes::add(&args, world).await,
        Command::Remove(args) => pool_nodes::remove(&args, world).await,
        Command::Auth(auth) => auth_check::run(&auth, world).await,
        Command::Label(label) => label_node::run(&label, world).await,
        Command::Run(args) => run::run(&args, world).await,
        Command::Logs(args) => logs::run(&args, world).await,
        Command::Events(args) => events::run(&args, world).await,
        Command::Open(args) => open::run(&args, world).await,
        Command::Exec(args) => exec::run(&args, world).await,
        Command::Attach(args) => exec::attach(&args, world).await,
        Command::Copy(args) => copy::run(&args, world).await,
        Command::Scale(args) => scale::scale(&args, world).await,
        Command::Pause(args) => scale::pause(&args, world).await,
        Command::Resume(args) => scale::resume(&args, world).await,
        Command::Delete(args) => delete::run(&args, world).await,
        Command::Version(args) => version::run(&args, world),
        Command::Completion(args) => completion::run(&args, world),
        Command::Man(args) => man::run(&args, world),
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
