"""Made-up reviews with planted structure, for tests, demonstrations and first runs without any data.

The words of a text depend on its label (sentiment) and on its genre (the sensitive attribute), so a classifier and an
attribute probe have something to find; every text also holds a made-up name of its own, which a model can memorise.

>>> table = synthetic("reviews?n=8&seed=1", wanted=("text", "label", "genre"))
>>> len(table), table.columns
(8, ('id', 'text', 'label', 'genre'))
>>> table.cells["label"][:3]
['positive', 'positive', 'negative']
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qsl

import numpy as np

from dpeval.data.errors import DataError, did_you_mean
from dpeval.data.table import Table

_DEFAULTS = {"n": 600, "seed": 0, "duplicates": 0}
_COLUMNS = ("id", "text", "label", "genre")
_LABELS = {
    "positive": "lovely brilliant moving warm funny clever gripping honest graceful delightful superb charming fresh",
    "negative": "dull clumsy tedious hollow noisy lazy confused bland shallow awkward stale lifeless pointless messy",
}
_GENRES = {
    "comedy": "jokes laughter gag banter punchline prank wedding roommate sitcom slapstick parody clown",
    "crime": "detective robbery murder witness police alibi prison gangster heist courtroom evidence bullet",
    "romance": "kiss heart longing letter dance marriage embrace sweetheart proposal tender reunion bouquet",
    "science": "planet robot spaceship alien laboratory orbit android galaxy gravity future signal machine",
}
_PLAIN = (
    "the a this that film story movie director actor scene plot end start middle hour evening audience script camera "
    "music voice face house city road river summer winter morning people friend family child woman man world moment "
    "idea picture work part time way turn look sound light colour step line page word question answer thing place"
)
_JOINS = "and with of in about from but while after before near without"
_SYLLABLES = "ka lo mi ren tas vor bel dun shi pra nol gar eth quo zim hal"


def synthetic(text: str, *, wanted: Sequence[str]) -> Table:
    """The table that ``NAME?option=value&…`` describes; the same text always gives the same rows.

    ``reviews`` is the only name. Options: ``n`` rows (600), ``seed`` (0), ``duplicates``: how many of the rows repeat
    an earlier one with one word changed (0).

    Raises:
        DataError: an unknown name or option, or a value that is not a whole number.
    """
    name, _, query = text.partition("?")
    if name != "reviews":
        raise DataError(f"[data] source: no synthetic data set {name!r}; {did_you_mean(name, ['reviews'])}")
    options = _options(query)
    n = options["n"]
    if n < 1 or not 0 <= options["duplicates"] < n:
        raise DataError(f"[data] source: synthetic:{text} needs n of at least 1 and duplicates below n")
    rng = np.random.default_rng(options["seed"])
    rows = [_row(i, rng) for i in range(n - options["duplicates"])]
    rows += [_changed(rows[int(rng.integers(len(rows)))], i, rng) for i in range(len(rows), n)]
    cells = {column: [row[column] for row in rows] for column in _COLUMNS if column in wanted}
    return Table(f"synthetic:{text}", _COLUMNS, cells, rows=tuple(range(1, n + 1)))


def _options(query: str) -> dict[str, int]:
    options = dict(_DEFAULTS)
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in options:
            raise DataError(f"[data] source: synthetic:reviews has no option {key!r}; {did_you_mean(key, _DEFAULTS)}")
        if not value.isdecimal():
            raise DataError(f"[data] source: synthetic:reviews?{key}: expected a whole number, got {value!r}")
        options[key] = int(value)
    return options


def _row(i: int, rng: np.random.Generator) -> dict[str, str]:
    label = str(rng.choice(list(_LABELS)))
    genre = str(rng.choice(list(_GENRES)))
    opposite = next(other for other in _LABELS if other != label)
    # One opinion word in eight contradicts the label, so that no classifier is perfect and memorising helps.
    opinions = [
        _word(_LABELS[opposite if rng.random() < 1 / 8 else label], rng) for _ in range(int(rng.integers(1, 4)))
    ]
    topics = [_word(_GENRES[genre], rng) for _ in range(int(rng.integers(1, 3)))]
    plain = [_word(_PLAIN, rng) for _ in range(int(rng.integers(5, 12)))]
    joins = [_word(_JOINS, rng) for _ in range(int(rng.integers(1, 4)))]
    person = "".join(_word(_SYLLABLES, rng) for _ in range(3))
    words = [*opinions, *topics, *plain, *joins, person]
    return {"id": f"r{i}", "text": " ".join(rng.permutation(words).tolist()), "label": label, "genre": genre}


def _changed(row: dict[str, str], i: int, rng: np.random.Generator) -> dict[str, str]:
    words = row["text"].split()
    words[-1] = _word(_PLAIN, rng)
    return {**row, "id": f"r{i}", "text": " ".join(words)}


def _word(words: str, rng: np.random.Generator) -> str:
    return str(rng.choice(words.split()))
