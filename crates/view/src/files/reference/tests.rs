//! Tests that the paths of fields are found.

use super::*;

#[test]
fn fields_are_found_by_any_spelling_and_misses_are_named() {
    let name = |path: &str| match find(path) {
        Ok(FieldLookup::Field(kind, field)) => format!("{kind} {}", field.name()),
        Ok(FieldLookup::Document(kind)) => kind.to_owned(),
        Err((part, _)) => format!("? {part}"),
    };
    assert_eq!(name("training.resources.gpu"), "training gpu");
    assert_eq!(name("resources.gpuType"), "training gpu-type");
    assert_eq!(name("service.health_check.path"), "inference path");
    assert_eq!(name("training"), "training");
    assert_eq!(name("quota.name"), "quota name");
    assert_eq!(name("quota.namespace.cpu"), "quota cpu");
    assert_eq!(name("pool.quota.maxJobs"), "pool maxJobs");
    assert_eq!(name("storage.workdirs.size"), "training size");
    assert_eq!(name("training.resources.gpus"), "? gpus");
    assert_eq!(name("training.service"), "? service");
}
