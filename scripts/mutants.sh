#!/usr/bin/env bash
# `make mutants`: plants small bugs, one at a time, and runs the tests of the crate that has it; says
# which bugs no test found. A sample of about SAMPLE (15) for each crate, spread over its files; SHARD
# (0) picks another one. Takes about a minute for each bug, and is no part of CI.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo"
export PATH="$tools/bin:$PATH"
if ! command -v cargo-mutants >/dev/null; then
  # Not among the user's own programs.
  cargo install cargo-mutants --locked --root "$tools" \
    --target-dir "${CARGO_TARGET_DIR:-target}/cargo-mutants"
fi

crates=("$@")
if [ ${#crates[@]} -eq 0 ]; then
  crates=(store plan placement gate facade)
fi
for crate in "${crates[@]}"; do
  all=$(cargo mutants --list --package "tombolo-$crate" | wc -l)
  shards=$((all / ${SAMPLE:-15}))
  shards=$((shards > 0 ? shards : 1))
  echo "==> $crate: one of $shards of $all"
  # Some bugs make a loop that never ends: a test that takes so much longer than usual has found one.
  cargo mutants --package "tombolo-$crate" --shard "${SHARD:-0}/$shards" --sharding round-robin \
    --jobs 1 --cap-lints true --no-shuffle --minimum-test-timeout 60 \
    --output "${CARGO_TARGET_DIR:-target}/mutants/$crate" || true
done
echo "==> what no test found"
cat "${CARGO_TARGET_DIR:-target}"/mutants/*/mutants.out/missed.txt
