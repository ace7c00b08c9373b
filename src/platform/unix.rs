//! Linux and macOS.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::termios::{self, OptionalActions, Termios};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::INTERRUPT;

/// Keys go to the program and not to this terminal's line editor, Ctrl-C among them. Ends when it is dropped.
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Fails when stdin is no terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // Nothing is left to be done about a terminal that went away.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Returns the signal that ends this process from outside, as its number. It is caught from the call on, so that whoever waits
/// for it can tidy up first.
pub(crate) fn ended_from_outside() -> impl Future<Output = u8> {
    let signals = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [Ok(mut hangup), Ok(mut interrupt), Ok(mut terminate)] = signals else { return std::future::pending().await };
        tokio::select! {
            _ = hangup.recv() => 1,
            _ = interrupt.recv() => INTERRUPT,
            _ = terminate.recv() => 15,
        }
    }
}

/// Ctrl-C and the wish that the process end, each time.
#[derive(Debug)]
pub(crate) struct Endings(Signal);

impl Endings {
    /// Listens from now on; what cannot be heard is left out.
    pub(crate) fn all() -> Vec<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        kinds.into_iter().filter_map(|kind| signal(kind).ok()).map(Self).collect()
    }

    /// Listens to Ctrl-C alone, which does not end the program any more.
    pub(crate) fn interrupt() -> Option<Self> {
        signal(SignalKind::interrupt()).ok().map(Self)
    }

    /// Waits for the next one; false when there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Tells each time that the size of the window has changed.
pub(crate) struct WindowChanges(Signal);

impl WindowChanges {
    /// Listens from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        signal(SignalKind::window_change()).map(Self)
    }

    /// Waits for the next one; false when there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Opens a file for writing, empty and with this mode, whatever the umask.
pub(crate) fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(file)
}

/// Returns the rights of a file as octal digits are written: `0o644`.
pub(crate) fn mode_of(data: &Metadata) -> u32 {
    data.permissions().mode() & 0o7777
}

/// Returns when a file was written last, in Unix seconds.
pub(crate) fn modified_at(data: &Metadata) -> u64 {
    u64::try_from(data.mtime()).unwrap_or(0)
}

/// Lets whoever may read a file run it.
pub(crate) fn may_run(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(mode | (mode & 0o444) >> 2))
}

/// Makes a folder that nobody else may enter.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a link at `place` that leads to `target`.
pub(crate) fn symlink(target: &Path, place: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

/// Opens a file for reading, but no link in its place. A FIFO is opened without waiting for a writer.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Whether both describe one file.
pub(crate) fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
