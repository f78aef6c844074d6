"""``dpeval audit FILE``: scores in, report out; no model needed. Exit status 3 when the stated claim is refuted.

>>> import tempfile, pathlib
>>> from typer.testing import CliRunner
>>> app = typer.Typer()
>>> _ = app.command()(audit)
>>> path = pathlib.Path(tempfile.mkdtemp()) / "s.csv"
>>> _ = path.write_text("score,member\\n" + "0.9,1\\n0.1,0\\n" * 200)
>>> CliRunner().invoke(app, [str(path), "--claim-epsilon", "1"]).exit_code
3
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpeval.errors import ConfigError, near_miss
from dpeval.scores.results import Inclusion

FORMATS = ("markdown", "json")


def audit(
    file: Annotated[
        Path,
        typer.Argument(
            help="scores: .csv .tsv .jsonl .json .parquet or .npz with columns score and member, and if wanted id, "
            "group, seed and text; a HIGHER score means MORE LIKELY A MEMBER",
            show_default=False,
        ),
    ],
    claim_epsilon: Annotated[
        float | None,
        typer.Option("--claim-epsilon", help="the ε that is claimed for one record", min=0.0, show_default=False),
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="δ of the claim and of the bounds", min=0.0)] = 1e-5,
    inclusion: Annotated[
        Inclusion, typer.Option("--inclusion", help="how it was decided which records are members")
    ] = Inclusion.UNSTATED,
    prevalence: Annotated[
        float, typer.Option("--prevalence", help="share of members in the population, for the PPV")
    ] = 0.1,
    level: Annotated[float, typer.Option("--level", help="confidence level")] = 0.95,
    fpr: Annotated[
        list[float] | None, typer.Option("--fpr", help="false positive rates of the TPR (default 0.01 and 0.001)")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="markdown or json")] = "markdown",
    out: Annotated[
        Path | None, typer.Option("--out", help="write to this file instead of printing", show_default=False)
    ] = None,
    score: Annotated[str | None, typer.Option("--score", help="name of the score column", show_default=False)] = None,
    member: Annotated[
        str | None, typer.Option("--member", help="name of the membership column", show_default=False)
    ] = None,
    record_id: Annotated[str | None, typer.Option("--id", help="name of the id column", show_default=False)] = None,
    group: Annotated[str | None, typer.Option("--group", help="name of the group column", show_default=False)] = None,
    seed: Annotated[str | None, typer.Option("--seed", help="name of the seed column", show_default=False)] = None,
) -> None:
    """Measure membership scores made elsewhere, bound ε from below and judge a claim. Exit 3: refuted."""
    from dpeval.files import write_text
    from dpeval.report.terminal import for_console

    if form not in FORMATS:
        raise ConfigError(f"unknown format {form!r}; {near_miss(form, FORMATS)}")
    from dpeval.scores.file import audit_file

    asked = {"score": score, "member": member, "id": record_id, "group": group, "seed": seed}
    columns = {name: given for name, given in asked.items() if given is not None}
    try:
        found = audit_file(
            file, columns, claim_epsilon=claim_epsilon, delta=delta, inclusion=inclusion, prevalence=prevalence,
            level=level, fprs=tuple(fpr) if fpr else None,
        )  # fmt: skip
    except ValueError as error:
        raise ConfigError(str(error)) from error
    text = found.markdown() if form == "markdown" else json.dumps(found.json(), indent=1, ensure_ascii=False) + "\n"
    if out is None:
        sys.stdout.write(for_console(text, sys.stdout.encoding or "utf-8"))
    else:
        write_text(out, text)
        sys.stdout.write(f"report: {out}\n")
    raise typer.Exit(3 if found.refuted else 0)
