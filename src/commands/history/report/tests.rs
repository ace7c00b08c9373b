//! Tests how a report splits its range into hours and names its groups.

use super::*;
use crate::cli::history::report::group_by;
use crate::observe::history::pieces;
use gpuctl_core::model::UnixSeconds;

#[test]
fn hours_are_those_of_the_clock() {
    let pieces = |start, end| {
        let hours = pieces(UnixSeconds(start), UnixSeconds(end));
        hours
            .into_iter()
            .map(|(from, to)| (from.0, to.0))
            .collect::<Vec<_>>()
    };
    assert_eq!(pieces(3600, 10_800), [(3600, 7200), (7200, 10_800)]);
    assert_eq!(pieces(4000, 7201), [(4000, 7200), (7200, 7201)]);
    assert_eq!(pieces(10, 20), [(10, 20)]);
}

#[test]
fn groups_are_named_as_kube_state_metrics_does() {
    assert_eq!(
        group_by("user"),
        Ok(GroupBy::Label("user".to_owned(), "gpuctl/user".to_owned()))
    );
    assert_eq!(
        group_by("label=costCenter"),
        Ok(GroupBy::Label(
            "label=costCenter".to_owned(),
            "costCenter".to_owned()
        ))
    );
    assert_eq!(
        group_by("label=costCenter").unwrap().exported_key(),
        "cost_center"
    );
    assert_eq!(group_by("user").unwrap().exported_key(), "gpuctl_user");
    assert_eq!(group_by("gpu-type"), Ok(GroupBy::GpuType));
    assert!(group_by("label=").is_err() && group_by("people").is_err() && group_by("x=y").is_err());
}
