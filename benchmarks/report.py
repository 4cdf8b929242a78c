"""Rows as a table to read and as JSON to keep, with growth and the machine."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import Row

PACKAGES = ("clearfold", "numpy", "scipy", "scikit-learn", "scikit-image", "mahotas", "numba", "faiss-cpu")


@dataclass(frozen=True)
class Growth:
    """Our seconds ~ size^exponent, fitted on log-log over the sizes that were run; and megabytes beside them."""

    axis: str
    case: str
    data: str
    task: str
    sizes: list[int]
    seconds: list[float]
    exponent: float
    megabytes: list[float]


def growth(rows: list[Row]) -> list[Growth]:
    """One fitted exponent for each kind of work that was run at two sizes or more."""
    times: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
    memory: dict[tuple[str, str, str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if not row.error and row.ours_cpu > 0:
            key = row.axis, row.case, row.data, row.task
            times[key].setdefault(row.n, row.ours_cpu)
            memory[key].setdefault(row.n, row.ours_mb)
    return [
        Growth(*key, list(known), list(known.values()), slope(known), list(memory[key].values()))
        for key, known in times.items()
        if len(known) > 1
    ]


def machine() -> dict[str, Any]:
    """Where and on what a run is made; asked for before it, since the source may change on the way."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": _git("rev-parse", "HEAD"),
        "modified": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "threads": 1,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def write(path: Path, rows: list[Row], about: dict[str, Any]) -> None:
    """Everything as JSON; numbers that are not finite as null."""
    kept = [
        {**asdict(row), "ratio": row.ratio, "same": row.same, "fast": row.fast, "small": row.small, **_kept(row)}
        for row in rows
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"about": about, "rows": kept, "growth": [asdict(g) for g in growth(rows)]}
    path.write_text(json.dumps(_finite(document), indent=1, allow_nan=False) + "\n")


def show(console: Console, rows: list[Row]) -> None:
    """The tables: ratios, then growth."""
    table = Table(title="one thread, CPU seconds; ratio = peer / clearfold, above 1 clearfold is faster")
    for name in ("work", "data", "peer"):
        table.add_column(name, overflow="fold")
    for name in ("n", "clearfold", "peer", "ratio", "wanted", "difference", "MB", "peer MB", "memory"):
        table.add_column(name, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    wanted = [good for row in rows for good in (row.fast, row.small) if good is not None]
    console.print(f"{sum(wanted)} of {len(wanted)} wanted times and sizes of memory reached")
    for row in rows:
        for who, error in (("clearfold", row.error), (row.peer, row.peer_error)):
            if error:
                console.print(f"{row.case} {row.task}, n={row.n}: {who} failed: {error}", style="red", markup=False)
    grown = Table(title="growth of clearfold's time: seconds ~ size^exponent")
    for name in ("work", "data", "size", "sizes", "seconds", "exponent"):
        grown.add_column(name)
    for g in growth(rows):
        seconds = " ".join(_seconds(s) for s in g.seconds)
        sizes = " ".join(map(str, g.sizes))
        grown.add_row(_joined(g.case, g.task), g.data, g.axis, sizes, seconds, f"{g.exponent:.2f}")
    console.print(grown)


def _cells(row: Row) -> list[str]:
    differences = "\n".join(
        f"{name} {value:.0e} {_verdict(value <= limit)}" for name, (value, limit) in row.differences.items()
    )
    limit = f"<= {row.limit_mb:.0f} " if row.limit_mb else f"<= {row.wanted_memory}x " if row.wanted_memory else ""
    return [
        _joined(row.case, row.task),
        row.data,
        row.peer,
        str(row.n),
        "[red]failed[/]" if row.error else _ours(row),
        "[red]failed[/]" if row.peer_error else "" if row.peer_cpu is None else _seconds(row.peer_cpu),
        "" if row.ratio is None or row.error else f"{row.ratio:.2f}",
        _wanted(row),
        differences,
        "" if row.error or row.on_the_clock else f"{row.ours_mb:.0f}",
        "" if row.peer_mb is None else f"{row.peer_mb:.0f}",
        limit + _verdict(row.small),
    ]


def _wanted(row: Row) -> str:
    parts = [f">= {row.wanted:.3g}"] if row.wanted is not None else []
    parts += [f"<= {_seconds(row.limit_s)}"] if row.limit_s is not None else []
    return f"{', '.join(parts)} {_verdict(row.fast)}" if parts else ""


def _ours(row: Row) -> str:
    return f"{_seconds(row.ours_wall)} wall" if row.on_the_clock else _seconds(row.ours_cpu)


def _joined(case: str, task: str) -> str:
    return f"{case}, {task}" if task else case


def _verdict(good: bool | None) -> str:
    return "" if good is None else "[green]pass[/]" if good else "[yellow]short[/]"


def _seconds(value: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.0f} us"


def _kept(row: Row) -> dict[str, Any]:
    return {
        "differences": {
            name: {"value": value, "tolerance": tolerance} for name, (value, tolerance) in row.differences.items()
        }
    }


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def slope(times: dict[int, float]) -> float:
    """The exponent of a power law through points, by least squares on log-log."""
    x, y = [math.log(n) for n in times], [math.log(s) for s in times.values()]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle_x) ** 2 for a in x)
    return sum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _git(*words: str) -> str | None:
    top = Path(__file__).parent.parent
    try:
        done = subprocess.run(["git", *words], cwd=top, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
