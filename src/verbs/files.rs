//! Rows for the commands that read or write files, and for `run`.

macro_rules! files_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        look_verbs! {
            $make
            {
                $($commands)*
                Create(files::create::Create) {
                    run: files::create::run,
                    help: Submit 1,
                    rights: (
                        by files::create::Create::task,
                        "create jobs" [MAKE_JOB, PLACE, REFERENCES, AWAIT],
                        "create services" [MAKE_SERVICE, PLACE, REFERENCES, SERVE, AWAIT],
                        "create notebooks" [MAKE_NOTEBOOK, PLACE, REFERENCES, AWAIT],
                        "create secrets" [SECRET],
                        "create pools" [DEFINITION, FIRST_POOL],
                        "create quotas" [QUOTA],
                        "create defaults" [WRITE_DEFAULTS, FIRST_POOL]
                    ),
                    next: "gpuctl get jobs",
                    answers: [
                        jobs::created::Created, jobs::created::Made,
                        jobs::created::SubmissionBatch<'_>, format::objects::ObjectList<'_>,
                    ],
                }
                Apply(files::apply::Apply) {
                    run: files::apply::run,
                    help: Submit 2,
                    rights: (
                        by_file
                        "apply jobs" [MAKE_JOB, REPLACE_JOB, FIND, PLACE, REFERENCES, STALE],
                        "apply services" [
                            MAKE_SERVICE, REPLACE_SERVICE, PLACE, REFERENCES, SERVE, STALE, AWAIT
                        ],
                        "apply notebooks" [
                            MAKE_NOTEBOOK, REPLACE_NOTEBOOK, REPAIR_NOTEBOOK, PLACE, REFERENCES,
                            STALE, AWAIT
                        ],
                        "apply pools" [DEFINITION, FIRST_POOL],
                        "apply quotas" [QUOTA, STALE_QUOTA],
                        "apply defaults" [WRITE_DEFAULTS, FIRST_POOL]
                    ),
                    next: "gpuctl get jobs",
                    answers: [
                        jobs::created::Created, jobs::created::Made,
                        jobs::created::SubmissionBatch<'_>, format::objects::ObjectList<'_>,
                    ],
                }
                Diff(files::diff::Diff) {
                    run: files::diff::run,
                    help: Submit 3,
                    rights: ("diff" [MAKE_JOB, COMPARE, FIND, PLACE, REFERENCES, SERVE]),
                    next: "gpuctl apply -f FILE",
                    answers: [files::changes::DifferenceList<'_>],
                }
                Fit(files::fit::FitArgs) {
                    run: files::fit::run,
                    help: WriteFiles 3,
                    rights: ("fit" [FIT]),
                    next: "gpuctl create -f FILE",
                    answers: [jobs::fit::FitList<'_>],
                }
                Validate(files::validate::Validate) {
                    run: files::validate::run,
                    help: WriteFiles 2,
                    rights: (),
                    next: "gpuctl fit -f FILE",
                    answers: [files::validated::Validation<'_>, files::validated::CheckItem<'_>],
                }
                Convert(files::convert::Convert) {
                    run: files::convert::run,
                    help: WriteFiles 6,
                    rights: (),
                    next: "gpuctl validate -f FILE",
                    answers: [files::converted::ConvertedList<'_>],
                }
                Init(files::init::Init) {
                    run: files::init::run,
                    help: WriteFiles 1,
                    rights: (),
                    next: "gpuctl validate -f FILE",
                }
                Explain(files::explain::Explain) {
                    run: files::explain::run,
                    help: WriteFiles 4,
                    rights: (),
                    next: "gpuctl init training",
                    answers: [files::reference::Explanation<'_>],
                }
                Schema(files::schema::Schema) {
                    run: files::schema::run,
                    help: WriteFiles 5,
                    rights: (),
                    next: "",
                }
                Run(jobs::run::RunArgs) {
                    run: jobs::run::run,
                    help: Submit 4,
                    rights: (as "create jobs"),
                    next: "gpuctl get jobs",
                    answers: [jobs::created::Created, format::objects::ObjectList<'_>],
                }
            }
            {
                $($groups)*
                Create {
                    Secret(files::create_secret::CreateSecret) {
                        run: files::create::secret::run,
                        rights: (as "create secrets"),
                        next: "",
                        answers: [jobs::secret::Written],
                    }
                }
            }
        }
    };
}
