//! Renders the result of `create secret` without the secret's values.

use schemars::JsonSchema;
use serde::Serialize;

use super::scaled::dry_run_text;

/// A secret that was written.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Written {
    pub name: String,
    pub namespace: String,
    pub r#type: &'static str,
    pub keys: Vec<String>,
    /// False when an existing secret of this name was replaced.
    pub created: bool,
    /// `client` or `server` for a dry run, which changed nothing.
    #[serde(rename = "dryRun", skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<&'static str>,
}

pub fn text(written: &Written) -> String {
    let verb = match (written.created, written.dry_run) {
        (true, None) => "created",
        (false, None) => "replaced",
        (true, Some(_)) => "would be created",
        (false, Some(_)) => "would be replaced",
    };
    format!(
        "secret/{} {verb} in {}{}: {}\n",
        written.name,
        written.namespace,
        dry_run_text(written.dry_run),
        written.keys.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_says_what_would_happen() {
        let mut written = Written {
            name: "hub".to_owned(),
            namespace: "team-a".to_owned(),
            r#type: "Opaque",
            keys: vec!["HF_TOKEN".to_owned()],
            created: true,
            dry_run: None,
        };
        assert_eq!(text(&written), "secret/hub created in team-a: HF_TOKEN\n");
        (written.created, written.dry_run) = (false, Some("server"));
        assert_eq!(
            text(&written),
            "secret/hub would be replaced in team-a (server dry run): HF_TOKEN\n"
        );
    }
}
