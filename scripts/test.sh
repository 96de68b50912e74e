#!/usr/bin/env bash
# `make test`: installs what the tests need as far as possible, runs every check, and ends with a
# list of what was skipped and why. A skip is no failure; it is never silent either.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo"
mkdir -p "$cache"
export PATH="$cache/bin:$PATH"
export TOMBOLO_TEST_PYTHON="$cache/venv/bin/python"

TOMBOLO_SKIPS=$(mktemp)
export TOMBOLO_SKIPS
trap 'rm -f "$TOMBOLO_SKIPS"' EXIT

scripts/install-test-tools.sh

status=0
cargo run --quiet --locked --package xtask -- ci || status=$?

echo
if [ -s "$TOMBOLO_SKIPS" ]; then
  echo "Skipped:"
  sort -u "$TOMBOLO_SKIPS" | sed 's/^/  /'
else
  echo "Nothing was skipped."
fi
exit "$status"
