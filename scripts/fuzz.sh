#!/usr/bin/env bash
# `make fuzz`: runs every fuzz target for SECONDS_EACH (30) seconds, without a sanitizer, because that works
# with stable Rust. Our code has no unsafe; what is looked for are panics, hangs and growth.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "cargo-fuzz is not installed; get it with: cargo install cargo-fuzz --locked" >&2
  exit 1
fi
for target in $(cargo fuzz list); do
  echo "==> $target"
  cargo fuzz run --sanitizer none "$target" -- \
    -max_total_time="${SECONDS_EACH:-30}" -timeout=1 -rss_limit_mb=512
done
