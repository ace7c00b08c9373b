//! Renders history: reports, statistics, snapshots and curves.

pub mod at_time;
pub mod blame;
pub mod device_at;
pub mod efficiency;
pub mod gap_note;
pub mod hourly;
pub mod hourly_table;
pub mod metrics;
pub mod report;
pub(crate) mod report_bars;
pub mod report_capacity;
pub mod report_contexts;
pub mod report_document;
pub mod report_html;
pub mod report_message;
pub mod report_page;
pub(crate) mod report_plot;
pub mod report_table;
pub(crate) mod serving_hours;
pub mod snapshot;
pub mod training_performance;
pub(crate) mod utilization;
pub mod workload_graphs;
