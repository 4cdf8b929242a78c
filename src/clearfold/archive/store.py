"""What a store of cases promises, and the small records that go in and out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Numbers: TypeAlias = NDArray[np.int64]
Scalar: TypeAlias = str | int | float | bool | None
Filter: TypeAlias = Mapping[str, Sequence[Scalar]]
"""Column -> the stored values of which a case must have one; every column must agree."""

COLUMNS = ("patient_id", "slide_id", "label")
"""Filter columns that every case has; the others are the names in its `about`."""


@dataclass(frozen=True, eq=False)
class Case:
    """One case: who and what it is, its features, and a small picture (JPEG) if it came from an image.

    about : everything else that is known of it, such as region, time, event, the image's path, organ
    digest : of all the above; equal digests are equal cases
    """

    case_id: str
    patient_id: str | None
    slide_id: str | None
    label: Scalar
    about: dict[str, Scalar]
    features: Floats
    thumbnail: bytes | None = None
    digest: bytes = b""

    def __repr__(self) -> str:
        known = [f"patient {self.patient_id}"] if self.patient_id is not None else []
        known += [f"label {self.label}"] if self.label is not None else []
        return f"Case {self.case_id}: {', '.join([*known, f'{len(self.features)} features'])}"


class Near(NamedTuple):
    """A case and how far it is from a point: sorted by distance, then by case_id."""

    number: int
    case_id: str
    distance: float


@dataclass(frozen=True)
class Added:
    """What `Archive.add` did: cases that are new, cases that were there already, and images that failed and why."""

    added: int = 0
    skipped: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{self.added} added", f"{self.skipped} already there"]
        return ", ".join(parts + ([f"{len(self.failed)} failed"] if self.failed else []))


@dataclass(frozen=True)
class Version:
    """One fitted embedding of the archive.

    learned : the number of the last case that it was fitted on; later ones were placed
    forgotten : its model was erased with a case that it had learned from; it has to be fitted again
    """

    number: int
    name: str
    embedding: str
    created: str
    dimension: int
    learned: int
    n_learned: int
    preparation: dict[str, Any] = field(repr=False)
    active: bool = False
    forgotten: bool = False


@dataclass(frozen=True)
class State:
    """Two counters that tell a reader whether what it remembers is still true.

    changes : grows with every transaction; removals : with every one that took something away
    last : the number of the newest case; numbers grow and never come back
    count : how many cases there are
    """

    changes: int
    removals: int
    last: int
    count: int


class Store(Protocol):
    """Where cases live. Everything is read inside `reading()` and written inside `writing()`.

    `reading()` shows one state of the store, whatever others write meanwhile; `writing()` is one transaction: all of
    it is there afterwards, on disk, or nothing. Both may be nested in themselves, and `reading()` in `writing()`.
    Everything that goes wrong with the file or the server is an ArchiveError that never holds a password.
    """

    name: str
    """Of the file, or of the server without user and password: for messages."""
    read_only: bool

    def reading(self) -> AbstractContextManager[None]:
        """One state of the store."""

    def writing(self) -> AbstractContextManager[None]:
        """One transaction."""

    def close(self) -> None:
        """Give up every connection; closing twice is fine."""

    # the archive as a whole

    def state(self) -> State:
        """The counters."""

    def settings(self) -> dict[str, Any]:
        """Names of features and what else was fixed by the first cases."""

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Replace them."""

    # cases

    def insert(self, cases: Iterable[Case]) -> Numbers:
        """Put cases in; gives their numbers. Their ids must be new."""

    def digests(self, case_ids: Sequence[str]) -> dict[str, bytes]:
        """case_id -> digest, of those that are there."""

    def find(self, case_ids: Sequence[str]) -> dict[str, int]:
        """case_id -> number, of those that are there."""

    def of_patient(self, patient_id: str) -> Numbers:
        """Numbers of a patient's cases."""

    def read(self, numbers: Sequence[int]) -> list[Case]:
        """Whole cases, in that order."""

    def table(self) -> list[tuple[int, str, str | None, str | None, Scalar, dict[str, Scalar]]]:
        """(number, case_id, patient_id, slide_id, label, about) of every case by number."""

    def numbers(self) -> Numbers:
        """The number of every case, ascending."""

    def names(self, numbers: Sequence[int] | None = None) -> dict[int, str]:
        """number -> case_id of these cases (every case if None)."""

    def features(self, after: int = 0) -> tuple[Numbers, Floats]:
        """Numbers and feature rows of every case whose number is larger than `after`, by number."""

    def values(self, column: str) -> list[Scalar]:
        """The different values of a filter column, sorted by their text."""

    def remove(self, numbers: Sequence[int]) -> None:
        """Delete cases and all that hangs on them; models and indexes that saw them are erased as well."""

    def label_counts(self, where: Filter, without: Numbers) -> dict[Scalar, int]:
        """How many cases have each label (None: no label), among those that pass the filter."""

    def purge(self) -> None:
        """After a removal has been committed: leave none of the removed bytes behind, as far as the store can."""

    # versions

    def versions(self) -> list[Version]:
        """Every version by number."""

    def add_version(self, version: Version, model: bytes) -> int:
        """Put a fitted model in; gives the version's number (what `version.number` says is ignored)."""

    def model(self, version: int) -> bytes | None:
        """The model's bytes, or None when it was erased."""

    def activate(self, version: int) -> None:
        """Make a version the one that answers."""

    def drop(self, version: int) -> None:
        """Delete a version, its coordinates and its index."""

    def place(self, version: int, numbers: Numbers, coordinates: Floats) -> None:
        """Store coordinates (n, h) of cases under a version."""

    def coordinates(self, version: int, numbers: Sequence[int] | None = None) -> tuple[Numbers, Floats]:
        """Numbers and coordinates of these cases (every case if None), by number."""

    def nearest(
        self, version: Version, point: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[Near]:
        """The k nearest cases that pass the filter and are not among `without`; `exact`: without any index."""

    def nearest_each(
        self, version: Version, points: Floats, k: int, where: Filter, without: Numbers, exact: bool = False
    ) -> list[list[Near]]:
        """`nearest` of each of several points (q, h)."""

    def build_index(self, version: int) -> None:
        """Bring the approximate index up to date where the store wants one; inside `writing()`."""
