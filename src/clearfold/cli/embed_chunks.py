"""`clearfold embed --chunk-rows`: a Parquet table of any length, a part of it in memory at a time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from clearfold.cli.console import progress_bar, stderr
from clearfold.cli.methods import neighbors_of

if TYPE_CHECKING:
    from clearfold.embedding.placing import Placed, Placing
    from clearfold.table.stream import Stream

CHUNK_ROWS = 50_000


def embed_in_chunks(
    table: Path, output: Path, roles: dict[str, Any], placing: Placing, jobs: int | None
) -> tuple[dict[str, Any], Any]:
    """Write the coordinates; gives back what happened, and the map of the sample that the landmarks are from."""
    from clearfold import plot
    from clearfold.embedding.placing import place_table
    from clearfold.table.stream import open_stream

    stream = open_stream(table, **roles)
    with progress_bar() as bar:
        task = bar.add_task("reading", total=None)

        def tell(what: str, count: int, total: int) -> None:
            name = "fitting on landmarks" if (what, count) == ("reading", total) else what
            bar.update(task, description=name, completed=count, total=total)

        try:
            placed = place_table(stream, output, placing, n_jobs=jobs, progress=tell)
        except KeyboardInterrupt:
            bar.stop()
            stderr().print("stopped: chunks that are done are kept. The same command goes on from there.")
            raise typer.Exit(130) from None
    label = stream.roles.get("label")
    ax = plot.scatter(placed.fitted.embedding_, None if label is None else placed.sample[label])
    return _facts(stream, placed, placing), ax


def _facts(stream: Stream, placed: Placed, placing: Placing) -> dict[str, Any]:
    """As `map_facts` of a table in memory, and what it took."""
    fitted = placed.fitted.fitted_
    bridges = getattr(fitted, "bridges_", None)
    return {
        "samples": placed.n_rows,
        "features": len(stream.features),
        "constant features": placed.constant,
        "ignored columns": stream.ignored,
        "standardised": placing.standardize,
        "method": type(fitted).__name__,
        "landmarks": len(placed.fitted.landmarks_),
        "chosen from": len(placed.sample),
        "neighbors": neighbors_of(fitted),
        "bandwidth": getattr(fitted, "bandwidth_", None),
        "coordinates": int(placed.fitted.embedding_.shape[1]),
        "eigenvalues": [float(value) for value in fitted.eigenvalues_],
        "parts of the graph": getattr(fitted, "n_connected_components_", None),
        "bridges": None if bridges is None else len(bridges),
        "rows in memory at once": placing.chunk_rows,
        "chunks": placed.spans,
        "taken from an earlier run": placed.reused or None,
        "peak memory": None if math.isnan(placed.peak_mb) else f"{placed.peak_mb:.0f} MB a process",
    }
