//! Attacks on the port of rank 0, with and without the token of the training.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use super::peers::{Peer, Rank, TOKEN, Training, hello};

/// Starts two ranks and waits until both run.
fn running(name: &str) -> (Training, Vec<Rank>) {
    let training = Training::new(name, 2);
    let ranks = training.first(2);
    training.until("both ranks run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    (training, ranks)
}

#[test]
fn peers_without_the_token_cannot_end_or_restart_a_training() {
    let (training, ranks) = running("stranger");
    let lines = [
        hello(&json!({"failures": 1_000_000_000})),
        hello(&json!({"rank": [1]})),
        hello(&json!({"rank": null})),
        hello(&json!({"attempt": "x"})),
        hello(&json!({"rank": 99})),
        hello(&json!({"pod": "another"})),
        json!({"kind": "alive"}).to_string().into_bytes(),
        json!({"kind": "leaving"}).to_string().into_bytes(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        b"\xff\xfe\x00\n\n\n".to_vec(),
        "[".repeat(3000).into_bytes(),
        "1".repeat(4000).into_bytes(),
    ];
    for line in lines {
        let shown = String::from_utf8_lossy(&line).into_owned();
        let mut plain = Peer::stranger(training.port);
        plain.raw(&[&line[..], b"\n"].concat());
        plain.is_closed(&shown);
        let mut guessing = Peer::with_token(training.port, "another token, which is wrong");
        guessing.send(&line);
        guessing.is_closed(&shown);
        let mut unsealed = Peer::with_token(training.port, TOKEN);
        unsealed.raw(&[&line[..], b"\n"].concat());
        unsealed.is_closed(&shown);
    }
    training.assert_success(ranks);
    assert!(
        training
            .log(0)
            .contains("connections without the token of this training were refused"),
        "{}",
        training.log(0)
    );
}

#[test]
fn a_recorded_connection_cannot_be_replayed_or_reflected() {
    let (training, ranks) = running("replay");
    let mut peer = Peer::with_token(training.port, TOKEN);
    peer.send(&hello(&json!({})));
    peer.send(br#"{"kind": "alive", "quiet": 0.5}"#);
    let answer = peer.line().expect("rank 0 answers a peer with the token");
    let record = peer.record.clone();
    drop(peer);
    let mut replayed = Peer::stranger(training.port);
    replayed.raw(&record);
    replayed.is_closed("a replay");
    let mut reflected = Peer::stranger(training.port);
    let greeting = reflected.line().unwrap();
    reflected.raw(format!("{greeting}\n{answer}\n").as_bytes());
    reflected.is_closed("a reflection");
    let mut repeated = Peer::with_token(training.port, TOKEN);
    let line = repeated.sealed(br#"{"kind": "alive", "quiet": 0.5}"#);
    repeated.raw(&[&line[..], &line[..]].concat());
    repeated.is_closed("the same message twice");
    training.assert_success(ranks);
}

/// A peer with the token is a rank of the same training, although it may be broken.
#[test]
fn a_bad_message_with_the_token_closes_its_connection_only() {
    let (training, ranks) = running("types");
    let mut bad: Vec<Vec<u8>> = [
        json!({"failures": 1_000_000_000}),
        json!({"failures": -1}),
        json!({"failures": true}),
        json!({"failures": 0.0}),
        json!({"failed": 1_000_000}),
        json!({"rank": [1]}),
        json!({"rank": null}),
        json!({"rank": "1"}),
        json!({"rank": 2}),
        json!({"rank": 99}),
        json!({"rank": -1}),
        json!({"attempt": "x"}),
        json!({"attempt": 1e300}),
        json!({"pod": {}}),
        json!({"pod": "x".repeat(1000)}),
        json!({"pod": "\u{1b}[2J"}),
        json!({"state": "stopping"}),
        json!({"state": []}),
        json!({"first_start": -1}),
        json!({"first_start": 1e300}),
        json!({"code": 256}),
        json!({"memory": 0}),
        json!({"run": "another"}),
        json!({"more": 1}),
        json!({"kind": "nosuch"}),
        json!({"kind": ["hello"]}),
        json!({"kind": "start"}),
    ]
    .iter()
    .map(hello)
    .collect();
    let text = String::from_utf8(hello(&json!({}))).unwrap();
    for (from, to) in [
        (r#""rank":1"#, r#""rank":NaN"#.to_owned()),
        (r#""rank":1"#, format!(r#""rank":{}"#, "1".repeat(50_000))),
        (
            r#""first_start":null"#,
            r#""first_start":Infinity"#.to_owned(),
        ),
        (r#""first_start":null"#, r#""first_start":1e999"#.to_owned()),
        (
            r#""first_start":null"#,
            format!(r#""first_start":0.{}"#, "1".repeat(60_000)),
        ),
        (r#""pod":"first""#, r#""pod":"\ud800""#.to_owned()),
        (r#""rank":1,"#, String::new()),
        (
            r#""pod":"first""#,
            format!(r#""pod":{}"#, "[".repeat(60_000)),
        ),
        ("{", "[{".to_owned()),
    ] {
        assert!(text.contains(from), "{text}");
        bad.push(text.replacen(from, &to, 1).into_bytes());
    }
    for plain in [
        &b"null"[..],
        b"1",
        b"\"\"",
        b"[]",
        b"{}",
        b"",
        b"\xff",
        br#"{"kind": "alive", "quiet": 0}"#,
    ] {
        bad.push(plain.to_vec());
    }
    bad.push("9".repeat(1 << 20).into_bytes());
    for message in bad {
        let mut peer = Peer::with_token(training.port, TOKEN);
        peer.send(&message);
        peer.is_closed(&String::from_utf8_lossy(&message[..message.len().min(200)]));
    }
    for second in [
        r#"{"kind": "alive"}"#.to_owned(),
        r#"{"kind": "alive", "quiet": "x"}"#.to_owned(),
        r#"{"kind": "alive", "quiet": -1}"#.to_owned(),
        r#"{"kind": "ended", "attempt": 1, "code": "1", "memory": false, "since": 0.0}"#.to_owned(),
        format!(r#"{{"kind": "alive", "quiet": {}}}"#, "9".repeat(1 << 20)),
        String::from_utf8(hello(&json!({"rank": 0}))).unwrap(),
    ] {
        let mut peer = Peer::with_token(training.port, TOKEN);
        peer.send(&hello(&json!({})));
        peer.send(second.as_bytes());
        peer.is_closed(&second[..second.len().min(200)]);
    }
    training.assert_success(ranks);
}

#[test]
fn a_flood_of_connections_is_bounded_and_ranks_still_connect() {
    let (training, ranks) = running("masses");
    let (memory, files) = (ranks[0].memory(), ranks[0].open_files());
    let line = vec![b'1'; 1 << 20];
    let mut held = Vec::new();
    for _ in 0..300 {
        let mut peer = Peer::stranger(training.port);
        peer.stream
            .set_write_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        peer.raw(&line);
        held.push(peer);
    }
    for _ in 0..300 {
        held.push(Peer::stranger(training.port));
    }
    training.until("the oldest connections are closed", || {
        ranks[0].open_files() <= files + 2 + 16
    });
    assert!(
        ranks[0].memory() < memory + 8 * 1024,
        "rank 0 grew from {memory} to {} KiB",
        ranks[0].memory()
    );
    // A rank that connects after the attack gets an answer.
    let began = Instant::now();
    let mut peer = Peer::with_token(training.port, TOKEN);
    peer.send(&hello(&json!({})));
    peer.send(br#"{"kind": "alive", "quiet": 0.5}"#);
    assert!(peer.line().is_some(), "{}", training.log(0));
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "it took {:?}",
        began.elapsed()
    );
    drop(peer);
    training.assert_success(ranks);
}

#[test]
fn a_peer_that_never_reads_does_not_fill_memory() {
    let (training, ranks) = running("deaf");
    let memory = ranks[0].memory();
    let mut peer = Peer::with_token(training.port, TOKEN);
    peer.stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    peer.send(&hello(&json!({})));
    for _ in 0..200 {
        let lines: Vec<u8> = (0..200)
            .flat_map(|_| peer.sealed(br#"{"kind": "alive", "quiet": 0.5}"#))
            .collect();
        if !peer.raw(&lines) {
            break;
        }
    }
    assert!(
        ranks[0].memory() < memory + 8 * 1024,
        "rank 0 grew from {memory} to {} KiB",
        ranks[0].memory()
    );
    drop(peer);
    training.assert_success(ranks);
}

/// Because of DNS or the host network, a rank can connect to another program's listener.
#[test]
fn an_impostor_of_rank_0_cannot_stop_or_end_a_rank() {
    let training = Training::new("impostor", 2);
    let impostor = TcpListener::bind(("127.0.0.1", training.port)).unwrap();
    let mut rank = training.start(1);
    let messages = [
        json!({"kind": "end", "reason": "Error", "text": "over", "rank": 1, "code": 1}),
        json!({"kind": "finish"}),
        json!({"kind": "start", "attempt": 1, "failed": 0, "used": 0, "first_start": 1.0}),
    ];
    for (number, message) in messages.iter().enumerate() {
        let (mut stream, _) = impostor.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let greeting = format!("gpuctl/1 {}\n", "cd".repeat(32));
        let forged = match number {
            0 => format!("{message}\n"),
            1 => format!("{greeting}{} {message}\n", "0".repeat(64)),
            _ => format!("{greeting}{message}\n"),
        };
        stream.write_all(forged.as_bytes()).unwrap();
        read_to_end(stream);
    }
    assert!(rank.is_running(), "{}", training.log(1));
    assert_eq!(training.attempts(1), "");
    drop(impostor);
    let first = training.start(0);
    training.until("both ranks run", || {
        training.attempts(0) == "1" && training.attempts(1) == "1"
    });
    training.assert_success(vec![first, rank]);
}

fn read_to_end(mut stream: TcpStream) {
    let mut rest = Vec::new();
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_ne!(
            error.kind(),
            std::io::ErrorKind::WouldBlock,
            "the rank keeps the connection"
        );
    }
}

#[test]
fn a_single_rank_listens_on_loopback_only() {
    let training = Training::new("alone", 1);
    let ranks = training.first(1);
    training.until("it runs", || training.attempts(0) == "1");
    let listens = |address: &str| TcpStream::connect((address, training.port)).is_ok();
    assert!(listens("127.0.0.1"));
    assert!(
        !listens("127.0.0.2"),
        "a socket that is bound to all addresses would answer here"
    );
    training.assert_success(ranks);
}
