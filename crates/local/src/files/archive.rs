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

/// Counts of a copy: files, bytes and skipped members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    pub skipped: Skipped,
}

/// Members that a copy skipped: the first ones with their reasons, and the total count, because a
/// hostile archive can contain millions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    pub first: Vec<String>,
    pub count: u64,
}

impl Skipped {
    /// Maximum number of skipped members that are listed with their reasons.
    const NAMED: usize = 20;
    const LETTERS: usize = 256;

    pub(super) fn add(&mut self, path: &Path, reason: &str) {
        self.count += 1;
        if self.first.len() < Self::NAMED {
            let shown = path.to_string_lossy();
            let end = shown
                .char_indices()
                .nth(Self::LETTERS)
                .map_or(shown.len(), |(index, _)| index);
            let dots = if end < shown.len() { "…" } else { "" };
            self.first
                .push(format!("{}{dots}: {reason}", &shown[..end]));
        }
    }
}

/// Record size of tar in bytes. Archives are padded to full records, so that a reader does not wait
/// for more input after the last one.
const RECORD: u64 = 20 * 512;

/// Returns true for a file, false for a directory, and an error for anything else. Follows
/// symlinks.
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

/// Writer that counts the written bytes.
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

/// Writes `path` into an archive under `name`. Symlinks inside `path` are stored as symlinks.
pub fn pack(path: &Path, name: &str, sink: impl Write) -> io::Result<Copied> {
    let mut archive = Builder::new(CountingWriter { sink, bytes: 0 });
    let mut copied = Copied::default();
    let result = fs::canonicalize(path)
        .and_then(|path| add(&mut archive, &path, Path::new(name), &mut copied));
    if let Err(error) = result {
        // Dropping the builder would write the end-of-archive marker, and a truncated archive would
        // look complete.
        std::mem::forget(archive);
        return Err(error);
    }
    let mut writer = archive.into_inner()?;
    let padding = (RECORD - writer.bytes % RECORD) % RECORD;
    io::copy(&mut io::repeat(0).take(padding), &mut writer)?;
    writer.flush()?;
    Ok(copied)
}

fn add(
    archive: &mut Builder<impl Write>,
    path: &Path,
    name: &Path,
    copied: &mut Copied,
) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?;
    // Store no owner, because the users of this machine do not exist in the container.
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
        // Another user with access to the folder may have replaced the file with a symlink or a
        // pipe since it was inspected.
        let file = platform::open_file(path)?;
        let size = file.metadata()?.len();
        header.set_size(size);
        // The header already states the size. If the file grows or shrinks during the copy,
        // truncate or pad its data so that the following members stay aligned.
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

/// Returns the destination of a copy named `name`: inside `path` if that is a directory, otherwise
/// `path` itself.
pub fn target(path: &str, name: &str) -> PathBuf {
    let path = Path::new(path);
    if path.is_dir() {
        path.join(name)
    } else {
        path.to_owned()
    }
}
