//! The sandbox itself, with everything that can be asked for: what it promises to the tests that
//! stand on it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use gpuctl_sandbox::{Cluster, Options, Persona, nodes};

/// A GET without a client library.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn every_part_answers() {
    let cluster = Cluster::start(&Options {
        with_adapter: true,
        ..Options::default()
    })
    .unwrap_or_else(|error| panic!("{error:#}"));
    let fleet = nodes::fleet();
    cluster.add_nodes(&fleet);
    let admin = cluster.kubectl(Persona::Admin);
    assert_eq!(
        admin.json(&["get", "nodes"])["items"]
            .as_array()
            .map(Vec::len),
        Some(fleet.len())
    );
    assert!(admin.run(&["version"]).contains("v1.36.3"));
    // The aggregated API is reached through the egress road.
    assert!(
        admin
            .run(&["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"])
            .contains("custom.metrics.k8s.io")
    );
    // kube-state-metrics is scraped, and Prometheus knows the nodes.
    let address = cluster
        .prometheus()
        .trim_start_matches("http://")
        .to_owned();
    let end = Instant::now() + Duration::from_secs(60);
    let count = format!("\"{}\"]", fleet.len());
    while !get(&address, "/api/v1/query?query=count(kube_node_info)").contains(&count) {
        assert!(Instant::now() < end, "Prometheus never saw the nodes");
        std::thread::sleep(Duration::from_millis(200));
    }
    // Personas have no rights but those that a test binds.
    let refused = cluster
        .kubectl(Persona::Alice)
        .try_run(&["get", "nodes"], "");
    assert!(!refused.status.success());
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists(), "a temporary cluster leaves nothing");
}
