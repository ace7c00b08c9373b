//! Serves list requests with any number of copies of three objects: a node, a pod with a GPU and a
//! pod without one. Responds in JSON or protobuf.
//!
//! The originals come from a real API server. All names have the same width, so a copy differs from
//! its original only in digits.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use gpuctl_sandbox::{Cluster, Persona};

/// An encoded object to copy.
#[derive(Clone)]
struct Template {
    bytes: Vec<u8>,
    /// Byte offsets of the pod's name.
    pods: Vec<usize>,
    /// Byte offsets of the node's name.
    nodes: Vec<usize>,
}

/// The variable part of pod names.
const POD: &[u8] = b"-0000001";
const NODE: &[u8] = b"n-00001";
/// GPUs per node. Once all are in use, the remaining pods are created without a GPU, because they
/// would not fit.
const GPUS: usize = 8;

/// A pod with a GPU, a node, and a pod without a GPU but with an owner, in JSON and in protobuf.
#[derive(Clone)]
pub struct Sample {
    json: [Template; 3],
    protobuf: [Template; 3],
}

fn offsets(bytes: &[u8], name: &[u8]) -> Vec<usize> {
    bytes
        .windows(name.len())
        .enumerate()
        .filter(|(_, window)| *window == name)
        .map(|(offset, _)| offset)
        .collect()
}

impl Template {
    fn new(bytes: Vec<u8>) -> Self {
        let (pods, nodes) = (offsets(&bytes, POD), offsets(&bytes, NODE));
        Self { bytes, pods, nodes }
    }

    /// Appends a copy of the object for this pod and node number.
    fn copy(&self, pod: usize, node: usize, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&self.bytes);
        let (pod, node) = (format!("-{pod:07}"), format!("n-{node:05}"));
        for (offsets, name) in [(&self.pods, &pod), (&self.nodes, &node)] {
            offsets.iter().for_each(|offset| {
                to[start + offset..start + offset + name.len()].copy_from_slice(name.as_bytes());
            });
        }
    }
}

fn fetched(cluster: &Cluster, path: &str, accept: &str) -> Vec<u8> {
    let output = Command::new("curl")
        .args([
            "-sSfk",
            "-H",
            &format!("Authorization: Bearer {}", cluster.token(Persona::Admin)),
            "-H",
            &format!("Accept: {accept}"),
        ])
        .arg(format!("{}{path}", cluster.api_server()))
        .output()
        .expect("curl starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

fn varint(mut number: usize, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    to.push(number.to_le_bytes()[0]);
}

fn field(number: usize, content: &[u8], to: &mut Vec<u8>) {
    varint(number << 3 | 2, to);
    varint(content.len(), to);
    to.extend_from_slice(content);
}

/// Extracts the object from the `Unknown` envelope of Kubernetes' protobuf encoding: its second
/// field, after the four magic bytes.
fn object(answer: &[u8]) -> Vec<u8> {
    let length = |at: &mut usize| {
        let (mut value, mut shift) = (0_usize, 0);
        loop {
            let byte = answer[*at];
            *at += 1;
            value |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    };
    let mut at = 4;
    loop {
        let (key, size) = (length(&mut at), length(&mut at));
        if key >> 3 == 2 {
            return answer[at..at + size].to_vec();
        }
        at += size;
    }
}

impl Sample {
    /// Reads the objects to copy from a filled cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let admin = cluster.kubectl(Persona::Admin);
        let mut without = crate::pod(1);
        without["metadata"]["name"] = "q-0000001".into();
        // The owner's kind is not installed, so the garbage collector ignores it. Copies on the
        // same node share an owner.
        without["metadata"]["ownerReferences"] = serde_json::json!([{"apiVersion": "example.com/v1", "kind": "Sweep", "name": "sweep-n-00001",
            "uid": "00000000-0000-0000-0000-n-00001", "controller": true}]);
        without["spec"]["containers"][0]["resources"]["limits"]
            .as_object_mut()
            .expect("an object")
            .remove("nvidia.com/gpu");
        admin.run_with(&["create", "-f", "-"], &without.to_string());
        admin.until(&["get", "pod", "q-0000001", "-n", "team-1"], |pod| {
            pod["status"]["phase"] == "Running"
        });
        let paths = [
            "/api/v1/namespaces/team-1/pods/p-0000001",
            "/api/v1/nodes/n-00001",
            "/api/v1/namespaces/team-1/pods/q-0000001",
        ];
        Self {
            json: paths.map(|path| Template::new(fetched(cluster, path, "application/json"))),
            protobuf: paths.map(|path| {
                Template::new(object(&fetched(
                    cluster,
                    path,
                    "application/vnd.kubernetes.protobuf",
                )))
            }),
        }
    }

    /// Creates the objects to copy in an empty cluster, then reads them.
    pub fn small(cluster: &Cluster) -> Self {
        let admin = cluster.kubectl(Persona::Admin);
        let product = Some(("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"));
        cluster.add_nodes(&[gpuctl_sandbox::nodes::node(
            "n-00001",
            product,
            &[("nvidia.com/gpu", 8)],
        )]);
        admin.run(&["create", "namespace", "team-1"]);
        admin.run_with(&["create", "-f", "-"], &crate::pod(1).to_string());
        admin.until(&["get", "pod", "p-0000001", "-n", "team-1"], |pod| {
            pod["status"]["phase"] == "Running"
        });
        Self::new(cluster)
    }

    /// Returns a pod's size in bytes, in JSON and in protobuf.
    pub fn sizes(&self) -> (usize, usize) {
        (self.json[0].bytes.len(), self.protobuf[0].bytes.len())
    }

    /// Serves `nodes` nodes and `pods` pods until the process ends. Returns the server's URL.
    pub fn serve(&self, nodes: usize, pods: usize, with_protobuf: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!(
            "http://{}",
            listener.local_addr().expect("the listener has an address")
        );
        let sample = Arc::new(self.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sample = Arc::clone(&sample);
                thread::spawn(move || sample.answer(stream, nodes, pods, with_protobuf));
            }
        });
        address
    }

    fn answer(&self, stream: TcpStream, nodes: usize, pods: usize, with_protobuf: bool) {
        let (mut reader, mut stream) = (
            BufReader::new(stream.try_clone().expect("a socket")),
            stream,
        );
        loop {
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap_or(0) > 2 {}
            if head.is_empty() {
                return;
            }
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length: ")?
                    .parse()
                    .ok()
            });
            reader
                .by_ref()
                .take(length.unwrap_or(0))
                .read_to_end(&mut Vec::new())
                .expect("the client writes");
            let target = head.split(' ').nth(1).unwrap_or_default();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let number = |key: &str| {
                query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix(key)?.parse::<usize>().ok())
            };
            let protobuf = with_protobuf
                && head
                    .to_ascii_lowercase()
                    .contains("accept: application/vnd.kubernetes.protobuf");
            let (from, limit) = (
                number("continue=").unwrap_or(0),
                number("limit=").unwrap_or(usize::MAX),
            );
            let body = match path {
                // The pods do not have gpuctl's labels, so a list with a label selector is empty.
                "/api/v1/pods" if !query.contains("labelSelector") => {
                    self.list(0, from, limit.min(pods - from), pods, nodes, protobuf)
                }
                "/api/v1/nodes" => {
                    self.list(1, from, limit.min(nodes - from), nodes, nodes, protobuf)
                }
                _ => br#"{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}"#.to_vec(),
            };
            let media = if body.starts_with(b"k8s\0") {
                "application/vnd.kubernetes.protobuf"
            } else {
                "application/json"
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            if stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&body))
                .is_err()
            {
                return;
            }
        }
    }

    fn list(
        &self,
        which: usize,
        from: usize,
        count: usize,
        all: usize,
        nodes: usize,
        protobuf: bool,
    ) -> Vec<u8> {
        let end = from + count;
        let next = if end < all {
            end.to_string()
        } else {
            String::new()
        };
        let numbers = (from..end).map(|index| match which {
            0 if index < nodes * GPUS => (0, index, index % nodes),
            0 => (2, index, index % nodes),
            _ => (which, 0, index),
        });
        if !protobuf {
            let mut body = format!("{{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"1\",\"continue\":\"{next}\"}},\"items\":[").into_bytes();
            for (index, (which, pod, node)) in numbers.enumerate() {
                body.extend_from_slice(if index == 0 { b"" } else { b"," });
                self.json[which].copy(pod, node, &mut body);
            }
            body.extend_from_slice(b"]}");
            return body;
        }
        let (mut metadata, mut raw) = (Vec::new(), Vec::new());
        field(2, b"1", &mut metadata);
        field(3, next.as_bytes(), &mut metadata);
        field(1, &metadata, &mut raw);
        for (which, pod, node) in numbers {
            varint(2 << 3 | 2, &mut raw);
            varint(self.protobuf[which].bytes.len(), &mut raw);
            self.protobuf[which].copy(pod, node, &mut raw);
        }
        let mut body = b"k8s\0".to_vec();
        field(2, &raw, &mut body);
        body
    }
}
