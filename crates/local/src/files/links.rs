//! Selects the symlinks of an archive that lead to a member of the same archive.
//!
//! Resolves each link only once, in memory. The operating system would resolve every link from its
//! start, and each of up to 100,000 links can lead through 40 others.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Components, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::check_stop;

/// Maximum number of other links on the way to a link's target, as in Linux.
const MOST_HOPS: u32 = 40;
/// Maximum length of a path in bytes, as in Linux.
const LONGEST_PATH: usize = 4096;
/// Maximum memory for the resolved paths of all links in bytes. A short link can resolve to a long
/// path.
const MOST_END_BYTES: usize = 64 << 20;

/// The resolved target of a link, and the number of other links on the way.
struct End {
    at: PathBuf,
    hops: u32,
}

/// A link that is being resolved. `rest` is the unresolved part of its target.
struct Walk<'a> {
    link: usize,
    /// Path reached so far, or empty while waiting for another link.
    at: PathBuf,
    /// Index of another link that must be resolved before this one.
    next: Option<usize>,
    /// Whether `at` is known to be a directory.
    is_folder: bool,
    rest: Components<'a>,
    hops: u32,
}

/// Links by path, with their resolved targets. `Some(None)` marks a link that leads nowhere or
/// outside the copy.
struct Ends<'a> {
    folder: &'a Path,
    name: &'a str,
    places: HashMap<&'a OsStr, usize>,
    known: Vec<Option<Option<End>>>,
    bytes: usize,
}

/// Selects the links, given as (path, target), that lead to the member `name` of `folder` or below
/// it. `folder` must not contain links yet. Drops a link if its parent directory is missing or
/// another member has its path.
pub(super) fn stay_inside(
    links: &[(PathBuf, PathBuf)],
    folder: &Path,
    name: &str,
    stop: &AtomicBool,
) -> io::Result<Vec<bool>> {
    let mut ends = Ends {
        folder,
        name,
        places: HashMap::new(),
        known: Vec::new(),
        bytes: 0,
    };
    for (index, (path, target)) in links.iter().enumerate() {
        let location = folder.join(path);
        let has_place =
            location.parent().is_some_and(Path::is_dir) && fs::symlink_metadata(&location).is_err();
        let is_new =
            has_place && target.is_relative() && !ends.places.contains_key(path.as_os_str());
        ends.known.push((!is_new).then_some(None));
        if is_new {
            ends.places.insert(path.as_os_str(), index);
        }
    }
    let mut waiting: HashMap<usize, Vec<Walk<'_>>> = HashMap::new();
    for (link, (path, target)) in links.iter().enumerate() {
        if ends.known[link].is_some() {
            continue;
        }
        let at = path.parent().unwrap_or(Path::new("")).to_owned();
        let mut ready = vec![Walk {
            link,
            at,
            next: None,
            is_folder: true,
            rest: target.components(),
            hops: 0,
        }];
        while let Some(mut walk) = ready.pop() {
            check_stop(stop)?;
            match ends.end_of(&mut walk) {
                Ok(end) => {
                    ready.extend(waiting.remove(&walk.link).unwrap_or_default());
                    ends.keep(walk.link, end);
                }
                // Resolving `next` resumes this walk. Links in a cycle wait forever, and are
                // dropped.
                Err(next) => waiting.entry(next).or_default().push(walk),
            }
        }
    }
    Ok(ends
        .known
        .iter()
        .map(|end| matches!(end, Some(Some(_))))
        .collect())
}

impl Ends<'_> {
    /// Resolves a link, or returns the index of another link that must be resolved first.
    fn end_of(&self, walk: &mut Walk<'_>) -> Result<Option<End>, usize> {
        loop {
            if let Some(next) = walk.next {
                let Some(end) = &self.known[next] else {
                    return Err(next);
                };
                let Some(end) = end else { return Ok(None) };
                walk.hops += end.hops + 1;
                walk.at.clone_from(&end.at);
                (walk.next, walk.is_folder) = (None, false);
            }
            match walk.rest.next() {
                None => break,
                Some(Component::CurDir) => {}
                // Resolve `..` only below an existing directory. A missing one may be a symlink in
                // the directory into which the copy is merged.
                Some(Component::ParentDir)
                    if walk.at != Path::new(self.name) && self.is_folder(walk) =>
                {
                    walk.at.pop();
                    walk.is_folder = true;
                }
                Some(Component::Normal(part))
                    if walk.at.as_os_str().len() + part.len() < LONGEST_PATH =>
                {
                    walk.at.push(part);
                    walk.is_folder = false;
                    walk.next = self.places.get(walk.at.as_os_str()).copied();
                    if walk.next.is_some() {
                        // A waiting link does not need its path, so free the memory.
                        walk.at = PathBuf::new();
                    }
                }
                Some(_) => return Ok(None),
            }
        }
        let exists =
            walk.hops < MOST_HOPS && fs::symlink_metadata(self.folder.join(&walk.at)).is_ok();
        Ok(exists.then(|| End {
            at: std::mem::take(&mut walk.at),
            hops: walk.hops,
        }))
    }

    fn is_folder(&self, walk: &Walk<'_>) -> bool {
        walk.is_folder || self.folder.join(&walk.at).is_dir()
    }

    fn keep(&mut self, link: usize, end: Option<End>) {
        self.bytes += end.as_ref().map_or(0, |end| end.at.as_os_str().len());
        self.known[link] = Some(end.filter(|_| self.bytes <= MOST_END_BYTES));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("gpuctl-links-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        platform_folder(&folder.join("top/a/b"));
        fs::File::create(folder.join("top/file")).unwrap();
        folder
    }

    fn platform_folder(path: &Path) {
        fs::DirBuilder::new().recursive(true).create(path).unwrap();
    }

    fn inside_links(folder: &Path, links: &[(&str, &str)]) -> Vec<bool> {
        let links: Vec<(PathBuf, PathBuf)> = links
            .iter()
            .map(|(path, target)| (path.into(), target.into()))
            .collect();
        stay_inside(&links, folder, "top", &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn a_link_is_kept_if_its_target_is_in_the_archive() {
        let folder = folder("members");
        for (path, target, kept) in [
            ("top/x", "file", true),
            ("top/x", "./a/../file", true),
            ("top/a/b/x", "../../file", true),
            ("top/a/b/x", "../..", true),
            ("top/x", ".", true),
            ("top/x", "..", false),
            ("top/x", "../top/file", false),
            ("top/x", "/etc/passwd", false),
            ("top/x", "missing", false),
            ("top/x", "missing/../file", false),
            ("top/x", "file/../file", false),
            ("top/x", "x", false),
            ("top/missing/x", "../file", false),
            ("top/file", "a", false),
            ("top/a", "file", false),
        ] {
            assert_eq!(
                inside_links(&folder, &[(path, target)]),
                [kept],
                "{path} -> {target}"
            );
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn links_lead_through_links_in_any_order() {
        let folder = folder("chains");
        // One link leads through a linked directory. Another leads out of the copy, which its
        // target alone does not show.
        assert_eq!(
            inside_links(&folder, &[("top/x", "y/b/../../file"), ("top/y", "a")]),
            [true, true]
        );
        assert_eq!(
            inside_links(
                &folder,
                &[("top/p", "a/b/y/../file"), ("top/a/b/y", "../..")]
            ),
            [false, true]
        );
        // A link to a directory cannot contain members.
        assert_eq!(
            inside_links(&folder, &[("top/y", "a"), ("top/y/x", "../file")]),
            [true, false]
        );
        // The first of two links with the same name wins, and links in a cycle are dropped.
        assert_eq!(
            inside_links(&folder, &[("top/x", "file"), ("top/x", "a")]),
            [true, false]
        );
        assert_eq!(
            inside_links(
                &folder,
                &[
                    ("top/x", "y"),
                    ("top/y", "z"),
                    ("top/z", "x"),
                    ("top/w", "z")
                ]
            ),
            [false; 4]
        );
        // Linux follows 40 links.
        let chain: Vec<(String, String)> = (0..50)
            .map(|index| (format!("top/{}", index + 1), index.to_string()))
            .collect();
        let mut chain: Vec<(&str, &str)> = chain
            .iter()
            .map(|(path, target)| (path.as_str(), target.as_str()))
            .collect();
        chain[0].1 = "file";
        let kept = |kept: &[bool]| kept.iter().filter(|kept| **kept).count();
        assert_eq!(kept(&inside_links(&folder, &chain)), 40);
        chain.reverse();
        assert_eq!(kept(&inside_links(&folder, &chain)), 40);
        fs::remove_dir_all(folder).unwrap();
    }

    /// Each target must be followed only once: following all links again for each new one took
    /// minutes.
    #[test]
    fn many_links_in_the_worst_order_are_resolved() {
        let folder = folder("many");
        let there_and_back = "a/../".repeat(20);
        let links: Vec<(PathBuf, PathBuf)> = (0..100_000_u32)
            .rev()
            .map(|index| {
                let target = if index % 40 == 0 {
                    "file".to_owned()
                } else {
                    (index - 1).to_string()
                };
                (
                    PathBuf::from(format!("top/{index}")),
                    PathBuf::from(format!("{there_and_back}{target}")),
                )
            })
            .collect();
        let kept = stay_inside(&links, &folder, "top", &AtomicBool::new(false)).unwrap();
        assert!(kept.iter().all(|kept| *kept));
        // Short links with long targets count against the memory limit.
        let deep = format!("top/{}", vec!["d".repeat(200); 18].join("/"));
        platform_folder(&folder.join(&deep));
        let deep = PathBuf::from(deep).strip_prefix("top").unwrap().to_owned();
        let mut links = vec![(PathBuf::from("top/0"), deep)];
        links.extend(
            (1..30_000).map(|index| (PathBuf::from(format!("top/{index}")), PathBuf::from("0"))),
        );
        let kept = stay_inside(&links, &folder, "top", &AtomicBool::new(false)).unwrap();
        let count = kept.iter().filter(|kept| **kept).count();
        assert!((10_000..30_000).contains(&count), "{count}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_signal_ends_the_resolution_of_links() {
        let links = [(PathBuf::from("top/x"), PathBuf::from("file"))];
        let folder = folder("signal");
        assert!(stay_inside(&links, &folder, "top", &AtomicBool::new(true)).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
