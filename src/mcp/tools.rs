//! The questions that an agent can ask, each a command of ours with parameters, and what it may change where that is allowed. Pure: a
//! tool becomes the words of a command line, and nothing that an agent writes can become another option of it.

use serde_json::{Map, Value, json};

/// A tool of the protocol.
#[derive(Debug)]
pub(super) struct AgentTool {
    pub name: &'static str,
    pub about: &'static str,
    /// The verb, its noun and fixed options.
    pub command: &'static [&'static str],
    pub parameters: &'static [Parameter],
    /// For what changes the cluster: the command that is tried first, with the same parameters.
    pub first: Option<&'static [&'static str]>,
}

#[derive(Debug)]
pub(super) struct Parameter {
    name: &'static str,
    about: &'static str,
    place: Place,
    is_required: bool,
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Word,
    Text(&'static str),
    Number(&'static str),
    Switch(&'static str),
    /// Standard input.
    Input,
}

/// A command line of ours.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub words: Vec<String>,
    pub input: String,
}

const fn may(name: &'static str, place: Place, about: &'static str) -> Parameter {
    Parameter { name, about, place, is_required: false }
}

const fn must(name: &'static str, place: Place, about: &'static str) -> Parameter {
    Parameter { is_required: true, ..may(name, place, about) }
}

const NAMESPACE: Parameter = may("namespace", Place::Text("--namespace"), "Namespace; without it the one of the kubeconfig");
const JOB: Parameter = must("job", Place::Word, "Name of the job");
const MANIFEST: Parameter = must("manifest", Place::Input, "The YAML of the job");
const START: Parameter = may("start", Place::Text("--start"), "Begin: a span before now such as 7d, or RFC 3339");

const fn asks(
    name: &'static str,
    about: &'static str,
    command: &'static [&'static str],
    parameters: &'static [Parameter],
) -> AgentTool {
    AgentTool { name, about, command, parameters, first: None }
}

const READING: [AgentTool; 19] = [
    asks("overview", "GPUs of the cluster: how many there are, are held, are busy", &["get", "overview"], &[]),
    asks(
        "list_jobs",
        "Jobs with status, GPUs, utilization and age; all namespaces unless one is given",
        &["get", "jobs"],
        &[
            NAMESPACE,
            may("status", Place::Text("--status"), "pending, running, succeeded, failed or paused"),
            may("pool", Place::Text("--pool"), "Only this pool"),
        ],
    ),
    asks(
        "describe_job",
        "Everything about one job: pods, GPU use, events, what was submitted",
        &["describe", "job"],
        &[JOB, NAMESPACE],
    ),
    asks("why", "Why a job waits or died: causes with evidence and the command that helps", &["why"], &[JOB, NAMESPACE]),
    asks("why_all", "Why each job waits or died, those with most GPUs first", &["why", "--all"], &[NAMESPACE]),
    asks(
        "logs",
        "The last lines of a job's log",
        &["logs"],
        &[
            JOB,
            NAMESPACE,
            may("tail", Place::Number("--tail"), "How many lines; 100 without it"),
            may("grep", Place::Text("--grep"), "Only lines that match this regular expression"),
            may("rank", Place::Number("--rank"), "Only this rank"),
            may("first_error", Place::Switch("--first-error"), "Only the earliest error over all pods, with the lines before it"),
            may("previous", Place::Switch("--previous"), "The attempt before this one"),
        ],
    ),
    asks("events", "What happened to a job", &["events"], &[JOB, NAMESPACE]),
    asks("list_nodes", "Nodes with GPUs: type, pool, free GPUs, utilization", &["get", "nodes"], &[]),
    asks(
        "describe_node",
        "One node: its GPUs, who holds them, its conditions",
        &["describe", "node"],
        &[must("node", Place::Word, "Name of the node")],
    ),
    asks("list_pools", "Pools of nodes with used and free GPUs", &["get", "pools"], &[]),
    asks("list_queues", "Queues with what they have and who waits", &["get", "queues"], &[]),
    asks("list_consumers", "Who holds GPUs, gpuctl's jobs and everything else", &["get", "consumers"], &[NAMESPACE]),
    asks(
        "free",
        "Free GPUs by type and node, and whether jobs of N GPUs fit",
        &["free"],
        &[
            may("type", Place::Text("--type"), "Only this type, as h100-80g"),
            may("pool", Place::Text("--pool"), "Only this pool"),
            may("slots", Place::Number("--slots"), "Tell how many jobs of so many GPUs fit"),
        ],
    ),
    asks("fit", "Whether the job of a YAML would start now, and what binds if not", &["fit", "-f", "-"], &[MANIFEST, NAMESPACE]),
    asks("validate", "Every problem of a YAML, with line and column", &["validate", "-f", "-"], &[MANIFEST]),
    asks(
        "explain_field",
        "What a field of the YAML means, as resources.gpu-type",
        &["explain"],
        &[must("field", Place::Word, "The field")],
    ),
    asks(
        "example",
        "A YAML to begin with, for training, inference, notebook, compute, pool or quota",
        &["init"],
        &[must("kind", Place::Word, "The kind")],
    ),
    asks("efficiency", "What a job made of its GPUs: hours held, used and wasted", &["eff"], &[JOB, NAMESPACE, START]),
    asks(
        "report",
        "GPU-hours that were held, used and wasted, by namespace, team, user or pool",
        &["report"],
        &[START, may("by", Place::Text("--by"), "namespace, team, user, pool or label=KEY")],
    ),
];

const WRITING: [AgentTool; 3] = [
    AgentTool {
        name: "create_job",
        about: "Create the job of a YAML",
        command: &["create", "-f", "-"],
        parameters: &[MANIFEST, NAMESPACE],
        first: Some(&["create", "-f", "-", "--dry-run=server"]),
    },
    AgentTool {
        name: "apply_manifest",
        about: "Change what exists to what a YAML says",
        command: &["apply", "-f", "-"],
        parameters: &[MANIFEST, NAMESPACE],
        first: Some(&["apply", "-f", "-", "--dry-run=server"]),
    },
    AgentTool {
        name: "delete_job",
        about: "Delete a job and free its GPUs",
        command: &["delete", "job", "--yes"],
        parameters: &[JOB, NAMESPACE],
        first: Some(&["describe", "job"]),
    },
];

/// Returns the tools that there are.
pub(super) fn all(writing: bool) -> impl Iterator<Item = &'static AgentTool> {
    READING.iter().chain(WRITING.iter().filter(move |_| writing))
}

impl AgentTool {
    /// Returns the JSON Schema of the arguments.
    #[must_use]
    pub(super) fn schema(&self) -> Map<String, Value> {
        let of = |one: &Parameter| {
            let kind = match one.place {
                Place::Number(_) => "integer",
                Place::Switch(_) => "boolean",
                _ => "string",
            };
            (one.name.to_owned(), json!({"type": kind, "description": one.about}))
        };
        let mut properties: Map<String, Value> = self.parameters.iter().map(of).collect();
        properties.insert("page".to_owned(), json!({"type": "integer", "minimum": 1, "description": "Page of a long answer"}));
        if self.first.is_some() {
            let about = "Do it; without this, and before it, the same call only tells what would be done";
            properties.insert("confirm".to_owned(), json!({"type": "boolean", "description": about}));
        }
        let required: Vec<&str> = self.parameters.iter().filter(|one| one.is_required).map(|one| one.name).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        schema.as_object().cloned().unwrap_or_default()
    }

    /// Returns the command line of these arguments.
    ///
    /// # Errors
    /// Says what is wrong with them.
    pub(super) fn call(&self, command: &[&str], arguments: &Map<String, Value>) -> Result<Call, String> {
        let known = |name: &&String| {
            let own = self.parameters.iter().any(|one| one.name == **name);
            own || **name == "page" || **name == "confirm" && self.first.is_some()
        };
        if let Some(unknown) = arguments.keys().find(|name| !known(name)) {
            let names: Vec<&str> = self.parameters.iter().map(|one| one.name).collect();
            return Err(format!("`{}` has no argument `{unknown}`; it has {}", self.name, names.join(", ")));
        }
        let mut call = Call { words: command.iter().map(|word| (*word).to_owned()).collect(), ..Call::default() };
        let mut bare = Vec::new();
        for one in self.parameters {
            let value = match arguments.get(one.name).filter(|value| !value.is_null()) {
                Some(value) => value,
                None if one.is_required => return Err(format!("`{}` needs `{}`: {}", self.name, one.name, one.about)),
                None => continue,
            };
            let wrong = |kind: &str| format!("`{}` of `{}` is {kind}, not {value}", one.name, self.name);
            let text = || value.as_str().map(ToOwned::to_owned).ok_or_else(|| wrong("a text"));
            match one.place {
                Place::Word => bare.push(text()?),
                // In one word with its option, so that it cannot be another one.
                Place::Text(flag) => call.words.push(format!("{flag}={}", text()?)),
                Place::Number(flag) => {
                    let number = value.as_u64().ok_or_else(|| wrong("a number from 0 on"))?;
                    call.words.push(format!("{flag}={number}"));
                }
                Place::Switch(flag) => {
                    let is_on = value.as_bool().ok_or_else(|| wrong("true or false"))?;
                    call.words.extend(is_on.then(|| flag.to_owned()));
                }
                Place::Input => call.input = text()?,
            }
        }
        if !bare.is_empty() {
            // What follows is no option, whatever it looks like.
            call.words.push("--".to_owned());
            call.words.extend(bare);
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> &'static AgentTool {
        all(true).find(|one| one.name == name).unwrap()
    }

    fn call(name: &str, arguments: Value) -> Result<Call, String> {
        let tool = tool(name);
        tool.call(tool.command, arguments.as_object().unwrap())
    }

    #[test]
    fn every_tool_is_a_command_line() {
        use clap::CommandFactory;

        for tool in all(true) {
            let sample = |one: &Parameter| {
                let value = match (one.place, one.name) {
                    (Place::Number(_), _) => json!(2),
                    (Place::Switch(_), _) => json!(true),
                    (_, "status") => json!("running"),
                    (_, "kind") => json!("training"),
                    (_, "start") => json!("2h"),
                    (_, "by") => json!("team"),
                    _ => json!("x"),
                };
                (one.name.to_owned(), value)
            };
            // Options that exclude each other are given alone.
            let alone = |one: &Parameter| one.is_required || !matches!(one.name, "first_error" | "previous");
            let arguments: Map<String, Value> = tool.parameters.iter().filter(|one| alone(one)).map(sample).collect();
            for command in [Some(tool.command), tool.first].into_iter().flatten() {
                let call = tool.call(command, &arguments).unwrap();
                let words = ["gpuctl".to_owned()].into_iter().chain(call.words);
                let parsed = crate::cli::Cli::command().try_get_matches_from(words.clone());
                assert!(parsed.is_ok(), "{:?}: {}", words.collect::<Vec<_>>(), parsed.unwrap_err());
            }
            let schema = tool.schema();
            jsonschema::validator_for(&Value::Object(schema)).unwrap();
        }
        assert_eq!((all(false).count(), all(true).count()), (READING.len(), READING.len() + WRITING.len()));
        assert!(all(false).all(|tool| tool.first.is_none()));
    }

    #[test]
    fn arguments_are_never_options() {
        let found = call("logs", json!({"job": "--as=admin", "grep": "-x --kubeconfig /etc", "tail": 5})).unwrap();
        assert_eq!(found.words, ["logs", "--tail=5", "--grep=-x --kubeconfig /etc", "--", "--as=admin"]);
        let found = call("create_job", json!({"manifest": "kind: training", "namespace": "ml", "confirm": true})).unwrap();
        assert_eq!((found.words.join(" ").as_str(), found.input.as_str()), ("create -f - --namespace=ml", "kind: training"));
    }

    #[test]
    fn wrong_arguments_are_told() {
        for (name, arguments, told) in [
            ("logs", json!({}), "`logs` needs `job`"),
            ("logs", json!({"job": 5}), "`job` of `logs` is a text, not 5"),
            ("logs", json!({"job": "a", "tail": -1}), "a number from 0 on"),
            ("logs", json!({"job": "a", "previous": "yes"}), "true or false"),
            ("overview", json!({"confirm": true}), "`overview` has no argument `confirm`"),
        ] {
            let found = call(name, arguments).unwrap_err();
            assert!(found.contains(told), "{found}");
        }
    }
}
