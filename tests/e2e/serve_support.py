# SPDX-License-Identifier: Apache-2.0
"""What the tests of `holdfast serve` share: segments of their own, a server on a free port, clients, and the summary line."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid

PROGRAM = os.environ.get("HOLDFAST_PROGRAM", "")
BUILD = pathlib.Path(os.environ.get("HOLDFAST_BUILD", "build/release"))


def skip_all(missing):
    """Ends the test program: it cannot check anything here."""
    print("0 passed, 0 failed, 1 skipped")
    print(f"needs {missing}")
    sys.exit(77)


def main():
    """Runs the TestCases of the calling program and prints how many passed, failed and were skipped."""
    if not PROGRAM or not os.access(PROGRAM, os.X_OK):
        skip_all("HOLDFAST_PROGRAM, the built program")
    outcome = unittest.main(module="__main__", exit=False, verbosity=2).result
    failed = len(outcome.failures) + len(outcome.errors) + len(outcome.unexpectedSuccesses)
    skipped = len(outcome.skipped)
    print(f"{outcome.testsRun - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 77 if skipped == outcome.testsRun else 0)


def wait_until(what, holds, seconds=20):
    """Polls until holds() is true; its value. Fails naming `what` otherwise."""
    end = time.monotonic() + seconds
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def bench_runs():
    """{prefix: files in shared memory} of the runs of the suites http, rings and websocket."""
    runs = {}
    for entry in pathlib.Path("/dev/shm").glob("holdfast-http-??????*"):
        runs.setdefault(entry.name[:len("holdfast-http-??????")], set()).add(entry.name)
    return runs


def left_behind():
    """Files of those whose lock nobody holds: they are over. Other runs may go on beside a test."""
    held = {line.split()[-3].split(":")[-1] for line in pathlib.Path("/proc/locks").read_text().splitlines() if " FLOCK " in line}
    left = set()
    for prefix, files in bench_runs().items():
        with contextlib.suppress(FileNotFoundError):
            if str(os.stat(f"/dev/shm/{prefix}.bench-run").st_ino) in held:
                continue
        left |= files
    return left


class Segments:
    """Names, files and a registry of one test alone, removed at the end."""

    def __init__(self):
        self.token = "hf-e2e-" + uuid.uuid4().hex[:12]
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-e2e-"))
        self.environment = dict(os.environ, HOLDFAST_REGISTRY=str(self.directory / "registry"))

    def name(self, hint):
        return f"{self.token}-{hint}"

    def holdfast(self, *words, check=True):
        done = subprocess.run([PROGRAM, *map(str, words)], env=self.environment, capture_output=True, text=True, errors="replace", timeout=120)
        if check and done.returncode != 0:
            raise AssertionError(f"holdfast {words[0]} ended with {done.returncode}: {done.stderr}")
        return done

    def load_index(self, hint, ranges, key="ipv4"):
        """Publishes [(low, high, country)] as a sorted index; the segment's name."""
        file = self.directory / f"{hint}.csv"
        file.write_text("".join(f"{low},{high},{country}\n" for low, high, country in ranges))
        self.holdfast("load", self.name(hint), file, "--into", "snapshot", "--key", f"low:{key}", "--value",
                      f"high:{key},country:char[2]", "--range-end", "high")
        return self.name(hint)

    def load_table(self, hint, rows, *options):
        """Loads [(id, user, name)] into a hash table; the segment's name."""
        file = self.directory / f"{hint}.csv"
        file.write_text("".join(f"{number},{user},{name}\n" for number, user, name in rows))
        self.holdfast("load", self.name(hint), file, "--into", "hash_table", "--key", "id:u64", "--value", "user:u64,name:char[8]", *options)
        return self.name(hint)

    def issue_certificate(self, name="localhost"):
        """(certificate, key): of that name for 127.0.0.1, good for a day, always in the same two files."""
        certificate, key = self.directory / "cert.pem", self.directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-keyout", key,
                        "-out", certificate, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
                       check=True, capture_output=True)
        key.chmod(0o600)
        return certificate, key

    def close(self):
        for entry in pathlib.Path("/dev/shm").glob(self.token + "*"):
            with contextlib.suppress(OSError):
                entry.unlink()
        shutil.rmtree(self.directory, ignore_errors=True)


def with_engine_or_skip(test, engine, start):
    """What start() gives; the test is skipped where this system allows no such engine."""
    try:
        return start()
    except AssertionError as error:
        if engine == "io_uring" and engine in str(error):
            test.skipTest("needs io_uring, which this system does not allow")
        raise


class Server:
    """A running `holdfast serve`."""

    def __init__(self, segments, *options, workers=2, listen="127.0.0.1:0", private=True, errors=None):
        self.segments = segments
        self.log = open(segments.directory / f"server-{uuid.uuid4().hex[:6]}.log", "w+b")
        options = (*(["--private"] if private else []), *options)
        if "--engine" not in options and "HOLDFAST_TEST_ENGINE" in os.environ:  # else what the probe says
            options += ("--engine", os.environ["HOLDFAST_TEST_ENGINE"])
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", listen, "--workers", str(workers), "--counters", segments.name("counts"), *map(str, options)],
            env=segments.environment, stdout=subprocess.PIPE, stderr=errors or self.log, text=True)
        self.first_line = self.process.stdout.readline()
        found = re.search(r"https?://([\d.]+):(\d+)", self.first_line)
        if not found:
            self.process.wait(timeout=30)
            raise AssertionError(f"the server did not start: {self.first_line!r} {self.error_text()!r}")
        self.host, self.port = found[1], int(found[2])

    def error_text(self):
        self.log.flush()
        return pathlib.Path(self.log.name).read_text()

    def connect(self, timeout=20):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(self, path, method="GET", body=None, by=None, **headers):
        """(status, headers, body as text) of one request on a connection of its own; `by` the unix socket there."""
        connection = UnixConnection(by) if by else self.connect()
        try:
            connection.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def json(self, path, **more):
        status, headers, text = self.ask(path, **more)
        if status != 200:
            raise AssertionError(f"{path} answered {status}: {text}")
        return json.loads(text)

    def metric(self, family, label="", by=None):
        """The sum of a family's numbers in /metrics, over those with that label; `by` as of ask()."""
        text = self.ask("/metrics", by=by)[2]
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(family) and label in line)

    def workers(self):
        """Pids of the running workers."""
        return sorted(int(pid) for pid in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def kill_everything(self):
        """SIGKILL to the supervisor, then to its workers at once."""
        workers = self.workers()
        self.process.kill()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        wait_until("killed workers are gone", lambda: not any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in workers))

    def close(self):
        with contextlib.suppress(Exception):
            self.kill_everything()
        self.process.stdout.close()
        self.log.close()


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout=20):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Load:
    """Clients that ask for paths one after the other on kept connections until stopped; connects anew when one is cut."""

    def __init__(self, server, paths, clients=2, check=None):
        self.server, self.paths, self.check = server, paths, check
        self.answers = 0      # complete 200s
        self.cut = 0          # requests sent whose answer never came
        self.wrong = []       # answers that check() refused, other statuses
        self.refused = 0      # connections not accepted
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(clients)]
        for thread in self._threads:
            thread.start()

    def _run(self, offset):
        connection, number = None, offset
        while not self._stop.is_set():
            path = self.paths[number % len(self.paths)]
            number += 1
            try:
                if connection is None:
                    connection = self.server.connect()
                    connection.connect()
            except OSError:
                with self._lock:
                    self.refused += 1
                connection = None
                time.sleep(0.01)  # whoever refuses is down: no use in asking faster
                continue
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, http.client.HTTPException):
                with self._lock:
                    self.cut += 1
                connection.close()
                connection = None
                continue
            if answer.will_close:  # else the next request would connect anew by itself, and a refusal would look like a cut
                connection.close()
                connection = None
            with self._lock:
                if answer.status == 200 and (self.check is None or self.check(path, body)):
                    self.answers += 1
                else:
                    self.wrong.append((path, answer.status, body[:200]))
        if connection is not None:
            connection.close()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self
