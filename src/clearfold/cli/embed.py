"""`clearfold embed`: coordinates for every sample of a table, and the map."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearfold.cli.cluster import Scheduler, on_workers
from clearfold.cli.console import fact_table, recorded, show, stderr
from clearfold.cli.embed_chunks import CHUNK_ROWS, embed_in_chunks
from clearfold.cli.methods import Method, chosen_embedding, coordinate_table, map_facts, matrix
from clearfold.errors import InputError, TableError

if TYPE_CHECKING:
    import pandas as pd

    from clearfold.report import Report

CURVE_BELOW = 3000
"""A report has a residual variance curve below this many samples: it takes every pairwise distance."""


def embed(
    table: Annotated[Path, typer.Argument(help="Feature table: .csv, .tsv (.gz), .parquet, .h5ad or .h5.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Coordinates to write.")] = Path("coordinates.parquet"),
    method: Annotated[Method, typer.Option(help="The embedding.")] = Method.isomap,
    label: Annotated[str | None, typer.Option(help="Column of the class or value that colours the map.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient.")] = None,
    case: Annotated[str | None, typer.Option(help="Column that names each sample.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    neighbors: Annotated[
        int | None, typer.Option("--neighbors", "-k", help="For isomap, laplacian and lle. Default: 10.")
    ] = None,
    components: Annotated[str, typer.Option(help="Number of coordinates, or 'elbow'.")] = "2",
    bandwidth: Annotated[
        str | None, typer.Option(help="For kernel-pca, laplacian and graph: a number. Default: 'median'.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not standardise the features.")] = False,
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Drop features with over 5% missing, then incomplete samples."),
    ] = False,
    landmarks: Annotated[
        int | None, typer.Option(help="Fit on this many samples and place the others: for large tables.")
    ] = None,
    chunk_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows in memory at once: with --landmarks, for .parquet tables of any length."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="With --chunk-rows: processes that place rows.")] = None,
    scheduler: Scheduler = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of landmarks.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Map to draw: .png, .svg or .pdf. Default: .png beside the output.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what happened as JSON.")] = False,
) -> None:
    """Give every sample of a table its coordinates, and draw the map.

    Features are standardised (mean 0, standard deviation 1) unless --raw is given. The label colours the map;
    it has no part in the embedding. Files that exist stay as they were if anything fails.

    Examples:

    - `clearfold embed features.csv --label grade --group patient`
    - `clearfold embed features.parquet -k 15 --components elbow --report report.html`
    - `clearfold embed tiles.h5 --method kernel-pca --landmarks 2000 -o tiles.csv`
    - `clearfold embed nuclei.parquet --landmarks 2000 --chunk-rows 50000 --scheduler tcp://host:8786`
    """
    from clearfold import plot as plots
    from clearfold.embedding.placing import Placing
    from clearfold.table import atomic_write, read_table, write_table

    picture = plot or output.with_name(f"{output.name.split('.')[0]}.png")
    _check_paths(table, output, picture, report)
    embedding = chosen_embedding(method, components, neighbors, bandwidth)
    in_chunks = chunk_rows is not None or scheduler is not None
    if in_chunks and (landmarks is None or drop_missing):
        raise InputError("--chunk-rows and --scheduler want --landmarks, and a table without missing values.")
    roles: dict[str, Any] = {"label": label, "patient_id": group, "case_id": case, "ignore": ignore or ()}
    with ExitStack() as files, recorded() as notes:
        drawn = files.enter_context(atomic_write(picture))
        page = files.enter_context(atomic_write(report)) if report else None
        if in_chunks:
            files.enter_context(on_workers(scheduler))
            placing = Placing(embedding, int(landmarks or 0), chunk_rows or CHUNK_ROWS, not raw, seed)
            facts, ax = embed_in_chunks(table, output, roles, placing, jobs)
            X = None
        else:
            with stderr().status(f"reading {table.name}"):
                cases = read_table(table, **roles)
                cases = cases.complete() if drop_missing else cases
                X = matrix(cases, raw)
            with stderr().status(f"embedding {len(cases)} samples with {method.value}"):
                fitted = _with_landmarks(embedding, landmarks, seed).fit(X)
            ax = plots.scatter(fitted.embedding_, cases.y)
            facts = map_facts(cases, fitted, method, raw)
        plots.save(ax, drawn)
        if page:
            with stderr().status("writing the report"):
                _report(f"Map of {table.name}", facts, notes, ax, embedding, X).write(page)
        if not in_chunks:
            write_table(coordinate_table(cases, fitted.embedding_), output)
    facts |= {"files": [str(path) for path in (output, picture, report) if path], "warnings": notes}
    print(json.dumps(facts, indent=2)) if as_json else show(facts)


def _check_paths(table: Path, output: Path, picture: Path, report: Path | None) -> None:
    """Say before the work begins what could not be written at its end."""
    from clearfold.plot import PICTURES
    from clearfold.table import format_of

    format_of(output)
    if picture.suffix.lower() not in PICTURES:
        raise InputError(f"The map {picture.name} has no known suffix. Wanted is {', '.join(PICTURES)}.")
    paths = [path.resolve() for path in (table, output, picture, report) if path is not None]
    if len(set(paths)) < len(paths):
        raise InputError("Two of the table, the coordinates, the map and the report are one file. Rename one.")
    if not output.resolve().parent.is_dir():
        raise TableError(f"The folder {output.parent} does not exist. Make it first, or write elsewhere.")


def _with_landmarks(embedding: Any, landmarks: int | None, seed: int) -> Any:
    from clearfold.embedding import LandmarkEmbedding

    if landmarks is None:
        return embedding
    return LandmarkEmbedding(embedding=embedding, n_landmarks=landmarks, random_state=seed)


def _report(
    title: str, facts: Mapping[str, Any], notes: list[str], ax: Any, embedding: Any, X: pd.DataFrame | None
) -> Report:
    from clearfold.embedding import residual_variance
    from clearfold.report import Report

    page = Report(title, {"command": " ".join(["clearfold", *sys.argv[1:]])}).warnings(notes)
    page.figure(
        ax,
        "The first two coordinates of every sample (of a table read by parts: of those that landmarks were chosen "
        "from). The label has no part in the embedding.",
    )
    page.heading("What was done").table(fact_table(facts))
    if X is not None and len(X) < CURVE_BELOW:
        curve = residual_variance(embedding, X, 20)
        page.heading("How many coordinates?").text(
            "Residual variance is 1 minus the correlation between distances on the map and the distances that "
            f"the method preserves. The curve bends at {curve.chosen}; {facts['coordinates']} were computed."
        )
        page.figure(curve.plot(), f"Residual variance; the elbow is at {curve.chosen} coordinates.")
    return page
