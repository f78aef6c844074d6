"""The contract of a defense and of its release, on a tiny model."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from dpeval.errors import LeakError
from dpeval.local_audit import auditable_tap
from dpeval.neighbours import hides_length
from dpeval.plugin import Defense, Release
from dpeval.testing.bench import Tiny, context, global_randomness_watched, require
from dpeval.testing.noise import leaves_nothing_under_overwhelming_noise
from dpeval.types import Claim, Embeddings, NoClaim, Predictions, Trust, Unit

TOLERANCE = 1e-5


class DefenseSubject:
    """A defense under test, trained once."""

    def __init__(self, defense: Defense, tiny: Tiny) -> None:
        self.defense, self.tiny = defense, tiny
        why = defense.unfit(tiny.checkpoint, len(tiny.parts.members))
        require(why is None, f"unfit for the tiny model, so it cannot be checked: {why}")
        with global_randomness_watched("train"):
            self.release = defense.train(tiny.task, context())
        require(isinstance(self.release, Release), f"train returned {type(self.release).__name__}, expected a Release")
        self.records = tiny.parts.test + tiny.parts.auxiliary

    @property
    def tap(self) -> str:
        """A tap at which the release can be asked."""
        taps = self.release.taps
        return taps[0] if taps else "output"


def states_a_claim(subject: DefenseSubject) -> None:
    """The release states a claim, or that there is none."""
    claim = subject.release.claim
    require(isinstance(claim, (Claim, NoClaim)), f"claim is {claim!r}; expected a Claim or NoClaim")
    if isinstance(claim, Claim):
        require(
            bool(claim.scope and claim.mechanism and claim.accountant),
            "the claim leaves scope, mechanism or accountant empty",
        )


def releases_where_it_says(subject: DefenseSubject) -> None:
    """``releases_at`` names the tap of the release, so that the matrix attacks the right tensor."""
    says, taps = subject.defense.releases_at(), subject.release.taps
    require(
        taps is None or says in taps,
        f"releases_at() says {says!r}, but the release answers only at {taps}; return that tap",
    )


def answers_log_probabilities(subject: DefenseSubject) -> None:
    """Predictions are float64 log-probabilities that sum to one, for the ids asked."""
    answer = subject.release.predict(subject.records)
    require(
        isinstance(answer, Predictions) and answer.ids == subject.records.ids, "predict: not the ids that were asked"
    )
    require(answer.log_probs.shape[1] == subject.tiny.task.num_labels, f"predict: {answer.log_probs.shape[1]} classes")
    totals = np.logaddexp.reduce(answer.log_probs, axis=1)
    require(
        bool(np.abs(totals).max() < 1e-6), "predict: probabilities do not sum to 1; return a log-softmax in float64"
    )


def is_reproducible(subject: DefenseSubject) -> None:
    """The same seed gives the same release, to the bit; another seed another one."""
    again = subject.defense.train(subject.tiny.task, context())
    first, second = subject.release.predict(subject.records), again.predict(subject.records)
    require(np.array_equal(first.log_probs, second.log_probs), "two trainings with one seed differ: draw from ctx only")
    other = subject.defense.train(subject.tiny.task, context(seed=1)).predict(subject.records)
    require(
        not np.array_equal(first.log_probs, other.log_probs),
        "another seed gives the same release: the seed is not used",
    )


def is_independent_of_the_batch(subject: DefenseSubject) -> None:
    """A record's answer is the same alone and among others: evaluation mode, no leak between records."""
    few = subject.records.take(range(4))
    together, tap = subject.release, subject.tap
    all_at_once = (together.predict(few).log_probs, together.embed(few, tap))
    for i in range(len(few)):
        alone = few.take([i])
        gap = np.abs(together.predict(alone).log_probs[0] - all_at_once[0][i]).max()
        require(bool(gap <= TOLERANCE), f"predict: a record alone differs by {gap:.2g} from the same among others")
        rows, single = all_at_once[1].rows(i), together.embed(alone, tap).rows(0)
        same = rows.shape == single.shape and np.abs(rows - single).max(initial=0.0) <= TOLERANCE
        require(bool(same), f"embed at {tap!r}: a record alone differs from the same among others")


def repeats_a_draw(subject: DefenseSubject) -> None:
    """The same draw gives the same answer."""
    one, two = (subject.release.embed(subject.records.take(range(3)), subject.tap, draw=1) for _ in range(2))
    require(
        np.array_equal(one.values, two.values),
        "embed: the same draw gave two answers; seed the noise from (seed, draw, id)",
    )


def survives_saving(subject: DefenseSubject) -> None:
    """save and load give a release that answers equal to the bit, and leave no pickle."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subject.release.save(folder)
        bad = [p.name for p in folder.rglob("*") if p.suffix in {".pkl", ".pickle", ".pt", ".bin"}]
        require(not bad, f"save wrote {bad}: safetensors and JSON only, never pickle")
        loaded = type(subject.release).load(folder, torch.device("cpu"))
        first, second = subject.release.predict(subject.records), loaded.predict(subject.records)
        require(np.array_equal(first.log_probs, second.log_probs), "predict differs after save and load")
        one, two = (r.embed(subject.records, subject.tap) for r in (subject.release, loaded))
        require(np.array_equal(one.values, two.values), "embed differs after save and load")
        require(loaded.claim == subject.release.claim, "the claim differs after save and load")


def lets_nothing_go_round(subject: DefenseSubject) -> None:
    """For a local claim: predictions depend on the released tensor alone, and its noise is fresh for each draw."""
    release, claim = subject.release, subject.release.claim
    if not isinstance(claim, Claim) or claim.trust is not Trust.LOCAL:
        return
    require(release.taps is not None, "a local claim, but every position is released in the clear (taps is None)")
    few = subject.records.take(range(6))
    released = release.embed(few, subject.tap)
    expected, got = release.predict(few), _predict_from(release, released)
    gap = float(np.abs(expected.log_probs - got.log_probs).max())
    require(
        gap <= TOLERANCE, f"something goes round the released tensor: predictions from it alone differ by {gap:.2g}"
    )
    swapped = Embeddings(released.ids[::-1], released.values, released.offsets)
    mixed = _predict_from(release, swapped).log_probs
    require(
        bool(np.abs(mixed - got.log_probs).max() <= TOLERANCE),
        "predict_from looks the text up by its id: the clear text goes round",
    )
    lengths = np.diff(released.offsets)
    require(
        claim.unit is Unit.TOKEN or not hides_length(claim) or bool((lengths == lengths[0]).all()),
        f"texts release {lengths.min()} to {lengths.max()} rows: their number tells the length of the text, which no "
        "noise hides; release the same number for every text, or say in `excludes` that the number of tokens is public",
    )
    if auditable_tap(release) is None:
        return  # the claim is about training texts alone, and answers leave without noise
    again = release.embed(few, subject.tap, draw=1)
    require(
        not np.array_equal(again.values, released.values), "two draws give the same tensor: a local claim without noise"
    )


def checks_its_release_point(subject: DefenseSubject) -> None:
    """A release that can test its own release point does so without finding a leak."""
    check = getattr(subject.release, "check", None)
    if callable(check) and isinstance(subject.release.claim, Claim):
        try:
            check()
        except LeakError as error:
            require(False, str(error))


def _predict_from(release: Release, released: Embeddings) -> Predictions:
    try:
        return release.predict_from(released)
    except NotImplementedError as error:
        require(False, str(error))
        raise


def overwhelming_noise_leaves_nothing(subject: DefenseSubject) -> None:
    """Under a million times its noise, neither tensor nor predictions nor any installed attack tells texts apart."""
    leaves_nothing_under_overwhelming_noise(subject.defense, subject.release, subject.tap, subject.tiny)


DEFENSE_CHECKS = (
    states_a_claim,
    releases_where_it_says,
    answers_log_probabilities,
    is_reproducible,
    is_independent_of_the_batch,
    repeats_a_draw,
    survives_saving,
    checks_its_release_point,
    lets_nothing_go_round,
    overwhelming_noise_leaves_nothing,
)
