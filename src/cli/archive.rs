//! The tar archives in which `cp` carries files. What comes out of a container is not trusted: nothing is written outside
//! the folder that was named, no link leads out of it, and an archive that breaks off leaves nothing behind.
#![expect(clippy::disallowed_methods, reason = "this is the edge that copies the user's files")]

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder, EntryType, HeaderMode};

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Entries that were left out, with why.
    pub skipped: Vec<String>,
}

/// What tar reads at once. An archive that fills its last record is read to its end without waiting for more.
const RECORD: u64 = 20 * 512;

/// True when there is something to pack.
pub fn is_there(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Counts what was written.
struct Counted<W> {
    sink: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Writes `path` into an archive under `name`. Links stay links.
pub fn pack(path: &Path, name: &str, sink: impl Write) -> io::Result<Copied> {
    let mut archive = Builder::new(Counted { sink, bytes: 0 });
    archive.follow_symlinks(false);
    // Owners of this machine mean nothing in the container.
    archive.mode(HeaderMode::Deterministic);
    let mut copied = Copied::default();
    add(&mut archive, path, Path::new(name), &mut copied)?;
    let mut written = archive.into_inner()?;
    let missing = (RECORD - written.bytes % RECORD) % RECORD;
    io::copy(&mut io::repeat(0).take(missing), &mut written)?;
    written.flush()?;
    Ok(copied)
}

fn add(archive: &mut Builder<impl Write>, path: &Path, name: &Path, copied: &mut Copied) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?;
    if kind.is_dir() {
        archive.append_dir(name, path)?;
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        return entries.iter().try_for_each(|entry| add(archive, &entry.path(), &name.join(entry.file_name()), copied));
    }
    if !kind.is_file() && !kind.is_symlink() {
        copied.skipped.push(format!("{}: it is neither a file nor a folder", path.display()));
        return Ok(());
    }
    archive.append_path_with_name(path, name)?;
    copied.files += 1;
    copied.bytes += if kind.is_file() { kind.len() } else { 0 };
    Ok(())
}

/// Unpacks an archive that holds one file or folder called `name`, and puts it to `target` when all of it is there.
pub fn unpack(source: impl Read, name: &str, target: &Path) -> io::Result<Copied> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let staging = parent.join(format!(".gpuctl-cp-{}", std::process::id()));
    fs::create_dir(&staging)?;
    let result = into(source, &staging).and_then(|copied| {
        let arrived = staging.join(name);
        match fs::symlink_metadata(&arrived) {
            Ok(_) => merge(&arrived, target).map(|()| copied),
            Err(_) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive does not hold what was asked for")),
        }
    });
    let removed = fs::remove_dir_all(&staging);
    result.and_then(|copied| removed.map(|()| copied))
}

fn into(source: impl Read, folder: &Path) -> io::Result<Copied> {
    let mut archive = Archive::new(source);
    archive.set_overwrite(false);
    let mut copied = Copied::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let shown = path.display().to_string();
        let kind = entry.header().entry_type();
        let allowed = match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::Directory | EntryType::GNUSparse => true,
            EntryType::Symlink => entry.link_name()?.is_some_and(|link| stays_inside(&path, &link)),
            _ => false,
        };
        if !allowed {
            let why =
                if kind == EntryType::Symlink { "its link leads out of the folder" } else { "it is neither a file nor a folder" };
            copied.skipped.push(format!("{shown}: {why}"));
        } else if !entry.unpack_in(folder)? {
            copied.skipped.push(format!("{shown}: its path leads out of the folder"));
        } else if kind != EntryType::Directory {
            copied.files += 1;
            copied.bytes += entry.size();
        }
    }
    Ok(copied)
}

/// True when a relative link of the entry at `path` ends below the archive's own top.
fn stays_inside(path: &Path, link: &Path) -> bool {
    let mut depth: usize = 0;
    let parts = path.parent().into_iter().flat_map(Path::components).chain(link.components());
    for part in parts {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    link.is_relative()
}

/// Moves what arrived into place: a file over a file, the content of a folder into a folder.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|kind| kind.is_dir());
    if is_folder(from) && is_folder(to) {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            merge(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if is_folder(from) != is_folder(to) && fs::symlink_metadata(to).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{} is there, and of another kind", to.display())));
    }
    fs::rename(from, to)
}

/// Where a copy of something called `name` goes: into `path` when that is a folder, else to `path` itself.
#[must_use]
pub fn target(path: &str, name: &str) -> PathBuf {
    let path = Path::new(path);
    if path.is_dir() { path.join(name) } else { path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gpuctl-archive-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// An archive as a hostile container would send it; the library itself refuses to write such names.
    fn hostile(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (path, kind, link) in entries {
            let mut header = tar::Header::new_gnu();
            let data: &[u8] = if *kind == EntryType::Regular { b"evil" } else { b"" };
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(data.len() as u64);
            header.set_mode(0o4755);
            header.set_cksum();
            archive.append(&header, data).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn a_tree_comes_back_as_it_went() {
        let place = folder("tree");
        fs::create_dir_all(place.join("from/a/b")).unwrap();
        fs::write(place.join("from/a/b/x"), "one").unwrap();
        fs::write(place.join("from/y"), "two!").unwrap();
        std::os::unix::fs::symlink("a/b/x", place.join("from/link")).unwrap();
        let mut bytes = Vec::new();
        let packed = pack(&place.join("from"), "top", &mut bytes).unwrap();
        assert_eq!((packed.files, packed.bytes), (3, 7));
        let copied = unpack(bytes.as_slice(), "top", &place.join("to")).unwrap();
        assert_eq!((copied.files, copied.bytes, copied.skipped.len()), (3, 7, 0));
        assert_eq!(fs::read_to_string(place.join("to/link")).unwrap(), "one");
        // A second copy goes over the first.
        fs::write(place.join("to/kept"), "").unwrap();
        unpack(bytes.as_slice(), "top", &place.join("to")).unwrap();
        assert!(place.join("to/kept").exists());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn nothing_gets_out_of_the_folder() {
        let place = folder("hostile");
        let bytes = hostile(&[
            ("top/", EntryType::Directory, ""),
            ("../escaped", EntryType::Regular, ""),
            ("/tmp/gpuctl-absolute", EntryType::Regular, ""),
            ("top/out", EntryType::Symlink, "../../../etc"),
            ("top/absolute", EntryType::Symlink, "/etc/passwd"),
            ("top/hard", EntryType::Link, "/etc/passwd"),
            ("top/device", EntryType::Char, ""),
            ("top/fine", EntryType::Regular, ""),
        ]);
        let copied = unpack(bytes.as_slice(), "top", &place.join("to")).unwrap();
        let mut left: Vec<_> = fs::read_dir(place.join("to")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["fine"]);
        assert_eq!(copied.skipped.len(), 5, "{:?}", copied.skipped);
        assert!(!place.join("escaped").exists() && !Path::new("/tmp/gpuctl-absolute").exists());
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn an_archive_that_breaks_off_leaves_nothing() {
        let place = folder("broken");
        fs::write(place.join("x"), vec![7; 5000]).unwrap();
        let mut bytes = Vec::new();
        pack(&place.join("x"), "x", &mut bytes).unwrap();
        assert!(unpack(&bytes[..3000], "x", &place.join("copy")).is_err());
        assert!(unpack(&[][..], "x", &place.join("copy")).is_err());
        assert_eq!(fs::read_dir(&place).unwrap().count(), 1);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn links_are_followed_in_thought_only() {
        for (path, link, inside) in [
            ("a/b", "c", true),
            ("a/b", "../c", true),
            ("a/b", "../../c", false),
            ("a", "/c", false),
            ("a/b/c", "../../x/./y", true),
        ] {
            assert_eq!(stays_inside(Path::new(path), Path::new(link)), inside, "{path} → {link}");
        }
    }
}
