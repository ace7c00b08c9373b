//! Tests `gpuctl mcp` with a client of the protocol. An agent diagnoses a pending job page by page,
//! and can make only changes that a preview has shown.

use std::process::Stdio;

use gpuctl_sandbox::Persona;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use serde_json::{Value, json};

use crate::support::{Scene, cluster};

struct Agent {
    client: RunningService<RoleClient, ()>,
    /// Killed when the agent is dropped.
    _server: tokio::process::Child,
}

impl Agent {
    async fn start(options: &[&str]) -> Self {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .env("GPUCTL_PROMETHEUS", "none")
            .args(options);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut server = command.spawn().unwrap();
        let streams = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        Self {
            client: ().serve(streams).await.unwrap(),
            _server: server,
        }
    }

    async fn names(&self) -> Vec<String> {
        self.client
            .list_all_tools()
            .await
            .unwrap()
            .into_iter()
            .map(|tool| tool.name.into_owned())
            .collect()
    }

    async fn call(&self, name: &'static str, arguments: Value) -> (String, bool) {
        let request =
            CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
        let CallToolResult {
            content, is_error, ..
        } = self.client.call_tool(request).await.unwrap();
        let text = content[0].as_text().unwrap().text.clone();
        // A preview is never split into pages, because the agent confirms all of it.
        assert!(
            text.len() <= 2000 || confirmation(&text).is_some(),
            "{} bytes",
            text.len()
        );
        (text, is_error != Some(true))
    }

    async fn call_ok(&self, name: &'static str, arguments: Value) -> String {
        let (text, is_good) = self.call(name, arguments).await;
        assert!(is_good, "{name}: {text}");
        text
    }
}

/// Extracts the confirmation at the end of a preview.
fn confirmation(text: &str) -> Option<&str> {
    text.lines()
        .last()?
        .split("`confirm: \"")
        .nth(1)?
        .split('"')
        .next()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn an_agent_diagnoses_a_pending_job() {
    let scene = Scene::with_nodes("agents", 1);
    scene.create("holder", "resources: {pool: POOL, gpu: 8}");
    scene
        .gpuctl_with(
            &["create", "-f", "-"],
            &scene.training("waiter", "resources: {pool: POOL, gpu: 4}"),
        )
        .ok();
    scene.until("waiter", "pending", None);
    runtime().block_on(async {
        let agent = Agent::start(&["-n", "agents", "mcp"]).await;
        let names = agent.names().await;
        assert!(names.contains(&"why".to_owned()) && !names.iter().any(|name| name.starts_with("create")), "{names:?}");
        assert!(agent.call_ok("list_jobs", json!({"status": "pending"})).await.contains("waiter"));
        let why = agent.call_ok("why", json!({"job": "waiter"})).await;
        assert!(why.contains("waiter") && why.to_lowercase().contains("gpu"), "{why}");
        assert!(agent.call_ok("free", json!({"pool": "agents"})).await.contains("a100-80g"));
        // This job is not in the server's namespace.
        let (missing, is_good) = agent.call("describe_job", json!({"job": "waiter", "namespace": "default"})).await;
        assert!(!is_good && missing.contains("job `waiter` does not exist") && missing.contains("exit code 4"), "{missing}");
        let (odd, is_good) = agent.call("logs", json!({"job": "--as=system:admin"})).await;
        assert!(!is_good && odd.contains("--as=system:admin"), "a name is never parsed as an option: {odd}");
        let fits = agent.call_ok("fit", json!({"manifest": scene.training("more", "resources: {pool: POOL, gpu: 8}")})).await;
        assert!(fits.contains("exit code 8"), "{fits}");
        // Each page of a long answer repeats the header.
        for number in 0..60 {
            scene.admin.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("plain-{number:02}"), "namespace": "agents"},
                "spec": {"nodeSelector": {"gpuctl/pool": "agents"}, "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}));
        }
        let first = agent.call_ok("list_consumers", json!({})).await;
        assert!(first.contains("[page 1 of ") && first.contains("`page: 2` continues"), "{first}");
        let second = agent.call_ok("list_consumers", json!({"page": 2})).await;
        assert_eq!(first.lines().nth(1), second.lines().nth(1));
        assert_ne!(first.lines().nth(2), second.lines().nth(2));
        let refused = agent.client.call_tool(CallToolRequestParams::new("delete_job")).await;
        assert!(refused.is_err(), "the tool does not exist without `--allow-writes`");
    });
}

#[test]
fn an_undecided_fit_is_an_answer_for_an_agent() {
    let scene = Scene::with_nodes("agent-fit", 1);
    let spread = "pod: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}";
    let manifest = scene.training("spread", spread);
    runtime().block_on(async {
        let agent = Agent::start(&["-n", "agent-fit", "mcp"]).await;
        let undecided = agent.call_ok("fit", json!({"manifest": manifest})).await;
        assert!(
            undecided.contains("not known") && undecided.contains("exit code 12"),
            "{undecided}"
        );
    });
}

#[test]
fn an_agent_submits_a_described_job_again() {
    let scene = Scene::with_nodes("cloned", 1);
    scene.admin.apply(
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub", "namespace": "cloned"},
        "stringData": {"token": "x"}}),
    );
    let variables = "[{name: HF_TOKEN, secret: hub, key: token}]";
    let environment = format!("environment: {{image: busybox, env: {variables}}}");
    scene.create("original", &environment);
    runtime().block_on(async {
        let agent = Agent::start(&["mcp", "--allow-writes", "-n", "cloned"]).await;
        let request = CallToolRequestParams::new("describe_job")
            .with_arguments(json!({"job": "original"}).as_object().unwrap().clone());
        let described = agent.client.call_tool(request).await.unwrap();
        let content = described.structured_content.unwrap();
        let yaml = content["yamlContent"].as_str().unwrap();
        assert!(
            yaml.contains("secret: hub") && !yaml.contains('#'),
            "{yaml}"
        );
        let manifest = yaml.replace("name: original", "name: clone");
        let preview = agent
            .call_ok("create_job", json!({ "manifest": manifest }))
            .await;
        let confirm = confirmation(&preview).unwrap();
        agent
            .call_ok(
                "create_job",
                json!({"manifest": manifest, "confirm": confirm}),
            )
            .await;
    });
    let variables = |job: &str| {
        let selector = format!("gpuctl/job={job}");
        let pods = scene
            .admin
            .until(&["get", "pods", "-n", "cloned", "-l", &selector], |pods| {
                pods["items"][0].is_object()
            });
        let env = pods["items"][0]["spec"]["containers"][0]["env"].clone();
        let is_from_hub = |variable: &&Value| variable["name"] == "HF_TOKEN";
        env.as_array().unwrap().iter().find(is_from_hub).cloned()
    };
    assert!(variables("original").is_some());
    assert_eq!(variables("clone"), variables("original"));
}

#[test]
fn a_mistyped_namespace_is_an_error_for_agents() {
    let scene = Scene::with_nodes("spelled", 1);
    scene.create("a", "");
    runtime().block_on(async {
        let agent = Agent::start(&["mcp", "--allow-writes"]).await;
        for (tool, arguments) in [
            ("list_jobs", json!({"namespace": "speled"})),
            ("list_consumers", json!({"namespace": "speled"})),
            ("why_all", json!({"namespace": "speled"})),
            ("why", json!({"job": "a", "namespace": "speled"})),
            ("describe_job", json!({"job": "a", "namespace": "speled"})),
            ("logs", json!({"job": "a", "namespace": "speled"})),
            ("events", json!({"job": "a", "namespace": "speled"})),
            ("describe_job", json!({"job": "speled/a"})),
        ] {
            let (text, is_good) = agent.call(tool, arguments.clone()).await;
            assert!(
                !is_good && text.contains("namespace `speled` does not exist"),
                "{tool} {arguments}: {text}"
            );
        }
        let deletion = json!({"job": "a", "namespace": "speled"});
        let (text, is_good) = agent.call("delete_job", deletion).await;
        assert!(!is_good && confirmation(&text).is_none(), "{text}");
        let (text, is_good) = agent
            .call("list_jobs", json!({"namespace": "Spelled_"}))
            .await;
        assert!(!is_good && text.contains("lower-case letters"), "{text}");
    });
}

#[test]
fn an_agent_must_confirm_a_preview_before_a_change() {
    let scene = Scene::with_nodes("writers", 1);
    let exists = |name: &str| {
        scene
            .admin
            .try_run(&["get", "job", name, "-n", "writers"], "")
            .status
            .success()
    };
    runtime().block_on(async {
        let agent = Agent::start(&["mcp", "--allow-writes", "-n", "writers"]).await;
        let environment = "environment: {image: busybox, env: {HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyz, MOTD: CANARY}}";
        let manifest = scene.training("made", environment);
        let shown = agent.call_ok("create_job", json!({"manifest": manifest})).await;
        assert!(shown.contains("would be created") && shown.contains("nothing was changed") && !exists("made"), "{shown}");
        let confirm = confirmation(&shown).unwrap();
        // A confirmation is not valid for another change.
        let other = json!({"manifest": scene.training("other", ""), "confirm": confirm});
        let (refused, is_good) = agent.call("create_job", other).await;
        assert!(!is_good && refused.contains("nothing was changed") && !exists("other"), "{refused}");
        let shown = agent.call_ok("create_job", json!({"manifest": manifest})).await;
        let create = json!({"manifest": manifest, "confirm": confirmation(&shown).unwrap()});
        let created = agent.call_ok("create_job", create.clone()).await;
        assert!(created.contains("created") && exists("made"), "{created}");
        let (twice, is_good) = agent.call("create_job", create).await;
        assert!(!is_good && twice.contains("already used"), "a confirmation is valid for one call: {twice}");
        let described = agent.call_ok("describe_job", json!({"job": "made"})).await;
        assert!(described.contains("MOTD") && !described.contains("hf_abc") && !described.contains("CANARY"), "{described}");
        let shown = agent.call_ok("delete_job", json!({"job": "made"})).await;
        assert!(shown.contains("made") && exists("made"), "{shown}");
        agent.call_ok("delete_job", json!({"job": "made", "confirm": confirmation(&shown).unwrap()})).await;
        assert!(!exists("made"));
        let (absent, is_good) = agent.call("delete_job", json!({"job": "made"})).await;
        assert!(!is_good && absent.contains("does not exist") && confirmation(&absent).is_none(), "{absent}");
    });
    let mut command = crate::runner::gpuctl();
    command
        .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
        .args(["mcp", "--allow-writes", "--read-only"]);
    crate::support::run(command, "")
        .exits(2)
        .says("conflicts with read-only mode");
    let mut command = crate::runner::gpuctl();
    command.arg("skill");
    assert!(
        crate::support::run(command, "")
            .ok()
            .out
            .starts_with("---\nname: gpuctl\n")
    );
}
