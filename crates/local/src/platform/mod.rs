//! Differences between operating systems: signals, raw terminals, file modes, links. Each system
//! has one file in this directory, and all of them export the same functions.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{
    Endings, RawMode, WindowChanges, access_of_others, close_folder, create_new, folders_with_mode,
    free_space, has_private_group, is_device, is_executable, is_mounted_read_only, is_null, is_own,
    is_pipe, is_same_file, make_executable, may_open_files, mode_of, modified_at, open_file,
    open_plain, open_regular, path_of_bytes, private_folder, symlink, termination_signal,
};
#[cfg(windows)]
pub use windows::{
    Endings, RawMode, WindowChanges, access_of_others, close_folder, create_new, folders_with_mode,
    free_space, has_private_group, is_device, is_executable, is_mounted_read_only, is_null, is_own,
    is_pipe, is_same_file, make_executable, may_open_files, mode_of, modified_at, open_file,
    open_plain, open_regular, path_of_bytes, private_folder, symlink, termination_signal,
};

/// Number of SIGINT, which Ctrl-C sends.
pub const INTERRUPT: u8 = 2;
/// Number of SIGTERM.
const TERMINATE: u8 = 15;

/// Free space of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    pub bytes: u64,
    /// Number of free inodes; `None` if the file system has no fixed number.
    pub files: Option<u64>,
}

/// How users other than this user and root can change a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    windows,
    expect(dead_code, reason = "access control lists are not read")
)]
pub enum Others {
    /// Another user owns the file and can also change its mode.
    Own,
    Write,
}
