# SPDX-License-Identifier: Apache-2.0
"""WebSockets of holdfast::net with clients that others wrote: the Python package websockets, and the Autobahn suite where
there is a Python 2.7 for it (packages/python2.txt)."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from serve_support import main

try:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
except ImportError:
    connect = None

ECHO = os.environ.get("HOLDFAST_WEBSOCKET_ECHO", "")
SUITE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", ".")) / "build" / "autobahn"
# What the suite may say of a case: it holds, or it has no verdict (what a server does with frames behind a close).
FINE = {"OK", "INFORMATIONAL"}
SCALE = float(os.environ.get("HOLDFAST_TEST_SCALE", "1"))
# (cases, how many at least, time-out in seconds). Of the 216 cases of permessage-deflate, of which each is 1000 messages
# and takes the suite seconds, the long run has all. Else these: text, a picture and what is compressed already, small
# and large, whole and in fragments; and each set of parameters that is offered.
DEFLATED = (["12.*", "13.*"], 216, 3600) if SCALE >= 100 else (["12.1.4", "12.2.6", "12.5.12", "13.*.3"], 10, 250)


class Echo:
    def __init__(self, engine, *words):
        self.process = subprocess.Popen([ECHO, engine, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening "):
            raise unittest.SkipTest(f"needs {engine}: {self.process.stderr.read().strip()}")
        self.uri = f"ws://127.0.0.1:{int(line.split()[1])}/"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.ended = self.process.wait(20)
        self.process.stdout.close()
        self.process.stderr.close()


class Engines:
    """The tests of one engine; each class below names it."""

    @unittest.skipIf(connect is None, "needs the Python package websockets, which ./dev setup installs")
    def test_a_client_of_others_speaks_with_it(self):
        for words, compression in (((), None), ((), "deflate"), (("deflate",), None), (("deflate",), "deflate")):
            with self.subTest(words=words, compression=compression), Echo(self.engine, *words) as server:
                with connect(server.uri, compression=compression, max_size=None) as client:
                    agreed = client.response.headers.get("Sec-WebSocket-Extensions", "")
                    self.assertEqual(agreed.startswith("permessage-deflate"), bool(words and compression))
                    for size in (0, 1, 125, 126, 65535, 65536, 5_000_000):
                        client.send("x" * size)
                        self.assertEqual(client.recv(20), "x" * size)
                        client.send(bytes(size))
                        self.assertEqual(client.recv(20), bytes(size))
                    client.send(["K\u00e4", "", "se"])  # in fragments
                    self.assertEqual(client.recv(20), "K\u00e4se")
                    self.assertTrue(client.ping(b"there?").wait(20))
                    client.close(3001, "enough")
                    with self.assertRaises(ConnectionClosed) as told:
                        client.recv(20)
                    self.assertEqual((told.exception.rcvd.code, told.exception.sent.code), (3001, 3001))
            self.assertEqual(server.ended, 0)

    @unittest.skipIf(connect is None, "needs the Python package websockets, which ./dev setup installs")
    def test_many_clients_side_by_side(self):
        def talk(number):
            with connect(server.uri) as client:
                for i in range(50):
                    client.send(f"{number}:{i}")
                    if client.recv(20) != f"{number}:{i}":
                        return False
            return True

        with Echo(self.engine) as server, concurrent.futures.ThreadPoolExecutor(16) as pool:
            self.assertTrue(all(pool.map(talk, range(64))))

    def test_the_autobahn_suite(self):
        self.autobahn([], ["*"], ["12.*", "13.*"], 301, 250)  # permessage-deflate, which is declined

    def test_the_autobahn_suite_deflated(self):
        cases, least, timeout = DEFLATED
        self.autobahn(["deflate"], cases, [], least, timeout)

    def autobahn(self, words, cases, without, least, timeout):
        python = SUITE / "python"
        if not python.exists():
            self.skipTest("needs a Python 2.7 beside ./dev setup, for the Autobahn suite")
        with Echo(self.engine, *words) as server, tempfile.TemporaryDirectory() as folder:
            plan = {"outdir": folder, "servers": [{"agent": "holdfast", "url": server.uri}], "cases": cases, "exclude-cases": without}
            (pathlib.Path(folder) / "plan.json").write_text(json.dumps(plan))
            run = subprocess.run([python, "-c", "from autobahntestsuite.wstest import run; run()", "-m", "fuzzingclient", "-s", "plan.json"],
                                 cwd=folder, env=dict(os.environ, PYTHONPATH=str(SUITE / "packages")), capture_output=True, text=True,
                                 timeout=timeout)
            self.assertEqual(run.returncode, 0, run.stderr[-2000:])
            cases = json.loads((pathlib.Path(folder) / "index.json").read_text())["holdfast"]
        self.assertGreaterEqual(len(cases), least)
        wrong = {name: (case["behavior"], case["behaviorClose"]) for name, case in cases.items()
                 if case["behavior"] not in FINE or case["behaviorClose"] not in FINE}
        self.assertEqual(wrong, {})
        print(f"Autobahn on {self.engine}{', deflated' if words else ''}: {len(cases)} cases, none wrong, none non-strict")


class Epoll(Engines, unittest.TestCase):
    engine = "epoll"


class IoUring(Engines, unittest.TestCase):
    engine = "io_uring"


if __name__ == "__main__":
    main()
