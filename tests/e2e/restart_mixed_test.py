#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Restarts of `holdfast serve` under a load of all kinds at once, by each engine: TLS, writes, and a WebSocket that follows a ring."""
import asyncio
import http.client
import json
import pathlib
import re
import shutil
import ssl
import threading
import unittest

from cli_support import Owner
from restart_test import Client, RestartCase, load
from rings_test import Account
from serve_support import main, wait_until

try:
    from websockets.exceptions import ConnectionClosed
    from websockets.asyncio.client import connect as connect_websocket
except ImportError:
    connect_websocket = None

TOKEN = "a-token-of-these-tests"


class SecureClient(Client):
    """Over TLS, and sure of whom it talks to."""

    def __init__(self, context, *arguments, **more):
        super().__init__(*arguments, **more)
        self.context = context

    def connect(self):
        link = super().connect()
        try:
            return self.context.wrap_socket(link, server_hostname="127.0.0.1")
        except BaseException:
            link.close()
            raise


class Writer(SecureClient):
    """PUTs one number after the other; what was answered is what has to be there."""

    def __init__(self, context, where, target):
        super().__init__(context, where, target)
        self.target, self.number, self.written = target, 0, 0

    def requests(self, count):
        assert count == 1
        self.number += 1
        body = f'{{"user":{self.number},"name":"x"}}'
        return (f"PUT {self.target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()

    def right(self, head, body):
        good = head.startswith((b"HTTP/1.1 204 ", b"HTTP/1.1 201 "))
        if good:
            self.written = self.number
        return good


class EverythingAtOnce(RestartCase):
    restarts = 12

    def setUp(self):
        super().setUp()
        self.certificate, key = self.segments.issue_certificate()
        token = pathlib.Path(self.segments.directory) / "token"
        token.write_text(TOKEN + "\n")
        token.chmod(0o600)
        self.options = ("--tls-certificate", self.certificate, "--tls-key", key, "--write", "--token-file", token)
        self.table = self.segments.load_table("many", [(1, 0, "x"), (2, 0, "x")], "--writer-slots", 16, "--capacity", 1000)

    async def follow(self, server, context, account, stop):
        """A ring, to its last message; comes back where it is told to.

        One thread does all of it: where two threads enter one connection of Python's ssl, reading and writing, what is
        written gets lost now and then, and with it the request of a WebSocket.
        """
        ring_name = None
        while not stop.is_set() and account.texts[-1:] != ["the last"]:
            start = f"{ring_name}-{account.next}" if ring_name else "oldest"
            async with connect_websocket(f"wss://{server.host}:{server.port}{self.followed}?from={start}", ssl=context) as link:
                joined = json.loads(await asyncio.wait_for(link.recv(), 20))
                self.assertEqual((joined["event"], joined["sequence"]), ("joined", account.next))
                ring_name = joined["ring"]
                try:
                    while account.texts[-1:] != ["the last"]:
                        account.take(json.loads(await asyncio.wait_for(link.recv(), 20)))
                except ConnectionClosed as closed:
                    self.assertIsNotNone(closed.rcvd, "ended without a word")
                    self.assertIn(closed.rcvd.code, (1012, 1001))  # 1001: it had come as the worker began to end

    def test_epoll(self):
        self.nothing_is_refused_reset_lost_or_wrong("epoll")

    def test_io_uring(self):
        self.io_uring_or_skip()
        self.nothing_is_refused_reset_lost_or_wrong("io_uring")

    def nothing_is_refused_reset_lost_or_wrong(self, engine):
        if connect_websocket is None:
            self.skipTest("needs the Python package websockets, which ./dev setup installs")
        ring_name = self.segments.name("ring")
        ring = Owner(self.segments.environment, "ring", ring_name, 1 << 20)
        self.addCleanup(ring.close)
        self.followed = f"/v1/rings/{ring_name}"
        server = self.serve("--engine", engine, *self.options, workers=2)
        started = [server.first_line]
        context = ssl.create_default_context(cafile=str(self.certificate))
        where = (server.host, server.port)
        writers = [Writer(context, where, f"/v1/tables/{self.table}/{key}") for key in (1, 2)]
        clients = [SecureClient(context, where, self.path), SecureClient(context, where, self.path, depth=16),
                   SecureClient(context, where, self.path, kept=False), *writers]
        account, wrong, stop = Account(1), [], threading.Event()

        def guarded():
            try:
                asyncio.run(self.follow(server, context, account, stop))
            except Exception as error:  # noqa: BLE001: told below, in the test's own thread
                wrong.append(repr(error))
        follower = threading.Thread(target=guarded)
        follower.start()
        try:
            with load(self, where, self.path, f"{self.restarts} restarts over TLS, {engine}, with writes and a WebSocket", clients):
                for _ in range(self.restarts):
                    total = int(ring("batch", 50, "m"))
                    before = [client.answered for client in clients]
                    started.append(server.restart())
                    wait_until("each client goes on", lambda: all(client.answered > then for client, then in zip(clients, before)))
                    wait_until("so does the follower", lambda: wrong or account.next > total)
            self.assertEqual(wrong, [])
            ring("put", "the last")
        finally:
            if wrong or account.texts[-1:] == []:
                stop.set()
            follower.join(60)
        self.assertEqual(wrong, [])
        self.assertEqual((account.texts[-1], account.lost), ("the last", 0))
        self.assertEqual([re.search(r" workers by (epoll|io_uring)[ ;]", line)[1] for line in started], [engine] * (self.restarts + 1))
        server.wait_for_the_old()
        with Secure(context, where) as server_says:
            for key, writer in zip((1, 2), writers):
                self.assertGreater(writer.written, 0)
                self.assertEqual(server_says.json(f"/v1/tables/{self.table}/{key}")["user"], writer.written, "what was answered last stands")
            metrics = server_says.text("/metrics")

        # Both generations count in one place: what no client saw shows as well.
        def counted(labels):
            found = re.findall(rf"^holdfast_{labels}[^\n]*\}} (\d+)", metrics, re.M)
            self.assertTrue(found, labels)
            return sum(map(int, found))
        self.assertEqual(counted(r'http_requests_total\{route="/v1/indexes[^\n]*status="2xx"'), sum(client.answered for client in clients[:3]))
        self.assertEqual(counted(r'http_requests_total\{route="PUT [^\n]*status="2xx"'), sum(writer.answered for writer in writers))
        self.assertNotRegex(metrics, r'holdfast_http_requests_total\{[^\n]*status="[345]xx"')
        for event in ("failed", "timed_out", "without_tls"):
            self.assertEqual(counted(rf'tls_connections_total\{{event="{event}"'), 0, event)
        server.stop_last()


class Secure:
    """One connection over TLS."""

    def __init__(self, context, where):
        self.connection = http.client.HTTPSConnection(*where, timeout=20, context=context)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def text(self, path):
        self.connection.request("GET", path)
        return self.connection.getresponse().read().decode()

    def json(self, path):
        return json.loads(self.text(path))


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("needs openssl")
        raise SystemExit(77)
    main()
