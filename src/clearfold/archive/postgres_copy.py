"""Many rows into a PostgreSQL table: COPY in its binary format, laid out by numpy where all rows are equally long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.store import Floats

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
AT_ONCE = 2000
"""Rows that are laid out at a time."""


Part = Callable[[slice], Sequence[NDArray[Any]]]


def integers(values: Any) -> NDArray[Any]:
    """(n, 8) bytes of BIGINT."""
    return np.ascontiguousarray(values, dtype=">i8").reshape(-1, 1).view(np.uint8)


def doubles(values: Floats) -> NDArray[Any]:
    """(n, 8 h) bytes of BYTEA that hold rows of doubles, little-endian as in a file."""
    return np.ascontiguousarray(values, dtype="<f8").view(np.uint8)


def vectors(values: Floats) -> NDArray[Any]:
    """(n, 4 + 4 h) bytes of pgvector's `vector`: the number of coordinates, nothing, the coordinates."""
    about = np.zeros((len(values), 2), dtype=">i2")
    about[:, 0] = values.shape[1]
    return np.hstack([about.view(np.uint8), np.ascontiguousarray(values, dtype=">f4").view(np.uint8)])


def copy_rows(connection: Any, table: str, columns: Sequence[str], count: int, part: Part) -> None:
    """Put `count` rows into a table; `part(slice)` gives the bytes of each column for some of them."""
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(HEADER)
        for data in _laid_out(count, part):
            copy.write(data)
        copy.write(END)


def _laid_out(count: int, part: Part) -> Iterator[bytes]:
    for begin in range(0, count, AT_ONCE):
        cells = part(slice(begin, begin + AT_ONCE))
        pieces = [_numbers(len(cells[0]), len(cells), ">i2")]
        for cell in cells:
            pieces += [_numbers(len(cell), cell.shape[1], ">i4"), cell]
        yield np.hstack(pieces).tobytes()


def _numbers(rows: int, value: int, kind: str) -> NDArray[Any]:
    return np.full((rows, 1), value, dtype=kind).view(np.uint8)
