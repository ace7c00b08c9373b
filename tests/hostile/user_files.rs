//! Tests folders and files of the user that other users can write to, and misspelled settings that
//! were meant to forbid changes.
//!
//! As root, the tests give files to another user. Without root, they only set file modes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use gpuctl_sandbox::Persona;

use crate::runner::{Run, gpuctl, run};
use crate::support::cluster;

/// Another user without privileges.
const NOBODY: u32 = 65_534;

fn folder(name: &str) -> PathBuf {
    let folder = cluster().folder().join("user-files").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn current_uid() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

/// Returns a gpuctl command with separate folders and no Prometheus address.
fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = gpuctl();
    command
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .env_remove("GPUCTL_PROMETHEUS");
    for (name, folder) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_STATE_HOME", "state"),
    ] {
        command.env(name, home.join(folder));
    }
    command.args(arguments);
    command
}

/// Returns the gpuctl command that a shell runs to complete node names, which gpuctl caches.
fn completion(home: &Path) -> Command {
    let mut command = command(home, &["--", "gpuctl", "describe", "node", ""]);
    command
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", "3")
        .env("_CLAP_COMPLETE_COMP_TYPE", "9");
    command
}

/// Runs the command in a shell with this umask.
fn with_umask(umask: &str, gpuctl: &Command) -> Run {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!("umask {umask}; exec \"$0\" \"$@\""))
        .arg(gpuctl.get_program())
        .args(gpuctl.get_args());
    for (name, value) in gpuctl.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    run(shell, "")
}

fn write_config(home: &Path, text: &str) -> PathBuf {
    let folder = home.join("config/gpuctl");
    fs::create_dir_all(&folder).unwrap();
    set_mode(&home.join("config"), 0o700);
    set_mode(&folder, 0o700);
    let path = folder.join("config.yaml");
    let _ = fs::remove_file(&path);
    fs::write(&path, text).unwrap();
    set_mode(&path, 0o600);
    path
}

#[test]
fn a_bundle_in_a_shared_folder_overwrites_no_file_and_stays_private() {
    let (home, shared) = (folder("bundle-home"), folder("bundle-shared"));
    set_mode(&shared, 0o1777);
    let precious = home.join("precious");
    fs::write(&precious, "precious").unwrap();
    let bundle = shared.join("cluster.gpuctl");
    let path = bundle.to_str().unwrap().to_owned();
    let make = || run(command(&home, &["doctor", "--bundle", &path]), "");
    // The links point to a file, to nothing, and to another link.
    symlink(&precious, shared.join("link")).unwrap();
    for target in [precious.clone(), home.join("nothing"), shared.join("link")] {
        let _ = fs::remove_file(&bundle);
        symlink(&target, &bundle).unwrap();
        let run = make();
        assert_ne!(run.code, 0, "{}", run.err);
        run.says("it is a symbolic link, which is not followed");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        assert!(!home.join("nothing").exists());
    }
    fs::remove_file(&bundle).unwrap();
    // Earlier versions used predictable temporary names.
    let next = std::process::id();
    for pid in next..next + 400 {
        symlink(&precious, shared.join(format!(".cluster.gpuctl.{pid}.tmp"))).unwrap();
    }
    // The file belongs to another user and has the mode 0666.
    fs::write(&bundle, "").unwrap();
    set_mode(&bundle, 0o666);
    let _ = chown(&bundle, Some(NOBODY), None);
    // doctor may report problems, but they do not mean that writing failed.
    let run = make();
    assert!(fs::metadata(&bundle).unwrap().len() > 0, "{}", run.err);
    assert_eq!(
        (mode(&bundle), fs::metadata(&bundle).unwrap().uid()),
        (0o600, current_uid())
    );
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    let fresh = fs::read_dir(&shared)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        fresh.filter(|name| name.starts_with(".gpuctl-")).count(),
        0,
        "temporary files remain"
    );
}

#[test]
fn folders_are_private_under_any_umask() {
    for umask in ["000", "002", "022"] {
        let home = folder(&format!("umask-{umask}")).join("missing");
        with_umask(
            umask,
            &command(&home, &["config", "set", "thresholds.idle", "7"]),
        )
        .ok();
        with_umask(umask, &completion(&home)).ok();
        let mut folders = vec![home.clone()];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            assert_eq!(
                mode(&folder),
                0o700,
                "{} with umask {umask}",
                folder.display()
            );
            for path in fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().path())
            {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    assert_eq!(mode(&path), 0o600, "{} with umask {umask}", path.display());
                    files += 1;
                }
            }
        }
        assert!(
            files >= 2 && home.join("cache/gpuctl").exists(),
            "{files} files"
        );
    }
}

#[test]
fn gpuctl_makes_only_its_own_folders_private() {
    let home = folder("wide");
    let own_folders =
        ["config/gpuctl", "cache/gpuctl", "cache/gpuctl/found"].map(|name| home.join(name));
    let other_folders =
        ["config", "cache", "elsewhere/gpuctl", "elsewhere"].map(|name| home.join(name));
    let widen = || {
        for folder in own_folders.iter().chain(&other_folders) {
            fs::create_dir_all(folder).unwrap();
            set_mode(folder, 0o755);
        }
    };
    let job = other_folders[2].join("job.yaml");
    widen();
    run(
        command(&home, &["config", "set", "thresholds.idle", "7"]),
        "",
    )
    .ok();
    run(completion(&home), "").ok();
    let other_config = other_folders[2].join("config.yaml");
    run(
        command(
            &home,
            &[
                "config",
                "set",
                "thresholds.idle",
                "7",
                "--config",
                other_config.to_str().unwrap(),
            ],
        ),
        "",
    )
    .ok();
    run(
        command(
            &home,
            &["init", "training", "--output", job.to_str().unwrap()],
        ),
        "",
    )
    .ok();
    own_folders
        .iter()
        .for_each(|folder| assert_eq!(mode(folder), 0o700, "{}", folder.display()));
    other_folders
        .iter()
        .for_each(|folder| assert_eq!(mode(folder), 0o755, "{}", folder.display()));
    // gpuctl does not follow a link.
    widen();
    fs::remove_dir_all(&own_folders[1]).unwrap();
    symlink(&other_folders[2], &own_folders[1]).unwrap();
    run(completion(&home), "").ok();
    assert_eq!(mode(&other_folders[2]), 0o755);
}

#[test]
fn a_folder_writable_by_others_is_made_private_or_ignored() {
    let home = folder("cache");
    let cache = home.join("cache/gpuctl");
    run(completion(&home), "").ok();
    for folder in [cache.clone(), cache.join("found")] {
        set_mode(&folder, 0o777);
        run(completion(&home), "").ok();
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    // gpuctl does not read a file that other users can write to.
    let file = fs::read_dir(cache.join("found"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let planted = fs::read_to_string(&file)
        .unwrap()
        .replace("\"answer\":", "\"planted\":1,\"answer\":");
    fs::write(&file, &planted).unwrap();
    set_mode(&file, 0o666);
    run(completion(&home), "").ok();
    assert!(
        !fs::read_to_string(&file).unwrap().contains("planted"),
        "the file of others was believed"
    );
    if chown(&cache, Some(NOBODY), None).is_ok() {
        let before = fs::read_dir(cache.join("found")).unwrap().count();
        let warned = run(command(&home, &["get", "jobs"]), "").ok();
        warned.says("another user owns it or can write to it");
        fs::remove_file(&file).unwrap();
        run(completion(&home), "").ok();
        assert_eq!(
            fs::read_dir(cache.join("found")).unwrap().count(),
            before - 1,
            "nothing is written there"
        );
    }
}

#[test]
fn a_config_file_writable_by_others_runs_no_command() {
    let home = folder("token-command");
    let mark = home.join("ran");
    let text = format!(
        "prometheus: {{url: \"http://127.0.0.1:1\", token_command: \"touch {}\"}}\n",
        mark.display()
    );
    let run_with_token_command = || {
        let _ = fs::remove_file(&mark);
        let run = run(command(&home, &["top", "nodes", "--require-metrics"]), "");
        (mark.exists(), run)
    };
    let path = write_config(&home, &text);
    let (ran, accepted) = run_with_token_command();
    assert!(ran, "the user's own command did not run: {}", accepted.err);
    let refuses = |repair: &str| {
        let (ran, run) = run_with_token_command();
        assert!(!ran, "the command ran: {}", run.err);
        run.says("refusing to use `prometheus.token_command`")
            .says(repair);
        let write = crate::runner::run(
            command(&home, &["label", "node", "plain-01", "hostile=config"]),
            "",
        );
        write.exits(5).says(repair);
    };
    for changed in [
        path.clone(),
        path.parent().unwrap().to_owned(),
        home.join("config"),
    ] {
        let before = mode(&changed);
        for bits in [0o020, 0o002] {
            set_mode(&changed, before | bits);
            refuses(&format!("chmod go-w {}", changed.display()));
        }
        set_mode(&changed, before);
        assert!(
            run_with_token_command().0,
            "the command did not run after the repair"
        );
        if chown(&changed, Some(NOBODY), None).is_ok() {
            refuses(&format!("chown \"$(id -u)\" {}", changed.display()));
            chown(&changed, Some(current_uid()), None).unwrap();
        }
    }
    // gpuctl follows a symlink to a file of the same user, and checks each folder on the way.
    let elsewhere = folder("token-command-dotfiles");
    fs::rename(&path, elsewhere.join("config.yaml")).unwrap();
    symlink(elsewhere.join("config.yaml"), &path).unwrap();
    assert!(
        run_with_token_command().0,
        "the command did not run through the user's link"
    );
    run(
        command(&home, &["config", "set", "thresholds.idle", "7"]),
        "",
    )
    .ok();
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert!(
        fs::read_to_string(elsewhere.join("config.yaml"))
            .unwrap()
            .contains("idle: 7")
    );
    set_mode(&elsewhere, 0o777);
    refuses(&format!("chmod go-w {}", elsewhere.display()));
    set_mode(&elsewhere, 0o755);
    if lchown(&path, Some(NOBODY), None).is_ok() {
        refuses("chown");
        run(
            command(&home, &["config", "set", "thresholds.idle", "8"]),
            "",
        )
        .exits(2)
        .says("belongs to another user");
    }
}

/// Writes to a named pipe again and again until it is dropped.
struct Feeder(Child);

impl Feeder {
    fn start(pipe: &Path, text: &str) -> Self {
        let feed = Command::new("sh")
            .args([
                "-c",
                "trap '' PIPE; while :; do printf %s \"$1\" > \"$0\"; sleep 0.05; done 2>/dev/null",
            ])
            .arg(pipe)
            .arg(text)
            .spawn();
        Self(feed.unwrap())
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn an_irregular_config_file_runs_no_command() {
    let home = folder("config-pipe");
    let mark = home.join("ran");
    let text = format!(
        "prometheus: {{url: \"http://127.0.0.1:1\", token_command: \"touch {}\"}}\n",
        mark.display()
    );
    let path = write_config(&home, &text);
    let pipe = || {
        let _ = fs::remove_file(&path);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
    };
    let refuses = |extra: &[&str]| {
        let arguments = [&["top", "nodes", "--require-metrics"], extra].concat();
        let top = run(command(&home, &arguments), "");
        assert!(!mark.exists(), "the command ran: {}", top.err);
        assert_ne!(top.code, 0);
        top.says("cannot read ");
        let arguments = [&["label", "node", "plain-01", "hostile=pipe"], extra].concat();
        run(command(&home, &arguments), "")
            .exits(5)
            .says("cannot read ");
        run(
            command(
                &home,
                &[&["config", "set", "thresholds.idle", "7"], extra].concat(),
            ),
            "",
        )
        .exits(2);
    };
    let config_option = ["--config", path.to_str().unwrap()];
    for folder_mode in [0o700, 0o777] {
        set_mode(path.parent().unwrap(), folder_mode);
        for extra in [&[][..], &config_option] {
            pipe();
            let _ = chown(&path, Some(NOBODY), None);
            // The pipe has no writer, so opening it would block forever.
            refuses(extra);
            let feeder = Feeder::start(&path, &text);
            refuses(extra);
            drop(feeder);
        }
    }
    set_mode(path.parent().unwrap(), 0o700);
    fs::remove_file(&path).unwrap();
    let socket = UnixListener::bind(&path).unwrap();
    refuses(&[]);
    refuses(&config_option);
    drop(socket);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refuses(&[]);
    refuses(&config_option);
    fs::remove_dir(&path).unwrap();
    for device in ["/dev/zero", "/dev/stdin"] {
        symlink(device, &path).unwrap();
        refuses(&[]);
        fs::remove_file(&path).unwrap();
    }
    // A link to the null device disables the config file.
    symlink("/dev/null", &path).unwrap();
    run(command(&home, &["config", "view"]), "").ok();
    fs::remove_file(&path).unwrap();
}

#[test]
fn a_config_file_can_be_a_shell_pipe() {
    let home = folder("config-shell");
    let mark = home.join("ran");
    let token = format!(
        "prometheus: {{url: \"http://127.0.0.1:1\", token_command: \"touch {}\"}}",
        mark.display()
    );
    let shared = folder("config-shared");
    symlink("/dev/stdin", shared.join("link")).unwrap();
    let shell = |script: &str, text: &str, arguments: &[&str]| {
        let gpuctl = command(&home, arguments);
        let mut shell = Command::new("bash");
        shell
            .arg("-c")
            .arg(script)
            .arg(gpuctl.get_program())
            .args(gpuctl.get_args());
        shell.env("TEXT", text).env("LINK", shared.join("link"));
        gpuctl
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)))
            .for_each(|(name, value)| {
                shell.env(name, value);
            });
        shell.env_remove("GPUCTL_PROMETHEUS");
        let _ = fs::remove_file(&mark);
        run(shell, "")
    };
    let top = ["top", "nodes", "--require-metrics"];
    let label = ["label", "node", "plain-01", "hostile=shell"];
    for script in [
        "\"$0\" \"$@\" --config <(echo \"$TEXT\")",
        "echo \"$TEXT\" | \"$0\" \"$@\" --config /dev/stdin",
        "echo \"$TEXT\" | \"$0\" \"$@\" --config \"$LINK\"",
    ] {
        let ran = shell(script, &token, &top);
        assert!(mark.exists(), "{script}: {}", ran.err);
        // The pipe is read only once, and its settings apply to the whole command.
        shell(script, "safety: {read_only: true}", &label)
            .exits(5)
            .says("read_only");
    }
    // Another user could replace this link.
    set_mode(&shared, 0o777);
    let refused = shell(
        "echo \"$TEXT\" | \"$0\" \"$@\" --config \"$LINK\"",
        &token,
        &top,
    );
    assert!(!mark.exists(), "the command ran: {}", refused.err);
    refused.says(&format!("chmod go-w {}", shared.display()));
}

#[test]
fn credentials_are_not_sent_to_an_address_set_by_others() {
    let home = folder("credentials");
    let secret = home.join("secret");
    fs::write(&secret, "canary-not-a-secret").unwrap();
    for key in ["token_file", "password_file", "ca_file"] {
        let text = format!(
            "prometheus: {{url: \"http://127.0.0.1:1\", user: u, {key}: {}}}\n",
            secret.display()
        );
        set_mode(&write_config(&home, &text), 0o666);
        let run = run(command(&home, &["top", "nodes", "--require-metrics"]), "");
        assert_ne!(run.code, 0);
        run.says(&format!("refusing to use `prometheus.{key}`"));
    }
    set_mode(
        &write_config(&home, "prometheus: {url: \"http://127.0.0.1:1\"}\n"),
        0o666,
    );
    let mut with_token = command(&home, &["top", "nodes", "--require-metrics"]);
    with_token.env("GPUCTL_PROMETHEUS_TOKEN", "canary-not-a-token");
    run(with_token, "").says("refusing to use `prometheus.url`");
}

#[test]
fn an_unclear_read_only_setting_forbids_writes() {
    let home = folder("safety");
    let label = |value: &str| {
        let pair = format!("hostile-safety={value}");
        command(&home, &["label", "node", "plain-01", &pair, "--overwrite"])
    };
    let node = || {
        cluster()
            .kubectl(Persona::Admin)
            .json(&["get", "node", "plain-01"])
    };
    for text in [
        "safety: {readonly: true}",
        "safety: {Read_Only: true}",
        "safety: true",
        "safety: [read_only]",
        "safety: {read_only: yess}",
        "safety: {read_only: true}\nsafety: {read_only: false}",
        "saftey: {read_only: true}",
        "read-only: true",
        "context: {c: {safety: {read_only: true}}}",
        "contexts: [{c: {safety: {read_only: true}}}]",
        "contexts: {c: {read_only: true}}",
        "default: {safety: {read_only: true}}",
        "safety: {read_only: true}\n---\nsafety: {read_only: false}",
    ] {
        write_config(&home, text);
        let refused = run(label("file"), "");
        assert_eq!(refused.code, 5, "{text}: {}", refused.err);
    }
    write_config(&home, "");
    for (name, value) in [
        ("GPUCTL_READ_ONLY", "yess"),
        ("GPUCTL_READONLY", "1"),
        ("GPUCTL_SAFETY_READ_ONLY", "true"),
        ("gpuctl_read_only", "true"),
        ("GPUCTL_READ_ONLY", "2"),
    ] {
        let mut command = label("environment");
        command.env(name, value);
        let refused = run(command, "");
        assert_eq!(refused.code, 5, "{name}={value}: {}", refused.err);
    }
    assert_eq!(
        node()["metadata"]["labels"]["hostile-safety"],
        serde_json::Value::Null,
        "nothing was written"
    );
    // The user can change a setting deliberately.
    write_config(&home, "safety: {read_only: true}\n");
    run(label("file"), "").exits(5);
    let mut lifted = label("lifted");
    lifted.env("GPUCTL_READ_ONLY", "0");
    run(lifted, "").ok();
    run(
        command(
            &home,
            &[
                "label",
                "node",
                "plain-01",
                "hostile-safety=null",
                "--overwrite",
                "--config",
                "/dev/null",
            ],
        ),
        "",
    )
    .ok();
    assert_eq!(node()["metadata"]["labels"]["hostile-safety"], "null");
    // Other unknown keys cause one warning, printed before the write.
    write_config(&home, "promethues: {url: x}\n");
    let warned = run(label("warned"), "").ok();
    assert_eq!(
        warned.err.matches("unknown key `promethues`").count(),
        1,
        "{}",
        warned.err
    );
}

#[test]
fn a_failed_write_leaves_no_file() {
    let home = folder("full");
    for extra in [&[][..], &["--force"]] {
        let target = home.join("job.yaml");
        let arguments = [
            &["init", "training", "--output", target.to_str().unwrap()],
            extra,
        ]
        .concat();
        let gpuctl = command(&home, &arguments);
        let mut shell = Command::new("sh");
        // A limit on file sizes simulates a full disk.
        shell
            .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""])
            .arg(gpuctl.get_program())
            .args(gpuctl.get_args());
        let run = run(shell, "");
        assert_ne!(run.code, 0);
        run.says("cannot write");
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "{extra:?}");
    }
    let target = home.join("job.yaml");
    symlink(home.join("elsewhere"), &target).unwrap();
    for extra in [&[][..], &["--force"]] {
        let arguments = [
            &["init", "training", "--output", target.to_str().unwrap()],
            extra,
        ]
        .concat();
        assert_ne!(run(command(&home, &arguments), "").code, 0);
        assert!(!home.join("elsewhere").exists());
    }
    // The file gets the mode that the umask allows.
    fs::remove_file(&target).unwrap();
    with_umask(
        "027",
        &command(
            &home,
            &["init", "training", "--output", target.to_str().unwrap()],
        ),
    )
    .ok();
    assert_eq!(mode(&target), 0o640);
}
