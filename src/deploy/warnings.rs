//! Collects the warnings of a run and reports each once, with the documents it concerns.

use crate::deploy::events::Reporter;

/// Warnings, in order of discovery.
#[derive(Default)]
pub(crate) struct Warned(Vec<Warning>);

struct Warning {
    message: String,
    /// Names of the documents.
    about: Vec<String>,
}

impl Warned {
    pub(crate) fn add(&mut self, document: &str, messages: &[String]) {
        for message in messages {
            match self
                .0
                .iter_mut()
                .find(|warning| warning.message == *message)
            {
                Some(known) => known.about.push(document.to_owned()),
                None => self.0.push(Warning {
                    message: message.clone(),
                    about: vec![document.to_owned()],
                }),
            }
        }
    }

    /// Reports the warnings. `of` is the number of documents in the run: a single document is not
    /// named.
    pub(crate) fn tell(&self, of: usize, reporter: &dyn Reporter) {
        self.0
            .iter()
            .for_each(|warning| reporter.warn(&warning.text(of)));
    }
}

/// Number of documents to name; the rest are only counted.
const NAMED: usize = 3;

impl Warning {
    fn text(&self, of: usize) -> String {
        let Self { message, about } = self;
        match about.len() {
            _ if of < 2 => message.clone(),
            all if all > NAMED => format!(
                "{} and {} more: {message}",
                about[..NAMED].join(", "),
                all - NAMED
            ),
            _ => format!("{}: {message}", about.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_with_its_documents() {
        let mut warned = Warned::default();
        for document in ["a", "b", "c", "d", "e"] {
            warned.add(document, &["of all".to_owned()]);
        }
        warned.add("b", &["of one".to_owned()]);
        let told = |of: usize| {
            warned
                .0
                .iter()
                .map(|warning| warning.text(of))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(5), ["a, b, c and 2 more: of all", "b: of one"]);
        assert_eq!(told(1), ["of all", "of one"]);
    }
}
