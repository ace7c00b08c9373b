//! Answers completion requests of shells. Offers names before options, and only candidates that
//! pass the filter in `offers`.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use super::offers::{Inserter, Offer, names_first, offers};

/// Answers a completion request and exits. Returns if the shell made no request.
pub(crate) fn answer() {
    let shells: [&dyn EnvCompleter; 5] = [
        &NamesFirst(Bash),
        &NamesFirst(Elvish),
        &NamesFirst(Fish),
        &NamesFirst(Powershell),
        &NamesFirst(Zsh),
    ];
    CompleteEnv::with_factory(|| with_full_names(super::Cli::command()))
        .shells(Shells(&shells))
        .complete();
}

/// Hides aliases, so that shells complete `jobs` instead of `jo`.
pub(crate) fn with_full_names(command: Command) -> Command {
    let aliases: Vec<String> = command
        .get_visible_aliases()
        .map(ToOwned::to_owned)
        .collect();
    command
        .visible_alias(None)
        .aliases(aliases)
        .mut_subcommands(with_full_names)
}

/// Wraps one of clap's shells to filter candidates and to omit options if there are names.
struct NamesFirst<S>(S);

impl<S: EnvCompleter> EnvCompleter for NamesFirst<S> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn is(&self, name: &str) -> bool {
        self.0.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        self.0.write_registration(var, name, bin, completer, buf)
    }

    /// Writes the same output as clap's shells, which offer no hook to filter candidates.
    fn write_complete(
        &self,
        command: &mut Command,
        mut words: Vec<OsString>,
        folder: Option<&Path>,
        buf: &mut dyn Write,
    ) -> Result<(), Error> {
        let last = words.len().saturating_sub(1);
        // clap's scripts for fish and PowerShell set no variables. They pass the word to complete
        // as the last argument.
        let (shell, index, separator) = match self.name() {
            "fish" => (Inserter::Unix, last, None),
            "powershell" => (Inserter::PowerShell, last, None),
            _ => (
                Inserter::Unix,
                script_setup("_CLAP_COMPLETE_INDEX").parse().unwrap_or(0),
                Some(script_setup("_CLAP_IFS")),
            ),
        };
        // After a space, the shell passes no word to complete.
        if words.len() == index {
            words.push(OsString::new());
        }
        let candidates = names_first(offers(command, words, index, folder, shell)?);
        buf.write_all(formatted(self.name(), &candidates, separator.as_deref()).as_bytes())
    }
}

/// Reads a variable that the registered script sets for the program.
#[expect(
    clippy::disallowed_methods,
    reason = "only the script of a shell sets these"
)]
fn script_setup(variable: &str) -> String {
    std::env::var(variable).unwrap_or_default()
}

/// Formats candidates as the script of `shell` expects.
fn formatted(shell: &str, offers: &[Offer], separator: Option<&str>) -> String {
    let help = |prefix: char, offer: &Offer| {
        offer
            .help
            .as_ref()
            .map(|help| format!("{prefix}{help}"))
            .unwrap_or_default()
    };
    let line = |offer: &Offer| match shell {
        "zsh" => {
            // zsh's `_describe` splits a candidate at its first colon, so escape colons in the
            // value.
            offer.value.replace('\\', "\\\\").replace(':', "\\:")
                + &help(':', offer).replace('\\', "\\\\")
        }
        "fish" | "powershell" => offer.value.clone() + &help('\t', offer),
        _ => offer.value.clone(),
    };
    let lines: Vec<String> = offers.iter().map(line).collect();
    match separator {
        Some(separator) => lines.join(if separator.is_empty() {
            "\n"
        } else {
            separator
        }),
        None => lines.iter().map(|line| format!("{line}\n")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(value: &str, help: Option<&str>) -> Offer {
        Offer {
            value: value.to_owned(),
            help: help.map(ToOwned::to_owned),
            hidden: false,
        }
    }

    #[test]
    fn options_are_not_offered_in_place_of_names() {
        let offers = names_first(
            ["bert", "--output", "gpt", "-o"]
                .map(|value| offer(value, None))
                .to_vec(),
        );
        assert_eq!(formatted("bash", &offers, Some("\u{b}")), "bert\u{b}gpt");
        let options = names_first(
            ["--output", "--force"]
                .map(|value| offer(value, None))
                .to_vec(),
        );
        assert_eq!(formatted("fish", &options, None), "--output\n--force\n");
        assert_eq!(names_first(Vec::new()), Vec::new());
    }

    #[test]
    fn each_shell_gets_its_own_lines() {
        let offers = [offer("bert:/", Some("a job: running")), offer("gpt", None)];
        assert_eq!(
            formatted("zsh", &offers, Some("\n")),
            "bert\\:/:a job: running\ngpt"
        );
        assert_eq!(
            formatted("powershell", &offers, None),
            "bert:/\ta job: running\ngpt\n"
        );
        assert_eq!(formatted("elvish", &offers, Some("")), "bert:/\ngpt");
    }
}
