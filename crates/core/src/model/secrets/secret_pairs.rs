//! Finds values after a name that announces a secret: assignments, fields, flags, variables of
//! containers and sentences.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::secret_names::{NameStrength, holds_secret, is_secret_value, strength_of};
use super::secret_values::{
    TextValue, ValueEnd, block_at, end_of_line, is_count, is_number_of_tokens, is_plain_word,
    is_word_of_a_message, line_before, near_end_of_line, number_before_pair, value_at,
};

/// A name in text, what separates it from its value, and where the value starts.
struct Pair<'a> {
    text: &'a str,
    name: &'a str,
    name_at: usize,
    separator: &'a str,
    value_at: usize,
}

/// Finds the secret of a pair.
type Find = fn(&Pair<'_>) -> Option<Range<usize>>;

static RULES: LazyLock<Vec<(Regex, Find)>> = LazyLock::new(|| {
    let name = r"(?P<n>[A-Za-z_][0-9A-Za-z_.-]*)";
    let quote = r#"\\{0,7}["'`]?"#;
    let types = r"(?:str|string|bytes|bytearray|Any|Text|SecretStr|&(?:'static )?str|(?:Optional|Union|Final)\[[^\]\n]{0,40}\])";
    let owners = "api|access|secret|private|account|encryption|signing|master|shared|service|storage|client|deploy|ssh|wandb|ngc|hf\
                  |hugging ?face|openai|license|auth|authentication|subscription|gpg|pgp|deployment|aws|azure|anthropic|app";
    let nouns = "pass(?:word|wd|phrase|code)s?|secrets?|(?:secret|private|access|account)key|tokens?|apikeys?|pwd|pw|pin|psk|otp|credentials?";
    let says = r"(?:is|was|are|=>|->|:=|equals|(?:is |was )?(?:re|now )?set to|(?:is |was )?changed to|will be)(?: now)?:?";
    let rules: [(String, Find); 10] = [
        (format!(r"{name}(?P<s>{quote}\]?[ \t]*(?::[ \t]*{types}(?:[ \t]*\|[ \t]*(?-u:\w){{1,20}})?[ \t]*)?[:?+]?=>?[ \t]*)"), assigned),
        (format!(r"{name}(?P<s>{quote}[ \t]*[:：][ \t]*)"), field),
        (
            r#"(?:^|[\s"'`\[(,|=])(?P<n>--?[A-Za-z][0-9A-Za-z_.-]*)(?P<s>(?:[ \t]|\\\r?\n)+|\\{0,3}["']\s*,\s*|,[ \t]*|["']?[ \t]*\r?\n[ \t]*-[ \t]+)"#.to_owned(),
            flag,
        ),
        (format!(r"(?i)(?-u:\b)(?P<n>(?:(?:{owners})[ _-]+){{1,3}}keys?)(?P<s>[ \t]*[:=：][ \t]*|\s+{says}\s+)"), key_of_owner),
        (format!(r"(?i)(?-u:\b)(?P<n>pass[ -](?:word|phrase|code)|{nouns})(?P<s>\s+{says}\s+)"), sentence),
        (r"(?P<n>密码|口令|令牌|密钥)(?P<s>\s*(?:[:：=]|是|为)\s*)".to_owned(), sentence),
        (
            format!(
                r"(?i)(?-u:\b)(?:name|key){quote}\s*[:=>]\s*{quote}(?P<n>[0-9A-Za-z_.-]+){quote}(?:[\s,;]+|</name>\s*<){quote}value(?P<s>{quote}\s*[:=>]\s*)"
            ),
            variable,
        ),
        (r"<(?P<n>[A-Za-z_][0-9A-Za-z_.-]*)(?P<s>(?:\s[^<>]{0,200})?>)".to_owned(), element),
        (r#"(?P<n>--from-literal)(?P<s>(?:[=\s]\s*|["']\s*,\s*)["']?[^\s=]+=)"#.to_owned(), literal),
        (r"(?i)(?-u:\b)(?P<n>identified\s+(?:with\s+\S+\s+)?by|(?:encrypted|with|set)\s+password|password\s+for\s+\S+)(?P<s>\s*=?\s+)".to_owned(), sql),
    ];
    rules
        .into_iter()
        .map(|(pattern, find)| (Regex::new(&pattern).expect("the patterns are tested"), find))
        .collect()
});

/// `"value": "x", "name": "TOKEN"`: JSON with sorted keys.
static REVERSED: LazyLock<Regex> = LazyLock::new(|| {
    let quote = r#"\\{0,3}""#;
    let pattern = format!(
        r#"(?i)(?-u:\b)value{quote}\s*:\s*{quote}(?P<v>[^"]*?){quote}\s*,\s*{quote}(?:name|key){quote}\s*:\s*{quote}(?P<n>[0-9A-Za-z_.-]+)"#
    );
    Regex::new(&pattern).expect("the pattern is tested")
});

/// Adds the places of values after names.
pub(super) fn add_pairs(text: &str, spans: &mut Vec<Range<usize>>) {
    for (pattern, find) in RULES.iter() {
        let mut at = 0;
        while let Some(found) = pattern.captures_at(text, at) {
            let Some(pair) = Pair::of(text, &found) else {
                break;
            };
            // Names can follow each other directly: `--env=TOKEN=x`.
            at = pair.name_at + pair.name.len();
            if let Some(span) = find(&pair) {
                at = at.max(span.end);
                spans.push(span);
            }
        }
    }
    let reversed = REVERSED
        .captures_iter(text)
        .filter(|found| holds_secret(&found["n"], &found["v"]));
    spans.extend(reversed.filter_map(|found| found.name("v").map(|value| value.range())));
}

impl<'a> Pair<'a> {
    fn of(text: &'a str, found: &Captures<'a>) -> Option<Self> {
        let (name, separator) = (found.name("n")?, found.name("s")?);
        Some(Self {
            text,
            name: name.as_str(),
            name_at: name.start(),
            separator: separator.as_str(),
            value_at: separator.end(),
        })
    }

    fn strength(&self) -> NameStrength {
        strength_of(self.name).strength
    }

    /// Whether words alone join the name and the value: `is`, `will be`.
    fn is_in_sentence(&self) -> bool {
        self.name.is_ascii() && !self.separator.contains([':', '=', '>', '：'])
    }

    /// Whether a sentence tells a password: `the password is x`. Passwords can be ordinary words.
    fn tells_password(&self) -> bool {
        let name = self.name.to_ascii_lowercase().replace([' ', '-'], "");
        let says = self.separator.trim().to_ascii_lowercase();
        let is_told = matches!(says.as_str(), "is" | "is now" | "equals") || says.ends_with(" to");
        is_told
            && matches!(
                name.as_str(),
                "password" | "passwd" | "passphrase" | "passcode" | "pin" | "pw" | "pwd"
            )
    }

    fn before(&self) -> Option<char> {
        self.text[..self.name_at].chars().next_back()
    }

    fn rest(&self) -> &'a str {
        &self.text[self.value_at..]
    }

    /// The value. A switch or a count before a separator is a value of its own:
    /// `token=None,lr=0.1`.
    fn value(&self, end: ValueEnd) -> TextValue {
        const LONGEST_SWITCH: usize = 8;
        let letters = self
            .rest()
            .bytes()
            .take(LONGEST_SWITCH + 1)
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let is_alone = self.rest()[letters..].starts_with([',', ';', '&', ')']);
        if letters > 0
            && is_alone
            && !is_secret_value(NameStrength::Strong, &self.rest()[..letters])
        {
            return TextValue {
                span: self.value_at..self.value_at + letters,
                is_quoted: false,
            };
        }
        if let Some(number) = number_before_pair(self.rest()).filter(|number| self.counts(number)) {
            return TextValue {
                span: self.value_at..self.value_at + number.len(),
                is_quoted: false,
            };
        }
        value_at(self.text, self.value_at, end)
    }

    fn has_quoted_name(&self) -> bool {
        self.separator.contains(['"', '\'', '`'])
    }

    /// The name of a variable, not a word of a sentence: `DB_PASS`.
    fn is_variable(&self) -> bool {
        self.name.len() > 1 && !self.name.contains(|c: char| c.is_lowercase())
    }

    /// Whether a value is a number that this name counts.
    fn counts(&self, value: &str) -> bool {
        let name = self.name.trim_end_matches('s').to_ascii_lowercase();
        // `PASS=12 FAIL=3` summarizes tests.
        let may_count = name.ends_with("token")
            || name.ends_with("secret")
            || self.name.eq_ignore_ascii_case("pass");
        (may_count && is_count(value))
            || (is_number_of_tokens(value) && strength_of(self.name).counts_tokens)
    }

    /// The value's place if the value can be a secret of this name.
    fn accepted(&self, value: TextValue) -> Option<Range<usize>> {
        let content = &self.text[value.span.clone()];
        (!self.counts(content) && holds_secret(self.name, content)).then_some(value.span)
    }
}

/// `token=x`, `password = "x"`, `os.environ["TOKEN"] = 'x'`, `token: str = "x"`.
fn assigned(pair: &Pair<'_>) -> Option<Range<usize>> {
    let strength = pair.strength();
    let is_spaced = pair.separator.len() > 1 && !pair.separator.starts_with(['=', '\\']);
    let is_folder = matches!(pair.name, "PWD" | "OLDPWD");
    let is_operator = pair.rest().starts_with(['=', '~']);
    if strength == NameStrength::None
        || (strength == NameStrength::Weak && is_spaced)
        || is_folder
        || is_operator
    {
        return None;
    }
    let end = match pair.before() {
        Some('?' | '&') => ValueEnd::Query,
        Some('-') => ValueEnd::Blank,
        _ if strength == NameStrength::Weak && !pair.is_variable() => ValueEnd::List,
        _ => ValueEnd::Blank,
    };
    let value = pair.value(end);
    let is_word =
        strength == NameStrength::Weak && is_word_of_a_message(&pair.text[value.span.clone()]);
    pair.accepted(value).filter(|_| !is_word)
}

/// `token: x` and `"token":"x"`, but not an image tag, `token:1.2`.
fn field(pair: &Pair<'_>) -> Option<Range<usize>> {
    let is_path = pair.before() == Some('/') && pair.separator == ":";
    let is_place =
        is_path || pair.rest().starts_with([':', '{', '=']) || pair.rest().starts_with("//");
    if is_place || !is_field_name(pair) {
        return None;
    }
    if let Some(block) = block_at(
        pair.text,
        pair.value_at,
        line_before(pair.text, pair.name_at).0,
    ) {
        return Some(block);
    }
    if pair.rest().starts_with(['\n', '\r']) {
        return next_line(pair);
    }
    let is_collection = pair.rest().starts_with('[') && matches!(pair.name, "tokens" | "secrets");
    let value = pair.value(if pair.has_quoted_name() {
        ValueEnd::List
    } else {
        ValueEnd::Blank
    });
    let content = &pair.text[value.span.clone()];
    // In documents, backticks delimit a command: "keep it in a secret: `gpuctl create secret x`".
    let is_command = pair.rest().starts_with('`') && content.contains(' ');
    let is_word =
        is_command || (!value.is_quoted && (is_word_of_a_message(content) || is_type(content)));
    if is_collection || is_word || (!value.is_quoted && is_reference(pair, content)) {
        return None;
    }
    let is_phrase = !value.is_quoted && is_phrase_of_yaml(pair);
    pair.accepted(value).map(|span| {
        if is_phrase {
            span.start..end_of_phrase(pair)
        } else {
            span
        }
    })
}

fn is_field_name(pair: &Pair<'_>) -> bool {
    // Everyday words except in variables and in the `auths` of a Docker config.
    const PROSE: [&str; 8] = ["pwd", "pw", "cred", "creds", "jwt", "pass", "psk", "otp"];
    let name = pair.name.to_ascii_lowercase();
    let is_compound = pair.name.contains('_')
        || !matches!(
            name.as_str(),
            "key" | "keys" | "auth" | "login" | "license" | "pin"
        );
    match pair.strength() {
        NameStrength::Strong => true,
        NameStrength::Weak => {
            PROSE
                .iter()
                .any(|word| name == *word || name.ends_with(&format!("_{word}")))
                || (pair.has_quoted_name() && name == "auth")
                || (pair.is_variable() && is_compound)
        }
        NameStrength::None => false,
    }
}

/// Whether a value is a type, as in `token: str = "x"`.
fn is_type(value: &str) -> bool {
    matches!(
        value,
        "str" | "string" | "String" | "bytes" | "SecretStr" | "&str"
    ) || value.starts_with("Optional[")
}

/// Whether a value without quotes directly after `name:` refers to something: the tag of an image,
/// a line of a source file, or a Secret.
fn is_reference(pair: &Pair<'_>, value: &str) -> bool {
    if pair.separator != ":" {
        return false;
    }
    // A longer text cannot be the name of an object.
    const LONGEST_NAME: usize = 254;
    let name = pair.name.to_ascii_lowercase();
    let is_version = value == "latest"
        || value
            .trim_start_matches('v')
            .starts_with(|c: char| c.is_ascii_digit());
    let is_object = value.len() < LONGEST_NAME
        && matches!(name.as_str(), "secret" | "secrets")
        && !value.contains(|c: char| c.is_uppercase() || c.is_ascii_digit());
    let is_tagged =
        is_version && value.len() < 16 && (name.ends_with("token") || name.ends_with("secret"));
    is_tagged || is_object || (pair.strength() == NameStrength::Weak && is_count(value))
}

/// A value on the line after its name, as in indented JSON. Another key there begins an object.
fn next_line(pair: &Pair<'_>) -> Option<Range<usize>> {
    let blanks = pair.rest().len() - pair.rest().trim_start().len();
    let value = value_at(pair.text, pair.value_at + blanks, ValueEnd::Blank);
    let line = &pair.text[value.span.start..near_end_of_line(pair.text, value.span.start)];
    let is_nested = line.starts_with(['-', '{', '[', '#'])
        || line.trim_end().ends_with(':')
        || line.contains(": ");
    let is_indented =
        line_before(pair.text, value.span.start).0 > line_before(pair.text, pair.name_at).0;
    let is_value = value.is_quoted
        || (is_indented && !is_nested && !is_word_of_a_message(&pair.text[value.span.clone()]));
    if is_value { pair.accepted(value) } else { None }
}

/// Whether a line of YAML consists of a name and a value that can have blanks: `password: two
/// words`.
fn is_phrase_of_yaml(pair: &Pair<'_>) -> bool {
    let name = pair.name.to_ascii_lowercase();
    let is_password = ["password", "passwd", "passphrase", "passcode", "pswd"]
        .iter()
        .any(|end| name.ends_with(end));
    is_password
        && pair.separator == ": "
        && matches!(line_before(pair.text, pair.name_at).1, "" | "- ")
}

fn end_of_phrase(pair: &Pair<'_>) -> usize {
    let line = &pair.text[pair.value_at..end_of_line(pair.text, pair.value_at)];
    pair.value_at + line.split(" #").next().unwrap_or(line).trim_end().len()
}

/// `--token x`, `["--token", "x"]`, and the same over two lines.
fn flag(pair: &Pair<'_>) -> Option<Range<usize>> {
    const PROSE: [&str; 11] = [
        "is", "was", "and", "or", "must", "not", "requires", "cannot", "flag", "option", "are",
    ];
    let is_list = pair.separator.starts_with(',');
    // `-auth` in prose is a hyphen; Go programs spell out single-dash flags.
    if pair.rest().starts_with('-') || (is_list && !pair.name.starts_with("--")) {
        return None;
    }
    let value = pair.value(if is_list {
        ValueEnd::List
    } else {
        ValueEnd::Blank
    });
    let is_prose = !value.is_quoted && PROSE.contains(&&pair.text[value.span.clone()]);
    pair.accepted(value).filter(|_| !is_prose)
}

/// `Secret access key: x`, `wandb key is x`.
fn key_of_owner(pair: &Pair<'_>) -> Option<Range<usize>> {
    if pair.rest().starts_with(['{', '=']) {
        return None;
    }
    let value = pair.value(ValueEnd::Blank);
    let content = &pair.text[value.span.clone()];
    let is_plain =
        is_word_of_a_message(content) || (pair.is_in_sentence() && is_plain_word(content));
    let is_word = !value.is_quoted && is_plain;
    let may = is_secret_value(NameStrength::Weak, content) && !is_word && !is_count(content);
    may.then_some(value.span)
}

/// `The password is x`.
fn sentence(pair: &Pair<'_>) -> Option<Range<usize>> {
    // Chinese text has no blanks, so the words of a message follow directly.
    if !pair.name.is_ascii() && pair.rest().starts_with(|c: char| !c.is_ascii()) {
        return None;
    }
    let value = pair.value(ValueEnd::Blank);
    let content = &pair.text[value.span.clone()];
    let name = pair.name.to_ascii_lowercase();
    let is_number = (name == "tokens" && is_number_of_tokens(content))
        || (name == "token" && is_count(content));
    // Of tokenizers: `<s>`, `[PAD]`.
    let is_symbol = name.starts_with("token")
        && content.starts_with(['<', '['])
        && content.len() < 16
        && !content.contains(|c: char| c.is_ascii_digit());
    let is_plain = is_number || is_symbol || (is_plain_word(content) && !pair.tells_password());
    let is_word =
        is_word_of_a_message(content) || (pair.is_in_sentence() && !value.is_quoted && is_plain);
    let may = is_secret_value(NameStrength::Strong, content) && !is_word && !is_number;
    may.then_some(value.span)
}

/// `- name: TOKEN` with `value: x`, and `{Name:TOKEN Value:x ValueFrom:nil}` as Go prints it.
fn variable(pair: &Pair<'_>) -> Option<Range<usize>> {
    if pair.strength() == NameStrength::None {
        return None;
    }
    if let Some(block) = block_at(
        pair.text,
        pair.value_at,
        line_before(pair.text, pair.value_at).0,
    ) {
        return Some(block);
    }
    let value = pair.value(ValueEnd::Blank);
    let line = &pair.text[value.span.start..near_end_of_line(pair.text, value.span.start)];
    if value.is_quoted {
        return pair.accepted(value);
    }
    let go = [",ValueFrom:", " ValueFrom:", "</value>"]
        .iter()
        .filter_map(|next| line.find(next))
        .min();
    let yaml = matches!(line_before(pair.text, pair.value_at).1.trim_end(), "value:")
        .then(|| line.trim_end().len());
    let end = go
        .or(yaml)
        .map_or(value.span.end, |length| value.span.start + length);
    pair.accepted(TextValue {
        span: value.span.start..end,
        is_quoted: false,
    })
}

/// `<password>x</password>`.
fn element(pair: &Pair<'_>) -> Option<Range<usize>> {
    let length = if pair.strength() == NameStrength::Strong {
        pair.rest().find('<')?
    } else {
        return None;
    };
    let is_closed = pair.rest()[length..].starts_with("</");
    let span = pair.value_at..pair.value_at + length;
    let is_blank = pair.text[span.clone()].trim().is_empty();
    if is_closed && !is_blank {
        pair.accepted(TextValue {
            span,
            is_quoted: true,
        })
    } else {
        None
    }
}

/// `kubectl create secret generic x --from-literal=name=value`: a secret whatever its name.
fn literal(pair: &Pair<'_>) -> Option<Range<usize>> {
    let before = pair
        .separator
        .trim_start_matches(['=', ' ', ','])
        .chars()
        .next();
    let quote = before.filter(|quote| matches!(quote, '"' | '\''));
    let rest = pair.rest();
    let length = quote.and_then(|quote| rest[..near_end_of_line(rest, 0)].find(quote));
    Some(length.map_or_else(
        || pair.value(ValueEnd::Blank).span,
        |length| pair.value_at..pair.value_at + length,
    ))
}

/// `IDENTIFIED BY 'x'`, `WITH PASSWORD 'x'`.
fn sql(pair: &Pair<'_>) -> Option<Range<usize>> {
    Some(pair.value(ValueEnd::Blank))
        .filter(|value| value.is_quoted)
        .map(|value| value.span)
}
