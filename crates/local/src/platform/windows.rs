//! Implementations for Windows. Raw terminals are not implemented yet, so sessions read whole
//! lines.
#![expect(
    clippy::disallowed_methods,
    reason = "files are written with the rights of their folder"
)]

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

use super::{FreeSpace, INTERRUPT, Others, TERMINATE};

/// Raw mode of the terminal, which is not supported on Windows.
pub struct RawMode;

impl RawMode {
    /// Always fails.
    pub fn enter() -> io::Result<Self> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "gpuctl does not support raw terminals on Windows",
        ))
    }
}

/// Waits for an event that ends this process, and returns the number of the corresponding Unix
/// signal.
pub fn termination_signal() -> impl Future<Output = u8> {
    let (keys, breaks, closes) = (ctrl_c(), ctrl_break(), ctrl_close());
    async move {
        let (Ok(mut keys), Ok(mut breaks), Ok(mut closes)) = (keys, breaks, closes) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = keys.recv() => INTERRUPT,
            _ = breaks.recv() => TERMINATE,
            _ = closes.recv() => 1,
        }
    }
}

/// A stream of Ctrl-C or termination events.
#[derive(Debug)]
pub enum Endings {
    Keys(CtrlC),
    Breaks(CtrlBreak),
    Closes(CtrlClose),
}

impl Endings {
    /// Starts listening to all events. Omits events that cannot be handled.
    pub fn all() -> Vec<Self> {
        let signals = [
            ctrl_c().ok().map(Self::Keys),
            ctrl_break().ok().map(Self::Breaks),
            ctrl_close().ok().map(Self::Closes),
        ];
        signals.into_iter().flatten().collect()
    }

    /// Starts listening to Ctrl-C, which then no longer ends the program.
    pub fn interrupt() -> Option<Self> {
        ctrl_c().ok().map(Self::Keys)
    }

    /// Waits for the next event and returns the number of the corresponding Unix signal, or `None`
    /// once events can no longer arrive.
    pub async fn next(&mut self) -> Option<u8> {
        match self {
            Self::Keys(keys) => keys.recv().await.map(|()| INTERRUPT),
            Self::Breaks(breaks) => breaks.recv().await.map(|()| TERMINATE),
            Self::Closes(closes) => closes.recv().await.map(|()| 1),
        }
    }
}

/// A stream of changes of the terminal's size, which Windows does not report.
pub struct WindowChanges;

impl WindowChanges {
    /// Succeeds, but never reports a change.
    pub fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits forever.
    pub async fn next(&mut self) -> bool {
        std::future::pending().await
    }
}

/// Creates a file for writing. The file inherits the access rights of its folder, which the user
/// owns.
pub fn create_new(path: &Path, _mode: u32, _ignores_umask: bool) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Opens a regular file for reading.
pub fn open_file(path: &Path) -> io::Result<File> {
    match std::fs::symlink_metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Opens a file for reading. On Windows, folders contain no pipes.
pub fn open_regular(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Always false: devices are opened like files.
pub fn is_device(_data: &Metadata) -> bool {
    false
}

/// Always false: no file represents the null device.
pub fn is_null(_data: &Metadata) -> bool {
    false
}

/// Always false: folders contain no pipes.
pub fn is_pipe(_data: &Metadata) -> bool {
    false
}

/// Always `None`: measuring free space is not implemented.
pub fn free_space(_path: &Path) -> io::Result<Option<FreeSpace>> {
    Ok(None)
}

/// Converts a path in an archive, which must be UTF-8.
pub fn path_of_bytes(bytes: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Always `None`: access control lists are not read.
pub fn access_of_others(_data: &Metadata) -> Option<Others> {
    None
}

/// Always true: owners are not read.
pub fn is_own(_data: &Metadata) -> bool {
    true
}

/// Always false: Windows has no private groups.
pub fn has_private_group(_data: &Metadata) -> bool {
    false
}

/// Returns the permission bits that such a file usually has on Unix.
pub fn mode_of(data: &Metadata) -> u32 {
    match (data.is_dir(), data.permissions().readonly()) {
        (true, _) => 0o755,
        (false, true) => 0o444,
        (false, false) => 0o644,
    }
}

/// Returns the time of the last modification in Unix seconds.
pub fn modified_at(data: &Metadata) -> u64 {
    data.modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |since| since.as_secs())
}

/// Returns true for a file. On Windows, the file's name determines whether it is executable.
pub fn is_executable(path: &Path) -> bool {
    path.is_file()
}

/// Does nothing: on Windows, the file's name determines whether it is executable.
pub fn make_executable(_file: &File) -> io::Result<()> {
    Ok(())
}

/// Creates a directory with the permissions of its parent.
pub fn private_folder(path: &Path) -> io::Result<()> {
    std::fs::create_dir(path)
}

/// Creates a folder and its missing parents.
pub fn folders_with_mode(path: &Path, _mode: u32) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Does nothing: gpuctl does not change access control lists.
pub fn close_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Creates a link at `link` that leads to `target`.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    if link
        .parent()
        .is_some_and(|parent| parent.join(target).is_dir())
    {
        return std::os::windows::fs::symlink_dir(target, link);
    }
    std::os::windows::fs::symlink_file(target, link)
}

/// Opens a file for reading.
pub fn open_plain(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

/// Returns true if the size and times are equal. Stable Rust exposes no file id on Windows, so two
/// different files can match.
pub fn is_same_file(first: &Metadata, second: &Metadata) -> bool {
    let identity = |data: &Metadata| (data.len(), data.created().ok(), data.modified().ok());
    identity(first) == identity(second)
}

/// Always true: Windows has no limit that matters in practice.
pub fn may_open_files(_: usize) -> bool {
    true
}

/// The result is unused, because access rights are not checked on Windows.
pub fn is_mounted_read_only(_: &Path) -> bool {
    false
}
