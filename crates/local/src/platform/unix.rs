//! Implementations for Linux and macOS.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::termios::{self, OptionalActions, Termios};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{FreeSpace, INTERRUPT, Others, TERMINATE};

/// Puts the terminal into raw mode, so that it passes all keys to the program, including Ctrl-C.
/// Dropping this restores the terminal.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Enables raw mode. Fails if stdin is not a terminal.
    pub fn enter() -> io::Result<Self> {
        let original = termios::tcgetattr(io::stdin())?;
        let mut raw = original.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before: original })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Ignore failures: if the terminal has been closed, there is nothing to restore.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Waits for SIGHUP, SIGINT or SIGTERM and returns its number. The signals are caught from the call
/// on, not from the first poll, so that the caller can clean up.
pub fn termination_signal() -> impl Future<Output = u8> {
    let signals = [
        SignalKind::hangup(),
        SignalKind::interrupt(),
        SignalKind::terminate(),
    ]
    .map(signal);
    async move {
        let [Ok(mut hangup), Ok(mut interrupt), Ok(mut terminate)] = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => INTERRUPT,
            _ = terminate.recv() => TERMINATE,
        }
    }
}

/// A stream of Ctrl-C or termination signals.
#[derive(Debug)]
pub struct Endings {
    signal: Signal,
    number: u8,
}

impl Endings {
    /// Starts catching SIGINT and SIGTERM. Omits signals that cannot be caught.
    pub fn all() -> Vec<Self> {
        let signals = [
            (SignalKind::interrupt(), INTERRUPT),
            (SignalKind::terminate(), TERMINATE),
        ];
        signals
            .into_iter()
            .filter_map(|(kind, number)| Self::listen(kind, number))
            .collect()
    }

    /// Starts catching SIGINT, which then no longer ends the program.
    pub fn interrupt() -> Option<Self> {
        Self::listen(SignalKind::interrupt(), INTERRUPT)
    }

    fn listen(kind: SignalKind, number: u8) -> Option<Self> {
        let signal = signal(kind).ok()?;
        Some(Self { signal, number })
    }

    /// Waits for the next signal and returns its number, or `None` once signals can no longer
    /// arrive.
    pub async fn next(&mut self) -> Option<u8> {
        self.signal.recv().await.map(|()| self.number)
    }
}

/// A stream of changes of the terminal's size.
pub struct WindowChanges(Signal);

impl WindowChanges {
    /// Starts catching the signal for size changes.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::window_change()).map(Self)
    }

    /// Waits for the next change. Returns false once changes can no longer arrive.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Creates a file for writing. Fails if the path exists, even as a dangling symlink. If
/// `ignores_umask` is set, the file gets exactly `mode`.
pub fn create_new(path: &Path, mode: u32, ignores_umask: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(flags)
        .open(path)?;
    if ignores_umask {
        file.set_permissions(Permissions::from_mode(mode))
            .inspect_err(|_| {
                let _ = std::fs::remove_file(path);
            })?;
    }
    Ok(file)
}

/// Opens a regular file for reading. Refuses symlinks, pipes and devices without blocking.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

/// Opens a regular file, or a symlink to one, for reading. Refuses pipes and devices without
/// blocking.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    // Without `O_NONBLOCK`, opening a pipe would wait for a writer.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

/// Reads the free space of the disk that holds `path`.
pub fn free_space(path: &Path) -> io::Result<Option<FreeSpace>> {
    let disk = rustix::fs::statvfs(path)?;
    // Some file systems have no fixed number of inodes and report 0.
    let files = (disk.f_files > 0).then_some(disk.f_favail);
    Ok(Some(FreeSpace {
        // Unlike `f_bfree`, `f_bavail` excludes the blocks that are reserved for root.
        bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        files,
    }))
}

/// Converts a path in an archive, which can contain any bytes.
pub fn path_of_bytes(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns how other users can change a file or folder, or `None` if only its owner and root can.
pub fn access_of_others(data: &Metadata) -> Option<Others> {
    let user = rustix::process::geteuid().as_raw();
    // An owner can always change the mode. Files of root are safe, because root can change
    // everything anyway.
    if data.uid() != user && data.uid() != 0 {
        return Some(Others::Own);
    }
    // In a folder with the sticky bit, users can replace only their own entries.
    let is_sticky = data.is_dir() && data.mode() & 0o1000 != 0;
    (data.mode() & 0o022 != 0 && !is_sticky && !data.is_symlink()).then_some(Others::Write)
}

/// Returns true for a character device, such as `/dev/null` or a terminal.
pub fn is_device(data: &Metadata) -> bool {
    data.file_type().is_char_device()
}

/// Returns true for the device `/dev/null`.
pub fn is_null(data: &Metadata) -> bool {
    is_device(data) && std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == data.rdev())
}

/// Returns true for a pipe, named or anonymous.
pub fn is_pipe(data: &Metadata) -> bool {
    data.file_type().is_fifo()
}

/// Returns true if the user owns the file or folder.
pub fn is_own(data: &Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Returns true if only the user's private group can write to a file. A private group has the same
/// id as its user.
pub fn has_private_group(data: &Metadata) -> bool {
    data.mode() & 0o002 == 0 && data.uid() != 0 && data.gid() == data.uid()
}

/// Returns true if the file system of `path` is mounted read-only.
pub fn is_mounted_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|filesystem| {
        filesystem
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::RDONLY)
    })
}

/// Returns the permission bits of a file, for example `0o644`.
pub fn mode_of(data: &Metadata) -> u32 {
    data.permissions().mode() & 0o7777
}

/// Returns the time of the last modification in Unix seconds.
pub fn modified_at(data: &Metadata) -> u64 {
    u64::try_from(data.mtime()).unwrap_or(0)
}

/// Returns true for a file that at least one user can execute, as Go's `exec.LookPath` checks.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Makes a file executable for every user that can read it.
pub fn make_executable(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(mode | (mode & 0o444) >> 2))
}

/// Creates a directory with mode 0700.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates a folder and its missing parents with the given mode.
pub fn folders_with_mode(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).recursive(true).create(path)
}

/// Restricts a folder to its owner (mode 0700).
pub fn close_folder(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Creates a link at `link` that leads to `target`.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Flags to open a folder only for lookups. `O_PATH` works on Linux without read permission.
#[cfg(target_os = "linux")]
const LOOKUP: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOKUP: OFlags = OFlags::RDONLY;

/// Opens a file for reading by an absolute path, and refuses symlinks in any part of the path.
/// Opens each folder relative to its parent, because another user could replace a folder with a
/// symlink in between. Does not wait for the writer of a named pipe.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let folder = LOOKUP | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut folder_handle = rustix::fs::open("/", folder, Mode::empty())?;
    let mut names = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .peekable();
    while let Some(name) = names.next() {
        let flags = if names.peek().is_some() { folder } else { file };
        folder_handle = rustix::fs::openat(&folder_handle, name.as_os_str(), flags, Mode::empty())?;
    }
    Ok(File::from(folder_handle))
}

/// Returns true if the metadata has the same device and inode, so that both describe one file.
pub fn is_same_file(first: &Metadata, second: &Metadata) -> bool {
    (first.dev(), first.ino()) == (second.dev(), second.ino())
}

/// Returns true if the process may open `count` files. Below the number that a command needs, the
/// async runtime panics.
#[expect(clippy::disallowed_methods, reason = "it is opened to be counted")]
pub fn may_open_files(count: usize) -> bool {
    // ENFILE and EMFILE.
    const TOO_MANY_OPEN: [Option<i32>; 2] = [Some(23), Some(24)];
    let files: Result<Vec<File>, _> = (0..count).map(|_| File::open("/dev/null")).collect();
    // Without `/dev/null` there is nothing to test, so assume no limit.
    files
        .err()
        .is_none_or(|error| !TOO_MANY_OPEN.contains(&error.raw_os_error()))
}
