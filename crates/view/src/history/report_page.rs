//! What a report says beyond its table: the cluster, the window, warnings, budgets that are
//! exceeded, the trend and the largest wasters. The HTML page and messages share it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::report::{GpuHourReport, Group, UNNAMED};
use gpuctl_core::model::Percent;
use gpuctl_core::stats::history::capacity_hours::CapacityHours;
use gpuctl_core::stats::history::gpu_hours::GpuHours;
use gpuctl_core::stats::history::top_owner::TopOwner;
use gpuctl_core::stats::history::workload_use::WorkloadUse;

/// Maximum number of workloads among the largest wasters.
pub const MOST_WASTERS: usize = 15;

/// Facts about a report that are not part of its table.
pub struct ReportPage {
    /// Name of the cluster.
    pub cluster: String,
    /// The zone in which times are shown and days begin.
    pub zone: TimeZone,
    /// The warnings that the command printed.
    pub warnings: Vec<String>,
    /// The workloads that wasted the most, the largest waste first.
    pub wasters: Vec<(TopOwner, WorkloadUse)>,
    pub previous: PreviousWindow,
}

/// The window of the same length before the report's window.
pub enum PreviousWindow {
    Known {
        total: GpuHours,
        cost: Option<f64>,
        /// GPU-hours that no pod held. `None` if the report does not cover all pods. Boxed, because
        /// the other variant is small.
        capacity: Option<Box<CapacityHours>>,
    },
    /// Some or all of it is unknown, so that no change can be computed.
    Unknown { reason: String },
}

/// A quantity in this window and in the previous one. `None` is unknown.
pub(crate) struct Trend {
    pub name: String,
    pub now: Option<f64>,
    pub before: Option<f64>,
    /// Whether the values are percentages, so that their change is in percentage points.
    pub is_percentage: bool,
}

impl Trend {
    /// Formats the change since the previous window, such as `+12 %` or `-3 points`. `-` if it is
    /// unknown, or if it would divide by zero.
    pub(crate) fn change(&self) -> String {
        let change = match (self.now, self.before) {
            (Some(now), Some(before)) if self.is_percentage => Some((now - before, "\u{a0}points")),
            (Some(now), Some(before)) if before > 0.0 => {
                Some(((now - before) / before * 100.0, "\u{a0}%"))
            }
            _ => None,
        };
        change.map_or_else(
            || "-".to_owned(),
            |(change, unit)| match format!("{change:+.0}").as_str() {
                "+0" | "-0" => format!("0{unit}"),
                signed => format!("{signed}{unit}"),
            },
        )
    }
}

impl ReportPage {
    /// Formats the title, such as `GPU-hours by team in prod`.
    pub fn title(&self, report: &GpuHourReport<'_>) -> String {
        format!("GPU-hours by {} in {}", report.by, self.cluster)
    }

    /// Formats the window with its zone, such as `2026-11-20 00:00 to 2026-11-27 00:00 (UTC)`.
    pub fn window(&self, report: &GpuHourReport<'_>) -> String {
        format!(
            "{} to {} ({})",
            self.time(report.from),
            self.time(report.to),
            self.zone_name(report.from)
        )
    }

    fn time(&self, time: Timestamp) -> String {
        let time = time.to_zoned(self.zone.clone());
        time.strftime("%Y-%m-%d %H:%M").to_string()
    }

    /// The name of the zone, or its offset if it has no name.
    pub(crate) fn zone_name(&self, at: Timestamp) -> String {
        match self.zone.iana_name() {
            Some("Etc/Unknown" | "Etc/UTC") => "UTC".to_owned(),
            Some(name) => name.to_owned(),
            None => {
                let offset = at.to_zoned(self.zone.clone()).strftime("%:z").to_string();
                format!("UTC{offset}")
            }
        }
    }

    /// Compares the totals with those of the previous window.
    pub(crate) fn trends(&self, report: &GpuHourReport<'_>) -> Vec<Trend> {
        let Group {
            account,
            cost,
            unheld,
            ..
        } = &report.total;
        let (before, cost_before, unheld_before) = match &self.previous {
            PreviousWindow::Known {
                total,
                cost,
                capacity,
            } => (Some(total), *cost, capacity.as_deref()),
            PreviousWindow::Unknown { .. } => (None, None, None),
        };
        let trend = |name: &str, value: fn(&GpuHours) -> Option<f64>| Trend {
            name: name.to_owned(),
            now: value(account),
            before: before.and_then(value),
            is_percentage: false,
        };
        let share = |name: &str, value: fn(&GpuHours) -> Option<Percent>| Trend {
            name: name.to_owned(),
            now: value(account).map(|Percent(value)| value),
            before: before.and_then(value).map(|Percent(value)| value),
            is_percentage: true,
        };
        let mut trends = vec![
            trend("GPU-hours held", |total| Some(total.held)),
            trend("GPU-hours used", GpuHours::used),
            trend("GPU-hours wasted", GpuHours::wasted),
            trend("GPU-hours not measured", |total| Some(total.unknown())),
            trend("GPU-hours waited", |total| Some(total.waited)),
            share("Utilization, %", GpuHours::utilization),
            share("Measured, %", GpuHours::covered),
            trend("Energy, kWh", |total| total.energy),
        ];
        if let Some(unheld) = unheld {
            let before = unheld_before.zip(before);
            trends.splice(0..0, capacity_trends((unheld, account), before));
        }
        if let Some(currency) = &report.currency {
            trends.push(Trend {
                name: in_currency("Cost", currency),
                now: *cost,
                before: cost_before,
                is_percentage: false,
            });
        }
        trends
    }
}

/// Compares the capacity and the idle hours, each computed from unheld and held hours.
fn capacity_trends(
    (unheld, account): (&CapacityHours, &GpuHours),
    before: Option<(&CapacityHours, &GpuHours)>,
) -> [Trend; 2] {
    let trend = |name: &str, now: Option<f64>, before: Option<f64>| Trend {
        name: name.to_owned(),
        now,
        before,
        is_percentage: false,
    };
    [
        trend(
            "GPU-hours of capacity",
            unheld.capacity(account),
            before.and_then(|(unheld, total)| unheld.capacity(total)),
        ),
        trend(
            "GPU-hours idle",
            unheld.idle(),
            before.and_then(|(unheld, _)| unheld.idle()),
        ),
    ]
}

/// Adds the currency to the title of a column or row. A price file may name none.
pub(crate) fn in_currency(title: &str, currency: &str) -> String {
    if currency.is_empty() || title.contains(currency) {
        title.to_owned()
    } else {
        format!("{title}, {currency}")
    }
}

/// Describes the budgets that are exceeded, one sentence per budget.
pub(crate) fn exceeded_budgets(report: &GpuHourReport<'_>) -> Vec<String> {
    let currency = report.currency.as_deref().unwrap_or_default();
    let sentences = |(group, name): (&Group, &str)| {
        let (hours, cost) = group.remaining_budget();
        let exceeded = |left: Option<f64>| left.filter(|left| is_exceeded(*left)).map(f64::abs);
        let hours = exceeded(hours).map(|over| format!("{over:.1} GPU-hours"));
        let cost = exceeded(cost).map(|over| format!("{over:.1} {currency}").trim().to_owned());
        let name = name.to_owned();
        [hours, cost]
            .into_iter()
            .flatten()
            .map(move |over| format!("{name} exceeds its budget by {over}"))
    };
    let groups = report.groups.iter().map(|group| {
        let name = group.name.as_deref().unwrap_or(UNNAMED);
        (group, name)
    });
    groups
        .chain([(&report.total, "the total")])
        .flat_map(sentences)
        .collect()
}

/// Whether a remaining budget is negative. Less than half a tenth is shown as zero.
pub(crate) fn is_exceeded(left: f64) -> bool {
    left <= -0.05
}

/// Joins the owners of a workload: its users, or else its teams. `-` if neither is known.
pub(crate) fn owner(work: &WorkloadUse) -> String {
    let names = if work.users.is_empty() {
        &work.teams
    } else {
        &work.users
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuctl_core::model::values::prices::Allowance;

    fn page(zone: TimeZone, previous: PreviousWindow) -> ReportPage {
        ReportPage {
            cluster: "prod".to_owned(),
            zone,
            warnings: Vec::new(),
            wasters: Vec::new(),
            previous,
        }
    }

    fn group(name: &str, hours: f64, utilization: Option<f64>) -> Group {
        Group {
            name: Some(name.to_owned()),
            account: GpuHours::of_one_gpu(hours, utilization),
            ..Group::default()
        }
    }

    #[test]
    fn the_window_names_its_zone() {
        let report = GpuHourReport {
            from: "2026-11-19T18:30:00Z".parse().unwrap(),
            to: "2026-11-26T18:30:00Z".parse().unwrap(),
            ..GpuHourReport::new(Timestamp::UNIX_EPOCH, Vec::new(), Group::default())
        };
        let unknown = || PreviousWindow::Unknown {
            reason: String::new(),
        };
        let utc = page(TimeZone::UTC, unknown());
        assert_eq!(
            utc.window(&report),
            "2026-11-19 18:30 to 2026-11-26 18:30 (UTC)"
        );
        // 18:30 UTC is midnight at UTC+05:30.
        let india = page(jiff::tz::offset(5).to_time_zone(), unknown());
        assert_eq!(
            india.window(&report),
            "2026-11-19 23:30 to 2026-11-26 23:30 (UTC+05:00)"
        );
        assert_eq!(utc.title(&report), "GPU-hours by team in prod");
    }

    #[test]
    fn a_change_needs_both_windows() {
        // 100 GPU-hours at 40 % now, 80 at 50 % before: held +25 %, used 40 to 40 is 0 %, wasted 40
        // to 60 is +50 %, utilization 50 to 40 is -10 points.
        let total = group("", 100.0, Some(40.0));
        let report = GpuHourReport::new(Timestamp::UNIX_EPOCH, Vec::new(), total);
        let previous = PreviousWindow::Known {
            total: GpuHours::of_one_gpu(80.0, Some(50.0)),
            cost: None,
            capacity: None,
        };
        let changes = |page: ReportPage| -> Vec<String> {
            page.trends(&report).iter().map(Trend::change).collect()
        };
        let known = changes(page(TimeZone::UTC, previous));
        assert_eq!(
            known,
            [
                "+25\u{a0}%",
                "0\u{a0}%",
                "+50\u{a0}%",
                "-",
                "-",
                "-10\u{a0}points",
                "0\u{a0}points",
                "-"
            ]
        );
        let reason = "no data".to_owned();
        let unknown = changes(page(TimeZone::UTC, PreviousWindow::Unknown { reason }));
        assert!(unknown.iter().all(|change| change == "-"), "{unknown:?}");
    }

    #[test]
    fn exceeded_budgets_are_named_with_their_amount() {
        let allowance = |gpu_hours, cost| Some(Allowance { gpu_hours, cost });
        // 12 held of 10 allowed; 30.5 EUR of 20 allowed; 10.04 of 10 is shown as 0.0 left.
        let over = Group {
            allowance: allowance(Some(10.0), Some(20.0)),
            cost: Some(30.5),
            ..group("over", 12.0, None)
        };
        let near = Group {
            allowance: allowance(Some(10.0), None),
            ..group("near", 10.04, None)
        };
        let report = GpuHourReport {
            currency: Some("EUR".to_owned()),
            ..GpuHourReport::new(Timestamp::UNIX_EPOCH, vec![over, near], Group::default())
        };
        assert_eq!(
            exceeded_budgets(&report),
            [
                "over exceeds its budget by 2.0 GPU-hours",
                "over exceeds its budget by 10.5 EUR"
            ]
        );
    }
}
