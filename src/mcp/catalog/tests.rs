//! Tests the table of tools.

use serde_json::{Map, Value, json};

use super::*;

const ALL: [WriteArea; 4] = [
    WriteArea::Jobs,
    WriteArea::Pools,
    WriteArea::Quotas,
    WriteArea::Defaults,
];

#[test]
fn every_tool_is_a_command_line() {
    use clap::CommandFactory;

    for tool in tools(&ALL) {
        let sample = |parameter: &Parameter| {
            let value = match (parameter.place, parameter.name) {
                (ArgumentPlace::Number(..), _) => json!(2),
                (ArgumentPlace::Switch(_), _) => json!(true),
                _ if !parameter.choices.is_empty() => json!(parameter.choices[0]),
                (_, "start") => json!("2h"),
                (_, "by") => json!("team"),
                _ => json!("x"),
            };
            (parameter.name.to_owned(), value)
        };
        // Skip options that conflict with others.
        let is_independent = |parameter: &Parameter| {
            parameter.is_required || !matches!(parameter.name, "first_error" | "previous")
        };
        let arguments: Map<String, Value> = tool
            .parameters
            .iter()
            .filter(|parameter| is_independent(parameter))
            .map(sample)
            .collect();
        for command in [
            Some(tool.command),
            tool.change.as_ref().map(|change| change.preview),
        ]
        .into_iter()
        .flatten()
        {
            let mut call = tool.call(command, &arguments).unwrap();
            if let Some(option) = tool
                .change
                .as_ref()
                .and_then(|change| change.uid_option)
                .filter(|_| command == tool.command)
            {
                call = call.with_option(format!("{option}=0b5c"));
            }
            let json = if tool.has_json {
                call.as_json().words
            } else {
                Vec::new()
            };
            for words in [call.words, json]
                .into_iter()
                .filter(|words| !words.is_empty())
            {
                let words = ["gpuctl".to_owned()].into_iter().chain(words);
                let parsed = crate::cli::Cli::command().try_get_matches_from(words.clone());
                assert!(
                    parsed.is_ok(),
                    "{:?}: {}",
                    words.collect::<Vec<_>>(),
                    parsed.unwrap_err()
                );
            }
        }
        jsonschema::validator_for(&Value::Object(tool.schema())).unwrap();
    }
}

#[test]
fn the_command_line_accepts_every_choice_and_limit() {
    use clap::CommandFactory;

    let accepts = |tool: &AgentTool, arguments: Value| {
        let call = tool.call(tool.command, arguments.as_object().unwrap());
        let words = ["gpuctl".to_owned()].into_iter().chain(call.unwrap().words);
        let parsed = crate::cli::Cli::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{}: {}", tool.name, parsed.unwrap_err());
    };
    let mut values = 0;
    for tool in tools(&ALL) {
        for parameter in tool.parameters {
            let limits = match parameter.place {
                ArgumentPlace::Number(_, minimum, maximum) => vec![json!(minimum), json!(maximum)],
                _ => parameter
                    .choices
                    .iter()
                    .map(|choice| json!(choice))
                    .collect(),
            };
            for value in limits {
                let mut arguments = json!({ parameter.name: value });
                if tool.name == "logs" {
                    arguments["job"] = json!("x");
                }
                accepts(tool, arguments);
                values += 1;
            }
        }
    }
    assert!(values > 15);
}

#[test]
fn the_kinds_of_examples_are_complete() {
    let kinds = gpuctl_manifest::spec::reference::KINDS.map(|(kind, _)| kind);
    assert_eq!(KIND.choices, kinds);
}

#[test]
fn each_area_adds_its_own_tools_only() {
    assert_eq!(tools(&[]).count(), READING.len());
    assert!(tools(&[]).all(|tool| tool.change.is_none()));
    let names = |area| {
        let is_write = |tool: &&AgentTool| tool.change.is_some();
        tools(&[area])
            .filter(is_write)
            .map(|tool| tool.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(WriteArea::Jobs),
        ["create_job", "apply_manifest", "delete_job"]
    );
    assert_eq!(names(WriteArea::Pools), ["apply_pool", "delete_pool"]);
    assert_eq!(names(WriteArea::Quotas), ["apply_quota", "delete_quota"]);
    assert_eq!(
        names(WriteArea::Defaults),
        ["apply_defaults", "delete_defaults"]
    );
}

#[test]
fn nodes_keep_their_labels_and_taints() {
    for name in ["list_nodes", "describe_node"] {
        assert_eq!(
            tools(&[]).find(|tool| tool.name == name).unwrap().source,
            TextSource::Labels,
            "{name}"
        );
    }
}

#[test]
fn no_manifest_can_name_local_files() {
    for tool in READING.iter().chain(&WRITING) {
        if tool
            .parameters
            .iter()
            .any(|parameter| parameter.place == ArgumentPlace::Input)
        {
            let previews = tool.change.iter().map(|change| change.preview);
            let mut commands = previews.chain([tool.command]);
            assert!(
                commands.all(|command| command.contains(&NO_LOCAL_FILES)),
                "{}",
                tool.name
            );
        }
    }
}

#[test]
fn every_tool_that_submits_names_its_only_kind() {
    for tool in WRITING.iter().filter(|tool| tool.command.contains(&"-f")) {
        let change = tool.change.as_ref().unwrap();
        let kind = match change.area {
            WriteArea::Jobs => "--only-kind=job",
            WriteArea::Pools => "--only-kind=pool",
            WriteArea::Quotas => "--only-kind=quota",
            WriteArea::Defaults => "--only-kind=defaults",
        };
        assert!(
            tool.command.contains(&kind) && change.preview.contains(&kind),
            "{}",
            tool.name
        );
    }
}
