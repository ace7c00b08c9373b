//! Checks that ranks can find each other through the environment that the API server has for their
//! pods. Two processes use it on loopback, in the same way as torch's `env://` init method.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use gpuctl_sandbox::eventually;
use gpuctl_sandbox::nodes::{in_pool, node};
use serde_json::{Value, json};

use crate::support::{A100, GPU, Scene, cluster, finish};

/// Returns the environment variables of a pod's container as the kubelet would set them.
fn environment(pod: &Value) -> Vec<(String, String)> {
    let container = &pod["spec"]["containers"][0];
    let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
    let read = |variable: &Value| {
        let path = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
        let value = match path {
            // The Job controller appends a variable of its own, whose value comes from the label.
            Some(
                "metadata.annotations['batch.kubernetes.io/job-completion-index']"
                | "metadata.labels['batch.kubernetes.io/job-completion-index']",
            ) => index.as_str()?.to_owned(),
            Some("metadata.uid") => pod["metadata"]["uid"].as_str()?.to_owned(),
            Some(other) => {
                let (map, key) = other
                    .strip_prefix("metadata.")?
                    .strip_suffix("']")?
                    .split_once("['")?;
                pod["metadata"][map][key]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            }
            None => variable["value"].as_str().unwrap_or_default().to_owned(),
        };
        Some((variable["name"].as_str()?.to_owned(), value))
    };
    container["env"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(read)
        .collect()
}

fn value<'a>(environment: &'a [(String, String)], name: &str) -> Option<&'a str> {
    environment
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.as_str())
}

/// Runs one rank. Rank 0 listens, adds up the numbers that its peers send, and returns the sum to
/// them.
fn meet(rank: u32, world: u32, address: &str, port: u16) -> u32 {
    if rank == 0 {
        let listener = TcpListener::bind((address, port)).unwrap();
        let mut peers: Vec<TcpStream> = (1..world).map(|_| listener.accept().unwrap().0).collect();
        let read = |peer: &mut TcpStream| {
            let mut bytes = [0; 4];
            peer.read_exact(&mut bytes).unwrap();
            u32::from_be_bytes(bytes)
        };
        let sum = peers.iter_mut().map(read).sum();
        peers
            .iter_mut()
            .for_each(|peer| peer.write_all(&u32::to_be_bytes(sum)).unwrap());
        return sum;
    }
    let what = format!("rank {rank} connects to rank 0");
    let mut master = eventually(&what, Duration::from_secs(20), || {
        TcpStream::connect((address, port))
    });
    master.write_all(&rank.to_be_bytes()).unwrap();
    let mut bytes = [0; 4];
    master.read_exact(&mut bytes).unwrap();
    u32::from_be_bytes(bytes)
}

/// The test below runs this test in child processes. Run separately, it is a world of one rank.
#[test]
fn one_rank_meets_its_peers() {
    let number =
        |name: &str, alone: u32| std::env::var(name).map_or(alone, |text| text.parse().unwrap());
    let world = number("NNODES", 1);
    let port = std::env::var("MASTER_PORT").map_or(0, |text| text.parse().unwrap());
    let sum = meet(number("NODE_RANK", 0), world, "127.0.0.1", port);
    assert_eq!(sum, (1..world).sum::<u32>());
}

#[test]
fn two_processes_meet_using_the_environment_of_the_pods() {
    let scene = Scene::with_nodes("rendezvous", 2);
    scene
        .create("a", "environment: {image: busybox, command: torchrun train.py}\nresources: {pool: POOL, gpu: 8, node_count: 2}");
    scene.until("a", "running", None);
    let environments: Vec<_> = scene.pods("a").iter().map(environment).collect();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
        .to_string();
    let mut children = Vec::new();
    for (rank, environment) in environments.iter().enumerate() {
        for (name, expected) in [
            ("NODE_RANK", rank.to_string().as_str()),
            ("PET_NODE_RANK", &rank.to_string()),
            ("NNODES", "2"),
            ("PET_NNODES", "2"),
            ("NPROC_PER_NODE", "8"),
            ("PET_NPROC_PER_NODE", "8"),
            ("MASTER_PORT", "29500"),
            ("PET_MASTER_PORT", "29500"),
            ("MASTER_ADDR", "a-0.a.rendezvous.svc"),
            ("PET_MASTER_ADDR", "a-0.a.rendezvous.svc"),
        ] {
            assert_eq!(
                value(environment, name),
                Some(expected),
                "{name} of rank {rank}"
            );
        }
        // torchrun sets these for its own processes. Set on the pod, they would be wrong.
        assert_eq!(
            (value(environment, "WORLD_SIZE"), value(environment, "RANK")),
            (None, None)
        );
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "rendezvous::one_rank_meets_its_peers"])
            .env_clear()
            .envs(environment.iter().cloned())
            // The name resolves only inside a cluster, and the port may be in use on this machine.
            .env("MASTER_PORT", &port)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        children.push(child);
    }
    for child in children {
        let run = finish(child, Duration::from_secs(60)).ok();
        assert!(run.out.contains("1 passed"), "{}", run.out);
    }
    // The headless Service publishes the name of rank 0 before the pod is ready.
    let service = scene.get(&["service", "a"]);
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    let first = &scene.pods("a")[0];
    assert_eq!(
        (
            first["spec"]["hostname"].as_str(),
            first["spec"]["subdomain"].as_str()
        ),
        (Some("a-0"), Some("a"))
    );
}

#[test]
fn a_process_per_pod_gets_process_ranks() {
    let scene = Scene::with_nodes("ranks", 1);
    scene.create("a", "environment: {image: busybox, command: python train.py}\nresources: {pool: POOL, gpu: 1, node_count: 2}");
    scene.until("a", "running", None);
    for (rank, pod) in scene.pods("a").iter().enumerate() {
        let environment = environment(pod);
        assert_eq!(value(&environment, "WORLD_SIZE"), Some("2"));
        assert_eq!(value(&environment, "RANK"), Some(rank.to_string().as_str()));
        assert_eq!(value(&environment, "LOCAL_RANK"), Some("0"));
    }
}

/// There are two racks, each with two nodes of one GPU. Three trainings run one after the other,
/// each within one rack.
#[test]
fn ranks_are_placed_in_one_rack() {
    let scene = Scene::new("racks");
    let nodes: Vec<_> = (0..4)
        .map(|index| {
            let mut node = in_pool(
                node(&format!("racks-{index}"), Some(A100), &[(GPU, 1)]),
                "racks",
            );
            node["metadata"]["labels"]["topology.kubernetes.io/rack"] =
                json!(format!("rack-{}", index % 2));
            node
        })
        .collect();
    cluster().add_nodes(&nodes);
    for turn in 0..3 {
        let name = format!("near-{turn}");
        scene.create(
            &name,
            "job: {name: NAME, topology: rack}\nresources: {pool: racks, gpu: 1, node_count: 2}",
        );
        scene.until(&name, "running", None);
        let racks: Vec<usize> = scene
            .pods(&name)
            .iter()
            .map(|pod| {
                pod["spec"]["nodeName"]
                    .as_str()
                    .unwrap()
                    .trim_start_matches("racks-")
                    .parse::<usize>()
                    .unwrap()
                    % 2
            })
            .collect();
        assert_eq!(racks[0], racks[1], "{name}");
        scene.gpuctl(&["delete", "job", &name, "--force"]).ok();
    }
    let far = scene.training(
        "far",
        "job: {name: far, topology: block}\nresources: {pool: racks, gpu: 1, node_count: 2}",
    );
    scene
        .gpuctl_with(&["create", "-f", "-"], &far)
        .exits(3)
        .says("no node has a label for `block`");
}
