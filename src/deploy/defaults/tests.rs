use super::Site;

#[test]
fn defaults_that_cannot_be_read_refuse_unless_they_are_ignored() {
    let unreadable = Site::Unreadable("`limitz` is not a field".to_owned());
    let error = unreadable.require_readable(false).unwrap_err();
    assert!(
        format!("{error:?}").contains("--ignore-defaults"),
        "{error:?}"
    );
    assert!(unreadable.require_readable(true).is_ok());
    let forbidden = format!("{:?}", Site::Forbidden.require_readable(false).unwrap_err());
    assert!(
        forbidden.contains("get configmaps/gpuctl-defaults") && !forbidden.contains("newer gpuctl"),
        "{forbidden}"
    );
    assert!(Site::Forbidden.require_readable(true).is_ok());
    assert!(
        Site::Hidden.require_readable(false).is_ok() && Site::None.require_readable(false).is_ok()
    );
}
