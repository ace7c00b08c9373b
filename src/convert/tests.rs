//! Job files of others, field by field, and what of them is said to be lost.

use super::*;
use crate::spec;

/// Returns the one document that a text becomes, which our own reader takes.
#[track_caller]
fn one(text: &str) -> Converted {
    let mut found = convert(text, Some("image:1")).unwrap_or_else(|refused| panic!("{refused:?}"));
    assert_eq!(found.len(), 1, "{found:#?}");
    let found = found.remove(0);
    let yaml = serde_saphyr::to_string(&found.document).unwrap();
    if let Err(problems) = spec::parse("", &yaml) {
        panic!("{:?}\n{yaml}", problems.list);
    }
    found
}

#[test]
fn a_job_with_gpus_is_a_training() {
    let found = one(r"
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
    let document = &found.document;
    assert_eq!(document["kind"], "training");
    assert_eq!(
        document["job"],
        json!({"name": "bert", "namespace": "ml", "labels": {"team": "a"}, "retries": 2, "max_runtime": "3600s", "priority": "urgent"})
    );
    assert_eq!(
        document["resources"],
        json!({"gpu-type": "a100-80g", "cpu": 16, "memory": "64Gi", "gpu": 8, "shm": "16Gi", "node_count": 4})
    );
    assert_eq!(document["environment"]["env"][1], json!({"name": "TOKEN", "secret": "hub", "key": "token"}));
    assert_eq!(
        document["storage"]["workdirs"],
        json!([{"path": "/data", "pvc": "datasets", "sub_path": "x"}, {"path": "/out", "read_only": true, "host_path": "/mnt/out"}])
    );
    assert_eq!(document["pod"]["nodeSelector"], json!({"disk": "ssd"}));
    for lost in ["podFailurePolicy", "env[NODE]", "rdma/hca", "volumeMounts[odd]", "labels[app.kubernetes.io/name]"] {
        assert!(found.lost.iter().any(|line| line.contains(lost)), "{lost}: {:#?}", found.lost);
    }
    assert_eq!(found.lost.len(), 5, "{:#?}", found.lost);
}

#[test]
fn a_deployment_with_its_service_serves() {
    let found = one(r"
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
    assert_eq!((&found.document["kind"], &found.lost), (&json!("inference"), &Vec::new()));
    assert_eq!(
        found.document["service"],
        json!({"replicas": 2, "targetPort": 8000, "port": 80, "type": "LoadBalancer",
            "health_check": {"path": "/health", "port": 8000, "period": "5s"}})
    );
    let by_name = one(
        "kind: Service\nmetadata: {name: a, annotations: {x: y}}\nspec: {selector: {a: b}, sessionAffinity: ClientIP, ports: [{port: 80, targetPort: web}]}\n---\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {a: b, team: c}}, spec: {containers: [{image: i, ports: [{name: metrics, containerPort: 9090}, {name: web, containerPort: 8080}]}]}}}\n",
    );
    assert_eq!(by_name.document["service"], json!({"targetPort": 8080, "port": 80}));
    for lost in ["sessionAffinity", "annotations[x]", "ports[9090]", "labels[team]"] {
        assert!(by_name.lost.iter().any(|line| line.contains(lost)), "{lost}: {:#?}", by_name.lost);
    }
    let refused = convert("kind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{image: i}]}}}\n", None);
    assert!(refused.unwrap_err().message.contains("names no port"));
}

#[test]
fn a_pytorch_job_is_as_many_pods_as_it_has_roles() {
    let role = |count: u32| {
        format!(
            "{{replicas: {count}, template: {{spec: {{containers: [{{image: i, command: [torchrun, t.py], resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]}}}}}}"
        )
    };
    let found = one(&format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: pt}}\nspec:\n  runPolicy: {{backoffLimit: 1, schedulingPolicy: {{minAvailable: 4}}}}\n  elasticPolicy: {{minReplicas: 1}}\n  pytorchReplicaSpecs: {{Master: {}, Worker: {}}}\n",
        role(1),
        role(3)
    ));
    assert_eq!(found.document["resources"], json!({"gpu": 8, "node_count": 4}));
    assert_eq!(found.lost, ["spec.elasticPolicy", "spec.runPolicy.schedulingPolicy"]);
}

#[test]
fn a_script_of_slurm_is_a_training() {
    let found = one(r#"#!/bin/bash
#SBATCH --job-name="Llama_SFT"
#SBATCH -N 4 --ntasks-per-node=1
#SBATCH --gres=gpu:a100:8   # all of a node
#SBATCH --cpus-per-task=64 --mem=512G
#SBATCH --time=2-12:00:00
#SBATCH -p train --account=research
#SBATCH --output=logs/%j.out
#SBATCH --mail-type=END
module load cuda/12.4

export MASTER=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)
srun --kill-on-bad-exit=1 torchrun --nnodes=$SLURM_NNODES train.py
"#);
    let document = &found.document;
    assert_eq!(document["job"], json!({"max_runtime": "216000s", "name": "llama-sft", "labels": {"account": "research"}}));
    assert_eq!(
        document["resources"],
        json!({"gpu-type": "a100", "pool": "train", "gpu": 8, "node_count": 4, "cpu": 64, "memory": "512Gi"})
    );
    let command = document["environment"]["command"].as_str().unwrap();
    assert!(command.ends_with("\ntorchrun --nnodes=$SLURM_NNODES train.py"), "{command}");
    for lost in [
        "--job-name",
        "--output",
        "--mail-type=END",
        "module load",
        "srun --kill-on-bad-exit=1",
        "SLURM_JOB_NODELIST",
        "SLURM_NNODES",
    ] {
        assert!(found.lost.iter().any(|line| line.contains(lost)), "{lost}: {:#?}", found.lost);
    }
    let refused = |text: &str| convert(text, Some("i")).unwrap_err().message;
    assert!(refused("#SBATCH --array=0-9\npython a.py\n").contains("an array of jobs (`--array=0-9`)"));
    assert!(refused("#SBATCH --gpus=5 --nodes=2\npython a.py\n").contains("5 GPUs do not divide over 2 nodes"));
    assert!(refused("#SBATCH --time=soon\npython a.py\n").contains("cannot be read"));
    assert!(convert("#SBATCH -G 1\npython a.py\n", None).unwrap_err().message.contains("no container image"));
    let odd = one(
        "#!/usr/bin/env python3\n#SBATCH --gres=gpu:a100:4,lscratch:100 --ntasks-per-node=8 --mem=0 -p a,b\nsrun -n 4 --mpi=pmix python t.py\n",
    );
    assert_eq!((&odd.document["resources"]["gpu"], &odd.document["environment"]["command"]), (&json!(4), &json!("python t.py")));
    for lost in
        ["lscratch:100", "several tasks per node", "--mem=0", "--partition=b", "srun -n 4 --mpi=pmix", "the lines run in sh"]
    {
        assert!(odd.lost.iter().any(|line| line.contains(lost)), "{lost}: {:#?}", odd.lost);
    }
    let split = one("#SBATCH --nodes=2 --gpus=8 --mem-per-gpu=10G\npython a.py\n");
    assert_eq!(split.document["resources"], json!({"gpu": 4, "node_count": 2, "memory": "40Gi"}));
}

#[test]
fn what_is_no_workload_is_refused() {
    let refused = |text: &str| convert(text, None).unwrap_err().message;
    assert_eq!(refused("kind: StatefulSet\nmetadata: {name: a}\n"), "`StatefulSet` is no kind that can be converted");
    assert_eq!(refused("a: b\n"), "it has no `kind`");
    assert_eq!(refused("kind: Service\nmetadata: {name: a}\n"), "it holds no workload");
    assert!(refused("{").starts_with("it is no YAML"));
}
