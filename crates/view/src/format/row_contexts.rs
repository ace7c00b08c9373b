//! Names the kubeconfig context of each row, for lists of several contexts.

use super::text::clean;

/// The kubeconfig context of each row, in the order of the rows. Empty if all rows come from the
/// same cluster, which the output then does not name.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowContexts<'a>(&'a [&'a str]);

impl<'a> RowContexts<'a> {
    /// The contexts of a list with one cluster.
    pub const NONE: Self = Self(&[]);

    /// `contexts` has one entry for each row.
    pub fn new(contexts: &'a [&'a str]) -> Self {
        Self(contexts)
    }

    pub(crate) fn is_shown(self) -> bool {
        !self.0.is_empty()
    }

    /// The context of a row, for text. `None` if contexts are not shown.
    pub(crate) fn of(self, row: usize) -> Option<&'a str> {
        self.0.get(row).copied()
    }

    /// The context of a row, for JSON.
    pub(crate) fn owned(self, row: usize) -> Option<String> {
        self.of(row).map(ToOwned::to_owned)
    }

    /// Adds the contexts to the names of the rows, as `CONTEXT/NAME`.
    pub fn qualify(self, names: Vec<String>) -> Vec<String> {
        let qualify = |(row, name): (usize, String)| match self.of(row) {
            Some(context) => format!("{}/{name}", clean(context)),
            None => name,
        };
        names.into_iter().enumerate().map(qualify).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_their_context() {
        let names = || vec!["team-a/x".to_owned(), "y".to_owned()];
        assert_eq!(RowContexts::NONE.qualify(names()), names());
        let contexts = RowContexts::new(&["prod", "arn:aws:eks:eu:1:cluster/lab"]);
        assert_eq!(
            contexts.qualify(names()),
            ["prod/team-a/x", "arn:aws:eks:eu:1:cluster/lab/y"]
        );
        assert_eq!((contexts.of(0), contexts.of(2)), (Some("prod"), None));
    }
}
