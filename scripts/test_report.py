#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ctest, shows what matters of its output, and sums up the results of several runs.

usage: test_report.py run NAME --results FOLDER --build FOLDER -- CTEST-ARGUMENT...
       test_report.py fail NAME --results FOLDER      count a failed step (a build) as a failed test
       test_report.py total --results FOLDER [--complete]
                                                      list what failed, was skipped or took longest, and how much was tried; last line
                                                      "N passed, N failed, N skipped". A complete run fails where it tried too little
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as xml

STARTED = re.compile(r"\s*Start +\d+: (\S+)")
RESULT = re.compile(r"\s*(\d+)/(\d+) +Test +#\d+: (\S+) [.\s]*(\*\*\*)?(.*?)\s+[\d.]+ sec")

PATIENCE = 60  # seconds without a word

# What tests print of their work: tests/support/told_numbers.hpp, fuzz/guided.sh, fuzz/replay_main.cpp.
TOLD = re.compile(r"^told: (\w+) = (\d+)", re.M)
TOLD_AS = {"steps": "single steps", "recovery_steps": "single steps", "deaths": "deaths in front of stores", "schedules": "schedules",
           "schedules_with_a_death": "schedules", "schedules_with_a_successor": "schedules with a successor", "kills": "kills",
           "operations": "operations of recorded histories", "relaxed_orders_caught": "relaxed orders caught"}
EXECUTIONS = re.compile(r"(\d+) executions (of mutated ones|guided by coverage)")
CONTAINERS = {  # by the names of their tests; the first that fits
    "queue<T>": r"Queue(Kill|History)\..*OfRecords|queue_of_records|QueueOfElements|QueueStep\.Elements", "queue": r"Queue|/queue",
    "broadcast": r"Broadcast|/broadcast", "snapshot": r"Snapshot|/snapshot", "sorted_index": r"SortedIndex|/published_index",
    "array": r"Array|/array", "small_table": r"SmallTable|/small_table",
    "block_store": r"BlockStore|/block_store", "hash_map": r"HashMap|/hash_map", "hash_table": r"HashTable|GrowthDeath|/hash_table",
    "counter_set": r"Metrics\w+\.Counters|CounterS|/counter_set",
    "latency_histogram": r"Metrics\w+\.(Histograms|TotalsOfHistograms)|LatencyH|LatencyS|MaxOfN|/latency_histogram"}
KINDS = {  # those of many writers, and a map with a feed, by themselves
    "block_store of many writers": r"BlockStoreMany|ManyBlocks|(Many|Three)WritersOfABlockStore|/block_store_many",
    "hash_map of many writers": r"HashMapMany|HashMap\w*\.\w*OfManyWriters|HashMapOfManyWriters|(Many|Three)Writers\w*OfAHashMap|/hash_map_many",
    "hash_table of many writers": r"HashTableMany|ManyGrowthDeath|(Many|Three)WritersOfAHashTable|ManyWritersOf(OneKey|TwoStripes)$|ManyWritersWho|ALeaderOf|/hash_table_many",
    "hash_map with a feed": r"HashMapFeed|/hash_map_feed", **CONTAINERS}
# What a complete run has to try (docs/design/0010), about nine tenths of what it does, so that no container's tests, and no fuzz target's,
# can be gone unseen. HOLDFAST_TEST_SCALE multiplies what it multiplies in all of the tests: not schedules and orders, most of which are all there are.
STEPS = {"array": 940_000, "block_store": 265_000, "block_store of many writers": 500_000, "broadcast": 360_000, "counter_set": 84_000,
         "hash_map": 1_590_000, "hash_map of many writers": 2_700_000, "hash_map with a feed": 166_000, "hash_table": 930_000,
         "hash_table of many writers": 2_100_000, "latency_histogram": 5700, "queue": 130_000, "queue<T>": 22_000, "small_table": 550_000, "snapshot": 75_000, "sorted_index": 3100}
DEATHS = {"array": 350_000, "block_store": 550_000, "block_store of many writers": 180_000, "broadcast": 600_000, "counter_set": 550_000,
          "hash_map": 360_000, "hash_map of many writers": 90_000, "hash_map with a feed": 90_000, "hash_table": 540_000, "hash_table of many writers": 120_000,
          "latency_histogram": 90_000, "queue": 1_600_000, "queue<T>": 2_200_000, "small_table": 90_000, "snapshot": 2_000_000}
SCHEDULES = {"array": 204_000, "block_store": 122_000, "block_store of many writers": 227_000, "broadcast": 310_000, "counter_set": 36_500, "hash_map": 461_000,
             "hash_map of many writers": 51_000, "hash_map with a feed": 30_000, "hash_table": 228_000, "hash_table of many writers": 113_000,
             "latency_histogram": 3760, "queue": 11_000, "queue<T>": 1230, "small_table": 1_469_000, "snapshot": 56_000}
SUCCESSORS = {"array": 134_000, "block_store": 104_000, "broadcast": 429_000, "counter_set": 15_300, "hash_map": 409_000, "hash_map with a feed": 300_000,
              "hash_table": 54_800, "latency_histogram": 950, "queue": 8600, "small_table": 123_000, "snapshot": 118_000}
ORDERS = {"array": 8, "block_store": 8, "block_store of many writers": 1, "broadcast": 24, "hash_map": 9, "hash_map of many writers": 9, "hash_table": 12,
          "hash_table of many writers": 3, "latency_histogram": 5, "queue": 20, "queue<T>": 7, "small_table": 11, "snapshot": 26}
# Recorded for so long, not so often: two runs on a busy machine of two processors checked 5.0 and 6.1 x 10^6 in all, of one kind 17,000 and 121,000.
# So of a kind only that it is not gone.
HISTORIES = dict.fromkeys(("array", "block_store", "block_store of many writers", "broadcast", "counter_set", "hash_map", "hash_map of many writers", "hash_table",
                           "hash_table of many writers", "latency_histogram", "queue", "queue<T>", "small_table", "snapshot"), 2000)
# Whose rounds of kills take longest: three tenths of them in the gate, as of what share_of() is asked elsewhere.
KILLED_BY_SHARE = ("block_store of many writers", "hash_map of many writers", "hash_table of many writers", "hash_map with a feed")
# Rounds of real kills alone, without what needs ptrace: of a container that has two tests of 10^4 rounds, those of both.
KILLS = {**dict.fromkeys(CONTAINERS, 10**4), "array": 20_000, "block_store": 20_000, "broadcast": 12_000, "counter_set": 10_400, "hash_map": 20_000, "hash_table": 20_000,
         "latency_histogram": 10_400, "queue": 10_500, "queue<T>": 10_400, "snapshot": 20_000, "sorted_index": 11_000,
         **dict.fromkeys(KILLED_BY_SHARE, 10**4)}
GUIDED = {"array": 22_000, "block_store": 11_000, "broadcast": 72_000, "growing": 2700, "hash_map": 9000, "hash_table": 162_000, "inbox": 2200, "metrics": 18_000, "queue": 135_000,
          "saved": 12_600, "segment": 3600, "small_table": 7000, "snapshot": 450_000, "sorted_index": 135_000}
APART = "sorted_index"  # none of the containers, and the quickest target: the sum over segments and saved files is reached without it
OF_KINDS = {"single steps": STEPS, "schedules": SCHEDULES, "schedules with a successor": SUCCESSORS, "relaxed orders caught": ORDERS, "kills": KILLS}
SCALED_OF_KINDS = {"deaths in front of stores": DEATHS, "operations of recorded histories": HISTORIES}


def of_kinds(floors):
    return {f"{what} of {kind}": floor for what, by_kind in floors.items() for kind, floor in by_kind.items()}


FLOORS = {"single steps": 10**6, "schedules": 3_330_000, "schedules with a successor": 1_698_000, "relaxed orders caught": 148, **of_kinds(OF_KINDS)}
SCALED_FLOORS = {"deaths in front of stores": 10**7, "operations of recorded histories": 10**6, **of_kinds(SCALED_OF_KINDS),
                 "executions over segments and saved files guided by coverage": 10**6,
                 **{f"executions of {target} guided by coverage": floor for target, floor in GUIDED.items()}}


def cases_of(file):
    text = file.read_bytes().decode("utf-8", "replace")
    text = re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)  # tests print what XML cannot hold
    return xml.fromstring(text.partition("?>")[2] if text.startswith("<?xml") else text).iter("testcase")


def read(file):
    """(name, outcome, why) of each test of a JUnit file; outcome is passed, failed or skipped."""
    for case in cases_of(file):
        status, skipped = case.get("status"), case.find("skipped")
        why = skipped.get("message", "") if skipped is not None else ""
        output = case.findtext("system-out") or ""
        if status == "run":
            yield case.get("name"), "passed", ""
        elif status == "disabled" or why.startswith("SKIP_"):
            yield case.get("name"), "skipped", reason_of(output) or why
        else:  # fail, or not run for another reason than its own wish: a missing program, a failed fixture
            yield case.get("name"), "failed", why


def reason_of(output):
    """What a skipped test said about it: the text after gtest's "Skipped" line, or its last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if line.endswith("Skipped") and number + 1 < len(lines):
            return lines[number + 1]
    return next((line for line in reversed(lines) if not line.startswith("[")), "")


def first_that_fits(name, patterns):
    return next((of for of, pattern in patterns.items() if re.search(pattern, name)), None)


def tried(file):
    """(what, number) for all that the tests of a JUnit file say they tried."""
    for case in cases_of(file):
        name, output = case.get("name").partition(" ")[0], case.findtext("system-out") or ""  # without "# GetParam() = ..."
        kind = first_that_fits(name, KINDS)
        for key, number in TOLD.findall(output):
            if what := TOLD_AS.get(key):
                yield what, int(number)
                if kind:
                    yield f"{what} of {kind}", int(number)
        for number, how in EXECUTIONS.findall(output):
            target, how = name.partition(".")[2], "guided by coverage" if how.startswith("guided") else "mutated blindly"
            if target != APART:
                yield f"executions over {'segments and saved files' if target in GUIDED else 'other bytes'} {how}", int(number)
            if target == APART or (target in GUIDED and how.startswith("guided")):
                yield f"executions of {target} {how}", int(number)


def run(name, results, build, arguments):
    file = (results / f"{name}.xml").resolve()
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--test-output-size-passed", "10000000", "--output-junit", str(file), *arguments]
    started = shown = time.monotonic()
    terminal, last = sys.stdout.isatty(), name
    running, lock, over = {}, threading.Lock(), threading.Event()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")

    def show_what_runs():  # tests of the long run take up to an hour and say nothing before their end
        while not over.wait(PATIENCE):
            with lock:
                now = time.monotonic()
                if running and now - shown >= PATIENCE:
                    print(("\r\033[K" if terminal else "") + f"{last}; running: " +
                          ", ".join(f"{test} for {now - since:.0f} s" for test, since in running.items()), flush=True)

    beside = threading.Thread(target=show_what_runs, daemon=True)
    beside.start()
    for line in process.stdout:
        with lock:
            result, begun = RESULT.match(line), STARTED.match(line)
            if begun:
                running[begun[1]] = time.monotonic()
            if result:
                running.pop(result[3], None)
            if result and (not result[4] or result[5].startswith(("Skipped", "Not Run (Disabled)"))):
                last = f"{name}: {result[1]} of {result[2]}"
                now = time.monotonic()
                if now - shown > (0.2 if terminal else 15):
                    print(f"\r\033[K{last}" if terminal else last, end="" if terminal else "\n", flush=True)
                    shown = now
            elif result or not re.match(r"\s*Start +\d+:|Test project|Internal ctest changing|No tests were found|Total Test time|"
                                        r"\s*$|Label Time Summary|\S+ += +[\d.]+ sec\*proc|\d+% tests passed|Output from these tests|Use \"--rerun", line):
                print(("\r\033[K" if terminal else "") + line, end="", flush=True)
    over.set()
    beside.join()
    process.stdout.close()
    code = process.wait()
    outcomes = [outcome for _, outcome, _ in read(file)] if file.exists() else []
    if code and "failed" not in outcomes:  # ctest itself failed, for example because a test program could not list its tests
        fail(f"{name}.ctest", results)
        outcomes.append("failed")
    if outcomes:
        counts = ", ".join(f"{outcomes.count(o)} {o}" for o in ("passed", "failed", "skipped"))
        print(("\r\033[K" if terminal else "") + f"{name}: {counts} in {time.monotonic() - started:.0f} s", flush=True)
    return 1 if "failed" in outcomes else 0


def slowest(file, many=5):
    """The tests of a JUnit file that took longest, in words; empty where none took a second."""
    took = sorted(((float(case.get("time") or 0), case.get("name").partition(" ")[0]) for case in cases_of(file)), reverse=True)
    return ", ".join(f"{name} {seconds:.0f} s" for seconds, name in took[:many] if seconds >= 1)


def fail(name, results):
    case = f'<testsuite><testcase name="{name}" status="fail"/></testsuite>'
    (results / f"{name}.xml").write_text(case)
    print(f"{name}: FAILED", flush=True)


def short_of_floors(numbers, skipped):
    """(what, number, floor, whether this machine is why) for all that was tried too little. Steps are counted in the release build,
    by tests that need ptrace; builds with sanitizers skip those everywhere, which says nothing of the machine."""
    scale = float(os.environ.get("HOLDFAST_TEST_SCALE") or 1)
    if scale < 1:
        return
    share = float(os.environ.get("HOLDFAST_VOLUME_SHARE") or 1)  # of what fuzz/guided.sh and who asks share_of() of tests/support do elsewhere
    no_ptrace = any("ptrace" in why and any(label.startswith("release") for label in labels) for why, labels in skipped.items())
    shared = {f"kills of {kind}" for kind in KILLED_BY_SHARE}
    for what, floor in {**FLOORS, **{what: int(floor * scale) for what, floor in SCALED_FLOORS.items()}}.items():
        if what in shared or what.endswith("guided by coverage") or what.startswith("deaths in front of stores"):
            floor = int(floor * share)
        if numbers[what] < floor:
            yield what, numbers[what], floor, no_ptrace and what.startswith("single steps")


def total(results, complete):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    skipped, failed = {}, []
    for file in sorted(results.glob("*.xml")):
        for name, outcome, why in read(file):
            counts[outcome] += 1
            label = name if name.startswith(file.stem + ".") else f"{file.stem}: {name}"
            if outcome == "failed":
                failed.append(label + (f" ({why})" if why else ""))
            elif outcome == "skipped":
                skipped.setdefault(why, []).append(label)
    for why, names in sorted(skipped.items()):
        print(f"skipped, {why}: {len(names)} ({names[0]}{', ...' if len(names) > 1 else ''})")
    for file in sorted(results.glob("*.xml")):
        if words := slowest(file):
            print(f"slowest, {file.stem}: {words}")
    numbers = collections.Counter()
    for file in results.glob("*.xml"):
        for what, number in tried(file):
            numbers[what] += number
    for what in sorted(numbers):
        print(f"tried, {what}: {numbers[what]:,}")
    if complete:
        for what, number, floor, excused in short_of_floors(numbers, skipped):
            if excused:
                print(f"too little, {what}: {number:,} of {floor:,}, where tests that need ptrace are skipped")
                continue
            failed.append(f"total: {what}: {number:,}, which is less than {floor:,}")
            counts["failed"] += 1
    for label in failed:
        print(f"FAILED {label}")
    if not sum(counts.values()):
        print("no test was selected: look at the names with ctest --test-dir build/release -N")
        counts["failed"] = 1
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()), flush=True)
    return 1 if counts["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "fail", "total"))
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--complete", action="store_true")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:split])
    if arguments.command == "run":
        return run(arguments.name, arguments.results, arguments.build, sys.argv[split + 1:])
    if arguments.command == "fail":
        fail(arguments.name, arguments.results)
        return 0
    return total(arguments.results, arguments.complete)


if __name__ == "__main__":
    sys.exit(main())
