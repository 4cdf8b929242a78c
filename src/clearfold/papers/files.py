"""What a reproduction leaves beside its pieces: every table as CSV, JSON and Markdown, and one summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clearfold.papers.claims import number
from clearfold.papers.pieces import plain, versions
from clearfold.papers.reproduction import Reproduction
from clearfold.table import atomic_write, copies
from clearfold.table.copies import slug, write_copies

LONG = ("precision and recall", "embeddings", "first retrieved", "survival", "every seed")
"""Tables that are drawn, not read: they are written as files but are no part of the summary."""


def write_tables(found: Reproduction, folder: Path) -> list[Path]:
    """claims.* and tables/*, each as .csv, .json and .md; summary.json has what the documentation shows."""
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    written = write_copies(found.claims, folder / "claims")
    for one in found.done:
        for title, table in one.findings.tables.items():
            written += write_copies(table.drop(columns=["picture", "outline"], errors="ignore"), tables / slug(title))
    with atomic_write(folder / "summary.json") as temporary:
        temporary.write_text(json.dumps(summary(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*written, folder / "summary.json"]


def summary(found: Reproduction) -> dict[str, Any]:
    """Claims, figures behind them, tables, settings and versions; no splits and no pictures."""
    tables = {title: table for one in found.done for title, table in one.findings.tables.items()}
    used = {name for verdict in found.verdicts for name in verdict.figures}
    return {
        "quick": found.quick,
        "papers": list(found.papers),
        "versions": versions(),
        "missing": dict(found.missing),
        "claims": [verdict.row() for verdict in found.verdicts],
        "pieces": [
            {
                "name": one.name,
                "settings": one.settings,
                "seconds": one.seconds,
                "notes": list(one.findings.notes),
                "warnings": one.warnings,
                "figures": {
                    protocol: {
                        name: [rounded(v) for v in (f.value, f.low, f.high)] + [f.n]
                        for name, f in own.items()
                        if name in used
                    }
                    for protocol, own in one.findings.figures.items()
                },
            }
            for one in found.done
        ],
        "tables": {
            title: {"columns": [str(c) for c in table.columns], "rows": rounded(plain(table.to_numpy().tolist()))}
            for title, table in tables.items()
            if not title.endswith(LONG)
        },
    }


def rounded(value: Any) -> Any:
    """Floats with six digits; None for what is none."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if value == value else None
    return value


def markdown(columns: list[str], rows: list[list[Any]]) -> str:
    """A table of Markdown with numbers as figures are written."""
    return copies.markdown(columns, rows, number)
