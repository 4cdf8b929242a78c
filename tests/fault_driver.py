"""Runs in a process of its own as a user without rights, tells what happened: `python fault_driver.py FOLDER`.

Every writer of `WRITERS` is tried in a folder that cannot be written, and once over a file that is there.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from archive_stores import frame_of
from clearfold.archive import Archive
from clearfold.errors import ClearfoldError


def _objects(path: Path) -> None:
    from clearfold.objects import Objects, write_objects

    labels = np.kron(np.arange(64).reshape(8, 8), np.ones((6, 6), dtype=int))
    write_objects(Objects.from_labels(labels), path)


def _figure(path: Path) -> None:
    from matplotlib.figure import Figure

    from clearfold.plot.files import save

    axes = Figure(figsize=(3, 3)).subplots()
    axes.plot(np.random.default_rng(0).normal(size=500))
    save(axes.figure, path)


def _table(path: Path) -> None:
    from clearfold.table import write_table

    frame = frame_of(200)
    write_table(frame.iloc[:, 4:] if path.suffix == ".h5" else frame, path)


def _report(path: Path) -> None:
    from clearfold.report import Report

    Report("a").table(frame_of(100)).write(path)


def _journal(path: Path) -> None:
    import pandas as pd

    from clearfold.features.files import Recipe, Task
    from clearfold.features.journal import Journal

    rows = pd.DataFrame({"case_id": ["a"], **{f"shape.f{number}": [0.5] for number in range(2000)}})
    with Journal(path, Recipe()) as journal:
        journal.add(Task(Path(__file__)), rows)


WRITERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("a.csv", "a.tsv.gz", "a.parquet", "a.h5", "a.h5ad"), _table),
    "a.html": _report,
    **dict.fromkeys(("b.geojson", "b.png", "b.npy", "b.tif"), _objects),
    **dict.fromkeys(("c.svg", "c.png"), _figure),
    ".d.part": _journal,
}


def attempt(name: str, folder: Path) -> str:
    """The words of the refusal; `written` when there was none."""
    try:
        WRITERS[name](folder / name)
    except ClearfoldError as error:
        return f"refused: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "written"


def main() -> None:
    """Give up all rights, then try."""
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as other:  # what is imported late cannot be imported without rights
        for name in WRITERS:
            attempt(name, Path(other))
        Archive.open(Path(other) / "e.clearfold").close()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    told: dict[str, Any] = {name: attempt(name, folder) for name in WRITERS}
    try:
        Archive.open(folder / "e.clearfold")
        told["archive"] = "written"
    except ClearfoldError as error:
        told["archive"] = f"refused: {error}"
    print(json.dumps(told))


if __name__ == "__main__":
    main()
