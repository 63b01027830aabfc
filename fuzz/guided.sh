#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# guided.sh - a bounded run of a libFuzzer target, for ctest: all of its corpus, then inputs that it finds by coverage.
#
# usage: guided.sh PROGRAM RUNS MALLOC_LIMIT_MB KEPT CORPUS [COVERAGE]   COVERAGE: more inputs, short ones. KEPT: a folder for inputs that reach something new; it is read again
# next time. HOLDFAST_TEST_SCALE multiplies RUNS, and HOLDFAST_VOLUME_SHARE. A finding's file is named on stderr; keep it in CORPUS once it is mended. Inputs of
# the corpus run as they are; of those that are made, only short ones, which reach the same places in less time. The last line says
# how many executions there were.
set -euo pipefail
program=$1 runs=$2 malloc_limit_mb=$3 kept=$4 corpus=$5 more=("${@:6}")
runs=$(awk -v runs="$runs" -v scale="${HOLDFAST_TEST_SCALE:-1}" -v share="${HOLDFAST_VOLUME_SHARE:-1}" 'BEGIN { printf "%d", (scale > 0 ? runs * scale : runs) * share }')
[[ -n $(find "$corpus" -type f -print -quit) ]] || { echo "$corpus: holds no input; add at least one file" >&2; exit 1; }
mkdir -p "$kept"
options=(-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb="$malloc_limit_mb" -verbosity=0 -artifact_prefix="$kept.finding-")
whole=$(find "$corpus" -type f | wc -l)
find "$corpus" -type f -print0 | sort -z | xargs -0 "$program" "${options[@]}"
"$program" "${options[@]}" -runs="$runs" -max_len=4096 -print_final_stats=1 "$kept" "$corpus" "${more[@]}" 2>&1 | tee "$kept.log"
executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$kept.log")
echo "$((executed + whole)) executions guided by coverage"
