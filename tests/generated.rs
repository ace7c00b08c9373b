//! Completions, manual pages, schemas of JSON output, and the tables of settings and checks are
//! generated from the program. `GPUCTL_REWRITE=1 cargo test --test generated` writes them. Without
//! the variable, this test reports files that are out of date.
#![expect(
    clippy::disallowed_methods,
    reason = "this test reads and writes committed files"
)]

use std::fs;
use std::path::{Path, PathBuf};

use gpuctl::generated;
use gpuctl_view::files::validated;

fn files() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scripts = generated::completion_scripts().unwrap();
    let scripts = scripts
        .into_iter()
        .map(|(name, text)| (root.join("completions").join(name), text));
    let pages = generated::manual_pages()
        .unwrap()
        .into_iter()
        .map(|(name, text)| (root.join("man").join(name), text));
    let reference = (
        root.join("docs/configuration.md"),
        generated::configuration(),
    );
    let specification = (root.join("docs/yaml.md"), generated::specification());
    let validation = (
        root.join("docs/validation.md"),
        with_checks(&fs::read_to_string(root.join("docs/validation.md")).unwrap()),
    );
    let schemas = (
        root.join("schemas/answers.json"),
        generated::schemas_of_answers(),
    );
    scripts
        .into_iter()
        .chain(pages)
        .chain([reference, specification, validation, schemas])
        .collect()
}

/// Returns the checks page with its table regenerated.
fn with_checks(page: &str) -> String {
    let (begin, end) = ("<!-- checks -->\n", "<!-- end of checks -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{begin}{}{end}{after}", validated::reference())
}

#[test]
fn generated_files_are_current() {
    let rewrite = std::env::var_os("GPUCTL_REWRITE").is_some();
    let mut outdated = Vec::new();
    for (path, text) in files() {
        if rewrite {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != text {
            outdated.push(path);
        }
    }
    assert!(
        outdated.is_empty(),
        "run `GPUCTL_REWRITE=1 cargo test --test generated`; outdated: {outdated:#?}"
    );
}

#[test]
fn generated_folders_contain_no_stale_files() {
    let generated_paths: Vec<PathBuf> = files().into_iter().map(|(path, _)| path).collect();
    for folder in ["completions", "man", "schemas"] {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            assert!(
                generated_paths.contains(&path),
                "{} belongs to no command",
                path.display()
            );
        }
    }
}

#[test]
fn the_manual_lists_every_exit_code() {
    let page = &generated::manual_pages().unwrap()[0].1;
    let codes = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "130",
        "143",
    ];
    for code in codes {
        assert!(page.contains(&format!(".TP\n{code}\n")), "{code}: {page}");
    }
}
