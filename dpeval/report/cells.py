"""Text from outside (names, notes, messages) inside a markdown file: it reads back as it was, and never as markup.

Three places, three functions: :func:`cell` inside a pipe table, where a parser of GitHub-flavoured markdown must read
back exactly the text that went in; :func:`prose` inside a sentence, where line breaks and runs of blanks become one
blank; :func:`fenced` for whole files.

>>> cell("a|b")
'a&#124;b'
>>> cell("two\\nlines")
'two&#10;lines'
>>> prose("# not a heading")
'\\\\# not a heading'
>>> print(fenced("x = 1", "toml"))
```toml
x = 1
```
"""

from __future__ import annotations

import re

ENTITIES = str.maketrans({c: f"&#{ord(c)};" for c in "|\\`$\n\r\t"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Always replaced. An entity means the same to every parser; ``\\|`` does not (in code, after a back-slash)."""

ESCAPED = re.compile(r"[*~]|(?<![^\W_])_|_(?![^\W_])|\](?=[(\[:])|(?:(?<=\s)|^)#")
"""Punctuation that is markup where it stands; ``add_norm_2`` and ``[0.70, 0.78]`` are left readable."""

LINKING = re.compile(r":(?=//)|(?<=www)\.|:(?=(?:[a-z][\w+-]*|[+-]1):)", re.IGNORECASE)
"""What makes a code host turn a text into a link or an emoji; some hosts would show entities inside as they stand."""

OPENING = re.compile(r"^(?:[-+=\[]|\d{1,9}[.)](?=\s|$))")
"""What would open a list, a heading line, a task box or a definition at the start of a paragraph."""


def visible(text: str) -> str:
    """``text`` without characters that a file or a terminal cannot show: control characters become their pictures.

    Tabs and line breaks stay. Lone surrogates, which UTF-8 cannot write, become U+FFFD.

    >>> visible("bell\\x07 \\x1b[31mred")
    'bell␇ ␛[31mred'
    """
    return "".join(_visible(c) for c in text)


def _visible(char: str) -> str:
    code = ord(char)
    if code < 0x20 and char not in "\n\r\t":
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 else char


def cell(text: str) -> str:
    """``text`` as the content of one cell of a pipe table: one line, no markup, exact after parsing."""
    shown = visible(text)
    bare = shown.strip()
    at = shown.find(bare) if bare else len(shown)
    return _blanks(shown[:at]) + _inline(bare) + _blanks(shown[at + len(bare) :])


def prose(text: str) -> str:
    """``text`` as part of a sentence, a list item or a heading: runs of white space become one blank, no markup."""
    escaped = _inline(" ".join(visible(text).split()))
    return OPENING.sub(lambda m: m[0][:-1] + "\\" + m[0][-1], escaped)


def one_line(text: str) -> str:
    """``text`` for a terminal: visible characters on one line."""
    return " ".join(visible(text).split())


def fenced(text: str, language: str = "") -> str:
    """``text`` as a code block whose fence is longer than any run of back-ticks inside."""
    body = visible(text).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def shorten(text: str, limit: int) -> str:
    """The first ``limit`` characters, with ``…`` where something was cut.

    >>> shorten("one two three", 8)
    'one two…'
    """
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def _inline(text: str) -> str:
    # Order matters: entities first, since the later steps write back-slashes and '&' that must survive.
    marked = text.translate(ENTITIES)
    marked = LINKING.sub(lambda m: f"&#{ord(m[0])};", marked)
    return ESCAPED.sub(lambda m: "\\" + m[0], marked)


def _blanks(text: str) -> str:
    """White space at the edge of a cell, which a parser would trim, as entities."""
    return "".join(f"&#{ord(c)};" for c in text)
