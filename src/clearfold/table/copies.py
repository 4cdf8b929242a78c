"""A table for people and programs: the same rows as CSV, JSON and Markdown, side by side."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from clearfold.table.formats import PathLike, atomic_write
from clearfold.table.roles import Table
from clearfold.table.separated import write_separated

NOTHING = "–"
"""What a reader sees in place of a missing value."""


def write_copies(frame: pd.DataFrame, path: PathLike) -> list[Path]:
    """`path` + .csv, .json and .md, without the index; CSV and JSON with all digits, CSV guarded as by `write_table`.

    Each file that was there stays as it was unless the new one is whole.
    """
    path = Path(path)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    rows = [
        [plain(cell) for cell in row] for row in zip(*(frame.iloc[:, i] for i in range(frame.shape[1])), strict=True)
    ]
    records = [dict(zip(frame.columns, row, strict=True)) for row in rows]
    texts = {
        ".json": json.dumps(records, indent=1, ensure_ascii=False) + "\n",
        ".md": markdown(list(frame.columns), rows),
    }
    written = [path.with_name(path.name + suffix) for suffix in (".csv", *texts)]
    with atomic_write(written[0]) as temporary:
        write_separated(Table(frame, {}, {}), temporary, written[0], ",")
    for file, text in zip(written[1:], texts.values(), strict=True):
        with atomic_write(file) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return written


def plain(value: Any) -> Any:
    """What JSON can hold: numpy as Python, dates as text, None for missing and infinite values."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float) else str(value)


def four_digits(value: float) -> str:
    """A number as reports show it."""
    return f"{value:.4g}" if math.isfinite(value) else NOTHING


def markdown(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], number: Callable[[float], str] = four_digits
) -> str:
    """A table of Markdown; bars in cells are kept from ending them."""
    lines = [columns, ["---"] * len(columns), *([_cell(value, number) for value in row] for row in rows)]
    return "".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |\n" for line in lines)


def slug(title: str) -> str:
    """A title as the name of a file.

    >>> slug("Does it hold? (3 rounds)")
    'does-it-hold-3-rounds'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _cell(value: Any, number: Callable[[float], str]) -> str:
    """A dash for nothing, a number as figures are written, text on one line."""
    if value is None or value != value:
        return NOTHING
    return number(value) if isinstance(value, float) else " ".join(str(value).split())
