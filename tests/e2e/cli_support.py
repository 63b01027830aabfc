# SPDX-License-Identifier: Apache-2.0
"""Runs the program and living owners of segments, with names of their own that are gone afterwards."""
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import uuid

PROGRAM = os.environ.get("HOLDFAST_PROGRAM")
SUBJECT = os.environ.get("HOLDFAST_SEGMENT_SUBJECT")
OK, NEGATIVE, USAGE, ABSENT, UNUSABLE, REFUSED, NO_ROOM, BAD_INPUT = range(8)
GEO_SCHEMA = "low:ipv4:key,high:ipv4:end,country:char[2]"
GEO = "# a comment\n16777216,16777471,AU\n16777472,16778239,CN\n1.0.4.0,1.0.7.255,AU\n"
TABLE_SCHEMA = "id:u64:key,name:char[16],score:f64,seen:timestamp"
TABLE = "id,name,score,seen\n1,ada,1.5,2026-01-02T03:04:05Z\n2,\"bo, \"\"the\"\" second\",-2,1970-01-01T00:00:00Z\n3,,NaN,2000-02-29T00:00:00.000000001Z\n"


class Owner:
    """A process that owns a segment and obeys lines: segment_subject.cpp."""

    def __init__(self, environment, *words):
        self.process = subprocess.Popen([SUBJECT, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout.readline() == "ready\n", f"{words}: not ready"

    def __call__(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def begin(self, *words):
        """For what never answers."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.close()

    def close(self):
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        self.process.wait(timeout=60)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-cli-"))
        self.token = "hf-cli-" + uuid.uuid4().hex[:12]
        self.environment = {**os.environ, "HOLDFAST_REGISTRY": str(self.folder / "registry"), "TERM": "dumb"}
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if isinstance(process, Owner):
                process.kill()
                continue
            process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
            process.wait(timeout=60)
        for path in pathlib.Path("/dev/shm").glob(self.token + "*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def name(self, hint="a"):
        return f"{self.token}-{hint}"

    def owner(self, kind, name, *words):
        made = Owner(self.environment, kind, name, *words)
        self.processes.append(made)
        return made

    def run_program(self, *arguments, stdin=None, **more):
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True, text=True, errors="replace",
                              timeout=60, env=self.environment, **more)

    def expect(self, code, *arguments, **more):
        done = self.run_program(*arguments, **more)
        self.assertEqual(done.returncode, code, f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        if code not in (OK, NEGATIVE):
            self.assertRegex(done.stderr, r"\Aholdfast: [^\n]+\n\Z", "an error is one line that begins with the program's name")
        return done

    def lines(self, *arguments, code=OK):
        return self.expect(code, *arguments).stdout.splitlines()

    def objects(self, *arguments, code=OK):
        return [json.loads(line) for line in self.lines(*arguments, "--json", code=code)]

    def start(self, *arguments, **more):
        """The program, running beside the test."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], text=True, env=self.environment, **options)
        self.processes.append(process)
        return process

    def ends(self, process, code, sign=None):
        """Sends a signal and expects the end with that code; returns what was left on stdout and stderr."""
        if sign is not None:
            process.send_signal(sign)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, f"stdout: {out}\nstderr: {err}")
        return out, err

    def fill_pipe(self, *arguments):
        """The program, standing in a write to a pipe that nobody reads; and the pipe's end to read from."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = self.start(*arguments, stdout=writer)
        os.close(writer)
        # The kernel's name of where it sleeps: pipe_write, anon_pipe_write.
        self.eventually(lambda: "pipe_write" in pathlib.Path(f"/proc/{process.pid}/wchan").read_text(), "the pipe does not fill")
        return process, reader

    @staticmethod
    def sleeps(process):
        return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"

    def interrupt(self, process):
        return self.ends(process, OK, signal.SIGINT)

    def eventually(self, true, what):
        deadline = time.monotonic() + 30
        while not true():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.005)


class WithTables(CommandLine):
    """Loads tables and indexes from files of its folder."""

    def file(self, text, name="data.csv"):
        path = self.folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def json(self, *arguments, code=OK):
        return json.loads(self.expect(code, *arguments, "--json").stdout)

    def load_geo(self, hint="geo", **more):
        name = self.name(hint)
        self.expect(OK, "load", name, self.file(GEO), "--schema", GEO_SCHEMA, **more)
        return name

    def load_table(self, hint="table"):
        name = self.name(hint)
        self.expect(OK, "load", name, self.file(TABLE), "--schema", TABLE_SCHEMA)
        return name

    @contextlib.contextmanager
    def living_writer(self, name, slot=None):
        """Holds the lease as a writer does: an exclusive lock of the open file description on byte 0; as one of many a shared one, and its slot's."""
        f_ofd_setlk = 37  # fcntl(2); Python's fcntl has no name for it before 3.9
        locks = [(fcntl.F_WRLCK, 0)] if slot is None else [(fcntl.F_RDLCK, 0), (fcntl.F_WRLCK, 1 + slot)]
        with open(f"/dev/shm/{name}.lease", "r+b") as lease:
            for kind, byte in locks:
                fcntl.fcntl(lease, f_ofd_setlk, struct.pack("hhqqi4x", kind, os.SEEK_SET, byte, 1, 0))
            yield


def main():
    if not PROGRAM or not SUBJECT:
        print("the program is not built here")
        raise SystemExit(77)
    unittest.main()
