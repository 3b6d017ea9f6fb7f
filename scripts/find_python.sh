#!/usr/bin/env bash
# Prints the path of a Python that the project can use (3.11 or newer), outside the project's own venv.
# `find_python.sh venv`: one that can also make a venv (Debian splits that off). Exit status 1: there is none.
set -euo pipefail

# A Python found in the venv would be asked to make the venv that it lives in.
PATH=${PATH//"$PWD/.venv/bin:"/}

fits() { # NAME NEWEST-MINOR
  "$1" -c "
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, $2): sys.exit(1)
if '${want}' == 'venv': import venv, ensurepip
print(sys.executable)" 2>/dev/null
}

want=${1:-any}
# The system's own first, if it is one that the locks were tried with; a newer one last.
for name in python3 python3.13 python3.12 python3.11; do
  fits "$name" 13 && exit 0
done
fits python3 99
