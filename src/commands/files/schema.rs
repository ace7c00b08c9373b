//! `gpuctl schema`: prints the JSON Schema of the specification file or of an answer.

use std::process::ExitCode;

use crate::cli::files::schema::Schema;
use crate::context::Context;
use crate::error::Error;
use crate::spec::schema::schema;
use crate::view::{answers, json};

pub(crate) async fn run(args: &Schema, context: &Context) -> Result<ExitCode, Error> {
    let found = match args.output.as_deref() {
        None => schema(args.kind.as_deref()),
        Some(name) if args.lines => answers::line(name)
            .ok_or_else(|| Error::usage(format!("`{}` prints no lines", name.replace('-', " "))).hint("omit `--lines`"))?,
        Some(name) => answers::schema(name).expect("clap knows the names"),
    };
    context.terminal.print(&json(&found))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{Command, CommandFactory};

    use crate::cli::Cli;
    use crate::view::answers;

    /// Returns the words of every command that has `-o json`, joined by `-`.
    fn with_json(command: &Command, words: &[&str], found: &mut BTreeSet<String>) {
        let formats =
            command.get_arguments().filter(|argument| argument.get_id() == "output").flat_map(clap::Arg::get_possible_values);
        if words != ["schema"] && formats.into_iter().any(|format| format.get_name() == "json") {
            found.insert(words.join("-"));
        }
        for below in command.get_subcommands() {
            with_json(below, &[words, &[below.get_name()]].concat(), found);
        }
    }

    #[test]
    fn every_command_with_json_has_a_schema() {
        let mut commands = BTreeSet::from(["error".to_owned()]);
        with_json(&Cli::command(), &[], &mut commands);
        let names: BTreeSet<String> = answers::names().collect();
        let without: Vec<_> = commands.difference(&names).collect();
        let of_nothing: Vec<_> = names.difference(&commands).collect();
        assert!(without.is_empty() && of_nothing.is_empty(), "without a schema: {without:?}, without a command: {of_nothing:?}");
    }

    fn watching(command: &Command, words: &[&str], found: &mut BTreeSet<String>) {
        let has = |name: &str| command.get_arguments().any(|argument| argument.get_id() == name);
        if has("watch") && has("output") {
            found.insert(words.join("-"));
        }
        for below in command.get_subcommands() {
            watching(below, &[words, &[below.get_name()]].concat(), found);
        }
    }

    #[test]
    fn every_command_with_watch_has_a_schema_of_its_lines() {
        let mut commands = BTreeSet::new();
        watching(&Cli::command(), &[], &mut commands);
        assert!(commands.len() > 8, "{commands:?}");
        for name in commands.iter().filter(|name| answers::schema(name).is_some()) {
            let line = answers::line(name).unwrap_or_else(|| panic!("{name} has no lines"));
            let validator = jsonschema::draft202012::new(&line).expect("a schema is valid");
            assert!(!validator.is_valid(&serde_json::json!({"deleted": "yes"})), "{name}: {line:#}");
        }
        assert!(answers::line("version").is_none());
    }

    #[test]
    fn descriptions_name_no_document_that_users_do_not_have() {
        for name in answers::names() {
            let schema = answers::schema(&name).expect("the name is one of ours").to_string();
            assert!(!schema.contains("contract's") && !schema.contains("document's"), "{name}");
        }
    }
}
