# What `.ci/run` does, step by step.

default: gate

gate:
    .ci/run

# What every change has to pass, in about five minutes.
fast:
    .ci/fast

cluster:
    cargo test --test cluster --test faults

generate:
    GPUCTL_REWRITE=1 cargo test --test generated

bench:
    cargo bench

# Makes a release's archive and Debian package for this kind of machine, its list of parts, and what krew and Homebrew read.
dist from:
    packaging/dist.sh
    packaging/sbom.sh
    packaging/manifests.sh {{from}}

# Builds a release twice and compares the files.
reproducible:
    packaging/twice.sh

# Checks that the program compiles for other systems; C code of dependencies is compiled by zig (`pip install ziglang cargo-zigbuild`).
cross:
    rustup target add aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu
    cargo-zigbuild check --target aarch64-apple-darwin --lib --bins -p gpuctl
    cargo-zigbuild check --target x86_64-pc-windows-gnu --lib --bins -p gpuctl
