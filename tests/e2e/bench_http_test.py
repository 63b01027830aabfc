# SPDX-License-Identifier: Apache-2.0
"""The http suite from outside: what it writes, that wrong answers and missing peers are told, and that it leaves nothing behind."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from serve_support import BUILD, bench_runs, left_behind, main, skip_all, wait_until  # noqa: E402

BENCH = BUILD / "bin" / "http_bench"
TOOLS = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", ".")) / "build" / "bench_tools"
OURS = ["holdfast::net, epoll", "holdfast serve, epoll"]
IO_URING = ["holdfast::net, io_uring", "holdfast serve, io_uring"]
FLOOR = "bare epoll loop"
CLIENT = "client's and server's time a request"
LATENCIES = [f"{level} at {load} % load" for level in ("p50", "p99", "p99.9") for load in (50, 90)]
# A server as the suite starts its peers, that answers all but every fifth request as it should.
PEER = """#!{python}
import socket, sys, threading
if sys.argv[1] == "version":
    print("a peer of the test")
    sys.exit()
wrong = {wrong}
listener = socket.create_server(("127.0.0.1", 0))
print("listening", listener.getsockname()[1], flush=True)
def right(request):
    number = int(request.split()[1].rsplit(b"/", 1)[1])
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    name = "".join(chr(97 + (mixed >> 20) // 26**i % 26) for i in range(3 + (mixed >> 61) % 6))
    return b'{{"id":%d,"user":%d,"name":"%s"}}' % (number, mixed >> 32, name.encode())
def serve(client):
    count, buffer = 0, b""
    while data := client.recv(65536):
        buffer += data
        while b"\\r\\n\\r\\n" in buffer:
            request, _, buffer = buffer.partition(b"\\r\\n\\r\\n")
            count += 1
            body = wrong if wrong and count % 5 == 0 else right(request)
            client.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
            if b"Connection: close" in request:
                client.close()
                return
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def entry(number):
    """As bench/http/computed.hpp has it."""
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    return {"id": number, "user": mixed >> 32, "name": "".join(chr(97 + (mixed >> 20) // 26**i % 26) for i in range(3 + (mixed >> 61) % 6))}


def descendants(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in task.read_text().split():
                found += [int(child), *descendants(child)]
    return found


class BenchHttp(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.peers = self.folder / "peers"
        self.peers.mkdir()
        self.environment = dict(os.environ, HOLDFAST_HTTP_PEERS=str(self.peers), HOLDFAST_HTTP_TOOLS=str(TOOLS))

    def peer(self, name, wrong=None):
        file = self.peers / name
        file.write_text(PEER.format(python=sys.executable, wrong=repr(wrong)))
        file.chmod(0o755)

    def bench(self, *words):
        return subprocess.run([BENCH, "http", "--quick", *words], env=self.environment, capture_output=True, text=True, timeout=200)

    def test_measures_writes_the_fixed_shape_and_leaves_nothing(self):
        before = left_behind()
        self.peer("go_net_http")
        (self.peers / "hyper_peer.missing").write_text("no Rust in this test\n")
        file = self.folder / "out.json"
        done = self.bench("--filter", "JSON reply, 64 clients", "--json", str(file))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(file.read_text())
        self.assertIn("machine", found)
        names = {f"http: JSON reply, 64 clients: {what}" for what in
                 ("requests", "server time a request", CLIENT, *LATENCIES)}
        self.assertEqual({result["name"] for result in found["results"]}, names)
        for result in found["results"]:
            self.assertLessEqual({"name", "subject", "unit", "median", "p05", "p95", "runs"}, set(result))
            self.assertGreater(result["p05"], 0, result)
            self.assertLessEqual(result["p05"], result["median"])
            self.assertLessEqual(result["median"], result["p95"])
            self.assertGreaterEqual(result["runs"], 7)
        measured = {result["subject"] for result in found["results"] if not result["name"].endswith(CLIENT)}
        self.assertLessEqual({*OURS, FLOOR, "Go net/http"}, measured)
        self.assertEqual({result["name"] for result in found["ratios"] if result["peer"] == "Go net/http"}, {name for name in names if not name.endswith(CLIENT)})
        for ratio in found["ratios"]:
            self.assertEqual(ratio["subject"], f"load client of {OURS[0]}" if ratio["name"].endswith(CLIENT) else OURS[0])
            self.assertTrue(0 < ratio["low"] <= ratio["ratio"] <= ratio["high"], ratio)
        self.assertEqual({(figure["name"], figure["subject"]) for figure in found["published"]},
                         {("http: JSON reply, 64 clients: requests", "http-kit, 10 connections")})
        # Whoever is not measured is named with the reason.
        skipped = {entry["subject"]: entry["text"] for entry in found["skipped"]}
        self.assertEqual(skipped["hyper"], "no Rust in this test")
        self.assertEqual(measured | set(skipped), {*OURS, *IO_URING, FLOOR, "nginx", "h2o", "Boost.Beast", "RESTinio", "Go net/http", "hyper", "may_minihttp"})
        # Targets are told of whoever is measured, by the same samples.
        targets = [entry["text"] for entry in found["notes"] if entry["text"].startswith("target: JSON reply, 64 clients, ")]
        rates = {result["subject"]: result["median"] for result in found["results"] if result["name"] == "http: JSON reply, 64 clients: server time a request"}
        best = min(measured - {*OURS, *IO_URING, FLOOR}, key=rates.get)  # which peers there are is the machine's
        for told in (f"{OURS[0]} in at most 1.06 times the time of {FLOOR}: ", f"{OURS[0]}, beside the best peer, at least 1.25 times as fast as {best}: ",
                     f"{OURS[1]} in at most 1.15 times the time of {OURS[0]}: "):
            self.assertTrue(any(told in text for text in targets), (told, targets))
        for told in (f"{IO_URING[0]} at least 1.15 times as fast as {FLOOR}: ", f"{IO_URING[1]} in at most 1.15 times the time of {IO_URING[0]}: "):
            self.assertEqual(any(told in text for text in targets), IO_URING[0] in measured, (told, targets))
        for name in OURS:
            self.assertTrue(any(f"load client of {name} in at most 1.0 times the time of {name}: " in text for text in targets), targets)
        self.assertEqual(found["versions"]["Go net/http"], "a peer of the test")
        wait_until("nothing is left behind", lambda: left_behind() <= before)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_two_workers_are_held_against_one(self):
        file = self.folder / "out.json"
        done = self.bench("--filter", "two workers", "--json", str(file))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(file.read_text())
        line = "two workers, JSON reply, 128 clients"
        self.assertEqual({result["name"] for result in found["results"]}, {f"http: {line}: {what}" for what in ("requests", "server time a request", *LATENCIES)})
        for name in {result["name"] for result in found["results"]}:
            self.assertEqual({result["subject"] for result in found["results"] if result["name"] == name}, {result["subject"] for result in found["results"]}, name)
        measured = {result["subject"] for result in found["results"]}
        self.assertLessEqual({f"{name}, {workers} worker{many}" for name in OURS for workers, many in (("one", ""), ("two", "s"))}, measured)
        notes = [entry["text"] for entry in found["notes"]]
        for name in OURS:
            self.assertTrue(any(text.startswith(f"target: {line}, {name}, two workers in at most 1.1 times the time of {name}, one worker: ") for text in notes), notes)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores: on one the client always waits for the server")
    def test_latencies_of_a_busy_machine_are_marked(self):
        file = self.folder / "out.json"
        results, skipped = [], set()
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
        try:
            for what in ("requests", "p99 at 50 % load"):
                done = self.bench("--only", "nobody", "--filter", f"JSON reply, 64 clients: {what}", "--json", str(file))
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("disturbed", done.stdout)
                found = json.loads(file.read_text())
                results += found["results"]
                skipped |= {entry["subject"] for entry in found["skipped"]}
        finally:
            for hog in hogs:
                hog.kill()
                hog.wait()
        wanted = [name for name in (OURS[0], IO_URING[0]) if name not in skipped]  # ours by each engine; nobody else is wanted
        self.assertIn(OURS[0], wanted)
        self.assertEqual([result["subject"] for result in results], 2 * wanted, results)
        for result in results:
            self.assertTrue(any(mark.startswith("disturbed: other programs kept") for mark in result["warnings"]), result)

    def test_a_wrong_answer_fails_the_run(self):
        before = left_behind()
        self.peer("hyper_peer", wrong=b'{"id":1}')
        done = self.bench("--only", "hyper", "--filter", "JSON reply, 64 clients: requests")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("hyper gave a wrong answer", done.stdout + done.stderr)
        self.assertIn('200 "{"id":1}" instead of 200', done.stdout + done.stderr)
        wait_until("nothing is left behind", lambda: left_behind() <= before)

    def test_the_floor_answers_rightly_but_never_closes(self):
        file = self.folder / "out.json"
        done = self.bench("--only", FLOOR, "--filter", "64 clients: server time a request", "--json", str(file))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(file.read_text())
        self.assertEqual({result["name"] for result in found["results"] if result["subject"] == FLOOR},
                         {f"http: JSON reply{pipeline}, 64 clients: server time a request" for pipeline in ("", ", pipeline 16")})
        notes = [entry["text"] for entry in found["notes"]]
        self.assertIn(f"{FLOOR}, lookup: not asked, it reads no request, so it has one answer and never closes", notes)
        self.assertTrue(any(text.startswith(f"target: JSON reply, pipeline 16, 64 clients, {OURS[0]} in at most 0.35 us: ") for text in notes), notes)

    def test_a_peer_that_ends_at_once_is_skipped_by_name(self):
        self.peer("hyper_peer")
        file = self.peers / "hyper_peer"
        file.write_text(f"#!{sys.executable}\nimport sys\nprint('1.0') if sys.argv[1] == 'version' else sys.exit('no luck')\n")
        out = self.folder / "out.json"
        done = self.bench("--only", "hyper", "--filter", "JSON reply, 64 clients: requests", "--json", str(out))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        skipped = {entry["subject"]: entry["text"] for entry in json.loads(out.read_text())["skipped"]}
        self.assertIn("no luck", skipped["hyper"])

    def test_cores_that_are_not_there_are_refused(self):
        for cores, text in (("0,x", "no list of cores"), ("1023", "none that this process may use")):
            self.environment["HOLDFAST_HTTP_SERVER_CORES"] = cores
            done = self.bench()
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stdout + done.stderr)

    def test_a_signal_ends_it_without_leftovers(self):
        self.peer("hyper_peer")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            before, runs = left_behind(), bench_runs()
            process = subprocess.Popen([BENCH, "http", "-time", "60000", "--only", "hyper", "--filter", "JSON reply, 64"],
                                       env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # tests may run where it is ignored
            try:
                wait_until("the servers and the helper run", lambda: len(descendants(process.pid)) >= 5, 60)
                started = descendants(process.pid)
                self.assertNotEqual(bench_runs().keys() - runs.keys(), set())
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), -number)
            finally:
                process.kill()
                process.wait()
            gone = lambda: not [pid for pid in started if self.is_ours(pid)] and left_behind() <= before
            if number == signal.SIGKILL:  # then others do it
                wait_until("servers and files are gone", gone, 60)
            self.assertTrue(gone(), number)

    def is_ours(self, pid):
        """Not a process that was given the same number since."""
        with contextlib.suppress(OSError):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            return any(word in command for word in (b"http_net_server", b"http_floor_server", b"holdfast", b"hyper_peer"))
        return False


class CompiledPeers(unittest.TestCase):
    """The servers of Boost.Beast and RESTinio."""

    def connect(self, program, *words):
        path = BUILD / "bin" / program
        if not os.access(path, os.X_OK):
            self.skipTest(f"needs {path}, which ./dev bench http builds")
        process = subprocess.Popen([path, *words, "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if not line.startswith("listening "):
            self.skipTest(f"needs {path}: {process.stderr.readline().strip()}")
        client = socket.create_connection(("127.0.0.1", int(line.split()[1])), timeout=20)
        self.addCleanup(client.close)
        return client, client.makefile("rb")

    def answer(self, stream):
        """Status, fields and body of the next answer."""
        status = int(stream.readline().split()[1])
        fields = {}
        while (line := stream.readline()) != b"\r\n":
            name, _, value = line.decode().partition(":")
            fields[name.lower()] = value.strip()
        return status, fields, stream.read(int(fields["content-length"]))

    def check(self, program):
        client, stream = self.connect(program, "computed", "-")
        requests = [f"GET /v1/tables/t/{number} HTTP/1.1\r\nHost: test\r\n\r\n".encode() for number in range(1, 33)]
        text = b"".join(requests)
        for piece in (text[:10], text[10:len(text) // 2 + 7], text[len(text) // 2 + 7:]):
            client.sendall(piece)
        for number in range(1, 33):
            status, fields, body = self.answer(stream)
            self.assertEqual((status, json.loads(body)), (200, entry(number)))
            self.assertEqual((fields["content-type"], fields["cache-control"]), ("application/json", "no-store"))
            self.assertRegex(fields["date"], r"\A\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\Z")
        client.sendall(b"GET /v1/tables/t/none HTTP/1.1\r\nHost: test\r\n\r\nGET /7 HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
        self.assertEqual(self.answer(stream)[0], 404)
        self.assertEqual(json.loads(self.answer(stream)[2]), entry(7))
        self.assertEqual(stream.read(), b"")
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as records:
            records.write("5,77,ann\n18446744073709551615,0,bo\n")
            records.flush()
            client, stream = self.connect(program, "lookup", records.name)
            client.sendall(b"".join(b"GET /v1/tables/t/%d HTTP/1.1\r\nHost: test\r\n\r\n" % number for number in (5, 2**64 - 1, 6)))
            for wanted in ({"id": 5, "user": 77, "name": "ann"}, {"id": 2**64 - 1, "user": 0, "name": "bo"}):
                self.assertEqual(json.loads(self.answer(stream)[2]), wanted)
            self.assertEqual(self.answer(stream)[0], 404)

    def test_beast_answers_rightly(self):
        self.check("http_beast_server")

    def test_restinio_answers_rightly(self):
        self.check("http_restinio_server")


if __name__ == "__main__":
    if not all(os.access(BENCH.parent / name, os.X_OK) for name in ("http_bench", "http_net_server", "http_floor_server")):
        skip_all("http_bench, http_net_server and http_floor_server, which ./dev bench builds")
    main()
