//! Transports protocol messages over stdin and stdout, one JSON object per line. rmcp's transport
//! ignores lines that are not JSON, drops the ids of invalid requests, and reports invalid
//! parameters as an unknown method. This transport answers these cases with JSON-RPC's error codes.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Maximum length of a line in bytes. A manifest has at most 1 MiB.
const LONGEST: usize = 4 << 20;

/// Requests with a type in rmcp. If rmcp parses one of them as a custom request, its parameters are
/// invalid.
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

/// A parsed line.
#[derive(Debug)]
enum IncomingLine {
    Message(Box<ClientJsonRpcMessage>),
    /// An answer by the transport itself.
    Answer(Value),
    /// A blank line or an unknown notification, to which JSON-RPC forbids an answer.
    Ignored,
}

/// Reads a client's lines and writes answers.
pub(super) struct Lines<R, W> {
    input: BufReader<R>,
    /// The current line. It persists between calls, because rmcp drops the future of `receive` to
    /// send an answer.
    line: Vec<u8>,
    /// Whether to skip the rest of a line that exceeds the limit.
    is_skipping: bool,
    /// Whether the session has begun. Until then, rmcp ends the session at any message except a
    /// request.
    has_begun: bool,
    output: Arc<Mutex<Option<W>>>,
    /// Writes the transport's last answer. The next line is read only afterwards, which bounds the
    /// queue for a client that does not read its answers.
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
    /// for a line that exceeds the limit. Dropping the future loses no bytes, because there is no
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
            // This fails if the client has disconnected, which the next read reports.
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
                        // rmcp would report invalid parameters.
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

/// Returns true for a message that begins a session: `initialize`, or a request with the protocol
/// version.
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
            // The server sends no requests, so ignore malformed responses.
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

/// Parses a request with a valid envelope.
fn request(value: Value, id: &Value, method: &str) -> IncomingLine {
    let invalid =
        |message: &str| IncomingLine::Answer(refusal(id, ErrorCode::INVALID_PARAMS, message));
    let params = value.get("params");
    let is_typed = TYPED.contains(&method);
    if is_typed && !params.is_none_or(Value::is_object) {
        return invalid("`params` must be an object");
    }
    // Clients request the first page with null or an empty cursor.
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
        // All parts except the parameters, such as `_meta`, were validated above.
        _ if is_typed => invalid(&format!(
            "the parameters of `{method}` have the wrong types"
        )),
        _ => IncomingLine::Answer(refusal(id, ErrorCode::METHOD_NOT_FOUND, UNKNOWN_METHOD)),
    }
}

#[cfg(test)]
mod tests;
