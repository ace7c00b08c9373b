//! Rows for `gpuctl get`.

macro_rules! get_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        describe_verbs! {
            $make
            {
                $($commands)*
            }
            {
                $($groups)*
                Get {
                    #[command(visible_aliases = ["job", "jo"])]
                    Jobs(jobs::get::GetJobs) {
                        run: jobs::get::run,
                        rights: ("get jobs" [FIND, PROGRESS, METRICS]),
                        next: "gpuctl describe job NAME",
                        answers: [
                            jobs::list::JobList, history::at_time::ListAt<history::at_time::JobAt>,
                        ],
                        bundle: ["-A", "-A -o wide", "--mine"],
                    }
                    #[command(visible_aliases = ["node", "no"])]
                    Nodes(nodes::get::GetNodes) {
                        run: nodes::get::run,
                        rights: ("get nodes" [HOLDERS, METRICS]),
                        next: "gpuctl describe node NAME",
                        answers: [
                            nodes::document::NodeList, nodes::document::DetailList,
                            nodes::labels::LabelList,
                            history::at_time::ListAt<history::at_time::NodeAt>,
                            history::blame::BlameList<'_>,
                        ],
                        bundle: ["", "-o wide"],
                    }
                    #[command(visible_aliases = ["pool", "po"])]
                    Pools(pools::get::GetPools) {
                        run: pools::get::run,
                        rights: ("get pools" [HOLDERS, POOLS, METRICS]),
                        next: "gpuctl describe pool NAME",
                        answers: [nodes::pools::PoolList],
                        bundle: ["", "-o wide"],
                    }
                    #[command(visible_aliases = ["quota", "qu"])]
                    Quotas(quotas::get::GetQuotas) {
                        run: quotas::get::run,
                        rights: ("get quotas" [QUOTAS]),
                        next: "gpuctl describe quota NAME",
                        answers: [queues::quotas::QuotaList<'_>],
                        bundle: [""],
                    }
                    #[command(visible_alias = "queue")]
                    Queues(queues::get::GetQueues) {
                        run: queues::get::run,
                        rights: ("get queues" [QUEUES]),
                        next: "gpuctl describe queue NAME",
                        answers: [
                            queues::list::QueueList<'_>, queues::preemptions::PreemptionList<'_>,
                        ],
                        bundle: [""],
                    }
                    #[command(visible_alias = "claim")]
                    Claims(claims::get::GetClaims) {
                        run: claims::get::run,
                        rights: ("get claims" [CLAIMS]),
                        next: "gpuctl describe job NAME",
                        answers: [jobs::claims::ClaimList<'_>],
                        bundle: [""],
                    }
                    #[command(visible_alias = "default")]
                    Defaults(defaults::get::GetDefaults) {
                        run: defaults::get::run,
                        rights: ("get defaults" [READ_DEFAULTS]),
                        next: "gpuctl describe defaults",
                        answers: [files::defaults::DefaultsList<'_>],
                        bundle: [""],
                    }
                    Overview(metrics::overview::GetOverview) {
                        run: metrics::overview::run,
                        rights: ("get overview" [HOLDERS, METRICS]),
                        next: "gpuctl free",
                        answers: [nodes::overview::Overview, nodes::overviews::OverviewList],
                        bundle: [""],
                    }
                    #[command(visible_alias = "consumer")]
                    Consumers(workloads::consumers::GetConsumers) {
                        run: workloads::consumers::run,
                        rights: ("get consumers" [OWNERS, METRICS]),
                        next: "gpuctl get workloads",
                        answers: [workloads::consumers::ConsumerList],
                        bundle: [""],
                    }
                    Health(metrics::health::GetHealth) {
                        run: metrics::health::run,
                        rights: ("get health" [NODES, PROMETHEUS_ACCESS]),
                        next: "gpuctl describe node NAME",
                        answers: [score::gpu_health::HealthList<'_>],
                        bundle: [""],
                    }
                    Heatmap(metrics::heatmap::GetHeatmap) {
                        run: metrics::heatmap::run,
                        rights: ("get heatmap" [PROMETHEUS_ACCESS, PRESENT]),
                        next: "gpuctl describe node NAME",
                        answers: [nodes::heatmap::Heatmap],
                        bundle: [""],
                    }
                    Clusters(history::clusters::GetClusters) {
                        run: history::clusters::run,
                        rights: (),
                        next: "gpuctl get overview",
                        answers: [Vec<String>],
                    }
                    #[command(visible_alias = "ns")]
                    Namespaces(history::dimensions::GetNamespaces) {
                        run: history::dimensions::namespaces,
                        rights: ("get namespaces" [PROMETHEUS_ACCESS, PRESENT]),
                        next: "gpuctl get jobs -n NAMESPACE",
                        answers: [Vec<String>],
                        bundle: [""],
                    }
                    DimensionKeys(history::dimensions::GetDimensionKeys) {
                        run: history::dimensions::keys,
                        rights: (as "get namespaces"),
                        next: "",
                        answers: [Vec<String>],
                    }
                    DimensionValues(history::dimensions::GetDimensionValues) {
                        run: history::dimensions::values,
                        rights: (as "get namespaces"),
                        next: "",
                        answers: [Vec<String>],
                    }
                    #[command(visible_aliases = ["workload", "wl"])]
                    Workloads(workloads::get::GetWorkloads) {
                        run: workloads::get::run,
                        rights: ("get workloads" [OWNERS]),
                        next: "gpuctl describe workload NAME",
                        answers: [workloads::list::WorkloadList],
                        bundle: ["", "-o wide", "-o json"],
                    }
                    WorkloadMetadata(workloads::metadata::GetWorkloadMetadata) {
                        run: workloads::metadata::run,
                        rights: (as "get workloads"),
                        next: "",
                        answers: [workloads::list::WorkloadMetadata],
                    }
                    /// Show GPU metrics over a time range
                    #[command(subcommand)]
                    Metrics(command::GetMetrics) {
                        run: command::GetMetrics::run,
                        rights: (by command::GetMetrics::task),
                    }
                    TrainingPerformance(metrics::training_performance::TrainingPerformance) {
                        run: metrics::training_performance::run,
                        rights: (as "get metrics workload"),
                        next: "gpuctl describe job NAME",
                        answers: [Vec<history::training_performance::Performance>],
                    }
                    /// Show one label of a node
                    ///
                    /// With --all, it shows the GPU labels of every node. With neither a node nor
                    /// --all, it lists the cluster's GPU types.
                    #[command(after_help = "Example:
  gpuctl get label gpu-a-01 --key nvidia.com/gpu-type")]
                    Label(nodes::labels::NodeLabels) {
                        run: nodes::labels::run,
                        rights: ("get labels" [READ_LABELS]),
                        next: "",
                        answers: [
                            nodes::gpu_types::GpuTypeList, nodes::labels::NodeLabel,
                            nodes::labels::GpuLabelList,
                        ],
                    }
                    /// Show the GPU labels of nodes
                    ///
                    /// With --all, it shows every node. With a node, it shows the label in --key.
                    /// With neither, it lists the cluster's GPU types.
                    #[command(after_help = "Examples:
  gpuctl get node-labels --all
  gpuctl get node-labels --all -o json")]
                    NodeLabels(nodes::labels::NodeLabels) {
                        run: nodes::labels::run,
                        rights: (as "get labels"),
                        next: "gpuctl describe node NAME",
                        answers: [
                            nodes::gpu_types::GpuTypeList, nodes::labels::NodeLabel,
                            nodes::labels::GpuLabelList,
                        ],
                        bundle: ["--all"],
                    }
                    /// List the cluster's GPU types, as job files spell them in `resources.gpu-type`
                    ///
                    /// With a node, it shows that node's GPU type. With --all, it shows the GPU
                    /// labels of every node.
                    #[command(after_help = "Examples:
  gpuctl get gpu-type
  gpuctl get gpu-type gpu-a-01
  gpuctl get gpu-type --all -o json")]
                    GpuType(nodes::labels::NodeLabels) {
                        run: nodes::labels::run,
                        rights: (as "get labels"),
                        next: "gpuctl free",
                        answers: [
                            nodes::gpu_types::GpuTypeList, nodes::labels::NodeLabel,
                            nodes::labels::GpuLabelList,
                        ],
                    }
                }
                GetMetrics {
                    #[command(visible_alias = "jobs")]
                    Job(metrics::job::JobMetricsArgs) {
                        run: metrics::job::run,
                        rights: ("get metrics job" [FIND, ANY_KIND, PROMETHEUS_ACCESS, THROUGHPUT]),
                        next: "gpuctl describe job NAME",
                        answers: [history::metrics::JobMetrics],
                        bundle: ["JOB"],
                    }
                    #[command(visible_alias = "workloads")]
                    Workload(metrics::workload::WorkloadMetrics) {
                        run: metrics::workload::run,
                        rights: ("get metrics workload" [OWNERS, PROMETHEUS_ACCESS, ALL_LOGS]),
                        next: "gpuctl describe workload NAME",
                        answers: [history::workload_graphs::Graphs],
                    }
                }
            }
        }
    };
}
