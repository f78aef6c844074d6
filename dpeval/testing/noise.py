"""Overwhelming noise: what is left of the texts when a release's noise scale is multiplied by a million.

Nothing may be: neither in the released tensor, nor in the predictions, nor for any installed attack on embeddings.
What remains has gone round the noise (validity guard V8). The statistic compares two draws: the answers to one text
resemble each other more than those to different texts exactly when they still depend on the text.

>>> rng = np.random.default_rng(0)
>>> noise = rng.standard_normal((2, 30, 5))
>>> abs(dependence(noise[0], noise[1])) < 4 < dependence(noise[0], noise[0])
True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpeval.fitness import why_unfit
from dpeval.measure.attribute import AttributeRun, measure_attribute
from dpeval.measure.inversion import InversionRun, measure_inversion
from dpeval.neighbours import hides_length
from dpeval.plugin import AttributeAttack, Defense, InversionAttack, Knowledge, Release
from dpeval.registry import Registry
from dpeval.testing.bench import Tiny, context, require
from dpeval.types import Claim, Embeddings, Estimate, Floats, Inferred, Records, Recovered
from dpeval.views import Memo, embeddings_of

FACTOR = 1e6
_LIMIT = 5.0
"""Standard deviations: chance passes this once in a million."""
_CHANCE = 1e-6
_LEVEL = 0.999
_TARGETS = 24


def leaves_nothing_under_overwhelming_noise(defense: Defense, release: Release, tap: str, tiny: Tiny) -> None:
    """Raise a ContractError when texts still show through a million times the noise; quiet where there is none."""
    loud = release.noisier(FACTOR)
    if loud is None:
        return
    records = _comparable(release, tiny.parts.members + tiny.parts.nonmembers, tap)
    _shows_nothing("the released tensor", *(_flat(loud.embed(records, tap, draw=d)) for d in (0, 1)))
    _shows_nothing("the predictions", *(loud.predict(records, draw=d).log_probs for d in (0, 1)))
    targets = records.take(range(min(_TARGETS, len(records))))
    knowledge = Knowledge(
        checkpoint=tiny.checkpoint,
        defense=defense,
        auxiliary=tiny.parts.auxiliary,
        num_labels=len(tiny.dataset.label_names),
        num_attribute_values=len(tiny.dataset.attribute_values),
    )
    for name in Registry().names("attacks"):
        _gains_nothing(name, loud, targets, tap, knowledge)


def _comparable(release: Release, records: Records, tap: str) -> Records:
    """``records``, or where their length is public by the claim, those of the commonest length: it may show."""
    if not isinstance(release.claim, Claim) or hides_length(release.claim):
        return records
    counts = np.diff(release.embed(records, tap).offsets)
    commonest = np.bincount(counts).argmax()
    return records.take(np.flatnonzero(counts == commonest).tolist())


def dependence(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """How much the answers ``one`` and ``other`` (n, d) to the same n texts agree, in standard deviations of chance.

    The sum of products of matching answers, against its mean and deviation when they are matched at random (Hoeffding
    1951). Zero for independent answers, large where both depend on the text. Every column counts alike: one that noise
    does not reach is not drowned by those that it does.
    """
    first, second = _standardised(one), _standardised(other)
    products = first @ second.T
    n = len(products)
    centred = products - products.mean(axis=0) - products.mean(axis=1, keepdims=True) + products.mean()
    spread = float(np.sqrt(np.sum(np.square(centred)) / max(n - 1, 1)))
    return float((np.trace(products) - products.mean() * n) / spread) if spread > 0 else 0.0


def strongest_column(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The largest correlation of a column of ``one`` with the same of ``other``, as a share of what chance allows.

    Fisher's z of each column (Fisher 1921) over the bound that the largest of so many passes once in a million: above 1
    the noise does not reach that column.
    """
    first, second = _standardised(one), _standardised(other)
    n, columns = first.shape
    agreement = np.clip(np.mean(first * second, axis=0), -1 + 1e-9, 1 - 1e-9)
    bound = float(stats.norm.isf(_CHANCE / (2 * max(columns, 1))))
    return float(np.max(np.abs(np.arctanh(agreement)), initial=0.0) * np.sqrt(max(n - 3, 0)) / bound)


def _standardised(answers: NDArray[np.floating]) -> Floats:
    centred = answers.astype(np.float64) - answers.mean(axis=0, dtype=np.float64)
    spread = centred.std(axis=0)
    scaled: Floats = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return scaled


def _flat(released: Embeddings) -> NDArray[np.floating]:
    counts = np.diff(released.offsets)
    if (counts == counts[0]).all():
        return released.values.reshape(len(released), -1)
    # Row counts that differ tell the length of a text, and are part of what is released.
    return np.hstack([released.pooled() / max(float(released.pooled().std()), 1e-12), counts[:, None]])


def _shows_nothing(what: str, one: NDArray[np.floating], other: NDArray[np.floating]) -> None:
    found, column = dependence(one, other), strongest_column(one, other)
    require(
        abs(found) <= _LIMIT and column <= 1,
        f"under {FACTOR:.0e} times the noise {what} still tells texts apart ({found:.1f} standard deviations, "
        f"where chance stays below {_LIMIT:g}; one column at {column:.1f} of what chance allows): "
        "something goes round the noise",
    )


def _gains_nothing(name: str, loud: Release, targets: Records, tap: str, knowledge: Knowledge) -> None:
    attack = Registry().get("attacks", name)()
    if not isinstance(attack, (InversionAttack, AttributeAttack)):
        return
    if why_unfit(attack, knowledge.checkpoint, tap) is not None:
        return
    view = embeddings_of(Memo(loud), targets, tap)
    if isinstance(attack, InversionAttack):
        read = attack.recover(view, targets.ids, knowledge, context())
        gain = _inversion_gain(read, targets, knowledge, by_row=_by_row(loud, targets, tap, attack))
    else:
        gain = _attribute_gain(attack.infer(view, targets.ids, knowledge, context()), targets, knowledge)
    if isinstance(gain, Estimate):
        require(
            gain.low <= 0,
            f"under {FACTOR:.0e} times the noise {name} still beats guessing by {gain.value:.2f} "
            f"[{gain.low:.2f}, {gain.high:.2f}]: something goes round the noise",
        )


def _by_row(loud: Release, targets: Records, tap: str, attack: InversionAttack) -> bool:
    rows = np.diff(loud.embed(targets, tap).offsets)
    return not attack.answers_bags and bool((rows > 1).any())


def _inversion_gain(read: Recovered, targets: Records, knowledge: Knowledge, *, by_row: bool) -> object:
    checkpoint = knowledge.checkpoint
    special = checkpoint.special_ids
    answers = dict(zip(read.ids, read.tokens, strict=True))
    guessed = tuple(answers[key] for key in targets.ids)
    rows = max((len(g) for g in guessed), default=0) if by_row else checkpoint.max_length
    truth = tuple(
        _true(tokens, len(guess) if by_row else rows, special)
        for tokens, guess in zip(checkpoint.tokens(targets), guessed, strict=True)
    )
    auxiliary = [_true(tokens, rows, special) for tokens in checkpoint.tokens(knowledge.auxiliary)]
    content = frozenset(range(checkpoint.vocab_size)) - special
    run = InversionRun(targets.ids, guessed, truth, content, special, targets.groups, by_row=by_row)
    return measure_inversion([run], auxiliary, level=_LEVEL).estimates["gain_f1"]


def _attribute_gain(found: Inferred, targets: Records, knowledge: Knowledge) -> object:
    where = {key: i for i, key in enumerate(found.ids)}
    kept = [i for i, value in enumerate(targets.attributes) if value is not None]
    if not kept:
        return None
    known = targets.take(kept)
    answers = found.scores[[where[key] for key in known.ids]].argmax(axis=1)
    truth = np.array(known.attributes, dtype=np.int64)
    run = AttributeRun(known.ids, answers, truth, knowledge.num_attribute_values, known.groups)
    return measure_attribute([run], level=_LEVEL).estimates["gain_balanced_accuracy"]


def _true(tokens: list[int], rows: int, special: frozenset[int]) -> tuple[int, ...]:
    padded = [*tokens[:rows], *([-1] * (rows - len(tokens)))]
    return tuple(-1 if token in special else token for token in padded)
