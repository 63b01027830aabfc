# SPDX-License-Identifier: Apache-2.0
"""A program of performance tests as its users run it: flags, exit codes, and every way in which a test goes wrong."""
import csv
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


def shown(measure):
    """What a measurement says once it says something: a machine that holds runs up again and again shows nothing, rightly."""
    for _ in range(5):
        ran = measure()
        if "too noisy" not in ran.stdout:
            break
    return ran


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


    def test_the_machine_is_told_once_before_the_first_test(self):
        ran = run("-time=20", "--gtest_repeat=2", test="Good.Adds")
        self.assertEqual(ran.stdout.count("    machine: "), 1, ran.stdout)
        self.assertLess(ran.stdout.index("    machine: "), ran.stdout.index("[ RUN"))
        self.assertNotIn("machine", run("--gtest_list_tests").stdout)
        with tempfile.TemporaryDirectory() as folder:
            run("-time=20", f"--perf_json={folder}/results.json", test="Good.Adds")
            warnings = json.loads(pathlib.Path(f"{folder}/results.json").read_text())["environment"]["warnings"]
        said = " ".join(ran.stdout[:ran.stdout.index("[ RUN")].split())
        for one in warnings:
            if one["code"] not in ("load", "steal"):  # which change while one looks
                self.assertIn(f"warning: {one['text']}", said)

    def test_percentiles_come_with_their_bounds(self):
        shown = run("-latency", "-time=100", test="Good.TakesAsLongAsTold").stdout
        self.assertRegex(shown, r"\n    latency: p50 +[\d.]+ [num]?s   95 %: [\d.]+ [num]?s to [\d.]+ [num]?s\n")

    def test_growth_with_a_parameter_is_told_at_the_end_of_the_suite(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = run("-time=40", f"--perf_json={folder}/a.json", f"--perf_html={folder}/a.html", test="Of/Sizes.*:Good.Adds")
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            found = json.loads(pathlib.Path(f"{folder}/a.json").read_text())["growth"]
            page = pathlib.Path(f"{folder}/a.html").read_text()
        said = re.search(r"^     growth: Of/Sizes.TakesAStepEach over n: (\S+): .* ns times it", ran.stdout, re.M)
        self.assertIsNotNone(said, ran.stdout)
        self.assertLess(ran.stdout.rindex("[       OK ] Of/Sizes"), said.start())
        self.assertEqual([(one["suite"], one["name"]) for one in found], [("Of/Sizes", "TakesAStepEach")])
        self.assertEqual([point["n"] for point in found[0]["points"]], [200, 800, 3200, 12800, 51200])
        self.assertIn(found[0]["shape"], ("n", "n log n"), found)  # which differ by less than what a busy machine does
        self.assertIn("Time grows with n", page)


class Files(unittest.TestCase):
    """What a run leaves, and what the next one makes of it. Times are compared with limits that no busy machine reaches."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def judged(self, *arguments, steps, base="base.json", test="Good.TakesAsLongAsTold"):
        ran = run("-time=60", f"--perf_baseline={self.folder}/{base}", *arguments, test=test, environment={"HOLDFAST_SUBJECT_STEPS": str(steps)})
        if "simdjson" in ran.stderr:
            self.skipTest("needs a build with simdjson")
        return ran

    def measured(self, *arguments, steps, name="base.json", test="Good.TakesAsLongAsTold"):
        ran = run("-time=60", f"--perf_json={self.folder}/{name}", *arguments, test=test, environment={"HOLDFAST_SUBJECT_STEPS": str(steps)})
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_every_file_holds_the_run(self):
        names = {kind: self.folder / f"results.{kind}" for kind in ("json", "csv", "html")}
        ran = run("-time=30", *(f"--perf_{kind}={path}" for kind, path in names.items()), test="Good.Adds:Good.AsksForARate")
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), sorted(names.values()), "nothing else is left")
        found = json.loads(names["json"].read_text())
        self.assertEqual([one["full_name"] for one in found["results"]], ["Good.Adds", "Good.AsksForARate"])
        with names["csv"].open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["name"] for row in rows], ["Adds", "AsksForARate"])
        self.assertEqual(float(rows[0]["median_ns"]), found["results"][0]["time"]["median"])
        service = found["results"][1]["rate"]["service"]
        self.assertGreater(service["count"], 0)
        # A call may take less than reading the clock: then its time is 0.
        self.assertEqual(float(rows[1]["service_p50_ns"]), service["percentiles"][0]["estimate"])
        page = names["html"].read_text()
        self.assertTrue(page.lower().startswith("<!doctype html>"), page[:100])
        for text in (">Adds</h3>", ">AsksForARate</h3>", "<td>service</td>", "share of calls that take longer"):
            self.assertIn(text, page)
        self.assertNotRegex(page, r"(?:src|href)=\"(?!data:)|https?:|<script")

    def test_groups_of_workers_are_rows(self):
        report = self.folder / "report.xml"
        run("-time=30", "-threads=1,2", "-procs=1", f"--perf_csv={self.folder}/a.csv", "--perf_junit", f"--gtest_output=xml:{report}", test="Good.Adds")
        with (self.folder / "a.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["threads"], row["processes"]) for row in rows], [("1", ""), ("2", ""), ("", "1")])
        self.assertTrue(all(float(row["hz"]) > 0 for row in rows))
        names = {p.get("name") for p in xml.etree.ElementTree.parse(report).iter("property")}
        self.assertLessEqual({"perf_threads_1_hz", "perf_threads_2_hz", "perf_processes_1_hz"}, names)

    def test_a_program_that_dies_leaves_what_it_had(self):
        ran = run("-time=30", f"--perf_json={self.folder}/a.json", test="Good.Adds:Bad.Crashes")
        self.assertLess(ran.returncode, 0, ran.stdout)
        found = json.loads((self.folder / "a.json").read_text())
        self.assertEqual([one["full_name"] for one in found["results"]], ["Good.Adds"])

    def test_a_regression_fails_the_program_if_asked(self):
        self.measured(steps=300)
        same = self.judged("--perf_fail_on_regression", "-min_effect=95%", steps=300)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)
        self.assertIn("baseline: Good.TakesAsLongAsTold: ", same.stdout)
        def anew(*arguments):
            self.measured(steps=300)
            return self.judged(*arguments, steps=30_000)

        slower = shown(lambda: anew("--perf_fail_on_regression"))
        self.assertEqual(slower.returncode, 1, slower.stdout)
        self.assertIn("Good.TakesAsLongAsTold: slower: ", slower.stdout)
        told = shown(anew)
        self.assertEqual(told.returncode, 0, told.stdout)
        self.assertIn("baseline: Good.TakesAsLongAsTold: slower: ", told.stdout)
        new = self.judged("--perf_fail_on_regression", steps=300, test="Good.Adds")
        self.assertEqual(new.returncode, 0, new.stdout)
        self.assertIn("baseline: Good.Adds: not in the baseline", new.stdout)

    def test_latencies_are_judged_too(self):
        self.measured("-latency", steps=300)
        slower = self.judged("-latency", "--perf_fail_on_regression", steps=30_000)
        self.assertEqual(slower.returncode, 1, slower.stdout)
        self.assertIn("Good.TakesAsLongAsTold, latency p50: slower: ", slower.stdout)

    def test_what_was_measured_in_another_way_is_not_compared(self):
        self.measured(steps=300)
        for mode in ("-latency", "-threads=2", "-hz=1000"):
            with self.subTest(mode=mode):
                ran = self.judged(mode, "--perf_fail_on_regression", steps=300)
                self.assertEqual(ran.returncode, 1, ran.stdout)
                self.assertIn("cannot be compared: measured now: ", ran.stdout)
                self.assertEqual(self.judged(mode, steps=300).returncode, 0)

    def test_instructions_are_judged_to_one_in_a_hundred(self):
        if not shutil.which("valgrind"):
            self.skipTest("needs valgrind")
        self.measured("-count=callgrind", "-batch=100", steps=1000)
        limits = ("-count=callgrind", "-batch=100", "--perf_fail_on_regression", "-min_effect=95%")
        self.assertEqual(self.judged(*limits, steps=1000).returncode, 0)
        more = self.judged(*limits, steps=1020)
        self.assertEqual(more.returncode, 1, more.stdout)
        self.assertRegex(more.stdout, r"Good.TakesAsLongAsTold, instructions: slower: .*, \+2\.0 % against")
        self.assertEqual(self.judged(*limits, "-min_effect_instructions=5%", steps=1020).returncode, 0)

    def test_a_baseline_that_is_none_is_refused_before_anything_runs(self):
        (self.folder / "wrong.json").write_text("{}")
        ran = self.judged(steps=300, base="wrong.json")
        self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
        self.assertIn("was not written by --perf_json", ran.stderr)
        self.assertNotIn("RUN", ran.stdout)


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
        cache = (pathlib.Path(os.environ["HOLDFAST_BUILD"]) / "CMakeCache.txt").read_text()
        cached = dict(re.findall(r"^(\w+):\w+=(.*)$", cache, re.M))
        flags = f"{cached['CMAKE_CXX_FLAGS']} {cached.get('CMAKE_CXX_FLAGS_' + cached['CMAKE_BUILD_TYPE'].upper(), '')}"
        with tempfile.TemporaryDirectory() as folder:
            run("-time=20", f"--perf_json={folder}/results.json", test="Good.Adds")
            found = json.loads(pathlib.Path(f"{folder}/results.json").read_text())
        self.assertEqual(found["environment"]["build"]["flags"], flags.strip())

    def test_the_revision_recorded_is_that_of_the_tree_it_was_built_in(self):
        said = subprocess.run(["git", "-C", pathlib.Path(SUBJECT).parent, "rev-parse", "HEAD"], capture_output=True, text=True)
        with tempfile.TemporaryDirectory() as folder:
            run("-time=20", f"--perf_json={folder}/results.json", test="Good.Adds")
            found = json.loads(pathlib.Path(f"{folder}/results.json").read_text())
        if said.returncode:
            self.skipTest("needs a git working tree")
        self.assertEqual(found["environment"]["revision"], said.stdout.strip())

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

    def test_verdicts_are_in_every_report(self):
        with tempfile.TemporaryDirectory() as folder:
            report, results, page = (f"{folder}/{name}" for name in ("report.xml", "results.json", "page.html"))
            ran = run("-time=200", "--perf_junit", f"--gtest_output=xml:{report}", f"--perf_json={results}", f"--perf_html={page}",
                      test="Regression.*:Of/Sizes.*")
            self.assertEqual(ran.returncode, 1, ran.stdout + ran.stderr)
            told = json.loads(pathlib.Path(results).read_text())["verdicts"]
            tree = xml.etree.ElementTree.parse(report)
            shown = pathlib.Path(page).read_text()
        self.assertEqual([(one["full_name"], one["by"], one["passed"]) for one in told],
                         [("Regression.None", "not_slower", True), ("Regression.TenTimes", "not_slower", False)])
        slower = told[1]
        self.assertEqual((slower["verdict"], slower["subject"], slower["limit"]), ("slower", "thousand against hundred", 1.5))
        self.assertLessEqual(slower["interval"]["low"], slower["ratio"])
        self.assertLessEqual(slower["ratio"], slower["interval"]["high"])
        self.assertAlmostEqual(slower["alpha"], 0.001 / 6)  # the second of a family
        self.assertLess(slower["p_value"], slower["alpha"])
        cases = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in tree.iter("testcase")}
        said = cases["TenTimes"]
        self.assertEqual(said["perf_not_slower_1_verdict"], "slower")
        self.assertAlmostEqual(float(said["perf_not_slower_1_ratio"]), slower["ratio"], delta=1e-4 * slower["ratio"])
        self.assertLessEqual({"perf_not_slower_1_low", "perf_not_slower_1_high", "perf_not_slower_1_alpha", "perf_not_slower_1_p_value"}, set(said))
        sizes = next(suite for suite in tree.iter("testsuite") if suite.get("name") == "Of/Sizes")
        self.assertIn(sizes.get("perf_growth_TakesAStepEach_shape"), ("1", "log n", "n", "n log n", "n^2"))  # which: a busy machine decides too
        self.assertGreaterEqual(float(sizes.get("perf_growth_TakesAStepEach_constant_ns")), 0)
        for text in (">Verdicts</h3>", "thousand against hundred", "<td class=\"bad\">slower</td>", "above 1: slower now"):
            self.assertIn(text, shown)

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
            told = shown(lambda: run(*against, test="Good.Works"))
            self.assertEqual(told.returncode, 0, "a regression is told, and fails the program only if asked")
            self.assertIn("baseline: Good.Works: slower", told.stdout)
            failed = shown(lambda: run(*against, "--perf_fail_on_regression", test="Good.Works"))
            self.assertEqual(failed.returncode, 1, failed.stdout + failed.stderr)
            self.assertIn("Good.Works: slower", failed.stdout)
            refused = run("-time=50", "--perf_fail_on_regression", test="Good.Works")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("needs --perf_baseline", refused.stderr)


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
