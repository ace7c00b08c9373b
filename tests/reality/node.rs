//! Tests the sandbox's real node itself, on which other tests rely.

use std::fs;
use std::process::Command;

use gpuctl_sandbox::{Cluster, Hardware, Options, Persona};
use serde_json::json;

use crate::runner::run;
use crate::support::{Scene, cluster, eventually};

/// The toolbox's training is real: its loss decreases, and it saves and resumes from checkpoints.
#[test]
fn a_training_runs_in_a_real_container() {
    let scene = Scene::new("real-training");
    scene.train("fit", "train --steps 60 --pause 20ms --checkpoints /tmp/c && echo $NVIDIA_VISIBLE_DEVICES && train --steps 80 --checkpoints /tmp/c", "");
    scene.until("fit", "succeeded", None);
    let log = scene.gpuctl(&["logs", "fit"]).ok().out;
    let losses: Vec<f64> = log
        .lines()
        .filter_map(|line| {
            line.split_once("loss=")?
                .1
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .collect();
    assert_eq!(losses.len(), 8, "{log}");
    assert!(losses[0] > 5.0 * losses[7], "{losses:?}");
    assert!(log.contains("resumed from step 60"), "{log}");
    // The device plugin assigned one of the node's devices.
    assert!(log.contains("\nGPU-0-"), "{log}");
}

#[test]
fn the_kubelet_reports_which_container_holds_which_device() {
    let scene = Scene::new("real-devices");
    scene.train("two", "sleep 300", "resources: {pool: real, gpu: 2}");
    scene.until("two", "running", None);
    let pod = scene.pods("two")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let inside = scene
        .gpuctl(&[
            "exec",
            "two",
            "--",
            "sh",
            "-c",
            "echo $NVIDIA_VISIBLE_DEVICES",
        ])
        .ok()
        .out;
    let mut ids: Vec<&str> = inside.trim().split(',').collect();
    ids.sort_unstable();
    let owner = format!("real-devices/{pod}/main");
    let holders = cluster().on_real_node(0, |node| node.holders());
    let held: Vec<&str> = holders
        .iter()
        .filter(|(_, holder)| **holder == owner)
        .map(|(id, _)| id.as_str())
        .collect();
    assert_eq!(held, ids);
    scene.gpuctl(&["delete", "job", "two", "--force"]).ok();
}

/// Covers the pod network between two nodes, DNS, an unhealthy device, claims (dynamic resource
/// allocation), a kubelet restart, and cleanup.
#[test]
#[expect(
    clippy::disallowed_macros,
    reason = "the test reports what it skips on this machine"
)]
fn real_nodes_network_fail_restart_and_clean_up() {
    let cluster = Cluster::start(&Options {
        with_real_nodes: true,
        ..Options::default()
    })
    .unwrap();
    let admin = cluster.kubectl(Persona::Admin);
    cluster
        .add_real_node(&Hardware {
            claims: 1,
            ..Hardware::gpus(2)
        })
        .unwrap();
    cluster.add_real_node(&Hardware::gpus(1)).unwrap();
    // Pods on different nodes can reach each other by DNS name.
    let pod = |name: &str, node: &str, script: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
               "spec": {"nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [
                   {"name": "main", "image": "toolbox:1", "command": ["sh", "-c", script]}]}})
    };
    admin.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
                        "spec": {"clusterIP": "None", "selector": {"app": "server"}, "ports": [{"port": 8000}]}}));
    admin.apply(&pod("server", "gpu-real-0", "serve 8000"));
    let request_script = "until exec 3<>/dev/tcp/server.default.svc.cluster.local/8000; do sleep 0.3; done; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    admin.apply(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"},
        "spec": {"nodeName": "gpu-real-1", "restartPolicy": "Never", "containers": [
            {"name": "main", "image": "toolbox:1", "command": ["bash", "-c", request_script]}]}}),
    );
    admin.until(&["get", "pod", "client"], |pod| {
        pod["status"]["phase"] == "Succeeded"
    });
    assert!(
        admin
            .run(&["logs", "client"])
            .contains("server serves on GPUs")
    );
    // If iptables is installed, a Service's cluster IP is also reachable from the other node.
    if Command::new("iptables")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        admin.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "address"},
                            "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8000}]}}));
        let address = admin.json(&["get", "service", "address"])["spec"]["clusterIP"]
            .as_str()
            .unwrap()
            .to_owned();
        let request_script = request_script.replace(
            "server.default.svc.cluster.local/8000",
            &format!("{address}/80"),
        );
        admin.apply(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-address"},
            "spec": {"nodeName": "gpu-real-1", "restartPolicy": "Never", "containers": [
                {"name": "main", "image": "toolbox:1", "command": ["bash", "-c", request_script]}]}}),
        );
        admin.until(&["get", "pod", "by-address"], |pod| {
            pod["status"]["phase"] == "Succeeded"
        });
        assert!(
            admin
                .run(&["logs", "by-address"])
                .contains("server serves on GPUs")
        );
    } else {
        eprintln!("cluster IPs of Services were not tested: this machine has no iptables");
    }

    // An unhealthy device is no longer allocatable.
    let allocatable = |count: &'static str| {
        admin.until(&["get", "node", "gpu-real-0"], move |node| {
            node["status"]["allocatable"]["nvidia.com/gpu"] == count
        })
    };
    cluster.on_real_node(0, |node| node.set_health(1, false));
    allocatable("1");

    // The claim is allocated, and the container gets its device.
    admin.apply(&json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"},
         "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
         "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claimer"}, "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            "containers": [{"name": "main", "image": "toolbox:1", "command": ["sh", "-c", "echo on $NVIDIA_VISIBLE_DEVICES; sleep 300"],
                            "resources": {"claims": [{"name": "gpu"}]}}]}},
    ]}));
    admin.until(&["get", "pod", "claimer"], |pod| {
        pod["status"]["phase"] == "Running"
    });
    eventually("the container logs its device", || {
        let log = admin.run(&["logs", "claimer"]);
        if log.contains("on gpu-0-2") {
            Ok(())
        } else {
            Err(log)
        }
    });
    let holders = cluster.on_real_node(0, |node| node.holders());
    assert_eq!(
        holders.get("gpu-0-2").map(String::as_str),
        Some("default/claimer/main")
    );

    // On a node that offers devices only through claims, gpuctl creates the job with a claim.
    cluster
        .add_real_node(&Hardware {
            claims: 2,
            ..Hardware::gpus(0).in_pool("claims")
        })
        .unwrap();
    let yaml = "kind: training\nversion: v0.1\njob: {name: both}\nenvironment: {image: 'toolbox:1', command: 'echo on $NVIDIA_VISIBLE_DEVICES; sleep 300'}\nresources: {gpu: 2, pool: claims}\n";
    let run_gpuctl = |arguments: &[&str], input: &str| {
        let mut command = crate::runner::gpuctl();
        command
            .env("KUBECONFIG", cluster.kubeconfig(Persona::Admin))
            .args(arguments);
        run(command, input)
    };
    eventually("the driver offers its devices", || {
        let created = run_gpuctl(&["create", "-f", "-", "--wait", "--timeout", "60s"], yaml);
        if created.code == 0 {
            Ok(())
        } else {
            Err(created.err)
        }
    });
    eventually("the job logs its devices", || {
        let log = run_gpuctl(&["logs", "both"], "").out;
        if log.contains("gpu-2-0") && log.contains("gpu-2-1") {
            Ok(())
        } else {
            Err(log)
        }
    });
    let jobs = run_gpuctl(&["get", "jobs", "--no-progress", "-o", "json"], "")
        .ok()
        .json();
    assert_eq!(jobs["items"][0]["gpu"], 2, "{jobs:#}");
    let nodes = run_gpuctl(&["get", "nodes", "--pool", "claims", "-o", "json"], "")
        .ok()
        .json();
    assert_eq!(
        (
            &nodes["items"][0]["gpuTotal"],
            &nodes["items"][0]["gpuFree"]
        ),
        (&json!(2), &json!(0)),
        "{nodes:#}"
    );
    run_gpuctl(&["delete", "job", "both", "--force"], "").ok();

    // The plugin registers with the restarted kubelet, and the device is healthy again.
    cluster.on_real_node(0, |node| node.stop("kubelet"));
    cluster.on_real_node(0, |node| node.start_again("kubelet"));
    cluster.on_real_node(0, |node| node.set_health(1, true));
    allocatable("2");

    // No process, mount or folder may remain. Processes outside the node's namespaces take a moment
    // longer to end.
    let folder = cluster.folder().to_owned();
    drop(cluster);
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    // Another cluster's number may begin with the same digit.
    let pattern = format!("{name}([^0-9]|$)");
    eventually("all traces of the cluster are removed", || {
        let processes = Command::new("pgrep")
            .args(["-a", "-f", &pattern])
            .output()
            .unwrap();
        let processes = String::from_utf8_lossy(&processes.stdout).into_owned();
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mounted: Vec<&str> = mounts
            .lines()
            .filter(|line| line.contains(&format!("{name}/")))
            .collect();
        let names = fs::read_dir(folder.parent().unwrap())
            .unwrap()
            .filter_map(Result::ok);
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let leftovers: Vec<String> = names
            .filter(|entry| {
                entry
                    .strip_prefix(&name)
                    .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
            })
            .collect();
        if processes.is_empty() && mounted.is_empty() && leftovers.is_empty() {
            Ok(())
        } else {
            Err(format!("{processes}{mounted:?}{leftovers:?}"))
        }
    });
}
