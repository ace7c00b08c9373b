//! Which entry of the list of rights a command line is, for hints about missing ones. Files tell theirs when they are read.

use super::{Command, Describe, Get, get_metrics};

/// `get nodes`, as `auth check` names it; `None` for what needs no right, or where a file decides.
#[must_use]
pub fn of(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Get(Get::Jobs(_)) => "get jobs",
        Command::Get(Get::Nodes(_)) => "get nodes",
        Command::Get(Get::Pools(_)) => "get pools",
        Command::Get(Get::Quotas(_)) => "get quotas",
        Command::Get(Get::Label(_) | Get::NodeLabels(_) | Get::GpuType(_)) => "get labels",
        Command::Describe(Describe::Job(_)) => "describe jobs",
        Command::Describe(Describe::Node(_)) => "describe nodes",
        Command::Describe(Describe::Pool(_)) => "describe pools",
        Command::Describe(Describe::Quota(_)) => "describe quotas",
        Command::Get(Get::Overview(_)) => "get overview",
        Command::Get(Get::Heatmap(_)) => "get heatmap",
        Command::Get(Get::Consumers(_)) => "get consumers",
        Command::Get(Get::Workloads(_) | Get::WorkloadMetadata(_)) => "get workloads",
        Command::Describe(Describe::Workload(_)) => "describe workloads",
        Command::Tree(_) => "tree workloads",
        Command::Top(_) => "top workloads",
        Command::Score(_) => "score nodes",
        Command::Stats(_) => "stats nodes",
        Command::Report(_) => "report nodes",
        Command::Eff(_) => "eff workloads",
        Command::Who(_) => "who nodes",
        Command::Snapshot(_) => "snapshot nodes",
        Command::Get(Get::Namespaces(_) | Get::DimensionKeys(_) | Get::DimensionValues(_)) => "get namespaces",
        Command::Get(Get::Clusters(_)) => return None,
        Command::Get(Get::Metrics(get_metrics::GetMetrics::Job(_))) => "metrics jobs",
        Command::Get(Get::Metrics(get_metrics::GetMetrics::Workload(_)) | Get::TrainingPerformance(_)) => "metrics workloads",
        Command::Run(_) => "create jobs",
        Command::Logs(_) => "logs jobs",
        Command::Events(_) => "events jobs",
        Command::Open(_) => "open jobs",
        Command::Exec(_) => "exec jobs",
        Command::Attach(_) => "attach jobs",
        Command::Copy(_) => "cp jobs",
        Command::Scale(_) => "scale services",
        Command::Pause(_) => "pause jobs",
        Command::Resume(_) => "resume jobs",
        Command::Delete(args) => args.task()?,
        Command::Add(_) => "add nodes",
        Command::Remove(_) => "remove nodes",
        Command::Label(_) => "label nodes",
        Command::Create(args) => args.task()?,
        // Files decide.
        Command::Apply(_) | Command::Diff(_) | Command::Validate(_) => return None,
        Command::Auth(_)
        | Command::Config(_)
        | Command::Doctor(_)
        | Command::Version(_)
        | Command::Completion(_)
        | Command::Man(_)
        | Command::Convert(_)
        | Command::Init(_)
        | Command::Explain(_)
        | Command::Schema(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;
    use crate::model::rights::Task;

    #[test]
    fn every_command_that_needs_rights_is_in_the_list() {
        for line in [
            "get jobs",
            "get nodes",
            "get pools",
            "get quotas",
            "get gpu-type --all",
            "describe job a",
            "describe node a",
            "describe pool a",
            "describe quota a",
            "get overview",
            "get heatmap",
            "get consumers",
            "get workloads",
            "get workload-metadata",
            "describe workload a",
            "tree a",
            "top",
            "score",
            "stats cluster",
            "report",
            "eff a",
            "who gpu a/0",
            "snapshot latest",
            "get namespaces",
            "get metrics job a",
            "get metrics workload a",
            "get training-performance a",
            "run --name a --image b -- c",
            "logs a",
            "events a",
            "open a",
            "exec a",
            "attach a",
            "cp a:/b c",
            "scale a --replicas 1",
            "pause job a",
            "resume job a",
            "delete job a",
            "delete pool a",
            "delete quota a",
            "add node a --pool b",
            "remove node a --pool b",
            "label node a b=c",
            "create secret a --from-env B",
        ] {
            let cli = Cli::try_parse_from(["gpuctl"].into_iter().chain(line.split(' '))).unwrap();
            let (verb, resource) = of(&cli.command).unwrap().split_once(' ').unwrap();
            assert!(Task::find(verb, resource).is_some(), "{line}: {verb} {resource}");
        }
    }
}
