"""What a guarantee per answer is worth against an attack that asks about each text again and again.

>>> from dpeval.privacy.claims import local_gaussian_claim
>>> from dpeval.types import Unit
>>> claim = local_gaussian_claim(sigma=1.2005, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE)
>>> print(composed(claim, 10))
ε = 35.62 per sequence, local, any-two-inputs, δ = 1.0e-05
"""

from __future__ import annotations

from dataclasses import replace

from dpeval.config import Named
from dpeval.privacy.claims import epsilon_of_answers
from dpeval.types import Claim, PrivacyClaim, Trust

_ANSWER = "sigma of an answer"


def queries_of(attack: Named) -> int:
    """How often an attack asks a randomised release about each text; 1 unless it says otherwise."""
    queries = getattr(attack.plugin, "queries", 1)
    return queries if isinstance(queries, int) else 1


def query_warnings(attack: Named, claim: PrivacyClaim) -> tuple[str, ...]:
    """K in words, with the guarantee that is left of ``claim`` after K answers about one text; nothing for K = 1."""
    queries = queries_of(attack)
    if queries <= 1:
        return ()
    asked = f"each text is asked about {queries} times and the answers are averaged, where they are random"
    if not isinstance(claim, Claim):
        return (f"{asked}; no guarantee is claimed",)
    if claim.trust is not Trust.LOCAL:
        return (f"{asked}; the claim ({claim}) is on training, and answers of the trained model take nothing from it",)
    if not _answers_are_noisy(claim):
        return (f"{asked}; the claim ({claim}) covers no text that is sent to the finished model",)
    told = (
        f"{asked}; the guarantee is per answer and composes: one answer has {composed(claim, 1)}; {queries} answers "
        f"about one text have {composed(claim, queries)}, and what training released of that text is added to it"
    )
    return (told,)


def composed(claim: Claim, queries: int) -> Claim:
    """The guarantee of ``queries`` answers about one text: exact for Gaussian noise, otherwise K·ε at K·δ.

    K·ε at K·δ is basic composition (Dwork and Roth 2014, theorem 3.16) of answers that are each ``claim``.
    """
    details = dict(claim.details)
    if "sensitivity" in details and (_ANSWER in details or "sigma" in details):
        return replace(claim, epsilon=epsilon_of_answers(claim, queries))
    return replace(claim, epsilon=queries * claim.epsilon, delta=min(1.0, queries * claim.delta))


def _answers_are_noisy(claim: Claim) -> bool:
    """Whether the claim is (also) on what is sent to the finished model.

    A claim that tells how training saw the texts, and no noise of an answer, is on training alone.
    """
    details = dict(claim.details)
    return _ANSWER in details or "training" not in details
