//! Tests `create --from` and `get jobs -o spec`, which use the YAML and the files that the cluster
//! stores for a job.

use std::fs;

use serde_json::json;

use crate::support::{Scene, cluster};

/// Submits the job `lora` from a folder that is named after the namespace.
fn submit_with_files(scene: &Scene, namespace: &str) {
    let folder = cluster().folder().join(namespace);
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/train.py"), "print('hello')\n").unwrap();
    fs::write(folder.join("weights.bin"), [0xff, 0x00, 0x01]).unwrap();
    let body = "# the colleague's comment\n\
        job: {name: NAME}\n\
        environment: {image: busybox, env: {LR: 0.1}}\n\
        files: [src/train.py, weights.bin]";
    fs::write(folder.join("job.yaml"), scene.training("lora", body)).unwrap();
    let path = folder.join("job.yaml").display().to_string();
    scene.gpuctl(&["create", "-f", &path]).ok();
}

#[test]
fn a_copy_includes_the_files_of_the_job() {
    let scene = Scene::with_nodes("copies", 1);
    submit_with_files(&scene, "copies");
    let again = scene.gpuctl(&["create", "--from", "lora"]).exits(1);
    assert_eq!(
        again.err,
        "error: job `lora` already exists in namespace `copies`\n\n\
         hint: gpuctl create --from lora --name NEW-NAME\n"
    );
    let copy = ["create", "--from", "copies/lora", "--name", "lora-2"];
    let set = ["--set", "environment.env.LR=0.2", "-o", "json"];
    let client = [&copy[..], &["--dry-run=client", "-o", "json"]].concat();
    assert_eq!(scene.gpuctl(&client).ok().json()["kind"], "List");
    let server = [&copy[..], &set[..], &["--dry-run=server"]].concat();
    scene.gpuctl(&server).ok();
    assert!(scene.job("lora-2").is_null());

    let created = scene.gpuctl(&[&copy[..], &set[..]].concat()).ok().json();
    assert_eq!(created["jobId"], "lora-2");
    assert_eq!(created["localFiles"].as_array().map(Vec::len), Some(2));
    let original = scene.get(&["configmap", "lora-files"]);
    let files = scene.get(&["configmap", "lora-2-files"]);
    assert_eq!(files["data"], original["data"]);
    assert_eq!(files["binaryData"], original["binaryData"]);
    let job = scene.get(&["job", "lora-2"]);
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    let is_rate = |variable: &&serde_json::Value| variable["name"] == "LR";
    let rate = container["env"].as_array().unwrap().iter().find(is_rate);
    assert_eq!(rate.unwrap()["value"], "0.2");

    let generated = scene.gpuctl(&["create", "--from", "lora", "--generate-name", "-o", "json"]);
    let id = generated.ok().json()["jobId"].as_str().unwrap().to_owned();
    assert!(id.starts_with("lora-"), "{id}");
    // The files of a job with a generated name are found by that name.
    let second = ["create", "--from", &id, "--name", "lora-3"];
    scene.gpuctl(&second).ok();
    scene.get(&["configmap", "lora-3-files"]);
}

#[test]
fn the_namespace_option_selects_the_namespace_of_the_copy() {
    let scene = Scene::with_nodes("copies-of", 1);
    let other = Scene::new("copies-to");
    scene.create("plain", "");
    scene.create("placed", "job: {name: NAME, namespace: copies-of}");
    for name in ["plain", "placed"] {
        let from = format!("copies-of/{name}");
        let copy = ["create", "--from", from.as_str(), "--allow-pending"];
        let created = other.gpuctl(&[&copy[..], &["-o", "json"]].concat());
        assert_eq!(created.ok().json()["namespace"], "copies-to");
        other
            .gpuctl(&copy)
            .exits(1)
            .says("already exists in namespace `copies-to`")
            .says("--name NEW-NAME");
    }
    // The stored YAML of the copy names its own namespace.
    let spec = other.gpuctl(&["get", "job", "placed", "-o", "spec"]).ok();
    assert!(
        spec.out.contains("namespace: \"copies-to\""),
        "{}",
        spec.out
    );
    // A name without a namespace is searched for in the namespace of `-n`.
    other
        .gpuctl(&["create", "--from", "lain", "--allow-pending"])
        .exits(4)
        .says("job `lain` does not exist in namespace `copies-to`");
}

#[test]
fn services_and_notebooks_can_be_copied() {
    let scene = Scene::with_nodes("copies-kinds", 1);
    scene.serve("web", "vllm", 1, "");
    scene.notebook("lab", "");
    for (name, kind) in [("web", "inference"), ("lab", "notebook")] {
        let copy = format!("{name}-2");
        let command = ["create", "--from", name, "--name", &copy, "--allow-pending"];
        scene.gpuctl(&command).ok();
        assert_eq!(scene.job(&copy)["kind"], kind);
    }
}

#[test]
fn a_job_of_another_tool_leads_to_convert() {
    let scene = Scene::with_nodes("copies-foreign", 1);
    scene.admin.apply(&json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "foreign", "namespace": "copies-foreign"},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
    }));
    scene
        .gpuctl(&["create", "--from", "foreign"])
        .exits(1)
        .says("job `foreign` in namespace `copies-foreign` was not submitted by gpuctl")
        .says(
            "kubectl get job foreign -n copies-foreign -o yaml | gpuctl convert - > foreign.yaml",
        );
    scene
        .gpuctl(&["create", "--from", "nothing"])
        .exits(4)
        .says("job `nothing` does not exist");
}

#[test]
fn files_and_names_of_a_copy_are_checked() {
    let scene = Scene::with_nodes("copies-checks", 1);
    submit_with_files(&scene, "copies-checks");
    scene
        .gpuctl(&["create", "--from", "lora", "--set", "files=[other.py]"])
        .exits(2)
        .says("`--set` cannot change the local files of job `lora`");
    scene
        .gpuctl(&["create", "--from", "lora", "-f", "job.yaml"])
        .exits(2)
        .says("--from");
    let config_map = ["delete", "configmap", "lora-files", "-n", "copies-checks"];
    scene.admin.run(&config_map);
    scene
        .gpuctl(&["create", "--from", "lora", "--name", "lora-2"])
        .exits(1)
        .says("the cluster no longer stores the files of job `lora`");
}

#[test]
fn the_submitted_yaml_is_printed_and_can_be_submitted_again() {
    let scene = Scene::with_nodes("copies-spec", 1);
    scene.create(
        "plain",
        "# mine\nenvironment: {image: busybox, env: [{name: A, secret: hub}]}",
    );
    let yaml = scene.training(
        "plain",
        "# mine\nenvironment: {image: busybox, env: [{name: A, secret: hub}]}",
    );
    let spec = scene.gpuctl(&["get", "job", "plain", "-o", "spec"]).ok();
    assert_eq!(spec.out, yaml);

    submit_with_files(&scene, "copies-spec");
    let spec = scene.gpuctl(&["get", "job", "lora", "-o", "spec"]).ok().out;
    for line in [
        "mkdir -p src && kubectl get configmap lora-files -n copies-spec -o jsonpath='{.data.file-0}' > src/train.py",
        "-o jsonpath='{.binaryData.file-1}' | base64 -d > weights.bin",
        "gpuctl create --from copies-spec/lora --name NEW-NAME",
        "# the colleague's comment",
    ] {
        assert!(spec.contains(line), "{line}: {spec}");
    }
    // In an empty folder, the error names the files that are missing.
    let folder = cluster().folder().join("copies-spec-empty");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("job.yaml"), &spec).unwrap();
    let path = folder.join("job.yaml").display().to_string();
    let create = ["create", "-f", &path, "--name", "again"];
    scene
        .gpuctl(&create)
        .exits(3)
        .says("cannot read `src/train.py`")
        .says("cannot read `weights.bin`");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/train.py"), "print()").unwrap();
    fs::write(folder.join("weights.bin"), "").unwrap();
    scene.gpuctl(&create).ok();

    // Several jobs are several documents, and a missing one does not hide the others.
    let both = scene.gpuctl(&["get", "jobs", "plain", "again", "nothing", "-o", "spec"]);
    let both = both.exits(4).says("job `nothing` does not exist");
    assert_eq!(both.out.matches("kind: training").count(), 2);
    assert_eq!(both.out.matches("---\n").count(), 1);
    scene
        .gpuctl(&["get", "jobs", "-o", "spec", "--watch"])
        .exits(2)
        .says("--watch");
    scene
        .gpuctl(&["get", "nodes", "-o", "spec"])
        .exits(2)
        .says("custom-columns");
}
