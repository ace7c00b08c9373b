//! Filters completion candidates before they reach a shell. Names come from clusters, kubeconfigs,
//! folders and caches, and bash inserts them without quotes: the name `$(reboot)` would run when
//! the user presses Enter. `offers` therefore accepts only text that no shell changes.

use std::ffi::OsString;
use std::io::Error;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{self, CompletionCandidate};
use unicode_width::UnicodeWidthChar;

use gpuctl_view::format::text::clean;

/// Maximum length of a candidate in bytes. An owner reference can contain a megabyte.
const LONGEST: usize = 1024;

/// The shell that inserts a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserter {
    /// bash, zsh, fish or elvish.
    Unix,
    /// In PowerShell, a comma makes a list and a backslash is an ordinary character.
    PowerShell,
    /// kubectl, which completes for any shell.
    Any,
}

/// A candidate that no shell expands, splits or executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub value: String,
    /// One line without control characters.
    pub help: Option<String>,
    pub hidden: bool,
}

impl Offer {
    pub(crate) fn is_option(&self) -> bool {
        self.value.starts_with('-')
    }
}

/// Completes the word at `index`. Drops candidates that the shell would change.
pub(crate) fn offers(
    command: &mut Command,
    words: Vec<OsString>,
    index: usize,
    folder: Option<&Path>,
    shell: Inserter,
) -> Result<Vec<Offer>, Error> {
    let word = |position: usize| {
        words
            .get(position)
            .map(|word| word.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let line = TypedLine {
        typed: word(index),
        before: index.checked_sub(1).map(word).unwrap_or_default(),
    };
    let candidates = engine::complete(command, words, index, folder)?;
    Ok(candidates
        .iter()
        .filter_map(|candidate| offer(candidate, &line, shell))
        .collect())
}

/// Omits options if there are names: shells sort candidates, and the names would disappear among
/// the options.
pub(crate) fn names_first(mut offers: Vec<Offer>) -> Vec<Offer> {
    if offers.iter().any(|offer| !offer.is_option()) {
        offers.retain(|offer| !offer.is_option());
    }
    offers
}

/// The incomplete word and the word before it.
struct TypedLine {
    typed: String,
    before: String,
}

fn offer(candidate: &CompletionCandidate, line: &TypedLine, shell: Inserter) -> Option<Offer> {
    let value = candidate.get_value().to_str()?;
    let safe = if value.starts_with('-') {
        // Only gpuctl's own options have such an id. Other candidates with a leading dash are
        // names, which clap would parse as options.
        let is_positional = candidate.get_id().is_some_and(|id| id.starts_with("arg::"));
        (is_positional || extends_option(candidate, value, line))
            && is_plain(value.trim_start_matches('-'), shell)
    } else if let Some(path) = value.strip_prefix("~/") {
        // The user typed `~/` for the home folder. Candidates that contain another `~` are not
        // offered.
        line.typed.starts_with("~/") && (path.is_empty() || is_plain(path, shell))
    } else {
        is_plain(value, shell)
    };
    let help = candidate.get_help().map(ToString::to_string);
    let help = help.and_then(|help| help.lines().next().map(|line| clean(line).into_owned()));
    let help = help.filter(|help| !help.is_empty());
    safe.then(|| Offer {
        value: value.to_owned(),
        help,
        hidden: candidate.is_hide_set(),
    })
}

/// Returns true if the candidate is a value in the same word as its option, such as `--output=json`
/// or `-ojson`. The completion engine tags values with their argument. After an option that takes
/// the next word, the whole word is the value.
fn extends_option(candidate: &CompletionCandidate, value: &str, line: &TypedLine) -> bool {
    let takes_value = candidate
        .get_tag()
        .is_some_and(|tag| tag.to_string().starts_with('-'));
    let option = match line.typed.split_once('=') {
        Some((option, _)) if option.starts_with("--") => format!("{option}="),
        _ if line.typed.starts_with("--") || line.typed.len() < 2 => return false,
        _ => line.typed.clone(),
    };
    takes_value
        && !line.before.starts_with('-')
        && option.starts_with('-')
        && value.starts_with(&option)
}

/// Returns true if bash, zsh, fish and PowerShell parse the text as one word and do not change it.
/// In zsh, `=` starts the path of a command, and with `magic_equal_subst` also after another `=` or
/// `:`. At least one shell treats a leading `@`, `%`, `+` or `,` specially.
fn is_plain(text: &str, shell: Inserter) -> bool {
    let is_inner = |c: char| {
        let ascii =
            c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | ':' | '=' | '@' | '+' | '-');
        let is_special = match shell {
            Inserter::Unix => c == ',',
            Inserter::PowerShell => c == '\\',
            Inserter::Any => false,
        };
        ascii || is_special || is_letter(c)
    };
    let mut previous = None;
    let is_equal_sign_safe = text.chars().all(|c| {
        let safe = c != '=' || previous.is_some_and(char::is_alphanumeric);
        previous = Some(c);
        safe
    });
    let first = text.chars().next();
    let is_first =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/') || is_letter(c);
    first.is_some_and(is_first)
        && text.chars().all(is_inner)
        && is_equal_sign_safe
        && text.len() <= LONGEST
}

/// Returns true for letters of non-Latin scripts, which occur in file names. Excludes Hangul
/// fillers, because they are invisible.
fn is_letter(c: char) -> bool {
    let is_filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    !c.is_ascii() && c.is_alphabetic() && !is_filler && c.width().is_some_and(|width| width > 0)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};
    use clap_complete::engine::ArgValueCandidates;

    use super::*;

    const HARMLESS: [&str; 12] = [
        "bert-large",
        "team-a/Job/bert_2",
        "bert-large:/",
        "kubernetes-admin@kubernetes",
        "arn:aws:eks:us-east-1:123456789012:cluster/main",
        "nvidia.com/gpu=8",
        "custom-columns=",
        "gpu-z-01/7",
        "../jobs/",
        "/data/a+b.yaml",
        "_hidden",
        "训练.yaml",
    ];

    const HOSTILE: [&str; 45] = [
        "",
        "$(id)",
        "`id`",
        "a;id",
        "a b",
        "a\nb",
        "a\tb",
        "a\rb",
        "a\u{b}b",
        "a'b",
        "a\"b",
        "~root",
        "~/x",
        "a~b",
        "a*",
        "a?",
        "[ab]",
        "{a,b}",
        "a{b",
        "@(a)",
        "+(a)",
        "!(a)",
        "!1",
        "a|b",
        "a&b",
        "a>b",
        "a<b",
        "a#b",
        "#a",
        "a%b",
        "%1",
        "^a^b",
        "=ls",
        "a==ls",
        "a:=ls",
        "-rf",
        "--all",
        "@splat",
        "+x",
        ":0",
        ",a",
        "a\\b$",
        "a\u{1b}[31m",
        "a\u{202e}b",
        "a\u{3164}b",
    ];

    /// A command with a positional argument and an option that both complete `names`.
    fn command(names: &'static [&'static str]) -> Command {
        let all_names = move || {
            names
                .iter()
                .map(|name| CompletionCandidate::new(*name))
                .collect()
        };
        let flag = Arg::new("force")
            .long("force")
            .short('f')
            .action(ArgAction::SetTrue);
        let option = Arg::new("pool")
            .long("pool")
            .short('p')
            .add(ArgValueCandidates::new(all_names));
        let positional = Arg::new("name")
            .num_args(1..)
            .add(ArgValueCandidates::new(all_names));
        Command::new("x")
            .disable_help_flag(true)
            .arg(flag)
            .arg(option)
            .arg(positional)
    }

    fn values(names: &'static [&'static str], words: &[&str], shell: Inserter) -> Vec<String> {
        let words: Vec<OsString> = ["x"].iter().chain(words).map(OsString::from).collect();
        let last = words.len() - 1;
        let values = offers(&mut command(names), words, last, None, shell).unwrap();
        names_first(values)
            .into_iter()
            .map(|offer| offer.value)
            .collect()
    }

    #[test]
    fn only_words_that_shells_leave_unchanged_are_offered() {
        for shell in [Inserter::Unix, Inserter::PowerShell, Inserter::Any] {
            for words in [&[""][..], &["--pool", ""], &["bert", ""]] {
                assert_eq!(
                    values(&HOSTILE, words, shell)
                        .iter()
                        .find(|value| !value.starts_with('-')),
                    None
                );
                let mut offered = values(&HARMLESS, words, shell);
                offered.sort_unstable();
                let mut expected = HARMLESS.map(ToOwned::to_owned);
                expected.sort_unstable();
                assert_eq!(offered, expected);
            }
        }
    }

    #[test]
    fn characters_of_one_shell_are_offered_to_that_shell() {
        const NAMES: [&str; 2] = ["a,b", "a\\b"];
        assert_eq!(values(&NAMES, &[""], Inserter::Unix), ["a,b"]);
        assert_eq!(values(&NAMES, &[""], Inserter::PowerShell), ["a\\b"]);
        // Without a matching name, only options remain.
        assert_eq!(values(&NAMES, &["a"], Inserter::Any), [""; 0]);
    }

    #[test]
    fn a_name_is_never_an_option() {
        const NAMES: [&str; 6] = ["--force-all", "-fz", "-rz", "--pool=x", "-px", "--"];
        for word in ["--f", "--force", "-r", "-f", "-", "--"] {
            for words in [
                &[word][..],
                &["--pool", word],
                &["-p", word],
                &["name", word],
            ] {
                let offered = values(&NAMES, words, Inserter::Unix);
                assert_eq!(
                    offered.iter().find(|value| NAMES.contains(&value.as_str())),
                    None,
                    "{words:?}"
                );
            }
        }
    }

    #[test]
    fn values_complete_after_their_option() {
        const NAMES: [&str; 3] = ["infer", "$(id)", "it;s"];
        assert_eq!(
            values(&NAMES, &["--pool=in"], Inserter::Unix),
            ["--pool=infer"]
        );
        assert_eq!(
            values(&NAMES, &["--pool="], Inserter::Unix),
            ["--pool=infer"]
        );
        assert_eq!(values(&NAMES, &["-pin"], Inserter::Unix), ["-pinfer"]);
        assert_eq!(values(&NAMES, &["--pool=$"], Inserter::Unix), [""; 0]);
    }

    #[test]
    fn the_home_folder_is_offered_to_a_user_who_typed_it() {
        const NAMES: [&str; 3] = ["~/a", "~/$(id)", "~evil/a"];
        assert_eq!(values(&NAMES, &["~/"], Inserter::Unix), ["~/a"]);
        assert_eq!(values(&NAMES, &["~"], Inserter::Unix), [""; 0]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test arranges files")]
    fn files_of_a_folder_pass_the_same_filter() {
        use clap::ValueHint;
        let folder = std::env::temp_dir().join(format!("gpuctl-offers-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in [
            "job.yaml",
            "$(id).yaml",
            "a b.yaml",
            "-f.yaml",
            "`id`",
            "~x",
            "=ls",
            "it's",
            "*.yaml",
        ] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let file = Arg::new("file")
            .short('f')
            .long("file")
            .value_hint(ValueHint::FilePath);
        let mut command = Command::new("x").disable_help_flag(true).arg(file);
        for words in [["x", "-f", ""], ["x", "--file", ""], ["x", "-f", "-"]] {
            let offered = offers(
                &mut command,
                words.map(OsString::from).to_vec(),
                2,
                Some(&folder),
                Inserter::Unix,
            )
            .unwrap();
            assert!(
                offered.iter().all(|offer| offer.value == "job.yaml"),
                "{offered:?}"
            );
            assert_eq!(offered.is_empty(), words[2] == "-", "{offered:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
