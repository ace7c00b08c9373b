//! Runs every target briefly on edited seeds: truncated, changed, repeated or combined. Fuzzers
//! start from the same seeds (`tests/fuzz`).

#![expect(clippy::disallowed_methods, reason = "tests arrange files")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;
use gpuctl_cluster::fuzz::protobuf_seed;
use gpuctl_prometheus::fuzz::chunk_seeds;

const PODS: &str = r#"{"metadata":{"continue":"next","resourceVersion":"7"},"items":[
 {"metadata":{"name":"sft-0","namespace":"team-a","uid":"u","labels":{"gpuctl/job":"sft","app.kubernetes.io/managed-by":"gpuctl"},
  "annotations":{"a":"b\u001b"},"creationTimestamp":"2026-01-01T00:00:00Z","ownerReferences":[{"apiVersion":"batch/v1","kind":"Job","name":"sft","uid":"j","controller":true}]},
  "spec":{"nodeName":"gpu-1","containers":[{"name":"main","resources":{"requests":{"cpu":"1500m","memory":"1.5Gi","nvidia.com/gpu":"8"},"limits":{"nvidia.com/gpu":8}}}],"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]},
  "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:05Z"}],
   "containerStatuses":[{"name":"main","restartCount":3,"started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:03Z"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","finishedAt":"2026-01-01T00:00:02Z"}}}]}},
 {"metadata":null,"spec":{"containers":null},"status":{"phase":"Odd"}}]}"#;

const EVENTS: &str = concat!(
    r#"{"type":"ADDED","object":{"metadata":{"uid":"a","resourceVersion":"1"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}}"#,
    "\n",
    r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#,
    "\n",
    r#"{"type":"ERROR","object":{"code":410}}"#,
    "\n",
    r#"{"type":"DELETED","object":{"metadata":{"uid":"a"}}}"#,
    "\n{"
);

const MATRIX: &str = r#"{"status":"success","warnings":["w"],"data":{"resultType":"matrix","result":[
 {"metric":{"__name__":"up","pod":"a\u001b"},"values":[[1700000000,"1"],[1700000030.5,"NaN"],[1700000060,"+Inf"]]},{"metric":{},"values":[]}]}}"#;

const VECTOR: &str = r#"{"status":"success","isPartial":true,"data":{"resultType":"vector","result":[{"metric":{"gpu":"0"},"value":[1.7e9,"-0.5"]},{"metric":{},"histogram":[1,{}]}]}}"#;

const EXPORTED: &str = "# HELP DCGM_FI_DEV_GPU_UTIL x\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",pod=\"a\\\"b\\n\"} 97 1700000000000\nx NaN\ny{} +Inf\n";

const LOGGED: &str = "{'loss': 1.25, 'epoch': 0.5}\n 50%|█████     | 500/1000 [01:23<01:23,  6.02it/s]\niter 1200: loss 0.9, 3.1 samples/s\nEpoch 3/10 step 5 of 20\r 99%|#########9| 99/100\n";

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://h:6443', certificate-authority-data: QQ==, insecure-skip-tls-verify: false}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: p, args: [a], env: [{name: A, value: b}], interactiveMode: IfAvailable}}}]\ncontexts: [{name: c, context: {cluster: c, user: u, namespace: n}}]\n";

const SLURM: &str = "#!/bin/bash\n#SBATCH --job-name=sft --nodes=2\n#SBATCH --gres=gpu:h100:8 --time=1-02:00:00 --array=0-7%2\nmodule load cuda\nsrun torchrun train.py\n";

const JOB: &str = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: sft, namespace: a}\nspec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: i:1, command: [sh, -c, x], resources: {limits: {nvidia.com/gpu: 8}}}]}}}, Worker: {replicas: 3, template: {spec: {containers: [{image: i:1}]}}}}}\n";

const SKY: &str = "name: sft\nresources: {accelerators: H100:8, memory: 64+}\nnum_nodes: 2\nsetup: pip install x\nrun: |\n  python train.py\nenvs: {A: b}\n";

fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.is_file()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "manifest" => [
            files("examples"),
            files("examples/small"),
            files("tests/spec/checks"),
        ]
        .concat(),
        "foreign-manifest" => texts(&[SLURM, JOB, SKY]),
        "kubeconfig" => texts(&[KUBECONFIG]),
        "protobuf-page" => vec![protobuf_seed(PODS)],
        "json-page" => texts(&[PODS]),
        "watch" => texts(&[&format!("\u{1}\u{7}\u{30}\u{3}{EVENTS}")]),
        "log" => texts(&[
            "\u{3}\u{5}\u{9}\u{1}ab2026-01-01T00:00:00.000000001Z one\n2026-01-01T00:00:00Z two\nno time\n",
        ]),
        "training-log" => texts(&[LOGGED]),
        "prometheus-answer" => texts(&[MATRIX, VECTOR, &MATRIX.replacen("\"1\"", "\"\0\"", 1)]),
        "chunks" => chunk_seeds(),
        "query" => texts(&[
            "a\"}b\\\nc",
            "sum by (a) (rate(x{y=\"}\"}[5m] offset 1ms)) > 1e3",
        ]),
        "exposition" => texts(&[EXPORTED]),
        "quantity" => texts(&["128Gi", "500m", "1.5e3", "1h30m", "9.999999E"]),
        "shown-text" => texts(&[
            "=cmd|' /C calc'!A0",
            "a\u{1b}[2J\u{9b}\u{202e}b\r\n,\"x",
            "-1.5%",
        ]),
        other => panic!("`{other}` has no seeds"),
    }
}

/// Edits one or two seeds at random.
fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let count = seeds.len();
    let byte_strategy = prop_oneof![3 => any::<u8>(), 1 => prop::sample::select(b"\0\n\"{}[],:-=.\xff0e9\x1b".to_vec())];
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0_u8..5, byte_strategy), 0..8);
    (0..count, 0..count, edits, any::<prop::sample::Index>()).prop_map(
        move |(first, second, edits, cut)| {
            let mut bytes = seeds[first].clone();
            for (at, kind, byte) in edits {
                if bytes.is_empty() {
                    bytes.push(byte);
                }
                let at = at.index(bytes.len());
                match kind {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                    3 => bytes.extend_from_within(at..(at + usize::from(byte)).min(bytes.len())),
                    _ => {
                        let donor = &seeds[second];
                        let from = usize::from(byte) * donor.len() / 256;
                        bytes.splice(at..at, donor[from..].iter().take(64).copied());
                    }
                }
            }
            if cut.index(4) == 0 {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            bytes
        },
    )
}

/// Reads the number of inputs per target from `GPUCTL_FUZZ_RUNS`. The default is small, so that the
/// test is fast.
fn runs() -> u32 {
    std::env::var("GPUCTL_FUZZ_RUNS").map_or(1500, |runs| {
        runs.parse().expect("GPUCTL_FUZZ_RUNS is a number")
    })
}

#[test]
fn no_bytes_break_the_parsers() {
    let runs = runs();
    let run_target = |name: &str, target: FuzzTarget| {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name}");
        seeds.iter().for_each(|seed| target(seed));
        target(b"");
        // Use a fixed seed, so that runs are reproducible. Fuzzers search for new inputs.
        let config = Config {
            cases: runs,
            failure_persistence: None,
            ..Config::default()
        };
        let mut runner =
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let outcome = runner.run(&changed(seeds), |bytes| {
            target(&bytes);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    };
    std::thread::scope(|scope| {
        TARGETS
            .iter()
            .for_each(|(name, target)| drop(scope.spawn(move || run_target(name, *target))));
    });
}

/// Writes the seeds to the folder in `GPUCTL_FUZZ_SEEDS`, as a fuzzer's initial corpus.
#[test]
fn seeds_for_a_fuzzer() {
    let Some(folder) = std::env::var_os("GPUCTL_FUZZ_SEEDS") else {
        return;
    };
    for (name, _) in TARGETS {
        let folder = Path::new(&folder).join(name);
        fs::create_dir_all(&folder).unwrap();
        for (index, seed) in seeds(name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), seed).unwrap();
        }
    }
}
