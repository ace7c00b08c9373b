//! Tests the sandbox itself, on which other tests rely.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use gpuctl_sandbox::{Cluster, Options, Persona, eventually, nodes};

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("the server reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the server answers");
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
    // The API server reaches the aggregated API through the egress proxy.
    assert!(
        admin
            .run(&["get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"])
            .contains("custom.metrics.k8s.io")
    );
    // Prometheus scrapes kube-state-metrics.
    let address = cluster
        .prometheus()
        .trim_start_matches("http://")
        .to_owned();
    let count = format!("\"{}\"]", fleet.len());
    eventually(
        "Prometheus has series of all nodes",
        Duration::from_secs(60),
        || get(&address, "/api/v1/query?query=count(kube_node_info)").contains(&count),
    );
    // Personas have no permissions unless a test binds a role.
    let refused = cluster
        .kubectl(Persona::Alice)
        .try_run(&["get", "nodes"], "");
    assert!(!refused.status.success());
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists(), "a temporary cluster left its folder");
}
