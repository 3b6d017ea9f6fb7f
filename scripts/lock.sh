#!/usr/bin/env bash
# Resolves requirements*.in anew into requirements*.lock: exact versions with hashes, for every Python from 3.11 on.
set -euo pipefail
cd "$(dirname "$0")/.."
export STEP_RETRY='make lock'

python=$(scripts/find_python.sh venv)
[[ -x build/lock/bin/uv ]] || {
  # shellcheck disable=SC2016
  scripts/step.sh lock-venv 'Installing uv into build/lock' \
    bash -c '"$0" -m venv build/lock && build/lock/bin/pip install uv' "$python"
}
# Without --no-emit-* the lock would bear the address of whatever index this machine uses.
for name in requirements requirements-dev requirements-node requirements-ansible; do
  scripts/step.sh "lock-$name" "Resolving $name.in" build/lock/bin/uv pip compile "$@" \
    --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command 'make lock' --output-file "$name.lock" "$name.in"
done
