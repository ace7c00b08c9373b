//! Packs and unpacks the tar archives of `cp`.
//!
//! Note: archives from a container are not trusted: nothing is written outside a fresh folder beside the target, no link
//! leads out of it, and only a complete copy is moved into place.
#![expect(clippy::disallowed_methods, reason = "this is the edge that copies the user's files")]

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder, EntryType, Header};

use crate::platform;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Entries that were left out, with why.
    pub skipped: Vec<String>,
}

/// What tar reads at once. An archive that fills its last record is read to its end without waiting for more.
const RECORD: u64 = 20 * 512;

/// Returns true for a file, false for a folder, an error for what is neither or not there. A link stands for what it leads to.
pub(crate) fn is_file(path: &str) -> io::Result<bool> {
    let kind = fs::metadata(path)?;
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, "it is neither a file nor a folder")),
    }
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

/// Writes `path` into an archive under `name`. Links inside it stay links.
pub(crate) fn pack(path: &Path, name: &str, sink: impl Write) -> io::Result<Copied> {
    let mut archive = Builder::new(Counted { sink, bytes: 0 });
    let mut copied = Copied::default();
    let packed = fs::canonicalize(path).and_then(|path| add(&mut archive, &path, Path::new(name), &mut copied));
    if let Err(error) = packed {
        // Its end would make half an archive look whole.
        std::mem::forget(archive);
        return Err(error);
    }
    let mut written = archive.into_inner()?;
    let missing = (RECORD - written.bytes % RECORD) % RECORD;
    io::copy(&mut io::repeat(0).take(missing), &mut written)?;
    written.flush()?;
    Ok(copied)
}

fn add(archive: &mut Builder<impl Write>, path: &Path, name: &Path, copied: &mut Copied) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?;
    // Owners of this machine mean nothing in the container.
    let mut header = Header::new_gnu();
    header.set_mode(platform::mode_of(&kind) & 0o777);
    header.set_mtime(platform::modified_at(&kind));
    header.set_size(0);
    if kind.is_dir() {
        header.set_entry_type(EntryType::Directory);
        archive.append_data(&mut header, name, io::empty())?;
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        return entries.iter().try_for_each(|entry| add(archive, &entry.path(), &name.join(entry.file_name()), copied));
    }
    if kind.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        archive.append_link(&mut header, name, fs::read_link(path)?)?;
    } else if kind.is_file() {
        header.set_size(kind.len());
        // A file that grows or shrinks meanwhile must not shift what follows it.
        let data = File::open(path)?.take(kind.len()).chain(io::repeat(0)).take(kind.len());
        archive.append_data(&mut header, name, data)?;
        copied.bytes += kind.len();
    } else {
        copied.skipped.push(format!("{}: it is neither a file nor a folder", path.display()));
        return Ok(());
    }
    copied.files += 1;
    Ok(())
}

/// What has arrived, in a folder beside its target. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: PathBuf,
    name: String,
    copied: Copied,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Whatever cannot be removed is in a folder whose name says whose it is.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Reads an archive that holds one file or folder called `name` into a fresh folder beside `target`.
pub(crate) fn stage(source: impl Read, name: &str, target: &Path, unique: &str) -> io::Result<Staged> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = parent.join(format!(".gpuctl-cp-{unique}"));
    platform::private_folder(&folder)?;
    let mut staged = Staged { folder, name: name.to_owned(), copied: Copied::default() };
    let mut links = Vec::new();
    let mut archive = Archive::new(source);
    for entry in archive.entries()? {
        staged.take(&mut entry?, &mut links)?;
    }
    if fs::symlink_metadata(staged.folder.join(name)).is_err() {
        return Err(match links.iter().find(|(path, _)| path == Path::new(name)) {
            Some((_, link)) => io::Error::new(ErrorKind::InvalidInput, format!("it is a link to {}: copy that", link.display())),
            None => io::Error::new(ErrorKind::UnexpectedEof, "nothing of it arrived"),
        });
    }
    staged.link(links)?;
    Ok(staged)
}

impl Staged {
    fn skip(&mut self, path: &Path, why: &str) {
        self.copied.skipped.push(format!("{}: {why}", path.display()));
    }

    /// Unpacks one entry. No link is made while there are entries to come, so none can be followed.
    fn take(&mut self, entry: &mut tar::Entry<'_, impl Read>, links: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
        let shown = entry.path()?.into_owned();
        let Some(path) = inside(&shown, &self.name) else {
            self.skip(&shown, "its path leads out of the folder");
            return Ok(());
        };
        let place = self.folder.join(&path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory => return fs::create_dir_all(place),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut file = File::create(&place)?;
                self.copied.bytes += io::copy(entry, &mut file)?;
                // Who may read a file may run it, where it is a program; the rest is this machine's umask.
                if entry.header().mode()? & 0o100 != 0 {
                    platform::may_run(&file)?;
                }
            }
            EntryType::Link => {
                let first = entry.link_name()?.and_then(|first| inside(&first, &self.name)).map(|first| self.folder.join(first));
                match first.filter(|first| fs::symlink_metadata(first).is_ok_and(|kind| kind.is_file())) {
                    Some(first) => self.copied.bytes += fs::copy(first, &place)?,
                    None => {
                        self.skip(&shown, "it is another name of a file outside the folder");
                        return Ok(());
                    }
                }
            }
            EntryType::Symlink => {
                links.extend(entry.link_name()?.map(|link| (path, link.into_owned())));
                return Ok(());
            }
            _ => {
                self.skip(&shown, "it is neither a file nor a folder");
                return Ok(());
            }
        }
        self.copied.files += 1;
        Ok(())
    }

    /// Makes the links that lead to something inside what was copied; a link to a link waits for that one.
    fn link(&mut self, mut links: Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
        let top = fs::canonicalize(self.folder.join(&self.name))?;
        loop {
            let before = links.len();
            let mut waiting = Vec::new();
            for (path, link) in links {
                let place = self.folder.join(&path);
                let parent = place.parent().map_or_else(|| Err(ErrorKind::NotFound.into()), fs::canonicalize)?;
                let leads = fs::canonicalize(parent.join(&link)).is_ok_and(|end| end.starts_with(&top));
                if link.is_relative() && parent.starts_with(&top) && leads && fs::symlink_metadata(&place).is_err() {
                    platform::symlink(&link, &place)?;
                    self.copied.files += 1;
                } else {
                    waiting.push((path, link));
                }
            }
            links = waiting;
            if links.len() == before {
                break;
            }
        }
        links.iter().for_each(|(path, _)| self.skip(path, "its link leads out of the folder, or nowhere"));
        Ok(())
    }

    /// Moves it to `target`: a file over a file, the content of a folder into a folder.
    pub(crate) fn place(self, target: &Path) -> io::Result<Copied> {
        merge(&self.folder.join(&self.name), target)?;
        Ok(self.copied.clone())
    }
}

/// Returns `path` without detours; `None` when it is not `name` or below it.
fn inside(path: &Path, name: &str) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    clean.starts_with(name).then_some(clean)
}

fn merge(from: &Path, to: &Path) -> io::Result<()> {
    let kind = |path: &Path| fs::symlink_metadata(path).ok().map(|kind| (kind.is_dir(), kind.is_file() || kind.is_symlink()));
    match (kind(from), kind(to)) {
        (Some((true, _)), Some((true, _))) => fs::read_dir(from)?.try_for_each(|entry| {
            let entry = entry?;
            merge(&entry.path(), &to.join(entry.file_name()))
        }),
        (Some((false, _)), Some((_, true))) | (_, None) => fs::rename(from, to),
        _ => Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} is there, and of another kind", to.display()))),
    }
}

/// Returns where a copy of something called `name` goes: into `path` when that is a folder, else to `path` itself.
#[must_use]
pub(crate) fn target(path: &str, name: &str) -> PathBuf {
    let path = Path::new(path);
    if path.is_dir() { path.join(name) } else { path.to_owned() }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gpuctl-archive-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns an archive as a hostile container would send it; the library itself refuses to write such names.
    fn hostile(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        for (path, kind, link) in entries {
            let mut header = Header::new_gnu();
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
        fs::set_permissions(place.join("from/y"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("a/b/x", place.join("from/link")).unwrap();
        // As a model hub's cache is laid out.
        symlink("../../y", place.join("from/a/b/up")).unwrap();
        let mut bytes = Vec::new();
        let packed = pack(&place.join("from"), "top", &mut bytes).unwrap();
        assert_eq!((packed.files, packed.bytes, bytes.len() % 10_240), (4, 7, 0));
        let copied = stage(bytes.as_slice(), "top", &place.join("to"), "1").unwrap().place(&place.join("to")).unwrap();
        assert_eq!((copied.files, copied.bytes, copied.skipped.len()), (4, 7, 0));
        assert_eq!(fs::read_to_string(place.join("to/link")).unwrap(), "one");
        assert_eq!(fs::read_to_string(place.join("to/a/b/up")).unwrap(), "two!");
        assert_ne!(fs::metadata(place.join("to/y")).unwrap().mode() & 0o100, 0);
        // A second copy goes over the first and leaves the rest.
        fs::write(place.join("to/kept"), "").unwrap();
        stage(bytes.as_slice(), "top", &place.join("to"), "2").unwrap().place(&place.join("to")).unwrap();
        assert!(place.join("to/kept").exists());
        assert_eq!(names(&place), ["from", "to"]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn nothing_gets_out_of_the_folder() {
        let place = folder("hostile");
        let bytes = hostile(&[
            ("top/a/b/c/", EntryType::Directory, ""),
            ("../escaped", EntryType::Regular, ""),
            ("/tmp/gpuctl-absolute", EntryType::Regular, ""),
            ("other", EntryType::Regular, ""),
            ("top/out", EntryType::Symlink, "../../../etc"),
            ("top/absolute", EntryType::Symlink, "/etc/passwd"),
            ("top/beside", EntryType::Symlink, "../../x"),
            // Lexically inside, really three levels above.
            ("top/a/b/c/y", EntryType::Symlink, "../../.."),
            ("top/p", EntryType::Symlink, "a/b/c/y/../../.."),
            ("top/hard", EntryType::Link, "/etc/passwd"),
            ("top/device", EntryType::Char, ""),
            ("top/fine", EntryType::Regular, ""),
            ("top/second", EntryType::Link, "top/fine"),
        ]);
        fs::write(place.join("x"), "mine").unwrap();
        let copied = stage(bytes.as_slice(), "top", &place.join("to"), "1").unwrap().place(&place.join("to")).unwrap();
        assert_eq!(names(&place.join("to")), ["a", "fine", "second"], "{:?}", copied.skipped);
        assert_eq!(names(&place), ["to", "x"]);
        assert!(!Path::new("/tmp/gpuctl-absolute").exists());
        assert_eq!(copied.files, 3, "fine, second, and the link to the top: {copied:?}");
        assert_eq!(fs::metadata(place.join("to/fine")).unwrap().mode() & 0o7000, 0, "no bits that lend rights");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn only_a_whole_copy_is_put_into_place() {
        let place = folder("broken");
        fs::create_dir_all(place.join("x")).unwrap();
        fs::write(place.join("x/one"), vec![7; 5000]).unwrap();
        fs::write(place.join("x/two"), vec![8; 5000]).unwrap();
        let mut bytes = Vec::new();
        pack(&place.join("x"), "x", &mut bytes).unwrap();
        for cut in [0, 600, 3000, 7000] {
            assert!(stage(&bytes[..cut], "x", &place.join("copy"), "1").is_err(), "{cut}");
        }
        // What arrived but is not wanted goes again.
        drop(stage(bytes.as_slice(), "x", &place.join("copy"), "1").unwrap());
        let link = hostile(&[("x", EntryType::Symlink, "y")]);
        let error = stage(link.as_slice(), "x", &place.join("copy"), "1").unwrap_err();
        assert_eq!(error.to_string(), "it is a link to y: copy that");
        assert_eq!(names(&place), ["x"]);
        // A folder is not replaced by a file, nor a device by anything.
        let staged = stage(hostile(&[("x", EntryType::Regular, "")]).as_slice(), "x", &place.join("copy"), "1").unwrap();
        assert!(staged.place(&place.join("x")).is_err());
        assert_eq!(merge(&place.join("x/one"), Path::new("/dev/null")).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(&place), ["x"]);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_path_is_at_or_below_its_name() {
        assert_eq!(inside(Path::new("./a/./b"), "a"), Some(PathBuf::from("a/b")));
        for bad in ["a/../b", "/a", "b/a", "../a", "ab"] {
            assert_eq!(inside(Path::new(bad), "a"), None, "{bad}");
        }
    }
}
