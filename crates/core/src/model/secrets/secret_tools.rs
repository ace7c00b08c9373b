//! Finds secrets in arguments without a name that indicates one: `curl -u`, `mysql -p`, `wandb
//! login`, and a password that `echo` pipes into a login.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::program_table::{KEY_LOGINS, KnownProgram, LONE_LOGIN_FLAGS, PROGRAMS, SecretPlace};
use super::secret_names::{NameStrength, is_secret_value, strength_of};
use super::secret_values::{ValueEnd, is_word_of_a_message, value_at};

/// Matches the words of a line. A pipe character is a separate word even without spaces around it.
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\|+|[^\s|]+").expect("the pattern is tested"));

/// Flags and programs that read a password from a pipe.
const READERS: [&str; 5] = [
    "--password-stdin",
    "--with-token",
    "--token-stdin",
    "chpasswd",
    "--stdin",
];

/// Programs that process text and files. In their arguments, `login` is a file name or a search
/// term.
const TEXT_TOOLS: [&str; 18] = [
    "awk", "cat", "cp", "cut", "grep", "egrep", "head", "less", "mv", "rg", "sed", "sort", "tail",
    "tee", "touch", "tr", "uniq", "wc",
];
/// Suffixes of settings that contain a password, although the same words are ambiguous elsewhere:
/// `_auth` of npm, `wifi-sec.psk` of nmcli, `pass` of rclone.
const SHORT_SETTINGS: [&str; 5] = ["auth", "pass", "psk", "pw", "pwd"];

/// A word that contains a secret, and the number of bytes before the secret, as in `-pSECRET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SecretWord {
    pub index: usize,
    pub skipped: usize,
}

/// Adds the spans of secrets in the command lines of a text.
pub(super) fn add_tools(text: &str, spans: &mut Vec<Range<usize>>) {
    let words: Vec<Range<usize>> = WORD.find_iter(text).map(|word| word.range()).collect();
    let lines = words.iter().enumerate().map(|(index, word)| {
        let next = words.get(index + 1).map_or(text.len(), |next| next.start);
        let is_continued = text[word.clone()].ends_with('\\');
        (
            &text[word.clone()],
            !is_continued && text[word.end..next].contains('\n'),
        )
    });
    let mut end = 0;
    for secret in secret_words(lines) {
        let start = words[secret.index].start + secret.skipped;
        // A quoted value can span several words.
        if start >= end {
            let span = value_at(text, start, ValueEnd::Blank).span;
            end = span.end;
            spans.push(span);
        }
    }
}

/// Returns the secrets in the words of command lines. The flag of a word is true if the word ends a
/// line.
pub(super) fn secret_words<'a>(words: impl Iterator<Item = (&'a str, bool)>) -> Vec<SecretWord> {
    let mut secrets = Vec::new();
    let mut command = CommandWords::default();
    for (index, (written, ends_line)) in words.enumerate() {
        match written {
            "|" => command = command.piped(&mut secrets),
            ";" | "&" | "&&" | "||" => command = command.ended(&mut secrets),
            _ => command.add(written, index, &mut secrets),
        }
        let is_end = ends_line
            || (written.len() > 1 && written.ends_with(';'))
            || command.is_closed_by(written, index);
        if is_end {
            command = command.ended(&mut secrets);
        }
    }
    command.ended(&mut secrets);
    secrets.sort_unstable_by_key(|secret| secret.index);
    secrets
}

/// Parser state for one command in a line.
#[derive(Default)]
struct CommandWords<'a> {
    program: Option<&'static KnownProgram>,
    takes_key: bool,
    echoes: bool,
    logs_in: bool,
    sets: bool,
    before: &'a str,
    /// Number of words read so far.
    words: usize,
    /// True if the first word is one of [`TEXT_TOOLS`].
    handles_text: bool,
    /// Words that are neither flags nor values of flags.
    bare: Vec<SecretWord>,
    /// Words that `echo` pipes into this command.
    piped: Vec<SecretWord>,
    /// True if the last word is a password, as for `htpasswd -b` and `rabbitmqctl add_user`.
    ends_with_password: bool,
    /// Index of the program's name.
    program_at: usize,
    /// Quote that a word of this command opened.
    quote: Option<char>,
}

impl<'a> CommandWords<'a> {
    fn add(&mut self, written: &'a str, index: usize, secrets: &mut Vec<SecretWord>) {
        let start = written.len()
            - written
                .trim_start_matches(['"', '\'', '[', '(', '{', '`', '$', '\\'])
                .len();
        let word = written.trim_matches([
            '"', '\'', '[', ']', '(', ')', '{', '}', ',', '`', '$', ';', '\\',
        ]);
        if word.is_empty() {
            return;
        }
        if let Some(skipped) = self.secret_in(written, word) {
            secrets.push(SecretWord { index, skipped });
        }
        let is_value = self.before.starts_with('-')
            && !self.before.contains('=')
            && !LONE_LOGIN_FLAGS.contains(&self.before);
        if !word.starts_with('-') && (!is_value || self.echoes) {
            self.bare.push(SecretWord {
                index,
                skipped: start,
            });
        }
        self.recognize(word, index, secrets);
        self.handles_text |= self.words == 0 && is_text_tool(word);
        self.words += 1;
        self.before = word;
    }

    /// Returns the offset of the secret in a word, if the word contains one.
    fn secret_in(&self, written: &str, word: &str) -> Option<usize> {
        let is_flag = word.starts_with('-');
        let is_value = self.before.starts_with('-')
            && !self.before.contains('=')
            && !LONE_LOGIN_FLAGS.contains(&self.before);
        if self.logs_in {
            if self.before == "-p"
                || (self.takes_key && !is_flag && !is_value && !is_word_of_a_message(word))
            {
                return Some(0);
            }
            if let Some(glued) = word.strip_prefix("-p").filter(|glued| !glued.is_empty()) {
                return Some(offset(written, word, glued));
            }
        }
        if !is_flag && self.sets && self.names_secret(word) {
            return Some(0);
        }
        if let Some(here) = written.strip_prefix("<<<") {
            return (self.logs_in && !here.is_empty()).then_some(3);
        }
        if self.before == "<<<" && self.logs_in {
            return Some(0);
        }
        let program = self.program?;
        if program.is_value_of_flag(self.before, word) {
            return Some(0);
        }
        program
            .glued_value(word)
            .map(|glued| offset(written, word, glued))
    }

    /// Returns true if the previous word names a secret setting, as in `aws configure set token x`.
    fn names_secret(&self, word: &str) -> bool {
        let is_setting = self.is_rule(SecretPlace::Settings);
        let name = self.before.rsplit(['/', ':']).next().unwrap_or_default();
        let name = if is_setting {
            name.rsplit('.').next().unwrap_or(name)
        } else {
            name
        };
        let announced = strength_of(name);
        let lower = name.to_ascii_lowercase();
        let is_clear = announced == NameStrength::Strong
            || SHORT_SETTINGS.iter().any(|end| lower.ends_with(end));
        let is_name = !self.before.starts_with('-')
            && !self.before.contains('=')
            && (is_clear || !is_setting);
        is_name && is_secret_value(announced, word) && !is_word_of_a_message(word)
    }

    /// Updates the state with the next word, which can be a program, a subcommand, or a flag that
    /// reads a password.
    fn recognize(&mut self, word: &str, index: usize, secrets: &mut Vec<SecretWord>) {
        let name = word.rsplit('/').next().unwrap_or(word);
        let program = PROGRAMS
            .iter()
            .find(|program| program.names.contains(&name));
        if let Some(program) = program {
            self.echoes |= program.rule == SecretPlace::Echo;
            (self.program, self.sets, self.ends_with_password) = (
                Some(program),
                program.rule == SecretPlace::Assign,
                program.rule == SecretPlace::LastWord,
            );
        }
        let is_key_login = !self.logs_in && KEY_LOGINS.contains(&name);
        self.takes_key |= is_key_login;
        if is_key_login || program.is_some() {
            self.program_at = index;
        }
        // `sudo -S` reads the password from stdin.
        let is_sudo = self.before == "sudo" && word.starts_with('-') && word.contains('S');
        let reads_password =
            is_sudo || READERS.contains(&word) || (word == "login" && self.is_subcommand());
        self.logs_in |= reads_password;
        if reads_password {
            secrets.append(&mut self.piped);
        }
        if self.is_rule(SecretPlace::Settings) {
            self.sets |=
                ["set", "config", "configure", "modify", "create", "update"].contains(&word);
        }
        let is_batch = self.is_rule(SecretPlace::Batch)
            && word.starts_with('-')
            && !word.starts_with("--")
            && word.contains('b');
        // `mc alias set NAME URL KEY SECRET` also ends with a secret.
        let adds_user = ["add_user", "change_password"].contains(&word)
            || (self.before == "alias" && word == "set");
        self.ends_with_password |= is_batch || (self.is_rule(SecretPlace::Subcommand) && adds_user);
        // `rclone obscure PASSWORD`.
        self.ends_with_password |= self.is_rule(SecretPlace::Settings) && word == "obscure";
    }

    /// Returns true if the next word can be a subcommand, as in `docker login` but not in `tee
    /// login` or `train.py --stage login`.
    fn is_subcommand(&self) -> bool {
        let is_short = self.before.len() == 2 || matches!(self.before, "--debug" | "--verbose");
        let is_lone_flag = self.words < 3 && is_short && !self.handles_text;
        !self.before.is_empty()
            && !is_text_tool(self.before)
            && (!self.before.starts_with('-') || is_lone_flag)
    }

    fn is_rule(&self, rule: SecretPlace) -> bool {
        self.program.is_some_and(|program| program.rule == rule)
    }

    /// Returns true if a word ends with the quote that closes a text around the command, as in
    /// "`wandb login` saves the key".
    fn is_closed_by(&mut self, written: &str, index: usize) -> bool {
        let written = written.trim_end_matches([',', '.', ')', ':']);
        let unpaired = ['"', '\'', '`']
            .into_iter()
            .find(|quote| written.matches(*quote).count() % 2 == 1);
        let Some(quote) = unpaired.filter(|_| self.program_at != index) else {
            return false;
        };
        if self.quote == Some(quote) {
            self.quote = None;
            return false;
        }
        let closes = written.ends_with(quote) && self.quote.is_none();
        self.quote = self.quote.or(Some(quote).filter(|_| !closes));
        closes
    }

    /// Starts the next command after a pipe. That command reads the output of this one.
    fn piped(self, secrets: &mut Vec<SecretWord>) -> Self {
        let piped = if self.echoes {
            self.bare.iter().skip(1).copied().collect()
        } else {
            Vec::new()
        };
        self.ended(secrets);
        Self {
            piped,
            ..Self::default()
        }
    }

    /// Ends this command and starts the next one.
    fn ended(self, secrets: &mut Vec<SecretWord>) -> Self {
        // Words before the password: the program and a user. With `htpasswd -nb user password`, the
        // user counts as the value of the flag.
        let least = if self.is_rule(SecretPlace::Batch) {
            1
        } else {
            2
        };
        if self.ends_with_password && self.bare.len() > least {
            secrets.extend(self.bare.last());
        }
        Self::default()
    }
}

fn is_text_tool(word: &str) -> bool {
    TEXT_TOOLS.contains(&word.rsplit('/').next().unwrap_or(word))
}

/// Returns the offset of `part`, the end of `word`, in the word as written, which can start with a
/// quote.
fn offset(written: &str, word: &str, part: &str) -> usize {
    written.find(word).unwrap_or_default() + word.len() - part.len()
}

impl KnownProgram {
    fn is_value_of_flag(&self, flag: &str, value: &str) -> bool {
        let is_cluster = self.rule == SecretPlace::Cluster
            && flag.len() > 2
            && flag.starts_with('-')
            && flag[1..].bytes().all(|letter| letter.is_ascii_alphabetic())
            && flag.ends_with(['u', 'U']);
        (self.flags.contains(&flag) || is_cluster) && self.is_password(value)
    }

    fn glued_value<'a>(&self, word: &'a str) -> Option<&'a str> {
        let value = self
            .glued
            .iter()
            .find_map(|flag| word.strip_prefix(flag))
            .map(|value| value.strip_prefix('=').unwrap_or(value));
        value.filter(|value| !value.is_empty() && self.is_password(value))
    }

    /// Returns true if a value is a password, and false for the source of a password or a user
    /// without one.
    fn is_password(&self, value: &str) -> bool {
        let is_elsewhere = ["file:", "env:", "fd:", "stdin"]
            .iter()
            .any(|place| value.starts_with(place));
        match self.rule {
            SecretPlace::Source => !is_elsewhere && !value.starts_with('-'),
            SecretPlace::UserAndPassword => value.contains('%'),
            _ => is_secret_value(NameStrength::Strong, value) && !value.starts_with("--"),
        }
    }
}
