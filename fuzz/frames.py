"""Frames of any kind of column, from bytes: what roles, features and writing make of them."""

from __future__ import annotations

import datetime
from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from clearfold.errors import ClearfoldError

NAMES: tuple[Any, ...] = (
    *("case_id", "patient_id", "slide_id", "label", "time", "event", "a", "b", "shape.area", "", " ", "index"),
    *("=x", "'=x", "Unnamed: 0", "\x00", "a\nb", "\u202ea", "\ud800", None, 0, 1.5, float("nan"), ("a", "b"), True),
)
CELLS: tuple[Any, ...] = (
    *(
        0,
        1,
        -1,
        2**70,
        0.5,
        1e308,
        float("nan"),
        float("inf"),
        1 + 2j,
        True,
        None,
        pd.NA,
        pd.NaT,
        b"\xff",
        Decimal("1"),
    ),
    *("", "x", "1", "NA", "=1", "'", "\r", "\x00", "\ud800", "a,b", [], [1], {}, {"a": 1}, (1,), np.array([1, 2])),
    *(datetime.date(2020, 1, 1), datetime.timedelta(1), pd.Timestamp(0, tz="UTC"), pd.Interval(0, 1), object, 10**400),
)
TYPES = (
    "float64",
    "int64",
    "bool",
    "Int64",
    "boolean",
    "string",
    "category",
    "complex128",
    "datetime64[ns]",
    "float16",
)
ARGUMENTS = ("case_id", "patient_id", "label", "time", "event", "features", "ignore", "slide_id")


def seeds() -> list[bytes]:
    """Numbers to draw from."""
    return [bytes([number] * 12) for number in range(12)]


def frame_of(random: Random) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A frame, and arguments of `Table.from_frame`."""
    rows, columns = random.randrange(1, 5), random.randrange(1, 5)
    names = [random.choice(NAMES) for _ in range(columns)]
    series = [_column(rows, random) for _ in names]
    frame = pd.concat(series, axis=1)
    frame.columns = pd.Index(names, tupleize_cols=False)
    if random.random() < 0.3:
        frame.index = pd.Index(
            [random.choice(CELLS[:6]) for _ in range(rows)], name=random.choice((None, "a", "label"))
        )
    arguments: dict[str, Any] = {}
    for name in random.sample(ARGUMENTS, random.choice((0, 0, 1, 2))):
        value = random.choice(NAMES[:9])
        arguments[name] = [value, random.choice(NAMES[:9])] if name in ("features", "ignore") else value
    return frame, arguments


def _column(rows: int, random: Random) -> pd.Series[Any]:
    alike = random.random() < 0.6
    cells = [random.choice(CELLS[:12] if alike else CELLS) for _ in range(rows)]
    column = pd.Series(cells, dtype=object)
    if random.random() < 0.6:
        with suppress(Exception):  # not every cell fits every type
            return column.astype(random.choice(TYPES))
    return column


def read(data: bytes) -> None:
    """Roles, features, missing values; then every format that can hold it, and back."""
    from clearfold.table import Table, read_table, write_table
    from fuzz.targets import folder

    random = Random(data)
    try:
        frame, arguments = frame_of(random)
    except (ValueError, TypeError, OverflowError):  # pandas itself cannot make this frame
        return
    with suppress(ClearfoldError):
        found = Table.from_frame(frame, **arguments)
        _ = found.X, found.y, repr(found), found.n_missing
        with suppress(ClearfoldError):
            _ = found.groups, found.complete()
        path = folder() / f"frame{random.choice(('.csv', '.csv', '.tsv.gz', '.parquet', '.h5'))}"
        write_table(found, path)
        read_table(path)
