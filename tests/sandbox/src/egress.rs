//! The road from the API server to pods: an HTTP CONNECT proxy on a Unix socket (the API server's egress selector).
//! Simulated pods have no network, so a pod's address leads to a port of this machine by a table; loopback goes as
//! it is.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};

/// `10.0.0.9:9090` → the port on 127.0.0.1 that answers for it.
pub type Roads = Arc<Mutex<HashMap<String, u16>>>;

/// Serves until the process ends.
pub fn serve(socket: &Path, roads: Roads) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let roads = Arc::clone(&roads);
            thread::spawn(move || connect(stream, &roads));
        }
    });
    Ok(())
}

fn connect(stream: UnixStream, roads: &Roads) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let target = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let address = match target.strip_prefix("127.0.0.1:") {
        Some(_) => Some(target),
        None => roads.lock().expect("no holder panics").get(&target).map(|port| format!("127.0.0.1:{port}")),
    };
    let mut client = stream;
    let Some(Ok(server)) = address.map(TcpStream::connect) else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let down = thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let mut to_server = server;
    let _ = io::copy(&mut reader, &mut to_server);
    let _ = to_server.shutdown(Shutdown::Write);
    let _ = down.join();
    Ok(())
}
