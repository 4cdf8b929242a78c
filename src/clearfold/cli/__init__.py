"""The `clearfold` command: parse, call, print. Heavy modules are imported inside commands, so help is fast."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from clearfold.cli.console import Commands
from clearfold.cli.demo import demo
from clearfold.cli.doctor import doctor
from clearfold.cli.embed import embed
from clearfold.cli.evaluate import evaluate
from clearfold.cli.extract import extract
from clearfold.cli.index import index
from clearfold.cli.methods import CLASSES, Method
from clearfold.cli.query import query
from clearfold.cli.rank import rank
from clearfold.cli.report import report
from clearfold.cli.reproduce import reproduce
from clearfold.cli.saliency import saliency
from clearfold.cli.segment import segment
from clearfold.cli.serve import serve

__all__ = ["CLASSES", "Method", "app", "main"]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `clearfold` command; asked to end, it ends its workers and half-written files too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    app(prog_name="clearfold")


def _version(wanted: bool) -> None:
    if wanted:
        from clearfold import __version__

        print(f"clearfold {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Manifolds one can see through: maps of few patients and many features.

    Begin with `clearfold demo`, which needs no data of yours and ends in a report.
    """


path = (segment, extract, embed, rank, saliency, index, query, evaluate, report)
for command in (*path, serve, reproduce, demo, doctor):
    app.command()(command)
