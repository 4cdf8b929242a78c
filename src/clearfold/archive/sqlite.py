"""The archive in one file: SQLite for what is kept, memory for what is searched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearfold.archive.exact import Points, distances_to, rows_with
from clearfold.archive.search import EXACT_UP_TO, Index, can_index
from clearfold.archive.sqlite_file import SqliteFile
from clearfold.archive.store import COLUMNS, Filter, Floats, Near, Numbers, Scalar, State, Version
from clearfold.archive.tables import Tables, as_floats, as_json, as_matrix

FEW = 1000
"""Cases to leave out that an approximate search can make up for by asking for more."""
VALUE = """(SELECT CASE type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE json_quote(value) END
            FROM json_each(about) WHERE key = ?)"""


Candidate = tuple[float, str, int]
"""Distance, case_id and number: in this order they sort as answers do."""


@dataclass(frozen=True)
class Memory:
    """What is known of one version at one state: the index, and the points that it does not hold."""

    state: State
    index: Index | None
    points: Points


@dataclass(frozen=True)
class Column:
    """A filter column: `codes` of the cases with these numbers, into `texts` of JSON."""

    state: State
    numbers: Numbers
    codes: NDArray[np.int64]
    texts: dict[str, int]


class SqliteStore(Tables, SqliteFile):
    """See `Store`. Search is exact up to `exact_up_to` cases, and whenever a filter is given; else by an index."""

    exact_up_to = EXACT_UP_TO

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False) -> None:
        super().__init__(path, create=create, read_only=read_only)
        self._lock = threading.Lock()
        self._memory: dict[tuple[int, bool], Memory] = {}
        self._columns: dict[str, Column] = {}

    def state(self) -> State:
        """The counters; inside `reading()` they are read once, because they cannot change."""
        if self._local.mode != "reading":
            return super().state()
        if self._local.state is None:
            self._local.state = super().state()
        return self._local.state

    # coordinates

    def place(self, version: int, numbers: Numbers, coordinates: Floats) -> None:
        """Store coordinates (n, h) of cases under a version."""
        points = (point.tobytes() for point in np.ascontiguousarray(coordinates, dtype="<f8"))
        ids = self.names(numbers.tolist())
        rows = ((version, n, ids[n], point) for n, point in zip(numbers.tolist(), points, strict=True))
        self._fill("coordinates", ("version", "number", "case_id", "point"), rows)

    def coordinates(self, version: int, numbers: Sequence[int] | None = None) -> tuple[Numbers, Floats]:
        """Numbers and coordinates of these cases (every case if None), by number."""
        if numbers is None:
            return self._points_after(version, 0)
        query = f"SELECT number, point FROM coordinates WHERE version = ? AND {self._among('number')} ORDER BY number"
        return as_matrix(self._run(query, (version, self._list(map(int, numbers)))))

    def _points_after(self, version: int, last: int) -> tuple[Numbers, Floats]:
        query = "SELECT number, point FROM coordinates WHERE version = ? AND number > ? ORDER BY number"
        return as_matrix(self._run(query, (version, last)))

    # search

    def nearest(
        self, version: Version, point: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[Near]:
        """The k nearest cases that pass the filter and are not among `without`."""
        by_index = not (exact or where or len(without) > FEW)
        found = self._proposed(version.number, point, k, without) if by_index else None
        if found is None:
            points = self._whole(version.number).points
            found = self._named(*points.nearest(point, k, self._allowed(points, where, without)))
        return [Near(number, name, distance) for distance, name, number in sorted(found)[:k]]

    def nearest_each(
        self, version: Version, points: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[list[Near]]:
        """`nearest` of each of several points; where every case is compared, all points are at once."""
        if not exact and not where and self._indexed(version.number).index is not None:
            return [self.nearest(version, point, k, where, without) for point in points]
        known = self._whole(version.number).points
        found = known.nearest_each(points, k, self._allowed(known, where, without))
        ids = self.names(sorted({number for numbers, _ in found for number in numbers.tolist()}))
        answers = []
        for numbers, distances in found:
            named = sorted((d, ids[n], n) for d, n in zip(distances.tolist(), numbers.tolist(), strict=True))
            answers.append([Near(number, name, distance) for distance, name, number in named[:k]])
        return answers

    def _proposed(self, version: int, point: Floats, k: int, without: Numbers) -> list[Candidate] | None:
        """Candidates of the index and the nearest of later cases; None when only an exact search can decide."""
        memory = self._indexed(version)
        if memory.index is None:
            return None
        numbers = memory.index.propose(point, k + len(without))
        if numbers is None:
            return None
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT number, case_id, point FROM coordinates WHERE version = ? AND number IN ({marks})"
        rows = list(self._run(query, (version, *numbers)))
        distances = distances_to(point, as_floats(b"".join([row[2] for row in rows])).reshape(len(rows), -1))
        found = [(distance, row[1], row[0]) for distance, row in zip(distances.tolist(), rows, strict=True)]
        if len(memory.points.numbers):
            found += self._named(*memory.points.nearest(point, k + len(without)))
        if len(without):
            barred = set(without.tolist())
            found = [candidate for candidate in found if candidate[2] not in barred]
        return found if len(found) >= k else None

    def _named(self, numbers: Numbers, distances: Floats) -> list[Candidate]:
        ids = self.names(numbers.tolist())
        return [(d, ids[number], number) for d, number in zip(distances.tolist(), numbers.tolist(), strict=True)]

    def _allowed(self, points: Points, where: Filter, without: Numbers) -> NDArray[np.bool_] | None:
        if not where and not len(without):
            return None
        allowed = ~points.at(without) if not where else points.at(self._matching(where))
        if where and len(without):
            allowed &= ~points.at(without)
        return allowed

    def _matching(self, where: Filter) -> Numbers:
        """Numbers of the cases that pass a filter, ascending."""
        kept: Numbers | None = None
        for name, wanted in where.items():
            column = self._column(name)
            chosen = np.array([json.loads(text) in wanted for text in column.texts], dtype=bool)
            numbers = column.numbers[chosen[column.codes]]
            kept = numbers if kept is None else numbers[rows_with(numbers, kept)]
        assert kept is not None
        return kept

    def label_counts(self, where: Filter, without: Numbers) -> dict[Scalar, int]:
        """How many cases have each label (None: no label), among those that pass the filter."""
        column, kept = self._column("label"), self._matching(where) if where else None
        codes = column.codes if kept is None else column.codes[rows_with(column.numbers, kept)]
        total = self.state().count if kept is None else len(kept)
        barred = without if kept is None else kept[rows_with(kept, without)]
        counts = np.bincount(codes, minlength=len(column.texts))
        counts -= np.bincount(column.codes[rows_with(column.numbers, barred)], minlength=len(column.texts))
        known = {json.loads(text): int(count) for text, count in zip(column.texts, counts, strict=True) if count}
        unlabelled = total - len(barred) - sum(known.values())
        return known | ({None: unlabelled} if unlabelled else {})

    # what is kept in memory, brought to the state that is being read

    def _whole(self, version: int) -> Memory:
        """Every point of a version, for exact search."""
        state, known = self.state(), self._memory.get((version, True))
        if known is not None and known.state == state:
            return known
        if known is None or not _grew(known.state, state):
            points = Points.of(*self._points_after(version, 0))
        else:
            points = known.points.more(*self._points_after(version, known.state.last))
        return self._keep((version, True), Memory(state, None, points))

    def _indexed(self, version: int) -> Memory:
        """The index of a version, if it has one, and the points that came after it."""
        state, known = self.state(), self._memory.get((version, False))
        if known is not None and known.state == state:
            return known
        if known is None or not _grew(known.state, state):
            index, points = self._load_index(version), Points.of(*as_matrix(()))
            last = 0 if index is None else index.last
        else:
            index, points, last = known.index, known.points, known.state.last
        if index is not None:
            points = points.more(*self._points_after(version, last))
        return self._keep((version, False), Memory(state, index, points))

    def _keep(self, key: tuple[int, bool], memory: Memory) -> Memory:
        with self._lock:  # one version at a time: an archive can be larger than memory for two
            others = {other: kept for other, kept in self._memory.items() if other[0] == key[0] and other != key}
            self._memory = {key: memory, **others}
        return memory

    def values(self, column: str) -> list[Scalar]:
        """The different values of a filter column, sorted by their text."""
        return sorted(map(json.loads, self._column(column).texts), key=str)

    def _column(self, name: str) -> Column:
        """A filter column."""
        state, known = self.state(), self._columns.get(name)
        if known is not None and known.state == state:
            return known
        empty = np.empty(0, dtype=np.int64)
        if known is None or not _grew(known.state, state):
            known = Column(State(0, 0, 0, 0), empty, empty, {})
        value, asked = (VALUE, (name,)) if name not in COLUMNS else (f"json_quote({name})", ())
        value = name if name == "label" else value
        query = f"SELECT number, {value} FROM cases WHERE number > ? ORDER BY number"
        texts, numbers, codes = dict(known.texts), [], []
        for number, text in self._run(query, (*asked, known.state.last)):
            if text is not None and text != "null":
                numbers.append(number)
                codes.append(texts.setdefault(text, len(texts)))
        more, theirs = np.array(numbers, dtype=np.int64), np.array(codes, dtype=np.int64)
        column = Column(state, np.append(known.numbers, more), np.append(known.codes, theirs), texts)
        with self._lock:
            self._columns = {**self._columns, name: column}
        return column

    # the index

    def build_index(self, version: int) -> None:
        """Make the index again when more than `exact_up_to` cases are not in it."""
        about = self._get(version, "index about")
        last = 0 if about is None else int(json.loads(about)["last"])
        query = "SELECT count(*) FROM coordinates WHERE version = ? AND number > ?"
        if self._row(query, (version, last))[0] <= self.exact_up_to or not can_index():
            return
        lists, about = Index.build(*self._points_after(version, 0)).dump()
        self._put(version, "index", lists)
        self._put(version, "index about", about)
        self._run("UPDATE state SET removals = removals + 1")  # whoever remembers the old index has to look again

    def _load_index(self, version: int) -> Index | None:
        if not can_index():
            return None
        lists, about = self._get(version, "index"), self._get(version, "index about")
        if lists is None or about is None:
            return None
        try:
            return Index.load(lists, about)
        except (RuntimeError, LookupError, TypeError, ValueError):  # damaged: what it knows is found exactly without it
            return None

    # statements

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self.connection.execute(statement, tuple(values))

    def _fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(columns))
        self.connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def _among(self, column: str) -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"

    def _list(self, values: Iterable[Any]) -> str:
        return as_json(list(values))


def _grew(old: State, new: State) -> bool:
    """Whether nothing but more cases lies between two states."""
    return old.removals == new.removals and old.changes <= new.changes
