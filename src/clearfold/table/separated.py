"""Tables as text: CSV and TSV, also compressed; what a spreadsheet would run is guarded."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import pandas as pd

from clearfold.errors import TableError
from clearfold.table.bounds import Bounded
from clearfold.table.columns import Content, no_duplicates, numeric
from clearfold.table.roles import Table

MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "null", "NULL"]
"""Cells of a CSV file that mean a missing value."""
EXACT: Literal["round_trip"] | None = "round_trip" if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else None
"""How pandas is told to read numbers exactly: since 3.1 it always does, and deprecates being told."""
FORMULA = re.compile(r"'*[=+\-@\t\r]")
"""The start of a text cell that is written with one more single quote."""
UNNAMED = re.compile(r"|Unnamed: \d+")
"""A column that pandas or R wrote for the row number: never a feature."""


# Reading ---------------------------------------------------------------------------------------------------


def read_separated(path: Path, text: set[str], separator: str) -> Content:
    """Every column; those named in `text` stay text."""
    try:
        header, rows = _check_csv(path, separator)
        frame = pd.read_csv(
            path,
            sep=separator,
            dtype={name: str for name in header if name in text},
            encoding="utf-8-sig",
            float_precision=EXACT,
            keep_default_na=False,
            na_values=MISSING,
            low_memory=False,
        )
    except TableError:
        raise
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise TableError(f"byte {byte:#x} is not UTF-8 text. Save the file as UTF-8.") from error
    except (csv.Error, ValueError, OverflowError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TableError(f"the file is damaged ({error}). Write it again.") from error
    if len(header) != len(frame.columns) or rows != len(frame):  # stray quotes, lone \r, NUL: two readers, two tables
        raise TableError(
            f"its {rows} rows and {len(header)} columns can also be read as {len(frame)} and {len(frame.columns)}: a "
            "quote, a line end or a zero byte is where none belongs. Save the file again."
        )
    unnamed = tuple(str(name) for name, raw in zip(frame.columns, header, strict=True) if UNNAMED.fullmatch(raw))
    return Content(_without_guard(frame), unnamed=unnamed)


def _check_csv(path: Path, separator: str) -> tuple[list[str], int]:
    """The raw header and the number of rows, once every row has as many cells as the header names.

    pandas mends both faults in silence.
    """
    with _open_text(path) as lines:
        rows = csv.reader(lines, delimiter=separator)
        header = next(filter(None, rows), [])
        if not header:
            raise TableError("the file has no header. Wanted is a header and at least one row.")
        no_duplicates([name for name in header if name], "column")
        other = next((mark for mark in ";\t," if mark in "".join(header)), None)
        if len(header) == 1 and other:
            raise TableError(f"cells seem separated by {other!r}; wanted is {separator!r}. Save the file again.")
        count = 0
        for row in rows:
            count += bool(row)
            if row and len(row) != len(header):
                raise TableError(
                    f"line {rows.line_num} has {len(row)} cells but the header names {len(header)} columns. "
                    "Quote cells that hold the separator, or mend that line."
                )
    return header, count


def _open_text(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        unpacked = io.BufferedReader(Bounded(gzip.GzipFile(path), path))
        return io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _without_guard(frame: pd.DataFrame) -> pd.DataFrame:
    """Take away the single quote that `write_table` puts before text that looks like a formula."""
    text = [name for name, dtype in frame.dtypes.items() if not numeric(dtype)]
    changed = {name: frame[name].map(_unguard) for name in text if frame[name].map(_guarded).any()}
    return frame.assign(**cast("dict[str, Any]", changed)).rename(columns=_unguard)


def _guarded(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith("'") and FORMULA.match(cell) is not None


def _unguard(cell: Any) -> Any:
    return cell[1:] if _guarded(cell) else cell


# Writing ---------------------------------------------------------------------------------------------------


def write_separated(table: Table, temporary: Path, path: Path, separator: str) -> None:
    """Every column; text that looks like a formula gets a single quote before it."""
    frame = table.frame
    text = {name: frame[name].astype(object) for name, dtype in frame.dtypes.items() if not numeric(dtype)}
    guarded = {name: pd.Series(list(map(_guard, column)), frame.index, object) for name, column in text.items()}
    frame = frame.assign(**cast("dict[str, Any]", guarded)).rename(columns=_guard)
    cells = [str(cell) for column in [frame.columns, *guarded.values()] for cell in column]
    # The csv module quotes a lone carriage return only when it quotes all text.
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if "\r" in "".join(cells) else csv.QUOTE_MINIMAL
    try:
        with _create(temporary, path.name.lower().endswith(".gz")) as file:
            frame.to_csv(file, sep=separator, index=False, quoting=quoting, lineterminator="\n", encoding="utf-8")
    except (OverflowError, TypeError) as error:
        raise TableError(f"{path.name} cannot hold this table: {error}. Give each column one kind of value.") from error
    except UnicodeEncodeError as error:
        raise TableError(
            f"{path.name} cannot hold the text {error.object[max(0, error.start - 20) : error.end + 20]!r}: a part of "
            "it is no character, as in names of files that are not UTF-8. Rename it."
        ) from error


@contextmanager
def _create(path: Path, compressed: bool) -> Iterator[IO[bytes]]:
    """A file to write to; a compressed one carries neither its name nor the time, so equal tables are equal."""
    with path.open("wb") as file:
        if compressed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield cast("IO[bytes]", packed)
        else:
            yield file


def _guard(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
