# SPDX-License-Identifier: Apache-2.0
"""`./dev bench compare`: verdicts of pairs of runs that are known to be better, worse, alike or not comparable."""
import contextlib
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("HOLDFAST_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(SOURCE / "scripts"))
import bench_compare  # noqa: E402


def run(ratio=2.0, width=0.01, median=50.0, peers=("peer",)):
    results = [{"name": "s: e", "subject": "ours", "unit": "ns", "median": median, "p05": median * 0.9, "p95": median * 1.2, "runs": 100,
                "median_low": median * (1 - width), "median_high": median * (1 + width), "higher_is_better": False}]
    ratios = [{"name": "s: e", "subject": "ours", "peer": peer, "ratio": ratio, "low": ratio * (1 - width), "high": ratio * (1 + width)} for peer in peers]
    return {"schema": "holdfast-bench", "schema_version": 1, "machine": {"identity": "one"}, "quick": False, "results": results, "ratios": ratios,
            "versions": {peer: "1" for peer in peers}}


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) if hasattr(self, "enterContext") else self.fallback_folder()

    def fallback_folder(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        return pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))

    def compare(self, a, b, *options):
        paths = []
        for name, content in (("a.json", a), ("b.json", b)):
            path = self.folder / name
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            paths.append(str(path))
        return subprocess.run([sys.executable, str(SOURCE / "scripts/bench_compare.py"), *paths, *options], capture_output=True, text=True, timeout=60)

    def expect(self, word, a, b, *options, code=0):
        done = self.compare(a, b, *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"(?m)^{word}\s+s: e$")
        return done

    def refused(self, pattern, a, b, *options):
        done = self.compare(a, b, *options)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"\Abench compare: [^\n]*" + pattern + r"[^\n]*\n\Z")

    def test_tells_better_worse_same_and_unclear(self):
        self.expect("same", run(2.0), run(2.01))
        self.expect("better", run(2.0), run(2.4))
        self.expect("worse", run(2.0), run(1.7))
        self.expect("unclear", run(2.0, width=0.2), run(1.8, width=0.2))
        self.expect("unclear", run(2.0), run(1.9))  # at the least effect itself

    def test_of_too_few_samples_nothing_is_told(self):
        for peers in (("peer",), ()):
            a, b = run(2.0, width=0, median=50, peers=peers), run(1.8, width=0, median=70, peers=peers)
            for one in (a, b):
                self.few(one)
            done = self.expect("unclear", a, b, "--fail", "--absolute")
            self.assertIn("too few samples", done.stdout)
            self.expect("unclear", a, run(1.0, median=100, peers=peers), "--fail", "--absolute")
        a, b = run(2.0, width=0), run(1.0, width=0)
        for one in (a, b):  # told by the results alone, as files of other programs may
            self.few(one)
            del one["ratios"][0]["bounded"]
        self.expect("unclear", a, b, "--fail")

    def few(self, one):
        for entry in one["results"]:
            entry["runs"] = 1
            del entry["median_low"], entry["median_high"]
        for entry in one["ratios"]:
            entry["bounded"] = False

    def test_exact_counts_are_told_by_one(self):
        a, b = run(2.0, width=0), run(1.5, width=0)
        for one in (a, b):
            one["results"][0].update(runs=1, unit="bytes")
        self.expect("worse", a, b, "--fail", code=1)

    def test_fails_on_worse_only_when_asked(self):
        self.expect("worse", run(2.0), run(1.5), "--fail", code=1)
        self.expect("worse", run(2.0), run(1.5))
        self.expect("better", run(1.5), run(2.0), "--fail")
        self.expect("same", run(2.0), run(1.5), "--fail", "--min-effect", "50")

    def test_machine_that_became_slower_for_all_is_no_regression(self):
        self.expect("same", run(2.0, median=50), run(2.0, median=80), "--fail")

    def test_peers_that_disagree_leave_it_open(self):
        b = run(1.5, peers=("peer", "other"))
        b["ratios"][1].update(ratio=2.0, low=1.99, high=2.01)
        self.expect("unclear", run(2.0, peers=("peer", "other")), b, "--fail")

    def test_peer_of_another_version_is_not_compared(self):
        b = run(1.0)
        b["versions"]["peer"] = "2"
        done = self.expect("same", run(2.0), b, "--fail")
        self.assertIn("its version changed from 1 to 2", done.stdout)
        self.assertIn("by medians alone", done.stdout)

    def test_medians_count_only_when_asked(self):
        a, b = run(median=50, peers=()), run(median=70, peers=())
        self.expect("worse", a, b, "--fail")
        self.expect("worse", a, b, "--fail", "--absolute", code=1)
        for one in (a, b):
            one["results"][0]["higher_is_better"] = True
        self.expect("better", a, b, "--fail", "--absolute")

    def test_other_machines_and_formats_are_refused(self):
        other = run()
        other["machine"]["identity"] = "two"
        self.refused("different machines.*--force", run(), other)
        done = self.expect("same", run(), other, "--force")
        self.assertIn("mind: they are of different machines", done.stdout)
        quick = run()
        quick["quick"] = True
        self.refused("--quick", run(), quick)
        newer = run()
        newer["schema_version"] = 2
        self.refused("version 2 of the format", run(), newer, "--force")
        self.refused("no result of ./dev bench", run(), {"schema": "other"})

    def test_files_that_are_wrong_are_refused(self):
        self.refused("is not JSON", run(), "{")
        self.refused("is not JSON", run(), "[" * 100_000)
        self.refused("no result", run(), "[]")
        for damage in ({"ratios": 1}, {"results": [1]}, {"machine": 3}, {"ratios": [{"name": "x"}]},
                       {"ratios": [dict(run()["ratios"][0], low=float("nan"))]}, {"ratios": [dict(run()["ratios"][0], low=0)]},
                       {"results": [dict(run()["results"][0], median="50")]}, {"results": [dict(run()["results"][0], median=-1)]},
                       {"results": [dict(run()["results"][0], median=True)]}, {"results": [dict(run()["results"][0], name=None)]}):
            self.refused("", run(), {**copy.deepcopy(run()), **damage})
        other = run()
        for entry in other["results"] + other["ratios"]:
            entry["name"] = "s: f"
        self.refused("no experiment in common", run(), other)

    def test_files_that_are_missing_and_options_that_are_not_there(self):
        tool = [sys.executable, str(SOURCE / "scripts/bench_compare.py")]
        for words, pattern in ((["none.json", "none.json"], "No such file"), (["a"], "required"), (["a", "b", "--nonsense"], "unrecognized"),
                               (["a", "b", "--min-effect", "-1"], "percentage")):
            done = subprocess.run(tool + words, capture_output=True, text=True, timeout=60, cwd=self.folder)
            self.assertEqual(done.returncode, 2, words)
            self.assertRegex(done.stderr, r"\Abench compare: [^\n]*" + pattern)

    def test_hostile_names_reach_no_terminal(self):
        a = run()
        for entry in a["results"] + a["ratios"]:
            entry["name"] = "s: e\x1b[31m"
        done = self.compare(a, a)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\x1b", done.stdout)
        self.assertIn("\\x1b[31m", done.stdout)

    def test_interval_of_a_change_covers_the_truth(self):
        """Two noisy estimates of one ratio: the interval must miss 1 about as rarely as its parts miss their truths."""
        seed = int(os.environ.get("HOLDFAST_TEST_SEED", random.randrange(1 << 30)))
        print(f"seed {seed}")
        draw, missed, rounds = random.Random(seed), 0, 4000
        for _ in range(rounds):
            pair = []
            for spread in (0.02, 0.05):
                value = 2.0 * draw.lognormvariate(0, spread)
                half = 1.96 * spread
                pair.append((value, value * 2.718281828 ** -half, value * 2.718281828 ** half))
            _, low, high = bench_compare.change(*pair)
            missed += not low <= 1 <= high
        self.assertLess(abs(missed / rounds - 0.05), 0.02)  # more than five standard errors


if __name__ == "__main__":
    from serve_support import main
    main()
