//! Tests with log lines of common trainers, in their literal form.

use super::*;

#[test]
fn phases_of_common_trainers_are_recognized() {
    use LogPhase::{Compiling, Downloading, Evaluating, Loading, OtherBar, PreparingData, Saving};
    for (phase, line) in [
        // torchtitan, torchtitan/components/checkpoint.py and infra/parallelize.py.
        (
            Saving,
            "[titan] 2026-01-01 - root - INFO - Saving the checkpoint (or staging if async is enabled).",
        ),
        (
            Loading,
            "[titan] 2026-01-01 - root - INFO - Loading the checkpoint from out/step-500.",
        ),
        (
            Compiling,
            "[titan] 2026-01-01 - root - INFO - Compiling each TransformerBlock with torch.compile",
        ),
        // Megatron, megatron/training/checkpointing.py and training.py.
        (
            Saving,
            "saving checkpoint at iteration    1000 to /ckpt in torch_dist format",
        ),
        (
            Saving,
            "global rank 0 is saving checkpoint at iteration 1000 to /ckpt",
        ),
        (
            Loading,
            " loading distributed checkpoint from /ckpt at iteration 1000",
        ),
        (Loading, " loading release checkpoint from /ckpt"),
        (Evaluating, "Evaluating iter 3/32"),
        (Evaluating, "Evaluating on 1280 samples"),
        (
            PreparingData,
            "> building train, validation, and test datasets for GPT ...",
        ),
        (
            PreparingData,
            " > building shuffle index with split [0, 812) ...",
        ),
        (Compiling, "> compiling and loading fused kernels ..."),
        // verl, verl/trainer/ppo/ray_trainer.py.
        (
            Saving,
            "(TaskRunner pid=71) local_global_step_folder: checkpoints/p/e/global_step_20",
        ),
        (
            Saving,
            "(WorkerDict pid=9) INFO:[Rank 3] Saved model to /ckpt/model_world_size_8_rank_3.pt",
        ),
        (
            Evaluating,
            "(TaskRunner pid=71) test_gen_batch meta info: {'eos_token_id': 151645}",
        ),
        // torchtune, recipes and torchtune/training/checkpointing.
        (
            Saving,
            "INFO:torchtune.utils._logging:Saving checkpoint. This may take some time. Retrieving full model state dict...",
        ),
        (
            Saving,
            "INFO:torchtune.utils._logging:Model checkpoint of size 16.06 GiB saved to /tmp/m/epoch_0",
        ),
        // DeepSpeed, runtime/checkpoint_engine and runtime/engine.py.
        (
            Saving,
            "[INFO] [logging.py:96:log_dist] [Rank 0] [Torch] Checkpoint global_step10 is about to be saved!",
        ),
        (
            Saving,
            "[INFO] [logging.py:96:log_dist] [Rank 0] Saving model checkpoint: out/global_step10/mp_rank_00_model_states.pt",
        ),
        (
            Saving,
            "[INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving out/zero_pp_rank_0_mp_rank_00_optim_states.pt...",
        ),
        (
            Saving,
            "[INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved out/model_states.pt.",
        ),
        (
            Loading,
            "[INFO] [Torch] Loading checkpoint from out/model_states.pt...",
        ),
        (
            Compiling,
            "Emitting ninja build file /root/.cache/torch_extensions/fused_adam/build.ninja...",
        ),
        // Hugging Face Trainer and datasets, LLaMA-Factory.
        (
            Saving,
            "[INFO|trainer.py:3503] 2026-01-01 >> Saving model checkpoint to saves/checkpoint-500",
        ),
        (
            Saving,
            "[INFO|configuration_utils.py:472] >> Configuration saved in saves/config.json",
        ),
        (
            Saving,
            "[INFO|modeling_utils.py:2800] >> Model weights saved in saves/model.safetensors",
        ),
        (
            Saving,
            "[INFO|tokenization_utils_base.py:2702] >> tokenizer config file saved in saves/x.json",
        ),
        (
            Evaluating,
            "[INFO|trainer.py:3819] >> ***** Running Evaluation *****",
        ),
        (Evaluating, "***** Running Prediction *****"),
        (
            Loading,
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:10<00:10,  5.00s/it]",
        ),
        (
            Loading,
            "[INFO|modeling_utils.py:3944] >> loading weights file model.safetensors",
        ),
        (
            PreparingData,
            "Running tokenizer on dataset (num_proc=16):  10%|█ | 1000/10000 [00:01<00:09]",
        ),
        (
            PreparingData,
            "Map (num_proc=8):  80%|████████  | 8000/10000 [00:10<00:02, 800 examples/s]",
        ),
        (
            PreparingData,
            "Converting format of dataset (num_proc=16):  10%|█ | 1000/10000 [00:01<00:09]",
        ),
        (
            PreparingData,
            "Generating train split: 52000 examples [00:00, 91211.32 examples/s]",
        ),
        (
            PreparingData,
            "Saving the dataset (1/3 shards):  33%|███ | 1/3 [00:01<00:02]",
        ),
        (
            Downloading,
            "Downloading shards:  33%|███▎      | 1/3 [00:20<00:40, 20.01s/it]",
        ),
        (
            Downloading,
            "Fetching 5 files:  20%|██        | 1/5 [00:00<00:00,  4.88it/s]",
        ),
        (
            Downloading,
            "model-00001-of-00030.safetensors:  45%|████▌     | 2.21G/4.91G [00:30<00:36, 73MB/s]",
        ),
        // axolotl.
        (
            PreparingData,
            "[INFO] [axolotl.load_tokenized_prepared_datasets] Loading raw datasets...",
        ),
        (
            PreparingData,
            "Tokenizing Prompts (num_proc=64):  12%|█▏ | 1200/10000 [00:03<00:21]",
        ),
        (
            Saving,
            "[INFO] [axolotl.train.save_trained_model] Saving trained model to ./outputs.",
        ),
        // Lightning and NeMo.
        (
            Evaluating,
            "Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00]",
        ),
        (
            Evaluating,
            "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00]",
        ),
        (Evaluating, "Validation: iteration 1/20"),
        // vLLM.
        (
            Loading,
            "(EngineCore pid=7) Loading safetensors checkpoint shards:  25% Completed | 1/4",
        ),
        (
            Loading,
            "INFO 01-01 [gpu_model_runner.py:1834] Starting to load model meta-llama/Llama-3...",
        ),
        (
            Compiling,
            "Capturing CUDA graph shapes:  20%|██        | 7/35 [00:05<00:20]",
        ),
        (OtherBar, "Rollout:  50%|█████     | 4/8 [01:00<01:00]"),
        (Evaluating, "(val)  50%|█████     | 5/10 [00:00<00:00]"),
        (Evaluating, "[rank0]: eval step 5 loss 2.1"),
    ] {
        assert_eq!(phase_mark(line), Some(PhaseMark::In(phase)), "{line}");
    }
}

#[test]
fn ends_of_phases_are_recognized() {
    for line in [
        "  successfully saved checkpoint from iteration    1000 to /ckpt",
        "  successfully loaded checkpoint from /ckpt [ t 1/1, p 1/1 ] at iteration 1000",
        "Finished saving the checkpoint (or staging if async is enabled)in 5.53 seconds.",
        "Finished loading the checkpoint in 12.01 seconds.",
        "[NeMo I 2026-02-17 nemo_logging:393] Scheduled async checkpoint save for /ckpt/step=24.ckpt",
        "[NeMo I] Global Checkpoint Save : Rank: 0 : Iteration: 24 : Save duration: 25.537s",
        "[INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step10 is ready now!",
        "INFO:torchtune.utils._logging:Saving checkpoint took 12.31 secs",
        ">>> done with compiling and loading fused kernels. Compilation time: 3.2 seconds",
        "INFO 03-23 05:03:04 [monitor.py:33] torch.compile takes 34.61 s in total",
        "INFO [backends.py:144] Compiling a graph for general shape takes 27.31 s",
        "Loading weights took 0.98 seconds",
        "Model loading took 7.6065 GiB and 1.163559 seconds",
        " validation loss at iteration 1000 on validation set | lm loss value: 2.1E+00 |",
        "{'eval_loss': 0.87, 'eval_runtime': 12.3, 'epoch': 1.0}",
        "Checkpoint saved",
    ] {
        assert_eq!(phase_mark(line), Some(PhaseMark::End), "{line}");
    }
}

#[test]
fn steps_and_settings_are_no_phases() {
    for line in [
        " 65%|██████▌   | 650/1000 [10:00<05:23,  1.08it/s, loss=0.87]",
        "Epoch 0:  40%|████      | 4/10 [00:01<00:02, v_num=1]",
        " [2026-01-01 00:00:00] iteration       30/     120 | consumed samples:  7680 | lm loss: 2.3E+00 |",
        "[titan] step: 10  loss:  6.2116  memory: 87.04GiB(93.48%)  tps: 52,142  mfu: 38.1%",
        "{'loss': 0.5, 'learning_rate': 2e-05, 'epoch': 1.2}",
        "Training epoch 1, iteration 5/999 | lr: 2.999e-06 | global_batch_size: 512 |",
        "(TaskRunner pid=71) step:10 - actor/loss:0.1",
        "not saving checkpoint at iteration 7",
        "checkpoints are saved every 100 steps",
        "will evaluate every 500 steps",
        "INFO hello",
        "",
    ] {
        assert_eq!(phase_mark(line), None, "{line}");
    }
}
