# SPDX-License-Identifier: Apache-2.0
"""The writer of flame graphs: each input form into known stacks, hostile names into a page that holds, and `./dev profile`'s refusals."""
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from serve_support import main

SOURCE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "scripts"))
import flame_graph  # noqa: E402

PERF = """bench 17
\t    55d0c0ffee inner(int)+0x1f
\t    55d0c0ffef outer+0x2

bench 17
\t    55d0c0fff0 outer

"""
CALLGRIND = """events: Ir
fn=(1) main
10 5
cfn=(2) work
calls=1 20
11 90
cfn=(3) rest
calls=1 30
12 5
fn=(2)
20 60
cfn=(3)
calls=2 30
21 30
fn=(3)
30 35
"""


def folded(stacks):
    out = io.StringIO()
    flame_graph.write_folded(flame_graph.tree_of(stacks), out)
    return out.getvalue().splitlines()


class FlameGraph(unittest.TestCase):
    def test_folded_stacks_come_back_as_they_were(self):
        lines = ["main;find 60", "main;insert 30", "main 10"]
        self.assertEqual(sorted(folded(flame_graph.folded_stacks(lines))), sorted(lines))

    def test_perf_samples_are_turned_outermost_first(self):
        self.assertEqual(sorted(folded(flame_graph.perf_stacks(PERF.splitlines(True)))), ["bench 17;outer 1", "bench 17;outer;inner(int) 1"])

    def test_callgrind_costs_are_shared_out_over_callers_and_none_is_lost(self):
        stacks = flame_graph.callgrind_stacks(CALLGRIND.splitlines(True))
        self.assertEqual(sorted(folded(stacks)), ["main 5", "main;rest 5", "main;work 60", "main;work;rest 30"])
        self.assertEqual(sum(count for _, count in stacks), 100)

    def test_callgrind_recursion_ends(self):
        text = "fn=a\n1 10\ncfn=b\ncalls=1 1\n1 50\nfn=b\n1 40\ncfn=a\ncalls=1 1\n1 20\nfn=main\n1 1\ncfn=a\ncalls=1 1\n1 60\n"
        self.assertGreater(sum(count for _, count in flame_graph.callgrind_stacks(text.splitlines(True))), 0)

    def test_depth_is_bounded(self):
        root = flame_graph.tree_of([([f"f{n}" for n in range(5000)], 1)])
        self.assertIn('"data"', flame_graph.page(root, "t", "samples"))

    def test_nonsense_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            for text, form in (("no count\n", "folded"), ("", "folded"), ("", "perf"), ("fn=a\n", "callgrind")):
                path = pathlib.Path(folder, "input")
                path.write_text(text)
                done = subprocess.run([sys.executable, str(SOURCE / "scripts/flame_graph.py"), str(path), "--format", form, "--html", str(path) + ".html"],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 1, (text, form))
                self.assertRegex(done.stderr, r"\Aflame_graph: [^\n]+\n\Z")
                self.assertFalse(pathlib.Path(str(path) + ".html").exists())

    def test_profile_says_what_it_needs(self):
        for words, pattern in (([], "profile what"), (["serve", "soon"], "number of seconds"), (["x", "--annotate"], "needs the name")):
            done = subprocess.run([str(SOURCE / "scripts/profile"), *words], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(pattern, done.stderr)

    def test_page_works_in_a_browser_and_hostile_names_do_nothing(self):
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            self.skipTest("needs the Python package playwright")
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            self.skipTest("needs chromium")
        evil = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\u2028\""
        stacks = [(["main", "find"], 60), (["main", evil], 30), (["main", "tiny"], 10)]
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
            path = pathlib.Path(folder, "page.html")
            path.write_text(flame_graph.page(flame_graph.tree_of(stacks), "A <title>", "samples"))
            data = re.search(r'id="data">(.*?)</script>', path.read_text(), re.S)[1]
            self.assertEqual(json.loads(data)[1], 100)
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else [])
            tab, complaints = browser.new_page(), []
            tab.on("console", lambda message: complaints.append(message.text))
            tab.on("pageerror", lambda problem: complaints.append(str(problem)))
            tab.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
            tab.goto(path.as_uri())
            self.assertEqual(tab.title(), "A <title>")
            frames = tab.locator("#graph button")
            self.assertEqual(frames.count(), 5)  # all, main and its three
            widths = [frames.nth(n).bounding_box()["width"] for n in range(5)]
            self.assertAlmostEqual(widths[2] / widths[0], 0.6, delta=0.02)
            frames.nth(2).click()
            self.assertEqual(tab.locator("#graph button").count(), 3)  # all and main above, find alone
            tab.locator("#graph button").nth(0).click()
            self.assertEqual(tab.locator("#graph button").count(), 5)
            tab.fill("#search", "FIND")
            self.assertEqual(tab.locator("#graph button.found").count(), 1)
            browser.close()
        self.assertEqual(complaints, [])


if __name__ == "__main__":
    main()
