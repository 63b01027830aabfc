# SPDX-License-Identifier: Apache-2.0
"""Broadcast rings over HTTP: pages and long polls, server-sent events, WebSockets, publishing; and what happens to those who follow."""
import base64
import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest

from cli_support import Owner
from serve_support import Segments, Server, UnixConnection, main, wait_until

try:
    from websockets.exceptions import ConnectionClosed, InvalidStatus
    from websockets.sync.client import connect as connect_websocket
except ImportError:
    connect_websocket = None

TOKEN = "a-token-of-these-tests"
NEEDS_WEBSOCKETS = "needs the Python package websockets, which ./dev setup installs"


class Events:
    """A subscription by server-sent events."""

    def __init__(self, server, target, by=None, receive_buffer=0, **headers):
        self.connection = UnixConnection(by) if by else http.client.HTTPConnection(server.host, server.port, timeout=20)
        if receive_buffer:
            self.connection.sock = socket.socket()
            self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.connection.sock.settimeout(20)
            self.connection.sock.connect((server.host, server.port))
        self.connection.request("GET", target, headers={"Accept": "text/event-stream", **{k.replace("_", "-"): v for k, v in headers.items()}})
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.id = None

    def next(self):
        """(event, data) of the next one; None at the end. Comments are passed over."""
        event, data = "message", []
        while True:
            line = self.answer.readline()
            if not line:
                return None
            line = line.decode().rstrip("\n")
            if not line and data:
                return event, json.loads("\n".join(data))
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "id":
                self.id = value
            elif name == "data":
                data.append(value)

    def joined(self):
        event, data = self.next()
        if event != "joined":
            raise AssertionError(f"{event} {data} where it should tell where it joined")
        return data

    def close(self):
        self.connection.close()


class Account:
    """Checks that what a subscriber is told has each number once: (I1) of ring_hub.hpp."""

    def __init__(self, first):
        self.next, self.messages, self.lost, self.texts = first, 0, 0, []

    def take(self, told):
        if told.get("event") == "lost":
            assert told["count"] > 0 and told["sequence"] == self.next + told["count"], (told, self.next)
            self.lost += told["count"]
            self.next = told["sequence"]
        else:
            assert told["sequence"] == self.next, (told, self.next)
            self.messages += 1
            self.next += 1
            self.texts.append(told.get("text"))
        return told


class RingCase(unittest.TestCase):
    def setUp(self):
        self.segments = Segments()
        self.addCleanup(self.segments.close)
        self.folder = pathlib.Path(self.segments.directory)
        self.path = self.folder / "s"
        self.token = self.folder / "token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)

    def ring(self, hint="feed", capacity=65536, kind="ring"):
        """A living writer of a ring."""
        owner = Owner(self.segments.environment, kind, self.segments.name(hint), capacity)
        self.addCleanup(owner.kill)
        return owner

    def target(self, hint="feed"):
        return f"/v1/rings/{self.segments.name(hint)}"

    def serve(self, *options, workers=1, **more):
        server = Server(self.segments, *options, workers=workers, **more)
        self.addCleanup(server.close)
        return server

    def writing(self, *options, **more):
        return self.serve("--unix", self.path, "--write", "--token-file", self.token, *options, **more)

    def events(self, server, query="", hint="feed", **more):
        events = Events(server, self.target(hint) + query, **more)
        self.addCleanup(events.close)
        return events

    def websocket(self, server, query="", **more):
        return self.enterContext(connect_websocket(f"ws://{server.host}:{server.port}{self.target()}{query}", max_size=None, **more))

    def publish(self, server, body, query="", token=TOKEN, **headers):
        if token:
            headers["Authorization"] = "Bearer " + token
        return server.ask(self.target() + query, method="POST", body=body, **headers)

    def problem(self, answer, status):
        self.assertEqual((answer[0], answer[1]["Content-Type"]), (status, "application/problem+json"), answer[2])
        return json.loads(answer[2])["detail"]


class Pages(RingCase):
    def test_a_page_begins_anywhere_and_says_where_to_go_on(self):
        ring = self.ring()
        begun = time.time()
        ring("batch", 20, "m")
        server = self.serve()
        page = server.json(self.target())
        self.assertEqual([m["sequence"] for m in page["messages"]], list(range(1, 21)))
        self.assertEqual((page["messages"][0], page["lost"]), ({"sequence": 1, "type": 0, "text": "m0"}, 0))
        self.assertEqual(page["next"], page["ring"] + "-21")
        instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun - 10))
        for start, first in (("oldest", 1), ("7", 7), ("0", 1), (page["ring"] + "-9", 9), (instant, 1)):
            some = server.json(self.target() + f"?limit=3&from={start}")
            self.assertEqual([m["sequence"] for m in some["messages"]], list(range(first, first + 3)), start)
            self.assertEqual(some["next"], f"{page['ring']}-{first + 3}")
        for start, following in (("latest", 21), ("21", 21), ("1000", 1000), (page["next"], 21)):
            some = server.json(self.target() + f"?from={start}")
            self.assertEqual((some["messages"], some["lost"], some["next"]), ([], 0, f"{page['ring']}-{following}"))
        other = server.json(self.target() + "?from=00000000-7")
        self.assertEqual((other["replaced"], other["messages"][0]["sequence"]), (True, 1))
        for bad in ("?from=x", "?from=", "?from=-1", "?from=18446744073709551616", "?limit=0", "?limit=1001", "?wait=61", "?wait=x", "?frm=1"):
            self.problem(server.ask(self.target() + bad), 400)
        table = self.segments.load_table("table", [(1, 2, "x")])
        for name in (table, self.segments.name("none")):
            self.problem(server.ask(f"/v1/rings/{name}"), 404)
        self.assertEqual(server.ask(self.target(), method="POST", body="x")[1]["Allow"], "GET, HEAD")
        head = server.ask(self.target() + "?wait=60&from=latest", method="HEAD")
        self.assertEqual((head[0], head[2]), (200, ""))

    def test_losses_are_exact_and_bytes_are_whole(self):
        ring = self.ring(capacity=2048)
        ring("batch", 500, "message ")
        server = self.serve()
        page = server.json(self.target() + "?from=1&limit=1000")
        self.assertEqual(page["lost"] + len(page["messages"]), 500)
        self.assertEqual((page["messages"][0]["sequence"], page["messages"][-1]["text"]), (page["lost"] + 1, "message 499"))
        late = server.json(self.target() + "?from=2001-01-01T00:00:00Z")
        self.assertEqual((late["older_gone"], late["lost"]), (True, 0))
        ring.close()
        self.assertEqual(server.stop(), 0)
        writing = self.writing()
        for body in (b"", b"\x00\xff\xfe", "gr\u00fc\u00df\n\"\\".encode(), bytes(range(256)), b"\\xff"):
            status, _, told = self.publish(writing, body, "?type=7")
            self.assertEqual(status, 201, told)
            told = json.loads(told)
            (message,) = writing.json(self.target() + f"?from={told['sequence']}")["messages"]
            self.assertEqual((message["sequence"], message["type"]), (told["sequence"], 7))
            whole = message["text"].encode() if "text" in message else base64.b64decode(message["base64"], validate=True)
            self.assertEqual(whole, body)

    def test_a_long_poll_waits_for_a_message_or_its_time(self):
        ring = self.ring()
        ring("put", "old")
        server = self.serve()
        self.ring("other")("put", "another ring's")
        names = {hint: server.json(self.target(hint))["ring"] for hint in ("feed", "other")}
        pages, begin = {}, time.monotonic()
        both = [threading.Thread(target=lambda hint=hint: pages.update({hint: server.json(self.target(hint) + "?from=latest&wait=1")})) for hint in names]
        for each in both:
            each.start()
        for each in both:
            each.join()
        self.assertGreaterEqual(time.monotonic() - begin, 1)
        for hint, name in names.items():
            self.assertEqual((pages[hint]["messages"], pages[hint]["ring"], pages[hint]["next"]), ([], name, name + "-2"))
        page = pages["feed"]
        answers = []
        asking = [threading.Thread(target=lambda start=start: answers.append(server.json(self.target() + f"?from={start}&wait=60")))
                  for start in [page["next"]] * 20 + ["3", "4"]]
        for each in asking:
            each.start()
        wait_until("they wait", lambda: server.metric("holdfast_connections_open") >= 22)
        ring("put", "new")
        wait_until("those who waited for it", lambda: len(answers) == 20)
        self.assertEqual({json.dumps(each["messages"]) for each in answers}, {'[{"sequence": 2, "type": 0, "text": "new"}]'})
        ring("put", "third")
        wait_until("the one that waited for a third", lambda: len(answers) == 21)
        self.assertEqual(server.stop(), 0, "a drain waits for no poll")
        for each in asking:
            each.join()
        self.assertEqual(answers[-1]["messages"], [])

    def test_records_are_told_and_taken_by_their_schema(self):
        ring = self.ring(kind="trades")
        ring("put", 7, 1.5, "XETR")
        server = self.writing()
        record = {"id": 7, "price": 1.5, "venue": "XETR"}
        self.assertEqual(server.json(self.target())["messages"], [{"sequence": 1, "type": 0, "record": record}])
        self.assertIn("writer_alive", self.problem(self.publish(server, json.dumps(record)), 409))
        ring.close()
        for headers in ({}, {"Content_Type": "application/json; charset=utf-8"}, {"Content_Type": "application/x-www-form-urlencoded"}):
            self.assertEqual(self.publish(server, json.dumps(record), **headers)[0], 201)
        self.assertEqual(server.json(self.target() + "?from=4")["messages"][0]["record"], record)
        self.problem(self.publish(server, '{"id": 7}'), 400)
        self.problem(self.publish(server, json.dumps(record), Content_Type="text/plain"), 415)
        self.assertEqual(self.publish(server, b"raw", Content_Type="application/octet-stream")[0], 201)
        self.assertEqual(server.json(self.target() + "?from=5")["messages"], [{"sequence": 5, "type": 0, "text": "raw"}])


class Subscriptions(RingCase):
    def test_events_come_in_order_and_who_comes_back_goes_on(self):
        ring = self.ring()
        ring("batch", 5, "m")
        server = self.serve(workers=2)
        first = self.events(server)
        self.assertEqual((first.status, first.answer.headers["Content-Type"]), (200, "text/event-stream"))
        self.assertEqual(first.joined()["sequence"], 6)
        all_of_it = self.events(server, "?from=oldest")
        account = Account(all_of_it.joined()["sequence"])
        ring("put", "live")
        self.assertEqual(first.next(), ("message", {"sequence": 6, "type": 0, "text": "live"}))
        for _ in range(6):
            account.take(all_of_it.next()[1])
        self.assertEqual(account.texts, ["m0", "m1", "m2", "m3", "m4", "live"])
        first.close()
        ring("batch", 3, "missed ")
        back = self.events(server, "?from=oldest", Last_Event_ID=first.id)
        self.assertEqual((back.joined()["sequence"], back.next()[1]["text"]), (7, "missed 0"))
        for bad in ("7", "x", "00000000-"):
            self.assertEqual(self.events(server, Last_Event_ID=bad).status, 400)
        self.assertEqual(self.events(server, "?limit=3").status, 400)
        self.assertEqual(self.events(server, Accept="application/json, text/event-stream;q=0.1").answer.headers["Content-Type"], "application/json")

    @unittest.skipIf(connect_websocket is None, NEEDS_WEBSOCKETS)
    def test_websockets_are_told_the_same_and_say_nothing(self):
        ring = self.ring()
        ring("batch", 3, "m")
        server = self.serve()
        client = self.websocket(server, "?from=2")
        self.assertEqual(json.loads(client.recv(20))["sequence"], 2)
        account = Account(2)
        for _ in range(2):
            account.take(json.loads(client.recv(20)))
        ring("put", "live")
        self.assertEqual(account.take(json.loads(client.recv(20)))["text"], "live")
        client.send("hello?")
        with self.assertRaises(ConnectionClosed) as told:
            client.recv(20)
        self.assertEqual(told.exception.rcvd.code, 1003)
        # Browsers let any page connect.
        with self.assertRaises(InvalidStatus) as refused:
            self.websocket(server, origin="http://evil.example")
        self.assertEqual(refused.exception.response.status_code, 403)
        self.websocket(server, origin=f"http://{server.host}:{server.port}")
        with self.assertRaises(InvalidStatus) as refused:
            self.websocket(server, "?from=x")
        self.assertEqual(refused.exception.response.status_code, 400)
        for upgrade in ("websocket", "h2c, websocket"):
            self.assertEqual(server.ask(self.target(), Upgrade=upgrade, Connection="Upgrade")[0], 426, upgrade)

    def test_who_does_not_read_is_told_its_exact_loss_and_holds_nobody_up(self):
        ring = self.ring(capacity=1 << 20)
        ring("put", "begin")
        server = self.serve("--limit", "write-timeout-ms=600000")  # the slow one reads nothing for as long as the machine takes
        slow = self.events(server, "?from=1", receive_buffer=4096)
        quick = self.events(server, "?from=1")
        accounts = Account(slow.joined()["sequence"]), Account(quick.joined()["sequence"])
        # More than sockets, queues and ring hold, while the slow one reads nothing; the quick one is never behind.
        total = 1
        for _ in range(120):
            total = int(ring("batch", 500, "x" * 200))
            while accounts[1].next <= total:
                accounts[1].take(quick.next()[1])
        self.assertEqual((accounts[1].messages, accounts[1].lost), (total, 0))
        ring("put", "the last")
        while accounts[0].next <= total + 1:
            accounts[0].take(slow.next()[1])
        self.assertEqual(accounts[0].messages + accounts[0].lost, total + 1)
        self.assertEqual(accounts[0].texts[-1], "the last")
        self.assertGreater(accounts[0].lost, 0)
        text = server.ask("/metrics")[2]
        self.assertIn('holdfast_ring_subscribers{worker="0"} 2', text)
        self.assertIn(f'holdfast_ring_messages_total{{of="lost",worker="0"}} {accounts[0].lost}', text)
        self.assertIn('holdfast_http_requests_total{route="/v1/rings/{segment} events",status="2xx",worker="0"} 2', text)

    @unittest.skipIf(connect_websocket is None, NEEDS_WEBSOCKETS)
    def test_a_flood_reaches_all_whole_or_as_losses(self):
        ring = self.ring(capacity=1 << 18)
        server = self.serve()
        ring("put", "first")
        clients = [self.events(server, "?from=1") for _ in range(12)]
        sockets = [self.websocket(server, "?from=1") for _ in range(12)]
        takes = [lambda client=client: client.next()[1] for client in clients] + [lambda client=client: json.loads(client.recv(20)) for client in sockets]
        accounts, wrong = [], []

        def follow(take):
            try:
                account = Account(take()["sequence"])
                accounts.append(account)
                while account.texts[-1:] != ["the last"]:
                    account.take(take())
            except Exception as e:  # noqa: BLE001: told below, in the test's own thread
                wrong.append(repr(e))
        threads = [threading.Thread(target=follow, args=(take,)) for take in takes]
        for thread in threads:
            thread.start()
        for _ in range(5):
            total = int(ring("batch", 1000, "message "))
        ring("put", "the last")
        for thread in threads:
            thread.join(60)
        self.assertEqual(wrong, [])
        self.assertEqual([account.messages + account.lost for account in accounts], [total + 1] * 24)

    def test_a_drain_ends_streams_in_order(self):
        ring = self.ring()
        server = self.serve()
        events = self.events(server)
        events.joined()
        ring("put", "the last")
        self.assertEqual(events.next()[1]["text"], "the last")
        self.assertEqual(server.stop(), 0)
        self.assertIsNone(events.next())

    def test_a_message_too_long_to_be_told_is_told_by_its_size(self):
        ring = self.ring(capacity=8 << 20)
        server = self.serve()
        events = self.events(server)
        events.joined()
        ring("put", "x" * 200000)
        self.assertEqual(len(events.next()[1]["text"]), 200000)
        ring("put", "x" * 300000)
        self.assertEqual(events.next()[1], {"sequence": 2, "type": 0, "bytes": 300000, "too_large": True})
        ring("put", "short")
        self.assertEqual(events.next()[1]["text"], "short")
        self.assertEqual(len(server.json(self.target())["messages"]), 3)


class Changes(RingCase):
    """What becomes of those who follow when the ring, its writer or its rights change."""

    def test_another_writer_goes_on_and_another_ring_is_followed(self):
        ring = self.ring()
        server = self.serve()
        events = self.events(server)
        old = events.joined()
        ring("put", "one")
        self.assertEqual(events.next()[1]["text"], "one")
        ring.kill()
        ring = self.ring()  # takes it over
        ring("put", "two")
        self.assertEqual(events.next()[1], {"sequence": 2, "type": 0, "restarted": True, "text": "two"})
        ring.close()
        # Put into the name's place at once.
        saved, shm = self.folder / "saved", pathlib.Path("/dev/shm")
        self.segments.holdfast("save", self.segments.name("feed"), saved)
        self.segments.holdfast("restore", saved, self.segments.name("next"))
        os.rename(shm / self.segments.name("next"), shm / self.segments.name("feed"))
        event, replaced = events.next()
        self.assertEqual(event, "replaced")
        self.assertNotEqual(replaced["ring"], old["ring"])
        account = Account(events.joined()["sequence"])
        self.assertEqual([account.take(events.next()[1])["text"] for _ in range(2)], ["one", "two"])
        back = self.events(server, Last_Event_ID=old["ring"] + "-2")
        self.assertEqual((back.next()[0], back.joined()["sequence"]), ("replaced", 1))
        page = server.json(self.target() + f"?wait=60&from={old['ring']}-3")
        self.assertEqual((page["replaced"], len(page["messages"])), (True, 2))

    def test_a_removed_ring_ends_what_follows_it(self):
        ring = self.ring()
        server = self.serve()
        events = self.events(server)
        events.joined()
        answers = []
        asking = threading.Thread(target=lambda: answers.append(server.ask(self.target() + "?from=latest&wait=60")))
        asking.start()
        ring.close()
        self.segments.holdfast("rm", self.segments.name("feed"))
        self.assertEqual(events.next(), ("ended", {"event": "ended", "reason": "no such segment is served"}))
        self.assertIsNone(events.next())
        asking.join()
        self.problem(answers[0], 404)
        self.assertEqual(self.events(server).status, 404)

    def test_rights_that_are_taken_away_end_subscriptions(self):
        file = pathlib.Path("/dev/shm") / self.segments.name("feed")
        ring = self.ring()
        file.chmod(0o604)
        server = self.serve("--unix", self.path, private=False)
        stranger, owner = self.events(server), self.events(server, by=self.path)
        stranger.joined(), owner.joined()
        file.chmod(0o600)
        self.assertEqual(stranger.next()[0], "ended")
        self.assertIsNone(stranger.next())
        ring("put", "for the owner")
        self.assertEqual(owner.next()[1]["text"], "for the owner")
        self.assertEqual(self.events(server).status, 404)

    def test_a_cut_or_scribbled_ring_ends_them_and_not_the_worker(self):
        ring = self.ring(capacity=65536)
        ring("batch", 100, "m")
        server = self.serve()
        workers = server.workers()
        events = self.events(server, "?from=1")
        account = Account(events.joined()["sequence"])
        while account.next <= 100:
            account.take(events.next()[1])
        ring.close()
        file = pathlib.Path("/dev/shm") / self.segments.name("feed")
        whole = file.read_bytes()
        with open(file, "r+b") as opened:  # the index and the ring, header and horizon apart
            opened.seek(4096 + 256)
            opened.write(os.urandom(len(whole) - 4096 - 256))
        status = server.ask(self.target() + "?from=1")[0]
        self.assertIn(status, (200, 500, 503))
        self.assertEqual(events.next()[0], "ended")
        file.write_bytes(whole)
        wait_until("it is attached anew", lambda: server.ask(self.target())[0] == 200)
        again = self.events(server)
        again.joined()
        os.truncate(file, 8192)
        self.assertEqual(again.next(), ("ended", {"event": "ended", "reason": "the segment is damaged"}))
        self.assertIn(server.ask(self.target())[0], (500, 503))
        self.assertEqual(server.workers(), workers)


class Publishing(RingCase):
    def test_who_may_publishes_and_the_log_has_it(self):
        ring = self.ring(capacity=4096)
        log = self.folder / "audit"
        server = self.writing("--audit-log", log)
        detail = self.problem(self.publish(server, "x"), 409)
        self.assertIn(str(ring.process.pid), detail)
        ring.close()
        events = self.events(server)
        events.joined()
        self.assertEqual(json.loads(self.publish(server, "by port")[2])["sequence"], 1)
        self.assertEqual(server.ask(self.target(), method="POST", body="by socket", by=self.path)[0], 201)
        self.assertEqual([events.next()[1]["text"] for _ in range(2)], ["by port", "by socket"])
        self.problem(self.publish(server, "x", token=None), 401)
        self.assertIn("page", self.problem(self.publish(server, "x", Origin="http://evil.example"), 403))
        self.assertIn("1016", self.problem(self.publish(server, "x" * 1017), 413))
        for query in ("?type=65536", "?type=x", "?key=1"):
            self.problem(self.publish(server, "x", query), 400)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual([line["action"] for line in lines], ["publish", "publish", "publish", "refused"])
        self.assertEqual((lines[0]["body_bytes"], lines[1]["client"]["user"], lines[3]["status"]), (7, os.geteuid(), 413))
        self.assertEqual(server.json(self.target())["next"].split("-")[1], "3")
        # The lease is given back with each request.
        self.ring(capacity=4096)("put", "the owner again")
        self.assertEqual(events.next()[1]["text"], "the owner again")

    def test_what_was_answered_is_there_though_workers_are_killed(self):
        self.ring(capacity=1 << 18).close()
        server = self.writing(workers=2)
        answered, sent, connection, lost = [], 0, server.connect(), set()
        while sent < 450:  # some behind the last kill: who is asked at once may be dead
            sent += 1
            try:
                connection.request("POST", self.target(), f"m{sent}", {"Authorization": "Bearer " + TOKEN})
                answer = connection.getresponse()
                body = answer.read()
                if answer.status == 201:
                    answered.append((json.loads(body)["sequence"], f"m{sent}"))
                else:
                    self.assertEqual(answer.status, 503)
            except (OSError, http.client.HTTPException):  # published, or not
                lost.add(f"m{sent}")
                connection.close()
                connection = server.connect()
            if sent % 100 == 0:
                for pid in server.workers():
                    os.kill(pid, 9)
        connection.close()
        told = {m["sequence"]: m["text"] for m in server.json(self.target() + "?limit=1000")["messages"]}
        for sequence, text in answered:
            self.assertEqual(told.pop(sequence), text)
        self.assertLessEqual(set(told.values()), lost)
        self.assertGreater(len(answered), 300)


if __name__ == "__main__":
    main()
