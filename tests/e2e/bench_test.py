# SPDX-License-Identifier: Apache-2.0
"""`holdfast bench` and the script behind `./dev bench` from outside: lists, shapes, refusals, and nothing left behind after Ctrl-C."""
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from serve_support import BUILD, PROGRAM, main, wait_until

SOURCE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
SMALL = ("hash_table", "--quick", "--time", "10", "--filter", "find miss, independent, 1e4 entries of 16 bytes")


class Bench(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, "bench", *arguments], capture_output=True, text=True, timeout=250)

    def refused(self, pattern, *arguments):
        done = self.run_program(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Aholdfast: [^\n]*" + pattern + r"[^\n]*\n\Z")

    def test_lists_suites_and_their_experiments(self):
        done = self.run_program()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^hash_table  +\S")
        listed = json.loads(self.run_program("--list", "--json").stdout)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], [suite["name"] for suite in listed])
        self.assertIn("    find miss, independent, 1e4 entries", self.run_program("hash_table", "--list").stdout)

    def test_adapters_of_peers_are_tested_or_said_to_be_missing(self):
        registered = (BUILD / "bench" / "CTestTestfile.cmake").read_text()
        self.assertRegex(registered, r"bench_peers_test|add_test\(\[=*\[bench\.peers")

    def test_refuses_nonsense_before_the_run(self):
        self.refused("no suite none; there are: ", "none")
        self.refused("no experiment holds", "hash_table", "--filter", "nothing has this name")
        self.refused("cannot be written: No such file", "hash_table", "--html", str(self.folder / "none" / "x.html"))
        self.refused("cannot be written: Is a directory", "hash_table", "--html", str(self.folder))
        self.refused("1 to 3600000", "hash_table", "--time", "0")
        self.refused("", "hash_table", "--nonsense")

    def finite(self, value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return all(self.finite(one) for one in value)
        return not isinstance(value, float) or math.isfinite(value)

    def test_measures_and_reports_in_every_form(self):
        page = self.folder / "page.html"
        done = self.run_program(*SMALL, "--json", "--html", str(page))
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout, parse_constant=lambda word: self.fail(f"{word} in the JSON"))
        self.assertTrue(self.finite(found))
        self.assertLessEqual({"machine", "results", "ratios"}, found.keys())
        self.assertTrue(found["machine"]["cpu"])
        for result in found["results"]:
            self.assertLessEqual({"name", "subject", "unit", "median", "p05", "p95", "runs"}, result.keys())
            self.assertTrue(0 < result["p05"] <= result["median"] <= result["p95"] and result["runs"] >= 11, result)
        self.assertEqual([result["subject"] for result in found["results"]][:2], ["holdfast", "std::unordered_map"])
        for ratio in found["ratios"]:
            self.assertLessEqual({"name", "subject", "peer", "ratio", "low", "high"}, ratio.keys())
            self.assertTrue(0 < ratio["low"] <= ratio["ratio"] <= ratio["high"], ratio)
        self.assertIn("<h2>hash_table</h2>", page.read_text())
        self.look(page)
        compare = [sys.executable, str(SOURCE / "scripts/bench_compare.py")]
        file = self.folder / "run.json"
        file.write_text(done.stdout)
        judged = subprocess.run([*compare, str(file), str(file), "--fail"], capture_output=True, text=True, timeout=60)
        self.assertEqual(judged.returncode, 0, judged.stderr)
        self.assertIn("0 better, 0 worse", judged.stdout)

    def test_segments_of_a_run_that_a_signal_ends_go_at_once(self):
        """Whoever is told to end, or killed; by itself and under the script of `./dev bench`."""
        wrapper = self.folder / "program"
        wrapper.write_text(f'#!/usr/bin/env bash\nexec "{PROGRAM}" bench "$@"\n')
        wrapper.chmod(0o755)
        registry = self.folder / "registry"
        environment = {**os.environ, "HOLDFAST_BENCH_PROGRAM": str(wrapper), "HOLDFAST_REGISTRY": str(registry)}
        for command in ([PROGRAM, "bench"], [str(SOURCE / "bench/run")]):
            for number in (signal.SIGINT, signal.SIGKILL):
                before = set(pathlib.Path("/dev/shm").glob("holdfast-segment-*"))
                process = subprocess.Popen([*command, "segment", "--time", "60000", "--filter", "attach, read a word, detach, 64 KiB"], env=environment, start_new_session=True,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                made = lambda: {path for path in pathlib.Path("/dev/shm").glob("holdfast-segment-*") if path not in before}
                wait_until("segments are there", lambda: any(path.name[-1].isdigit() for path in made()))
                runs = {path.name[:len("holdfast-segment-XXXXXX")] for path in made()}
                process.send_signal(number)
                process.wait(60)
                # SIGKILL of the script leaves the program to its own devices: it is ended by hand.
                if command[0] != PROGRAM and number == signal.SIGKILL:
                    for pid in Script.members(process.pid):
                        os.kill(pid, signal.SIGKILL)
                wait_until(f"nothing is left of {runs}",
                           lambda: not [path for run in runs for path in pathlib.Path("/dev/shm").glob(run + "*")])
                self.assertEqual([entry.name for entry in registry.glob("*")], [])

    def look(self, page):
        """The page in a real browser: it complains of nothing, asks nobody, and is as wide as its window."""
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            return print("not looked at in a browser: needs the Python package playwright")
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            return print("not looked at in a browser: needs chromium")
        complaints = []
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
            for name, context in (("light", {"viewport": {"width": 1100, "height": 900}}),
                                  ("dark", {"viewport": {"width": 1100, "height": 900}, "color_scheme": "dark"}),
                                  ("narrow", {"viewport": {"width": 400, "height": 800}})):
                tab = browser.new_context(**context).new_page()
                tab.on("console", lambda message: complaints.append(message.text))
                tab.on("pageerror", lambda problem: complaints.append(str(problem)))
                tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
                tab.goto(page.as_uri())
                self.assertGreaterEqual(tab.locator("svg[role=img]").count(), 3)
                self.assertLessEqual(tab.evaluate("document.documentElement.scrollWidth"), context["viewport"]["width"], name)
                tab.screenshot(path=BUILD / f"bench-{name}.png", full_page=True)
            browser.close()
        self.assertEqual(complaints, [])


class Script(unittest.TestCase):
    """bench/run around a program that starts a child and never ends by itself."""

    def start(self, body):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-bench-run-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        program = folder / "program"
        program.write_text(f"#!/usr/bin/env bash\n{body}\n")
        program.chmod(0o755)
        script = subprocess.Popen([str(SOURCE / "bench/run"), str(folder)], env={**os.environ, "HOLDFAST_BENCH_PROGRAM": str(program)},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # tests may run where it is ignored
        self.addCleanup(script.stdout.close)
        self.addCleanup(lambda: script.poll() is None and script.kill())
        return script, folder

    @staticmethod
    def alive(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    @staticmethod
    def members(session):
        """Processes of a session."""
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
        return found

    def pids(self, folder):
        wait_until("the program runs", lambda: (folder / "pids").exists() and len((folder / "pids").read_text().split()) == 2)
        return [int(word) for word in (folder / "pids").read_text().split()]

    def test_ends_with_the_exit_code_of_the_program(self):
        script, _ = self.start("exit 7")
        self.assertEqual(script.wait(60), 7)

    def test_interruption_leaves_no_process(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            script, folder = self.start('sleep 1000 & echo "$$ $!" >"$1/pids.new"; mv "$1/pids.new" "$1/pids"; wait')
            pids = self.pids(folder)
            self.assertTrue(all(self.alive(pid) for pid in pids))
            script.send_signal(number)
            self.assertNotEqual(script.wait(60), 0)
            wait_until("all are gone", lambda: not any(self.alive(pid) for pid in pids))

    def test_children_do_not_outlive_the_program(self):
        script, folder = self.start('sleep 1000 & echo "$$ $!" >"$1/pids.new"; mv "$1/pids.new" "$1/pids"; exit 0')
        pids = self.pids(folder)
        self.assertEqual(script.wait(60), 0)
        wait_until("the child is gone", lambda: not self.alive(pids[1]))

    def test_program_that_is_not_built_is_named(self):
        done = subprocess.run([str(SOURCE / "bench/run")], env={**os.environ, "HOLDFAST_BENCH_PROGRAM": "/proc/none/program"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/proc/none/program is not built; ./dev bench builds it", done.stderr)


if __name__ == "__main__":
    main()
