"""``dpeval epsilon``: every command prints the number and the convention it is in."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dpeval.privacy.cli import app


def out(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_sampled_shows_the_accountants_side_by_side() -> None:
    """Three accountants, the approximation marked, the warning about δ, the conventions."""
    text = out("sampled", "--sigma", "1", "--records", "1000", "--batch", "32", "--epochs", "3", "--delta", "1e-3")
    assert all(word in text for word in ("rdp", "pld", "gdp-clt", "approx.", "WARNING: δ = 0.001", "steps 96"))
    assert "add-or-remove-one" in text
    assert "over the clipping norm" in text


def test_sampled_says_what_cannot_be_accounted() -> None:
    """Fixed-size batches: one accountant answers, the others say why not."""
    text = out(
        "sampled", "--sigma", "10", "--records", "10000", "--batch", "100", "--steps", "50", "--delta", "1e-5",
        "--sampling", "fixed-size", "--adjacency", "replace-one",
    )  # fmt: skip
    assert text.count("fixed-size batches without replacement are covered only by") == 2
    assert "replace-one" in text


def test_calibrate_prints_noise_and_the_epsilon_it_gives() -> None:
    """σ per accountant with ε at most the target."""
    text = out("calibrate", "--epsilon", "1", "--rate", "0.05", "--steps", "20", "--delta", "1e-5")
    assert "rdp" in text
    assert "ε at σ" in text


def test_calibrate_names_the_floor() -> None:
    """An unattainable target is a line in the table, not a crash."""
    text = out("calibrate", "--epsilon", "1e-5", "--rate", "0.05", "--steps", "20", "--delta", "1e-5")
    assert "cannot be reached" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("gaussian --epsilon 8 --delta 1e-5 --sensitivity 1", "σ = 0.600229 gives ε = 8"),
        ("gaussian --sigma 0.600229 --delta 1e-5", "gives ε = 19.12"),
        ("gaussian --sigma 0.600229 --delta 1e-5 --releases 3", "gives ε = 40.5"),
        ("classic --epsilon 20 --delta 1e-10 --sensitivity 1", "ε = 22.4287"),
        ("classic --epsilon 0.5 --delta 1e-5 --sensitivity 1", "σ = 9.68961"),
        ("amgm --epsilon 8 --delta 1e-5 --sensitivity 1 --left 2,1,.75 --right 3,.9", "private; true ε = 6.947"),
        ("amgm --epsilon 8 --delta 1e-5 --sensitivity 1 --left 0.5 --right 1", "NOT private"),
        ("mvg --rows 128 --cols 768 --epsilon 8 --delta 1e-5 --sensitivity 1", "σ = 2.13903e+07"),
        ("labels --epsilon 2.2 --labels 3", "0.818594"),
        ("labels --epsilon 0.1 --labels 3 --prior .98,.01,.01", "among labels 0"),
        ("shuffle --records 67349 --epsilon 1", "central ε = 0.0189377"),
        ("shuffle --records 67349 --epsilon 1 --local-delta 1e-5", "NO GUARANTEE"),
    ],
)
def test_mechanisms(arguments: str, expected: str) -> None:
    """The number of each mechanism."""
    assert expected in out(*arguments.split())


@pytest.mark.parametrize(
    "arguments",
    [
        "sampled --sigma 1 --steps 10",
        "sampled --sigma 1 --rate 0.1 --delta 1e-5",
        "sampled --sigma -1 --rate 0.1 --steps 10 --delta 1e-5",
        "gaussian --delta 1e-5",
        "gaussian --delta 1e-5 --sigma 1 --epsilon 1",
        "amgm --epsilon 8 --delta 1e-5 --left 1,x --right 1",
        "shuffle --records 0 --epsilon 1",
    ],
)
def test_bad_usage_is_status_2(arguments: str) -> None:
    """Said as a usage error, without a traceback."""
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("forward --epsilon 8 --delta 1e-5", "σ = 1.20046 for a target ε = 8"),
        ("forward --epsilon 8 --delta 1e-5 --paper-compat", "one release gives ε = 19.12"),
        ("forward --epsilon 8 --delta 1e-5 --paper-compat --releases 3", "together: ε = 40.52"),
        ("forward --epsilon 8 --delta 1e-5 --releases 3", "together: ε = 8"),
        ("forward --epsilon 8 --delta 1e-5 --level token --tokens 64", "a whole text of 64 tokens: ε = 144.798"),
        ("forward --epsilon 8 --delta 1e-5 --level token-attention --largest 3 --clip 2", "sensitivity 12"),
        ("translation --sigma 0.3194 --records 67349", "paper_translation ε = 7.99"),
        ("translation --sigma 0.3194 --records 67349", "NOT a guarantee"),
    ],
)
def test_forward_noise(arguments: str, expected: str) -> None:
    """DP-Forward's noise by level, as published, and its translation, each with what it is worth."""
    assert expected in out(*arguments.split())


def test_token_attention_needs_its_singular_value() -> None:
    """Without σ_max nothing can be calibrated."""
    result = CliRunner().invoke(app, ["forward", "--epsilon", "8", "--delta", "1e-5", "--level", "token-attention"])
    assert result.exit_code == 2
    assert "largest singular value" in result.output
