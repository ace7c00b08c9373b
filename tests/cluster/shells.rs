//! Tests completion in real shells, where a user presses Tab. Missing shells are installed with
//! apt-get. If that fails, so does the test.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona, eventually};

use crate::runner::{finish, gpuctl, run};

/// Installs a shell if it is missing.
fn shell(name: &str) {
    let is_installed = || {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if is_installed() {
        return;
    }
    let install = |arguments: &[&str]| {
        Command::new("apt-get")
            .args(arguments)
            .stdout(Stdio::null())
            .status()
    };
    let _ = install(&["update", "--quiet"]);
    let _ = install(&[
        "install",
        "--yes",
        "--quiet",
        "--no-install-recommends",
        name,
    ]);
    assert!(
        is_installed(),
        "`{name}` is not installed, and apt-get cannot install it"
    );
}

/// Runs a script in a shell and returns its output. The shell has the cluster's kubeconfig, and
/// gpuctl comes first in PATH.
fn output_of(cluster: &Cluster, name: &str, arguments: &[&str], script: &str) -> String {
    let program_folder = Path::new(env!("CARGO_BIN_EXE_gpuctl"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    let path = format!("{program_folder}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command
        .args(arguments)
        .arg(script)
        .env("PATH", path)
        .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin));
    command
        .env("HOME", cluster.folder())
        .env("TERM", "dumb")
        .env("GPUCTL_PROMETHEUS", "none")
        .stdin(Stdio::null());
    let Output { stdout, stderr, .. } = command.output().unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    )
}

const BASH: &str = r#"
source <(gpuctl completion bash)
line="$0"
read -ra COMP_WORDS <<< "$line"
[[ "$line" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )) COMP_LINE="$line" COMP_POINT=${#line} COMP_TYPE=9
function=$(complete -p gpuctl | sed -E 's/.*-F ([^ ]+).*/\1/')
"$function" gpuctl "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$((COMP_CWORD - 1))]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// zsh completes only at a prompt, so the test gives it a pseudo-terminal.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty -b z zsh -f -i
zpty -w z 'PS1="<prompt>"; autoload -Uz compinit; compinit -u; source <(gpuctl completion zsh); setopt no_auto_menu; LISTMAX=10000; zstyle ":completion:*" list-grouped no'
sleep 2
zpty -w -n z "$0"$'\t'
sleep 2
zpty -n -w z $'\t'
sleep 2
while zpty -r -t z chunk; do print -rn -- "$chunk"; done
zpty -d z
"#;

#[test]
fn every_shell_completes_live_names_before_options() {
    for name in ["bash", "zsh", "fish"] {
        shell(name);
    }
    let cluster = Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
    let product = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
    cluster.add_nodes(&[in_pool(
        node("gpu-z-01", Some(product), &[("nvidia.com/gpu", 8)]),
        "deep-pool",
    )]);
    for name in ["bert-large", "bert-small"] {
        let mut command = gpuctl();
        command.env("KUBECONFIG", cluster.kubeconfig(Persona::Admin));
        command.args([
            "run",
            "--name",
            name,
            "--image",
            "busybox:1",
            "--gpus",
            "1",
            "--wait",
            "--timeout",
            "60s",
            "--",
            "sleep",
            "600",
        ]);
        run(command, "").ok();
    }
    let bash = |line: &str| output_of(&cluster, "bash", &["--norc", "-c", BASH], line);
    let fish = |line: &str| {
        output_of(
            &cluster,
            "fish",
            &["--no-config", "-c"],
            &format!("gpuctl completion fish | source; complete -C '{line}'"),
        )
    };
    for complete in [&bash as &dyn Fn(&str) -> String, &fish] {
        for (line, wanted) in [
            ("gpuctl logs bert-", &["bert-large", "bert-small"][..]),
            ("gpuctl describe job ", &["bert-large", "bert-small"]),
            ("gpuctl get job ", &["bert-large"]),
            ("gpuctl describe node gpu-", &["gpu-z-01"]),
            ("gpuctl get jobs --pool ", &["deep-pool"]),
            ("gpuctl get nodes --gpu-type ", &["a100-80g"]),
            ("gpuctl get jobs -n kube-sys", &["kube-system"]),
            ("gpuctl logs -n kube-system def", &["default/bert-large"]),
            ("gpuctl --context ", &["admin"]),
            ("gpuctl who gpu gpu-z-01/", &["gpu-z-01/7"]),
            ("gpuctl explain resources.gpu", &["resources.gpu-type"]),
            ("gpuctl cp bert-l", &["bert-large:/"]),
            ("gpuctl exec bert-large --pod bert", &["bert-large-0-"]),
            ("gpuctl get jobs --status ru", &["running"]),
            ("gpuctl init --preset v", &["vllm"]),
            ("gpuctl get jobs --out", &["--output"]),
        ] {
            // On a busy machine, completion gives up early so that it does not block typing. The
            // user presses Tab again.
            let what = format!("`{line}` is completed with {wanted:?}");
            let output = eventually(&what, Duration::from_secs(60), || {
                let output = complete(line);
                if wanted.iter().all(|word| output.contains(word)) {
                    Ok(output)
                } else {
                    Err(output)
                }
            });
            // Options are offered only once the user has typed a dash.
            assert!(
                line.contains("--out") || !output.contains("--output"),
                "{line}: {output}"
            );
        }
        // Offers the full names of resources, but not their short forms.
        let nouns = complete("gpuctl get ");
        assert!(
            nouns.contains("jobs")
                && !nouns
                    .lines()
                    .any(|line| matches!(line.trim(), "jo" | "no" | "wl")),
            "{nouns}"
        );
    }
    let complete = || output_of(&cluster, "zsh", &["-f", "-c", ZSH], "gpuctl logs ");
    let limit = Duration::from_secs(90);
    let zsh = eventually("zsh completes the names of jobs", limit, || {
        let output = complete();
        if output.contains("bert-") {
            Ok(output)
        } else {
            Err(output)
        }
    });
    assert!(!zsh.contains("--output"), "{zsh}");

    // If the cluster is unreachable, only the names are missing.
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", BASH, "gpuctl logs "])
        .env("KUBECONFIG", "/nonexistent")
        .env("HOME", cluster.folder());
    let program_folder = Path::new(env!("CARGO_BIN_EXE_gpuctl"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    command
        .env(
            "PATH",
            format!("{program_folder}:{}", std::env::var("PATH").unwrap()),
        )
        .stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let silent = finish(child, Duration::from_secs(10)).ok();
    // `--first-error` is an option, not an error message.
    assert!(!silent.out.contains("error:"), "{}", silent.out);
    assert_eq!(silent.err, "");
}
