"""Groups of equal and nearly equal texts, against a slow comparison of all pairs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpeval.data.duplicates import group, jaccard, link, prefix_length, shingles, words
from dpeval.data.synthetic import synthetic
from dpeval.types import Text

VOCABULARY = [f"w{i}" for i in range(30)]


def all_pairs(texts: Sequence[Text], threshold: float) -> tuple[int, ...]:
    """The oracle: compare every pair and relabel until nothing changes."""
    sets = [shingles(words(text)) for text in texts]
    labels = list(range(len(texts)))
    changed = True
    while changed:
        changed = False
        for i in range(len(texts)):
            for j in range(i):
                if labels[i] != labels[j] and jaccard(sets[i], sets[j]) >= threshold:
                    low, high = sorted((labels[i], labels[j]))
                    labels = [low if label == high else label for label in labels]
                    changed = True
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(label, len(numbers)) for label in labels)


@given(
    st.lists(st.lists(st.sampled_from(VOCABULARY[:8]), min_size=1, max_size=10).map(" ".join), min_size=1, max_size=25),
    st.sampled_from([0.5, 0.8, 1.0]),
)
@settings(deadline=None, max_examples=40)
def test_groups_equal_those_of_comparing_all_pairs(texts: list[str], threshold: float) -> None:
    """Prefixes and merging together find what comparing everything finds."""
    assert group(texts, threshold=threshold).near == all_pairs(texts, threshold)


def test_planted_near_duplicates_are_found() -> None:
    """Of 40 texts of some 15 words with their last word replaced, all stand in the group of their original."""
    texts = [str(text) for text in synthetic("reviews?n=400&duplicates=40", wanted=("text",)).cells["text"]]
    near = group(texts, threshold=0.8).near
    originals = {text.rsplit(" ", 1)[0]: number for text, number in zip(texts[:360], near, strict=False)}
    found = [near[i] == originals[texts[i].rsplit(" ", 1)[0]] for i in range(360, 400)]
    expected = [
        jaccard(shingles(words(texts[i])), shingles(words(original))) >= 0.8
        for i in range(360, 400)
        for original in texts[:360]
        if original.rsplit(" ", 1)[0] == texts[i].rsplit(" ", 1)[0]
    ]
    assert found == expected
    assert sum(found) >= 30
    assert len(set(near[:360])) == 360


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A fine film!", "a  FINE\nfilm", True),
        ("ﬁne ｆilm", "fine film", True),
        ("a fine film", "a film fine", False),
        ("!!!", "???", False),
        (":-)", " :-) ", True),
        ("日本語の映画", "日本語の本", False),
        (("a", "b c"), ("a b", "c"), False),
        (("a", "b"), ("A", "b."), True),
    ],
)
def test_equal_means_the_same_words_in_the_same_order(one: Text, other: Text, same: bool) -> None:
    """Case, punctuation, spacing and compatibility forms do not count; order, lone signs and the parts of a pair do."""
    equal = group([one, other], threshold=None).equal
    assert (equal[0] == equal[1]) is same


def test_scripts_without_spaces_are_compared_by_letters() -> None:
    """A long Chinese text with one letter changed is a near-duplicate."""
    text = "今天的天气很好我们一起去看了一部非常有趣的电影大家都很高兴"
    assert group([text, text[:-1] + "忙"], threshold=0.8).near == (0, 0)


def test_links_chain() -> None:
    """a is near b and b near c, so all three form one group, though a and c are further apart."""
    base = [f"x{i}" for i in range(20)]
    texts = [" ".join(base), " ".join([*base, "y", "z"]), " ".join([*base, "y", "z", "u", "v"])]
    sets = [shingles(words(text)) for text in texts]
    assert jaccard(sets[0], sets[2]) < 0.85 <= jaccard(sets[0], sets[1])
    assert group(texts, threshold=0.85).near == (0, 0, 0)


@given(st.frozensets(st.integers(0, 12), min_size=1), st.frozensets(st.integers(0, 12), min_size=1), st.floats(0.1, 1))
def test_prefixes_of_similar_sets_meet(one: frozenset[int], other: frozenset[int], threshold: float) -> None:
    """Two sets at or above the threshold share an element of their prefixes, so that none is overlooked."""
    cut = [set(sorted(a)[: prefix_length(len(a), threshold)]) for a in (one, other)]
    assert cut[0] & cut[1] or jaccard(one, other) < threshold


def test_texts_from_one_template_are_fast() -> None:
    """Three thousand receipts, alike but for a name, take a second and not a minute, linked or not."""
    names = [f"{a}{b}" for a in "bcdfghjklm" for b in range(300)]
    apart = [f"order {name} has been sent to {name[::-1]} today" for name in names]
    linked = [f"order {name} has been sent to our dear customer by the usual carrier of the month" for name in names]
    start = time.process_time()
    assert len(set(group(apart, threshold=0.8).near)) == 3000
    assert len(set(group(linked, threshold=0.8).near)) == 1
    assert time.process_time() - start < 15


def test_numbers_follow_first_appearance() -> None:
    """Groups are numbered in the order of the texts, whatever the components are called inside."""
    assert group(["c", "a", "c", "b", "a"], threshold=0.8).near == (0, 1, 0, 2, 1)


def test_no_texts_and_no_words() -> None:
    """Nothing in, nothing out; texts without any word are compared by their signs."""
    assert group([], threshold=0.8) == ((), ())
    assert group(["?", "!", "?!"], threshold=0.8).near == (0, 1, 2)
    assert link([], 0.8) == []
