#!/usr/bin/env bash
# Runs every linter, also after one has complained; exit status 1 if any has.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
export STEP_RETRY='make lint'

bad=0
step() { scripts/step.sh "$@" || bad=1; }
step lint-python 'Python: ruff' ruff check .
step lint-format 'Rust: rustfmt' cargo fmt --all --check
step lint-format-fuzz 'Rust: rustfmt, fuzz/' cargo fmt --manifest-path fuzz/Cargo.toml --check
# With the module that Python loads, too, which nothing else here is built with.
step lint-rust 'Rust: clippy' cargo clippy --workspace --all-targets --features tracepack-python/module --locked -- -D warnings
step lint-c 'C: warnings' make -C collectors/preload lint
step lint-frontend 'Pages: eslint' npm --prefix webapp/frontend run lint
exit "$bad"
