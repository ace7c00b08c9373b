//! A TCP proxy between a program and a server, which counts the bytes of responses and simulates
//! the delay of a distant network.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Starts a proxy for `target` (`host:port`) that delays every byte by `delay` in both directions,
/// and adds the size of the responses to `received`. Returns its address as `host:port`.
pub fn open(target: &str, delay: Duration, received: &Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener
        .local_addr()
        .expect("the listener has an address")
        .to_string();
    let (received, target) = (Arc::clone(received), target.to_owned());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&target).expect("the server listens");
            for stream in [&client, &server] {
                stream.set_nodelay(true).expect("the socket is open");
            }
            forward(
                client.try_clone().expect("the socket can be shared"),
                server.try_clone().expect("the socket can be shared"),
                delay,
                None,
            );
            forward(server, client, delay, Some(Arc::clone(&received)));
        }
    });
    address
}

/// Forwards the bytes of one direction, delaying each by `delay`.
fn forward(mut from: TcpStream, mut to: TcpStream, delay: Duration, count: Option<Arc<AtomicU64>>) {
    let (sender, receiver) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, piece) in receiver {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Write));
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if let Some(count) = &count {
                count.fetch_add(length as u64, Ordering::SeqCst);
            }
            if sender
                .send((Instant::now() + delay, buffer[..length].to_vec()))
                .is_err()
            {
                break;
            }
        }
    });
}
