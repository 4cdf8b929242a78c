"""What 10^8 nuclei and 10^7 cases would cost, computed from the growth that was measured: not a measurement."""

from __future__ import annotations

import re
from typing import Any

from benchmarks.nuclei import SHAPE
from benchmarks.report import slope

NUCLEI, CASES = 10**8, 10**7
HOUR, ROOM_GB = 3600.0, 64
"""What one fit may take on a core, and the memory of a machine."""
FARTHEST = 10**12
ALL_OF_THEM = ("nuclei: everything", "architecture")
"""Work that holds the others."""
HARALICK = 13
PER_CASE = "8 h + 4 (h + 1) + 16"
"""Bytes of a case in memory while it is searched exactly: double and single precision, number and order."""

Growth = dict[str, Any]


def section(document: dict[str, Any], servers: list[dict[str, Any]], cluster: dict[str, Any]) -> str:
    """The last section of the page."""
    growth = document["growth"]
    parts = [
        "## What would be beyond one machine",
        "",
        "Computed from the exponents above, far beyond the sizes that were measured: an order of magnitude, not a",
        "promise. Two sizes give an exponent without an error; small sizes flatter it: fixed costs hide growth.",
        "",
        *_nuclei(growth),
        *_cases(growth, servers),
        *_breaks(growth),
        *_workers(cluster),
    ]
    return "\n".join(parts)


def _nuclei(growth: list[Growth]) -> list[str]:
    parts = ["### 10^8 nuclei", ""]
    known = [one for one in growth if one.get("axis") == "nuclei" and one["task"] == ""]
    if not known:
        return [*parts, "Not measured in this run.", ""]
    parts += [
        "Images and slides are measured one by one, so time grows with their number. Each is taken as large as the",
        "largest that was measured. One core for each image; memory is that of one worker.",
        "",
        "| work | nuclei of one image | images | core hours | memory of a worker |",
        "|---|---|---|---|---|",
    ]
    total = 0.0
    for one in known:
        size, seconds = max(zip(one["sizes"], one["seconds"], strict=True))
        images = NUCLEI / size
        hours, memory = images * seconds / HOUR, max(one["megabytes"])
        total += hours if one["case"] in ALL_OF_THEM else 0.0
        parts.append(f"| {one['case']} | {size:,} | {images:,.0f} | {hours:,.2f} | {memory:.0f} MB |")
    there = [name for name in ALL_OF_THEM if any(one["case"] == name for one in known)]
    if there:
        parts += ["", f"{' and '.join(there)}: {total:,.1f} core hours, without reading and segmenting the images."]
    columns = len(SHAPE) + HARALICK
    gigabytes = NUCLEI * columns * 8 / 2**30
    return [*parts, "", f"A table of {columns} numbers for each nucleus: {gigabytes:.0f} GB before compression.", ""]


def _cases(growth: list[Growth], servers: list[dict[str, Any]]) -> list[str]:
    parts = ["### 10^7 cases", ""]
    known = [one for one in growth if one.get("axis") == "cases"]
    if known:
        parts += [
            "| work | measured at | seconds there | exponent | seconds at 10^7 | if in proportion |",
            "|---|---|---|---|---|---|",
        ]
        for one in known:
            size, seconds = max(zip(one["sizes"], one["seconds"], strict=True))
            name = ", ".join(filter(None, (one["case"], one["task"], one["data"])))
            then, most = seconds * (CASES / size) ** one["exponent"], seconds * CASES / size
            parts.append(f"| {name} | {size:,} | {seconds:.3g} | {one['exponent']:.2f} | {then:.3g} | {most:.3g} |")
        parts.append("")
    else:
        parts += ["Search was not measured at two sizes in this run.", ""]
    room = ", ".join(f"{CASES * (8 * h + 4 * (h + 1) + 16) / 2**30:.1f} GB of h = {h}" for h in (3, 10, 64))
    parts += [f"Exact search keeps {PER_CASE} bytes of a case with h coordinates in memory: {room}.", ""]
    return parts + _on_a_server(servers)


def _on_a_server(servers: list[dict[str, Any]]) -> list[str]:
    if not servers:
        return ["A server was not measured.", ""]
    by_size = {told["cases"]: told for told in servers}
    largest = by_size[max(by_size)]
    said = []
    for name, what in (("load_s", "loading"), ("place_s", "storing coordinates"), ("index_s", "building the index")):
        times = {size: told[name] for size, told in by_size.items()}
        exponent = slope(times) if len(times) > 1 else 1.0
        said.append((what, largest[name] * (CASES / largest["cases"]) ** exponent, exponent))
    how = "fitted" if len(by_size) > 1 else "taken as 1, for only one size was measured"
    disk = largest["database_mb"] * CASES / largest["cases"] / 1024
    told = ", ".join(f"{what} {seconds / HOUR:.1f} hours (exponent {exponent:.2f})" for what, seconds, exponent in said)
    return [f"On a server (exponents {how}): {told}; disk {disk:.0f} GB, in proportion.", ""]


def _breaks(growth: list[Growth]) -> list[str]:
    """The size at which each work takes an hour of a core or more memory than a machine has; smallest first."""
    parts = ["### What breaks first", ""]
    found = []
    for one in growth:
        size, seconds = max(zip(one["sizes"], one["seconds"], strict=True))
        slow = _reached(size, seconds, one["exponent"], HOUR)
        sizes = {s: mb for s, mb in zip(one["sizes"], one.get("megabytes", []), strict=False) if mb >= 1}
        full = _reached(size, sizes[max(sizes)], slope(sizes), ROOM_GB * 1024) if len(sizes) > 1 else FARTHEST
        name = ", ".join(filter(None, (one["case"], one["task"], one["data"])))
        found.append((min(slow, full), "memory" if full < slow else "time", name, one.get("axis", "samples")))
    if not found:
        return [*parts, "Nothing was measured at two sizes in this run.", ""]
    parts += [
        f"The size at which one piece of work would take an hour of a core, or {ROOM_GB} GB, whichever comes first. An",
        "exponent below 1 is taken as 1: the fixed costs that hide growth at small sizes do not hide it for ever.",
        "",
        "| work | breaks at | because of |",
        "|---|---|---|",
    ]
    for size, why, name, axis in sorted(found):
        parts.append(f"| {name} | {'beyond 10^12' if size >= FARTHEST else f'{size:.1e}'} {axis} | {why} |")
    return [*parts, ""]


def _reached(size: float, value: float, exponent: float, limit: float) -> float:
    return min(float(FARTHEST), size * (limit / value) ** (1 / max(exponent, 1.0)))


def times_by_workers(cluster: dict[str, Any]) -> dict[str, dict[int, float]]:
    """Work -> workers -> seconds, from figures such as "rank on 2, s"."""
    times: dict[str, dict[int, float]] = {}
    for name, value in cluster.items():
        if (found := re.fullmatch(r"(.+) on (\d+), s", name)) and value:
            times.setdefault(found[1], {})[int(found[2])] = float(value)
    return times


def _workers(cluster: dict[str, Any]) -> list[str]:
    parts = ["### Workers", ""]
    if not cluster:
        return [
            *parts,
            "A cluster was not measured: `python -m benchmarks.cluster -o benchmarks/results/cluster.json`.",
            "",
        ]
    parts += [
        f"Workers on one machine of {cluster.get('cores')} cores; wall seconds.",
        "",
        "| work | figure |",
        "|---|---|",
    ]
    parts += [f"| {name} | {_figure(value)} |" for name, value in cluster.items() if name != "cores"]
    parts.append("")
    for name, times in times_by_workers(cluster).items():
        few, many = min(times), max(times)
        share = times[few] * few / (times[many] * many)
        parts.append(f"- {name}: {times[few]:.1f} s with {few}, {times[many]:.1f} s with {many}: {share:.0%} of ideal")
    for name, value in cluster.items():
        if isinstance(value, dict) and value.get("rows a second"):
            hours = NUCLEI / value["rows a second"] / HOUR
            parts.append(
                f"- {name}: 10^8 rows in {hours:.1f} hours at this rate, which does not depend on their number"
            )
    return [*parts, ""]


def _figure(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_figure(one)}" for name, one in value.items())
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
