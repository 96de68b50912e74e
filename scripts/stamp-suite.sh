#!/usr/bin/env bash
# Somebody else's STAMP (RFC 8762) for the tests of crates/probe: stamp-suite from crates.io, built once into the cache.
# Takes some minutes; without it these tests skip themselves and say so.
#
#   stamp-suite.sh build   builds it; prints where it is
#   stamp-suite.sh where   prints where it is, or fails
set -euo pipefail

version=1.0.0
cache="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo"
program="$cache/bin/stamp-suite"

build() {
  if [ -x "$program" ]; then echo "$program"; return; fi
  local folder
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' RETURN
  # Not the target folder of our own build, whose profile and features are others.
  CARGO_TARGET_DIR="$folder" nice -n 19 cargo install --quiet --locked --debug \
    --root "$cache" "stamp-suite@$version"
  echo "$program"
}

case "${1:-}" in
  build) build ;;
  where) [ -x "$program" ] && echo "$program" ;;
  *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
