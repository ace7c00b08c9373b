//! Tokenizes the sources, without comments and test-only items, and resolves which other files each
//! file uses.
#![expect(clippy::disallowed_methods, reason = "this test reads the sources")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Item;

pub struct Source {
    pub text: String,
    pub words: Vec<String>,
    /// Names of the types that the file declares outside functions.
    pub types: Vec<String>,
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, sources: &mut BTreeMap<PathBuf, Source>) {
    for path in fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if path.is_dir() {
            walk(&path, sources);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let mut file = syn::parse_file(&text).unwrap();
            file.items.retain(|item| {
                !item
                    .to_token_stream()
                    .to_string()
                    .starts_with("# [cfg (test")
            });
            let mut words = Vec::new();
            flatten(file.to_token_stream(), &mut words);
            let mut types = Vec::new();
            declared_types(&file.items, &mut types);
            sources.insert(path, Source { text, words, types });
        }
    }
}

fn declared_types(items: &[Item], types: &mut Vec<String>) {
    for item in items {
        types.push(match item {
            Item::Struct(item) => item.ident.to_string(),
            Item::Enum(item) => item.ident.to_string(),
            Item::Trait(item) => item.ident.to_string(),
            Item::Type(item) => item.ident.to_string(),
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    declared_types(items, types);
                }
                continue;
            }
            _ => continue,
        });
    }
}

/// All packages' sources, except test files.
pub fn sources() -> &'static BTreeMap<PathBuf, Source> {
    static SOURCES: OnceLock<BTreeMap<PathBuf, Source>> = OnceLock::new();
    SOURCES.get_or_init(read_sources)
}

fn read_sources() -> BTreeMap<PathBuf, Source> {
    let mut sources = BTreeMap::new();
    ["src", "crates"]
        .iter()
        .for_each(|folder| walk(&root().join(folder), &mut sources));
    let is_test = |path: &Path| {
        path.iter().any(|part| {
            part.to_str()
                .unwrap()
                .trim_end_matches(".rs")
                .ends_with("tests")
        })
    };
    sources.retain(|path, _| !is_test(path));
    assert!(sources.len() > 500);
    sources
}

fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    for tree in tokens {
        if let TokenTree::Group(group) = tree {
            words.push("{".to_owned());
            flatten(group.stream(), words);
            words.push("}".to_owned());
        } else {
            words.push(tree.to_string());
        }
    }
}

/// Parses the path at a token: `a::{b, c::d}` yields `a b` and `a c d`. Returns the index after it.
fn read_path(
    words: &[String],
    mut at: usize,
    before: &[String],
    paths: &mut Vec<Vec<String>>,
) -> usize {
    if words[at] == "{" {
        at += 1;
        while words[at] != "}" {
            at = if words[at] == "," {
                at + 1
            } else {
                read_path(words, at, before, paths)
            };
        }
        return at + 1;
    }
    let path = [before, &words[at..=at]].concat();
    if words
        .get(at + 1..at + 3)
        .is_some_and(|next| next == [":", ":"])
    {
        return read_path(words, at + 3, &path, paths);
    }
    paths.push(path);
    // An import can rename its path: `as b`.
    if words.get(at + 1).is_some_and(|word| word == "as") {
        at + 3
    } else {
        at + 1
    }
}

/// Paths that begin with `crate` or `super`.
pub fn paths(words: &[String]) -> Vec<Vec<String>> {
    let begins =
        |at: usize| ["crate", "super"].contains(&words[at].as_str()) && words[at + 1] == ":";
    let starts = (0..words.len()).filter(|at| begins(*at) && (*at == 0 || words[at - 1] != ":"));
    let mut parsed = Vec::new();
    starts.for_each(|at| {
        read_path(words, at, &[], &mut parsed);
    });
    parsed
}

fn module_file(folder: &Path, all: &BTreeMap<PathBuf, Source>) -> Option<PathBuf> {
    ["mod.rs", "lib.rs"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|path| all.contains_key(path))
}

/// Resolves a module path to its file, following re-exports.
fn resolve(folder: &Path, path: &[String], all: &BTreeMap<PathBuf, Source>) -> Option<PathBuf> {
    let (word, rest) = path.split_first()?;
    let (next, file) = (folder.join(word), folder.join(format!("{word}.rs")));
    if next.is_dir()
        && let Some(file_below) = resolve(&next, rest, all)
    {
        return Some(file_below);
    }
    if all.contains_key(&file) {
        return Some(file);
    }
    let words = &all.get(&module_file(folder, all)?)?.words;
    let mut exported = Vec::new();
    (1..words.len())
        .filter(|at| words[at - 1] == "use")
        .for_each(|at| {
            read_path(words, at, &[], &mut exported);
        });
    let reexport = exported
        .iter()
        .find(|path| path.len() > 1 && path.last() == Some(word))?;
    (reexport[0] != "crate" && !reexport[0].starts_with("gpuctl_"))
        .then(|| resolve(folder, reexport, all))?
}

pub fn used_files(
    path: &Path,
    source: &Source,
    all: &BTreeMap<PathBuf, Source>,
) -> BTreeSet<PathBuf> {
    let package = path
        .ancestors()
        .find(|folder| folder.ends_with("src"))
        .unwrap();
    // In `mod.rs` and `lib.rs`, `super` is the parent of the folder.
    let module = if module_file(path.parent().unwrap(), all).as_deref() == Some(path) {
        path.parent().unwrap()
    } else {
        path
    };
    let files = paths(&source.words).into_iter().filter_map(|path| {
        let ups = path.iter().take_while(|word| *word == "super").count();
        let folder = if ups == 0 {
            package
        } else {
            module.ancestors().nth(ups)?
        };
        resolve(folder, &path[ups.max(1)..], all)
    });
    files.filter(|other| other != path).collect()
}
