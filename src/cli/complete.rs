//! Answers the shells' requests for completion: names come first. Where a name can stand, options are offered only to whoever has
//! typed a `-`; shells sort what they get, and a list of options would hide the names.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

/// Answers and ends the program when a shell asks; returns when a person does.
pub(crate) fn answer() {
    let shells: [&dyn EnvCompleter; 5] =
        [&NamesFirst(Bash), &NamesFirst(Elvish), &NamesFirst(Fish), &NamesFirst(Powershell), &NamesFirst(Zsh)];
    CompleteEnv::with_factory(|| by_full_names(super::Cli::command())).shells(Shells(&shells)).complete();
}

/// Hides the other names of commands: a shell would be given `jo` instead of `jobs`.
pub(crate) fn by_full_names(command: Command) -> Command {
    let others: Vec<String> = command.get_visible_aliases().map(ToOwned::to_owned).collect();
    command.visible_alias(None).aliases(others).mut_subcommands(by_full_names)
}

/// A shell of clap's, without options where names were found.
struct NamesFirst<S>(S);

impl<S: EnvCompleter> EnvCompleter for NamesFirst<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(&self, var: &str, name: &str, bin: &str, completer: &str, buf: &mut dyn Write) -> Result<(), Error> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        folder: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut found = Vec::new();
        self.0.write_complete(command, args, folder, &mut found)?;
        buf.write_all(names_first(&String::from_utf8_lossy(&found)).as_bytes())
    }
}

/// Leaves options out where there are names. Shells ask for lists that are separated by a line's end or a vertical tab.
fn names_first(text: &str) -> String {
    let separator = if text.contains('\u{b}') { '\u{b}' } else { '\n' };
    let entries: Vec<&str> = text.split(separator).collect();
    let names: Vec<&str> = entries.iter().copied().filter(|entry| !entry.starts_with('-')).collect();
    if names.iter().all(|entry| entry.is_empty()) { text.to_owned() } else { names.join(&separator.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_left_out_where_there_are_names() {
        assert_eq!(names_first("bert\u{b}--output\u{b}gpt\u{b}-o"), "bert\u{b}gpt");
        assert_eq!(names_first("--output\n--force\n"), "--output\n--force\n");
        assert_eq!(names_first(""), "");
    }
}
