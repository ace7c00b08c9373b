//! Completion in real shells, as a person meets it at the tab key. Shells that this machine lacks
//! are installed by its package manager; one that cannot be had fails the test.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Options, Persona};

use crate::runner::{finish, gpuctl, run};

/// Makes sure that a shell is there.
fn shell(name: &str) {
    let there = || {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    };
    if there() {
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
        there(),
        "`{name}` is not installed, and apt-get cannot install it"
    );
}

/// What a shell answers to a script, with the cluster's kubeconfig and our program first in its
/// path.
fn answer(cluster: &Cluster, name: &str, arguments: &[&str], script: &str) -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_gpuctl"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    let path = format!("{own}:{}", std::env::var("PATH").unwrap());
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

/// zsh completes only at a prompt, so it gets one in a pseudo-terminal of its own.
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
    let bash = |line: &str| answer(&cluster, "bash", &["--norc", "-c", BASH], line);
    let fish = |line: &str| {
        answer(
            &cluster,
            "fish",
            &["--no-config", "-c"],
            &format!("gpuctl completion fish | source; complete -C '{line}'"),
        )
    };
    for ask in [&bash as &dyn Fn(&str) -> String, &fish] {
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
            // Whoever waits for the next key is not kept waiting on a busy machine; the tab key is
            // pressed again.
            let mut told = ask(line);
            for _ in 0..20 {
                if wanted.iter().all(|word| told.contains(word)) {
                    break;
                }
                told = ask(line);
            }
            assert!(
                wanted.iter().all(|word| told.contains(word)),
                "{line}: {told}"
            );
            // Options are for whoever has begun one.
            assert!(
                line.contains("--out") || !told.contains("--output"),
                "{line}: {told}"
            );
        }
        // Full names, and none of their short forms.
        let nouns = ask("gpuctl get ");
        assert!(
            nouns.contains("jobs")
                && !nouns
                    .lines()
                    .any(|line| matches!(line.trim(), "jo" | "no" | "wl")),
            "{nouns}"
        );
    }
    let ask = || answer(&cluster, "zsh", &["-f", "-c", ZSH], "gpuctl logs ");
    let zsh = (0..5)
        .map(|_| ask())
        .find(|told| told.contains("bert-"))
        .unwrap_or_default();
    assert!(zsh.contains("bert-") && !zsh.contains("--output"), "{zsh}");

    // A cluster that does not answer costs a person nothing but the names.
    let mut command = Command::new("bash");
    command
        .args(["--norc", "-c", BASH, "gpuctl logs "])
        .env("KUBECONFIG", "/nonexistent")
        .env("HOME", cluster.folder());
    let own = Path::new(env!("CARGO_BIN_EXE_gpuctl"))
        .parent()
        .unwrap()
        .display()
        .to_string();
    command
        .env("PATH", format!("{own}:{}", std::env::var("PATH").unwrap()))
        .stdin(Stdio::null());
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let silent = finish(child, Duration::from_secs(10)).ok();
    // `--first-error` is an option.
    assert!(!silent.out.contains("error:"), "{}", silent.out);
    assert_eq!(silent.err, "");
}
