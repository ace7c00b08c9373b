//! Reads the members of a tar archive from an untrusted container.
//!
//! The reader in the `tar` crate loads extension headers of any size into memory and turns holes
//! into zeros. This reader limits extension headers, lists of segments, and the data of skipped
//! members.

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

use crate::platform;

const BLOCK: u64 = 512;
/// Maximum bytes of the extension headers of one member: long names, PAX records and segment lists.
const MOST_EXTENSIONS: u64 = 1 << 20;
/// Maximum bytes of data in skipped members.
const MOST_UNWANTED: u64 = 1 << 30;

/// One member of an archive. Its data can be read from [`Members`] until the next member is
/// requested.
#[derive(Debug)]
pub(super) struct Member {
    pub kind: EntryType,
    /// Path of the member; `None` if this platform cannot represent it.
    pub path: Option<PathBuf>,
    pub link: Option<PathBuf>,
    pub mode: u32,
    /// Bytes of data in the archive, without holes.
    pub size: u64,
    /// For an old GNU sparse member, the (offset, length) of each segment and the size of the whole
    /// file.
    pub sparse: Option<(Vec<(u64, u64)>, u64)>,
    /// True if PAX records describe holes. None of the three PAX formats is supported.
    pub has_pax_holes: bool,
}

/// Reads an archive member by member.
pub(super) struct Members<R> {
    source: R,
    /// Remaining bytes of the current member's data; `padding` follows them.
    data: u64,
    padding: u64,
    unwanted: u64,
}

/// Values from extension headers, which override the next member's header.
#[derive(Default)]
struct Extensions {
    bytes: u64,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    has_pax_holes: bool,
}

impl<R: Read> Members<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            data: 0,
            padding: 0,
            unwanted: 0,
        }
    }

    /// Reads the next member, or returns `None` at the end of the archive.
    pub(super) fn next(&mut self) -> io::Result<Option<Member>> {
        self.skip_rest()?;
        let mut extensions = Extensions::default();
        loop {
            let mut header = Header::new_old();
            self.source.read_exact(header.as_mut_bytes())?;
            if header.as_bytes().iter().all(|byte| *byte == 0) {
                return match extensions.bytes {
                    0 => Ok(None),
                    _ => Err(invalid("it ends with an extension header")),
                };
            }
            if checksum(&header) != header.cksum().map_err(malformed)? {
                return Err(invalid("a header has a wrong checksum"));
            }
            let size = header.entry_size().map_err(malformed)?;
            match header.entry_type() {
                EntryType::GNULongName => {
                    extensions.path = Some(self.extension(size, &mut extensions.bytes)?);
                }
                EntryType::GNULongLink => {
                    extensions.link = Some(self.extension(size, &mut extensions.bytes)?);
                }
                EntryType::XHeader => {
                    let records = self.extension(size, &mut extensions.bytes)?;
                    extensions.add(&records)?;
                }
                // No tar writes names or sizes into global headers, so skip them.
                EntryType::XGlobalHeader => drop(self.extension(size, &mut extensions.bytes)?),
                _ => return self.member(&header, size, extensions).map(Some),
            }
        }
    }

    fn extension(&mut self, size: u64, total: &mut u64) -> io::Result<Vec<u8>> {
        *total = total.saturating_add(size).saturating_add(BLOCK);
        if *total > MOST_EXTENSIONS {
            return Err(invalid("its extension headers are longer than 1 MiB"));
        }
        self.start(size)?;
        let mut bytes = Vec::new();
        self.read_to_end(&mut bytes)?;
        self.skip_rest()?;
        Ok(bytes)
    }

    fn member(&mut self, header: &Header, size: u64, extensions: Extensions) -> io::Result<Member> {
        let size = extensions.size.unwrap_or(size);
        let path = extensions
            .path
            .unwrap_or_else(|| header.path_bytes().into_owned());
        let link = extensions
            .link
            .or_else(|| header.link_name_bytes().map(std::borrow::Cow::into_owned));
        let sparse = match header.entry_type() {
            EntryType::GNUSparse => Some(self.segments(header, size, extensions.bytes)?),
            _ => None,
        };
        self.start(size)?;
        Ok(Member {
            kind: header.entry_type(),
            path: platform::path_of_bytes(until_nul(&path)),
            link: link.and_then(|link| platform::path_of_bytes(until_nul(&link))),
            mode: header.mode().unwrap_or(0),
            size,
            sparse,
            has_pax_holes: extensions.has_pax_holes,
        })
    }

    /// Reads the segments of an old GNU sparse member, which continue in extra blocks after the
    /// header.
    fn segments(
        &mut self,
        header: &Header,
        size: u64,
        mut extensions: u64,
    ) -> io::Result<(Vec<(u64, u64)>, u64)> {
        let gnu = header
            .as_gnu()
            .ok_or_else(|| invalid("a sparse member has no GNU header"))?;
        let total = gnu.real_size().map_err(malformed)?;
        let (mut segments, mut end, mut sum) = (Vec::new(), 0_u64, 0_u64);
        let mut add = |blocks: &[GnuSparseHeader]| {
            for block in blocks.iter().filter(|block| !block.is_empty()) {
                let (offset, length) = (
                    block.offset().map_err(malformed)?,
                    block.length().map_err(malformed)?,
                );
                let segment_end = offset
                    .checked_add(length)
                    .filter(|segment_end| offset >= end && *segment_end <= total);
                end = segment_end
                    .ok_or_else(|| invalid("the segments of a sparse member are out of order"))?;
                // The segments are ascending and do not overlap, so the sum of their lengths cannot
                // overflow.
                sum += length;
                segments.push((offset, length));
            }
            Ok::<_, io::Error>(())
        };
        add(&gnu.sparse)?;
        let mut is_extended = gnu.is_extended();
        while is_extended {
            extensions += BLOCK;
            if extensions > MOST_EXTENSIONS {
                return Err(invalid(
                    "the list of segments of a sparse member is longer than 1 MiB",
                ));
            }
            let mut extension = GnuExtSparseHeader::new();
            self.source.read_exact(extension.as_mut_bytes())?;
            add(extension.sparse())?;
            is_extended = extension.is_extended();
        }
        match sum == size {
            true => Ok((segments, total)),
            false => Err(invalid(
                "the segments of a sparse member do not match the size of its data",
            )),
        }
    }

    fn start(&mut self, size: u64) -> io::Result<()> {
        let padded_size = size
            .checked_next_multiple_of(BLOCK)
            .ok_or_else(|| invalid("a member is too large"))?;
        (self.data, self.padding) = (size, padded_size - size);
        Ok(())
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        self.unwanted = self.unwanted.saturating_add(self.data);
        if self.unwanted > MOST_UNWANTED {
            return Err(invalid("it has more than 1 GiB of skipped members"));
        }
        let remaining = self.data + self.padding;
        (self.data, self.padding) = (0, 0);
        let read = io::copy(&mut self.source.by_ref().take(remaining), &mut io::sink())?;
        if read < remaining {
            Err(ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }
}

impl<R: Read> Read for Members<R> {
    /// Reads from the data of the current member.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let limit = usize::try_from(self.data).map_or(buffer.len(), |data| data.min(buffer.len()));
        if limit == 0 {
            return Ok(0);
        }
        let count = self.source.read(&mut buffer[..limit])?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.data -= count as u64;
        Ok(count)
    }
}

impl Extensions {
    /// Parses PAX records of the form `LENGTH KEY=VALUE` with a trailing line feed. The length
    /// counts the whole record.
    fn add(&mut self, mut records: &[u8]) -> io::Result<()> {
        let malformed_record = || invalid("a PAX header is malformed");
        while !records.is_empty() && records[0] != 0 {
            let blank = records
                .iter()
                .take(20)
                .position(|byte| *byte == b' ')
                .ok_or_else(malformed_record)?;
            let length = std::str::from_utf8(&records[..blank])
                .ok()
                .and_then(|text| text.parse::<usize>().ok());
            let length = length
                .filter(|length| *length > blank + 1 && *length <= records.len())
                .ok_or_else(malformed_record)?;
            let (record, rest) = records.split_at(length);
            records = rest;
            let record = record[blank + 1..]
                .strip_suffix(b"\n")
                .ok_or_else(malformed_record)?;
            let equals = record
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(malformed_record)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"linkpath" => self.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value)
                        .ok()
                        .and_then(|text| text.parse().ok());
                    self.size = Some(size.ok_or_else(malformed_record)?);
                }
                _ => self.has_pax_holes |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(())
    }
}

fn checksum(header: &Header) -> u32 {
    let bytes = header.as_bytes();
    // The checksum treats its own eight bytes as blanks.
    bytes[..148]
        .iter()
        .chain(&bytes[156..])
        .map(|byte| u32::from(*byte))
        .sum::<u32>()
        + 8 * u32::from(b' ')
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!("the archive from the container is not valid: {reason}"),
    )
}

/// Replaces an error of the `tar` crate, whose message quotes bytes of the archive.
fn malformed(_: io::Error) -> io::Error {
    invalid("a number in a header is malformed")
}
