#!/usr/bin/env bash
# Sees to it that there is a cargo that is new enough; where there is none, rustup's installer brings it.
# `rust.sh check` only tells, by its exit status, whether there is one, or a rustup that could bring it.
set -euo pipefail

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

version() { cargo --version 2>/dev/null | cut -d' ' -f2; }
new_enough() {
  local have
  have=$(version) || return 1
  [[ -n $have && $(printf '%s\n' "$wanted" "$have" | sort -V | head -n1) == "$wanted" ]]
}

new_enough && exit 0
if [[ ${1:-} == check ]]; then
  command -v rustup >/dev/null
  exit
fi
if command -v rustup >/dev/null; then
  # A rustup without a toolchain gets one; one with an old toolchain, and rustup itself, is its user's to change: it may be the machine's, and not in this HOME.
  if ! version >/dev/null; then
    scripts/step.sh rustup 'Installing Rust' bash -c \
      'rustup toolchain install stable --no-self-update --profile minimal --component rustfmt --component clippy && rustup default stable'
    hash -r
    new_enough && exit 0
  fi
  echo "Rust is $(version || echo 'not set up'), and $wanted or newer is needed. Run: rustup update stable && rustup default stable" >&2
  exit 1
fi
if ! command -v curl >/dev/null; then
  echo "Rust $wanted or newer is needed, and curl to fetch it. Run: sudo apt-get install -y curl ca-certificates" >&2
  exit 1
fi
echo "Rust is $(version || true), $wanted or newer is needed: installing it for this user with rustup (https://rustup.rs) in ${CARGO_HOME:-$HOME/.cargo}" |
  sed 's/Rust is ,/Rust is missing,/'
# shellcheck disable=SC2016
scripts/step.sh rustup 'Installing Rust' bash -c \
  'set -o pipefail; curl --proto "=https" --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal --component rustfmt --component clippy --default-toolchain stable --no-modify-path'
hash -r
new_enough || { echo "Rust is still not found: expected ${CARGO_HOME:-$HOME/.cargo}/bin/cargo. See build/log/rustup.log" >&2; exit 1; }
