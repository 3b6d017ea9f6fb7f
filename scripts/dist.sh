#!/usr/bin/env bash
# What a site's machines get, in build/dist: bellrock-VERSION.tar.gz (wheels of the project, of tracepack and of all that requirements.lock names; pages; Logstash's
# configuration) for servers, and bellrock-agent-VERSION.tar.gz (agent, preload library) for nodes; each with its sha256 beside it.
# The wheels fit any Python from 3.11 on of this machine's kind for which all packages have been fetched: this machine's own.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
out=build/dist
mkdir -p "$out"
new=$(mktemp -d "$out/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT

server=$new/bellrock-$version agent=$new/bellrock-agent-$version
mkdir -p "$server/wheels" "$agent"
# Fetched again only where the lock has changed.
if ! cmp -s requirements.lock build/dist-wheels/requirements.lock; then
  rm -rf build/dist-wheels
  mkdir -p build/dist-wheels
  # The machines' Python may be an older 3.11 than this one, which needs a package more.
  sed "s/ ; python_full_version < '[0-9.]*'//" requirements.lock >build/dist-wheels/all.txt
  scripts/step.sh dist-wheels 'Fetching the wheels of requirements.lock' \
    python -m pip download --require-hashes --no-deps --only-binary :all: -d build/dist-wheels -r build/dist-wheels/all.txt
  cp requirements.lock build/dist-wheels/
fi
cp build/dist-wheels/*.whl "$server/wheels/"
scripts/step.sh dist-own 'Building the wheels of Bellrock and tracepack' \
  python -m pip wheel --no-deps --no-build-isolation -w "$server/wheels" . ./compression
cp -r build/frontend "$server/frontend"
cp -r pipeline/logstash "$server/logstash"
cp requirements.lock LICENSE "$server/"
cp build/bellrock-agent build/libbellrock.so LICENSE "$agent/"

for folder in "$server" "$agent"; do
  name=$(basename "$folder").tar.gz
  # The same content makes the same archive: what changes nothing is not installed anew.
  tar -C "$new" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$(basename "$folder")" | gzip -n >"$new/$name"
  (cd "$new" && sha256sum "$name" >"$name.sha256")
  mv "$new/$name" "$new/$name.sha256" "$out/"
  echo "$out/$name  $(du -h "$out/$name" | cut -f1)"
done
