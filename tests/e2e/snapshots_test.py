#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/v1/snapshots of `holdfast serve`: whole objects, their versions as tags, ranges, and publishing."""
import concurrent.futures
import json
import os
import pathlib
import signal
import threading
import unittest

from cli_support import Owner
from serve_support import Segments, Server, main, wait_until

TOKEN = "a-token-of-these-tests"


class SnapshotCase(unittest.TestCase):
    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        self.token = pathlib.Path(self.segments.directory) / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.text, self.price = self.segments.name("text"), self.segments.name("price")

    def serve(self, *options, **more):
        server = Server(self.segments, *options, **more)
        self.addCleanup(server.close)
        return server

    def problem(self, answer, status):
        """The detail of a problem answer."""
        self.assertEqual(answer[0], status, answer[2])
        self.assertEqual(answer[1]["Content-Type"], "application/problem+json")
        return json.loads(answer[2])["detail"]

    def own(self, *words):
        owner = Owner(self.segments.environment, *words)
        self.addCleanup(owner.close)
        return owner

    def left(self, kind, name, size, *objects):
        """A snapshot that nobody writes any more."""
        owner = self.own(kind, name, size)
        for one in objects:
            self.assertEqual(owner("put", one), "ok")
        owner.close()

    def start(self, *options):
        return self.serve("--write", "--token-file", self.token, *options)

    @staticmethod
    def put(server, name, body, **headers):
        return server.ask(f"/v1/snapshots/{name}", method="PUT", body=body, **{"Authorization": "Bearer " + TOKEN, **headers})


class Reading(SnapshotCase):
    def test_the_current_object_its_tag_and_its_parts(self):
        owner = self.own("objects", self.text, 1000)
        server = self.serve()
        target = f"/v1/snapshots/{self.text}"
        self.assertIn("publish", self.problem(server.ask(target), 404))
        self.assertEqual(owner("put", "0123456789"), "ok")
        status, headers, body = server.ask(target)
        self.assertEqual((status, body, headers["Content-Type"], headers["Snapshot-Version"]), (200, "0123456789", "application/octet-stream", "1"))
        tag = headers["ETag"]
        self.assertEqual(server.ask(target, If_None_Match=tag)[0], 304)
        self.assertEqual(server.ask(target, method="HEAD")[1]["Content-Length"], "10")
        status, headers, body = server.ask(target, Range="bytes=2-4")
        self.assertEqual((status, body, headers["Content-Range"]), (206, "234", "bytes 2-4/10"))
        self.assertEqual(server.ask(target, Range="bytes=-3", If_Range=tag)[2], "789")
        self.assertEqual(server.ask(target, Range="bytes=-3", If_Range='"other"')[2], "0123456789")
        self.problem(server.ask(target, Range="bytes=10-"), 416)
        self.assertEqual(owner("put", "0123456789"), "ok")
        status, headers, _ = server.ask(target, If_None_Match=tag)
        self.assertEqual((status, headers["Snapshot-Version"]), (200, "2"), "another version, though of the same bytes")
        self.problem(server.ask(target, If_Match=tag), 412)
        self.problem(server.ask(target, method="PUT", body="x"), 405)
        self.problem(server.ask(target + "?fields=x"), 400)

    def test_a_record_is_json_and_others_are_not_there(self):
        self.left("prices", self.price, 0, "7 2.5 XETR")
        server = self.serve()
        status, headers, body = server.ask(f"/v1/snapshots/{self.price}")
        self.assertEqual((status, headers["Content-Type"], json.loads(body)), (200, "application/json", {"id": 7, "price": 2.5, "venue": "XETR"}))
        table = self.segments.load_table("table", [(1, 2, "x")])
        index = self.segments.load_index("geo", [("1.0.0.0", "1.0.0.255", "AU")])
        self.problem(server.ask(f"/v1/snapshots/{table}"), 404)
        self.assertIn("/v1/indexes", self.problem(server.ask(f"/v1/snapshots/{index}"), 404))
        self.problem(server.ask(f"/v1/snapshots/{self.segments.name('none')}"), 404)

    def test_one_that_is_too_long_is_told_and_costs_nobody_else(self):
        owner = self.own("objects", self.text, 18 << 20)
        server = self.serve()
        self.assertEqual(owner("put", "x" * (17 << 20)), "ok")
        self.assertIn("16 MiB", self.problem(server.ask(f"/v1/snapshots/{self.text}"), 501))
        self.assertEqual(owner("put", "short again"), "ok")
        self.assertEqual(server.ask(f"/v1/snapshots/{self.text}")[2], "short again")

    def test_who_may_not_read_it_is_told_that_it_is_not_there(self):
        self.left("objects", self.text, 100, "secret")
        server = self.serve(private=False)
        self.problem(server.ask(f"/v1/snapshots/{self.text}"), 404)

    def test_a_file_that_lost_its_end_is_no_object(self):
        self.left("objects", self.text, 1 << 20, "x" * 500_000)
        server = self.serve()
        self.assertEqual(len(server.ask(f"/v1/snapshots/{self.text}")[2]), 500_000)
        os.truncate(pathlib.Path("/dev/shm") / self.text, 8192)
        self.problem(server.ask(f"/v1/snapshots/{self.text}"), 503)


class Publishing(SnapshotCase):
    def test_the_next_version_under_conditions(self):
        self.left("objects", self.text, 100)
        server = self.start()
        target = f"/v1/snapshots/{self.text}"
        self.problem(self.put(server, self.text, "x", If_Match="*"), 412)
        status, first, _ = self.put(server, self.text, "one", If_None_Match="*")
        self.assertEqual((status, first["Snapshot-Version"]), (201, "1"))
        self.problem(self.put(server, self.text, "x", If_None_Match="*"), 412)
        status, second, _ = self.put(server, self.text, "two", If_Match=first["ETag"])
        self.assertEqual((status, second["Snapshot-Version"]), (204, "2"))
        self.problem(self.put(server, self.text, "x", If_Match=first["ETag"]), 412)
        self.problem(self.put(server, self.text, "x", If_Match="W/" + second["ETag"]), 412)
        self.problem(self.put(server, self.text, "x", If_Match="nonsense"), 412)
        self.assertEqual(self.put(server, self.text, b"\0\xff", Content_Type="text/anything")[0], 204)
        self.assertEqual(self.put(server, self.text, "")[0], 204)
        got = server.ask(target)
        self.assertEqual((got[0], got[2], got[1]["Snapshot-Version"]), (200, "", "4"))
        self.assertIn("100 bytes", self.problem(self.put(server, self.text, "x" * 105), 413))
        self.problem(self.put(server, self.text, "x", Content_Range="bytes 0-0/5"), 400)
        self.problem(server.ask(target, method="PUT", body="x"), 401)
        self.problem(self.put(server, self.text, "x", Origin="http://evil.example"), 403)
        self.problem(server.ask(target, method="DELETE"), 405)
        self.assertEqual(server.ask(target)[1]["Snapshot-Version"], "4")

    def test_records_are_taken_as_they_are_given(self):
        self.left("prices", self.price, 0, "7 2.5 XETR")
        log = pathlib.Path(self.segments.directory) / "log"
        server = self.start("--audit-log", log)
        body = server.ask(f"/v1/snapshots/{self.price}")[2]
        self.assertEqual(self.put(server, self.price, body)[0], 204)
        self.assertEqual(self.put(server, self.price, '{"id":8,"price":1,"venue":"A"}', Content_Type="application/json")[0], 204)
        self.assertEqual(server.json(f"/v1/snapshots/{self.price}"), {"id": 8, "price": 1.0, "venue": "A"})
        for bad in ("", "{", "[]", '{"id":8}', '{"id":8,"price":1,"venue":"123456789"}'):
            self.problem(self.put(server, self.price, bad), 400)
        self.problem(self.put(server, self.price, body, Content_Type="application/octet-stream"), 415)
        self.problem(self.put(server, self.price, body, If_Match='"x"'), 412)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([line["action"] for line in lines], ["publish", "publish", "publish", "refused"])
        self.assertEqual(lines[-1]["status"], 412)

    def test_a_living_writer_is_named_and_a_dead_one_succeeded(self):
        owner = self.own("objects", self.text, 100)
        self.assertEqual(owner("put", "first"), "ok")
        server = self.start()
        self.assertIn(str(owner.process.pid), self.problem(self.put(server, self.text, "x"), 409))
        owner.process.send_signal(signal.SIGKILL)
        owner.process.wait()
        self.assertEqual(self.put(server, self.text, "second")[0], 204)
        self.assertEqual(server.ask(f"/v1/snapshots/{self.text}")[2], "second")

    def test_of_many_who_compare_one_wins_each_version(self):
        """And readers meanwhile never see a mix: each object says its own number throughout."""
        self.left("objects", self.text, 100_000, "0;" * 10_000)
        server = self.start()
        target, stop = f"/v1/snapshots/{self.text}", threading.Event()

        def read():
            seen = 0
            while not stop.is_set() or seen == 0:
                status, headers, body = server.ask(target)
                if status == 503:
                    continue  # written faster than it could be read
                self.assertEqual(status, 200)
                numbers = set(body.rstrip(";").split(";"))
                self.assertEqual(len(numbers), 1, "a mix of two objects")
                self.assertEqual(int(numbers.pop()) + 1, int(headers["Snapshot-Version"]))
                seen += 1

        def count_up(times):
            done = 0
            while done < times:
                status, headers, body = server.ask(target)
                if status == 503:
                    continue
                number = int(body[: body.index(";")]) + 1
                status = self.put(server, self.text, f"{number};" * 10_000, If_Match=headers["ETag"])[0]
                self.assertIn(status, (204, 412, 503))  # 503: another worker writes
                done += status == 204

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read) for _ in range(2)]
            writers = [pool.submit(count_up, 15) for _ in range(2)]
            try:
                for each in writers:
                    each.result()
            finally:
                stop.set()
            for each in readers:
                each.result()
        self.assertEqual(server.ask(target)[1]["Snapshot-Version"], "31")

    def test_a_worker_killed_while_it_publishes_leaves_one_version_or_the_next(self):
        self.left("objects", self.text, 100_000, "0;" * 10_000)
        server = self.start()
        target, said = f"/v1/snapshots/{self.text}", 1
        for round_ in range(6):
            killer = threading.Timer(0.002 * round_, lambda: [os.kill(pid, signal.SIGKILL) for pid in server.workers()])
            killer.start()
            for number in range(said, said + 20):
                try:
                    status, headers, _ = self.put(server, self.text, f"{number};" * 10_000)
                except OSError:
                    continue  # cut: made or not
                if status == 204:
                    said = int(headers["Snapshot-Version"])
            killer.join()

            def whole():
                try:
                    status, headers, body = server.ask(target)
                except OSError:
                    return False
                if status != 200:
                    return False
                self.assertEqual(len(set(body.rstrip(";").split(";"))), 1)
                self.assertGreaterEqual(int(headers["Snapshot-Version"]), said, "what was answered stands")
                return True
            wait_until("it is served again", whole)
        self.segments.holdfast("verify", self.text)


if __name__ == "__main__":
    main()
