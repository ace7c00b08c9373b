//! Tests a training as users write it: a plain Python script, uploaded as a file, in a Linux
//! distribution's image.

use gpuctl_sandbox::debian::{PYTHON, python_image};

use crate::support::{POOL, Scene, cluster};

/// Fits a line, saves a checkpoint after each step, and resumes from it.
const SCRIPT: &str = r#"
import json, os, time
place = "/out/checkpoint.json"
state = {"step": 0, "w": 0.0}
if os.path.exists(place):
    state = json.load(open(place))
    print(f"resumed from step {state['step']}", flush=True)
data = [(x / 10, 3 * x / 10) for x in range(10)]
while state["step"] < 40:
    gradient = sum(2 * (state["w"] * x - y) * x for x, y in data) / len(data)
    state["w"] -= 0.5 * gradient
    state["step"] += 1
    loss = sum((state["w"] * x - y) ** 2 for x, y in data) / len(data)
    if state["step"] % 5 == 0:
        print(f"step={state['step']}/40 loss={loss:.6f} on {os.environ['NVIDIA_VISIBLE_DEVICES']}", flush=True)
    json.dump(state, open(place + ".new", "w"))
    os.replace(place + ".new", place)
    if state["step"] == 20 and not os.path.exists("/out/failed"):
        open("/out/failed", "w").close()
        raise SystemExit("a fault in the middle")
    time.sleep(0.02)
"#;

#[test]
#[ignore = "makes an image of Debian: `cargo reality --slow`"]
fn an_uploaded_python_script_fails_and_resumes() {
    let scene = Scene::new("real-python");
    let image = python_image().unwrap_or_else(|error| panic!("{error:#}"));
    cluster().on_real_node(0, |node| node.load(&image));
    let folder = cluster().folder().join("python");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("train.py"), SCRIPT).unwrap();
    let yaml = format!(
        "kind: training\nversion: v0.1\njob: {{name: line, retries: 1}}\nenvironment: {{image: '{PYTHON}', command: [python3, train.py], workingDir: /workspace}}\nresources: {{gpu: 1, pool: {POOL}}}\nstorage: {{workdirs: [{{path: /out, host_path: /var/lib/gpuctl-sandbox/line}}]}}\nfiles: [train.py]\n"
    );
    let file = folder.join("line.yaml");
    std::fs::write(&file, yaml).unwrap();
    scene
        .gpuctl(&[
            "create",
            "-f",
            file.to_str().unwrap(),
            "--wait=complete",
            "--timeout",
            "3m",
        ])
        .ok();
    let last = scene.gpuctl(&["logs", "line"]).ok().out;
    assert!(
        last.contains("resumed from step 20") && last.contains("step=40/40"),
        "{last}"
    );
    assert!(last.contains("on GPU-0-"), "{last}");
    let first = scene.gpuctl(&["logs", "line", "--previous"]).ok().out;
    assert!(first.contains("a fault in the middle"), "{first}");
    let loss = |log: &str| -> Vec<f64> {
        log.lines()
            .filter_map(|line| {
                line.split_once("loss=")?
                    .1
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .collect()
    };
    let (before, after) = (loss(&first), loss(&last));
    assert!(
        before[0] > before[3] && before[3] > after[3],
        "{before:?} {after:?}"
    );
    // The result must equal that of forty uninterrupted steps of w ← w − 0.5·2·(w−3)·mean(x²), with
    // mean(x²) = 0.285.
    let factor: f64 = 1.0 - 0.285;
    let w = 3.0 * (1.0 - factor.powi(40));
    let saved = std::fs::read_to_string(
        cluster().on_real_node(0, |node| node.data().join("line/checkpoint.json")),
    )
    .unwrap();
    let saved: serde_json::Value = serde_json::from_str(&saved).unwrap();
    assert!(
        (saved["w"].as_f64().unwrap() - w).abs() < 1e-9,
        "{saved} and {w}"
    );
}
