#!/usr/bin/env bash
# Makes .venv if there is no usable one and installs the locked requirements and the project itself into it.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1

# One that was moved or copied still has commands that name the folder where it was made.
usable() {
  .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null &&
    head -n 2 .venv/bin/pip 2>/dev/null | grep -qF "$PWD/.venv/bin/"
}

if ! usable; then
  if ! python=$(scripts/find_python.sh venv); then
    echo 'Bellrock needs Python 3.11 or newer with its venv module. Install one, then: '"${STEP_RETRY:-make build}" >&2
    exit 1
  fi
  scripts/step.sh venv "Making a Python environment in .venv with $python" "$python" -m venv --clear .venv
fi
scripts/step.sh python 'Installing the Python packages' .venv/bin/python -m pip install --require-hashes -r "$lock"
# The build backend is in the lock, so nothing unpinned is fetched for this.
scripts/step.sh python-project 'Installing the project into .venv' \
  .venv/bin/python -m pip install --no-deps --no-build-isolation -e .
