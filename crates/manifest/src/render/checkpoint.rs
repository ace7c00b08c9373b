//! Makes a command resume from its checkpoints. Shell code in the container checks the checkpoint
//! directory before every start. This also works for retries, pods on other nodes, and resubmitted
//! jobs. Only the user's program interprets the directory's contents.

use super::Refusal;
use super::command::Words;
use super::storage::is_in_workdir;
use crate::spec::{Checkpoint, Command, JobDocument};

/// Placeholder in a user's shell line for the resume arguments, if they do not belong at its end.
const ARGUMENTS: &str = "$CHECKPOINT_ARGS";

/// Prepends the check of the checkpoint directory to the command.
pub(super) fn resume(job: &JobDocument, mut words: Words) -> Result<Words, Refusal> {
    let Some(checkpoint) = &job.training.checkpoint else {
        return Ok(words);
    };
    if !is_in_workdir(job, &checkpoint.path.value) {
        words.warnings.push(format!(
            "checkpoints in {} are lost when the pod is deleted; mount a workdir there",
            checkpoint.path.value
        ));
    }
    if checkpoint.resume.is_empty() {
        return Ok(words);
    }
    let refuse = |message: &str, hint: &str| {
        Refusal::new("CheckpointConflict", message, hint).with_position(Some(checkpoint.path.at))
    };
    let Some(command) = words.command.take() else {
        return Err(refuse(
            "`checkpoint.resume` needs `environment.command`",
            "set it to the command that the image runs",
        ));
    };
    let in_shell =
        matches!(job.command, Command::Shell(_)) || matches!(job.args, Command::Shell(_));
    let line = in_shell.then(|| command.get(2).cloned()).flatten();
    let (find_newest, start) = (set_latest(checkpoint), "exec \"$@\"");
    words.command = Some(match line {
        Some(line) if line.contains(ARGUMENTS) => shell(
            format!("{find_newest}CHECKPOINT_ARGS=\"$*\"\n{line}"),
            &command[3..],
        ),
        Some(line) if line.starts_with("exec ") && line.contains("\"$@\"") => {
            shell(format!("{}{line}", appended(checkpoint)), &command[3..])
        }
        Some(line) if line.starts_with("exec ") => {
            shell(format!("{find_newest}{line} \"$@\""), &["sh".to_owned()])
        }
        Some(_) => {
            let message =
                "cannot tell where to insert the `checkpoint.resume` arguments in this command";
            return Err(refuse(
                message,
                "add $CHECKPOINT_ARGS where they belong, or write the command as a list",
            ));
        }
        None => {
            let mut argv = vec![
                "sh".to_owned(),
                "-c".to_owned(),
                format!("{}{start}", appended(checkpoint)),
                "sh".to_owned(),
            ];
            argv.extend(command);
            argv
        }
    });
    Ok(words)
}

fn shell(line: String, arguments: &[String]) -> Vec<String> {
    [
        vec!["sh".to_owned(), "-c".to_owned(), line],
        arguments.to_vec(),
    ]
    .concat()
}

/// Builds shell code that sets `CHECKPOINT_LATEST`, and replaces `"$@"` by the resume arguments.
fn set_latest(checkpoint: &Checkpoint) -> String {
    format!("set --\n{}", appended(checkpoint))
}

/// Builds shell code that appends the resume arguments to `"$@"` if the directory is not empty.
fn appended(checkpoint: &Checkpoint) -> String {
    // A new ext4 volume contains `lost+found`, which is not a checkpoint.
    let newest = "CHECKPOINT_LATEST=$CHECKPOINT_PATH/$(ls -1t \"$CHECKPOINT_PATH\" 2>/dev/null | while IFS= read -r name; do if [ \"$name\" != lost+found ]; then echo \"$name\"; break; fi; done)";
    let arguments: Vec<String> = checkpoint
        .resume
        .iter()
        .map(|argument| quoted(argument))
        .collect();
    format!(
        "{newest}\nexport CHECKPOINT_LATEST\nif [ \"$CHECKPOINT_LATEST\" != \"$CHECKPOINT_PATH/\" ]; then set -- \"$@\" {}; fi\n",
        arguments.join(" ")
    )
}

/// Quotes an argument for a shell, but leaves `CHECKPOINT_PATH` and `CHECKPOINT_LATEST` to be
/// expanded.
fn quoted(argument: &str) -> String {
    const VARIABLES: [(&str, &str); 4] = [
        ("${CHECKPOINT_PATH}", "$CHECKPOINT_PATH"),
        ("$CHECKPOINT_PATH", "$CHECKPOINT_PATH"),
        ("${CHECKPOINT_LATEST}", "$CHECKPOINT_LATEST"),
        ("$CHECKPOINT_LATEST", "$CHECKPOINT_LATEST"),
    ];
    let mut text = String::from("'");
    let mut rest = argument;
    while let Some(first) = rest.chars().next() {
        if let Some((syntax, variable)) = VARIABLES
            .into_iter()
            .find(|(syntax, _)| rest.starts_with(syntax))
        {
            text.push_str(&format!("'\"{variable}\"'"));
            rest = &rest[syntax.len()..];
            continue;
        }
        match first {
            '\'' => text.push_str("'\\''"),
            character => text.push(character),
        }
        rest = &rest[first.len_utf8()..];
    }
    text.push('\'');
    text
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "this test gives a shell a folder"
)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::spec::{FilePosition, Located};

    fn run(folder: &str, resume: &[&str]) -> String {
        let at = FilePosition {
            line: 1,
            column: 1,
            width: 1,
        };
        let path = Located {
            value: folder.to_owned(),
            at,
        };
        let checkpoint = Checkpoint {
            path,
            resume: resume
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
        };
        let line = format!("{}printf '<%s>' \"$@\"", appended(&checkpoint));
        let output = Command::new("sh")
            .args(["-c", &line, "sh", "train"])
            .env("CHECKPOINT_PATH", folder)
            .output()
            .unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    #[test]
    fn a_real_shell_resumes_from_the_newest_checkpoint() {
        let folder = std::env::temp_dir().join(format!("gpuctl-checkpoint-{}", std::process::id()));
        let path = folder.display().to_string();
        let resume = [
            "--from=${CHECKPOINT_LATEST}",
            "it's $HOME \"x\" `id` \\",
            "$CHECKPOINT_PATH/a",
        ];
        assert_eq!(run(&path, &resume), "<train>", "a folder that is not there");
        std::fs::create_dir_all(folder.join("lost+found")).unwrap();
        std::fs::write(folder.join(".writing"), "").unwrap();
        assert_eq!(
            run(&path, &resume),
            "<train>",
            "nothing that is a checkpoint"
        );
        let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        std::fs::File::create(folder.join("step 9")).unwrap();
        std::fs::File::create(folder.join("step 1"))
            .unwrap()
            .set_times(times)
            .unwrap();
        let printed = run(&path, &resume);
        assert_eq!(
            printed,
            format!("<train><--from={path}/step 9><it's $HOME \"x\" `id` \\><{path}/a>")
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
