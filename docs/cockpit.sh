#!/bin/sh
# Renders the images of `gpuctl top` from the cluster of `cargo sandbox`. It runs the program in a
# pseudo-terminal and sends keys.
# Usage: run `cargo sandbox`, wait half an hour so that the graphs have data, and submit a job that
# stays pending. Then:
#   PATH=target/release:$PATH docs/cockpit.sh
set -eu
cd "$(dirname "$0")/.."
cargo sandbox picture 'gpuctl top' > docs/cockpit.svg
cargo sandbox picture 'gpuctl top' 3 > docs/cockpit-gpus.svg
cargo sandbox picture 'gpuctl top' 5w > docs/cockpit-why.svg
