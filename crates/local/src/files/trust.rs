//! Checks, as ssh does, whether other users can change the user's files. The config file can run
//! commands, and a cache determines which servers receive credentials.

use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use super::{FileError, Purpose, open, read_limited, text};
use crate::platform::{self, Others};

/// Maximum number of symlinks in a path, as in Linux.
const MOST_LINKS: usize = 40;

/// A file or folder that other users can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposure {
    path: PathBuf,
    by: Others,
    /// True if `path` is at least two folders above the file. Such a folder may be shared on
    /// purpose.
    is_far: bool,
}

impl Exposure {
    /// Describes the exposure and the command that repairs it.
    pub fn message(&self) -> String {
        let path = self.path.display();
        match self.by {
            Others::Own if self.is_far => {
                format!("{path} belongs to another user (move the file out of it)")
            }
            Others::Own => format!(
                "{path} belongs to another user (repair it: {})",
                self.repair()
            ),
            Others::Write => format!(
                "other users can write to {path} (repair it: {})",
                self.repair()
            ),
        }
    }

    /// Builds the shell command that removes the other users' access.
    pub fn repair(&self) -> String {
        let text = self.path.display().to_string();
        let is_plain = text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "/._-+@,:".contains(letter));
        let path = if is_plain {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        };
        match self.by {
            Others::Own => format!("chown \"$(id -u)\" {path}"),
            Others::Write => format!("chmod go-w {path}"),
        }
    }
}

/// Finds a file, parent folder or symlink on the path that users other than this user and root can
/// change. Checks every type of file, because a pipe can also deliver content from another user.
pub fn exposure(path: &Path) -> io::Result<Option<Exposure>> {
    check_chain(&std::path::absolute(path)?, 0)
}

/// Reads the config file. At the default path it must be a regular file, because another user may
/// have created a different one. A path that the user specified may also be a device, such as
/// `/dev/null`, or the pipe of `--config <(…)`. Named pipes are refused unopened, because opening
/// one waits for a writer.
pub fn config_text(path: &Path, is_named: bool) -> Result<String, FileError> {
    // A command reads its settings several times, but a pipe can be read only once.
    static PIPED: OnceLock<Vec<u8>> = OnceLock::new();
    let read = || {
        let is_piped = is_named && is_piped(path)?;
        if let Some(bytes) = PIPED.get().filter(|_| is_piped) {
            return Ok(bytes.clone());
        }
        let data = std::fs::metadata(path)?;
        let is_device = (is_named && platform::is_device(&data)) || platform::is_null(&data);
        let bytes = read_limited(if is_piped || is_device {
            open(path)?
        } else {
            platform::open_regular(path)?
        })?;
        Ok(if is_piped {
            PIPED.get_or_init(|| bytes).clone()
        } else {
            bytes
        })
    };
    let bytes = read().map_err(|source| FileError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    text(bytes, path)
}

/// Returns true if a path leads to a pipe that this process inherited.
fn is_piped(path: &Path) -> io::Result<bool> {
    let mut current = std::path::absolute(path)?;
    for _ in 0..=MOST_LINKS {
        if is_inherited_pipe(&current) {
            return Ok(true);
        }
        let Ok(target) = std::fs::read_link(&current) else {
            return Ok(false);
        };
        current = current.parent().unwrap_or(Path::new("/")).join(target);
    }
    Ok(false)
}

/// Returns true if a path names a file descriptor of this process that is a pipe, as shells pass it
/// for `<(…)`. Only the process that started gpuctl can have created that pipe.
fn is_inherited_pipe(path: &Path) -> bool {
    let Some(folder) = path
        .parent()
        .and_then(|folder| std::fs::canonicalize(folder).ok())
    else {
        return false;
    };
    let is_descriptor = folder == Path::new("/dev/fd")
        || folder == Path::new(&format!("/proc/{}/fd", std::process::id()));
    // Linux shows an anonymous pipe as `pipe:[NUMBER]`, and a named pipe with its path.
    let has_path = std::fs::read_link(path).is_ok_and(|target| target.is_absolute());
    is_descriptor && !has_path && std::fs::metadata(path).is_ok_and(|data| platform::is_pipe(&data))
}

fn check_chain(path: &Path, links: usize) -> io::Result<Option<Exposure>> {
    if links > MOST_LINKS {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "too many symbolic links",
        ));
    }
    let mut current = PathBuf::new();
    for part in path.components() {
        current.push(part);
        if matches!(part, Component::Prefix(_)) {
            continue;
        }
        let data = std::fs::symlink_metadata(&current)?;
        let is_far = !path.ancestors().take(3).any(|near| near == current);
        match platform::access_of_others(&data) {
            // Distributions with umask 002 give each user a group without other members. Debian's
            // ssh also accepts files that such a group can write.
            Some(Others::Write) if platform::has_private_group(&data) => {}
            // The kubelet mounts ConfigMaps read-only, but gives their folders mode 0777.
            Some(Others::Write) if platform::is_mounted_read_only(&current) => {}
            // Writing to a device does not change its content, and `/dev/null` has mode 0666. In a
            // rootless container, `/dev/null` belongs to a user of the host.
            Some(Others::Write) if platform::is_device(&data) => {}
            Some(Others::Own) if platform::is_null(&data) => {}
            Some(writer) => {
                return Ok(Some(Exposure {
                    path: current,
                    by: writer,
                    is_far,
                }));
            }
            None => {}
        }
        if data.is_symlink() && !is_inherited_pipe(&current) {
            let target = current
                .parent()
                .unwrap_or(Path::new("/"))
                .join(std::fs::read_link(&current)?);
            if let Some(exposure) = check_chain(&target, links + 1)? {
                return Ok(Some(exposure));
            }
        }
    }
    Ok(None)
}

/// Follows symlinks to the file. If `path` is a symlink, the user must own every link and the file.
pub(super) fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..=MOST_LINKS {
        let data = match std::fs::symlink_metadata(&target) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(target),
            data => data?,
        };
        if !data.is_symlink() && target == path {
            return Ok(target);
        }
        if !platform::is_own(&data) {
            let reason = format!(
                "it is a symbolic link, and {} belongs to another user",
                target.display()
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
        }
        if !data.is_symlink() {
            return Ok(target);
        }
        target = target
            .parent()
            .unwrap_or(Path::new(""))
            .join(std::fs::read_link(&target)?);
    }
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        "too many symbolic links",
    ))
}

/// Removes other users' write access to a folder. Returns false if that fails, for example because
/// another user owns the folder; its content is then not trusted.
pub fn is_closed(folder: &Path) -> bool {
    let Ok(data) = std::fs::symlink_metadata(folder) else {
        return false;
    };
    if !data.is_dir() || platform::access_of_others(&data) == Some(Others::Own) {
        return false;
    }
    // Check the mode even with the sticky bit, which still lets others create files.
    platform::mode_of(&data) & 0o022 == 0
        || platform::is_own(&data) && platform::close_folder(folder).is_ok()
}

/// Restricts an existing folder of gpuctl to the user. An earlier version or another program may
/// have created it with mode 0755. Ignores symlinks and folders of other users.
pub fn make_private(folder: &Path) {
    let Ok(data) = std::fs::symlink_metadata(folder) else {
        return;
    };
    if data.is_dir() && platform::is_own(&data) && platform::mode_of(&data) & 0o077 != 0 {
        // Ignore failures, because some file systems have no modes.
        let _ = platform::close_folder(folder);
    }
}

/// Returns gpuctl's own folders that contain a file, innermost first.
fn state_folders(path: &Path) -> Vec<&Path> {
    let folders: Vec<&Path> = path.ancestors().skip(1).collect();
    let outermost = folders
        .iter()
        .position(|folder| folder.ends_with("gpuctl"))
        .unwrap_or(0);
    folders.into_iter().take(outermost + 1).collect()
}

fn permission_denied(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, reason)
}

/// Reads a state file of gpuctl. Fails if another user owns or can write to the file or its folder.
pub fn read_trusted(path: &Path) -> Result<String, FileError> {
    let read = || {
        if !state_folders(path).into_iter().all(is_closed) {
            return Err(permission_denied("other users can write to its folder"));
        }
        let mut file = platform::open_file(path)?;
        if platform::access_of_others(&file.metadata()?).is_some() {
            return Err(permission_denied("other users can write to it"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text)
    };
    read().map_err(|source| FileError::Read {
        path: path.to_path_buf(),
        source,
    })
}

/// Writes a state file of gpuctl in a folder that only the user can enter.
pub fn write_own(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let write_error = |source| FileError::Write {
        path: path.to_path_buf(),
        source,
    };
    let folders = state_folders(path);
    if let Some(inner) = folders.first() {
        platform::folders_with_mode(inner, super::PRIVATE_FOLDER).map_err(write_error)?;
    }
    if !folders.iter().copied().all(is_closed) {
        return Err(write_error(permission_denied(
            "other users can write to its folder",
        )));
    }
    if folders
        .last()
        .is_some_and(|folder| folder.ends_with("gpuctl"))
    {
        folders.into_iter().for_each(make_private);
    }
    super::replace(path, bytes, Purpose::Private)
}
