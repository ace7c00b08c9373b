//! Rules about types: names are unique, and errors are types, not `String`s.

use std::collections::BTreeMap;
use std::path::Path;

use crate::sources::sources;

/// Each operating system has its own version of these files, with the same type names.
fn is_specific_to_a_system(path: &Path) -> bool {
    path.ends_with("platform/unix.rs") || path.ends_with("platform/windows.rs")
}

#[test]
fn type_names_are_unique() {
    let all = sources();
    let mut by_name: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, source) in all
        .iter()
        .filter(|(path, _)| !is_specific_to_a_system(path))
    {
        for name in &source.types {
            by_name.entry(name).or_default().push(path);
        }
    }
    assert!(by_name.len() > 1000, "{}", by_name.len());
    by_name.retain(|_, paths| paths.len() > 1);
    assert!(by_name.is_empty(), "{by_name:#?}");
}

/// Parses the generic arguments of a type; the first token is its `<`.
fn arguments(words: &[String]) -> Vec<Vec<&str>> {
    let (mut depth, mut parsed) = (0, vec![Vec::new()]);
    for (at, word) in words.iter().enumerate() {
        let is_arrow = word == ">" && at > 0 && words[at - 1] == "-";
        match word.as_str() {
            "<" | "{" => depth += 1,
            ">" | "}" if !is_arrow => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        match word.as_str() {
            "," if depth == 1 => parsed.push(Vec::new()),
            "<" if at == 0 => {}
            word => parsed.last_mut().unwrap().push(word),
        }
    }
    parsed
}

#[test]
fn no_error_type_is_a_string() {
    let mut violations = Vec::new();
    let mut results = 0;
    for (path, source) in sources() {
        let words = &source.words;
        let starts = (1..words.len()).filter(|at| words[at - 1] == "Result" && words[*at] == "<");
        for error in starts.filter_map(|at| arguments(&words[at..]).into_iter().nth(1)) {
            results += 1;
            violations.extend((error == ["String"]).then_some(path));
        }
    }
    assert!(results > 500, "{results}");
    assert!(violations.is_empty(), "{violations:#?}");
}
