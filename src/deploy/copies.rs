//! Reads the YAML and the files that the cluster stores for a job, to print them or to submit a
//! copy.

use serde_json::Value;

use crate::deploy::inputs::{InputDocument, Inputs};
use crate::deploy::local_files::Attached;
use crate::deploy::plan::namespace_of;
use crate::lookup::{self, LookupPurpose};
use gpuctl_cluster::{Connection, Failure, JobFilter};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::submission::LocalFile;
use gpuctl_core::model::{Job, JobKind};
use gpuctl_manifest::spec::{Document, JobDocument, Override, Problems, parse_with};

/// Kinds of other tools' objects that may have the name of a missing job, and that `convert` can
/// read.
const CONVERTIBLE: [(&str, &str); 3] = [
    ("/apis/batch/v1", "jobs"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "statefulsets"),
];

/// Reads the stored document of the job `name` with `overrides` applied, and the job's stored
/// files.
pub(crate) async fn read(
    name: &str,
    overrides: &[Override],
    connection: &Connection,
) -> Result<Inputs, Error> {
    let job = match lookup::job(connection, name, LookupPurpose::Copy).await {
        Err(error) if error.name == ErrorName::NotFound => {
            return Err(foreign_object(name, connection).await.unwrap_or(error));
        }
        job => job?,
    };
    let text = stored_text(&job)?;
    let (original, _) = parse(&job, text, &[])?;
    let mut overrides = overrides.to_vec();
    if original.namespace.is_some()
        && let Some(namespace) = lookup::explicit_namespace(connection)
    {
        // Insert `-n` before `--set job.namespace=…`, so that a contradiction is reported as for a
        // file.
        overrides.insert(0, Override::text(&["job", "namespace"], namespace));
    }
    let (document, warnings) = parse(&job, text, &overrides)?;
    if local_paths(&document) != local_paths(&original) {
        let message = format!(
            "`--set` cannot change the local files of job `{}`",
            job.name
        );
        let hint = format!(
            "gpuctl get job {}/{} -o spec > FILE, then edit FILE",
            job.namespace, job.name
        );
        return Err(Error::usage(message).hint(hint));
    }
    let attached = attached(&job, original, connection).await?;
    let input = InputDocument {
        document: Document::Job(Box::new(document)),
        file: source_name(&job),
        text: text.to_owned(),
        attached,
    };
    Ok(Inputs {
        documents: vec![input],
        warnings: vec![warnings],
    })
}

/// Fails if the copy's name is taken in the copy's namespace. `from` is the name of the original.
pub(crate) async fn check_name(
    input: &InputDocument,
    from: &str,
    connection: &Connection,
) -> Result<(), Error> {
    let Document::Job(job) = &input.document else {
        return Ok(());
    };
    let namespace = namespace_of(&input.document, Some(connection))?;
    let filter = JobFilter {
        namespace: Some(namespace.clone()),
        names: vec![job.id().to_owned()],
        ..JobFilter::default()
    };
    let existing = match connection.jobs().list(&filter).await {
        // The API server would refuse an existing name, too, but with a less specific hint.
        Err(failure) if failure.is_forbidden() => return Ok(()),
        selection => selection?.jobs,
    };
    if existing.iter().all(|job| job.owner_is_gone) {
        return Ok(());
    }
    let message = format!(
        "job `{}` already exists in namespace `{namespace}`",
        job.id()
    );
    Err(Error::new(ErrorName::AlreadyExists, message)
        .hint(format!("gpuctl create --from {from} --name NEW-NAME")))
}

/// Returns the YAML that a job was submitted with.
pub(crate) fn stored_text(job: &Job) -> Result<&str, Error> {
    job.source
        .as_deref()
        .filter(|text| !text.trim().is_empty())
        .ok_or_else(|| {
            let resource = match job.kind {
                JobKind::Training => "job",
                JobKind::Notebook => "statefulset",
                JobKind::Inference | JobKind::Compute => "deployment",
            };
            not_submitted(
                format!("the cluster does not store the YAML of job `{}`", job.name),
                resource,
                &job.namespace,
                &job.name,
            )
        })
}

/// Reads the contents of a job's `files:`. Returns `None` if the cluster does not store them.
pub(crate) async fn stored_files(
    job: &Job,
    mut document: JobDocument,
    connection: &Connection,
) -> Result<Option<Vec<Vec<u8>>>, Failure> {
    // For a job with a generated name, only its objects have that name; its YAML has the original
    // one.
    if document.name.value != job.name {
        document.generated = Some(job.name.clone());
    }
    let jobs = connection.jobs();
    jobs.stored_files(&job.namespace, &document).await
}

/// Parses the stored YAML. It must define exactly one job.
pub(crate) fn parse(
    job: &Job,
    text: &str,
    overrides: &[Override],
) -> Result<(JobDocument, Problems), Error> {
    let file = source_name(job);
    let parsed = parse_with(&file, text, overrides)?;
    match <[Document; 1]>::try_from(parsed.documents) {
        Ok([Document::Job(document)]) => Ok((*document, parsed.warnings)),
        _ => Err(Error::new(
            ErrorName::NoDefinition,
            format!("{file} does not define one job"),
        )),
    }
}

async fn attached(
    job: &Job,
    document: JobDocument,
    connection: &Connection,
) -> Result<Attached, Error> {
    let files = document.files.clone();
    if files.is_empty() {
        return Ok(Attached::default());
    }
    let Some(contents) = stored_files(job, document, connection).await? else {
        let message = format!(
            "the cluster no longer stores the files of job `{}`",
            job.name
        );
        let hint = format!(
            "gpuctl get job {}/{} -o spec > FILE, then submit FILE next to its local files",
            job.namespace, job.name
        );
        return Err(Error::new(ErrorName::NoDefinition, message).hint(hint));
    };
    let files = files.into_iter().zip(&contents);
    let files = files.map(|(file, content)| LocalFile {
        path: file.local.value,
        bytes: content.len() as u64,
        destination: file.path,
    });
    Ok(Attached {
        files: files.collect(),
        contents,
    })
}

fn local_paths(document: &JobDocument) -> Vec<&str> {
    let files = document.files.iter();
    files.map(|file| file.local.value.as_str()).collect()
}

fn source_name(job: &Job) -> String {
    format!("the stored YAML of job `{}`", job.name)
}

/// Builds the error for an object of another tool that `convert` can read. Returns `None` if there
/// is no such object, or if the user is not allowed to read it.
async fn foreign_object(name: &str, connection: &Connection) -> Option<Error> {
    let (namespace, name) = lookup::split(name).ok()?;
    let namespace = namespace.unwrap_or(&connection.namespace);
    for (api, plural) in CONVERTIBLE {
        let collection = format!("{api}/namespaces/{namespace}/{plural}");
        if let Ok(Some(_)) = connection.find_in::<Value>(&collection, name).await {
            let resource = plural.trim_end_matches('s');
            let message = format!(
                "{resource} `{name}` in namespace `{namespace}` was not submitted by gpuctl"
            );
            return Some(not_submitted(message, resource, namespace, name));
        }
    }
    None
}

fn not_submitted(message: String, resource: &str, namespace: &str, name: &str) -> Error {
    Error::new(ErrorName::NoDefinition, message).hint(format!(
        "kubectl get {resource} {name} -n {namespace} -o yaml | gpuctl convert - > {name}.yaml"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\n";

    #[test]
    fn a_stored_text_must_define_one_job() {
        let job = Job {
            name: "a".into(),
            ..Job::default()
        };
        assert_eq!(parse(&job, YAML, &[]).unwrap().0.name.value, "a");
        let two = format!("{YAML}---\n{}", YAML.replace("name: a", "name: b"));
        let error = parse(&job, &two, &[]).unwrap_err();
        assert_eq!(
            error.message,
            "the stored YAML of job `a` does not define one job"
        );
    }

    #[test]
    fn a_job_without_stored_yaml_leads_to_convert() {
        let job = Job {
            name: "a".into(),
            namespace: "team-a".into(),
            kind: JobKind::Notebook,
            ..Job::default()
        };
        let error = stored_text(&job).unwrap_err();
        assert_eq!(
            error.hints,
            ["kubectl get statefulset a -n team-a -o yaml | gpuctl convert - > a.yaml"]
        );
    }
}
