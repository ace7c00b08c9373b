//! A line between a program and a server: counts the bytes of the answers, and takes as long as a
//! far network does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Opens a line to `target` (`host:port`) on which every byte is `delay` under way, in either
/// direction; the bytes that come back are added to `received`. Returns the near end as
/// `host:port`.
pub fn open(target: &str, delay: Duration, received: &Arc<AtomicU64>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener
        .local_addr()
        .expect("it has an address")
        .to_string();
    let (received, target) = (Arc::clone(received), target.to_owned());
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&target).expect("the server listens");
            for end in [&near, &far] {
                end.set_nodelay(true).expect("it is open");
            }
            pass(
                near.try_clone().expect("it can be shared"),
                far.try_clone().expect("it can be shared"),
                delay,
                None,
            );
            pass(far, near, delay, Some(Arc::clone(&received)));
        }
    });
    address
}

/// Passes on what arrives, `delay` later.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration, count: Option<Arc<AtomicU64>>) {
    let (sender, arrived) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, piece) in arrived {
            thread::sleep(at.saturating_duration_since(Instant::now()));
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
