#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test_report.py counts what happened: a failure that it does not see is a test that cannot fail."""
import contextlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts/test_report.py"
spec = importlib.util.spec_from_file_location("test_report", TOOL)
report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(report)

# How the tests of a kind are named.
NAMES = {"queue<T>": "QueueOfElements", "queue": "QueueOfBytes", "broadcast": "Broadcast", "snapshot": "Snapshot", "sorted_index": "SortedIndex",
         "array": "ArrayOfWords", "small_table": "SmallTable", "block_store": "BlockStore", "hash_map": "HashMap", "hash_table": "HashTableOfWords",
         "counter_set": "CounterSet", "latency_histogram": "LatencyHistogram", "block_store of many writers": "ManyWritersOfABlockStore",
         "hash_map of many writers": "ManyWritersOfAHashMap", "hash_table of many writers": "ManyWritersOfAHashTable",
         "hash_map with a feed": "HashMapFeed"}

PASSED = '<testcase name="a" status="run"/>'
FAILED = '<testcase name="b" status="fail"><failure message=""/></testcase>'
SKIPPED = ('<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
           "<system-out>x_test.cpp:7: Skipped\nneeds CAP_SYS_ADMIN\n</system-out></testcase>")
SKIPPED_BY_CODE = '<testcase name="d" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>'
MISSING = '<testcase name="e" status="notrun"><skipped message="Unable to find executable"/></testcase>'
DISABLED = '<testcase name="f" status="disabled"><skipped message="Disabled"/></testcase>'


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.results = pathlib.Path(self.folder.name)

    def tool(self, *arguments, scale="1", share="1"):
        environment = dict(os.environ, PATH=f"{self.results}:{os.environ['PATH']}", HOLDFAST_TEST_SCALE=scale, HOLDFAST_VOLUME_SHARE=share)
        return subprocess.run([sys.executable, "-B", str(TOOL), *arguments], capture_output=True, text=True, env=environment)

    def total(self, **suites):
        for name, cases in suites.items():
            (self.results / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        done = self.tool("total", "--results", str(self.results))
        return done.returncode, done.stdout.splitlines()

    def fake_ctest(self, script):
        fake = self.results / "ctest"
        fake.write_text(f"#!/usr/bin/env bash\nwhile [[ $1 != --output-junit ]]; do shift; done; junit=$2\n{script}\n")
        fake.chmod(0o755)

    def ctest(self, script):
        """Runs the tool with a ctest of our making on the PATH, then sums up."""
        self.fake_ctest(script)
        ran = self.tool("run", "suite", "--results", str(self.results), "--build", str(self.results), "--")
        done = self.tool("total", "--results", str(self.results))
        return ran, done.returncode, done.stdout.splitlines()[-1]

    def test_sums_over_all_suites(self):
        code, lines = self.total(one=[PASSED, PASSED, SKIPPED], two=[PASSED, SKIPPED_BY_CODE, DISABLED])
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed, 3 skipped"))
        self.assertTrue(any("needs CAP_SYS_ADMIN" in line for line in lines), lines)

    def test_what_took_longest_is_named(self):
        code, lines = self.total(one=[f'<testcase name="t{n}  # GetParam() = 1" time="{n}.4" status="run"/>' for n in range(8)], two=[PASSED])
        self.assertEqual(code, 0)
        self.assertEqual([line for line in lines if line.startswith("slowest")], ["slowest, one: t7 7 s, t6 6 s, t5 5 s, t4 4 s, t3 3 s"])

    def test_one_failure_fails_and_is_named(self):
        code, lines = self.total(one=[PASSED], two=[FAILED])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED two: b", lines)

    def test_a_program_that_is_missing_is_a_failure(self):
        code, lines = self.total(one=[PASSED, MISSING])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_nothing_at_all_is_a_failure(self):
        code, lines = self.total(one=[])
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_output_that_is_no_text_does_not_hide_the_result(self):
        (self.results / "one.xml").write_bytes(
            b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuite><testcase name="a" status="fail"><system-out>\xff\x00\x1b[1m</system-out></testcase></testsuite>')
        self.assertEqual(self.total(), (1, ["FAILED one: a", "0 passed, 1 failed, 0 skipped"]))

    def test_a_failed_build_is_a_failure(self):
        self.tool("fail", "asan.build", "--results", str(self.results))
        code, lines = self.total(one=[PASSED])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def complete(self, skipping=(), scale="1", share="1", **suites):
        """What a complete run says and answers, with the numbers of one that tries just enough but for what is given. `skipping` names the
        builds that skip a test for lack of ptrace."""
        times = max(1, int(float(scale)))
        steps = {f"crash.{NAMES[kind]}Step.All": floor for kind, floor in report.STEPS.items()}
        deaths = {f"crash.StoreDeaths.{NAMES[kind]}": floor * times for kind, floor in report.DEATHS.items()}
        histories = {f"crash.{NAMES[kind]}History.All": floor * times for kind, floor in report.HISTORIES.items()}
        guided = {f"fuzz.{target}": floor * times for target, floor in report.GUIDED.items()}
        guided["fuzz.array"] += max(0, 10**6 * times - sum(guided.values()) + guided[f"fuzz.{report.APART}"])
        told = {"crash.Other.Steps": f"told: steps = 7\ntold: recovery_steps = {max(0, 10**6 - 7 - sum(steps.values()))}",
                "crash.Other.Deaths": f"told: deaths = {max(0, 10**7 * times - sum(deaths.values()))}",
                "crash.Other.Schedules": f"told: schedules = {max(0, report.FLOORS['schedules'] - sum(report.SCHEDULES.values()))}\n"
                                         f"told: schedules_with_a_successor = {max(0, report.FLOORS['schedules with a successor'] - sum(report.SUCCESSORS.values()))}\n"
                                         f"told: relaxed_orders_caught = {max(0, report.FLOORS['relaxed orders caught'] - sum(report.ORDERS.values()))}",
                "crash.Other.Histories": f"told: operations = {max(0, 10**6 * times - sum(histories.values()))}",
                **{name: f"told: steps = {number}" for name, number in steps.items()},
                **{name: f"told: deaths = {number}" for name, number in deaths.items()},
                **{f"crash.Interleavings.{NAMES[kind]}": f"told: schedules = {floor - 7}\ntold: schedules_with_a_death = 7" for kind, floor in report.SCHEDULES.items()},
                **{f"crash.Interleavings.{NAMES[kind]}Successors": f"told: schedules_with_a_successor = {floor}" for kind, floor in report.SUCCESSORS.items()},
                **{f"crash.Orders.{NAMES[kind]}": f"told: relaxed_orders_caught = {floor}" for kind, floor in report.ORDERS.items()},
                **{name: f"told: operations = {number}\ntold: killed_operations = 3" for name, number in histories.items()},
                **{f"crash.{NAMES[kind]}Kill.All": f"told: kills = {floor} kills, 3 of them" for kind, floor in report.KILLS.items()},
                **{name: f"9 inputs replayed, 100 executions of mutated ones\n{number} executions guided by coverage" for name, number in guided.items()},
                "fuzz.uri": "500 executions guided by coverage", **suites}
        cases = [f'<testcase name="{name}" status="run"><system-out>{text.replace("<", "&lt;")}</system-out></testcase>' for name, text in told.items()]
        (self.results / "release.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        for build in skipping:
            (self.results / f"{build}.xml").write_text(
                '<testsuite><testcase name="g" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
                "<system-out>x_test.cpp:7: Skipped\nneeds: ptrace and a build without sanitizers\n</system-out></testcase></testsuite>")
        done = self.tool("total", "--results", str(self.results), "--complete", scale=scale, share=share)
        return done.returncode, done.stdout.splitlines()

    def test_what_was_tried_is_added_up(self):
        code, lines = self.complete(**{"crash.Containers/ImageKill.All/array  # GetParam() = array": "told: kills = 60"})
        self.assertEqual(code, 0, lines)
        for line in (f"tried, schedules: {max(report.FLOORS['schedules'], sum(report.SCHEDULES.values())):,}", f"tried, schedules of queue<T>: {report.SCHEDULES['queue<T>']:,}",
                     f"tried, schedules with a successor of array: {report.SUCCESSORS['array']:,}", "tried, operations of recorded histories: 1,000,000",
                     f"tried, operations of recorded histories of counter_set: {report.HISTORIES['counter_set']:,}",
                     f"tried, relaxed orders caught of hash_map of many writers: {report.ORDERS['hash_map of many writers']}",
                     f"tried, single steps: {max(10**6, 7 + sum(report.STEPS.values())):,}", f"tried, kills of queue<T>: {report.KILLS['queue<T>']:,}", f"tried, kills of array: {report.KILLS['array'] + 60:,}",
                     f"tried, single steps of array: {report.STEPS['array']:,}", f"tried, deaths in front of stores of queue: {report.DEATHS['queue']:,}",
                     "tried, executions over segments and saved files guided by coverage: 1,000,000",
                     f"tried, executions of segment guided by coverage: {report.GUIDED['segment']:,}",
                     f"tried, executions of sorted_index guided by coverage: {report.GUIDED['sorted_index']:,}",
                     f"tried, executions over segments and saved files mutated blindly: {100 * (len(report.GUIDED) - 1):,}",
                     "tried, executions over other bytes guided by coverage: 500"):
            self.assertIn(line, lines)

    def test_a_complete_run_that_tried_too_little_fails(self):
        for name, text, what in (("crash.SmallTableStep.All", "told: steps = 999", "single steps of small_table: 999"),
                                 ("crash.StoreDeaths.ManyWritersOfAHashMap", "", "deaths in front of stores of hash_map of many writers: 0"),
                                 ("crash.Other.Deaths", "", "deaths in front of stores: "),
                                 ("crash.Interleavings.QueueOfElements", "", "schedules of queue<T>: 0"),
                                 ("crash.Interleavings.SmallTable", "", "schedules: "),
                                 ("crash.Interleavings.SnapshotSuccessors", "", "schedules with a successor of snapshot: 0"),
                                 ("crash.Orders.Broadcast", "told: relaxed_orders_caught = 2", "relaxed orders caught of broadcast: 2"),
                                 ("crash.Orders.Broadcast", "", "relaxed orders caught: "),
                                 ("crash.ArrayOfWordsHistory.All", "", "operations of recorded histories of array: 0"),
                                 ("crash.Other.Histories", "", "operations of recorded histories: "),
                                 ("crash.QueueOfElementsKill.All", "told: kills = 500", "kills of queue<T>: 500"),
                                 ("crash.SmallTableKill.All", "told: kills = 9999", "kills of small_table: 9,999"),
                                 ("crash.CounterSetKill.All", "", "kills of counter_set: 0"),
                                 ("crash.HashMapFeedKill.All", "told: kills = 3", "kills of hash_map with a feed: 3"),
                                 ("crash.HashMapKill.All", "told: kills = 10000", "kills of hash_map: 10,000"),
                                 ("fuzz.segment", "50 executions guided by coverage", "executions of segment guided by coverage: 50"),
                                 ("fuzz.array", "2000000 executions of mutated ones", "guided by coverage: ")):
            code, lines = self.complete(**{name: text})
            self.assertEqual(code, 1)
            self.assertTrue(any(line.startswith("FAILED total: ") and what in line for line in lines), lines)

    def test_every_kind_has_a_floor(self):
        stepped = set(report.KINDS)
        self.assertEqual(stepped, set(report.STEPS))
        # A published index is a snapshot: it has no stores of its own to die at.
        self.assertEqual(stepped - {"sorted_index"}, set(report.DEATHS))
        self.assertEqual(stepped - {"sorted_index"}, set(report.SCHEDULES))
        self.assertEqual(stepped - {"sorted_index", "hash_map with a feed"}, set(report.HISTORIES))
        self.assertEqual(stepped - {"sorted_index", "hash_map with a feed", "counter_set"}, set(report.ORDERS))  # counters need none above relaxed
        self.assertEqual(stepped, set(report.KILLS))
        self.assertGreaterEqual(min(report.KILLS.values()), 10**4)

    def test_tests_are_told_apart_by_their_names(self):
        for name, kind in (("Interleavings.ManyWritersOfOneKey", "hash_table of many writers"), ("Interleavings.ManyWritersOfOneKeyOfAHashMap", "hash_map of many writers"),
                           ("Interleavings.ThreeWritersOfABlockStore", "block_store of many writers"), ("Interleavings.ALeaderOfAGrowthBesideAWriter", "hash_table of many writers"),
                           ("Interleavings.HashTableThatGrowsSuccessors", "hash_table"), ("Orders.HashMapOfManyWriters", "hash_map of many writers"), ("Orders.HashMap", "hash_map"),
                           ("HashMapHistory.EveryOperationOfThreeOfManyWritersIsLinearizable", "hash_map of many writers"),
                           ("ManyBlocksHistory.ValuesOfThreeWritersAreLinearizable", "block_store of many writers"), ("QueueHistory.OfRecordsIsLinearizable", "queue<T>"),
                           ("QueueHistory.OfBytesIsLinearizable", "queue"), ("MetricsHistory.CountersOfManyWritersAreLinearizable", "counter_set"),
                           ("MetricsHistory.TotalsOfHistogramsLieBetweenWhatWasRecordedAndWhatWasBegun", "latency_histogram")):
            self.assertEqual(report.first_that_fits(f"crash.{name}", report.KINDS), kind, name)

    def test_kills_of_one_kind_do_not_stand_for_those_of_another(self):
        for many, single in (("ManyWritersOfAHashMap", "hash_map"), ("HashMapFeed", "hash_map"), ("ManyWritersOfABlockStore", "block_store"),
                             ("ManyWritersOfAHashTable", "hash_table")):
            code, lines = self.complete(**{f"crash.{many}Kill.All": "told: kills = 1000000", f"crash.{NAMES[single]}Kill.All": ""})
            self.assertEqual(code, 1)
            self.assertTrue(any(line.startswith(f"FAILED total: kills of {single}: 0,") for line in lines), lines)

    def test_executions_over_a_sorted_index_do_not_stand_for_those_over_containers(self):
        code, lines = self.complete(**{"fuzz.sorted_index": "2000000 executions guided by coverage", "fuzz.array": f"{report.GUIDED['array']} executions guided by coverage"})
        self.assertEqual(code, 1)
        self.assertTrue(any(line.startswith("FAILED total: executions over segments and saved files guided by coverage: ") for line in lines), lines)

    def test_a_share_of_executions_and_deaths_has_that_share_of_their_floors(self):
        for share, part, code in (("0.3", 0.3, 0), ("0.3", 0.29, 1), ("1", 0.3, 1)):
            self.assertEqual(self.complete(share=share, **{"fuzz.array": f"{int(report.GUIDED['array'] * part)} executions guided by coverage"})[0], code, share)
            self.assertEqual(self.complete(share=share, **{"crash.StoreDeaths.QueueOfBytes": f"told: deaths = {int(report.DEATHS['queue'] * part)}"})[0], code, share)
            kind = "hash_map of many writers"
            self.assertEqual(self.complete(share=share, **{f"crash.{NAMES[kind]}Kill.All": f"told: kills = {int(report.KILLS[kind] * part)}"})[0], code, share)
        self.assertEqual(self.complete(share="0.3", **{"crash.QueueOfElementsKill.All": "told: kills = 5000"})[0], 1)

    def test_fuzz_targets_run_what_the_floors_ask_for_and_the_page_says(self):
        root = TOOL.parents[1]
        runs = {target: int(count) for target, count in re.findall(r"^set\(guided_runs_(\w+) (\d+)\)$", (root / "fuzz/CMakeLists.txt").read_text(), re.M)}
        del runs["tls"]  # over other bytes
        self.assertEqual(set(runs), set(report.GUIDED))
        for target, floor in report.GUIDED.items():
            self.assertTrue(0.75 * runs[target] <= floor <= runs[target], target)
        page = (root / "docs/design/0010-crash-rigs.md").read_text()
        self.assertEqual({target: int(count.replace(",", "")) for target, count in re.findall(r"\| `(\w+)` \| ([\d,]+) (?=\|)", page)}, runs)
        counted = sum(runs.values()) - runs[report.APART]
        self.assertGreater(counted, 10**6)
        self.assertIn(f"without it they are {counted:,}.", page)

    def test_what_the_sanitizers_skip_excuses_nothing(self):
        self.assertEqual(self.complete(skipping=["asan"])[0], 0)
        for name in ("crash.ArrayOfWordsStep.All", "crash.StoreDeaths.QueueOfBytes", "crash.QueueOfElementsKill.All", "fuzz.array"):
            self.assertEqual(self.complete(skipping=["asan"], **{name: ""})[0], 1)

    def test_a_machine_without_ptrace_may_try_fewer_steps_and_says_so(self):
        code, lines = self.complete(skipping=["release-timing"], **{"crash.ArrayOfWordsStep.All": ""})
        self.assertEqual((code, lines[-1].partition(", ")[2]), (0, "0 failed, 1 skipped"))
        self.assertTrue(any(line.startswith("too little, single steps of array: 0 of ") for line in lines), lines)
        self.assertEqual(self.complete(skipping=["release-timing"], **{"crash.StoreDeaths.QueueOfBytes": ""})[0], 1)

    def test_a_longer_run_has_to_try_more(self):
        self.assertEqual(self.complete(scale="100")[0], 0)
        for name, text in (("crash.Other.Deaths", ""), ("fuzz.array", "1000000 executions guided by coverage"), ("crash.StoreDeaths.QueueOfBytes", "told: deaths = 5000000"),
                           ("crash.ArrayOfWordsHistory.All", f"told: operations = {report.HISTORIES['array']}")):
            self.assertEqual(self.complete(scale="100", **{name: text})[0], 1)
        self.assertEqual(self.complete(scale="0.1", **{"crash.ArrayOfWordsStep.All": ""})[0], 0)

    def test_a_part_of_the_tests_may_try_less(self):
        self.assertEqual(self.total(one=[PASSED]), (0, ["1 passed, 0 failed, 0 skipped"]))

    def test_a_ctest_that_breaks_off_is_a_failure(self):
        self.assertEqual(self.ctest("exit 8")[1:], (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_ctest_that_fails_without_a_failed_case_is_a_failure_beside_what_passed(self):
        ran, code, line = self.ctest(f"echo '<testsuite>{PASSED}</testsuite>' >\"$junit\"; exit 8")
        self.assertEqual((ran.returncode, code, line), (1, 1, "1 passed, 1 failed, 0 skipped"))

    def test_a_test_that_runs_for_long_is_named(self):
        shown = self.results / "shown"
        self.fake_ctest("echo '    Start 1: crash.Quick.One'; echo '    Start 2: crash.Long.One'\n"
                        "echo '1/2 Test #1: crash.Quick.One ....   Passed    0.01 sec'\n"
                        f"for ((i = 0; i < 6000; ++i)); do grep -q 'of 2; running' '{shown}' && break; sleep 0.01; done\n"
                        f"echo '<testsuite>{PASSED}</testsuite>' >\"$junit\"")
        path = {"PATH": f"{self.results}:{os.environ['PATH']}"}
        with unittest.mock.patch.dict(os.environ, path), unittest.mock.patch.object(report, "PATIENCE", 0.01), \
                shown.open("w") as out, contextlib.redirect_stdout(out):
            self.assertEqual(report.run("suite", self.results, self.results, []), 0)
        self.assertRegex(shown.read_text(), r"(?m)^suite: 1 of 2; running: crash\.Long\.One for \d+ s$")

    def test_the_output_of_a_failed_case_is_shown_and_passed_cases_are_not(self):
        ran, code, _ = self.ctest(f"""echo '1/2 Test #1: a ........   Passed    0.01 sec'
echo '2/2 Test #2: b ........***Failed    0.01 sec'
echo 'expected 1, got 2'
echo '<testsuite>{PASSED}{FAILED}</testsuite>' >"$junit"; exit 8""")
        self.assertEqual(code, 1)
        self.assertIn("expected 1, got 2", ran.stdout)
        self.assertIn("#2: b", ran.stdout)
        self.assertNotIn("#1: a", ran.stdout)


if __name__ == "__main__":
    unittest.main()
