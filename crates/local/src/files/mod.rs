//! Reads the user's files completely, and replaces them atomically.

pub mod archive;
mod links;
mod members;
mod space;
pub mod trust;
pub mod unpack;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use aws_lc_rs::rand;

use crate::platform;

/// Error from reading or writing one of the user's files.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Purpose of a written file. It determines the mode, and whether symlinks are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Readable only by the user, such as a bundle: always mode 0600.
    Private,
    /// Readable by other users' programs, such as node-exporter.
    Public,
    /// A document of the user. The umask determines the mode of a new file, and an existing file
    /// keeps its mode.
    Document,
    /// The config file. It keeps its mode, but other users lose write access. It may be a symlink
    /// that the user owns.
    Config,
}

/// Maximum size of a file that is read into memory, in bytes. Config files, tokens, certificates
/// and prices are much smaller, and a device may be endless.
const LARGEST: u64 = 16 << 20;

/// Reads a file or pipe of at most 16 MiB.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, FileError> {
    open(path)
        .and_then(read_limited)
        .map_err(|source| FileError::Read {
            path: path.to_path_buf(),
            source,
        })
}

/// Reads a text file or pipe of at most 16 MiB.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    text(bytes_of(path)?, path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the edge that reads files"
)]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn read_limited(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is larger than 16 MiB",
        )),
        false => Ok(bytes),
    }
}

fn text(bytes: Vec<u8>, path: &Path) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|_| FileError::NotText {
        path: path.to_path_buf(),
    })
}

/// Fails if the user interrupted the copy. The error kind is not `ErrorKind::Interrupted`, because
/// readers retry after that kind.
fn check_stop(stop: &AtomicBool) -> io::Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(io::Error::other("it was interrupted")),
        false => Ok(()),
    }
}

/// Creates a new file, or returns `Ok(false)` if the path already exists.
pub fn create(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let write_error = |source| FileError::Write {
        path: path.to_path_buf(),
        source,
    };
    if std::fs::symlink_metadata(path).is_ok() {
        return Ok(false);
    }
    let fresh = write_fresh(path, bytes, NEW_FILE, false).map_err(write_error)?;
    // Unlike a rename, a hard link fails if another process has created the file since the check.
    // On file systems without hard links, use a rename.
    let linked = std::fs::hard_link(&fresh, path);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let _ = std::fs::remove_file(&fresh);
            Ok(false)
        }
        Err(_) => rename_over(&fresh, path)
            .map(|()| true)
            .map_err(write_error),
        Ok(()) => std::fs::remove_file(&fresh)
            .map(|()| true)
            .map_err(write_error),
    }
}

/// Replaces a file atomically, so that no reader sees a partial one.
///
/// Writes a new file under a random name and renames it over the old one, so that the user owns the
/// result. Refuses a symlink, which another user may have planted, except for the config file.
pub fn replace(path: &Path, bytes: &[u8], purpose: Purpose) -> Result<(), FileError> {
    let write_error = |source| FileError::Write {
        path: path.to_path_buf(),
        source,
    };
    let target = match purpose {
        Purpose::Config => trust::follow(path).map_err(write_error)?,
        _ => path.to_path_buf(),
    };
    let existing = existing_mode(&target).map_err(write_error)?;
    let folder_mode = if purpose == Purpose::Public {
        PUBLIC_FOLDER
    } else {
        PRIVATE_FOLDER
    };
    let (mode, ignores_umask) = match (purpose, existing) {
        (Purpose::Private, _) | (Purpose::Config, None) => (PRIVATE_FILE, true),
        (Purpose::Config, Some(mode)) => (mode & !0o022, true),
        (Purpose::Public, None) => (PUBLIC_FILE, true),
        (Purpose::Document, None) => (NEW_FILE, false),
        (Purpose::Public | Purpose::Document, Some(mode)) => (mode, true),
    };
    platform::folders_with_mode(folder_of(&target), folder_mode).map_err(write_error)?;
    let fresh = write_fresh(&target, bytes, mode, ignores_umask).map_err(write_error)?;
    rename_over(&fresh, &target).map_err(write_error)
}

const PRIVATE_FILE: u32 = 0o600;
const PUBLIC_FILE: u32 = 0o644;
/// The mode of a new file, before the umask is applied.
const NEW_FILE: u32 = 0o666;
const PRIVATE_FOLDER: u32 = 0o700;
const PUBLIC_FOLDER: u32 = 0o755;

/// Reads the mode of a regular file that the user owns, or returns `None` if the path does not
/// exist. Refuses links, devices and folders.
fn existing_mode(path: &Path) -> io::Result<Option<u32>> {
    let data = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        data => data?,
    };
    let refused = |reason: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    match (data.is_symlink(), data.is_file()) {
        (true, _) => refused(
            "it is a symbolic link, which is not followed; use the file that it points to, or remove the link",
        ),
        (false, false) => refused("it is not a regular file"),
        (false, true) => Ok(platform::is_own(&data).then(|| platform::mode_of(&data) & 0o777)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Writes a file under a random name into the folder of `path`, and returns its path.
fn write_fresh(path: &Path, bytes: &[u8], mode: u32, ignores_umask: bool) -> io::Result<PathBuf> {
    use std::io::Write;
    let mut random = [0; 16];
    rand::fill(&mut random).map_err(io::Error::other)?;
    let fresh = folder_of(path).join(format!(".gpuctl-{:032x}.tmp", u128::from_ne_bytes(random)));
    let mut file = platform::create_new(&fresh, mode, ignores_umask)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .inspect_err(|_| {
            let _ = std::fs::remove_file(&fresh);
        })?;
    Ok(fresh)
}

/// Renames a new file to its final path.
fn rename_over(fresh: &Path, target: &Path) -> io::Result<()> {
    std::fs::rename(fresh, target).inspect_err(|_| {
        let _ = std::fs::remove_file(fresh);
    })
}

#[cfg(all(test, unix))]
mod archive_tests;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_replaced() {
        // Root could rename a file over a device.
        assert!(existing_mode(Path::new("/dev/null")).is_err());
        assert!(existing_mode(Path::new("/proc/self")).is_err());
        assert!(existing_mode(&std::env::temp_dir()).is_err());
        assert_eq!(existing_mode(Path::new("/nonexistent/file")).unwrap(), None);
    }
}
