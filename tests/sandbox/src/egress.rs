//! The transport from the API server to pods: an HTTP CONNECT proxy on a Unix socket (the API
//! server's egress selector).
//!
//! Simulated pods have no network, so a table maps their addresses to ports of this machine.
//! Loopback addresses are dialed directly, and a real node's addresses go to that node's proxy.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result};

/// The proxy's routes, which clones share.
#[derive(Clone, Default)]
pub struct Routes {
    /// Port on 127.0.0.1, by pod address such as `10.0.0.9:9090`.
    ports: Arc<Mutex<HashMap<String, u16>>>,
    /// Proxy sockets of real nodes, by node index.
    nodes: Arc<Mutex<HashMap<usize, PathBuf>>>,
}

impl Routes {
    pub fn add(&self, address: &str, port: u16) {
        self.ports
            .lock()
            .expect("no holder panics")
            .insert(address.to_owned(), port);
    }

    pub fn add_node(&self, index: usize, socket: PathBuf) {
        self.nodes
            .lock()
            .expect("no holder panics")
            .insert(index, socket);
    }

    /// The proxy socket of the node that an address belongs to. The first node is 10.77.0.1, and
    /// its pods are in 10.77.1.0/24.
    fn node(&self, target: &str) -> Option<PathBuf> {
        let mut numbers = target
            .strip_prefix("10.77.")?
            .split(['.', ':'])
            .map_while(|number| number.parse::<usize>().ok());
        let index = match (numbers.next()?, numbers.next()?) {
            (0, node) | (node, _) => node.checked_sub(1)?,
        };
        self.nodes
            .lock()
            .expect("no holder panics")
            .get(&index)
            .cloned()
    }

    fn port(&self, target: &str) -> Option<u16> {
        self.ports
            .lock()
            .expect("no holder panics")
            .get(target)
            .copied()
    }
}

/// Serves the proxy until this process ends.
pub fn serve(socket: &Path, routes: Routes) -> Result<()> {
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot listen on {}", socket.display()))?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let routes = routes.clone();
            thread::spawn(move || connect(stream, &routes));
        }
    });
    Ok(())
}

fn connect(stream: UnixStream, routes: &Routes) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let target = request
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let mut client = stream;
    if let Some(socket) = routes.node(&target) {
        let Ok(mut server) = UnixStream::connect(socket) else {
            return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
        };
        // The node's proxy answers the CONNECT request.
        write!(
            server,
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        )?;
        let (from_server, back) = (server.try_clone()?, client.try_clone()?);
        splice(reader, server, from_server, back, |server| {
            drop(server.shutdown(Shutdown::Write))
        });
        return Ok(());
    }
    let address = if target.starts_with("127.0.0.1:") {
        Some(target)
    } else {
        routes.port(&target).map(|port| format!("127.0.0.1:{port}"))
    };
    let Some(Ok(server)) = address.map(TcpStream::connect) else {
        return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n");
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (from_server, back) = (server.try_clone()?, client.try_clone()?);
    splice(reader, server, from_server, back, |server| {
        drop(server.shutdown(Shutdown::Write))
    });
    Ok(())
}

/// Forwards all connections from `socket` to a port of 127.0.0.1 until this process ends. Real
/// nodes reach the API server this way.
pub fn forward_to_port(socket: &Path, port: u16) -> Result<()> {
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot listen on {}", socket.display()))?;
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || -> io::Result<()> {
                let server = TcpStream::connect(("127.0.0.1", port))?;
                let (from_server, back, reader) = (
                    server.try_clone()?,
                    client.try_clone()?,
                    BufReader::new(client),
                );
                splice(reader, server, from_server, back, |server| {
                    drop(server.shutdown(Shutdown::Write))
                });
                Ok(())
            });
        }
    });
    Ok(())
}

/// Copies in both directions until both sides have ended.
fn splice<S: Write>(
    mut from_client: impl io::Read,
    mut to_server: S,
    mut from_server: impl io::Read + Send + 'static,
    mut to_client: UnixStream,
    end: impl FnOnce(&S),
) {
    let down = thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let _ = io::copy(&mut from_client, &mut to_server);
    end(&to_server);
    let _ = down.join();
}
