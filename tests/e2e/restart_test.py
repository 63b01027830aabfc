# SPDX-License-Identifier: Apache-2.0
"""Hot restart: a successor takes over from a running server. Under load no request is refused, reset or lost; whoever is killed, somebody serves."""
import array
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
import unittest

import serve_support
from cli_support import Owner
from rings_test import Account, Events
from serve_support import PROGRAM, Segments, Server, UnixConnection, main, wait_until, with_engine_or_skip

try:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect as connect_websocket
except ImportError:
    connect_websocket = None

RANGES = [("6.0.0.0", "8.21.142.255", "US")]
SANITIZED = bool(os.environ.get("HOLDFAST_SANITIZED"))
PATIENT = [f"--limit={name}-ms=120000" for name in ("drain-timeout", "header-timeout")]  # however long this machine stands still
TAKE_OVER, ACCEPTED, BUSY, READY, YOURS, STOPPING, REFUSED = range(1, 8)


# Becomes the program behind it, in which who makes an epoll is killed by SIGSYS (seccomp(2)): the workers, before they answer.
KILLER = """
import ctypes, os, platform, resource, struct, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
epoll_create1 = {"x86_64": 291, "aarch64": 20}[platform.machine()]
code = struct.pack("<HBBIHBBIHBBIHBBI", 0x20, 0, 0, 0, 0x15, 0, 1, epoll_create1, 6, 0, 0, 0x80000000, 6, 0, 0, 0x7FFF0000)
at = ctypes.create_string_buffer(code, len(code))
filter = ctypes.create_string_buffer(struct.pack("@HP", 4, ctypes.addressof(at)))
libc = ctypes.CDLL(None, use_errno=True)
zero = ctypes.c_ulong(0)
if libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) != 0 or libc.prctl(22, ctypes.c_ulong(2), filter, zero, zero) != 0:
    sys.exit("no seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"""


def word(what, number=0, version=1):
    return b"HFSERVE\0" + struct.pack("<IIII", version, what, number, 0)


class Restartable(Server):
    """A server, the successors of which are known by what they say on its standard output and error."""

    def __init__(self, segments, *options, **more):
        self.pids, self.others = [], []
        super().__init__(segments, *options, **more)
        self.pids = [self.process.pid]

    @property
    def pid(self):
        """The supervisor that serves now."""
        return self.pids[-1]

    def workers(self):
        return sorted(int(pid) for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
                      if b"serve-worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())

    def restart(self):
        """SIGUSR2, until the successor serves and all is its own."""
        os.kill(self.pid, signal.SIGUSR2)
        return self.succeeded(self.process.stdout.readline())

    def take_over(self, *options, workers=2, check=True, by=()):
        """Another one takes over, started by hand, or by a program that is given its command line."""
        log = open(self.log.name, "ab")
        other = subprocess.Popen([*by, PROGRAM, "serve", "--take-over", "--listen", f"{self.host}:{self.port}", "--workers", str(workers), "--private",
                                  "--counters", self.segments.name("counts"), *map(str, options)],
                                 env=self.segments.environment, stdout=subprocess.PIPE, stderr=log, text=True)
        log.close()
        threading.Thread(target=other.wait, daemon=True).start()  # nobody is left a zombie
        giving_up = threading.Timer(60, other.kill)
        giving_up.start()
        line = other.stdout.readline()  # or its end
        giving_up.cancel()
        if not check:
            return other, line
        self.others.append(other)
        return self.succeeded(line)

    def succeeded(self, line):
        if "serving" not in line:
            raise AssertionError(f"no successor: {line!r} {self.error_text()}")
        took = [int(pid) for pid in re.findall(r"process (\d+) has taken over", self.error_text())]
        self.pids += took[len(self.pids) - 1:]
        return line

    def wait_for_the_old(self):
        for pid in self.pids[:-1]:
            wait_until(f"process {pid} has finished", lambda: not alive(pid))

    def stop_last(self):
        """SIGTERM to who serves now."""
        os.kill(self.pid, signal.SIGTERM)
        wait_until("all have ended", lambda: not any(alive(pid) for pid in self.pids))

    def close(self):
        for pid in self.pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for other in self.others:
            other.stdout.close()
        super().close()


def queues(port):
    """How many sockets listen at a TCP port of IPv4."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in lines)


def alive(pid):
    """Whether it runs; one that has ended and that nobody has waited for does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Client(threading.Thread):
    """Asks as fast as it can, never twice for the same, and counts what goes wrong."""

    def __init__(self, where, path, depth=1, kept=True):
        super().__init__()
        self.where, self.kept, self.depth = where, kept, depth
        close = "" if kept else "Connection: close\r\n"
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n".encode()
        self.answered = self.refused = self.reset = self.lost = self.wrong = self.unread = self.connections = 0
        self.stopped = False
        self.notes = []

    def run(self):
        while not self.stopped:
            try:
                link = self.connect()
            except OSError as error:
                self.refused += 1
                self.notes.append(f"connecting: {error}")
                time.sleep(0.01)
                continue
            self.connections += 1
            with link:
                link.settimeout(20)
                self.ask(link)

    def connect(self):
        if not isinstance(self.where, str):
            return socket.create_connection(self.where, timeout=20)
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(20)
        link.connect(self.where)
        return link

    def requests(self, count):
        return self.request * count

    def right(self, head, body):
        return head.startswith(b"HTTP/1.1 200 ") and b'"US"' in body

    def ask(self, link):
        """Until the server says close, or we stop."""
        more = b""
        while not self.stopped:
            left = self.depth
            try:
                link.sendall(self.requests(left))
                while left:
                    head, more = self.read_until(link, more, b"\r\n\r\n")
                    told = re.search(rb"Content-Length: (\d+)", head)
                    length = int(told[1]) if told else 0  # of a 204
                    while len(more) < length:
                        piece = link.recv(65536)
                        if not piece:
                            raise EOFError
                        more += piece
                    body, more = more[:length], more[length:]
                    left -= 1
                    if self.right(head, body):
                        self.answered += 1
                    else:
                        self.wrong += 1
                        self.notes.append(repr(head + body))
                    if b"Connection: close" in head:
                        self.unread += left  # RFC 9112 section 9.6: the client asks for these again, which nobody has looked at
                        return
            except EOFError:
                self.lost += left
                self.notes.append("the end where an answer should be")
                return
            except OSError as error:
                self.reset += left
                self.notes.append(f"with {left} unanswered: {error}")
                return
            if not self.kept:
                return

    @staticmethod
    def read_until(link, more, end):
        while end not in more:
            piece = link.recv(65536)
            if not piece:
                raise EOFError
            more += piece
        head, _, more = more.partition(end)
        return head, more


@contextlib.contextmanager
def load(case, where, path, what, clients=None):
    """Clients of three kinds, or these; afterwards none of them may have failed."""
    clients = clients or [Client(where, path), Client(where, path), Client(where, path, depth=16), Client(where, path, kept=False)]
    for client in clients:
        client.start()
    try:
        wait_until("each client has answers", lambda: all(client.answered for client in clients))
        yield clients
    finally:
        for client in clients:
            client.stopped = True
        for client in clients:
            client.join()
    total = {name: sum(getattr(client, name) for client in clients)
             for name in ("answered", "connections", "refused", "reset", "lost", "wrong", "unread")}
    print(f"{what}: {total['answered']} requests answered on {total['connections']} connections; refused {total['refused']}, reset {total['reset']}, "
          f"ended without an answer {total['lost']}, wrong {total['wrong']}, behind a last answer {total['unread']}", flush=True)
    notes = [note for client in clients for note in client.notes][:5]
    case.assertEqual([total[name] for name in ("refused", "reset", "lost", "wrong")], [0, 0, 0, 0], notes)


class RestartCase(unittest.TestCase):
    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        self.path = f"/v1/indexes/{self.segments.load_index('geo4', RANGES)}/8.8.8.8"

    def serve(self, *options, **more):
        server = Restartable(self.segments, *options, **more)
        self.addCleanup(server.close)
        return server

    def io_uring_or_skip(self):
        with_engine_or_skip(self, "io_uring", lambda: self.serve("--engine", "io_uring", workers=1)).stop()

    def assert_serves(self, server):
        self.assertEqual(server.ask(self.path)[0], 200)


class UnderLoad(RestartCase):
    restarts = int(os.environ.get("HOLDFAST_TEST_RESTARTS", 3 if SANITIZED else 6))

    def answered_in_metrics(self, server):
        text = server.ask("/metrics")[2]
        return sum(int(value) for value in re.findall(r'^holdfast_http_requests_total\{route="/v1/indexes[^\n]*status="2xx"[^\n]*\} (\d+)', text, re.M))

    def restarts_lose_nothing(self, engine, workers):
        server = self.serve("--engine", engine, workers=workers)
        with load(self, (server.host, server.port), self.path, f"{self.restarts} restarts, {engine}, {workers} workers") as clients:
            for _ in range(self.restarts):
                before = [client.answered for client in clients]
                server.restart()
                wait_until("each client goes on", lambda: all(client.answered > then for client, then in zip(clients, before)))
        self.assertEqual(len(server.pids), self.restarts + 1)
        server.wait_for_the_old()
        self.assertEqual(self.answered_in_metrics(server), sum(client.answered for client in clients))
        server.stop_last()
        self.assertEqual(server.process.returncode if server.process.poll() is not None else server.process.wait(timeout=20), 0)

    def test_epoll_one_worker(self):
        self.restarts_lose_nothing("epoll", 1)

    def test_epoll_two_workers(self):
        self.restarts_lose_nothing("epoll", 2)

    def test_io_uring_one_worker(self):
        self.io_uring_or_skip()
        self.restarts_lose_nothing("io_uring", 1)

    def test_io_uring_two_workers(self):
        self.io_uring_or_skip()
        self.restarts_lose_nothing("io_uring", 2)

    @unittest.skipUnless(len(os.sched_getaffinity(0)) > 1, "needs two processors")
    def test_steering_by_cpu_outlives_a_restart_and_ends_when_a_successor_says_so(self):
        moved = pathlib.Path("/sys/class/net/lo/queues/rx-0/rps_cpus")
        if moved.exists() and moved.read_text().strip("0,\n"):
            self.skipTest("needs packets of loopback handled by their sender's processor (rps_cpus of lo)")
        usable = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, usable)

        asked = 0

        def ask(path):
            nonlocal asked
            asked += 1
            return server.ask(path)[2]

        def accepted():
            """By each worker, once all that has been asked before and the one connection of these questions are counted."""
            nonlocal asked
            asked += 1
            last = time.monotonic() + 30
            with contextlib.closing(server.connect()) as connection:
                while time.monotonic() < last:
                    connection.request("GET", "/metrics")
                    text = connection.getresponse().read().decode()
                    found = re.findall(r'holdfast_connections_accepted_total{worker="(\d+)"} (\d+)', text)
                    if sum(int(count) for _, count in found) >= asked:
                        return {int(worker): int(count) for worker, count in found}
            self.fail("connections were not counted")

        server = self.serve("--steer", "cpu", workers=2)
        line = server.first_line
        for turn in range(2):
            self.assertIn(", steered by CPU;", line)
            cpus = {one["index"]: os.sched_getaffinity(one["pid"]) for one in json.loads(ask("/v1/stats"))["workers"]}
            self.assertEqual(cpus[0] | cpus[1], usable)
            self.assertFalse(cpus[0] & cpus[1])
            os.sched_setaffinity(0, {min(cpus[0])})  # of this thread; loopback delivers on the sender's processor
            before = accepted()[1]
            for _ in range(20):
                ask("/healthz")
            self.assertEqual(accepted()[1], before, f"turn {turn}")
            os.sched_setaffinity(0, {min(cpus[1])})
            for _ in range(20):
                ask("/healthz")
            os.sched_setaffinity(0, {min(cpus[0])})
            self.assertEqual(accepted()[1], before + 20, f"turn {turn}")
            os.sched_setaffinity(0, usable)
            if turn == 0:
                line = server.restart()
                server.wait_for_the_old()
        self.assertNotIn("steered", server.take_over(workers=2))
        for one in json.loads(ask("/v1/stats"))["workers"]:
            self.assertEqual(os.sched_getaffinity(one["pid"]), usable)
        server.wait_for_the_old()
        os.sched_setaffinity(0, {min(usable)})
        before = accepted()
        for _ in range(100):
            ask("/healthz")
        for worker, count in accepted().items():  # a hash leaves nobody out
            self.assertGreater(count, before[worker] + 5, f"worker {worker}")

    def test_other_arguments_fewer_and_more_workers_and_another_engine(self):
        server = self.serve(workers=3)
        with load(self, (server.host, server.port), self.path, "3 to 1 to 4 to 2 workers, epoll and auto"):
            for workers, engine in ((1, "epoll"), (4, "auto"), (2, "epoll")):
                line = server.take_over("--engine", engine, workers=workers)
                self.assertIn(f"with {workers} worker", line)
                self.assertEqual(queues(server.port), 3)  # none lost, and none that a successor which fails would lose
                # Each queue is accepted from: the kernel spreads these connections over all of them.
                for _ in range(16):
                    self.assert_serves(server)
        self.assertEqual(len(server.workers()), 2)
        pids = re.findall(r'^holdfast_worker_pid\{worker="(\d+)"\} (\d+)', server.ask("/metrics")[2], re.M)
        self.assertEqual(sorted(int(pid) for _, pid in pids if pid != "0"), server.workers())

    def test_the_unix_socket_is_taken_too_and_goes_with_the_last(self):
        path = self.segments.directory / "s"
        server = self.serve("--unix", path, workers=2)
        with load(self, str(path), self.path, "2 restarts, by the unix socket"):
            server.restart()
            server.restart()
        self.assertEqual(server.ask(self.path, by=path)[0], 200)
        self.assertTrue(path.exists())
        server.take_over(workers=1)  # without --unix
        wait_until("nobody listens there any more", lambda: not path.exists())
        self.assert_serves(server)


class Followers(RestartCase):
    def test_an_idle_connection_has_its_next_answer_and_is_told_to_close(self):
        server = self.serve(*PATIENT, workers=1)
        idle = server.connect()
        idle.request("GET", self.path)
        self.assertEqual(idle.getresponse().read()[:1], b"{")
        half = socket.create_connection((server.host, server.port), timeout=20)
        half.sendall(f"GET {self.path} HTTP/1.1\r\nHo".encode())
        server.restart()
        told = False
        while not told:  # a worker may answer one before it looks at what it was told
            idle.request("GET", self.path)
            answer = idle.getresponse()
            self.assertEqual(answer.status, 200)
            answer.read()
            told = answer.will_close
        half.sendall(b"st: localhost\r\n\r\n")
        self.assertIn(b"Connection: close", half.recv(4096))
        half.close()
        idle.close()
        server.wait_for_the_old()

    def ring(self):
        owner = Owner(self.segments.environment, "ring", self.segments.name("feed"), 1 << 20)
        self.addCleanup(owner.kill)
        return owner, f"/v1/rings/{self.segments.name('feed')}"

    def test_subscribers_come_back_and_miss_nothing(self):
        if connect_websocket is None:
            self.skipTest("needs the Python package websockets, which ./dev setup installs")
        ring, target = self.ring()
        server = self.serve(workers=2)
        accounts, wrong, ends = {"events": Account(1), "sockets": Account(1)}, [], []

        def by_events(account):
            told = None
            while account.texts[-1:] != ["the last"]:
                events = Events(server, target + "?from=oldest", **({"Last_Event_ID": told} if told else {}))
                self.assertEqual(events.joined()["sequence"], account.next)
                while account.texts[-1:] != ["the last"] and (said := events.next()) is not None:
                    account.take(said[1])
                told = events.id
                ends.append("events")
                events.close()

        def by_sockets(account):
            ring_name = None
            while account.texts[-1:] != ["the last"]:
                start = f"{ring_name}-{account.next}" if ring_name else "oldest"
                with connect_websocket(f"ws://{server.host}:{server.port}{target}?from={start}") as link:
                    joined = json.loads(link.recv(20))
                    self.assertEqual((joined["event"], joined["sequence"]), ("joined", account.next))
                    ring_name = joined["ring"]
                    try:
                        while account.texts[-1:] != ["the last"]:
                            account.take(json.loads(link.recv(20)))
                    except ConnectionClosed as closed:
                        self.assertIn(closed.rcvd.code, (1012, 1001))  # 1001: it had come as the worker began to end
                ends.append("sockets")

        def guarded(follow, account):
            try:
                follow(account)
            except Exception as error:  # noqa: BLE001: told below, in the test's own thread
                wrong.append(repr(error))
        followers = [threading.Thread(target=guarded, args=(follow, accounts[name]))
                     for name, follow in (("events", by_events), ("sockets", by_sockets))]
        for follower in followers:
            follower.start()
        total = 0
        for _ in range(3):
            total = int(ring("batch", 200, "m"))
            wait_until("both follow", lambda: wrong or all(account.next > total - 100 for account in accounts.values()))
            server.restart()
            total = int(ring("batch", 200, "m"))
        ring("put", "the last")
        for follower in followers:
            follower.join()
        self.assertEqual(wrong, [])
        for name, account in accounts.items():
            self.assertEqual((account.messages, account.lost), (total + 1, 0), name)
            self.assertGreaterEqual(ends.count(name), 4, ends)
        print(f"3 restarts: {total + 1} messages of a ring, told once each to events and WebSockets that came back", flush=True)

    def test_events_are_told_when_to_come_back_and_waiting_requests_are_answered(self):
        ring, target = self.ring()
        ring("put", "x")
        server = self.serve(*PATIENT, workers=1)
        waiting = server.connect()
        waiting.request("GET", target + "?from=2&wait=30")
        with socket.create_connection((server.host, server.port), timeout=20) as link, link.makefile("rb") as lines:
            link.sendall(f"GET {target}?from=1 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
            while not lines.readline().startswith(b"id: "):
                pass
            server.restart()
            text = b""
            while not text.endswith(b"\r\n0\r\n\r\n"):  # the connection stays for one more request
                text += lines.readline() or self.fail(text)
            self.assertRegex(text, rb"\nretry: \d+\n")
            link.sendall(f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            self.assertIn(b"Connection: close\r\n", lines.read())
        answer = waiting.getresponse()
        self.assertEqual((answer.status, json.loads(answer.read())["messages"]), (200, []))
        waiting.close()
        server.wait_for_the_old()

    def test_a_successor_without_the_unix_socket_takes_all_else_as_ever(self):
        ring, target = self.ring()
        ring("put", "x")
        path = self.segments.directory / "s"
        server = self.serve("--unix", path, *PATIENT, "--limit=drain-idle-ms=1", workers=1)
        idle = server.connect()
        idle.request("GET", self.path)
        self.assertEqual(idle.getresponse().read()[:1], b"{")
        half = socket.socket(socket.AF_UNIX)
        self.addCleanup(half.close)
        half.settimeout(20)
        half.connect(str(path))
        half.sendall(f"GET {self.path} HTTP/1.1\r\nHo".encode())
        with socket.create_connection((server.host, server.port), timeout=20) as link, link.makefile("rb") as lines:
            link.sendall(f"GET {target}?from=1 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
            while not lines.readline().startswith(b"id: "):
                pass
            server.take_over(workers=1)
            text = b""
            while not text.endswith(b"\r\n0\r\n\r\n"):
                text += lines.readline() or self.fail(text)
            self.assertRegex(text, rb"\nretry: \d+\n", "a subscriber by TCP is not told to come back")
            idle.request("GET", self.path)  # a drain would have closed it by now
            answer = idle.getresponse()
            self.assertEqual((answer.status, answer.will_close), (200, True))
            answer.read()
        half.sendall(b"st: localhost\r\n\r\n")
        self.assertIn(b"Connection: close", half.recv(4096))
        half.close()
        idle.close()
        self.assertFalse(path.exists())
        server.wait_for_the_old()


class WhoFails(RestartCase):
    def test_a_program_that_cannot_be_run_or_ends_leaves_the_old_one_serving(self):
        folder = self.segments.directory / "bin"
        folder.mkdir()
        program = folder / "holdfast"
        program.symlink_to(PROGRAM)
        with self.program(program):
            server = self.serve(workers=1)
        with load(self, (server.host, server.port), self.path, "3 programs that fail and 1 that does not"):
            for text, said in (("#!/bin/sh\ngrep SigIgn /proc/self/status >&2\nexit 3\n", "ended with code 3"), ("no program", "could not be run"), (None, "could not be run")):
                program.unlink()
                if text is not None:
                    program.write_text(text)
                    program.chmod(program.stat().st_mode | (stat.S_IXUSR if text.startswith("#!") else 0))
                os.kill(server.pid, signal.SIGUSR2)
                wait_until(said, lambda: server.error_text().count(said) >= (2 if text is None else 1))
                if text is None:
                    program.touch()
            program.unlink()
            program.symlink_to(PROGRAM)
            server.restart()
        self.assertEqual(len(server.pids), 2)
        ignored = int(re.search(r"SigIgn:\s*(\w+)", server.error_text())[1], 16)
        self.assertFalse(ignored & 1 << signal.SIGPIPE - 1, "a program begins with SIGPIPE as it expects it")

    @contextlib.contextmanager
    def program(self, path):
        before, serve_support.PROGRAM = serve_support.PROGRAM, str(path)
        try:
            yield
        finally:
            serve_support.PROGRAM = before

    def test_what_has_been_accepted_is_answered_whichever_supervisor_is_killed_afterwards(self):
        server = self.serve(*PATIENT, workers=1)

        def begin():
            link = socket.create_connection((server.host, server.port), timeout=20)
            self.addCleanup(link.close)
            link.sendall(f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n".encode())
            self.assert_serves(server)  # which stood behind it in the only queue
            return link

        def finish(link):
            link.sendall(b"\r\n")
            self.assertTrue(link.recv(4096).startswith(b"HTTP/1.1 200 "))
        of_first = begin()
        server.restart()
        of_second = begin()
        for pid, link in zip(server.pids, (of_first, of_second)):
            os.kill(pid, signal.SIGKILL)
            finish(link)
        again = self.serve("--allow-host", "localhost", workers=1, listen=f"{server.host}:{server.port}")
        self.assert_serves(again)

    def test_arguments_that_are_wrong_leave_the_old_one_serving(self):
        server = self.serve(workers=1)
        other, line = server.take_over("--token-file", "/nowhere", "--write", check=False)
        self.assertNotEqual(other.wait(timeout=20), 0)
        self.assertEqual(line, "")
        other.stdout.close()
        self.assert_serves(server)
        server.restart()

    def test_a_successor_whose_workers_are_killed_at_their_start_gives_up_and_nothing_is_lost(self):
        if os.uname().machine not in ("x86_64", "aarch64"):
            self.skipTest("needs the number of epoll_create1 on this machine")
        server = self.serve(workers=1)
        with load(self, (server.host, server.port), self.path, "a successor of 4 workers that gives up and one that does not"):
            other, line = server.take_over("--engine", "epoll", workers=4, check=False, by=(sys.executable, "-c", KILLER))
            self.addCleanup(other.stdout.close)
            code = other.wait(timeout=60)
            if "no seccomp" in server.error_text():
                self.skipTest("needs seccomp(2), which this system does not allow")
            self.assertEqual((code, line), (1, ""), server.error_text())
            self.assertIn(f"was killed by signal {signal.SIGSYS:d}, and 5 died so before this server was ready", server.error_text())
            wait_until("the old one goes on", lambda: "; serving on" in server.error_text())
            server.take_over(workers=4)
        self.assertEqual(queues(server.port), 1)

    def test_nobody_to_take_over_from(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            done = self.segments.holdfast("serve", "--take-over", "--listen", f"127.0.0.1:{free.getsockname()[1]}", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("start this one without --take-over", done.stderr)

    # --- the test as the successor

    def knock(self, server):
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(link.close)
        link.settimeout(20)
        link.connect(f"\0holdfast-serve/{server.host}:{server.port}")
        return link

    def receive(self, link):
        """What follows `accepted`: (header, descriptors)."""
        self.assertEqual(link.recv(100)[:16], word(ACCEPTED)[:16])
        text, fds, _, _ = socket.recv_fds(link, 65536, 253)
        return text, fds

    def test_successors_that_die_or_talk_nonsense_are_forgotten(self):
        server = self.serve(workers=2)
        with load(self, (server.host, server.port), self.path, "7 successors that fail at some point"):
            for act in ((), (b"x",), (b"",), (word(TAKE_OVER, version=2),), (word(READY, 1),), (word(TAKE_OVER) + b"x",), (word(BUSY),)):
                said = server.error_text().count("; serving on")
                link = self.knock(server)
                for text in act:
                    link.send(text)
                if act == (word(TAKE_OVER, version=2),):
                    self.assertEqual(link.recv(100), word(REFUSED))
                link.close()
                wait_until("it is forgotten", lambda: server.error_text().count("; serving on") > said)
            # Killed with the listeners in its hands, and as soon as it was ready.
            for last in (b"", word(READY, 0)):
                said = server.error_text().count("; serving on")
                link = self.knock(server)
                link.send(word(TAKE_OVER))
                text, fds = self.receive(link)
                self.assertEqual((text[:8], struct.unpack("<6I", text[8:32])), (b"HFLISTEN", (1, 0, 1, 3, 3, 0)))
                self.assertEqual(len(fds), 3)  # two workers' queues, and the door
                other = self.knock(server)
                self.assertEqual(other.recv(100)[:16], word(BUSY)[:16])
                other.close()
                for fd in fds:
                    os.close(fd)
                if last:
                    os.kill(server.pid, signal.SIGSTOP)  # so that it meets the word and the end together
                    link.send(last)
                link.close()
                os.kill(server.pid, signal.SIGCONT)
                wait_until("it is forgotten", lambda: server.error_text().count("; serving on") > said)
            server.restart()
        server.wait_for_the_old()

    def test_a_successor_that_is_forgotten_with_the_listeners_is_told_so(self):
        server = self.serve(workers=1)
        link = self.knock(server)
        link.send(word(TAKE_OVER))
        for fd in self.receive(link)[1]:
            os.close(fd)
        link.send(word(BUSY))
        self.assertEqual(link.recv(100), word(REFUSED))  # an end alone would say that it has died
        self.assertEqual(link.recv(100), b"")
        self.assert_serves(server)
        server.restart()

    def test_out_of_descriptors_the_door_waits_and_the_supervisor_sleeps(self):
        server = self.serve(workers=1)

        def sleeps():
            """How often it has gone to sleep, where it does just now."""
            text = pathlib.Path(f"/proc/{server.pid}/status").read_text()
            return "\nState:\tS" in text and int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)", text)[1])
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        before = wait_until("it sleeps", sleeps)
        used = {int(entry.name) for entry in pathlib.Path(f"/proc/{server.pid}/fd").iterdir()}
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (next(fd for fd in range(len(used) + 1) if fd not in used), limits[1]))
        link = self.knock(server)
        link.send(word(TAKE_OVER))
        # Twice: it may have been asleep for something else. One that spins never goes to sleep.
        wait_until("it has looked, and sleeps again", lambda: sleeps() >= before + 2)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
        for fd in self.receive(link)[1]:
            os.close(fd)

    def test_a_stop_while_a_successor_begins_is_told_to_it(self):
        server = self.serve(workers=1)
        link = self.knock(server)
        link.send(word(TAKE_OVER))
        for fd in self.receive(link)[1]:
            os.close(fd)
        os.kill(server.pid, signal.SIGTERM)
        self.assertEqual(link.recv(100), word(STOPPING))
        self.assertEqual(server.process.wait(timeout=20), 0)

    # --- the test as the predecessor

    def predecessor(self):
        """(listener, door) of an address where the test plays a server."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(door.close)
        door.settimeout(20)
        door.bind(f"\0holdfast-serve/127.0.0.1:{listener.getsockname()[1]}")
        door.listen(1)
        return listener, door

    def successor_of(self, listener, **environment):
        log = open(self.segments.directory / "successor.log", "w+b")
        self.addCleanup(log.close)
        process = subprocess.Popen([PROGRAM, "serve", "--take-over", "--listen", f"127.0.0.1:{listener.getsockname()[1]}", "--workers", "1", "--private",
                                    "--counters", self.segments.name("counts")],
                                   env=self.segments.environment | environment, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process, lambda: pathlib.Path(log.name).read_text()

    def offer(self, door, message, fds):
        link, _ = door.accept()
        self.addCleanup(link.close)
        link.settimeout(20)
        self.assertEqual(link.recv(100), word(TAKE_OVER))
        link.send(word(ACCEPTED, os.getpid()))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        link.sendmsg([message], rights)
        return link

    @staticmethod
    def listeners(count, here=None, version=1):
        return b"HFLISTEN" + struct.pack("<6I", version, 0, 1, count, count if here is None else here, 0)

    def test_a_predecessor_killed_before_its_successor_is_ready_is_succeeded(self):
        listener, door = self.predecessor()
        process, said = self.successor_of(listener)
        link = self.offer(door, self.listeners(2), [listener.fileno(), door.fileno()])
        link.close()
        door.close()
        self.assertIn("serving", process.stdout.readline(), said())
        self.assertIn("has died; going on in its place", said())
        with load(self, listener.getsockname(), self.path, "behind a predecessor that was killed"):
            pass
        process.terminate()
        self.assertEqual(process.wait(timeout=20), 0)

    def test_who_was_started_to_succeed_one_server_does_not_succeed_another(self):
        listener, door = self.predecessor()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        process, said = self.successor_of(listener, HOLDFAST_TAKE_OVER=address, HOLDFAST_TAKE_OVER_FROM="1")
        link, _ = door.accept()
        self.addCleanup(link.close)
        self.assertEqual(link.recv(100), word(TAKE_OVER))
        link.send(word(ACCEPTED, os.getpid()))
        self.assertNotEqual(process.wait(timeout=20), 0)
        self.assertEqual(process.stdout.read(), "")
        self.assertIn(f"process {os.getpid()} serves there by now, not 1", said())

    def test_a_predecessor_that_stops_or_lies_is_not_succeeded(self):
        plain, _ = socket.socketpair()
        self.addCleanup(plain.close)
        self.addCleanup(_.close)
        listener, door = self.predecessor()
        both = [listener.fileno(), door.fileno()]
        for message, fds, reason in ((self.listeners(2), both, "was told to stop"), (self.listeners(2), both, "serves on by itself"), (self.listeners(2), both[:1], "1 descriptors came where 2"),
                                     (self.listeners(2, version=7), both, "version 7"), (self.listeners(2)[:20], both, "length"),
                                     (self.listeners(1), [plain.fileno()], "not a listening socket"), (self.listeners(2000), both, "contradicts"),
                                     (self.listeners(1), [door.fileno()], "handed over no listener"), (word(YOURS), [], "length")):
            process, said = self.successor_of(listener)
            link = self.offer(door, message, fds)
            last = {"was told to stop": STOPPING, "serves on by itself": REFUSED}.get(reason)
            if last:
                link.send(word(last))
            self.assertNotEqual(process.wait(timeout=20), 0, (reason, said()))
            self.assertIn(reason, said())
            link.close()


class ServiceManager(RestartCase):
    @contextlib.contextmanager
    def manager(self):
        path = self.segments.directory / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(path))
            manager.settimeout(20)
            self.segments.environment["NOTIFY_SOCKET"] = str(path)
            yield manager

    def test_output_that_nobody_reads_any_more_ends_nobody(self):
        with self.manager() as manager:
            server = self.serve(workers=1, errors=subprocess.PIPE)
            self.assertEqual(manager.recv(100), b"READY=1")
            server.process.stdout.close()
            server.process.stderr.close()
            for _ in range(2):  # the second by one that has never had a reader
                os.kill(server.pid, signal.SIGUSR2)
                said = {manager.recv(100), manager.recv(100)}  # READY=1 comes behind the line on standard output
                self.assertIn(b"READY=1", said)
                server.pids += [int(text.removeprefix(b"MAINPID=")) for text in said if text.startswith(b"MAINPID=")]
                self.assert_serves(server)
            self.assertEqual(len(set(server.pids)), 3)
            server.wait_for_the_old()
            (worker,) = server.workers()
            os.kill(worker, signal.SIGKILL)  # told on standard error
            wait_until("it is dead", lambda: not alive(worker))
            self.assert_serves(server)
            server.stop_last()

    def test_is_told_of_readiness_and_of_the_new_main_process(self):
        with self.manager() as manager:
            server = self.serve(workers=1)
            self.assertEqual(manager.recv(100), b"READY=1")
            server.restart()
            said = {manager.recv(100), manager.recv(100)}
            self.assertEqual(said, {b"READY=1", f"MAINPID={server.pid}".encode()})
            server.stop_last()
            self.assertEqual(manager.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    main()
