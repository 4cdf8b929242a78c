"""`clearfold evaluate`: how well an archive answers for patients it has not seen, in one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from clearfold.cli.archives import command_line, open_archive, shown
from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import fact_table, recorded, stderr
from clearfold.cli.report_files import Tables, check_folder, check_page, write_report

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.evaluate.archive_figures import ArchiveEvaluation
    from clearfold.report import Report

COLUMNS = {
    "method": "method",
    "macro": "macro",
    "interval": "95 %",
    "micro": "micro",
    "chance_macro": "chance",
    "precision_at_1": "p@1",
    "precision_at_5": "p@5",
    "precision_at_10": "p@10",
    "among_new": "new",
    "gap": "lead (95 %)",
}

HOW_TO_READ = (
    "Every patient asks once, an archive fitted without that patient; relevant is what has the query's label. AUPRC is "
    "the area under precision against recall: macro is the mean over labels, micro over queries. Intervals come from "
    "drawing patients with replacement.",
    "Chance is the area that a random order has. “archive labels only” puts the archived cases in order of their "
    "labels, the labels in random order: it knows nothing of the query, and shows how much of a figure is due to the "
    "archive knowing its labels. “new” asks the left-out cases among each other, where no label helps.",
    "“lead” is how much higher the macro of the archive's embedding is than that of a line. If the interval holds 0, "
    "they cannot be told apart on these patients.",
    "Standardised Euclid, PCA, the boosted distance, linear discriminants and forest proximity learn from the same "
    "patients as the embedding. p@k is the relevant share of the first k hits.",
)


def evaluate(
    archive: Annotated[str, typer.Argument(help="The archive: a file such as cases.clearfold, or postgresql://...")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML report to write.")] = None,
    folds: Annotated[int, typer.Option(min=2, max=10, help="Folds of patients.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of everything.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes for folds and methods.")] = None,
    scheduler: Scheduler = None,
    tables: Tables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Ask the archive with patients that it was fitted without, and compare its embedding with simple means.

    Examples:

    - `clearfold evaluate cases.clearfold`
    - `clearfold evaluate cases.clearfold -o evaluation.html`
    """
    from clearfold.evaluate.archives import evaluate_archive

    check_page(output)
    check_folder(tables)
    with recorded() as notes, open_archive(archive) as opened:
        with on_workers(scheduler), stderr().status(f"fitting without each of {folds} folds of patients"):
            result = evaluate_archive(opened, n_folds=folds, seed=seed, n_jobs=jobs)
        if output is not None or tables is not None:
            page = evaluation_page(Path(shown(archive)).name, result, notes, seed)
            write_report(page, output, tables)
    if as_json:
        print(json.dumps(as_facts(result) | {"warnings": notes}, indent=2))
    else:
        _show(result)


def as_facts(result: ArchiveEvaluation) -> dict[str, Any]:
    """The figures as plain values."""
    return {
        "embedding": result.embedding,
        "cases": result.n_cases,
        "patients": result.n_patients,
        "folds": result.n_folds,
        "verdict": result.verdict,
        "notes": list(result.notes),
        "methods": json.loads(result.table.to_json(orient="records")),
        "labels": json.loads(result.classes.to_json(orient="records")),
        "confusion": json.loads(result.confusion.to_json(orient="index")),
    }


def figures(result: ArchiveEvaluation) -> pd.DataFrame:
    """The table as text, with intervals."""
    table = result.table.copy()
    edges = zip(table["macro_low"], table["macro_high"], strict=True)
    table["interval"] = [f"{_short(low)}–{_short(high)}" for low, high in edges]
    gaps = zip(table["difference"], table["difference_low"], table["difference_high"], strict=True)
    words = [f"{_short(gap)} ({_short(low)} to {_short(high)})" for gap, low, high in gaps]
    table["gap"] = ["–", *words[1:]]
    return table[list(COLUMNS)].map(lambda value: _short(value) if isinstance(value, float) else value)


def _short(value: float) -> str:
    """Three digits without the zero before the point."""
    return "–" if value != value else f"{value:.3f}".replace("0.", ".", 1)


def _show(result: ArchiveEvaluation) -> None:
    """What fits on a line; the report and --json have the rest."""
    grid = Grid(box=None, pad_edge=False)
    names = [name for name in COLUMNS if name not in ("precision_at_5", "gap")]
    for name in names:
        words = name == "method"  # names give way where a line is short, figures stay whole
        grid.add_column(COLUMNS[name], justify="left" if words else "right", no_wrap=not words)
    for row in figures(result)[names].itertuples(index=False):
        grid.add_row(*(Text(cell, style="bold" if row[0] == result.embedding else "") for cell in row))
    console = Console()
    head = f"AUPRC of {result.n_cases} cases of {result.n_patients} patients, {result.n_folds} folds of patients"
    console.print(Text(head))
    console.print(grid)
    for line in (result.verdict, *result.notes):
        console.print(Text(line), soft_wrap=True)


def evaluation_page(name: str, result: ArchiveEvaluation, notes: list[str], seed: int = 0) -> Report:
    """The whole report of `clearfold evaluate`."""
    from clearfold.report import Report

    page = Report(f"How well does {name} answer for new patients?", {"command": command_line()})
    page.text(result.verdict).warnings([*notes, *result.notes])
    page.heading("The archive's embedding beside simple means").table(
        figures(result).rename(columns=COLUMNS),
        f"AUPRC of {result.n_cases} cases of {result.n_patients} patients, {result.n_folds} folds of patients.",
        name="methods",
        data=result.table,
    )
    page.heading("Precision against recall").figure(
        result.plot(), "Mean over queries; the band is the 95 % interval over patients.", alt=result.verdict
    )
    page.heading("Each label").table(
        result.classes.round(3), "AUPRC of the archive's embedding for queries of a label.", data=result.classes
    )
    mixed = result.confusion.rename_axis("query").reset_index()
    page.heading("What is among the first ten hits").table(
        mixed.round(3), "Rows: label of the query. Columns: share among its hits.", data=mixed
    )
    page.heading("How to read this").text(*HOW_TO_READ)
    facts = {"archive": name, "embedding": result.embedding, "cases": result.n_cases, "patients": result.n_patients}
    return page.ending(
        fact_table(facts | {"folds of patients": result.n_folds, "seed": seed}), [result.embedding.split()[0]]
    )
