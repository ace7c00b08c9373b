//! A proxy between gpuctl and the API server that loses a request or its answer, or puts another
//! answer in its place.

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

/// What happens to which request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cut {
    Nothing,
    /// The request with this number does not reach the server.
    Before(usize),
    /// The server acts, and its answer is lost.
    After(usize),
    /// Neither this one nor any later one reaches the server.
    From(usize),
    /// The same, and the first one is acted on.
    FromAfter(usize),
    /// The request with this number is answered in another way, once the server has acted or
    /// instead of it.
    Spoiled(usize, Spoiled),
    /// One request in twenty is lost before the server acts and one after it, as this seed says.
    Seeded(u64),
    /// Server-side applies reach the server one second late.
    Slow,
}

/// Requests of one run of gpuctl.
#[derive(Default)]
pub struct Requests {
    pub begun: AtomicUsize,
    /// Applies that are on their way to the server, and those that it answered.
    pub held: AtomicUsize,
    pub released: AtomicUsize,
}

/// An answer that is not the server's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spoiled {
    /// Whether the server gets the request, and does what it asks for.
    pub acts: bool,
    pub with: With,
}

/// What comes in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum With {
    /// Head and body.
    Bytes(&'static str),
    /// The first half of the answer.
    Half,
    /// Half of the answer, and then nothing for ten seconds.
    Stall,
}

/// `kubectl proxy`, which speaks TLS for us, and a cutter before it.
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

    /// Runs gpuctl through its own cutter. Returns the number of requests.
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

    /// A command that runs gpuctl through its own cutter.
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

/// One connection with one request, for every answer ends it.
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
        Cut::Nothing | Cut::Slow | Cut::After(_) | Cut::Spoiled(..) => false,
    };
    if lost {
        return Ok(());
    }
    let spoiled = match cut {
        Cut::Spoiled(at, spoiled) if at == number => Some(spoiled),
        _ => None,
    };
    if let Some(Spoiled {
        acts: false,
        with: With::Bytes(answer),
    }) = spoiled
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
    match spoiled.map(|spoiled| spoiled.with) {
        None => client.write_all(&answer),
        Some(With::Bytes(other)) => client.write_all(other.as_bytes()),
        Some(With::Half) => client.write_all(&answer[..half]),
        Some(With::Stall) => {
            client.write_all(&answer[..half])?;
            std::thread::sleep(Duration::from_secs(10));
            Ok(())
        }
    }
}

/// A number that looks like chance and is the same in every run. Source: SplitMix64 (Steele, Lea,
/// Flood).
fn seeded(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// What happens to a request of a seeded run: one of twenty numbers, of which two are losses.
pub fn chance(seed: u64, number: usize) -> u64 {
    seeded(seed.wrapping_mul(1_000_003) + number as u64) % 20
}

pub const REQUEST_IS_LOST: u64 = 0;
pub const ANSWER_IS_LOST: u64 = 1;
