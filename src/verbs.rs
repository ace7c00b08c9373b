//! The table of verbs. A row says what is typed, which arguments it takes (a path below `cli`),
//! what runs it (a path below `commands`), and which rights in the cluster it needs (lists of
//! `model/contract/rights.rs`).
//!
//! The enums that clap parses, the dispatch and the list behind `auth check` are all made from this
//! table, so a verb is listed here once and nowhere else. The order is the order of `--help`.

use gpuctl_core::model::contract::rights;
use gpuctl_core::model::contract::rights::Task;

/// Hands every row to the macro `$make`.
///
/// The last column is one of
/// - `()`: the verb asks the cluster for nothing, or `auth check` has no word for it;
/// - `("get nodes" [HOLDERS, METRICS])`: the words of `auth check`, and the rights;
/// - `(as "get nodes")`: the rights of another row;
/// - `(by Create::task, "create secrets" [SECRET], …)`: the arguments decide which of the words it
///   is;
/// - `(by_file "apply jobs" [MAKE_JOB, FIND, AWAIT], …)`: the document's kind decides, after
///   parsing.
macro_rules! verbs {
    ($make:ident) => {
        $make! {
            Command {
                Create(files::create::Create) => files::create::run, (
                    by files::create::Create::task,
                    "create jobs" [MAKE_JOB, PLACE, LOOK, AWAIT], "create services" [MAKE_SERVICE, PLACE, LOOK, SERVE, AWAIT],
                    "create notebooks" [MAKE_NOTEBOOK, PLACE, LOOK, AWAIT], "create secrets" [SECRET],
                    "create pools" [DEFINITION, FIRST], "create quotas" [QUOTA],
                    "create defaults" [WRITE_DEFAULTS, FIRST]
                );
                Apply(files::apply::Apply) => files::apply::run, (
                    by_file
                    "apply jobs" [MAKE_JOB, REPLACE_JOB, FIND, PLACE, LOOK, STALE],
                    "apply services" [MAKE_SERVICE, REPLACE_SERVICE, PLACE, LOOK, SERVE, STALE, AWAIT],
                    "apply notebooks" [MAKE_NOTEBOOK, REPLACE_NOTEBOOK, REPAIR_NOTEBOOK, PLACE, LOOK, STALE, AWAIT],
                    "apply pools" [DEFINITION, FIRST], "apply quotas" [QUOTA, STALE_QUOTA],
                    "apply defaults" [WRITE_DEFAULTS, FIRST]
                );
                Diff(files::diff::Diff) => files::diff::run, ("diff" [MAKE_JOB, COMPARE, FIND, PLACE, LOOK, SERVE]);
                Fit(files::fit::FitArgs) => files::fit::run, ("fit" [FIT]);
                Validate(files::validate::Validate) => files::validate::run, ();
                Convert(files::convert::Convert) => files::convert::run, ();
                Init(files::init::Init) => files::init::run, ();
                Explain(files::explain::Explain) => files::explain::run, ();
                Schema(files::schema::Schema) => files::schema::run, ();
                Run(jobs::run::Run) => jobs::run::run, (as "create jobs");
                /// List jobs, nodes, pools, workloads, and what GPUs do
                #[command(subcommand)]
                Get(command::Get) => command::Get::run, (by command::Get::task);
                /// Show everything about one job, node, pool, quota or workload, or the site's
                /// defaults
                #[command(subcommand)]
                Describe(command::Describe) => command::Describe::run, (by command::Describe::task);
                Tree(workloads::tree::Tree) => workloads::tree::run, ("tree" [OWNERS, CHAIN]);
                Why(jobs::why::WhyArgs) => jobs::why::run, ("why" [FIND, ANY_KIND, EXPLAIN, METRICS]);
                Free(nodes::free::Free) => nodes::free::run, ("free" [FREE]);
                Top(metrics::top::Top) => metrics::top::run, ("top" [NODES, OWNERS, LIVE, ROAD]);
                Score(score::ScoreArgs) => score::run, ("score" [SCORED, ROAD]);
                #[command(subcommand)]
                Stats(history::stats::StatsCommand) => history::stats::run, ("stats" [ROAD, PRESENT]);
                Eff(history::eff::Eff) => history::eff::run, ("eff" [ROAD, PRESENT]);
                #[command(subcommand)]
                Who(history::who_gpu::Who) => history::who_gpu::run, ("who gpu" [ROAD, PRESENT]);
                Report(history::report::Report) => history::report::run, ("report" [ROAD, PRESENT]);
                #[command(subcommand)]
                Snapshot(history::snapshot::SnapshotCommand) => history::snapshot::run, ("snapshot" [ROAD, PRESENT]);
                Logs(jobs::logs::Logs) => jobs::logs::run, ("logs" [FIND, ANY_KIND, LOGS]);
                Events(jobs::events::EventsArgs) => jobs::events::run, ("events" [EVENTS, ANY_KIND]);
                Open(jobs::open::Open) => jobs::open::run, ("open" [FIND, ANY_KIND, FORWARD]);
                Exec(jobs::exec::Exec) => jobs::exec::run, ("exec" [FIND, ANY_KIND, EXEC]);
                Attach(jobs::attach::Attach) => jobs::attach::run, ("attach" [FIND, ANY_KIND, ATTACH]);
                #[command(name = "cp")]
                Copy(jobs::copy::Copy) => jobs::copy::run, ("cp" [FIND, ANY_KIND, EXEC]);
                Scale(jobs::scale::Scale) => jobs::scale::run, ("scale" [SCALE]);
                #[command(subcommand)]
                Pause(jobs::pause::Pause) => jobs::pause::run, ("pause jobs" [FIND, ANY_KIND, SWITCH]);
                #[command(subcommand)]
                Resume(jobs::resume::Resume) => jobs::resume::run, ("resume jobs" [FIND, ANY_KIND, SWITCH]);
                #[command(subcommand)]
                Restart(jobs::restart::RestartArgs) => jobs::restart::run, ("restart jobs" [FIND, ANY_KIND, RENEW]);
                Delete(jobs::delete::Delete) => jobs::delete::run, (
                    by jobs::delete::Delete::task,
                    "delete jobs" [FIND, ANY_KIND, DELETE_JOB], "delete pools" [LABELS, PUBLISH, DELETE_POOL], "delete quotas" [DELETE_QUOTA],
                    "delete defaults" [DELETE_DEFAULTS]
                );
                #[command(subcommand)]
                Add(pools::nodes::Add) => pools::nodes::add, ("add nodes" [DEFINITION, FIRST]);
                #[command(subcommand)]
                Remove(pools::nodes::Remove) => pools::nodes::remove, ("remove nodes" [DEFINITION]);
                Drain(nodes::drain::Drain) => nodes::drain::run, ("drain" [DRAIN]);
                #[command(subcommand)]
                Label(nodes::label::Label) => nodes::label::run, ("label nodes" [LABELS, PUBLISH]);
                #[command(subcommand)]
                Auth(access::auth_check::Auth) => access::auth_check::run, ();
                #[command(subcommand)]
                Config(program::config::ConfigCommand) => program::config::run, ();
                Doctor(program::doctor::Doctor) => program::doctor::run, ();
                Options(program::options::Options) => program::options::run, ();
                Version(program::version::VersionArgs) => program::version::run, ();
                Mcp(program::mcp::Mcp) => program::mcp::run, ();
                Skill(program::mcp::Skill) => program::mcp::skill, ();
                Completion(program::completion::Completion) => program::completion::run, ();
                Man(program::man::Man) => program::man::run, ();
            }
            Get {
                #[command(visible_aliases = ["job", "jo"])]
                Jobs(jobs::get::GetJobs) => jobs::get::run, ("get jobs" [FIND, PROGRESS, METRICS]);
                #[command(visible_aliases = ["node", "no"])]
                Nodes(nodes::get::GetNodes) => nodes::get::run, ("get nodes" [HOLDERS, METRICS]);
                #[command(visible_aliases = ["pool", "po"])]
                Pools(pools::get::GetPools) => pools::get::run, ("get pools" [HOLDERS, POOLS, METRICS]);
                #[command(visible_aliases = ["quota", "qu"])]
                Quotas(quotas::get::GetQuotas) => quotas::get::run, ("get quotas" [QUOTAS]);
                #[command(visible_alias = "queue")]
                Queues(queues::get::GetQueues) => queues::get::run, ("get queues" [QUEUES]);
                #[command(visible_alias = "claim")]
                Claims(claims::get::GetClaims) => claims::get::run, ("get claims" [CLAIMS]);
                #[command(visible_alias = "default")]
                Defaults(defaults::get::GetDefaults) => defaults::get::run, ("get defaults" [READ_DEFAULTS]);
                Overview(metrics::overview::GetOverview) => metrics::overview::run, ("get overview" [HOLDERS, METRICS]);
                #[command(visible_alias = "consumer")]
                Consumers(workloads::consumers::GetConsumers) => workloads::consumers::run, ("get consumers" [OWNERS, METRICS]);
                Health(metrics::health::GetHealth) => metrics::health::run, ("get health" [NODES, ROAD]);
                Heatmap(metrics::heatmap::GetHeatmap) => metrics::heatmap::run, ("get heatmap" [ROAD, PRESENT]);
                Clusters(history::clusters::GetClusters) => history::clusters::run, ();
                #[command(visible_alias = "ns")]
                Namespaces(history::dimensions::GetNamespaces) => history::dimensions::namespaces, ("get namespaces" [ROAD, PRESENT]);
                DimensionKeys(history::dimensions::GetDimensionKeys) => history::dimensions::keys, (as "get namespaces");
                DimensionValues(history::dimensions::GetDimensionValues) => history::dimensions::values, (as "get namespaces");
                #[command(visible_aliases = ["workload", "wl"])]
                Workloads(workloads::get::GetWorkloads) => workloads::get::run, ("get workloads" [OWNERS]);
                WorkloadMetadata(workloads::metadata::GetWorkloadMetadata) => workloads::metadata::run, (as "get workloads");
                /// Show what GPUs did over a time
                #[command(subcommand)]
                Metrics(command::GetMetrics) => command::GetMetrics::run, (by command::GetMetrics::task);
                TrainingPerformance(metrics::training_performance::TrainingPerformance)
                    => metrics::training_performance::run, (as "get metrics workload");
                Label(nodes::labels::NodeLabels) => nodes::labels::run, ("get labels" [READ_LABELS]);
                NodeLabels(nodes::labels::NodeLabels) => nodes::labels::run, (as "get labels");
                GpuType(nodes::labels::NodeLabels) => nodes::labels::run, (as "get labels");
            }
            GetMetrics {
                #[command(visible_alias = "jobs")]
                Job(metrics::job::JobMetricsArgs) => metrics::job::run, ("get metrics job" [FIND, ANY_KIND, ROAD, THROUGHPUT]);
                #[command(visible_alias = "workloads")]
                Workload(metrics::workload::WorkloadMetrics) => metrics::workload::run, ("get metrics workload" [OWNERS, ROAD, ALL_LOGS]);
            }
            Describe {
                #[command(visible_aliases = ["jobs", "jo"])]
                Job(jobs::describe::DescribeJob) => jobs::describe::run, ("describe jobs" [FIND, ANY_KIND, PROGRESS, METRICS]);
                #[command(visible_aliases = ["nodes", "no"])]
                Node(nodes::describe::DescribeNode) => nodes::describe::run, ("describe nodes" [HOLDERS, METRICS]);
                #[command(visible_alias = "pools")]
                Pool(pools::describe::DescribePool) => pools::describe::run, ("describe pools" [HOLDERS, POOLS, METRICS]);
                #[command(visible_alias = "quotas")]
                Quota(quotas::describe::DescribeQuota) => quotas::describe::run, ("describe quotas" [QUOTAS]);
                #[command(visible_alias = "queues")]
                Queue(queues::describe::DescribeQueue) => queues::describe::run, ("describe queues" [FIND, QUEUES]);
                #[command(visible_alias = "default")]
                Defaults(defaults::describe::DescribeDefaults) => defaults::describe::run, ("describe defaults" [READ_DEFAULTS]);
                #[command(visible_aliases = ["workloads", "wl"])]
                Workload(workloads::describe::DescribeWorkload) => workloads::describe::run, ("describe workloads" [OWNERS, CHAIN, METRICS]);
            }
        }
    };
}

/// The tasks of one row.
macro_rules! tasks_of {
    (()) => { &[] };
    ((as $words:literal)) => { &[] };
    ((by $decide:path)) => { &[] };
    ((by $decide:path, $($words:literal [$($rules:ident),*]),+)) => { &[$(Task::new($words, &[$(rights::$rules),*])),+] };
    ((by_file $($words:literal [$($rules:ident),*]),+)) => { &[$(Task::new($words, &[$(rights::$rules),*])),+] };
    (($words:literal [$($rules:ident),*])) => { &[Task::new($words, &[$(rights::$rules),*])] };
}

/// The words of another row with the same rights.
macro_rules! same_as {
    ((as $words:literal)) => {
        Some($words)
    };
    ($($rights:tt)*) => {
        None
    };
}

macro_rules! define_tasks {
    ($($group:ident { $($(#[$attribute:meta])* $verb:ident($args:path) => $run:path, $rights:tt;)* })*) => {
        /// The tasks of every row, in the order of the table.
        const ROWS: &[&[Task]] = &[$($(tasks_of!($rights),)*)*];

        /// Rows that share the rights of another row: group, name, and the other row's words.
        const ALIASES: &[(&str, &str, Option<&str>)] =
            &[$($((stringify!($group), stringify!($verb), same_as!($rights)),)*)*];
    };
}

verbs!(define_tasks);

/// Returns what each command needs, in the order of the table.
pub(crate) fn tasks() -> impl Iterator<Item = &'static Task> {
    ROWS.iter().copied().flatten()
}

/// Finds the task of these words. Accepts a singular noun and a superfluous noun.
pub(crate) fn task(words: &str) -> Option<&'static Task> {
    let same = |task: &&Task| task.words == words || task.words.strip_suffix('s') == Some(words);
    tasks()
        .find(same)
        .or_else(|| alias(words))
        .or_else(|| as_job(words))
        .or_else(|| {
            // `logs jobs` means `logs`, but `logs why` are two commands.
            let (verb, rest) = words.split_once(' ')?;
            let is_verb = |word: &str| tasks().any(|task| task.verb() == word);
            tasks()
                .find(|task| task.words == verb)
                .filter(|_| !rest.contains(' ') && !is_verb(rest))
        })
}

/// Finds the task of a command that shares another command's rights: `run`, `diff`, `get
/// node-labels`.
fn alias(words: &str) -> Option<&'static Task> {
    let (group, name) = words
        .rsplit_once(' ')
        .map_or(("command", words), |(group, name)| (group, name));
    let plain = |text: &str| text.replace(['-', ' '], "").to_ascii_lowercase();
    let (_, _, other) = ALIASES
        .iter()
        .filter(|(.., other)| other.is_some())
        .find(|(of, verb, _)| plain(of) == plain(group) && plain(verb) == plain(name))?;
    tasks().find(|task| Some(task.words) == *other)
}

/// Finds the task of a noun that is a kind of job: `delete services` needs the rights of `delete
/// jobs`.
fn as_job(words: &str) -> Option<&'static Task> {
    let (verb, noun) = words.rsplit_once(' ')?;
    let is_kind = ["training", "inference", "service", "notebook", "compute"]
        .contains(&noun.strip_suffix('s').unwrap_or(noun));
    tasks().find(|task| is_kind && task.words.strip_suffix(" jobs") == Some(verb))
}

/// Words that are not a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownCommand {
    /// The first words that do not begin a command.
    pub words: String,
}

/// Splits words into commands: `create logs get nodes` names three. A verb without a noun includes
/// all of its nouns. A writing verb without a noun includes only jobs, services and notebooks; its
/// other nouns must be explicit.
pub(crate) fn named_tasks(words: &[String]) -> Result<Vec<&'static Task>, UnknownCommand> {
    let mut named: Vec<&'static Task> = Vec::new();
    let mut rest = words;
    while let Some(first) = rest.first() {
        let longest = (1..=rest.len().min(3))
            .rev()
            .find_map(|count| Some((task(&rest[..count].join(" "))?, count)));
        let (found, count) = match longest {
            Some((task, count)) => (vec![task], count),
            None => (of_verb(first), 1),
        };
        // `create nodes` has a wrong noun. It does not mean `create` followed by another command,
        // and neither does `get events`.
        let needs_noun = count == 1 && matches!(first.as_str(), "get" | "describe");
        let is_end =
            |word: &String| !needs_noun && (task(word).is_some() || !of_verb(word).is_empty());
        if found.is_empty() || !rest.get(count).is_none_or(is_end) {
            let wrong = rest.len().min(count + usize::from(!found.is_empty()));
            return Err(UnknownCommand {
                words: rest[..wrong].join(" "),
            });
        }
        named.extend(found);
        rest = &rest[count..];
    }
    named.sort_by_key(|task| task.words);
    named.dedup_by_key(|task| task.words);
    Ok(named)
}

/// The tasks of a verb without a noun.
fn of_verb(verb: &str) -> Vec<&'static Task> {
    const JOBS: [&str; 3] = ["jobs", "services", "notebooks"];
    let all: Vec<&'static Task> = tasks().filter(|task| task.verb() == verb).collect();
    let of_jobs: Vec<&'static Task> = all
        .iter()
        .copied()
        .filter(|task| JOBS.contains(&task.resource()))
        .collect();
    if matches!(verb, "get" | "describe") || of_jobs.is_empty() {
        all
    } else {
        of_jobs
    }
}

#[cfg(test)]
mod tests;
