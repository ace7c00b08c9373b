//! Checks that the names in a run are unique, and generates random suffixes for `--generate-name`.

use crate::deploy::inputs::InputDocument;
use gpuctl_core::error::{Error, ErrorName};
use gpuctl_manifest::spec::Document;

/// Fails if two documents have the same name. With `generate`, first appends a random suffix to the
/// names of jobs.
pub(crate) fn with_unique_names(
    mut inputs: Vec<InputDocument>,
    generate: bool,
) -> Result<Vec<InputDocument>, Error> {
    for input in &mut inputs {
        let Document::Job(job) = &mut input.document else {
            continue;
        };
        if generate && !job.append(&suffix()) {
            let message = format!("`{}` is too long for a suffix", job.name.value);
            return Err(Error::new(ErrorName::NameTooLong, message)
                .hint("shorten `job.name` by six characters"));
        }
    }
    let mut names_so_far: Vec<(&'static str, &str, Option<&str>, &str)> = Vec::new();
    for input in &inputs {
        let (namespace, name) = match &input.document {
            Document::Job(job) => (
                job.namespace.as_ref().map(|space| space.value.as_str()),
                job.id(),
            ),
            earlier => (None, earlier.name()),
        };
        // Jobs of different kinds with the same name would share names of Services and pods.
        let kind = if matches!(input.document, Document::Job(_)) {
            "job"
        } else {
            input.document.kind()
        };
        if let Some((_, _, _, file)) = names_so_far
            .iter()
            .find(|earlier| (earlier.0, earlier.1, earlier.2) == (kind, name, namespace))
        {
            let message = format!(
                "two documents are named `{name}`: in {file} and in {}",
                input.file
            );
            return Err(Error::new(ErrorName::DuplicateName, message)
                .hint("rename one, or use `--generate-name`"));
        }
        names_so_far.push((kind, name, namespace, &input.file));
    }
    Ok(inputs)
}

/// Generates a random suffix of five characters without vowels, so that it does not spell a word.
pub(crate) fn suffix() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The alphabet of the suffixes that Kubernetes generates for `generateName` (apimachinery,
    // `util/rand`).
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // `RandomState` is seeded by the operating system, so no crate for random numbers is needed.
    let mut random = RandomState::new().build_hasher().finish();
    (0..5)
        .map(|_| {
            let letter = LETTERS[usize::try_from(random % 27).expect("below 27")];
            random /= 27;
            char::from(letter)
        })
        .collect()
}
