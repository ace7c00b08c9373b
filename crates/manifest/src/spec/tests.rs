//! Tests how documents are parsed, and the exact message for each problem.

use proptest::prelude::*;

use super::*;
use gpuctl_core::model::GpuType;

const CONTRACT: [(&str, &str); 4] = [
    (
        "training",
        include_str!("../../../../tests/spec/contract/training.yaml"),
    ),
    (
        "inference",
        include_str!("../../../../tests/spec/contract/inference.yaml"),
    ),
    (
        "notebook",
        include_str!("../../../../tests/spec/contract/notebook.yaml"),
    ),
    (
        "pools",
        include_str!("../../../../tests/spec/contract/pools.yaml"),
    ),
];

fn contract(name: &str) -> &'static str {
    CONTRACT
        .iter()
        .find(|(other, _)| *other == name)
        .expect("a contract example")
        .1
}

fn job(text: &str) -> JobDocument {
    match parse("t.yaml", text)
        .unwrap_or_else(|problems| panic!("{problems}: {:#?}", problems.list))
        .documents
        .remove(0)
    {
        Document::Job(job) => *job,
        other => panic!("{other:?}"),
    }
}

/// Formats each problem as `line:column: message | note`.
fn problems(text: &str) -> Vec<String> {
    let list = match parse("t.yaml", text) {
        Ok(parsed) => parsed.warnings.list,
        Err(problems) => problems.list,
    };
    list.iter()
        .map(|problem| {
            format!(
                "{}:{}: {} | {}",
                problem.at.line, problem.at.column, problem.message, problem.note
            )
        })
        .collect()
}

/// Builds a minimal training with these additional lines.
fn training(fields: &str) -> String {
    format!("kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i}}\n{fields}")
}

#[test]
fn the_contract_s_training_is_read_as_written() {
    let job = job(contract("training"));
    assert_eq!(
        (job.kind, job.name.value.as_str()),
        (JobKind::Training, "qwen2-7b-llamafactory-sft")
    );
    assert_eq!(
        (job.training.epochs, job.training.batch_size),
        (Some(3), Some(8))
    );
    assert_eq!(job.priority, Some(Priority::High));
    assert_eq!(job.description.as_deref(), Some("llama3推理任务"));
    assert_eq!(job.image_pull_secrets, ["my-secret"]);
    assert!(
        matches!(&job.command, Command::Exec(words) if words.len() == 20 && words[0] == "llama-factory-cli")
    );
    assert_eq!(
        job.env[1],
        EnvVariable {
            name: "LLAMA_FACTORY_CACHE".into(),
            value: EnvValue::Text("/cache/llama-factory".into())
        }
    );
    assert_eq!(
        job.resources.pool.as_ref().map(|pool| pool.value.as_str()),
        Some("training-pool")
    );
    assert_eq!(
        (
            job.resources.gpu,
            job.resources.cpu.as_deref(),
            job.resources.memory.as_deref()
        ),
        (4, Some("32"), Some("128Gi"))
    );
    assert_eq!(
        job.resources.gpu_share.as_ref().map(|share| &share.value),
        Some(&Share::Memory("2Gi".into()))
    );
    let files: Vec<(&str, bool)> = job
        .workdirs
        .iter()
        .map(|workdir| (workdir.path.as_str(), workdir.file))
        .collect();
    assert_eq!(
        files,
        [
            ("/datasets/alpaca-qwen.json", true),
            ("/models/qwen2-7b", false),
            ("/cache/models", false),
            ("/output/qwen2-sft", false),
            ("/output/qwen2-sft/checkpoints", false),
        ]
    );
    assert_eq!(job.source, contract("training"));
}

#[test]
fn a_share_without_a_count_is_of_one_gpu() {
    let resources = |text: &str| job(&training(&format!("resources: {{{text}}}"))).resources;
    assert_eq!(resources("gpu_share: 10Gi").gpu, 1);
    assert_eq!(resources("gpu: 2, gpu_share: 10Gi").gpu, 2);
    assert_eq!(resources("gpu_share: 0.5, gpu-type: a100").gpu, 1);
}

#[test]
fn the_contract_s_inference_is_read_with_its_placeholder() {
    let job = job(contract("inference"));
    assert_eq!(job.kind, JobKind::Inference);
    assert!(matches!(&job.args, Command::Exec(words) if words[1] == "llama3-8b"));
    let service = job.service.unwrap();
    assert_eq!(
        (service.replicas, service.port, service.request_limit),
        (2, Some(8000), Some(1000))
    );
    assert_eq!(service.health_check.unwrap().path, "/health");
    assert_eq!(service.timeout, Some(std::time::Duration::from_secs(30)));
    let scaling = job.autoscaling.unwrap();
    assert_eq!((scaling.min_replicas, scaling.max_replicas), (1, 10));
    assert_eq!(
        (scaling.gpu_utilization, scaling.memory_utilization),
        (Some(70), Some(85))
    );
    assert_eq!(
        scaling.scale_down_delay,
        Some(std::time::Duration::from_secs(300))
    );
    assert_eq!(job.resources.gpu_share.unwrap().value, Share::Fraction(1.0));
    assert!(job.model.unwrap().cache);
}

#[test]
fn broken_contract_examples_say_what_to_change() {
    assert_eq!(
        problems(contract("notebook")),
        ["9:155: stray backtick: a value must not begin or end with one | remove the `",]
    );
    let fixed = contract("notebook").replace("]`", "]");
    assert_eq!(job(&fixed).service.unwrap().port, Some(8000));
    let note = "a node can be in only one pool; keep it in `train-pool` or in `inference-pool`";
    assert_eq!(
        problems(contract("pools")),
        [
            "7:1: this line is indented with a tab, but YAML allows only spaces | replace the tab with spaces".to_owned(),
            format!("9:3: node `node1` is in two pools; also on line 22 | {note}"),
            format!("11:3: node `node2` is in two pools; also on line 24 | {note}"),
            format!("22:3: node `node1` is in two pools; also on line 9 | {note}"),
            format!("24:3: node `node2` is in two pools; also on line 11 | {note}"),
        ]
    );
    let fixed = contract("pools")
        .replace('\t', "")
        .replacen("node1", "node3", 1)
        .replacen("node2", "node4", 1);
    let Document::Pool(pool) = &parse("t", &fixed).unwrap().documents[0] else {
        panic!("a pool")
    };
    assert_eq!(
        (pool.nodes.len(), pool.nodes[0].gpu_type.clone()),
        (2, GpuType::parse("A100-100G"))
    );
}

#[test]
fn all_problems_come_at_once() {
    let text = "kind: training
job:
  name: Qwen2_SFT
  priorty: high
environment: {image: a b}
resources:
  gpus: 4
  gpu: many
  memory: 128
  cpu: [1]
";
    assert_eq!(
        problems(text),
        [
            "1:1: `version` is missing; assuming v0.1 | write `version: v0.1`",
            "3:9: `Qwen2_SFT` is not a DNS label: `_` and capitals are not allowed | try `qwen2-sft`",
            "4:3: unknown field `job.priorty` | did you mean `priority`?",
            "5:22: `a b` is not a valid image reference | use a reference such as pytorch/pytorch:2.9.0",
            "7:3: unknown field `resources.gpus` | did you mean `gpu`?",
            "8:8: `gpu` must be a whole number from 0 to 1024, not `many` | ",
            "9:11: `memory` needs a unit | write 128Gi for gibibytes",
            "10:8: `cpu` must be a number of CPUs such as 32, 0.5 or 500m, not a list | ",
        ]
    );
}

#[test]
fn each_mistake_has_its_message() {
    for (fields, expected) in [
        (
            "resources: {gpu: 1, gpu: 2}",
            "5:21: `gpu` appears twice, first on line 5 | keep one of them",
        ),
        (
            "resources: {gpu: 1, gpu-type: a100, gpuType: h100}",
            "5:37: `gpuType` and `gpu-type` (line 5) are the same field | keep one of them",
        ),
        (
            "resources: {memory: 128GB}",
            "5:21: `memory` must be a size such as 128Gi, not `128GB` | write 128Gi for gibibytes, 128G for gigabytes",
        ),
        (
            "resources: {gpu_share: 3}",
            "5:24: `gpu_share` must be a fraction above 0 and up to 1, or an amount of GPU memory, not `3` | use a value such as 0.5 or 10Gi",
        ),
        (
            "resources: {cpu: 1500m, memory: 1Gi, qos: guaranteed}",
            "5:43: `qos: guaranteed` requires memory and a whole number of CPUs | set both, such as `cpu: 8` and `memory: 64Gi`",
        ),
        (
            "resources: {cpu: 2, qos: guaranteed}",
            "5:26: `qos: guaranteed` requires memory and a whole number of CPUs | set both, such as `cpu: 8` and `memory: 64Gi`",
        ),
        (
            "security: {level: restricted, run_as: 0}",
            "5:39: the restricted level does not allow root | set another `run_as`, such as 1000",
        ),
        (
            "security: privileged",
            "5:11: `security` must be restricted, not `privileged` | ",
        ),
        (
            "resources: {memory: 1Gi, shm: 2Gi}",
            "5:31: `shm` 2Gi is more than `memory` 1Gi | /dev/shm counts against the memory",
        ),
        (
            "service: {port: 80}",
            "5:1: a training cannot have a `service` | remove it, or use `kind: inference` to serve requests",
        ),
        (
            "storage: {workdirs: [data]}",
            "5:22: `data` is not an absolute path | use an absolute path, such as /data",
        ),
        (
            "storage: {workdirs: [/data/../etc]}",
            "5:22: `/data/../etc` contains `..` | use an absolute path, such as /data",
        ),
        (
            "storage: {workdirs: [/a, /a]}",
            "5:26: `/a` is mounted twice | keep one of them",
        ),
        (
            "storage: {workdirs: [{path: /a, pvc: x, emptyDir: true}]}",
            "5:22: `/a` has more than one of host_path, pvc, size, emptyDir, configmap and secret | keep one of them",
        ),
        (
            "files: [a/x.py, b/x.py]",
            "5:17: two files have the same path `/workspace/x.py` | rename one of them: `files: {other-name: local/path}`",
        ),
        (
            "resources: {memory: 512m}",
            "5:21: `memory` 512m means thousandths of a byte | did you mean 512Mi?",
        ),
        (
            "resources: {cpu: 128Gi}",
            "5:18: `cpu` must be a number of CPUs such as 32, 0.5 or 500m, not `128Gi` | ",
        ),
        (
            "resources: {gpu-type: a100}",
            "5:23: `gpu-type` requires GPUs | set the number of GPUs: `gpu: 1`",
        ),
        (
            "files: [*x]",
            "5:9: aliases (`*name`) are not supported | write out the value",
        ),
        (
            "resources: {memory: 64 GB}",
            "5:21: `memory` must be a size such as 128Gi, not `64 GB` | write 64Gi for gibibytes, 64G for gigabytes",
        ),
        (
            "checkpoint: /out",
            "5:13: `checkpoint` must be a map of fields, not `/out` | such as `checkpoint: {path: /out/checkpoints}`",
        ),
        (
            "checkpoint: {path: /out, time: 4h}",
            "5:26: unknown field `checkpoint.time` | use `job.max_runtime`, such as `max_runtime: 12h`",
        ),
        (
            "storage: {workdirs: {path: /data, pvc: x}}",
            "5:21: `workdirs` must be a list, not a map | begin each entry with `- `",
        ),
        (
            "resources: {limits: {nvidia.com/gpu: 1}}",
            "5:13: unknown field `resources.limits` | use `resources.gpu`, `resources.cpu` and `resources.memory`",
        ),
        (
            "resources: {gpu: 1.5}",
            "5:18: `gpu` must be a whole number from 0 to 1024, not `1.5` | `gpu_share: 0.5` requests a part of one GPU; `gpu` counts whole GPUs",
        ),
        (
            "resources: {gpu: 'a100:2'}",
            "5:18: `gpu` must be a whole number from 0 to 1024, not `a100:2` | write `gpu: 2` and `gpu-type: a100`",
        ),
        (
            "storage: {workdirs: [{data}]}",
            "5:22: `{data}` is a map with an empty field, not a path | write `{path: /data, pvc: NAME}` for a claim, or `/data` for a directory of the node",
        ),
        (
            "gpu: 1",
            "5:1: unknown field `gpu` | it belongs in `resources:`",
        ),
        (
            "resources: {retries: 1}",
            "5:13: unknown field `resources.retries` | it belongs in `job:`",
        ),
        (
            "resources: {files: [a]}",
            "5:13: unknown field `resources.files` | `files:` belongs at the top level, next to `resources:`",
        ),
        (
            "zzz: 1",
            "5:1: unknown field `zzz` | known fields: kind, version, job, environment, model, resources, storage, security, files, pod, checkpoint",
        ),
        (
            "model: {name: '{{model.nam}}'}",
            "5:15: `{{model.nam}}` cannot be resolved | use a field of this document that contains text, such as {{model.name}}",
        ),
        (
            "- 1",
            "5:3: invalid YAML: while parsing a block mapping, did not find expected key | check the indentation and brackets here and in the lines above",
        ),
    ] {
        assert_eq!(
            problems(&training(fields)).first().map(String::as_str),
            Some(expected),
            "{fields}"
        );
    }
}

#[test]
fn the_node_s_own_folders_are_not_mounted() {
    for path in [
        "/",
        "/etc",
        "/etc/passwd",
        "/proc",
        "/sys/x",
        "/dev",
        "/root",
        "/boot",
        "/var/lib/kubelet/pods",
        "/run/containerd/containerd.sock",
        "/x/docker.sock",
    ] {
        let refusals = problems(&training(&format!("storage: {{workdirs: [{path}]}}")));
        assert!(
            refusals.len() == 1 && refusals[0].contains("must not be mounted"),
            "{path}: {refusals:?}"
        );
        // Only host paths are restricted; a path in the container may be any path.
        let allowed = training(&format!(
            "storage: {{workdirs: [{{path: {path}, emptyDir: true}}]}}"
        ));
        assert!(problems(&allowed).is_empty(), "{path}");
        let model = training(&format!("model: {{path: {path}}}"));
        assert_eq!(problems(&model).len(), 1, "{path}");
    }
    assert!(problems(&training("model: {path: Qwen/Qwen2}")).is_empty());
    assert!(problems(&training("storage: {workdirs: [/etcetera, /devices]}")).is_empty());
}

#[test]
fn names_leave_room_for_suffixes() {
    let training_named = |length: usize, nodes: u32| {
        format!(
            "kind: training\nversion: v0.1\njob: {{name: {}}}\nenvironment: {{image: i}}\nresources: {{node_count: {nodes}}}",
            "a".repeat(length)
        )
    };
    assert!(problems(&training_named(61, 1)).is_empty());
    assert_eq!(problems(&training_named(62, 1)).len(), 1);
    assert!(problems(&training_named(60, 11)).is_empty());
    assert!(
        problems(&training_named(61, 11))[0]
            .contains("has 61 characters; a training name can have at most 60")
    );
    let notebook = |length: usize| {
        format!(
            "kind: notebook\nversion: v0.1\njob: {{name: {}}}\nenvironment: {{image: i}}",
            "a".repeat(length)
        )
    };
    assert!(problems(&notebook(52)).is_empty());
    assert_eq!(problems(&notebook(53)).len(), 1);
    let mut generated = job(&training_named(56, 1));
    assert!(!generated.append("bcdfg"), "the suffix counts");
}

#[test]
fn spellings_are_the_same_field() {
    let canonical = job(&training(
        "resources: {gpu: 1, gpu-type: a10, gpu_share: 0.5, shm: 1Gi, node_count: 2}",
    ));
    let other = job(&training(
        "resources: {gpu: 1, gpuType: a10, gpuShare: 0.5, shm_size: 1Gi, nodeCount: 2}",
    ));
    assert_eq!(
        canonical.resources.gpu_type.unwrap().value,
        other.resources.gpu_type.unwrap().value
    );
    assert_eq!(
        canonical.resources.gpu_share.unwrap().value,
        other.resources.gpu_share.unwrap().value
    );
    assert_eq!(
        (canonical.resources.shm, canonical.resources.node_count),
        (other.resources.shm, other.resources.node_count)
    );
    assert_eq!(
        job(&training("resources: {pool: default}")).resources.pool,
        None
    );
}

#[test]
fn variables_come_as_a_list_or_a_map() {
    let variables_of = |env: &str| {
        job(&format!(
            "kind: training\nversion: v1\njob: {{name: a}}\nenvironment: {{image: i, env: {env}}}"
        ))
        .env
    };
    let text = |name: &str, value: &str| EnvVariable {
        name: name.into(),
        value: EnvValue::Text(value.into()),
    };
    assert_eq!(
        variables_of("{A: 1, B: true, C: x}"),
        [text("A", "1"), text("B", "true"), text("C", "x")]
    );
    assert_eq!(
        variables_of("[{name: A, value: '1'}, {name: T, secret: s, key: k}]")[1].value,
        EnvValue::Secret {
            name: "s".into(),
            key: "k".into()
        }
    );
    let duplicate = "kind: training\nversion: v1\njob: {name: a}\nenvironment: {image: i, env: [{name: A, value: 1}, {name: A, value: 2}]}";
    assert_eq!(
        problems(duplicate),
        ["4:59: the variable `A` is set twice | keep one of them"]
    );
}

#[test]
fn only_known_templates_are_expanded_once() {
    let text = "kind: training\nversion: v1\njob: {name: a}\nmodel: {name: m, path: /models/m}\nenvironment: {image: i, command: ['{{model.name}}-{{ job.name }}', '{{#if x}}', '{{ x | upper }}']}";
    assert_eq!(
        job(text).command,
        Command::Exec(vec![
            "m-a".into(),
            "{{#if x}}".into(),
            "{{ x | upper }}".into()
        ])
    );
    let looped = "kind: training\nversion: v1\njob: {name: a}\nmodel: {name: '{{model.name}}'}\nenvironment: {image: i}";
    assert!(problems(looped)[0].contains("`{{model.name}}` cannot be resolved"));
}

#[test]
fn a_quota_names_each_namespace_once() {
    let problems_of = |rest: &str| {
        let text = format!("kind: quota\nversion: v0.1\nquota: {{name: q}}\n{rest}");
        parse("t", &text)
            .unwrap_err()
            .list
            .into_iter()
            .map(|problem| problem.message)
            .collect::<Vec<_>>()
    };
    assert_eq!(problems_of(""), ["the quota has no namespaces"]);
    let duplicate = problems_of("namespace: {default: {gpu: 1}}\ndefault: {gpu: 2}\n");
    assert_eq!(
        duplicate,
        ["`default` sets the limits of namespace `default`, which `namespace` also contains"]
    );
}

#[test]
fn a_quota_and_an_empty_pool_are_read() {
    let text = "kind: quota\nversion: v0.1\nquota: {name: q}\nnamespace: {team-a: {cpu: 10, memory: 20Gi, gpu: 4}}\ndefault: {gpu: 2}\n---\nkind: pool\nversion: v0.1\npool: {name: p, gpu-type: [a100-80g], quota: {maxJobs: 100, maxGpuPerJob: 8}}\n";
    let documents = parse("t", text).unwrap().documents;
    let Document::Quota(quota) = &documents[0] else {
        panic!("a quota")
    };
    assert_eq!(
        (
            quota.namespaces.len(),
            quota.namespaces[0].1.gpu,
            quota.namespaces[1].0.as_str()
        ),
        (2, Some(4), "default")
    );
    let Document::Pool(pool) = &documents[1] else {
        panic!("a pool")
    };
    assert_eq!(
        (
            pool.quota.max_jobs,
            pool.quota.max_gpu_per_job,
            pool.nodes.len()
        ),
        (Some(100), Some(8), 0)
    );
}

#[test]
fn a_document_keeps_its_own_text() {
    let text = "# first\nkind: training\nversion: v1\njob: {name: a}\nenvironment: {image: i}\n---\n# second\nkind: training\nversion: v1\njob: {name: b}\nenvironment: {image: i}\n";
    let documents = parse("t", text).unwrap().documents;
    let source = |index: usize| match &documents[index] {
        Document::Job(job) => job.source.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        source(0),
        "# first\nkind: training\nversion: v1\njob: {name: a}\nenvironment: {image: i}\n"
    );
    assert_eq!(
        source(1),
        "# second\nkind: training\nversion: v1\njob: {name: b}\nenvironment: {image: i}\n"
    );
}

#[test]
fn yaml_bombs_and_garbage_give_one_message_each() {
    for (text, expected) in [
        ("[".repeat(100_000), "nested more than 32 levels deep"),
        ("- ".repeat(40), "nested more than 32 levels deep"),
        (
            "a: &a [x]\nb: [*a, *a]\n".to_owned(),
            "aliases (`*name`) are not supported",
        ),
        (
            format!("a: [{}]", "1,".repeat(20_000)),
            "the document has more than 10000 values",
        ),
        (
            "x".repeat(300 * 1024),
            "the document is 300 KiB; the limit is 200 KiB",
        ),
        (String::new(), "the file contains no documents"),
        (
            "# only a comment\n".to_owned(),
            "the file contains no documents",
        ),
        (
            "- a\n".to_owned(),
            "a document must be a map of fields that begins with `kind:`, not a list",
        ),
        ("kind: trianing\n".to_owned(), "unknown kind `trianing`"),
    ] {
        let found = problems(&text);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{expected}: {found:?}"
        );
    }
}

/// 700 jobs of 17 values each have 11,900 values in total.
#[test]
fn size_limits_apply_to_each_document() {
    let document = |index: usize| {
        let text =
            training("resources: {gpu: 1}").replace("{name: a}", &format!("{{name: a{index}}}"));
        format!("{text}\n---\n")
    };
    let documents: String = (0..700).map(document).collect();
    let long_list = format!("labels: [{}]\n---\n", "1,".repeat(6000));
    let parsed = parse("t.yaml", &documents).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(parsed.documents.len(), 700);
    let too_large = "the file has more than 1000000 values";
    let found = problems(&long_list.repeat(170));
    assert!(
        found.iter().any(|problem| problem.contains(too_large)),
        "{}",
        found.len()
    );
}

#[test]
fn words_of_other_tools_lead_to_fields_and_kinds() {
    let text = "kind: job\nversion: v0.1\n";
    assert_eq!(
        problems(text),
        ["1:7: unknown kind `job` | did you mean `training`?"]
    );
    let text = "kind: training\nversion: v0.1\njob: {name: a, max_runtime: 2 hours}\nenvironment: {image: i, cmd: x}\n";
    assert_eq!(
        problems(text),
        [
            "3:29: `max_runtime` must be a duration such as 30s, 5m, 12h or 2d, not `2 hours` | write 2h",
            "4:25: unknown field `environment.cmd` | use `environment.command`",
        ]
    );
}

#[test]
fn times_of_slurm_and_schedules_lead_to_the_right_form() {
    for (time, duration) in [
        ("4:00:00", "4h"),
        ("'4:00:00'", "4h"),
        ("90:00", "90m"),
        ("1-12", "36h"),
        ("2-00:00:00", "2d"),
        ("0:00:45", "45s"),
    ] {
        let text = training("resources: {gpu: 1}")
            .replace("{name: a}", &format!("{{name: a, max_runtime: {time}}}"));
        let plain = time.trim_matches('\'');
        let message = format!(
            "`max_runtime` must be a duration such as 30s, 5m, 12h or 2d, not `{plain}` | \
             write {duration}"
        );
        let problems = problems(&text);
        assert!(problems[0].ends_with(&message), "{problems:?}");
    }
    let text = training("schedule: 0 2 * * *");
    let problems = problems(&text);
    assert!(
        problems[0].contains("unknown field `schedule` | gpuctl cannot run jobs on a schedule"),
        "{problems:?}"
    );
}

#[test]
fn a_field_of_another_tool_is_not_taken_for_a_similar_name() {
    let text = training("resources: {gpu: 1}").replace("{name: a}", "{name: a, timeout: 4h}");
    assert_eq!(
        problems(&text),
        ["3:16: unknown field `job.timeout` | use `job.max_runtime`, such as `max_runtime: 12h`"]
    );
}

#[test]
fn a_typing_mistake_is_one_problem_and_hides_no_others() {
    assert_eq!(
        problems(&training("resources: {gpus: 1, gpu-type: a100}")),
        ["5:13: unknown field `resources.gpus` | did you mean `gpu`?"]
    );
    let text = "kind: training\nversion: v0.1\njob: {nmae: a}\nenviroment: {image: i, env: [X]}\n";
    assert_eq!(
        problems(text),
        [
            "3:7: unknown field `job.nmae` | did you mean `name`?",
            "4:1: unknown field `enviroment` | did you mean `environment`?",
            "4:30: an entry of `env` must have `name:` and `value:`, not only `X` | write `- {name: X, value: …}`, or a map: `env: {X: …}`",
        ]
    );
    assert_eq!(
        problems("Kind: training\nversion: v0.1\n"),
        ["1:1: unknown field `Kind` | did you mean `kind`?"]
    );
}

#[test]
fn variables_in_the_form_of_other_tools_lead_to_this_form() {
    for (env, expected) in [
        (
            "[HF_TOKEN=canary]",
            "an entry of `env` must have `name:` and `value:`, not `HF_TOKEN=…` | write `- {name: HF_TOKEN, value: …}`, or a map: `env: {HF_TOKEN: …}`",
        ),
        (
            "HF_TOKEN=canary",
            "an entry of `env` must have `name:` and `value:`, not `HF_TOKEN=…` | write `- {name: HF_TOKEN, value: …}`, or a map: `env: {HF_TOKEN: …}`",
        ),
        (
            "[{name: T, valueFrom: {secretKeyRef: {name: hub, key: K}}}]",
            "`env.valueFrom` is a field of Kubernetes | write `secret: hub` and `key: K` instead",
        ),
        (
            "[{name: T, configMapKeyRef: {name: map, key: K}}]",
            "`env.configMapKeyRef` is a field of Kubernetes | write `configmap: map` and `key: K` instead",
        ),
        (
            "{T: {valueFrom: {secretKeyRef: {name: hub, key: K}}}}",
            "the variable `T` must be text, not a map | write `env` as a list: `- {name: T, secret: hub, key: K}`",
        ),
        (
            "{T: {secret: hub}}",
            "the variable `T` must be text, not a map | write `env` as a list: `- {name: T, secret: hub, key: T}`",
        ),
    ] {
        let text = format!(
            "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i, env: {env}}}\n"
        );
        let found = problems(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(expected), "{found:?}");
    }
}

#[test]
fn files_of_other_tools_lead_to_convert() {
    let slurm = "#!/bin/bash\n#SBATCH --gres=gpu:1\nexport A=\"x: y\"\nsrun python x.py\n";
    assert_eq!(
        problems(slurm),
        [
            "1:1: this is a Slurm script, not a job file | convert it: `gpuctl convert t.yaml --image IMAGE > job.yaml`"
        ]
    );
    for text in [
        "apiVersion: v1\n",
        "run: python x.py\nresources: {accelerators: A100}\n",
    ] {
        assert!(problems(text)[0].contains("gpuctl convert FILE"), "{text}");
    }
    let manifest = "#!/usr/bin/env gpuctl\nkind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: i}\n";
    assert_eq!(problems(manifest), [""; 0]);
}

#[test]
fn a_value_with_a_colon_must_be_quoted() {
    let text = "kind: training\nenvironment:\n  command: python x --name: y\n";
    assert_eq!(
        problems(text),
        [
            "3:12: invalid YAML: a value that contains `: ` must be quoted | write 'python x --name: y'"
        ]
    );
}

#[test]
fn invalid_service_fields_are_refused_with_their_position() {
    let text = |kind: &str, fields: &str| {
        let service = if kind == "notebook" {
            ""
        } else {
            "service: {port: 80}\n"
        };
        format!(
            "kind: {kind}\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: i}}\n{service}{fields}\n"
        )
    };
    for (kind, fields, expected) in [
        (
            "inference",
            "autoscaling: {maxReplicas: 3, targetGPUUtilization: 70}",
            "autoscaling on GPU metrics requires GPUs",
        ),
        (
            "compute",
            "autoscaling: {maxReplicas: 3, targetCPUUtilization: 70}",
            "targetCPUUtilization requires `resources.cpu`",
        ),
        (
            "compute",
            "resources: {cpu: 1}\nautoscaling: {targetCPUUtilization: 70}",
            "`autoscaling.maxReplicas` is missing",
        ),
        (
            "compute",
            "resources: {cpu: 1}\nautoscaling: {maxReplicas: 3, minReplicas: 0, targetCPUUtilization: 70}",
            "`minReplicas` must be",
        ),
        (
            "compute",
            "resources: {cpu: 1}\nautoscaling: {maxReplicas: 3, targetCPUUtilization: 70, scaleDownDelay: 2h}",
            "`scaleDownDelay` must be at most one hour",
        ),
        (
            "notebook",
            "autoscaling: {maxReplicas: 3, targetCPUUtilization: 70}",
            "a notebook cannot have `autoscaling`",
        ),
        (
            "notebook",
            "service: {replicas: 2}",
            "a notebook must have exactly one replica",
        ),
    ] {
        let found = problems(&text(kind, fields));
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{expected}: {found:?}"
        );
    }
    for valid in [
        "resources: {cpu: 1}\nautoscaling: {maxReplicas: 3, targetCPUUtilization: 70}",
        "autoscaling: {enabled: false}",
    ] {
        assert!(parse("t", &text("compute", valid)).is_ok(), "{valid}");
    }
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "\\PC{0,200}") {
        let _ = parse("t", &text);
    }

    #[test]
    fn no_mutation_of_a_real_file_causes_a_panic(which in 0_usize..4, at in 0_usize..2000, with in "[\\x00-\\x7f]{0,3}", cut in 0_usize..30) {
        let text = CONTRACT[which].1;
        let characters: Vec<char> = text.chars().collect();
        let at = at % characters.len();
        let end = (at + cut).min(characters.len());
        let changed: String = characters[..at].iter().chain(with.chars().collect::<Vec<_>>().iter()).chain(&characters[end..]).collect();
        // The position of every problem is within the file.
        if let Err(problems) = parse("t", &changed) {
            prop_assert!(problems.list.iter().all(|problem| problem.at.line <= changed.split(['\n', '\r']).count() + 1));
        }
    }
}
