//! `gpuctl schema`: prints the JSON Schema of job files or of a command's output.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::files::schema::Schema;
use crate::context::Context;
use crate::verbs::commands_with_answer;
use gpuctl_core::error::Error;
use gpuctl_manifest::spec::schema::schema;
use gpuctl_view::json;
use gpuctl_view::program::answers;

pub(crate) async fn run(args: &Schema, context: &Context) -> Result<ExitCode, Error> {
    let schema = match args.output.as_deref() {
        None => schema(args.kind.as_deref()),
        Some(name)
            if args.lines
                && !commands_with_answer()
                    .iter()
                    .any(|command| answers::name(command) == name && is_watched(command)) =>
        {
            let message = format!(
                "`{name}` has no per-line schema, because its command does not support `--watch`"
            );
            return Err(Error::usage(message).hint(format!(
                "`gpuctl schema --output {name}` prints the schema of its complete output"
            )));
        }
        Some(name) if args.lines => answers::line(name).expect("clap knows the names"),
        Some(name) => answers::schema(name).expect("clap knows the names"),
    };
    context.terminal.print(&json(&schema))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns true if a command has `--watch`.
fn is_watched(command: &str) -> bool {
    let cli = Cli::command();
    let subcommand = command
        .split(' ')
        .try_fold(&cli, |parent, word| parent.find_subcommand(word));
    subcommand.is_some_and(|command| {
        command
            .get_arguments()
            .any(|argument| argument.get_id() == "watch")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};

    use crate::cli::Cli;
    use crate::cli::files::schema::names;
    use crate::verbs::commands_with_answer;
    use gpuctl_view::program::answers;

    /// Collects the names of commands with `-o json`. Words are joined by `-`.
    fn with_json(command: &Command, words: &[&str], names: &mut BTreeSet<String>) {
        let formats = command
            .get_arguments()
            .filter(|argument| argument.get_id() == "output")
            .flat_map(clap::Arg::get_possible_values);
        if words != ["schema"]
            && formats
                .into_iter()
                .any(|format| format.get_name() == "json")
        {
            names.insert(words.join("-"));
        }
        for subcommand in command.get_subcommands() {
            with_json(
                subcommand,
                &[words, &[subcommand.get_name()]].concat(),
                names,
            );
        }
    }

    #[test]
    fn every_command_with_json_has_a_schema() {
        let mut commands = BTreeSet::from(["error".to_owned()]);
        with_json(&Cli::command(), &[], &mut commands);
        let names: BTreeSet<String> = names().into_iter().collect();
        let without_schema: Vec<_> = commands.difference(&names).collect();
        let without_command: Vec<_> = names.difference(&commands).collect();
        assert!(
            without_schema.is_empty() && without_command.is_empty(),
            "without a schema: {without_schema:?}, without a command: {without_command:?}"
        );
    }

    #[test]
    fn lines_of_watches_have_the_shape_of_any_row_that_options_choose() {
        let watched: BTreeSet<String> = commands_with_answer()
            .into_iter()
            .filter(|command| super::is_watched(command))
            .collect();
        assert!(
            watched.contains("get jobs")
                && watched.contains("score")
                && !watched.contains("version"),
            "{watched:?}"
        );
        for command in watched {
            let line = answers::line(&answers::name(&command)).expect("it has an answer");
            jsonschema::draft202012::new(&line)
                .unwrap_or_else(|error| panic!("{command}: {error}"));
        }
        let line = answers::line("get-nodes").expect("it has an answer");
        let rows: Vec<&str> = line["anyOf"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|row| row["$ref"].as_str())
            .collect();
        assert!(
            rows.contains(&"#/$defs/NodeItem") && rows.contains(&"#/$defs/DetailItem"),
            "{rows:?}"
        );
        let label = serde_json::json!({"deleted": "yes"});
        let properties_schema =
            serde_json::json!({"$schema": line["$schema"], "properties": line["properties"]});
        assert!(
            !jsonschema::draft202012::new(&properties_schema)
                .expect("a schema is valid")
                .is_valid(&label)
        );
    }

    #[test]
    fn descriptions_name_only_published_documents() {
        for name in names() {
            let schema = answers::schema(&name)
                .expect("gpuctl defines the name")
                .to_string();
            assert!(
                !schema.contains("contract's") && !schema.contains("document's"),
                "{name}"
            );
        }
    }
}
