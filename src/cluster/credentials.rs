//! Runs the credential plugin of a kubeconfig once and never prints its output.
//!
//! Note: kube itself would run it three times, and would quote the output of a failing plugin, tokens included.

use std::collections::HashMap;
use std::process::Stdio;
use std::time::Duration;

use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use tokio::process::Command;

use super::Failure;

const LONGEST: Duration = Duration::from_secs(30);
const LARGEST: usize = 1 << 20;

#[derive(Deserialize)]
struct ExecCredential {
    status: Option<CredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// Replaces an `exec:` block by the credentials that its plugin gives.
pub(super) async fn resolve(auth: &mut AuthInfo, interactive: bool) -> Result<(), Failure> {
    let Some(exec) = auth.exec.take() else { return Ok(()) };
    let status = run(&exec, interactive).await?;
    if let (Some(certificate), Some(key)) = (&status.client_certificate_data, &status.client_key_data) {
        auth.client_certificate_data = Some(base64(certificate.as_bytes()));
        auth.client_key_data = Some(base64(key.as_bytes()).into());
    }
    if let Some(token) = status.token {
        auth.token = Some(token.into());
    }
    Ok(())
}

async fn run(exec: &ExecConfig, interactive: bool) -> Result<CredentialStatus, Failure> {
    let program = exec.command.clone().unwrap_or_default();
    let failed = |cause: String| Failure::Credentials {
        cause: format!("the credential plugin `{program}` {cause}"),
        hint: exec.install_hint.clone(),
    };
    let ask = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !interactive => {
            return Err(failed("wants to ask questions, and nobody is there".to_owned()));
        }
        _ => interactive,
    };
    let version = exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    let info = serde_json::json!({"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": ask}});
    let mut command = Command::new(&program);
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(if ask { Stdio::inherit() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(if ask { Stdio::inherit() } else { Stdio::null() })
        .kill_on_drop(true);
    for variable in exec.env.iter().flatten() {
        let get = |key: &str| HashMap::get(variable, key);
        if let (Some(name), Some(value)) = (get("name"), get("value")) {
            command.env(name, value);
        }
    }
    let output = tokio::time::timeout(LONGEST, command.output())
        .await
        .map_err(|_| failed(format!("did not answer within {} s", LONGEST.as_secs())))?
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed ({}); run it by hand to see why", output.status)));
    }
    if output.stdout.len() > LARGEST {
        return Err(failed("printed more than a mebibyte".to_owned()));
    }
    // The text itself must not be quoted: it holds the token.
    let answer: ExecCredential =
        serde_json::from_slice(&output.stdout).map_err(|_| failed("printed no ExecCredential".to_owned()))?;
    let status = answer.status.ok_or_else(|| failed("gave no credentials".to_owned()))?;
    if status.token.is_none() && status.client_certificate_data.is_none() {
        return Err(failed("gave neither a token nor a certificate".to_owned()));
    }
    Ok(status)
}

/// Encodes by RFC 4648 with padding, as a kubeconfig holds it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) & 63;
            text.push(if place <= chunk.len() { char::from(ALPHABET[index as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_as_the_rfc_says() {
        for (plain, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(super::base64(plain.as_bytes()), encoded);
        }
    }
}
