# SPDX-License-Identifier: Apache-2.0
"""The server from outside: its routes, its processes, and what survives their deaths."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest

from serve_support import Load, Segments, Server, UnixConnection, main, wait_until

RANGES = [("1.0.0.0", "1.0.0.255", "AU"), ("6.0.0.0", "8.21.142.255", "US"), ("9.0.0.0", "9.0.0.0", "DE")]
RANGES6 = [("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "FR")]


class ServeCase(unittest.TestCase):
    options = ()

    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)

    def serve(self, *options, **more):
        server = Server(self.segments, *options, **more)
        self.addCleanup(server.close)
        return server

    def problem(self, answer, status):
        """The detail of a problem answer, whose shape is checked (RFC 9457)."""
        self.assertEqual(answer[0], status, answer[2])
        self.assertEqual(answer[1]["Content-Type"], "application/problem+json")
        body = json.loads(answer[2])
        self.assertEqual(body["status"], status)
        self.assertTrue(body["title"] and body["detail"])
        return body["detail"]


class Routes(ServeCase):
    def setUp(self):
        super().setUp()
        self.geo = self.segments.load_index("geo4", RANGES)
        self.geo6 = self.segments.load_index("geo6", RANGES6, "ipv6")
        self.rows = [(n, n * n, f"u{n}") for n in range(2500)]
        self.table = self.segments.load_table("sessions", self.rows)
        self.server = self.serve()

    def test_index_answers_the_range_that_holds_the_key(self):
        for key in ("6.0.0.0", "8.8.8.8", "8.21.142.255"):
            status, headers, body = self.server.ask(f"/v1/indexes/{self.geo}/{key}")
            self.assertEqual((status, body), (200, '{"low":"6.0.0.0","high":"8.21.142.255","country":"US"}'))
            self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(self.server.json(f"/v1/indexes/{self.geo}/9.0.0.0")["country"], "DE")
        self.assertEqual(self.server.json(f"/v1/indexes/{self.geo6}/2001:db8::7")["country"], "FR")
        self.assertEqual(self.server.json(f"/v1/indexes/{self.geo6}/2001%3Adb8%3A%3A7")["country"], "FR")

    def test_index_answers_404_outside_every_range_and_400_to_what_is_no_key(self):
        for key in ("0.0.0.0", "5.255.255.255", "8.21.143.0", "9.0.0.1", "255.255.255.255"):
            self.problem(self.server.ask(f"/v1/indexes/{self.geo}/{key}"), 404)
        for key in ("8.8.8", "8.8.8.8.8", "::1", "x", "", "8.8.8.8%20", "%00"):
            self.assertIn("low", self.problem(self.server.ask(f"/v1/indexes/{self.geo}/{key}"), 400))

    def test_fields_choose_what_is_answered(self):
        path = f"/v1/indexes/{self.geo}/8.8.8.8"
        self.assertEqual(self.server.ask(path + "?fields=country")[2], '{"country":"US"}')
        self.assertEqual(self.server.ask(path + "?fields=country,low")[2], '{"country":"US","low":"6.0.0.0"}')
        self.assertIn("country", self.problem(self.server.ask(path + "?fields=capital"), 400))
        self.assertIn("fields", self.problem(self.server.ask(path + "?field=country"), 400))
        self.problem(self.server.ask(path + "?fields=low&fields=high"), 400)

    def test_etag_changes_with_the_version_and_saves_the_body(self):
        path = f"/v1/indexes/{self.geo}/8.8.8.8"
        tag = self.server.ask(path)[1]["ETag"]
        for header in (tag, "W/" + tag, '"other", ' + tag, "*"):
            status, headers, body = self.server.ask(path, If_None_Match=header)
            self.assertEqual((status, body, headers["ETag"]), (304, "", tag))
        self.assertEqual(self.server.ask(path, If_None_Match='"other"', if_none_match=tag)[0], 304, "two lines are one list")
        self.assertEqual(self.server.ask(path, If_None_Match='"other"')[0], 200)
        self.assertEqual(self.server.ask(path, If_Match='"other", ' + tag)[0], 200)
        for header in ('"other"', "W/" + tag, ""):
            self.problem(self.server.ask(path, If_Match=header), 412)
        self.problem(self.server.ask(path, If_Match='"other"', If_None_Match=tag), 412)
        self.segments.load_index("geo4", RANGES)
        status, headers, _ = self.server.ask(path, If_None_Match=tag)
        self.assertEqual(status, 200)
        self.assertNotEqual(headers["ETag"], tag)

    def test_table_gets_scans_and_batches_its_entries(self):
        base = f"/v1/tables/{self.table}"
        self.assertEqual(self.server.json(base + "/7"), {"id": 7, "user": 49, "name": "u7"})
        self.problem(self.server.ask(base + "/99999"), 404)
        self.problem(self.server.ask(base + "/seven"), 400)
        seen, cursor = [], ""
        while cursor is not None:
            page = self.server.json(base + f"?limit=300{cursor and '&cursor=' + cursor}")
            self.assertLessEqual(len(page["entries"]), 300)
            seen += page["entries"]
            cursor = page["next"]
        self.assertEqual(sorted((e["id"], e["user"], e["name"]) for e in seen), self.rows)
        self.problem(self.server.ask(base + "?limit=0"), 400)
        self.problem(self.server.ask(base + "?limit=1001"), 400)
        self.problem(self.server.ask(base + "?cursor=-1"), 400)
        self.assertEqual(self.server.json(base + "?cursor=99999999999999999999"[:-1])["entries"], [])

        def batch(body):
            return self.server.ask(base + ":batchGet", method="POST", body=body)
        self.assertEqual(json.loads(batch('{"keys":["3",4,88888]}')[2])["entries"],
                         [{"id": 3, "user": 9, "name": "u3"}, {"id": 4, "user": 16, "name": "u4"}, None])
        self.assertEqual(json.loads(batch('{"keys":[]}')[2])["entries"], [])
        self.assertEqual(len(json.loads(batch(json.dumps({"keys": list(range(1000))}))[2])["entries"]), 1000)
        for body in ("", "[]", "{}", '{"keys":1}', '{"keys":[null]}', '{"keys":["x"]}', '{"keys":[1]', json.dumps({"keys": [1] * 1001}), "\xff"):
            self.problem(batch(body.encode("latin-1")), 400)
        self.problem(self.server.ask(base + ":batchGet"), 405)

    def test_a_page_of_a_sparse_table_ends_early_and_says_where_to_go_on(self):
        file = self.segments.directory / "sparse.csv"
        file.write_text("7,8,u9\n")
        name = self.segments.name("sparse")
        self.segments.holdfast("load", name, file, "--into", "hash_table", "--key", "id:u64", "--value", "user:u64,name:char[8]", "--capacity", 1000000)
        seen, cursors = [], [0]
        while cursors[-1] is not None:
            page = self.server.json(f"/v1/tables/{name}?limit=1&cursor={cursors[-1]}")
            seen += page["entries"]
            cursors.append(None if page["next"] is None else int(page["next"]))
            self.assertTrue(cursors[-1] is None or cursors[-1] > cursors[-2], cursors)
        self.assertEqual(seen, [{"id": 7, "user": 8, "name": "u9"}])
        self.assertGreaterEqual(len(cursors), 4, "one request looked at a million slots")

    def test_segments_are_listed_with_kind_and_occupancy(self):
        listed = {one["name"]: one for one in self.server.json("/v1/segments")["segments"]}
        self.assertEqual((listed[self.geo]["kind"], listed[self.geo]["payload"], listed[self.geo]["version"]), ("snapshot", "sorted_index", 1))
        self.assertEqual((listed[self.table]["kind"], listed[self.table]["size"]), ("hash_table", 2500))
        self.assertIn(self.segments.name("counts"), listed)

    def test_what_is_not_there_is_404_and_what_may_not_be_done_is_405(self):
        for path in ("/nothing", "/v1", "/v1/", "/v1/indexes", f"/v1/indexes/{self.geo}", "/v1/indexes/none/8.8.8.8", "/v1/segments/x", "/metrics/x",
                     f"/v1/indexes/{self.table}/7", f"/v1/tables/{self.geo}/8.8.8.8", "/v1/indexes/heap%3A/1", "//", "/v2/segments"):
            self.problem(self.server.ask(path), 404)
        self.problem(self.server.ask("/v1/indexes/%2Fetc%2Fpasswd/1"), 400)
        for path in ("/", "/metrics", "/healthz", "/v1/segments", "/v1/stats", f"/v1/tables/{self.table}/7", f"/v1/indexes/{self.geo}/8.8.8.8"):
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
                answer = self.server.ask(path, method=method)
                self.problem(answer, 405)
                self.assertEqual(answer[1]["Allow"], "GET, HEAD")
            status, headers, body = self.server.ask(path, method="HEAD")
            self.assertEqual((status, body), (200, ""))
            self.assertGreater(int(headers["Content-Length"]), 0)

    def test_no_cache_keeps_what_may_be_otherwise_at_any_time(self):
        for path, status in (("/v1/tables/none/1", 404), ("/none", 404), ("/v1/segments", 200), ("/healthz", 200), ("/metrics", 200)):
            answer = self.server.ask(path)
            self.assertEqual((answer[0], answer[1].get_all("Cache-Control")), (status, ["no-store"]), path)
        answer = self.server.ask("/v1/segments", method="DELETE")
        self.assertEqual((answer[0], answer[1].get_all("Cache-Control")), (405, ["no-store"]))
        self.assertEqual(self.server.ask("/")[1].get_all("Cache-Control"), ["no-cache"])

    def test_requests_that_call_us_by_a_foreign_name_are_refused(self):
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "a@127.0.0.1", "[::1", "[::1]x"):
            status = self.server.ask("/healthz", Host=host)[0]
            self.assertIn(status, (400, 421), host)
        for host in ("127.0.0.1", "localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80", "[::1]", "192.0.2.7", "dev.localhost"):
            self.assertEqual(self.server.ask("/healthz", Host=host)[0], 200, host)

    def test_a_segment_made_anew_is_noticed_and_a_removed_one_forgotten(self):
        path = f"/v1/indexes/{self.geo}/8.8.8.8"
        tag = self.server.ask(path)[1]["ETag"]
        self.segments.holdfast("rm", self.geo)
        wait_until("the removed index is 404", lambda: self.server.ask(path)[0] == 404)
        self.segments.load_index("geo4", [("8.0.0.0", "8.255.255.255", "ZZ")])
        # Both workers must come to see it.
        wait_until("the new index answers everywhere", lambda: all(self.server.ask(path)[2].find('"ZZ"') > 0 for _ in range(8)))
        self.assertNotEqual(self.server.ask(path)[1]["ETag"], tag)


class Damage(ServeCase):
    """Segments that lose their end while they are served: right answers or 5xx, never zeros and never "not there"."""
    sizes = (lambda size: size - 4096, lambda size: 8192, lambda size: 4096, lambda size: 0)

    def check_cut(self, make, paths):
        """Cuts the segment that make(hint) returns, at each size, between first and later answers of both workers."""
        server = self.serve()
        for turn, size_of in enumerate(self.sizes):
            name = make(f"cut{turn}")
            right = {}
            for path, body in paths(name).items():
                for _ in range(6):  # every worker gets attached, and has touched few pages
                    right[path] = server.ask(path, **body)
                self.assertEqual(right[path][0], 200, right[path])
            file = pathlib.Path("/dev/shm") / name
            os.truncate(file, size_of(file.stat().st_size))
            failures = 0
            for _ in range(30):
                for path, body in paths(name).items():
                    answer = server.ask(path, **body)
                    if answer[0] == 200:
                        self.assertEqual(answer[2], right[path][2], path)
                    else:
                        failures += 1
                        self.assertIn("/problem+json", answer[1]["Content-Type"])
                        self.assertIn(answer[0], (500, 503), answer)
            self.assertGreater(failures, 0, "nothing was found missing")
            self.assertEqual(server.ask("/v1/segments")[0], 200)
            file.unlink()
        self.assertEqual(server.stop(), 0)  # the next one counts in the same place

    def keys_of(self, count, kind, name):
        return {f"/v1/{kind}/{name}/{key}": {} for key in range(0, count, count // 40)}

    def test_a_table_cut_off_is_never_answered_wrongly(self):
        rows = [(n, n * n + 1, f"u{n}") for n in range(3000)]

        def paths(name):
            wanted = self.keys_of(3000, "tables", name)
            wanted[f"/v1/tables/{name}?limit=1000"] = {}
            wanted[f"/v1/tables/{name}:batchGet"] = {"method": "POST", "body": json.dumps({"keys": list(range(0, 3000, 5))})}
            return wanted
        self.check_cut(lambda hint: self.segments.load_table(hint, rows), paths)

    def test_an_index_cut_off_is_never_answered_wrongly(self):
        def make(into):
            def load(hint):
                file = self.segments.directory / f"{hint}.csv"
                file.write_text("".join(f"{n},{n + 1}\n" for n in range(3000)))
                name = self.segments.name(f"{hint}-{into}")
                self.segments.holdfast("load", name, file, "--into", into, "--key", "id:u64", "--value", "next:u64")
                return name
            return load
        for into in ("sorted_index", "snapshot"):
            with self.subTest(into):
                self.check_cut(make(into), lambda name: self.keys_of(3000, "indexes", name))


SCRIBBLER = """
import mmap, random, sys, time
chance = random.Random(int(sys.argv[1]))
opened = [open(path, "r+b") for path in sys.argv[2:]]
files = [mmap.mmap(each.fileno(), 0) for each in opened]
sound = [bytes(each) for each in files]
print("begun", flush=True)
while True:
    at = chance.randrange(len(files))
    if chance.randrange(8):
        files[at][:] = sound[at]
    first = 0 if chance.randrange(8) == 0 else 4096
    last = chance.choice((len(files[at]), 4096 + 1024))  # near the front lie counts and positions
    for _ in range(chance.randrange(1, 12)):
        files[at][chance.randrange(first, last)] = chance.randrange(256)
    time.sleep(chance.random() / 500)
"""


class Attack(ServeCase):
    """Somebody who may write the segments scribbles on them while they are served: answers or problems, from the same worker."""

    def memory_of(self, pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) << 10

    def test_a_worker_answers_or_refuses_whatever_is_written_meanwhile(self):
        geo, table = self.segments.load_index("geo4", RANGES), self.segments.load_table("sessions", [(n, n * n, f"u{n}") for n in range(500)])
        server = self.serve(workers=1)
        paths = [f"/v1/indexes/{geo}/8.8.8.8", f"/v1/tables/{table}/7", f"/v1/tables/{table}?limit=1000", "/v1/segments", "/v1/stats", "/metrics"]
        for path in paths:
            self.assertEqual(server.ask(path)[0], 200)
        workers, before = server.workers(), self.memory_of(server.workers()[0])
        seed = int(os.environ.get("HOLDFAST_TEST_SEED", os.getpid()))
        attacker = subprocess.Popen([sys.executable, "-c", SCRIBBLER, str(seed), f"/dev/shm/{geo}", f"/dev/shm/{table}"], stdout=subprocess.PIPE)
        self.addCleanup(attacker.wait)
        self.addCleanup(attacker.kill)
        self.addCleanup(attacker.stdout.close)
        self.assertEqual(attacker.stdout.readline(), b"begun\n")
        asked, refused, end = 0, 0, time.monotonic() + 2
        with self.subTest(seed=seed):
            while time.monotonic() < end:
                for path in paths:
                    answer = server.ask(path)
                    asked += 1
                    self.assertLess(len(answer[2]), 1 << 20, path)
                    if answer[0] != 200:
                        refused += 1
                        self.assertIn(answer[0], (404, 500, 503), answer)
                        self.problem(answer, answer[0])
                    elif path != "/metrics":
                        json.loads(answer[2])
            self.assertEqual(server.workers(), workers, "a worker died")
            if not os.environ.get("HOLDFAST_SANITIZED"):
                self.assertLess(self.memory_of(workers[0]) - before, 16 << 20)
            self.assertGreater(asked - refused, 0)
            self.assertGreater(refused, 0, "the attack was not noticed")
        self.assertEqual(server.error_text(), "")


class Hardship(ServeCase):
    """What is taken from a running server, and what it is asked by mistake."""

    def test_lost_counts_are_made_anew_for_the_next_worker(self):
        geo = self.segments.load_index("geo4", RANGES)
        server = self.serve()
        before = server.workers()
        for suffix in ("", "-latency"):
            (pathlib.Path("/dev/shm") / (self.segments.name("counts") + suffix)).unlink()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until("new workers", lambda: len(set(server.workers()) - set(before)) == 2)
        for _ in range(8):
            self.assertEqual(server.ask(f"/v1/indexes/{geo}/8.8.8.8")[0], 200)
        wait_until("both stand in the new counts",
                   lambda: sorted(w["pid"] for w in server.json("/v1/stats")["workers"]) == server.workers())
        self.assertEqual(server.error_text().count("counting anew"), 1)

    def test_a_stopped_worker_does_not_keep_the_server_from_ending(self):
        server = self.serve()
        os.kill(server.workers()[0], signal.SIGSTOP)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 20)

    @unittest.skipIf(os.environ.get("HOLDFAST_SANITIZED"), "sanitizers use memory and descriptors of their own")
    def test_without_descriptors_nobody_is_told_that_a_segment_is_not_there(self):
        known, fresh = self.segments.load_table("known", [(1, 2, "x")]), self.segments.load_table("fresh", [(1, 2, "x")])
        server = self.serve(workers=1)
        connection = server.connect()

        def status(name):
            connection.request("GET", f"/v1/tables/{name}/1")
            answer = connection.getresponse()
            return answer.status, answer.read()
        self.assertEqual(status(known)[0], 200)
        worker = server.workers()[0]
        limits = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (3, limits[1]))
        self.assertEqual(status(fresh)[0], 503)
        self.assertEqual(status(known)[0], 200)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, limits)
        self.assertEqual(status(fresh)[0], 200)
        connection.close()

    def test_wrong_names_are_refused_once_and_leave_nothing(self):
        for words in (("../x",), ("--count", "a b=country"), ("--count", "geo4=no such"), ("--counters", "../x")):
            done = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--workers", "3", "--counters", self.segments.name("none"), *words, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            self.assertEqual(list(pathlib.Path("/dev/shm").glob(self.segments.name("none") + "*")), [])

    def test_counts_that_another_server_keeps_are_refused(self):
        first = self.serve()
        done = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--counters", self.segments.name("counts"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--counters", done.stderr)
        self.assertEqual(sorted(w["pid"] for w in first.json("/v1/stats")["workers"]), first.workers())

    def test_workers_have_a_name(self):
        server = self.serve()
        for pid in server.workers():
            self.assertEqual(pathlib.Path(f"/proc/{pid}/comm").read_text(), "holdfast-worker\n")

    @unittest.skipIf(os.environ.get("HOLDFAST_SANITIZED"), "sanitizers use memory and descriptors of their own")
    def test_memory_of_a_burst_is_given_back(self):
        file = self.segments.directory / "wide.csv"
        file.write_text("".join(f"{n},{'x' * 15900}\n" for n in range(1000)))
        name = self.segments.name("wide")
        self.segments.holdfast("load", name, file, "--into", "hash_table", "--key", "id:u64", "--value", "text:char[16000]")
        server = self.serve(workers=1)
        worker = server.workers()[0]

        def private_mib():
            text = pathlib.Path(f"/proc/{worker}/status").read_text()
            return int(text.split("RssAnon:")[1].split()[0]) / 1024
        path, keys = f"/v1/tables/{name}:batchGet", json.dumps({"keys": list(range(1000))})
        size = len(server.ask(path, method="POST", body=keys)[2])
        clients = [server.connect() for _ in range(12)]
        for client in clients:
            self.addCleanup(client.close)
        for client in clients:
            client.request("POST", path, body=keys)
        peak = wait_until("answers wait in the worker", lambda: (now := private_mib()) > 40 and now)
        for client in clients:
            self.assertEqual(len(client.getresponse().read()), size)
        wait_until(f"little of {peak:.0f} MiB is left", lambda: private_mib() < 24)
        print(f"a worker's own memory: {peak:.0f} MiB in the burst, {private_mib():.0f} MiB after it")

    def test_requests_that_mean_nothing_are_told_so_in_full(self):
        table = self.segments.load_table("table", [(1, 2, "x")])
        server = self.serve()
        for path in (f"/v1/tables/{table}%00/5", f"/v1/tables/{table}%0A", f"/v1/tables/{table}%00:batchGet", f"/v1/tables/{table}/1?fields=id%00"):
            answer = server.ask(path, method="POST" if "batch" in path else "GET", body=b"{}" if "batch" in path else None)
            self.assertIn("control character", self.problem(answer, 400))
        status, headers, body = server.ask("*", method="OPTIONS")
        self.assertEqual((status, headers["Allow"], body), (204, "GET, HEAD, POST", ""))
        for body in ('{"keys":[1],"keys":[1]}', '{"keys":[1],"limit":1}'):
            self.assertIn("keys", self.problem(server.ask(f"/v1/tables/{table}:batchGet", method="POST", body=body), 400))

    def test_a_path_that_is_no_utf_8_still_makes_json(self):
        folder = os.fsencode(self.segments.directory) + b"/d\xff\xc3\xa9"
        os.mkdir(folder)
        self.segments.holdfast("load", "file:" + os.fsdecode(folder) + "/t", self.rows(), "--into", "hash_table", "--key", "id:u64", "--value", "n:u64")
        server = self.serve()
        listed = server.json("/v1/segments")["segments"]
        self.assertTrue(any(one["name"].endswith("/d\\xff\u00e9/t") for one in listed), listed)

    def rows(self):
        file = self.segments.directory / "rows.csv"
        file.write_text("1,2\n")
        return file


def ask_as(user, by, target, method="GET", body=None):
    """The status that another user is answered by the unix socket `by`. Needs root."""
    read, write = os.pipe()
    child = os.fork()  # the interpreter's own files may be closed to that user
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            connection = UnixConnection(by)
            connection.request(method, target, body)
            os.write(write, str(connection.getresponse().status).encode())
        os._exit(0)
    os.close(write)
    with open(read) as answer:
        status = answer.read()
    os.waitpid(child, 0)
    return int(status or 0)


class UnixSocket(ServeCase):
    """Who asks by a unix socket gets what it could open itself."""

    def setUp(self):
        super().setUp()
        self.table = self.segments.load_table("table", [(1, 2, "x")])
        self.file = pathlib.Path("/dev/shm") / self.table
        self.folder = pathlib.Path(self.segments.directory) / "socket"
        self.folder.mkdir()
        self.path = self.folder / "s"

    def test_it_answers_what_the_port_answers_and_more_to_who_may_read(self):
        for engine in ("epoll", "auto"):
            server = self.serve("--unix", self.path, "--engine", engine, private=False)
            self.assertIn(f"unix:{self.path}", server.first_line)
            target = f"/v1/tables/{self.table}/1"
            self.problem(server.ask(target), 404)  # mode 0600, by a port
            for _ in range(4):
                self.assertEqual(json.loads(server.ask(target, by=self.path)[2]), {"id": 1, "user": 2, "name": "x"})
            names = {one["name"] for one in json.loads(server.ask("/v1/segments", by=self.path)[2])["segments"]}
            self.assertIn(self.table, names)
            self.assertNotIn(self.table, server.ask("/v1/segments")[2])
            self.assertIn(self.table, server.ask("/metrics", by=self.path)[2])
            self.assertNotIn(f'segment="{self.table}"', server.ask("/metrics")[2])
            self.assertEqual(server.stop(), 0)
            self.assertFalse(self.path.exists(), "the name goes with the server")

    def test_lookups_in_a_segment_are_told_to_who_may_read_it(self):
        geo = self.segments.load_index("geo4", RANGES)
        server = self.serve("--unix", self.path, "--count", f"{geo}=country", private=False)
        self.assertEqual(server.ask(f"/v1/indexes/{geo}/8.8.8.8", by=self.path)[0], 200)
        for target, line in (("/metrics", f'holdfast_index_lookups_by_value_total{{segment="{geo}",field="country",value="US"}} 1'),
                             ("/v1/stats", f'{{"segment":"{geo}","field":"country","value":"US","count":1}}')):
            os.chmod(f"/dev/shm/{geo}", 0o600)
            self.assertIn(line, server.ask(target, by=self.path)[2])
            self.assertNotIn(geo, server.ask(target)[2])
            os.chmod(f"/dev/shm/{geo}", 0o644)
            self.assertIn(line, server.ask(target)[2])

    def test_a_killed_worker_keeps_nobody_from_the_socket_and_a_killed_server_nobody_from_the_name(self):
        server = self.serve("--unix", self.path)
        for _ in range(3):
            for pid in server.workers():
                os.kill(pid, signal.SIGKILL)

            def answered():
                with contextlib.suppress(OSError):  # reset: the ring of one that is being taken down may still accept
                    return server.ask("/healthz", by=self.path)[0] == 200
            wait_until("it is answered again", answered)
        taken = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--counters", self.segments.name("more"), "--unix", self.path, check=False)
        self.assertNotEqual(taken.returncode, 0)
        self.assertIn(str(self.path), taken.stderr)
        server.kill_everything()
        self.assertTrue(self.path.exists())
        again = self.serve("--unix", self.path)
        self.assertEqual(again.ask("/healthz", by=self.path)[0], 200)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to ask as other users")
    def test_another_user_sees_what_the_mode_lets_it_see(self):
        os.chmod(self.segments.directory, 0o755)
        os.chmod(self.folder, 0o755)
        user, target = 65534, f"/v1/tables/{self.table}/1"
        # Neither naming a segment nor --private is meant for who is known.
        self.serve("--unix", self.path, self.table)
        self.assertEqual(ask_as(user, self.path, target), 404)
        for mode, status in ((0o604, 200), (0o640, 404), (0o644, 200), (0o600, 404)):
            os.chmod(self.file, mode)
            wait_until(f"mode {mode:o} counts", lambda: ask_as(user, self.path, target) == status)
        os.chown(self.file, user, user)
        wait_until("its own", lambda: ask_as(user, self.path, target) == 200)


TOKEN = "a-token-of-these-tests"


class WriteCase(ServeCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.segments.directory) / "s"
        self.token = pathlib.Path(self.segments.directory) / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.one = self.segments.load_table("one", [(1, 2, "x")])
        self.many = self.segments.load_table("many", [(1, 2, "x")], "--writer-slots", 8, "--capacity", 1000)

    def start(self, *options, **more):
        return self.serve("--unix", self.path, "--write", "--token-file", self.token, *options, **more)

    def by_port(self, server, path, method, body=None, token=TOKEN, **headers):
        if token:
            headers["Authorization"] = "Bearer " + token
        return server.ask(path, method=method, body=body, **headers)

    def by_path(self, server, path, method, body=None, **headers):
        return server.ask(path, method=method, body=body, by=self.path, **headers)


class Writes(WriteCase):
    """PUT, DELETE and increment, by the socket and, with the token, by the port; tables of one writer and of many."""

    def test_entries_come_change_count_and_go(self):
        server = self.start()
        for table in (self.one, self.many):
            for ask in (self.by_port, self.by_path):
                with self.subTest(table=table, ask=ask.__name__):
                    target = f"/v1/tables/{table}/7"
                    status, headers, body = ask(server, target, "PUT", '{"user":49,"name":"u7"}')
                    self.assertEqual((status, body), (201, ""))
                    got = server.ask(target)
                    self.assertEqual((json.loads(got[2]), got[1]["ETag"]), ({"id": 7, "user": 49, "name": "u7"}, headers["ETag"]))
                    # What GET gives is what PUT takes.
                    for said in ("application/json", "application/x-www-form-urlencoded"):  # the latter by curl -d, of anything
                        self.assertEqual(ask(server, target, "PUT", got[2], Content_Type=said)[0], 204)
                    status, headers, body = ask(server, target + ":increment", "POST", '{"field":"user","by":-9}')
                    self.assertEqual((status, json.loads(body)), (200, {"id": 7, "user": 40, "name": "u7"}))
                    self.assertEqual(headers["ETag"], server.ask(target)[1]["ETag"])
                    self.assertEqual(ask(server, target, "DELETE")[0], 204)
                    self.problem(ask(server, target, "DELETE"), 404)
                    self.problem(ask(server, target + ":increment", "POST", '{"field":"user","by":1}'), 404)
                    self.problem(server.ask(target), 404)

    def test_parts_and_what_is_encoded_are_refused(self):
        server = self.start()
        target = f"/v1/tables/{self.one}/1"
        before = server.ask(target)[2]
        self.problem(self.by_path(server, target, "PUT", '{"user":9,"name":"y"}', Content_Range="bytes 0-20/40"), 400)
        self.problem(self.by_path(server, target, "PUT", '{"user":9,"name":"y"}', Content_Encoding="gzip"), 415)
        self.problem(self.by_path(server, target + ":increment", "POST", '{"field":"user","by":1}', Content_Encoding="br"), 415)
        self.assertEqual(server.ask(target)[2], before)
        self.assertEqual(self.by_path(server, target, "PUT", '{"user":9,"name":"y"}', Content_Encoding="identity")[0], 204)

    def test_conditions_compare_and_change_at_once(self):
        server = self.start()
        for table in (self.one, self.many):
            target = f"/v1/tables/{table}/1"
            put = lambda user, **headers: self.by_path(server, target, "PUT", f'{{"user":{user},"name":"x"}}', **headers)
            tag = server.ask(target)[1]["ETag"]
            self.assertEqual(server.ask(target, If_None_Match=tag)[0], 304)
            self.assertEqual(server.ask(target, If_None_Match='"x"', if_none_match=tag)[0], 304, "two lines are one list")
            self.assertEqual(server.ask(target, If_Match=tag)[0], 200)
            self.assertEqual(server.ask(target, method="HEAD", If_Match=tag, If_None_Match=tag)[0], 304)
            self.problem(server.ask(target, If_Match='"0000000000000000"'), 412)
            self.problem(server.ask(target, If_Match="W/" + tag), 412)
            self.problem(put(3, If_None_Match="*"), 412)
            self.problem(put(3, If_Match='"0000000000000000"'), 412)
            self.problem(put(3, If_Match="W/" + tag), 412)
            status, headers, _ = put(3, If_Match='"x", ' + tag)
            self.assertEqual(status, 204)
            self.problem(put(4, If_Match=tag), 412)
            self.assertEqual(server.json(target)["user"], 3)
            self.assertEqual(put(2, If_Match=headers["ETag"])[1]["ETag"], tag, "the same value, the same tag")
            self.problem(self.by_path(server, f"/v1/tables/{table}/9", "PUT", '{"user":1,"name":"x"}', If_Match="*"), 412)
            self.assertEqual(self.by_path(server, f"/v1/tables/{table}/9", "PUT", '{"user":1,"name":"x"}', If_None_Match="*")[0], 201)
            increment = lambda **headers: self.by_path(server, target + ":increment", "POST", '{"field":"user","by":1}', **headers)
            self.problem(increment(If_Match='"x"'), 412)
            self.assertEqual(increment(If_Match=tag)[0], 200)
            tag = server.ask(target)[1]["ETag"]
            self.problem(self.by_path(server, target, "DELETE", If_Match='"x"'), 412)
            self.assertEqual(server.ask(target)[1]["ETag"], tag, "it is still there")
            self.assertEqual(self.by_path(server, target, "DELETE", If_Match=tag)[0], 204)
            self.problem(server.ask(target), 404)
            self.problem(self.by_path(server, target, "DELETE", If_Match=tag), 412)
            self.problem(self.by_path(server, target, "DELETE", If_Match="*"), 412)
            for headers in ({"If_None_Match": '"x"'}, {"If_None_Match": "*", "If_Match": "*"}, {"If_Match": ""}):
                self.problem(put(3, **headers), 400)

    def test_who_may_not_write_changes_nothing(self):
        reading = self.serve("--unix", self.path)
        target, body = f"/v1/tables/{self.one}/1", '{"user":3,"name":"x"}'
        self.problem(self.by_path(reading, target, "PUT", body), 405)
        reading.stop()
        untold = self.serve("--unix", self.path, "--write")
        self.problem(self.by_port(untold, target, "PUT", body), 403)
        untold.stop()
        server = self.start()
        for token in (None, "wrong", TOKEN + "x", TOKEN[:-1]):
            answer = self.by_port(server, target, "PUT", body, token=token)
            self.problem(answer, 401)
            self.assertIn("Bearer", answer[1]["WWW-Authenticate"])
        self.assertIn("page", self.problem(self.by_port(server, target, "PUT", body, Origin="http://evil.example"), 403))
        self.problem(self.by_path(server, target, "POST", body), 405)
        self.problem(self.by_path(server, f"/v1/tables/{self.segments.name('none')}/1", "PUT", body), 404)
        for bad in ("", "{", "[]", '{"user":3}', '{"user":3,"name":"x","more":1}', '{"user":-1,"name":"x"}', '{"id":2,"user":3,"name":"x"}',
                    '{"user":3,"name":"123456789"}', "\xff"):
            self.problem(self.by_path(server, target, "PUT", bad.encode("latin-1")), 400)
        for bad in ('{"field":"user"}', '{"field":"name","by":1}', '{"field":"id","by":1}', '{"field":"user","by":1.5}', '{"field":"user","by":"x"}', "7"):
            self.problem(self.by_path(server, target + ":increment", "POST", bad), 400)
        self.problem(self.by_path(server, target + ":increment", "POST", '{"field":"user","by":-3}'), 409)
        self.problem(self.by_path(server, target, "PUT", body, Content_Type="text/plain"), 415)
        self.problem(self.by_path(server, f"/v1/tables/{self.one}/seven", "PUT", body), 400)
        self.assertEqual(server.json(target), {"id": 1, "user": 2, "name": "x"})
        for token in ("short", "0123456789 abcdef"):
            self.token.write_text(token)
            self.assertNotEqual(self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--write", "--token-file", self.token, check=False).returncode, 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to ask as other users")
    def test_the_mode_says_who_may_write_by_the_socket(self):
        os.chmod(self.segments.directory, 0o755)
        self.start()
        target = f"/v1/tables/{self.one}/1"
        file, body = pathlib.Path("/dev/shm") / self.one, '{"user":3,"name":"x"}'
        for mode, reads, writes in ((0o600, 404, 404), (0o604, 200, 403), (0o606, 200, 204), (0o602, 404, 404), (0o644, 200, 403)):
            os.chmod(file, mode)
            wait_until(f"mode {mode:o} counts", lambda: ask_as(65534, self.path, target) == reads)
            self.assertEqual(ask_as(65534, self.path, target, "PUT", body), writes, f"{mode:o}")

    def test_a_table_that_a_process_owns_is_refused_and_its_owner_named(self):
        server = self.start()
        owner = subprocess.Popen([os.environ["HOLDFAST_SEGMENT_SUBJECT"], "any", self.one, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                 env=self.segments.environment)
        self.addCleanup(owner.stdout.close)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.stdin.close)
        self.assertTrue(owner.stdout.readline())
        detail = self.problem(self.by_path(server, f"/v1/tables/{self.one}/1", "PUT", '{"user":3,"name":"x"}'), 409)
        self.assertIn("writer_alive", detail)
        self.assertIn(str(owner.pid), detail)
        owner.stdin.close()
        owner.wait()
        self.assertEqual(self.by_path(server, f"/v1/tables/{self.one}/1", "PUT", '{"user":3,"name":"x"}')[0], 204)

    def test_a_full_table_answers_507(self):
        server = self.start()
        statuses = []
        for number in range(2, 2000):
            statuses.append(self.by_path(server, f"/v1/tables/{self.one}/{number}", "PUT", '{"user":3,"name":"x"}')[0])
            if statuses[-1] != 201:
                break
        self.assertEqual(statuses[-1], 507)

    def test_a_server_that_no_longer_writes_keeps_no_slot(self):
        server = self.start()
        for _ in range(8):  # each worker
            self.assertEqual(self.by_port(server, f"/v1/tables/{self.many}/1", "PUT", '{"user":3,"name":"x"}')[0], 204)
        wait_until("the table can be removed", lambda: self.segments.holdfast("rm", self.many, check=False).returncode == 0)

    def test_every_put_that_was_answered_is_there_though_workers_are_killed(self):
        for table in (self.one, self.many):
            server = self.start(workers=2)
            answered, turns = {}, 0
            for kind in (UnixConnection, None):
                connect = (lambda: UnixConnection(self.path)) if kind else server.connect
                connection, end, killed = connect(), time.monotonic() + 2.5, 0
                while time.monotonic() < end or killed < 3:
                    number, turns = turns % 40, turns + 1
                    try:
                        connection.request("PUT", f"/v1/tables/{table}/{number}", f'{{"user":{turns},"name":"t"}}', {"Authorization": "Bearer " + TOKEN})
                        answer = connection.getresponse()
                        answer.read()
                        if answer.status in (201, 204):
                            answered[number] = {turns}
                        else:
                            self.assertEqual(answer.status, 503)
                    except (OSError, http.client.HTTPException):  # it may be made, or not
                        answered.setdefault(number, set()).add(turns)
                        connection.close()
                        connection = connect()
                    if turns % 200 == 0:
                        for pid in server.workers():
                            os.kill(pid, signal.SIGKILL)
                        killed += 1
                connection.close()
            for number, may in answered.items():
                status, _, body = server.ask(f"/v1/tables/{table}/{number}")
                if status == 200:
                    self.assertIn(json.loads(body)["user"], may)
                else:
                    self.assertGreater(len(may), 1, f"{number} was answered and is gone")
            self.assertEqual(self.segments.holdfast("verify", table, check=False).returncode, 0)
            self.assertGreater(turns, 600)
            server.stop()

    def test_counts_of_many_clients_are_exact(self):
        server = self.start(workers=2)
        before = {table: server.json(f"/v1/tables/{table}/1")["user"] for table in (self.one, self.many)}
        done = dict.fromkeys(before, 0)

        def count(table):
            connection = server.connect()
            for _ in range(100):
                connection.request("POST", f"/v1/tables/{table}/1:increment", '{"field":"user","by":1}', {"Authorization": "Bearer " + TOKEN})
                answer = connection.getresponse()
                answer.read()
                with lock:
                    done[table] += answer.status == 200
                    others[answer.status] = others.get(answer.status, 0) + 1
            connection.close()
        lock, others = threading.Lock(), {}
        threads = [threading.Thread(target=count, args=(table,)) for table in before for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(others), {200, 503}, others)
        for table, user in before.items():
            self.assertEqual(server.json(f"/v1/tables/{table}/1")["user"], user + done[table])
        self.assertGreater(done[self.many], 150)


class AuditAndRates(WriteCase):
    """A server with a log of its writes, or with bounds on its rates."""

    def start(self, *options, **more):
        self.log = pathlib.Path(self.segments.directory) / "audit"
        return super().start("--audit-log", self.log, *options, **more)

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def test_each_change_has_its_line_before_it_is_answered(self):
        server = self.start(workers=1)  # each worker goes over to a new log by itself, at a time of its own
        target = f"/v1/tables/{self.one}/1"
        self.assertEqual(self.by_path(server, target, "PUT", '{"user":3,"name":"x"}')[0], 204)
        (line,) = self.lines()
        self.assertEqual((line["action"], line["segment"], line["key"], line["client"]["user"], line["body_bytes"]),
                         ("put", "posix:/" + self.one, "1", os.geteuid(), 21))
        self.problem(self.by_port(server, target, "PUT", '{"user":3,"name":"x"}', If_None_Match="*"), 412)
        asked, refused = self.lines()[1:]
        self.assertEqual((asked["client"], refused["action"], refused["status"], refused["change"], refused["process"]),
                         ({"address": "127.0.0.1"}, "refused", 412, asked["change"], asked["process"]))
        self.problem(self.by_port(server, target, "PUT", "{}", token=None), 401)
        server.ask(target)
        self.assertEqual(len(self.lines()), 3, "who may not, and who reads, is no change")
        self.log.rename(str(self.log) + ".1")
        wait_until("a new log", self.log.exists)
        self.assertEqual(self.by_path(server, target, "DELETE")[0], 204)
        self.assertEqual([line["action"] for line in self.lines()], ["delete"])

    def test_what_cannot_be_logged_is_not_done(self):
        server = self.start(workers=1)
        target = f"/v1/tables/{self.one}/1"
        (worker,) = server.workers()
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        self.assertIn("audit", self.problem(self.by_path(server, target, "PUT", '{"user":3,"name":"x"}'), 507))
        self.assertEqual(server.json(target)["user"], 2)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertEqual(self.by_path(server, target, "PUT", '{"user":3,"name":"x"}')[0], 204)

    def test_more_than_the_rate_is_told_when_to_come_again(self):
        server = self.start("--rate", 2, workers=1)
        begin = time.monotonic()
        answers = [server.ask("/v1/stats") for _ in range(30)]
        refused = [answer for answer in answers if answer[0] != 200]
        self.assertGreaterEqual(len(answers) - len(refused), 2)
        self.assertLessEqual(len(answers) - len(refused), 2 * (time.monotonic() - begin) + 3)
        self.assertTrue(refused)
        for answer in refused:
            self.problem(answer, 429)
            self.assertEqual(answer[1]["Retry-After"], "1")
        self.assertEqual(server.ask("/healthz")[0], 200)
        self.assertEqual(server.ask("/v1/stats", by=self.path)[0], 200, "another client")
        server.stop()
        server = self.start("--rate-all", 2, workers=1)
        self.assertIn(429, [server.ask("/v1/stats", by=by)[0] for _ in range(30) for by in (None, self.path)])
        wait_until("it answers again", lambda: server.ask("/v1/stats")[0] == 200)


class Origins(ServeCase):
    def test_a_page_of_another_site_may_send_nothing_but_get(self):
        table = self.segments.load_table("table", [(1, 2, "x")])
        server = self.serve()
        batch, keys = f"/v1/tables/{table}:batchGet", '{"keys":[1]}'
        own = f"http://{server.host}:{server.port}"
        for origin in ("http://evil.example", "null", f"http://{server.host}", f"http://localhost:{server.port}", own + "/", ""):
            self.assertIn("page", self.problem(server.ask(batch, method="POST", body=keys, Origin=origin), 403))
            self.assertEqual(server.ask("/healthz", Origin=origin)[0], 200)
        self.assertEqual(server.ask(batch, method="POST", body=keys, Origin=own)[0], 200)
        self.assertEqual(server.ask(batch, method="POST", body=keys)[0], 200)
        with socket.create_connection((server.host, server.port), timeout=20) as client:
            client.sendall(f"POST {batch} HTTP/1.1\r\nHost: {server.host}:{server.port}\r\nOrigin: {own}\r\nOrigin: {own}\r\nContent-Length: 0\r\n\r\n".encode())
            self.assertIn(b" 403 ", client.recv(4096))


class Bounds(ServeCase):
    def test_limits_are_set_by_name_and_descriptors_raised(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        try:
            server = self.serve("--limit", "target-bytes-max=100", "--limit", "connections-max=2", workers=1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for worker in server.workers():
            self.assertEqual(resource.prlimit(worker, resource.RLIMIT_NOFILE), (hard, hard))
        self.assertIn(f"{hard} descriptors", server.first_line)
        self.problem(server.ask("/v1/" + "x" * 100), 414)
        with socket.create_connection((server.host, server.port)), socket.create_connection((server.host, server.port)):
            wait_until("a third connection is refused", lambda: server.ask("/healthz")[0] == 503)
        for wrong in ("connections-max=0", "connections=1"):
            done = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--limit", wrong, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertIn("header-timeout-ms", done.stderr)


class LoopCounts(ServeCase):
    def value(self, server, family, **labels):
        """The sum of a family's series that have these labels."""
        lines = [line for line in server.ask("/metrics")[2].splitlines() if line.split("{")[0] == family]
        self.assertTrue(lines, family)
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(f'{k}="{v}"' in line for k, v in labels.items()))

    def test_what_the_loops_count_stands_in_the_metrics(self):
        server = self.serve()
        for _ in range(3):
            with socket.create_connection((server.host, server.port), timeout=20) as client:
                client.sendall(b"NO REQUEST\r\n\r\n")
                self.assertIn(b" 400 ", client.recv(4096))
        for _ in range(2):
            with socket.create_connection((server.host, server.port), timeout=20) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: ")
                client.shutdown(socket.SHUT_WR)
                self.assertIn(b" 400 ", client.recv(4096))
        wait_until("refused requests are counted", lambda: self.value(server, "holdfast_http_malformed_requests_total") == 3)
        wait_until("lost connections are counted", lambda: self.value(server, "holdfast_connections_lost_total") == 2)
        self.assertGreaterEqual(self.value(server, "holdfast_connections_accepted_total"), 5)
        self.assertGreater(self.value(server, "holdfast_http_received_bytes_total"), 100)
        self.assertEqual(self.value(server, "holdfast_http_timeouts_total", waiting_for="head"), 0)
        with contextlib.ExitStack() as kept:
            for _ in range(4):
                client = kept.enter_context(socket.create_connection((server.host, server.port), timeout=20))
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b" 200 ", client.recv(4096))
            wait_until("open connections are shown", lambda: self.value(server, "holdfast_connections_open") >= 4)
        # The connection that asks may be one of them.
        wait_until("closed ones are not", lambda: self.value(server, "holdfast_connections_open") <= 1)

    def test_open_connections_of_a_killed_worker_are_none(self):
        server = self.serve(workers=1)
        with socket.create_connection((server.host, server.port), timeout=20) as client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b" 200 ", client.recv(4096))
            wait_until("it is shown", lambda: self.value(server, "holdfast_connections_open") >= 1)
            killed = server.workers()
            os.kill(killed[0], signal.SIGKILL)
            wait_until("its worker is gone", lambda: server.workers() not in (killed, []))  # until then it may still accept, and reset
            wait_until("it is gone", lambda: self.value(server, "holdfast_connections_open") <= 1)
            self.assertGreaterEqual(self.value(server, "holdfast_connections_accepted_total"), 1)


class Limits(ServeCase):
    def test_only_named_segments_are_served(self):
        one = self.segments.load_index("one", RANGES)
        two = self.segments.load_index("two", RANGES)
        server = self.serve(one)
        self.assertEqual(server.ask(f"/v1/indexes/{one}/8.8.8.8")[0], 200)
        self.problem(server.ask(f"/v1/indexes/{two}/8.8.8.8"), 404)
        self.assertEqual([s["name"] for s in server.json("/v1/segments")["segments"]], [one])

    def test_what_not_everybody_may_read_is_served_by_name_alone(self):
        table = self.segments.load_table("mine", [(1, 1, "x")])
        open_table = self.segments.load_table("open", [(2, 2, "y")])
        os.chmod(f"/dev/shm/{table}", 0o640)
        os.chmod(f"/dev/shm/{open_table}", 0o644)
        server = self.serve(private=False)
        listed = lambda: [s["name"] for s in server.json("/v1/segments")["segments"]]
        self.assertEqual(listed(), [open_table])
        self.assertNotIn(table, server.ask("/metrics")[2])
        self.assertIn(table, server.error_text())
        self.assertIn("--private", server.error_text())
        self.assertEqual(server.ask(f"/v1/tables/{open_table}/2")[0], 200)
        hidden = self.problem(server.ask(f"/v1/tables/{table}/1"), 404)
        nothing = self.problem(server.ask(f"/v1/tables/{table[:-4]}none/1"), 404)
        self.assertEqual(hidden.replace(table, "X"), nothing.replace(f"{table[:-4]}none", "X"), "the answer tells that it is there")
        os.chmod(f"/dev/shm/{table}", 0o644)
        self.assertEqual(server.ask(f"/v1/tables/{table}/1")[0], 200)
        os.chmod(f"/dev/shm/{table}", 0o600)
        wait_until("what was made private is let go of", lambda: server.ask(f"/v1/tables/{table}/1")[0] == 404)
        server.close()
        self.assertEqual(self.serve(table, private=False).ask(f"/v1/tables/{table}/1")[0], 200)

    def test_a_file_in_a_private_folder_is_private(self):
        name = f"file:{self.segments.directory}/inside"
        file = self.segments.directory / "rows.csv"
        file.write_text("1,2\n")
        self.segments.holdfast("load", name, file, "--into", "hash_table", "--key", "id:u64", "--value", "user:u64")
        os.chmod(self.segments.directory / "inside", 0o644)
        path = f"/v1/tables/{name.replace('/', '%2F')}/1"
        server = self.serve(private=False)
        self.problem(server.ask(path), 404)
        os.chmod(self.segments.directory, 0o711)
        self.assertEqual(server.ask(path)[0], 200)

    def test_however_a_name_is_spelt_a_segment_is_attached_once(self):
        table = self.segments.load_table("once", [(1, 1, "x")])
        server = self.serve(workers=1)

        def mappings():
            maps = pathlib.Path(f"/proc/{server.workers()[0]}/maps").read_text()
            return sum(line.endswith(f"/{table}") for line in maps.splitlines())
        self.assertEqual(server.ask(f"/v1/tables/{table}/1")[0], 200)
        once = mappings()
        self.assertGreater(once, 0)
        for spelling in (f"posix:{table}", f"posix:%2F{table}", f"%2F{table}"):
            self.assertEqual(server.ask(f"/v1/tables/{spelling}/1")[0], 200, spelling)
        self.assertEqual(mappings(), once)

    def test_allowed_hosts_may_call_us_by_name(self):
        server = self.serve("--allow-host", "state.example")
        self.assertEqual(server.ask("/healthz", Host="State.Example:99")[0], 200)
        self.assertEqual(server.ask("/healthz", Host="other.example")[0], 421)

    def test_a_port_of_zeros_is_one_free_port_for_all_workers(self):
        server = self.serve(workers=3, listen="127.0.0.1:000")
        self.assertGreater(server.port, 0)
        with contextlib.closing(server.connect()) as connection:
            connection.request("GET", "/healthz")
            self.assertEqual(connection.getresponse().status, 200)
        listening = [line.split()[1] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"]
        self.assertEqual(sum(address.endswith(f":{server.port:04X}") for address in listening), 3)

    def test_each_engine_serves_and_is_told(self):
        table = self.segments.load_table("sessions", [(7, 49, "u7")])
        engines = ["epoll", "auto"]
        for engine in engines:
            server = self.serve("--engine", engine)
            told = re.search(r" workers by (epoll|io_uring)[ ;]", server.first_line)[1]
            if engine == "auto" and told == "io_uring":
                engines.append("io_uring")  # it may be had here
            else:
                self.assertTrue(engine in ("auto", told), server.first_line)
            with contextlib.closing(server.connect()) as connection:
                for _ in range(20):
                    connection.request("GET", f"/v1/tables/{table}/7")
                    answer = connection.getresponse()
                    self.assertEqual((answer.status, json.loads(answer.read())["name"]), (200, "u7"))
            metrics = server.ask("/metrics")[2]
            for worker in (0, 1):
                for each in ("epoll", "io_uring"):
                    self.assertIn(f'holdfast_worker_engine{{engine="{each}",worker="{worker}"}} {int(each == told)}', metrics)
            self.assertEqual(server.stop(), 0)

    def test_steering_that_cannot_be_is_refused(self):
        for words, said in ((("--steer", "sideways"), "flow, or cpu"), (("--steer", "cpu", "--workers", "1024"), "some would never get a connection")):
            done = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", *words, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)

    def test_an_engine_that_is_none_is_refused(self):
        done = self.segments.holdfast("serve", "--engine", "kqueue", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("epoll, io_uring, or auto", done.stderr)

    def test_a_taken_port_is_an_error_that_names_it(self):
        first = self.serve()
        words = ("serve", "--listen", f"127.0.0.1:{first.port}", "--counters", self.segments.name("second"))
        done = self.segments.holdfast(*words, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(first.port), done.stderr)
        self.assertEqual(first.ask("/healthz")[0], 200)

    def test_damaged_counts_are_an_error_not_a_loop(self):
        self.segments.load_table("counts", [(1, 1, "x")])  # the name of the counts, but another kind
        done = self.segments.holdfast("serve", "--listen", "127.0.0.1:0", "--counters", self.segments.name("counts"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("counter_set", done.stderr)


class Deaths(ServeCase):
    def setUp(self):
        super().setUp()
        self.geo = self.segments.load_index("geo4", RANGES)
        self.path = f"/v1/indexes/{self.geo}/8.8.8.8"
        self.body = b'{"low":"6.0.0.0","high":"8.21.142.255","country":"US"}'

    def right(self, _, body):
        return body == self.body

    def counted(self, server):
        stats = server.json("/v1/stats")
        requests = sum(one["count"] for one in stats["requests"] if one["route"].startswith("/v1/indexes") and one["status"] == "2xx")
        hits = sum(one["count"] for one in stats["lookups"] if one["result"] == "hit" and one["segment"] == self.geo)
        country = sum(one["count"] for one in stats["values"] if one["segment"] == self.geo and one["value"] == "US")
        return requests, hits, country

    def test_every_answer_is_counted_exactly(self):
        server = self.serve("--count", f"{self.geo}=country", workers=3)
        load = Load(server, [self.path], clients=4, check=self.right)
        wait_until("some load", lambda: load.answers > 2000)
        load.stop()
        self.assertEqual((load.wrong, load.cut, load.refused), ([], 0, 0))
        self.assertEqual(self.counted(server), (load.answers,) * 3)
        # The same segment spelt otherwise is the same segment in the counts.
        self.assertEqual(server.ask(f"/v1/indexes/posix%3A%2F{self.geo}/8.8.8.8")[0], 200)
        self.assertEqual(self.counted(server), (load.answers + 1,) * 3)
        buckets = server.json("/v1/stats")["latency"]
        self.assertEqual(buckets["count"], load.answers + 1)
        self.assertEqual(sum(count for _, _, count in buckets["buckets"]), load.answers + 1)

    def test_a_killed_worker_is_started_again_and_nobody_is_refused(self):
        server = self.serve("--count", f"{self.geo}=country")
        load = Load(server, [self.path], clients=3, check=self.right)
        times = []
        for turn in range(10):
            before = server.workers()
            begin = time.monotonic()
            os.kill(before[turn % 2], signal.SIGKILL)
            fresh = wait_until("a new worker process", lambda: set(server.workers()) - set(before))
            wait_until("it runs its loop", lambda: self.listens(min(fresh)))
            times.append(time.monotonic() - begin)
            answers = load.answers
            wait_until("load goes on", lambda: load.answers > answers + 50)
        load.stop()
        print(f"worker killed to worker serving: median {statistics.median(times) * 1000:.0f} ms, worst {max(times) * 1000:.0f} ms")
        self.assertEqual(load.refused, 0)
        self.assertEqual(load.wrong, [])
        self.assertLessEqual(load.cut, 10 * 3, "a kill cuts at most the request of each client")
        requests, hits, country = self.counted(server)
        for count in (requests, hits, country):
            self.assertGreaterEqual(count, load.answers)
            self.assertLessEqual(count, load.answers + load.cut)
        self.assertEqual(sum(w["restarts"] for w in server.json("/v1/stats")["workers"]), 10)
        self.assertLess(statistics.median(times), 1.0)

    @staticmethod
    def listens(pid):
        """Whether that worker runs its loop: it has an epoll or an io_uring."""
        with contextlib.suppress(OSError):
            for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                if any(engine in os.readlink(entry) for engine in ("eventpoll", "io_uring")):
                    return True
        return False

    def test_counts_outlive_every_process(self):
        answers = cut = 0
        for turn in range(4):
            server = self.serve("--count", f"{self.geo}=country")
            for count in self.counted(server):
                self.assertGreaterEqual(count, answers)
                self.assertLessEqual(count, answers + cut)
            load = Load(server, [self.path], clients=3, check=self.right)
            wait_until("some load", lambda: load.answers > 300)
            server.kill_everything()
            load.stop()
            self.assertEqual(load.wrong, [])
            answers += load.answers
            cut += load.cut
        self.assertGreater(answers, 1200)

    def test_workers_go_when_the_supervisor_is_killed_and_finish_what_they_have(self):
        server = self.serve()
        connection = server.connect()
        connection.request("GET", self.path)
        self.assertEqual(connection.getresponse().read(), self.body)
        workers = server.workers()
        server.process.kill()
        server.process.wait()
        # Until its worker has noticed, and once more then: an open connection is answered, and told to close.
        for _ in range(100000):
            connection.request("GET", self.path)
            answer = connection.getresponse()
            self.assertEqual(answer.read(), self.body)
            if answer.will_close:
                break
        self.assertEqual(answer.headers["Connection"], "close")
        wait_until("the workers have ended", lambda: not any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in workers))
        again = self.serve(listen=f"127.0.0.1:{server.port}")
        self.assertEqual(again.ask(self.path)[0], 200)

    def test_sigterm_and_sigint_drain_and_end_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve()
            load = Load(server, [self.path], clients=3, check=self.right)
            wait_until("some load", lambda: load.answers > 200)
            self.assertEqual(server.stop(number), 0, server.error_text())
            load.stop()
            self.assertEqual(load.wrong, [])
            self.assertEqual(load.cut, 0, "a drain answers whatever it has read")
            with self.assertRaises(OSError):
                socket.create_connection((server.host, server.port), timeout=5)

    def test_a_reload_under_load_swaps_versions_without_a_wrong_answer(self):
        server = self.serve()
        bodies = {b'{"low":"6.0.0.0","high":"8.21.142.255","country":"US"}', b'{"low":"8.0.0.0","high":"8.255.255.255","country":"XX"}'}
        load = Load(server, [self.path], clients=3, check=lambda _, body: body in bodies)
        for turn in range(10):
            self.segments.load_index("geo4", [("8.0.0.0", "8.255.255.255", "XX")] if turn % 2 == 0 else RANGES)
        seen = load.answers
        wait_until("load goes on", lambda: load.answers > seen + 100)
        load.stop()
        self.assertEqual((load.wrong, load.cut, load.refused), ([], 0, 0))

    def test_a_worker_that_keeps_dying_is_given_a_pause(self):
        server = self.serve(workers=1)
        for _ in range(21):
            worker = wait_until("a worker", server.workers)
            os.kill(worker[0], signal.SIGKILL)
            wait_until("it is gone", lambda: worker[0] not in server.workers())
        wait_until("the pause is reported", lambda: "keeps dying" in server.error_text())
        self.assertEqual(server.ask(self.path)[0], 200)  # waits in the listener's queue until the next worker takes it


if __name__ == "__main__":
    main()
