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
log=$(mktemp)
trap 'rm -f "$TOMBOLO_SKIPS" "$log"' EXIT

scripts/install-test-tools.sh

status=0
cargo run --quiet --locked --package xtask -- ci 2>&1 | tee "$log" || status=$?

echo
if [ -s "$TOMBOLO_SKIPS" ]; then
  echo "Skipped:"
  sort -u "$TOMBOLO_SKIPS" | sed 's/^/  /'
else
  echo "Nothing was skipped."
fi

# The sum of what cargo test says of each of its programs.
awk -v skipped="$(sort -u "$TOMBOLO_SKIPS" | wc -l)" '
  /^test result:/ { passed += $4; failed += $6 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$log"
exit "$status"
