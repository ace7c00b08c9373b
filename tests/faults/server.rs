//! The raw TCP server, and functions that run gpuctl against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How the server responds to one request.
pub enum Answer {
    Json(u16, Value),
    Headers(u16, &'static str, Value),
    Html(&'static str),
    /// The first half of the response. Then the server closes the connection.
    Half(Value),
    Reset,
    /// A WebSocket that sends these messages, each a channel number and a text. The connection then
    /// ends without a close frame.
    Broken(&'static [(u8, &'static str)]),
    /// A WebSocket that sends no messages.
    Silent,
    /// Headers, then nothing for 60 s.
    Stall,
    /// These bytes. Then the server closes the connection.
    Bytes(Vec<u8>),
    /// These bytes, then nothing for 60 s.
    BytesThenStall(Vec<u8>),
    /// These bytes, one every 200 ms.
    Slowly(Vec<u8>),
    /// Spaces, until the client closes the connection. The counter holds the number of bytes sent.
    Endless(Arc<AtomicU64>),
}

pub struct Server {
    pub port: u16,
    pub seen: Arc<Mutex<Vec<String>>>,
    /// Authorization and impersonation headers.
    pub headers: Arc<Mutex<Vec<String>>>,
    pub folder: PathBuf,
}

pub fn status(code: u16, reason: &str, message: &str) -> Answer {
    Answer::Json(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}),
    )
}

pub fn empty_list() -> Answer {
    Answer::Json(
        200,
        json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}),
    )
}

impl Server {
    /// `answer` gets `METHOD path` and how often that request has been made so far.
    pub fn start(
        name: &str,
        answer: impl Fn(&str, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let headers: Arc<Mutex<Vec<String>>> = Arc::default();
        let (answer, log, identity) = (Arc::new(answer), Arc::clone(&seen), Arc::clone(&headers));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, log, identity) =
                    (Arc::clone(&answer), Arc::clone(&log), Arc::clone(&identity));
                std::thread::spawn(move || serve(stream, &*answer, &log, &identity));
            }
        });
        let folder =
            std::env::temp_dir().join(format!("gpuctl-faults-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let server = Self {
            port,
            seen,
            headers,
            folder,
        };
        server.kubeconfig(&json!({"token": "canary-secret-token"}));
        server
    }

    pub fn kubeconfig(&self, user: &Value) {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{}", self.port)}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}}],
        });
        std::fs::write(self.folder.join("config"), config.to_string()).unwrap();
    }

    pub fn gpuctl(&self, arguments: &[&str]) -> Run {
        run(Command::new(env!("CARGO_BIN_EXE_gpuctl"))
            .env("KUBECONFIG", self.folder.join("config"))
            .args(arguments))
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn serve(
    stream: TcpStream,
    answer: &dyn Fn(&str, usize) -> Answer,
    log: &Mutex<Vec<String>>,
    headers: &Mutex<Vec<String>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).unwrap_or(0) == 0 {
            return;
        }
        let (mut length, mut key) = (0, String::new());
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.to_lowercase().starts_with("impersonate-")
                || line.to_lowercase().starts_with("authorization:")
            {
                headers.lock().unwrap().push(line.trim().to_owned());
            }
            if let Some(text) = line.strip_prefix("sec-websocket-key: ") {
                text.trim().clone_into(&mut key);
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).unwrap();
        let request = first.rsplit_once(" HTTP").unwrap().0.to_owned();
        let count = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.iter().filter(|earlier| **earlier == request).count()
        };
        let head = |code: u16, media: &str, headers: &str, length: usize| {
            format!(
                "HTTP/1.1 {code} X\r\nContent-Type: {media}\r\n{headers}Content-Length: {length}\r\n\r\n"
            )
        };
        let text = match answer(&request, count) {
            Answer::Json(code, body) => {
                head(code, "application/json", "", body.to_string().len()) + &body.to_string()
            }
            Answer::Headers(code, headers, body) => {
                head(code, "application/json", headers, body.to_string().len()) + &body.to_string()
            }
            Answer::Html(page) => head(200, "text/html; charset=utf-8", "", page.len()) + page,
            Answer::Half(body) => {
                let body = body.to_string();
                let text = head(200, "application/json", "", body.len()) + &body[..body.len() / 2];
                let _ = stream.write_all(text.as_bytes());
                return;
            }
            Answer::Reset => return,
            Answer::Broken(messages) => {
                let _ = stream.write_all(switching_protocols(&key).as_bytes());
                for (channel, text) in messages {
                    let length = u8::try_from(text.len() + 1).unwrap();
                    let _ =
                        stream.write_all(&[&[0x82, length, *channel], text.as_bytes()].concat());
                }
                // The client reads the messages before the connection ends.
                std::thread::sleep(Duration::from_millis(300));
                return;
            }
            Answer::Silent => {
                let _ = stream.write_all(switching_protocols(&key).as_bytes());
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            Answer::Bytes(bytes) => {
                let _ = stream.write_all(&bytes);
                return;
            }
            Answer::BytesThenStall(bytes) => {
                let _ = stream.write_all(&bytes);
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            Answer::Slowly(bytes) => {
                for byte in bytes {
                    if stream.write_all(&[byte]).is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
                return;
            }
            Answer::Endless(sent) => {
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
                let spaces = vec![b' '; 1 << 20];
                while stream.write_all(&spaces).is_ok() {
                    sent.fetch_add(1 << 20, Ordering::Relaxed);
                }
                return;
            }
            Answer::Stall => {
                let _ = stream.write_all(head(200, "application/json", "", 1000).as_bytes());
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
        };
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn switching_protocols(key: &str) -> String {
    let accepted = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accepted}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n"
    )
}

pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

pub fn run(command: &mut Command) -> Run {
    let start = Instant::now();
    let output = command
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .env("GPUCTL_PROMETHEUS", "none")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
        took: start.elapsed(),
    }
}

#[track_caller]
pub fn fails(run: &Run, code: i32, text: &str) {
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    assert!(run.err.contains(text), "«{text}» is not in:\n{}", run.err);
    assert_eq!(run.out, "", "a failure prints no data");
    assert!(
        !run.err.contains("canary"),
        "a secret was printed: {}",
        run.err
    );
}
