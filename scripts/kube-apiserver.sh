#!/usr/bin/env bash
# A real kube-apiserver for the comparison of answers, from the Go module proxy: no package, no checkout.
#
#   kube-apiserver.sh build      builds kube-apiserver and kube-controller-manager, once; ten minutes to half an hour
#   kube-apiserver.sh build-e2e  builds Kubernetes' own tests of its API, once; about ten minutes more
#   kube-apiserver.sh where      prints the folder of the built programs, or fails
#   kube-apiserver.sh run CMD…   starts them with etcd and `kubectl proxy` on free ports, runs CMD with
#                                TOMBOLO_KUBE_APISERVER naming the proxy, and ends all of it again
#
# `make probes` is the way to it. Not a part of CI: it would double what a new machine takes.
set -euo pipefail

# The release whose protocol docs/api.md says we speak. Not every patch is complete in the proxy.
version=1.33.4
home="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo/kubernetes/$version"
programs=(kube-apiserver kube-controller-manager)

built() { [ -x "$home/kube-apiserver" ] && [ -x "$home/kube-controller-manager" ]; }

# Kubernetes requires its own libraries at v0.0.0 and means those that were published with it.
module() {
  local folder=$1 source name
  source=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  {
    echo "module tombolo.dev/kubernetes"
    echo "go 1.24.0"
    echo "require k8s.io/kubernetes v$version"
    while read -r name; do
      echo "replace $name => $name v0.${version#1.}"
    done < <(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) v0\.0\.0$/\1/p' "$source/go.mod")
  } >"$folder/go.mod"
}

stamp() {
  local package=k8s.io/component-base/version
  echo "-s -w -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=33"
}

# Runs `go ARGS…` in a module of ours that is thrown away; its files come from the function named first.
go_in_module() (
  files=$1
  shift
  command -v go >/dev/null || { echo "there is no Go to build Kubernetes with" >&2; exit 1; }
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  module "$work"
  "$files" "$work"
  mkdir -p "$home"
  cd "$work"
  export GOFLAGS="-buildvcs=false -mod=mod -p=2" CGO_ENABLED=0 GOWORK=off
  nice -n 19 go "$@"
)

# A program that is somebody else's must be required by something of ours.
imports() {
  printf 'package main\n\nimport (\n%s)\n\nfunc main() {}\n' \
    "$(printf '\t_ "k8s.io/kubernetes/cmd/%s/app"\n' "${programs[@]}")
" >"$1/main.go"
}

build() {
  local started=$SECONDS program
  for program in "${programs[@]}"; do
    [ -x "$home/$program" ] && continue
    go_in_module imports build -trimpath -ldflags "$(stamp)" -o "$home/$program.new" \
      "k8s.io/kubernetes/cmd/$program"
    mv "$home/$program.new" "$home/$program"
  done
  echo "$home (built in $((SECONDS - started)) s)"
}

# The suite of all of Kubernetes waits for nodes and pods first; this one asks the API only.
suite() {
  cat >"$1/suite_test.go" <<'GO'
package suite

import (
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	os.Exit(m.Run())
}

func TestApiMachinery(t *testing.T) {
	gomega.RegisterFailHandler(framework.Fail)
	suite, report := framework.CreateGinkgoConfig()
	ginkgo.RunSpecs(t, "Kubernetes e2e of api-machinery", suite, report)
}
GO
}

build_e2e() {
  local started=$SECONDS
  if [ ! -x "$home/e2e.test" ]; then
    go_in_module suite test -c -trimpath -ldflags "$(stamp)" -o "$home/e2e.test.new" .
    mv "$home/e2e.test.new" "$home/e2e.test"
  fi
  echo "$home/e2e.test (built in $((SECONDS - started)) s)"
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Waits until the command succeeds; what it waits for takes a minute on a busy machine.
wait_for() {
  local deadline=$((SECONDS + 180))
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "in vain: $*" >&2; return 1; }
    sleep 0.2
  done
}

children=()
end_all() {
  for child in "${children[@]}"; do kill "$child" 2>/dev/null || true; done
  for child in "${children[@]}"; do wait "$child" 2>/dev/null || true; done
  rm -rf "$folder"
}

run() {
  built || { echo "not built yet: scripts/kube-apiserver.sh build" >&2; return 1; }
  for tool in etcd kubectl openssl python3; do
    command -v "$tool" >/dev/null || { echo "there is no $tool here" >&2; return 1; }
  done
  local etcd peer secure proxied token
  folder=$(mktemp -d)
  trap end_all EXIT
  etcd=$(free_port) peer=$(free_port) secure=$(free_port) proxied=$(free_port)
  token=$(openssl rand -hex 16)
  echo "$token,probes,probes,system:masters" >"$folder/tokens.csv"
  openssl genrsa -out "$folder/accounts.key" 2048 2>/dev/null

  etcd --data-dir "$folder/etcd" --listen-client-urls "http://127.0.0.1:$etcd" \
    --advertise-client-urls "http://127.0.0.1:$etcd" --listen-peer-urls "http://127.0.0.1:$peer" \
    --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer" >"$folder/etcd.log" 2>&1 &
  children+=($!)
  "$home/kube-apiserver" --etcd-servers "http://127.0.0.1:$etcd" --secure-port "$secure" \
    --bind-address 127.0.0.1 --cert-dir "$folder/certificates" --token-auth-file "$folder/tokens.csv" \
    --authorization-mode RBAC --service-account-issuer https://kubernetes.default.svc \
    --service-account-key-file "$folder/accounts.key" \
    --service-account-signing-key-file "$folder/accounts.key" \
    --service-cluster-ip-range 10.0.0.0/24 >"$folder/kube-apiserver.log" 2>&1 &
  children+=($!)
  export KUBECONFIG="$folder/kubeconfig"
  kubectl config set-cluster here --server "https://127.0.0.1:$secure" --insecure-skip-tls-verify >/dev/null
  kubectl config set-credentials probes --token "$token" >/dev/null
  kubectl config set-context here --cluster here --user probes >/dev/null
  kubectl config use-context here >/dev/null
  wait_for kubectl get --raw /readyz
  "$home/kube-controller-manager" --kubeconfig "$KUBECONFIG" --leader-elect=false \
    --secure-port 0 >"$folder/kube-controller-manager.log" 2>&1 &
  children+=($!)
  # Anything that a program sends may pass: the proxy is the program's own.
  kubectl proxy --port "$proxied" --reject-paths '^$' >"$folder/proxy.log" 2>&1 &
  children+=($!)
  export TOMBOLO_KUBE_APISERVER="http://127.0.0.1:$proxied"
  wait_for curl -fsS "$TOMBOLO_KUBE_APISERVER/readyz"
  wait_for kubectl get serviceaccount default
  "$@"
}

case "${1:-}" in
  build) build ;;
  build-e2e) build_e2e ;;
  where) built && echo "$home" ;;
  where-e2e) [ -x "$home/e2e.test" ] && echo "$home/e2e.test" ;;
  run) shift && run "$@" ;;
  *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
