# What `.ci/run` does, step by step.

default: gate

gate:
    .ci/run

fast:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --lib --test tidy --test generated --test golden --test documents

cluster:
    cargo test --test cluster --test faults

generate:
    GPUCTL_REWRITE=1 cargo test --test generated

bench:
    cargo bench
