//! What people usually type after a command that says nothing of it itself. It knows commands by
//! their names, not what they found.

use clap::ArgMatches;

/// Every command with what follows; an empty text where nothing does, or where the command itself
/// says what.
const NEXT: [(&str, &str); 84] = [
    ("add node", "gpuctl get pools"),
    ("apply", "gpuctl get jobs"),
    ("attach", ""),
    ("auth check", ""),
    ("completion", ""),
    ("config set", "gpuctl config view"),
    ("config view", "gpuctl config set KEY VALUE"),
    ("convert", "gpuctl validate -f FILE"),
    ("cp", ""),
    ("create", "gpuctl get jobs"),
    ("create secret", ""),
    ("delete", "gpuctl free"),
    ("delete defaults", "gpuctl get defaults"),
    ("delete job", "gpuctl free"),
    ("delete pool", "gpuctl get pools"),
    ("delete quota", "gpuctl get quotas"),
    ("describe defaults", "gpuctl apply -f FILE"),
    ("describe job", ""),
    ("describe node", "gpuctl get health"),
    ("describe pool", "gpuctl free"),
    ("describe queue", "gpuctl get jobs"),
    ("describe quota", "gpuctl get quotas"),
    ("describe workload", "gpuctl tree NAME"),
    ("diff", "gpuctl apply -f FILE"),
    ("doctor", "gpuctl get overview"),
    ("drain", "gpuctl get nodes"),
    ("eff", "gpuctl report"),
    ("events", "gpuctl why NAME"),
    ("exec", ""),
    ("explain", "gpuctl init training"),
    ("fit", "gpuctl create -f FILE"),
    ("free", "gpuctl fit -f FILE"),
    ("get claims", "gpuctl describe job NAME"),
    ("get clusters", "gpuctl get overview"),
    ("get consumers", "gpuctl get workloads"),
    ("get defaults", "gpuctl describe defaults"),
    ("get dimension-keys", ""),
    ("get dimension-values", ""),
    ("get gpu-type", "gpuctl free"),
    ("get health", "gpuctl describe node NAME"),
    ("get heatmap", "gpuctl describe node NAME"),
    ("get jobs", "gpuctl describe job NAME"),
    ("get label", ""),
    ("get metrics job", "gpuctl describe job NAME"),
    ("get metrics workload", "gpuctl describe workload NAME"),
    ("get namespaces", "gpuctl get jobs -n NAMESPACE"),
    ("get node-labels", "gpuctl describe node NAME"),
    ("get nodes", "gpuctl describe node NAME"),
    ("get overview", "gpuctl free"),
    ("get pools", "gpuctl describe pool NAME"),
    ("get queues", "gpuctl describe queue NAME"),
    ("get quotas", "gpuctl describe quota NAME"),
    ("get training-performance", "gpuctl describe job NAME"),
    ("get workload-metadata", ""),
    ("get workloads", "gpuctl describe workload NAME"),
    ("init", "gpuctl validate -f FILE"),
    ("label node", "gpuctl get node-labels"),
    ("logs", "gpuctl describe job NAME"),
    ("man", ""),
    ("mcp", ""),
    ("open", ""),
    ("options", ""),
    ("pause job", "gpuctl resume NAME"),
    ("remove node", "gpuctl get pools"),
    ("report", "gpuctl eff NAME"),
    ("restart job", "gpuctl logs NAME -f"),
    ("resume job", "gpuctl get jobs"),
    ("run", "gpuctl get jobs"),
    ("scale", "gpuctl get jobs"),
    ("schema", ""),
    ("score", "gpuctl get health"),
    ("skill", ""),
    ("snapshot latest", "gpuctl snapshot list"),
    ("snapshot list", "gpuctl snapshot latest"),
    ("stats cluster", "gpuctl report"),
    ("stats labels", "gpuctl report"),
    ("stats namespaces", "gpuctl report"),
    ("stats workloads", "gpuctl eff NAME"),
    ("top", ""),
    ("tree", "gpuctl describe workload NAME"),
    ("validate", "gpuctl fit -f FILE"),
    ("version", ""),
    ("who gpu", "gpuctl describe workload NAME"),
    ("why", ""),
];

/// Returns what follows a command that was parsed.
pub(crate) fn after(matches: &ArgMatches) -> Option<&'static str> {
    let (mut name, mut within) = (String::new(), matches);
    while let Some((word, inner)) = within.subcommand() {
        name = if name.is_empty() {
            word.to_owned()
        } else {
            format!("{name} {word}")
        };
        within = inner;
    }
    NEXT.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, next)| *next)
        .filter(|next| !next.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::*;
    use crate::cli::Cli;
    use crate::cli::shorthand::spelled_out;

    fn leaves(command: &Command, name: &str, found: &mut Vec<String>) {
        for inner in command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
        {
            let name = format!("{name} {}", inner.get_name())
                .trim_start()
                .to_owned();
            if !inner.is_subcommand_required_set() {
                found.push(name.clone());
            }
            leaves(inner, &name, found);
        }
    }

    #[test]
    fn every_command_is_in_the_table_and_what_follows_is_one() {
        let mut all = Vec::new();
        leaves(&Cli::command(), "", &mut all);
        all.sort();
        assert_eq!(all, NEXT.map(|(name, _)| name));
        for (_, next) in NEXT.iter().filter(|(_, next)| !next.is_empty()) {
            let words = spelled_out(next.to_lowercase().split(' ').map(Into::into).collect());
            let parsed = Cli::command().try_get_matches_from(words);
            assert!(parsed.is_ok(), "{next}: {}", parsed.unwrap_err());
        }
    }
}
