//! Two small servers. One is a SOCKS5 proxy that records the requested destinations, and the other
//! is a Prometheus that answers every query with the same series.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// The destinations in the order of the connections, as `host NAME` or `address IP`.
pub type Destinations = Arc<Mutex<Vec<String>>>;

/// Starts a SOCKS5 proxy that redirects every connection to a port of this machine. Returns its
/// port.
pub fn socks5(to: u16) -> (u16, Destinations) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Destinations::default();
    let record = Arc::clone(&seen);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let record = Arc::clone(&record);
            std::thread::spawn(move || drop(tunnel(client, to, &record)));
        }
    });
    (port, seen)
}

/// Serves one connection. Source of the message format: RFC 1928.
fn tunnel(mut client: TcpStream, to: u16, seen: &Destinations) -> std::io::Result<()> {
    let mut bytes = |count: usize| {
        let mut buffer = vec![0; count];
        client.read_exact(&mut buffer).map(|()| buffer)
    };
    let methods = bytes(2)?[1];
    bytes(methods.into())?;
    client.write_all(&[5, 0])?;
    let mut bytes = |count: usize| {
        let mut buffer = vec![0; count];
        client.read_exact(&mut buffer).map(|()| buffer)
    };
    let kind = bytes(4)?[3];
    let destination = match kind {
        1 => format!("address {:?}", bytes(4)?),
        3 => {
            let length = bytes(1)?[0];
            format!("host {}", String::from_utf8_lossy(&bytes(length.into())?))
        }
        _ => format!("address {:?}", bytes(16)?),
    };
    bytes(2)?;
    seen.lock().unwrap().push(destination);
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    client.write_all(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 0])?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(std::net::Shutdown::Write);
    });
    std::io::copy(&mut server, &mut client)?;
    client.shutdown(std::net::Shutdown::Both)
}

/// Starts a Prometheus that answers every query with one series that has these labels. Returns its
/// port.
pub fn prometheus(labels: Value) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let labels = labels.clone();
            std::thread::spawn(move || drop(answer(client, &labels)));
        }
    });
    port
}

/// Answers one request and closes the connection.
fn answer(mut client: TcpStream, labels: &Value) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? < 3 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let now = jiff::Timestamp::now().as_second();
    let data = match first.contains("query_range") {
        true => {
            json!({"resultType": "matrix", "result": [{"metric": labels, "values": [[now - 60, "1"], [now, "1"]]}]})
        }
        false if first.contains("/query") => {
            json!({"resultType": "vector", "result": [{"metric": labels, "value": [now, "1"]}]})
        }
        false => json!({"version": "3.0.0"}),
    };
    let body = json!({"status": "success", "data": data}).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
    write!(
        client,
        "{head}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
