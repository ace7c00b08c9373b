//! Packs the tar archives that `cp` sends into a container.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the edge that copies the user's files"
)]

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use crate::platform;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    pub skipped: Skipped,
}

/// Skipped members: the first ones with their reasons, and the total number. A hostile archive can
/// have millions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    pub first: Vec<String>,
    pub count: u64,
}

impl Skipped {
    /// Limits on the number of names and on the length of each.
    const NAMED: usize = 20;
    const LETTERS: usize = 256;

    pub(super) fn add(&mut self, path: &Path, why: &str) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            let shown = path.to_string_lossy();
            let cut = shown
                .char_indices()
                .nth(Self::LETTERS)
                .map_or(shown.len(), |(index, _)| index);
            let dots = if cut < shown.len() { "…" } else { "" };
            self.first.push(format!("{}{dots}: {why}", &shown[..cut]));
        }
    }
}

/// What tar reads at once. An archive that fills its last record is read to its end without waiting
/// for more.
const RECORD: u64 = 20 * 512;

/// Returns true for a file, false for a folder, an error for what is neither or not there. A link
/// stands for what it leads to.
pub fn is_file(path: &str) -> io::Result<bool> {
    let kind = fs::metadata(path)?;
    match (kind.is_file(), kind.is_dir()) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is neither a file nor a folder",
        )),
    }
}

/// Counts what was written.
struct CountingWriter<W> {
    sink: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
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
pub fn pack(path: &Path, name: &str, sink: impl Write) -> io::Result<Copied> {
    let mut archive = Builder::new(CountingWriter { sink, bytes: 0 });
    let mut copied = Copied::default();
    let packed = fs::canonicalize(path)
        .and_then(|path| add(&mut archive, &path, Path::new(name), &mut copied));
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

fn add(
    archive: &mut Builder<impl Write>,
    path: &Path,
    name: &Path,
    copied: &mut Copied,
) -> io::Result<()> {
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
        return entries.iter().try_for_each(|entry| {
            add(
                archive,
                &entry.path(),
                &name.join(entry.file_name()),
                copied,
            )
        });
    }
    if kind.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        archive.append_link(&mut header, name, fs::read_link(path)?)?;
    } else if kind.is_file() {
        // Another user of the folder may have replaced it by a symlink or a pipe.
        let file = platform::open_file(path)?;
        let size = file.metadata()?.len();
        header.set_size(size);
        // A file that grows or shrinks meanwhile must not shift what follows it.
        let data = file.take(size).chain(io::repeat(0)).take(size);
        archive.append_data(&mut header, name, data)?;
        copied.bytes += size;
    } else {
        copied
            .skipped
            .add(path, "it is neither a file nor a folder");
        return Ok(());
    }
    copied.files += 1;
    Ok(())
}

/// Returns where a copy of something called `name` goes: into `path` when that is a folder, else to
/// `path` itself.
pub fn target(path: &str, name: &str) -> PathBuf {
    let path = Path::new(path);
    if path.is_dir() {
        path.join(name)
    } else {
        path.to_owned()
    }
}
