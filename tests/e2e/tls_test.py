# SPDX-License-Identifier: Apache-2.0
"""`holdfast serve --tls-certificate` from outside: clients that others wrote, certificates replaced, and what is wrong with files."""
import http.client
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import unittest

from serve_support import PROGRAM, Segments, Server, UnixConnection, main, skip_all, wait_until


class Tls(unittest.TestCase):
    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        self.table = self.segments.load_table("table", [(n, n * 2, f"u{n}") for n in range(100)])
        self.certificate, self.key = self.segments.issue_certificate("first")

    def serve(self, *options, **more):
        server = Server(self.segments, self.table, "--tls-certificate", self.certificate, "--tls-key", self.key, *options, **more)
        self.addCleanup(server.close)
        return server

    def connect(self, server, **wanted):
        context = ssl.create_default_context(cafile=str(self.certificate))
        for name, value in wanted.items():
            setattr(context, name, value)
        context.set_alpn_protocols(["h2", "http/1.1"])
        connection = http.client.HTTPSConnection(server.host, server.port, timeout=20, context=context)
        self.addCleanup(connection.close)
        connection.connect()
        return connection

    def get(self, connection, path):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    @staticmethod
    def name_of(connection):
        return dict(field[0] for field in connection.sock.getpeercert()["subject"])["commonName"]

    def count(self, server, event):
        connection = self.connect(server)
        try:
            text = self.get(connection, "/metrics")[1]
        finally:
            connection.close()
        return sum(int(n) for n in re.findall(rf'^holdfast_tls_connections_total{{event="{event}"[^}}]*}} (\d+)', text, re.M))

    def test_a_page_that_came_without_tls_is_no_page_of_the_server(self):
        server = self.serve("--unix", self.segments.directory / "s")
        for way, origin, status in (("tls", "http", 403), ("tls", "https", 405), ("unix", "http", 405), ("unix", "https", 405)):
            connection = self.connect(server) if way == "tls" else UnixConnection(self.segments.directory / "s")
            self.addCleanup(connection.close)
            connection.request("POST", "/v1/segments", headers={"Host": f"{server.host}:{server.port}", "Origin": f"{origin}://{server.host}:{server.port}"})
            self.assertEqual(connection.getresponse().status, status, (way, origin))

    def test_python_speaks_both_versions(self):
        server = self.serve()
        self.assertIn("serving https://", server.first_line)
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            connection = self.connect(server, maximum_version=version)
            for number in range(5):
                status, body = self.get(connection, f"/v1/tables/{self.table}/{number}")
                self.assertEqual((status, f'"user":{number * 2}' in body.replace(" ", "")), (200, True), body)
            self.assertEqual((connection.sock.version(), connection.sock.selected_alpn_protocol()), (version.name.replace("v1_", "v1."), "http/1.1"))
            connection.sock.unwrap()  # waits for the server's close_notify
        wait_until("handshakes are counted", lambda: self.count(server, "secured") >= 2)
        self.assertEqual(server.stop(), 0)

    def test_curl_checks_the_certificate(self):
        if not shutil.which("curl"):
            self.skipTest("needs curl")
        server = self.serve("--engine", "auto")
        url = f"https://127.0.0.1:{server.port}/v1/tables/{self.table}/7"
        run = ["curl", "-sS", "--max-time", "20"]
        done = subprocess.run([*run, "--cacert", self.certificate, url, url], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.count('"user"')), (0, 2), done.stderr)
        self.assertEqual(subprocess.run([*run, url], capture_output=True, text=True).returncode, 60, "nobody has vouched for it")

    def test_a_request_without_tls_is_closed_and_the_unix_socket_stays_plain(self):
        path = self.segments.directory / "socket"
        server = self.serve("--unix", path)
        with socket.create_connection((server.host, server.port), timeout=20) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(plain.recv(100), b"")
        self.assertEqual(server.ask("/healthz", by=path)[0], 200)
        wait_until("it is counted", lambda: self.count(server, "without_tls") == 1)

    def test_hangup_brings_the_new_certificate_and_keeps_connections(self):
        server = self.serve(workers=1)
        before = self.connect(server)
        self.assertEqual((self.get(before, "/healthz")[0], self.name_of(before)), (200, "first"))
        self.segments.issue_certificate("second")
        server.process.send_signal(signal.SIGHUP)

        def renewed():
            try:
                return self.name_of(self.connect(server)) == "second"
            except ssl.SSLCertVerificationError:  # still the first, which this client does not trust any more
                return False
        wait_until("the new certificate", renewed)
        self.assertEqual(self.get(before, "/healthz")[0], 200)
        self.key.write_text("rubbish")
        server.process.send_signal(signal.SIGHUP)
        wait_until("the complaint", lambda: "key.pem" in server.error_text() and "stays in use" in server.error_text())
        self.assertEqual(self.name_of(self.connect(server)), "second")

    def test_wrong_files_are_told_once_with_the_cure(self):
        def refused(*words):
            done = subprocess.run([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--counters", self.segments.name("refused"), "--workers", "3", *map(str, words)],
                                  env=self.segments.environment, capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            return done.stderr

        self.assertIn("--tls-key", refused("--tls-certificate", self.certificate))
        self.assertIn("--tls-certificate", refused("--tls-key", self.key))
        self.assertIn("no such file", refused("--tls-certificate", self.certificate, "--tls-key", "/nowhere/key.pem"))
        os.chmod(self.key, 0o644)
        self.assertIn("chmod", refused("--tls-certificate", self.certificate, "--tls-key", self.key))


if __name__ == "__main__":
    if not shutil.which("openssl"):
        skip_all("openssl, to make certificates")
    main()
