//! Enforces source rules that neither Cargo nor clippy checks. They look only at tokens, without
//! comments and test-only items.

mod sources;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sources::{Source, paths, root, sources, used_files};

/// The program's modules, lowest layer first. A module may use only modules in lower layers.
const LAYERS: [&[&str]; 11] = [
    &["outbound", "serve", "concurrent"],
    &["terminal"],
    &["config"],
    &["context"],
    &["lookup"],
    &["deploy", "inside", "observe"],
    &["show"],
    // The table of verbs is a macro that generates the commands that `cli` parses.
    &["cli", "verbs"],
    &["mcp", "selection"],
    &["commands"],
    &["cost", "fuzz", "generated", "lib", "main"],
];

fn first_below(folder: &str, path: &Path) -> Option<String> {
    let below = path.strip_prefix(root().join(folder)).ok()?;
    Some(
        below
            .iter()
            .next()?
            .to_str()?
            .trim_end_matches(".rs")
            .to_owned(),
    )
}

#[test]
fn modules_use_only_lower_layers() {
    let layer_of = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
    let mut violations = Vec::new();
    for (path, source) in sources() {
        let Some(module) = first_below("src", path) else {
            continue;
        };
        let layer = layer_of(&module).unwrap_or_else(|| panic!("{module} has no layer"));
        for used in paths(&source.words)
            .into_iter()
            .filter(|path| path[0] == "crate" && path[1] != module)
        {
            let is_below = layer_of(&used[1])
                .is_none_or(|other| other < layer || LAYERS[layer].contains(&"cli"));
            violations
                .extend((!is_below).then(|| format!("{}: {}", path.display(), used.join("::"))));
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Workflows report events and return values, so that callers without a terminal can use them.
#[test]
fn workflows_do_not_print() {
    let prints = |source: &Source| {
        ["gpuctl_view", "terminal", "ExitCode"]
            .iter()
            .any(|word| source.words.iter().any(|other| other == word))
    };
    let files: Vec<_> = sources()
        .iter()
        .filter(|(path, source)| path.starts_with(root().join("src/deploy")) && prints(source))
        .map(|(path, _)| path)
        .collect();
    assert!(files.is_empty(), "{files:#?}");
}

/// Files in a dependency cycle cannot be read one after another.
#[test]
fn files_have_no_dependency_cycles() {
    let all = sources();
    let graph: BTreeMap<_, _> = all
        .iter()
        .map(|(path, source)| (path.clone(), used_files(path, source, all)))
        .collect();
    let mut cycles = Vec::new();
    for start in graph.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(next) = open.pop() {
            open.extend(
                graph[next]
                    .iter()
                    .filter(|other| seen.insert((*other).clone())),
            );
        }
        cycles.extend(seen.contains(start).then_some(start));
    }
    assert!(cycles.is_empty(), "{cycles:#?}");
}

#[test]
fn commands_do_not_use_each_other() {
    let all = sources();
    let violations: Vec<_> = all
        .iter()
        .filter(|(path, _)| first_below("src", path).is_some_and(|module| module == "commands"))
        .flat_map(|(path, source)| {
            used_files(path, source, all)
                .into_iter()
                .map(move |other| (path, other))
        })
        .filter(|(path, other)| {
            let runs = |path: &Path| {
                all[path]
                    .words
                    .windows(3)
                    .any(|words| words == ["async", "fn", "run"])
            };
            other.starts_with(root().join("src/commands"))
                && runs(other)
                && path.parent() != Some(&other.with_extension(""))
        })
        .collect();
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn files_have_a_header_and_at_most_400_lines() {
    let all = sources();
    let without_header: Vec<_> = all
        .iter()
        .filter(|(_, source)| !source.text.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(without_header.is_empty(), "{without_header:#?}");
    let long: Vec<_> = all
        .iter()
        .filter(|(_, source)| source.text.lines().count() > 400)
        .map(|(path, _)| path)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn code_for_one_operating_system_is_in_one_folder() {
    let unix_paths = [
        &["os", ":", ":", "unix"][..],
        &["signal", ":", ":", "unix"],
        &["cfg", "{", "unix"],
    ];
    let is_specific = |source: &Source| {
        unix_paths
            .iter()
            .any(|text| source.words.windows(text.len()).any(|words| words == *text))
    };
    let files: Vec<_> = sources()
        .iter()
        .filter(|(path, source)| {
            !path.starts_with(root().join("crates/local/src/platform")) && is_specific(source)
        })
        .map(|(path, _)| path)
        .collect();
    assert!(files.is_empty(), "{files:#?}");
}
