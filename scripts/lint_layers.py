# SPDX-License-Identifier: Apache-2.0
"""The layers of the tree and who may include whom. An arrow here is also one along every chain of arrows below it."""
import os
import re

# layer -> the layers directly below it. Nothing may include what does not stand in its closure (its own layer it may).
BELOW = {
    "base": [],                              # L0: detail/, error.hpp, outcome.hpp, version.hpp
    "layout": ["base"],                      # L1: bytes, no system calls
    "memory": ["base"],                      # L1: system calls, no container knowledge; blind to layout
    "segment": ["layout", "memory"],         # L2: layout + memory + lease
    "record": ["base"],                      # L2: the schema of a value
    "containers": ["segment", "record"],     # L3
    "metrics": ["segment"],                  # L3
    "executor": ["base"],                    # L3
    "perf_test": ["metrics", "record"],      # side branches
    "net": ["executor", "metrics"],
    "host": ["base"],
    "umbrella": ["containers", "metrics", "executor"],  # holdfast.hpp
    "inspect": ["containers", "metrics"],    # L4
    "workload": ["containers", "net", "perf_test"],
    "serve": ["containers", "metrics", "net", "inspect"],
    "doctor": ["host"],
    "tune": ["host"],
    "replicate": ["containers", "net"],
    "cli": ["inspect", "workload", "serve", "doctor", "tune", "replicate"],  # L5
    "python": ["containers", "inspect"],
}

# A path belongs to the first pattern that matches it.
PLACES = [
    (r"include/holdfast/(?:detail/.*|error\.hpp|outcome\.hpp|version\.hpp)", "base"),
    (r"include/holdfast/(layout|memory|metrics|executor|perf_test|net|record|segment)/.*", None),
    (r"include/holdfast/(?:segment|lease|peers|registry)\.hpp", "segment"),
    (r"include/holdfast/record\.hpp", "record"),
    (r"include/holdfast/(?:array|queue|broadcast|snapshot|hash_table|hash_map|block_store|small_table|sorted_index|inbox)(?:/.*|\.hpp)", "containers"),
    (r"include/holdfast/net\.hpp", "net"),
    (r"include/holdfast/holdfast\.hpp", "umbrella"),
    (r"include/(?:holdfast/perf_test\.hpp|gtestx/gtestx\.h)", "perf_test"),
    (r"src/(net|perf_test|host|inspect|serve|workload|doctor|tune|replicate|cli)/.*", None),
    (r"python/.*", "python"),
]

STD = set("""algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale cmath
codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar
cwchar cwctype deque exception execution filesystem format forward_list fstream functional future initializer_list iomanip ios iosfwd
iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric optional ostream queue random
ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string
string_view syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant
vector version cxxabi.h""".split())

# Headers of the C library, of Linux and of the compiler itself.
LINUX = re.compile(r"(?:sys|linux|asm|asm-generic|netinet|arpa|net)/[\w./-]+\.h|"
                   r"(?:unistd|fcntl|errno|signal|poll|pthread|sched|semaphore|spawn|stdio|stdint|stdlib|string|strings|time|dirent|grp|pwd|"
                   r"netdb|limits|malloc|link|dlfcn|execinfo|elf|endian|byteswap|features|ucontext|setjmp|stddef|termios|getopt|syslog|mntent|"
                   r"immintrin|x86intrin|emmintrin|nmmintrin|arm_neon|arm_acle|cpuid)\.h|sanitizer/\w+\.h")


def is_system(name):
    return name in STD or bool(LINUX.fullmatch(name))


def layer_of(path):
    for pattern, layer in PLACES:
        match = re.fullmatch(pattern, path)
        if match:
            return layer or match[1]
    return None


def closure(layer):
    reached, waiting = set(), [layer]
    while waiting:
        current = waiting.pop()
        if current not in reached:
            reached.add(current)
            waiting += BELOW[current]
    return reached


def check(tree, path, name, quoted):
    """What is wrong with `path` including `name`, or None."""
    layer = layer_of(path)
    if layer is None:
        return f"{path} belongs to no layer: add its place to scripts/lint_layers.py"
    if not quoted and not name.startswith("holdfast/"):
        return None
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    target = next((c for c in (beside, "include/" + name, "src/" + name) if (tree.root / c).is_file()), None)
    if target is None:
        return f'"{name}" is neither beside this file nor in include/ or src/: shipped code includes nothing else of the tree'
    below = layer_of(target)
    if below is None:
        return f"{target} belongs to no layer that shipped code may include"
    if below not in closure(layer):
        allowed = ", ".join(sorted(closure(layer) - {layer})) or "nothing"
        return f"{layer} may not include {below} ({target}); below {layer} lie: {allowed}"
    return None
