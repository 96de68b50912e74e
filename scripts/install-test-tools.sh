#!/usr/bin/env bash
# Installs what the tests use beside Rust, as far as this machine allows: kubectl, strace, etcd,
# iproute2, docker.io, docker-registry, busybox, cargo-deny, Prometheus and the Python client of Kubernetes. What cannot
# be had is named and does no harm: the tests that need it skip themselves and say so.
set -uo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo"
mkdir -p "$cache/bin"
export PATH="$cache/bin:$PATH"

# The oldest kubectl that reads OpenAPI v3 everywhere; older ones want v2 as protobuf.
kubectl_minor_min=29
# What is built where there is Go and no package; its modules are published as v0.x.
kubectl_module=v0.33.5

cargo_deny_version=0.20.2

have() { command -v "$1" >/dev/null 2>&1; }
missing() { echo "cannot install $1: $2" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo; then sudo -n "$@"; else return 1; fi
}

apt_updated=no
# Waits for another installer to finish (a new machine often has one running), and tries twice: a
# mirror that answers badly once is no reason to skip tests.
apt_install() {
  have apt-get || return 1
  local lock=(-o DPkg::Lock::Timeout=300) attempt
  for attempt in 1 2; do
    if [ "$apt_updated" = no ] || [ "$attempt" = 2 ]; then
      as_root apt-get "${lock[@]}" update -qq >/dev/null 2>&1 || true
      apt_updated=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get "${lock[@]}" install -y -qq \
      --no-install-recommends "$@" >/dev/null 2>&1 && return
  done
  return 1
}

install_packages() {
  have strace || apt_install strace || missing strace "no package; the crash tests will be skipped"
  have etcd || apt_install etcd-server || missing etcd "no package; there will be no comparison"
  have ip || apt_install iproute2 || missing ip "no package"
  have dockerd || apt_install docker.io iptables ||
    missing dockerd "no package; the tests of the docker driver will be skipped"
  # A package of its own in newer releases.
  have docker || apt_install docker-cli || missing docker "no package"
  have busybox || apt_install busybox-static || missing busybox "no package"
}

# Only the program: the package would start a registry for everybody, on a port that may be wanted.
install_registry() {
  have docker-registry && return
  local folder
  folder=$(mktemp -d)
  (
    cd "$folder" &&
      apt-get download docker-registry &&
      dpkg-deb -x docker-registry_*.deb . &&
      mv usr/bin/docker-registry "$cache/bin/"
  ) >/dev/null 2>&1 || missing docker-registry "no package; the test of a pull will be skipped"
  rm -rf "$folder"
}

kubectl_minor() {
  kubectl version --client 2>/dev/null | sed -nE 's/^Client Version: v1\.([0-9]+).*/\1/p'
}

apt_kubectl_minor() {
  apt-cache policy kubernetes-client 2>/dev/null | sed -nE 's/^ *Candidate: 1\.([0-9]+).*/\1/p'
}

# kubectl is published as a library with a command inside; this is the command around it.
build_kubectl() {
  have go || return 1
  local folder
  folder=$(mktemp -d)
  cat >"$folder/main.go" <<'GO'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
GO
  (
    cd "$folder" &&
      go mod init kubectl &&
      go get "k8s.io/kubectl@$kubectl_module" "k8s.io/component-base@$kubectl_module" &&
      go mod tidy &&
      go build -ldflags "-X k8s.io/component-base/version.gitVersion=${kubectl_module/v0/v1}" \
        -o "$cache/bin/kubectl" .
  ) >/dev/null 2>&1
  local status=$?
  rm -rf "$folder"
  return "$status"
}

install_kubectl() {
  local minor
  minor=$(kubectl_minor)
  [ "${minor:-0}" -ge "$kubectl_minor_min" ] && return
  minor=$(apt_kubectl_minor)
  if [ "${minor:-0}" -ge "$kubectl_minor_min" ] && apt_install kubernetes-client; then return; fi
  build_kubectl && return
  missing kubectl "no package from 1.$kubectl_minor_min on, and no Go to build it"
}

install_python_client() {
  local python="$cache/venv/bin/python"
  "$python" -c 'import kubernetes' 2>/dev/null && return
  have python3 || apt_install python3 || { missing "the Python client" "no python3"; return; }
  python3 -m venv "$cache/venv" >/dev/null 2>&1 ||
    { apt_install python3-venv && python3 -m venv "$cache/venv" >/dev/null 2>&1; } ||
    { missing "the Python client" "no venv module"; return; }
  "$python" -m pip install --quiet 'kubernetes>=31,<40' >/dev/null 2>&1 ||
    missing "the Python client" "pip cannot reach a package index"
}

# Built once, without optimising: it runs for seconds.
install_cargo_deny() {
  have cargo-deny && return
  local folder
  folder=$(mktemp -d)
  # Not the target folder of our own build, whose profile and features are others.
  CARGO_TARGET_DIR="$folder" cargo install --quiet --locked --debug --no-default-features \
    --root "$cache" "cargo-deny@$cargo_deny_version" >/dev/null 2>&1 ||
    missing cargo-deny "it cannot be built; licences and duplicates will not be checked"
  rm -rf "$folder"
}

# From the Go module proxy; takes minutes, once.
install_prometheus() {
  have go || { missing prometheus "no Go to build it; answers of PromQL will not be compared"; return; }
  "$(dirname "$0")/prometheus.sh" build >/dev/null 2>&1 ||
    missing prometheus "it cannot be built; answers of PromQL will not be compared"
}

# From the Go module proxy as well.
install_go_client() {
  have go || { missing go-client "no Go to build it; protobuf will not be tried with it"; return; }
  "$(dirname "$0")/go-client.sh" >/dev/null 2>&1 ||
    missing go-client "it cannot be built; protobuf will not be tried with it"
}

install_packages
install_registry
install_kubectl
install_python_client
install_cargo_deny
install_prometheus
install_go_client
exit 0
