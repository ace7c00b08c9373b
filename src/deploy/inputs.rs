//! Reads what `-f` names: files, folders, stdin. It checks sizes before it reads.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, ErrorName};
use crate::spec::{self, Document, FILE_BYTES, Override, Problems};

/// Files of one folder.
const MOST_FILES: usize = 1000;

/// A document and the file that it came from.
#[derive(Clone, Debug)]
pub struct InputDocument {
    pub document: Document,
    pub file: String,
    pub text: String,
}

/// What was read; warnings beside it.
#[derive(Debug, Default)]
pub struct Inputs {
    pub documents: Vec<InputDocument>,
    pub warnings: Vec<Problems>,
}

/// Reads everything, with `overrides` put into each document. Every problem of every file comes back, not the first.
pub fn read(names: &[String], overrides: &[Override]) -> Result<Inputs, Vec<Error>> {
    let (mut inputs, mut errors) = (Inputs::default(), Vec::new());
    let mut files = Vec::new();
    for name in names {
        match expand(name) {
            Ok(found) => files.extend(found),
            Err(error) => errors.push(error),
        }
    }
    for file in files {
        let parsed =
            text(&file).and_then(|text| Ok((spec::parse_with(shown(&file), &text, overrides).map_err(Error::from)?, text)));
        match parsed {
            Ok((parsed, text)) => {
                let input = |document| InputDocument { document, file: shown(&file).to_owned(), text: text.clone() };
                inputs.documents.extend(parsed.documents.into_iter().map(input));
                if !parsed.warnings.list.is_empty() {
                    inputs.warnings.push(parsed.warnings);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(inputs) } else { Err(errors) }
}

/// The files that names stand for, folders opened.
pub fn names(names: &[String]) -> Result<Vec<String>, Error> {
    let found: Result<Vec<Vec<String>>, Error> = names.iter().map(|name| expand(name)).collect();
    Ok(found?.into_iter().flatten().collect())
}

fn shown(file: &str) -> &str {
    if file == "-" { "stdin" } else { file }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorName::InvalidSpecification, message)
}

/// A folder stands for every YAML file in it, by name; links out of it are not followed.
#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the user's files")]
fn expand(name: &str) -> Result<Vec<String>, Error> {
    if name == "-" || !Path::new(name).is_dir() {
        return Ok(vec![name.to_owned()]);
    }
    let entries =
        fs::read_dir(name).map_err(|error| invalid(format!("cannot read the folder `{name}`")).cause(error.to_string()))?;
    let mut found: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"))
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(invalid(format!("the folder `{name}` has no *.yaml file")).hint("name a file: `-f job.yaml`"));
    }
    if found.len() > MOST_FILES {
        return Err(invalid(format!("the folder `{name}` has {} YAML files; at most {MOST_FILES} are read", found.len())));
    }
    Ok(found)
}

/// The text of a file: at most a mebibyte of UTF-8.
fn text(file: &str) -> Result<String, Error> {
    let bytes = bytes(file).map_err(|error| match error.name {
        ErrorName::FileTooLarge => error.hint("a job file has some thirty lines"),
        _ => error,
    })?;
    let binary = bytes.contains(&0);
    match String::from_utf8(bytes) {
        Ok(text) if !binary => Ok(text),
        _ => Err(invalid(format!("`{}` is not a text file", shown(file))).hint("a job file is YAML in UTF-8")),
    }
}

/// The content of a file, or of stdin: at most a mebibyte.
#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the user's files")]
pub fn bytes(file: &str) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().lock().take(FILE_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|open| open.take(FILE_BYTES + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorName::FileNotFound, format!("there is no file `{file}`")),
        _ => invalid(format!("cannot read `{file}`")).cause(error.to_string()),
    })?;
    if bytes.len() as u64 > FILE_BYTES {
        let message = format!("`{}` is larger than {} MiB", shown(file), FILE_BYTES >> 20);
        return Err(Error::new(ErrorName::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Contents of the `files:` of a document, relative to the file that names them.
#[expect(clippy::disallowed_methods, reason = "this is the edge that reads the user's files")]
pub fn attachments(input: &InputDocument) -> Result<Vec<Vec<u8>>, Error> {
    let Document::Job(job) = &input.document else { return Ok(Vec::new()) };
    let folder = Path::new(&input.file).parent().unwrap_or(Path::new(""));
    let load = |(_, local): &(String, String)| {
        let path = folder.join(local);
        let open = fs::File::open(&path).and_then(|open| {
            let mut bytes = Vec::new();
            open.take(FILE_BYTES + 1).read_to_end(&mut bytes).map(|_| bytes)
        });
        open.map_err(|error| invalid(format!("cannot read `{}` of `files:`", path.display())).cause(error.to_string()))
    };
    job.files.iter().map(load).collect()
}
