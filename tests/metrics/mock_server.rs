//! A mock server for a webhook, a control system or an AI. It records every request and can give
//! faulty answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// An answer of the server.
#[derive(Clone)]
pub enum Reply {
    /// A status and a body.
    Text(u16, String),
    /// A status, a header and a body.
    Header(u16, String, String),
    /// Sends an incomplete answer, then closes the connection.
    Half,
    /// Sends nothing until the client times out.
    Silence,
    /// Closes the connection without an answer.
    Reset,
}

#[derive(Clone, Debug)]
pub struct Request {
    /// `POST /path`.
    pub line: String,
    /// `name: value`, with names in lower case.
    pub headers: Vec<String>,
    pub body: String,
    /// When the request was complete.
    pub at: Instant,
}

impl Request {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find_map(|header| header.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub struct MockServer {
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl MockServer {
    /// `answer` gets the request and the number of requests before it.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &log, &*answer));
            }
        });
        Self { port, requests }
    }

    /// Starts a server that always gives the same answer.
    pub fn always(code: u16, body: &str) -> Self {
        let reply = Reply::Text(code, body.to_owned());
        Self::start(move |_, _| reply.clone())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The requests since the last call.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn serve(
    mut stream: TcpStream,
    log: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request, usize) -> Reply,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let first = lines.remove(0);
    let headers: Vec<String> = lines
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| format!("{}: {value}", name.to_lowercase()))
        .collect();
    let length = headers
        .iter()
        .find_map(|header| header.strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let line = first.trim_end_matches(" HTTP/1.1").to_owned();
    let request = Request {
        line,
        headers,
        body: String::from_utf8(body).unwrap(),
        at: Instant::now(),
    };
    let before = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len() - 1
    };
    let response = |code: u16, header: &str, body: &str| {
        format!(
            "HTTP/1.1 {code} X\r\n{header}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let text = match answer(&request, before) {
        Reply::Text(code, body) => response(code, "", &body),
        Reply::Header(code, header, body) => response(code, &format!("{header}\r\n"), &body),
        Reply::Half => "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"half\":".to_owned(),
        Reply::Silence => {
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
        Reply::Reset => return,
    };
    // The client may have closed the connection.
    let _ = stream.write_all(text.as_bytes());
}
