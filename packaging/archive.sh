#!/usr/bin/env bash
# Packs a binary with its completions, manual pages and license. The order, times and owners of
# files in the archive do not depend on the machine.
#
#   packaging/archive.sh BINARY SYSTEM-MACHINE        such as linux-x86_64; writes to target/dist
set -euo pipefail
binary=$(realpath "${1:?the binary}")
cd "$(dirname "$0")/.."
version=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"name":"gpuctl","version":"\([^"]*\)".*/\1/p')
name=gpuctl-$version-${2:?the system and the machine, such as linux-x86_64}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# macOS' tar has no `--sort`.
tar=$(command -v gtar || command -v tar)

dist=target/dist
rm -rf "${dist:?}/$name"
mkdir -p "$dist/$name"
# krew and Homebrew expect this name, whatever the input is called.
case $2 in windows-*) program=gpuctl.exe ;; *) program=gpuctl ;; esac
install -m 755 "$binary" "$dist/$name/$program"
cp -r completions man LICENSE README.md CHANGELOG.md "$dist/$name/"
"$tar" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$dist" -c "$name" | gzip -9n > "$dist/$name.tar.gz"
rm -r "${dist:?}/$name"
