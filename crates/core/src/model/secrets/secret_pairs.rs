//! Finds secrets that follow a name in assignments, fields, flags, container environments and
//! sentences.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::pair::Pair;
use super::secret_fields::field;
use super::secret_names::{NameStrength, holds_secret, is_secret_value};
use super::secret_values::{
    TextValue, ValueEnd, block_at, is_count, is_number_of_tokens, is_plain_word,
    is_word_of_a_message, line_before, near_end_of_line,
};

/// Returns the span of the secret in a pair, if its value is one.
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
        // The Chinese words for password, passphrase, token and key.
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

/// Matches a value before its name, as in JSON with sorted keys: `"value": "x", "name": "TOKEN"`.
static REVERSED: LazyLock<Regex> = LazyLock::new(|| {
    let quote = r#"\\{0,3}""#;
    let pattern = format!(
        r#"(?i)(?-u:\b)value{quote}\s*:\s*{quote}(?P<v>[^"]*?){quote}\s*,\s*{quote}(?:name|key){quote}\s*:\s*{quote}(?P<n>[0-9A-Za-z_.-]+)"#
    );
    Regex::new(&pattern).expect("the pattern is tested")
});

/// Adds the spans of values that follow a name.
pub(super) fn add_pairs(text: &str, spans: &mut Vec<Range<usize>>) {
    for (pattern, find) in RULES.iter() {
        let mut at = 0;
        while let Some(captures) = pattern.captures_at(text, at) {
            let Some(pair) = Pair::from_captures(text, &captures) else {
                break;
            };
            // The next name can start directly after this name: `--env=TOKEN=x`.
            at = pair.name_at + pair.name.len();
            if let Some(span) = find(&pair) {
                at = at.max(span.end);
                spans.push(span);
            }
        }
    }
    let reversed = REVERSED
        .captures_iter(text)
        .filter(|captures| holds_secret(&captures["n"], &captures["v"]));
    spans.extend(reversed.filter_map(|captures| captures.name("v").map(|value| value.range())));
}

/// Returns the value in `token=x`, `password = "x"`, `os.environ["TOKEN"] = 'x'` and `token: str =
/// "x"`.
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

/// Returns the value in `--token x` and `["--token", "x"]`, on one line or on two.
fn flag(pair: &Pair<'_>) -> Option<Range<usize>> {
    const PROSE: [&str; 11] = [
        "is", "was", "and", "or", "must", "not", "requires", "cannot", "flag", "option", "are",
    ];
    let is_list = pair.separator.starts_with(',');
    // In prose, `-auth` ends a hyphenated word. In a command, Go programs use long flags with a
    // single dash.
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

/// Returns the value in `Secret access key: x` and `wandb key is x`.
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

/// Returns the value in `The password is x`.
fn sentence(pair: &Pair<'_>) -> Option<Range<usize>> {
    // Chinese text has no spaces, so an ordinary word can follow the name directly.
    if !pair.name.is_ascii() && pair.rest().starts_with(|c: char| !c.is_ascii()) {
        return None;
    }
    let value = pair.value(ValueEnd::Blank);
    let content = &pair.text[value.span.clone()];
    let name = pair.name.to_ascii_lowercase();
    let is_number = (name == "tokens" && is_number_of_tokens(content))
        || (name == "token" && is_count(content));
    // Special tokens of tokenizers, such as `<s>` and `[PAD]`.
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

/// Returns the value in `- name: TOKEN` with `value: x`, and in Go's format `{Name:TOKEN Value:x
/// ValueFrom:nil}`.
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

/// Returns the value in `<password>x</password>`.
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

/// Returns the value in `kubectl create secret generic x --from-literal=name=value`, which is a
/// secret under any name.
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

/// Returns the value in `IDENTIFIED BY 'x'` and `WITH PASSWORD 'x'`.
fn sql(pair: &Pair<'_>) -> Option<Range<usize>> {
    Some(pair.value(ValueEnd::Blank))
        .filter(|value| value.is_quoted)
        .map(|value| value.span)
}
