//! Rebuilds the document of an existing job from the stored YAML and files.

use crate::deploy::inputs::InputDocument;
use crate::deploy::local_files::Attached;
use gpuctl_cluster::Connection;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::Job;
use gpuctl_manifest::spec::{Document, JobDocument, Located, Override, parse_with};

/// Reads the stored document of a job, and applies overrides.
pub(crate) async fn document(
    connection: &Connection,
    job: &Job,
    overrides: &[Override],
) -> Result<InputDocument, Error> {
    let file = format!("the stored YAML of job `{}`", job.name);
    let Some(text) = &job.source else {
        return Err(missing(format!("{file} does not exist")));
    };
    let submitted = parse(&file, text, &[])?;
    let mut document = parse(&file, text, overrides)?;
    check_overrides(job, &submitted, &document)?;
    // The stored YAML does not contain a generated name or the namespace of `-n`.
    if document.name.value != job.name {
        document.generated = Some(job.name.clone());
    }
    document.namespace = Some(Located {
        value: job.namespace.clone(),
        at: document.name.at,
    });
    let mut attached = Attached::default();
    if !document.files.is_empty() {
        attached.contents = connection
            .jobs()
            .stored_files(&job.namespace, &document)
            .await?
            .ok_or_else(|| missing(format!("the files of job `{}` are not stored", job.name)))?;
    }
    Ok(InputDocument {
        document: Document::Job(Box::new(document)),
        file,
        text: text.clone(),
        attached,
    })
}

fn parse(file: &str, text: &str, overrides: &[Override]) -> Result<JobDocument, Error> {
    let parsed = parse_with(file, text, overrides)?;
    match <[Document; 1]>::try_from(parsed.documents) {
        Ok([Document::Job(job)]) => Ok(*job),
        _ => Err(missing(format!("{file} is not one job"))),
    }
}

fn missing(message: String) -> Error {
    Error::new(ErrorName::NoDefinition, message)
        .hint("use `gpuctl apply -f FILE --replace` to submit it from its file")
}

/// Refuses overrides of fields that identify the job, and of local files, which gpuctl only read
/// when the job was submitted.
fn check_overrides(
    job: &Job,
    submitted: &JobDocument,
    document: &JobDocument,
) -> Result<(), Error> {
    let namespace = |document: &JobDocument| document.namespace.clone().map(|space| space.value);
    let files = |document: &JobDocument| -> Vec<String> {
        let names = document.files.iter().map(|file| file.local.value.clone());
        names.collect()
    };
    let field = if document.name.value != submitted.name.value {
        "job.name"
    } else if namespace(document) != namespace(submitted) {
        "job.namespace"
    } else if files(document) != files(submitted) {
        "files"
    } else {
        return Ok(());
    };
    let message = format!(
        "`--set` cannot change `{field}` of the existing job `{}`",
        job.name
    );
    Err(Error::usage(message).hint("change its file, then run `gpuctl apply -f FILE --replace`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\n";

    #[test]
    fn overrides_cannot_rename_or_move_a_job_or_change_its_files() {
        let job = Job::default();
        let submitted = parse("a", YAML, &[]).unwrap();
        for (text, is_accepted) in [
            ("environment.image=j", true),
            ("job.name=b", false),
            ("job.namespace=b", false),
        ] {
            let document = parse("a", YAML, &[Override::parse(text).unwrap()]).unwrap();
            let result = check_overrides(&job, &submitted, &document);
            assert_eq!(result.is_ok(), is_accepted, "{text}");
        }
        let with_files = parse("a", &format!("{YAML}files: [train.py]\n"), &[]).unwrap();
        assert!(check_overrides(&job, &submitted, &with_files).is_err());
    }

    #[test]
    fn a_stored_text_must_be_one_job() {
        let two = format!("{YAML}---\n{}", YAML.replace("name: a", "name: b"));
        assert!(parse("a", &two, &[]).is_err());
    }
}
