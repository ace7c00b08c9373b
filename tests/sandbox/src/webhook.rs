//! An admission webhook whose decisions come from a closure, like a policy engine in a real
//! cluster. It uses the API server's TLS certificate, which is valid for this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// Decides on an AdmissionReview request: `None` admits it, a status denies it.
pub type Judge = Box<dyn Fn(&Value) -> Option<Value> + Send + Sync>;

/// Serves until this process ends, with the key from the cluster's folder. Returns its port.
pub fn serve(folder: &Path, judge: Judge) -> Result<u16> {
    let certificate =
        CertificateDer::from_pem_file(folder.join("api.crt")).context("no certificate")?;
    let key = PrivateKeyDer::from_pem_file(folder.join("api.key")).context("no key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate], key)?);
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let port = listener.local_addr()?.port();
    let judge = Arc::new(judge);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, judge) = (Arc::clone(&config), Arc::clone(&judge));
            thread::spawn(move || {
                let connection = ServerConnection::new(config)?;
                answer(StreamOwned::new(connection, stream), &judge)
            });
        }
    });
    Ok(port)
}

/// Answers one request and closes the connection.
fn answer(stream: impl Read + Write, judge: &Judge) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let review: Value = serde_json::from_slice(&body)?;
    let refusal = judge(&review["request"]);
    let mut response = json!({"uid": review["request"]["uid"], "allowed": refusal.is_none()});
    if let Some(status) = refusal {
        response["status"] = status;
    }
    let text =
        json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
            .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let stream = reader.get_mut();
    stream.write_all(head.as_bytes())?;
    stream.write_all(text.as_bytes())?;
    Ok(stream.flush()?)
}
