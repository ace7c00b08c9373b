//! Tests what the HTML report shows, and that names cannot add markup to it.

use std::collections::BTreeSet;

use gpuctl_core::model::values::prices::Allowance;
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::workload_use::WorkloadUse;
use jiff::tz::TimeZone;

use super::*;
use crate::history::report::HourPoint;

const MARKUP: &str = "<script>alert(1)</script>&\"";

fn group(name: &str, hours: f64, utilization: f64) -> Group {
    Group {
        name: Some(name.to_owned()),
        account: GpuHours::of_one_gpu(hours, Some(utilization)),
        ..Group::default()
    }
}

fn waster(name: &str, users: &[&str]) -> (TopOwner, WorkloadUse) {
    let top = TopOwner {
        namespace: "ml".to_owned(),
        kind: "Job".to_owned(),
        name: name.to_owned(),
    };
    let work = WorkloadUse {
        account: GpuHours::of_one_gpu(10.0, Some(20.0)),
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        teams: BTreeSet::new(),
    };
    (top, work)
}

fn report(groups: Vec<Group>) -> GpuHourReport<'static> {
    let over_time = (0..168)
        .map(|hour| HourPoint {
            hour,
            held: 2.0,
            used: 1.0,
            unknown: 0.5,
        })
        .collect();
    GpuHourReport {
        from: "2026-11-20T00:00:00Z".parse().unwrap(),
        to: "2026-11-27T00:00:00Z".parse().unwrap(),
        over_time,
        ..GpuHourReport::new(jiff::Timestamp::UNIX_EPOCH, groups, group("", 112.0, 60.0))
    }
}

fn facts() -> ReportPage {
    ReportPage {
        cluster: format!("prod{MARKUP}"),
        zone: TimeZone::UTC,
        warnings: vec![format!("2 of 168 hours have no data {MARKUP}")],
        wasters: vec![waster(MARKUP, &[MARKUP]), waster("notebook", &["bob"])],
        previous: PreviousWindow::Known {
            total: GpuHours::of_one_gpu(100.0, Some(50.0)),
            cost: None,
            capacity: None,
        },
    }
}

#[test]
fn the_page_escapes_names_and_loads_nothing() {
    let page = page(&report(vec![group(MARKUP, 4.0, 50.0)]), &facts());
    assert!(
        !page.contains("<script") && page.contains("&lt;script&gt;"),
        "{page}"
    );
    assert_eq!(page.matches("<svg").count(), 2);
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_page_names_cluster_window_dates_owners_and_warnings() {
    let page = page(&report(vec![group("research", 4.0, 50.0)]), &facts());
    for shown in [
        "GPU-hours by team in prod",
        "2026-11-20 00:00 to 2026-11-27 00:00 (UTC)</title>",
        "<li>2 of 168 hours have no data",
        "A bar is 3 hours long. Dates are in UTC.",
        "GPU-hours per 3 hours",
        "20 Nov",
        "26 Nov",
        // 112 GPU-hours after 100 are 12 % more. Utilization went from 50 % to 60 %.
        "<td data-title=\"Change\">+12\u{a0}%</td>",
        "<td data-title=\"Change\">+10\u{a0}points</td>",
        // 10 GPU-hours at 20 % waste 8.
        "<td data-title=\"Workload\">ml/notebook</td><td class=\"text\" data-title=\"Kind\">Job</td>\
         <td class=\"text\" data-title=\"Owner\">bob</td><td data-title=\"Held\">10.0</td>\
         <td data-title=\"Used\">2.0</td><td data-title=\"Wasted\">8.0</td>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(
        !page.contains(">cost<"),
        "a report without prices has no costs"
    );
}

#[test]
fn exceeded_budgets_are_marked_and_costs_have_a_currency() {
    // 12 held of 10 allowed: -2.0 left, 20 %  over.
    let over = Group {
        allowance: Some(Allowance {
            gpu_hours: Some(10.0),
            cost: Some(50.0),
        }),
        cost: Some(21.6),
        ..group("vision", 12.0, 50.0)
    };
    let report = GpuHourReport {
        currency: Some("EUR".to_owned()),
        budgeted: true,
        ..report(vec![over])
    };
    let page = page(&report, &facts());
    for shown in [
        "<li class=\"over\">vision exceeds its budget by 2.0 GPU-hours</li>",
        "<td class=\"over\" data-title=\"hours left\">-2.0 (exceeded)</td>",
        "<th>cost, EUR</th>",
        "<td data-title=\"cost, EUR\">21.6</td>",
        "<td data-title=\"cost left, EUR\">28.4</td>",
        "<td data-title=\"\">Cost, EUR</td>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

#[test]
fn the_capacity_is_compared_with_the_previous_window() {
    // 112 held and 28 idle GPU-hours are a capacity of 140. Before, it was 100 + 40 = 140.
    let mut report = report(vec![group("a100-80g", 112.0, 60.0)]);
    report.total.unheld = Some(CapacityHours::of_hours(28.0, 0.0));
    let facts = ReportPage {
        previous: PreviousWindow::Known {
            total: GpuHours::of_one_gpu(100.0, Some(50.0)),
            cost: None,
            capacity: Some(Box::new(CapacityHours::of_hours(40.0, 0.0))),
        },
        ..facts()
    };
    let page = page(&report, &facts);
    for shown in [
        "The capacity was 140.0 GPU-hours: 112.0 allocated (80%), 28.0 idle.",
        "<td data-title=\"\">GPU-hours of capacity</td><td data-title=\"This window\">140.0</td>\
         <td data-title=\"Previous window\">140.0</td><td data-title=\"Change\">0\u{a0}%</td>",
        "<td data-title=\"\">GPU-hours idle</td>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
}

#[test]
fn an_unknown_trend_has_a_reason_and_no_change() {
    let facts = ReportPage {
        previous: PreviousWindow::Unknown {
            reason: "3 of 168 hours have no data".to_owned(),
        },
        ..facts()
    };
    let page = page(&report(vec![group("research", 4.0, 50.0)]), &facts);
    assert!(page.contains("The change is unknown: 3 of 168 hours have no data."));
    assert!(page.contains("<td data-title=\"Change\">-</td>") && !page.contains("+12"));
}

#[test]
fn a_table_with_many_columns_is_split() {
    let report = GpuHourReport {
        of_jobs: true,
        ..report(vec![group("research", 4.0, 50.0)])
    };
    let page = page(&report, &facts());
    let columns = page.split("<table id=\"groups").skip(1).map(|table| {
        table
            .split("</thead>")
            .next()
            .unwrap()
            .matches("<th")
            .count()
            - 1
    });
    assert!(columns.clone().all(|count| count <= MOST_COLUMNS + 1));
}
