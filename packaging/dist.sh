#!/usr/bin/env bash
# Builds the release files for one Linux target: a binary for glibc 2.17 and newer (Debian 8, RHEL
# 7), an archive with completions and manual pages, Debian and RPM packages, and checksums. The
# order, times and owners of files in them do not depend on the machine.
#
#   packaging/dist.sh [x86_64|aarch64]        writes to target/dist
#
# Zig is the linker, because it can link against any version of glibc:
# `pip install ziglang cargo-zigbuild`.
set -euo pipefail
cd "$(dirname "$0")/.."

machine=${1:-x86_64}
case $machine in
  x86_64) debian=amd64 ;;
  aarch64) debian=arm64 ;;
  *) echo "dist: unknown machine \`$machine\`; use x86_64 or aarch64" >&2; exit 2 ;;
esac
for tool in cargo cargo-zigbuild objdump dpkg-deb rpmbuild; do
  command -v "$tool" >/dev/null || { echo "dist: \`$tool\` is not in PATH" >&2; exit 1; }
done

oldest=2.17
target=$machine-unknown-linux-gnu
version=$(cargo metadata --no-deps --format-version 1 | sed -n 's/.*"name":"gpuctl","version":"\([^"]*\)".*/\1/p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
GPUCTL_STD=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(rustc -vV | sed -n 's/^commit-hash: //p')
export RUSTC_WRAPPER=$PWD/packaging/rustc-without-paths.sh GPUCTL_ROOT=$PWD GPUCTL_STD
cargo zigbuild --release --locked --package gpuctl --bin gpuctl --target "$target.$oldest"
binary=target/$target/release/gpuctl

newest=$(objdump -T "$binary" | sed -n 's/.*GLIBC_\([0-9.]*\)).*/\1/p' | sort -Vu | tail -1)
if [ "$(printf '%s\n%s\n' "$newest" "$oldest" | sort -V | tail -1)" != "$oldest" ]; then
  echo "dist: the binary needs glibc $newest, but must run with $oldest" >&2
  exit 1
fi

packaging/archive.sh "$binary" "linux-$machine"

dist=target/dist
root=$dist/root
rm -rf "$root"
install -Dm 755 "$binary" "$root/usr/bin/gpuctl"
ln -s gpuctl "$root/usr/bin/kubectl-gpuctl"
ln -s gpuctl "$root/usr/bin/kubectl_complete-gpuctl"
install -Dm 644 completions/gpuctl.bash "$root/usr/share/bash-completion/completions/gpuctl"
install -Dm 644 completions/gpuctl.fish "$root/usr/share/fish/vendor_completions.d/gpuctl.fish"
for page in man/*.1; do
  mkdir -p "$root/usr/share/man/man1"
  gzip -9nc "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"
done
timed() { find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }
about='GPU jobs on Kubernetes from a short YAML'
described='Submits trainings, inference services and notebooks. Shows who uses which GPU,
how busy it is, why a job waits and how much GPU time was wasted.'

# RPM and Debian packages put zsh functions and licenses in different directories. These are RPM's.
install -Dm 644 completions/_gpuctl "$root/usr/share/zsh/site-functions/_gpuctl"
install -Dm 644 LICENSE "$root/usr/share/licenses/gpuctl/LICENSE"
timed
spec=$dist/gpuctl.spec
cat > "$spec" <<END
Name: gpuctl
Version: $version
Release: 1
Summary: $about
License: Apache-2.0
AutoReqProv: no
Requires: glibc >= $oldest
%description
$described
%install
cp -a "$PWD/$root/." %{buildroot}/
%files
$(cd "$root" && find . ! -type d | sed 's/^\.//' | LC_ALL=C sort)
END
# `_binary_payload` selects xz, which RHEL 7's rpm can read.
rpmbuild --quiet -bb --target "$machine" --define "_topdir $PWD/$dist/rpm" --define "_rpmdir $PWD/$dist" --define '_rpmfilename gpuctl-%{version}.%{_target_cpu}.rpm' \
  --define '__os_install_post %{nil}' --define '_build_id_links none' --define '_binary_payload w6.xzdio' --define '_buildhost gpuctl' \
  --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' "$spec"
rm -rf "$spec" "$dist/rpm"

mkdir -p "$root/DEBIAN" "$root/usr/share/doc/gpuctl" "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/licenses/gpuctl/LICENSE" "$root/usr/share/doc/gpuctl/copyright"
mv "$root/usr/share/zsh/site-functions/_gpuctl" "$root/usr/share/zsh/vendor-completions/"
rm -r "$root/usr/share/licenses" "$root/usr/share/zsh/site-functions"
cat > "$root/DEBIAN/control" <<END
Package: gpuctl
Version: $version
Architecture: $debian
Maintainer: the gpuctl authors <gpuctl@users.noreply.github.com>
Depends: libc6 (>= $oldest)
Section: admin
Priority: optional
Description: $about
$(echo "$described" | sed 's/^/ /')
END
timed
dpkg-deb --root-owner-group --build "$root" "$dist/gpuctl_${version}_$debian.deb" > /dev/null
rm -rf "$root"

(cd "$dist" && sha256sum -- *.tar.gz *.deb *.rpm > SHA256SUMS)
echo "the binary needs glibc $newest or newer"
(cd "$dist" && wc -c -- *.tar.gz *.deb *.rpm && cat SHA256SUMS)
