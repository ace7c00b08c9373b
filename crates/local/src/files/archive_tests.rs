//! Archives from a container: complete, truncated and hostile ones.
#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

use std::fs;
use std::io::ErrorKind;
#[cfg(all(test, unix))]
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tar::{Builder, EntryType, Header};

use super::archive::pack;
use super::unpack::{Staged, inside, merge, staging_folder};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gpuctl-archive-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn stage(bytes: &[u8], name: &str, target: &Path, unique: &str) -> std::io::Result<Staged> {
    super::unpack::stage(
        bytes,
        name,
        &staging_folder(target, unique),
        &Arc::default(),
    )
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Builds an archive with names that the `tar` crate refuses to write, as a hostile container
/// would.
fn hostile(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (path, kind, link) in entries {
        let mut header = Header::new_gnu();
        let data: &[u8] = if *kind == EntryType::Regular {
            b"evil"
        } else {
            b""
        };
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o4755);
        header.set_cksum();
        archive.append(&header, data).unwrap();
    }
    archive.into_inner().unwrap()
}

#[test]
fn trees_survive_packing_and_unpacking() {
    let root = folder("tree");
    fs::create_dir_all(root.join("from/a/b")).unwrap();
    fs::write(root.join("from/a/b/x"), "one").unwrap();
    fs::write(root.join("from/y"), "two!").unwrap();
    fs::set_permissions(root.join("from/y"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a/b/x", root.join("from/link")).unwrap();
    // The model cache of Hugging Face uses such relative links.
    symlink("../../y", root.join("from/a/b/up")).unwrap();
    let mut bytes = Vec::new();
    let summary = pack(&root.join("from"), "top", &mut bytes).unwrap();
    assert_eq!(
        (summary.files, summary.bytes, bytes.len() % 10_240),
        (4, 7, 0)
    );
    let copied = stage(&bytes, "top", &root.join("to"), "1")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    assert_eq!(
        (copied.files, copied.bytes, copied.skipped.count),
        (4, 7, 0)
    );
    assert_eq!(fs::read_to_string(root.join("to/link")).unwrap(), "one");
    assert_eq!(fs::read_to_string(root.join("to/a/b/up")).unwrap(), "two!");
    assert_ne!(fs::metadata(root.join("to/y")).unwrap().mode() & 0o100, 0);
    // A second copy overwrites the files of the first and keeps the rest.
    fs::write(root.join("to/kept"), "").unwrap();
    stage(&bytes, "top", &root.join("to"), "2")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    assert!(root.join("to/kept").exists());
    assert_eq!(names(&root), ["from", "to"]);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn nothing_is_written_outside_the_folder() {
    let root = folder("hostile");
    let bytes = hostile(&[
        ("top/a/b/c/", EntryType::Directory, ""),
        ("../escaped", EntryType::Regular, ""),
        ("/tmp/gpuctl-absolute", EntryType::Regular, ""),
        ("other", EntryType::Regular, ""),
        ("top/out", EntryType::Symlink, "../../../etc"),
        ("top/absolute", EntryType::Symlink, "/etc/passwd"),
        ("top/beside", EntryType::Symlink, "../../x"),
        // Read as text, the path of `top/p` stays inside. On disk it leads outside, because `y` is
        // a link.
        ("top/a/b/c/y", EntryType::Symlink, "../../.."),
        ("top/p", EntryType::Symlink, "a/b/c/y/../../.."),
        ("top/hard", EntryType::Link, "/etc/passwd"),
        ("top/device", EntryType::Char, ""),
        ("top/fine", EntryType::Regular, ""),
        ("top/second", EntryType::Link, "top/fine"),
    ]);
    fs::write(root.join("x"), "mine").unwrap();
    let copied = stage(&bytes, "top", &root.join("to"), "1")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    assert_eq!(
        names(&root.join("to")),
        ["a", "fine", "second"],
        "{:?}",
        copied.skipped
    );
    assert_eq!(names(&root), ["to", "x"]);
    assert!(!Path::new("/tmp/gpuctl-absolute").exists());
    assert_eq!(
        copied.files, 3,
        "fine, second, and the link to the top: {copied:?}"
    );
    assert_eq!(
        fs::metadata(root.join("to/fine")).unwrap().mode() & 0o7000,
        0,
        "no bits that lend rights"
    );
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn skipped_members_create_no_folders() {
    let root = folder("left-out-folders");
    let nested = |name: &str| format!("top/{name}/{}x", "a/".repeat(30));
    let [hard, device, pipe, link] = ["hard", "device", "pipe", "link"].map(nested);
    let bytes = hostile(&[
        ("top/fine", EntryType::Regular, ""),
        (&hard, EntryType::Link, "top/missing"),
        (&device, EntryType::Char, ""),
        (&pipe, EntryType::Fifo, ""),
        (&link, EntryType::Symlink, "/etc/passwd"),
        ("top/kept/y", EntryType::Link, "top/fine"),
    ]);
    let copied = stage(&bytes, "top", &root.join("to"), "1")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    assert_eq!(
        names(&root.join("to")),
        ["fine", "kept"],
        "{:?}",
        copied.skipped
    );
    assert_eq!((copied.files, copied.skipped.count), (2, 4));
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn only_a_complete_copy_replaces_the_target() {
    let root = folder("broken");
    fs::create_dir_all(root.join("x")).unwrap();
    fs::write(root.join("x/one"), vec![7; 5000]).unwrap();
    fs::write(root.join("x/two"), vec![8; 5000]).unwrap();
    let mut bytes = Vec::new();
    pack(&root.join("x"), "x", &mut bytes).unwrap();
    for length in [0, 600, 3000, 7000] {
        assert!(
            stage(&bytes[..length], "x", &root.join("copy"), "1").is_err(),
            "{length}"
        );
    }
    // Dropping an unpacked archive removes it.
    drop(stage(&bytes, "x", &root.join("copy"), "1").unwrap());
    let link = hostile(&[("x", EntryType::Symlink, "y")]);
    let error = stage(&link, "x", &root.join("copy"), "1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "it is a link to y; copy that path instead"
    );
    assert_eq!(names(&root), ["x"]);
    // A file does not replace a folder, and nothing replaces a device.
    let staged = stage(
        &hostile(&[("x", EntryType::Regular, "")]),
        "x",
        &root.join("copy"),
        "1",
    )
    .unwrap();
    assert!(staged.move_into(&root.join("x")).is_err());
    assert_eq!(
        merge(
            &root.join("x/one"),
            Path::new("/dev/null"),
            &AtomicBool::new(false)
        )
        .unwrap_err()
        .kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(names(&root), ["x"]);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_interrupted_copy_moves_no_more_files() {
    let root = folder("interrupted");
    let bytes = hostile(&[
        ("top/a", EntryType::Regular, ""),
        ("top/b", EntryType::Link, "top/a"),
    ]);
    fs::create_dir_all(root.join("to/kept")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let staged =
        super::unpack::stage(bytes.as_slice(), "top", &root.join("staged"), &stop).unwrap();
    stop.store(true, Ordering::Relaxed);
    assert_eq!(
        staged.move_into(&root.join("to")).unwrap_err().to_string(),
        "it was interrupted"
    );
    assert_eq!(
        (names(&root), names(&root.join("to"))),
        (vec!["to".to_owned()], vec!["kept".to_owned()])
    );
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_path_is_at_or_below_its_name() {
    assert_eq!(
        inside(Path::new("./a/./b"), "a"),
        Some(PathBuf::from("a/b"))
    );
    for outside in ["a/../b", "/a", "b/a", "../a", "ab"] {
        assert_eq!(inside(Path::new(outside), "a"), None, "{outside}");
    }
}

/// Builds a header whose size does not have to match the member's data.
fn header(path: &str, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header
}

#[test]
fn sparse_members_become_holes() {
    let root = folder("sparse");
    let mut sparse = header("top", EntryType::GNUSparse, 1);
    let gnu = sparse.as_gnu_mut().unwrap();
    gnu.set_real_size(1 << 40);
    gnu.sparse[0].set_offset(1 << 39);
    gnu.sparse[0].set_length(1);
    gnu.sparse[1].set_offset(1 << 40);
    gnu.sparse[1].set_length(0);
    sparse.set_cksum();
    let bytes = [sparse.as_bytes().as_slice(), &[7; 1], &[0; 511 + 1024]].concat();
    stage(&bytes, "top", &root.join("to"), "1")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    let data = fs::metadata(root.join("to")).unwrap();
    assert_eq!(data.len(), 1 << 40);
    assert!(data.blocks() < 1000, "{} blocks", data.blocks());
    // Segments that overlap, lie outside the file, or differ from the size of the data.
    for (offset, length, total) in [
        (1 << 40, 1, 1 << 40),
        (0, 2, 1 << 40),
        (u64::MAX >> 1, 1, 1 << 40),
    ] {
        let gnu = sparse.as_gnu_mut().unwrap();
        gnu.set_real_size(total);
        gnu.sparse[0].set_offset(offset);
        gnu.sparse[0].set_length(length);
        sparse.set_cksum();
        let bytes = [sparse.as_bytes().as_slice(), &[0; 512 + 1024]].concat();
        assert_eq!(
            stage(&bytes, "top", &root.join("x"), "1")
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidData
        );
    }
    assert_eq!(names(&root), ["to"]);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn extension_headers_are_bounded_in_any_order() {
    let root = folder("extensions");
    let block = |kind: u8, size: u64| header("x", EntryType::new(kind), size).as_bytes().to_vec();
    let fail = |bytes: &[u8]| {
        stage(bytes, "top", &root.join("to"), "1")
            .unwrap_err()
            .to_string()
    };
    for kind in *b"LKxg" {
        for size in [(1 << 20) + 1, 6 << 30, u64::MAX >> 1, u64::MAX] {
            assert!(
                fail(&block(kind, size)).contains("longer than 1 MiB"),
                "{kind} {size}"
            );
        }
    }
    // Many small extension headers in succession.
    let extensions: Vec<u8> = (0..3000)
        .flat_map(|index| [block(b"LKxg"[index % 4], 512), vec![0; 512]].concat())
        .collect();
    assert!(fail(&extensions).contains("longer than 1 MiB"));
    let segments = {
        let mut first = header("top", EntryType::GNUSparse, 0);
        first.as_gnu_mut().unwrap().set_is_extended(true);
        first.as_gnu_mut().unwrap().set_real_size(0);
        first.set_cksum();
        let mut extended = tar::GnuExtSparseHeader::new();
        extended.set_is_extended(true);
        [first.as_bytes().to_vec(), extended.as_bytes().repeat(3000)].concat()
    };
    assert!(fail(&segments).contains("list of segments"));
    // A negative size in base 256, and a malformed one.
    let mut oversized = header("top", EntryType::Regular, 0);
    oversized.as_gnu_mut().unwrap().size = [0xff; 12];
    oversized.set_cksum();
    assert!(fail(oversized.as_bytes()).contains("too large"));
    oversized.as_gnu_mut().unwrap().size = *b"99999999999\0";
    oversized.set_cksum();
    assert!(fail(oversized.as_bytes()).contains("malformed"));
    for records in [
        "99 path=top\n",
        "path=top\n",
        "11 size=-1\n\n",
        "4294967295 path=x\n",
    ] {
        let bytes = [
            block(b'x', 512),
            records.as_bytes().to_vec(),
            vec![0; 512 - records.len()],
        ]
        .concat();
        assert!(fail(&bytes).contains("malformed"), "{records}");
    }
    assert!(names(&root).is_empty());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn an_endless_archive_is_stopped() {
    let root = folder("endless");
    let fail = |member: &[u8]| {
        let source = Repeated { member, at: 0 };
        super::unpack::stage(source, "top", &root.join("staged"), &Arc::default())
            .unwrap_err()
            .to_string()
    };
    let skipped = "50000 members that cannot be copied";
    assert!(fail(header("top/", EntryType::Directory, 0).as_bytes()).contains(skipped));
    assert!(fail(header("../x", EntryType::Regular, 0).as_bytes()).contains(skipped));
    assert!(fail(header("top/x", EntryType::Fifo, 0).as_bytes()).contains(skipped));
    assert!(fail(header("top", EntryType::Regular, u64::MAX >> 2).as_bytes()).contains("MiB free"));
    assert!(
        fail(header("../x", EntryType::Regular, u64::MAX >> 2).as_bytes())
            .contains("more than 1 GiB")
    );
    assert!(fail(&[0; 512]).contains("the container sent no data for it"));
    assert!(names(&root).is_empty());
    fs::remove_dir_all(root).unwrap();
}

struct Repeated<'a> {
    member: &'a [u8],
    at: usize,
}

impl std::io::Read for Repeated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.member.len() - self.at);
        buffer[..count].copy_from_slice(&self.member[self.at..self.at + count]);
        self.at = (self.at + count) % self.member.len();
        Ok(count)
    }
}

#[test]
fn omissions_are_counted() {
    let root = folder("left-out");
    let long_name = format!("../{}", "x".repeat(60));
    let mut bytes: Vec<u8> = (0..50)
        .flat_map(|_| {
            header(&long_name, EntryType::Regular, 0)
                .as_bytes()
                .to_vec()
        })
        .collect();
    // PAX describes holes in three formats.
    for key in [
        "GNU.sparse.map=0,1",
        "GNU.sparse.numblocks=1",
        "GNU.sparse.major=1",
    ] {
        let record = format!("{} {key}\n", key.len() + 4);
        bytes.extend(header("x", EntryType::XHeader, record.len() as u64).as_bytes());
        bytes.extend(record.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes.extend(header("top/sparse", EntryType::Regular, 0).as_bytes());
    }
    bytes.extend(header("top/d/", EntryType::Directory, 0).as_bytes());
    bytes.resize(bytes.len() + 1024, 0);
    let copied = stage(&bytes, "top", &root.join("to"), "1")
        .unwrap()
        .move_into(&root.join("to"))
        .unwrap();
    assert_eq!(
        (
            copied.files,
            copied.skipped.count,
            copied.skipped.first.len()
        ),
        (0, 53, 20)
    );
    assert_eq!(names(&root.join("to")), ["d"]);
    fs::remove_dir_all(root).unwrap();
}
