//! Rules of the sources that neither Cargo nor clippy knows. They read the tokens that the compiler
//! reads, without comments and without items that only tests have.

mod sources;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sources::{Source, named, paths, root, sources};

/// The modules of the program, bottom up. A module names only modules of lower floors.
const FLOORS: [&[&str]; 11] = [
    &["outbound", "serve", "concurrent"],
    &["terminal"],
    &["config"],
    &["context"],
    &["lookup"],
    &["deploy", "inside", "observe"],
    &["show"],
    // The table of verbs is a macro that makes the commands that `cli` parses.
    &["cli", "verbs"],
    &["mcp"],
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
fn modules_name_only_lower_floors() {
    let floor = |module: &str| FLOORS.iter().position(|floor| floor.contains(&module));
    let mut wrong = Vec::new();
    for (path, source) in sources() {
        let Some(module) = first_below("src", path) else {
            continue;
        };
        let own = floor(&module).unwrap_or_else(|| panic!("{module} is on no floor"));
        for named in paths(&source.words)
            .into_iter()
            .filter(|path| path[0] == "crate" && path[1] != module)
        {
            let is_below =
                floor(&named[1]).is_none_or(|other| other < own || FLOORS[own].contains(&"cli"));
            wrong.extend((!is_below).then(|| format!("{}: {}", path.display(), named.join("::"))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A workflow reports events and returns values, so that callers without a terminal can run it.
#[test]
fn workflows_do_not_print() {
    let prints = |source: &Source| {
        ["gpuctl_view", "terminal", "ExitCode"]
            .iter()
            .any(|word| source.words.iter().any(|other| other == word))
    };
    let found: Vec<_> = sources()
        .iter()
        .filter(|(path, source)| path.starts_with(root().join("src/deploy")) && prints(source))
        .map(|(path, _)| path)
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Files that name each other in a circle cannot be read one after the other.
#[test]
fn no_circle_of_files() {
    let all = sources();
    let graph: BTreeMap<_, _> = all
        .iter()
        .map(|(path, source)| (path.clone(), named(path, source, all)))
        .collect();
    let mut circles = Vec::new();
    for start in graph.keys() {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(next) = open.pop() {
            open.extend(
                graph[next]
                    .iter()
                    .filter(|other| seen.insert((*other).clone())),
            );
        }
        circles.extend(seen.contains(start).then_some(start));
    }
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn commands_do_not_name_each_other() {
    let all = sources();
    let wrong: Vec<_> = all
        .iter()
        .filter(|(path, _)| first_below("src", path).is_some_and(|module| module == "commands"))
        .flat_map(|(path, source)| {
            named(path, source, all)
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
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_file_is_one_idea_and_opens_with_it() {
    let all = sources();
    let silent: Vec<_> = all
        .iter()
        .filter(|(_, source)| !source.text.starts_with("//! "))
        .map(|(path, _)| path)
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
    let long: Vec<_> = all
        .iter()
        .filter(|(_, source)| source.text.lines().count() > 400)
        .map(|(path, _)| path)
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn operating_systems_differ_in_one_folder() {
    let only = [
        &["os", ":", ":", "unix"][..],
        &["signal", ":", ":", "unix"],
        &["cfg", "{", "unix"],
    ];
    let differs = |source: &Source| {
        only.iter()
            .any(|text| source.words.windows(text.len()).any(|words| words == *text))
    };
    let found: Vec<_> = sources()
        .iter()
        .filter(|(path, source)| {
            !path.starts_with(root().join("crates/local/src/platform")) && differs(source)
        })
        .map(|(path, _)| path)
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}
