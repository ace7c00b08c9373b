//! Sends random and mutated messages to a running rank 0.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::peers::{Peer, Rank, TOKEN, Training, hello};

/// Set to 1000000 for the full run, which takes minutes.
const COUNT: &str = "GPUCTL_FUZZ_MESSAGES";
const DEFAULT: u64 = 30_000;

/// Generates pseudorandom numbers, so that every run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

/// Builds a message that rank 0 must refuse, because no mutation can produce the correct run id in
/// the hello message.
fn mutated(random: &mut Random) -> Vec<u8> {
    const VALUES: [&str; 16] = [
        "null",
        "true",
        "-1",
        "1",
        "0.5",
        "1e999",
        "NaN",
        "-Infinity",
        "[]",
        "{}",
        "[[[[[[1]]]]]]",
        "\"\"",
        "\"\\ud800\"",
        "99999999999999999999999999999999999999",
        "{\"kind\":\"hello\"}",
        "\"\\u0000\\u001b[2J\"",
    ];
    let templates = [
        hello(&json!({"run": "stranger"})),
        hello(&json!({"run": "stranger", "rank": 0, "state": "idle"})),
        br#"{"kind":"alive","quiet":1.5}"#.to_vec(),
        br#"{"kind":"ended","attempt":1,"code":1,"memory":true,"since":0.5}"#.to_vec(),
        br#"{"kind":"leaving"}"#.to_vec(),
        br#"{"kind":"end","reason":"Error","text":"over","rank":1,"code":1}"#.to_vec(),
        br#"{"kind":"stop","text":"x","failed":1}"#.to_vec(),
    ];
    let mut message = random.pick(&templates).clone();
    for _ in 0..=random.below(3) {
        let at = random.below(message.len().max(1)).min(message.len());
        match random.below(6) {
            0 if !message.is_empty() => message[at] = u8::try_from(random.below(256)).unwrap(),
            1 => message.truncate(at),
            2 => drop(message.splice(at..at, random.pick(&VALUES).bytes())),
            3 => {
                // Replaces the value of one field.
                let colons: Vec<usize> = (0..message.len())
                    .filter(|at| message[*at] == b':')
                    .collect();
                if let Some(colon) = colons.get(random.below(colons.len().max(1))) {
                    let end = (colon + 1..message.len())
                        .find(|at| matches!(message[*at], b',' | b'}'))
                        .unwrap_or(message.len());
                    message.splice(colon + 1..end, random.pick(&VALUES).bytes());
                }
            }
            4 => {
                message = (0..random.below(300))
                    .map(|_| u8::try_from(random.below(256)).unwrap())
                    .collect();
            }
            _ => message.extend(random.pick(&templates).iter()),
        }
    }
    message.retain(|byte| *byte != b'\n');
    message
}

/// Joins as rank 2 with the token, then sends only valid messages as fast as rank 0 reads them.
fn flood(peer: &mut Peer, random: &mut Random, count: u64) {
    let mut remaining = count;
    while remaining > 0 {
        let batch = remaining.min(500);
        let lines: Vec<u8> = (0..batch)
            .flat_map(|_| {
                let quiet = random.below(100_000);
                peer.sealed(format!(r#"{{"kind": "alive", "quiet": {quiet}.5}}"#).as_bytes())
            })
            .collect();
        assert!(
            peer.raw(&lines),
            "rank 0 closed the connection of a rank that made no mistake"
        );
        remaining -= batch;
    }
}

/// Sends messages that rank 0 must refuse. One third have no token, one third have a wrong token,
/// and one third have the correct token.
fn bombard(port: u16, random: &mut Random, count: u64) {
    for _ in 0..count {
        let message = mutated(random);
        match random.below(3) {
            0 => {
                let mut peer = Peer::stranger(port);
                peer.raw(&message);
                peer.raw(b"\n");
            }
            kind => {
                let mut peer =
                    Peer::with_token(port, if kind == 1 { TOKEN } else { "a wrong token" });
                peer.send(&message);
                let _ = peer.stream.read(&mut [0; 64]);
            }
        }
    }
}

#[test]
fn random_messages_neither_end_rank_0_nor_fill_its_memory() {
    let count = std::env::var(COUNT)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT);
    let training = Training::new("fuzz", 3);
    let mut ranks: Vec<Rank> = training.first(2);
    training.until("rank 0 listens", || {
        std::net::TcpStream::connect(("127.0.0.1", training.port)).is_ok()
    });
    let mut peer = Peer::with_token(training.port, TOKEN);
    peer.send(&hello(&json!({"rank": 2, "state": "idle", "attempt": 0})));
    assert!(
        peer.line()
            .is_some_and(|line| line.contains(r#""kind": "start""#)),
        "{}",
        training.log(0)
    );
    training.until("the ranks run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    bombard(training.port, &mut Random(7), 200);
    let (before, cpu) = (ranks[0].memory(), ranks[0].cpu());
    let mut answers = peer.stream.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while answers.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let port = training.port;
    let attackers: Vec<_> = (1..=2)
        .map(|seed| {
            thread::spawn(move || bombard(port, &mut Random(seed * 0x9e37_79b9), count / 3))
        })
        .collect();
    flood(&mut peer, &mut Random(42), count - 2 * (count / 3));
    while !attackers.iter().all(thread::JoinHandle::is_finished) {
        // Keeps the peer's connection alive until the attackers have finished.
        flood(&mut peer, &mut Random(42), 1);
        thread::sleep(Duration::from_millis(200));
    }
    for attacker in attackers {
        attacker
            .join()
            .expect("rank 0 accepts connections to the end");
    }
    assert!(ranks[0].is_running(), "{}", training.log(0));
    let after = ranks[0].memory();
    let seconds = (ranks[0].cpu() - cpu) / 100;
    if count > DEFAULT {
        let line = format!(
            "{count} messages: {before} KiB before, {after} KiB after, {seconds} s of CPU\n"
        );
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    assert!(
        after < before + 4 * 1024,
        "rank 0 grew from {before} to {after} KiB"
    );
    peer.send(br#"{"kind": "ended", "attempt": 1, "code": 0, "memory": false, "since": 0.0}"#);
    training.assert_success(ranks);
    drop(peer);
    reader.join().unwrap();
}
