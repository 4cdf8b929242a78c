"""The page of figures: `python -m benchmarks.page benchmarks/results/full.json docs/performance.md`.

Beside the results, `postgres*.json` (of `python -m benchmarks.postgres -o`) and `cluster.json` (of
`python -m benchmarks.cluster -o`) are read if they are there. Nothing on the page is typed by hand: a test makes it
again and compares. What was not measured is said to be absent.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import extrapolation
from benchmarks.curves import MOST, Curve, drawn
from benchmarks.report import slope

AXES = {
    "samples": "n, samples",
    "features": "m, features",
    "nuclei": "nuclei",
    "cases": "cases of an archive",
    "workers": "workers of a cluster",
}
"""What time is told along; the size that a case has, and in how many processes it is done."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    for path, text in made(Path(arguments[0]), Path(arguments[1])).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)
    return 0


def made(results: Path, page: Path) -> dict[Path, str]:
    """Every file of the page by its path: the page itself, and its pictures in `images` beside it."""
    document = json.loads(results.read_text())
    servers = [json.loads(path.read_text()) for path in sorted(results.parent.glob("postgres*.json"))]
    cluster = results.parent / "cluster.json"
    figures = json.loads(cluster.read_text()) if cluster.exists() else {}
    pictures, growth = _growth(document, extrapolation.times_by_workers(figures), page)
    parts = [
        _opening(document, results),
        _ratios(document["rows"]),
        growth,
        _server(servers),
        extrapolation.section(document, servers, figures),
    ]
    return {page: "\n".join(parts), **pictures}


def _opening(document: dict[str, Any], results: Path) -> str:
    about = document["about"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items() if number)
    small = (
        "\nThese are the **small** sizes of `make bench-quick`, which are there to compare outputs: most ratios are "
        "wanted at larger sizes only.\n"
        if about["quick"]
        else ""
    )
    changed = ", with changes that were not committed" if about["modified"] else ""
    return f"""# Performance

Made by `python -m benchmarks.page` from `{results.parent.name}/{results.name}`; change nothing here.
`make bench` measures again.
{small}
One thread, seconds of CPU of a process of its own, the best of up to five rounds in which both sides take turns.
Ratio = peer / clearfold: above 1 clearfold is faster. Outputs of both sides are compared in the same run.

| | |
|---|---|
| processor | {about["processor"]}, {about["cores"]} cores, one thread used |
| system | {about["system"]}, Python {about["python"]} |
| versions | {versions} |
| commit | `{(about["commit"] or "unknown")[:12]}`{changed} |
| time | {about["time"]} |
{f"| circumstances | {about['note']} |" if about.get("note") else ""}
"""


def _ratios(rows: list[dict[str, Any]]) -> str:
    wanted = [row for row in rows if _asked(row)]
    others = [row for row in rows if not _asked(row) and row["peer"]]
    alone = [row for row in rows if not _asked(row) and not row["peer"]]
    good = sum(_verdict(row) == "pass" for row in wanted)
    parts = ["## What is wanted, and what was measured", ""]
    if wanted:
        parts += [f"{good} of {len(wanted)} reached.", "", _HEAD, *map(_line, wanted), ""]
    else:
        parts += ["No ratio is wanted at the sizes of this run.", ""]
    if others:
        parts += ["## Other comparisons", "", _HEAD, *map(_line, others), ""]
    if alone:
        parts += [
            "## Work without a peer",
            "",
            "| work | data | size | clearfold | memory | verdict |",
            "|---|---|---|---|---|---|",
        ]
        parts += [
            f"| {_work(row)} | {row['data']} | {row['n']:,} | {_ours(row)} | {_memory(row)} | {_verdict(row)} |"
            for row in alone
        ]
        parts.append("")
    return "\n".join(parts)


_HEAD = """| work | data | size | peer | clearfold | peer's time | wanted | measured | outputs equal to | verdict |
|---|---|---|---|---|---|---|---|---|---|"""


def _line(row: dict[str, Any]) -> str:
    cells = [_work(row), row["data"], f"{row['n']:,}", row["peer"], _ours(row)]
    cells.append("failed" if row["peer_error"] else _seconds(row["peer_cpu"]))
    cells.append("; ".join(_limits(row)))
    memory = f", {_memory(row)}" if _memory_asked(row) else ""
    cells.append("" if row["ratio"] is None else f"{row['ratio']:.2f}x{memory}")
    cells += [_differences(row), _verdict(row)]
    return f"| {' | '.join(cells)} |"


def _line_alone(row: dict[str, Any]) -> str:
    cells = (_work(row), row["data"], f"{row['n']:,}", _ours(row), _memory(row), _verdict(row))
    return f"| {' | '.join(cells)} |"


def _asked(row: dict[str, Any]) -> bool:
    return row["wanted"] is not None or row.get("limit_s") is not None or _memory_asked(row)


def _memory_asked(row: dict[str, Any]) -> bool:
    return row["wanted_memory"] is not None or bool(row["limit_mb"])


def _limits(row: dict[str, Any]) -> list[str]:
    told = [f">= {row['wanted']:.3g}x"] if row["wanted"] is not None else []
    told += [f"<= {_seconds(row['limit_s'])}"] if row.get("limit_s") is not None else []
    told += [f"<= {row['wanted_memory']:g}x memory"] if row["wanted_memory"] is not None else []
    return told + ([f"<= {row['limit_mb']:.0f} MB"] if row["limit_mb"] else [])


def _verdict(row: dict[str, Any]) -> str:
    if not row["same"]:
        return "**outputs differ**" if not row["error"] and not row["peer_error"] else "**failed**"
    told = [good for good in (row["fast"], row["small"]) if good is not None]
    return "" if not told else "pass" if all(told) else "**short**"


def _differences(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {_number(one['value'])} (<= {one['tolerance']:g})" for name, one in row["differences"].items()
    )


def _memory(row: dict[str, Any]) -> str:
    own = f"{row['ours_mb']:.0f} MB"
    return own if row["peer_mb"] is None else f"{own} / {row['peer_mb']:.0f} MB"


def _work(row: dict[str, Any]) -> str:
    return f"{row['case']}, {row['task']}" if row["task"] else str(row["case"])


def _ours(row: dict[str, Any]) -> str:
    if row["error"]:
        return "failed"
    return f"{_seconds(row['ours_wall'])} wall" if row["on_the_clock"] else _seconds(row["ours_cpu"])


def _growth(document: dict[str, Any], workers: dict[str, dict[int, float]], page: Path) -> tuple[dict[Path, str], str]:
    """Pictures by path, and the section that shows them."""
    curves = {axis: _curves(document["growth"], axis) for axis in AXES}
    curves["workers"] = _of_workers(workers)
    pictures: dict[Path, str] = {}
    parts = [
        "## Growth",
        "",
        "Seconds ~ size^exponent, fitted on log-log; in the pictures the exponent stands before each name.",
        "",
    ]
    for axis, title in AXES.items():
        parts += [f"### Along {title}", ""]
        if not curves[axis]:
            parts += ["Not measured in this run.", ""]
            continue
        path = page.parent / "images" / f"performance-{axis}.svg"
        pictures[path] = drawn(curves[axis], title)
        parts += [f"![Seconds along {title}, log-log](images/{path.name})", "", "| work | sizes | seconds | exponent |"]
        parts.append("|---|---|---|---|")
        for curve in curves[axis]:
            sizes, seconds = ", ".join(f"{s:,}" for s in curve.sizes), ", ".join(map(_seconds, curve.seconds))
            parts.append(f"| {curve.name} | {sizes} | {seconds} | {curve.exponent:.2f} |")
        parts += ["", f"The picture shows the first {MOST}.", ""] if len(curves[axis]) > MOST else [""]
    return pictures, "\n".join(parts)


def _curves(growth: list[dict[str, Any]], axis: str) -> list[Curve]:
    found = []
    for one in growth:
        if one.get("axis", "samples") == axis:
            name = ", ".join(filter(None, (one["case"], one["task"], one["data"])))
            found.append(Curve(name, tuple(one["sizes"]), tuple(one["seconds"]), one["exponent"]))
    return found


def _of_workers(known: dict[str, dict[int, float]]) -> list[Curve]:
    return [Curve(name, tuple(t), tuple(t.values()), slope(t)) for name, t in known.items() if len(t) > 1]


def _server(servers: list[dict[str, Any]]) -> str:
    parts = ["## An archive on a server", ""]
    if not servers:
        return "\n".join(
            [*parts, "Not measured: `python -m benchmarks.postgres -o benchmarks/results/postgres.json`.", ""]
        )
    parts += [
        "PostgreSQL with pgvector on the same machine as its clients, which ask through one archive and its pool of "
        "connections. Wall seconds.",
        "",
        "| cases | coordinates | cases loaded | coordinates stored | index built | 1 client: median / 95 % | "
        "8 clients: median / 95 %, queries a second | recall | client | database |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for told in sorted(servers, key=lambda told: told["cases"]):
        one, many = told["clients_1"], told["clients_8"]
        parts.append(
            f"| {told['cases']:,} | {told['coordinates']} | {told['cases'] / told['load_s']:,.0f} a second | "
            f"{told['cases'] / told['place_s']:,.0f} a second | {told['index_s']:.0f} s | "
            f"{one['p50_ms']:.1f} / {one['p95_ms']:.1f} ms | {many['p50_ms']:.1f} / {many['p95_ms']:.1f} ms, "
            f"{many['per_s']:.0f} | {told['recall']:.3f} | {told['client_mb']:.0f} MB | {told['database_mb']:.0f} MB |"
        )
    return "\n".join([*parts, ""])


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.0e}"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e6:.0f} us"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
