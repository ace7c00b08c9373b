//! Applies CONTRIBUTING.md's example of a new verb to a copy of the tree and compiles it. A block
//! with a path becomes that file, and a `diff` block inserts lines into the files that it names.
#![expect(
    clippy::disallowed_methods,
    reason = "this test copies the tree and runs cargo"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A change to a file of the tree.
#[derive(Debug)]
enum Step {
    /// A new file.
    Create { path: PathBuf, text: String },
    /// Inserts text in place of existing lines.
    Insert {
        path: PathBuf,
        before: String,
        after: String,
    },
}

/// Parses the fenced blocks of a section. Returns the info string and the lines of each, without
/// the indentation of the fence.
fn blocks(section: &str) -> Vec<(String, Vec<String>)> {
    let mut blocks = Vec::new();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some((indent, kind)) = line.split_once("```") else {
            continue;
        };
        let inner = lines
            .by_ref()
            .take_while(|line| line.trim() != "```")
            .map(|line| line.strip_prefix(indent).unwrap_or(line).to_owned());
        blocks.push((kind.to_owned(), inner.collect()));
    }
    blocks
}

fn text<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

/// Parses a `diff` block.
fn insertions(lines: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    let files = lines.split(|line| line.starts_with("+++ ")).skip(1);
    let names = lines.iter().filter_map(|line| line.strip_prefix("+++ "));
    for (path, lines) in names.zip(files) {
        let kept = lines.iter().filter_map(|line| line.strip_prefix(' '));
        steps.push(Step::Insert {
            path: path.into(),
            before: text(kept),
            after: text(lines.iter().map(|line| &line[1..])),
        });
    }
    steps
}

/// Parses the section "Adding a verb".
fn steps() -> Vec<Step> {
    let document = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let section = document
        .split("\n## ")
        .find(|section| section.starts_with("Adding a verb\n"))
        .expect("the document has the section \"Adding a verb\"");
    let mut steps = Vec::new();
    for (kind, lines) in blocks(section) {
        match kind.split_once(' ') {
            Some(("rust", path)) => steps.push(Step::Create {
                path: path.into(),
                text: text(lines.iter().map(String::as_str)),
            }),
            None if kind == "diff" => steps.extend(insertions(&lines)),
            _ => panic!("a block of an unknown kind: {kind}"),
        }
    }
    steps
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads every file below a folder, except in hidden folders and in cargo's `target`.
fn read(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_file() {
            files.insert(path.clone(), fs::read(&path).unwrap());
        } else if path.is_dir() && name != "target" && !name.starts_with('.') {
            read(&path, files);
        }
    }
}

/// Reads the files below a folder and maps them by relative path. Returns none if the folder does
/// not exist.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    if folder.exists() {
        read(folder, &mut files);
    }
    let relative = |(path, bytes): (PathBuf, _)| (path.strip_prefix(folder).unwrap().into(), bytes);
    files.into_iter().map(relative).collect()
}

/// Makes a folder contain exactly these files. Writes only the files that differ, because cargo
/// recompiles every file that is newer than its last run.
fn write(folder: &Path, expected: &BTreeMap<PathBuf, Vec<u8>>) {
    let present = tree(folder);
    for path in present.keys().filter(|path| !expected.contains_key(*path)) {
        fs::remove_file(folder.join(path)).unwrap();
    }
    for (path, bytes) in expected {
        if present.get(path) != Some(bytes) {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
}

#[test]
fn the_verb_in_contributing_compiles() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contributing");
    let mut files = tree(root());
    for step in steps() {
        match step {
            Step::Create { path, text } => {
                let old = files.insert(path.clone(), text.into_bytes());
                assert!(old.is_none(), "{} exists already", path.display());
            }
            Step::Insert {
                path,
                before,
                after,
            } => {
                let old = files
                    .get_mut(&path)
                    .unwrap_or_else(|| panic!("{path:?} is missing"));
                let text = String::from_utf8(old.clone()).unwrap();
                assert!(text.contains(&before), "{path:?} does not contain {before}");
                *old = text.replacen(&before, &after, 1).into_bytes();
            }
        }
    }
    let copy = folder.join("tree");
    write(&copy, &files);
    let output = Command::new(env!("CARGO"))
        .args([
            "check",
            "--offline",
            "--package",
            "gpuctl",
            "--lib",
            "--quiet",
        ])
        .arg("--target-dir")
        .arg(folder.join("target"))
        .env("RUSTFLAGS", "-D warnings")
        .current_dir(&copy)
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
}

#[test]
fn a_verb_needs_changes_to_three_existing_files() {
    let steps = steps();
    let is_of_program = |path: &Path| path.starts_with("src");
    let places = steps
        .iter()
        .filter(|step| matches!(step, Step::Insert { path, .. } if is_of_program(path)));
    assert_eq!(places.count(), 3, "{steps:#?}");
}
