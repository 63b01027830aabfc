#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every rule of scripts/lint.py sees the mistake it is there for, and accepts the right thing beside it."""
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True
import lint  # noqa: E402

SPDX = "// SPDX-License-Identifier: " + "Apache-2.0\n"
HEADER = SPDX + "#pragma once\n"

# One order in each of two functions.
TWO_PLACES = "void f() {\n    store_release(at, 1);\n}\nvoid g(int a,\n       int b) {\n    if (a < b) {\n        store_release(at, 1);\n    }\n}\n"
# Two operations: what is private, const or static, or makes the handle, is none.
WRITER = """template <record T>
class array : public base<array<T>, T> {
 public:
    static array attach(std::string_view uri, const options& how = {}) { return {}; }
    explicit array(segment from, const services& with = {}) : segment_(std::move(from)) {}
    array(array&&) noexcept = default;
    array& operator=(array&&) noexcept = default;
    ~array() { leave(); }
    void store(std::uint64_t index, const T& value = T{}) { put(index, value); }
    template <class Value>
        requires std::same_as<Value, T>
    void fill(const Value& value) noexcept(noexcept(T(value)));
    [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
    void put(std::uint64_t index, const T& value);
    std::uint64_t size_ = 0;
};
"""
# All of it const, and what it reads it notes where others see it.
NOTING_READER = """class noting_reader {
 public:
    [[nodiscard]] static noting_reader attach(std::string_view uri) { return noting_reader(uri); }
    explicit noting_reader(mapping memory) : table_(peers::open(*memory)), place_(table_.claim()) {}
    [[nodiscard]] bool find(std::uint64_t key) const noexcept { return noted(key); }
};
"""
QUERIES = """template <class Self, class K>
class hash_map_queries {
 public:
    [[nodiscard]] bool find(const K& key) const noexcept { return noted(key); }
    template <class Look>
    bool visit(const K& key, Look&& look) const { return noted(key); }
    [[nodiscard]] bool contains(const K& key) const noexcept { return visit(key, none); }
};
"""

# rule -> [(files of a small tree, number of findings)]; at least one case with findings and one without.
CASES = {
    "layers": [
        ({"include/holdfast/layout/a.hpp": '#include "holdfast/memory/b.hpp"\n', "include/holdfast/memory/b.hpp": ""}, 1),
        ({"include/holdfast/memory/b.hpp": '#include "holdfast/layout/a.hpp"\n', "include/holdfast/layout/a.hpp": ""}, 1),
        ({"include/holdfast/segment.hpp": '#include "holdfast/layout/a.hpp"\n', "include/holdfast/layout/a.hpp": ""}, 0),
        ({"include/holdfast/detail/a.hpp": "#include <holdfast/segment.hpp>\n", "include/holdfast/segment.hpp": ""}, 1),
        ({"include/holdfast/segment.hpp": '#include "holdfast/hash_table.hpp"\n', "include/holdfast/hash_table.hpp": ""}, 1),
        ({"include/holdfast/hash_table.hpp": '#include "holdfast/error.hpp"\n', "include/holdfast/error.hpp": ""}, 0),
        ({"include/holdfast/net/server.hpp": '#include "holdfast/queue.hpp"\n', "include/holdfast/queue.hpp": ""}, 1),
        ({"src/serve/a.cpp": '#include "inspect/b.hpp"\n', "src/inspect/b.hpp": ""}, 0),
        ({"src/inspect/b.hpp": '#include "serve/c.hpp"\n', "src/serve/c.hpp": ""}, 1),
        ({"src/serve/a.cpp": '#include "support/unique_name.hpp"\n', "tests/support/unique_name.hpp": ""}, 1),
        ({"include/holdfast/detail/novel.hpp": "#include <vector>\n"}, 0),
        ({"include/holdfast/novel.hpp": "#include <vector>\n"}, 1),
        ({"include/holdfast/error.hpp": '// #include "holdfast/segment.hpp"\n', "include/holdfast/segment.hpp": ""}, 0),
    ],
    "core_includes": [
        ({"include/holdfast/a.hpp": "#include <fmt/format.h>\n"}, 1),
        ({"include/holdfast/a.hpp": "#include <simdjson.h>\n"}, 1),
        ({"include/holdfast/a.hpp": "#include <vector>\n#include <sys/mman.h>\n#include <fcntl.h>\n#include <linux/memfd.h>\n"}, 0),
        ({"include/holdfast/perf_test/a.hpp": "#include <gtest/gtest.h>\n"}, 1),
        ({"include/holdfast/perf_test/gtest/a.hpp": "#include <gtest/gtest.h>\n"}, 0),
        ({"include/holdfast/perf_test.hpp": "#include <gtest/gtest.h>\n"}, 0),
        ({"include/holdfast/metrics/a.hpp": "#include <gtest/gtest.h>\n"}, 1),
    ],
    "memory_order": [
        ({"src/net/a.cpp": "void f() {\n    x.store(1, std::memory_order_release);\n}\n"}, 1),
        ({"src/net/a.cpp": "void f() {\n    x.store(1, std::memory_order::acq_rel);\n}\n"}, 1),
        ({"src/net/a.cpp": "void f() {\n    // W1, pairs with R1\n    x.store(1,\n            std::memory_order_release);\n}\n"}, 0),
        ({"src/net/a.cpp": "void f() {\n    x.store(1, std::memory_order_release);  // W1, pairs with R1\n}\n"}, 0),
        ({"src/net/a.cpp": "// far away\n\n\n\nvoid f() {\n    x.store(1, std::memory_order_release);\n}\n"}, 1),
        ({"src/net/a.cpp": 'void f() {\n    const char* s = "// not a comment";\n    x.store(1, std::memory_order_release);\n}\n'}, 1),
        ({"src/net/a.cpp": "void f() {\n    x.load(std::memory_order_relaxed);\n}\n"}, 1),
        ({"src/net/a.cpp": "// statistics only: relaxed\nvoid f() {\n    a();\n    b();\n    c();\n    x.load(std::memory_order_relaxed);\n}\n"}, 0),
        ({"src/net/a.cpp": "// x: counters are relaxed throughout\n#include <atomic>\n\n\n\nvoid f() {\n    x.load(std::memory_order_relaxed);\n}\n"}, 0),
        ({"src/net/a.cpp": "void g() {\n    // about g\n}\n\n\n\nvoid f() {\n    x.load(std::memory_order_relaxed);\n}\n"}, 1),
        ({"src/net/a.cpp": "class c {\n    void g() {\n        // about g\n    }\n\n\n\n    void f() {\n        x.load(std::memory_order_relaxed);\n    }\n};\n"}, 1),
        ({"src/net/a.cpp": "class alignas(64) c {\n    // ours alone to write\n    void f() {\n        a();\n        b();\n        d();\n        x.load(std::memory_order_relaxed);\n    }\n};\n"}, 0),
    ],
    "volatile": [
        ({"tests/unit/a_test.cpp": "volatile int x;\n"}, 1),
        ({"src/net/a.cpp": 'asm volatile("" ::: "memory");  // volatile\n'}, 0),
    ],
    "assert": [
        ({"src/net/a.cpp": "assert(x);\n"}, 1),
        ({"include/holdfast/a.hpp": "if (x) std::abort();\n"}, 1),
        ({"include/holdfast/a.hpp": "std::terminate();\n"}, 1),
        ({"include/holdfast/a.hpp": "static_assert(sizeof(x) == 8);\nassert(x);  // our own mistake: geometry() was not called first\n"}, 0),
        ({"tests/unit/a_test.cpp": "std::abort();\n"}, 0),
    ],
    "headers": [
        ({"include/holdfast/a.hpp": SPDX}, 1),
        ({"include/holdfast/a.hpp": HEADER + "#include <iostream>\n"}, 1),
        ({"src/net/a.hpp": HEADER + "using namespace std;\n"}, 1),
        ({"src/net/a.hpp": HEADER + "using std::string;\n", "src/net/a.cpp": "using namespace std::literals;\n"}, 0),
    ],
    "license_line": [
        ({"src/net/a.cpp": "\n" + SPDX}, 1),
        ({"scripts/a.py": "print()\n"}, 1),
        ({"tool": "#!/bin/sh\necho\n"}, 1),
        ({"src/net/a.cpp": SPDX, "tool": "#!/bin/sh\n" + SPDX.replace("//", "#"), "README.md": "", "web/a.html": "<!doctype html>\n<!-- " + SPDX + "-->"}, 0),
    ],
    "machine_paths": [
        ({"docs/a.md": "see /wo" + "rk/tree\n"}, 1),
        ({"src/net/a.cpp": 'open("/ho' + 'me/me/x");\n'}, 1),
        ({"docs/a.md": "https://example.org/ho" + "me/ and network/wo" + "rk and /run/holdfast\n"}, 0),
    ],
    "registry_hosts": [
        ({"docs/a.md": "from https://py" + "pi.org/simple\n"}, 1),
        ({"docs/a.md": "https://regi" + "stry.npm" + "js.org/x\n"}, 1),
        ({"dev": "wget http://de" + "b.debian.org/x\n"}, 1),
        ({"docs/a.md": "https://www.debian.org and apt-get install debian-keyring\n", "src/net/a.hpp": "// registry.hpp, see segment/registry.hpp\n"}, 0),
    ],
    "unfinished": [
        ({"src/net/a.cpp": "// TO" + "DO: more\n"}, 1),
        ({"docs/a.md": "solves is" + "sue 12\n"}, 1),
        ({"src/net/a.cpp": 'mkdtemp("/tmp/aXXXXXX");  // several issues, 12 of them\n'}, 0),
    ],
    "file_names": [
        ({"src/net/HttpServer.cpp": ""}, 1),
        ({"docs/a b.md": ""}, 1),
        ({"src/net/http_server.cpp": "", "docs/design/0001-tree.md": ""}, 0),
    ],
    "every_source_is_built": [
        ({"tests/unit/a_test.cpp": "", "tests/unit/b_test.cpp": "", "build/compile_commands.json": ["tests/unit/a_test.cpp"]}, 1),
        ({"fuzz/a_fuzz.cpp": "", "build/compile_commands.json": []}, 1),
        ({"src/net/a.cpp": "", "build/compile_commands.json": ["src/net/a.cpp"], "tests/consumer/app/main.cpp": ""}, 0),
        ({"src/net/a.cpp": "", "src/net/b.cpp": "", "build/net.dir/Unity/unity_0_cxx.cxx": '#include "ROOT/src/net/a.cpp"\n',
          "build/compile_commands.json": ["build/net.dir/Unity/unity_0_cxx.cxx"]}, 1),
        ({"tests/unit/a_test.cpp": "", "tests/unit/b_test.cpp": "", "build/tests/unit/ab.cpp": '#line 1 "ROOT/tests/unit/a_test.cpp"\n\n#line 1 "ROOT/tests/unit/b_test.cpp"\n',
          "build/compile_commands.json": ["build/tests/unit/ab.cpp"]}, 0),
    ],
    "python_tests_run": [
        ({"tests/other/a_test.py": ""}, 1),
        ({"tests/e2e/a_test.py": "", "tests/lint/b_test.py": ""}, 0),
    ],
    "links": [
        ({"docs/a.md": "[b](b.md)\n"}, 1),
        ({"docs/a.md": "[b](b.md#x) [c](https://example.org) [d](#x) ![e](../e.png)\n```\n[x](y)\n```\n", "docs/b.md": "", "e.png": ""}, 0),
    ],
    "one_version": [
        ({"CMakeLists.txt": "project(holdfast VERSION 1.2.3)", "include/holdfast/version.hpp": 'version_text = "1.2.3"'}, 1),
        ({"CMakeLists.txt": "project(holdfast VERSION 1.2.3)", "include/holdfast/version.hpp":
          '#define HOLDFAST_VERSION_MAJOR 1\n#define HOLDFAST_VERSION_MINOR 2\n#define HOLDFAST_VERSION_PATCH 3\nversion_text = "1.2.3"'}, 0),
    ],
    "umbrella": [
        ({"include/holdfast/holdfast.hpp": '#include "holdfast/a.hpp"\n', "include/holdfast/a.hpp": "", "include/holdfast/b.hpp": ""}, 1),
        ({"include/holdfast/holdfast.hpp": '#include "holdfast/a.hpp"\n', "include/holdfast/a.hpp": "", "include/holdfast/net/b.hpp": ""}, 0),
        ({"include/holdfast/holdfast.hpp": '#include "holdfast/a.hpp"\n', "include/holdfast/a.hpp": "", "include/holdfast/perf_test.hpp": ""}, 0),
    ],
    "order_places": [
        ({"docs/memory-orders.md": "| queue | a.hpp f | `x.store(1 \\| y);` | store release | survives: A | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1 | y);  // W1\n}\n"}, 0),
        ({"docs/memory-orders.md": "| queue | a.hpp f | `x.store(2);` | store release | caught | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 1),
        ({"docs/memory-orders.md": "| queue | a.hpp f (2) | `x.store(1);` | store release | caught | 9 |\n"}, 1),
        ({"tests/hooks/survivors.txt": "# why\nqueue | B | a.hpp f | x.store(1); | store release\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 0),
        ({"tests/hooks/survivors.txt": "queue | B | a.hpp g | x.store(1); | store release\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 1),
        ({"tests/hooks/survivors.txt": "asleep | G | a.hpp f | x.store(1); | store release\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `x.store(1);` | store release | a mix | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 0),
        ({"tests/hooks/survivors.txt": "asleep | G | a.hpp f | x.store(1); | store release\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `x.store(1);` | store release | survives: B | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 1),
        ({"docs/memory-orders.md": "Of 1 rows of an F, 1 lines.\n| queue | a.hpp f | `x.store(1);` | store release | survives: F | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 0),
        ({"docs/memory-orders.md": "Of 1 rows of an F, 1 lines.\n| queue | a.hpp f | `x.store(1);` | store release | survives: F | 9 |\n"
                                   "| held | a.hpp f | `x.store(1);` | store release | a mix | 9 |\n",
          "include/holdfast/a.hpp": "void f() {\n    x.store(1);\n}\n"}, 1),
    ],
    "order_rows": [
        ({"include/holdfast/a.hpp": "void f() {\n    x.store(1, std::memory_order_release);\n}\n"}, 1),
        ({"include/holdfast/a.hpp": "void f() {\n    x.store(1, std::memory_order_relaxed);  // memory_order_release\n}\n"}, 0),
        ({"include/holdfast/a.hpp": "void f() {\n    x.store(a | b, std::memory_order_release);\n}\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `x.store(a \\| b, std::memory_order_release);` | store release | a mix | 9 |\n"}, 0),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, a | b);\n}\n",
          "tests/hooks/unrelaxed.txt": "# S why\nS | a.hpp | store_release(at, a | b);\n"}, 0),
        ({"tests/hooks/unrelaxed.txt": "S | a.hpp | store_release(at, 1);\n"}, 1),
        ({"include/holdfast/a.hpp": TWO_PLACES,
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n"}, 1),
        ({"include/holdfast/a.hpp": TWO_PLACES,
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n"
                                   "| queue | a.hpp g | `store_release(at, 1);` | store release | a mix | 9 |\n"}, 0),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);\n}\nvoid g() {\n    store_release(at, 1);\n}\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n",
          "tests/hooks/unrelaxed.txt": "T | a.hpp | store_release(at, 1);\n"}, 0),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);  // W1\n    store_release(at, 1);\n}\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n"}, 1),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);  // W1\n    store_release(at, 1);\n}\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n"
                                   "| queue | a.hpp f (2) | `store_release(at, 1);` | store release | a mix | 9 |\n"}, 0),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);\n}\n", "tests/hooks/unrelaxed.txt": "S | a.hpp | store_release(at, 1);\n",
          "docs/memory-orders.md": "| queue | a.hpp f | `store_release(at, 1);` | store release | a mix | 9 |\n"}, 1),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);\n}\n",
          "tests/hooks/unrelaxed.txt": "X | a.hpp | store_release(at, 1);\n"}, 1),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);\n}\n", "docs/memory-orders.md": "By letter:\nS 2. Others:\n",
          "tests/hooks/unrelaxed.txt": "S | a.hpp | store_release(at, 1);\n"}, 1),
        ({"include/holdfast/a.hpp": "void f() {\n    store_release(at, 1);\n}\n", "docs/memory-orders.md": "By letter:\nS 1. Others:\n",
          "tests/hooks/unrelaxed.txt": "S | a.hpp | store_release(at, 1);\n"}, 0),
    ],
    "dependencies": [
        ({"src/cli/a.cpp": "#include <fmt/format.h>\n"}, 1),
        ({"src/cli/a.hpp": "#include <fmt/format.h>\n", "src/cli/b.cpp": "#include <fmt/core.h>\n", "docs/dependencies.md": "fmt `src/cli/a.hpp`"}, 1),
        ({"src/cli/a.hpp": "#include <fmt/format.h>\n#include <vector>\n", "docs/dependencies.md": "fmt `src/cli/a.hpp`"}, 0),
        ({"src/cli/a.hpp": "#include <fmt/core.h>\n", "src/net/b.cpp": "#include <fmt/core.h>\n", "docs/dependencies.md": "fmt `src/cli/a.hpp`"}, 1),
        ({"src/cli/a.hpp": "#include <fmt/core.h>\n", "src/net/b.cpp": "#include <fmt/core.h>\n",
          "docs/dependencies.md": "fmt `src/cli/a.hpp`, `src/net/b.cpp`"}, 0),
    ],
    "stepped": [
        ({"include/holdfast/array.hpp": WRITER, "tests/crash/image_kill_a.hpp": "a{[](wide_array& a) { a.store(3, 4); }};\n"}, 1),
        ({"include/holdfast/array.hpp": WRITER, "tests/crash/image_kill_a.hpp": "a{[&](array<T>& x) { x.store(3, 4), x.fill(1); }};\n"}, 0),
        ({"include/holdfast/array.hpp": WRITER, "tests/crash/image_kill_a.hpp": "a{[](wide_array& a) { a.store(3, 4); },\n"
          "afterwards(b([](wide_array& a) { a.fill(1); }))};\n"}, 1),
        ({"include/holdfast/array.hpp": WRITER, "tests/crash/image_kill_a.hpp": "a{[](session_table& a) { a.store(3, 4), a.fill(1); }};\n"}, 2),
        ({"include/holdfast/array.hpp": WRITER, "tests/crash/a_test.cpp": "a{[](wide_array& a) { a.store(3, 4), a.fill(1); }};\n"}, 2),
        ({"include/holdfast/array.hpp": "class other {};\n"}, 1),
        ({"include/holdfast/queue/new.hpp": WRITER.replace("class array", "class new_queue")}, 1),
        ({"include/holdfast/queue/new.hpp": WRITER.replace("class array", "class broadcast_reader")}, 0),
        ({"include/holdfast/queue/new.hpp": NOTING_READER}, 1),
        ({"include/holdfast/queue/new.hpp": NOTING_READER.replace("table_.claim()", "0")}, 0),
        ({"include/holdfast/hash_map/queries.hpp": QUERIES, "tests/crash/image_kill_a.hpp": "a{[](registered_text_reader& r) { (void)r.find(1); }};\n"}, 1),
        ({"include/holdfast/hash_map/queries.hpp": QUERIES, "tests/crash/image_kill_a.hpp": "a{[](text_map& r) { (void)r.find(1), r.visit(2); }};\n"}, 2),
        ({"include/holdfast/hash_map/queries.hpp": QUERIES,
          "tests/crash/image_kill_a.hpp": "a{[](registered_text_reader& r) { (void)r.find(1), r.visit(2); }};\n"}, 0),
    ],
    "format": [
        ({"src/net/a.cpp": "int   f( ) ;\n"}, 1),
        ({"src/net/a.cpp": "int f();\n"}, 0),
    ],
}


class EveryRule(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                if isinstance(text, list):  # a compilation database that names these files
                    text = json.dumps([{"directory": folder, "file": f} for f in text])
                (root / path).write_text(text.replace("ROOT/", f"{folder}/"))
            if rule == "format":
                (root / ".clang-format").write_text((ROOT / ".clang-format").read_text())
                (root / "build").mkdir(exist_ok=True)
                if (ROOT / "build/venv").exists():
                    (root / "build/venv").symlink_to(ROOT / "build/venv")
            return list(lint.RULES[rule](lint.Tree(root, root / "build")))

    def test_has_cases_that_fail_and_cases_that_pass(self):
        self.assertEqual(set(CASES), set(lint.RULES))
        for rule, cases in CASES.items():
            self.assertTrue(any(count for _, count in cases), rule)
            self.assertTrue(any(not count for _, count in cases), rule)


def case(rule):
    def run(self):
        for files, count in CASES[rule]:
            try:
                found = self.findings(rule, files)
            except lint.Unavailable as missing:
                self.skipTest(str(missing))
            self.assertEqual(len(found), count, f"{files}\n{found}")
    return run


for name in lint.RULES:
    setattr(EveryRule, f"test_{name}", case(name))

if __name__ == "__main__":
    unittest.main()
