//! The recipes of `examples/`, run to their end on a real node: ranks find each other by the names
//! and ports that they get, files and secrets are where the recipe says. A stand-in has the names
//! of their programs (`stand_in.py`); images and sizes are those of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpuctl_sandbox::debian::python_image;
use gpuctl_sandbox::{Cluster, Hardware, Options, Persona};
use serde_json::json;

use crate::runner::{Run, gpuctl, run};
use crate::support::POOL;

const IMAGE: &str = "recipes:1";

#[track_caller]
fn done(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Makes the image of the stand-in from that of Python.
fn image(cluster: &Cluster) -> PathBuf {
    let python = python_image().unwrap_or_else(|error| panic!("{error:#}"));
    let folder = cluster.folder().join("recipes");
    let root = folder.join("root");
    std::fs::create_dir_all(&root).unwrap();
    done(
        Command::new("tar")
            .arg("-xf")
            .arg(python)
            .arg("-C")
            .arg(&folder)
            .arg("layer.tar"),
    );
    done(
        Command::new("tar")
            .arg("-xf")
            .arg(folder.join("layer.tar"))
            .arg("-C")
            .arg(&root),
    );
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reality");
    for name in ["torchrun", "llamafactory-cli", "accelerate", "vllm", "ray"] {
        done(
            Command::new("install")
                .arg("-Dm755")
                .arg(sources.join("stand_in.py"))
                .arg(root.join("usr/local/bin").join(name)),
        );
    }
    std::os::unix::fs::symlink("python3", root.join("usr/bin/python")).unwrap();
    let library = root.join("usr/lib/python3/dist-packages/ray.py");
    done(
        Command::new("install")
            .arg("-Dm644")
            .arg(sources.join("stand_in_ray.py"))
            .arg(library),
    );
    let archive = folder.join("recipes.tar");
    let name = format!("docker.io/library/{IMAGE}");
    done(
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
fn recipes_run_to_their_end() {
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
    let ask = |arguments: &[&str]| -> Run {
        let mut command = gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, "")
    };
    let create = |recipe: &str, further: &[&str]| {
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
        ask(&[&["create", "-f", &file][..], &small, further].concat()).ok();
    };
    let logs = |recipe: &str| ask(&["logs", recipe]).ok().out;
    let gone = |recipe: &str| {
        ask(&["delete", "job", recipe, "--purge"]).ok();
        admin.run(&["delete", "pv", recipe, "--wait=false"]);
    };

    for (recipe, further, ranks) in [
        (
            "accelerate-deepspeed",
            &["--set", "resources.shm=16Mi"][..],
            2,
        ),
        ("llama-factory-two-nodes", &[], 2),
        ("rdma", &[], 2),
    ] {
        create(recipe, &[&["--wait=complete"], further].concat());
        let said = logs(recipe);
        for rank in 0..ranks {
            assert!(
                said.contains(&format!("rank {rank} met {ranks}")),
                "{recipe}: {said}"
            );
        }
        if recipe.starts_with("llama") {
            assert!((0..2).all(|rank| data.join(recipe).join(format!("rank-{rank}")).exists()));
        }
        gone(recipe);
    }

    create("ray", &["--wait=complete"]);
    let said = logs("ray");
    let joined = said.matches("joined as number").count();
    assert!(joined == 2 && said.contains("('ray-0', [0])"), "{said}");
    gone("ray");

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
    gone("batch-inference");

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
    let healthy = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/health').status)";
    assert_eq!(
        ask(&["exec", "shared-cache", "--", "python3", "-c", healthy])
            .ok()
            .out
            .trim(),
        "200"
    );
    let visitors = std::fs::read_dir(data.join("shared-cache"))
        .unwrap()
        .count();
    assert_eq!(visitors, 3, "the prompts and a file of each replica");
    gone("shared-cache");
}
