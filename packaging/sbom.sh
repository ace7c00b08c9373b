#!/usr/bin/env bash
# Writes a release's SBOM in CycloneDX format to target/dist: every crate in Cargo.lock with its
# version, license and checksum.
set -euo pipefail
cd "$(dirname "$0")/.."

TOOL=0.5.9
if ! cargo cyclonedx --version 2>/dev/null | grep -qw "$TOOL"; then
  echo "sbom: installing cargo-cyclonedx $TOOL"
  cargo install --locked --quiet "cargo-cyclonedx@$TOOL"
fi
version=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"name":"gpuctl","version":"\([^"]*\)".*/\1/p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mkdir -p target/dist
cargo cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --override-filename "gpuctl-$version.cdx"
# Replaces this checkout's path, so that the file does not depend on the machine.
sed "s|file://$PWD|file:///gpuctl|g" "gpuctl-$version.cdx.json" > "target/dist/gpuctl-$version.cdx.json"
rm "gpuctl-$version.cdx.json"
rm -f "tests/sandbox/gpuctl-$version.cdx.json"
echo "target/dist/gpuctl-$version.cdx.json: $(grep -c '"purl"' "target/dist/gpuctl-$version.cdx.json") components"
