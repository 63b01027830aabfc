# SPDX-License-Identifier: Apache-2.0
"""The websocket suite from outside: what it writes, that wrong answers and missing peers are told, that it leaves nothing behind, and that
its subjects join what waits."""
import json
import os
import pathlib
import shutil
import socket
import struct
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
LATENCIES = [f"{level} at {load}" for load in ("half load", "50 % load", "90 % load") for level in ("p50", "p99", "p99.9")]
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
        notes = self.measure(f"{ECHO}: ", [f"{ECHO}: {what}" for what in ("messages", "server time a message", *LATENCIES)], "message")
        for percent in (50, 90):
            self.assertTrue(any(text.startswith(f"{ECHO}, at {percent} % load: messages/s by a schedule") for text in notes), notes)

    def test_fan_out_is_measured_in_the_fixed_shape(self):
        notes = self.measure(f"{FAN_OUT}: ", [f"{FAN_OUT}: {what}" for what in ("deliveries", "server time a delivery", *LATENCIES)], "delivery")
        for percent in (50, 90):
            self.assertTrue(any(text.startswith(f"{FAN_OUT}, at {percent} % load: deliveries/s by a schedule") for text in notes), notes)

    def test_a_wrong_answer_fails_the_run(self):
        before = left_behind()
        peer = self.folder / "websocket_peer"
        peer.write_text(PEER.format(python=sys.executable))
        peer.chmod(0o755)
        done = self.bench("--only", PEER_NAME, "--filter", ECHO)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("fastwebsockets gave a wrong answer, so no number of this run counts", done.stdout + done.stderr)
        wait_until("nothing is left behind", lambda: left_behind() <= before)


class Client:
    """A connection to a subject's path, opened."""

    def __init__(self, port, path):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.take(1)
        if not head.startswith(b"HTTP/1.1 101 "):
            raise AssertionError(f"{path}: {head}")

    def take(self, size):
        taken = b""
        while len(taken) < size:
            more = self.socket.recv(size - len(taken))
            if not more:
                raise AssertionError(f"closed behind {taken}")
            taken += more
        return taken

    def segments(self):
        """Segments with data that have arrived: tcpi_data_segs_in."""
        return struct.unpack_from("I", self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), 152)[0]


class Joined(unittest.TestCase):
    """Messages that come in one read leave for each subscriber together: else a figure with several under way is the price of a send each."""

    def check(self, program, *words):
        if not os.access(program, os.X_OK):
            self.skipTest(f"needs {program}, which ./dev bench websocket builds")
        process = subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        line = process.stdout.readline()
        if not line.startswith("listening "):
            self.skipTest(f"needs {program}: {process.stderr.readline().strip()}")
        port = int(line.split()[1])
        subscribers = [Client(port, "/subscribe") for _ in range(8)]
        publisher = Client(port, "/publish")
        for each in (*subscribers, publisher):
            self.addCleanup(each.socket.close)
        for count in (1, 16):
            bodies = [bytes([number]) * 64 for number in range(count)]
            before = [each.segments() for each in subscribers]
            # A key of zeros leaves the bytes as they are.
            publisher.socket.sendall(b"".join(b"\x82" + bytes([0x80 | len(body)]) + bytes(4) + body for body in bodies))
            wanted = b"".join(b"\x82" + bytes([len(body)]) + body for body in bodies)
            for each, segments in zip(subscribers, before):
                self.assertEqual(each.take(len(wanted)), wanted)
                # One, unless the machine stood still for the 200 ms that a cork holds at most.
                self.assertLessEqual(each.segments() - segments, max(1, count // 4), f"segments of {count} messages")

    def test_by_epoll(self):
        self.check(BUILD / "bin" / "websocket_net_server", "epoll")

    def test_by_io_uring(self):
        self.check(BUILD / "bin" / "websocket_net_server", "io_uring")

    def test_by_beast(self):
        self.check(BUILD / "bin" / "websocket_beast_server")

    def test_by_libwebsockets(self):
        self.check(BUILD / "bin" / "websocket_lws_server")

    def test_by_websocketpp(self):
        self.check(BUILD / "bin" / "websocket_websocketpp_server")

    def test_by_gorilla(self):
        self.check(BUILD.parent / "peers" / "websocket" / "gorilla_websocket")

    def test_by_fastwebsockets(self):
        self.check(BUILD.parent / "peers" / "websocket" / "websocket_peer", "fastwebsockets")

    def test_by_tokio_tungstenite(self):
        self.check(BUILD.parent / "peers" / "websocket" / "websocket_peer", "tokio-tungstenite")


if __name__ == "__main__":
    if not os.access(BENCH, os.X_OK):
        skip_all("the websocket suite, which a build with the benchmarks has")
    main()
