"""``dpeval epsilon forward``: DP-Forward's noise at every level, what a paper calls it and what it really gives.

>>> from typer.testing import CliRunner
>>> from dpeval.privacy.cli import app
>>> print(CliRunner().invoke(app, ["forward", "--epsilon", "8", "--delta", "1e-5", "--paper-compat"]).output)
σ = 0.600229 for a nominal ε = 8, calibrated as published: sensitivity 1, releases not composed
sensitivity 2 (sequence level): one release gives ε = 19.1212 at δ = 1e-05
<BLANKLINE>
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated

import typer

from dpeval.privacy.cli_inputs import usage_errors
from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu


class Level(StrEnum):
    """What one of is protected."""

    SEQUENCE = "sequence"
    TOKEN = "token"  # noqa: S105 - a unit of text
    TOKEN_ATTENTION = "token-attention"  # noqa: S105


def forward(
    epsilon: Annotated[float, typer.Option("--epsilon", help="target ε of all releases of a text")],
    delta: Annotated[float, typer.Option("--delta", help="δ", min=0.0, max=1.0)],
    clip: Annotated[float, typer.Option("--clip", help="norm C of a text, or of a row at token level")] = 1.0,
    releases: Annotated[int, typer.Option("--releases", help="releases of a text with fresh noise each", min=1)] = 1,
    level: Annotated[Level, typer.Option("--level", help="what one of is protected")] = Level.SEQUENCE,
    largest: Annotated[
        float | None,
        typer.Option("--largest", help="largest singular value of (W_Q;W_K;W_V), for token-attention"),
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", help="tokens of a text, for what token level means for it")] = 0,
    paper_compat: Annotated[bool, typer.Option("--paper-compat", help="the published calibration")] = False,
) -> None:
    """DP-Forward's noise: σ for a target ε, and the ε it really gives for one release, all of them, a whole text."""
    with usage_errors():
        stretch = _stretch(level, largest)
        sensitivity = 2 * clip * stretch
        assumed = 1.0 if paper_compat else sensitivity * math.sqrt(releases)
        sigma = analytic_gaussian_sigma(epsilon, delta, assumed)

        def gives(count: float) -> str:
            return f"ε = {epsilon_of_gaussian(gaussian_mu(sigma, sensitivity * math.sqrt(count)), delta):.6g}"

        how = "a nominal" if paper_compat else "a target"
        published = ", calibrated as published: sensitivity 1, releases not composed" if paper_compat else ""
        typer.echo(f"σ = {sigma:.6g} for {how} ε = {epsilon:g}{published}")
        typer.echo(f"sensitivity {sensitivity:g} ({level.value} level): one release gives {gives(1)} at δ = {delta:g}")
        if releases > 1:
            typer.echo(f"{releases} releases with fresh noise together: {gives(releases)}")
        if tokens and level is not Level.SEQUENCE:
            typer.echo(f"a whole text of {tokens} tokens: {gives(tokens * releases)}")


def translation(
    sigma: Annotated[float, typer.Option("--sigma", help="noise deviation over C")],
    records: Annotated[int, typer.Option("--records", help="training records N", min=1)],
    epochs: Annotated[int, typer.Option("--epochs", help="passes over the data", min=1)] = 3,
    delta: Annotated[float, typer.Option("--delta", help="δ", min=0.0, max=1.0)] = 1e-5,
) -> None:
    """DP-Forward's own "central ε" (paper_translation): no guarantee, kept to compare with its tables."""
    from dpeval.privacy.translation import translated_epsilon

    with usage_errors():
        report = translated_epsilon(sigma, delta, num_records=records, epochs=epochs)
        local = epsilon_of_gaussian(gaussian_mu(sigma, 2.0), delta)
    typer.echo(f"{report.accountant} ε = {report.value:.6g}, NOT a guarantee: {report.note}")
    typer.echo(f"the local ε of one release at sensitivity 2C: {local:.6g} at δ = {delta:g}")


def _stretch(level: Level, largest: float | None) -> float:
    if level is not Level.TOKEN_ATTENTION:
        return 1.0
    if largest is None or not largest > 0:
        raise ValueError(f"--largest: expected the largest singular value of the stacked map, got {largest}")
    return largest
