#!/bin/sh
# Runs rustc so that its output does not depend on the paths of the project, the crates and the
# standard library, or on whether the library's sources are installed. Cargo calls it as
# RUSTC_WRAPPER, because RUSTFLAGS does not apply to procedural macros when cross-compiling: they
# are built for the host. A procedural macro that differs also changes the crates that use it.
#
# GPUCTL_ROOT is the project's folder. GPUCTL_STD is FROM=TO: the path where the standard library's
# sources are or would be, and its replacement.
exec "$@" --remap-path-prefix="$GPUCTL_ROOT=/gpuctl" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" --remap-path-prefix="$GPUCTL_STD"
