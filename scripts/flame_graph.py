#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of a profile as one HTML page to click through.

usage: flame_graph.py INPUT --format folded|perf|callgrind [--title TEXT] [--unit samples|instructions] [--html FILE] [--folded FILE]

INPUT: folded   lines of "outermost;...;innermost COUNT"
       perf     what `perf script -F comm,ip,sym` prints
       callgrind  an output file of valgrind's callgrind: it knows callers of functions and no whole stacks, so a function's cost is shared
                out over its callers in proportion to their calls' cost
The page loads nothing. A frame is as wide as its share; click to go into one, click the one at the bottom to go back, type to search.
"""
import argparse
import html
import json
import re
import sys

DEPTH_MAX = 200
LEAST_SHARE = 0.0005  # narrower than a pixel: left out


def folded_stacks(lines):
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        if not line:
            continue
        stack, _, count = line.rpartition(" ")
        if not stack or not count.isdigit():
            raise ValueError(f"line {number} is not STACK COUNT: {line[:60]!r}")
        yield stack.split(";"), int(count)


def perf_stacks(lines):
    """A sample is a line with the command, then a frame a line, innermost first, then an empty line."""
    command, frames = None, []
    for line in lines:
        line = line.rstrip("\n")
        if not line.strip():
            if command is not None:
                yield [command, *reversed(frames)], 1
            command, frames = None, []
        elif command is None:
            command = line.split("  ")[0].strip().rstrip(":") or "unknown"
        else:
            frame = re.match(r"\s*[0-9a-f]+\s+(.*)", line)
            frames.append((frame[1] if frame and frame[1] else line.strip()).split("+0x")[0].replace(";", ":"))
    if command is not None:
        yield [command, *reversed(frames)], 1


def read_callgrind(lines):
    """(own cost by function, cost of each call by (caller, callee)); positions and costs as in valgrind's manual, section 17.3."""
    names, own, calls = {}, {}, {}
    current = callee = None
    call_line = False
    column = 1  # of the cost: behind the positions, of which there are two with --dump-instr=yes

    def name_of(text):
        match = re.match(r"\((\d+)\)\s*(.*)", text)
        if not match:
            return text
        if match[2]:
            names[match[1]] = match[2]
        return names.get(match[1], f"({match[1]})")

    for line in lines:
        line = line.strip()
        if line.startswith("positions:"):
            column = len(line.split()) - 1
        elif line.startswith("fn="):
            current = name_of(line[3:])
        elif line.startswith("cfn="):
            callee = name_of(line[4:])
        elif line.startswith("calls="):
            call_line = True
        elif line and current is not None and (line[0].isdigit() or line[0] in "+-*"):
            fields = line.split()
            cost = int(fields[column]) if len(fields) > column and fields[column].isdigit() else 0
            if call_line:
                calls[(current, callee)] = calls.get((current, callee), 0) + cost
                call_line = False
            else:
                own[current] = own.get(current, 0) + cost
    return own, calls


def callgrind_stacks(lines):
    own, calls = read_callgrind(lines)
    callees, called = {}, {}
    for (caller, callee), cost in calls.items():
        callees.setdefault(caller, []).append((callee, cost))
        if caller != callee:
            called[callee] = called.get(callee, 0) + cost
    inclusive = {f: own.get(f, 0) + sum(c for g, c in callees.get(f, []) if g != f) for f in {*own, *callees, *called}}
    total = sum(own.values()) or 1
    stacks = []

    def walk(function, share, stack):
        """`share` of this function's inclusive cost belongs to this stack. A repeated function ends the walk: recursion has no shape here."""
        cost = own.get(function, 0) * share
        if cost >= 1:
            stacks.append((stack, round(cost)))
        for callee, part in callees.get(function, []):
            part *= share
            if callee in stack or part < total * LEAST_SHARE or len(stack) >= DEPTH_MAX or not inclusive.get(callee):
                if part >= 1 and callee != function:
                    stacks.append(([*stack, callee], round(part)))
                continue
            walk(callee, part / inclusive[callee], [*stack, callee])

    for function in sorted(inclusive):
        rest = inclusive[function] - called.get(function, 0)
        if rest > total * LEAST_SHARE:
            walk(function, rest / inclusive[function], [function])
    return stacks


def tree_of(stacks):
    """Nested [name, count, children by name]."""
    root = ["all", 0, {}]
    for stack, count in stacks:
        node = root
        node[1] += count
        for name in stack[:DEPTH_MAX]:
            node = node[2].setdefault(name, [name, 0, {}])
            node[1] += count
    return root


def pruned(node, least):
    children = sorted((pruned(c, least) for c in node[2].values() if c[1] >= least), key=lambda c: (-c[1], c[0]))
    return [node[0], node[1], children]


STYLE = """:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--faint:#57606a;--dim:#d8dde3;--found:#7a2fb5}
@media (prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--faint:#9aa5b1;--dim:#2b3138;--found:#d3a6ff}}
body{margin:0;padding:1rem;background:var(--back);color:var(--text);font:14px/1.4 system-ui,sans-serif}h1{font-size:1.2rem;margin:0 0 .3rem}
p{margin:.2rem 0;color:var(--faint)}input{font:inherit;margin:.4rem 0;width:20rem;max-width:100%}#what{min-height:1.4em;overflow-wrap:anywhere}
#graph{position:relative;width:100%}#graph button{position:absolute;height:18px;border:0;border-radius:2px;padding:0 3px;margin:0;overflow:hidden;
white-space:nowrap;text-align:left;font:12px system-ui,sans-serif;color:#1b1f24;cursor:pointer}#graph button.above{opacity:.55}
#graph button.found{outline:2px solid var(--found);outline-offset:-2px}"""

SCRIPT = """const data=JSON.parse(document.getElementById('data').textContent),unit=document.body.dataset.unit,graph=document.getElementById('graph');
const what=document.getElementById('what'),search=document.getElementById('search'),total=data[1];let path=[data];
const hue=name=>{let h=0;for(const c of name)h=(h*31+c.codePointAt(0))>>>0;return`hsl(${20+h%40} ${60+h%25}% ${68+(h>>8)%12}%)`};
const tell=n=>`${n[0]}: ${n[1].toLocaleString('en')} ${unit}, ${(100*n[1]/total).toFixed(2)} %`;
function draw(){graph.textContent='';const top=path[path.length-1],wide=graph.clientWidth;let deepest=0;
 const put=(n,x,w,row,goal,above)=>{const b=document.createElement('button');b.style.cssText=`left:${x}px;width:${Math.max(1,w-1)}px;top:${row*19}px;background:${hue(n[0])}`;
  b.textContent=w>24?n[0]:'';b.title=tell(n);b.setAttribute('aria-label',tell(n));if(above)b.className='above';
  if(search.value&&n[0].toLowerCase().includes(search.value.toLowerCase()))b.classList.add('found');
  b.onmouseenter=b.onfocus=()=>{what.textContent=tell(n)};b.onclick=()=>{path=goal;draw()};graph.append(b);deepest=Math.max(deepest,row)};
 path.slice(0,-1).forEach((n,i)=>put(n,0,wide,i,path.slice(0,i+1),true));
 const walk=(n,x,w,row,trail)=>{if(w<1)return;put(n,x,w,row,trail,false);let at=x;for(const c of n[2]){const cw=w*c[1]/n[1];walk(c,at,cw,row+1,[...trail,c]);at+=cw}};
 walk(top,0,wide,path.length-1,path);graph.style.height=(deepest+1)*19+'px'}
search.oninput=draw;addEventListener('resize',draw);draw();"""


def page(root, title, unit):
    # "<" inside the data would end the script element.
    data = json.dumps(pruned(root, root[1] * LEAST_SHARE)).replace("<", "\\u003c")
    name = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>{name}</title><style>{STYLE}</style></head>
<body data-unit="{html.escape(unit)}"><h1>{name}</h1>
<p>{root[1]:,} {html.escape(unit)}. A frame is as wide as its share; callers stand above what they call. Click to go in, click above to go back.</p>
<input id="search" type="search" placeholder="find a function" aria-label="find a function"><p id="what"></p><div id="graph"></div>
<script type="application/json" id="data">{data}</script><script>{SCRIPT}</script></body></html>
"""


READERS = {"folded": folded_stacks, "perf": perf_stacks, "callgrind": callgrind_stacks}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--format", choices=READERS, required=True)
    parser.add_argument("--title", default="Profile")
    parser.add_argument("--unit", default="samples")
    parser.add_argument("--html")
    parser.add_argument("--folded")
    arguments = parser.parse_args()
    try:
        with open(arguments.input, encoding="utf-8", errors="replace") as file:
            root = tree_of(READERS[arguments.format](file))
        if root[1] == 0:
            raise ValueError("there is no sample in it: did the program run long enough?")
        if arguments.html:
            with open(arguments.html, "w", encoding="utf-8") as file:
                file.write(page(root, arguments.title, arguments.unit))
        if arguments.folded:
            with open(arguments.folded, "w", encoding="utf-8") as file:
                write_folded(root, file)
    except (OSError, ValueError) as problem:
        print(f"flame_graph: {arguments.input}: {problem}", file=sys.stderr)
        return 1
    return 0


def write_folded(root, file):
    def walk(node, stack):
        rest = node[1] - sum(child[1] for child in node[2].values())
        if rest > 0 and stack:
            file.write(f"{';'.join(stack)} {rest}\n")
        for child in node[2].values():
            walk(child, [*stack, child[0]])
    walk(root, [])


if __name__ == "__main__":
    sys.exit(main())
