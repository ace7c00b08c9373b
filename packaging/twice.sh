#!/usr/bin/env bash
# Checks that a release is reproducible: builds the committed state twice, from scratch and in
# folders with different names, and compares the archives and packages.
#
#   packaging/twice.sh [x86_64|aarch64]        about twenty minutes on two cores
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in one another-with-a-longer-name; do
  git clone --quiet . "$work/$folder"
  (cd "$work/$folder" && CARGO_TARGET_DIR=target packaging/dist.sh "${1:-x86_64}" > /dev/null && mv target/dist/SHA256SUMS "$work/$folder.sums")
  rm -rf "${work:?}/$folder"
done
diff "$work/one.sums" "$work/another-with-a-longer-name.sums"
echo 'both builds produced the same files:'
cat "$work/one.sums"
