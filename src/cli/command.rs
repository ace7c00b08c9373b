//! Every verb and its way to the code: a verb is added here, in a file of its own, and nowhere else.

use std::process::ExitCode;

use clap::Subcommand;

use crate::error::Error;

use super::{
    World, apply, auth_check, completion, config, convert, copy, create, delete, describe_job, describe_node, describe_workload,
    diff, doctor, eff, events, exec, get_heatmap, get_history, get_jobs, get_metrics, get_nodes, get_overview, get_pools,
    get_workloads, label_node, logs, man, node_labels, open, pool_nodes, quotas, report, run, scale, schema, score, snapshot,
    stats, then, top, validate, version,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    Create(create::Create),
    Apply(apply::Apply),
    Diff(diff::Diff),
    Validate(validate::Validate),
    Convert(convert::Convert),
    Init(schema::Init),
    Explain(schema::Explain),
    Schema(schema::Schema),
    Run(run::Run),
    /// List jobs, nodes, pools, workloads, what GPUs do
    #[command(subcommand)]
    Get(Get),
    /// Show everything about one job or node
    #[command(subcommand)]
    Describe(Describe),
    Tree(describe_workload::Tree),
    Top(top::Top),
    Score(score::ScoreArgs),
    /// Show what hours came to: GPUs held, weighted by time, and how much of them was used
    #[command(subcommand)]
    Stats(stats::Stats),
    Eff(eff::Eff),
    /// Say who has or had a GPU
    #[command(subcommand)]
    Who(then::Who),
    Report(report::Report),
    /// Show who held which GPUs at a time
    #[command(subcommand)]
    Snapshot(snapshot::Snapshot),
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
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::Doctor),
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
    Overview(get_overview::GetOverview),
    #[command(visible_alias = "consumer")]
    Consumers(get_workloads::GetConsumers),
    Heatmap(get_heatmap::GetHeatmap),
    Clusters(get_history::GetClusters),
    Namespaces(get_history::GetNamespaces),
    DimensionKeys(get_history::GetDimensionKeys),
    DimensionValues(get_history::GetDimensionValues),
    #[command(visible_alias = "workload")]
    Workloads(get_workloads::GetWorkloads),
    WorkloadMetadata(get_workloads::GetWorkloadMetadata),
    #[command(subcommand)]
    Metrics(get_metrics::GetMetrics),
    TrainingPerformance(get_metrics::TrainingPerformance),
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
    #[command(visible_alias = "workloads")]
    Workload(describe_workload::DescribeWorkload),
}

pub(super) async fn dispatch(command: Command, world: &World) -> Result<ExitCode, Error> {
    match command {
        Command::Create(args) => create::run(&args, world).await,
        Command::Apply(args) => apply::run(&args, world).await,
        Command::Diff(args) => diff::run(&args, world).await,
        Command::Validate(args) => validate::run(&args, world).await,
        Command::Convert(args) => convert::run(&args, world),
        Command::Init(args) => schema::init(&args, world),
        Command::Explain(args) => schema::explain(&args, world),
        Command::Schema(args) => schema::schema_of(&args, world),
        Command::Get(Get::Jobs(args)) => get_jobs::run(&args, world).await,
        Command::Get(Get::Nodes(args)) => get_nodes::run(&args, world).await,
        Command::Get(Get::Label(args) | Get::NodeLabels(args) | Get::GpuType(args)) => node_labels::run(&args, world).await,
        Command::Describe(Describe::Job(args)) => describe_job::run(&args, world).await,
        Command::Describe(Describe::Node(args)) => describe_node::run(&args, world).await,
        Command::Get(Get::Pools(args)) => get_pools::run(&args, world).await,
        Command::Get(Get::Quotas(args)) => quotas::run(&args, world).await,
        Command::Get(Get::Overview(args)) => get_overview::run(&args, world).await,
        Command::Get(Get::Consumers(args)) => get_workloads::consumers(&args, world).await,
        Command::Get(Get::Heatmap(args)) => get_heatmap::run(&args, world).await,
        Command::Get(Get::Workloads(args)) => get_workloads::run(&args, world).await,
        Command::Get(Get::WorkloadMetadata(args)) => get_workloads::metadata(&args, world).await,
        Command::Get(Get::Metrics(args)) => get_metrics::run(&args, world).await,
        Command::Get(Get::TrainingPerformance(args)) => get_metrics::training(&args, world).await,
        Command::Describe(Describe::Workload(args)) => describe_workload::run(&args, world).await,
        Command::Who(args) => then::who(&args, world).await,
        Command::Eff(args) => eff::run(&args, world).await,
        Command::Report(args) => report::run(&args, world).await,
        Command::Snapshot(args) => snapshot::run(&args, world).await,
        Command::Get(Get::Clusters(args)) => get_history::get_clusters(&args, world),
        Command::Get(Get::Namespaces(args)) => get_history::namespaces(&args, world).await,
        Command::Get(Get::DimensionKeys(args)) => get_history::keys(&args, world).await,
        Command::Get(Get::DimensionValues(args)) => get_history::values(&args, world).await,
        Command::Stats(args) => stats::run(&args, world).await,
        Command::Score(args) => score::run(&args, world).await,
        Command::Top(args) => top::run(&args, world).await,
        Command::Config(args) => config::run(&args, world),
        Command::Doctor(args) => doctor::run(&args, world).await,
        Command::Tree(args) => describe_workload::tree(&args, world).await,
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
