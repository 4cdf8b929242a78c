"""The `clearfold` command: parse, call, print. Heavy modules are imported inside commands, so help is fast."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from clearfold.errors import ClearfoldError, InputError, TableError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

    from clearfold.table import Table

PICTURES = (".png", ".svg", ".pdf")
CURVE_BELOW = 3000
"""The report has a residual variance curve up to this many samples: it needs every pairwise distance."""


class Method(StrEnum):
    """The embeddings, by the names used on the command line."""

    isomap = "isomap"
    pca = "pca"
    kernel_pca = "kernel-pca"
    laplacian = "laplacian"
    lle = "lle"
    graph = "graph"


CLASSES = {
    Method.isomap: ("Isomap", {"n_neighbors"}),
    Method.pca: ("PCA", set[str]()),
    Method.kernel_pca: ("KernelPCA", {"bandwidth"}),
    Method.laplacian: ("LaplacianEigenmap", {"n_neighbors", "bandwidth"}),
    Method.lle: ("LocallyLinearEmbedding", {"n_neighbors"}),
    Method.graph: ("GraphEmbedding", {"bandwidth"}),
}
"""Method -> class in `clearfold.embedding`, and which of the options it has."""


class Commands(TyperGroup):
    """Turns an error that clearfold raises on purpose into a message and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; with --debug errors keep their traceback."""
        try:
            return super().invoke(ctx)
        except (ClearfoldError, MemoryError) as error:
            if ctx.params.get("debug"):
                raise
            text = str(error)
            if isinstance(error, MemoryError):
                text = f"There is not enough memory ({error}). Try --landmarks 2000."
            _stderr().print(Text.assemble(("error: ", "bold red"), (text, "red")), soft_wrap=True)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `clearfold` command."""
    app()


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

    Begin with [bold]clearfold demo[/bold], which needs no data of yours and ends in a report.
    """


@app.command()
def embed(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Coordinates to write.")] = Path(
        "coordinates.parquet"
    ),
    method: Annotated[Method, typer.Option(help="The embedding.")] = Method.isomap,
    label: Annotated[str | None, typer.Option(help="Column with the class or value that colours the map.")] = None,
    group: Annotated[str | None, typer.Option(help="Column with the patient.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names the sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", "-k", help="Nearest neighbours: isomap, laplacian, lle.  [10]")
    ] = None,
    components: Annotated[str, typer.Option(help="How many coordinates, or 'elbow'.")] = "2",
    bandwidth: Annotated[
        str | None, typer.Option(help="A number or 'median': kernel-pca, laplacian, graph.  [median]")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not standardise the features.")] = False,
    drop_missing: Annotated[
        bool, typer.Option(help="Drop features with over 5% missing values, then incomplete samples.")
    ] = False,
    landmarks: Annotated[
        int | None, typer.Option(help="Fit on this many samples and place the others: for large tables.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of landmarks.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Map to draw: .png, .svg or .pdf.  [beside the output, .png]")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Give every sample of a table its coordinates, and draw the map.

    Features are standardised (mean 0, standard deviation 1) unless --raw is given. The label colours the map
    and has no part in the embedding. Files that exist stay as they were if anything fails.

    [bold]Examples[/bold]

      clearfold embed features.csv --label grade --group patient

      clearfold embed features.parquet -k 15 --components elbow --report report.html

      clearfold embed tiles.h5 --method kernel-pca --bandwidth 2.5 --landmarks 2000 -o tiles.csv
    """
    from clearfold.table import atomic_write, format_of, read_table, write_table

    picture = plot or output.with_name(f"{output.name.split('.')[0]}.png")
    _check_outputs(table, output, picture, report)
    format_of(output)
    embedding = _embedding(method, _whole_or("elbow", components), neighbors, bandwidth, landmarks, seed)
    with ExitStack() as files, _recorded() as notes:
        drawn = files.enter_context(atomic_write(picture))
        written = files.enter_context(atomic_write(report)) if report else None
        with _stderr().status(f"reading {table.name}"):
            cases = read_table(table, label=label, patient_id=group, case_id=case, ignore=ignore or ())
            cases = cases.complete() if drop_missing else cases
        X = _matrix(cases, raw)
        with _stderr().status(f"embedding {len(cases)} samples with {method.value}"):
            embedding.fit(X)
        ax = _map(embedding.embedding_, cases)
        ax.get_figure().savefig(drawn, dpi=150)
        facts = _facts(cases, embedding, method, raw)
        if written is not None:
            with _stderr().status("writing the report"):
                _embed_report(cases, X, embedding, facts, ax, notes).write(written)
        write_table(_coordinates(cases, embedding.embedding_), output)
    facts["files"] = [str(path) for path in (output, picture, report) if path]
    _show(facts | {"warnings": notes}, as_json)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path("clearfold-demo"),
) -> None:
    """Map 569 breast tumours that come with scikit-learn, and write a report: nothing is downloaded.

    Three quarters of the cases make the map (Isomap, with PCA beside it); the others are placed on it
    without fitting again.

    [bold]Example[/bold]

      clearfold demo -o demo
    """
    from clearfold.demo import run

    with _recorded() as notes, _stderr().status("embedding 569 cases"):
        result = run(output)
    _show(result.facts | {"warnings": notes}, False)
    print(f"Report: {result.report}")
