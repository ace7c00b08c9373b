//! What differs between operating systems: signals, raw terminals, rights of files, links. Everything that only one system has is
//! below this folder, with the same functions for each.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{
    Endings, RawMode, WindowChanges, create_with_mode, ended_from_outside, is_same_file, may_run, mode_of, modified_at,
    open_plain, private_folder, symlink,
};
#[cfg(windows)]
pub(crate) use windows::{
    Endings, RawMode, WindowChanges, create_with_mode, ended_from_outside, is_same_file, may_run, mode_of, modified_at,
    open_plain, private_folder, symlink,
};

/// The number of Ctrl-C's signal.
pub(crate) const INTERRUPT: u8 = 2;
