# SPDX-License-Identifier: Apache-2.0
"""Rings with clients that others wrote: a page in a real Chromium follows one by all three ways, and the lines for curl in docs/cli.md do what is said there."""
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import unittest

import browser_support
from restart_test import Restartable, alive
from rings_test import Account, RingCase
from serve_support import main, wait_until

MANUAL = (pathlib.Path(os.environ.get("HOLDFAST_SOURCE", ".")) / "docs" / "cli.md").read_text()
LINES = [alone or within for alone, within in re.findall(r"^(curl .*)$|`(curl [^`]*)`", MANUAL, re.M)]

# Follows the ring at an address, from its oldest message, by the ways that are named. told[way] is what a WebSocket would be told: of
# a page, its loss and its messages. ended has the ways that met an end, or an answer that this page may not read.
FOLLOW = """([ring, ways]) => {
  window.told ??= {};
  window.ended ??= [];
  const follow = {
    events(tell, end) {
      const source = new EventSource(ring + "?from=oldest");
      for (const type of ["message", "joined", "lost", "replaced", "ended"])
        source.addEventListener(type, event => tell(JSON.parse(event.data)));
      source.onerror = () => end("events");
    },
    socket(tell, end) {
      const socket = new WebSocket(ring.replace("http", "ws") + "?from=oldest");
      socket.onmessage = event => tell(JSON.parse(event.data));
      socket.onclose = event => end("socket " + event.code);
    },
    async polls(tell, end) {
      for (let from = "oldest";;) {
        const page = await fetch(`${ring}?wait=20&from=${from}`).then(answer => answer.json()).catch(() => null);
        if (!page) return end("polls");
        const first = Number(page.next.split("-")[1]) - page.messages.length;
        if (page.lost) tell({event: "lost", count: page.lost, sequence: first});
        page.messages.forEach(tell);
        from = page.next;
      }
    },
  };
  for (const way of ways) {
    told[way] = [];
    follow[way](what => told[way].push(what), how => ended.push(how));
  }
}"""
WAYS = ["events", "socket", "polls"]


def overrun(server, ring):
    """Writes more than a small ring holds while no worker looks; the number of the last message."""
    workers = server.workers()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        tasks = [task for pid in workers for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
        wait_until("they stand still", lambda: all((task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T" for task in tasks))
        return int(ring("batch", 500, "message "))
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)


class EmptyPage(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@unittest.skipIf(browser_support.MISSING, f"needs {browser_support.MISSING}")
class Browser(RingCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser_support.launch(cls)

    def open(self, host, port):
        """The page at an address, and what its browser complains of."""
        page = self.browser.new_context().new_page()
        self.addCleanup(page.context.close)
        complaints = []
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.goto(f"http://{host}:{port}/")
        return page, complaints

    def follow(self, page, server, ways):
        page.evaluate(FOLLOW, [f"http://{server.host}:{server.port}{self.target()}", ways])

    def told(self, page, last):
        """{way: its account} once each was told the message `last`, and {way: how often it joined}."""
        def whole():
            told = page.evaluate("told")
            return all(each and each[-1].get("text") == last for each in told.values()) and told
        accounts, joins = {}, {}
        for way, told in wait_until(f"{last!r} is told by each way", whole, 60).items():
            accounts[way], joins[way] = Account(1), 0
            for what in told:
                if what.get("event") != "joined":
                    accounts[way].take(what)
                    continue
                joins[way] += 1
                self.assertEqual(what["sequence"], accounts[way].next, f"{way}: joins where it stands")
        return accounts, joins

    # The server's own page: its policy, connect-src 'self', has WebSockets of the same host and port in it.
    def test_a_page_of_the_server_follows_by_all_three_ways(self):
        ring = self.ring(capacity=2048)
        ring("batch", 3, "m")
        server = self.serve()
        page, complaints = self.open(server.host, server.port)
        self.follow(page, server, WAYS)
        for way, account in self.told(page, "m2")[0].items():
            self.assertEqual((account.texts, account.lost), (["m0", "m1", "m2"], 0), way)
        ring("put", "live")
        self.told(page, "live")
        total = overrun(server, ring)
        ring("put", "the last")
        accounts, joins = self.told(page, "the last")
        for way, account in accounts.items():
            self.assertEqual(account.messages + account.lost, total + 1, way)
            self.assertGreater(account.lost, 0, way)
        self.assertEqual(joins, {"events": 1, "socket": 1, "polls": 0})
        self.assertEqual((page.evaluate("ended"), complaints), ([], []))

    def test_an_event_source_comes_back_by_itself_and_misses_nothing(self):
        ring = self.ring()
        ring("put", "begin")
        server = Restartable(self.segments, workers=1)
        self.addCleanup(server.close)
        page, _ = self.open(server.host, server.port)
        self.follow(page, server, ["events"])
        self.told(page, "begin")
        worker, = server.workers()
        os.kill(worker, signal.SIGKILL)
        wait_until("it is dead", lambda: not alive(worker))
        ring("put", "behind a death")
        # It asks for the oldest again, and says by Last-Event-ID alone where it stood.
        self.assertEqual(self.told(page, "behind a death")[1], {"events": 2})
        self.follow(page, server, ["socket"])
        ring("put", "both")
        self.told(page, "both")
        page.evaluate("ended = []")
        server.restart()
        wait_until("both have ended, the socket with a word to come back", lambda: {"events", "socket 1012"} <= set(page.evaluate("ended")))
        page.evaluate("delete told.socket")
        ring("put", "behind a restart")
        accounts, joins = self.told(page, "behind a restart")
        self.assertEqual((accounts["events"].texts, accounts["events"].lost), (["begin", "behind a death", "both", "behind a restart"], 0))
        self.assertGreaterEqual(joins["events"], 3)

    def test_a_page_of_another_site_is_shown_nothing(self):
        self.ring()("put", "not for it")
        server = self.serve(workers=1)
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        threading.Thread(target=site.serve_forever).start()
        page, _ = self.open(*site.server_address)
        self.follow(page, server, WAYS)
        wait_until("each has failed", lambda: sorted(page.evaluate("ended")) == ["events", "polls", "socket 1006"])
        self.assertEqual(page.evaluate("told"), {way: [] for way in WAYS})
        # All three had come as far as the server: it refused the socket, the browser keeps the others' answers from the page.
        counted = re.findall(r'^holdfast_http_requests_total{route="/v1/rings/{segment}( \w+)?",status="(\dxx)",worker="0"} 1$', server.ask("/metrics")[2], re.M)
        self.assertEqual(sorted(counted), [("", "2xx"), (" WebSocket", "4xx"), (" events", "2xx")])


@unittest.skipUnless(shutil.which("curl"), "needs curl")
class Curl(RingCase):
    def curl(self, server, words, **here):
        """Starts the line of docs/cli.md that has these words in it, with names and an address of this test in the place of those there."""
        found = [line for line in LINES if words in line]
        self.assertEqual(len(found), 1, words)
        line, names = found[0], {"127.0.0.1:8080": f"{server.host}:{server.port}", "/run/app/holdfast": self.path, "PATH": self.path,
                                 "/prices": f"/{self.segments.name('feed')}", **here}
        for name, instead in names.items():
            line = line.replace(name, str(instead))
        process = subprocess.Popen(["bash", "-c", "exec " + line], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        giving_up = threading.Timer(60, process.kill)
        giving_up.start()
        for cleanup in (process.stdout.close, process.wait, process.kill, giving_up.cancel):  # from the last on
            self.addCleanup(cleanup)
        return process

    def answer(self, *words, **here):
        """What a line prints."""
        process = self.curl(*words, **here)
        text = process.stdout.read()
        self.assertEqual(process.wait(), 0)
        return text

    def test_no_line_is_passed_over(self):
        self.assertEqual(len(LINES), 7, "each line for curl in docs/cli.md is run here")

    def test_a_ring_is_polled_followed_and_published_to(self):
        ring = self.ring(capacity=2048)
        server = self.writing()
        polling = self.curl(server, "wait=30")
        wait_until("a message for who waits", lambda: (ring("put", "news"), polling.poll() is not None)[1])
        page = json.loads(polling.stdout.read())
        self.assertEqual((polling.returncode, page["messages"][0]["text"], page["lost"]), (0, "news", 0))
        following = (json.loads(line[6:]) for line in self.curl(server, "text/event-stream").stdout if line.startswith("data: "))
        account = Account(next(following)["sequence"])

        def follow_to(last):
            while account.texts[-1:] != [last]:
                account.take(next(following))
        ring("put", "live")
        follow_to("live")
        total = overrun(server, ring)
        ring("put", "from its writer")
        follow_to("from its writer")
        self.assertEqual(account.next, total + 2)
        self.assertGreater(account.lost, 0)
        ring.close()
        self.assertEqual(json.loads(self.answer(server, "closing in five minutes"))["sequence"], total + 2)
        follow_to("closing in five minutes")

    def test_entries_are_listed_put_and_counted(self):
        name, file = self.segments.name("sessions"), self.folder / "sessions.csv"
        file.write_text("1,1,x,0\n")
        self.segments.holdfast("load", name, file, "--into", "hash_table", "--key", "id:u64", "--value", "user:u64,name:char[8],hits:u32")
        server = self.writing()
        self.assertIn(name, self.answer(server, "http://localhost/v1/segments"))
        self.answer(server, "-X PUT", sessions=name)
        told = json.loads(self.answer(server, ":increment", sessions=name))
        self.assertEqual(told, {"id": 42, "user": 7, "name": "ann", "hits": 1})
        self.assertEqual(server.json(f"/v1/tables/{name}/42"), told)

    def test_a_snapshot_is_put_while_it_is_the_version_that_was_read(self):
        name, file = self.segments.name("limits"), self.folder / "limits.json"
        file.write_text('{"most": 7}')
        objects = self.ring("limits", 1000, kind="objects")
        objects("put", "{}")
        objects.close()
        server = self.writing()
        here = {'"1a2b3c4d-7"': server.ask(f"/v1/snapshots/{name}")[1]["ETag"], "/limits": f"/{name}"}
        self.assertEqual(self.answer(server, "-T limits.json", **here), "")
        self.assertEqual(server.ask(f"/v1/snapshots/{name}")[2], file.read_text())
        self.assertEqual(json.loads(self.answer(server, "-T limits.json", **here))["status"], 412)


if __name__ == "__main__":
    main()
