//! Rows for the commands that administer a cluster, and for the settings.

macro_rules! administer_verbs {
    ($make:ident { $($commands:tt)* } { $($groups:tt)* }) => {
        program_verbs! {
            $make
            {
                $($commands)*
                /// Add nodes to a pool
                #[command(subcommand)]
                Add(command::Add) {
                    run: command::Add::run,
                    help: Administer 1,
                    rights: (by command::Add::task, "add nodes" [DEFINITION, FIRST_POOL]),
                }
                /// Remove nodes from a pool
                #[command(subcommand)]
                Remove(command::Remove) {
                    run: command::Remove::run,
                    help: Administer 2,
                    rights: (by command::Remove::task, "remove nodes" [DEFINITION]),
                }
                Drain(nodes::drain::Drain) {
                    run: nodes::drain::run,
                    help: Administer 4,
                    rights: ("drain" [DRAIN]),
                    next: "gpuctl get nodes",
                    answers: [nodes::drain::DrainPlan<'_>],
                }
                /// Set labels
                #[command(subcommand)]
                Label(command::Label) {
                    run: command::Label::run,
                    help: Administer 3,
                    rights: (by command::Label::task, "label nodes" [LABELS, PUBLISH]),
                }
                /// Check your permissions
                #[command(subcommand)]
                Auth(command::Auth) {
                    run: command::Auth::run,
                    help: Administer 5,
                    rights: (by command::Auth::task),
                }
                /// Show or change settings
                #[command(subcommand)]
                Config(command::Config) {
                    run: command::Config::run,
                    help: Program 1,
                    rights: (by command::Config::task),
                }
                Doctor(program::doctor::Doctor) {
                    run: program::doctor::run,
                    help: Administer 6,
                    rights: (),
                    next: "gpuctl get overview",
                    answers: [program::health::DoctorReport, program::bundle::BundleWritten<'_>],
                    bundle: [""],
                }
            }
            {
                $($groups)*
                Add {
                    /// Add nodes to a pool
                    ///
                    /// Moves a node from another pool only with --force.
                    #[command(
                        visible_alias = "nodes",
                        after_help = "Examples:
  gpuctl add node gpu-a-01 gpu-a-02 --pool training-pool"
                    )]
                    Node(pools::nodes::PoolNodes) {
                        run: pools::nodes::add,
                        rights: (as "add nodes"),
                        next: "gpuctl get pools",
                        answers: [nodes::labels::NodeBatch],
                    }
                }
                Remove {
                    /// Remove nodes from a pool; running pods continue
                    #[command(
                        visible_alias = "nodes",
                        after_help = "Examples:
  gpuctl remove node gpu-a-02 --pool training-pool"
                    )]
                    Node(pools::nodes::PoolNodes) {
                        run: pools::nodes::remove,
                        rights: (as "remove nodes"),
                        next: "gpuctl get pools",
                        answers: [nodes::labels::NodeBatch],
                    }
                }
                Label {
                    #[command(visible_alias = "nodes")]
                    Node(nodes::label::LabelNode) {
                        run: nodes::label::run,
                        rights: (as "label nodes"),
                        next: "gpuctl get node-labels",
                        answers: [nodes::labels::Labelled<'_>, nodes::labels::NodeBatch],
                    }
                }
                Auth {
                    Check(access::auth_check::AuthCheck) {
                        run: access::auth_check::run,
                        rights: (),
                        next: "",
                        answers: [
                            program::rights::RightsList<'_>, program::rights::Verdict,
                            format::objects::ObjectList<'_>,
                        ],
                        bundle: [""],
                    }
                }
                Config {
                    View(program::config::View) {
                        run: program::config::view,
                        rights: (),
                        next: "gpuctl config set KEY VALUE",
                        answers: [program::config::ConfigView],
                    }
                    Get(program::config::GetSetting) {
                        run: program::config::get,
                        rights: (),
                        next: "gpuctl config set KEY VALUE",
                        answers: [program::config::SettingItem<'_>],
                    }
                    Set(program::config::Set) {
                        run: program::config::write,
                        rights: (),
                        next: "gpuctl config view",
                        answers: [program::config::SettingItem<'_>],
                    }
                    Unset(program::config::UnsetSetting) {
                        run: program::config::unset,
                        rights: (),
                        next: "gpuctl config view",
                        answers: [program::config::SettingItem<'_>],
                    }
                }
            }
        }
    };
}
