//! Rows for the commands that measure current and past usage.

macro_rules! measure_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        jobs_verbs! {
            $make
            {
                $($commands)*
                Score(score::ScoreArgs) {
                    run: score::run,
                    help: Measure 1,
                    rights: ("score" [SCORED, PROMETHEUS_ACCESS]),
                    next: "gpuctl get health",
                    answers: [
                        Vec<score::list::ScoreItem>, score::list::Low,
                        score::summary::ScoreStats,
                    ],
                    bundle: [""],
                }
                /// Show hourly statistics on allocated GPUs (time-weighted) and their utilization
                #[command(subcommand)]
                Stats(command::Stats) {
                    run: command::Stats::run,
                    help: Measure 3,
                    rights: (by command::Stats::task, "stats" [PROMETHEUS_ACCESS, PRESENT]),
                }
                Eff(history::eff::Eff) {
                    run: history::eff::run,
                    help: Measure 2,
                    rights: ("eff" [PROMETHEUS_ACCESS, PRESENT]),
                    next: "gpuctl report",
                    answers: [history::efficiency::EfficiencyDocument<'_>],
                    bundle: ["JOB"],
                }
                /// Show which pod holds or held a GPU
                #[command(subcommand)]
                Who(command::Who) {
                    run: command::Who::run,
                    help: Measure 5,
                    rights: (by command::Who::task, "who gpu" [PROMETHEUS_ACCESS, PRESENT]),
                }
                Report(history::report::Report) {
                    run: history::report::run,
                    help: Measure 4,
                    rights: ("report" [PROMETHEUS_ACCESS, PRESENT]),
                    next: "gpuctl eff NAME",
                    answers: [history::report_document::ReportDocument<'_>],
                    bundle: [""],
                }
                /// Show which workloads held GPUs at a point in time
                #[command(subcommand)]
                Snapshot(command::Snapshot) {
                    run: command::Snapshot::run,
                    help: Measure 6,
                    rights: (by command::Snapshot::task, "snapshot" [PROMETHEUS_ACCESS, PRESENT]),
                }
            }
            {
                $($groups)*
                Stats {
                    /// Show hourly statistics for the whole cluster
                    ///
                    /// Utilization covers allocated GPUs, and is averaged over twelve five-minute
                    /// samples per hour, each with the same weight. `report` weights by GPU-hours,
                    /// so its UTIL can differ. Hours are in UTC and start with hours of your local
                    /// clock. Hours without data have empty cells, and the current hour is marked.
                    #[command(after_help = "Examples:
  gpuctl stats cluster
  gpuctl stats cluster --start 2026-01-01T00:00:00Z --end 2026-02-01T00:00:00Z -o csv")]
                    Cluster(history::stats::HourStatsArgs) {
                        run: history::stats::cluster,
                        rights: (as "stats"),
                        next: "gpuctl report",
                        answers: [Vec<history::hourly::ClusterRow>],
                        bundle: [""],
                    }
                    /// Show hourly statistics for each namespace
                    ///
                    /// Utilization covers allocated GPUs, and is averaged over twelve five-minute
                    /// samples per hour, each with the same weight. `report` weights by GPU-hours,
                    /// so its UTIL can differ. Hours are in UTC and start with hours of your local
                    /// clock. Hours without data have empty cells, and the current hour is marked.
                    #[command(
                        visible_alias = "namespace",
                        after_help = "Example:
  gpuctl stats namespaces -n team-a --start yesterday --end today -o json"
                    )]
                    Namespaces(history::stats::HourStatsArgs) {
                        run: history::stats::namespaces,
                        rights: (as "stats"),
                        next: "gpuctl report",
                        answers: [Vec<history::hourly::NamespaceRow>],
                        bundle: [""],
                    }
                    Labels(history::stats::LabelStatsArgs) {
                        run: history::stats::labels,
                        rights: (as "stats"),
                        next: "gpuctl report",
                        answers: [Vec<history::hourly::DimensionRow>],
                    }
                    #[command(visible_alias = "workload")]
                    Workloads(history::stats::WorkloadStatsArgs) {
                        run: history::stats::workloads,
                        rights: (as "stats"),
                        next: "gpuctl eff NAME",
                        answers: [history::hourly_table::RowPage],
                        bundle: [""],
                    }
                }
                Who {
                    Gpu(history::who_gpu::WhoGpu) {
                        run: history::who_gpu::run,
                        rights: (as "who gpu"),
                        next: "gpuctl describe workload NAME",
                        answers: [history::device_at::DeviceAt],
                    }
                }
                Snapshot {
                    Latest(history::snapshot::Latest) {
                        run: history::snapshot::latest,
                        rights: (as "snapshot"),
                        next: "gpuctl snapshot list",
                        answers: [history::snapshot::Snapshot],
                        bundle: [""],
                    }
                    List(history::snapshot::SnapshotList) {
                        run: history::snapshot::list,
                        rights: (as "snapshot"),
                        next: "gpuctl snapshot latest",
                        answers: [Vec<history::snapshot::Snapshot>],
                    }
                }
            }
        }
    };
}
