//! Tests `run`, `create --set` and `create --name`, which submit jobs without a file or from a
//! modified file.

use serde_json::json;

use crate::support::{Scene, file, own_command};

#[test]
fn run_flags_are_equivalent_to_a_file() {
    let scene = Scene::with_nodes("run", 2);
    scene.admin.run(&[
        "create",
        "secret",
        "generic",
        "hub",
        "--from-literal=HF_TOKEN=x",
        "-n",
        "run",
    ]);
    let script = file("run-train.py", "print('hello')\n")
        .display()
        .to_string();
    let arguments = |extra: &[&'static str]| {
        let mut words = vec![
            "run",
            "--name",
            "sft",
            "--gpus",
            "2",
            "--node-count",
            "2",
            "--image",
            "busybox:1",
            "--pool",
            "run",
        ];
        words.extend(
            [
                "--file",
                script.as_str(),
                "--env",
                "LR=0.1",
                "--env-secret",
                "HF_TOKEN=hub",
                "--memory",
                "8Gi",
            ]
            .map(|word| {
                // Leaks the path, because the arguments must be `'static`.
                Box::leak(word.to_owned().into_boxed_str()) as &'static str
            }),
        );
        words.extend(extra);
        words.extend(["--", "torchrun", "run-train.py", "--x", "a b"]);
        words
    };
    let spec = scene
        .gpuctl(&arguments(&["--dry-run=client", "-o", "spec"]))
        .ok()
        .out;
    scene
        .gpuctl(&arguments(&["-o", "spec"]))
        .exits(2)
        .says("requires `--dry-run=client`");
    let shown = scene
        .gpuctl(&arguments(&["--dry-run=client", "-o", "yaml"]))
        .ok()
        .out;
    let saved = file("run-spec.yaml", &spec).display().to_string();
    let from_file = scene
        .gpuctl(&["create", "-f", &saved, "--dry-run=client", "-o", "yaml"])
        .ok()
        .out;
    assert_eq!(shown, from_file, "the printed YAML describes the same job");
    let run = scene
        .gpuctl(&arguments(&["--wait", "--timeout", "60s"]))
        .ok();
    assert!(
        run.out
            .starts_with("training/sft created in run: 2 nodes × 2 a100-80g, pool run\n"),
        "{}",
        run.out
    );
    let pod = scene.pods("sft").remove(0);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(
        own_command(container),
        json!(["torchrun", "run-train.py", "--x", "a b"])
    );
    assert_eq!(
        (
            &container["workingDir"],
            &container["resources"]["limits"]["memory"]
        ),
        (&json!("/workspace"), &json!("8Gi"))
    );
    assert!(
        container["env"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["name"] == "HF_TOKEN"
                && one["valueFrom"]["secretKeyRef"] == json!({"name": "hub", "key": "HF_TOKEN"}))
    );
    assert_eq!(
        scene.get(&["configmap", "sft-files"])["data"]["file-0"],
        "print('hello')\n"
    );
    let source = scene
        .gpuctl(&["describe", "job", "sft", "-o", "json"])
        .ok()
        .json()["yamlContent"]
        .clone();
    assert_eq!(source.as_str().unwrap(), spec);
    scene
        .gpuctl(&["run", "--name", "Bad_Name", "--image", "i"])
        .exits(3)
        .says("try `bad-name`");
    scene.gpuctl(&["run", "--name", "x"]).exits(2);
    scene
        .gpuctl(&[
            "run",
            "--name",
            "x",
            "--image",
            "i",
            "--file",
            "/nonexistent/x.py",
        ])
        .exits(3)
        .says("cannot read");
}

#[test]
fn set_options_change_fields_and_are_validated() {
    let scene = Scene::with_nodes("set", 1);
    let yaml =
        scene.training("base", "resources: {pool: POOL, gpu: 1}\nenvironment: {image: busybox, env: [{name: LR, value: 1}]} # c");
    let run = scene.gpuctl_with(
        &[
            "create",
            "-f",
            "-",
            "--name",
            "other",
            "--set",
            "resources.gpu=4",
            "--set",
            "environment.env.LR=0.5",
            "--set",
            "job.labels.team=a",
        ],
        &yaml,
    );
    let run = run.ok();
    assert!(
        run.out
            .starts_with("training/other created in set: 1 node × 4 a100-80g"),
        "{}",
        run.out
    );
    let job = scene.get(&["job", "other"]);
    assert_eq!(job["metadata"]["labels"]["team"], "a");
    let env = job["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    assert!(
        env.as_array()
            .unwrap()
            .contains(&json!({"name": "LR", "value": "0.5"})),
        "{env:#}"
    );
    let source = scene
        .gpuctl(&["describe", "job", "other", "-o", "json"])
        .ok()
        .json()["yamlContent"]
        .clone();
    assert!(
        source.as_str().unwrap().contains("gpu: 4"),
        "the changed file is stored with the job: {source}"
    );
    let refused = |set: &str| {
        scene
            .gpuctl_with(&["create", "-f", "-", "--set", set], &yaml)
            .exits(3)
    };
    refused("resources.gpus=4")
        .says("--set: unknown field `resources.gpus`")
        .says("did you mean `gpu`?");
    refused("resources.gpu=many").says("`gpu` must be a whole number");
    refused("job.name.x=1").says("is inside a value that has no fields");
    refused("environment.env.7.secret=x").says("there is no entry `7`, because the list has 1");
    scene
        .gpuctl_with(&["create", "-f", "-", "--set", "resources.gpu"], &yaml)
        .exits(2);
    let two_jobs = format!("{yaml}\n---\n{}", scene.training("second", ""));
    scene
        .gpuctl_with(&["create", "-f", "-", "--name", "x"], &two_jobs)
        .exits(2)
        .says("`--name` works with one job");
}

#[test]
fn run_limits_the_run_time() {
    let scene = Scene::with_nodes("run-limit", 1);
    let arguments = |time: &'static str| {
        let name = ["run", "--name", "a", "--image", "busybox:1"];
        [&name[..], &["--max-runtime", time]].concat()
    };
    let spec = [&arguments("4h")[..], &["--dry-run=client", "-o", "spec"]].concat();
    let spec = scene.gpuctl(&spec).ok().out;
    assert!(spec.contains("max_runtime: 4h"), "{spec}");
    scene
        .gpuctl(&arguments("4:00:00"))
        .exits(3)
        .says("`max_runtime` must be a duration such as 30s, 5m, 12h or 2d, not `4:00:00`")
        .says("write 4h");
    scene.gpuctl(&arguments("4h")).ok();
    let pod = &scene.get(&["job", "a"])["spec"]["template"]["spec"];
    assert_eq!(pod["activeDeadlineSeconds"], 4 * 3600);
}
