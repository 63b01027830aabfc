# SPDX-License-Identifier: Apache-2.0
"""Hot restart under hundreds of connections, and with bodies under way: nothing is refused, reset, lost or answered wrongly."""
import json
import os
import re
import socket
import subprocess
import threading
import unittest

from cli_support import Owner
from restart_test import PATIENT, RestartCase, alive
from serve_support import main, skip_all, wait_until

DRIVER = os.environ.get("HOLDFAST_LOAD_DRIVER", "")
TOKEN = "a-token-of-these-tests"


class Driver:
    """A client of many connections that accounts for each request: load_driver.cpp. `exchanges` are requests, with what their answers have in them."""

    def __init__(self, server, connections, pipeline, exchanges):
        words = []
        for number, (request, answer) in enumerate(exchanges):
            file = server.segments.directory / f"request-{number}"
            file.write_bytes(request)
            words += [file, answer]
        self.process = subprocess.Popen([DRIVER, str(server.port), str(connections), str(pipeline), *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.giving_up = threading.Timer(120, self.process.kill)
        self.giving_up.start()

    def go_round(self):
        """Until each connection has had another answer."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "each has an answer\n", "connections without an answer"

    def finish(self):
        """What became of all its requests."""
        self.process.stdin.close()
        return json.loads(self.process.stdout.read())

    def close(self):
        self.giving_up.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def request(line, body=b"", *headers):
    return "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", *headers, *([f"Content-Length: {len(body)}"] if body else []), "", ""]).encode() + body


class Load(RestartCase):
    restarts = int(os.environ.get("HOLDFAST_TEST_RESTARTS", 6))
    connections, pipeline = 256, 4

    def test_epoll(self):
        self.no_request_of_many_connections_is_lost("epoll")

    def test_io_uring(self):
        self.io_uring_or_skip()
        self.no_request_of_many_connections_is_lost("io_uring")

    def no_request_of_many_connections_is_lost(self, engine):
        table = self.segments.load_table("table", [(1, 7, "x")])
        keys = b'{"keys": [' + b" " * 20_000 + b"1]}"  # long to send, short to answer, and only whole
        get, upload = request(f"GET {self.path}"), request(f"POST /v1/tables/{table}:batchGet", keys)
        server = self.serve("--engine", engine, *PATIENT, workers=2)
        driver = Driver(server, self.connections, self.pipeline, [(get, '"US"')] * 3 + [(upload, '"user":7')])
        self.addCleanup(driver.close)
        for _ in range(self.restarts):
            driver.go_round()
            server.restart()
            server.wait_for_the_old()  # which none of its connections outlives
        driver.go_round()
        told = driver.finish()
        print(f"{self.restarts} restarts, {engine}, {self.connections} connections: {told}", flush=True)
        self.assertEqual({what: told[what] for what in ("refused", "lost", "timed_out", "malformed", "wrong")},
                         {"refused": 0, "lost": 0, "timed_out": 0, "malformed": 0, "wrong": 0})
        self.assertEqual(told["responses"] + told["behind_last"], told["requests"])
        # None as a rule: what has come is answered, and only what crosses the last answer is left. Three of each connection could be.
        self.assertLessEqual(told["behind_last"], self.connections * self.restarts)
        self.assertGreaterEqual(told["connected"], self.connections * (self.restarts + 1))
        counted = re.findall(r'^holdfast_http_requests_total\{route="/v1/(?:indexes|tables)[^\n]*status="2xx"[^\n]*\} (\d+)', server.ask("/metrics")[2], re.M)
        self.assertEqual(sum(map(int, counted)), told["responses"])


class BodiesUnderWay(RestartCase):
    body = os.urandom(8 << 20)  # more than sockets hold

    def setUp(self):
        super().setUp()
        name = self.segments.name("object")
        Owner(self.segments.environment, "objects", name, len(self.body)).close()
        self.target = f"/v1/snapshots/{name}"
        self.token = self.segments.directory / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    def test_epoll(self):
        self.an_upload_and_a_download_are_finished("epoll")

    def test_io_uring(self):
        self.io_uring_or_skip()
        self.an_upload_and_a_download_are_finished("io_uring")

    def link(self, server, receive_buffer=0):
        link = socket.socket()
        self.addCleanup(link.close)
        link.settimeout(20)
        if receive_buffer:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        link.connect((server.host, server.port))
        return link

    def restart_beside_it(self, server):
        """The old server ends only when it has no exchange left."""
        server.restart()
        self.assertTrue(alive(server.pids[-2]))

    def received(self, server):
        return sum(map(int, re.findall(r'^holdfast_http_received_bytes_total\{[^\n]*\} (\d+)', server.ask("/metrics")[2], re.M)))

    def an_upload_and_a_download_are_finished(self, engine):
        server = self.serve("--engine", engine, *PATIENT, "--write", "--token-file", self.token, f"--limit=body-bytes-max={len(self.body)}", workers=1)
        upload, half = self.link(server), len(self.body) // 2
        whole = request(f"PUT {self.target}", self.body, f"Authorization: Bearer {TOKEN}")
        upload.sendall(whole[:half])
        wait_until("half of it is there", lambda: self.received(server) >= half)
        self.restart_beside_it(server)
        upload.sendall(whole[half:])
        with upload.makefile("rb") as lines:
            head = lines.read()
        self.assertTrue(head.startswith(b"HTTP/1.1 201 "), head)
        self.assertIn(b"\r\nConnection: close\r\n", head)
        upload.close()
        server.wait_for_the_old()
        download = self.link(server, receive_buffer=4096)
        download.sendall(request(f"GET {self.target}"))
        with download.makefile("rb") as lines:
            while lines.readline() != b"\r\n":
                pass
            begin = lines.read(10_000)
            self.restart_beside_it(server)
            self.assertTrue(begin + lines.read(len(self.body) - len(begin)) == self.body, "what was put, whole")
        download.close()
        server.wait_for_the_old()
        self.assert_serves(server)


if __name__ == "__main__":
    if not DRIVER:
        skip_all("HOLDFAST_LOAD_DRIVER, the built client")
    main()
