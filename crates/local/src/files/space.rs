//! Monitors the free space of the target disk, so that a hostile archive cannot fill it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::platform::{self, FreeSpace};

/// Bytes that may be written between two checks of the disk.
const INTERVAL: u64 = 16 << 20;
/// Free space to leave on the disk: this much, or a tenth of the free space if that is less.
const RESERVE: FreeSpace = FreeSpace {
    bytes: 1 << 30,
    files: Some(10_000),
};
const SHARE: u64 = 10;

/// The disk of a folder, and the space to leave free on it. Without a report of free space, nothing
/// is limited.
#[derive(Debug)]
pub(super) struct Space {
    folder: PathBuf,
    reserve: FreeSpace,
    unseen: u64,
}

impl Space {
    /// Measures the free space of the disk that holds `folder`.
    pub(super) fn measure(folder: &Path) -> io::Result<Self> {
        let free = platform::free_space(folder)?.unwrap_or(FreeSpace {
            bytes: 0,
            files: None,
        });
        Ok(Self {
            folder: folder.to_owned(),
            reserve: reserve(free),
            unseen: 0,
        })
    }

    /// Fails if writing `bytes` more would use the reserved space.
    pub(super) fn check(&mut self, bytes: u64) -> io::Result<()> {
        self.unseen = 0;
        let Some(free) = platform::free_space(&self.folder)? else {
            return Ok(());
        };
        fits(free, self.reserve, bytes)
    }

    /// Adds to the written bytes, and checks the disk every 16 MiB.
    pub(super) fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.unseen += bytes;
        if self.unseen < INTERVAL {
            Ok(())
        } else {
            self.check(0)
        }
    }
}

fn reserve(free: FreeSpace) -> FreeSpace {
    let files = free
        .files
        .zip(RESERVE.files)
        .map(|(free, max)| max.min(free / SHARE));
    FreeSpace {
        bytes: RESERVE.bytes.min(free.bytes / SHARE),
        files,
    }
}

fn fits(free: FreeSpace, reserve: FreeSpace, bytes: u64) -> io::Result<()> {
    let storage_full = |reason: String| Err(io::Error::new(ErrorKind::StorageFull, reason));
    if bytes
        .checked_add(reserve.bytes)
        .is_none_or(|needed_files| needed_files > free.bytes)
    {
        let mebibytes = |bytes: u64| bytes >> 20;
        return storage_full(format!(
            "the disk has {} MiB free and {} MiB are reserved; the next part needs {} MiB",
            mebibytes(free.bytes),
            mebibytes(reserve.bytes),
            mebibytes(bytes)
        ));
    }
    match (free.files, reserve.files) {
        (Some(free), Some(reserved)) if free <= reserved => {
            storage_full(format!("the disk has space for only {free} more files"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stops_before_the_disk_is_full() {
        let disk = |bytes: u64, files: u64| FreeSpace {
            bytes,
            files: Some(files),
        };
        let reserved = reserve(disk(100 << 30, 1_000_000));
        assert_eq!(reserved, disk(1 << 30, 10_000));
        assert!(fits(disk(100 << 30, 1_000_000), reserved, 98 << 30).is_ok());
        let error = fits(disk(100 << 30, 1_000_000), reserved, u64::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(
            error
                .to_string()
                .contains("has 102400 MiB free and 1024 MiB are reserved"),
            "{error}"
        );
        assert!(
            fits(disk(1 << 29, 1_000_000), reserved, 0).is_err()
                && fits(disk(2 << 30, 10_000), reserved, 0).is_err()
        );
        // A nearly full disk still accepts small files.
        let reserved = reserve(disk(100 << 20, 100));
        assert!(
            fits(disk(100 << 20, 100), reserved, 89 << 20).is_ok()
                && fits(disk(100 << 20, 100), reserved, 91 << 20).is_err()
        );
        // Some file systems have no fixed number of inodes.
        assert!(
            fits(
                FreeSpace {
                    bytes: 5,
                    files: None
                },
                FreeSpace {
                    bytes: 0,
                    files: None
                },
                5
            )
            .is_ok()
        );
    }
}
