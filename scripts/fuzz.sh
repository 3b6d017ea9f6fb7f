#!/usr/bin/env bash
# Coverage-guided fuzzing with libFuzzer: scripts/fuzz.sh TARGET SECONDS KNOWN_TARGETS...
# Stable Rust suffices: LLVM's own pass puts the counters in. What is found goes to build/fuzz/.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1 seconds=$2
shift 2
if [[ " $* " != *" $target "* ]]; then
    echo "make fuzz: no target '$target'; there are: $*. Run: make fuzz TARGET=$1" >&2
    exit 2
fi

passes='-Cpasses=sancov-module'
for option in level=4 trace-compares inline-8bit-counters pc-table; do
    passes+=" -Cllvm-args=-sanitizer-coverage-$option"
done
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target the flags reach what is fuzzed only, not what builds it. Not --locked: fuzz/Cargo.lock follows what the agent needs.
RUSTFLAGS="$passes" STEP_RETRY="make fuzz TARGET=$target" scripts/step.sh fuzz 'Building the fuzz targets' \
    cargo build --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir build/fuzz/target

corpus=build/fuzz/corpus-$target
mkdir -p "$corpus"
export BELLROCK_FUZZ_TARGET=$target BELLROCK_FUZZ_CORPUS=$corpus
exec "build/fuzz/target/$host/release/fuzz" -max_total_time="$seconds" -max_len=65536 -timeout=60 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/$target-" "$corpus"
