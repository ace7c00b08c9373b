//! Rows for the commands that work with one job, and for `delete`.

macro_rules! jobs_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        administer_verbs! {
            $make
            {
                $($commands)*
                Logs(jobs::logs::Logs) {
                    run: jobs::logs::run,
                    help: WorkInside 1,
                    rights: ("logs" [FIND, ANY_KIND, LOGS]),
                    next: "gpuctl describe job NAME",
                    answers: [
                        jobs::logs::LogDocument<'_>, jobs::logs::JsonLine<'_>,
                        jobs::first_error::FirstErrorItem<'_>,
                    ],
                    bundle: ["JOB", "JOB --first-error"],
                }
                Events(jobs::events::EventsArgs) {
                    run: jobs::events::run,
                    help: Look 7,
                    rights: ("events" [EVENTS, ANY_KIND]),
                    next: "gpuctl why NAME",
                    answers: [jobs::events::EventList<'_>, jobs::events::EventDocument<'_>],
                    bundle: ["JOB"],
                }
                Wait(jobs::wait::WaitArgs) {
                    run: jobs::wait::run,
                    help: Look 8,
                    rights: ("wait" [FIND, ANY_KIND]),
                    next: "gpuctl get jobs",
                    answers: [jobs::waited::WaitResult],
                }
                Open(jobs::open::Open) {
                    run: jobs::open::run,
                    help: WorkInside 4,
                    rights: ("open" [FIND, ANY_KIND, FORWARD]),
                    next: "",
                    answers: [jobs::opened::Opened],
                }
                Exec(jobs::exec::Exec) {
                    run: jobs::exec::run,
                    help: WorkInside 2,
                    rights: ("exec" [FIND, ANY_KIND, EXEC]),
                    next: "",
                }
                Attach(jobs::attach::Attach) {
                    run: jobs::attach::run,
                    help: WorkInside 3,
                    rights: ("attach" [FIND, ANY_KIND, ATTACH]),
                    next: "",
                }
                Cp(jobs::copy::Copy) {
                    run: jobs::copy::run,
                    help: WorkInside 5,
                    rights: ("cp" [FIND, ANY_KIND, EXEC, COPY]),
                    next: "",
                    answers: [jobs::copied::CopyResult],
                }
                Scale(jobs::scale::Scale) {
                    run: jobs::scale::run,
                    help: Submit 5,
                    rights: ("scale" [SCALE]),
                    next: "gpuctl get jobs",
                    answers: [jobs::scaled::Scaled],
                }
                /// Pause a job and free its GPUs
                ///
                /// `gpuctl pause NAME` means `gpuctl pause job NAME`.
                #[command(subcommand)]
                Pause(command::Pause) {
                    run: command::Pause::run,
                    help: Submit 6,
                    rights: (by command::Pause::task, "pause jobs" [FIND, ANY_KIND, SWITCH]),
                }
                /// Resume a paused job
                ///
                /// `gpuctl resume NAME` means `gpuctl resume job NAME`.
                #[command(subcommand)]
                Resume(command::Resume) {
                    run: command::Resume::run,
                    help: Submit 7,
                    rights: (by command::Resume::task, "resume jobs" [FIND, ANY_KIND, SWITCH]),
                }
                /// Restart a job's pods
                ///
                /// `gpuctl restart NAME` means `gpuctl restart job NAME`.
                #[command(subcommand)]
                Restart(command::Restart) {
                    run: command::Restart::run,
                    help: Submit 8,
                    rights: (by command::Restart::task, "restart jobs" [FIND, ANY_KIND, RENEW]),
                }
                Delete(jobs::delete::Delete) {
                    run: jobs::delete::run,
                    help: Submit 9,
                    rights: (
                        by jobs::delete::Delete::task,
                        "delete jobs" [FIND, ANY_KIND, DELETE_JOB],
                        "delete pools" [LABELS, PUBLISH, DELETE_POOL],
                        "delete quotas" [DELETE_QUOTA],
                        "delete defaults" [DELETE_DEFAULTS]
                    ),
                    next: "gpuctl free",
                    answers: [jobs::deleted::Deleted, jobs::batch::Batch<'_, jobs::deleted::Deleted>],
                }
            }
            {
                $($groups)*
                Pause {
                    #[command(visible_alias = "jobs")]
                    Job(jobs::pause::Paused) {
                        run: jobs::pause::run,
                        rights: (as "pause jobs"),
                        next: "gpuctl resume NAME",
                        answers: [jobs::scaled::Scaled, jobs::batch::Batch<'_, jobs::scaled::Scaled>],
                    }
                }
                Resume {
                    #[command(visible_alias = "jobs")]
                    Job(jobs::resume::Resumed) {
                        run: jobs::resume::run,
                        rights: (as "resume jobs"),
                        next: "gpuctl get jobs",
                        answers: [jobs::scaled::Scaled, jobs::batch::Batch<'_, jobs::scaled::Scaled>],
                    }
                }
                Restart {
                    #[command(visible_alias = "jobs")]
                    Job(jobs::restart::Restarted) {
                        run: jobs::restart::run,
                        rights: (as "restart jobs"),
                        next: "gpuctl logs NAME -f",
                        answers: [jobs::scaled::Scaled, jobs::batch::Batch<'_, jobs::scaled::Scaled>],
                    }
                }
                Delete {
                    /// Delete jobs by name
                    #[command(visible_alias = "jobs")]
                    Job(jobs::delete::JobNames) {
                        run: jobs::delete::jobs,
                        rights: (as "delete jobs"),
                        next: "gpuctl free",
                        answers: [jobs::deleted::Deleted, jobs::batch::Batch<'_, jobs::deleted::Deleted>],
                    }
                    /// Delete pool definitions, and the labels that gpuctl set for them
                    #[command(visible_alias = "pools")]
                    Pool(jobs::delete::PoolNames) {
                        run: jobs::delete::pools,
                        rights: (as "delete pools"),
                        next: "gpuctl get pools",
                        answers: [jobs::deleted::Deleted, jobs::batch::Batch<'_, jobs::deleted::Deleted>],
                    }
                    /// Delete quotas that gpuctl manages, in all their namespaces
                    #[command(visible_alias = "quotas")]
                    Quota(jobs::delete::QuotaNames) {
                        run: jobs::delete::quotas,
                        rights: (as "delete quotas"),
                        next: "gpuctl get quotas",
                        answers: [jobs::deleted::Deleted, jobs::batch::Batch<'_, jobs::deleted::Deleted>],
                    }
                    /// Delete the site's defaults; existing jobs keep the values they got from them
                    Defaults(jobs::delete::DeleteDefaults) {
                        run: jobs::delete::defaults,
                        rights: (as "delete defaults"),
                        next: "gpuctl get defaults",
                        answers: [jobs::deleted::Deleted, jobs::batch::Batch<'_, jobs::deleted::Deleted>],
                    }
                }
            }
        }
    };
}
