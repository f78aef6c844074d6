"""Text from outside survives markdown: it reads back as it was and is never markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dpeval.report.cells import cell, fenced, one_line, prose, shorten, visible
from dpeval.report.table import Table

MARKUP = st.text(alphabet="ab1 \n\r\t|\\`*_~<>&#;:[]()!-+=.$@{}^'\"/w\u00a0\u2028אé😀", max_size=24)
ANY = st.text(max_size=30)
NASTY = (
    "a|b",
    "two\nlines",
    "crlf\r\nhere",
    "",
    "  spaces  ",
    "| |",
    "a\\|b already escaped",
    "ends with \\",
    "m`x|y`z",
    "<b>bold</b>",
    "- list",
    "# head",
    "אבג rtl",
    "😀",
    "&amp;",
    "&#124;",
    "[x](http://e.org)",
    "![i](x)",
    "**b**",
    "_e_",
    "~~s~~",
    "http://e.org/a|b",
    "www.e.org",
    "me@e.org",
    ":smile:",
    "$x$",
    "\ta\t",
    "\u00a0x\u3000",
    "add_norm_2",
    "[a]: b",
    "<!-- c -->",
    "`",
    "``",
    "\\",
    "1. x",
    "> q",
    "---",
    "[x] done",
    "=",
    "\u202eabc",
    "a  b",
)


@pytest.mark.parametrize("text", NASTY)
def test_a_cell_reads_back_exactly(text, read_tables):
    """Whatever a name holds, the parser of a code host gives it back, in a cell and in a header."""
    table = Table((text, "other"), ((text, "x"), ("y", text)))
    assert read_tables(table.markdown()) == [[[text, "other"], [text, "x"], ["y", text]]]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(MARKUP, ANY), min_size=1, max_size=3))
@example([("a\\", "|")])
@example([("\\", "\\|\\")])
def test_any_text_reads_back_as_it_is_visible(read_tables, rows):
    """The one change is that of characters that cannot be shown; everything else is exact."""
    table = Table(("h", "k"), tuple(rows), numeric=(1,))
    assert read_tables(table.markdown())[0][1:] == [[visible(a), visible(b)] for a, b in rows]


@settings(max_examples=400, deadline=None)
@given(MARKUP | ANY)
@pytest.mark.parametrize("frame", ["{}", "- {}", "# {}", "a {} b", "- **x**: {}", "> {}"])
def test_prose_is_never_markup(frame, text):
    """In a paragraph, list item, quote or heading a foreign text adds no block, link, emphasis, code or HTML."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    words = prose(text)
    blocks = parser.parse(frame.format(words))
    expected = parser.parse(frame.format("word" if words else ""))
    assert [b.type for b in blocks] == [b.type for b in expected]
    inline = [c for b in blocks for c in b.children or []]
    assert {c.type for c in inline} <= {"text", "strong_open", "strong_close"}
    if words:
        assert " ".join(visible(text).split()) in "".join(c.content for c in inline)


def test_readable_texts_stay_readable_in_the_source():
    """Names of taps, numbers with intervals and sentences are not cluttered with escapes."""
    for text in (
        "encoder.2.add_norm_2",
        "0.74 [0.70, 0.78]",
        "12:30:15",
        "dp-adam epsilon=8",
        "tpr@0.1%fpr, 95 % (n = 3)!",
    ):
        assert cell(text) == text
        assert prose(text) == text


def test_links_and_emoji_of_code_hosts_are_not_made():
    """Hosts turn bare addresses and :words: into links and pictures; the characters that trigger it are entities."""
    shown = cell("see https://e.org www.e.org :tada: $x$")
    assert not re.search(r"https?://|www\.|:tada:|\$", shown)


def test_control_characters_become_visible():
    """No escape sequence reaches a terminal or an editor, and every text can be written as UTF-8."""
    assert visible("\x1b[31m\x00\x7f\x9b\ud800") == "␛[31m␀␡\ufffd\ufffd"
    assert one_line("a\n\x1bb\t c") == "a ␛b c"


@given(ANY)
def test_every_text_can_be_written(text):
    """Lone surrogates would end the last write of a run with an error."""
    shown = cell(text) + prose(text) + fenced(text)
    assert shown.encode("utf-8").decode("utf-8") == shown


@settings(deadline=None)
@given(st.text(alphabet="`~a \n\\|", max_size=40))
def test_a_fence_holds_any_file(text):
    """The fence is longer than any run of back-ticks inside, and nothing is escaped."""
    tokens = MarkdownIt("commonmark").parse(fenced(text, "toml") + "\n\nafter")
    assert [t.type for t in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content == text.rstrip("\n") + "\n"


def test_shorten_says_that_it_cut():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"


def test_a_table_of_uneven_rows_is_refused():
    """A row that is too short would shift its numbers under the wrong header."""
    with pytest.raises(ValueError, match="expected 2 cells in each row, got 1"):
        Table(("a", "b"), (("x",),))


def test_a_table_without_rows_keeps_its_columns(read_tables):
    assert read_tables(Table(("a", "b"), (), numeric=(1,)).markdown()) == [[["a", "b"]]]


def test_columns_of_nothing_can_be_left_out():
    """Numeric columns keep their side when others go."""
    table = Table(("a", "b", "c"), (("x", "–", "1"), ("y", "", "2")), numeric=(2,)).without_empty_columns()
    assert table == Table(("a", "c"), (("x", "1"), ("y", "2")), numeric=(1,))
