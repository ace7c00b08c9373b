//! Tests the conversion of other tools' job files, field by field, and checks which fields are
//! reported as omitted.

use super::*;
use crate::spec;

/// Converts a text to a single document, which must be a valid manifest.
#[track_caller]
fn one(text: &str) -> Converted {
    let mut converted =
        convert(text, Some("image:1")).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(converted.len(), 1, "{converted:#?}");
    let converted = converted.remove(0);
    let yaml = serde_saphyr::to_string(&converted.document).unwrap();
    if let Err(problems) = spec::parse("", &yaml) {
        panic!("{:?}\n{yaml}", problems.list);
    }
    converted
}

#[test]
fn a_job_with_gpus_is_a_training() {
    let converted = one(r"
apiVersion: batch/v1
kind: Job
metadata: {name: bert, namespace: ml, labels: {team: a, app.kubernetes.io/name: bert}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimit: 2
  activeDeadlineSeconds: 3600
  podFailurePolicy: {rules: []}
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB, disk: ssd}
      tolerations: [{key: gpu, operator: Exists}]
      imagePullSecrets: [{name: registry}]
      priorityClassName: urgent
      volumes:
        - {name: data, persistentVolumeClaim: {claimName: datasets}}
        - {name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}
        - {name: out, hostPath: {path: /mnt/out}}
        - {name: odd, nfs: {server: a, path: /b}}
      containers:
        - name: main
          image: bert:1
          command: [torchrun, train.py]
          env:
            - {name: LR, value: '0.1'}
            - {name: TOKEN, valueFrom: {secretKeyRef: {name: hub, key: token}}}
            - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
          resources: {limits: {nvidia.com/gpu: 8, memory: 64Gi, rdma/hca: 1}, requests: {cpu: 16}}
          volumeMounts:
            - {name: data, mountPath: /data, subPath: x}
            - {name: shm, mountPath: /dev/shm}
            - {name: out, mountPath: /out, readOnly: true}
            - {name: odd, mountPath: /odd}
");
    let document = &converted.document;
    assert_eq!(document["kind"], "training");
    assert_eq!(
        document["job"],
        json!({"name": "bert", "namespace": "ml", "labels": {"team": "a"}, "retries": 2, "max_runtime": "3600s", "priority": "urgent"})
    );
    assert_eq!(
        document["resources"],
        json!({"gpu-type": "a100-80g", "cpu": 16, "memory": "64Gi", "gpu": 8, "shm": "16Gi", "node_count": 4})
    );
    assert_eq!(
        document["environment"]["env"][1],
        json!({"name": "TOKEN", "secret": "hub", "key": "token"})
    );
    assert_eq!(
        document["storage"]["workdirs"],
        json!([{"path": "/data", "pvc": "datasets", "sub_path": "x"}, {"path": "/out", "read_only": true, "host_path": "/mnt/out"}])
    );
    assert_eq!(document["pod"]["nodeSelector"], json!({"disk": "ssd"}));
    for omission in [
        "podFailurePolicy",
        "env[NODE]",
        "rdma/hca",
        "volumeMounts[odd]",
        "labels[app.kubernetes.io/name]",
    ] {
        assert!(
            converted.omitted.iter().any(|line| line.contains(omission)),
            "{omission}: {:#?}",
            converted.omitted
        );
    }
    assert_eq!(converted.omitted.len(), 5, "{:#?}", converted.omitted);
}

#[test]
fn a_deployment_with_a_service_becomes_an_inference() {
    let converted = one(r"
apiVersion: v1
kind: Service
metadata: {name: llm}
spec: {type: LoadBalancer, selector: {app: llm}, ports: [{port: 80, targetPort: 8000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 2
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec:
      containers:
        - image: vllm/vllm-openai:v1
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 5}
          resources: {limits: {nvidia.com/gpu: '2'}}
");
    assert_eq!(
        (&converted.document["kind"], &converted.omitted),
        (&json!("inference"), &Vec::new())
    );
    assert_eq!(
        converted.document["service"],
        json!({"replicas": 2, "targetPort": 8000, "port": 80, "type": "LoadBalancer",
            "health_check": {"path": "/health", "port": 8000, "period": "5s"}})
    );
    let by_name = one(
        "kind: Service\nmetadata: {name: a, annotations: {x: y}}\nspec: {selector: {a: b}, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: web}]}\n---\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {a: b, team: c}}, spec: {containers: [{image: i, ports: [{name: metrics, containerPort: 9090}, {name: web, containerPort: 8080}]}]}}}\n",
    );
    assert_eq!(
        by_name.document["service"],
        json!({"targetPort": 8080, "port": 80})
    );
    for omission in [
        "sessionAffinity",
        "annotations[x]",
        "ports[9090]",
        "labels[team]",
    ] {
        assert!(
            by_name.omitted.iter().any(|line| line.contains(omission)),
            "{omission}: {:#?}",
            by_name.omitted
        );
    }
    let refused = convert(
        "kind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{image: i}]}}}\n",
        None,
    );
    assert!(
        refused
            .unwrap_err()
            .message
            .contains("does not specify a port")
    );
}

#[test]
fn a_pytorchjob_has_the_pods_of_all_its_roles() {
    let role = |count: u32| {
        format!(
            "{{replicas: {count}, template: {{spec: {{containers: [{{image: i, command: [torchrun, t.py], resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}}}"
        )
    };
    let converted = one(&format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: pt}}\nspec:\n  runPolicy: {{backoffLimit: 1, schedulingPolicy: {{minAvailable: 4, queue: team-a, minResources: {{cpu: 4}}}}}}\n  elasticPolicy: {{minReplicas: 1}}\n  pytorchReplicaSpecs: {{Master: {}, Worker: {}}}\n",
        role(1),
        role(3)
    ));
    assert_eq!(
        converted.document["resources"],
        json!({"gpu": 8, "node_count": 4})
    );
    assert_eq!(converted.document["job"]["queue"], "team-a");
    assert_eq!(
        converted.omitted,
        [
            "spec.elasticPolicy",
            "spec.runPolicy.schedulingPolicy.minResources"
        ]
    );
}

#[test]
fn a_slurm_script_becomes_a_training() {
    let converted = one(r#"#!/bin/bash
#SBATCH --job-name="Llama_SFT"
#SBATCH -N 4 --ntasks-per-node=1
#SBATCH --gres=gpu:a100:8   # all of a node
#SBATCH --cpus-per-task=64 --mem=512G
#SBATCH --time=2-12:00:00
#SBATCH -p train --account=research
#SBATCH --output=logs/%j.out
#SBATCH --mail-type=END
module load cuda/12.4

source venv/bin/activate
export MASTER=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
srun --kill-on-bad-exit=1 torchrun --nnodes=$SLURM_NNODES --id $SLURM_SUBMIT_HOST train.py
"#);
    let document = &converted.document;
    assert_eq!(
        document["job"],
        json!({"max_runtime": "216000s", "retries": 0, "name": "llama-sft", "labels": {"account": "research"}})
    );
    assert_eq!(
        document["resources"],
        json!({"gpu-type": "a100", "pool": "train", "gpu": 8, "node_count": 4, "cpu": 64, "memory": "512Gi"})
    );
    let command = document["environment"]["command"].as_str().unwrap();
    assert_eq!(
        command,
        "export MASTER=$MASTER_ADDR\ntorchrun --nnodes=$NNODES --id $SLURM_SUBMIT_HOST train.py"
    );
    for omission in [
        "--job-name",
        "--output",
        "--mail-type=END",
        "module load",
        "srun --kill-on-bad-exit=1",
        "source venv/bin/activate: the image must provide this environment",
        "$SLURM_SUBMIT_HOST is not set",
        "train.py: pods cannot access the directory",
    ] {
        assert!(
            converted.omitted.iter().any(|line| line.contains(omission)),
            "{omission}: {:#?}",
            converted.omitted
        );
    }
    let refused = |text: &str| convert(text, Some("i")).unwrap_err().message;
    assert!(
        refused("#SBATCH --array=0-9999\npython a.py\n").contains("defines more than 256 jobs")
    );
    assert!(
        refused("#SBATCH --gpus=5 --nodes=2\npython a.py\n")
            .contains("5 GPUs cannot be divided evenly across 2 nodes")
    );
    assert!(refused("#SBATCH --time=soon\npython a.py\n").contains("invalid `--time=soon`"));
    assert!(
        convert("#SBATCH -G 1\npython a.py\n", None)
            .unwrap_err()
            .message
            .contains("does not specify a container image")
    );
    let uneven = one(
        "#!/usr/bin/env python3\n#SBATCH --gres=gpu:a100:4,lscratch:100 --ntasks-per-node=8 --mem=0 -p a,b\nsrun -n 4 --mpi=pmix python t.py\n",
    );
    assert_eq!(
        (
            &uneven.document["resources"]["gpu"],
            &uneven.document["environment"]["command"]
        ),
        (&json!(4), &json!("python t.py"))
    );
    for omission in [
        "lscratch:100",
        "multiple tasks per node",
        "--mem=0",
        "--partition=b",
        "srun -n 4 --mpi=pmix",
        "the script runs in sh",
    ] {
        assert!(
            uneven.omitted.iter().any(|line| line.contains(omission)),
            "{omission}: {:#?}",
            uneven.omitted
        );
    }
    let split = one("#SBATCH --nodes=2 --gpus=8 --mem-per-gpu=10G\npython a.py\n");
    assert_eq!(
        split.document["resources"],
        json!({"gpu": 4, "node_count": 2, "memory": "40Gi"})
    );
}

#[test]
fn an_array_is_a_document_for_each_index() {
    let converted = convert(
        "#SBATCH -J sweep --array=1-5:2%2 -G 1\npython -m t --seed $SLURM_ARRAY_TASK_ID\n",
        Some("i"),
    )
    .unwrap();
    let names: Vec<&str> = converted
        .iter()
        .map(|element| element.document["job"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sweep-1", "sweep-3", "sweep-5"]);
    for (element, index) in converted.iter().zip(["1", "3", "5"]) {
        assert_eq!(
            element.document["environment"]["env"]["SLURM_ARRAY_TASK_ID"],
            index
        );
        assert_eq!(
            element.document["environment"]["env"]["SLURM_ARRAY_TASK_COUNT"],
            "3"
        );
        let yaml = serde_saphyr::to_string(&element.document).unwrap();
        assert!(spec::parse("", &yaml).is_ok(), "{yaml}");
    }
    assert!(
        converted[0]
            .omitted
            .iter()
            .any(|line| line.contains("not 2 at a time")),
        "{:#?}",
        converted[0].omitted
    );
}

#[test]
fn the_slurm_script_of_the_pytorch_tutorial_is_converted() {
    let converted = convert(
        r#"#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8
nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
nodes_array=($nodes)
head_node=${nodes_array[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 /shared/multinode.py 50 10
"#,
        Some("i"),
    )
    .unwrap()
    .remove(0);
    let command = converted.document["environment"]["command"]
        .as_array()
        .unwrap();
    assert_eq!(command[..2], [json!("bash"), json!("-c")]);
    let script = command[2].as_str().unwrap();
    assert!(script.contains("head_node_ip=$MASTER_ADDR\n"), "{script}");
    assert!(script.ends_with("--nnodes $NNODES --nproc_per_node 8 --rdzv_id slurm-job --rdzv_backend c10d --rdzv_endpoint $head_node_ip:29500 /shared/multinode.py 50 10"), "{script}");
    assert!(
        !script.contains("scontrol")
            && converted
                .omitted
                .iter()
                .any(|line| line.contains("scontrol")),
        "{:#?}",
        converted.omitted
    );
}

#[test]
fn tasks_of_skypilot_and_dstack_are_trainings() {
    let sky = one(r#"
name: sky_sft
num_nodes: 2
resources: {accelerators: A100-80GB:8, cpus: 32+, memory: 256, image_id: docker:pytorch:2.9, use_spot: true}
envs: {LR: "0.1"}
workdir: .
setup: pip install -r requirements.txt
run: |
  MASTER=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes=$SKYPILOT_NUM_NODES --node_rank=$SKYPILOT_NODE_RANK train.py
"#);
    assert_eq!(
        sky.document["resources"],
        json!({"gpu": 8, "gpu-type": "a100-80g", "node_count": 2, "cpu": 32, "memory": "256Gi"})
    );
    let command = sky.document["environment"]["command"].as_str().unwrap();
    assert_eq!(
        command,
        "pip install -r requirements.txt\nMASTER=$MASTER_ADDR\ntorchrun --nnodes=$NNODES --node_rank=$NODE_RANK train.py"
    );
    assert!(
        sky.omitted
            .iter()
            .any(|line| line.starts_with("task.workdir")),
        "{:#?}",
        sky.omitted
    );
    let dstack = one(r"
type: service
name: llama
image: vllm/vllm-openai:v0.9.0
env: [MODEL=llama, HF_TOKEN]
commands: [vllm serve $MODEL --port 8000]
port: 8000
replicas: 2
resources: {gpu: H100:80GB:2, memory: 64GB.., shm_size: 16GB}
");
    assert_eq!(
        (&dstack.document["kind"], &dstack.document["service"]),
        (&json!("inference"), &json!({"port": 8000, "replicas": 2}))
    );
    assert_eq!(
        dstack.document["resources"],
        json!({"gpu": 2, "gpu-type": "h100", "memory": "64Gi"})
    );
    assert!(
        dstack
            .omitted
            .iter()
            .any(|line| line.contains("env.HF_TOKEN")),
        "{:#?}",
        dstack.omitted
    );
}

#[test]
fn sets_of_pods_of_one_kind_are_trainings() {
    let template = "{spec: {containers: [{name: c, image: i, command: [torchrun, t], resources: {limits: {nvidia.com/gpu: 4}}}]}}";
    let set = |name: &str| {
        format!(
            "{{name: {name}, replicas: 2, template: {{spec: {{parallelism: 2, completions: 2, template: {template}}}}}}}"
        )
    };
    let converted = one(&format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: s, labels: {{kueue.x-k8s.io/queue-name: q}}}}\nspec: {{failurePolicy: {{maxRestarts: 2}}, replicatedJobs: [{}]}}\n",
        set("w")
    ));
    assert_eq!(
        converted.document["job"],
        json!({"name": "s", "queue": "q", "retries": 2})
    );
    assert_eq!(
        converted.document["resources"],
        json!({"gpu": 4, "node_count": 4})
    );
    let refused = convert(
        &format!(
            "kind: JobSet\nmetadata: {{name: s}}\nspec: {{replicatedJobs: [{}, {}]}}\n",
            set("a"),
            set("b")
        ),
        None,
    );
    assert!(
        refused
            .unwrap_err()
            .message
            .contains("its 2 replicated jobs (a, b) have different pods")
    );
    let mpi = one(&format!(
        "kind: MPIJob\nmetadata: {{name: m}}\nspec: {{slotsPerWorker: 4, mpiReplicaSpecs: {{Launcher: {{replicas: 1, template: {{spec: {{containers: [{{image: i, command: [mpirun, -n, '8', python, t]}}]}}}}}}, Worker: {{replicas: 2, template: {template}}}}}}}\n"
    ));
    assert_eq!(
        mpi.document["resources"],
        json!({"gpu": 4, "node_count": 2})
    );
    assert_eq!(
        mpi.document["environment"]["command"],
        json!(["mpirun", "-n", "8", "python", "t"])
    );
    assert!(
        mpi.omitted
            .iter()
            .any(|line| line.contains("mpirun starts its processes over SSH")),
        "{:#?}",
        mpi.omitted
    );
}

#[test]
fn files_without_a_workload_are_refused() {
    let refused = |text: &str| convert(text, None).unwrap_err().message;
    assert_eq!(
        refused("kind: DaemonSet\nmetadata: {name: a}\n"),
        "kind `DaemonSet` is not supported"
    );
    for kind in [
        "CronJob",
        "RayJob",
        "RayCluster",
        "RayService",
        "LeaderWorkerSet",
        "InferenceService",
        "StatefulSet",
    ] {
        let file = format!(
            "kind: {kind}\nspec: {{a: [{{image: ray:2, resources: {{limits: {{nvidia.com/gpu: 4}}}}}}]}}\n"
        );
        let refused = convert(&file, None).unwrap_err();
        assert!(
            refused
                .message
                .starts_with(&format!("kind `{kind}` is not supported: ")),
            "{refused:?}"
        );
        assert!(
            refused
                .hint
                .ends_with("the source uses images: ray:2; GPUs in the largest container: 4"),
            "{refused:?}"
        );
    }
    let compose = convert(
        "services: {web: {image: nginx}, db: {image: postgres}}\n",
        None,
    )
    .unwrap_err();
    assert!(
        compose.message.contains("(db, web)") || compose.message.contains("(web, db)"),
        "{compose:?}"
    );
    assert!(
        compose.hint.contains("images: nginx, postgres"),
        "{compose:?}"
    );
    assert!(refused("type: dev-environment\nide: vscode\n").contains("an editor server"));
    assert_eq!(refused("a: b\n"), "it has no `kind`");
    assert_eq!(
        refused("kind: Service\nmetadata: {name: a}\n"),
        "it contains no workload"
    );
    assert!(refused("{").starts_with("it is not valid YAML"));
}
