#!/usr/bin/env bash
# Builds a container image from a binary, as an OCI archive for `ctr images import`, `podman load`
# and `skopeo copy oci-archive:…`. The image contains only the binary, the C library that it links
# to, and the CA certificates, but no shell or package manager. The script needs neither a registry
# nor a container engine. It copies the C library and the certificates from this machine, so the
# image is for this machine's architecture.
#
#   packaging/image.sh BINARY ARCHIVE [NAME]       NAME: registry.example.com/gpuctl:VERSION
set -euo pipefail
binary=$(realpath "${1:?the binary}")
archive=$(realpath -m "${2:?the archive}")
cd "$(dirname "$0")/.."
version=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"name":"gpuctl","version":"\([^"]*\)".*/\1/p')
name=${3:-registry.example.com/gpuctl:$version}
for tool in ldd readelf sha256sum tar; do
  command -v "$tool" > /dev/null || { echo "image: \`$tool\` is not in PATH" >&2; exit 1; }
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || echo 0)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/root" "$work/image"

root=$work/root
install -Dm 755 "$binary" "$root/usr/bin/gpuctl"
ln -s gpuctl "$root/usr/bin/kubectl-gpuctl"
ln -s usr/lib "$root/lib"
# `ldd` lists direct and indirect dependencies with their paths:
# `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`.
for library in $(ldd "$binary" | sed -n 's/^[^/]*\(\/[^ ]*\) (.*/\1/p'); do
  mkdir -p "$root/usr/lib"
  install -m 755 "$(realpath "$library")" "$root/usr/lib/$(basename "$library")"
done
# A program names its loader by absolute path. The loop has already copied the loader to usr/lib.
loader=$(readelf -l "$binary" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
[ -e "$root$loader" ] || { mkdir -p "$root$(dirname "$loader")" && ln -s "/usr/lib/$(basename "$loader")" "$root$loader"; }
mkdir -p "$root/etc/ssl/certs"
authorities=/etc/ssl/certs/ca-certificates.crt
[ -e "$authorities" ] || { echo "image: $authorities is missing; install it with: apt-get install ca-certificates" >&2; exit 1; }
install -m 644 "$(realpath "$authorities")" "$root/etc/ssl/certs/ca-certificates.crt"
echo 'gpuctl:x:65532:65532::/:/sbin/nologin' > "$root/etc/passwd"
mkdir -m 1777 "$root/tmp"

image=$work/image
blobs=$image/blobs/sha256
mkdir -p "$blobs"
# Moves a file into the blobs and prints the `digest` and `size` fields of its OCI descriptor.
blob() {
  local digest size
  digest=$(sha256sum "$1" | cut -d ' ' -f 1)
  size=$(wc -c < "$1")
  mv "$1" "$blobs/$digest"
  printf '"digest": "sha256:%s", "size": %s' "$digest" "$size"
}
case $(uname -m) in x86_64) machine=amd64 ;; aarch64) machine=arm64 ;; *) machine=$(uname -m) ;; esac
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
# A tag can be moved to another image, but this digest survives a push to a registry. Set it as the
# chart's `image.digest` or the kustomization's `digest:`.
echo "digest: $(sed -n 's/.*"digest": "\(sha256:[0-9a-f]*\)".*/\1/p' "$image/index.json")"
