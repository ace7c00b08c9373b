//! Reads a bundle from a file. A bundle may come from an untrusted source, so its compressed size,
//! uncompressed size and estimated memory are checked before any value is stored.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeSeed;

use super::{Bundle, BundleError, FORMAT};
use crate::files::FileError;
use gpuctl_core::model::values::json_weight::WithinWeight;

/// Maximum size of the compressed file in bytes.
const PACKED: u64 = 64 << 20;
/// Maximum size of the uncompressed JSON in bytes.
const UNPACKED: u64 = 128 << 20;
/// Maximum estimated memory of the parsed values in bytes.
const MEMORY: usize = 256 << 20;

impl Bundle {
    pub fn read(path: &Path) -> Result<Self, BundleError> {
        Self::check_size(path)?;
        let file = open(path)?;
        let not_decoded = |cause: NotDecoded| not_bundle(path, &cause);
        let BundleHead { format } = decode(&file, PhantomData).map_err(not_decoded)?;
        match format {
            Some(FORMAT) => decode(&file, PhantomData).map_err(not_decoded),
            Some(other) => Err(not_bundle(
                path,
                &format!("its format is {other}, but this version of gpuctl reads format {FORMAT}"),
            )),
            None => Err(not_bundle(path, &"it does not contain its format version")),
        }
    }
}

impl Bundle {
    /// Fails if a bundle exceeds the limits of `read`. The memory is estimated without allocating
    /// it, so a hostile file cannot exhaust it.
    pub fn check_size(path: &Path) -> Result<(), BundleError> {
        let file = open(path)?;
        decode(&file, WithinWeight(MEMORY))
            .map(drop)
            .map_err(|cause| not_bundle(path, &cause))
    }
}

fn not_bundle(path: &Path, cause: &dyn Display) -> BundleError {
    BundleError::NotBundle {
        file: path.display().to_string(),
        cause: cause.to_string(),
    }
}

/// Error from decompressing or parsing a bundle.
#[derive(Debug, thiserror::Error)]
enum NotDecoded {
    #[error("it cannot be decompressed: {0}")]
    Packed(serde_json::Error),
    #[error(transparent)]
    Json(serde_json::Error),
    #[error(transparent)]
    Rewind(std::io::Error),
}

/// Opens a regular file and rejects all others: opening a pipe can block forever, and a device such
/// as `/dev/zero` never ends.
#[expect(clippy::disallowed_methods, reason = "a bundle is read as a stream")]
fn open(path: &Path) -> Result<File, BundleError> {
    let failed = |source| {
        BundleError::File(FileError::Read {
            path: path.to_path_buf(),
            source,
        })
    };
    let unsuitable = |cause: &str| not_bundle(path, &cause);
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(unsuitable("it is not a regular file"));
    }
    let file = File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    if !data.is_file() {
        return Err(unsuitable("it is not a regular file"));
    }
    if data.len() > PACKED {
        return Err(unsuitable("it is larger than 64 MiB"));
    }
    Ok(file)
}

/// Decompresses the file from its beginning and deserializes one value.
fn decode<T, S: for<'de> DeserializeSeed<'de, Value = T>>(
    mut file: &File,
    seed: S,
) -> Result<T, NotDecoded> {
    use std::io::Seek;
    file.rewind().map_err(NotDecoded::Rewind)?;
    // Limit the bytes read although `open` checked the length: files in /proc report length 0 but
    // can be endless.
    let decoder = GzDecoder::new(BufReader::new(file.take(PACKED)));
    let reader = BufReader::new(Limited {
        inner: decoder,
        left: UNPACKED,
    });
    let mut json = serde_json::Deserializer::from_reader(reader);
    let read = seed
        .deserialize(&mut json)
        .and_then(|value| json.end().map(|()| value));
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Io => NotDecoded::Packed(error),
        _ => NotDecoded::Json(error),
    })
}

/// Reader that fails after `left` more bytes.
struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(count as u64)
            .ok_or_else(|| std::io::Error::other("its content is larger than 128 MiB"))?;
        Ok(count)
    }
}

#[derive(Deserialize)]
struct BundleHead {
    #[serde(default)]
    format: Option<u32>,
}
