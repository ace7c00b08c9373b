//! Tests that the commands which `why` suggests exist, by the program's own command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use gpuctl_view::files::reference;
use regex::Regex;

use crate::cli::Cli;

/// Placeholders of options in format strings, which may be empty.
const OPTIONS: [&str; 4] = ["{replace}", "{previous}", "{pod_option}", "{container}"];

#[expect(
    clippy::disallowed_methods,
    reason = "the suggestions are in the sources of another package"
)]
fn sources() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/diagnosis/src");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| {
        path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs")
    });
    sources
        .map(|path| (path.clone(), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// The string literals of the diagnosis that begin with this program. Those that end with a space
/// are only the beginning of a command.
fn literals(program: &str) -> Vec<String> {
    let literal = Regex::new(&format!(r#""({program} [^"\n]+)""#)).unwrap();
    let sources = sources();
    let commands = sources.iter().flat_map(|(_, source)| {
        literal
            .captures_iter(source)
            .map(|found| found[1].to_owned())
    });
    commands.filter(|command| !command.ends_with(' ')).collect()
}

/// Replaces the placeholders of a format string by names.
fn filled(command: &str) -> String {
    let command = OPTIONS
        .iter()
        .fold(command.to_owned(), |text, option| text.replace(option, ""))
        .replace("{field}", "resources.gpu=4")
        .replace("--slots {}", "--slots 4");
    Regex::new(r"\{[^}]*\}")
        .unwrap()
        .replace_all(&command, "team-a")
        .into_owned()
}

#[test]
fn suggested_commands_of_gpuctl_parse() {
    let commands = literals("gpuctl");
    assert!(commands.len() > 20, "{commands:#?}");
    for command in &commands {
        let line = filled(command);
        if let Err(error) = Cli::try_parse_from(line.split_whitespace()) {
            panic!("`{command}`: {error}");
        }
    }
    for options in ["--rank 3", "--pod t-0 --previous", "-c val --previous"] {
        let line = format!("gpuctl logs team-a/t {options}");
        assert!(
            Cli::try_parse_from(line.split_whitespace()).is_ok(),
            "{line}"
        );
    }
}

#[test]
fn suggested_fields_exist() {
    let explained = Regex::new(r"^gpuctl explain ([a-z_.]+)$").unwrap();
    let set = Regex::new(r#""([a-z]+\.[a-z_]+)=[^"]*""#).unwrap();
    let pair = Regex::new(r#"^ *\("([a-z]+\.[a-z_]+)", "pod\."#).unwrap();
    let mut fields: Vec<String> = literals("gpuctl")
        .iter()
        .filter_map(|command| Some(explained.captures(command)?[1].to_owned()))
        .collect();
    for (_, source) in sources() {
        fields.extend(set.captures_iter(&source).map(|found| found[1].to_owned()));
        let lines = source.lines().filter_map(|line| pair.captures(line));
        fields.extend(lines.map(|found| found[1].to_owned()));
    }
    // `pod` accepts every field of a Kubernetes pod.
    fields.retain(|field| !field.starts_with("pod."));
    assert!(fields.len() > 10, "{fields:?}");
    for field in fields {
        assert!(reference::find(&field).is_ok(), "no field {field}");
    }
}

#[test]
fn suggested_commands_of_kubectl_name_the_namespace() {
    // Objects outside namespaces, and the types of objects.
    const CLUSTER: [&str; 10] = [
        "admissioncheck",
        "deviceclasses",
        "resourceslices",
        "storageclasses",
        "priorityclasses",
        "webhookconfigurations",
        "get namespace ",
        "get pods -A",
        "kubectl explain ",
        "kubectl uncordon ",
    ];
    const VERBS: [&str; 10] = [
        "create", "delete", "describe", "edit", "explain", "get", "logs", "patch", "scale",
        "uncordon",
    ];
    for command in literals("kubectl") {
        let verb = command.split(' ').nth(1).unwrap();
        assert!(VERBS.contains(&verb), "{command}");
        let is_complete = command.contains(" -n {");
        assert!(
            is_complete || CLUSTER.iter().any(|part| command.contains(part)),
            "{command}"
        );
    }
}
