"""The page under load: `python -m benchmarks.web [--cases 100000] [--people 20] [--seconds 60]`.

A server over an archive of drawn features, in a process of its own. First how long a page takes to come after the
server was started and once it runs, then one search after the other, then so many people searching at once. The
95th percentile may be 3 times the time of a single search, times the searches that share a core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pandas as pd

ALLOWED = 3.0
SERVE = "import typer; from clearfold.cli.serve import serve; typer.run(serve)"
FIRST_PAGE = ("/search", "/api/v1/archive")
VIEWS = {
    "map": "/api/v1/map",
    "map, ids": "/api/v1/map/ids",
    "map, labels": "/api/v1/map/colour?by=label",
    "map, a feature": "/api/v1/map/colour?by=feature:shape.f0",
    "a feature": "/api/v1/feature?name=shape.f0",
    "cases, page 3": "/api/v1/cases?page=3",
    "cases, filtered": "/api/v1/cases?label=benign",
    "a case": "/api/v1/case?id=case000010",
}


def main() -> int:
    options = _parse()
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "cases.clearfold"
        make_archive(archive, options.cases, options.features)
        command = [sys.executable, "-c", SERVE, str(archive), "--port", "0"]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                return _measure(_address(server), start, options)
            finally:
                server.terminate()


def make_archive(path: Path, cases: int, features: int) -> None:
    """Four classes that differ in every feature a little."""
    from clearfold.archive import Archive
    from clearfold.embedding import PCA

    random = np.random.default_rng(0)
    label = random.integers(0, 4, cases)
    values = random.normal(size=(cases, features)) + 0.5 * label[:, None] * random.normal(size=features)
    families = ("shape", "texture", "graph")
    about = {
        "case_id": [f"case{number:06d}" for number in range(cases)],
        "patient_id": [f"patient{number // 4:06d}" for number in range(cases)],
        "label": np.array(["benign", "low", "middle", "high"])[label],
    }
    names = [f"{families[number % 3]}.f{number}" for number in range(features)]
    with Archive.open(path) as archive:
        archive.add(pd.concat([pd.DataFrame(about), pd.DataFrame(values, columns=names)], axis=1))
        archive.fit(PCA(n_components=3))


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("address"):
            return line.split()[-1]
    raise SystemExit("the server did not start")


def _measure(url: str, start: float, options: argparse.Namespace) -> int:
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        _until_it_answers(client)
        for path in FIRST_PAGE:
            client.get(path).raise_for_status()
        print(f"{options.cases} cases, {options.features} features, {os.cpu_count()} cores")
        print(f"from the command to the first page   {time.perf_counter() - start:8.2f} s")
        print(f"the first page once it runs          {_timed(client, *FIRST_PAGE):8.3f} s")
        for name, path in VIEWS.items():
            first, again = _timed(client, path), _timed(client, path)
            print(f"{name:30} first {first:8.3f} s, then {again:8.3f} s")
        alone = float(np.median([_timed(client, search(number)) for number in range(40)]))
    print(f"one search at a time                 {1000 * alone:8.1f} ms")
    times, errors = crowd(url, options.people, options.seconds)
    late = float(np.quantile(times, 0.95))
    limit = ALLOWED * alone * options.people / (os.cpu_count() or 1)
    print(f"{options.people} people, {options.seconds:g} s: {len(times)} searches, {len(errors)} errors")
    print(f"median {1000 * np.median(times):.1f} ms, 95 % within {1000 * late:.1f} ms, allowed {1000 * limit:.1f} ms")
    print(f"95th percentile / (single search x searches per core) = {late / limit * ALLOWED:.2f}, allowed {ALLOWED:g}")
    for error in errors[:3]:
        print(error, file=sys.stderr)
    return 1 if errors or late > limit else 0


def crowd(url: str, people: int, seconds: float) -> tuple[list[float], list[str]]:
    """Times and errors of so many people who search one case after the other."""
    until, lock = time.perf_counter() + seconds, threading.Lock()
    times: list[float] = []
    errors: list[str] = []

    def one(person: int) -> None:
        with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
            number = 1000 * person
            while time.perf_counter() < until:
                number += 1
                try:
                    took = _timed(client, search(number % 5000))
                except httpx.HTTPError as error:
                    with lock:
                        errors.append(repr(error))
                else:
                    with lock:
                        times.append(took)

    with ThreadPoolExecutor(people) as pool:
        list(pool.map(one, range(people)))
    return times, errors


def search(number: int) -> str:
    return f"/api/v1/search?case=case{number:06d}"


def _timed(client: httpx.Client, *paths: str) -> float:
    start = time.perf_counter()
    for path in paths:
        client.get(path).raise_for_status()
    return time.perf_counter() - start


def _until_it_answers(client: httpx.Client) -> None:
    for _ in range(600):
        try:
            client.get("/login")
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise SystemExit("the server does not answer")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=60)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
