//! Tests the transport.

use super::*;

/// Returns the code and id of the answer. The code is 0 for a forwarded message and 1 for an
/// ignored one.
fn code(line: &str) -> (i64, Value) {
    match parse_line(line.as_bytes()) {
        IncomingLine::Message(_) => (0, Value::Null),
        IncomingLine::Ignored => (1, Value::Null),
        IncomingLine::Answer(answer) => (
            answer["error"]["code"].as_i64().unwrap(),
            answer["id"].clone(),
        ),
    }
}

#[test]
fn each_fault_has_its_code_and_id() {
    let nested = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let cases = [
        ("{", -32700, Value::Null),
        ("nonsense", -32700, Value::Null),
        (nested.as_str(), -32700, Value::Null),
        ("[]", -32600, Value::Null),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32600,
            Value::Null,
        ),
        ("7", -32600, Value::Null),
        (r#"{"id":7,"method":"ping"}"#, -32600, json!(7)),
        (
            r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#,
            -32600,
            json!("x"),
        ),
        (r#"{"jsonrpc":"2.0","id":7}"#, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, json!(7)),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"why","arguments":"x"}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":{}}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"x"}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"why","_meta":5}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":5}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"bogus"}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":5}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":null}}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":""}}"#,
            0,
            Value::Null,
        ),
        // rmcp answers the unknown method.
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"foo/list","params":{"cursor":"bogus"}}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"no/such"}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"why"}}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            0,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"tools/call","params":5}"#,
            1,
            Value::Null,
        ),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, 0, Value::Null),
        (" \r\n", 1, Value::Null),
    ];
    for (line, expected, id) in cases {
        assert_eq!(code(line), (expected, id), "{line}");
    }
    assert_eq!(
        code("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\r\n").0,
        0
    );
    assert!(
        matches!(parse_line(b"\xff\xfe"), IncomingLine::Answer(answer) if answer["error"]["code"] == -32700)
    );
}

#[tokio::test]
async fn an_unknown_method_is_unknown_before_the_session_begins() {
    let input = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"no/such\"}\n{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\n";
    let (client, server) = tokio::io::duplex(1 << 16);
    let mut lines = Lines::new(input.as_bytes(), server);
    assert!(
        matches!(lines.receive().await, Some(JsonRpcMessage::Request(request)) if matches!(request.request, ClientRequest::PingRequest(_)))
    );
    lines.close().await.unwrap();
    let mut answer = String::new();
    BufReader::new(client).read_line(&mut answer).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["error"]["code"], &answer["id"]),
        (&json!(-32601), &json!(7))
    );
}

#[tokio::test]
async fn an_endless_line_is_not_kept() {
    let long_line = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 3 * LONGEST as u64);
    let input = tokio::io::AsyncReadExt::chain(
        long_line,
        &b"\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n"[..],
    );
    let (client, server) = tokio::io::duplex(1 << 16);
    let mut lines = Lines::new(input, server);
    assert!(matches!(
        lines.receive().await,
        Some(JsonRpcMessage::Request(_))
    ));
    assert!(lines.line.capacity() <= 2 * LONGEST);
    lines.close().await.unwrap();
    let mut answer = String::new();
    BufReader::new(client).read_line(&mut answer).await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        (&answer["error"]["code"], &answer["id"]),
        (&json!(-32600), &Value::Null)
    );
}
