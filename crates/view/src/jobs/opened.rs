//! Renders the local address of `open`. The URL contains the token only with `--show-token`.

use schemars::JsonSchema;
use serde::Serialize;

use gpuctl_core::model::Job;

/// A local address of a job.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    pub job_id: String,
    pub namespace: String,
    pub url: String,
    pub local_port: u16,
    pub target_port: u16,
}

impl Opened {
    pub fn new(job: &Job, local_port: u16, target_port: u16, token: Option<&str>) -> Self {
        let query = token.map_or_else(String::new, |token| {
            format!(
                "?{}",
                form_urlencoded::Serializer::new(String::new())
                    .append_pair("token", token)
                    .finish()
            )
        });
        let url = format!("http://127.0.0.1:{local_port}/{query}");
        Self {
            job_id: job.name.clone(),
            namespace: job.namespace.clone(),
            url,
            local_port,
            target_port,
        }
    }
}

/// Prints the URL alone on its line, so that terminals make it a link.
pub fn text(opened: &Opened) -> String {
    format!("{}\n", opened.url)
}
