"""Run the benchmarks: `python -m benchmarks [--quick] [--only NAME ...] [-o results.json]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from threadpoolctl import threadpool_limits

from benchmarks import architecture, archive, embeddings, graphs, importance, new_samples, nuclei, report
from benchmarks.cases import Row, measured
from benchmarks.measure import Workshop

SUITES = {
    "embeddings": embeddings.SUITE,
    "graphs": graphs.SUITE,
    "new_samples": new_samples.SUITE,
    "importance": importance.SUITE,
    "architecture": architecture.SUITE,
    "nuclei": nuclei.SUITE,
    "archive": archive.SUITE,
}
FULL = Path(__file__).parent / "results" / "full.json"
QUICK = Path("build") / "bench-quick.json"
"""The full run is kept and makes a page of the documentation; the quick one only compares outputs."""


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    console = Console(width=None if sys.stdout.isatty() else 180)
    about = {**report.machine(), "quick": options.quick}
    with threadpool_limits(1):  # comparisons of outputs are not measured, but keep to one core as well
        rows = _run(options.quick, set(options.only or ()))
    report.show(console, rows)
    report.write(options.output, rows, about)
    console.print(f"written to {options.output}", markup=False)
    unequal = [row for row in rows if not row.same]
    if unequal:
        console.print(f"{len(unequal)} of {len(rows)} comparisons of outputs failed", style="red")
    return 1 if unequal else 0


def _run(quick: bool, only: set[str]) -> list[Row]:
    workshop = Workshop([f"benchmarks.{name}" for name in SUITES])
    rows: list[Row] = []
    for suite, builders in SUITES.items():
        for name, build in builders.items():
            if only and not only & {suite, name}:
                continue
            for case in build(quick):
                start = time.perf_counter()
                rows += measured(case, workshop)
                took = time.perf_counter() - start
                print(f"{case.name}, {case.data}, n={case.size}: {took:.1f} s", file=sys.stderr, flush=True)
    return rows


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    names = [name for suite, builders in SUITES.items() for name in (suite, *builders)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="clearfold beside its peers")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes: for equality of outputs, under three minutes"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=f"some of: {', '.join(names)}")
    where = "where to write JSON (default: benchmarks/results/full.json, quick: build/bench-quick.json)"
    parser.add_argument("-o", "--output", type=Path, help=where)
    options = parser.parse_args(arguments)
    options.output = options.output or (QUICK if options.quick else FULL)
    return options


if __name__ == "__main__":
    sys.exit(main())
