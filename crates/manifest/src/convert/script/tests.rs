//! Tests the translation of batch scripts.

use super::*;

const CONTEXT: ScriptContext<'_> = ScriptContext {
    name: "sft",
    one_task_per_pod: true,
    cpus: Some(16),
};

fn lines(text: &str) -> (String, Vec<String>) {
    let script = translate(text, &CONTEXT);
    (script.text, script.omitted)
}

#[test]
fn slurm_variables_are_translated() {
    for (slurm, expected) in [
        (
            "srun torchrun --nnodes=$SLURM_NNODES t",
            "torchrun --nnodes=$NNODES t",
        ),
        (
            "torchrun --node_rank ${SLURM_PROCID}",
            "torchrun --node_rank ${NODE_RANK}",
        ),
        (
            "HEAD=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)",
            "HEAD=$MASTER_ADDR",
        ),
        (
            "head_ip=$(srun --nodes=1 --ntasks=1 -w \"$head_node\" hostname --ip-address)",
            "head_ip=$MASTER_ADDR",
        ),
        ("torchrun --rdzv_id $RANDOM", "torchrun --rdzv_id sft"),
        (
            "x --id $SLURM_JOB_ID -c $SLURM_CPUS_PER_TASK",
            "x --id sft -c 16",
        ),
        (
            "A=$(echo \"$SKYPILOT_NODE_IPS\" | head -n1)",
            "A=$MASTER_ADDR",
        ),
        (
            "t --rank $DSTACK_NODE_RANK --of $DSTACK_NODES_NUM",
            "t --rank $NODE_RANK --of $NNODES",
        ),
        (
            "t --n=${SLURM_NNODES:-1} log_${SLURM_NODEID}_x",
            "t --n=${NNODES:-1} log_${NODE_RANK}_x",
        ),
        ("OUT=/o/${SLURM_JOB_ID:-local}", "OUT=/o/sft"),
        (
            "MASTER_PORT=29500 torchrun t",
            "MASTER_PORT=29500 torchrun t",
        ),
        ("run $SLURM_ARRAY_TASK_ID", "run $SLURM_ARRAY_TASK_ID"),
    ] {
        assert_eq!(lines(slurm), (expected.to_owned(), vec![]), "{slurm}");
    }
}

#[test]
fn unsupported_fields_are_named() {
    for (slurm, expected, note) in [
        (
            "source venv/bin/activate\npython3 -V",
            "python3 -V",
            "source venv/bin/activate: the image must provide this environment",
        ),
        (
            "conda activate x && torchrun t",
            "torchrun t",
            "conda activate x: the image must provide this environment",
        ),
        (
            "module load cuda; srun a",
            "a",
            "module load cuda: the image must provide this environment",
        ),
        (
            "srun --nodes 2 --ntasks-per-node 1 torchrun t",
            "torchrun t",
            "srun --nodes 2 --ntasks-per-node 1: each pod runs the command once",
        ),
        (
            "srun \\\n  --ntasks=1 \\\n  torchrun t",
            "torchrun t",
            "srun --ntasks=1: each pod runs the command once",
        ),
        (
            "OMP_NUM_THREADS=8 srun a",
            "OMP_NUM_THREADS=8 srun a",
            "OMP_NUM_THREADS=8 srun a: remove `srun`; each pod runs the script once",
        ),
        (
            "eval \"$(conda shell.bash hook)\"\nconda activate x\na",
            "a",
            "conda activate x: the image must provide this environment",
        ),
        (
            "module load cuda\na",
            "a",
            "module load cuda: the image must provide this environment",
        ),
        (
            "export MASTER_PORT=$(expr 10000 + 1)\na",
            "a",
            "export MASTER_PORT=$(expr 10000 + 1): gpuctl sets MASTER_PORT in every pod",
        ),
        (
            "nodes=$(scontrol show hostnames x)\na",
            "a",
            "nodes=$(scontrol show hostnames x): scontrol only exists on a Slurm cluster",
        ),
        (
            "a $SLURM_TOPOLOGY_ADDR",
            "a $SLURM_TOPOLOGY_ADDR",
            "$SLURM_TOPOLOGY_ADDR is not set",
        ),
        (
            "srun --mpi=pmix a",
            "a",
            "srun --mpi=pmix: each pod runs the command once",
        ),
        (
            "python train.py",
            "python train.py",
            "train.py: pods cannot access the directory you submit from; use the image, `files:` or a workdir",
        ),
    ] {
        let (text, notes) = lines(slurm);
        assert_eq!(text, expected);
        assert!(notes.iter().any(|line| line == note), "{notes:#?}");
    }
}

#[test]
fn containers_of_the_script_become_the_image() {
    let script = translate(
        "srun singularity exec --nv -B /data:/data docker://nvcr.io/nvidia/pytorch:25.01-py3 python -V",
        &CONTEXT,
    );
    assert_eq!(
        (script.image.as_deref(), script.text.as_str()),
        (Some("nvcr.io/nvidia/pytorch:25.01-py3"), "python -V")
    );
    assert!(
        script
            .omitted
            .iter()
            .any(|line| line.contains("-B /data:/data")),
        "{script:#?}"
    );
    let file = translate("apptainer exec img.sif python -V", &CONTEXT);
    assert!(
        file.image.is_none()
            && file.omitted[0].starts_with("img.sif: pods need an image from a registry"),
        "{file:#?}"
    );
}

#[test]
fn bash_differs_from_sh() {
    assert!(
        needs_bash("nodes=( a b )")
            && needs_bash("if [[ -n $a ]]; then")
            && needs_bash("set -euo pipefail")
    );
    assert!(!needs_bash("set -e\ntorchrun --nnodes=$NNODES t"));
}
