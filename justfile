# Shortcuts for common tasks. `just` without arguments runs the full gate.

default: gate

gate:
    .ci/run

# Runs the gate that every change must pass, in about five minutes.
fast:
    .ci/fast

cluster:
    cargo test --test cluster --test faults

generate:
    GPUCTL_REWRITE=1 cargo test --test generated

bench:
    cargo bench

# Builds a release for this architecture: archive, packages, SBOM, krew and Homebrew manifests.
dist from:
    packaging/dist.sh
    packaging/sbom.sh
    packaging/manifests.sh {{from}}

# Builds a release twice and compares the files.
reproducible:
    packaging/twice.sh

# Needs zig to compile the dependencies' C code: `pip install ziglang cargo-zigbuild`.
# Checks that the program compiles for other systems.
cross:
    rustup target add aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu
    cargo-zigbuild check --target aarch64-apple-darwin --lib --bins -p gpuctl
    cargo-zigbuild check --target x86_64-pc-windows-gnu --lib --bins -p gpuctl
