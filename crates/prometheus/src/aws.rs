//! Signs requests for Amazon Managed Service for Prometheus (SigV4), using AWS's own library. Keys
//! come from the environment or from the AWS CLI, which supports profiles, single sign-on and
//! roles. Keys are never displayed.

use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use prometheus_http_query::reqwest::{Client, Request};
use serde::Deserialize;

use super::request::{FORM, HttpReply, QueryRequest, SendRequest, exchange};
use super::{QueryError, token};

/// Service name of Amazon Managed Service for Prometheus in signatures.
const SERVICE: &str = "aps";
/// AWS CLI command that prints keys for every login method.
const COMMAND: &str = "aws configure export-credentials --format process";

/// Keys of an AWS account. The AWS CLI prints them as JSON with these fields.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct AwsKeys {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

/// The region and keys for signing requests.
#[derive(Clone)]
pub(crate) struct Signing {
    pub region: String,
    /// Keys from the environment. If `None`, the AWS CLI provides keys.
    pub keys: Option<AwsKeys>,
}

impl Signing {
    /// Extracts the AWS region from the host name of an Amazon-managed Prometheus.
    pub(super) fn region_of(host: &str) -> Option<&str> {
        // Regions in China use the domain `amazonaws.com.cn`.
        let host = host.strip_suffix(".cn").unwrap_or(host);
        let region = host
            .strip_prefix("aps-workspaces.")?
            .strip_suffix(".amazonaws.com")?;
        (!region.is_empty() && !region.contains('.')).then_some(region)
    }

    /// Gets keys from the AWS CLI unless the environment contained them.
    pub(super) async fn with_keys(mut self) -> Result<Self, QueryError> {
        if self.keys.is_none() {
            let failed = |cause: String| QueryError::AwsKeys { cause };
            let printed = token::output_of(COMMAND)
                .await
                .map_err(|cause| failed(format!("`{COMMAND}`: {cause}")))?;
            let keys = serde_json::from_str(&printed)
                .map_err(|_| failed(format!("`{COMMAND}` printed no keys")))?;
            self.keys = Some(keys);
        }
        Ok(self)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a signature is good for minutes from when the request is sent, which no caller knows"
    )]
    fn signed(&self, server: &str, question: &QueryRequest) -> Result<Request, QueryError> {
        let keys = self.keys.as_ref();
        let keys = keys.ok_or_else(|| signing_error("no AWS keys were found"))?;
        let keys = Credentials::new(
            &keys.access_key_id,
            &keys.secret_access_key,
            keys.session_token.clone(),
            None,
            "gpuctl",
        );
        let identity = keys.into();
        let parameters = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(SERVICE)
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(signing_error)?
            .into();
        // SigV4 signs the path as sent. In a path, a space must be `%20`, because a plus means a
        // space only in forms.
        let url = format!("{server}/{}", question.path.replace('+', "%20"));
        let body = question.form.clone().unwrap_or_default();
        let method = if question.form.is_some() {
            "POST"
        } else {
            "GET"
        };
        let signable = SignableRequest::new(
            method,
            &url,
            std::iter::empty(),
            SignableBody::Bytes(body.as_bytes()),
        );
        let (instructions, _) = sign(signable.map_err(signing_error)?, &parameters)
            .map_err(signing_error)?
            .into_parts();
        let request = http::Request::builder().method(method).uri(&url);
        let request = if question.form.is_some() {
            request.header("content-type", FORM)
        } else {
            request
        };
        let mut request = request.body(body).map_err(signing_error)?;
        instructions.apply_to_request_http1x(&mut request);
        Request::try_from(request).map_err(signing_error)
    }
}

fn signing_error(cause: impl std::fmt::Display) -> QueryError {
    QueryError::AwsKeys {
        cause: cause.to_string(),
    }
}

/// Returns a transport that signs every request to the server.
pub(super) fn signing_transport<'a>(
    client: Client,
    server: String,
    signing: Signing,
) -> SendRequest<'a> {
    Box::new(move |question| {
        let (client, server) = (client.clone(), server.clone());
        let request = signing.signed(&server, &question);
        Box::pin(async move {
            let request = request?;
            let (method, url) = (request.method().clone(), request.url().to_string());
            let sent = client.execute(request);
            exchange(&server, method.as_str(), &url, sent).await as Result<HttpReply, QueryError>
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_is_parsed_from_the_address() {
        assert_eq!(
            Signing::region_of("aps-workspaces.eu-west-1.amazonaws.com"),
            Some("eu-west-1")
        );
        assert_eq!(
            Signing::region_of("aps-workspaces.cn-north-1.amazonaws.com.cn"),
            Some("cn-north-1")
        );
        for host in [
            "prometheus.example.com",
            "aps-workspaces..amazonaws.com",
            "aps-workspaces.x.amazonaws.com.evil.com",
        ] {
            assert_eq!(Signing::region_of(host), None, "{host}");
        }
    }
}
