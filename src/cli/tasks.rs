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
A sweep runs one job per value. To start one, submit the same file in a loop, with a different name
and value each time:

  for lr in 1e-4 3e-4 1e-3; do
    gpuctl create job.yaml --name sft-$lr --set environment.env.LR=$lr --set job.labels.sweep=lr
  done

  gpuctl get jobs -l sweep=lr               list the jobs of the sweep
  gpuctl wait -l sweep=lr --for ended       wait until all of them have ended
  gpuctl logs -l sweep=lr -f                follow their logs
  gpuctl why -l sweep=lr --status failed    explain why some of them failed
  gpuctl convert array.sh                   convert a Slurm array script to one job per index

gpuctl has no job arrays, and no option that limits how many jobs of a sweep run at once. Use a
queue or a namespace quota for that:

  gpuctl get queues
  gpuctl get quotas
";

const SCHEDULE: &str = "\
gpuctl cannot run jobs on a schedule: job files have no field for it, and `gpuctl convert` does not
convert CronJobs. Submit the job file from cron or from a scheduled CI pipeline instead. This
crontab line submits it every night at 2:00:

  0 2 * * * gpuctl --kubeconfig $HOME/.kube/config create $HOME/nightly.yaml --generate-name

  gpuctl create nightly.yaml --generate-name                      add a random suffix to the name
  gpuctl create nightly.yaml --generate-name --wait=complete      also fail if the job fails, for CI
  gpuctl explain job.keep_for                                     how long ended trainings are kept
";

const SECRETS: &str = "\
Store tokens in a Secret in the job's namespace. gpuctl never prints the values of a Secret:

  gpuctl create secret hub --from-env HF_TOKEN          from an environment variable
  gpuctl create secret hub --from-file HF_TOKEN=token   from a file

A job can read a key of the Secret as an environment variable:

  environment:
    env: [{name: HF_TOKEN, secret: hub}]

  gpuctl explain environment.env

To list or delete Secrets, use `kubectl get secrets` and `kubectl delete secret`.
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
