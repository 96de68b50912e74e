#!/usr/bin/env bash
# `make fuzz`: runs every fuzz target, or those that are named, each for SECONDS_EACH (30) seconds. Without
# a sanitizer, because that works with stable Rust: our code has no unsafe; what is looked for are panics,
# hangs and growth. What is found lies under fuzz/artifacts, what was learnt under fuzz/corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools="${XDG_CACHE_HOME:-$HOME/.cache}/tombolo/cargo-fuzz"
export PATH="$tools/bin:$PATH"
if ! command -v c++ >/dev/null; then
  echo "the fuzzer is C++ and needs a compiler; on Debian: apt-get install g++" >&2
  exit 1
fi
if ! command -v cargo-fuzz >/dev/null; then
  # Not among the user's own programs.
  cargo install cargo-fuzz --locked --root "$tools" --target-dir "${CARGO_TARGET_DIR:-target}/cargo-fuzz"
fi
# The same versions as everything else is built and tested with; the fuzzer itself is added to them.
cp Cargo.lock fuzz/Cargo.lock

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(cargo fuzz list)
fi
for target in "${targets[@]}"; do
  echo "==> $target"
  corpus="fuzz/corpus/$target"
  mkdir -p "$corpus"
  # From nothing it would take days to come upon a descriptor.
  seeds=()
  case "$target" in
  descriptor-* | yaml | yaml-body)
    seeds=(examples/formats crates/descriptor/tests/{complete,broken,plain/complete})
    ;;
  esac
  # Nothing takes a tenth of this time on a machine that does nothing else.
  cargo fuzz run --sanitizer none "$target" "$corpus" "${seeds[@]}" -- \
    -max_total_time="${SECONDS_EACH:-30}" -max_len=16384 -timeout=10 -rss_limit_mb=512
done
