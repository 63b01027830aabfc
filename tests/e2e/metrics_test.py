# SPDX-License-Identifier: Apache-2.0
"""GET /metrics as its readers see it: promtool for the text format, prometheus-client for OpenMetrics, and Prometheus servers that
scrape it, one of them by protobuf. None of them is ours, so none shares a misunderstanding with the writer."""
import http.client
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import unittest
import urllib.parse
import urllib.request

from serve_support import Load, Segments, Server, main, skip_all, wait_until

try:
    from prometheus_client import parser as text_parser
    from prometheus_client.openmetrics import parser as openmetrics_parser
except ImportError:
    skip_all("the Python package prometheus-client; ./dev setup installs it")

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(message):
    """The fields of a protobuf message: {number: [values]}; what is a message itself stays bytes."""
    found, at = {}, 0
    while at < len(message):
        key, at = varint(message, at)
        if key & 7 == 0:
            value, at = varint(message, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<d", message, at)[0], at + 8
        else:
            assert key & 7 == 2, key
            size, at = varint(message, at)
            value, at = message[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def zigzag(value):
    return value >> 1 ^ -(value & 1)


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.segments = Segments()
        cls.addClassCleanup(cls.segments.close)
        cls.geo = cls.segments.load_index("geo4", [("6.0.0.0", "6.255.255.255", "US"), ("8.0.0.0", "8.255.255.255", "DE")])
        cls.server = Server(cls.segments, "--count", f"{cls.geo}=country")
        cls.addClassCleanup(cls.server.close)
        paths = [f"/v1/indexes/{cls.geo}/6.1.1.1", f"/v1/indexes/{cls.geo}/8.1.1.1", f"/v1/indexes/{cls.geo}/6.2.2.2"]
        load = Load(cls.server, paths, clients=2)
        wait_until("some load", lambda: load.answers > 300)
        cls.answers = load.stop().answers
        for _ in range(5):
            cls.server.ask(f"/v1/indexes/{cls.geo}/1.1.1.1")

    def metrics(self, accept=None):
        status, headers, body = self.server.ask("/metrics", **({"Accept": accept} if accept else {}))
        self.assertEqual(status, 200)
        return headers["Content-Type"], body

    def check_samples(self, families):
        """What was asked is what is told, in whichever format it was parsed from."""
        samples = [sample for family in families for sample in family.samples]
        self.assertEqual(len({(s.name, tuple(sorted(s.labels.items()))) for s in samples}), len(samples), "a series comes twice")

        def total(name, **labels):
            return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())
        route = "/v1/indexes/{segment}/{key}"
        self.assertEqual(total("holdfast_http_requests_total", route=route, status="2xx"), self.answers)
        self.assertEqual(total("holdfast_http_requests_total", route=route, status="4xx"), 5)
        self.assertEqual(total("holdfast_index_lookups_total", segment=self.geo, result="hit"), self.answers)
        self.assertEqual(total("holdfast_index_lookups_total", segment=self.geo, result="miss"), 5)
        us, de = (total("holdfast_index_lookups_by_value_total", segment=self.geo, field="country", value=v) for v in ("US", "DE"))
        self.assertEqual(us + de, self.answers)
        self.assertGreater(us, de)
        self.assertEqual(total("holdfast_http_request_duration_seconds_count"), self.answers + 5)
        self.assertEqual(total("holdfast_http_request_duration_seconds_bucket", le="+Inf"), self.answers + 5)
        self.assertGreater(total("holdfast_http_request_duration_seconds_sum"), 0)
        self.assertEqual(total("holdfast_segment_up", segment=self.geo), 1)
        self.assertEqual(total("holdfast_segment_entries", segment=self.geo), 2)
        self.assertEqual(total("holdfast_segment_version", segment=self.geo), 1)
        self.assertEqual(total("holdfast_build_info"), 1)
        buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name == "holdfast_http_request_duration_seconds_bucket"]
        self.assertEqual(buckets, sorted(buckets), "buckets ascend in bound and in count")
        self.assertGreater(len(buckets), 20)

    def test_text_format_is_read_by_prometheus_client(self):
        kind, body = self.metrics()
        self.assertEqual(kind, TEXT)
        families = list(text_parser.text_string_to_metric_families(body))
        self.check_samples(families)
        self.assertTrue(all(family.documentation for family in families))

    def test_text_format_passes_promtool(self):
        if not shutil.which("promtool"):
            self.skipTest("needs promtool; ./dev setup fetches it")
        _, body = self.metrics()
        self.assertGreater(len(body), 2000)  # promtool takes an empty text for a good one
        checked = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True, timeout=60)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))

    def test_openmetrics_is_read_by_the_strict_parser(self):
        kind, body = self.metrics("application/openmetrics-text; version=1.0.0")
        self.assertEqual(kind, OPENMETRICS)
        self.assertTrue(body.endswith("# EOF\n"))
        families = list(openmetrics_parser.text_string_to_metric_families(body))
        self.check_samples(families)
        kinds = {family.name: family.type for family in families}
        self.assertEqual(kinds["holdfast_http_requests"], "counter")
        self.assertEqual(kinds["holdfast_http_request_duration_seconds"], "histogram")
        self.assertEqual(kinds["holdfast_build"], "info")
        self.assertEqual(kinds["holdfast_segment_bytes"], "gauge")

    def test_accept_chooses_the_format(self):
        prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        cases = [(prometheus, OPENMETRICS), ("*/*", TEXT), ("text/html", TEXT), ("text/plain", TEXT), ("application/openmetrics-text", OPENMETRICS),
                 ("application/openmetrics-text;q=0.4, text/plain;q=0.5", TEXT), ("application/openmetrics-text;q=0, */*", TEXT),
                 ("Application/OpenMetrics-Text ; Version=\"1.0.0\" ; Q=0.9 , text/plain;q=0.2", OPENMETRICS),
                 ("application/openmetrics-text;version=0.0.1", TEXT), ("application/vnd.google.protobuf", TEXT), ("application/openmetrics-text;q=2", TEXT), (",,;;q=,\"", TEXT)]
        for accept, expected in cases:
            self.assertEqual(self.metrics(accept)[0], expected, accept)

    def protobuf(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        self.addCleanup(connection.close)
        connection.request("GET", "/metrics", headers={"Accept": PROTOBUF})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, PROTOBUF))
        data, at, families = answer.read(), 0, {}
        while at < len(data):
            size, at = varint(data, at)
            family = fields(data[at:at + size])
            families[family[1][0].decode()] = family
            at += size
        return families

    def test_protobuf_says_what_the_text_says(self):
        # Counts of the loops are up to 50 ms late, and workers register some as they are first needed: two scrapes
        # that such a change comes between are compared anew.
        for _ in range(20):
            try:
                return self.compare_formats()
            except AssertionError as differs:
                last = differs
        raise last

    def compare_formats(self):
        families = self.protobuf()
        _, body = self.metrics()
        kinds = {"counter": 0, "gauge": 1, "summary": 2, "histogram": 4}
        for told in text_parser.text_string_to_metric_families(body):
            name = told.name + "_total" if told.type == "counter" else told.name
            self.assertIn(name, families)
            self.assertEqual(families[name][3], [kinds[told.type]], name)
            if told.type not in ("counter", "gauge") or name.startswith("holdfast_http"):
                continue  # requests for /metrics are counted too
            expected = {tuple(sorted(sample.labels.items())): sample.value for sample in told.samples}
            found = {}
            for metric in map(fields, families[name][4]):
                labels = tuple(sorted((pair[1][0].decode(), pair[2][0].decode()) for pair in map(fields, metric.get(1, []))))
                found[labels] = fields(metric[3 if told.type == "counter" else 2][0])[1][0]
            self.assertEqual(found, expected, name)

    def test_protobuf_histogram_is_native_and_classic(self):
        histogram = fields(fields(self.protobuf()["holdfast_http_request_duration_seconds"][4][0])[7][0])
        self.assertEqual(histogram[1], [self.answers + 5])
        classic = [fields(bucket) for bucket in histogram[3]]
        self.assertGreater(len(classic), 20)
        self.assertEqual(zigzag(histogram[5][0]), 5)
        deltas = [zigzag(delta) for delta in histogram[13]]
        lengths = [fields(span)[2][0] for span in histogram[12]]
        self.assertEqual(sum(lengths), len(deltas))
        counts = [sum(deltas[:i + 1]) for i in range(len(deltas))]
        self.assertEqual(sum(counts) + histogram[7][0], self.answers + 5)
        self.assertTrue(all(count > 0 for count in counts))

    def prometheus(self, name, *flags):
        """A Prometheus server that scrapes ours; answers queries by their first value."""
        if not shutil.which("prometheus"):
            self.skipTest("needs prometheus; ./dev setup fetches it")
        folder = self.segments.directory / name
        folder.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n- job_name: holdfast\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{self.server.port}']}}]\n")
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                        f"--web.listen-address=127.0.0.1:{port}", "--web.console.templates=", "--web.console.libraries=", *flags],
                                       stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def query(expression):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}", timeout=5) as answer:
                    result = json.load(answer)["data"]["result"]
            except OSError:
                return None  # not up yet
            return float(result[0]["value"][1]) if result else None
        wait_until("the scrape succeeds", lambda: query('up{job="holdfast"}') == 1.0, 60)
        self.assertEqual(query("sum(holdfast_index_lookups_total)"), self.answers + 5)
        self.assertNotIn("Error on ingesting", pathlib.Path(folder / "log").read_text())
        return query

    def test_a_prometheus_server_scrapes_it(self):
        query = self.prometheus("prometheus")
        self.assertEqual(query("sum(holdfast_http_request_duration_seconds_count)"), self.answers + 5)
        median = query("histogram_quantile(0.5, sum by (le) (holdfast_http_request_duration_seconds_bucket))")
        self.assertTrue(0 < median < 1, median)

    def test_a_prometheus_server_scrapes_native_histograms(self):
        query = self.prometheus("native", "--enable-feature=native-histograms")
        self.assertEqual(query("histogram_count(holdfast_http_request_duration_seconds)"), self.answers + 5)
        status, _, body = self.server.ask("/v1/stats")
        self.assertEqual(status, 200)
        latency = json.loads(body)["latency"]
        self.assertAlmostEqual(query("histogram_sum(holdfast_http_request_duration_seconds)"), latency["sum_ns"] / 1e9, places=9)
        for quantile, key in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            exact = latency[key]["estimate_ns"] / 1e9  # within a bucket of theirs, 2.2 %, and half of ours, 0.8 %
            self.assertLess(abs(query(f"histogram_quantile({quantile}, holdfast_http_request_duration_seconds)") / exact - 1), 0.031, key)


if __name__ == "__main__":
    main()
