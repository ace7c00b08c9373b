//! A proxy between gpuctl and the API server that drops requests or responses, or replaces
//! responses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuctl_sandbox::Persona;
use serde_json::json;

use crate::support::{Run, cluster, run};

/// Which fault happens, and which request it affects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    Nothing,
    /// The request with this number does not reach the server.
    Before(usize),
    /// The server handles the request with this number, but its response is lost.
    After(usize),
    /// Neither the request with this number nor any later one reaches the server.
    From(usize),
    /// Like `From`, but the server still handles the first of these requests.
    FromAfter(usize),
    /// The response to the request with this number is replaced. The server may or may not have
    /// handled the request.
    CorruptAnswer(usize, CorruptAnswer),
    /// On average, one request in twenty is lost before the server handles it, and one after. The
    /// seed decides which ones.
    Seeded(u64),
    /// Server-side apply requests reach the server one second late.
    Slow,
}

/// Counts of the requests made during one run of gpuctl.
#[derive(Default)]
pub struct Requests {
    pub begun: AtomicUsize,
    /// Apply requests that the proxy delayed, and apply requests that the server answered.
    pub held: AtomicUsize,
    pub released: AtomicUsize,
}

/// A response that replaces the server's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorruptAnswer {
    /// Whether the server handles the request before its response is replaced.
    pub is_handled: bool,
    pub content: Content,
}

/// What the replaced response contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// The head and the body of a response.
    Bytes(&'static str),
    /// The first half of the server's response.
    Half,
    /// The first half of the server's response, then nothing for ten seconds.
    Stall,
}

/// A proxy that injects the faults, in front of `kubectl proxy`, which handles TLS.
pub struct Proxy {
    upstream: Child,
    pub to: u16,
    folder: PathBuf,
}

impl Proxy {
    pub fn start(name: &str) -> Self {
        let mut upstream = Command::new(cluster().binary("kubectl"))
            .env("KUBECONFIG", cluster().kubeconfig(Persona::Admin))
            .args(["proxy", "--port=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(upstream.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let to = line
            .trim()
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok())
            .unwrap_or_else(|| panic!("{line}"));
        cluster().kubectl(Persona::Admin).apply(&json!({"apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass", "metadata": {"name": "cuts"}, "provisioner": "example.com/nobody"}));
        let folder = cluster().folder().join(format!("cuts-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        Self {
            upstream,
            to,
            folder,
        }
    }

    /// Runs gpuctl through a separate proxy. Returns the number of requests.
    pub fn gpuctl(
        &self,
        namespace: &str,
        cut: Cut,
        arguments: &[&str],
        input: &str,
    ) -> (Run, usize) {
        let (command, requests) = self.command(namespace, cut, arguments);
        let run = run(command, input);
        (run, requests.begun.load(Ordering::SeqCst))
    }

    /// Builds a command that runs gpuctl through a separate proxy.
    pub fn command(
        &self,
        namespace: &str,
        cut: Cut,
        arguments: &[&str],
    ) -> (Command, Arc<Requests>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Requests::default());
        let (counter, to) = (Arc::clone(&requests), self.to);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || drop(serve(stream, to, cut, &counter)));
            }
        });
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
        });
        let file = self.folder.join(format!("{port}.kubeconfig"));
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuctl"));
        command
            .env("KUBECONFIG", &file)
            .env("NO_COLOR", "1")
            .env("GPUCTL_PROMETHEUS", "none")
            .args(arguments);
        (command, requests)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.upstream.kill();
        let _ = self.upstream.wait();
    }
}

/// Handles one request per connection. `Connection: close` ends the connection after the response.
fn serve(mut client: TcpStream, to: u16, cut: Cut, requests: &Requests) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let number = requests.begun.fetch_add(1, Ordering::SeqCst);
    let lost = match cut {
        Cut::Seeded(seed) => chance(seed, number) == REQUEST_IS_LOST,
        Cut::Before(cut) => number == cut,
        Cut::From(cut) => number >= cut,
        Cut::FromAfter(cut) => number > cut,
        Cut::Nothing | Cut::Slow | Cut::After(_) | Cut::CorruptAnswer(..) => false,
    };
    if lost {
        return Ok(());
    }
    let corrupt = match cut {
        Cut::CorruptAnswer(at, corrupt) if at == number => Some(corrupt),
        _ => None,
    };
    if let Some(CorruptAnswer {
        is_handled: false,
        content: Content::Bytes(answer),
    }) = corrupt
    {
        return client.write_all(answer.as_bytes());
    }
    let slow = cut == Cut::Slow && head.starts_with("PATCH ") && !head.contains("dryRun");
    if slow {
        requests.held.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_secs(1));
    }
    let mut upstream = TcpStream::connect(("127.0.0.1", to))?;
    write!(upstream, "{head}Connection: close\r\n\r\n")?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    if slow {
        requests.released.fetch_add(1, Ordering::SeqCst);
    }
    let answer_is_lost = match cut {
        Cut::After(cut) | Cut::FromAfter(cut) => number == cut,
        Cut::Seeded(seed) => chance(seed, number) == ANSWER_IS_LOST,
        _ => false,
    };
    if answer_is_lost {
        return Ok(());
    }
    let half = answer.len() / 2;
    match corrupt.map(|corrupt| corrupt.content) {
        None => client.write_all(&answer),
        Some(Content::Bytes(other)) => client.write_all(other.as_bytes()),
        Some(Content::Half) => client.write_all(&answer[..half]),
        Some(Content::Stall) => {
            client.write_all(&answer[..half])?;
            std::thread::sleep(Duration::from_secs(10));
            Ok(())
        }
    }
}

/// Returns a pseudo-random number by SplitMix64 (Steele, Lea, Flood), which is the same in every
/// run.
fn seeded(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Draws one of twenty outcomes for a request. Two of them lose the request or its response.
pub fn chance(seed: u64, number: usize) -> u64 {
    seeded(seed.wrapping_mul(1_000_003) + number as u64) % 20
}

pub const REQUEST_IS_LOST: u64 = 0;
pub const ANSWER_IS_LOST: u64 = 1;
