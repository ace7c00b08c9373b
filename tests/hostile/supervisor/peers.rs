//! Runs real ranks on this machine, and a client that speaks the protocol of their port.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_lc_rs::hmac;
use gpuctl_sandbox::eventually;

/// An obviously fake token.
pub const TOKEN: &str = "not-a-secret-token-of-a-test-0123456789";
const GREETING: &str = "gpuctl/1 ";

/// Ranks that run until the file `end` is created.
pub struct Training {
    folder: PathBuf,
    pub port: u16,
    ranks: usize,
}

/// The supervisor of one rank, which is killed when the test ends.
pub struct Rank {
    child: Child,
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rank {
    #[track_caller]
    pub fn wait_for_exit_code(&mut self) -> i32 {
        let status = eventually("the rank ends", Duration::from_secs(60), || {
            self.child.try_wait().unwrap()
        });
        status.code().unwrap_or(-1)
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the resident memory in KiB.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Returns the CPU time used, in hundredths of a second.
    pub fn cpu(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    pub fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }
}

impl Training {
    pub fn new(name: &str, ranks: usize) -> Self {
        let folder =
            std::env::temp_dir().join(format!("gpuctl-hostile-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("token"), TOKEN).unwrap();
        let port = free_port();
        Self {
            folder,
            port,
            ranks,
        }
    }

    pub fn start(&self, rank: usize) -> Rank {
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/crates/manifest/src/render/supervisor.py"
        );
        let err = fs::File::create(self.folder.join(format!("err.{rank}"))).unwrap();
        let script =
            "echo $GPUCTL_ATTEMPT >> attempts.$RANK; while [ ! -e end ]; do sleep 0.1; done";
        let mut command = Command::new("python3");
        command.args([
            "-IS", program, "--run", "test", "--token", "token", "--pod", "first",
        ]);
        command.args([
            "--rank",
            &rank.to_string(),
            "--ranks",
            &self.ranks.to_string(),
        ]);
        command.args([
            "--port",
            &self.port.to_string(),
            "--grace",
            "2",
            "--settle",
            "10",
            "--patience",
            "20",
        ]);
        command.args(["--", "sh", "-c", script]);
        command
            .env("RANK", rank.to_string())
            .current_dir(&self.folder)
            .stderr(err)
            .stdout(Stdio::null());
        Rank {
            child: command.spawn().expect("python3 starts"),
        }
    }

    /// Starts the first `count` ranks.
    pub fn first(&self, count: usize) -> Vec<Rank> {
        (0..count).map(|rank| self.start(rank)).collect()
    }

    /// Returns the attempts that a rank has started.
    pub fn attempts(&self, rank: usize) -> String {
        let text =
            fs::read_to_string(self.folder.join(format!("attempts.{rank}"))).unwrap_or_default();
        text.replace('\n', " ").trim().to_owned()
    }

    pub fn log(&self, rank: usize) -> String {
        fs::read_to_string(self.folder.join(format!("err.{rank}"))).unwrap_or_default()
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_true: impl Fn() -> bool) {
        eventually(what, Duration::from_secs(30), || {
            if is_true() { Ok(()) } else { Err(self.log(0)) }
        });
    }

    pub fn let_end(&self) {
        fs::write(self.folder.join("end"), "").unwrap();
    }

    /// Asserts that the ranks complete their first attempt successfully.
    #[track_caller]
    pub fn assert_success(&self, mut ranks: Vec<Rank>) {
        self.let_end();
        for (number, rank) in ranks.iter_mut().enumerate() {
            assert_eq!(
                rank.wait_for_exit_code(),
                0,
                "rank {number}: {}",
                self.log(number)
            );
            assert_eq!(
                self.attempts(number),
                "1",
                "rank {number} was restarted: {}",
                self.log(number)
            );
        }
    }
}

/// Finds a port below the ephemeral range, so that no outgoing connection can take it before rank 0
/// does.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(37);
    let ports = std::iter::repeat_with(|| {
        10_000
            + u16::try_from(start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 22_000)
                .unwrap()
    });
    ports
        .take(22_000)
        .find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok())
        .expect("a port is free")
}

/// A connection to the port of rank 0.
pub struct Peer {
    pub stream: TcpStream,
    key: Option<hmac::Key>,
    sent: u64,
    /// All bytes that were sent.
    pub record: Vec<u8>,
}

impl Peer {
    /// Connects without a greeting.
    pub fn stranger(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("rank 0 listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            key: None,
            sent: 0,
            record: Vec::new(),
        }
    }

    /// Connects and sends a greeting. All messages are authenticated with `token`.
    pub fn with_token(port: u16, token: &str) -> Self {
        let mut peer = Self::stranger(port);
        let greeting = peer.line().expect("rank 0 greets");
        let nonce = "ab".repeat(32);
        peer.raw(format!("{GREETING}{nonce}\n").as_bytes());
        let material = [
            GREETING.as_bytes(),
            &greeting.as_bytes()[GREETING.len()..],
            nonce.as_bytes(),
        ]
        .concat();
        let key = hmac::sign(
            &hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes()),
            &material,
        );
        peer.key = Some(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()));
        peer
    }

    /// Reads one line byte by byte, so that later bytes stay in the socket.
    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = BufReader::with_capacity(1, &self.stream).read_line(&mut line);
        read.ok()
            .filter(|count| *count > 0)
            .map(|_| line.trim_end().to_owned())
    }

    /// Sends bytes. Returns false if rank 0 has closed the connection.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        self.record.extend(bytes);
        self.stream.write_all(bytes).is_ok()
    }

    /// Adds the HMAC to a message.
    pub fn sealed(&mut self, message: &[u8]) -> Vec<u8> {
        let text = [format!("0 {} ", self.sent).as_bytes(), message].concat();
        let seal = hmac::sign(self.key.as_ref().expect("it has greeted"), &text);
        self.sent += 1;
        let seal: String = seal
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        [seal.as_bytes(), b" ", message, b"\n"].concat()
    }

    pub fn send(&mut self, message: &[u8]) -> bool {
        let line = self.sealed(message);
        self.raw(&line)
    }

    /// Waits until rank 0 closes the connection.
    #[track_caller]
    pub fn is_closed(&mut self, after: &str) {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    panic!("still open after {after}")
                }
                // The connection is reset if bytes are left unread.
                Err(_) => return,
            }
        }
    }
}

/// Builds the first message of a rank, with some fields replaced.
pub fn hello(fields: &serde_json::Value) -> Vec<u8> {
    let mut message = serde_json::json!({
        "kind": "hello", "run": "test", "rank": 1, "pod": "first", "state": "running", "attempt": 1, "failed": 0,
        "failures": 0, "first_start": null, "code": 0, "memory": false,
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        message[key] = value.clone();
    }
    message.to_string().into_bytes()
}
