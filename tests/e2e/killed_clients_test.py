# SPDX-License-Identifier: Apache-2.0
"""`serve` while its clients are killed: in the middle of chunked bodies, of handshakes of TLS, of answers, subscriptions and long polls.

Each client is a process that goes on until SIGKILL, so that the kernel ends its connections wherever they are. What then holds: every worker
lives and serves others all the while; what was published is whole, whoever was in the middle of it; and nothing of the dead is left: no
connection, subscription, socket, nor their memory.
"""
import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import struct
import sys
import time
import traceback
import unittest

from cli_support import Owner
from serve_support import PROGRAM, Segments, Server, main, wait_until, with_engine_or_skip

SEED = int(os.environ.get("HOLDFAST_TEST_SEED", random.SystemRandom().randrange(2**32)))
ROUNDS = 60
WINDOW = 0.06  # seconds: within them each client of a round is killed
TOKEN = "a-token-of-these-clients"
MEBIBYTE = 1 << 20


def sealed(chance, longest):
    """A text that tells of itself whether it is whole."""
    text = chance.randbytes(chance.randrange(1, longest // 2)).hex()
    return hashlib.sha256(text.encode()).hexdigest() + text


def is_whole(text):
    return hashlib.sha256(text[64:].encode()).hexdigest() == text[:64]


class At:
    """Where the clients go, and how."""

    def __init__(self, server, certificate, lookup, scan, ring, snapshot):
        self.address, self.certificate = (server.host, server.port), certificate
        self.lookup, self.scan, self.ring, self.snapshot = lookup, scan, ring, snapshot

    def dial(self):
        one = socket.create_connection(self.address, timeout=20)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.certificate:
            return one
        return ssl.create_default_context(cafile=str(self.certificate)).wrap_socket(one, server_hostname="127.0.0.1")


def head(method, target, *fields):
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: localhost", "Authorization: Bearer " + TOKEN, *fields, "", "")).encode()


def read_answer(one):
    """(status, body)"""
    answer = http.client.HTTPResponse(one)
    answer.begin()
    return answer.status, answer.read()


def receive(one):
    some = one.recv(65536)
    if not some:
        raise AssertionError("the server ended the connection")
    return some


def expect(one, *wanted):
    status, body = read_answer(one)
    if status not in wanted:
        raise AssertionError(f"{status} instead of {wanted}: {body[:300]!r}")


def send_in_chunks(one, chance, begin, body):
    """A body whose chunks, and their parts, go out one by one."""
    one.sendall(begin)
    while body:
        size = chance.randrange(1, max(2, len(body) // 3))
        chunk = f"{size:x}\r\n".encode() + body[:size] + b"\r\n"
        cut = chance.randrange(len(chunk))
        one.sendall(chunk[:cut])
        one.sendall(chunk[cut:])
        body = body[size:]
    one.sendall(b"0\r\n\r\n")


# --- clients: each goes on until it is killed

def publisher(at, chance):
    while True:
        with at.dial() as one:
            for _ in range(20):
                send_in_chunks(one, chance, head("POST", at.ring, "Transfer-Encoding: chunked"), sealed(chance, 3000).encode())
                expect(one, 201)


def replacer(at, chance):
    """Of an object that takes many reads to arrive."""
    while True:
        with at.dial() as one:
            for _ in range(5):
                send_in_chunks(one, chance, head("PUT", at.snapshot, "Transfer-Encoding: chunked"), sealed(chance, 200_000).encode())
                expect(one, 201, 204)


def reader(at, chance):
    """Asks for much at once, and reads what it likes of it."""
    while True:
        with at.dial() as one:
            one.sendall(head("GET", at.scan) * chance.randrange(1, 10) + head("GET", at.lookup)[:chance.randrange(1, 60)])
            for _ in range(chance.randrange(10)):
                receive(one)


def event_source(at, _):
    while True:
        with at.dial() as one:
            one.sendall(head("GET", at.ring + "?from=oldest", "Accept: text/event-stream"))
            for _ in range(20):
                receive(one)


def web_socket(at, chance):
    """Sends pings, whole and in parts, beside what it is told."""
    while True:
        with at.dial() as one:
            one.sendall(head("GET", at.ring + "?from=oldest", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                             "Sec-WebSocket-Key: " + base64.b64encode(chance.randbytes(16)).decode()))
            for _ in range(20):
                receive(one)
                ping = struct.pack("!BB4s", 0x89, 0x80 | 100, bytes(4)) + bytes(100)
                cut = chance.randrange(len(ping))
                one.sendall(ping[:cut])
                one.sendall(ping[cut:])


def long_poll(at, _):
    while True:
        with at.dial() as one:
            one.sendall(head("GET", at.ring + "?from=latest&wait=60"))
            expect(one, 200)


def pool(at, _):
    """Sixteen connections that are kept, of the program's own client, which does not speak TLS."""
    command = [PROGRAM, "bench", "http", f"http://{at.address[0]}:{at.address[1]}{at.lookup}", "--connections", "16", "--duration", "60"]
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.execv(command[0], command)


CLIENTS = [publisher, replacer, reader, event_source, web_socket, long_poll]


def begin(client, at, seed):
    """The pid of a process that is this client."""
    child = os.fork()
    if child != 0:
        return child
    try:
        client(at, random.Random(seed))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(1)


class Witness:
    """Looks up one entry again and again on a connection that is kept."""

    def __init__(self, at, expected):
        self.one, self.request, self.expected = at.dial(), head("GET", at.lookup), expected

    def ask(self):
        self.one.sendall(self.request)
        status, body = read_answer(self.one)
        if (status, body) != (200, self.expected):
            raise AssertionError(f"the witness was answered {status} {body!r}")


class Killed:
    """By one engine, in one way; each class below names them."""

    secured = False
    clients = [*CLIENTS, pool]

    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        table = self.segments.load_table("t", [(i, 1000 + i, "n") for i in range(2000)])
        for kind, hint, size in (("ring", "feed", 16 * MEBIBYTE), ("objects", "object", MEBIBYTE)):
            Owner(self.segments.environment, kind, self.segments.name(hint), size).kill()  # so that the server may write it
        token = self.segments.directory / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        self.socket = self.segments.directory / "socket"
        options = ["--write", "--token-file", token, "--unix", self.socket, "--engine", self.engine]
        certificate = None
        if self.secured:
            if not shutil.which("openssl"):
                self.skipTest("needs openssl")
            certificate, key = self.segments.issue_certificate()
            options += ["--tls-certificate", certificate, "--tls-key", key]
        self.server = with_engine_or_skip(self, self.engine, lambda: Server(self.segments, *options))
        self.addCleanup(self.server.close)
        self.at = At(self.server, certificate, f"/v1/tables/{table}/7", f"/v1/tables/{table}?limit=1000",
                     f"/v1/rings/{self.segments.name('feed')}", f"/v1/snapshots/{self.segments.name('object')}")
        self.expected = self.ask(self.at.lookup)

    def ask(self, target):
        """By the unix socket: it stays without TLS."""
        status, _, text = self.server.ask(target, by=self.socket)
        self.assertEqual(status, 200, text)
        return text.encode()

    def metric(self, family):
        return self.server.metric(family, by=self.socket)

    def sockets(self):
        """How many the workers have open."""
        files = [each for pid in self.server.workers() for each in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        return sum(os.path.realpath(each).rpartition("/")[2].startswith("socket:") for each in files)

    def memory(self):
        """Bytes that the workers have mapped and touched by themselves."""
        status = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in self.server.workers()]
        return sum(int(text.split("RssAnon:")[1].split()[0]) for text in status) * 1024

    def round(self, chance, witness):
        """One client of each kind, each killed at a moment of its own; the witness asks all the while."""
        begun = time.monotonic()
        living = sorted((begun + chance.uniform(0, WINDOW), begin(client, self.at, chance.randrange(2**32)), client) for client in self.clients)
        try:
            while living:
                witness.ask()
                while living and living[0][0] < time.monotonic():
                    _, pid, client = living.pop(0)
                    os.kill(pid, signal.SIGKILL)
                    status = os.waitpid(pid, 0)[1]
                    self.assertTrue(os.WIFSIGNALED(status), f"a {client.__name__} ended by itself: what it met is printed above")
        finally:
            for _, pid, _ in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def messages(self):
        """All texts that the ring has."""
        texts, page = [], json.loads(self.ask(self.at.ring + "?from=oldest"))
        while page["messages"]:
            texts += [message["text"] for message in page["messages"]]
            page = json.loads(self.ask(self.at.ring + "?from=" + page["next"]))
        return texts

    def test_whatever_they_were_in_the_middle_of(self):
        print(f"seed {SEED}")
        chance, witness = random.Random(SEED), Witness(self.at, self.expected)
        self.addCleanup(witness.one.close)
        witness.ask()
        sockets = self.sockets()
        for _ in range(5):  # whatever the server keeps of segments that were asked for, it has now
            self.round(chance, witness)
        workers = self.server.workers()
        self.all_gone()
        memory, lost = self.memory(), self.metric("holdfast_connections_lost_total")
        for _ in range(ROUNDS):
            self.round(chance, witness)
        self.assertEqual(self.server.workers(), workers, "a worker ended")
        self.all_gone()
        wait_until(f"sockets are {sockets} again", lambda: self.sockets() <= sockets)
        self.assertLess(self.memory() - memory, 32 * MEBIBYTE)
        lost = self.metric("holdfast_connections_lost_total") - lost
        texts = self.messages()
        print(f"{ROUNDS * len(self.clients)} clients killed, {lost:.0f} connections lost, {len(texts)} messages published")
        self.assertGreater(lost, ROUNDS)
        self.assertGreater(len(texts), ROUNDS)
        self.assertEqual([text for text in texts if not is_whole(text)], [])
        self.assertTrue(is_whole(self.ask(self.at.snapshot).decode()))
        witness.ask()

    def all_gone(self):
        """But for the witness, and who asks for the metrics: a worker tells its counts 50 ms late at most."""
        wait_until("their connections are gone", lambda: self.metric("holdfast_connections_open") <= 2)
        wait_until("their subscriptions are gone", lambda: self.metric("holdfast_ring_subscribers") == 0)


class KilledByEpoll(Killed, unittest.TestCase):
    engine = "epoll"


class KilledByIoUring(Killed, unittest.TestCase):
    engine = "io_uring"


class KilledWithinTlsByEpoll(KilledByEpoll):
    secured, clients = True, CLIENTS


class KilledWithinTlsByIoUring(KilledByIoUring):
    secured, clients = True, CLIENTS


if __name__ == "__main__":
    main()
