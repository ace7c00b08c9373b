//! Tests what a client relies on: the negotiated version, the declared schemas, and cancellation.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::{Session, create, namespace, server, training};

/// Waits until the server runs this many commands.
fn until_commands(agent: &Session, count: usize) {
    let start = Instant::now();
    while agent.commands() != count {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the server runs {} commands, not {count}",
            agent.commands()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A server whose API server accepts connections and never answers.
fn with_silent_cluster(name: &str) -> (TcpListener, Session) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": address}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]
    });
    let file = std::env::temp_dir().join(format!("gpuctl-{name}-{}", std::process::id()));
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let mut command = server(&["--request-timeout=60s"]);
    command
        .env("KUBECONFIG", file)
        .env("GPUCTL_PROMETHEUS", "none");
    (silent, Session::with(command))
}

#[test]
fn a_cancelled_call_ends_its_commands_and_gets_no_answer() {
    let (_silent, mut agent) = with_silent_cluster("cancelled");
    for number in 0..6 {
        let request = json!({"jsonrpc": "2.0", "id": format!("call-{number}"), "method": "tools/call",
            "params": {"name": "list_jobs", "arguments": {}}});
        agent.send(request.to_string().as_bytes());
    }
    // Four commands run at the same time, and the other calls wait.
    until_commands(&agent, 4);
    for number in 0..6 {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": format!("call-{number}"), "reason": "the user stopped it"}});
        agent.send(cancel.to_string().as_bytes());
    }
    until_commands(&agent, 0);
    // `request` fails if the next line answers another call.
    assert_eq!(agent.request("ping", json!({}))["result"], json!({}));
    // A call that is unknown or was already answered cannot be cancelled.
    for id in [json!("call-0"), json!(99), json!(null), json!({})] {
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        agent.send(cancel.to_string().as_bytes());
    }
    let example = agent.text("example", json!({"kind": "training"}));
    assert!(example.contains("kind: training"), "{example}");
}

#[test]
fn the_server_negotiates_the_version() {
    let mut agent = Session::start(&[]);
    let mut negotiated = |version: &str| {
        let params = json!({"protocolVersion": version, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        agent.request("initialize", params)["result"]["protocolVersion"].clone()
    };
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        assert_eq!(negotiated(version), version);
    }
    assert_eq!(negotiated("2099-01-01"), "2025-11-25");
    // Since 2026-07-28, each request names its version, and there is no `initialize`.
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discovered = agent.request("server/discover", json!({ "_meta": meta }));
    let versions = discovered["result"]["supportedVersions"].as_array();
    assert!(
        versions.is_some_and(|versions| versions.contains(&json!("2026-07-28"))),
        "{discovered}"
    );
    // The server declares neither logging nor resources.
    for method in ["logging/setLevel", "resources/list", "prompts/list"] {
        let answer = agent.request(method, json!({"level": "info"}));
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}

#[test]
fn structured_content_matches_the_declared_schema() {
    namespace("agent-schemas");
    create("agent-schemas", &training("described", ""));
    let mut agent = Session::start(&["--allow-writes", "-n", "agent-schemas"]);
    let listed = agent.request("tools/list", json!({}));
    let schemas: BTreeMap<String, Value> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            (
                tool["name"].as_str().unwrap().to_owned(),
                tool["outputSchema"].clone(),
            )
        })
        .collect();
    let manifest = training("other", "");
    let calls = [
        ("overview", json!({}), "totalNodes"),
        ("list_jobs", json!({}), "items"),
        ("list_jobs", json!({"namespace": "agent-none"}), "message"),
        ("list_jobs", json!({"page": 99}), "message"),
        ("describe_job", json!({"job": "described"}), "yamlContent"),
        ("describe_job", json!({"job": "absent"}), "error"),
        ("why", json!({"job": "described"}), "situation"),
        ("why_all", json!({}), "items"),
        ("logs", json!({"job": "absent"}), "error"),
        ("events", json!({"job": "described"}), "items"),
        ("list_nodes", json!({}), "items"),
        ("describe_node", json!({"node": "plain-01"}), "nodeName"),
        ("list_pools", json!({}), "items"),
        ("list_queues", json!({}), "items"),
        ("list_consumers", json!({}), "data"),
        ("free", json!({}), "items"),
        ("fit", json!({"manifest": manifest}), "items"),
        ("validate", json!({"manifest": manifest}), "files"),
        (
            "validate",
            json!({"manifest": "kind: training\n---\n".repeat(60), "page": 2}),
            "text",
        ),
        ("explain_field", json!({"field": "resources"}), "field"),
        ("efficiency", json!({"job": "absent"}), "message"),
        ("create_job", json!({"manifest": manifest}), "jobId"),
        ("create_job", json!({"manifest": "kind: training"}), "items"),
        ("apply_manifest", json!({"manifest": manifest}), "jobId"),
        ("delete_job", json!({"job": "described"}), "uid"),
        (
            "delete_job",
            json!({"job": "described", "confirm": "x"}),
            "message",
        ),
    ];
    for (tool, arguments, field) in calls {
        let answer = agent.call(tool, arguments.clone());
        let content = &answer["result"]["structuredContent"];
        assert!(content.get(field).is_some(), "{tool} {arguments}: {answer}");
        let errors: Vec<String> = jsonschema::validator_for(&schemas[tool])
            .unwrap()
            .iter_errors(content)
            .map(|error| error.to_string())
            .collect();
        assert!(errors.is_empty(), "{tool} {arguments}: {errors:#?}");
    }
    assert_eq!(schemas["example"], Value::Null);
    let done = agent.confirmed("create_job", json!({ "manifest": manifest }));
    assert!(done.contains("created"), "{done}");
}
