"""Loads, cleans and groups the data of a matrix: from its ``[data]`` table to a :class:`Dataset`.

>>> config = DataConfig(source="synthetic:reviews?n=40", text="text", label="label", attribute="genre", id="id")
>>> data = load_dataset(config, Path())
>>> len(data.records), data.label_names, data.attribute_values
(40, ('negative', 'positive'), ('comedy', 'crime', 'romance', 'science'))
>>> data.fingerprint == load_dataset(config, Path()).fingerprint
True
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from dpeval.data.attributes import choose
from dpeval.data.categories import in_order
from dpeval.data.clean import Rows, clean
from dpeval.data.config import DataConfig
from dpeval.data.duplicates import Groups, group
from dpeval.data.errors import DataError, listed
from dpeval.data.fingerprint import fingerprint
from dpeval.data.remarks import remark
from dpeval.data.sources import read_source
from dpeval.types import Dataset, Records

TEST_PREFIX = "test:"
"""Put before the ids of a test set of the user's own, which would otherwise repeat ids of the pool."""


def load_dataset(config: DataConfig, base: Path) -> Dataset:
    """Read ``config.source``; clean, sample and group it; map labels and attribute values to numbers.

    Relative paths start at ``base``. The result depends on the content of the sources and on ``config`` alone. Its
    notes say of every row that was read what became of it. A user's own test set is cleaned by the same rules; pool
    records that are near-duplicates of it are dropped, and so are test rows whose label the pool does not have.

    Raises:
        DataError: a source cannot be read, a column cannot be used, there is one class only, or nothing is left.
    """
    pool = clean(read_source(config.source, config, base, config.split), config)
    pool = _sampled(replace(pool, attributes=choose(pool.attributes, config)), config)
    test = _own_test(config, base)
    pool, groups, test_groups = _grouped(pool, test, config)
    labels = _class_names(pool, config)
    values = in_order(value for value in pool.attributes if value is not None)
    pool = remark(pool, groups, values, config)
    tested = None
    if test is not None:
        test, test_groups = _known_labels(test, test_groups, labels)
        pool = replace(pool, notes=(*pool.notes, *(replace(n, what=f"test set: {n.what}") for n in test.notes)))
        tested = _records(test, labels, values, test_groups)
    records = _records(pool, labels, values, groups.near)
    return Dataset(
        name=config.source,
        records=records,
        label_names=labels,
        attribute_name=config.attribute,
        attribute_values=values,
        test=tested,
        notes=pool.notes,
        fingerprint=fingerprint(records, tested),
        covariates=pool.covariates,
    )


def _own_test(config: DataConfig, base: Path) -> Rows | None:
    """The cleaned test set of the user's own, if there is one."""
    if config.test is None and config.test_split is None:
        return None
    if config.test is None and config.test_split == config.split:
        raise DataError(f"[data] test_split: {config.test_split!r} is also the split of the pool; name another")
    # Nobody infers an attribute of the test set, so it need not have the covariates.
    bare = replace(config, covariates=())
    return clean(read_source(config.test or config.source, bare, base, config.test_split), bare, TEST_PREFIX)


def _sampled(pool: Rows, config: DataConfig) -> Rows:
    """The records with the smallest hashes of their ids, those with an attribute first, in pool order."""
    if config.sample is None or config.sample >= len(pool):
        return pool
    order = sorted(
        range(len(pool)), key=lambda i: (pool.attributes[i] is None, hashlib.sha256(pool.ids[i].encode()).digest())
    )
    kept = set(order[: config.sample])
    left_out = [pool.ids[i] for i in range(len(pool)) if i not in kept]
    first = f", records with a value of {config.attribute!r} first" if config.attribute else ""
    what = f"left out by sample: kept {config.sample} of {len(pool)} cleaned records by a hash of their id{first}"
    return pool.take(sorted(kept)).noting(what, left_out)


def _grouped(pool: Rows, test: Rows | None, config: DataConfig) -> tuple[Rows, Groups, tuple[int, ...]]:
    """The pool without copies of test texts, its groups, and those of the test set, numbered together."""
    if test is None:
        return pool, group(pool.texts, threshold=config.near_duplicates), ()
    together = group((*pool.texts, *test.texts), threshold=config.near_duplicates)
    test_groups = together.near[len(pool) :]
    tested = set(test_groups)
    kept = [i for i in range(len(pool)) if together.near[i] not in tested]
    copies = [pool.ids[i] for i in range(len(pool)) if together.near[i] in tested]
    if not kept:
        raise DataError(
            "[data] test: every record of the pool is a near-duplicate of a test text; is it the same data?"
        )
    groups = Groups(tuple(together.equal[i] for i in kept), tuple(together.near[i] for i in kept))
    return pool.take(kept).noting("dropped: a near-duplicate of a text in the test set", copies), groups, test_groups


def _class_names(pool: Rows, config: DataConfig) -> tuple[str, ...]:
    names = in_order(pool.labels)
    if len(names) < 2:
        raise DataError(
            f"[data] label: {config.label!r} has one class only, {names[0]!r}, in {len(pool)} usable rows; "
            "a classifier needs at least two"
        )
    if len(names) > 2 and len(names) > len(pool) / 2:
        raise DataError(
            f"[data] label: {config.label!r} has {len(names)} different values in {len(pool)} usable rows, like an id, "
            "a text or a quantity; name a column of classes"
        )
    return names


def _known_labels(test: Rows, groups: tuple[int, ...], labels: tuple[str, ...]) -> tuple[Rows, tuple[int, ...]]:
    """The test rows whose label the pool has, with a note for each label that it has not."""
    for name in in_order(set(test.labels) - set(labels)):
        ids = [key for key, label in zip(test.ids, test.labels, strict=True) if label == name]
        test = test.noting(f"dropped: label {name!r} of {test.name} does not occur in the pool", ids)
    kept = [i for i, label in enumerate(test.labels) if label in labels]
    if not kept:
        raise DataError(
            f"[data] test: no row of {test.name} has a label of the pool ({listed(labels)}); "
            f"it has {listed(in_order(test.labels))}"
        )
    return test.take(kept), tuple(groups[i] for i in kept)


def _records(rows: Rows, labels: tuple[str, ...], values: tuple[str, ...], groups: tuple[int, ...]) -> Records:
    label_at = {name: i for i, name in enumerate(labels)}
    value_at = {name: i for i, name in enumerate(values)}
    return Records(
        ids=rows.ids,
        texts=rows.texts,
        labels=tuple(label_at[label] for label in rows.labels),
        attributes=tuple(None if value is None else value_at.get(value) for value in rows.attributes),
        groups=groups,
    )
