# SPDX-License-Identifier: Apache-2.0
"""Just enough reading of C++ for lint.py: code and comments told apart line by line, includes, and the function around a line."""
import re

TOKEN = re.compile(r"""
    (?P<line>//[^\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<raw>R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
""", re.X | re.S)


class Source:
    """code: the lines with comments and the contents of literals blanked; comments: line number -> text of the comment there."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.comments = {}
        kept, position = [], 0
        for match in TOKEN.finditer(text):
            kept.append(text[position:match.start()])
            position = match.end()
            token = match.group()
            if match.group("line") is not None or match.group("block") is not None:
                first = text.count("\n", 0, match.start()) + 1
                for offset, part in enumerate(token.split("\n")):
                    self.comments[first + offset] = self.comments.get(first + offset, "") + part
                kept.append(re.sub(r"[^\n]", " ", token))
            elif re.search(r"#\s*include\s*$", text[max(0, match.start() - 40):match.start()]):
                kept.append(token)  # the name of an included file is code
            else:
                kept.append(token[0] + re.sub(r"[^\n]", " ", token[1:-1]) + token[-1])
        kept.append(text[position:])
        self.code = "".join(kept).split("\n")

    def includes(self):
        """(line, name, quoted?) of each #include."""
        for number, line in enumerate(self.code, 1):
            match = re.match(r'\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', line)
            if match:
                yield number, match[1] or match[2], match[2] is not None

    def comment_within(self, first, last):
        """Is there a comment with words on one of these lines? Closing braces' and guards' remarks do not count as such."""
        for number in range(max(first, 1), last + 1):
            text = self.comments.get(number, "")
            if re.search(r"[A-Za-z]{2}", text) and not re.match(r"//\s*namespace\b", text) and "NOLINT" not in text:
                return True
        return False

    def opening_comment(self):
        """The comments above the first line of code (#pragma once included)."""
        parts = []
        for number, line in enumerate(self.code, 1):
            if line.strip():
                break
            parts.append(self.comments.get(number, ""))
        return "\n".join(parts)

    def _blocks(self):
        """(first line, last line) of each outermost function body: a brace that opens neither a namespace nor a type."""
        blocks, stack, since = [], [], ""
        for number, line in enumerate(self.code, 1):
            if line.lstrip().startswith("#"):
                continue
            for character in line:
                if character == "{":
                    head = re.sub(r"\balignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)|\[\[.*?\]\]", "", since.strip())
                    scope = bool(re.search(r"\b(?:namespace|class|struct|union|enum|extern)\b[^;()]*$", head)) or \
                        (bool(re.match(r"(?:template\s*<.*>\s*)?(?:class|struct|union)\b", head, re.S)) and ")" not in head)
                    inside = any(not s for s, _ in stack)
                    stack.append((scope and not inside, number - since.strip().count("\n")))
                    since = ""
                elif character == "}":
                    if stack:
                        was_scope, first = stack.pop()
                        if not was_scope and not any(not s for s, _ in stack):
                            blocks.append((first, number))
                    since = ""
                elif character == ";":
                    since = ""
                else:
                    since += character
            since += "\n"
        return blocks

    def function_comment(self, number):
        """Has the function around this line a comment in it, or directly above it?"""
        for first, last in self._blocks():
            if first <= number <= last:
                above = first - 1
                while above >= 1 and not self.code[above - 1].strip() and above in self.comments:
                    above -= 1
                return self.comment_within(above + 1, last)
        return False
