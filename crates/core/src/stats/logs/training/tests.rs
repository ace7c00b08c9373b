//! Tests how the log lines of trainers and servers are parsed.

use super::*;

#[test]
fn metric_lines_of_all_trainers_parse() {
    use Measure::{
        Accuracy, Iteration, LearningRate, Loss, SamplesPerSecond, Tflops, TokensPerSecond,
    };
    type Case = (&'static str, &'static str, &'static [(Measure, f64)]);
    let cases: [Case; 12] = [
        (
            PATTERNS[0].name,
            "{'loss': 0.8712, 'grad_norm': 1.25, 'learning_rate': 1.9e-05, 'epoch': 0.52}",
            &[(Loss, 0.8712), (LearningRate, 1.9e-5)],
        ),
        (
            PATTERNS[0].name,
            "{'loss': '0.87', 'learning_rate': '2e-05', 'epoch': '1'}",
            &[(Loss, 0.87), (LearningRate, 2e-5)],
        ),
        (
            PATTERNS[0].name,
            "[INFO|callbacks.py:143] {'loss': 1.1, 'learning_rate': 5.0e-06, 'epoch': 0.01, 'throughput': 2457.25}",
            &[
                (Loss, 1.1),
                (LearningRate, 5e-6),
                (TokensPerSecond, 2457.25),
            ],
        ),
        (
            PATTERNS[0].name,
            "{'train_runtime': 12.5, 'train_samples_per_second': 80.0, 'train_steps_per_second': 2.5, 'train_loss': 0.5}",
            &[(Loss, 0.5), (SamplesPerSecond, 80.0)],
        ),
        (
            PATTERNS[0].name,
            "{'eval_loss': 0.4, 'eval_accuracy': 0.95, 'epoch': 1.0}",
            &[(Accuracy, 0.95)],
        ),
        (
            PATTERNS[1].name,
            " [2026-01-01 00:00:00] iteration       30/     120 | consumed samples:         7680 | elapsed time per iteration (ms): 512.0 | throughput per GPU (TFLOP/s/GPU): 431.5 | learning rate: 1.200000E-04 | global batch size:   256 | lm loss: 2.300000E+00 | loss scale: 1.0 | grad norm: 0.9 |",
            &[
                (Iteration, 30.0),
                (Loss, 2.3),
                (LearningRate, 1.2e-4),
                (Tflops, 431.5),
                (SamplesPerSecond, 500.0),
            ],
        ),
        (
            PATTERNS[1].name,
            " iteration 5/ 50 | elapsed time per iteration (ms): 1000.0/1010.0 | throughput per GPU (TFLOP/s/GPU): 450.5/448.1 | tokens per GPU (tokens/s/GPU): 9000.5/8990.1 | lm loss: 1.5E+00 |",
            &[
                (Iteration, 5.0),
                (Loss, 1.5),
                (Tflops, 450.5),
                (TokensPerSecond, 9000.5),
            ],
        ),
        (
            PATTERNS[2].name,
            "[2026-01-01 00:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] step=20, skipped=0, lr=[2e-05, 2e-05], mom=[(0.9, 0.999)]",
            &[(Iteration, 20.0), (LearningRate, 2e-5)],
        ),
        (
            PATTERNS[2].name,
            "epoch=0/micro_step=20/global_step=20, RunningAvgSamplesPerSec=118.5, CurrSamplesPerSec=120.25, MemAllocated=10.1GB",
            &[(Iteration, 20.0), (SamplesPerSecond, 120.25)],
        ),
        (
            PATTERNS[3].name,
            "INFO 01-01 00:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 10.5 tokens/s, Avg generation throughput: 245.3 tokens/s, Running: 4 reqs",
            &[(TokensPerSecond, 245.3)],
        ),
        (
            PATTERNS[4].name,
            "Epoch 0:   1%| | 1/10 [00:01<?]\r\u{1b}[32mEpoch 0:  40%|████      | 4/10 [00:01<00:02, 3.9it/s, v_num=1, train_loss=0.870]\u{1b}[0m\r",
            &[(Iteration, 4.0), (Loss, 0.87)],
        ),
        (
            PATTERNS[5].name,
            "2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87, lr=2e-5, 245 tokens/s",
            &[
                (Iteration, 100.0),
                (Loss, 0.87),
                (LearningRate, 2e-5),
                (TokensPerSecond, 245.0),
            ],
        ),
    ];
    for (name, line, expected) in cases {
        let mut values = read(line);
        values.sort_by_key(|(measure, _)| *measure);
        let mut expected = expected.to_vec();
        expected.sort_by_key(|(measure, _)| *measure);
        assert_eq!(values, expected, "{name}: {line}");
    }
}

#[test]
fn unknown_lines_are_ignored() {
    for line in [
        "loss of connection at step 4",
        "tokens/s 100",
        "{'lossy': 1}",
        "step 3: saved",
        "",
        "{'loss': nan, 'epoch': 1}",
        "iteration 5 of 9",
        "Loading checkpoint shards:  50%|█████     | 2/4 [00:10<00:10,  5.0s/it]",
        "Map:  40%|████      | 400/1000 [00:01<00:02, 300.00 examples/s]",
        "step 100: eval loss: 0.9",
        "Validation:  50%|█████ | 1/2 [00:01<00:01, val_loss=0.5, val_acc=0.9]",
        "downloading: 40%|████ | 4.0M/10M [00:01<00:02, 3.9MB/s]",
    ] {
        assert_eq!(read(line), [], "{line}");
    }
}

#[test]
fn metrics_are_recognized_by_suffix() {
    assert_eq!(
        exposed("train_samples_per_second"),
        Some(Measure::SamplesPerSecond)
    );
    assert_eq!(exposed("megatron:loss"), Some(Measure::Loss));
    assert_eq!(exposed("TFLOPS"), Some(Measure::Tflops));
    for name in [
        "eval_loss",
        "packet_loss_total",
        "glossy",
        "loss_scale",
        "iteration_count",
    ] {
        assert_eq!(exposed(name), None, "{name}");
    }
}

#[test]
fn newest_throughput_wins() {
    let lines = [
        "step 1 loss=2 tokens/s=100",
        "step 2 loss=2 tokens/s=245",
        "saving",
    ];
    assert_eq!(
        throughput(lines.into_iter()).as_deref(),
        Some("245 tokens/sec")
    );
    assert_eq!(
        throughput(["CurrSamplesPerSec=2.25"].into_iter()).as_deref(),
        Some("2.2 samples/sec")
    );
    assert_eq!(throughput(["nothing"].into_iter()), None);
}
