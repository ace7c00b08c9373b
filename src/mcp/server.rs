//! Serves the tools over stdin and stdout. Every call runs this program, so that an agent gets what people get; without leave to write,
//! with the read-only mode on. Secrets are taken out of every answer by their form.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::bundle::scrubbed;

use super::pages::page;
use super::tools::{self, AgentTool, Call};

/// How long a question may take.
const WITHIN: Duration = Duration::from_secs(120);

const INSTRUCTIONS: &str = "GPU jobs on Kubernetes: who holds which GPU, how busy it is, why a job waits or died, and what fits. \
Begin with `overview` or `why_all`; `why` tells causes with the command that helps. Long answers have pages (`page`).";

struct Server {
    /// The options that the program itself was called with.
    own: Vec<OsString>,
    /// Those of them that name a namespace; a call may have its own.
    namespace: Vec<OsString>,
    writing: bool,
    /// Changes that were told beforehand, as names and arguments.
    tried: Mutex<BTreeSet<String>>,
}

/// Serves until the client closes stdin. `own` are options for every call, `namespace` those for
/// calls that name none.
///
/// # Errors
/// Says why no session came about.
pub(crate) async fn serve(own: Vec<OsString>, namespace: Vec<OsString>, writing: bool) -> Result<(), String> {
    let server = Server { own, namespace, writing, tried: Mutex::default() };
    let service = server.serve(stdio_pipes()).await.map_err(|error| error.to_string())?;
    service.waiting().await.map(drop).map_err(|error| error.to_string())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gpuctl", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let told = |tool: &AgentTool| {
            let reads = tool.first.is_none();
            let hints = ToolAnnotations::new().read_only(reads).destructive(tool.name == "delete_job").open_world(false);
            Tool::new(tool.name, tool.about, Arc::new(tool.schema())).with_annotations(hints)
        };
        Ok(ListToolsResult::with_all_items(tools::all(self.writing).map(told).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::all(self.writing).find(|tool| tool.name == request.name) else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{}`", request.name), None));
        };
        let arguments = request.arguments.unwrap_or_default();
        let number = arguments.get("page").and_then(Value::as_u64).map_or(1, |page| usize::try_from(page).unwrap_or(1));
        let answer = match tool.first {
            None => self.ask(tool, tool.command, &arguments).await,
            Some(first) => self.change(tool, first, &arguments).await,
        };
        let (text, is_good) = match answer {
            Ok(text) => (text, true),
            Err(text) => (text, false),
        };
        let text = scrubbed(&text).map_or(Cow::Borrowed(text.as_str()), Cow::Owned);
        let content = vec![ContentBlock::text(page(&text, number))];
        Ok(if is_good { CallToolResult::success(content) } else { CallToolResult::error(content) }.into())
    }
}

impl Server {
    async fn ask(&self, tool: &AgentTool, command: &[&str], arguments: &Map<String, Value>) -> Result<String, String> {
        self.run(tool.call(command, arguments)?, false).await
    }

    /// Does only what it told before: the first call of these arguments is a dry run, whatever it says.
    async fn change(&self, tool: &AgentTool, first: &[&str], arguments: &Map<String, Value>) -> Result<String, String> {
        let mut same = arguments.clone();
        let confirmed = same.remove("confirm") == Some(Value::Bool(true));
        same.remove("page");
        let key = format!("{} {}", tool.name, Value::Object(same));
        let was_told = self.tried.lock().is_ok_and(|mut tried| confirmed && tried.remove(&key));
        if was_told {
            return self.run(tool.call(tool.command, arguments)?, true).await;
        }
        let told = self.ask(tool, first, arguments).await?;
        if let Ok(mut tried) = self.tried.lock() {
            tried.insert(key);
        }
        Ok(format!(
            "{told}\nnothing was changed: call `{}` again with the same arguments and `confirm: true` to do it",
            tool.name
        ))
    }

    /// Runs the program. What it says beside its answer comes first where it failed, else last.
    async fn run(&self, call: Call, writes: bool) -> Result<String, String> {
        let program = std::env::current_exe().map_err(|error| format!("cannot find the program itself: {error}"))?;
        let given = call.words.iter().any(|word| word.starts_with("--namespace="));
        let namespace = if given { &[][..] } else { &self.namespace };
        let mut command = Command::new(program);
        command
            .args(&self.own)
            .args(namespace)
            .args(&call.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command.env("NO_COLOR", "1");
        if !writes {
            command.env("GPUCTL_READ_ONLY", "1");
        }
        let mut child = command.spawn().map_err(|error| format!("cannot run the program itself: {error}"))?;
        let mut stdin = child.stdin.take();
        let input = async move {
            if let Some(stdin) = &mut stdin {
                // It may end without reading all; its exit code tells.
                let _ = stdin.write_all(call.input.as_bytes()).await;
            }
        };
        let both = async { tokio::join!(input, child.wait_with_output()).1 };
        let done = tokio::time::timeout(WITHIN, both).await;
        let output = match done {
            Ok(output) => output.map_err(|error| format!("the program ended in an odd way: {error}"))?,
            Err(_) => return Err(format!("no answer within {} s", WITHIN.as_secs())),
        };
        let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        match output.status.code() {
            Some(0) => Ok(format!("{out}{said}")),
            // «Not now» and «never here» are answers of `fit`.
            Some(code @ (8 | 9)) => Ok(format!("{out}{said}(exit code {code})")),
            Some(code) => Err(format!("{out}{said}(exit code {code})")),
            None => Err(format!("{out}{said}(ended by a signal)")),
        }
    }
}
