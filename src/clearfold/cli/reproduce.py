"""`clearfold reproduce`: the papers' experiments on public data, our figures beside theirs, and verdicts."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import progress_bar, stderr
from clearfold.errors import InputError

if TYPE_CHECKING:
    from clearfold.papers.reproduction import Reproduction

COLOURS = {"reproduced": "green", "not reproduced": "red", "cannot be tested here": "yellow"}


class Paper(StrEnum):
    """One of the five papers, or all."""

    fine = "fine"
    vink = "vink"
    ose_ssl = "ose-ssl"
    bose = "bose"
    rve = "rve"
    all = "all"


def reproduce(
    paper: Annotated[Paper, typer.Argument(help="Which paper, or all.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds: minutes instead of half an hour.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Pieces at the same time.")] = 2,
    scheduler: Scheduler = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Run the papers' experiments on public data and say which of their claims hold.

    The folder gets report.html, every table as CSV, JSON and Markdown, and the pieces of the work. Called again after
    an interruption, it goes on with the pieces that are missing. Data are looked for in the folder that the environment
    variable CLEARFOLD_DATA names; a paper whose data are not there cannot be tested.

    Examples:

    - `clearfold reproduce rve -o evidence`
    - `clearfold reproduce all --quick -o evidence`
    """
    from clearfold.cli.reproduction_page import reproduction_page
    from clearfold.papers.files import write_tables

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is a file. Give a folder to write to.")
    with on_workers(scheduler):
        found = _run(paper.value, output, quick, jobs)
    with stderr().status("writing tables and report"):
        write_tables(found, output)
        command = " ".join(["clearfold", *sys.argv[1:]])
        page = reproduction_page(found, command)
        page.write_tables(output / "tables")
        page.write(output / "report.html")
    if as_json:
        print(json.dumps([verdict.row() for verdict in found.verdicts], indent=2, ensure_ascii=False))
    else:
        _show(found)
        print(f"Report: {output / 'report.html'}")


def _run(paper: str, output: Path, quick: bool, jobs: int) -> Reproduction:
    from clearfold.papers.reproduction import reproduce as run

    with progress_bar() as bar:
        task = bar.add_task("pieces", total=None)

        def tell(name: str, count: int, total: int) -> None:
            bar.update(task, completed=count, total=total, description=name)

        return run(paper, output, quick=quick, n_jobs=jobs, progress=tell)


def _show(found: Reproduction) -> None:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False)
    for name in ("claim", "paper", "ours", "verdict"):
        grid.add_column(name, overflow="fold")
    for verdict in found.verdicts:
        row = verdict.row()
        how = "" if verdict.protocol == "–" else f" ({verdict.protocol})"
        cells = (row["claim"] + how, row["printed"], row["ours"], row["verdict"])
        styles = ("", "", "", COLOURS[verdict.word])
        grid.add_row(*(Text(text, style=style) for text, style in zip(cells, styles, strict=True)))
    Console().print(grid)
