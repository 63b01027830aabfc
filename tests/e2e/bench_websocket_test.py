# SPDX-License-Identifier: Apache-2.0
"""The websocket suite from outside: what it writes, that wrong answers and missing peers are told, and that it leaves nothing behind."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from serve_support import BUILD, left_behind, main, skip_all, wait_until  # noqa: E402

BENCH = BUILD / "bin" / "websocket_bench"
OURS = ["holdfast::net, epoll", "holdfast::net, io_uring"]
PEER_NAME = "fastwebsockets"
ECHO, FAN_OUT = "echo of 1 KiB, 64 connections", "fan-out to 200 subscribers"
# A server as the suite starts its peers, that says 101 and then sends what nobody asked for.
PEER = """#!{python}
import socket, sys, threading
if sys.argv[-1] == "version":
    print("a peer of the test")
    sys.exit()
listener = socket.create_server(("127.0.0.1", 0))
print("listening", listener.getsockname()[1], flush=True)
def serve(client):
    client.recv(65536)
    client.sendall(b"HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n")
    client.recv(65536)
    client.sendall(b"\\x82\\x02no")
    client.recv(65536)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class BenchWebsocket(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = dict(os.environ, HOLDFAST_WEBSOCKET_PEERS=str(self.folder))

    def bench(self, *words):
        return subprocess.run([BENCH, "websocket", "--quick", *words], env=self.environment, capture_output=True, text=True, timeout=200)

    def measure(self, filter_text, whats, one):
        before = left_behind()
        file = self.folder / "out.json"
        (self.folder / "websocket_peer.missing").write_text("no Rust in this test\n")
        done = self.bench("--only", PEER_NAME, "--filter", filter_text, "--json", str(file))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = json.loads(file.read_text())
        self.assertEqual({result["name"] for result in found["results"]}, {f"websocket: {what}" for what in whats})
        for result in found["results"]:
            self.assertTrue(0 < result["p05"] <= result["median"] <= result["p95"], result)
        skipped = {entry["subject"]: entry["text"] for entry in found["skipped"]}
        self.assertEqual(skipped[PEER_NAME], "no Rust in this test")
        measured = {result["subject"] for result in found["results"]}
        self.assertIn(OURS[0], measured)
        self.assertLessEqual(measured | set(skipped), {*OURS, PEER_NAME})
        notes = [entry["text"] for entry in found["notes"]]
        self.assertTrue(any("the client takes " in text and f" us of processor time a {one}" in text for text in notes), notes)
        wait_until("nothing is left behind", lambda: left_behind() <= before)
        return notes

    def test_echo_is_measured_in_the_fixed_shape(self):
        latencies = [f"{level} at {load}" for load in ("half load", "50 % load", "90 % load") for level in ("p50", "p99", "p99.9")]
        notes = self.measure(f"{ECHO}: ", [f"{ECHO}: {what}" for what in ("messages", "server time a message", *latencies)], "message")
        for percent in (50, 90):
            self.assertTrue(any(text.startswith(f"{ECHO}, at {percent} % load: messages/s by a schedule") for text in notes), notes)

    def test_fan_out_is_measured_in_the_fixed_shape(self):
        self.measure(f"{FAN_OUT}: server time", [f"{FAN_OUT}: server time a delivery"], "delivery")

    def test_a_wrong_answer_fails_the_run(self):
        before = left_behind()
        peer = self.folder / "websocket_peer"
        peer.write_text(PEER.format(python=sys.executable))
        peer.chmod(0o755)
        done = self.bench("--only", PEER_NAME, "--filter", ECHO)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("fastwebsockets gave a wrong answer, so no number of this run counts", done.stdout + done.stderr)
        wait_until("nothing is left behind", lambda: left_behind() <= before)


if __name__ == "__main__":
    if not os.access(BENCH, os.X_OK):
        skip_all("the websocket suite, which a build with the benchmarks has")
    main()
