#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test_report.py counts what happened: a failure that it does not see is a test that cannot fail."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "scripts/test_report.py"

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

    def tool(self, *arguments, scale="1"):
        environment = dict(os.environ, PATH=f"{self.results}:{os.environ['PATH']}", HOLDFAST_TEST_SCALE=scale)
        return subprocess.run([sys.executable, "-B", str(TOOL), *arguments], capture_output=True, text=True, env=environment)

    def total(self, **suites):
        for name, cases in suites.items():
            (self.results / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        done = self.tool("total", "--results", str(self.results))
        return done.returncode, done.stdout.splitlines()

    def ctest(self, script):
        """Runs the tool with a ctest of our making on the PATH, then sums up."""
        fake = self.results / "ctest"
        fake.write_text(f"#!/usr/bin/env bash\nwhile [[ $1 != --output-junit ]]; do shift; done; junit=$2\n{script}\n")
        fake.chmod(0o755)
        ran = self.tool("run", "suite", "--results", str(self.results), "--build", str(self.results), "--")
        done = self.tool("total", "--results", str(self.results))
        return ran, done.returncode, done.stdout.splitlines()[-1]

    def test_sums_over_all_suites(self):
        code, lines = self.total(one=[PASSED, PASSED, SKIPPED], two=[PASSED, SKIPPED_BY_CODE, DISABLED])
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed, 3 skipped"))
        self.assertTrue(any("needs CAP_SYS_ADMIN" in line for line in lines), lines)

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

    def complete(self, skipping=(), scale="1", **suites):
        """What a complete run says and answers, with the numbers of one that tries enough but for what is given. `skipping` names the
        builds that skip a test for lack of ptrace."""
        told = {"crash.ArrayStep.All": "told: steps = 700000\ntold: recovery_steps = 300000", "hooks.QueueStoreDeaths.All": "told: deaths = 10000000",
                "fuzz.array": "9 inputs replayed, 100000 executions of mutated ones\n1000000 executions guided by coverage",
                "fuzz.uri": "500 executions guided by coverage", "crash.QueueKill.KilledProducersOfRecordsPublish": "told: kills = 10000 kills, 3 of them",
                **{f"crash.{name}Kill.All": "told: kills = 10000" for name in
                   ("Queue", "Broadcast", "Snapshot", "SortedIndex", "BlockStore", "HashMap", "HashTable", "SmallTable")},
                "crash.Memory/ArraySegmentKill.All/file": "told: kills = 4000", "crash.Containers/ImageKill.All/array": "told: kills = 6000", **suites}
        cases = [f'<testcase name="{name}" status="run"><system-out>{text.replace("<", "&lt;")}</system-out></testcase>' for name, text in told.items()]
        (self.results / "release.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        for build in skipping:
            (self.results / f"{build}.xml").write_text(
                '<testsuite><testcase name="g" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
                "<system-out>x_test.cpp:7: Skipped\nneeds: ptrace and a build without sanitizers\n</system-out></testcase></testsuite>")
        done = self.tool("total", "--results", str(self.results), "--complete", scale=scale)
        return done.returncode, done.stdout.splitlines()

    def test_what_was_tried_is_added_up(self):
        code, lines = self.complete()
        self.assertEqual((code, lines[-1]), (0, "15 passed, 0 failed, 0 skipped"), lines)
        for line in ("tried, single steps: 1,000,000", "tried, kills: 100,000", "tried, kills of queue<T>: 10,000", "tried, kills of array: 10,000",
                     "tried, executions over segments and saved files guided by coverage: 1,000,000",
                     "tried, executions over segments and saved files mutated blindly: 100,000",
                     "tried, executions over other bytes guided by coverage: 500"):
            self.assertIn(line, lines)

    def test_a_complete_run_that_tried_too_little_fails(self):
        for name, text, what in (("crash.ArrayStep.All", "told: steps = 999999", "single steps: 999,999"),
                                 ("hooks.QueueStoreDeaths.All", "", "deaths in front of stores: 0"),
                                 ("crash.QueueKill.KilledProducersOfRecordsPublish", "told: kills = 500", "kills of queue<T>: 500"),
                                 ("crash.SmallTableKill.All", "told: kills = 9999", "kills of small_table: 9,999"),
                                 ("fuzz.array", "2000000 executions of mutated ones", "guided by coverage: 0")):
            code, lines = self.complete(**{name: text})
            self.assertEqual((code, lines[-1]), (1, "15 passed, 1 failed, 0 skipped"))
            self.assertTrue(any(line.startswith("FAILED total: ") and what in line for line in lines), lines)

    def test_what_the_sanitizers_skip_excuses_nothing(self):
        self.assertEqual(self.complete(skipping=["asan"])[0], 0)
        for name in ("crash.ArrayStep.All", "hooks.QueueStoreDeaths.All", "crash.QueueKill.KilledProducersOfRecordsPublish", "fuzz.array"):
            code, lines = self.complete(skipping=["asan"], **{name: ""})
            self.assertEqual((code, lines[-1]), (1, "15 passed, 1 failed, 1 skipped"))

    def test_a_machine_without_ptrace_may_try_fewer_steps_and_says_so(self):
        code, lines = self.complete(skipping=["release-timing"], **{"crash.ArrayStep.All": ""})
        self.assertEqual((code, lines[-1]), (0, "15 passed, 0 failed, 1 skipped"))
        self.assertTrue(any(line.startswith("too little, single steps: 0 of 1,000,000") for line in lines), lines)
        self.assertEqual(self.complete(skipping=["release-timing"], **{"hooks.QueueStoreDeaths.All": ""})[0], 1)

    def test_a_longer_run_has_to_try_more(self):
        enough = {"hooks.QueueStoreDeaths.All": "told: deaths = 1000000000", "fuzz.array": "100000000 executions guided by coverage"}
        self.assertEqual(self.complete(scale="100", **enough)[0], 0)
        for name in enough:
            code, lines = self.complete(scale="100", **{other: text for other, text in enough.items() if other != name})
            self.assertEqual((code, lines[-1]), (1, "15 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.complete(scale="0.1", **{"crash.ArrayStep.All": ""})[0], 0)

    def test_a_part_of_the_tests_may_try_less(self):
        self.assertEqual(self.total(one=[PASSED]), (0, ["1 passed, 0 failed, 0 skipped"]))

    def test_a_ctest_that_breaks_off_is_a_failure(self):
        self.assertEqual(self.ctest("exit 8")[1:], (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_ctest_that_fails_without_a_failed_case_is_a_failure_beside_what_passed(self):
        ran, code, line = self.ctest(f"echo '<testsuite>{PASSED}</testsuite>' >\"$junit\"; exit 8")
        self.assertEqual((ran.returncode, code, line), (1, 1, "1 passed, 1 failed, 0 skipped"))

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
