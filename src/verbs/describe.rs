//! Rows for `gpuctl describe`.

macro_rules! describe_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        measure_verbs! {
            $make
            {
                $($commands)*
            }
            {
                $($groups)*
                Describe {
                    #[command(visible_aliases = ["jobs", "jo"])]
                    Job(jobs::describe::DescribeJob) {
                        run: jobs::describe::run,
                        rights: ("describe jobs" [FIND, ANY_KIND, PROGRESS, METRICS]),
                        next: "",
                        answers: [jobs::description::JobDescription<'_>],
                        bundle: ["JOB"],
                    }
                    #[command(visible_aliases = ["nodes", "no"])]
                    Node(nodes::describe::DescribeNode) {
                        run: nodes::describe::run,
                        rights: ("describe nodes" [HOLDERS, METRICS]),
                        next: "gpuctl get health",
                        answers: [nodes::node_description::NodeDocument],
                    }
                    #[command(visible_alias = "pools")]
                    Pool(pools::describe::DescribePool) {
                        run: pools::describe::run,
                        rights: ("describe pools" [HOLDERS, POOLS, METRICS]),
                        next: "gpuctl free",
                        answers: [nodes::pool_description::PoolDocument],
                    }
                    #[command(visible_alias = "quotas")]
                    Quota(quotas::describe::DescribeQuota) {
                        run: quotas::describe::run,
                        rights: ("describe quotas" [QUOTAS]),
                        next: "gpuctl get quotas",
                        answers: [queues::quotas::QuotaList<'_>],
                    }
                    #[command(visible_alias = "queues")]
                    Queue(queues::describe::DescribeQueue) {
                        run: queues::describe::run,
                        rights: ("describe queues" [FIND, QUEUES]),
                        next: "gpuctl get jobs",
                        answers: [queues::list::QueueDescription<'_>],
                    }
                    #[command(visible_alias = "default")]
                    Defaults(defaults::describe::DescribeDefaults) {
                        run: defaults::describe::run,
                        rights: ("describe defaults" [READ_DEFAULTS]),
                        next: "gpuctl apply -f FILE",
                        answers: [files::defaults::WholeDefaults<'_>],
                    }
                    #[command(visible_aliases = ["workloads", "wl"])]
                    Workload(workloads::describe::DescribeWorkload) {
                        run: workloads::describe::run,
                        rights: ("describe workloads" [OWNERS, OWNER_CHAIN, METRICS]),
                        next: "gpuctl tree NAME",
                        answers: [workloads::describe::WorkloadDocument],
                    }
                }
            }
        }
    };
}
