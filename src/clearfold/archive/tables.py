"""The statements that both kinds of store share: cases, settings, versions.

Written with `?` for values. What the dialects spell differently is left to four small methods.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from clearfold.archive.store import Case, Floats, Numbers, Scalar, State, Version
from clearfold.errors import ArchiveError

MOST_AXES = 1_000_000
PART = 16 * 2**20
"""Bytes of a model or an index in one row."""


class Tables(ABC):
    """Reads and writes the tables of `migrations.py`; see `Store` for the promises."""

    # what the dialects spell differently

    @abstractmethod
    def _run(self, statement: str, values: Sequence[Any] = ()) -> Iterable[Any]:
        """Run one statement; gives its rows."""

    @abstractmethod
    def _fill(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Put many rows into a table."""

    @abstractmethod
    def _among(self, column: str) -> str:
        """The condition that a column has one of the values in one list."""

    @abstractmethod
    def _list(self, values: Iterable[Any]) -> Any:
        """A list as a single value, for `_among`."""

    # the archive as a whole

    def state(self) -> State:
        """The counters."""
        counters = self._row("SELECT changes, removals, last_case, n_cases FROM state")
        if not all(type(number) is int and number >= 0 for number in counters):
            raise damaged("counters")
        return State(*counters)

    def settings(self) -> dict[str, Any]:
        """Names of features and what else was fixed by the first cases."""
        found = stored(self._row("SELECT settings FROM state")[0], dict)
        if not all(_texts(found.get(name, [])) for name in ("features", "metadata")):
            raise damaged("settings")
        return found

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Replace them."""
        self._run("UPDATE state SET settings = ?", (as_json(settings),))

    # cases

    def insert(self, cases: Iterable[Case]) -> Numbers:
        """Put cases in; gives their numbers."""
        cases = list(cases)
        first = self.state().last + 1
        numbers = np.arange(first, first + len(cases))
        rows = list(zip(numbers.tolist(), cases, strict=True))
        self._fill(
            "cases",
            ("number", "case_id", "patient_id", "slide_id", "label", "about", "digest"),
            ((n, c.case_id, c.patient_id, c.slide_id, as_json(c.label), as_json(c.about), c.digest) for n, c in rows),
        )
        self._fill_features(numbers, [case.features for case in cases])
        pictures = ((n, c.thumbnail) for n, c in rows if c.thumbnail is not None)
        self._fill("thumbnails", ("number", "jpeg"), pictures)
        self._run("UPDATE state SET last_case = last_case + ?, n_cases = n_cases + ?", (len(cases), len(cases)))
        return numbers

    def _fill_features(self, numbers: Numbers, features: Sequence[Floats]) -> None:
        rows = zip(numbers.tolist(), map(as_bytes, features), strict=True)
        self._fill("features", ("number", "vector"), rows)

    def digests(self, case_ids: Sequence[str]) -> dict[str, bytes]:
        """case_id -> digest, of those that are there."""
        rows = self._run(f"SELECT case_id, digest FROM cases WHERE {self._among('case_id')}", (self._list(case_ids),))
        return {name: bytes(digest) for name, digest in rows}

    def find(self, case_ids: Sequence[str]) -> dict[str, int]:
        """case_id -> number, of those that are there."""
        return dict(
            self._run(f"SELECT case_id, number FROM cases WHERE {self._among('case_id')}", (self._list(case_ids),))
        )

    def of_patient(self, patient_id: str) -> Numbers:
        """Numbers of a patient's cases."""
        rows = self._run("SELECT number FROM cases WHERE patient_id = ? ORDER BY number", (patient_id,))
        return np.array([number for (number,) in rows], dtype=np.int64)

    def read(self, numbers: Sequence[int]) -> list[Case]:
        """Whole cases, in that order."""
        rows = self._run(
            "SELECT cases.number, case_id, patient_id, slide_id, label, about, vector, jpeg, digest FROM cases "
            "JOIN features ON features.number = cases.number LEFT JOIN thumbnails ON thumbnails.number = cases.number "
            f"WHERE {self._among('cases.number')}",
            (self._list(map(int, numbers)),),
        )
        found = {row[0]: _case(*row[1:]) for row in rows}
        return [found[number] for number in numbers]

    def table(self) -> list[tuple[int, str, str | None, str | None, Scalar, dict[str, Scalar]]]:
        """(number, case_id, patient_id, slide_id, label, about) of every case by number."""
        rows = self._run("SELECT number, case_id, patient_id, slide_id, label, about FROM cases ORDER BY number")
        return [(*_names(row[:4]), stored(row[4], Scalar), stored(row[5], dict)) for row in rows]

    def numbers(self) -> Numbers:
        """The number of every case."""
        return np.array([number for (number,) in self._run("SELECT number FROM cases ORDER BY number")], dtype=np.int64)

    def names(self, numbers: Sequence[int] | None = None) -> dict[int, str]:
        """number -> case_id of these cases (every case if None)."""
        if numbers is None:
            return dict(self._run("SELECT number, case_id FROM cases"))
        query = f"SELECT number, case_id FROM cases WHERE {self._among('number')}"
        return dict(self._run(query, (self._list(map(int, numbers)),)))

    def features(self, after: int = 0) -> tuple[Numbers, Floats]:
        """Numbers and feature rows of every case whose number is larger than `after`, by number."""
        return as_matrix(self._run("SELECT number, vector FROM features WHERE number > ? ORDER BY number", (after,)))

    def remove(self, numbers: Sequence[int]) -> None:
        """Delete cases and all that hangs on them; models that learned from them are erased as well."""
        gone = (self._list(map(int, numbers)),)
        for version in self.versions():
            self._run(f"DELETE FROM coordinates WHERE version = {version.number} AND {self._among('number')}", gone)
        for table in ("features", "thumbnails", "cases"):
            self._run(f"DELETE FROM {table} WHERE {self._among('number')}", gone)
        first = min(numbers)
        # an index holds coordinates, and a model may hold the rows that it learned from
        self._run("DELETE FROM parts WHERE kind <> 'model'")
        self._run("DELETE FROM parts WHERE version IN (SELECT number FROM versions WHERE learned >= ?)", (first,))
        self._run("UPDATE versions SET forgotten = 1, preparation = '{}' WHERE learned >= ?", (first,))
        self._run("UPDATE state SET removals = removals + 1, n_cases = n_cases - ?", (len(numbers),))

    # versions

    def versions(self) -> list[Version]:
        """Every version by number."""
        rows = self._run(
            "SELECT number, name, embedding, created, dimension, learned, n_learned, preparation, "
            "CASE WHEN number = (SELECT active FROM state) THEN 1 ELSE 0 END, forgotten FROM versions ORDER BY number"
        )
        return [_version(*row) for row in rows]

    def add_version(self, version: Version, model: bytes) -> int:
        """Put a fitted model in; gives the version's number."""
        self._run("UPDATE state SET last_version = last_version + 1")
        number = int(self._row("SELECT last_version FROM state")[0])
        about = (version.name, version.embedding, version.created, version.dimension, version.learned)
        self._run(
            "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (number, *about, version.n_learned, as_json(version.preparation)),
        )
        self._put(number, "model", model)
        return number

    def model(self, version: int) -> bytes | None:
        """The model's bytes, or None when it was erased."""
        return self._get(version, "model")

    def activate(self, version: int) -> None:
        """Make a version the one that answers."""
        self._run("UPDATE state SET active = ?", (version,))

    def drop(self, version: int) -> None:
        """Delete a version and all that belongs to it."""
        for table in ("parts", "coordinates"):
            self._run(f"DELETE FROM {table} WHERE version = ?", (version,))
        self._run("DELETE FROM versions WHERE number = ?", (version,))
        self._run("UPDATE state SET removals = removals + 1, active = nullif(active, ?)", (version,))

    # parts of models and indexes

    def _put(self, version: int, kind: str, data: bytes) -> None:
        self._run("DELETE FROM parts WHERE version = ? AND kind = ?", (version, kind))
        cut = range(0, max(1, len(data)), PART)
        rows = ((version, kind, part, data[at : at + PART]) for part, at in enumerate(cut))
        self._fill("parts", ("version", "kind", "part", "data"), rows)

    def _get(self, version: int, kind: str) -> bytes | None:
        rows = self._run("SELECT data FROM parts WHERE version = ? AND kind = ? ORDER BY part", (version, kind))
        found = [data for (data,) in rows]
        return b"".join(found) if found else None

    def _row(self, statement: str, values: Sequence[Any] = ()) -> Any:
        return next(iter(self._run(statement, values)))


def _case(case_id: str, patient_id: Any, slide_id: Any, label: str, about: str, *rest: Any) -> Case:
    vector, jpeg, digest = rest
    _names((0, case_id, patient_id, slide_id))
    said, known = stored(label, Scalar), stored(about, dict)
    return Case(case_id, patient_id, slide_id, said, known, as_floats(vector), jpeg, digest)


def _version(number: int, name: str, embedding: str, created: str, dimension: int, *rest: Any) -> Version:
    learned, n_learned, said, active, forgotten = rest
    preparation = stored(said, dict)
    numbers = (number, dimension, learned, n_learned)
    texts = [preparation.get(kind, []) for kind in ("features", "dropped")]
    whole = all(type(one) is int and one >= 0 for one in numbers) and all(map(_texts, texts))
    if not whole or dimension > MOST_AXES or (not forgotten and not {"features", "medians"} <= set(preparation)):
        raise damaged("embedding")
    return Version(
        number, name, embedding, created, dimension, learned, n_learned, preparation, bool(active), bool(forgotten)
    )


def stored(text: Any, kind: Any) -> Any:
    """What JSON in a table says, when it is of that kind."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise damaged("text") from error
    if not isinstance(found, kind):
        raise damaged("text")
    return found


def _names(row: Sequence[Any]) -> Sequence[Any]:
    """Number, case_id, patient_id, slide_id."""
    if not isinstance(row[1], str) or not all(name is None or isinstance(name, str) for name in row[2:4]):
        raise damaged("names")
    return row


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def damaged(what: str) -> ArchiveError:
    """Another program wrote into the archive, or its file was damaged."""
    return ArchiveError(f"the archive holds {what} that clearfold cannot have written. Bring it back from a copy.")


def as_json(value: Any) -> str:
    """JSON text; NaN is refused, it would not come back."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def as_bytes(vector: Floats) -> bytes:
    """Double precision, little-endian, on every machine."""
    return np.ascontiguousarray(vector, dtype="<f8").tobytes()


def as_floats(data: bytes) -> Floats:
    """What `as_bytes` wrote."""
    if not isinstance(data, bytes | memoryview) or len(data) % 8:
        raise damaged("numbers")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


def as_matrix(rows: Iterable[tuple[int, bytes]]) -> tuple[Numbers, Floats]:
    """Numbers and the rows that belong to them."""
    found = list(rows)
    if not found:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    numbers, data = zip(*found, strict=True)
    if not all(isinstance(one, bytes | memoryview) and len(one) == len(data[0]) for one in data):
        raise damaged("numbers")
    return np.array(numbers, dtype=np.int64), as_floats(b"".join(data)).reshape(len(numbers), -1)
