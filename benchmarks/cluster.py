"""The cluster: `python -m benchmarks.cluster [--rows 1000000] [--rounds 40] [-o results.json]`.

A scheduler and workers on this machine, each a process with one thread. How long the rounds of a ranking take here, on
one worker and on two, and whether the rankings are equal; then how many rows a second are placed by landmarks, here
and on two workers, and the peak of memory. Wall time: on a machine with fewer than four free cores two workers cannot
be twice as fast.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from clearfold import EmbeddingImportance
from clearfold.cluster import on_cluster
from clearfold.embedding import Isomap
from clearfold.embedding.placing import Placing, place_table
from clearfold.table.stream import open_stream

FEATURES = 20


def main() -> int:
    options = _parse()
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        table = _table(Path(folder) / "rows.parquet", options.rows)
        figures: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
        figures["rank here, s"], here = _ranked(options.rounds)
        figures["place here"], one = _placed(table, options.landmarks, options.chunk_rows)
        same = True
        for workers in (1, 2):
            with cluster(Path(folder), workers) as address, on_cluster(address):
                _ranked(4)  # imports in the workers are not measured
                figures[f"rank on {workers}, s"], there = _ranked(options.rounds)
                same &= here.equals(there)
                if workers == 2:
                    figures["place on 2"], two = _placed(table, options.landmarks, options.chunk_rows)
                    same &= one.equals(two)
        figures["equal"] = bool(same)
    for name, value in figures.items():
        print(f"{name:16} {value}")
    if options.output:
        options.output.write_text(json.dumps(figures, indent=2), encoding="utf-8")
    return 0 if same else 1


def _ranked(rounds: int) -> tuple[float, pd.DataFrame]:
    random = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = random.normal(size=(300, 500)) + 0.3 * y[:, None] * (np.arange(500) < 20)
    importance = EmbeddingImportance(method="coherent", n_rounds=rounds, n_permutations=0, random_state=0)
    start = time.perf_counter()
    found = importance.fit(X, y)
    return round(time.perf_counter() - start, 2), found.table_


def _placed(table: Path, landmarks: int, chunk_rows: int) -> tuple[dict[str, float], pd.DataFrame]:
    """Rows a second, without the pass that draws the sample and the fit on the landmarks, which are apart."""
    times: dict[str, float] = {}

    def note(what: str, count: int, total: int) -> None:
        times.setdefault(f"{what} begins", time.perf_counter())
        times[f"{what} ends"] = time.perf_counter()

    output, start = table.with_name("placed.parquet"), time.perf_counter()
    placed = place_table(open_stream(table), output, Placing(Isomap(), landmarks, chunk_rows), progress=note)
    first = min(placed.n_rows, chunk_rows)  # the first chunk is done when the clock starts
    placing = times["placing ends"] - times["placing begins"]
    figures = {
        "reading, s": round(times["reading ends"] - start, 2),
        "all, s": round(time.perf_counter() - start, 2),
        "rows a second": round((placed.n_rows - first) / placing) if placing else float("nan"),
        "peak, MB": round(placed.peak_mb),
    }
    return figures, pd.read_parquet(output)


def _table(path: Path, rows: int) -> Path:
    """A bent sheet in twenty features, written by parts."""
    random = np.random.default_rng(0)
    bend, names = random.normal(size=(2, FEATURES)), [f"shape.f{number}" for number in range(FEATURES)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for begin in range(0, rows, 100_000):
            size = min(100_000, rows - begin)
            X = np.sin(2 * random.random((size, 2)) @ bend) + 0.01 * random.normal(size=(size, FEATURES))
            writer.write_table(pa.table(list(X.T), schema=schema))
    return path


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and so many workers on this machine."""
    from distributed import Client

    file = folder / f"scheduler{workers}.json"
    common = ["--no-dashboard", "--scheduler-file", str(file)]
    commands = [["scheduler", "--host", "127.0.0.1", "--port", "0", *common]]
    commands += [["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder), *common]] * workers
    started = [
        subprocess.Popen([sys.executable, "-m", "dask", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for words in commands
    ]
    try:
        while not file.exists():
            time.sleep(0.05)
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        with Client(address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
        yield address
    finally:
        for one in reversed(started):
            one.kill()
            one.wait()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--chunk-rows", type=int, default=50_000)
    parser.add_argument("-o", "--output", type=Path, help="where to write JSON")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
