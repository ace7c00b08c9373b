#!/bin/sh
# Runs the compiler so that nothing it writes depends on where sources, crates and target are. It is cargo's RUSTC_WRAPPER, because RUSTFLAGS do
# not reach macros, which are built for the machine that builds, and a macro that differs makes the crates differ that use it.
#
#   RUSTC_WRAPPER=packaging/rustc-without-paths.sh GPUCTL_ROOT=$PWD cargo build
exec "$@" --remap-path-prefix="$GPUCTL_ROOT=/gpuctl" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo"
