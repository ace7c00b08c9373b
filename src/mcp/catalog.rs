//! The table of tools: name, gpuctl command, parameters, and the change that a tool makes.

use super::mask::TextSource;
use super::parameters::{JOB, KIND, MANIFEST, NAMESPACE, RANK, SLOTS, START, STATUS, TAIL};
use super::tools::{
    AgentTool, ArgumentPlace, Parameter, ToolChange, WriteArea, optional, required,
};

/// Refuses `files:` in a manifest with a hint that suits agents.
const NO_LOCAL_FILES: &str = "--no-local-files";

const fn reading_tool(
    name: &'static str,
    about: &'static str,
    command: &'static [&'static str],
    parameters: &'static [Parameter],
) -> AgentTool {
    AgentTool {
        name,
        about,
        command,
        parameters,
        source: TextSource::Cluster,
        has_json: true,
        change: None,
    }
}

/// Declares a tool whose output contains more than names, states, events and logs. `source` selects
/// the masking.
const fn echoing_tool(mut tool: AgentTool, source: TextSource) -> AgentTool {
    tool.source = source;
    tool
}

const READING: [AgentTool; 19] = [
    reading_tool(
        "overview",
        "GPUs in the cluster: total, held and busy",
        &["get", "overview"],
        &[],
    ),
    reading_tool(
        "list_jobs",
        "Jobs with status, GPUs, utilization and age; defaults to all namespaces",
        &["get", "jobs"],
        &[
            NAMESPACE,
            STATUS,
            optional("pool", ArgumentPlace::Text("--pool"), "Only this pool"),
        ],
    ),
    echoing_tool(
        reading_tool(
            "describe_job",
            "Details of a job: pods, GPU use, events, submitted YAML",
            &["describe", "job"],
            &[JOB, NAMESPACE],
        ),
        TextSource::Description,
    ),
    reading_tool(
        "why",
        "Why a job is waiting or has failed: causes with evidence and a command that helps",
        &["why"],
        &[JOB, NAMESPACE],
    ),
    reading_tool(
        "why_all",
        "Why each job is waiting or has failed, jobs with the most GPUs first",
        &["why", "--all"],
        &[NAMESPACE],
    ),
    reading_tool(
        "logs",
        "The last lines of a job's log",
        &["logs"],
        &[
            JOB,
            NAMESPACE,
            TAIL,
            optional(
                "grep",
                ArgumentPlace::Text("--grep"),
                "Only lines that match this regular expression",
            ),
            RANK,
            optional(
                "first_error",
                ArgumentPlace::Switch("--first-error"),
                "Only the earliest error of all pods, with the lines before it",
            ),
            optional(
                "previous",
                ArgumentPlace::Switch("--previous"),
                "The previous attempt",
            ),
        ],
    ),
    reading_tool("events", "Events of a job", &["events"], &[JOB, NAMESPACE]),
    echoing_tool(
        reading_tool(
            "list_nodes",
            "Nodes with GPUs: type, pool, free GPUs, utilization",
            &["get", "nodes"],
            &[],
        ),
        TextSource::Labels,
    ),
    echoing_tool(
        reading_tool(
            "describe_node",
            "Details of a node: its GPUs, their holders, its conditions",
            &["describe", "node"],
            &[required("node", ArgumentPlace::Word, "Node name")],
        ),
        TextSource::Labels,
    ),
    reading_tool(
        "list_pools",
        "Pools of nodes with used and free GPUs",
        &["get", "pools"],
        &[],
    ),
    reading_tool(
        "list_queues",
        "Queues with their capacity and waiting jobs",
        &["get", "queues"],
        &[],
    ),
    reading_tool(
        "list_consumers",
        "All holders of GPUs: gpuctl's jobs and other pods",
        &["get", "consumers"],
        &[NAMESPACE],
    ),
    reading_tool(
        "free",
        "Free GPUs by type and node, and whether jobs of N GPUs fit",
        &["free"],
        &[
            optional(
                "type",
                ArgumentPlace::Text("--type"),
                "Only this GPU type, such as h100-80g",
            ),
            optional("pool", ArgumentPlace::Text("--pool"), "Only this pool"),
            SLOTS,
        ],
    ),
    echoing_tool(
        reading_tool(
            "fit",
            "Whether the job in a manifest would start now, and the limiting factor if not",
            &["fit", "-f", "-", NO_LOCAL_FILES],
            &[MANIFEST, NAMESPACE],
        ),
        TextSource::Manifest,
    ),
    echoing_tool(
        reading_tool(
            "validate",
            "All problems in a manifest, with line and column",
            &["validate", "-f", "-", NO_LOCAL_FILES],
            &[MANIFEST],
        ),
        TextSource::Manifest,
    ),
    echoing_tool(
        reading_tool(
            "explain_field",
            "Explain a field of the manifest, such as resources.gpu-type",
            &["explain"],
            &[required("field", ArgumentPlace::Word, "The field")],
        ),
        TextSource::Program,
    ),
    AgentTool {
        name: "example",
        about: "A starter manifest: training, inference, notebook, compute, pool or quota",
        command: &["init"],
        parameters: &[KIND],
        source: TextSource::Program,
        has_json: false,
        change: None,
    },
    reading_tool(
        "efficiency",
        "GPU efficiency of a job: hours held, used and wasted",
        &["eff"],
        &[JOB, NAMESPACE, START],
    ),
    reading_tool(
        "report",
        "GPU-hours held, used and wasted, by namespace, team, user or pool",
        &["report"],
        &[
            START,
            optional(
                "by",
                ArgumentPlace::Text("--by"),
                "namespace, team, user, pool or label=KEY",
            ),
        ],
    ),
];

/// Declares a tool that creates or changes the objects of a manifest. `--only-kind` makes gpuctl
/// refuse other kinds.
macro_rules! submits {
    ($name:literal, $about:literal, $verb:literal, $kind:literal, $area:ident, $is_destructive:literal) => {
        AgentTool {
            name: $name,
            about: $about,
            command: &[
                $verb,
                "-f",
                "-",
                NO_LOCAL_FILES,
                concat!("--only-kind=", $kind),
            ],
            parameters: &[MANIFEST, NAMESPACE],
            source: TextSource::Manifest,
            has_json: true,
            change: Some(ToolChange {
                preview: &[
                    $verb,
                    "-f",
                    "-",
                    NO_LOCAL_FILES,
                    concat!("--only-kind=", $kind),
                    "--dry-run=server",
                ],
                preview_source: TextSource::Manifest,
                uid_option: None,
                effect: "It submits the documents of `manifest`, as the dry run above lists them.",
                area: WriteArea::$area,
                is_destructive: $is_destructive,
            }),
        }
    };
}

/// Declares a tool that deletes one object after a preview. The preview must search the same
/// namespaces as the deletion, or it could show another object of the same name.
const fn deleting_tool(
    name: &'static str,
    about: &'static str,
    commands: [&'static [&'static str]; 2],
    parameters: &'static [Parameter],
    effect: &'static str,
    area: WriteArea,
) -> AgentTool {
    let [command, preview] = commands;
    let preview_source = match area {
        WriteArea::Jobs => TextSource::Description,
        WriteArea::Defaults => TextSource::Yaml,
        WriteArea::Pools | WriteArea::Quotas => TextSource::Cluster,
    };
    let uid_option = match area {
        WriteArea::Jobs => Some("--only-uid"),
        WriteArea::Pools | WriteArea::Quotas | WriteArea::Defaults => None,
    };
    let change = Some(ToolChange {
        preview,
        preview_source,
        uid_option,
        effect,
        area,
        is_destructive: true,
    });
    AgentTool {
        name,
        about,
        command,
        parameters,
        source: TextSource::Cluster,
        has_json: true,
        change,
    }
}

const WRITING: [AgentTool; 9] = [
    submits!(
        "create_job",
        "Create the jobs in a manifest: training, inference, notebook or compute",
        "create",
        "job",
        Jobs,
        false
    ),
    submits!(
        "apply_manifest",
        "Update jobs to match a manifest, and create missing ones",
        "apply",
        "job",
        Jobs,
        true
    ),
    deleting_tool(
        "delete_job",
        "Delete a job and free its GPUs",
        [
            &["delete", "job", "--yes"],
            &["describe", "job", "--to-delete"],
        ],
        &[JOB, NAMESPACE],
        "It deletes this job, its pods and its other objects. Volume claims and data are kept.",
        WriteArea::Jobs,
    ),
    submits!(
        "apply_pool",
        "Create or change pools: labels nodes for all users",
        "apply",
        "pool",
        Pools,
        true
    ),
    deleting_tool(
        "delete_pool",
        "Delete a pool: removes its labels from the nodes",
        [&["delete", "pool", "--yes"], &["describe", "pool"]],
        &[required("pool", ArgumentPlace::Word, "Pool name")],
        "It removes this pool's labels from its nodes and deletes its definition.",
        WriteArea::Pools,
    ),
    submits!(
        "apply_quota",
        "Create or change namespace quotas",
        "apply",
        "quota",
        Quotas,
        true
    ),
    deleting_tool(
        "delete_quota",
        "Delete a quota in every namespace that it applies to",
        [
            &["delete", "quota", "--yes"],
            &["describe", "quota", "--to-delete"],
        ],
        &[required("quota", ArgumentPlace::Word, "Quota name")],
        "It deletes this quota in every namespace that it applies to.",
        WriteArea::Quotas,
    ),
    submits!(
        "apply_defaults",
        "Set the site's defaults for the jobs of all users",
        "apply",
        "defaults",
        Defaults,
        true
    ),
    deleting_tool(
        "delete_defaults",
        "Delete the site's defaults",
        [&["delete", "defaults", "--yes"], &["describe", "defaults"]],
        &[],
        "It deletes the site's defaults. Existing jobs keep their values.",
        WriteArea::Defaults,
    ),
];

/// The tools that a server offers: all tools that read, and those that write in an allowed area.
pub(super) fn tools(areas: &[WriteArea]) -> impl Iterator<Item = &'static AgentTool> {
    let is_allowed = |tool: &&AgentTool| {
        tool.change
            .as_ref()
            .is_some_and(|change| areas.contains(&change.area))
    };
    READING.iter().chain(WRITING.iter().filter(is_allowed))
}

#[cfg(test)]
mod tests;
