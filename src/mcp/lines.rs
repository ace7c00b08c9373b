//! Transports the messages of the protocol over stdin and stdout, one JSON object per line. rmcp's
//! own transport ignores lines that are not JSON, and drops the id of an invalid request. It also
//! reports a wrong argument as an unknown method. This transport answers in all of these cases with
//! the code that JSON-RPC defines.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Maximum number of bytes in a line. A manifest has at most 1 MiB.
const LONGEST: usize = 4 << 20;

/// Requests for which rmcp has a type. If one of them arrives as a custom request, its parameters
/// are wrong.
const TYPED: [&str; 13] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "resources/subscribe",
    "completion/complete",
    "logging/setLevel",
];

const UNKNOWN_METHOD: &str = "unknown method";

/// How to handle a line.
#[derive(Debug)]
enum IncomingLine {
    Message(Box<ClientJsonRpcMessage>),
    /// The transport itself answers the line.
    Answer(Value),
    /// The line is blank or an unknown notification. JSON-RPC forbids answers to these.
    Ignored,
}

/// Reads the lines of a client, and writes the answers.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The current line. It is filled incrementally, because rmcp drops the future of `receive`
    /// when it has an answer to send.
    line: Vec<u8>,
    /// Whether to skip the rest of a line that is too long.
    is_skipping: bool,
    /// Whether the session has begun. Before that, rmcp ends the session at any message that is not
    /// a request.
    has_begun: bool,
    output: Arc<Mutex<Option<W>>>,
    /// The transport's last answer. It is written before the next line is read. This limits the
    /// queue if a client does not read its answers.
    answering: Option<JoinHandle<()>>,
}

impl<R, W> Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(input: R, output: W) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            is_skipping: false,
            has_begun: false,
            output: Arc::new(Mutex::new(Some(output))),
            answering: None,
        }
    }

    /// Reads the next line into `self.line`. Returns `None` at the end of input, and `Some(false)`
    /// if a line is too long. If the future is dropped, no bytes are lost, because there is no
    /// await between `fill_buf` and `consume`.
    async fn next_line(&mut self) -> Option<bool> {
        loop {
            let available = self.input.fill_buf().await.ok()?;
            if available.is_empty() {
                return None;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(available.len(), |end| end + 1);
            if !self.is_skipping {
                self.line.extend_from_slice(&available[..length]);
            }
            self.input.consume(length);
            if self.line.len() > LONGEST {
                self.line = Vec::new();
                self.is_skipping = true;
            }
            if end.is_some() {
                return Some(!std::mem::take(&mut self.is_skipping));
            }
        }
    }

    fn answer(&mut self, answer: Value) {
        let output = Arc::clone(&self.output);
        let line = format!("{answer}\n");
        self.answering = Some(tokio::spawn(async move {
            // This fails if the client has disconnected. The next read reports that.
            let _ = write(&output, line.as_bytes()).await;
        }));
    }
}

async fn write<W: AsyncWrite + Unpin>(
    output: &Mutex<Option<W>>,
    line: &[u8],
) -> std::io::Result<()> {
    let mut output = output.lock().await;
    let Some(output) = output.as_mut() else {
        return Err(std::io::ErrorKind::NotConnected.into());
    };
    output.write_all(line).await?;
    output.flush().await
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            write(&output, &line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answering) = &mut self.answering {
                let _ = answering.await;
                self.answering = None;
            }
            let line = match self.next_line().await? {
                true => parse_line(&std::mem::take(&mut self.line)),
                false => {
                    let message = format!("a line may have at most {} MiB", LONGEST >> 20);
                    IncomingLine::Answer(refusal(
                        &Value::Null,
                        ErrorCode::INVALID_REQUEST,
                        &message,
                    ))
                }
            };
            match line {
                IncomingLine::Message(message) => {
                    self.has_begun |= begins(&message);
                    match *message {
                        message if self.has_begun => return Some(message),
                        // rmcp would report that the parameters are wrong.
                        JsonRpcMessage::Request(request)
                            if matches!(request.request, ClientRequest::CustomRequest(_)) =>
                        {
                            let id = serde_json::to_value(&request.id).unwrap_or_default();
                            self.answer(refusal(&id, ErrorCode::METHOD_NOT_FOUND, UNKNOWN_METHOD));
                        }
                        message @ JsonRpcMessage::Request(_) => return Some(message),
                        _ => {}
                    }
                }
                IncomingLine::Answer(answer) => self.answer(answer),
                IncomingLine::Ignored => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        if let Some(answering) = self.answering.take() {
            let _ = answering.await;
        }
        drop(self.output.lock().await.take());
        Ok(())
    }
}

/// A session begins with `initialize`, or with a request that carries the protocol version.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    use rmcp::model::GetMeta;

    let JsonRpcMessage::Request(request) = message else {
        return false;
    };
    matches!(request.request, ClientRequest::InitializeRequest(_))
        || request.request.get_meta().protocol_version().is_some()
}

fn refusal(id: &Value, code: ErrorCode, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code.0, "message": message}})
}

fn parse_line(line: &[u8]) -> IncomingLine {
    let line = line
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(line)
        .trim_ascii();
    if line.is_empty() {
        return IncomingLine::Ignored;
    }
    let Ok(value) = serde_json::from_slice::<Value>(line) else {
        return IncomingLine::Answer(refusal(
            &Value::Null,
            ErrorCode::PARSE_ERROR,
            "the line is not valid UTF-8 JSON",
        ));
    };
    let invalid = |id: &Value, message: &str| {
        IncomingLine::Answer(refusal(id, ErrorCode::INVALID_REQUEST, message))
    };
    let Value::Object(message) = &value else {
        let hint = if value.is_array() {
            "; batches are not part of the protocol"
        } else {
            ""
        };
        return invalid(
            &Value::Null,
            &format!("a message must be a JSON object{hint}"),
        );
    };
    let given_id = message.get("id");
    let is_usable = |id: &Value| id.is_string() || id.is_i64();
    let id = given_id
        .filter(|id| is_usable(id))
        .cloned()
        .unwrap_or(Value::Null);
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return invalid(&id, "`jsonrpc` must be \"2.0\"");
    }
    if given_id.is_some() && id.is_null() {
        return invalid(&id, "`id` must be a string or an integer");
    }
    let Some(method) = message.get("method") else {
        return match message.contains_key("result") || message.contains_key("error") {
            // The server sends no requests, so a malformed response cannot be the answer to one.
            true => serde_json::from_value(value).map_or(IncomingLine::Ignored, |message| {
                IncomingLine::Message(Box::new(message))
            }),
            false => invalid(&id, "a request must have a `method`"),
        };
    };
    let Some(method) = method.as_str().map(ToOwned::to_owned) else {
        return invalid(&id, "`method` must be a string");
    };
    if given_id.is_some() {
        return request(value, &id, &method);
    }
    let has_object = message.get("params").is_none_or(Value::is_object);
    match has_object.then(|| serde_json::from_value::<ClientJsonRpcMessage>(value)) {
        Some(Ok(message @ JsonRpcMessage::Notification(_))) => {
            IncomingLine::Message(Box::new(message))
        }
        _ => IncomingLine::Ignored,
    }
}

/// Handles a request whose envelope is valid.
fn request(value: Value, id: &Value, method: &str) -> IncomingLine {
    let invalid =
        |message: &str| IncomingLine::Answer(refusal(id, ErrorCode::INVALID_PARAMS, message));
    let params = value.get("params");
    let is_typed = TYPED.contains(&method);
    if is_typed && !params.is_none_or(Value::is_object) {
        return invalid("`params` must be an object");
    }
    // For the first page, clients send null or an empty cursor.
    let is_later = |params: &Value| !params["cursor"].is_null() && params["cursor"] != "";
    if is_typed && method.ends_with("/list") && params.is_some_and(is_later) {
        return invalid("`cursor` is invalid, because every list has only one page");
    }
    match serde_json::from_value::<ClientJsonRpcMessage>(value) {
        Ok(JsonRpcMessage::Request(request)) => match request.request {
            ClientRequest::CustomRequest(_) if is_typed => invalid(&format!(
                "the parameters of `{method}` have the wrong types"
            )),
            _ => IncomingLine::Message(Box::new(JsonRpcMessage::Request(request))),
        },
        // Everything except the parameters was checked above. For example, `_meta` is an object.
        _ if is_typed => invalid(&format!(
            "the parameters of `{method}` have the wrong types"
        )),
        _ => IncomingLine::Answer(refusal(id, ErrorCode::METHOD_NOT_FOUND, UNKNOWN_METHOD)),
    }
}

#[cfg(test)]
mod tests;
