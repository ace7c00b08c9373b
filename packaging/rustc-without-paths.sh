#!/bin/sh
# Runs the compiler so that nothing it writes depends on where sources, crates and the compiler's own library are, or whether the machine has the
# library's sources. It is cargo's RUSTC_WRAPPER, because RUSTFLAGS do not reach macros, which are built for the machine that builds, and a macro that
# differs makes the crates differ that use it. GPUCTL_ROOT is the folder of the project, GPUCTL_STD where the library's sources are or would be, with `=`
# and what stands for it.
exec "$@" --remap-path-prefix="$GPUCTL_ROOT=/gpuctl" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="$GPUCTL_STD"
