//! Reads files of the user whole, and replaces them whole or not at all.

pub(crate) mod archive;

use std::path::{Path, PathBuf};

use crate::platform;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

/// Reads a file.
#[expect(clippy::disallowed_methods, reason = "this is the edge that reads files")]
pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|source| FileError::Read { path: path.to_path_buf(), source })
}

/// Reads a file of text.
pub(crate) fn text_of(path: &Path) -> Result<String, FileError> {
    String::from_utf8(bytes_of(path)?).map_err(|_| FileError::NotText { path: path.to_path_buf() })
}

/// Makes a file that is not there yet. `Ok(false)` when there is one.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    use std::io::Write;
    match std::fs::OpenOptions::new().write(true).create_new(true).open(path).and_then(|mut file| file.write_all(bytes)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(FileError::Write { path: path.to_path_buf(), source }),
    }
}

/// Puts a file in place at once, so that no reader meets half of it. `mode` is for one that comes to be; one that is there
/// keeps its own.
#[expect(clippy::disallowed_methods, reason = "this is the edge that writes files")]
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), FileError> {
    use std::io::Write;
    let told = |source: std::io::Error| FileError::Write { path: path.to_path_buf(), source };
    // A link stays a link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(told)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let fresh = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let mode = std::fs::metadata(&target).map_or(mode, |data| platform::mode_of(&data));
    let written = (|| {
        let mut file = platform::create_with_mode(&fresh, mode)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &target)
    })();
    written.map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        told(error)
    })
}
