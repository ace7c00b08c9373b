//! Answers `gpuctl help WORD` for words that are neither commands nor topics. Lists commands whose
//! help contains the word, and commands that correspond to a Chinese word or a word of another
//! tool.

use clap::Command;

/// Words with the corresponding commands. A test checks the commands against clap.
const TERMS: [(&[&str], &[&str]); 26] = [
    (
        &["排队", "等待", "pending", "stuck", "queued"],
        &["why", "fit", "get queues"],
    ),
    (
        &["失败", "崩溃", "报错", "crash", "oom"],
        &["why", "logs", "describe job"],
    ),
    (&["卡住", "挂起", "hang", "nccl"], &["why", "logs"]),
    (&["提交", "sbatch", "qsub"], &["create", "run", "apply"]),
    (
        &["任务", "作业", "squeue", "qstat"],
        &["get jobs", "describe job"],
    ),
    (&["训练"], &["init", "create", "get jobs"]),
    (
        &["推理", "服务", "serving"],
        &["init", "create", "scale", "open"],
    ),
    (&["日志"], &["logs", "events"]),
    (&["节点", "sinfo"], &["get nodes", "describe node"]),
    (
        &["资源池", "池", "partition"],
        &["get pools", "describe pool"],
    ),
    (&["队列"], &["get queues", "describe queue"]),
    (&["配额", "quota"], &["get quotas", "describe quota"]),
    (&["空闲", "剩余", "available"], &["free", "get nodes"]),
    (
        &["利用率", "使用率", "nvidia-smi", "utilization"],
        &["top", "score", "eff", "get nodes"],
    ),
    (&["监控", "实时", "面板", "dashboard", "k9s"], &["top"]),
    (&["热力图"], &["get heatmap", "top"]),
    (&["浪费", "闲置", "waste"], &["score", "report", "eff"]),
    (
        &["报表", "账单", "成本", "费用", "计费", "sacct", "billing"],
        &["report", "stats"],
    ),
    (
        &["占用", "谁", "holder"],
        &["who gpu", "get consumers", "get workloads"],
    ),
    (&["进入", "容器", "ssh", "shell"], &["exec", "attach"]),
    (&["拷贝", "复制", "scp"], &["cp"]),
    (&["笔记本", "jupyter"], &["init", "open"]),
    (&["暂停", "恢复", "suspend"], &["pause", "resume"]),
    (&["删除", "取消", "停止", "scancel", "kill"], &["delete"]),
    (&["权限", "rbac"], &["auth check"]),
    (&["诊断", "检查", "健康"], &["doctor", "get health", "why"]),
];

/// Lists the commands for a word, one per line. Returns `None` if the word is a command, or if no
/// command matches.
pub(crate) fn unknown_command(command: &Command, word: &str) -> Option<String> {
    let lowercase = word.to_lowercase();
    let is_command = command
        .get_subcommands()
        .any(|one| one.get_name() == word || one.get_all_aliases().any(|name| name == word));
    // `len` counts bytes, so a single Chinese character is long enough.
    if is_command || word == "help" || lowercase.len() < 3 {
        return None;
    }
    // An English word must match completely. Chinese text has no spaces between words, so a part
    // may match.
    let is_match = |one: &str| {
        lowercase == one
            || !one.is_ascii() && one.chars().nth(1).is_some() && lowercase.contains(one)
    };
    let matches = TERMS
        .iter()
        .filter(|(words, _)| words.iter().any(|one| is_match(one)));
    let mut paths: Vec<String> = matches
        .flat_map(|(_, paths)| paths.iter().map(ToString::to_string))
        .collect();
    let mut unique = std::collections::HashSet::new();
    paths.retain(|path| unique.insert(path.clone()));
    // Match only whole words of the help.
    let mentions = |about: &str| {
        about
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .any(|one| one == lowercase || one.trim_end_matches('s') == lowercase)
    };
    for verb in command.get_subcommands() {
        let nouns = verb
            .get_subcommands()
            .map(|noun| (format!("{} {}", verb.get_name(), noun.get_name()), noun));
        for (path, one) in std::iter::once((verb.get_name().to_owned(), verb)).chain(nouns) {
            let about = one.get_about().map(ToString::to_string).unwrap_or_default();
            if mentions(&about) && !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    if paths.is_empty() {
        return None;
    }
    let about = |path: &str| {
        let one = path
            .split(' ')
            .try_fold(command, |parent, name| parent.find_subcommand(name));
        one.and_then(Command::get_about)
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let lines: String = paths
        .iter()
        .map(|path| format!("  gpuctl {path:<16} {}\n", about(path)))
        .collect();
    Some(format!(
        "unknown command `{word}`; related commands:\n\n{lines}\n`gpuctl COMMAND --help` shows options and examples.\n"
    ))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_search_term_leads_to_existing_commands() {
        let command = Cli::command();
        for path in TERMS.iter().flat_map(|(_, paths)| *paths) {
            let found = path
                .split(' ')
                .try_fold(&command, |parent, name| parent.find_subcommand(name));
            assert!(
                found.is_some_and(|found| found.get_about().is_some()),
                "{path}"
            );
        }
    }

    #[test]
    fn words_find_commands_in_two_languages() {
        let command = Cli::command();
        let lines = |word: &str| unknown_command(&command, word).unwrap_or_default();
        assert!(lines("排队").contains("gpuctl why "));
        assert!(
            lines("任务排队").contains("gpuctl get queues "),
            "a word within another"
        );
        assert!(lines("sacct").contains("gpuctl report "));
        assert_eq!(
            unknown_command(&command, "a"),
            None,
            "two letters say nothing"
        );
        assert!(
            lines("utilization")
                .starts_with("unknown command `utilization`; related commands:\n\n  gpuctl top ")
        );
        assert_eq!(
            (
                unknown_command(&command, "logs"),
                unknown_command(&command, "xyzzy"),
                unknown_command(&command, "help")
            ),
            (None, None, None)
        );
    }
}
