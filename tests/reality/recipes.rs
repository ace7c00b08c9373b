//! Runs the recipes in `examples/` to completion on a real node: ranks find each other by name and
//! port, and files and secrets are mounted where the recipe declares them. `stand_in.py` replaces
//! their programs, and images and sizes are adapted to this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpuctl_sandbox::debian::python_image;
use gpuctl_sandbox::{Cluster, Hardware, Options, Persona};
use serde_json::json;

use crate::runner::{Run, gpuctl, run};
use crate::support::POOL;

const IMAGE: &str = "recipes:1";

#[track_caller]
fn run_program(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Builds an image that adds the stand-in to the Python image.
fn image(cluster: &Cluster) -> PathBuf {
    let python = python_image().unwrap_or_else(|error| panic!("{error:#}"));
    let folder = cluster.folder().join("recipes");
    let root = folder.join("root");
    std::fs::create_dir_all(&root).unwrap();
    run_program(
        Command::new("tar")
            .arg("-xf")
            .arg(python)
            .arg("-C")
            .arg(&folder)
            .arg("layer.tar"),
    );
    run_program(
        Command::new("tar")
            .arg("-xf")
            .arg(folder.join("layer.tar"))
            .arg("-C")
            .arg(&root),
    );
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reality");
    for name in ["torchrun", "llamafactory-cli", "accelerate", "vllm", "ray"] {
        run_program(
            Command::new("install")
                .arg("-Dm755")
                .arg(sources.join("stand_in.py"))
                .arg(root.join("usr/local/bin").join(name)),
        );
    }
    std::os::unix::fs::symlink("python3", root.join("usr/bin/python")).unwrap();
    let library = root.join("usr/lib/python3/dist-packages/ray.py");
    run_program(
        Command::new("install")
            .arg("-Dm644")
            .arg(sources.join("stand_in_ray.py"))
            .arg(library),
    );
    let archive = folder.join("recipes.tar");
    let name = format!("docker.io/library/{IMAGE}");
    run_program(
        Command::new(cluster.binary("node"))
            .arg("image")
            .arg(&root)
            .arg(name)
            .arg(&archive),
    );
    archive
}

#[test]
#[ignore = "makes an image of Debian: `cargo reality --slow`"]
fn recipes_run_to_completion() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    let hardware = Hardware {
        product: "NVIDIA-H100-80GB-HBM3".to_owned(),
        ..Hardware::gpus(16).in_pool(POOL)
    };
    cluster.add_real_node(&hardware).unwrap();
    let archive = image(&cluster);
    cluster.on_real_node(0, |node| node.load(&archive));
    let admin = cluster.kubectl(Persona::Admin);
    let data = cluster.on_real_node(0, |node| node.data());
    let volume = |name: &str| {
        std::fs::create_dir_all(data.join(name)).unwrap();
        std::fs::write(data.join(name).join("prompts.jsonl"), "a\nb\nc\nd\ne\n").unwrap();
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {"storageClassName": "shared",
            "capacity": {"storage": "1Ti"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": format!("/var/lib/gpuctl-sandbox/{name}")}}})
    };
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "sandbox/by-hand",
        "metadata": {"name": "shared", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    admin.apply(&class);
    admin.run(&[
        "create",
        "secret",
        "generic",
        "hub",
        "--from-literal=token=t",
    ]);
    let run_gpuctl = |arguments: &[&str]| -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, "")
    };
    let create = |recipe: &str, options: &[&str]| {
        admin.apply(&volume(recipe));
        let file = format!(
            "{}/examples/recipes/{recipe}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        let image = format!("environment.image={IMAGE}");
        let small = [
            "--set",
            &image,
            "--set",
            "resources.cpu=0.1",
            "--set",
            "resources.memory=64Mi",
            "--timeout",
            "3m",
        ];
        run_gpuctl(&[&["create", "-f", &file][..], &small, options].concat()).ok();
    };
    let logs = |recipe: &str| run_gpuctl(&["logs", recipe]).ok().out;
    let delete = |recipe: &str| {
        run_gpuctl(&["delete", "job", recipe, "--purge"]).ok();
        admin.run(&["delete", "pv", recipe, "--wait=false"]);
    };

    for (recipe, options, ranks) in [
        (
            "accelerate-deepspeed",
            &["--set", "resources.shm=16Mi"][..],
            2,
        ),
        ("llama-factory-two-nodes", &[], 2),
        ("rdma", &[], 2),
    ] {
        create(recipe, &[&["--wait=complete"], options].concat());
        let log = logs(recipe);
        for rank in 0..ranks {
            assert!(
                log.contains(&format!("rank {rank} met {ranks}")),
                "{recipe}: {log}"
            );
        }
        if recipe.starts_with("llama") {
            assert!((0..2).all(|rank| data.join(recipe).join(format!("rank-{rank}")).exists()));
        }
        delete(recipe);
    }

    create("ray", &["--wait=complete"]);
    let log = logs("ray");
    let joined = log.matches("joined as number").count();
    assert!(joined == 2 && log.contains("('ray-0', [0])"), "{log}");
    delete("ray");

    create("batch-inference", &["--wait=complete"]);
    let mut answers: Vec<String> = (0..4)
        .flat_map(|rank| {
            let text =
                std::fs::read_to_string(data.join(format!("batch-inference/answers-{rank}.jsonl")))
                    .unwrap();
            text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        })
        .collect();
    answers.sort();
    assert_eq!(answers, ["A", "B", "C", "D", "E"]);
    delete("batch-inference");

    create(
        "shared-cache",
        &[
            "--set",
            "environment.command=[vllm]",
            "--set",
            "service.health_check.initial_delay=1s",
            "--wait",
        ],
    );
    let health_script = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/health').status)";
    assert_eq!(
        run_gpuctl(&["exec", "shared-cache", "--", "python3", "-c", health_script])
            .ok()
            .out
            .trim(),
        "200"
    );
    let files = std::fs::read_dir(data.join("shared-cache"))
        .unwrap()
        .count();
    assert_eq!(files, 3, "prompts.jsonl and one file per replica");
    delete("shared-cache");
}
