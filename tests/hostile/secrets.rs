//! Tries to make gpuctl print secrets from addresses, job files and the config file.
//! `secrets/canaries.rs` searches bundles, caches and all other output.

mod canaries;
mod servers;

use std::path::PathBuf;
use std::process::Command;

use gpuctl_sandbox::Persona;
use serde_json::{Value, json};

use crate::runner::{Run, gpuctl, run};
use crate::support::{cluster, gpuctl_as};

/// Writes a file into the sandbox's folder.
fn file(name: &str, text: &str) -> PathBuf {
    let path = cluster().folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A kubeconfig with one cluster and a token.
fn kubeconfig(name: &str, cluster_fields: &Value, user: &Value) -> PathBuf {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "users": [{"name": "u", "user": user}], "clusters": [{"name": "c", "cluster": cluster_fields}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}]});
    file(name, &config.to_string())
}

fn plain() -> Command {
    let mut command = gpuctl();
    for variable in [
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "https_proxy",
        "http_proxy",
        "no_proxy",
    ] {
        command.env_remove(variable);
    }
    command
        .env("XDG_CACHE_HOME", cluster().folder().join("cache"))
        .env("HOME", cluster().folder());
    command
}

#[track_caller]
fn keeps_quiet(run: &Run, about: &str) {
    for text in [&run.out, &run.err] {
        assert!(
            !text.contains("CANARY"),
            "{about}\n{}\n{}",
            run.out,
            run.err
        );
    }
}

#[test]
fn proxies_and_servers_are_shown_without_passwords() {
    let far = kubeconfig(
        "far.kubeconfig",
        &json!({"server": "https://user:SRV-CANARY@api.gpuctl.invalid:1/base/?tok=Q-CANARY#F-CANARY"}),
        &json!({"token": "TOKEN-CANARY"}),
    );
    let schemes = [
        "http", "https", "socks4", "socks4a", "socks5", "socks5h", "gopher",
    ];
    for scheme in schemes {
        for login in ["pu:P-CANARY", "pu:P-CANARY/with/CANARY", "P-CANARY"] {
            let mut command = plain();
            command.env("KUBECONFIG", &far).env(
                "HTTPS_PROXY",
                format!("{scheme}://{login}@127.0.0.1:1/?x=CANARY"),
            );
            command.args(["get", "nodes", "-v", "--request-timeout", "2s"]);
            let run = run(command, "");
            assert!(
                run.err.contains("error: ") && !run.err.contains("cannot be given"),
                "{}",
                run.err
            );
            keeps_quiet(&run, scheme);
        }
    }
    let mut command = plain();
    command
        .env("KUBECONFIG", &far)
        .env("HTTPS_PROXY", "socks4://pu:P-CANARY@127.0.0.1:1")
        .args(["get", "nodes"]);
    run(command, "")
        .exits(2)
        .says("HTTPS_PROXY: unsupported proxy scheme `socks4`");
    for proxy in [
        "gopher://pu:P-CANARY@127.0.0.1:1",
        "http://pu:P-CANARY@ x",
        "socks5h://pu:P-CANARY@127.0.0.1:1",
    ] {
        let fields =
            json!({"server": "https://s:S-CANARY@api.gpuctl.invalid:1", "proxy-url": proxy});
        let config = kubeconfig(
            "proxied.kubeconfig",
            &fields,
            &json!({"token": "TOKEN-CANARY"}),
        );
        for arguments in [
            &["get", "nodes", "-v"][..],
            &["doctor", "-o", "json"],
            &["auth", "check", "-v"],
        ] {
            let mut command = plain();
            command
                .env("KUBECONFIG", &config)
                .args(arguments)
                .args(["--request-timeout", "2s"]);
            keeps_quiet(&run(command, ""), proxy);
        }
    }
}

#[test]
fn prometheus_and_webhook_addresses_are_shown_without_passwords() {
    let admin = cluster().kubeconfig(Persona::Admin);
    let addresses = [
        "http://u:P-CANARY@127.0.0.1:1/?token=Q-CANARY#F-CANARY",
        "http://u:P-CANARY/more-CANARY@127.0.0.1:1",
        "ftp://u:P-CANARY@127.0.0.1/?t=CANARY",
        "http://u:P-CANARY@ho st/?t=CANARY",
    ];
    for address in addresses {
        for arguments in [
            &["top", "nodes", "-v"][..],
            &["doctor", "-o", "json"],
            &["version", "-o", "json"],
        ] {
            let mut command = plain();
            command
                .env("KUBECONFIG", &admin)
                .env("GPUCTL_PROMETHEUS", address)
                .args(arguments);
            keeps_quiet(&run(command, ""), address);
        }
    }
    for flag in ["--notify", "--ai-url", "--control-api"] {
        for url in [
            "ftp://u:P-CANARY@h/PATH-CANARY",
            "http://127.0.0.1:1/PATH-CANARY?k=CANARY",
        ] {
            let mut command = plain();
            command
                .env("KUBECONFIG", &admin)
                .args(["score", "-v", flag, url]);
            keeps_quiet(&run(command, ""), url);
        }
    }
}

#[test]
fn socks5h_lets_the_proxy_resolve_the_servers_name() {
    let api: u16 = cluster()
        .api_server()
        .rsplit(':')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let (proxy, seen) = servers::socks5(api);
    let fields = json!({"server": format!("https://api.gpuctl.invalid:{api}"), "insecure-skip-tls-verify": true});
    let config = kubeconfig(
        "socks.kubeconfig",
        &fields,
        &json!({"token": cluster().token(Persona::Admin)}),
    );
    for scheme in ["socks5h", "socks5"] {
        let mut command = plain();
        command
            .env("KUBECONFIG", &config)
            .env("HTTPS_PROXY", format!("{scheme}://127.0.0.1:{proxy}"));
        command.args(["get", "nodes"]);
        let nodes = run(command, "").ok();
        assert!(nodes.out.contains("plain-01"), "{}", nodes.out);
    }
    let hosts = seen.lock().unwrap().clone();
    assert!(
        hosts.iter().all(|host| host == "host api.gpuctl.invalid") && hosts.len() > 1,
        "{hosts:?}"
    );

    let metrics = servers::prometheus(json!({"__name__": "up"}));
    let (proxy, seen) = servers::socks5(metrics);
    let mut command = plain();
    command.env("KUBECONFIG", cluster().kubeconfig(Persona::Admin));
    command.env("GPUCTL_PROMETHEUS", "http://prometheus.gpuctl.invalid:9090");
    command
        .env("HTTP_PROXY", format!("socks5h://127.0.0.1:{proxy}"))
        .args(["doctor", "-o", "json"]);
    run(command, "");
    let hosts = seen.lock().unwrap().clone();
    assert!(
        hosts.contains(&"host prometheus.gpuctl.invalid".to_owned()),
        "{hosts:?}"
    );
}

const JOB: &str = "kind: training
version: v0.1
job: {name: NAME, annotations: {example.com/passphrase: ANN-SECRET}}
environment:
  image: busybox:1.36
  command: [sleep, '1', --wandb-key, ARG-SECRET]
  env:
    HF_TOKEN: ENV-SECRET
    PLAIN: visible
resources: {gpu: 0, cpu: 1, memory: 1Gi}
";

#[test]
fn every_format_masks_the_same_values_and_the_mask_is_not_a_value() {
    let source = JOB.replace("NAME", "masked");
    let created = gpuctl_as(
        Persona::Admin,
        &["create", "-f", "-", "--allow-pending"],
        &source,
    )
    .ok();
    // The warning shows the line of the file with asterisks in place of secrets.
    let created = created
        .says("the file contains a value that looks like a token or password")
        .says("gpuctl create secret");
    for secret in ["ANN-SECRET", "ARG-SECRET", "ENV-SECRET"] {
        assert!(
            !created.err.contains(secret) && !created.out.contains(secret),
            "{}",
            created.err
        );
    }
    gpuctl_as(Persona::Admin, &["apply", "-f", "-"], &source)
        .ok()
        .says("looks like a token or password");
    for format in [&[][..], &["-o", "json"], &["-o", "yaml"]] {
        let shown = gpuctl_as(
            Persona::Admin,
            &[&["describe", "job", "masked"], format].concat(),
            "",
        )
        .ok()
        .out;
        assert!(
            shown.contains("***") && shown.contains("visible"),
            "{shown}"
        );
        for secret in ["ANN-SECRET", "ARG-SECRET", "ENV-SECRET"] {
            assert!(!shown.contains(secret), "{secret} in {format:?}: {shown}");
        }
    }
    let json = gpuctl_as(
        Persona::Admin,
        &["describe", "job", "masked", "-o", "json"],
        "",
    )
    .ok()
    .json();
    let printed = json["yamlContent"].as_str().unwrap();
    let refused = gpuctl_as(Persona::Admin, &["create", "-f", "-"], printed).exits(3);
    let refused = refused
        .says("the value of `HF_TOKEN` was masked")
        .says("--set environment.env.HF_TOKEN=VALUE");
    refused.says("a secret in `command` was masked");
    // A user may pipe this file to kubectl, so it is printed exactly as it would be sent.
    let dry = gpuctl_as(
        Persona::Admin,
        &["create", "-f", "-", "--dry-run", "-o", "yaml"],
        &JOB.replace("NAME", "dry"),
    );
    assert!(dry.ok().out.contains("ENV-SECRET"));
}

#[test]
fn config_view_shows_no_secret() {
    let config = file(
        "canary-config.yaml",
        "prometheus:
  url: http://u:U-CANARY@h:1/base?k=CANARY
  token_command: vault read -field=token CMD-CANARY
  headers: {X-Scope: HEAD-CANARY}
ai: {api_url: 'https://a:A-CANARY@ai.example.com/AI-CANARY?key=CANARY', api_key: KEY-CANARY}
control: {api_url: 'https://control.example.com/C-CANARY', headers: {X-Own: H-CANARY}}
notify: {url: 'https://hooks.example.com/N-CANARY', secret: S-CANARY}
",
    );
    for arguments in [
        &["config", "view"][..],
        &["config", "view", "--show-origin"],
        &["config", "view", "-o", "json"],
    ] {
        let mut command = plain();
        command.arg("--config").arg(&config).args(arguments);
        let shown = run(command, "").ok();
        keeps_quiet(&shown, "config view");
        assert!(
            shown.out.contains("https://ai.example.com/…") && shown.out.contains("vault …"),
            "{}",
            shown.out
        );
    }
}
