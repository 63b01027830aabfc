# SPDX-License-Identifier: Apache-2.0
"""`holdfast bench` and the script behind `./dev bench` from outside: lists, shapes, refusals, and nothing left behind after Ctrl-C."""
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serve_support import BUILD, PROGRAM, Segments, Server, main, wait_until

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

    def test_says_where_the_program_that_measures_ought_to_be(self):
        alone = self.folder / "holdfast"
        shutil.copy(PROGRAM, alone)
        done = subprocess.run([alone, "bench", "--list"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Aholdfast: {self.folder}/holdfast-bench: No such file[^\n]*\./dev build[^\n]*\n\Z")
        self.assertIn("bench", subprocess.run([alone, "--help"], capture_output=True, text=True, timeout=60).stdout)

    def test_the_program_that_measures_takes_the_same_words_by_its_own_name(self):
        listed = self.run_program("--list", "--json")
        for words in (["--list", "--json"], ["bench", "--list", "--json"]):
            done = subprocess.run([PROGRAM + "-bench", *words], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, listed.stdout), done.stderr)
        self.assertTrue(json.loads(listed.stdout))

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

    def test_many_connections_are_held_and_accounted_for(self):
        done = self.run_program("connections", "--quick", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertTrue(self.finite(found))
        step = "connections: 5,000 connections, a hundredth of the idle times: "
        self.assertEqual({result["name"] for result in found["results"]},
                         {step + what for what in ("opened", "answers", "server's memory a connection", "server's memory in all, a connection",
                                                   "kernel's memory a connection, both ends", "server time an answer", "requests of 10 busy connections meanwhile", "p50", "p99", "p99.9")})
        notes = [entry["text"] for entry in found["notes"]]
        for subject in {result["subject"] for result in found["results"]}:
            account = next(text for text in notes if f", {subject}: 5,000 opened in " in text)
            self.assertRegex(account, r" 0 refused, 0 lost, 0 without an answer in time; ")
            busy = next(text for text in notes if f", {subject}, 2,000 requests from 10 more connections meanwhile, none failed: " in text)
            self.assertRegex(busy, r": 2,0\d\d answered, 0 of those held were lost meanwhile \(met\)$")
            self.assertTrue(any(text.startswith("target: 5,000 connections") and f", {subject} in at most 256 bytes" in text for text in notes), notes)
        measured = {result["subject"] for result in found["results"]} | {entry["subject"] for entry in found["skipped"]}
        self.assertEqual(measured, {"holdfast::net, epoll", "holdfast::net, io_uring"})

    def test_a_run_of_many_connections_that_is_interrupted_leaves_no_process(self):
        process = subprocess.Popen([PROGRAM, "bench", "connections", "--filter", "10,000 connections: "], start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until("servers and clients run", lambda: len(Script.members(process.pid)) >= 5)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), -signal.SIGINT)
        self.assertEqual(Script.members(process.pid), [])

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


class HttpLoad(unittest.TestCase):
    """`holdfast bench http URL` against servers that behave, and that do not."""

    def load(self, url, *options, code=0):
        done = subprocess.run([PROGRAM, "bench", "http", url, "--duration", "1", *options], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def found(self, url, *options, code=0):
        found = json.loads(self.load(url, "--json", *options, code=code).stdout)
        self.assertEqual(sum(found["statuses"].values()), found["answers"])
        return found

    def check_buckets(self, latency):
        """They are the histogram that the rest of `latency` is of."""
        buckets, rank, median = latency["buckets"], 0, None
        self.assertEqual(sum(count for _, _, count in buckets), latency["count"])
        self.assertGreater(min(count for _, _, count in buckets), 0)
        bounds = [bound for least, greatest, _ in buckets for bound in (least, greatest + 1)]  # none reaches into the next
        self.assertEqual(bounds, sorted(bounds))
        for least, greatest, count in buckets:
            rank += count
            if median is None and rank * 2 >= latency["count"]:
                median = least, greatest
        self.assertTrue(median[0] <= latency["p50"]["estimate"] <= median[1] + 1, (median, latency["p50"]))
        self.assertTrue(buckets[-1][0] <= latency["max"] <= buckets[-1][1], (buckets[-1], latency["max"]))

    def server(self, answer):
        """A server that gives answer(number of the request) for each, and closes for None; its URL."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        count, lock = [0], threading.Lock()

        def serve(client):
            with client:
                while client.recv(65536):
                    with lock:
                        count[0] += 1
                        number = count[0]
                    text = answer(number)
                    if text is None:
                        return
                    client.sendall(text)

        def accept():
            while True:
                try:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/"

    def test_loads_the_server_of_this_program(self):
        segments = Segments()
        self.addCleanup(segments.close)
        table = segments.load_table("load", [(1, 2, "three")])
        server = Server(segments, table, workers=1)
        self.addCleanup(server.close)
        base = f"http://127.0.0.1:{server.port}/v1/tables/{table}/"
        found = self.found(base + "1", "--connections", "4", "--pipeline", "4")
        self.assertEqual(list(found["statuses"]), ["200"])
        self.assertEqual(set(found["errors"].values()), {0})
        self.assertGreater(found["client_cpu_us_per_request"], 0)
        p50, p99 = found["latency_ns"]["p50"], found["latency_ns"]["p99"]
        self.assertTrue(p50["lower"] <= p50["estimate"] <= p50["upper"] <= p99["upper"] <= found["latency_ns"]["max"] * 65 // 64, found)
        self.check_buckets(found["latency_ns"])
        found = self.found(base + "2", "--rate", "200")  # there is no such entry
        self.assertEqual((list(found["statuses"]), found["latency_ns"]["count"]), (["404"], 200))
        self.assertTrue(0 <= found["late_share"] <= 1)
        text = self.load(base + "1", "--rate", "200").stdout
        for line in (r"answers +\d+, [\d.]+ a second of 200 asked for", r"statuses +200: \d+", "errors +none", r"latency +p50 [\d.]+ us \(", "client ", "late starts "):
            self.assertRegex(text, "(?m)^" + line)

    def test_statuses_and_closed_connections_are_counted(self):
        head = b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok"
        found = self.found(self.server(lambda number: None if number % 10 == 0 else head % (b"500 Oh" if number % 2 else b"200 OK")),
                           "--connections", "2", "--rate", "100")
        self.assertEqual(set(found["statuses"]), {"200", "500"})
        lost = found["errors"]["closed"] + found["errors"]["reset"]
        self.assertGreaterEqual(lost, 5)
        self.assertGreaterEqual(found["latency_ns"]["count"] + lost, 100)  # each of the window; those lost in the warm-up count, too

    def test_a_stall_is_charged_to_all_that_were_due_in_it(self):
        def answer(number):
            if number == 50:
                time.sleep(0.4)
            return b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        found = self.found(self.server(answer), "--connections", "1", "--rate", "200")
        self.assertGreater(found["latency_ns"]["max"], 400e6)
        self.assertGreater(found["latency_ns"]["p90"]["estimate"], 50e6)  # 80 of 200 were due meanwhile

    def test_answers_it_cannot_read_are_no_answers(self):
        found = self.found(self.server(lambda number: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "--rate", "20", code=1)
        self.assertEqual((found["answers"], "client_cpu_us_per_request" in found), (0, False))
        self.assertGreater(found["errors"]["unreadable"], 10)

    def test_nobody_there_and_what_cannot_be_asked_is_told_with_the_cure(self):
        with socket.create_server(("127.0.0.1", 0)) as gone:
            port = gone.getsockname()[1]
        self.assertRegex(self.load(f"http://127.0.0.1:{port}/", code=8).stderr, r"\Aholdfast: http://127.0.0.1:\d+/: connecting: Connection refused; start the server, [^\n]*\n\Z")
        for words, told in ((("https://127.0.0.1/",), "https cannot be asked yet"), (("http://example.org/",), "names are not looked up"),
                            (("http://127.0.0.1/", "--pipeline", "0"), "--pipeline: is a number from 1 to 256"), (("a", "b"), "takes one URL")):
            self.assertIn(told, self.load(*words, code=2).stderr)

    def test_a_signal_ends_it(self):
        process = subprocess.Popen([PROGRAM, "bench", "http", self.server(lambda number: b"HTTP/1.1 204 No Content\r\n\r\n"), "--rate", "10", "--duration", "600"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        caught = lambda: int(next(line for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("SigCgt:")).split()[1], 16)
        wait_until("it watches for signals", lambda: caught() & (1 << (signal.SIGINT - 1)))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=30), -signal.SIGINT)


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
            script, folder = self.start('sleep 1000 & echo "$$ $!" >"$1/pids"; wait')  # a shell passes over an interruption that comes while a command runs
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
