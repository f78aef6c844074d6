"""Text infilling: a text becomes a prompt with one masked word, and a word stands for each class.

A template is public text with ``{text}`` (or ``{first}`` and ``{second}`` for pairs) and one ``[MASK]``, as in Gao et
al. 2021 and Li et al. 2022, section 3.3. Only the template's own tokens are added: the tokens of the text are those it
has without a template, truncated as without one, so the masked word is never cut off.

>>> parse_template("{text} It was [MASK].")
Template(pieces=('{text}', ' It was', ' [MASK]', '.'))
>>> parse_template("{text} It was great.")
Traceback (most recent call last):
    ...
ValueError: template: expected one [MASK], got 0 in '{text} It was great.'
>>> parse_template("{first}? [MASK], {second}").is_pair
True
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

MASK = "[MASK]"
SINGLE, PAIR = "{text} It was [MASK].", "{first}? [MASK], {second}"
_FIELDS = ("{text}", "{first}", "{second}")
_WORDS = {(False, 2): ("terrible", "great"), (True, 2): ("no", "yes"), (True, 3): ("yes", "maybe", "no")}


@dataclass(frozen=True)
class Template:
    """A template cut into fields, public words and the mask; a piece that follows a space begins with it."""

    pieces: tuple[str, ...]

    @property
    def is_pair(self) -> bool:
        """Whether it takes two texts."""
        return any(piece.strip() == "{first}" for piece in self.pieces)


def parse_template(text: str) -> Template:
    """``text`` in pieces; ValueError unless it has one [MASK] and either {text} or both {first} and {second}."""
    if text.count(MASK) != 1:
        raise ValueError(f"template: expected one {MASK}, got {text.count(MASK)} in {text!r}")
    unknown = [field for field in re.findall(r"\{[^{}]*\}", text) if field not in _FIELDS]
    counts = tuple(text.count(field) for field in _FIELDS)
    if unknown or counts not in {(1, 0, 0), (0, 1, 1)}:
        raise ValueError(f"template: expected {{text}} once, or {{first}} and {{second}} once each; got {text!r}")
    raw = [piece for piece in re.split(r"(\s*(?:\{\w+\}|\[MASK\]))", text.strip()) if piece.strip()]
    return Template(tuple(" " + piece.strip() if piece[0].isspace() else piece.strip() for piece in raw))


def default_template(*, pair: bool) -> str:
    """The paper's template for one text (SST-2) or two (MNLI)."""
    return PAIR if pair else SINGLE


def default_words(*, pair: bool, num_labels: int) -> tuple[str, ...]:
    """The paper's words in the order of GLUE's classes; ValueError where it has none for so many classes.

    One text: terrible, great (SST-2). Two: no, yes (QQP), or yes, maybe, no (MNLI). QNLI numbers its classes the other
    way round: give ``label_words`` there.
    """
    if (pair, num_labels) not in _WORDS:
        what = "pairs" if pair else "single texts"
        raise ValueError(f"label_words: no defaults for {num_labels} classes of {what}; give one word for each class")
    return _WORDS[pair, num_labels]


def without_end(text: str) -> str:
    """The text without its final punctuation: a first text goes on in the template (Gao et al. 2021).

    >>> without_end("Is it warm?")
    'Is it warm'
    """
    cut = text.rstrip()
    while cut and unicodedata.category(cut[-1]).startswith("P"):
        cut = cut[:-1].rstrip()
    return cut or text


def uncapitalised(text: str) -> str:
    """The text with a small first letter: a second text goes on from the template (Gao et al. 2021).

    >>> uncapitalised("The sun is out.")
    'the sun is out.'
    """
    return text[:1].lower() + text[1:]
