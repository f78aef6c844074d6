"""``dpeval epsilon``: privacy arithmetic from the shell, with its conventions printed beside every number.

>>> from typer.testing import CliRunner
>>> print(CliRunner().invoke(app, ["gaussian", "--epsilon", "8", "--delta", "1e-5", "--sensitivity", "2"]).output)
σ = 1.20046 gives ε = 8 at δ = 1e-05 (1 release)
σ is the noise deviation per coordinate, in the unit of the L2 sensitivity (2; twice the norm C where any input may
replace any other). Exact.
<BLANKLINE>
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Annotated

import typer

from dpeval.privacy import cli_forward
from dpeval.privacy.cli_inputs import Run, Sampling, describe, parse_numbers, read_run, usage_errors
from dpeval.types import Adjacency

app = typer.Typer(
    help="Privacy arithmetic: ε of what was done, and the noise that a target ε needs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command()(cli_forward.forward)
app.command()(cli_forward.translation)

Delta = Annotated[float, typer.Option("--delta", help="δ", min=0.0, max=1.0)]
Epsilon = Annotated[float, typer.Option("--epsilon", help="target ε")]
Sensitivity = Annotated[float, typer.Option("--sensitivity", help="L2 (Frobenius) sensitivity: 2C for any two inputs")]
Rate = Annotated[float | None, typer.Option("--rate", help="Poisson sampling rate q", show_default=False)]
Steps = Annotated[int | None, typer.Option("--steps", help="updates really taken", show_default=False)]
Records = Annotated[int | None, typer.Option("--records", help="training records N", show_default=False)]
Batch = Annotated[int | None, typer.Option("--batch", help="expected batch size B", show_default=False)]
Epochs = Annotated[int | None, typer.Option("--epochs", help="passes over the data", show_default=False)]
MaybeDelta = Annotated[float | None, typer.Option("--delta", help="δ (default: 1/(2N))", show_default=False)]
Adjacent = Annotated[Adjacency, typer.Option("--adjacency", help="which data sets count as neighbours")]
Sampled = Annotated[Sampling, typer.Option("--sampling", help="how batches are drawn")]


@app.command()
def sampled(
    sigma: Annotated[float, typer.Option("--sigma", help="noise multiplier: noise deviation over clipping norm")],
    rate: Rate = None,
    steps: Steps = None,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    delta: MaybeDelta = None,
    adjacency: Adjacent = Adjacency.ADD_OR_REMOVE_ONE,
    sampling: Sampled = Sampling.POISSON,
) -> None:
    """ε of DP-SGD, by every accountant side by side."""
    from dpeval.privacy.sampled import ACCOUNTANTS, epsilon

    with usage_errors():
        run = read_run(sampling, sigma, rate, steps, records, batch, epochs, delta)
        rows = []
        for accountant in ACCOUNTANTS:
            try:
                report = epsilon(run.mechanism, run.delta, accountant=accountant, adjacency=adjacency)
            except ValueError as error:
                rows.append([accountant, "—", "", str(error).removeprefix("epsilon: ")])
                continue
            rows.append(
                [report.accountant, f"{report.value:.6g}", "bound" if report.is_bound else "approx.", report.note]
            )
    _say_table(["accountant", "ε", "kind", "note"], rows)
    _say_run(run, adjacency)


@app.command()
def calibrate(
    epsilon: Epsilon,
    rate: Rate = None,
    steps: Steps = None,
    records: Records = None,
    batch: Batch = None,
    epochs: Epochs = None,
    delta: MaybeDelta = None,
    adjacency: Adjacent = Adjacency.ADD_OR_REMOVE_ONE,
    sampling: Sampled = Sampling.POISSON,
) -> None:
    """The noise multiplier of DP-SGD for a target ε, by every accountant side by side."""
    from dpeval.privacy.sampled import ACCOUNTANTS, calibrate_mechanism, with_noise
    from dpeval.privacy.sampled import epsilon as epsilon_of

    with usage_errors():
        run = read_run(sampling, 1.0, rate, steps, records, batch, epochs, delta)
        rows = []
        for accountant in ACCOUNTANTS:
            try:
                sigma = calibrate_mechanism(
                    run.mechanism, epsilon, run.delta, accountant=accountant, adjacency=adjacency
                )
            except ValueError as error:
                rows.append([accountant, "—", "", "", str(error).partition(": ")[2]])
                continue
            at = with_noise(run.mechanism, sigma)
            report = epsilon_of(at, run.delta, accountant=accountant, adjacency=adjacency)
            kind = "bound" if report.is_bound else "approx."
            rows.append([report.accountant, f"{sigma:.6g}", f"{report.value:.6g}", kind, report.note])
    _say_table(["accountant", "σ", "ε at σ", "kind", "note"], rows)
    _say_run(run, adjacency)


@app.command()
def gaussian(
    delta: Delta,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="gives σ", show_default=False)] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", help="gives ε", show_default=False)] = None,
    sensitivity: Sensitivity = 2.0,
    releases: Annotated[int, typer.Option("--releases", help="releases with fresh noise each", min=1)] = 1,
) -> None:
    """The analytic Gaussian mechanism: σ from ε, or ε from σ, exactly."""
    from dpeval.privacy.gaussian import analytic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu

    with usage_errors():
        if (epsilon is None) == (sigma is None):
            raise typer.BadParameter("give one of --epsilon and --sigma")
        if sigma is None:
            sigma = analytic_gaussian_sigma(epsilon or 0.0, delta, sensitivity * releases**0.5)
        value = epsilon_of_gaussian(gaussian_mu(sigma, sensitivity, releases), delta)
    _say(f"σ = {sigma:.6g} gives ε = {value:.6g} at δ = {delta:g} ({releases} release{'s' * (releases > 1)})")
    _say_sigma(sensitivity)


@app.command()
def classic(epsilon: Epsilon, delta: Delta, sensitivity: Sensitivity = 2.0) -> None:
    """The classic Gaussian mechanism, beside the ε that its noise really gives."""
    from dpeval.privacy.gaussian import classic_gaussian_sigma, epsilon_of_gaussian, gaussian_mu

    with usage_errors():
        sigma = classic_gaussian_sigma(epsilon, delta, sensitivity, beyond_theorem=True)
        true = epsilon_of_gaussian(gaussian_mu(sigma, sensitivity), delta)
    _say(f"σ = {sigma:.6g} for the nominal ε = {epsilon:g}; what it really gives: ε = {true:.6g} at δ = {delta:g}")
    if epsilon >= 1:
        verdict = "which it exceeds here" if true > epsilon else "though it happens to hold here"
        _say(f"The theorem needs ε < 1: the nominal ε is not proven, {verdict}.")
    _say_sigma(sensitivity)


@app.command()
def amgm(
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Sensitivity = 2.0,
    left: Annotated[str, typer.Option(help="singular values of U, comma-separated")] = "",
    right: Annotated[str, typer.Option(help="singular values of V, comma-separated")] = "",
) -> None:
    """The analytic matrix Gaussian Z = U·N·Vᵀ: its bound, and whether given singular values meet it."""
    from dpeval.privacy.matrix_gaussian import amgm_bound, amgm_condition

    with usage_errors():
        bound = amgm_bound(epsilon, delta)
        _say(f"B(ε, δ) = {bound:.6g}; equal noise: σ = S₂/B = {sensitivity / bound:.6g}")
        if left or right:
            report = amgm_condition(parse_numbers(left), parse_numbers(right), epsilon, delta, sensitivity)
            _say(f"smallest singular values: product {report.product:.6g}, needed {report.needed:.6g}: ", nl=False)
            _say(f"{'private' if report.holds else 'NOT private'}; true ε = {report.epsilon:.6g} at δ = {delta:g}")
    _say_sigma(sensitivity)


@app.command()
def mvg(
    rows: Annotated[int, typer.Option(help="rows n of the released matrix")],
    cols: Annotated[int, typer.Option(help="columns d")],
    epsilon: Epsilon,
    delta: Delta,
    sensitivity: Sensitivity = 2.0,
    gamma: Annotated[float, typer.Option(help="largest Frobenius norm of the released matrix (C)")] = 1.0,
) -> None:
    """The MVG mechanism: the noise of its sufficient condition, beside the analytic one."""
    from dpeval.privacy.gaussian import analytic_gaussian_sigma
    from dpeval.privacy.matrix_gaussian import mvg_budget

    with usage_errors():
        budget = mvg_budget(rows, cols, gamma=gamma, sensitivity=sensitivity, epsilon=epsilon, delta=delta)
        exact = analytic_gaussian_sigma(epsilon, delta, sensitivity)
    _say(f"precision budget {budget.budget:.6g} (α {budget.alpha:.6g}, β {budget.beta:.6g}, ζ {budget.zeta:.6g})")
    _say(f"equal noise: σ = {budget.iid_sigma:.6g}, variance {budget.iid_sigma**2:.6g}; analytic: σ = {exact:.6g}")
    _say_sigma(sensitivity)


@app.command()
def labels(
    epsilon: Epsilon,
    count: Annotated[int, typer.Option("--labels", help="number of labels k", min=1)],
    prior: Annotated[str, typer.Option(help="public label probabilities, comma-separated")] = "",
) -> None:
    """Randomised response on labels: how often the true one is kept."""
    from dpeval.privacy.labels import keep_probability, top_labels

    with usage_errors():
        keep = keep_probability(epsilon, count)
        _say(f"kept with probability {keep:.6g}, each other label {(1 - keep) / max(count - 1, 1):.6g}")
        if prior:
            top = top_labels(epsilon, parse_numbers(prior))
            _say(f"with this prior it answers among labels {', '.join(map(str, top))}")
    _say("ε-private (δ = 0) for the label alone, any label against any other; local, one answer per record.")


@app.command()
def shuffle(
    records: Annotated[int, typer.Option(help="users n, one report each")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="local ε of one report")],
    delta: Delta = 1e-6,
    local_delta: Annotated[float, typer.Option("--local-delta", help="local δ of one report")] = 0.0,
    binary: Annotated[bool, typer.Option("--binary", help="the reports are two-valued randomised response")] = False,
) -> None:
    """What a trusted shuffler adds: the proven central ε, numerical and closed form."""
    from dpeval.privacy.shuffle import amplified_closed_form, amplify

    with usage_errors():
        report = amplify(records, epsilon, delta=delta, local_delta=local_delta, binary_response=binary)
        closed = amplified_closed_form(records, epsilon, delta=delta)
    name = "NO GUARANTEE from shuffling" if report.vacuous else f"central ε = {report.epsilon:.6g}"
    _say(f"{name} (δ in all {report.delta:.3g}; {report.method})")
    if not local_delta:
        _say("closed form: " + ("outside its range" if closed is None else f"ε = {closed:.6g}"))
    _say(f"{report.note + '. ' if report.note else ''}Replace-one adjacency; the shuffler is trusted.")


def _say(text: str, *, nl: bool = True) -> None:
    typer.echo(text, nl=nl)


def _say_sigma(sensitivity: float) -> None:
    _say(
        f"σ is the noise deviation per coordinate, in the unit of the L2 sensitivity ({sensitivity:g}; twice the norm "
        "C where any input may\nreplace any other). Exact."
    )


def _say_run(run: Run, adjacency: Adjacency) -> None:
    _say("")
    for line in describe(run, adjacency):
        _say("\n".join(textwrap.wrap(line, 116)))


def _say_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from tabulate import tabulate

    _say(
        tabulate(
            rows, headers, tablefmt="simple", disable_numparse=True, maxcolwidths=[None] * (len(headers) - 1) + [70]
        )
    )
