//! Tests that starter files pass all checks.

use gpuctl_manifest::spec::{checks, parse};

use super::*;

#[test]
fn a_starter_is_a_file_without_a_problem() {
    for (kind, _) in KINDS {
        let text = starter(kind);
        let parsed = parse("", &text)
            .unwrap_or_else(|problems| panic!("{kind}: {:?}\n{text}", problems.list));
        assert!(
            parsed.warnings.list.is_empty() && checks::run(&text, &parsed.documents).is_empty(),
            "{kind}"
        );
        assert_eq!(parsed.documents[0].kind(), kind);
    }
}
