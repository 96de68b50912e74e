#!/usr/bin/env bash
# A real Prometheus for the comparison of answers, from the Go module proxy: no package, no checkout.
#
#   prometheus.sh build   builds prometheus and promtool, once; prints where they are and how long it took
#   prometheus.sh where   prints the folder of the built programs, or fails
#   prometheus.sh source  prints the folder of the module's source in the module cache, or fails
#
# Built without service discovery, which nothing here asks for and which is most of its dependencies,
# and without the web pages, which would need Node.js: the tag `builtinassets` is simply not set.
set -euo pipefail

# What the tests of the language were written against. A newer one may answer differently on purpose.
version=3.15.0
# `v0.315.0` is how 3.15.0 is published as a module.
module=github.com/prometheus/prometheus@v0.3$(printf '%02d' "$(cut -d. -f2 <<<"$version")").$(cut -d. -f3 <<<"$version")
home="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo/prometheus/$version"

source_folder() { echo "$(go env GOMODCACHE)/$module"; }

build() {
  if [ -x "$home/prometheus" ] && [ -x "$home/promtool" ]; then echo "$home"; return; fi
  command -v go >/dev/null || { echo "there is no Go to build Prometheus with" >&2; return 1; }
  local started=$SECONDS work
  go mod download "$module"
  work=$(mktemp -d)
  # A copy, so that its own go.mod and go.sum say which dependencies; the module cache is read-only.
  trap 'chmod -R u+w "$work"; rm -rf "$work"' RETURN
  cp -r "$(source_folder)/." "$work"
  chmod -R u+w "$work"
  mkdir -p "$home"
  (
    cd "$work"
    export GOFLAGS="-p=2 -buildvcs=false" CGO_ENABLED=0 GOWORK=off
    local stamp="-s -w -X github.com/prometheus/common/version.Version=$version"
    for program in prometheus promtool; do
      nice -n 19 go build -trimpath -tags remove_all_sd -ldflags "$stamp" \
        -o "$home/$program.new" "./cmd/$program"
      mv "$home/$program.new" "$home/$program"
    done
  )
  echo "$home (built in $((SECONDS - started)) s)"
}

case "${1:-}" in
  build) build ;;
  where) [ -x "$home/prometheus" ] && [ -x "$home/promtool" ] && echo "$home" ;;
  source) folder=$(source_folder) && [ -d "$folder" ] && echo "$folder" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
