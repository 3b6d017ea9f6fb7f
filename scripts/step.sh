#!/usr/bin/env bash
# One step of a build: `step.sh NAME TEXT COMMAND …` prints TEXT and the time taken in one line.
# The output goes to build/log/NAME.log; when the command fails, its last lines and what to run next are shown.
set -euo pipefail

name=$1 text=$2
shift 2
log=build/log/$name.log
mkdir -p build/log
printf '%s ... ' "$text"
SECONDS=0
status=0
"$@" >"$log" 2>&1 </dev/null || status=$?
if ((status == 0)); then
  echo "$SECONDS s"
  exit 0
fi
echo "failed after $SECONDS s (exit status $status)"
{
  echo "  command: $*"
  echo "  the last lines of $log:"
  tail -n 40 "$log" | sed 's/^/    /'
  echo "  to retry: ${STEP_RETRY:-make build}"
} >&2
exit "$status"
