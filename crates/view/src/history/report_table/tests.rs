//! Tests the headers and numbers of reports, and the escaping of names in Markdown tables.

use super::*;
use jiff::Timestamp;

#[test]
fn the_csv_headers_stay_and_no_hours_are_negative_zero() {
    let time = Timestamp::UNIX_EPOCH;
    let mut report = GpuHourReport::new(time, vec![Group::default()], Group::default());
    report.budgeted = true;
    let style = TextStyle {
        width: None,
        color: false,
        plain: false,
    };
    let csv = table(&report, Format::Csv, true, style);
    assert!(
        csv.starts_with(
            "group,budget,left,cost_budget,cost_left,quota,waited,held,used,wasted,unknown,\
             util_percent,parts,covered_percent,kwh,cost,workloads"
        ),
        "{csv}"
    );
    assert_eq!(
        (hours(-0.04, true), hours(-0.06, true)),
        ("0.0".into(), "-0.1".into())
    );
}

#[test]
fn markdown_shows_no_control_characters_and_keeps_its_cells() {
    let group = |name: &str| Group {
        name: Some(name.to_owned()),
        ..Group::default()
    };
    let time = Timestamp::UNIX_EPOCH;
    let groups = vec![group("a|b\u{1b}[31m")];
    let report = GpuHourReport::new(time, groups, group(""));
    let text = markdown(&report);
    assert!(!text.contains('\u{1b}') && text.contains("a\\|b"), "{text}");
    assert!(
        text.lines().nth(2).unwrap().starts_with("| group"),
        "{text}"
    );
}
