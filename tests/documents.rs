//! Checks the documentation against the program: commands in it parse, its YAML and the examples
//! are valid, and every dependency is listed.
#![expect(clippy::disallowed_methods, reason = "this test reads committed files")]

use std::fs;
use std::path::{Path, PathBuf};

use gpuctl::generated;
use gpuctl_manifest::spec;
use regex::Regex;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name))
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the fenced code blocks in this language.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    text.split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| {
            block
                .strip_prefix(kind)?
                .strip_prefix('\n')
                .map(ToOwned::to_owned)
        })
        .collect()
}

/// Returns the README in both languages, and every page in `docs/` and `docs/guides/`.
fn pages() -> Vec<String> {
    let in_folder = |folder: &str| -> Vec<String> {
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".md"))
            .map(|name| format!("{folder}/{name}"))
            .collect()
    };
    let pages: Vec<String> = [in_folder("docs"), in_folder("docs/guides")].concat();
    assert!(pages.len() >= 21, "{pages:?}");
    ["README.md", "README.zh-CN.md"]
        .map(str::to_owned)
        .into_iter()
        .chain(pages)
        .collect()
}

#[test]
fn commands_in_the_documents_parse() {
    let mut count = 0;
    for block in pages()
        .iter()
        .flat_map(|page| blocks(&read(page), "console"))
    {
        for line in block
            .lines()
            .filter_map(|line| line.strip_prefix("$ gpuctl "))
        {
            let words = line
                .split_whitespace()
                .take_while(|word| !matches!(*word, ">" | "#" | "|"));
            let words: Vec<&str> = ["gpuctl"].into_iter().chain(words).collect();
            if let Err(error) = generated::command().try_get_matches_from(generated::expand(&words))
            {
                panic!("{line}: {error}");
            }
            count += 1;
        }
    }
    assert!(count > 40);
}

/// Whether gpuctl can read this YAML with `-f`. Guides also show prices, budgets and Kueue objects,
/// which it cannot.
fn is_job_file(yaml: &str) -> bool {
    yaml.contains("kind: ") && !yaml.contains("apiVersion: ")
}

#[test]
fn yaml_of_the_readme_and_the_examples_is_valid() {
    let mut files: Vec<(String, String)> = pages()
        .into_iter()
        .flat_map(|page| {
            blocks(&read(&page), "yaml")
                .into_iter()
                .filter(|text| is_job_file(text))
                .map(move |text| (page.clone(), text))
        })
        .collect();
    assert!(files.len() >= 15, "{}", files.len());
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            files.push((
                path.display().to_string(),
                fs::read_to_string(path).unwrap(),
            ));
        }
    }
    for (name, text) in files {
        let parsed = spec::parse(&name, &text)
            .unwrap_or_else(|problems| panic!("{problems}: {:#?}", problems.list));
        assert!(
            parsed.warnings.list.is_empty(),
            "{name}: {:#?}",
            parsed.warnings.list
        );
    }
}

#[test]
fn every_dependency_is_listed_in_the_architecture() {
    let manifest = read("Cargo.toml");
    let section = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .unwrap()
        .split("\n[")
        .next()
        .unwrap();
    let architecture = read("ARCHITECTURE.md");
    let names: Vec<&str> = section
        .lines()
        .filter_map(|line| line.split(['=', '.', ' ']).next())
        .filter(|name| !name.is_empty())
        .collect();
    assert!(names.len() > 20);
    for name in names {
        assert!(
            architecture.contains(&format!("\n| {name} |")),
            "{name} has no line in ARCHITECTURE.md"
        );
    }
}

#[test]
fn every_command_is_in_the_reference() {
    let page = read("docs/commands.md");
    for words in commands(&generated::command(), "") {
        assert!(
            page.contains(&format!("gpuctl {words}")) || page.contains(&format!("`{words}")),
            "{words}"
        );
    }
}

/// Advice about a message that gpuctl no longer prints is useless.
#[test]
fn every_message_in_troubleshooting_is_in_the_sources() {
    let folders = ["src", "crates"];
    let rust: String = folders
        .iter()
        .flat_map(|folder| sources(Path::new(folder)))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();

    // A string literal may continue on the next line.
    let rust = Regex::new(r"\\\n\s*")
        .unwrap()
        .replace_all(&rust, "")
        .into_owned();
    let sources = rust + &read("crates/manifest/src/render/supervisor.py");
    let page = read("docs/troubleshooting.md");
    let messages: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    assert!(messages.len() > 10);
    for message in messages {
        for part in message
            .split(['…', ':'])
            .map(|part| part.trim().trim_start_matches("pending "))
            .filter(|part| part.len() > 4)
        {
            assert!(
                sources.contains(part),
                "{message}: no source contains `{part}`"
            );
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    entries
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// Returns every command without subcommands, such as `get jobs`.
fn commands(command: &clap::Command, before: &str) -> Vec<String> {
    let verbs = command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help");
    verbs
        .flat_map(|verb| {
            let words = format!("{before} {}", verb.get_name()).trim().to_owned();
            if verb.has_subcommands() {
                commands(verb, &words)
            } else {
                vec![words]
            }
        })
        .collect()
}

#[test]
fn the_documents_do_not_refer_to_files_outside_the_project() {
    // Matches a path on the author's machine, but not `/home/jovyan/work/` in a container.
    let outside = Regex::new(r"(?m)(^|[^\w/])/(root|work)/").unwrap();
    let more = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(ToOwned::to_owned);
    for name in pages().into_iter().chain(more) {
        let text = read(&name);
        assert!(
            !outside.is_match(&text),
            "{name} refers to a file outside the project"
        );
    }
}

/// Checks links to the project's files and to headings in them.
#[test]
fn links_lead_to_files_and_headings() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"].map(ToOwned::to_owned);
    for name in pages().into_iter().chain(others) {
        let text = prose(&read(&name));
        for target in link.captures_iter(&text).map(|found| found[1].to_owned()) {
            if !target.contains("://") && !leads_somewhere(&name, &target) {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

fn leads_somewhere(page: &str, target: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = root.join(page).parent().unwrap().to_owned();
    let path = if path.is_empty() {
        root.join(page)
    } else {
        folder.join(path)
    };
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let is_inside = path.starts_with(root.canonicalize().unwrap());
    is_inside && (heading.is_empty() || anchors(&path).iter().any(|anchor| anchor == heading))
}

/// Returns the anchors that GitHub generates for a page's headings.
fn anchors(page: &Path) -> Vec<String> {
    let text = prose(&fs::read_to_string(page).unwrap());
    text.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
                .map(|letter| if letter == ' ' { '-' } else { letter })
                .collect()
        })
        .collect()
}

/// Removes fenced code blocks.
fn prose(page: &str) -> String {
    page.split("```").step_by(2).collect()
}

/// Checks the example that needs no cluster. `tests/cluster/examples.rs` checks the others.
#[test]
fn the_problems_of_a_bad_file_are_printed_as_documented() {
    let bad = "kind: training\njob:\n  name: Qwen2_SFT\nenvironment:\n  image: img:1\n  command: [\"x\"]\nversion: v0.1\nresources:\n  gpus: 4\n  cpu: 1\n  memory: 128\n";
    let folder = std::env::temp_dir().join(format!("gpuctl-readme-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("bad.yaml"), bad).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_gpuctl"))
        .args(["create", "-f", "bad.yaml"])
        .env("NO_COLOR", "1")
        .current_dir(&folder)
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let shown = blocks(&read("docs/commands.md"), "console")
        .into_iter()
        .find(|block| block.contains("bad.yaml"))
        .unwrap();
    assert_eq!(stderr.trim(), shown.split_once('\n').unwrap().1.trim());
    assert!(read("README.md").lines().count() <= 150);
}

/// A tag can be moved to other code, but a commit hash cannot.
#[test]
fn actions_are_pinned_by_hash_and_checkouts_drop_credentials() {
    let mut uses = 0;
    for file in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows")).unwrap()
    {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let Some((_, action)) = line.split_once("uses:") else {
                continue;
            };
            uses += 1;
            let (action, version) = action
                .split_once(" # v")
                .unwrap_or_else(|| panic!("{path:?}: no version: {line}"));
            let hash = action.trim().rsplit_once('@').map_or("", |(_, hash)| hash);
            let is_hash = hash.len() == 40
                && hash
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            assert!(
                is_hash && version.matches('.').count() == 2,
                "{path:?}: {line}"
            );
            let next = lines.get(index + 1).copied().unwrap_or_default();
            assert!(
                !action.contains("actions/checkout@")
                    || next.contains("persist-credentials: false"),
                "{path:?}: {line}"
            );
        }
        for line in lines.iter().filter(|line| line.contains("pip install")) {
            assert!(line.contains("--require-hashes"), "{path:?}: {line}");
        }
    }
    assert!(uses >= 5, "{uses}");
}

#[test]
fn deployed_images_have_the_version_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = read("deploy/chart/Chart.yaml");
    for key in ["version", "appVersion"] {
        assert!(chart.contains(&format!("\n{key}: {version}\n")), "{chart}");
    }
    assert!(read("deploy/kustomization.yaml").contains(&format!("newTag: {version}\n")));
}

/// Lists all of the project's Markdown files, relative to its root.
fn all_markdown() -> Vec<String> {
    fn walk(folder: &Path, root: &Path, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && !matches!(&*name, "target" | ".git") {
                walk(&path, root, files);
            } else if name.ends_with(".md") {
                let relative = path.strip_prefix(root).unwrap();
                files.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(root, root, &mut files);
    assert!(files.len() >= 25, "{files:?}");
    files
}

/// Tables, code blocks, front matter, and lines that cannot be broken, for example because of a
/// long link, may be longer.
#[test]
fn prose_has_at_most_100_columns() {
    const COLUMNS: usize = 100;
    let mut long = Vec::new();
    for name in all_markdown() {
        let mut fenced = false;
        for (number, line) in read(&name).lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```") || (number == 0 && line == "---");
            fenced &= number == 0 || line != "---";
            let may_be_long = fenced || line.trim_start().starts_with('|');
            let (width, words) = (line.chars().count(), line.split_whitespace().count());
            if !may_be_long && width > COLUMNS && words > 1 {
                long.push(format!("{name}:{}: {width}", number + 1));
            }
        }
    }
    assert!(long.is_empty(), "{}", long.join("\n"));
}
