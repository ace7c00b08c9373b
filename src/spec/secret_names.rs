//! Tells by its name that the value of a variable is secret.

/// Returns true for the name of a variable whose value is not for eyes.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "PASSWORD", "PASSWD", "SECRET", "API_KEY", "ACCESS_KEY", "SECRET_KEY"].iter().any(|word| name.ends_with(word))
}
