//! Joins the reports of several kubeconfig contexts into one.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::report::{GpuHourReport, Group, HourPoint, UNNAMED, WindowGaps};
use super::report_page::{MOST_WASTERS, PreviousWindow, ReportPage};
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::workload_use::WorkloadUse;

/// The content of a report about one cluster, or about several.
pub struct ReportPart {
    pub groups: Vec<Group>,
    pub total: Group,
    /// GPU-hours by hour, sorted by time.
    pub over_time: Vec<HourPoint>,
    pub gaps: WindowGaps,
    /// `None` if the report is only a table.
    pub page: Option<ReportPage>,
}

impl ReportPart {
    /// Joins the reports of contexts about the same window. Groups stay apart, and name their
    /// context. A total is unknown if it is unknown in one context.
    ///
    /// Returns `None` without contexts.
    pub fn joined(parts: Vec<(String, Self)>) -> Option<Self> {
        let mut joined: Option<Self> = None;
        for (context, mut part) in parts {
            part.name_context(&context);
            match &mut joined {
                Some(joined) => joined.add(part),
                None => joined = Some(part),
            }
        }
        joined
    }

    /// Distinguishes groups and workloads from those with the same names in other contexts.
    fn name_context(&mut self, context: &str) {
        for group in &mut self.groups {
            group.context = Some(context.to_owned());
        }
        let workloads = std::mem::take(&mut self.total.account.workloads);
        let qualified: BTreeSet<_> = workloads
            .into_iter()
            .map(|(namespace, kind, name)| (format!("{context}: {namespace}"), kind, name))
            .collect();
        self.total.account.workloads = qualified;
        if let Some(page) = &mut self.page {
            context.clone_into(&mut page.cluster);
            for (owner, _) in &mut page.wasters {
                owner.namespace = format!("{context}: {}", owner.namespace);
            }
            if let PreviousWindow::Unknown { reason } = &mut page.previous {
                *reason = format!("in context {context}, {reason}");
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.total.add_cluster(&other.total);
        self.gaps.add(other.gaps);
        // The window is the same, and so are its hours.
        for (hour, point) in self.over_time.iter_mut().zip(&other.over_time) {
            hour.held += point.held;
            hour.used += point.used;
            hour.unknown += point.unknown;
        }
        match (&mut self.page, other.page) {
            (Some(page), Some(other)) => page.add(other),
            (page, _) => *page = None,
        }
    }
}

impl Group {
    /// Adds the total of another cluster with its cost and capacity.
    fn add_cluster(&mut self, other: &Self) {
        self.add(other);
        self.cost = self.cost.zip(other.cost).map(|(a, b)| a + b);
        self.unheld = match (self.unheld.take(), &other.unheld) {
            (Some(mut unheld), Some(other)) => {
                unheld.add(other);
                Some(unheld)
            }
            _ => None,
        };
    }
}

impl ReportPage {
    fn add(&mut self, other: Self) {
        self.cluster = format!("{}, {}", self.cluster, other.cluster);
        self.wasters.extend(other.wasters);
        let wasted = |(_, work): &(TopOwner, WorkloadUse)| work.account.wasted().unwrap_or(0.0);
        let most_first = |a: &_, b: &_| -> Ordering { wasted(b).total_cmp(&wasted(a)) };
        self.wasters.sort_by(most_first);
        self.wasters.truncate(MOST_WASTERS);
        let previous = std::mem::replace(&mut self.previous, unknown_window());
        self.previous = previous.with(other.previous);
    }
}

fn unknown_window() -> PreviousWindow {
    PreviousWindow::Unknown {
        reason: String::new(),
    }
}

impl PreviousWindow {
    /// Adds the window of another cluster. Unknown if one of them is.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Known {
                    mut total,
                    cost,
                    capacity,
                },
                Self::Known {
                    total: other_total,
                    cost: other_cost,
                    capacity: other_capacity,
                },
            ) => {
                total.add(other_total);
                Self::Known {
                    total,
                    cost: cost.zip(other_cost).map(|(a, b)| a + b),
                    capacity: capacity.zip(other_capacity).map(|(mut all, one)| {
                        all.add(&one);
                        all
                    }),
                }
            }
            (unknown @ Self::Unknown { .. }, _) | (_, unknown) => unknown,
        }
    }
}

impl GpuHourReport<'_> {
    /// Whether the groups come from several contexts, which the table then names.
    pub(crate) fn has_contexts(&self) -> bool {
        self.groups.iter().any(|group| group.context.is_some())
    }

    /// Moves the contexts into the names of the groups, for pages and messages without a column
    /// for contexts.
    pub fn qualify_names(&mut self) {
        for group in &mut self.groups {
            if let Some(context) = group.context.take() {
                let name = group.name.as_deref().unwrap_or(UNNAMED);
                group.name = Some(format!("{context}: {name}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use jiff::tz::TimeZone;

    use crate::history::report::names;
    use crate::history::report_document::ReportDocument;
    use crate::history::report_table::table;
    use crate::{Format, TextStyle};
    use gpuctl_core::stats::history::gpu_hours::GpuHours;

    fn group(name: Option<&str>, hours: f64, utilization: f64, cost: Option<f64>) -> Group {
        let mut account = GpuHours::of_one_gpu(hours, Some(utilization));
        account.workloads = [("team".into(), "Job".into(), "bert".into())].into();
        Group {
            name: name.map(ToOwned::to_owned),
            cost,
            account,
            ..Group::default()
        }
    }

    fn part(hours: f64, utilization: f64, cost: Option<f64>) -> ReportPart {
        let page = ReportPage {
            cluster: "configured".to_owned(),
            zone: TimeZone::UTC,
            warnings: Vec::new(),
            wasters: vec![(
                TopOwner {
                    namespace: "team".to_owned(),
                    kind: "Job".to_owned(),
                    name: "bert".to_owned(),
                },
                WorkloadUse {
                    account: GpuHours::of_one_gpu(hours, Some(utilization)),
                    ..WorkloadUse::default()
                },
            )],
            previous: PreviousWindow::Known {
                total: GpuHours::of_one_gpu(hours, None),
                cost,
                capacity: None,
            },
        };
        ReportPart {
            groups: vec![group(Some("team"), hours, utilization, cost)],
            total: group(None, hours, utilization, cost),
            over_time: vec![HourPoint {
                held: hours,
                ..HourPoint::default()
            }],
            gaps: WindowGaps {
                hours: 24,
                without_data: 2,
                length: 24.0,
                unobserved: 2.5,
            },
            page: Some(page),
        }
    }

    fn report(part: ReportPart) -> GpuHourReport<'static> {
        GpuHourReport::new(Timestamp::UNIX_EPOCH, part.groups, part.total)
    }

    const STYLE: TextStyle = TextStyle {
        width: None,
        color: false,
        plain: false,
    };

    #[test]
    fn contexts_have_their_own_groups_and_one_total() {
        let parts = vec![
            ("prod".to_owned(), part(10.0, 50.0, Some(20.0))),
            ("lab".to_owned(), part(4.0, 25.0, Some(8.0))),
        ];
        let joined = ReportPart::joined(parts).unwrap();
        // Held: 10 + 4 hours. Used: 10 * 0.5 + 4 * 0.25 = 6 hours. Cost: 20 + 8.
        let total = &joined.total;
        assert_eq!(total.account.held, 14.0);
        assert_eq!(total.account.used(), Some(6.0));
        assert_eq!(total.cost, Some(28.0));
        // Workloads of the same name in two clusters are two workloads.
        assert_eq!(total.account.workloads.len(), 2);
        assert_eq!(joined.over_time[0].held, 14.0);
        // 24 hours of each cluster. 2.5 of them have no samples.
        assert_eq!((joined.gaps.length, joined.gaps.unobserved), (48.0, 5.0));
        let page = joined.page.as_ref().unwrap();
        assert_eq!(page.cluster, "prod, lab");
        let wasters: Vec<&str> = page
            .wasters
            .iter()
            .map(|(top, _)| top.namespace.as_str())
            .collect();
        // 10 * 0.5 = 5 and 4 * 0.75 = 3 hours were wasted.
        assert_eq!(wasters, ["prod: team", "lab: team"]);
        assert!(
            matches!(&page.previous, PreviousWindow::Known { total, cost, .. }
                if total.held == 14.0 && *cost == Some(28.0))
        );
        let mut report = report(joined);
        let text = table(&report, Format::Table, true, STYLE);
        let starts: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().take(2).collect())
            .collect();
        assert_eq!(starts[0], ["CONTEXT", "GROUP"]);
        assert_eq!(starts[1], ["prod", "team"]);
        assert_eq!(starts[2], ["lab", "team"]);
        assert_eq!(starts[3][0], "total");
        assert!(table(&report, Format::Csv, true, STYLE).starts_with("context,group,"));
        assert_eq!(names(&report), ["prod/team", "lab/team"]);
        let json = serde_json::to_value(ReportDocument::from(&report)).unwrap();
        assert_eq!(json["items"][1]["context"], "lab");
        assert_eq!(json["sum"].get("context"), None);
        assert_eq!(json["gaps"]["unobserved_hours"], 0.0);
        report.qualify_names();
        assert!(!report.has_contexts());
        assert_eq!(names(&report), ["prod: team", "lab: team"]);
    }

    #[test]
    fn a_total_is_unknown_if_one_context_is_unknown() {
        let mut unknown = part(4.0, 25.0, None);
        if let Some(page) = &mut unknown.page {
            page.previous = PreviousWindow::Unknown {
                reason: "2 of 4 hours have no data".to_owned(),
            };
        }
        let parts = vec![
            ("prod".to_owned(), part(10.0, 50.0, Some(20.0))),
            ("lab".to_owned(), unknown),
        ];
        let joined = ReportPart::joined(parts).unwrap();
        assert_eq!(joined.total.cost, None);
        let previous = joined.page.unwrap().previous;
        assert!(matches!(previous, PreviousWindow::Unknown { reason }
                if reason == "in context lab, 2 of 4 hours have no data"));
        assert!(ReportPart::joined(Vec::new()).is_none());
    }
}
