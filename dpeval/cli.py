"""The command line, ``dpeval COMMAND``: run, plan, report, audit, list, explain, check, new and epsilon.

Exit status: 0 all done; 1 a cell failed; 2 usage; 3 a claim was refuted; 130 interrupted.
"""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpeval.errors import ConfigError, DpevalError, StoreError
from dpeval.privacy.cli import app as epsilon_app
from dpeval.report.terminal import for_console
from dpeval.scores.cli import audit

app = typer.Typer(
    name="dpeval",
    help="What a privacy defense for a language model is worth, measured by attacking it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
new_app = typer.Typer(help="Write a working skeleton with its test.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(epsilon_app, name="epsilon")
app.add_typer(new_app, name="new")

UsageError: Any = typer.BadParameter.__bases__[0]
"""Of whichever click typer brings along: newer releases carry their own."""
INTERRUPTED = 130

Matrix = Annotated[Path, typer.Argument(help="the matrix file (TOML)", show_default=False)]
Plugins = Annotated[list[Path], typer.Option("--plugin", help="a Python file that defines defenses or attacks")]
Out = Annotated[Path | None, typer.Option("--out", help="the run's folder (default: runs/NAME)", show_default=False)]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", help="a smoke run on so many records; its report is watermarked", min=1, show_default=False
    ),
]


@app.command()
def run(
    matrix: Matrix,
    out: Out = None,
    jobs: Annotated[int, typer.Option("--jobs", help="worker processes; 0: one for each core")] = 1,
    engine: Annotated[str, typer.Option("--engine", help="local (ray and dask: later)")] = "local",
    limit: Limit = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="forget earlier results of this folder")] = False,
    only_cached: Annotated[bool, typer.Option("--only-cached", help="train and attack nothing new")] = False,
    plugin: Plugins = [],  # noqa: B006 - typer copies it
) -> None:
    """Run or resume a matrix; print the table and write the report."""
    from dpeval.report import render_table
    from dpeval.run import Options, run_matrix

    command = "dpeval " + shlex.join(sys.argv[1:])
    options = Options(
        out=out, jobs=jobs, engine=engine, limit=limit, fresh=fresh, only_cached=only_cached,
        plugins=tuple(plugin), command=command,
    )  # fmt: skip
    done = run_matrix(matrix, options)
    say(render_table(done.result))
    say(f"report: {done.report}")
    raise typer.Exit(done.exit_code)


@app.command()
def plan(matrix: Matrix, out: Out = None, limit: Limit = None, plugin: Plugins = []) -> None:  # noqa: B006
    """Show every cell: cached, to do, or unfit and why; with estimated time and memory. Trains nothing."""
    from dpeval.planning import render_plan

    say(render_plan(matrix, out, tuple(plugin), limit))


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="run folders, or their run.json", show_default=False)],
    form: Annotated[
        str, typer.Option("--format", help="markdown, html, json, csv, latex, roc or positions (figure data as csv)")
    ] = "markdown",
    out: Annotated[
        Path | None, typer.Option("--out", help="write to this file instead of printing", show_default=False)
    ] = None,
    show_text: Annotated[
        bool, typer.Option("--show-text", help="show the texts of the most exposed records, not their ids alone")
    ] = False,
) -> None:
    """Render finished runs again, or compare several; nothing is computed anew."""
    from dpeval.files import write_text
    from dpeval.rerender import rerender

    text = rerender(runs, form, show_text)
    if out is None:
        say(text)
    else:
        write_text(out, text)
        say(f"report: {out}")


app.command()(audit)


@app.command("list")
def list_(plugin: Plugins = []) -> None:  # noqa: B006
    """List defenses, attacks, data and models: name, one line, source."""
    from dpeval.listing import render_listing

    say(render_listing(tuple(plugin)))


@app.command()
def explain(
    run_folder: Annotated[Path, typer.Argument(help="the folder of a run", show_default=False)],
    cell: Annotated[
        str, typer.Argument(help="part of a cell's name, for instance 'dp-adam' or 'invert'", show_default=False)
    ],
    matrix: Annotated[
        Path | None, typer.Option("--matrix", help="the matrix file, if it changed since", show_default=False)
    ] = None,
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """Say why a cell was reused or will run again."""
    from dpeval.explain import render_explanation

    say(render_explanation(run_folder, cell, matrix, tuple(plugin)))


@app.command()
def check(
    target: Annotated[
        str, typer.Argument(help="FILE.py:Class, package.module:Class, or an installed name", show_default=False)
    ],
) -> None:
    """Run the contract suite on a plug-in, with a tiny model."""
    from dpeval.testing import check_target

    outcome = check_target(target)
    say(outcome.text)
    raise typer.Exit(0 if outcome.passed else 1)


@new_app.command("defense")
def new_defense(
    name: Annotated[str, typer.Argument(show_default=False)], folder: Annotated[Path, typer.Option("--folder")] = Path()
) -> None:
    """Write a working defense and its test."""
    from dpeval.scaffold import write_skeleton

    say(write_skeleton("defense", name, folder))


@new_app.command("attack")
def new_attack(
    name: Annotated[str, typer.Argument(show_default=False)], folder: Annotated[Path, typer.Option("--folder")] = Path()
) -> None:
    """Write a working attack and its test."""
    from dpeval.scaffold import write_skeleton

    say(write_skeleton("attack", name, folder))


def say(text: str) -> None:
    """Write to standard output; letters that its encoding lacks are spelt out or replaced, never an exception."""
    sys.stdout.write(for_console(text, sys.stdout.encoding or "utf-8") + "\n")


def complain(error: object) -> None:
    """Write an error to standard error, likewise."""
    sys.stderr.write(for_console(f"dpeval: {error}", sys.stderr.encoding or "utf-8") + "\n")


def main(arguments: list[str] | None = None) -> None:
    """The entry point: runs the command and exits with its status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    sys.exit(status_of(arguments))


def status_of(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        outcome: Any = app(arguments, standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(for_console(f"{error.format_message()}\n", sys.stderr.encoding or "utf-8"))
        else:
            complain(error.format_message())
        return 2
    except ConfigError as error:
        complain(error)
        return 2
    except StoreError as error:
        complain(error)
        return 1
    except DpevalError as error:
        complain(error)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        outcome = INTERRUPTED
    if outcome == INTERRUPTED:
        complain("interrupted; finished work is kept, run the same command again to go on")
    return outcome if isinstance(outcome, int) else 0
