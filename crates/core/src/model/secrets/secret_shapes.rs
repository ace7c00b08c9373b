//! Recognizes secrets by their own form: private keys, prefixes of well-known services'
//! credentials, logins in URLs, and URLs whose path is a password.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::secret_names::{is_secret_value, strength_of};

/// Returns true if a match is a secret. The value is the group `v`, or the whole match without that
/// group.
type Judge = fn(&Captures<'_>) -> bool;

static RULES: LazyLock<Vec<(Regex, Judge)>> = LazyLock::new(|| {
    let rules: [(String, Judge); 12] = [
        (r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)".to_owned(), |_| true),
        (prefixes(), |_| true),
        // Bootstrap tokens of kubeadm.
        (r"(?:^|[^\w.-])(?P<v>[a-z0-9]{6}\.[a-z0-9]{16})(?:$|[^\w.-])".to_owned(), is_bootstrap_token),
        (r"(?i)\b(?:bearer|basic|digest|apikey)\s+(?P<v>[A-Za-z0-9+/_.=~:-]{8,})".to_owned(), is_header_value),
        (r#"://(?P<v>[^/\s@"'<>]+)@"#.to_owned(), |_| true),
        // Logins whose password contains unescaped slashes.
        (r#"://(?P<v>[^/\s@"':<>]+:[^\s"'<>]+)@"#.to_owned(), is_login),
        // Data source names for Go's MySQL driver: `user:password@tcp(host)`.
        (r"(?i)\b[\w.-]+:(?P<v>[^\s@]+)@(?:tcp|udp|unix)\(".to_owned(), |_| true),
        // URLs for Oracle's thin driver: `jdbc:oracle:thin:user/password@host`.
        (r"(?i)\bjdbc:oracle:thin:[^/\s]+/(?P<v>[^@\s]+)@".to_owned(), |_| true),
        (addresses_by_name(), |_| true),
        (webhooks(), |_| true),
        (alert_receivers(), |_| true),
        (r#"[?&](?P<n>[\w.%-]+)=(?P<v>[^&\s"'#;<>]+)"#.to_owned(), is_parameter),
    ];
    rules
        .into_iter()
        .map(|(pattern, judge)| {
            (
                Regex::new(&pattern).expect("the patterns are tested"),
                judge,
            )
        })
        .collect()
});

/// Returns a pattern for credentials of well-known services, by prefix or format.
fn prefixes() -> String {
    let prefixed = [
        r"hf_[A-Za-z0-9]{16,}",
        // Pod names can also start with `sk-`, but they contain no capitals and no 20 letters
        // without a hyphen.
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
        r"(?:ABSK|lsv2_(?:pt|sk)_|sntry[su]_|dapi|ATATT3|figd_|PMAK-|rpa_|tgp_v1_)[\w+/=-]{20,}",
        r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
    ];
    // Match ASCII only: with Unicode classes, the repetitions would exceed the size limit of a
    // regex.
    format!(r"(?-u:\b(?:{}))", prefixed.join("|"))
}

/// Returns a pattern for logins without a scheme after the name of a connection:
/// `DATABASE_DSN=user:x@host:5432/db`.
fn addresses_by_name() -> String {
    let name = r"\w*(?:dsn|database|(?:db|database|redis|broker|amqp|mongo|postgres|mysql|proxy)_?ur[il]|conn|connection)\w*";
    format!(r#"(?i)\b{name}["']?\s*[:=]\s*["']?[\w.-]+:(?P<v>[^\s@"'/][^\s@"']*)@[\w.\[-]"#)
}

/// Returns a pattern for URLs whose path is the password: Slack, Discord, Feishu, Telegram, Teams,
/// and paths that contain `hook`.
fn webhooks() -> String {
    let places = [
        r"hooks?\.[\w.-]+(?::\d+)?",
        r"[\w.-]+(?::\d+)?/(?:[\w./-]*/)?(?:web)?hooks?(?:b2)?",
        r"[\w.-]+/open-apis/bot",
        r"[\w.-]+/cgi-bin/webhook",
        r"api\.telegram\.org",
        r"hc-ping\.com",
        r"api\.day\.app",
        r"sctapi\.ftqq\.com",
        r"maker\.ifttt\.com/trigger",
    ];
    format!(r#"https?://(?:{})/+(?P<v>[^\s"'<>]+)"#, places.join("|"))
}

/// Returns a pattern for URLs of alert receivers with a key in the middle of the path: PagerDuty,
/// Grafana OnCall.
fn alert_receivers() -> String {
    r#"https?://[\w.-]+(?::\d+)?/(?:integration|integrations/v\d/\w+)/(?P<v>[^\s"'<>/]{4,})(?:/|\b)"#.to_owned()
}

/// Adds the spans of secrets with a recognizable form.
pub(super) fn add_shapes(text: &str, spans: &mut Vec<Range<usize>>) {
    for (pattern, judge) in RULES.iter() {
        let value_range = |captures: Captures<'_>| {
            captures
                .name("v")
                .or_else(|| captures.get(0))
                .map(|value| value.range())
        };
        spans.extend(
            pattern
                .captures_iter(text)
                .filter(judge)
                .filter_map(value_range),
        );
    }
}

fn is_bootstrap_token(captures: &Captures<'_>) -> bool {
    let token = &captures["v"];
    let has = |is_kind: fn(&u8) -> bool| token.as_bytes().iter().any(is_kind);
    // A decimal fraction contains no letters, and a file extension rarely contains digits.
    has(u8::is_ascii_alphabetic) && token[7..].bytes().any(|byte| byte.is_ascii_digit())
}

fn is_header_value(captures: &Captures<'_>) -> bool {
    let value = &captures["v"];
    value
        .bytes()
        .any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase() || byte == b'=')
        && !value.to_ascii_lowercase().starts_with("authenti")
}

/// Returns true if the text before an `@` is a login. In `http://host:80/a@b`, it is a port and a
/// path.
fn is_login(captures: &Captures<'_>) -> bool {
    let password = captures["v"]
        .split_once(':')
        .map_or("", |(_, password)| password);
    let after_digits = password.trim_start_matches(|c: char| c.is_ascii_digit());
    !(after_digits.len() < password.len() && after_digits.starts_with(['/', '?', '#']))
}

/// Returns true if a query parameter is a credential. OAuth and Azure Functions name theirs `code`.
fn is_parameter(captures: &Captures<'_>) -> bool {
    const SESSIONS: [&str; 9] = [
        "code",
        "session",
        "sessionid",
        "session_id",
        "sid",
        "ticket",
        "assertion",
        "samlresponse",
        "hmac",
    ];
    let (name, value) = (captures["n"].to_ascii_lowercase(), &captures["v"]);
    let is_signed = name.starts_with("x-amz-") && name != "x-amz-algorithm";
    // A numeric `code` is an exit code or a status code.
    let opens_session = SESSIONS.contains(&name.as_str()) && value.parse::<u32>().is_err();
    is_signed || opens_session || is_secret_value(strength_of(&captures["n"]), value)
}
