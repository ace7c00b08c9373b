#!/usr/bin/env bash
# Makes a container image of a binary, as an OCI archive that `ctr images import`, `podman load` and `skopeo copy oci-archive:…` read. Nothing is
# in it but the binary, the C library that it asks for, and the authorities of TLS: no shell, no package manager. No registry and no
# container engine is needed: the libraries come from Debian's packages, for the machine that this runs on.
#
#   packaging/image.sh BINARY ARCHIVE [NAME]       NAME: registry.example.com/gpuctl:VERSION
set -euo pipefail
binary=$(realpath "${1:?the binary}")
archive=$(realpath -m "${2:?the archive}")
cd "$(dirname "$0")/.."
version=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"name":"gpuctl","version":"\([^"]*\)".*/\1/p')
name=${3:-registry.example.com/gpuctl:$version}
for tool in apt-get dpkg-deb objdump sha256sum tar; do
  command -v "$tool" > /dev/null || { echo "image: \`$tool\` is not in PATH" >&2; exit 1; }
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/packages" "$work/debian" "$work/root" "$work/image"
(cd "$work/packages" && apt-get download -q -q libc6 libgcc-s1 ca-certificates)
for package in "$work"/packages/*.deb; do
  dpkg-deb -x "$package" "$work/debian"
done

root=$work/root
install -Dm 755 "$binary" "$root/usr/bin/gpuctl"
ln -s gpuctl "$root/usr/bin/kubectl-gpuctl"
# Every library at the path that the loader looks for it, with what it needs itself.
library() {
  local found
  # Links of packages may lead to the machine's own files.
  found=$(find "$work/debian" -name "$1" -type f -print -quit)
  [ -n "$found" ] || { echo "image: \`$1\` is in none of the packages" >&2; exit 1; }
  local place=${2:-usr/lib/$1}
  [ ! -e "$root/$place" ] || return 0
  install -Dm 755 "$found" "$root/$place"
  local needed
  for needed in $(objdump -p "$found" | sed -n 's/^ *NEEDED *//p'); do library "$needed"; done
}
ln -s usr/lib "$root/lib"
for needed in $(objdump -p "$binary" | sed -n 's/^ *NEEDED *//p'); do library "$needed"; done
# Programs name their loader by its whole path; in the library's folder it is already.
loader=$(readelf -l "$binary" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
[ -e "$root$loader" ] || { mkdir -p "$root$(dirname "$loader")" && ln -s "/usr/lib/$(basename "$loader")" "$root$loader"; }
mkdir -p "$root/etc/ssl/certs"
find "$work/debian/usr/share/ca-certificates" -name '*.crt' | LC_ALL=C sort | xargs cat > "$root/etc/ssl/certs/ca-certificates.crt"
echo 'gpuctl:x:65532:65532::/:/sbin/nologin' > "$root/etc/passwd"
mkdir -m 1777 "$root/tmp"

image=$work/image
blobs=$image/blobs/sha256
mkdir -p "$blobs"
# Moves a file among the blobs, and prints its digest and size as a descriptor has them.
blob() {
  local digest size
  digest=$(sha256sum "$1" | cut -d ' ' -f 1)
  size=$(wc -c < "$1")
  mv "$1" "$blobs/$digest"
  printf '"digest": "sha256:%s", "size": %s' "$digest" "$size"
}
machine=$(dpkg --print-architecture)
made=$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)
pack() { tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$1" -c .; }
pack "$root" > "$work/layer.tar"
content=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
gzip -9n "$work/layer.tar"
layer=$(blob "$work/layer.tar.gz")
cat > "$work/config" <<END
{"architecture": "$machine", "os": "linux", "created": "$made",
 "config": {"Entrypoint": ["gpuctl"], "User": "65532:65532", "Env": ["PATH=/usr/bin"],
  "Labels": {"org.opencontainers.image.title": "gpuctl", "org.opencontainers.image.version": "$version", "org.opencontainers.image.licenses": "Apache-2.0"}},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$content"]}}
END
config=$(blob "$work/config")
cat > "$work/manifest" <<END
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
 "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $config},
 "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer}]}
END
manifest=$(blob "$work/manifest")
cat > "$image/index.json" <<END
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
 "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", $manifest, "platform": {"architecture": "$machine", "os": "linux"},
  "annotations": {"io.containerd.image.name": "$name", "org.opencontainers.image.ref.name": "$version"}}]}
END
echo '{"imageLayoutVersion": "1.0.0"}' > "$image/oci-layout"
mkdir -p "$(dirname "$archive")"
pack "$image" > "$archive"
echo "$archive: $(wc -c < "$archive") bytes, for linux/$machine, $name"
