"""Hours of indexing and querying: `python -m benchmarks.soak --minutes 60`. Neither memory nor open files may grow.

One archive is filled, fitted, searched, emptied and opened again, served to HTTP requests meanwhile, and images are
measured beside it. The number of cases goes up and down and comes back, so that whatever grows is lost. Every minute a
line: memory, open files, threads, cases, queries a second. At the end the growth after the warm-up, and exit status 1
if it is beyond a bound.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from clearfold import extract
from clearfold.archive import Archive
from clearfold.cli.serve import listening
from clearfold.datasets import synthetic_tissue
from clearfold.embedding import PCA
from clearfold.web import Settings, create_app

MOST_MB = 8.0
"""Growth of memory over a whole run, after the warm-up, that is still called none: an allocator's own wavering."""
MOST_FILES = 4
"""The same for open files."""
WARM_UP = 0.3
"""Part of a run that fills caches and pools and is not judged."""
FEATURES = [f"shape.nucleus.area.{number}" for number in range(12)]
STEADY, STEP, ROUND = 240, 24, 8
"""Cases between rounds, cases that come and go with each cycle, and cycles after which there is a new fit."""


@dataclass(frozen=True)
class Reading:
    """What the process held at one time, and what was done until then."""

    minutes: float
    memory_mb: float
    files: int
    threads: int
    cases: int
    queries: int

    @classmethod
    def taken(cls, minutes: float, cases: int, queries: int) -> Reading:
        """Of this process, now, without what only waits for the collector."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        return cls(minutes, memory, len(os.listdir("/proc/self/fd")), threading.active_count(), cases, queries)


@dataclass(frozen=True)
class Growth:
    """Growth from the end of the warm-up to the end of the run, along the median of all slopes (Theil and Sen)."""

    memory_mb: float
    files: float
    threads: float

    @classmethod
    def of(cls, readings: list[Reading]) -> Growth:
        judged = readings[int(WARM_UP * len(readings)) :]
        return cls(*(_rise([getattr(one, name) for one in judged]) for name in ("memory_mb", "files", "threads")))

    def complaint(self) -> str:
        """Nothing, or what grew beyond its bound."""
        said = []
        if self.memory_mb > MOST_MB:
            said.append(f"memory grew by {self.memory_mb:.1f} MB; at most {MOST_MB:g} are allowed")
        for name, value in (("open files", self.files), ("threads", self.threads)):
            if value > MOST_FILES:
                said.append(f"{name} grew by {value:.0f}; at most {MOST_FILES} are allowed")
        return "; ".join(said)


def _rise(values: list[float]) -> float:
    i, j = np.triu_indices(len(values), 1)
    if not len(i):
        return 0.0
    series = np.asarray(values, dtype=float)
    return float(np.median((series[j] - series[i]) / (j - i)) * (len(values) - 1))


class Soak:
    """An archive in a folder, a page over it, and one cycle of everything at a time."""

    def __init__(self, folder: Path, client: Any) -> None:
        self.path, self.client = folder / "cases.clearfold", client
        self.cycles = self.queries = 0
        self.tissue = synthetic_tissue(size=96)

    @property
    def cases(self) -> int:
        """Cases that are in the archive between two cycles."""
        return STEADY

    def cycle(self) -> None:
        """Cases come, are found and go; every few cycles a new embedding takes the place of the old one."""
        first = STEADY + STEP * self.cycles
        with Archive.open(self.path) as archive:
            archive.add(_frame(first, STEP))
            self._ask(archive, first)
            for patient in sorted({name // 4 for name in range(first, first + STEP)}):
                archive.remove(patient_id=f"patient-{patient}")
            if self.cycles % ROUND == 0:
                before = [version.number for version in archive.versions()]
                archive.fit(PCA(n_components=3))
                for number in before:
                    archive.drop(number)
            assert len(archive) == STEADY
        self._request()
        self._measure()
        self.cycles += 1

    def _ask(self, archive: Archive, first: int) -> None:
        for number in (0, 7, first):
            assert archive.query(f"case-{number}", k=5).hits
        for row in _frame(10**6 + first, 5)[FEATURES].to_numpy():
            assert len(archive.nearest(archive.place(row[None])[0], 5)) == 5
        self.queries += 8

    def _request(self) -> None:
        number = self.cycles % STEADY
        for address in (
            "/api/v1/archive",
            f"/api/v1/cases?page={1 + self.cycles % 5}",
            f"/api/v1/case?id=case-{number}",
            f"/api/v1/search?case=case-{number}&k=5",
            "/api/v1/map?axes=0,1",
            f"/api/v1/feature?name={FEATURES[number % len(FEATURES)]}",
            "/",
        ):
            answer = self.client.get(address)
            assert answer.status_code == 200, f"{address}: {answer.text[:200]}"
        assert self.client.get("/api/v1/case?id=nobody").status_code == 404
        self.queries += 8

    def _measure(self) -> None:
        features = extract(self.tissue.image, self.tissue.nuclei, mpp=0.5, families=("stain", "density"))
        assert len(features)


@contextmanager
def started() -> Iterator[Soak]:
    """A soak in a folder of its own, its archive filled and served."""
    with tempfile.TemporaryDirectory(prefix="clearfold-soak-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        with Archive.open(folder / "cases.clearfold") as archive:
            archive.add(_frame(0, STEADY))
            archive.fit(PCA(n_components=3))
        with _served(folder / "cases.clearfold") as client:
            yield Soak(folder, client)


@contextmanager
def _served(archive: Path) -> Iterator[Any]:
    """A client of the page, which is served by a thread of this process."""
    import httpx
    import uvicorn

    door = listening("127.0.0.1", 0)
    port = door.getsockname()[1]
    app = create_app(archive, Settings(port=port))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False, follow_redirects=True
        ) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        door.close()


def _frame(first: int, count: int) -> pd.DataFrame:
    numbers = np.arange(first, first + count)
    about = {
        "case_id": [f"case-{number}" for number in numbers],
        "patient_id": [f"patient-{number // 4}" for number in numbers],
        "label": np.where(numbers % 2, "benign", "cancer"),
    }
    values = np.random.default_rng(first).normal(size=(count, len(FEATURES)))
    return pd.concat([pd.DataFrame(about), pd.DataFrame(values, columns=FEATURES)], axis=1)


def main(arguments: list[str] | None = None) -> int:
    """Run for some minutes; 0 if nothing grew."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two lines")
    options = parser.parse_args(arguments)
    readings: list[Reading] = []
    print("minutes  memory MB  files  threads  cases  cycles  queries/s", flush=True)
    with started() as soak:
        begin = last = time.monotonic()
        while last - begin < 60 * options.minutes:
            before = soak.queries
            while time.monotonic() - last < options.every:
                soak.cycle()
            now = time.monotonic()
            one = Reading.taken((now - begin) / 60, soak.cases, soak.queries)
            rate = (soak.queries - before) / (now - last)
            print(
                f"{one.minutes:7.1f}  {one.memory_mb:9.1f}  {one.files:5d}  {one.threads:7d}  {one.cases:5d}"
                f"  {soak.cycles:6d}  {rate:9.1f}",
                flush=True,
            )
            readings.append(one)
            last = now
    grown = Growth.of(readings)
    print(
        f"after the warm-up: memory {grown.memory_mb:+.1f} MB, files {grown.files:+.0f}, threads {grown.threads:+.0f}"
    )
    complaint = grown.complaint()
    print(complaint or "nothing grew")
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
