//! Rows for the commands that show the current state.

macro_rules! look_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        get_verbs! {
            $make
            {
                $($commands)*
                /// List jobs, nodes, pools, workloads and GPU metrics
                #[command(subcommand)]
                Get(command::Get) {
                    run: command::Get::run,
                    help: Look 1,
                    rights: (by command::Get::task),
                }
                /// Show everything about one job, node, pool, quota or workload, or the site's
                /// defaults
                ///
                /// `gpuctl describe NAME` means `gpuctl describe job NAME`.
                #[command(subcommand)]
                Describe(command::Describe) {
                    run: command::Describe::run,
                    help: Look 2,
                    rights: (by command::Describe::task),
                }
                Tree(workloads::tree::Tree) {
                    run: workloads::tree::run,
                    help: Look 6,
                    rights: ("tree" [OWNERS, OWNER_CHAIN]),
                    next: "gpuctl describe workload NAME",
                    answers: [workloads::tree::TreeItem<'_>],
                }
                Why(jobs::why::WhyArgs) {
                    run: jobs::why::run,
                    help: Look 3,
                    rights: ("why" [FIND, ANY_KIND, EXPLAIN, METRICS]),
                    next: "",
                    answers: [jobs::why::WhyItem<'_>, jobs::why_list::WhyList<'_>],
                    bundle: ["--all", "JOB"],
                }
                Free(nodes::free::Free) {
                    run: nodes::free::run,
                    help: Look 4,
                    rights: ("free" [FREE]),
                    next: "gpuctl fit -f FILE",
                    answers: [nodes::free::FreeAnswer<'_>],
                    bundle: [""],
                }
                Top(metrics::top::Top) {
                    run: metrics::top::run,
                    help: Look 5,
                    rights: ("top" [NODES, OWNERS, LIVE, METRICS]),
                    next: "",
                    answers: [workloads::top::TopList<'_>],
                    bundle: ["nodes", "jobs", "gpus"],
                }
            }
            {
                $($groups)*
            }
        }
    };
}
