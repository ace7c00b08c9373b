#!/usr/bin/env bash
# Writes the krew plugin manifest and the Homebrew formula for the archives in target/dist, which
# `packaging/dist.sh` creates.
#
#   packaging/manifests.sh https://HOST/PATH [HOMEPAGE]        where the archives will be published
#
# Without a homepage, it is the repository of a release URL, or else the URL itself.
set -euo pipefail
cd "$(dirname "$0")/../target/dist"

from=${1:?the URL of the folder with the archives: packaging/manifests.sh https://HOST/PATH}
homepage=${2:-${from%%/releases/download/*}}
archives=(gpuctl-*-*-*.tar.gz)
[ -f "${archives[0]}" ] || { echo 'manifests: target/dist has no archives; run packaging/dist.sh first' >&2; exit 1; }
version=$(echo "${archives[0]}" | sed 's/gpuctl-\(.*\)-[a-z]*-[a-z0-9_]*\.tar\.gz/\1/')
sum() { sha256sum -- "$1" | cut -d' ' -f1; }
system() { echo "$1" | sed 's/.*-\([a-z]*\)-[a-z0-9_]*\.tar\.gz/\1/'; }
machine() { echo "$1" | sed 's/.*-\([a-z0-9_]*\)\.tar\.gz/\1/'; }
about='GPU jobs on Kubernetes from a short YAML'

{
  cat <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: gpuctl
spec:
  version: v$version
  homepage: $homepage
  shortDescription: $about
  description: |
    Submits trainings, inference services and notebooks. Shows who uses which
    GPU, how busy it is, why a job waits and how much GPU time was wasted.
    Installs nothing in the cluster.
  platforms:
END
  for archive in "${archives[@]}"; do
    case $(machine "$archive") in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
    case $(system "$archive") in macos) os=darwin bin=gpuctl ;; windows) os=windows bin=gpuctl.exe ;; *) os=linux bin=gpuctl ;; esac
    cat <<END
    - selector: {matchLabels: {os: $os, arch: $arch}}
      uri: $from/$archive
      sha256: $(sum "$archive")
      files:
        - {from: ${archive%.tar.gz}/$bin, to: .}
        - {from: ${archive%.tar.gz}/LICENSE, to: .}
      bin: $bin
END
  done
} > krew.yaml

{
  cat <<END
class Gpuctl < Formula
  desc "$about"
  homepage "$homepage"
  version "$version"
  license "Apache-2.0"

END
  for archive in "${archives[@]}"; do
    case $(machine "$archive") in x86_64) on=intel ;; aarch64) on=arm ;; esac
    system=$(system "$archive")
    # Homebrew does not run on Windows.
    [ "$system" != windows ] || continue
    cat <<END
  on_$system do
    on_$on do
      url "$from/$archive"
      sha256 "$(sum "$archive")"
    end
  end

END
  done
  cat <<'END'
  def install
    bin.install "gpuctl"
    bin.install_symlink "gpuctl" => "kubectl-gpuctl"
    bin.install_symlink "gpuctl" => "kubectl_complete-gpuctl"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/gpuctl.bash" => "gpuctl"
    zsh_completion.install "completions/_gpuctl"
    fish_completion.install "completions/gpuctl.fish"
  end

  test do
    assert_match "gpuctl", shell_output("#{bin}/gpuctl version")
  end
end
END
} > gpuctl.rb
echo "wrote krew.yaml and gpuctl.rb to target/dist, for version $version"
