//! Linux and macOS.

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

/// Passes all keys to the program instead of the terminal's line editor, including Ctrl-C. Dropping
/// it restores the terminal.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Fails if stdin is not a terminal.
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
        // The terminal may be gone, and then there is nothing to restore.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Waits for a signal that ends this process, and returns its number. The signals are caught as
/// soon as this is called, so the caller can clean up first.
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
    /// Starts listening. Skips signals that cannot be handled.
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

    /// Listens to Ctrl-C only, which then no longer ends the program.
    pub fn interrupt() -> Option<Self> {
        Self::listen(SignalKind::interrupt(), INTERRUPT)
    }

    fn listen(kind: SignalKind, number: u8) -> Option<Self> {
        let signal = signal(kind).ok()?;
        Some(Self { signal, number })
    }

    /// Waits for the next signal, and returns its number; `None` if there will be none.
    pub async fn next(&mut self) -> Option<u8> {
        self.signal.recv().await.map(|()| self.number)
    }
}

/// Signals changes of the window size.
pub struct WindowChanges(Signal);

impl WindowChanges {
    /// Starts listening.
    pub fn listen() -> io::Result<Self> {
        signal(SignalKind::window_change()).map(Self)
    }

    /// Waits for the next change; false if there will be none.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Creates a file for writing. Fails if the path exists, even as a dangling symlink. With
/// `ignores_umask`, the mode does not depend on the umask.
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

/// Opens a regular file for reading. Refuses a symlink, a pipe or a device without blocking.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::NOFOLLOW)
}

/// Opens a regular file, or a symlink to one, for reading. Refuses a pipe or a device without
/// blocking.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::empty())
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe would wait for a writer.
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

/// Reads the free space of the disk that holds a path.
pub fn free_space(path: &Path) -> io::Result<Option<FreeSpace>> {
    let disk = rustix::fs::statvfs(path)?;
    // Some file systems have no fixed number of inodes.
    let files = (disk.f_files > 0).then_some(disk.f_favail);
    Ok(Some(FreeSpace {
        // `f_bavail` excludes the blocks reserved for root, unlike `f_bfree`.
        bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
        files,
    }))
}

/// Converts the bytes of an archive to a path.
pub fn path_of_bytes(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Determines how other users can change a file or folder; `None` if only its owner and root can.
pub fn access_of_others(data: &Metadata) -> Option<Others> {
    let user = rustix::process::geteuid().as_raw();
    // An owner can always change the mode. Root can change everything, so it does not count.
    if data.uid() != user && data.uid() != 0 {
        return Some(Others::Own);
    }
    // In a folder with the sticky bit, only owners can replace their entries.
    let is_sticky = data.is_dir() && data.mode() & 0o1000 != 0;
    (data.mode() & 0o022 != 0 && !is_sticky && !data.is_symlink()).then_some(Others::Write)
}

/// Whether it is a device that reads and writes characters, such as `/dev/null` or a terminal.
pub fn is_device(data: &Metadata) -> bool {
    data.file_type().is_char_device()
}

/// Whether it is the device `/dev/null`.
pub fn is_null(data: &Metadata) -> bool {
    is_device(data) && std::fs::metadata("/dev/null").is_ok_and(|null| null.rdev() == data.rdev())
}

/// Whether it is a pipe, with or without a name.
pub fn is_pipe(data: &Metadata) -> bool {
    data.file_type().is_fifo()
}

/// Whether the user owns a file or folder.
pub fn is_own(data: &Metadata) -> bool {
    data.uid() == rustix::process::geteuid().as_raw()
}

/// Whether the only other writer of a file or folder is the user's private group, whose id equals
/// the user's id.
pub fn has_private_group(data: &Metadata) -> bool {
    data.mode() & 0o002 == 0 && data.uid() != 0 && data.gid() == data.uid()
}

/// Whether the file system of `path` refuses all writes.
pub fn is_mounted_read_only(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|filesystem| {
        filesystem
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::RDONLY)
    })
}

/// Reads the permission bits of a file, for example `0o644`.
pub fn mode_of(data: &Metadata) -> u32 {
    data.permissions().mode() & 0o7777
}

/// Reads the time of the last modification, in Unix seconds.
pub fn modified_at(data: &Metadata) -> u64 {
    u64::try_from(data.mtime()).unwrap_or(0)
}

/// Whether the path is a file that some user can execute, as Go's `exec.LookPath` checks.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Makes a file executable for every user that can read it.
pub fn make_executable(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(mode | (mode & 0o444) >> 2))
}

/// Creates a directory that only the user can enter.
pub fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Creates a folder and its missing parents with this mode.
pub fn folders_with_mode(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).recursive(true).create(path)
}

/// Sets the mode 0700.
pub fn close_folder(path: &Path) -> io::Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Creates a link at `link` that leads to `target`.
pub fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Flags to open a folder for lookups. With `O_PATH`, Linux needs no permission to read it.
#[cfg(target_os = "linux")]
const LOOKUP: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOKUP: OFlags = OFlags::RDONLY;

/// Opens a file for reading by an absolute path, but refuses a symlink at any part of the path.
/// Another user can replace a folder by a symlink at any time, so this opens each folder relative
/// to its parent. Does not wait for the writer of a FIFO.
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

/// Whether both describe the same file.
pub fn is_same_file(first: &Metadata, second: &Metadata) -> bool {
    (first.dev(), first.ino()) == (second.dev(), second.ino())
}

/// Whether the process may open the minimum number of files for a command. Otherwise the runtime
/// aborts.
#[expect(clippy::disallowed_methods, reason = "it is opened to be counted")]
pub fn may_open_files(count: usize) -> bool {
    // The error codes ENFILE and EMFILE.
    const TOO_MANY_OPEN: [Option<i32>; 2] = [Some(23), Some(24)];
    let files: Result<Vec<File>, _> = (0..count).map(|_| File::open("/dev/null")).collect();
    // Assume no limit on a system without that file.
    files
        .err()
        .is_none_or(|error| !TOO_MANY_OPEN.contains(&error.raw_os_error()))
}
