//! `gpuctl stats`: prints hourly rows of the cluster, its namespaces, the values of a label, or its workloads.

use std::process::ExitCode;

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::args::format::StatsFormat;
use crate::cli::history::stats::{Direction, Hours, OfWorkloads, Order, Stats};
use crate::context::Context;
use crate::error::Error;
use crate::observe::history::clusters;
use crate::observe::hourly::{NONE_SERVED, Question, of_cluster};
use crate::observe::times;
use crate::view::hourly::{self as view, Kind, Page};
use crate::view::{Format, document};

/// Seconds of an hour.
const HOUR: i64 = 3600;

pub async fn run(args: &Stats, context: &Context) -> Result<ExitCode, Error> {
    let (hours, question) = match args {
        Stats::Cluster(of) => (&of.hours, Question { kind: Kind::Cluster, namespace: None, dimension: None }),
        Stats::Namespaces(of) => (&of.hours, Question { kind: Kind::Namespaces, namespace: None, dimension: None }),
        Stats::Labels(of) => {
            let dimension = Some((of.dimension_type, of.dimension_key.as_str()));
            let namespace = context.access.namespace.as_deref();
            (&of.hours, Question { kind: Kind::Labels, namespace, dimension })
        }
        Stats::Workloads(of) => (&of.hours, Question { kind: Kind::Workloads, namespace: None, dimension: None }),
    };
    let format: Format = hours.output.into();
    context.terminal.set_format(format);
    let now = context.now().as_second();
    let (first, last) = hours.bounds(context.now())?;
    let chosen = clusters(hours.cluster.as_deref(), hours.all_contexts, context)?;
    let (mut rows, mut failed, several) = (Vec::new(), None, chosen.len() > 1);
    for (cluster, access) in chosen {
        match of_cluster(&question, cluster.clone(), &access, (first, last, now), hours.no_cache, context).await {
            Ok(found) => rows.extend(found),
            Err(error) if several => {
                context.terminal.warn(&format!("{cluster} is left out: {error}"));
                failed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = failed.filter(|_| rows.is_empty()) {
        return Err(error);
    }
    if context.access.namespace.is_some() && question.kind != Kind::Cluster {
        rows.retain(|row| row["namespace"].as_str().is_none_or(|own| Some(own) == context.access.namespace.as_deref()));
    }
    let look = context.terminal.look();
    let text = match args {
        Stats::Workloads(of) => return of.print(rows, format, context),
        Stats::Labels(of) => {
            rows.retain(|row| of.dimension_value.as_deref().is_none_or(|value| row["dimension_value"] == value));
            document(format, &rows)
        }
        Stats::Cluster(_) | Stats::Namespaces(_) => document(format, &rows),
    };
    let text = text.unwrap_or_else(|| {
        let curve = if question.kind == Kind::Cluster && matches!(hours.output, StatsFormat::Table) {
            view::curve(&rows, first, last.min(now), look)
        } else {
            String::new()
        };
        curve + &view::table(question.kind, &rows, format, !hours.no_headers, look)
    });
    context.terminal.print(&text)?;
    if rows.is_empty() {
        context.terminal.note(match question.kind {
            Kind::Labels => NONE_SERVED,
            _ => "no GPU was requested in these hours",
        });
    }
    Ok(ExitCode::SUCCESS)
}

impl Hours {
    /// The first hour that begins at or after the start, and the end, in Unix seconds.
    fn bounds(&self, now: Timestamp) -> Result<(i64, i64), Error> {
        let (start, end) = times::past(self.start.as_deref(), self.end.as_deref(), now)?;
        let first = start.div_euclid(HOUR) * HOUR;
        Ok((if first < start { first + HOUR } else { first }, end))
    }
}

impl OfWorkloads {
    fn print(&self, mut rows: Vec<Value>, format: Format, context: &Context) -> Result<ExitCode, Error> {
        rows.retain(|row| {
            self.workload_name.as_deref().is_none_or(|name| row["workload_name"] == name)
                && self
                    .workload_type
                    .as_deref()
                    .is_none_or(|kind| row["workload_type"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(kind)))
        });
        let usual = if self.order_by == Order::Time { Direction::Desc } else { Direction::Asc };
        let down = self.order_direction.unwrap_or(usual) == Direction::Desc;
        match self.order_by {
            // Rows come in order of time; those of an hour stay as they are.
            Order::Time if down => rows.sort_by(|a, b| b["stat_hour"].as_str().cmp(&a["stat_hour"].as_str())),
            Order::Time => {}
            Order::Utilization => rows.sort_by(|a, b| {
                let key = |row: &Value| row["avg_utilization"].as_f64();
                match (key(a), key(b)) {
                    (Some(a), Some(b)) if down => b.total_cmp(&a),
                    (Some(a), Some(b)) => a.total_cmp(&b),
                    // What is not known comes last, whatever the direction.
                    (a, b) => a.is_none().cmp(&b.is_none()),
                }
            }),
        }
        let (page, size) = (self.page.unwrap_or(1) as usize, self.page_size.unwrap_or(20) as usize);
        let total = rows.len();
        let data: Vec<Value> = rows.into_iter().skip((page - 1).saturating_mul(size)).take(size).collect();
        let (shown, pages) = (data.len(), total.div_ceil(size));
        let page = Page { total, page, page_size: size, total_pages: pages, data };
        let text = document(format, &page)
            .unwrap_or_else(|| view::table(Kind::Workloads, &page.data, format, !self.hours.no_headers, context.terminal.look()));
        context.terminal.print(&text)?;
        if total == 0 {
            context.terminal.note("no GPU was requested in these hours");
        } else if shown < total {
            context
                .terminal
                .announce(&format!("page {} of {pages}, {shown} of {total} rows; --page and --page-size show others", page.page));
        }
        Ok(ExitCode::SUCCESS)
    }
}
