#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# guided.sh - a bounded run of a libFuzzer target, for ctest: all of its corpus, then inputs that it finds by coverage.
#
# usage: guided.sh PROGRAM RUNS KEPT CORPUS   KEPT: a folder for inputs that reach something new; it is read again next
# time. HOLDFAST_TEST_SCALE multiplies RUNS. A finding's file is named on stderr; keep it in CORPUS once it is mended.
set -euo pipefail
program=$1 runs=$2 kept=$3 corpus=$4
runs=$(awk -v runs="$runs" -v scale="${HOLDFAST_TEST_SCALE:-1}" 'BEGIN { printf "%d", (scale > 0 ? runs * scale : runs) }')
[[ -n $(find "$corpus" -type f -print -quit) ]] || { echo "$corpus: holds no input; add at least one file" >&2; exit 1; }
mkdir -p "$kept"
exec "$program" -runs="$runs" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$kept.finding-" "$kept" "$corpus"
