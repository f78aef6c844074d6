"""From what a defense really did to the claim it may make, with what the claim leaves out.

ε is always computed from the noise, the sensitivity and the number of releases or steps that took place; a nominal ε
from a configuration file or a paper is carried beside it, never in its place.

>>> print(local_gaussian_claim(sigma=1.2005, sensitivity=2.0, releases=1, delta=1e-5, unit=Unit.SEQUENCE))
ε = 8 per sequence, local, any-two-inputs, δ = 1.0e-05
>>> run = SampledGaussian(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
>>> print(dp_sgd_claim(run, delta=1e-5, accountant="pld", num_records=10_000, clip=0.1))
ε = 1.828 per record, central, add-or-remove-one, δ = 1.0e-05
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from dpeval.privacy.accountants import Accountant, EpsilonReport, epsilon
from dpeval.privacy.gaussian import epsilon_of_gaussian, gaussian_mu
from dpeval.privacy.labels import sequence_and_label
from dpeval.privacy.mechanisms import FixedSizeGaussian, Mechanism, SampledGaussian, ShuffledGaussian
from dpeval.privacy.shuffle import ShuffleReport
from dpeval.privacy.steps import delta_warning
from dpeval.types import Adjacency, Claim, NoClaim, PrivacyClaim, Trust, Unit

Detail = tuple[str, float | int | str]
ONE_ANSWER = "epsilon of one answer"
"""Name of the detail of a local claim that says what one answer of the finished model gives."""

_ALWAYS_EXCLUDED = (
    "choosing hyperparameters or the published run by looking at the private data",
    "floating-point artefacts of the noise",
)


def claim_of_one_answer(claim: Claim) -> Claim:
    """The same claim with the ε that it states of one answer, where its own ε is that of more releases or less noise.

    >>> told = local_gaussian_claim(
    ...     sigma=1.0, sensitivity=2.0, releases=3, delta=1e-5, unit=Unit.SEQUENCE, also_details=((ONE_ANSWER, 10.0),)
    ... )
    >>> round(told.epsilon, 1), claim_of_one_answer(told).epsilon
    (20.1, 10.0)
    """
    stated = dict(claim.details).get(ONE_ANSWER)
    # What is stated is rounded: the same ε must not look smaller.
    if not isinstance(stated, int | float) or not 0 <= stated < claim.epsilon * (1 - 1e-4):
        return claim
    return dataclasses.replace(claim, epsilon=float(stated))


_SENT = "texts sent to the finished model, and the embeddings that leave a device for them"


def dp_sgd_claim(
    mechanism: Mechanism,
    *,
    delta: float,
    accountant: Accountant,
    num_records: int,
    clip: float,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    target_epsilon: float | None = None,
    also_excludes: Sequence[str] = (),
    also_details: Sequence[Detail] = (),
) -> Claim:
    """The claim of a finished DP-SGD run: pass the steps that were really taken, in ``mechanism``.

    ``clip`` is the norm C to which each record's whole gradient is clipped. Where ε ended above ``target_epsilon``
    (more steps than were planned), the claim says so instead of stating the target. An approximate accountant is
    named as such in ``accountant`` and ``excludes``.
    """
    report = epsilon(mechanism, delta, accountant=accountant, adjacency=adjacency)
    return Claim(
        epsilon=report.value,
        delta=delta,
        unit=Unit.RECORD,
        trust=Trust.CENTRAL,
        adjacency=adjacency,
        mechanism="DP-SGD: clipped per-record gradients plus Gaussian noise",
        accountant=_accountant_name(report),
        sampling=mechanism.sampling,
        scope="the trained weights and whatever is computed from them, for one training record with its label",
        excludes=(
            *_caveats(report, delta, num_records, target_epsilon),
            _SENT,
            *_ALWAYS_EXCLUDED,
            *also_excludes,
        ),
        details=(
            *_dp_sgd_details(mechanism, clip, num_records, target_epsilon),
            *report.settings,
            *([("accounting", report.note)] if report.note else []),
            *also_details,
        ),
    )


def _accountant_name(report: EpsilonReport) -> str:
    return report.accountant if report.is_bound else f"{report.accountant} (approximation, not a bound)"


def _caveats(report: EpsilonReport, delta: float, num_records: int, target: float | None) -> list[str]:
    caveats = []
    if not report.is_bound:
        caveats.append("the ε itself: it is an approximation and may lie below the true one")
    if warning := delta_warning(delta, num_records):
        caveats.append(warning)
    if target is not None and report.value > target:
        caveats.append(f"the target of ε = {target:g}: the run ended above it, at {report.value:.6g}")
    return caveats


def _dp_sgd_details(mechanism: Mechanism, clip: float, num_records: int, target: float | None) -> list[Detail]:
    details: list[Detail] = [("noise multiplier", mechanism.noise_multiplier), ("clipping norm", clip)]
    match mechanism:
        case SampledGaussian():
            details += [("sampling rate", mechanism.sampling_rate), ("steps", mechanism.steps)]
        case FixedSizeGaussian():
            details += [("batch", mechanism.batch), ("steps", mechanism.steps)]
        case ShuffledGaussian():
            details += [("passes", mechanism.epochs)]
    details.append(("records", num_records))
    return details if target is None else [*details, ("target epsilon", target)]


@dataclass(frozen=True, kw_only=True)
class LabelNoise:
    """Randomised response on the labels, made once per record and reused."""

    epsilon: float
    num_labels: int


def local_gaussian_claim(
    *,
    sigma: float,
    sensitivity: float,
    releases: int,
    delta: float,
    unit: Unit,
    labels: LabelNoise | None = None,
    label_excluded: bool | None = None,
    trust: Trust = Trust.LOCAL,
    nominal_epsilon: float | None = None,
    mechanism: str = "analytic Gaussian",
    scope: str | None = None,
    also_excludes: Sequence[str] = (),
    also_details: Sequence[Detail] = (),
) -> Claim:
    """The claim of ``releases`` noisy releases of the same private value, composed exactly.

    ``sigma`` and ``sensitivity`` (2C where each value is normalised to norm C and any other may stand in its place)
    share one unit; ``sigma`` is the deviation of the noise in its weakest direction. ``releases`` counts *fresh* noise:
    noise drawn once and reused is one release. With ``labels`` the claim is on the pair; without them ``excludes``
    names the label unless ``label_excluded`` is false. ``nominal_epsilon`` is what a paper's calibration would print;
    where it is not what holds, ``excludes`` says so.
    """
    in_clear = labels is None if label_excluded is None else label_excluded
    mu = gaussian_mu(sigma, sensitivity, releases)
    composed = epsilon_of_gaussian(mu, delta)
    single = epsilon_of_gaussian(gaussian_mu(sigma, sensitivity), delta)
    details: list[Detail] = [("sigma", sigma), ("sensitivity", sensitivity), ("releases", releases)]
    details += [("epsilon of one release", single), ("epsilon of all releases", composed)]
    value, accountant = composed, "exact Gaussian composition"
    if labels is not None:
        pair = sequence_and_label(mu, delta, labels.epsilon, labels.num_labels)
        value, accountant = pair.tight, "exact composition with randomised response"
        details += [("label epsilon", labels.epsilon), ("labels", labels.num_labels), ("epsilon by sum", pair.basic)]
    if nominal_epsilon is not None:
        details.append(("nominal epsilon", nominal_epsilon))
    return Claim(
        epsilon=value,
        delta=delta,
        unit=unit,
        trust=trust,
        adjacency=Adjacency.REPLACE_ONE if unit is Unit.TOKEN else Adjacency.ANY_TWO_INPUTS,
        mechanism=mechanism,
        accountant=accountant,
        scope=scope if scope is not None else _local_scope(unit, releases, labels),
        excludes=(
            *_local_caveats(value, nominal_epsilon, unit, in_clear),
            *_ALWAYS_EXCLUDED[1:],
            *also_excludes,
        ),
        details=(*details, *also_details),
    )


def epsilon_of_answers(claim: Claim, answers: int) -> float:
    """ε at the claim's δ of ``answers`` releases of one text that is asked about again and again, training not counted.

    For claims of :func:`local_gaussian_claim`; KeyError for others.
    """
    details = dict(claim.details)
    sigma = float(details.get("sigma of an answer", details["sigma"]))
    return epsilon_of_gaussian(gaussian_mu(sigma, float(details["sensitivity"]), answers), claim.delta)


def _local_scope(unit: Unit, releases: int, labels: LabelNoise | None) -> str:
    what = "one token of a text of public length" if unit is Unit.TOKEN else "one text against any other"
    label = " together with its label" if labels else ""
    times = "one release" if releases == 1 else f"all {releases} releases"
    return f"{times} of the noised tensor, for {what}{label}"


def _local_caveats(value: float, nominal: float | None, unit: Unit, label_in_clear: bool) -> list[str]:
    caveats = []
    if nominal is not None and value > nominal * (1 + 1e-9):
        caveats.append(f"the nominal ε = {nominal:g}: what was done only supports ε = {value:.4g}")
    if unit is Unit.TOKEN:
        caveats.append("more than one token: over a text of n tokens μ grows by √n")
    if label_in_clear:
        caveats.append("the label, which is released in clear wherever it is used")
    return caveats


def shuffled_claim(local: Claim, report: ShuffleReport, num_records: int) -> PrivacyClaim:
    """The central claim of ``num_records`` users who each hold ``local`` and send through a trusted shuffler once."""
    if report.vacuous or not report.amplified:
        return NoClaim(f"shuffling {num_records} records: {report.note}")
    return Claim(
        epsilon=report.epsilon,
        delta=report.delta,
        unit=local.unit,
        trust=Trust.SHUFFLED,
        adjacency=Adjacency.REPLACE_ONE,
        mechanism=f"{local.mechanism}, shuffled",
        accountant=f"shuffling: {report.method}",
        scope=f"the shuffled releases of {num_records} users, for one user's record",
        excludes=("a shuffler that colludes or keeps who sent what", *local.excludes),
        details=(("local epsilon", local.epsilon), ("local delta", local.delta), ("records", num_records)),
    )
