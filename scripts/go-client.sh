#!/usr/bin/env bash
# Builds crates/testkit/tests/go_client with the generated clients of Kubernetes from the Go module proxy, into the
# cache folder where the tests look for it. Again only when its source has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Of the release whose protocol docs/api.md says we speak.
version=v0.33.4
source=crates/testkit/tests/go_client/main.go
bin="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo/bin"
mark="$bin/go-client.source"

if [ -x "$bin/go-client" ] && cmp -s "$source" "$mark"; then exit 0; fi
command -v go >/dev/null || { echo "there is no Go to build it with" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$bin"
cp "$source" "$work/main.go"
(
  cd "$work"
  export GOFLAGS="-buildvcs=false -mod=mod -p=2" CGO_ENABLED=0 GOWORK=off
  {
    echo "module tombolo.dev/go-client"
    echo "go 1.24.0"
    for module in api apiextensions-apiserver apimachinery client-go; do
      echo "require k8s.io/$module $version"
    done
  } >go.mod
  nice -n 19 go build -trimpath -ldflags "-s -w" -o go-client .
)
mv "$work/go-client" "$bin/go-client"
cp "$source" "$mark"
