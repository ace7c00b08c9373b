//! Keeps one copy of each text that many objects of a list have in common: their namespace, their
//! node, their owner.

use std::collections::HashSet;
use std::rc::Rc;

/// Texts that were seen before.
#[derive(Default)]
pub(crate) struct SharedTexts(HashSet<Rc<str>>);

impl SharedTexts {
    /// Returns the copy that all have in common.
    pub(crate) fn of(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.0.get(text) {
            return Rc::clone(known);
        }
        let text: Rc<str> = text.into();
        self.0.insert(Rc::clone(&text));
        text
    }
}
