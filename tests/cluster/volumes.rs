//! Tests that every form of workdir is mounted in pods, and that gpuctl warns about claims that no
//! storage class can provision.

use serde_json::{Value, json};

use crate::support::{Scene, file, items};

#[test]
fn pods_mount_every_form_of_workdir() {
    let scene = Scene::with_nodes("volumes", 1);
    file("small.json", "{}\n");
    let yaml = scene.service(
        "web",
        "vllm",
        2,
        "model: {name: m, path: /models/m, cache: true}
storage:
  workdirs:
    - /data/train.jsonl
    - {path: /data/ro, host_path: /mnt/data, read_only: true}
    - {path: /shared, pvc: team, sub_path: web, read_only: true}
    - {path: /out, size: 5Gi}
    - {path: /scratch, emptyDir: true}
    - {path: /etc/app, configmap: settings}
    - {path: /etc/keys, secret: keys}
files: {conf/ds.json: small.json}",
    );
    let path = file("web.yaml", &yaml);
    scene
        .gpuctl(&["create", "--allow-pending", "-f", path.to_str().unwrap()])
        .ok();
    let pod = scene.get_until(&["pods"], |list| !items(list).is_empty());
    let spec = items(&pod).remove(0)["spec"].clone();
    let volume = |path: &str| -> (Value, Value) {
        let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = mounts
            .iter()
            .find(|mount| mount["mountPath"] == path)
            .unwrap_or_else(|| panic!("{path}: {mounts:#?}"))
            .clone();
        let volume = spec["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap();
        (mount, volume.clone())
    };
    let host = |path: &str| volume(path).1["hostPath"].clone();
    assert_eq!(
        host("/data/train.jsonl"),
        json!({"path": "/data/train.jsonl", "type": "File"})
    );
    assert_eq!(
        host("/data/ro"),
        json!({"path": "/mnt/data", "type": "Directory"})
    );
    assert_eq!(
        host("/models/m"),
        json!({"path": "/models/m", "type": "Directory"})
    );
    assert_eq!(
        host("/cache/models"),
        json!({"path": "/cache/models", "type": "DirectoryOrCreate"})
    );
    let (mount, shared) = volume("/shared");
    assert_eq!(
        (&mount["subPath"], &mount["readOnly"]),
        (&json!("web"), &json!(true))
    );
    assert_eq!(
        shared["persistentVolumeClaim"],
        json!({"claimName": "team", "readOnly": true})
    );
    assert_eq!(
        volume("/out").1["persistentVolumeClaim"]["claimName"],
        "web-out"
    );
    assert_eq!(volume("/scratch").1["emptyDir"], json!({}));
    assert_eq!(volume("/etc/app").1["configMap"]["name"], "settings");
    assert_eq!(volume("/etc/keys").1["secret"]["secretName"], "keys");
    let (mount, files) = volume("/workspace/conf/ds.json");
    assert_eq!(
        (&mount["subPath"], &files["configMap"]["name"]),
        (&json!("file-0"), &json!("web-files"))
    );
    assert_eq!(
        scene.get(&["pvc", "web-out"])["spec"]["accessModes"],
        json!(["ReadWriteMany"]),
        "two pods mount the claim"
    );
    let env = spec["containers"][0]["env"].as_array().unwrap();
    assert!(
        env.contains(&json!({"name": "MODEL_PATH", "value": "/models/m"})),
        "{env:#?}"
    );
}

#[test]
fn an_unsuitable_storage_class_causes_a_warning() {
    let scene = Scene::with_nodes("classes", 1);
    scene
        .admin
        .apply(&json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk-of-one-node"},
        "provisioner": "ebs.csi.aws.com"}));
    let claim = |name: &str, extra: &str| {
        format!("storage: {{workdirs: [{{path: /{name}, size: 1Gi{extra}}}]}}")
    };
    scene
        .serve(
            "many",
            "vllm",
            2,
            &claim("a", ", storageClass: disk-of-one-node"),
        )
        .says("supports only one node at a time");
    let one = scene.serve(
        "one",
        "vllm",
        1,
        &claim("b", ", storageClass: disk-of-one-node"),
    );
    assert!(!one.err.contains("one node at a time"), "{}", one.err);
    scene
        .serve("none", "vllm", 1, &claim("c", ", storageClass: absent"))
        .says("storage class `absent` does not exist, but claim none-c needs it");
    let fine = scene.serve("fine", "vllm", 2, &claim("d", ""));
    assert!(!fine.err.contains("class"), "{}", fine.err);
    scene
        .serve(
            "rwo",
            "vllm",
            2,
            &claim("e", ", access_mode: ReadWriteOnce"),
        )
        .says("pods on other nodes will wait");
}
