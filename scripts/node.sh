#!/usr/bin/env bash
# Sees to it that there is a Node.js that is new enough; where there is none, it goes into .venv as a Python package.
set -euo pipefail

wanted=20.19

new_enough() {
  local have
  have=$(node --version 2>/dev/null) && command -v npm >/dev/null || return 1
  [[ $(printf '%s\n' "$wanted" "${have#v}" | sort -V | head -n1) == "$wanted" ]]
}

new_enough && exit 0
scripts/step.sh node "Installing Node.js into .venv (found none of $wanted or newer)" \
  .venv/bin/python -m pip install --require-hashes -r requirements-node.lock
hash -r
new_enough || { echo 'Node.js is still not found in .venv/bin. See build/log/node.log' >&2; exit 1; }
