//! Rows for commands about gpuctl itself, such as `version`.

macro_rules! program_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        $make! {
            Command {
                $($commands)*
                Options(program::options::Options) {
                    run: program::options::run,
                    help: Program 2,
                    rights: (),
                    next: "",
                }
                Version(program::version::VersionArgs) {
                    run: program::version::run,
                    help: Program 5,
                    rights: (),
                    next: "",
                    answers: [program::version::Version<'_>],
                }
                Mcp(program::mcp::Mcp) {
                    run: program::mcp::run,
                    help: Program 3,
                    rights: (),
                    next: "",
                }
                Skill(program::mcp::Skill) {
                    run: program::mcp::skill,
                    help: Program 4,
                    rights: (),
                    next: "",
                }
                Completion(program::completion::Completion) {
                    run: program::completion::run,
                    help: Program 6,
                    rights: (),
                    next: "",
                }
                Man(program::man::Man) {
                    run: program::man::run,
                    help: Program 7,
                    rights: (),
                    next: "",
                }
            }
            $($groups)*
        }
    };
}
