"""One plain sentence for each cell: what its number means, and what it does not."""

from __future__ import annotations

from dpeval.collect.measures import CellMeasures
from dpeval.types import Estimate

ACCESS = {
    "membership": "someone who sees the model's answers",
    "extraction": "someone who sees the model's answers",
    "inversion": "someone who intercepts the released embeddings",
    "attribute": "someone who intercepts the released embeddings",
}


_BASELINES = {"majority": "always the commonest value", "prior": "values drawn as often as they occur"}


def reading(goal: str, found: CellMeasures, distinguishable: str) -> str:
    """What the headline means for ``goal``."""
    value = found.measures.get(found.headline)
    if not isinstance(value, Estimate):
        return f"Not measurable: {value.reason if value else 'no headline'}."
    return _SENTENCES[goal](found, value, distinguishable)


def _membership(found: CellMeasures, value: Estimate, distinguishable: str) -> str:
    if distinguishable == "yes" and value.value > 0.5:
        return (
            f"Shown one text that was trained on and one that was not, {ACCESS['membership']} picks the right one in "
            f"{_percent(value.value)} of cases; guessing gets 50 %."
        )
    if distinguishable == "yes":
        return "The attack is wrong more often than right: its scores may have the wrong sign."
    alone = (
        " Its own interval leaves guessing out, which is too little among so many comparisons."
        if value.excludes(0.5)
        else ""
    )
    none = "No difference from guessing was found after adjustment for all comparisons."
    return f"{none}{alone} {_power(found, 'an AUC')}"


def _extraction(found: CellMeasures, value: Estimate, distinguishable: str) -> str:
    median = found.measures.get("exposure_median")
    bits = f" The median planted canary has an exposure of {median.value:.1f} bits (1 by chance)." if isinstance(
        median, Estimate) else ""  # fmt: skip
    if distinguishable == "yes" and value.value > 0.5:
        return (
            f"Shown one canary that was planted and one that was not, {ACCESS['extraction']} picks the right one in "
            f"{_percent(value.value)} of cases; guessing gets 50 %.{bits}"
        )
    return _membership(found, value, distinguishable) + bits


def _inversion(found: CellMeasures, value: Estimate, distinguishable: str) -> str:
    recall, base = found.measures.get("content_position_recall"), found.measures.get("baseline_content_position_recall")
    shares = ""
    if isinstance(recall, Estimate) and isinstance(base, Estimate):
        shares = (
            f"{_who('inversion')} gets {_percent(recall.value)} of the content words right, in "
            f"their place; the best guess without the embedding gets {_percent(base.value)}. "
        )
    if distinguishable == "yes" and found.null is not None and value.value > found.null:
        return shares.strip()
    if distinguishable == "yes":
        return f"{shares}As a bag of words the answers are worse than the best guess without the embedding."
    return f"{shares}No gain over the guess without the embedding was found. {_power(found, 'a content-word F1')}"


def _attribute(found: CellMeasures, value: Estimate, distinguishable: str) -> str:
    name = f" ({_BASELINES.get(found.baseline, found.baseline)})" if found.baseline else ""
    told = f"; the best baseline that never sees the embedding{name} gets "
    null = "" if found.null is None else f"{told}{_percent(found.null)}"
    base = (
        f"{_who('attribute')} names the attribute right in {_percent(value.value)} of cases "
        f"(each value counted alike){null}."
    )
    if distinguishable == "yes" and found.null is not None and value.value > found.null:
        return base
    return f"{base} No gain over that baseline was found. {_power(found, 'a balanced accuracy')}"


def _power(found: CellMeasures, what: str) -> str:
    limit = found.measures.get(f"detectable_{found.headline}")
    if not isinstance(limit, Estimate):
        return "How small a leak would have been seen is not known."
    if limit.value >= 1:
        return (
            f"This attack, at this power, would have detected {what} of 1 at best: too few models or records for "
            "anything less."
        )
    return (
        f"This attack, at this power, would have detected {what} of {limit.value:.2f} or more "
        "(in 4 of 5 such experiments)."
    )


def _who(goal: str) -> str:
    return ACCESS[goal][0].upper() + ACCESS[goal][1:]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.1 <= share <= 0.995 or share in (0.0, 1.0) else f"{100 * share:.1f} %"


_SENTENCES = {"membership": _membership, "extraction": _extraction, "inversion": _inversion, "attribute": _attribute}
