//! Reads the files, folders and stdin that `-f` names. Checks sizes before reading.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::deploy::events::{DeployEvent, Reporter};
use crate::deploy::local_files::{Attached, FileAccess, attach};
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_core::model::contract::submission::{DocumentName, FailedDocument};
use gpuctl_core::model::secrets::shown_origin;
use gpuctl_manifest::spec::checks::plain_secrets;
use gpuctl_manifest::spec::{self, Document, FILE_BYTES, Override, Problems, nearest};

/// Maximum number of files per folder.
const MAX_FILES: usize = 1000;

/// A document and its source file.
#[derive(Clone, Debug)]
pub(crate) struct InputDocument {
    pub document: Document,
    pub file: String,
    pub text: String,
    /// Local files that the document names in `files:`.
    pub attached: Attached,
}

impl InputDocument {
    pub(crate) fn name(&self) -> DocumentName {
        DocumentName {
            kind: self.document.kind(),
            name: self.document.name().to_owned(),
        }
    }
}

/// Errors of the files that could not be read, with the documents of the other files.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Errors in the order of the files. Never empty.
    pub failed: Vec<FailedDocument>,
    pub others: Vec<DocumentName>,
}

impl Unreadable {
    /// Reports all errors except the last one, and returns that one.
    pub(crate) fn report(mut self, reporter: &dyn Reporter) -> Error {
        let last = self.failed.pop().expect("an unreadable file has an error");
        self.failed
            .iter()
            .for_each(|failed| reporter.report(DeployEvent::Failed(&failed.error)));
        last.error
    }
}

/// Documents of all files, with warnings about the files.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub documents: Vec<InputDocument>,
    pub warnings: Vec<Problems>,
}

impl Inputs {
    /// Reports the warnings about the files, including those about plain-text secrets, which the
    /// user must see before the secrets reach the cluster.
    pub(crate) fn warn(&self, reporter: &dyn Reporter) {
        self.warnings
            .iter()
            .for_each(|problems| reporter.report(DeployEvent::Problems(problems)));
        // Documents from the same file are adjacent.
        for file_documents in self
            .documents
            .chunk_by(|document, next| document.file == next.file)
        {
            let documents: Vec<Document> = file_documents
                .iter()
                .map(|input| input.document.clone())
                .collect();
            let problems =
                plain_secrets(&file_documents[0].file, &file_documents[0].text, &documents);
            problems
                .iter()
                .for_each(|problems| reporter.report(DeployEvent::Problems(problems)));
        }
    }
}

/// Reads all files and applies `overrides` to each document. Returns all problems of all files, not
/// only the first one.
pub(crate) fn read(
    names: &[String],
    overrides: &[Override],
    access: &FileAccess,
) -> Result<Inputs, Unreadable> {
    let (mut inputs, mut failed) = (Inputs::default(), Vec::new());
    let mut add_failure = |file: &str, error| {
        failed.push(FailedDocument {
            document: DocumentName {
                kind: "file",
                name: display_name(file).to_owned(),
            },
            error,
        });
    };
    let mut files = Vec::new();
    for name in names {
        match expand(name) {
            Ok(paths) => files.extend(paths),
            Err(error) => add_failure(name, error),
        }
    }
    for file in files {
        let result = read_text(&file).and_then(|text| documents(&file, &text, overrides, access));
        match result {
            Ok((documents, warnings)) => {
                inputs.documents.extend(documents);
                if !warnings.list.is_empty() {
                    inputs.warnings.push(warnings);
                }
            }
            Err(error) => add_failure(&file, error),
        }
    }
    if failed.is_empty() {
        Ok(inputs)
    } else {
        Err(Unreadable {
            failed,
            others: inputs.documents.iter().map(InputDocument::name).collect(),
        })
    }
}

/// Reads the documents of one file and the local files that they name. Reports the problems of the
/// file and of the local files together.
fn documents(
    file: &str,
    text: &str,
    overrides: &[Override],
    access: &FileAccess,
) -> Result<(Vec<InputDocument>, Problems), Error> {
    let (documents, mut problems) = spec::read(display_name(file), text, overrides);
    let mut input = |document| {
        let attached = attach(&document, file, access, &mut problems.list);
        InputDocument {
            document,
            file: display_name(file).to_owned(),
            text: text.to_owned(),
            attached,
        }
    };
    let documents = documents.into_iter().map(&mut input).collect();
    problems
        .list
        .sort_by_key(|problem| (problem.at, problem.message.clone()));
    problems.list.dedup();
    if problems.are_fatal() {
        Err(problems.into())
    } else {
        Ok((documents, problems))
    }
}

/// Replaces folders by the files in them.
pub(crate) fn expand_all(names: &[String]) -> Result<Vec<String>, Error> {
    let paths: Result<Vec<Vec<String>>, Error> = names.iter().map(|name| expand(name)).collect();
    Ok(paths?.into_iter().flatten().collect())
}

fn display_name(file: &str) -> &str {
    if file == "-" { "stdin" } else { file }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorName::InvalidSpecification, message)
}

/// Returns the YAML files of a folder, sorted by name. Skips symlinks, because their targets may be
/// outside the folder.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge that reads the user's files"
)]
fn expand(name: &str) -> Result<Vec<String>, Error> {
    // Reading reports a missing file, so pass its name on.
    if name == "-" || !Path::new(name).is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let entries = fs::read_dir(name).map_err(|error| {
        invalid(format!("cannot read folder `{name}`")).cause(error.to_string())
    })?;
    let mut paths: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml" || extension == "yml")
        })
        .map(|path| path.display().to_string())
        .collect();
    // `read_dir` returns entries in no particular order.
    paths.sort();
    if paths.is_empty() {
        return Err(invalid(format!("folder `{name}` contains no *.yaml files"))
            .hint("specify a file: `-f job.yaml`"));
    }
    if paths.len() > MAX_FILES {
        return Err(invalid(format!(
            "folder `{name}` contains {} YAML files; gpuctl reads at most {MAX_FILES}",
            paths.len()
        )));
    }
    Ok(paths)
}

/// Reads a file of at most 1 MiB as UTF-8.
fn read_text(file: &str) -> Result<String, Error> {
    let bytes = read_bytes(file).map_err(|error| match error.name {
        ErrorName::FileTooLarge => {
            error.hint("check that this is a job file, which usually has about thirty lines")
        }
        _ => error,
    })?;
    // A NUL byte is valid UTF-8, but not valid YAML.
    let binary = bytes.contains(&0);
    match String::from_utf8(bytes) {
        Ok(text) if !binary => Ok(text),
        _ => Err(
            invalid(format!("`{}` is not a text file", display_name(file)))
                .hint("a job file must be YAML in UTF-8"),
        ),
    }
}

/// Suggests the most similar file of this folder, or how to create a file.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge that reads the user's files"
)]
fn no_such_file(file: &str) -> Error {
    if file.contains("://") {
        // The rest of a URL may contain a token.
        let message = format!("`{}` is a URL, not a file", shown_origin(file));
        return Error::usage(message)
            .hint("download it and read stdin: curl -fsSL URL | gpuctl apply -f -");
    }
    let path = Path::new(file);
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let suggestion = path
        .file_name()
        .and_then(|name| nearest(name.to_str()?, &names));
    Error::new(
        ErrorName::FileNotFound,
        format!("file `{file}` does not exist"),
    )
    .hint(match suggestion {
        Some(suggestion) => format!(
            "did you mean `{}`?",
            path.with_file_name(suggestion).display()
        ),
        None => format!("`gpuctl init training > {file}` creates one; `-` reads stdin"),
    })
}

/// Reads at most 1 MiB from a file or stdin.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge that reads the user's files"
)]
pub(crate) fn read_bytes(file: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let result = if file == "-" {
        std::io::stdin()
            .lock()
            // Read one byte more than the limit, to detect larger input.
            .take(FILE_BYTES + 1)
            .read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|opened| opened.take(FILE_BYTES + 1).read_to_end(&mut bytes))
    };
    result.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => no_such_file(file),
        _ => invalid(format!("cannot read `{file}`")).cause(error.to_string()),
    })?;
    if bytes.len() as u64 > FILE_BYTES {
        let message = format!(
            "`{}` is larger than {} MiB",
            display_name(file),
            FILE_BYTES >> 20
        );
        return Err(Error::new(ErrorName::FileTooLarge, message));
    }
    Ok(bytes)
}
