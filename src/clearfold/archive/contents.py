"""What an archive holds: cases, features, coordinates and versions, as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from clearfold.archive.store import COLUMNS, Case, Floats, Numbers, State, Store, Version
from clearfold.errors import ArchiveError

if TYPE_CHECKING:
    import pandas as pd


class Contents:
    """The part of `Archive` that only reads; every method sees one state of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[State, list[Version]] | None = None

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that is read inside belongs to one state of the archive."""
        return self._store.reading()

    def __len__(self) -> int:
        with self.snapshot():
            return self._store.state().count

    def __bool__(self) -> bool:
        return True

    def __contains__(self, case_id: object) -> bool:
        with self.snapshot():
            return bool(self._store.find([str(case_id)]))

    # cases

    @property
    def settings(self) -> dict[str, Any]:
        """What the first cases fixed: "features", "mpp", "extraction"; and "metadata", the columns to filter by."""
        with self.snapshot():
            return self._store.settings()

    @property
    def feature_names(self) -> list[str]:
        """The features of every case, in order."""
        return list(self.settings.get("features", []))

    def cases(self, *columns: str) -> pd.DataFrame:
        """What is known of every case besides its features, a row each, indexed by case_id; or only these columns."""
        import pandas as pd

        with self.snapshot():
            rows, settings = self._store.table(), self._store.settings()
        names = list(dict.fromkeys([*COLUMNS, *settings.get("metadata", [])]))
        known = [row[5] | dict(zip(COLUMNS, row[2:5], strict=True)) for row in rows]
        index = pd.Index([row[1] for row in rows], name="case_id", dtype=object)
        cells = {name: pd.Series([one.get(name) for one in known], index, object) for name in names}
        frame = pd.DataFrame(cells, index).infer_objects()
        unknown = [name for name in columns if name not in frame]
        if unknown:
            raise ArchiveError(f"There is no column {unknown[0]!r}. The columns are {', '.join(frame.columns)}.")
        return frame[list(columns)] if columns else frame

    def features(self) -> pd.DataFrame:
        """Feature rows of every case, indexed by case_id."""
        with self.snapshot():
            numbers, values = self._store.features()
            return self._frame(numbers, values, self._store.settings().get("features", []))

    def coordinates(self, version: int | None = None) -> pd.DataFrame:
        """Coordinates of every case under a version (the active one if None), indexed by case_id."""
        with self.snapshot():
            known = self._version(version)
            return self._frame(*self._store.coordinates(known.number), _axes(known))

    def case(self, case_id: str) -> Case:
        """One case with its features and thumbnail."""
        return self.cases_of([case_id])[0]

    def cases_of(self, case_ids: Sequence[str]) -> list[Case]:
        """Cases in this order, with features and thumbnails."""
        with self.snapshot():
            return self._store.read(self._numbers(case_ids))

    def features_of(self, case_ids: Sequence[str]) -> pd.DataFrame:
        """Feature rows of these cases, in this order."""
        import pandas as pd

        with self.snapshot():
            rows, names = [case.features for case in self.cases_of(case_ids)], self.feature_names
        values = np.array(rows).reshape(len(rows), len(names))
        return pd.DataFrame(values, index=pd.Index(list(case_ids), name="case_id", dtype=object), columns=names)

    def coordinates_of(self, case_ids: Sequence[str], version: int | None = None) -> pd.DataFrame:
        """Coordinates of these cases, in this order."""
        with self.snapshot():
            known, wanted = self._version(version), self._numbers(case_ids)
            frame = self._frame(*self._store.coordinates(known.number, wanted), _axes(known))
        missing = [name for name in case_ids if name not in frame.index]
        if missing:
            raise ArchiveError(f"case {missing[0]!r} has no place in version {known.number}. Fit the archive again.")
        return frame.loc[list(case_ids)]

    def sample(self, count: int) -> list[str]:
        """Case ids spread evenly over the archive, always the same; all of them if there are fewer."""
        with self.snapshot():
            numbers = self._store.numbers()
            if len(numbers) > count:
                numbers = numbers[np.linspace(0, len(numbers) - 1, count).astype(int)]
            names = self._store.names(numbers.tolist())
        return [names[number] for number in numbers.tolist()]

    def _frame(self, numbers: Numbers, values: Floats, names: Sequence[str]) -> pd.DataFrame:
        import pandas as pd

        ids = self._store.names(numbers.tolist())
        index = pd.Index([ids[number] for number in numbers.tolist()], name="case_id", dtype=object)
        return pd.DataFrame(values.reshape(len(numbers), len(names)), index=index, columns=list(names))

    def _numbers(self, case_ids: Sequence[str]) -> list[int]:
        found = self._store.find([str(name) for name in case_ids])
        missing = [str(name) for name in case_ids if str(name) not in found]
        if missing:
            raise ArchiveError(f"There is no case {missing[0]!r} in {self._store.name}. `archive.cases()` lists them.")
        return [found[str(name)] for name in case_ids]

    # versions

    def versions(self) -> list[Version]:
        """Every fitted version, oldest first."""
        with self.snapshot():
            return self._store.versions()

    @property
    def active(self) -> Version | None:
        """The version that answers, if there is one."""
        return next((version for version in self.versions() if version.active), None)

    def _version(self, number: int | None) -> Version:
        state, known = self._store.state(), self._known
        if known is None or known[0] != state:
            known = self._known = state, self._store.versions()
        versions = known[1]
        found = [version for version in versions if (version.active if number is None else version.number == number)]
        if found:
            return found[0]
        if number is None:
            raise ArchiveError(f"{self._store.name} has no embedding yet. Call archive.fit, or activate a version.")
        there = ", ".join(str(version.number) for version in versions) or "none"
        raise ArchiveError(f"There is no version {number}. The versions are: {there}.")


def _axes(version: Version) -> list[str]:
    return [f"coordinate_{axis}" for axis in range(version.dimension)]
