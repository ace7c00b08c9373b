//! Tests which paths of an ended job can be copied, and the spec of the pod that copies them.

use super::*;

fn owner() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "a", "namespace": "team", "uid": "u1"},
        "spec": {"template": {"spec": {
            "schedulerName": "volcano",
            "priorityClassName": "gpuctl-high",
            "runtimeClassName": "nvidia",
            "nodeSelector": {"zone": "z1"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "imagePullSecrets": [{"name": "hub"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}},
                "podAntiAffinity": {"x": 1},
            },
            "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
            "volumes": [
                {"name": "out", "persistentVolumeClaim": {"claimName": "a-out"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
                {"name": "deep", "persistentVolumeClaim": {"claimName": "deep"}},
                {"name": "tmp", "emptyDir": {}},
            ],
            "containers": [
                {"name": "log-agent", "image": "agent"},
                {
                    "name": "main", "image": "image:1", "workingDir": "/out/run",
                    "resources": {"limits": {"nvidia.com/gpu": 8}},
                    "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN"]}},
                    "volumeMounts": [
                        {"name": "out", "mountPath": "/out", "subPath": "me"},
                        {"name": "tmp", "mountPath": "/out/tmp"},
                        {"name": "data", "mountPath": "/data/"},
                        {"name": "deep", "mountPath": "/out/deep"},
                        {"name": "data", "mountPath": "/ranked", "subPathExpr": "$(RANK)"},
                    ],
                },
            ],
        }}},
    })
}

fn build(path: &str) -> Result<CopyPod, NotOnClaim> {
    copy_pod(&owner(), None, path, "bcdfg")
}

#[test]
fn a_path_is_resolved_without_symlinks() {
    let path = |text: &str| build(text).map(|pod| pod.path);
    assert_eq!(path("/out/x").as_deref(), Ok("/out/x"));
    assert_eq!(path("//out/./x//").as_deref(), Ok("/out/x"));
    assert_eq!(path("/data").as_deref(), Ok("/data"));
    assert_eq!(path("x/y").as_deref(), Ok("/out/run/x/y"), "workingDir");
    for escape in ["/out/../etc", "/out/x/..", "../data", ".."] {
        assert_eq!(path(escape), Err(NotOnClaim::Parent), "{escape}");
    }
    let mut no_folder = owner();
    no_folder["spec"]["template"]["spec"]["containers"][1]["workingDir"] = Value::Null;
    let relative = copy_pod(&no_folder, None, "x", "b").err();
    assert_eq!(relative, Some(NotOnClaim::Relative));
}

#[test]
fn paths_without_a_claim_are_lost() {
    let existing = [
        ("/out", "a-out"),
        ("/data/", "shared"),
        ("/out/deep", "deep"),
    ]
    .map(|(path, claim)| (path.to_owned(), claim.to_owned()));
    for lost in [
        "/",
        "/etc/passwd",
        "/outer",
        "/output/x",
        "/out/tmp",
        "/out/tmp/x",
        "/ranked/x",
    ] {
        assert_eq!(
            build(lost),
            Err(NotOnClaim::Lost(existing.to_vec())),
            "{lost}"
        );
    }
    assert!(build("/out/tmpfile").is_ok(), "only a similar name");
}

#[test]
fn only_claims_on_the_way_are_mounted() {
    let claims = |path: &str| build(path).unwrap().claims;
    assert_eq!(claims("/out/x"), ["a-out"]);
    assert_eq!(claims("/out"), ["a-out", "deep"]);
    assert_eq!(claims("/data/x"), ["shared"]);
}

#[test]
fn the_pod_only_reads_and_belongs_to_the_job() {
    let body = build("/out/x").unwrap().object.body;
    let metadata = &body["metadata"];
    assert_eq!(metadata["name"], "a-cp-bcdfg");
    assert_eq!(metadata["namespace"], "team");
    assert_eq!(
        metadata["labels"],
        json!({"app.kubernetes.io/managed-by": "gpuctl", "gpuctl/copy-of": "a"})
    );
    assert_eq!(
        metadata["ownerReferences"],
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "u1"}])
    );
    let spec = &body["spec"];
    for absent in ["schedulerName", "priorityClassName", "runtimeClassName"] {
        assert!(spec[absent].is_null(), "{absent}");
    }
    assert_eq!(spec["activeDeadlineSeconds"], COPY_SECONDS);
    assert_eq!(spec["nodeSelector"], json!({"zone": "z1"}));
    assert_eq!(
        spec["affinity"],
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}})
    );
    assert_eq!(
        spec["securityContext"],
        json!({"runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(
        spec["volumes"],
        json!([{"name": "out", "persistentVolumeClaim": {"claimName": "a-out", "readOnly": true}}])
    );
    let container = &spec["containers"][0];
    assert_eq!(container["image"], "image:1");
    assert_eq!(
        container["volumeMounts"],
        json!([{"name": "out", "mountPath": "/out", "subPath": "me", "readOnly": true}])
    );
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "privileged": false,
            "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        })
    );
    assert!(!body.to_string().contains("nvidia.com/gpu"), "no device");
}

#[test]
fn a_container_can_be_chosen() {
    let chosen = copy_pod(&owner(), Some("nope"), "/out/x", "b").err();
    let names = ["log-agent", "main"].map(ToOwned::to_owned).to_vec();
    assert_eq!(chosen, Some(NotOnClaim::NoContainer(names)));
    let chosen = copy_pod(&owner(), Some("log-agent"), "/out/x", "b").err();
    assert_eq!(chosen, Some(NotOnClaim::Lost(Vec::new())));
}
