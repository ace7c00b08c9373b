//! Finds secrets in text such as commands, logs, events, annotations and error messages. Detects
//! credentials by their shape, values after names that announce one, and logins in commands and
//! URLs.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::secret_names::{NameStrength, is_secret_value, strength_of};

/// Placeholder for a secret in text for others.
const REDACTED: &str = "[redacted]";
/// A value in quotes, escaped or not, or a word.
const VALUE: &str = r#"(?P<v>\\?"[^"]*"|'[^']*'|[^\s"',;&]+)"#;

/// Decides whether a match is a secret. The value is group `v`, or the whole match without it.
type Judge = fn(&Captures<'_>) -> bool;

static RULES: LazyLock<Vec<(Regex, Judge)>> = LazyLock::new(|| {
    let rules: [(String, Judge); 14] = [
        (r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)".to_owned(), |_| true),
        (shapes(), |_| true),
        (r"(?:^|[^\w.-])(?P<v>[a-z0-9]{6}\.[a-z0-9]{16})(?:$|[^\w.-])".to_owned(), is_bootstrap_token),
        (r"(?i)\b(?:bearer|basic|digest|apikey)\s+(?P<v>[A-Za-z0-9+/_.=~:-]{8,})".to_owned(), is_header_value),
        (r#"://(?P<v>[^/\s@"'<>]+)@"#.to_owned(), |_| true),
        (r#"://(?P<v>[^/\s@"':<>]+:[^\s"'<>]+)@"#.to_owned(), is_login),
        (webhooks(), |_| true),
        (r#"[?&](?P<n>[\w.%-]+)=(?P<v>[^&\s"'#;<>]+)"#.to_owned(), is_parameter),
        (format!(r"(?P<n>[A-Za-z_][\w.-]*)=\\?{VALUE}"), is_assigned),
        (format!(r"(?P<n>[A-Za-z_][\w.-]*)\s*=\s*{VALUE}"), is_strong),
        (format!(r#"(?P<n>[A-Za-z_][\w.-]*)(?:(?P<q>\\?["']):\s*|:\s+){VALUE}"#), is_field),
        (format!(r#"(?:^|[\s"'\[(,])(?P<n>--?[A-Za-z][\w.-]*)(?:(?:\s|\\\n)+|["']\s*,\s*["']?){VALUE}"#), is_argument),
        (
            format!(
                r"(?i)\b(?:password|passwd|passphrase|passcode|secret|token|api[ _-]?key|pwd|pin)\s+(?:is|was|=>|->|:=|set to)\s+{VALUE}"
            ),
            is_said,
        ),
        (tools(), |_| true),
    ];
    rules.into_iter().map(|(pattern, judge)| (Regex::new(&pattern).expect("the patterns are tested"), judge)).collect()
});

/// `docker login -p X`, `wandb login X`.
static LOGIN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b(?P<tool>[\w.-]+)\s+login\b(?P<rest>[^\n;&|]*)").expect("the pattern is tested"));
static WORD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""[^"]*"|'[^']*'|\S+"#).expect("the pattern is tested"));

/// Prefixes and formats of services' credentials.
fn shapes() -> String {
    let prefixed = [
        r"hf_[A-Za-z0-9]{16,}",
        // Pod names can also begin with `sk-`, but have neither capitals nor twenty letters without
        // a hyphen.
        r"sk-(?:proj|ant|or|svcacct|admin|lf)-[\w-]{8,}",
        r"sk-[\w-]{0,80}[A-Z][\w-]{8,}",
        r"sk-[A-Za-z0-9]{20,}",
        r"(?:sk|pk|rk)_(?:live|test)_\w{8,}",
        r"gh[pousr]_[A-Za-z0-9]{16,}",
        r"github_pat_\w{16,}",
        r"gl(?:pat|ptt|dt|rt|cbt|agent|soat|ft|imt)-[\w.-]{16,}",
        r"nvapi-[\w-]{16,}",
        r"(?:AKIA|ASIA|AROA)[0-9A-Z]{12,}",
        r"AIza[\w-]{20,}",
        r"ya29\.[\w.-]{16,}",
        r"GOCSPX-[\w-]{16,}",
        r"LTAI[0-9A-Za-z]{12,}",
        r"AKID[0-9A-Za-z]{16,}",
        r"xox[a-z](?:-[\w-]{8,}|\.[\w.-]{8,})",
        r"xapp-[\w-]{10,}",
        r"npm_[A-Za-z0-9]{16,}",
        r"xai-[A-Za-z0-9_]{20,}",
        r"gsk_\w{16,}",
        r"r8_\w{16,}",
        r"pplx-\w{20,}",
        r"dckr_(?:pat|oat)_[\w-]{10,}",
        r"pypi-A[\w-]{16,}",
        r"dop_v1_\w{16,}",
        r"hv[sbr]\.[\w-]{16,}",
        r"tskey-[\w-]{10,}",
        r"shp(?:at|ss|ca|pa)_\w{16,}",
        r"SG\.[\w-]{10,}\.[\w-]{10,}",
        r"whsec_[\w+/=-]{10,}",
        r"glc_[\w+/=-]{16,}",
        r"glsa_\w{16,}",
        r"AGE-SECRET-KEY-1\w{10,}",
        r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
    ];
    // ASCII only: with all Unicode letters, the repetitions exceed the size limit of a regex.
    format!(r"(?-u:\b(?:{}))", prefixed.join("|"))
}

/// URLs whose path is the password: Slack, Discord, Feishu, Telegram, and paths with `hook`.
fn webhooks() -> String {
    let places = [
        r"hooks?\.[\w.-]+(?::\d+)?",
        r"[\w.-]+(?::\d+)?/(?:[\w./-]*/)?(?:web)?hooks?",
        r"[\w.-]+/open-apis/bot",
        r"[\w.-]+/cgi-bin/webhook",
        r"api\.telegram\.org",
    ];
    format!(r#"https?://(?:{})/+(?P<v>[^\s"'<>]+)"#, places.join("|"))
}

/// Short flags that mean a password only for one program.
fn tools() -> String {
    let word = r#"(?P<v>"[^"]*"|'[^']*'|[^\s"';&|]+)"#;
    let all = [
        format!(r"\bcurl\b[^\n;|]*?\s(?:-u|-U|--user|--proxy-user)[ =]?\s*{word}"),
        format!(r"\bsshpass\s+-p\s*{}", word.replace("?P<v>", "?P<v1>")),
        format!(r"\bmysql\w*\b[^\n;|]*?\s-p{}", word.replace("?P<v>", "?P<v2>")),
        format!(r"\bredis-cli\b[^\n;|]*?\s-a\s+{}", word.replace("?P<v>", "?P<v3>")),
        format!(r"\bmachine\s+\S+\s+login\s+\S+\s+password\s+{}", word.replace("?P<v>", "?P<v4>")),
        format!(r"\becho\s+(?:-n\s+)?{}\s*\|[^\n]*?(?:--password-stdin|--with-token|\blogin\b)", word.replace("?P<v>", "?P<v5>")),
    ];
    all.join("|")
}

/// Places of all secrets in a text, in order, without overlaps.
#[must_use]
pub fn secret_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    for (pattern, judge) in RULES.iter() {
        for found in pattern.captures_iter(text).filter(judge) {
            let named = ["v", "v1", "v2", "v3", "v4", "v5"].iter().find_map(|name| found.name(name));
            let value = named.or_else(|| found.get(0)).expect("a match has a text");
            spans.push(without_quotes(value.as_str(), value.start()));
        }
    }
    LOGIN.captures_iter(text).for_each(|found| spans.extend(logins(&found)));
    spans.retain(|span| !span.is_empty() && !is_masked(&text[span.clone()]));
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// The text without its secrets; `None` if it has none.
#[must_use]
pub fn scrubbed(text: &str) -> Option<String> {
    let spans = secret_spans(text);
    if spans.is_empty() {
        return None;
    }
    let (mut clean, mut end) = (String::with_capacity(text.len()), 0);
    for span in spans {
        clean.push_str(&text[end..span.start]);
        clean.push_str(REDACTED);
        end = span.end;
    }
    clean.push_str(&text[end..]);
    Some(clean)
}

/// The span of a value that starts at `start`, without its quotes.
fn without_quotes(value: &str, start: usize) -> Range<usize> {
    let inner = value.strip_prefix('\\').unwrap_or(value);
    let opened = value.len() - inner.len();
    match inner.strip_prefix(['"', '\'']) {
        Some(rest) if rest.ends_with(['"', '\'']) => {
            let closed = rest.len() - rest.trim_end_matches(['"', '\'']).trim_end_matches('\\').len();
            start + opened + 1..start + value.len() - closed
        }
        // `{token: x}` and `Namespace(token=x)`: the brackets are not part of the value.
        _ => start..start + value.trim_end_matches(['}', ')', ']']).len(),
    }
}

/// Words after `login` that are credentials: bare words of programs that accept a key there, and
/// the value of `-p`.
fn logins(found: &Captures<'_>) -> Vec<Range<usize>> {
    const KEY_IS_A_WORD: [&str; 18] = [
        "wandb",
        "weave",
        "comet",
        "clearml",
        "neptune",
        "swanlab",
        "hf",
        "huggingface-cli",
        "modelscope",
        "ngc",
        "npm",
        "kaggle",
        "vault",
        "doctl",
        "replicate",
        "modal",
        "lightning",
        "dvc",
    ];
    let Some(rest) = found.name("rest") else { return Vec::new() };
    let takes_key = KEY_IS_A_WORD.contains(&&found["tool"]);
    let mut spans = Vec::new();
    let mut before = "";
    for word in WORD.find_iter(rest.as_str()) {
        let text = word.as_str();
        let is_value = before.starts_with('-') && !before.contains('=');
        let is_password = before == "-p" || (takes_key && !text.starts_with('-') && !is_value);
        let start = rest.start() + word.start();
        if is_password {
            spans.push(without_quotes(text, start));
        } else if let Some(glued) = text.strip_prefix("-p").filter(|glued| !glued.is_empty() && !text.starts_with("--")) {
            spans.push(start + text.len() - glued.len()..start + text.len());
        }
        // `--relogin` and similar flags have no value.
        before = if ["--relogin", "--verify", "--cloud", "--anonymously"].contains(&text) { "" } else { text };
    }
    spans
}

fn name_and_value<'a>(found: &'a Captures<'_>) -> (NameStrength, &'a str) {
    let name = found.name("n").map_or("", |name| name.as_str());
    (strength_of(name), found.name("v").map_or("", |value| value.as_str()))
}

/// Whether a value is an ordinary word of a message, as in `token is expired` and `password: wrong`.
fn is_word_of_a_message(value: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 73] = [
        "a", "access", "already", "an", "and", "bad", "being", "cannot", "connection", "context", "correct",
        "could", "denied", "disabled", "empty", "eof", "error", "expected", "expired", "failed", "for",
        "forbidden", "found", "from", "http", "i/o", "in", "incorrect", "invalid", "malformed", "mismatch",
        "missing", "must", "needed", "no", "not", "of", "ok", "on", "only", "operation", "or", "permission",
        "pods", "read", "rejected", "request", "required", "response", "revoked", "rpc", "secrets",
        "serviceaccounts", "set", "signature", "status", "stored", "the", "this", "timed", "timeout", "to",
        "too", "unable", "unauthorized", "unexpected", "unknown", "unset", "unsupported", "used", "valid",
        "wrong", "your",
    ];
    WORDS.contains(&value.to_ascii_lowercase().trim_end_matches(['.', ':', ',', '!']))
}

/// Whether a value is a short number, such as a count of tokens.
fn is_count(value: &str) -> bool {
    value.len() < 7 && value.parse::<f64>().is_ok()
}

/// Whether a value is already masked.
fn is_masked(value: &str) -> bool {
    value.starts_with("[redacted") || (value.len() > 1 && value.bytes().all(|byte| byte == b'*'))
}

fn is_bootstrap_token(found: &Captures<'_>) -> bool {
    let token = &found["v"];
    let has = |of: fn(&u8) -> bool| token.as_bytes().iter().any(of);
    // A fraction has no letters, and a file extension rarely has a digit.
    has(u8::is_ascii_alphabetic) && token[7..].bytes().any(|byte| byte.is_ascii_digit())
}

fn is_header_value(found: &Captures<'_>) -> bool {
    let value = &found["v"];
    value.bytes().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'=')
        && !value.to_ascii_lowercase().starts_with("authenti")
}

/// Whether the text before an `@` is a login, not a port with a path: `http://host:80/a@b`.
fn is_login(found: &Captures<'_>) -> bool {
    let password = found["v"].split_once(':').map_or("", |(_, password)| password);
    let after_digits = password.trim_start_matches(|c: char| c.is_ascii_digit());
    !(after_digits.len() < password.len() && after_digits.starts_with(['/', '?', '#']))
}

fn is_parameter(found: &Captures<'_>) -> bool {
    let (strength, value) = name_and_value(found);
    let signed = found["n"].to_ascii_lowercase().starts_with("x-amz-") && &found["n"] != "X-Amz-Algorithm";
    signed || is_secret_value(strength, value)
}

fn is_assigned(found: &Captures<'_>) -> bool {
    let (strength, value) = name_and_value(found);
    let counts_tokens = is_count(value) && found["n"].to_ascii_lowercase().ends_with("token");
    let is_comparison = value.starts_with('=');
    let is_folder = matches!(&found["n"], "PWD" | "OLDPWD");
    !(counts_tokens || is_comparison || is_folder) && is_secret_value(strength, value)
}

fn is_strong(found: &Captures<'_>) -> bool {
    let (strength, value) = name_and_value(found);
    strength == NameStrength::Strong && !value.starts_with('=') && !is_count(value) && is_secret_value(strength, value)
}

/// Matches `token: x` and `"token":"x"`, but not an image tag, `token:1.2`.
fn is_field(found: &Captures<'_>) -> bool {
    const PROSE: [&str; 6] = ["pwd", "pw", "cred", "creds", "jwt", "pass"];
    let (strength, value) = name_and_value(found);
    let name = found["n"].to_ascii_lowercase();
    let may = match strength {
        NameStrength::Strong => true,
        NameStrength::Weak => PROSE.contains(&name.as_str()) || (found.name("q").is_some() && name == "auth"),
        NameStrength::None => false,
    };
    may && !is_word_of_a_message(value) && !(is_count(value) && name.ends_with("token")) && is_secret_value(strength, value)
}

fn is_argument(found: &Captures<'_>) -> bool {
    let (strength, value) = name_and_value(found);
    // `-auth` in prose is a hyphen; Go programs spell out single-dash flags.
    !value.starts_with('-') && is_secret_value(strength, value)
}

fn is_said(found: &Captures<'_>) -> bool {
    !is_word_of_a_message(&found["v"])
}
