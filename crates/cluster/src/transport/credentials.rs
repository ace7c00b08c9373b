//! Runs the credential plugin of a kubeconfig once and never prints its output.
//!
//! kube would run the plugin three times, and quote the output of a failing plugin, including
//! tokens.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use tokio::process::Command;

use crate::Failure;
use gpuctl_local::kuberc::{Kuberc, PluginRefusal};
use gpuctl_local::program_output::output_within;

/// Time limit for a plugin if no user can respond to it. Users need unlimited time to log in
/// through a browser.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum output of a plugin in bytes.
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

/// The conditions for running a plugin.
pub(crate) struct CredentialAccess<'a> {
    /// Whether a user can answer the plugin's prompts.
    pub interactive: bool,
    /// Policy that must allow the plugin.
    pub kuberc: &'a Kuberc,
}

/// Replaces an `exec:` block with the credentials that its plugin returns. Passes `cluster` to
/// plugins with `provideClusterInfo`.
pub(crate) async fn resolve(
    auth: &mut AuthInfo,
    cluster: Option<&Cluster>,
    access: &CredentialAccess<'_>,
) -> Result<(), Failure> {
    let Some(mut exec) = auth.exec.take() else {
        return Ok(());
    };
    if exec.provide_cluster_info {
        exec.cluster = cluster.and_then(|cluster| ExecAuthCluster::try_from(cluster).ok());
    }
    let status = run(&exec, access).await?;
    if let (Some(certificate), Some(key)) =
        (&status.client_certificate_data, &status.client_key_data)
    {
        // An ExecCredential has plain PEM, and a kubeconfig has PEM in base64.
        auth.client_certificate_data = Some(STANDARD.encode(certificate));
        auth.client_key_data = Some(STANDARD.encode(key).into());
    }
    if let Some(token) = status.token {
        auth.token = Some(token.into());
    }
    Ok(())
}

async fn run(
    exec: &ExecConfig,
    access: &CredentialAccess<'_>,
) -> Result<CredentialStatus, Failure> {
    let interactive = access.interactive;
    let program = exec.command.clone().unwrap_or_default();
    let failed = |cause: String| Failure::Credentials {
        cause: format!("the credential plugin `{program}` {cause}"),
        hint: exec.install_hint.clone(),
    };
    let permitted = access.kuberc.permit(&program);
    let permitted = permitted.map_err(|refusal| Failure::Credentials {
        cause: format!("the credential plugin `{program}` {refusal}"),
        hint: Some(policy_hint(&refusal, &program)),
    })?;
    let may_prompt = match exec.interactive_mode {
        Some(ExecInteractiveMode::Never) => false,
        Some(ExecInteractiveMode::Always) if !interactive => {
            return Err(failed(
                "requires user input, but this session is not interactive".to_owned(),
            ));
        }
        _ => interactive,
    };
    let mut command = plugin(exec, &permitted, may_prompt, interactive);
    let output = match longest(interactive) {
        Some(limit) => tokio::time::timeout(limit, output_within(&mut command, LARGEST))
            .await
            .map_err(|_| {
                failed(format!(
                    "did not respond within {} s, and this session does not allow an interactive login",
                    limit.as_secs()
                ))
            })?,
        None => output_within(&mut command, LARGEST).await,
    };
    let output = output.map_err(|error| failed(format!("failed to start: {error}")))?;
    let output = output.ok_or_else(|| failed("printed more than 1 MiB".to_owned()))?;
    if !output.status.success() {
        return Err(failed(format!(
            "failed ({}); run it by hand to see why",
            output.status
        )));
    }
    // Never quote the output: it contains the token.
    let answer: ExecCredential = serde_json::from_slice(&output.stdout)
        .map_err(|_| failed("did not print an ExecCredential".to_owned()))?;
    let status = answer
        .status
        .ok_or_else(|| failed("returned no credentials".to_owned()))?;
    if status.token.is_none() && status.client_certificate_data.is_none() {
        return Err(failed(
            "returned neither a token nor a certificate".to_owned(),
        ));
    }
    Ok(status)
}

/// Builds the command that runs the plugin. `may_prompt` connects the plugin's stdin to the
/// terminal.
fn plugin(exec: &ExecConfig, program: &Path, may_prompt: bool, interactive: bool) -> Command {
    let version = exec
        .api_version
        .as_deref()
        .unwrap_or("client.authentication.k8s.io/v1");
    let mut info = serde_json::json!({"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": may_prompt}});
    if let Some(cluster) = &exec.cluster {
        info["spec"]["cluster"] = serde_json::to_value(cluster).unwrap_or_default();
    }
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(if may_prompt {
            Stdio::inherit()
        } else {
            Stdio::null()
        })
        // Show stderr: plugins print device codes and login URLs there, even if they read no
        // answers.
        .stderr(if interactive {
            Stdio::inherit()
        } else {
            Stdio::null()
        });
    for variable in exec.env.iter().flatten() {
        let get = |key: &str| HashMap::get(variable, key);
        if let (Some(name), Some(value)) = (get("name"), get("value")) {
            command.env(name, value);
        }
    }
    command
}

/// Returns a hint on how to allow a trusted plugin.
fn policy_hint(refusal: &PluginRefusal, program: &str) -> String {
    match refusal {
        PluginRefusal::Unreadable(_) | PluginRefusal::Invalid { .. } => {
            "correct the file; `KUBERC=off` ignores it, as in kubectl".to_owned()
        }
        PluginRefusal::NotFound { .. } => "install it, or correct the kubeconfig".to_owned(),
        PluginRefusal::Denied { .. } | PluginRefusal::NotListed { .. } => format!(
            "if you trust it, set `credentialPluginPolicy: Allowlist` there, and add \
             `- command: {program}` to `credentialPluginAllowlist`"
        ),
    }
}

fn longest(interactive: bool) -> Option<Duration> {
    (!interactive).then_some(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interactive_login_has_no_deadline() {
        assert_eq!(longest(true), None);
        assert_eq!(longest(false), Some(Duration::from_secs(30)));
    }
}
