//! Pages of `gpuctl help WORD` for tasks without a command.

/// Pages, with the words that select them.
const PAGES: [(&[&str], &str); 3] = [
    (
        &[
            "sweep", "sweeps", "array", "arrays", "grid", "hpo", "trials",
        ],
        SWEEP,
    ),
    (
        &[
            "nightly",
            "cron",
            "cronjob",
            "crontab",
            "schedule",
            "scheduled",
            "daily",
            "weekly",
        ],
        SCHEDULE,
    ),
    (&["secret", "secrets"], SECRETS),
];

const SWEEP: &str = "\
A sweep is one job for each value. A loop submits one file under several names:

  for lr in 1e-4 3e-4 1e-3; do
    gpuctl create job.yaml --name sft-$lr --set environment.env.LR=$lr --set job.labels.sweep=lr
  done

  gpuctl get jobs -l sweep=lr               the jobs of the sweep
  gpuctl wait -l sweep=lr --for ended       wait until all of them have ended
  gpuctl convert array.sh                   a Slurm script with `--array`, as one job for each index

There is no array of jobs, and no option for how many of them run at once. A queue or a quota of the
namespace limits them:

  gpuctl get queues
  gpuctl get quotas
";

const SCHEDULE: &str = "\
gpuctl starts no jobs at a time of day. A job file has no field for a schedule, and a CronJob cannot
be declared or converted. Submit the file from your own cron, or from the schedule of a CI system.
This line of a crontab submits it each night at 2:00:

  0 2 * * * gpuctl --kubeconfig $HOME/.kube/config create $HOME/nightly.yaml --generate-name

  gpuctl create nightly.yaml --generate-name                      a new name for each run
  gpuctl create nightly.yaml --generate-name --wait=complete      for CI: fails if the job fails
  gpuctl explain job.keep_for                                     how long an ended training stays
";

const SECRETS: &str = "\
A token belongs in a Secret of the job's namespace. gpuctl creates Secrets and never prints values:

  gpuctl create secret hub --from-env HF_TOKEN          from a variable of your shell
  gpuctl create secret hub --from-file HF_TOKEN=token   from a file

A job reads a key of it as a variable:

  environment:
    env: [{name: HF_TOKEN, secret: hub}]

  gpuctl explain environment.env

gpuctl does not list or delete Secrets. kubectl does: `kubectl get secrets`.
";

/// Returns the page that a word selects, if any.
pub(crate) fn page(word: &str) -> Option<&'static str> {
    let word = word.to_lowercase();
    PAGES
        .iter()
        .find(|(words, _)| words.contains(&word.as_str()))
        .map(|(_, page)| *page)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;
    use crate::cli::shorthand::expand;

    #[test]
    fn commands_in_the_pages_parse() {
        for (words, page) in PAGES {
            let lines: Vec<&str> = page
                .lines()
                .filter_map(|line| line.strip_prefix("  "))
                .map(str::trim_start)
                .filter(|line| line.starts_with("gpuctl "))
                .collect();
            assert!(lines.len() >= 3, "{words:?}");
            for line in lines {
                let command = line.split("   ").next().unwrap().trim_end();
                let words = command.split(' ').map(Into::into).collect();
                let root = Cli::command();
                let parsed = root.clone().try_get_matches_from(expand(&root, words));
                assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
            }
            assert!(page.lines().all(|line| line.chars().count() <= 100));
        }
    }

    #[test]
    fn tasks_are_found_by_their_words() {
        assert_eq!(page("Sweep"), Some(SWEEP));
        assert_eq!(page("cron"), page("nightly"));
        assert_eq!(page("jobs"), None);
        let root = Cli::command();
        let words = PAGES.iter().flat_map(|(words, _)| *words);
        for word in words {
            assert!(
                root.find_subcommand(word).is_none(),
                "`{word}` is a command"
            );
        }
    }
}
