"""Notes on what the cleaned pool is like: copies, near-duplicates, and how the attribute is spread.

>>> rows = Rows("a", ids=("1", "2"), texts=("x", "X!"), labels=("p", "n"), attributes=(None, None))
>>> config = DataConfig(source="a.csv", text="text", label="label", near_duplicates=0)
>>> [note.what for note in remark(rows, Groups((0, 0), (0, 0)), (), config).notes][1]
'equal texts with different labels'
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from dpeval.data.clean import Rows
from dpeval.data.config import DataConfig
from dpeval.data.duplicates import Groups
from dpeval.types import Text


def remark(pool: Rows, groups: Groups, values: tuple[str, ...], config: DataConfig) -> Rows:
    """``pool`` with notes on equal texts, near-duplicate groups and the attribute, whose ``values`` are in order."""
    return _on_covariates(_on_attribute(_on_groups(_on_copies(pool, groups), groups, config), values, config), config)


def _on_copies(pool: Rows, groups: Groups) -> Rows:
    sizes = Counter(groups.equal)
    classes = Counter(number for number, _ in set(zip(groups.equal, pool.labels, strict=True)))
    pool = pool.noting(
        "texts that occur more than once (but for case and punctuation)",
        _ids(pool, lambda i: sizes[groups.equal[i]] > 1),
    )
    return pool.noting("equal texts with different labels", _ids(pool, lambda i: classes[groups.equal[i]] > 1))


def _on_groups(pool: Rows, groups: Groups, config: DataConfig) -> Rows:
    if config.near_duplicates is None:
        what = "near-duplicates were not looked for (near_duplicates = 0); only equal texts are kept on one side"
        return pool.noting(what, (), len(pool))
    sizes = Counter(groups.near)
    several = sum(size > 1 for size in sizes.values())
    what = (
        f"near-duplicates (Jaccard similarity of word shingles at least {config.near_duplicates:g}) "
        f"in {several} groups, up to {max(sizes.values())} in one; each group is kept on one side of every split"
    )
    return pool.noting(what, _ids(pool, lambda i: sizes[groups.near[i]] > 1))


def _on_attribute(pool: Rows, values: tuple[str, ...], config: DataConfig) -> Rows:
    if config.attribute is None:
        return pool
    counts = Counter(value for value in pool.attributes if value is not None)
    if len(values) == 1:
        what = f"the attribute {config.attribute!r} has one value only, {values[0]!r}: inferring it cannot be measured"
        pool = pool.noting(what, (), counts.total())
    span = f"values: {len(values)}, with {min(counts.values())} to {max(counts.values())} records each"
    pool = pool.noting(f"take part in attribute attacks, by {config.attribute!r} ({span})", (), counts.total())
    pool = pool.noting(
        f"the value of {config.attribute!r} stands as a word in the text itself: inferring it there is reading, and "
        "says little about what embeddings give away beyond words",
        _ids(pool, lambda i: _names_itself(pool.texts[i], pool.attributes[i])),
    )
    return pool.noting(
        f"no value of {config.attribute!r} that is kept: no part in attribute attacks",
        _ids(pool, lambda i: pool.attributes[i] is None),
    )


def _on_covariates(pool: Rows, config: DataConfig) -> Rows:
    """Notes on missing cells, and on a covariate that is the attribute by another name."""
    for one in pool.covariates:
        missing = _ids(pool, lambda i: one.values[i] is None)  # noqa: B023 - used at once
        kind = "quantity" if one.is_numeric else "category"
        pool = pool.noting(f"no value of the covariate {one.name!r} (a {kind})", missing)
        pairs = {(v, a) for v, a in zip(one.values, pool.attributes, strict=True) if v is not None and a is not None}
        alike = len({v for v, _ in pairs}) == len({a for _, a in pairs}) == len(pairs)
        if alike and len(pairs) > 1:
            what = f"the covariate {one.name!r} is {config.attribute!r} by another name: no attack can gain over it"
            pool = pool.noting(what, (), len(pool) - len(missing))
    return pool


def _names_itself(text: Text, value: str | None) -> bool:
    """Whether the words of ``value`` stand one after the other in ``text``, whatever their case.

    >>> _names_itself("An action film.", "Action"), _names_itself("Her reaction", "action")
    (True, False)
    """
    if value is None or not value.strip():
        return False
    flat = text if isinstance(text, str) else " ".join(text)
    return re.search(rf"(?<!\w){re.escape(value.strip())}(?!\w)", flat, re.IGNORECASE) is not None


def _ids(pool: Rows, chosen: Callable[[int], bool]) -> list[str]:
    return [key for i, key in enumerate(pool.ids) if chosen(i)]
