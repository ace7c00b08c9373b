//! Reads the local files that `files:` names. A job file often comes from another person, and
//! everyone who can read the namespace can read the files that it copies there. So `files:` accepts
//! only regular files, and only in the folder of the job file or in folders that the user allows.
//! This is checked after resolving symlinks. Errors do not reveal whether a file outside these
//! folders exists.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use gpuctl_core::error::Error;
use gpuctl_core::model::contract::submission::LocalFile;
use gpuctl_local::platform;
use gpuctl_manifest::render::FILES_KIB;
use gpuctl_manifest::spec::{Document, FilePosition, JobDocument, Problem};

/// Maximum total size of a job's files in bytes.
const MAX_BYTES: u64 = FILES_KIB as u64 * 1024;
/// Maximum number of symlinks in one path, as in Linux.
const MAX_LINKS: u32 = 40;
/// Folders whose file systems do not hold the user's data.
const SPECIAL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Sources whose `files:` are refused, each with a hint.
const STREAM_REFUSAL: (&str, &str) = (
    "YAML from stdin",
    "save the YAML in the same folder as these files, and pass it with `-f`",
);
const AGENT_REFUSAL: (&str, &str) = (
    "a manifest over MCP",
    "use an image or a volume that has these files, or let a person submit the job",
);

/// Which local files `files:` may name.
#[derive(Clone, Debug)]
pub(crate) enum FileAccess {
    /// Do not read any files: the command needs only the names of the documents.
    Unread,
    /// Refuse `files:`: an agent supplied the YAML and must not read this machine's files.
    Refused,
    /// Read files in the folder of the job file and in these folders.
    Folders(Vec<Folder>),
    /// Read any regular file: the user gave each one on the command line.
    Any,
}

impl FileAccess {
    /// Allows the folders given by `--allow-files-from`.
    pub(crate) fn from(folders: &[PathBuf]) -> Result<Self, Error> {
        let open_folder = |folder: &PathBuf| {
            let opened = Folder::open(folder).and_then(|opened| match opened.real_path.is_dir() {
                true => Ok(opened),
                false => Err(ErrorKind::NotADirectory.into()),
            });
            opened.map_err(|error| {
                let message = format!(
                    "cannot open folder `{}` from `--allow-files-from`",
                    folder.display()
                );
                Error::usage(message).cause(error)
            })
        };
        Ok(Self::Folders(
            folders.iter().map(open_folder).collect::<Result<_, _>>()?,
        ))
    }
}

/// A folder whose files may be read.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// The absolute path, as the user spelled it.
    given_path: PathBuf,
    /// The absolute path, with symlinks resolved.
    real_path: PathBuf,
}

impl Folder {
    fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        Ok(Self {
            given_path: std::path::absolute(path)?,
            real_path: fs::canonicalize(path)?,
        })
    }
}

/// The local files of one document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attached {
    pub files: Vec<LocalFile>,
    /// The contents of the files, in the same order.
    pub contents: Vec<Vec<u8>>,
}

/// Why a file is refused.
#[derive(Debug)]
enum FileRefusal {
    Outside,
    Hidden,
    Missing,
    NotRegular,
    Unreadable(io::Error),
}

impl From<io::Error> for FileRefusal {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Unreadable(error),
        }
    }
}

fn is_special(path: &Path) -> bool {
    // `/dev/shm` is shared memory, in which programs keep ordinary files.
    SPECIAL_FOLDERS
        .iter()
        .any(|folder| path.starts_with(folder))
        && !path.starts_with("/dev/shm")
}

/// Reads the files of a document that came from `file`, which is `-` for stdin.
pub(crate) fn attach(
    document: &Document,
    file: &str,
    access: &FileAccess,
    problems: &mut Vec<Problem>,
) -> Attached {
    let Document::Job(job) = document else {
        return Attached::default();
    };
    if job.files.is_empty() || matches!(access, FileAccess::Unread) {
        return Attached::default();
    }
    let folder_path = Path::new(file).parent().unwrap_or(Path::new(""));
    let folder = Folder::open(folder_path);
    // `/dev/stdin` and `<(command)` are streams too.
    let is_stream = file == "-"
        || folder
            .as_ref()
            .is_ok_and(|folder| is_special(&folder.real_path));
    let refusal = match access {
        FileAccess::Refused => Some(AGENT_REFUSAL),
        FileAccess::Any => None,
        _ => is_stream.then_some(STREAM_REFUSAL),
    };
    if let Some((source, hint)) = refusal {
        problems.extend(job.files.iter().map(|local_file| {
            let name = &local_file.local.value;
            let message = format!("{source} cannot use local files, but `files` lists `{name}`");
            Problem::error(local_file.local.at, message, hint)
        }));
        return Attached::default();
    }
    let rules = folder.map(|folder| {
        let allowed = match access {
            FileAccess::Folders(folders) => Some(
                std::iter::once(folder.clone())
                    .chain(folders.iter().cloned())
                    .collect(),
            ),
            _ => None,
        };
        PathRules {
            folder: folder.real_path,
            allowed,
        }
    });
    match rules {
        Ok(rules) => read_all(&rules, folder_path, job, problems),
        Err(error) => {
            let message = format!("cannot open this file's folder: {error}");
            problems.push(Problem::error(job.files[0].local.at, message, ""));
            Attached::default()
        }
    }
}

fn read_all(
    rules: &PathRules,
    folder_path: &Path,
    job: &JobDocument,
    problems: &mut Vec<Problem>,
) -> Attached {
    let mut attached = Attached::default();
    let (mut total, mut limit_position) = (0, None);
    for local_file in &job.files {
        match rules
            .open(Path::new(&local_file.local.value))
            .and_then(|file| content(file, total))
        {
            Ok((bytes, content)) => {
                total += bytes;
                if total > MAX_BYTES {
                    limit_position.get_or_insert(local_file.local.at);
                }
                let path = folder_path
                    .join(&local_file.local.value)
                    .display()
                    .to_string();
                attached.files.push(LocalFile {
                    path,
                    bytes,
                    destination: local_file.path.clone(),
                });
                attached.contents.push(content);
            }
            Err(refusal) => problems.push(problem(
                &refusal,
                &local_file.local.value,
                local_file.local.at,
            )),
        }
    }
    if let Some(at) = limit_position {
        let message = format!(
            "`files` have {} KiB together; at most {FILES_KIB} fit",
            total / 1024
        );
        let note = "put large files on a volume: `storage.workdirs` with `pvc:` or `size:`";
        problems.push(Problem::error(at, message, note));
    }
    attached
}

/// Returns the size of the file. Also returns its content, if that fits after the `bytes_before`
/// bytes of other files.
fn content(file: fs::File, bytes_before: u64) -> Result<(u64, Vec<u8>), FileRefusal> {
    let size = file.metadata()?.len();
    let limit = MAX_BYTES.saturating_sub(bytes_before) + 1;
    if size >= limit {
        return Ok((size, Vec::new()));
    }
    let mut content = Vec::new();
    // The file can grow after its size was checked, so limit the read as well.
    file.take(limit).read_to_end(&mut content)?;
    Ok((content.len() as u64, content))
}

fn problem(refusal: &FileRefusal, local: &str, position: FilePosition) -> Problem {
    match refusal {
        FileRefusal::Outside => Problem::error(
            position,
            format!(
                "`{local}` is outside this file's folder; job files may only use files in their \
                 folder"
            ),
            "copy the file there, or allow the folder that contains it: `--allow-files-from DIR`",
        ),
        FileRefusal::Hidden => Problem::error(
            position,
            format!(
                "`{local}` is hidden, and a job file may name only visible files in its folder"
            ),
            "rename it, or allow the folder that contains it: `--allow-files-from DIR`",
        ),
        FileRefusal::Missing => {
            let message = format!("cannot read `{local}`: no such file");
            Problem::error(
                position,
                message,
                "paths are relative to this file's folder",
            )
        }
        FileRefusal::NotRegular => Problem::error(
            position,
            format!("cannot read `{local}`: it is not a regular file"),
            "specify a file",
        ),
        FileRefusal::Unreadable(error) => {
            Problem::error(position, format!("cannot read `{local}`: {error}"), "")
        }
    }
}

/// Rules for resolving the paths in one job file.
struct PathRules {
    /// The folder of the job file, with symlinks resolved.
    folder: PathBuf,
    /// The allowed folders, starting with the folder of the job file. `None` allows every folder.
    allowed: Option<Vec<Folder>>,
}

enum Step {
    Up,
    Down(OsString),
}

impl PathRules {
    /// Opens a file if it is a regular file in an allowed folder.
    fn open(&self, local: &Path) -> Result<fs::File, FileRefusal> {
        let path = self.resolve(local)?;
        // Opening a device can change its state, so check the path first.
        if is_special(&path) || !fs::symlink_metadata(&path)?.is_file() {
            return Err(FileRefusal::NotRegular);
        }
        let file = platform::open_plain(&path)?;
        let opened = file.metadata()?;
        // Since the check, another user may have put a different folder there, so the path must
        // still lead to the opened file.
        let now = fs::symlink_metadata(self.resolve(local)?)?;
        match opened.is_file() && platform::is_same_file(&opened, &now) {
            true => Ok(file),
            false => Err(FileRefusal::Outside),
        }
    }

    /// Resolves a path, one symlink at a time. Refuses a path as soon as it leaves the allowed
    /// folders, before any lookup outside them. Even a path that leads back inside would reveal
    /// which folders exist.
    fn resolve(&self, local: &Path) -> Result<PathBuf, FileRefusal> {
        if self.allowed.is_none() {
            return Ok(fs::canonicalize(self.folder.join(local))?);
        }
        let (mut current, mut steps, mut links) = (self.folder.clone(), Vec::new(), 0);
        self.enter(local, &mut current, &mut steps);
        while let Some(step) = steps.pop() {
            let Step::Down(name) = step else {
                current.pop();
                continue;
            };
            let next = current.join(name);
            self.check_allowed(&next)?;
            if !fs::symlink_metadata(&next)?.is_symlink() {
                current = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(FileRefusal::Outside);
            }
            self.enter(&fs::read_link(&next)?, &mut current, &mut steps);
        }
        match self
            .folders()
            .any(|folder| current.starts_with(&folder.real_path))
        {
            true => Ok(current),
            false => Err(FileRefusal::Outside),
        }
    }

    fn folders(&self) -> impl Iterator<Item = &Folder> {
        self.allowed.iter().flatten()
    }

    /// Accepts a path that is in an allowed folder or above one. Rejects hidden names such as
    /// `.ssh` in the job file's folder, which can be a home folder.
    fn check_allowed(&self, path: &Path) -> Result<(), FileRefusal> {
        let overlaps = |folder: &Folder| {
            path.starts_with(&folder.real_path) || folder.real_path.starts_with(path)
        };
        // The kubelet links the files of a mounted ConfigMap through `..data` and `..2026_11_27_…`.
        let is_hidden = |part: &std::ffi::OsStr| {
            let name = part.as_encoded_bytes();
            name.starts_with(b".") && name != b"..data" && !name.starts_with(b"..20")
        };
        match path.strip_prefix(&self.folder) {
            _ if self.folders().skip(1).any(overlaps) => Ok(()),
            Ok(below) if below.iter().any(is_hidden) => Err(FileRefusal::Hidden),
            Ok(_) => Ok(()),
            Err(_) if self.folder.starts_with(path) => Ok(()),
            Err(_) => Err(FileRefusal::Outside),
        }
    }

    /// Prepends the steps of a path to the remaining steps. An absolute path restarts at the root.
    /// If it begins with an allowed folder as the user spelled it, it restarts at that folder.
    fn enter(&self, path: &Path, current: &mut PathBuf, steps: &mut Vec<Step>) {
        let mut rest = path;
        if path.is_absolute() || path.has_root() {
            let allowed_folder = self
                .folders()
                .find_map(|folder| Some((folder, path.strip_prefix(&folder.given_path).ok()?)));
            *current = match allowed_folder {
                Some((folder, below)) => {
                    rest = below;
                    folder.real_path.clone()
                }
                None => path
                    .components()
                    .take_while(|part| matches!(part, Component::Prefix(_) | Component::RootDir))
                    .collect(),
            };
        }
        let to_step = |part: Component<'_>| match part {
            Component::ParentDir => Some(Step::Up),
            Component::Normal(name) => Some(Step::Down(name.to_owned())),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        };
        steps.extend(rest.components().rev().filter_map(to_step));
    }
}
