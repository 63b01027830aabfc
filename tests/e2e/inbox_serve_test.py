# SPDX-License-Identifier: Apache-2.0
"""Tables over HTTP whose living owner has an inbox: the owner makes the changes, and its answers are those of a table that nobody owns."""
import collections
import http.client
import json
import os
import pathlib
import signal
import socket
import threading
import time
import unittest

from cli_support import Owner
from serve_support import Segments, Server, UnixConnection, main, wait_until

VALUE = '{"user":3,"name":"x"}'
ONE_MORE = '{"field":"user","by":1}'


class InboxCase(unittest.TestCase):
    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        self.path = pathlib.Path(self.segments.directory) / "s"
        self.table = self.segments.load_table("table", [(1, 2, "x")])
        self.target = f"/v1/tables/{self.table}/1"

    def serve(self, *options, **more):
        server = Server(self.segments, "--unix", self.path, "--write", *options, **more)
        self.addCleanup(server.close)
        return server

    def owner(self, runs=True):
        owner = Owner(self.segments.environment, "inbox", self.table, 0)
        self.addCleanup(owner.kill)
        if runs:
            owner.begin("run")
        return owner

    def ask(self, server, method="GET", body=None, target=None, **headers):
        return server.ask(target or self.target, method=method, body=body, by=self.path, **headers)

    def count(self, server, **headers):
        return self.ask(server, "POST", ONE_MORE, self.target + ":increment", **headers)

    def problem(self, answer, status):
        self.assertEqual((answer[0], answer[1]["Content-Type"]), (status, "application/problem+json"), answer[2])
        return json.loads(answer[2])["detail"]

    def user(self, server):
        return json.loads(self.ask(server)[2])["user"]

    def begin(self, method, target, body=None):
        """A request whose answer nobody has waited for yet."""
        connection = UnixConnection(self.path)
        self.addCleanup(connection.close)
        connection.request(method, target, body)
        return connection

    def waiting(self):
        return json.loads(self.segments.holdfast("stat", self.table + ".inbox", "--json").stdout)["size"]

    @staticmethod
    def end(connection):
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


class Changes(InboxCase):
    def test_answers_are_those_of_a_table_that_nobody_owns(self):
        other, rows = self.segments.name("other"), self.segments.directory / "other.csv"
        rows.write_text("7,49,u7\n")
        self.segments.holdfast("load", other, rows, "--into", "hash_table", "--key", "id:u64", "--value", "user:u64,nick:char[8]")
        server = self.serve()
        of_other_fields = self.ask(server, target=f"/v1/tables/{other}/7")[1]["ETag"]

        def all_of_it():
            told = []

            def ask(method, body=None, target="7", **headers):
                status, fields, text = self.ask(server, method, body, f"/v1/tables/{self.table}/{target}", **headers)
                told.append((method, target, status, fields.get("ETag"), fields["Content-Type"], text if status == 200 else None))
                return fields.get("ETag")
            tag = ask("PUT", '{"user":49,"name":"u7"}')
            ask("GET")
            ask("PUT", '{"user":49,"name":"u7"}')
            ask("PUT", VALUE, If_None_Match="*")
            ask("PUT", VALUE, If_Match=of_other_fields)
            ask("PUT", VALUE, If_Match='"0000000000000000"')
            ask("PUT", VALUE, If_Match="W/" + tag)
            ask("PUT", VALUE, If_Match=tag.upper())
            ask("PUT", VALUE, target="8", If_Match="*")
            ask("PUT", VALUE, target="8", If_None_Match="*")
            changed = ask("PUT", VALUE, If_Match='"x", ' + tag)
            ask("POST", '{"field":"user","by":-9}', "7:increment")
            ask("POST", '{"field":"user","by":-2}', "7:increment", If_Match=changed)
            ask("POST", '{"field":"user","by":-2}', "7:increment", If_Match=changed)
            ask("POST", '{"field":"user","by":5}', "7:increment", If_Match="*")
            ask("POST", ONE_MORE, "9:increment")
            ask("POST", ONE_MORE, "9:increment", If_Match="*")
            for bad in ("", '{"field":"name","by":1}', '{"field":"user"}'):
                ask("POST", bad, "7:increment")
            for bad in ("", '{"user":3}', '{"id":2,"user":3,"name":"x"}'):
                ask("PUT", bad)
            ask("PUT", VALUE, "seven")
            ask("PUT", VALUE, If_None_Match="*", If_Match="*")
            ask("DELETE", If_None_Match="*")
            ask("POST", ONE_MORE, "7:increment", If_None_Match="*")
            ask("DELETE", If_Match=tag)
            ask("DELETE", If_Match="*")
            ask("DELETE")
            ask("DELETE", If_Match="*")
            ask("GET")
            ask("DELETE", target="8")
            return told
        alone = all_of_it()
        self.assertEqual([each[2] for each in alone[:5]], [201, 200, 204, 412, 412])
        owner = self.owner()
        self.assertEqual(all_of_it(), alone)
        self.assertIn(str(owner.process.pid), self.segments.holdfast("who", self.table).stdout)
        self.problem(self.ask(server, "PUT", VALUE, If_Match=", ".join(f'"{tag:016x}"' for tag in range(17))), 400)
        self.assertEqual({alone[i][2] for i in range(len(alone))}, {200, 201, 204, 400, 404, 409, 412})

    def test_a_full_table_answers_507(self):
        server = self.serve()
        self.owner()
        connection = UnixConnection(self.path)
        self.addCleanup(connection.close)
        for number in range(2, 2000):
            connection.request("PUT", f"/v1/tables/{self.table}/{number}", VALUE)
            if (status := self.end(connection)[0]) != 201:
                break
        self.assertEqual(status, 507)

    def test_an_owner_that_does_not_look_keeps_no_worker_and_is_given_up(self):
        server = self.serve(workers=1)
        owner = self.owner(runs=False)
        begin = time.monotonic()
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        for _ in range(20):
            self.assertEqual(self.user(server), 2, "the worker answers others meanwhile")
        self.assertLess(time.monotonic() - begin, 4)
        self.assertIn("made or not", self.problem(self.end(asked), 504))
        self.assertGreater(time.monotonic() - begin, 4.9)
        self.assertEqual(owner("apply", 1), "0")
        self.assertEqual(self.user(server), 2, "it is not made behind its time")
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        self.assertEqual(owner("apply", 1), "1")
        self.assertEqual(json.loads(self.end(asked)[2])["user"], 3)

    def test_a_client_that_has_shut_its_side_gets_its_answer(self):
        server = self.serve(workers=1)
        owner = self.owner(runs=False)
        asked = self.begin("PUT", self.target, VALUE)
        asked.sock.shutdown(socket.SHUT_WR)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        self.assertEqual(self.user(server), 2, "the worker has seen the end of that client's side")
        self.assertEqual(owner("apply", 1), "1")
        self.assertEqual(self.end(asked)[0], 204)
        self.assertEqual(self.user(server), 3)

    def test_the_end_of_an_owner_is_told_at_once(self):
        server = self.serve(workers=1)
        owner = self.owner(runs=False)
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        begin = time.monotonic()
        owner.kill()
        self.assertIn("ended", self.problem(self.end(asked), 504))
        self.assertLess(time.monotonic() - begin, 3)
        # What waited is applied by nobody: not by the server, which has the lease for itself now, nor by the next owner.
        self.assertEqual(json.loads(self.count(server)[2])["user"], 3)
        owner = self.owner()
        self.assertEqual(json.loads(self.count(server)[2])["user"], 4)
        owner.kill()
        owner = self.owner(runs=False)
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        owner.process.stdin.close()  # it ends in order
        answer = self.end(asked)
        self.assertIn("nothing was changed", self.problem(answer, 503))
        self.assertEqual(answer[1]["Retry-After"], "1")
        self.assertEqual(json.loads(self.count(server)[2])["user"], 5)

    def test_damaged_answers_are_told_at_once_and_the_next_request_begins_behind_them(self):
        server = self.serve(workers=1)
        owner = self.owner(runs=False)
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        answers = pathlib.Path(f"/dev/shm/{self.table}.answers")
        sound = answers.read_bytes()
        ring = 4096 + 256  # behind the header and the writer's words
        begin = time.monotonic()
        with answers.open("r+b") as file:
            file.seek(ring)
            file.write(b"\xff" * (len(sound) - ring))
        self.assertIn("damaged", self.problem(self.end(asked), 504))
        self.assertLess(time.monotonic() - begin, 3)
        with answers.open("r+b") as file:
            file.seek(ring)
            file.write(sound[ring:])
        asked = self.begin("POST", self.target + ":increment", ONE_MORE)
        wait_until("it is enqueued", lambda: self.waiting() == 2)
        owner.begin("run")
        self.assertEqual(json.loads(self.end(asked)[2])["user"], 4)

    def test_the_log_has_a_line_before_each_change_and_one_for_each_refusal(self):
        log = pathlib.Path(self.segments.directory) / "audit"
        server = self.serve("--audit-log", log, workers=1)
        lines = lambda: [json.loads(line) for line in log.read_text().splitlines()]
        owner = self.owner(runs=False)
        asked = self.begin("PUT", self.target, VALUE)
        wait_until("it is enqueued", lambda: self.waiting() == 1)
        (line,) = lines()
        self.assertEqual((line["action"], line["segment"], line["key"], line["client"]["user"]), ("put", "posix:/" + self.table, "1", os.geteuid()))
        owner.begin("run")
        self.assertEqual(self.end(asked)[0], 204)
        self.problem(self.ask(server, "PUT", VALUE, If_None_Match="*"), 412)
        asked, refused = lines()[1:]
        self.assertEqual((refused["action"], refused["status"], refused["change"]), ("refused", 412, asked["change"]))
        self.problem(self.ask(server, "PUT", "{}"), 400)
        self.assertEqual(len(lines()), 3)
        with open(f"/dev/shm/{self.table}.inbox", "r+b") as inbox:
            inbox.write(b"nothing of ours")
        self.problem(self.ask(server, "PUT", VALUE), 500)
        asked, refused = lines()[3:]
        self.assertEqual((refused["action"], refused["status"], refused["change"]), ("refused", 500, asked["change"]))


class Load(InboxCase):
    clients = 6

    def counting(self, server, until):
        """Clients that count up; how often each status came, and of those that nobody can tell the number."""
        told, lock = collections.Counter(), threading.Lock()

        def count():
            connection = UnixConnection(self.path)
            while not until():
                try:
                    connection.request("POST", self.target + ":increment", ONE_MORE)
                    status = self.end(connection)[0]
                except (OSError, http.client.HTTPException):
                    status = 0
                    connection.close()
                    connection = UnixConnection(self.path)
                with lock:
                    told[status] += 1
            connection.close()
        threads = [threading.Thread(target=count) for _ in range(self.clients)]
        for thread in threads:
            thread.start()
        return told, threads

    def test_counts_through_two_workers_are_exact(self):
        server = self.serve(workers=2)
        self.owner()
        end = time.monotonic() + 2
        told, threads = self.counting(server, lambda: time.monotonic() > end)
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(told), {200, 503}, told)
        self.assertGreater(told[200], 300)
        self.assertEqual(self.user(server), 2 + told[200])

    def test_no_count_is_made_twice_and_none_that_was_answered_is_lost_though_owners_are_killed(self):
        server = self.serve(workers=2)
        over = threading.Event()
        self.addCleanup(over.set)
        told, threads = self.counting(server, over.is_set)
        for _ in range(12):
            owner = self.owner()
            seen = told[200]
            wait_until("counts", lambda: told[200] > seen + 20)
            owner.process.send_signal(signal.SIGKILL)
            owner.kill()
        over.set()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(told), {200, 409, 503, 504}, told)
        made = self.user(server) - 2
        self.assertGreaterEqual(made, told[200])
        self.assertLessEqual(made, told[200] + told[504], "504 is an increment that was made once, or not")
        self.assertEqual(self.segments.holdfast("verify", self.table, check=False).returncode, 0)

    def test_workers_that_are_killed_lose_nothing_answered(self):
        server = self.serve(workers=2)
        self.owner()
        over = threading.Event()
        self.addCleanup(over.set)
        told, threads = self.counting(server, over.is_set)
        for _ in range(6):
            seen = told[200]
            wait_until("counts", lambda: told[200] > seen + 20)
            for worker in server.workers():
                os.kill(worker, signal.SIGKILL)
        over.set()
        for thread in threads:
            thread.join()
        self.assertLessEqual(set(told), {0, 200, 503}, told)
        made = self.user(server) - 2
        self.assertGreaterEqual(made, told[200])
        self.assertLessEqual(made, told[200] + told[0])


if __name__ == "__main__":
    main()
