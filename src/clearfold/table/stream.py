"""Tables larger than memory: a Parquet file by spans of rows, in any order and in any process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clearfold.errors import TableError
from clearfold.table.columns import ROLES, count_of, listed
from clearfold.table.formats import PathLike
from clearfold.table.roles import Table

BUFFER = 2**16
"""Bytes of a column that are read at once: without it Arrow takes a whole row group into memory."""
BATCH = 8192
"""Rows that are decoded at once."""


@dataclass(frozen=True)
class Span:
    """Rows `start` to `stop` of one row group of the file; `first` is the number of `start` in the whole file."""

    group: int
    start: int
    stop: int
    first: int


@dataclass(frozen=True)
class Stream:
    """A Parquet table that is read by spans; roles, families and ignored columns as in `Table`.

    Made by `open_stream`. What a column is, its first rows decide; ids are not compared between spans.
    """

    path: Path
    n_rows: int
    groups: tuple[int, ...]
    roles: dict[str, str]
    families: dict[str, str]
    ignored: dict[str, str]

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return list(self.families)

    def spans(self, rows: int) -> list[Span]:
        """The whole file in order, at most so many rows each; a span lies in one row group."""
        first, found = 0, []
        for group, size in enumerate(self.groups):
            found += [Span(group, at, min(at + rows, size), first + at) for at in range(0, size, rows)]
            first += size
        return found

    def read(self, span: Span) -> tuple[Any, Any]:
        """The features of a span as floats (rows, m), and its columns with a role as an Arrow table."""
        import pyarrow as pa

        named = list(dict.fromkeys(self.roles.values()))
        try:
            batches = _cursor(self.path, (*named, *self.features), span.group, span.start).read(span.start, span.stop)
        except (pa.ArrowException, OSError, StopIteration) as error:
            raise TableError(f"{self.path.name} could not be read from row {span.first} on: {error}.") from error
        table = pa.Table.from_batches(batches)
        return np.column_stack([_floats(table.column(name)) for name in self.features]), table.select(named)

    def check(self, X: Any, span: Span) -> None:
        """Refuse values that no embedding can use."""
        for what, bad in (("missing", np.isnan(X)), ("infinite", np.isinf(X))):
            if bad.any():
                where = [name for name, any_ in zip(self.features, bad.any(axis=0), strict=True) if any_]
                raise TableError(
                    f"{self.path.name}: {count_of(int(bad.sum()), f'{what} value')} in {listed(where, 5)}, rows "
                    f"{span.first} to {span.first + len(X) - 1}. Fill them, or write the table without these rows or "
                    "features."
                )


def open_stream(path: PathLike, *, ignore: Iterable[str] = (), **roles: str | None) -> Stream:
    """A Parquet file to be read by spans; the arguments name the columns with a role, as in `read_table`."""
    import pyarrow as pa

    path = Path(path)
    if path.suffix.lower() != ".parquet":
        raise TableError(f"{path.name} came; only .parquet can be read by parts. Write the table as .parquet first.")
    if not path.is_file():
        raise TableError(f"There is no file {path}. Check its name and the folder you are in.")
    try:
        with _opened(path) as file:
            facts = file.metadata
            groups = tuple(facts.row_group(number).num_rows for number in range(facts.num_row_groups))
            head = next(file.iter_batches(1000, use_threads=False), None)
            index = _index_columns(file.schema_arrow)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{path.name}: this is not a readable Parquet file ({error}). Write it again.") from error
    if head is None:
        raise TableError(f"{path.name} has no rows. Wanted is at least one.")
    taken = {name for name in roles.values() if name} | set(ROLES)
    index = [name for name in index if name not in taken]
    frame = pa.Table.from_batches([head]).to_pandas(ignore_metadata=True, use_threads=False)
    try:
        first = Table.from_frame(frame, ignore=[*index, *ignore], **roles)
    except TableError as error:
        raise TableError(f"{path.name}: {error}") from error
    ignored = first.ignored | dict.fromkeys(index, "the index")
    return Stream(path.absolute(), sum(groups), groups, first.roles, first.families, ignored)


class _Cursor:
    """A place in a row group: going on from it is cheap, going back means to decode from the beginning."""

    def __init__(self, path: Path, columns: tuple[str, ...], group: int) -> None:
        self.of, self.at = (path, columns, group, path.stat().st_mtime_ns), 0
        self.file = _opened(path)
        self.batches = self.file.iter_batches(BATCH, row_groups=[group], columns=list(columns), use_threads=False)
        self.rest: Any = ()

    def read(self, start: int, stop: int) -> list[Any]:
        """Rows `start` to `stop`, in pieces."""
        found = []
        while self.at < stop:
            if len(self.rest) == 0:
                self.rest = next(self.batches)
            step = min(len(self.rest), (start if self.at < start else stop) - self.at)
            if self.at >= start:
                found.append(self.rest.slice(0, step))
            self.rest, self.at = self.rest.slice(step), self.at + step
        return found


_LAST: list[_Cursor] = []
"""The cursor of this process: spans usually come in their order."""


def _cursor(path: Path, columns: tuple[str, ...], group: int, start: int) -> _Cursor:
    wanted = (path, columns, group, path.stat().st_mtime_ns)
    if not _LAST or _LAST[0].of != wanted or _LAST[0].at > start:
        for old in _LAST:
            old.file.close()
        _LAST[:] = [_Cursor(path, columns, group)]
    return _LAST[0]


def _opened(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


def _index_columns(schema: Any) -> list[str]:
    """Columns that were the index of a DataFrame."""
    told = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return [name for name in told.get("index_columns", []) if isinstance(name, str)]


def _floats(column: Any) -> Any:
    """Numbers of an Arrow column, NaN where one is missing."""
    import pyarrow as pa

    return column.cast(pa.float64()).to_numpy()
