//! Tests how `cp` unpacks archives from a hostile container.
//!
//! The container is a kwok pod, whose commands run on this machine. Its GNU tar passes the output
//! to a script, which sends something else instead.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Persona, eventually};
use serde_json::json;

use crate::runner::{Run, finish, gpuctl};
use crate::support::{cluster, gpuctl_as};

/// The most memory that a command may use, whatever the container sends.
const MEMORY_LIMIT: u64 = 400 << 20;

/// A running pod with a hostile tar, and an empty local folder.
struct Container {
    namespace: &'static str,
    inside: PathBuf,
    local: PathBuf,
}

impl Container {
    fn start(namespace: &'static str) -> Self {
        let folder = cluster().folder().join("hostile-copies").join(namespace);
        let (inside, local) = (folder.join("inside"), folder.join("here"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(&local).unwrap();
        fs::write(inside.join("top"), "").unwrap();
        let admin = cluster().kubectl(Persona::Admin);
        admin.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        );
        let a100 = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
        let node = node(
            &format!("{namespace}-0"),
            Some(a100),
            &[("nvidia.com/gpu", 8)],
        );
        cluster().add_nodes(&[in_pool(node, namespace)]);
        let script = inside.join("hostile");
        admin.apply(&json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterExec", "metadata": {"name": namespace},
            "spec": {"selector": {"matchNamespaces": [namespace]}, "execs": [{"local": {
                "workDir": inside,
                "envs": [{"name": "TAR_OPTIONS", "value": format!("--use-compress-program={}", script.display())}],
            }}]},
        }));
        let yaml = format!(
            "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: busybox}}\n\
             resources: {{pool: {namespace}, gpu: 1}}\n"
        );
        let create = ["-n", namespace, "create", "-f", "-", "--allow-pending"];
        gpuctl_as(Persona::Admin, &create, &yaml).ok();
        eventually("the job runs", Duration::from_secs(90), || {
            let arguments = ["-n", namespace, "get", "jobs", "-o", "json"];
            let jobs = gpuctl_as(Persona::Admin, &arguments, "").ok().json();
            if jobs["items"][0]["status"] == "running" {
                Ok(())
            } else {
                Err(jobs)
            }
        });
        Self {
            namespace,
            inside,
            local,
        }
    }

    /// Makes tar send the output of a shell script. The script finds `bytes` in the file
    /// `$0.bytes`.
    fn sends(&self, script: &str, bytes: &[u8]) {
        let path = self.inside.join("hostile");
        fs::write(path.with_extension("bytes"), bytes).unwrap();
        // The file of a running program cannot be overwritten, so a new one takes its place.
        let fresh = self.inside.join("fresh");
        fs::write(&fresh, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&fresh, path).unwrap();
    }

    fn download(&self) -> Child {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["-n", self.namespace, "cp", "a:top"]);
        command.arg(self.local.join("copy")).args(["-o", "json"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Copies a file, and checks that memory stays bounded and that nothing remains except the
    /// copy.
    fn copy(&self, script: &str, bytes: &[u8]) -> Run {
        self.sends(script, bytes);
        let child = self.download();
        let status = PathBuf::from(format!("/proc/{}/status", child.id()));
        let memory = std::thread::spawn(move || {
            let mut peak_memory = 0;
            while let Some(now) = peak(&status) {
                peak_memory = now.max(peak_memory);
                std::thread::sleep(Duration::from_millis(10));
            }
            peak_memory
        });
        let run = finish(child, Duration::from_secs(60));
        let peak_memory = memory.join().unwrap();
        assert!(
            peak_memory > 0 && peak_memory < MEMORY_LIMIT,
            "{} MiB of memory",
            peak_memory >> 20
        );
        assert!(
            names(&self.local).iter().all(|name| name == "copy"),
            "{:?}",
            names(&self.local)
        );
        run
    }
}

/// Returns the peak memory of a process, or `None` once it has ended.
fn peak(status: &Path) -> Option<u64> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Builds a GNU tar header with a raw size field.
fn header(name: &str, kind: u8, size: &[u8; 12]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..136].copy_from_slice(size);
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar  \0");
    checked(header)
}

fn checked(mut header: Vec<u8>) -> Vec<u8> {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn octal(size: u64) -> [u8; 12] {
    format!("{size:011o}\0").into_bytes().try_into().unwrap()
}

/// Encodes a size in base 256, as GNU tar does for sizes of 8 GiB and more.
fn base_256(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    field[0] = 0x80;
    field[4..].copy_from_slice(&size.to_be_bytes());
    field
}

/// Builds an old GNU sparse member of `whole` bytes, of which only the last byte is stored.
fn sparse(name: &str, size: u64) -> Vec<u8> {
    let mut header = header(name, b'S', &octal(1));
    header[386..398].copy_from_slice(&base_256(size - 1));
    header[398..410].copy_from_slice(&octal(1));
    header[483..495].copy_from_slice(&base_256(size));
    [checked(header), vec![7; 1], vec![0; 511]].concat()
}

#[test]
fn two_kilobytes_fill_neither_the_disk_nor_memory() {
    let container = Container::start("hostile-archives");
    let once = "cat >/dev/null & cat \"$0.bytes\"; wait";
    let run = container
        .copy(once, &[sparse("./top", 8 << 40), vec![0; 1024]].concat())
        .ok()
        .json();
    assert_eq!(
        (run["files"].as_u64(), run["bytes"].as_u64()),
        (Some(1), Some(8 << 40))
    );
    let data = fs::metadata(container.local.join("copy")).unwrap();
    assert_eq!(data.len(), 8 << 40);
    assert!(data.blocks() < 1000, "{} blocks on the disk", data.blocks());
    fs::remove_file(container.local.join("copy")).unwrap();

    // Sends extension headers that never end, or endlessly many of them.
    let endless = "exec 2>/dev/null; cat \"$0.bytes\" && cat /dev/zero";
    let repeated = "exec 2>/dev/null; while cat \"$0.bytes\"; do :; done";
    for kind in *b"LKxg" {
        container
            .copy(endless, &header("./top", kind, &base_256(6 << 30)))
            .exits(1)
            .says("longer than 1 MiB");
        let small = [header("./top", kind, &octal(512)), vec![b'x'; 512]].concat();
        container.copy(repeated, &small).exits(1);
    }
    // An endless list of segments.
    let mut list = header("./top", b'S', &octal(0));
    list[482] = 1;
    list[483..495].copy_from_slice(&octal(0));
    let blocks = [vec![0; 504], vec![1], vec![0; 7]].concat();
    container.copy(
        "exec 2>/dev/null; head -c 512 \"$0.bytes\"; while tail -c 512 \"$0.bytes\"; do :; done",
        &[checked(list), blocks].concat(),
    );
    // Sends sizes that are larger than any disk, negative, or malformed.
    for size in [
        base_256(1 << 62),
        base_256(u64::MAX),
        [0xff; 12],
        *b"77777777777\0",
    ] {
        let name = if size[0] == b'7' { "../out" } else { "./top" };
        container.copy(endless, &header(name, b'0', &size)).exits(1);
    }
    // Sends an endless number of useless members: outside the folder, pipes, or repeated names.
    for member in [
        header("../out", b'0', &octal(0)),
        header("./top", b'6', &octal(0)),
        header("./top", b'0', &octal(0)),
    ] {
        let many = member.repeat(2000);
        container
            .copy(repeated, &many)
            .exits(1)
            .says("cannot be copied");
    }
    // Sends an archive that never ends, and one that ends too early.
    container
        .copy(
            endless,
            &[header("./top", b'0', &octal(0)), vec![0; 1024]].concat(),
        )
        .exits(1);
    container
        .copy(once, &header("./top", b'0', &octal(4096)))
        .exits(1);
    assert!(names(&container.local).is_empty());
}

#[test]
fn omitted_names_are_counted_and_not_stored() {
    let container = Container::start("hostile-names");
    let members = [
        header("../out", b'0', &octal(0)).repeat(30_000),
        header("./top", b'0', &octal(0)),
        vec![0; 1024],
    ]
    .concat();
    let run = container
        .copy("cat >/dev/null & cat \"$0.bytes\"; wait", &members)
        .exits(1);
    let answer = run.json();
    assert_eq!(
        (
            answer["skipped"].as_array().unwrap().len(),
            answer["skippedCount"].as_u64()
        ),
        (20, Some(30_000))
    );
    assert!(
        run.err.len() < 10_000 && run.err.contains("skipped 29980 more"),
        "{} bytes",
        run.err.len()
    );
}

/// Sends a signal and waits for the process to end. This should take at most a second, but the
/// machine may be busy.
fn interrupt(child: Child, signal: &str) -> Run {
    Command::new("kill")
        .args([&format!("-{signal}"), &child.id().to_string()])
        .status()
        .unwrap();
    finish(child, Duration::from_secs(5)).says("interrupted while copying")
}

#[test]
fn a_signal_ends_the_merge_of_many_files() {
    const FILES: usize = 80_000;
    let container = Container::start("hostile-merges");
    let target = container.local.join("copy/top");
    fs::create_dir_all(&target).unwrap();
    let files = (0..FILES).map(|index| header(&format!("./top/{index}"), b'0', &octal(0)));
    let archive = [header("./top/", b'5', &octal(0))]
        .into_iter()
        .chain(files)
        .chain([vec![0; 1024]])
        .flatten()
        .collect::<Vec<u8>>();
    container.sends("cat >/dev/null & cat \"$0.bytes\"; wait", &archive);
    // The merge may be complete before the signal arrives. In that case the command succeeds.
    let mut is_tried = [false; 2];
    for attempt in 0..20 {
        let signal = ["INT", "TERM"][attempt % 2];
        let mut child = container.download();
        // `eventually` polls too slowly: the merge could be complete before the signal.
        let end = Instant::now() + Duration::from_secs(100);
        while fs::read_dir(&target).unwrap().next().is_none() {
            if child.try_wait().unwrap().is_some() {
                let run = finish(child, Duration::from_secs(5));
                panic!("the command ended with {}: {}", run.code, run.err);
            }
            assert!(Instant::now() < end, "no file was moved within 100 s");
            std::thread::sleep(Duration::from_millis(1));
        }
        Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status()
            .unwrap();
        let run = finish(child, Duration::from_secs(5));
        if run.code == 0 {
            assert_eq!(names(&target).len(), FILES);
        } else {
            let run = run
                .exits([130, 143][attempt % 2])
                .says("interrupted while copying")
                .says("may contain a partial copy");
            assert!(
                (1..FILES).contains(&names(&target).len()),
                "{} files",
                names(&target).len()
            );
            // Removing many files may take longer than the command runs.
            for staging in names(&container.local.join("copy"))
                .iter()
                .filter(|name| *name != "top")
            {
                assert!(
                    run.err
                        .contains(&format!("{staging} has not been removed yet")),
                    "{staging}: {}",
                    run.err
                );
                fs::remove_dir_all(container.local.join("copy").join(staging)).unwrap();
            }
            is_tried[attempt % 2] = true;
        }
        if is_tried == [true; 2] {
            return;
        }
        fs::remove_dir_all(&target).unwrap();
        fs::create_dir(&target).unwrap();
    }
    panic!("no signal arrived before the end of the merge: {is_tried:?}");
}

#[test]
fn a_signal_ends_a_copy_at_once_and_removes_partial_files() {
    let container = Container::start("hostile-signals");
    let file = header("./top", b'0', &base_256(2 << 30));
    for (script, signal, code) in [
        ("exec 2>/dev/null; cat \"$0.bytes\" /dev/zero", "INT", 130),
        (
            "exec 2>/dev/null; cat \"$0.bytes\"; head -c 2000000 /dev/zero; exec sleep 60",
            "TERM",
            143,
        ),
    ] {
        container.sends(script, &file);
        let child = container.download();
        let has_begun = || {
            let staged = names(&container.local)
                .into_iter()
                .map(|name| container.local.join(name).join("top"));
            staged
                .filter_map(|path| fs::metadata(path).ok())
                .any(|data| data.len() > 1 << 20)
        };
        eventually("data arrives", Duration::from_secs(30), has_begun);
        interrupt(child, signal).exits(code);
        assert!(
            names(&container.local).is_empty(),
            "{:?}",
            names(&container.local)
        );
    }
    // Sends a complete archive, but tar never exits.
    let archive = [header("./top", b'0', &octal(0)), vec![0; 1024]].concat();
    container
        .copy("cat \"$0.bytes\"; exec sleep 60", &archive)
        .exits(1)
        .says("did not exit after sending its archive");
    assert!(names(&container.local).is_empty());
}
