//! Collects the warnings of a run, and reports each warning once, with the documents that caused
//! it.

use crate::deploy::events::Reporter;

/// Warnings in the order of their first occurrence.
#[derive(Default)]
pub(crate) struct DeduplicatedWarnings(Vec<Warning>);

struct Warning {
    message: String,
    /// Names of the documents that caused the warning.
    documents: Vec<String>,
}

impl DeduplicatedWarnings {
    pub(crate) fn add(&mut self, document: &str, messages: &[String]) {
        for message in messages {
            match self
                .0
                .iter_mut()
                .find(|warning| warning.message == *message)
            {
                Some(existing) => existing.documents.push(document.to_owned()),
                None => self.0.push(Warning {
                    message: message.clone(),
                    documents: vec![document.to_owned()],
                }),
            }
        }
    }

    /// Reports the warnings. `document_count` is the number of documents in the run; a single
    /// document is not named.
    pub(crate) fn report(&self, document_count: usize, reporter: &dyn Reporter) {
        self.0
            .iter()
            .for_each(|warning| reporter.warn(&warning.text(document_count)));
    }
}

/// Maximum number of documents to name. Further documents are only counted.
const MAX_NAMES: usize = 3;

impl Warning {
    fn text(&self, document_count: usize) -> String {
        let Self { message, documents } = self;
        match documents.len() {
            _ if document_count < 2 => message.clone(),
            total if total > MAX_NAMES => format!(
                "{} and {} more: {message}",
                documents[..MAX_NAMES].join(", "),
                total - MAX_NAMES
            ),
            _ => format!("{}: {message}", documents.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_each_warning_once_with_its_documents() {
        let mut warnings = DeduplicatedWarnings::default();
        for document in ["a", "b", "c", "d", "e"] {
            warnings.add(document, &["of all".to_owned()]);
        }
        warnings.add("b", &["of one".to_owned()]);
        let texts = |document_count: usize| {
            warnings
                .0
                .iter()
                .map(|warning| warning.text(document_count))
                .collect::<Vec<_>>()
        };
        assert_eq!(texts(5), ["a, b, c and 2 more: of all", "b: of one"]);
        assert_eq!(texts(1), ["of all", "of one"]);
    }
}
