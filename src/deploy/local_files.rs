//! Reads the local files that `files:` names. A job file may come from another person, and users
//! who can read the namespace can read the copied files. So `files:` accepts only regular files in
//! the folder of the job file, or in folders that the user allows. The check follows symlinks.
//! Errors do not reveal whether a file outside these folders exists.

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
/// Maximum number of symlinks in one path, as on Linux.
const MAX_LINKS: u32 = 40;
/// Folders of kernel file systems, which contain devices and settings instead of the user's data.
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

/// Local files that `files:` may name.
#[derive(Clone, Debug)]
pub(crate) enum FileAccess {
    /// Read no files, because the command needs only the names of the documents.
    Unread,
    /// Refuse `files:`, because an agent supplied the YAML and must not read this machine's files.
    Refused,
    /// Read files in the folder of the job file, and in these folders.
    Folders(Vec<Folder>),
    /// Read any regular file, because the user named each one on the command line.
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

/// A folder that files may be read from.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    /// Absolute path in the user's spelling.
    given_path: PathBuf,
    /// Absolute path without symlinks.
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
    /// Contents of the files, in the order of the document.
    pub contents: Vec<Vec<u8>>,
}

/// Reason why a file is refused.
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
    // `/dev/shm` is shared memory, where programs store ordinary files.
    SPECIAL_FOLDERS
        .iter()
        .any(|folder| path.starts_with(folder))
        && !path.starts_with("/dev/shm")
}

/// Reads the local files of a document. `file` is the path of the job file, or `-` for stdin.
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
    // A path such as `/dev/stdin` or `<(command)` is a stream, too.
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

/// Returns the size of a file, and its content if it fits into the limit after `bytes_before` bytes
/// of other files.
fn content(file: fs::File, bytes_before: u64) -> Result<(u64, Vec<u8>), FileRefusal> {
    let size = file.metadata()?.len();
    let limit = MAX_BYTES.saturating_sub(bytes_before) + 1;
    if size >= limit {
        return Ok((size, Vec::new()));
    }
    let mut content = Vec::new();
    // The file may have grown since its size was checked, so limit the read, too.
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

/// Rules for the paths in one job file.
struct PathRules {
    /// Folder of the job file, without symlinks.
    folder: PathBuf,
    /// Allowed folders, starting with the job file's folder, or `None` to allow every folder.
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
        // Another user may have replaced a folder since the check, so the path must still lead to
        // the opened file.
        let now = fs::symlink_metadata(self.resolve(local)?)?;
        match opened.is_file() && platform::is_same_file(&opened, &now) {
            true => Ok(file),
            false => Err(FileRefusal::Outside),
        }
    }

    /// Resolves a path, one symlink at a time. Refuses a path that leaves the allowed folders
    /// before it looks up anything outside them. Even a path that leads back inside would reveal
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

    /// Accepts a path in or above an allowed folder. Refuses hidden names such as `.ssh` in the job
    /// file's folder, which may be the user's home folder.
    fn check_allowed(&self, path: &Path) -> Result<(), FileRefusal> {
        let overlaps = |folder: &Folder| {
            path.starts_with(&folder.real_path) || folder.real_path.starts_with(path)
        };
        // The kubelet mounts a ConfigMap with symlinks through `..data` and `..2026_11_27_…`.
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

    /// Prepends the steps of a path to the remaining steps. An absolute path restarts at the root,
    /// or at an allowed folder if it starts with that folder in the user's spelling.
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
