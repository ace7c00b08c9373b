//! Renders the YAML that a job was submitted with. It does not contain the job's local files, so a
//! comment lists the commands that restore them.

use std::path::Path;

use crate::format::text::clean;
use gpuctl_core::model::Job;

/// Prefix of the comment's lines. The stored YAML of a job that was submitted from this output
/// contains the comment too, with the first job's names.
const PREFIX: &str = "# local files: ";

/// A local file whose contents are stored in a ConfigMap.
#[derive(Clone, Debug)]
pub struct StoredFile {
    /// Path in the YAML.
    pub path: String,
    /// Key in the ConfigMap.
    pub key: String,
    /// Whether the ConfigMap stores the file as text instead of binary data.
    pub is_text: bool,
}

/// Returns the YAML, after a comment with the commands that restore its local files from
/// `config_map`.
pub fn specification(source: &str, job: &Job, config_map: &str, files: &[StoredFile]) -> String {
    let mut text = String::new();
    if !files.is_empty() {
        let mut line = |line: &str| text.push_str(&format!("{PREFIX}{line}\n"));
        line("this YAML does not contain them; these commands restore them:");
        for file in files {
            line(&restore_command(file, job, config_map));
        }
        line("this command submits a copy of the job with them:");
        line(&format!(
            "gpuctl create --from {}/{} --name NEW-NAME",
            job.namespace, job.name
        ));
    }
    let lines = source.lines().filter(|line| !line.starts_with(PREFIX));
    lines.for_each(|line| text.push_str(&format!("{line}\n")));
    text
}

fn restore_command(file: &StoredFile, job: &Job, config_map: &str) -> String {
    let StoredFile { path, key, is_text } = file;
    let folder = Path::new(path).parent();
    let make_folder = folder
        .and_then(Path::to_str)
        .filter(|folder| !folder.is_empty())
        .map(|folder| format!("mkdir -p {} && ", quoted(folder)));
    let (field, decode) = if *is_text {
        ("data", "")
    } else {
        ("binaryData", " | base64 -d")
    };
    format!(
        "{}kubectl get configmap {config_map} -n {} -o jsonpath='{{.{field}.{key}}}'{decode} > {}",
        make_folder.unwrap_or_default(),
        job.namespace,
        quoted(path)
    )
}

/// Quotes a path for a POSIX shell. Line breaks in a path must not end the comment.
fn quoted(path: &str) -> String {
    let path = clean(path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@:,".contains(c);
    match path.chars().all(is_plain) && !path.starts_with('-') {
        true => path.into_owned(),
        false => format!("'{}'", path.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, is_text: bool) -> StoredFile {
        StoredFile {
            path: path.into(),
            key: "file-0".into(),
            is_text,
        }
    }

    fn job() -> Job {
        Job {
            namespace: "team-a".into(),
            name: "lora".into(),
            ..Job::default()
        }
    }

    #[test]
    fn yaml_without_files_is_printed_as_it_was_submitted() {
        let source = "# mine\nkind: training";
        let text = specification(source, &job(), "", &[]);
        assert_eq!(text, "# mine\nkind: training\n");
    }

    #[test]
    fn a_comment_restores_every_local_file() {
        let files = [file("src/train.py", true), file("it's.bin", false)];
        let text = specification("kind: training\n", &job(), "lora-files", &files);
        assert_eq!(
            text,
            r"# local files: this YAML does not contain them; these commands restore them:
# local files: mkdir -p src && kubectl get configmap lora-files -n team-a -o jsonpath='{.data.file-0}' > src/train.py
# local files: kubectl get configmap lora-files -n team-a -o jsonpath='{.binaryData.file-0}' | base64 -d > 'it'\''s.bin'
# local files: this command submits a copy of the job with them:
# local files: gpuctl create --from team-a/lora --name NEW-NAME
kind: training
"
        );
        // The output of a job that was submitted from this output has only one comment.
        let again = specification(&text, &job(), "lora-files", &files);
        assert_eq!(again, text);
    }

    #[test]
    fn a_path_cannot_end_the_comment() {
        let text = specification(
            "kind: training\n",
            &job(),
            "m",
            &[file("a\nkind: pool", true)],
        );
        assert!(
            text.lines()
                .all(|line| line.starts_with('#') || line == "kind: training")
        );
    }
}
