"""The probability of each token for each row, from two decoders that learnt it in different ways, mixed.

One is a fitted picture, bound to the public word embeddings: it can name words that no text of the adversary's own
holds. The other is a trained network over the tokens of its own texts. How much each counts is what makes held-out rows
most probable; where the picture already reads these without a mistake, no network is trained.

With a :class:`~dpeval_attacks.inversion.school.School` at hand::

    decoder, study = RowDecoder.fit(school, training)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from dpeval.types import Floats, Ints, Rows
from dpeval_attacks.inversion.decoder import Decoder, Lesson, Training, Vectors, fit_decoder
from dpeval_attacks.inversion.observation import Sample
from dpeval_attacks.inversion.posterior import Posterior, fit_posterior
from dpeval_attacks.inversion.school import School
from dpeval_attacks.inversion.study import Study, study_releases

_GOOD_ENOUGH = 0.995
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.95)
_HELD_OUT_ROWS = 600


@dataclass(frozen=True, eq=False)
class RowDecoder:
    """``(1 - share) · picture + share · network``, as probabilities."""

    posterior: Posterior
    network: Decoder | None
    known: Ints
    """The tokens that the network names."""
    share: float
    blind: bool = False
    """Whether held-out rows are read no better than by how common tokens are at their place, as far as they tell."""

    @classmethod
    def fit(cls, school: School, training: Training) -> tuple[RowDecoder, Study]:
        """Fitted on the texts that are not held out; and how released rows lie in the first view.

        ValueError where no own text has a token of its own that was released.
        """
        ids = [str(i) for i in range(len(school.tokens))]
        studies = [study_releases(ids, v, school.tokens, special_ids=school.special_ids) for v in school.views]
        learn = _joined([_inner(study, ~school.tried) for study in studies])
        held = _inner(studies[0], school.tried)
        some = np.zeros(len(held), dtype=bool)
        some[school.ctx.rng("held-out rows").permutation(len(held))[:_HELD_OUT_ROWS]] = True
        posterior = fit_posterior(
            learn, held.where(some), school.checkpoint.input_embeddings(), allowed=_allowed(school)
        )
        alone, tried = cls(posterior, None, np.zeros(0, dtype=np.int64), 0.0), held.where(some)
        if not some.any() or alone.accuracy(tried) >= _GOOD_ENOUGH:
            return alone, studies[0]
        known = np.unique(learn.tokens)
        network = _network(school, studies, known, training)
        found = cls(posterior, network, known, 0.0).weighed(tried)
        return replace(found, blind=found.reads_no_better_than_guessed(tried)), studies[0]

    def probs(self, sample: Sample) -> Rows:
        """Of each allowed token for each row, (n, K)."""
        found = np.exp(self.posterior.log_probs(sample))
        if self.share and self.network is not None:
            found *= 1 - self.share
            found[:, np.searchsorted(self.posterior.allowed, self.known)] += self.share * self._networks(sample)
        return found

    def accuracy(self, sample: Sample) -> float:
        """The share of rows read right."""
        return float(np.mean(self.posterior.allowed[self.probs(sample).argmax(axis=1)] == sample.tokens))

    def reads_no_better_than_guessed(self, sample: Sample) -> bool:
        """Within two standard errors of the share that the commonest token of each place gets right."""
        guess = self.posterior.allowed[self.posterior.priors(sample).argmax(axis=1)]
        rate = float(np.mean(guess == sample.tokens))
        return self.accuracy(sample) <= rate + 2 * float(np.sqrt(max(rate * (1 - rate), 1e-4) / len(sample)))

    def _networks(self, sample: Sample) -> Floats:
        assert self.network is not None  # noqa: S101 - told to the type checker
        found: Floats = softmax(self.network.scores(scaled(sample)), axis=1)
        return found

    def weighed(self, held: Sample) -> RowDecoder:
        """With the share that makes ``held`` most probable."""
        rows = np.arange(len(held))
        one = np.exp(self.posterior.log_probs(held))[rows, np.searchsorted(self.posterior.allowed, held.tokens)]
        at = np.minimum(np.searchsorted(self.known, held.tokens), len(self.known) - 1)
        other = np.where(self.known[at] == held.tokens, self._networks(held)[rows, at], 0.0)
        best = max(_SHARES, key=lambda s: float(np.log((1 - s) * one + s * other + 1e-30).sum()))
        return replace(self, share=best)


def scaled(sample: Sample) -> Vectors:
    """Rows at gain one, as a network takes them."""
    return Vectors(
        (sample.rows / sample.gains[:, None]).astype(np.float32), np.asarray(sample.positions, dtype=np.int64)
    )


def _network(school: School, studies: Sequence[Study], known: Ints, training: Training) -> Decoder:
    views = [_inner(study, ~school.tried) for study in studies]
    truth = np.searchsorted(known, views[0].tokens)
    # Tokens that only held-out texts hold cannot be learnt, and say nothing of when to stop.
    held = _inner(studies[0], school.tried)
    held = held.where(np.isin(held.tokens, known))
    shares = (np.bincount(truth, minlength=len(known)) + 0.05) / (len(truth) + 0.05 * len(known))
    same = [scaled(view) for view in views if len(view) == len(views[0])]
    return fit_decoder(
        Lesson(same, truth, scaled(held), np.searchsorted(known, held.tokens)),
        training,
        several=False,
        log_prior=np.log(shares),
        generator=school.ctx.generator("decoder"),
        device=school.ctx.device,
    )


def _inner(study: Study, texts: np.ndarray) -> Sample:
    return study.sample.where(study.is_inner & texts[study.texts])


def _joined(samples: Sequence[Sample]) -> Sample:
    return Sample(
        np.concatenate([s.rows for s in samples]),
        np.concatenate([s.tokens for s in samples]),
        np.concatenate([s.positions for s in samples]),
        np.concatenate([s.gains for s in samples]),
    )


def _allowed(school: School) -> Ints:
    """All tokens but special ones; those met inside texts compete too, and are never an answer."""
    barred = school.special_ids - {token for ids in school.tokens for token in ids[1:-1]}
    everything = np.arange(school.checkpoint.vocab_size)
    return np.setdiff1d(everything, np.array(sorted(barred), dtype=np.int64), assume_unique=True)
