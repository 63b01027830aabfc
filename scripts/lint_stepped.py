# SPDX-License-Identifier: Apache-2.0
"""What the containers' writers can be asked to change, read from their headers; and what of it the rigs of tests/crash/image_kill_*.hpp step,
read from them: the calls in a lambda that takes the handle, `[](session_table& t) { (void)t.erase(9); }`. What is done behind a death
(`afterwards(...)`) is not stepped."""
import re

# handle -> its header below include/holdfast/ and the class there; then those of a base that brings operations
HANDLES = {
    "array": ("array.hpp", "array"),
    "dynamic_array": ("array/dynamic.hpp", "dynamic_array"),
    "small_table": ("small_table.hpp", "small_table"),
    "hash_table": ("hash_table.hpp", "hash_table", "hash_table/changes.hpp", "hash_table_changes"),
    "hash_table of many writers": ("hash_table/many.hpp", "hash_table", "hash_table/changes.hpp", "hash_table_changes"),
    "growing_hash_table": ("hash_table/growing.hpp", "growing_hash_table", "hash_table/changes.hpp", "hash_table_changes"),
    "dynamic_hash_table": ("hash_table/dynamic.hpp", "dynamic_hash_table"),
    "block_store": ("block_store/mutations.hpp", "block_store_mutations"),
    "block_store of many writers": ("block_store/mutations.hpp", "block_store_mutations", "block_store/many.hpp", "basic_block_store"),
    "hash_map": ("hash_map.hpp", "hash_map"),
    "hash_map of many writers": ("hash_map/many.hpp", "hash_map"),
    "hash_map_registered_reader": ("hash_map/registered_reader.hpp", "hash_map_registered_reader", "hash_map/queries.hpp", "hash_map_queries"),
    "queue_producer": ("queue/producer.hpp", "queue_producer"),
    "queue_consumer": ("queue/consumer.hpp", "queue_consumer"),
    "queue<T>::producer": ("queue/typed.hpp", "queue<T>::producer"),
    "queue<T>::consumer": ("queue/typed.hpp", "queue<T>::consumer"),
    "broadcast_writer": ("broadcast/writer.hpp", "broadcast_writer"),
    "broadcast_reliable_reader": ("broadcast/reliable_reader.hpp", "broadcast_reliable_reader"),
    "snapshot_writer": ("snapshot/writer.hpp", "snapshot_writer"),
    "snapshot_pinned_reader": ("snapshot/pinned_reader.hpp", "snapshot_pinned_reader"),
    "sorted_index_publisher": ("sorted_index/publisher.hpp", "sorted_index_publisher"),
}

# Of a class: const, and yet they store. A registered reader notes in its place what they find.
NOTED = {"hash_map_queries": {"find", "visit"}}

# Classes that attach and have operations that are not const, but store nothing that others see, or hand all of it to one of those above.
OTHERS = {"small_table_reader", "growing_hash_table_reader", "broadcast_reader", "snapshot_reader", "snapshot", "snapshot<T>::reader",
          "snapshot<T>::pinned_reader", "sorted_index_reader", "dynamic_sorted_index_reader", "dynamic_sorted_index_publisher", "inbox_client"}
CONTAINERS = "array|block_store|broadcast|hash_map|hash_table|inbox|queue|small_table|snapshot|sorted_index"

# What the rigs call them.
KNOWN_AS = {
    "wide_array": ["array"], "array<T>": ["array"], "array<u64>": ["array"], "session_lines": ["small_table"], "session_table": ["hash_table"],
    "Table": ["hash_table", "hash_table of many writers"],
    "Changing": ["hash_table", "hash_table of many writers", "growing_hash_table"],
    "Recounted": ["hash_table", "hash_table of many writers", "growing_hash_table", "dynamic_hash_table"],
    "Growing": ["growing_hash_table", "hash_table of many writers", "dynamic_hash_table"], "many_sessions": ["hash_table of many writers"],
    "growing_sessions": ["growing_hash_table"], "Store": ["block_store", "block_store of many writers"],
    "many_blocks": ["block_store of many writers"], "text_map": ["hash_map"], "Map": ["hash_map", "hash_map of many writers"],
    "many_texts": ["hash_map of many writers"], "producer_of": ["queue_producer", "queue<T>::producer"],
    "consumer_of": ["queue_consumer", "queue<T>::consumer"], "record_producer": ["queue<T>::producer"],
    "record_consumer": ["queue<T>::consumer"], "maybe_reader": ["broadcast_reliable_reader"],
    "registered_text_reader": ["hash_map_registered_reader"],
    "golden::span_index_publisher": ["sorted_index_publisher"],
}

# They change what the handle knows, and nothing that is shared. grow() begins another segment: what it clears away of a leader that died is
# killed at each system call (tests/crash/hash_table_grow_test.cpp).
LOCAL = {"set_patience", "grow"}
LOCAL_OF = {"growing_hash_table": {"stop_growing"}}


def body_of(code, name):
    """What stands between the braces of a class; templates' and specialisations' arguments may follow its name."""
    head = re.search(r"\bclass " + re.escape(name) + r"(?:<[\w:, ]*>)?(?: final)?\s*(?::[^;{]*)?\{", code)
    return code[head.end():end_of(code, head.end())] if head else None


def end_of(code, begin, pair="{}"):
    """Where the bracket that was opened before `begin` closes."""
    depth = 1
    for at in range(begin, len(code)):
        depth += (code[at] == pair[0]) - (code[at] == pair[1])
        if depth == 0:
            return at
    return len(code)


def declarations(body):
    """The heads of all that is declared public: text up to a body or a semicolon."""
    head, at, public = "", 0, False
    while at < len(body):
        inside = head.count("(") > head.count(")")  # of arguments, where a default may have braces
        label = re.match(r"\b(public|protected|private):", body[at:])
        if label and not head.strip():
            public, at = label[1] == "public", at + label.end()
        elif body[at] in "{;" and not inside:
            if public:
                yield " ".join(head.split())
            at = end_of(body, at + 1) + 1 if body[at] == "{" else at + 1
            head = ""
        else:
            head, at = head + body[at], at + 1


def operations(code, name):
    """The public member functions that are not const: whoever may change what is shared is among them."""
    body = body_of(code, name)
    if body is None:
        return None
    found = set()
    own = name.rpartition("::")[2]
    for head in declarations(body):
        function = re.search(r"(?<![\w~])([a-z]\w*)\((.*)", re.sub(r"\[\[.*?\]\]|\brequires\b[^()]*<[^()]*>\s", "", head))
        if not function or re.match(r"(template ?<.*?> )?(\[\[.*\]\] )?(static|friend|using|struct|class|enum|explicit)\b", head):
            continue
        arguments = function[2][:end_of(function[2], 0, "()")]
        rest = function[2][len(arguments) + 1:]
        if function[1] not in (own, "operator", "requires") and "operator" not in head and not rest.lstrip().startswith("const"):
            found.add(function[1])
    return found


def calls(code):
    """{handle as the rig calls it: members called} of all lambdas that take one, but for those within afterwards()."""
    while behind := re.search(r"\bafterwards\(", code):
        code = code[:behind.start()] + code[end_of(code, behind.end(), "()") + 1:]
    found = {}
    for taking in re.finditer(r"\]\s*\((?:const )?([\w:]+(?:<\w+>)?)& (\w+)\)[^{;]*\{", code):
        body = code[taking.end():end_of(code, taking.end())]
        members = re.findall(rf"\b{taking[2]}(?:\.|->)(?:template )?(\w+)(?:<\w+>)?\(", body)
        found.setdefault(taking[1], set()).update(members)
    return found


def unknown_handles(tree):
    known = OTHERS | {name for places in HANDLES.values() for name in places[1::2]}
    for path in tree.cpp("include/holdfast/"):
        if not re.match(rf"include/holdfast/(?:{CONTAINERS})[./]", path):
            continue
        code = "\n".join(tree.source(path).code)
        for head in re.finditer(r"\bclass (\w+(?:<\w+>::\w+)?)(?:<[\w:, ]*>)?\s*(?::[^;{:][^;{]*)?\{", code):
            body = code[head.end():end_of(code, head.end())]
            stores = operations(code, head[1]) or re.search(r"\.claim\(\)", body)  # takes a place among registered readers
            if head[1] not in known and re.search(r"\bstatic \w+ attach\(", body) and stores:
                yield path, code.count("\n", 0, head.start()) + 1, f"{head[1]} attaches and may change what is shared: scripts/lint_stepped.py has to know it"


def check(tree):
    yield from unknown_handles(tree)
    rigs = [p for p in tree.cpp("tests/crash/") if re.search(r"/image_kill_\w+\.hpp$", p)]
    stepped = {}
    for path in rigs:
        for handle, members in calls("\n".join(tree.source(path).code)).items():
            for known in KNOWN_AS.get(handle, [handle]):
                stepped.setdefault(known, set()).update(members)
    for handle, places in HANDLES.items():
        for header, name in zip(places[::2], places[1::2]):
            path = "include/holdfast/" + header
            if path not in tree.paths and "include/holdfast/holdfast.hpp" not in tree.paths:
                continue  # a part of a tree
            there = operations("\n".join(tree.source(path).code), name) if path in tree.paths else None
            if there is None:
                yield path, 1, f"class {name} is not where scripts/lint_stepped.py looks for it"
                continue
            for operation in sorted((there | NOTED.get(name, set())) - LOCAL - LOCAL_OF.get(handle, set()) - stepped.get(handle, set())):
                line = next(n for n, text in enumerate(tree.source(path).code, 1) if re.search(rf"\b{operation}\(", text))
                yield path, line, f"{operation}() of {handle} is stepped nowhere: name it in a case of tests/crash/image_kill_*.hpp"
