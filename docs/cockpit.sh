#!/bin/sh
# Makes the pictures of the cockpit: `gpuctl top` on the cluster of `cargo sandbox`, in a pseudo-terminal, with keys.
# Usage: cargo sandbox, half an hour for the curves, a job that waits, and PATH=target/release:$PATH docs/cockpit.sh
set -eu
cd "$(dirname "$0")/.."
cargo sandbox picture 'gpuctl top' > docs/cockpit.svg
cargo sandbox picture 'gpuctl top' 3 > docs/cockpit-gpus.svg
cargo sandbox picture 'gpuctl top' 5w > docs/cockpit-why.svg
