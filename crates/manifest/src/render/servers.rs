//! Adds the flags with which the pods of a server on several nodes find each other. vLLM (0.12) and
//! SGLang (0.5) document these flags. Other servers only get variables.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::command::{Words, insert_after};
use crate::spec::JobDocument;
use gpuctl_core::model::JobKind;

/// Port on which a replica's first pod listens for the replica's other pods.
pub(super) const PORT: u16 = 29500;
/// Flag for vLLM's other pods, which do not answer requests.
const HEADLESS: &str = "--headless";
/// First inserted flag, which marks the position of all inserted flags.
const NODES: &str = "--nnodes=";

static VLLM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bvllm\s+serve\b|\bvllm\.entrypoints\.openai\.api_server\b")
        .expect("the pattern is tested")
});
static SGLANG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bsglang\.launch_server\b|\bsglang\s+serve\b").expect("the pattern is tested")
});

/// Returns true if each replica of the service has several pods.
pub(super) fn spans_nodes(job: &JobDocument) -> bool {
    job.kind == JobKind::Inference && job.resources.node_count > 1
}

/// Adds the flags to the command of each replica's first pod.
pub(super) fn connect(job: &JobDocument, mut words: Words) -> Words {
    if !spans_nodes(job) || job.line().contains("--nnodes") {
        return words;
    }
    let nodes = format!("{NODES}{}", job.resources.node_count);
    let rank = "--node-rank=$(NODE_RANK)".to_owned();
    let vllm = [
        nodes.clone(),
        rank.clone(),
        "--master-addr=$(MASTER_ADDR)".to_owned(),
        "--master-port=$(MASTER_PORT)".to_owned(),
    ];
    let sglang = [
        nodes,
        rank,
        "--dist-init-addr=$(MASTER_ADDR):$(MASTER_PORT)".to_owned(),
    ];
    for (name, pattern, flags) in [("vllm", &VLLM, &vllm[..]), ("sglang", &SGLANG, &sglang[..])] {
        if insert_after(&mut words.command, pattern, flags)
            || insert_after(&mut words.args, pattern, flags)
        {
            words
                .warnings
                .push(format!("adding {} to {name}", flags.join(" ")));
            return words;
        }
    }
    let message = "the server must connect its nodes itself, using NNODES, NODE_RANK, MASTER_ADDR and MASTER_PORT";
    words.warnings.push(message.to_owned());
    words
}

/// Converts the container of a replica's first pod into that of its other pods. The other pods do
/// not serve requests, so they have no ports or probes.
pub(super) fn to_worker(container: &mut Value) {
    let Some(fields) = container.as_object_mut() else {
        return;
    };
    for field in ["ports", "startupProbe", "readinessProbe", "livenessProbe"] {
        fields.remove(field);
    }
    for field in ["command", "args"] {
        let Some(words) = fields.get_mut(field).and_then(Value::as_array_mut) else {
            continue;
        };
        let is_vllm = words.iter().any(|word| {
            word.as_str()
                .is_some_and(|word| word.contains("--master-addr=$(MASTER_ADDR)"))
        });
        let Some(index) = words
            .iter()
            .position(|word| word.as_str().is_some_and(|word| word.contains(NODES)))
            .filter(|_| is_vllm)
        else {
            continue;
        };
        let word = words[index].as_str().unwrap_or_default().to_owned();
        if word.starts_with(NODES) {
            words.insert(index, HEADLESS.into());
        } else {
            words[index] = word
                .replacen(NODES, &format!("{HEADLESS} {NODES}"), 1)
                .into();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::command::words;
    use super::*;
    use crate::spec::{Document, parse};

    fn job(command: &str) -> Box<JobDocument> {
        let text = format!(
            "kind: inference\nversion: v0.1\njob: {{name: big}}\nenvironment: {{image: i, command: {command}}}\n\
             resources: {{gpu: 8, node_count: 2}}\nservice: {{port: 8000}}\n"
        );
        match parse("", &text)
            .unwrap_or_else(|problems| panic!("{:?}", problems.list))
            .documents
            .remove(0)
        {
            Document::Job(job) => job,
            other => panic!("a {}", other.kind()),
        }
    }

    #[test]
    fn vllm_and_sglang_get_multi_node_flags() {
        let connected = |command: &str| {
            let job = job(command);
            connect(&job, words(&job).unwrap())
        };
        let list = connected("[vllm, serve, some/model, --tensor-parallel-size, '16']")
            .command
            .unwrap();
        assert_eq!(
            list[..4],
            ["vllm", "serve", "--nnodes=2", "--node-rank=$(NODE_RANK)"]
        );
        assert_eq!(list.last().unwrap(), "16");
        let mut container = json!({"command": list, "ports": [], "readinessProbe": {}});
        to_worker(&mut container);
        assert_eq!(container["command"][2], "--headless");
        assert!(container.get("ports").is_none() && container.get("readinessProbe").is_none());
        let line = connected("\"python -m sglang.launch_server --model-path x | tee log\"")
            .command
            .unwrap();
        assert!(
            line[2].contains(
                "sglang.launch_server --nnodes=2 --node-rank=$(NODE_RANK) --dist-init-addr="
            ),
            "{}",
            line[2]
        );
        let mut container = json!({"command": line});
        to_worker(&mut container);
        assert!(
            !container.to_string().contains(HEADLESS),
            "only vLLM knows it"
        );
        let mut container = json!({"command": connected("\"exec vllm serve m\"").command});
        to_worker(&mut container);
        assert!(
            container["command"][2]
                .as_str()
                .unwrap()
                .contains("vllm serve --headless --nnodes=2"),
            "{container}"
        );
        let configured = connected("[vllm, serve, m, --nnodes, '2']");
        assert!(configured.warnings.is_empty() && configured.command.unwrap().len() == 5);
        assert!(connected("[serve]").warnings[0].contains("connect its nodes itself"));
    }
}
