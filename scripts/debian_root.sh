#!/usr/bin/env bash
# A small Debian as a tarball, in which the tests let Ansible set up a machine: `debian_root.sh FILE` makes it where it is not there. Needs root and debootstrap.
set -euo pipefail
file=$1
[[ ! -e $file ]] || exit 0
mkdir -p "$(dirname "$file")"
new=$(mktemp -d "$(dirname "$file")/.root.XXXXXX")
trap 'rm -rf "$new"' EXIT
debootstrap --variant=minbase --include=python3,python3-venv,python3-apt,systemd,openssl,ca-certificates "${SUITE:-bookworm}" "$new/root"
# Nothing that is installed there may start: it would run beside this machine's own.
printf '#!/bin/sh\nexit 101\n' >"$new/root/usr/sbin/policy-rc.d"
chmod 755 "$new/root/usr/sbin/policy-rc.d"
tar -C "$new/root" -czf "$new/tar.gz" .
mv "$new/tar.gz" "$file"
