//! The house rules that a compiler does not know: which module may name which, how long a file may be, how it opens.
#![expect(clippy::disallowed_methods, reason = "this test reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Module → the modules of ours that it may name.
const MAY_NAME: [(&str, &[&str]); 16] = [
    ("model", &["model"]),
    ("spec", &["spec", "model"]),
    ("render", &["render", "spec", "model"]),
    ("stats", &["stats", "model"]),
    ("view", &["view", "stats", "model", "spec", "error"]),
    ("cluster", &["cluster", "model", "render"]),
    ("prometheus", &["prometheus", "model"]),
    ("error", &["error", "cluster", "prometheus", "render", "spec"]),
    ("terminal", &["terminal", "view", "error", "spec"]),
    ("config", &["config", "files", "model", "prometheus", "terminal"]),
    ("cache", &["files"]),
    ("convert", &["convert", "model", "spec"]),
    ("files", &[]),
    ("outbound", &["files", "outbound"]),
    ("serve", &[]),
    (
        "cli",
        &[
            "cache",
            "cli",
            "convert",
            "cluster",
            "config",
            "error",
            "files",
            "model",
            "outbound",
            "prometheus",
            "render",
            "serve",
            "spec",
            "stats",
            "terminal",
            "view",
        ],
    ),
];

/// Module → crates that it never names.
const NEVER: [(&str, &[&str]); 6] = [
    ("model", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("spec", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("render", &["kube", "tokio", "clap", "colored", "jiff"]),
    ("stats", &["kube", "k8s_openapi", "tokio", "clap", "colored"]),
    ("view", &["kube", "k8s_openapi", "tokio", "clap"]),
    ("cli", &["kube", "k8s_openapi"]),
];

fn sources() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found.sort();
    assert!(found.len() > 20);
    found
}

/// The module of `src/view/jobs.rs` is `view`.
fn module(path: &Path) -> String {
    let below = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// A file without its tests, which may use what they like.
fn logic(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap().to_owned()
}

#[test]
fn modules_name_only_what_the_map_allows() {
    let mut wrong = Vec::new();
    for path in sources() {
        let module = module(&path);
        let Some((_, allowed)) = MAY_NAME.iter().find(|(name, _)| *name == module) else { continue };
        let text = logic(&path);
        for (index, _) in text.match_indices("crate::") {
            let named: String = text[index + 7..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if !allowed.contains(&named.as_str()) {
                wrong.push(format!("{}: names crate::{named}", path.display()));
            }
        }
        for name in NEVER.iter().filter(|(name, _)| *name == module).flat_map(|(_, names)| *names) {
            if text.contains(&format!("{name}::")) {
                wrong.push(format!("{}: names the crate {name}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_file_is_one_idea() {
    let long: Vec<_> = sources().into_iter().filter(|path| fs::read_to_string(path).unwrap().lines().count() > 400).collect();
    assert!(long.is_empty(), "over 400 lines: {long:#?}");
}

#[test]
fn every_file_opens_with_why_it_exists() {
    let silent: Vec<_> = sources().into_iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//! ")).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn only_the_terminal_writes_to_streams() {
    for path in sources().into_iter().filter(|path| !path.ends_with("terminal.rs") && !path.ends_with("terminal/screen.rs")) {
        let text = logic(&path);
        for word in ["println!", "eprintln!", "io::stdout", "io::stderr"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}
