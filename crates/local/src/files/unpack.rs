//! Unpacks an archive from a container for `cp`.
//!
//! The archive is not trusted. It is unpacked into a new folder next to the target, where no link
//! leads outside. Only a complete copy is moved into place. Every member either uses an inode or
//! counts towards a limit, so even an endless archive is stopped.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the edge that copies the user's files"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tar::EntryType;

use super::archive::Copied;
use super::check_stop;
use super::links::stay_inside;
use super::members::{Member, Members};
use super::space::Space;
use crate::platform;

/// Maximum depth of folders. A process with a limit of 1024 open files cannot remove deeper trees.
const DEEPEST: usize = 256;
/// Maximum length of a path in bytes, as in Linux.
const LONGEST_PATH: usize = 4096;
/// Maximum number of symlinks, which are held in memory until the end of the archive.
const MOST_LINKS: usize = 100_000;
const MOST_LINK_BYTES: usize = 16 << 20;
/// Maximum number of folders, symlinks and hard links. They use inodes but hardly any space in the
/// archive: two kilobytes can name 255 new folders.
const MOST_WITHOUT_DATA: u64 = 2_000_000;
/// Maximum number of skipped members, and of members that repeat an earlier name.
const MOST_USELESS: u64 = 50_000;
/// Bytes copied between two checks for free space and Ctrl-C.
const PIECE: usize = 128 << 10;

/// An unpacked archive in a folder next to its target. Dropping it removes the folder.
#[derive(Debug)]
pub struct Staged {
    folder: PathBuf,
    name: String,
    copied: Copied,
    space: Space,
    links: Vec<(PathBuf, PathBuf)>,
    link_bytes: usize,
    /// Number of folders, symlinks and hard links.
    without_data: u64,
    /// Number of members that replaced an earlier one.
    repeated: u64,
    /// Set when the user interrupts the copy.
    stop: Arc<AtomicBool>,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // If the removal fails, the folder's name shows that gpuctl created it.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the path of the folder for unpacking an archive for `target`.
pub fn staging_folder(target: &Path, unique: &str) -> PathBuf {
    let parent = target
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    parent.join(format!(".gpuctl-cp-{unique}"))
}

/// Unpacks an archive with one file or directory called `name` into `folder`, which must not exist
/// yet. Setting `stop` interrupts this function and [`Staged::move_into`] at the next block or
/// member.
pub fn stage(
    source: impl Read,
    name: &str,
    folder: &Path,
    stop: &Arc<AtomicBool>,
) -> io::Result<Staged> {
    let folder = folder.to_owned();
    platform::private_folder(&folder)?;
    let space = Space::measure(&folder).inspect_err(|_| {
        let _ = fs::remove_dir(&folder);
    })?;
    let mut staged = Staged {
        folder,
        name: name.to_owned(),
        copied: Copied::default(),
        space,
        links: Vec::new(),
        link_bytes: 0,
        without_data: 0,
        repeated: 0,
        stop: Arc::clone(stop),
    };
    let mut members = Members::new(source);
    while let Some(member) = members.next()? {
        staged.unpack_member(&member, &mut members)?;
        if staged.copied.skipped.count.max(staged.repeated) > MOST_USELESS {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "it has more than 50000 members that cannot be copied",
            ));
        }
    }
    let links = std::mem::take(&mut staged.links);
    if fs::symlink_metadata(staged.folder.join(name)).is_err() {
        return Err(
            match links.iter().find(|(path, _)| path == Path::new(name)) {
                Some((_, link)) => io::Error::new(
                    ErrorKind::InvalidInput,
                    format!("it is a link to {}; copy that path instead", link.display()),
                ),
                None => io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the container sent no data for it",
                ),
            },
        );
    }
    staged.link(&links)?;
    Ok(staged)
}

impl Staged {
    /// Unpacks one member. Symlinks are created after all members, so that no member is written
    /// through one.
    fn unpack_member(&mut self, member: &Member, data: &mut Members<impl Read>) -> io::Result<()> {
        let unnamed = PathBuf::new();
        let archived_path = member.path.as_deref().unwrap_or(&unnamed);
        let path = match self.relative_path(archived_path) {
            Ok(path) => path,
            Err(reason) => {
                self.copied.skipped.add(archived_path, reason);
                return Ok(());
            }
        };
        let target = self.folder.join(&path);
        let skipped = match (member.kind, &member.link) {
            (EntryType::Directory, _) => return self.make_folder(&target),
            (EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse, _)
                if !member.has_pax_holes =>
            {
                self.write(member, &target, data)?;
                None
            }
            (EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse, _) => {
                Some("it is a sparse file in a PAX format that gpuctl does not support")
            }
            (EntryType::Link, link) => match self.hard_link_source(link.as_deref(), &target) {
                Some(first) => {
                    self.hard_link(&first, &target)?;
                    None
                }
                None => Some("it is a hard link to a file outside the folder"),
            },
            (EntryType::Symlink, Some(link)) => {
                self.link_bytes += path.as_os_str().len() + link.as_os_str().len();
                if self.links.len() < MOST_LINKS && self.link_bytes <= MOST_LINK_BYTES {
                    self.links.push((path, link.clone()));
                    return Ok(());
                }
                Some("the archive has too many links")
            }
            _ => Some("it is neither a file nor a folder"),
        };
        match skipped {
            Some(reason) => self.copied.skipped.add(archived_path, reason),
            None => self.copied.files += 1,
        }
        Ok(())
    }

    /// Returns the unpacked file that a hard link refers to, if it is inside the copy.
    fn hard_link_source(&self, link: Option<&Path>, target: &Path) -> Option<PathBuf> {
        let first = self.folder.join(inside(link?, &self.name)?);
        let is_file = || fs::symlink_metadata(&first).is_ok_and(|kind| kind.is_file());
        (first != target && is_file()).then_some(first)
    }

    /// Returns the path of a member below the folder, or the reason to skip it.
    fn relative_path(&self, archived_path: &Path) -> Result<PathBuf, &'static str> {
        if archived_path.as_os_str().is_empty() || archived_path.as_os_str().len() > LONGEST_PATH {
            return Err("its name is empty, too long, or not valid on this system");
        }
        let path = inside(archived_path, &self.name).ok_or("its path points outside the folder")?;
        if path.components().count() > DEEPEST {
            return Err("it is nested in more than 256 folders");
        }
        Ok(path)
    }

    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.make_parents(folder)?;
        match fs::create_dir(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {
                self.repeated += 1;
                Ok(())
            }
            result => result.and_then(|()| self.count_without_data()),
        }
    }

    /// Creates the missing folders above a member. No symlink exists yet, so every folder is inside
    /// the copy.
    fn make_parents(&mut self, path: &Path) -> io::Result<()> {
        let missing: Vec<&Path> = path
            .ancestors()
            .skip(1)
            .take_while(|folder| !folder.is_dir())
            .collect();
        missing.into_iter().rev().try_for_each(|folder| {
            fs::create_dir(folder)?;
            self.count_without_data()
        })
    }

    /// Counts a folder, symlink or hard link, and checks the disk at intervals.
    fn count_without_data(&mut self) -> io::Result<()> {
        self.without_data += 1;
        if self.without_data > MOST_WITHOUT_DATA {
            return Err(io::Error::new(
                ErrorKind::InvalidData,
                "it has more than 2000000 folders and links; copy its folders one by one",
            ));
        }
        self.space.count(PIECE as u64)
    }

    /// Removes the file of an earlier member with the same path.
    fn remove_existing(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => {
                self.repeated += 1;
                removed
            }
        }
    }

    fn write(
        &mut self,
        member: &Member,
        path: &Path,
        data: &mut Members<impl Read>,
    ) -> io::Result<()> {
        self.space.check(member.size)?;
        self.make_parents(path)?;
        self.remove_existing(path)?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let size = match &member.sparse {
            None => {
                self.copy(data, &mut file)?;
                member.size
            }
            Some((segments, total)) => {
                for (offset, length) in segments {
                    file.seek(SeekFrom::Start(*offset))?;
                    self.copy(&mut data.take(*length), &mut file)?;
                }
                // Extend the file to its full size. The rest is a hole and uses no disk space.
                file.set_len(*total)?;
                *total
            }
        };
        self.copied.bytes = self.copied.bytes.saturating_add(size);
        // Make the file executable for every user that can read it, as far as the umask allows.
        if member.mode & 0o100 != 0 {
            platform::make_executable(&file)?;
        }
        Ok(())
    }

    fn copy(&mut self, source: &mut impl Read, file: &mut File) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let count = source.read(&mut piece)?;
            if count == 0 {
                return Ok(());
            }
            file.write_all(&piece[..count])?;
            self.space.count(count as u64)?;
            check_stop(&self.stop)?;
        }
    }

    /// Hard-links an unpacked file to another name. Copying would let an archive multiply a file a
    /// thousand times.
    fn hard_link(&mut self, first: &Path, path: &Path) -> io::Result<()> {
        let size = fs::metadata(first)?.len();
        self.count_without_data()?;
        self.make_parents(path)?;
        self.remove_existing(path)?;
        if fs::hard_link(first, path).is_err() {
            // Copy the file on file systems without hard links.
            self.space.check(size)?;
            let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
            self.copy(&mut File::open(first)?, &mut file)?;
        }
        self.copied.bytes = self.copied.bytes.saturating_add(size);
        Ok(())
    }

    /// Creates the symlinks whose targets are inside the copy.
    fn link(&mut self, links: &[(PathBuf, PathBuf)]) -> io::Result<()> {
        let verdicts = stay_inside(links, &self.folder, &self.name, &self.stop)?;
        for ((path, link), is_kept) in links.iter().zip(verdicts) {
            check_stop(&self.stop)?;
            if is_kept {
                self.count_without_data()?;
                platform::symlink(link, &self.folder.join(path))?;
                self.copied.files += 1;
            } else {
                self.copied
                    .skipped
                    .add(path, "its link points outside the folder, or nowhere");
            }
        }
        Ok(())
    }

    /// Moves the copy to `target`. A file replaces a file, and a folder is merged into a folder. An
    /// interrupted merge leaves the files that were already moved.
    pub fn move_into(self, target: &Path) -> io::Result<Copied> {
        merge(&self.folder.join(&self.name), target, &self.stop)?;
        Ok(self.copied.clone())
    }
}

/// Normalizes an archive path, or returns `None` unless it is `name` or below it.
pub(super) fn inside(path: &Path, name: &str) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => clean.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    clean.starts_with(name).then_some(clean)
}

pub(super) fn merge(from: &Path, to: &Path, stop: &AtomicBool) -> io::Result<()> {
    check_stop(stop)?;
    let kind = |path: &Path| {
        fs::symlink_metadata(path)
            .ok()
            .map(|kind| (kind.is_dir(), kind.is_file() || kind.is_symlink()))
    };
    match (kind(from), kind(to)) {
        (Some((true, _)), Some((true, _))) => fs::read_dir(from)?.try_for_each(|entry| {
            let entry = entry?;
            merge(&entry.path(), &to.join(entry.file_name()), stop)
        }),
        (Some((false, _)), Some((_, true))) | (_, None) => fs::rename(from, to),
        _ => Err(io::Error::new(
            ErrorKind::AlreadyExists,
            format!("{} already exists with a different file type", to.display()),
        )),
    }
}

#[cfg(all(test, unix))]
mod tests;
