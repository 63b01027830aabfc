# SPDX-License-Identifier: Apache-2.0
"""A program of performance tests as its users run it: flags, exit codes, and every way in which a test goes wrong."""
import csv
import io
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

SUBJECT = os.environ.get("HOLDFAST_PERF_TEST_SUBJECT", "")
FIRST_LINES = [r" {6}count: [0-9,]+", r" {7}time: \d+\.\d{6} s", r" {9}HZ: [0-9,]+\.\d{6}", r" {7}1/HZ: \d+\.\d{9}(\d{3})? s"]


def run(*arguments, test=None, environment=None):
    if test:
        arguments = (f"--gtest_filter={test}", *arguments)
    return subprocess.run([SUBJECT, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **(environment or {})})


def value(output, name):
    found = re.search(rf"^ *{re.escape(name)}: ([0-9,.]+)", output, re.M)
    return float(found[1].replace(",", "")) if found else None


class Output(unittest.TestCase):
    def test_the_first_four_lines_keep_their_form(self):
        ran = run("-time=30", test="Good.Adds")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        lines = ran.stdout.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("[ RUN"))
        for form, line in zip(FIRST_LINES, lines[at + 1:]):
            self.assertRegex(line, f"^{form}$")
        self.assertAlmostEqual(value(ran.stdout, "HZ"), value(ran.stdout, "count") / value(ran.stdout, "time"), delta=1e-3 * value(ran.stdout, "HZ"))
        self.assertIn("median: ", ran.stdout)

    def test_a_deleted_loop_is_told(self):
        ran = run("-time=30", test="Odd.IsEmpty")
        self.assertEqual(ran.returncode, 0)
        self.assertIn("nothing of the body is left to measure", ran.stdout)

    def test_colours_only_on_a_terminal_that_wants_them(self):
        self.assertNotIn("\033[33m", run("-time=30", test="Odd.IsEmpty").stdout)
        for refuse, wanted in (({}, True), ({"NO_COLOR": "1"}, False)):
            ours, theirs = pty.openpty()
            clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            with subprocess.Popen([SUBJECT, "-time=30", "--gtest_filter=Odd.IsEmpty"], stdout=theirs, env={**clean, **refuse}) as child:
                os.close(theirs)
                shown = b""
                try:
                    while part := os.read(ours, 65536):
                        shown += part
                except OSError:  # the other end is closed
                    pass
            os.close(ours)
            self.assertEqual(b"\033[33m" in shown, wanted, shown)


class Counting(unittest.TestCase):
    def test_callgrind_counts_the_same_on_every_run(self):
        if not shutil.which("valgrind"):
            self.skipTest("needs valgrind")
        counts = {value(run("-time=20", "-count=callgrind", test="Good.Adds").stdout, "instructions") for _ in range(2)}
        self.assertEqual(len(counts), 1, counts)
        self.assertTrue(0 < counts.pop() < 50)

    def test_callgrind_runs_the_test_with_its_own_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            seen, valgrind = pathlib.Path(folder) / "arguments", pathlib.Path(folder) / "valgrind"
            valgrind.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {seen}\nexit 7\n")
            valgrind.chmod(0o755)
            ran = run("-time=20", "-count", "callgrind", f"--perf_json={folder}/results.json", "--gtest_repeat=2", "an-argument", "another",
                      test="Odd.NeedsAnArgument", environment={"PATH": f"{folder}:{os.environ['PATH']}"})
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertIn("ended with status 7", ran.stdout)
            given = seen.read_text().splitlines()
        program = given.index(str(pathlib.Path(SUBJECT).resolve()))
        self.assertEqual([one for one in given[program + 1:] if not one.startswith("-batch=")],
                         ["--gtest_filter=Odd.NeedsAnArgument", "--gtest_also_run_disabled_tests", "--gtest_repeat=1", "-count=callgrind",
                          "-timeout=0", "an-argument", "another"])
        if shutil.which("valgrind"):
            ran = run("-time=20", "-count=callgrind", "an-argument", test="Odd.NeedsAnArgument")
            self.assertGreater(value(ran.stdout, "instructions"), 100)
            self.assertNotIn("no instructions were counted", ran.stdout)

    def test_the_cpu_counts_or_says_why_not(self):
        for mode in ((), ("-latency",), ("-hz=1000",)):
            with self.subTest(mode=mode):
                ran = run("-time=50", "-count=perf", *mode, test="Good.Works")
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                if value(ran.stdout, "instructions") is None:
                    self.assertRegex(" ".join(ran.stdout.split()), r"warning: .*(perf_event_open failed|-count=callgrind)")
        for workers in ("-threads=2", "-procs=2"):
            ran = run("-time=50", "-count=perf", workers, test="Good.Works")
            self.assertEqual(ran.returncode, 1)
            self.assertIn("count without them", ran.stdout)

    def test_what_callgrind_does_not_count_is_said(self):
        ran = run("-time=20", "-count=callgrind", test="Good.MeasuresFourTimes")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(ran.stdout.count("callgrind counts PERF_TESTs"), 4)

    def test_numbers_become_properties_of_the_report(self):
        with tempfile.TemporaryDirectory() as folder:
            report = f"{folder}/report.xml"
            run("-time=20", "--perf_junit", f"--gtest_output=xml:{report}", test="Good.Adds")
            properties = {p.get("name"): p.get("value") for p in xml.etree.ElementTree.parse(report).iter("property")}
        self.assertGreater(float(properties["perf_hz"]), 0)
        self.assertIn("perf_median_ns", properties)

    def test_measurements_of_one_test_keep_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            report, results = f"{folder}/report.xml", f"{folder}/results.json"
            ran = run("-time=20", "--perf_junit", f"--gtest_output=xml:{report}", f"--perf_json={results}", test="Good.MeasuresFourTimes")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            properties = {p.get("name") for p in xml.etree.ElementTree.parse(report).iter("property")}
            found = json.loads(pathlib.Path(results).read_text())
        self.assertLessEqual({"perf_median_ns", "perf_2_median_ns", "perf_named_median_ns"}, properties)
        self.assertEqual([one["name"] for one in found["results"]],
                         ["MeasuresFourTimes", "MeasuresFourTimes/2", "MeasuresFourTimes/named", "MeasuresFourTimes/named/2"])

    def test_passes_over_the_tests_are_no_runs_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            results = f"{folder}/results.json"
            ran = run("-time=20", "--gtest_repeat=3", f"--perf_json={results}", test="Good.MeasuresFourTimes")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            found = json.loads(pathlib.Path(results).read_text())["results"]
        self.assertEqual([one["pass"] for one in found], [1] * 4 + [2] * 4 + [3] * 4)
        self.assertEqual([one["name"] for one in found[:4]], [one["name"] for one in found[8:]])
        self.assertEqual(len({(one["full_name"], one["pass"]) for one in found}), 12)

    def test_the_build_recorded_is_that_of_the_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            run("-time=20", f"--perf_json={folder}/results.json", test="Good.Adds")
            found = json.loads(pathlib.Path(f"{folder}/results.json").read_text())
        self.assertEqual(found["environment"]["build"]["flags"], "those of the subject")

    def test_a_cpu_that_is_none_is_refused(self):
        ran = run("-time=20", "-pin=65000", test="Good.Adds")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("choose from", ran.stdout)
        self.assertEqual(run("-time=20", f"-pin={min(os.sched_getaffinity(0))}", test="Good.Adds").returncode, 0)


class Regression(unittest.TestCase):
    """What fails a build and what does not."""

    def test_in_turn(self):
        ran = run("-time=200", test="Regression.None")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"in turn: hundred against hundred: (same|too noisy|faster)")
        ran = run("-time=200", test="Regression.TenTimes")
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertRegex(ran.stdout, r"in turn: thousand against hundred: slower: .* all beyond 50 %")
        self.assertIn("Expected: thousand is not slower than hundred", ran.stdout)

    def test_the_alarms_that_the_guide_counts(self):
        """docs/perf_test_noise.md: none of the 900 comparisons of a thing with itself, judged at 1 in 2000."""
        lines = (pathlib.Path(os.environ["HOLDFAST_SOURCE"]) / "studies/ab_noise/epyc-2cpu-busy.csv").read_text().splitlines()
        rows = [dict(zip(lines[0].split(","), line.split(","))) for line in lines[1:]]
        same = [row for row in rows if float(row["slow_down"]) == 0]
        self.assertEqual(len(same), 900)
        self.assertEqual([row for row in same if float(row["p_value"]) < 0.0005], [])

    def test_against_a_baseline(self):
        with tempfile.TemporaryDirectory() as folder:
            base = f"{folder}/base.json"
            self.assertEqual(run("-time=50", f"--perf_json={base}", test="Good.Works").returncode, 0)
            against = ("-time=50", f"--perf_baseline={base}")
            ran = run(*against, test="Good.Works")
            if "simdjson" in ran.stderr:
                self.skipTest("needs a build with simdjson")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertRegex(ran.stdout, r"baseline: Good\.Works: (same|too noisy|faster|slower)")

            found = json.loads(pathlib.Path(base).read_text())
            found["results"][0]["time"]["median"] /= 100
            del found["results"][0]["time"]["median_95"]
            pathlib.Path(base).write_text(json.dumps(found))
            told = run(*against, test="Good.Works")
            self.assertEqual(told.returncode, 0, "a regression is told, and fails the program only if asked")
            self.assertIn("baseline: Good.Works: slower", told.stdout)
            failed = run(*against, "--perf_fail_on_regression", test="Good.Works")
            self.assertEqual(failed.returncode, 1, failed.stdout + failed.stderr)
            self.assertIn("Good.Works: slower", failed.stdout)
            refused = run("-time=50", "--perf_fail_on_regression", test="Good.Works")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("needs --perf_baseline", refused.stderr)


class Files(unittest.TestCase):
    def test_one_run_writes_them_all(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = {kind: pathlib.Path(folder) / f"results.{kind}" for kind in ("json", "csv", "html")}
            ran = run("-time=20", *(f"--perf_{kind}={path}" for kind, path in paths.items()), test="Good.Adds:Good.Works")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            texts = {kind: path.read_text() for kind, path in paths.items()}
        names = [one["full_name"] for one in json.loads(texts["json"])["results"]]
        self.assertEqual(names, ["Good.Adds", "Good.Works"])
        rows = list(csv.DictReader(io.StringIO(texts["csv"])))
        self.assertEqual(len(rows), 2)
        self.assertGreater(float(rows[1]["count"]), 0)
        self.assertTrue(texts["html"].lower().startswith("<!doctype html>"), texts["html"][:100])
        for name in ("Adds", "Works"):
            self.assertTrue(f">{name}</h3>" in texts["html"], f"no card of {name}")


class Rate(unittest.TestCase):
    """How often the body runs follows from the schedule, not from how fast the machine is. On a machine that is too busy to begin the
    last calls in time these are left out, so a few may be missing; there is never one more."""

    def calls(self, *arguments, test="Good.Adds"):
        ran = run(*arguments, test=test)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return value(ran.stdout, "count")

    def assert_about(self, count, planned):
        self.assertLessEqual(count, planned)
        self.assertGreaterEqual(count, 0.6 * planned)

    def test_one_a_second_runs_once_a_second(self):
        self.assert_about(self.calls("-hz=1", "-time=2500"), 3)  # at 0, 1 and 2 seconds

    def test_three_a_second(self):
        self.assert_about(self.calls("-hz=3", "-time=1000"), 3)

    def test_the_test_may_ask_and_the_command_line_overrules(self):
        self.assert_about(self.calls(test="Good.AsksForARate"), 60)
        self.assert_about(self.calls("-time=100", test="Good.AsksForARate"), 20)
        self.assert_about(self.calls("--hz=50", test="Good.AsksForARate"), 15)
        self.assert_about(self.calls("-hz=-1", "-time=-1", test="Good.AsksForARate"), 60)
        self.assertGreater(self.calls("-hz=0", "-time=100", test="Good.AsksForARate"), 1000)


class BadInput(unittest.TestCase):
    def refused(self, *arguments, says, test="Good.Adds"):
        ran = run(*arguments, test=test)
        self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
        self.assertIn(says, ran.stderr)
        self.assertNotIn("RUN", ran.stdout, "nothing may run before the command line is understood")

    def test_values_that_are_none(self):
        self.refused("-hz=abc", says="-hz: 'abc' is no number")
        self.refused("-time=-5", says="-time: '-5' is out of range")
        self.refused("-time=1e999", says="-time: '1e999' is too large")
        self.refused("-hz=99999999999999999999", says="out of range")
        self.refused("-threads=0", says="-threads")

    def test_flags_that_are_none(self):
        self.refused("-hx=5", says="did you mean -hz?")
        self.refused("--perf_jsno=f", says="did you mean -perf_json?")
        self.refused("--frobnicate", says="--perf_help")

    def test_an_output_that_cannot_be_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.refused(f"--perf_json={folder}/absent/result.json", says="cannot be written")
            self.refused(f"--perf_html={folder}", says="cannot be written")
            self.refused(f"--perf_baseline={folder}/absent.json", says="cannot be read")
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_a_filter_that_selects_nothing(self):
        ran = run(test="Good.Misspelt")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("no test was selected", ran.stdout)
        sharded = run(test="Good.Misspelt", environment={"GTEST_TOTAL_SHARDS": "2", "GTEST_SHARD_INDEX": "1"})
        self.assertEqual(sharded.returncode, 0, "a shard may well have nothing to do")

    def test_a_test_that_asks_for_nonsense(self):
        ran = run(test="Odd.AsksForNoTime")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("a time is above 0", ran.stdout)

    def test_help_and_lists_end_well(self):
        ran = run("--perf_help")
        self.assertEqual(ran.returncode, 0)
        self.assertIn("-arrival=fixed|poisson", ran.stdout)
        guide = (pathlib.Path(os.environ["HOLDFAST_SOURCE"]) / "docs/perf_test.md").read_text().replace("\\|", "|")
        told = {flag.lstrip("-") for flag in re.findall(r"^\| `(-[^`]*)` \|", guide, re.M)}
        known = set(re.findall(r"^  -(\S+)", ran.stdout, re.M))
        self.assertEqual(told, known, "docs/perf_test.md has a row for each flag and for nothing else")
        self.assertEqual(run("--gtest_list_tests").returncode, 0)


class Failure(unittest.TestCase):
    """A test that goes wrong fails, says why, and shows no number."""

    def failed(self, test, says, *arguments):
        ran = run("-time=30", *arguments, test=test)
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn(says, ran.stdout)
        self.assertIn("no result: ", ran.stdout)
        for name in ("HZ", "count", "median"):
            self.assertIsNone(value(ran.stdout, name), ran.stdout)
        return ran.stdout

    def test_exceptions(self):
        self.failed("Bad.Throws", "the thousandth call is too much")
        self.failed("Bad.ThrowsSomethingElse", "no std::exception")

    def test_failed_assertions_end_the_loop(self):
        for test in ("Bad.AssertsAndAborts", "Bad.AssertsInAnotherThread", "Bad.ExpectsInVain"):
            shown = self.failed(test, "Expected: (++calls) <")
            self.assertEqual(shown.count("Expected: (++calls) <"), 1, "repeated instead of ended")

    def test_an_abort_alone(self):
        self.failed("Bad.AbortsAlone", "the body asked to stop")

    def test_a_skip_skips(self):
        ran = run("-time=30", test="Odd.Skips")
        self.assertEqual(ran.returncode, 0)
        self.assertIn("[  SKIPPED ] Odd.Skips", ran.stdout)
        self.assertIsNone(value(ran.stdout, "HZ"))

    def test_a_body_that_never_returns(self):
        for test in ("Bad.NeverReturns", "Bad.HangsAfterAWhile"):
            begin = time.monotonic()
            ran = run("-time=30", "-timeout=1s", test=test)
            self.assertEqual(ran.returncode, 3, ran.stdout + ran.stderr)
            self.assertIn(f"{test} hangs", ran.stderr)
            self.assertGreater(time.monotonic() - begin, 0.9)

    def test_workers_that_go_wrong(self):
        for workers in ("-threads=2", "-procs=2"):
            with self.subTest(workers=workers):
                self.failed("Bad.Throws", "the thousandth call is too much", workers)
        ran = run("-time=30", "-procs=2", test="Bad.Crashes")
        self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
        self.assertIn("no result: ", ran.stdout)
        for workers in ("-threads=2", "-procs=2"):
            ran = run("-time=30", "-timeout=2s", workers, test="Bad.NeverReturns")
            self.assertNotEqual(ran.returncode, 0)
            self.assertNotIn("HZ: ", ran.stdout)


if __name__ == "__main__":
    if not os.access(SUBJECT, os.X_OK):
        print("needs the performance tests of this build (HOLDFAST_BUILD_PERF_TEST)")
        raise SystemExit(77)
    unittest.main(verbosity=2)
