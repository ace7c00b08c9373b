//! Tests that each check finds its problem and accepts a correct document.

use super::*;

/// A check's id, a document with the problem, and one without it.
const CASES: [(&str, &str, &str); 11] = [
    (
        "nproc-per-node",
        "training: torchrun --nproc_per_node=8 t.py",
        "training: torchrun --nproc-per-node=4 t.py",
    ),
    (
        "num-processes",
        "training: accelerate launch --num_processes 4 t.py",
        "training: accelerate launch --num_processes 8 t.py",
    ),
    (
        "tensor-parallel",
        "inference: vllm serve m -tp 2",
        "inference: vllm serve m --tensor-parallel-size=2 --pipeline-parallel-size 2",
    ),
    (
        "port",
        "inference: serve --port 9000",
        "inference: serve --port 8000",
    ),
    (
        "deprecated-launcher",
        "training: python -m torch.distributed.launch t.py",
        "training: torchrun t.py",
    ),
    (
        "plain-secret",
        "training: train --hub-token hf_abcdef",
        "training: train --hub-token $HF_TOKEN",
    ),
    (
        "image-tag",
        "image: repo:5000/image",
        "image: repo:5000/image@sha256:00",
    ),
    (
        "file-as-directory",
        "workdir: {path: /src/train.py}",
        "workdir: {path: /models/qwen2.5-7b}",
    ),
    (
        "request-limit",
        "service: {port: 8000, health_check: /h, request_limit: 5}",
        "service: {port: 8000, health_check: /h, request_limit: 5, host: a.example.com}",
    ),
    (
        "health-check",
        "service: {port: 8000}",
        "service: {port: 8000, health_check: /health}",
    ),
    (
        "memory-target",
        "autoscaling: {enabled: true, maxReplicas: 2, targetMemoryUtilization: 80}",
        "autoscaling: {enabled: true, maxReplicas: 2, targetGPUUtilization: 80}",
    ),
];

fn document(case: &str) -> String {
    let (field, text) = case.split_once(": ").unwrap();
    let (mut kind, mut command, mut image) = ("inference", "vllm serve m", "i:1");
    let (mut service, mut extra) = (
        "service: {port: 8000, health_check: /health}".to_owned(),
        String::new(),
    );
    match field {
        "training" | "inference" => (kind, command) = (field, text),
        "image" => (kind, image) = ("training", text),
        "service" => service = case.to_owned(),
        "workdir" => extra = format!("storage: {{workdirs: [{text}]}}\n"),
        _ => extra = format!("{case}\n"),
    }
    let (nodes, service) = if kind == "training" {
        (", node_count: 2", String::new())
    } else {
        ("", format!("{service}\n"))
    };
    format!(
        "kind: {kind}\nversion: v0.1\njob: {{name: a}}\nenvironment:\n  image: {image}\n  command: {command}\n{service}resources: {{gpu: 4{nodes}}}\n{extra}"
    )
}

fn ids(text: &str) -> Vec<&'static str> {
    let documents = super::super::parse("", text)
        .unwrap_or_else(|problems| panic!("{text}{:?}", problems.list))
        .documents;
    run(text, &documents)
        .iter()
        .map(|problem| problem.id)
        .collect()
}

#[test]
fn every_check_finds_only_its_own_problem() {
    for (id, failing, passing) in CASES {
        assert_eq!(ids(&document(failing)), [id], "{}", document(failing));
        assert!(
            ids(&document(passing)).is_empty(),
            "{id}: {:?}",
            ids(&document(passing))
        );
    }
    let tested: Vec<&str> = CASES.iter().map(|(id, ..)| *id).collect();
    for check in CHECKS.iter().filter(|check| check.find.is_some()) {
        assert!(tested.contains(&check.id), "nothing tries {}", check.id);
    }
}

#[test]
fn a_comment_silences_a_check_and_positions_are_those_of_fields() {
    let failing = document(CASES[0].1);
    assert!(ids(&format!("# gpuctl: ignore port, nproc-per-node\n{failing}")).is_empty());
    assert_eq!(
        ids(&format!("# gpuctl: ignore port\n{failing}")),
        ["nproc-per-node"]
    );
    let documents = super::super::parse("", &failing).unwrap().documents;
    let at = run(&failing, &documents)[0].at;
    assert_eq!((at.line, at.column, at.width), (6, 3, 7));
}
