//! The picture of the README: real output of two commands, rendered as a terminal shows it. The
//! committed file must have the same words. `GPUCTL_REWRITE=1` writes it.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use gpuctl_sandbox::{Cluster, Options, eventually};
use regex::Regex;

use crate::support::Scene;

const FILE: &str = "docs/session.svg";
/// The job that waits.
const WAITING: &str = "llama3-70b";

/// A job file of the picture.
fn document(kind: &str, name: &str, resources: &str, extra: &str) -> String {
    format!(
        "kind: {kind}\nversion: v0.1\njob: {{name: {name}}}\nenvironment: {{image: busybox, command: [sleep, '1']}}\nresources: {{pool: training-pool, {resources}}}\n{extra}"
    )
}

/// Creates a busy training, a service, an idle notebook, and a training that does not fit.
fn jobs(scene: &Scene) {
    let submit = |yaml: &str, arguments: &[&str]| {
        let create = [&["create", "-f", "-"], arguments].concat();
        scene.gpuctl_with(&create, yaml).ok();
    };
    let wait = ["--wait", "--timeout", "60s"];
    submit(
        &document("training", "qwen2-7b-sft", "gpu: 8, node_count: 2", ""),
        &wait,
    );
    submit(
        &document("inference", "chat", "gpu: 2", "service: {port: 8000}\n"),
        &wait,
    );
    submit(&document("notebook", "analysis", "gpu: 1", ""), &wait);
    submit(
        &document("training", WAITING, "gpu: 8, node_count: 2", ""),
        &["--allow-pending"],
    );
    for (job, utilization) in [("qwen2-7b-sft", 93.0), ("chat", 61.0), ("analysis", 0.0)] {
        for pod in scene.assign_devices(job) {
            scene.load(&pod, |_, gpu| gpu.utilization = utilization);
        }
    }
}

/// Renders lines of text as SVG: 18 px for each, with the typed commands in green.
fn picture(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let columns = lines
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0);
    let (width, height) = (columns * 8 + 32, lines.len() * 18 + 32);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    let heading = Regex::new("^[A-Z]+ +[A-Z]").unwrap();
    for (line, index) in lines.iter().zip(1..) {
        let color = match line {
            line if line.starts_with("$ ") => "#7ee787",
            line if heading.is_match(line) => "#8b949e",
            _ => "#c9d1d9",
        };
        let escaped = line
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        let y = 16 + 18 * index;
        let _ = writeln!(
            svg,
            "<text x=\"16\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{escaped}</text>"
        );
    }
    svg + "</svg>\n"
}

/// Replaces what differs from run to run: ages, percentages, names of nodes, and positions.
fn masked(svg: &str) -> String {
    let masks = [
        (r"\b\d+(\.\d+)?(s|m|h)\b( \d+(s|m|h)\b)?", "AGE"),
        (r"\d+ ?%", "PERCENT"),
        (r"training-pool-\d", "NODE"),
        (" +", " "),
    ];
    masks.iter().fold(svg.to_owned(), |text, (pattern, with)| {
        Regex::new(pattern)
            .unwrap()
            .replace_all(&text, *with)
            .into_owned()
    })
}

/// A cluster without the pools of other tests, which `why` would suggest.
fn dedicated_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        Cluster::start(&Options::default()).unwrap_or_else(|error| panic!("{error:#}"))
    })
}

#[test]
fn the_picture_of_the_readme_is_current() {
    let scene = Scene::on(dedicated_cluster(), "training-pool", 3);
    jobs(&scene);
    let is_busy = |job: &serde_json::Value| {
        job["gpuUtilization"]
            .as_f64()
            .is_some_and(|util| util > 90.0)
    };
    scene.until(&["get", "jobs"], |answer| {
        answer["items"].as_array().unwrap().iter().any(is_busy)
    });
    let why = ["why", WAITING];
    let explained = eventually(
        "the scheduler has explained the job",
        Duration::from_secs(60),
        || {
            let run = scene.gpuctl(&why).ok();
            if run.out.contains("free") {
                Ok(run.out)
            } else {
                Err(run.out)
            }
        },
    );
    let listed = scene.gpuctl(&["get", "jobs"]).ok().out;
    let text = format!("$ gpuctl get jobs\n{listed}\n$ gpuctl why {WAITING}\n{explained}");
    let svg = picture(&text);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("GPUCTL_REWRITE").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        masked(&committed),
        masked(&svg),
        "{FILE} is stale: GPUCTL_REWRITE=1 cargo test --test metrics picture"
    );
}
