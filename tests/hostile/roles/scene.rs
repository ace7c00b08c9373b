//! Sets up the cluster for the role tests, with jobs of every kind and a Prometheus behind a
//! Service.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gpuctl_sandbox::nodes::{in_pool, node};
use gpuctl_sandbox::{Cluster, Kubectl, Options, Persona};
use serde_json::json;

use super::cases::Case;
use crate::runner::{Run, finish, gpuctl, run};

pub const NAMESPACE: &str = "roles";

pub struct Scene {
    pub cluster: Cluster,
    pub admin: Kubectl,
}

/// The trainings in the scene. Each case that changes a training has a separate one.
pub const TRAININGS: [&str; 13] = [
    "a",
    "paused",
    "resumed",
    "restarted",
    "gone",
    "purged",
    "awaited",
    "changed",
    "replaced",
    "again",
    "mine",
    "yours",
    "forced",
];

pub fn training(name: &str, extra: &str) -> String {
    let resources = if extra.contains("resources:") {
        ""
    } else {
        "resources: {pool: roles, gpu: 1}\n"
    };
    format!(
        "kind: training\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox}}\n{resources}{extra}\n"
    )
}

pub fn service(name: &str, extra: &str) -> String {
    format!(
        "kind: inference\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: vllm}}\nresources: {{pool: roles, gpu: 1}}\n{extra}\n"
    )
}

pub const PORT: &str = "service: {replicas: 1, port: 8000}";

pub fn notebook(name: &str) -> String {
    format!(
        "kind: notebook\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: jupyter}}\nresources: {{pool: roles, gpu: 1}}\n"
    )
}

/// Whether the output of a run reports a missing permission.
pub fn is_lack(run: &Run) -> bool {
    let says = |words: &str| run.err.contains(words) || run.out.contains(words);
    run.code == 5
        || ["you are not allowed to", "forbidden", "Forbidden"]
            .into_iter()
            .any(says)
}

impl Scene {
    /// Runs gpuctl in the namespace as a user, or as the administrator for an empty name.
    pub fn gpuctl(&self, user: &str, arguments: &[&str]) -> Run {
        self.gpuctl_with(user, arguments, "")
    }

    pub fn gpuctl_with(&self, user: &str, arguments: &[&str], input: &str) -> Run {
        run(self.command(user, arguments), input)
    }

    fn command(&self, user: &str, arguments: &[&str]) -> std::process::Command {
        let mut command = gpuctl();
        command
            .env_remove("GPUCTL_PROMETHEUS")
            .env("KUBECONFIG", self.cluster.kubeconfig(Persona::Admin));
        command.env(
            "XDG_CACHE_HOME",
            self.cluster.folder().join(format!("cache-{user}")),
        );
        if !arguments.iter().any(|word| ["-n", "-A"].contains(word)) {
            command.args(["-n", NAMESPACE]);
        }
        if !user.is_empty() {
            command.args(["--as", user]);
        }
        command.args(arguments);
        command
    }

    /// Runs a case. If the command does not end, stops it after its permissions have been checked.
    pub fn run_case(&self, user: &str, case: &Case) -> Run {
        let arguments: Vec<&str> = case.args.iter().map(String::as_str).collect();
        if !case.is_endless {
            return self.gpuctl_with(user, &arguments, &case.input);
        }
        let mut command = self.command(user, &arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        finish(command.spawn().unwrap(), Duration::from_secs(4))
    }

    /// Repeats a command until it succeeds, because the authorizer sees a new role only after a
    /// delay. Returns the last result.
    pub fn until_allowed(&self, user: &str, arguments: &[&str]) -> Run {
        self.until_code(user, arguments, |code| code == 0)
    }

    /// Repeats a command until it exits with an expected code. After 20 s it returns the last
    /// result, because callers report unexpected codes themselves.
    pub fn until_code(&self, user: &str, arguments: &[&str], is_good: impl Fn(i32) -> bool) -> Run {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let run = self.gpuctl(user, arguments);
            if is_good(run.code) || Instant::now() > end {
                return run;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let folder = self.cluster.folder().join("roles");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn inside(&self) -> PathBuf {
        self.cluster.folder().join("inside")
    }
}

pub fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let cluster =
            Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"));
        let a100 = ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB");
        let gpus = |index| {
            in_pool(
                node(
                    &format!("roles-{index}"),
                    Some(a100),
                    &[("nvidia.com/gpu", 16)],
                ),
                "roles",
            )
        };
        let spare = |index| {
            node(
                &format!("spare-{index}"),
                Some(a100),
                &[("nvidia.com/gpu", 1)],
            )
        };
        cluster.add_nodes(
            &[
                (0..4).map(gpus).collect::<Vec<_>>(),
                (0..8).map(spare).collect(),
            ]
            .concat(),
        );
        let admin = cluster.kubectl(Persona::Admin);
        admin.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        );
        cluster.publish_prometheus("monitoring");
        let scene = Scene { cluster, admin };
        fs::create_dir_all(scene.inside()).unwrap();
        fs::write(scene.inside().join("hello.txt"), "hello").unwrap();
        scene.cluster.allow_exec(NAMESPACE, &scene.inside());
        scene.cluster.forward(NAMESPACE, &[8000], 1);
        let pools = ["roles-pool", "doomed", "joined", "left"]
            .map(|name| format!("kind: pool\nversion: v0.1\npool: {{name: {name}}}\n"));
        let pools = pools.join("---\n") + "nodes: [spare-7]\n";
        scene.gpuctl_with("", &["create", "-f", "-"], &pools).ok();
        let mut jobs: Vec<String> = TRAININGS.map(|name| training(name, "")).into();
        jobs.extend(
            ["web", "scaled", "ended", "tuned", "forced-web"].map(|name| service(name, PORT)),
        );
        jobs.extend(["book", "closed"].map(notebook));
        // `cp` starts a pod for a job that does not run, with its claims at the same paths.
        jobs.push(training(
            "copied",
            &format!(
                "storage: {{workdirs: [{{path: {}, size: 1Gi}}]}}",
                scene.inside().display()
            ),
        ));
        jobs.push(
            training(
                "completed",
                &format!(
                    "storage: {{workdirs: [{{path: {}, size: 1Gi}}]}}",
                    scene.inside().display()
                ),
            )
            .replace("image: busybox", "image: busybox, env: {SIM_SECONDS: 1}"),
        );
        scene
            .gpuctl_with(
                "",
                &["create", "-f", "-", "--allow-pending"],
                &jobs.join("---\n"),
            )
            .ok();
        scene.file("stored.txt", "data");
        let stored = scene.file(
            "stored.yaml",
            &training("stored", "files: {stored.txt: stored.txt}"),
        );
        scene
            .gpuctl("", &["create", "-f", &stored, "--allow-pending"])
            .ok();
        let quota =
            "kind: quota\nversion: v0.1\nquota: {name: standing}\nnamespace: {roles: {gpu: 60}}\n";
        scene.gpuctl_with("", &["create", "-f", "-"], quota).ok();
        scene
            .gpuctl("", &["pause", "job", "resumed", "copied"])
            .ok();
        let running = |list: &serde_json::Value| {
            let pods = super::items(list);
            // The pod of `completed` ends.
            let is_placed = |pod: &serde_json::Value| {
                pod["status"]["phase"] == "Running" || pod["status"]["phase"] == "Succeeded"
            };
            pods.len() >= 17 && pods.iter().all(is_placed)
        };
        scene
            .admin
            .until(&["get", "pods", "-n", NAMESPACE], running);
        scene
            .admin
            .until(&["get", "job", "completed", "-n", NAMESPACE], |job| {
                job["status"]["succeeded"] == 1
            });
        scene
    })
}
