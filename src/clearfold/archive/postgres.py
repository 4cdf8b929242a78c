"""The archive on a server: PostgreSQL, with pgvector for the search."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clearfold.archive.exact import distances_to
from clearfold.archive.postgres_copy import copy_rows, doubles, integers, vectors
from clearfold.archive.postgres_server import BREADTH_OF_SEARCH, PostgresServer
from clearfold.archive.store import COLUMNS, Filter, Floats, Near, Numbers, Scalar, State, Version
from clearfold.archive.tables import Tables, as_floats, as_json, as_matrix

EXACT_UP_TO = 10_000
"""Cases that the server compares one by one; beyond, an HNSW index serves them."""
LINKS, BREADTH_OF_BUILDING = 16, 64
MOST_BREADTH = 1000
"""pgvector's own limit."""
MOST_INDEXED = 2000
"""Coordinates that pgvector can index."""
BULK = 0.5
"""Cases that come at once, as a share of those that are there, from which on an index is made anew."""
BYTES_OF_LINKS, MOST_MEMORY = 400, 4096
"""Bytes of a point's links in the index, and the megabytes that the server may take to build it."""
SPARE = 8
"""Candidates beyond the wanted ones, so that ties at the end are seen."""
ROUNDING = 1e-6
"""Share by which a number in single precision may be off, generously."""

Row = tuple[int, str, bytes, float]


class PostgresStore(Tables, PostgresServer):
    """See `Store`. The server searches; what comes near enough is measured again here in double precision."""

    exact_up_to = EXACT_UP_TO

    def __init__(self, address: str, *, create: bool = True, read_only: bool = False) -> None:
        super().__init__(address, create=create, read_only=read_only)
        self._lock = threading.Lock()
        self._values: dict[str, tuple[State, list[Scalar]]] = {}
        self._indexed: dict[int, tuple[State, bool]] = {}

    # coordinates

    def place(self, version: int, numbers: Numbers, coordinates: Floats) -> None:
        """Store coordinates (n, h) of cases under a version."""
        if self._index_exists(version) and len(numbers) > BULK * self._count(version):
            self._run(f"DROP INDEX {_index_name(version)}")  # `build_index` makes it again, faster than row by row

        def part(some: slice) -> list[Any]:
            rows = coordinates[some]
            return [integers(np.full(len(rows), version)), integers(numbers[some]), doubles(rows), vectors(rows)]

        copy_rows(self.connection, "coordinates", ("version", "number", "place", "point"), len(numbers), part)

    def _fill_features(self, numbers: Numbers, features: Sequence[Floats]) -> None:
        def part(some: slice) -> list[Any]:
            return [integers(numbers[some]), doubles(np.array(features[some]))]

        copy_rows(self.connection, "features", ("number", "vector"), len(numbers), part)

    def coordinates(self, version: int, numbers: Sequence[int] | None = None) -> tuple[Numbers, Floats]:
        """Numbers and coordinates of these cases (every case if None), by number."""
        some = "" if numbers is None else f" AND {self._among('number')}"
        query = f"SELECT number, place FROM coordinates WHERE version = ?{some} ORDER BY number"
        return as_matrix(self._run(query, (version, *([] if numbers is None else [self._list(map(int, numbers))]))))

    # search

    def nearest(
        self, version: Version, point: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[Near]:
        """The k nearest cases that pass the filter and are not among `without`."""
        condition, values = _conditions(where, without)
        count = k + SPARE
        if not exact and count <= MOST_BREADTH and self._has_index(version.number):
            found = _sorted(point, self._proposed(version, point, count, condition, values))
            if len(found) > k and found[k - 1].distance < found[-1].distance:
                return found[:k]
        while True:
            rows = self._compared(version, point, count, condition, values)
            found = _sorted(point, rows)
            # when the last that came is farther than the k-th by more than rounding, nobody who did not come is nearer
            if len(rows) < count or found[k - 1].distance + _rounding(point, rows[-1][3]) < rows[-1][3]:
                return found[:k]
            count *= 4

    def nearest_each(
        self, version: Version, points: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[list[Near]]:
        """`nearest` of each of several points."""
        return [self.nearest(version, point, k, where, without, exact) for point in points]

    def _compared(self, version: Version, point: Floats, count: int, condition: str, values: list[Any]) -> list[Row]:
        """The nearest of all cases; adding 0 keeps the planner from its index."""
        query = (
            "SELECT c.number, case_id, place, (point <-> ?::vector) + 0 AS distance FROM coordinates c "
            f"JOIN cases ON cases.number = c.number WHERE version = ?{condition} ORDER BY distance LIMIT ?"
        )
        return list(self._run(query, (_vector(point), version.number, *values, count)))

    def _proposed(self, version: Version, point: Floats, count: int, condition: str, values: list[Any]) -> list[Row]:
        """About the nearest cases, by the index."""
        if 2 * count > BREADTH_OF_SEARCH:
            self._run(f"SET LOCAL hnsw.ef_search = {min(MOST_BREADTH, 2 * count)}")
        near = f"c.point::vector({version.dimension}) <-> ?::vector({version.dimension})"
        query = (
            f"SELECT c.number, case_id, place, {near} AS distance FROM coordinates c "
            f"JOIN cases ON cases.number = c.number WHERE version = {version.number}{condition} "
            "ORDER BY distance LIMIT ?"
        )
        return list(self._run(query, (_vector(point), *values, count)))

    def _has_index(self, version: int) -> bool:
        state, known = self.state(), self._indexed.get(version)
        if known is None or known[0] != state:
            known = state, self._index_exists(version)
            with self._lock:
                self._indexed = {**self._indexed, version: known}
        return known[1]

    def build_index(self, version: int) -> None:
        """Make the index once there are more than `exact_up_to` cases; the server keeps it up to date."""
        dimension = next(known.dimension for known in self.versions() if known.number == version)
        count = self._count(version)
        if count <= self.exact_up_to or dimension > MOST_INDEXED or self._index_exists(version):
            return
        need = int(1.2 * count * (4 * dimension + BYTES_OF_LINKS) / 2**20)  # in memory it is built many times faster
        self._run(f"SET LOCAL maintenance_work_mem = '{min(max(need, 64), MOST_MEMORY)}MB'")
        self._run(
            f"CREATE INDEX {_index_name(version)} ON coordinates "
            f"USING hnsw ((point::vector({dimension})) vector_l2_ops) "
            f"WITH (m = {LINKS}, ef_construction = {BREADTH_OF_BUILDING}) WHERE version = {version}"
        )
        self._run("ANALYZE cases, coordinates")  # so that the planner knows what came

    def _index_exists(self, version: int) -> bool:
        return self._row("SELECT to_regclass(?)", (_index_name(version),))[0] is not None

    def _count(self, version: int) -> int:
        return int(self._row("SELECT count(*) FROM coordinates WHERE version = ?", (version,))[0])

    # cases

    def values(self, column: str) -> list[Scalar]:
        """The different values of a filter column, sorted by their text."""
        state = self.state()
        known = self._values.get(column)
        if known is None or known[0] != state:
            value, asked = ("about -> ?", [column]) if column not in COLUMNS else (f"to_jsonb({column})", [])
            texts = [text for (text,) in self._run(f"SELECT DISTINCT {value} FROM cases", asked) if text is not None]
            known = state, sorted((found for found in map(json.loads, texts) if found is not None), key=str)
            with self._lock:
                self._values = {**self._values, column: known}
        return known[1]

    def label_counts(self, where: Filter, without: Numbers) -> dict[Scalar, int]:
        """How many cases have each label (None: no label), among those that pass the filter."""
        condition, values = _conditions(where, without)
        rows = self._run(f"SELECT label, count(*) FROM cases c WHERE true{condition} GROUP BY label", values)
        return {json.loads(label): count for label, count in rows}

    def drop(self, version: int) -> None:
        """Delete a version and all that belongs to it."""
        self._run(f"DROP INDEX IF EXISTS {_index_name(version)}")
        super().drop(version)

    def purge(self) -> None:
        """Free what deleted rows took; the server's own log and its backups are its administrator's."""
        for table in ("cases", "features", "thumbnails", "coordinates", "parts", "versions"):
            self.alone(f"VACUUM {table}")

    # statements

    def _run(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return self.connection.execute(statement.replace("?", "%s"), list(values))

    def _fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    def _among(self, column: str) -> str:
        return f"{column} = ANY(?)"

    def _list(self, values: Iterable[Any]) -> list[Any]:
        return list(values)


def _index_name(version: int) -> str:
    return f"coordinates_near_{int(version)}"


def _vector(point: Floats) -> str:
    """pgvector's way to write a vector."""
    return f"[{','.join(map(repr, point.tolist()))}]"


def _rounding(point: Floats, distance: float) -> float:
    """By how much a distance in single precision may be off: coordinates are rounded, not only their difference."""
    return ROUNDING * len(point) * (float(np.linalg.norm(point)) + distance)


def _conditions(where: Filter, without: Numbers) -> tuple[str, list[Any]]:
    """The filter as text with marks, and the values that belong to them."""
    parts: list[str] = []
    values: list[Any] = []
    for name, wanted in where.items():
        if name == "label":
            parts.append("label = ANY(?::jsonb[])")
            values.append([as_json(value) for value in wanted])
        elif name in COLUMNS:
            parts.append(f"{name} = ANY(?)")
            values.append(list(wanted))
        else:  # a containment for each value, which the index on `about` can answer
            parts.append(f"({' OR '.join(['about @> ?::jsonb'] * len(wanted))})")
            values += [as_json({name: value}) for value in wanted]
    if len(without):
        parts.append("NOT c.number = ANY(?)")
        values.append(without.tolist())
    return "".join(f" AND {part}" for part in parts), values


def _sorted(point: Floats, rows: Iterable[Row]) -> list[Near]:
    """Hits by their distance in double precision, then by case_id."""
    rows = list(rows)
    if not rows:
        return []
    distances = distances_to(point, np.array([as_floats(place) for _, _, place, _ in rows]))
    found = sorted((d, name, n) for d, (n, name, _, _) in zip(distances.tolist(), rows, strict=True))
    return [Near(number, name, distance) for distance, name, number in found]
