//! Interns strings that many objects of a list share, such as namespaces, nodes and owners.

use std::collections::HashSet;
use std::rc::Rc;

/// The strings interned so far.
#[derive(Default)]
pub(crate) struct SharedTexts(HashSet<Rc<str>>);

impl SharedTexts {
    /// Returns the shared copy of a string.
    pub(crate) fn intern(&mut self, text: &str) -> Rc<str> {
        if let Some(existing) = self.0.get(text) {
            return Rc::clone(existing);
        }
        let text: Rc<str> = text.into();
        self.0.insert(Rc::clone(&text));
        text
    }
}
