//! Reads the `storage:` block and `files:`, and refuses host paths that give control of the node.

use super::document::{AttachedFile, VolumeAccess, Workdir, WorkdirSource};
use super::fields::{Fields, Located, Reader};
use super::reference;
use super::tree::{YamlNode, YamlValue};
use gpuctl_core::error::{FilePosition, Problem};

/// Extensions of host paths that count as single files if `type:` is not set.
const DATA_FILES: [&str; 23] = [
    "json",
    "jsonl",
    "csv",
    "tsv",
    "parquet",
    "arrow",
    "txt",
    "yaml",
    "yml",
    "bin",
    "pt",
    "pth",
    "safetensors",
    "gguf",
    "onnx",
    "npy",
    "npz",
    "h5",
    "tar",
    "gz",
    "tgz",
    "zip",
    "zst",
];

/// Host directories that give control of the node, its secrets or its container runtime.
const FORBIDDEN: [&str; 13] = [
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/root",
    "/boot",
    "/var/lib/kubelet",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/crio",
    "/var/run",
    "/run",
    "/var/lib/etcd",
];

pub(super) fn workdirs(reader: &mut Reader, document: &mut Fields<'_>) -> Vec<Workdir> {
    let Some(node) = document.take(reader, "storage") else {
        return Vec::new();
    };
    let Some(mut fields) = reader.map(node, "storage", reference::STORAGE) else {
        return Vec::new();
    };
    let list = fields.take(reader, "workdirs");
    fields.finish(reader);
    let items = list.map_or_else(Vec::new, |list| reader.list(list, "workdirs"));
    let mut workdirs: Vec<(FilePosition, Workdir)> = Vec::new();
    for item in items {
        let Some(workdir) = workdir(reader, item) else {
            continue;
        };
        if workdirs.iter().any(|(_, other)| other.path == workdir.path) {
            reader.problems.push(
                Problem::error(
                    item.at,
                    format!("`{}` is mounted twice", workdir.path),
                    "keep one of them",
                )
                .with_id("duplicate-mount"),
            );
        }
        workdirs.push((item.at, workdir));
    }
    workdirs.into_iter().map(|(_, workdir)| workdir).collect()
}

/// Reads a workdir in its short form: a path on the node.
fn host_workdir(reader: &mut Reader, text: &str, at: FilePosition) -> Option<Workdir> {
    let path = absolute(reader, text, at)?;
    host_path(reader, &path, at)?;
    Some(Workdir {
        file: is_data_file(&path),
        source: WorkdirSource::Host(path.clone()),
        path,
        read_only: false,
    })
}

fn multiple_sources(path: &str, at: FilePosition) -> Problem {
    let message = format!(
        "`{path}` has more than one of host_path, pvc, size, emptyDir, configmap and secret"
    );
    Problem::error(at, message, "keep one of them")
}

fn workdir(reader: &mut Reader, node: &YamlNode) -> Option<Workdir> {
    if let YamlValue::Scalar { text, .. } = &node.value {
        return host_workdir(reader, text, node.at);
    }
    if let Some(problem) = braced_path(node) {
        reader.problems.push(problem);
        return None;
    }
    let mut fields = reader.map(node, "storage.workdirs", reference::WORKDIR)?;
    let at = fields.at;
    let path_node = fields.need(reader, "path", "the mount path in the container");
    let mut text = |reader: &mut Reader, name: &'static str| {
        fields
            .take(reader, name)
            .and_then(|node| reader.text(node, name))
            .map(|text| text.value)
    };
    let host = text(reader, "host_path");
    let claim = text(reader, "pvc");
    let sub_path = text(reader, "sub_path");
    let storage_class = text(reader, "storageClass");
    let (configmap, secret) = (text(reader, "configmap"), text(reader, "secret"));
    let size = fields
        .take(reader, "size")
        .and_then(|node| reader.bytes(node, "size"))
        .map(|size| size.value);
    let access = fields
        .take(reader, "access_mode")
        .and_then(|node| access(reader, node));
    let mut flag = |reader: &mut Reader, name: &'static str| {
        fields
            .take(reader, name)
            .and_then(|node| reader.boolean(node, name))
            .unwrap_or(false)
    };
    let (empty, read_only) = (flag(reader, "emptyDir"), flag(reader, "read_only"));
    let kind = fields
        .take(reader, "type")
        .and_then(|node| reader.word(node, "type", &["file", "directory"]));
    fields.finish(reader);
    let path_node = path_node?;
    let path = reader.text(path_node, "path")?;
    let path = absolute(reader, &path.value, path.at)?;
    let mut sources = Vec::new();
    sources.extend(claim.map(|name| WorkdirSource::Claim { name, sub_path }));
    sources.extend(size.map(|size| WorkdirSource::Size {
        size,
        storage_class,
        access,
    }));
    sources.extend(configmap.map(WorkdirSource::ConfigMap));
    sources.extend(secret.map(WorkdirSource::Secret));
    sources.extend(empty.then_some(WorkdirSource::Empty));
    sources.extend(host.map(WorkdirSource::Host));
    if sources.len() > 1 {
        reader.problems.push(multiple_sources(&path, at));
        return None;
    }
    let mut source = sources
        .pop()
        .unwrap_or_else(|| WorkdirSource::Host(path.clone()));
    if let WorkdirSource::Host(host) = &mut source {
        *host = absolute(reader, host, at)?;
        host_path(reader, host, path_node.at)?;
    }
    let is_file = match (&source, kind) {
        (_, Some(kind)) => kind == "file",
        (WorkdirSource::Host(host), None) => is_data_file(host),
        _ => false,
    };
    Some(Workdir {
        path,
        source,
        read_only,
        file: is_file,
    })
}

/// Explains `{/data}`, which YAML reads as a map with an empty field.
fn braced_path(node: &YamlNode) -> Option<Problem> {
    let YamlValue::Map(entries) = &node.value else {
        return None;
    };
    let [entry] = entries.as_slice() else {
        return None;
    };
    let is_field = reference::WORKDIR
        .iter()
        .any(|field| field.names.contains(&entry.key.as_str()));
    if is_field || !matches!(entry.value.value, YamlValue::Null) {
        return None;
    }
    let message = format!(
        "`{{{}}}` is a map with an empty field, not a path",
        entry.key
    );
    let path = entry.key.trim_start_matches('/');
    let note = format!(
        "write `{{path: /{path}, pvc: NAME}}` for a claim, or `/{path}` for a directory of the node"
    );
    Some(Problem::error(node.at, message, note))
}

fn access(reader: &mut Reader, node: &YamlNode) -> Option<VolumeAccess> {
    let modes = [
        VolumeAccess::ReadWriteOnce,
        VolumeAccess::ReadWriteMany,
        VolumeAccess::ReadOnlyMany,
        VolumeAccess::ReadWriteOncePod,
    ];
    let word = reader.word(node, "access_mode", &modes.map(VolumeAccess::word))?;
    modes.into_iter().find(|access| access.word() == word)
}

pub(super) fn absolute(reader: &mut Reader, path: &str, at: FilePosition) -> Option<String> {
    // Kubernetes forbids `:` in `mountPath` (core/v1 VolumeMount).
    let problem = if !path.starts_with('/') {
        Some("is not an absolute path")
    } else if path.split('/').any(|part| part == "..") {
        Some("contains `..`")
    } else if path.contains(':') || path.contains(char::is_control) {
        Some("contains a character that is not allowed in mount paths")
    } else {
        None
    };
    if let Some(problem) = problem {
        reader.problems.push(Problem::error(
            at,
            format!("`{path}` {problem}"),
            "use an absolute path, such as /data",
        ));
        return None;
    }
    // Normalize the path, so that `//etc` and `/./etc` cannot bypass the check of `/etc`.
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    Some(format!("/{}", parts.join("/")))
}

pub(super) fn host_path(reader: &mut Reader, path: &str, at: FilePosition) -> Option<()> {
    let is_inside = |path: &str, folder: &str| {
        path == folder
            || path
                .strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    // Also refuse parents of forbidden directories, because they contain them.
    let touches = |folder: &&str| is_inside(path, folder) || is_inside(folder, path);
    // A container runtime's socket gives full control of the node.
    let forbidden = path == "/" || FORBIDDEN.iter().any(touches) || path.ends_with(".sock");
    if forbidden {
        let note = "mount a claim there instead (`pvc:` or `size:`), or use another `host_path:`";
        reader.problems.push(Problem::error(
            at,
            format!("the node's `{path}` must not be mounted"),
            note,
        ));
        return None;
    }
    Some(())
}

fn is_data_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && DATA_FILES.contains(&extension.to_ascii_lowercase().as_str())
    })
}

/// Reads `files:`. An entry without a target path is copied to `/workspace`.
pub(super) fn files(reader: &mut Reader, document: &mut Fields<'_>) -> Vec<AttachedFile> {
    let Some(node) = document.take(reader, "files") else {
        return Vec::new();
    };
    let pairs: Vec<(Located<String>, Located<String>)> = if matches!(node.value, YamlValue::Map(_))
    {
        reader.text_map(node, "files")
    } else {
        let items = reader.list_or_one(node);
        let with_own_name = |local: Located<String>| {
            let name = local
                .value
                .rsplit('/')
                .next()
                .unwrap_or(&local.value)
                .to_owned();
            (
                Located {
                    value: name,
                    at: local.at,
                },
                local,
            )
        };
        items
            .into_iter()
            .filter_map(|item| reader.text(item, "files").map(with_own_name))
            .collect()
    };
    let mut files: Vec<AttachedFile> = Vec::new();
    for (target, local) in pairs {
        let path = if target.value.starts_with('/') {
            target.value
        } else {
            format!("/workspace/{}", target.value)
        };
        let Some(path) = absolute(reader, &path, target.at) else {
            continue;
        };
        if files.iter().any(|other| other.path == path) {
            let note = "rename one of them: `files: {other-name: local/path}`";
            reader.problems.push(Problem::error(
                target.at,
                format!("two files have the same path `{path}`"),
                note,
            ));
        }
        files.push(AttachedFile { path, local });
    }
    files
}
