//! Reduces a URL to the parts that are safe to print or store: removes user, password and query,
//! and the path if it is a secret. Works on text, because error messages also contain URLs that
//! cannot be parsed.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::secret_text::scrubbed;

/// Removes user, password, query and fragment from a URL.
pub fn shown_url(text: &str) -> String {
    let (scheme, rest) = split_scheme(text.trim());
    // A password can contain an unescaped `/`, `?` or `#`, so everything before the last `@` may
    // belong to it.
    let host_on = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let shown = host_on.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}{}", shown.trim_end_matches('/'))
}

/// Returns only scheme, host and port, because the path of a webhook is its password.
pub fn shown_origin(text: &str) -> String {
    let shown = shown_url(text);
    let (scheme, rest) = split_scheme(&shown);
    format!(
        "{scheme}{}",
        rest.split(['/', '\\']).next().unwrap_or_default()
    )
}

/// Shortens every URL in a library's message. It may be the URL of a server, a proxy or a redirect,
/// with a password.
pub fn shown_error(text: &str) -> String {
    static URL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>`]+"#).expect("the pattern is tested")
    });
    let shown = URL.replace_all(text, |captures: &Captures<'_>| {
        let closed = captures[0].trim_end_matches([')', ']', '}', ',', '.', ':']);
        format!("{}{}", shown_url(closed), &captures[0][closed.len()..])
    });
    scrubbed(&shown).unwrap_or_else(|| shown.into_owned())
}

/// Splits off the scheme, such as `https://`. Text before `://` that is not a valid scheme can be
/// part of a password.
fn split_scheme(text: &str) -> (&str, &str) {
    match text.find("://") {
        Some(position)
            if text[..position]
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) =>
        {
            text.split_at(position + 3)
        }
        _ => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_urls_have_no_login_or_query() {
        for (url, shown) in [
            (
                "https://user:CANARY@host:6443/base/?tok=CANARY#CANARY",
                "https://host:6443/base",
            ),
            ("https://user:CAN/ARY?x#y@z@host", "https://host"),
            ("https://CANARY@[fd00::1]:6443", "https://[fd00::1]:6443"),
            ("socks5h://u:CANARY@127.0.0.1:1", "socks5h://127.0.0.1:1"),
            ("user:CANARY@host:3128", "host:3128"),
            ("https:\\\\user:CANARY@host", "host"),
            ("https://host/?tok=CANARY", "https://host"),
            ("https://10.0.0.1:6443", "https://10.0.0.1:6443"),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
        assert_eq!(
            shown_error(
                "error for url (https://u:CANARY@host/x?token=CANARY): proxy \"socks4://u:CANARY@h:1/\" fails"
            ),
            "error for url (https://host/x): proxy \"socks4://h:1\" fails"
        );
        assert_eq!(
            shown_origin("https://u:CANARY@hooks.example.com/CANARY/CANARY?x=CANARY"),
            "https://hooks.example.com"
        );
    }
}
